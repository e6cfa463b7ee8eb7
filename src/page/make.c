/* make.c - the maker of one flight.
 *
 *   start (loop) -> look: in the store? (pool) -(no)-> ask the origin (loop) -> put (pool) ->
 * finish |                   \-(yes)-> finish (loop)       ^                       / |
 * |-------(purged)-------/
 *      \-(fresh, or unchanged since it was looked for)---/
 *
 * What the origin denies is marked in the store before the put or the end (ask.h). A denial that
 * comes while a render is on its way to the store finds nothing to mark. So the maker looks at the
 * cells of trust.h once the render is stored: they are told before the store is (make_late.c).
 *   Where servers share a store, a word counts as said a little later than it was (title.h). A
 * render that follows the word at once is refused: the maker rests that long before it asks again.
 *
 * Invariants
 *  1. One of look, ask, put and rest is under way from start to finish; the one that ends hands m
 *     on.
 *  2. The maker's calls of the flight, finish among them, are on the loop. */
#include "page/make_impl.h"

#include "base/budget.h"
#include "base/buf.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/percent.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "page/content.h"
#include "page/headers.h"
#include "page/hop.h"
#include "page/old.h"
#include "page/remake.h"
#include "page/tell.h"
#include "page/trusted.h"
#include "render/title_rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAKE_TRIES_MAX = 2,     /* a purge may come in between once */
    MAKE_RESTS_MAX = 2,     /* and each of these gives it one try more */
    REST_MS_MAX = 10000,    /* before the next try */
    TRAVEL_MS = 30000,      /* how long other servers may take what was made here */
    RENDER_TELL_MS = 60000, /* between two lines about failures of one kind and wiki */
};
#define FENCE_OFF_NS                                                                               \
    (4 * NS_PER_S) /* Redis's clock is believed so far from ours: PAGE_TID_AHEAD_NS is more */

/* ---- the value ---- */

/* Its last reference is gone; any thread. */
static void made_free(struct flight_value *v)
{
    struct page_made *made = page_made_of(v);
    for (unsigned i = 0; i < PAGE_SHAPES; i++) {
        void *shape = atomic_load(&made->shapes[i]);
        if (shape != NULL)
            made->shape_free(shape);
    }
    free(made->moved_to);
    free(made);
}

bool page_made_offer(struct page_made *m, unsigned index, void *shape)
{
    void *none = NULL;
    INVARIANT(index < PAGE_SHAPES);
    INVARIANT(m->shape_free != NULL);
    return atomic_compare_exchange_strong(&m->shapes[index], &none, shape);
}

static void value_set(struct make *m, struct page_name name, bool found)
{
    struct page_made *made = calloc(1, sizeof *made);
    INVARIANT(made != NULL);
    made->v.refs = 1;
    made->v.free = made_free;
    made->name = name;
    made->began = m->ask.began;
    made->found = found;
    made->shape_free = m->service->shape_free;
    m->value = made;
}

/* The flight's value when nothing was made: the title under which the wiki has the page. Waiters
 * look under that. */
static void value_set_moved(struct make *m, const struct render_meta *meta)
{
    value_set(m, (struct page_name){ 0 }, false);
    m->value->moved_to = malloc(meta->title.n + 1);
    INVARIANT(m->value->moved_to != NULL);
    INVARIANT(str_to_cstr(meta->title, m->value->moved_to, meta->title.n + 1));
    m->value->namespace_id = meta->namespace_id;
}

/* ---- ending ---- */

/* The flight needs the maker no longer. A maker that never joined comes here, too (make_new). */
static void make_release(void *ctx)
{
    struct make *m = ctx;
    MAGIC_CHECK(m, MAKE_MAGIC);
    m->magic = 0;
    loop_timer_free(&m->rest);
    if ((m->flags & MAKE_TOLD) != 0) /* by now it is in Redis */
        page_made_tell(m->service, &m->target, m->name);
    arena_fini(&m->arena);
    free(m);
}

/* Logs a failure. A wiki that is down fails every title that is asked for: one line a minute
 * tells of all. */
static void tell_failed(struct make *m)
{
    struct page_failures *told = &m->target.domain->failures[m->why];
    mono now = clock_mono(m->service->clock);
    told->count++;
    if (told->at.ns != 0 && mono_add_ms(told->at, RENDER_TELL_MS).ns > now.ns)
        return;
    log_event(m->service->log, LOG_WARN, "render.failed", LOG_STR("domain", m->target.domain->name),
              LOG_STR("title", m->target.title), LOG_INT("rev", m->target.name.rev),
              LOG_CSTR("why", err_name(m->why)), LOG_CSTR("note", m->note.text),
              LOG_INT("count", told->count));
    *told = (struct page_failures){ .at = now };
}

/* A starved arena is no fault of the origin's: the error is one of ours, and is not remembered. */
static void heed_starved(struct make *m)
{
    if (m->why == ERR_OK || m->why == ERR_SHUTDOWN || !arena_is_starved(&m->arena))
        return;
    m->why = ERR_LIMIT;
    m->keep = false;
    err_note_set(&m->note, "%s", BUDGET_FULL_TEXT);
}

/* Ends the flight with value or error, and tells who else wants to know. Loop; m may be gone
 * behind it. */
void make_finish(struct make *m)
{
    heed_starved(m);
    if (m->why != ERR_OK && m->value != NULL) {
        struct flight_value *unused = &m->value->v;
        flight_value_unref(&unused);
    }
    if (m->why != ERR_OK && m->why != ERR_NOT_FOUND && m->why != ERR_SHUTDOWN)
        tell_failed(m);
    struct flight_value *value = m->why == ERR_OK ? &m->value->v : NULL;
    bool made = value != NULL && !m->value->found && m->value->moved_to == NULL &&
                (m->flags & MAKE_ARRIVED) == 0;
    /* Other servers may ask for it by its name. */
    if (made)
        (void)page_hop_note(m->service, &(struct page_hop_note){ .domain = m->target.domain,
                                                                 .bucket = m->target.settings->opts,
                                                                 .title = m->target.title,
                                                                 .name = m->value->name });
    /* Told in make_release: by then the flight has put it into Redis. */
    if (made && (m->flags & MAKE_FRESH) != 0) {
        m->flags |= MAKE_TOLD;
        m->name = m->value->name;
    }
    if (made && (m->flags & MAKE_SETTLES) == 0) /* else it is the line's own */
        page_remake_heard(m->service, m->target.domain, m->target.title);
    m->value = NULL; /* it is the flight's; another lease may make us start once more */
    flight_finish(m->flight, m->why, value, m->keep, &m->note);
}

void make_fail(struct make *m, err why, const char *note)
{
    m->why = why;
    if (note != NULL)
        err_note_set(&m->note, "%s", note);
}

static void ask_start(struct make *m);

/* Nothing came from elsewhere: makes it here, unless the wish was only to take it. */
void make_here(struct make *m)
{
    if ((m->flags & MAKE_TAKE) == 0) {
        ask_start(m);
        return;
    }
    m->keep = false;
    make_fail(m, ERR_NOT_FOUND, NULL);
    make_finish(m);
}

/* How long to rest before the wiki is asked again: a question at put.again_at or later is not
 * refused by the same word. 0: not at all, also where the flight would be over by then. */
static int64_t rest_ms(const struct make *m)
{
    if (m->rests == MAKE_RESTS_MAX)
        return 0;
    int64_t ns = m->put.again_at.ns - clock_store(m->service->clock).ns;
    int64_t ms = ns <= 0 ? 0 : ns / NS_PER_MS + 1;
    if (ms > REST_MS_MAX)
        ms = REST_MS_MAX;
    return mono_add_ms(clock_mono(m->service->clock), ms).ns < flight_deadline(m->flight).ns ? ms
                                                                                             : 0;
}

/* Loop: the rest is over, or make_cancel ended it. */
static void rested(void *ctx)
{
    struct make *m = ctx;
    MAGIC_CHECK(m, MAKE_MAGIC);
    m->resting = false;
    if (m->canceled) {
        make_fail(m, ERR_SHUTDOWN, NULL);
        make_finish(m);
    } else {
        make_here(m);
    }
}

static void make_rest(struct make *m, int64_t ms)
{
    if (m->rest == NULL)
        m->rest = loop_timer_new(m->service->loop, rested, m);
    m->resting = true;
    m->rests++;
    loop_timer_start(m->rest, ms, 0);
}

/* A purge or a word of the wiki came in between: makes it once more, of what is there now. Tries
 * are bounded: else purges could keep a wiki busy for ever. */
void make_again(struct make *m)
{
    int64_t ms = rest_ms(m);
    m->why = ERR_OK;
    m->flags |= MAKE_PURGED;
    if (m->canceled) {
        make_fail(m, ERR_SHUTDOWN, NULL);
        make_finish(m);
    } else if (ms == 0 && m->tries >= MAKE_TRIES_MAX + m->rests) {
        m->keep = false; /* no fault of the origin's: who asks next begins anew */
        make_fail(m, ERR_AGAIN, m->note.text[0] != 0 ? NULL : "it was purged while it was made");
        make_finish(m);
    } else if (ms > 0) {
        make_rest(m, ms);
    } else {
        make_here(m);
    }
}

static void make_over(struct task *t)
{
    make_finish(CONTAINER_OF(t, struct make, task));
}

/* From the pool back to the loop. */
static void make_end(struct make *m)
{
    m->task.run = make_over;
    home_post(loop_home(m->service->loop), &m->task);
}

/* ---- storing ---- */

/* Measures how long a change of the page took to be visible here. Two spans, each by one clock:
 * from the touch to the word, by the wiki's; from the question to now, by ours. */
static void count_visible(const struct make *m)
{
    const struct page_put *p = &m->put;
    const struct title_word *w = p->word;
    bool answers = w != NULL && p->latest && p->before.said != 0 && p->before.touched < w->touched;
    bool ours = w != NULL && w->asked_at.ns != 0; /* else the server that made it has counted it */
    if (!answers || !ours || m->target.domain->visible == NULL)
        return;
    int64_t known_ns = (w->said - w->touched) * NS_PER_S;
    metric_observe_ns(m->target.domain->visible,
                      known_ns + clock_store(m->service->clock).ns - w->asked_at.ns);
}

/* Loop. The render is stored, or is not. */
static void put_done(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, put.call);
    m->keep = c->why != ERR_SHUTDOWN;
    if (c->why == ERR_OK && make_came_late(m))
        return;
    if (c->why == ERR_OK) {
        count_visible(m);
        value_set(m, m->put.stored, false);
        m->value->arrived = (m->flags & MAKE_ARRIVED) != 0;
    } else if (c->why == ERR_TIMEOUT) /* of the write, not of the origin */
        make_fail(m, ERR_AGAIN, "the store did not take it in time");
    else
        make_fail(m, c->why, m->put.note.text);
    if (c->why == ERR_GONE)
        make_again(m);
    else
        make_finish(m);
}

/* Adds a redirect's target to the headers of the HTML. False: the arena is full. location is
 * never sent as it is. */
static bool add_target(struct make *m, struct page_put_content *html)
{
    const struct render_request *r = &m->ask.request;
    str title = http_encode(&m->arena, r->redirect_to), fragment = r->redirect_fragment;
    if (r->redirect_to.n == 0 || !headers_value_is_sane(fragment))
        return true;
    html->headers = arena_printf(&m->arena, "%.*slocation: %.*s%s%.*s\n", STR_ARG(html->headers),
                                 STR_ARG(title), fragment.n > 0 ? "#" : "", STR_ARG(fragment));
    return html->headers.p != NULL && title.p != NULL;
}

/* Fills the put once the store has made the tid, which goes into the HTML's head. Inside the
 * store's put. CORRUPT: the origin gave no HTML with a head, or nothing that the bucket keeps. */
static err fill_contents(struct page_put *put)
{
    struct make *m = CONTAINER_OF(put, struct make, put);
    for (unsigned i = 0; i < m->ask.request.contents_count; i++) {
        const struct render_content *c = &m->ask.request.contents[i];
        struct page_put_content *to = &put->contents[put->contents_count];
        if (!page_bucket_allows(m->target.settings->opts, c->name))
            continue;
        *to = (struct page_put_content){ .name = c->name, .headers = c->headers, .raw = c->raw };
        put->contents_count++;
        if (str_eq(c->name, STR("html")) &&
            (!render_head_put(&m->arena, c->raw, put->tid, &to->raw) || !add_target(m, to)))
            return ERR_CORRUPT;
    }
    return put->contents_count > 0 ? ERR_OK : ERR_CORRUPT;
}

/* The instant of the lease, by which renders of one key are ordered across servers, as the lease
 * was (docs/flights.md, 6). ZERO: there is none, or a purge came under that lease, or Redis's
 * clock is too far from ours. */
static store_time fence_of(const struct make *m)
{
    uint64_t fence_us = flight_fence(m->flight);
    if (fence_us == 0 || fence_us > INT64_MAX / 1000 || (m->flags & MAKE_PURGED) != 0)
        return STORE_TIME_ZERO;
    int64_t fence_ns = (int64_t)fence_us * 1000, off = fence_ns - m->ask.began.ns;
    return off < FENCE_OFF_NS && off > -FENCE_OFF_NS ? (store_time){ .ns = fence_ns }
                                                     : STORE_TIME_ZERO;
}

void make_put(struct make *m)
{
    uint64_t rev = m->ask.request.meta.rev;
    /* A making of the latest counts as the newest, whatever the metadata says. */
    bool newest = m->target.has_rev ? render_is_latest(&m->ask.request.meta) : true;
    bool arrived = (m->flags & MAKE_ARRIVED) != 0;
    const struct render_meta *meta = &m->ask.request.meta;
    m->put = (struct page_put){ .call = { .deadline = page_write_deadline(m->service),
                                          .home = loop_home(m->service->loop),
                                          .done = put_done },
                                .bucket = m->target.settings->bucket,
                                .domain = m->target.domain->number,
                                .title = m->target.title,
                                .rev = rev,
                                .has_tid = arrived,
                                .tid = m->tid,
                                .began = arrived ? STORE_TIME_ZERO : m->ask.began,
                                .fence = fence_of(m),
                                .random = entropy_u64(),
                                .fill = fill_contents,
                                /* An older revision must not become the latest: the next number
                                 * is known to exist. */
                                .behind = newest ? 0 : rev + 1,
                                .said_at = arrived ? make_arrived_said_at(m, m->tid) : m->ask.began,
                                .heeds = true,
                                .word = m->ask.has_word ? &m->ask.word : NULL,
                                .revised = meta->rev == meta->last_rev ? meta->revised_s : 0,
                                .asked = m->target.has_rev,
                                .arena = &m->arena };
    /* Checks of the put itself fail at once. */
    if (page_store_put(m->service->store, &m->put) == STORE_LATER)
        return;
    err why = m->put.call.why;
    if (why == ERR_BAD || why == ERR_LIMIT)
        why = ERR_CORRUPT; /* the origin gave what cannot be kept */
    store_call_end(&m->put.call, why);
}

/* ---- asking ---- */

/* Pool. The origin has answered, and its marks are in the store. */
static void make_asked(struct page_ask *a)
{
    struct make *m = CONTAINER_OF(a, struct make, ask);
    if (a->why == RENDER_FINE) {
        /* whole seconds: what the purge touched was touched before this (title_is_astride) */
        a->word.said += a->request.purged;
        make_put(m);
        return;
    }
    if (a->why == RENDER_OTHER_TITLE) {
        value_set_moved(m, &a->request.meta);
    } else {
        make_fail(m, page_err_of_render(a->why), a->request.note.text);
        /* A denial is no failure: nothing is remembered of it, and the next reader asks again. */
        m->keep =
            a->why != RENDER_NO_PAGE && a->why != RENDER_NO_REVISION && a->why != RENDER_SUPPRESSED;
    }
    make_end(m);
}

/* Also for another try: the flags of what arrived end here. */
static void ask_start(struct make *m)
{
    m->flags &= ~(unsigned)MAKE_ARRIVED;
    m->tries++;
    m->ask = (struct page_ask){ .service = m->service,
                                .target = &m->target,
                                .want = WANT_RENDER,
                                .purge = m->purge,
                                .deadline = flight_deadline(m->flight),
                                .pass = flight_pass(m->flight),
                                .arena = &m->arena,
                                .done = make_asked };
    page_ask_start(&m->ask);
}

/* ---- looking again ---- */

/* Loop. What is stored by now may do: then nothing is made. */
static void make_looked(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, read.call);
    store_time settles_at, now = clock_store(m->service->clock);
    bool unsettled = (m->flags & MAKE_SETTLES) != 0 &&
                     page_is_unsettled(m->service, m->target.domain, &m->read, &settles_at);
    bool old = c->why == ERR_OK && page_old(m->target.domain, &m->read, now) != OLD_NOT;
    bool dated = (m->flags & MAKE_DATED) != 0 && (unsettled || old);
    if (dated)
        m->purge = page_old_purge(m->target.domain, &m->read, now);
    if (m->canceled)
        make_fail(m, ERR_SHUTDOWN, NULL);
    else if (c->why == ERR_OK && !dated)
        value_set(m, m->read.render.name, true);
    if (m->canceled || m->value != NULL)
        make_finish(m);
    else
        ask_start(m);
}

static void look_run(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    m->read =
        (struct page_read){ .call = { .home = loop_home(m->service->loop), .done = make_looked },
                            .bucket = m->target.settings->bucket,
                            .which = page_target_which(&m->target),
                            .arena = &m->arena,
                            .heeds = page_is_asked(m->service, m->target.domain) };
    store_call_post(page_store_read(m->service->store, &m->read), &m->read.call);
}

/* Might the render be stored by now? Not if it was looked for in vain and the title has not
 * changed since. */
static bool must_look(const struct make *m)
{
    return (m->flags & (MAKE_FRESH | MAKE_DATED)) != MAKE_FRESH &&
           ((m->flags & MAKE_LOOKED) == 0 || page_changed_since(m->service->changes, m->seen));
}

/* ---- the flight's calls, on the loop ---- */

/* Sets m for a run. It may have run before, under a lease that was lost: nothing of that run
 * counts. */
void make_begin(struct make *m, struct flight *f)
{
    INVARIANT(m->value == NULL);
    m->flight = f;
    m->why = ERR_OK;
    m->keep = false;
    m->flags &= ~(unsigned)(MAKE_PURGED | MAKE_ARRIVED | MAKE_TOLD);
    m->note.text[0] = 0;
    m->tries = m->rests = 0;
}

static void make_start(struct flight *f, void *ctx)
{
    struct make *m = ctx;
    MAGIC_CHECK(m, MAKE_MAGIC);
    make_begin(m, f);
    if ((m->flags & MAKE_TAKE) != 0 || !must_look(m)) {
        make_here(m);
        return;
    }
    m->task.run = look_run;
    home_post(loop_pool(m->service->loop), &m->task);
}

/* Loop. Finish comes soon, by the way of whatever is under way. */
static void make_cancel(struct flight *f, void *ctx)
{
    struct make *m = ctx;
    (void)f;
    m->canceled = true;
    if (m->resting)
        loop_timer_start(m->rest, 0, 0);
    else
        page_ask_cancel(&m->ask);
}

/* ---- joining; any thread ---- */
/* ---- joining ---- */

void page_make_share_id(const struct page_target *t, uint64_t rev,
                        unsigned char out[FLIGHT_ID_BYTES])
{
    char number[24];
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)rev); /* fits */
    str parts[] = { STR("render"), str_of(t->settings->opts->name), t->domain->name, str_of(number),
                    t->title };
    flight_share_id(parts, COUNT_OF(parts), out);
}

static struct make *make_new(const struct page_service *s, const struct page_wish *wish)
{
    struct make *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    *m = (struct make){ .magic = MAKE_MAGIC,
                        .service = s,
                        .target = { .domain = wish->domain,
                                    .settings = wish->settings,
                                    .has_rev = wish->rev != 0,
                                    .name = { .rev = wish->rev } },
                        .flags = (wish->fresh ? MAKE_FRESH : 0u) | (wish->take ? MAKE_TAKE : 0u) |
                                 (wish->dated ? MAKE_DATED : 0u) |
                                 (wish->settles ? MAKE_SETTLES : 0u),
                        .purge = wish->purge };
    if (wish->seen != NULL) {
        m->flags |= MAKE_LOOKED;
        m->seen = *wish->seen;
    }
    arena_init(&m->arena, s->arena_bytes_max);
    arena_share(&m->arena, s->budget);
    /* wish is the caller's: what outlives page_make is copied. */
    m->target.title = arena_copy(&m->arena, wish->title);
    if (m->target.title.p != NULL)
        return m;
    make_release(m);
    return NULL;
}

/* How long ago wish->since was, for the flight, which counts by another clock. */
static int64_t since_ago_ms(const struct page_service *s, const struct page_wish *wish)
{
    int64_t ns = clock_store(s->clock).ns - wish->since.ns;
    return wish->since.ns == STORE_TIME_ZERO.ns || ns < 0 ? 0 : ns / NS_PER_MS;
}

err page_make(const struct page_service *s, const struct page_wish *wish, struct flight_waiter *w)
{
    /* take has a flight of its own: its waiters would not wait for a making. */
    char key[FLIGHT_KEY_BYTES_MAX];
    int n = snprintf(key, sizeof key, "%s %s %.*s %llu %.*s", wish->take ? "take" : "render",
                     wish->settings->opts->name, STR_ARG(wish->domain->name),
                     (unsigned long long)wish->rev, STR_ARG(wish->title));
    INVARIANT(n > 0 && n < FLIGHT_KEY_BYTES_MAX); /* names and titles are bounded */
    struct make *m = make_new(s, wish);
    if (m == NULL)
        return ERR_LIMIT;
    struct flight_maker maker = { .start = make_start,
                                  .cancel = make_cancel,
                                  .release = make_release,
                                  .ctx = m,
                                  .keep_idle = true,
                                  .fresh = wish->fresh,
                                  .insists = (wish->purge.is ? 2u : 0u) + (wish->dated ? 0u : 1u),
                                  .fresh_ago_ms = since_ago_ms(s, wish),
                                  .travels = page_contents_travel(wish->domain),
                                  .source = render_source(wish->domain->origin, WANT_RENDER),
                                  .share = { .fresh_ms = TRAVEL_MS,
                                             .look = wish->take,
                                             .encode = make_encode,
                                             .accept = make_accept } };
    page_make_share_id(&m->target, wish->rev, maker.share.id);
    return flight_join(s->flights, (str){ .p = key, .n = (size_t)n }, &maker, w);
}
