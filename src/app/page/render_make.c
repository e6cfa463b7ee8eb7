/* render_make.c - the maker of one flight.
 *
 *   start -> look: in the store? (pool) -(no, or fresh)-> ask the origin (loop) -> name, store
 *               (pool) |   -> stored (committer) -> ready (pool) -> finish (loop)
 *               \-(yes)-> ready (pool) ----------------------/^
 *
 * What the origin denies is marked in the store before it is named or finished (page_ask.h).
 * Invariant: one of look, asking, telling, storing, readying is under way from start to finish. A
 * stored render may be told of before the task that stored it has ended: once the store has the
 * put, m is not that task's any more. */
#include "app/page/render_make.h"

#include "app/errors.h"
#include "app/headers.h"
#include "app/page/page_ask.h"
#include "app/page/render_travel.h"
#include "flight/shared.h"
#include "loop/entropy.h"
#include "render/title.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAKE_TRIES_MAX = 2,     /* a purge may come in between once */
    TRAVEL_MS = 30000,      /* how long other servers may take what was made here */
    RENDER_TELL_MS = 60000, /* between two lines about failures of one kind and wiki */
};
#define FENCE_OFF_NS                                                                               \
    (4 * NS_PER_S) /* Redis's clock is believed so far from ours: PAGE_TID_AHEAD_NS is more */
#define MAKE_MAGIC 0x4a5e4a5eu

struct make {
    uint32_t magic;
    const struct app *app;
    struct flight *flight;
    struct arena arena;
    struct page_target target; /* its strings are in the arena */
    struct page_which which;
    bool fresh, canceled;
    bool purged;    /* a purge came in between: what is made now began after it */
    bool arrived;   /* ask was filled by another server, whose name it has */
    struct tid tid; /* then */
    unsigned tries;
    struct page_ask ask; /* its request is filled by another server, too */
    struct page_put put;
    struct page_read read; /* the look before, and of what was stored */
    struct task task;
    err why;
    bool keep; /* the error is worth remembering */
    struct err_note note;
    struct render_value *value;
};

/* ---- the value ---- */

static void value_free(struct flight_value *v)
{
    struct render_value *value = render_value_of(v);
    for (unsigned i = 0; i < RENDER_CODINGS; i++)
        if (value->ready[i] != NULL)
            http_ready_unref(&value->ready[i]);
    free(value->moved_to);
    free(value);
}

static void value_set(struct make *m, struct page_name name, bool found)
{
    struct render_value *value = calloc(1, sizeof *value);
    INVARIANT(value != NULL);
    *value = (struct render_value){ .v = { .refs = 1, .free = value_free },
                                    .name = name,
                                    .found = found };
    INVARIANT(str_to_cstr(m->target.content, value->content, sizeof value->content));
    m->value = value;
}

/* Nobody is to be answered from the store under this title. */
static void value_set_moved(struct make *m, const struct render_meta *meta)
{
    value_set(m, (struct page_name){ 0 }, false);
    m->value->moved_to = malloc(meta->title.n + 1);
    INVARIANT(m->value->moved_to != NULL);
    INVARIANT(str_to_cstr(meta->title, m->value->moved_to, meta->title.n + 1));
    m->value->namespace_id = meta->namespace_id;
}

/* An answer for all who ask plainly, in this coding. Left out when something is in the way. */
static void make_ready(struct make *m, struct page_get *g, enum render_coding which)
{
    g->coding = which == RENDER_RAW              ? CODING_IDENTITY
                : g->content->codec == PAGE_GZIP ? CODING_GZIP
                : g->content->codec == PAGE_ZSTD ? CODING_ZSTD
                                                 : CODING_IDENTITY;
    if ((which == RENDER_CODED) != (g->coding != CODING_IDENTITY) || page_get_decode(g) != ERR_OK)
        return;
    m->value->ready[which] = page_get_ready(g);
}

/* Of what was read. */
static void make_all_ready(struct make *m)
{
    struct page_get *g = arena_calloc(&m->arena, 1, sizeof *g);
    str target;
    if (g == NULL || headers_find(m->read.bodies[0].headers, STR("location"), &target))
        return;
    *g = (struct page_get){ .app = m->app,
                            .arena = &m->arena,
                            .target = m->target,
                            .read = m->read,
                            .content = m->read.contents[0],
                            .how = HOW_MISS,
                            .collapsed = true,
                            .how_detail = flight_detail_name(FLIGHT_WAITED) };
    m->value->codec = g->content->codec;
    m->value->state = m->read.render.state;
    m->value->short_lived = store_time_before(m->read.lasts_until, clock_store(m->app->clock));
    make_ready(m, g, RENDER_RAW);
    make_ready(m, g, RENDER_CODED);
}

/* ---- ending ---- */

static void make_release(void *ctx)
{
    struct make *m = ctx;
    MAGIC_CHECK(m, MAKE_MAGIC);
    m->magic = 0;
    arena_fini(&m->arena);
    free(m);
}

/* A wiki that is down fails every title that is asked for: one line for all of them. */
static void tell_failed(struct make *m)
{
    struct render_told *told = &m->target.domain->told[m->why];
    mono now = clock_mono(m->app->clock);
    told->count++;
    if (told->at.ns != 0 && mono_add_ms(told->at, RENDER_TELL_MS).ns > now.ns)
        return;
    log_event(m->app->log, LOG_WARN, "render.failed", LOG_STR("domain", m->target.domain->name),
              LOG_STR("title", m->target.title), LOG_INT("rev", m->target.name.rev),
              LOG_CSTR("why", err_name(m->why)), LOG_CSTR("note", m->note.text),
              LOG_INT("count", told->count));
    *told = (struct render_told){ .at = now };
}

/* Others hold the memory: no fault of the origin's, and not to be remembered when they are done. */
static void heed_starved(struct make *m)
{
    if (m->why == ERR_OK || m->why == ERR_SHUTDOWN || !arena_is_starved(&m->arena))
        return;
    m->why = ERR_LIMIT;
    m->keep = false;
    err_note_set(&m->note, "%s", APP_STARVED_TEXT);
}

/* Loop thread. m may be gone afterwards. */
static void finish(struct make *m)
{
    heed_starved(m);
    if (m->why != ERR_OK && m->value != NULL) {
        struct flight_value *unused = &m->value->v;
        flight_value_unref(&unused);
    }
    if (m->why != ERR_OK && m->why != ERR_NOT_FOUND && m->why != ERR_SHUTDOWN)
        tell_failed(m);
    struct flight_value *value = m->why == ERR_OK ? &m->value->v : NULL;
    m->value = NULL; /* it is the flight's; another lease may make us start once more */
    flight_finish(m->flight, m->why, value, m->keep, &m->note);
}

static void fail(struct make *m, err why, const char *note)
{
    m->why = why;
    if (note != NULL)
        err_note_set(&m->note, "%s", note);
}

static void ask_start(struct make *m);

/* A purge came in between: once more, of what is there now. */
static void begin_again(struct make *m)
{
    m->why = ERR_OK;
    m->purged = true;
    if (m->canceled) {
        fail(m, ERR_SHUTDOWN, NULL);
        finish(m);
    } else if (m->tries >= MAKE_TRIES_MAX) {
        m->keep = false; /* no fault of the origin's: who asks next begins anew */
        fail(m, ERR_AGAIN, m->note.text[0] != 0 ? NULL : "it was purged while it was made");
        finish(m);
    } else {
        ask_start(m);
    }
}

static void make_over(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    m->keep = m->why != ERR_SHUTDOWN;
    if (m->why == ERR_GONE)
        begin_again(m);
    else
        finish(m);
}

/* Back to the loop. */
static void make_end(struct make *m)
{
    m->task.run = make_over;
    home_post(loop_home(m->app->loop), &m->task);
}

/* Pool. Without ready answers each reads for itself. */
static void ready_read(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, read.call);
    if (c->why == ERR_OK && m->read.bodies[0].pieces_count > 0)
        make_all_ready(m);
    make_end(m);
}

static void ready_start(struct make *m)
{
    m->read = (struct page_read){ .call = { .home = loop_pool(m->app->loop), .done = ready_read },
                                  .bucket = m->target.bucket,
                                  .which = m->which,
                                  .arena = &m->arena,
                                  .wanted_count = 1,
                                  .wanted = { m->target.content } };
    m->read.which.select = SELECT_EXACT;
    m->read.which.name = m->value->name;
    store_call_then(page_store_read(m->app->pages, &m->read), &m->read.call);
}

/* ---- storing ---- */

/* Pool. */
static void put_done(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, put.call);
    if (c->why == ERR_OK) {
        value_set(m, m->put.stored, false);
        ready_start(m);
        return;
    }
    if (c->why == ERR_TIMEOUT) /* of the write, not of the origin */
        fail(m, ERR_AGAIN, "the store did not take it in time");
    else
        fail(m, c->why, m->put.note.text);
    make_end(m);
}

static bool is_allowed(const struct page_bucket_opts *opts, str name)
{
    for (unsigned i = 0; i < opts->contents_count; i++)
        if (str_eq(name, str_of(opts->contents[i])))
            return true;
    return opts->contents == NULL;
}

/* The target of a redirect stands with the HTML, under a name that is never sent as it is. */
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

static err fill_contents(struct page_put *put)
{
    struct make *m = CONTAINER_OF(put, struct make, put);
    for (unsigned i = 0; i < m->ask.request.contents_count; i++) {
        const struct render_content *c = &m->ask.request.contents[i];
        struct page_put_content *to = &put->contents[put->contents_count];
        if (!is_allowed(&m->target.config->page, c->name))
            continue;
        *to = (struct page_put_content){ .name = c->name, .headers = c->headers, .raw = c->raw };
        put->contents_count++;
        if (str_eq(c->name, STR("html")) &&
            (!render_head_put(&m->arena, c->raw, put->tid, &to->raw) || !add_target(m, to)))
            return ERR_CORRUPT;
    }
    return put->contents_count > 0 ? ERR_OK : ERR_CORRUPT;
}

/* Across servers the fence orders renders of one key, as the lease did (docs/flights.md, 6); but
 * it is older than a purge that came under that lease. */
static store_time fence_of(const struct make *m)
{
    uint64_t fence_us = flight_fence(m->flight);
    if (fence_us == 0 || fence_us > INT64_MAX / 1000 || m->purged)
        return STORE_TIME_ZERO;
    int64_t fence_ns = (int64_t)fence_us * 1000, off = fence_ns - m->ask.began.ns;
    return off < FENCE_OFF_NS && off > -FENCE_OFF_NS ? (store_time){ .ns = fence_ns }
                                                     : STORE_TIME_ZERO;
}

static void store_run(struct task *task)
{
    struct make *m = CONTAINER_OF(task, struct make, task);
    uint64_t rev = m->ask.request.meta.rev;
    bool newest = m->target.has_rev ? m->ask.request.meta.latest : true;
    m->put = (struct page_put){ .call = { .deadline = app_page_deadline(m->app),
                                          .home = loop_pool(m->app->loop),
                                          .done = put_done },
                                .bucket = m->target.bucket,
                                .domain = m->which.domain,
                                .title = m->target.title,
                                .rev = rev,
                                .has_tid = m->arrived,
                                .tid = m->tid,
                                .began = m->arrived ? STORE_TIME_ZERO : m->ask.began,
                                .fence = fence_of(m),
                                .random = entropy_u64(),
                                .fill = fill_contents,
                                .behind = newest ? 0 : rev + 1,
                                .said_at = m->arrived ? tid_time(m->tid) : m->ask.began,
                                .asked = m->target.has_rev,
                                .arena = &m->arena };
    if (page_store_put(m->app->pages, &m->put) == STORE_LATER)
        return;
    if (m->put.call.why == ERR_BAD || m->put.call.why == ERR_LIMIT)
        m->put.call.why = ERR_CORRUPT; /* the origin gave what cannot be kept */
    put_done(&m->put.call);
}

static void store_start(struct make *m)
{
    m->task.run = store_run;
    home_post(loop_pool(m->app->loop), &m->task);
}

/* ---- asking ---- */

static void asked(struct page_ask *a)
{
    struct make *m = CONTAINER_OF(a, struct make, ask);
    if (a->why == RENDER_FINE) {
        store_start(m);
        return;
    }
    if (a->why == RENDER_OTHER_TITLE) {
        value_set_moved(m, &a->request.meta);
        finish(m);
        return;
    }
    fail(m, app_err_of_render(a->why), a->request.note.text);
    m->keep =
        a->why != RENDER_NO_PAGE && a->why != RENDER_NO_REVISION && a->why != RENDER_SUPPRESSED;
    finish(m);
}

static void ask_start(struct make *m)
{
    m->arrived = false;
    m->tries++;
    m->ask = (struct page_ask){ .app = m->app,
                                .target = &m->target,
                                .want = WANT_RENDER,
                                .fresh = m->fresh,
                                .deadline = flight_deadline(m->flight),
                                .pass = flight_pass(m->flight),
                                .arena = &m->arena,
                                .done = asked };
    page_ask_start(&m->ask);
}

/* ---- looking again ---- */

static void looked(struct store_call *c)
{
    struct make *m = CONTAINER_OF(c, struct make, read.call);
    if (m->canceled)
        fail(m, ERR_SHUTDOWN, NULL);
    else if (c->why == ERR_OK)
        value_set(m, m->read.render.name, true);
    if (m->canceled || m->value != NULL)
        finish(m);
    else
        ask_start(m);
}

static void look_run(struct task *t)
{
    struct make *m = CONTAINER_OF(t, struct make, task);
    m->read = (struct page_read){ .call = { .home = loop_home(m->app->loop), .done = looked },
                                  .bucket = m->target.bucket,
                                  .which = m->which,
                                  .arena = &m->arena };
    store_call_post(page_store_read(m->app->pages, &m->read), &m->read.call);
}

/* ---- the flight's calls, on the loop ---- */

/* It may have run before, under a lease that was lost. */
static void begin(struct make *m, struct flight *f)
{
    INVARIANT(m->value == NULL);
    m->flight = f;
    m->why = ERR_OK;
    m->keep = m->arrived = m->purged = false;
    m->note.text[0] = 0;
    m->tries = 0;
}

static void make_start(struct flight *f, void *ctx)
{
    struct make *m = ctx;
    MAGIC_CHECK(m, MAKE_MAGIC);
    begin(m, f);
    if (m->fresh) {
        ask_start(m);
        return;
    }
    m->task.run = look_run;
    home_post(loop_pool(m->app->loop), &m->task);
}

static void make_cancel(struct flight *f, void *ctx)
{
    struct make *m = ctx;
    (void)f;
    m->canceled = true;
    page_ask_cancel(&m->ask);
}

/* ---- to and from other servers ---- */

static err make_encode(const struct flight_value *v, struct buf *out, void *ctx)
{
    const struct make *m = ctx;
    const struct render_value *value = render_value_of((struct flight_value *)(uintptr_t)v);
    if (value->found || value->moved_to != NULL) /* it was not made now: who lacks it makes it */
        return ERR_LIMIT;
    const struct render_request *r = &m->ask.request;
    struct render_travel t = { .name = value->name,
                               .latest = m->put.behind == 0,
                               .redirect_to = r->redirect_to,
                               .redirect_fragment = r->redirect_fragment };
    for (; t.contents_count < r->contents_count; t.contents_count++)
        t.contents[t.contents_count] = r->contents[t.contents_count];
    render_travel_put(out, &t);
    return buf_status(out);
}

static void make_accept(struct flight *f, const struct flight_arrival *a, void *ctx)
{
    struct make *m = ctx;
    struct render_travel t;
    begin(m, f);
    m->ask.began = clock_store(m->app->clock);
    str bytes = arena_copy(&m->arena, a->bytes);
    bool fine = bytes.p != NULL && render_travel_get(bytes, &t) == ERR_OK;
    if (!fine ||
        store_time_before(store_time_add(m->ask.began, PAGE_TID_AHEAD_NS), tid_time(t.name.tid))) {
        ask_start(m); /* another version's, no render at all, or from a time to come */
        return;
    }
    m->ask.request = (struct render_request){ .meta = { .rev = t.name.rev, .latest = t.latest },
                                              .redirect_to = t.redirect_to,
                                              .redirect_fragment = t.redirect_fragment };
    for (; m->ask.request.contents_count < t.contents_count; m->ask.request.contents_count++)
        m->ask.request.contents[m->ask.request.contents_count] =
            t.contents[m->ask.request.contents_count];
    m->arrived = true;
    m->tid = t.name.tid;
    store_start(m);
}

void render_share_id(const struct page_target *t, uint64_t rev, unsigned char out[FLIGHT_ID_BYTES])
{
    char number[24];
    (void)snprintf(number, sizeof number, "%llu", (unsigned long long)rev); /* fits */
    str parts[] = { STR("render"), str_of(t->config->page.name), t->domain->name, str_of(number),
                    t->title };
    flight_share_id(parts, COUNT_OF(parts), out);
}

/* ---- joining ---- */

static struct make *make_new(const struct page_get *g, bool fresh)
{
    struct make *m = calloc(1, sizeof *m);
    if (m == NULL)
        return NULL;
    *m = (struct make){ .magic = MAKE_MAGIC, .app = g->app, .target = g->target, .fresh = fresh };
    arena_init(&m->arena, g->app->config->http.arena_bytes_max);
    arena_share(&m->arena, g->app->budget);
    m->target.title = arena_copy(&m->arena, g->target.title);
    m->target.content = arena_copy(&m->arena, g->target.content);
    m->which = page_target_which(&m->target);
    if (m->target.title.p != NULL && m->target.content.p != NULL)
        return m;
    make_release(m);
    return NULL;
}

err render_make_join(struct page_get *g, bool fresh, struct flight_waiter *w)
{
    str key = arena_printf(g->arena, "render %s %.*s %llu %.*s", g->target.config->page.name,
                           STR_ARG(g->target.domain->name),
                           (unsigned long long)(g->target.has_rev ? g->target.name.rev : 0),
                           STR_ARG(g->target.title));
    struct make *m = key.p == NULL ? NULL : make_new(g, fresh);
    if (m == NULL)
        return ERR_LIMIT;
    struct flight_maker maker = {
        .start = make_start,
        .cancel = make_cancel,
        .release = make_release,
        .ctx = m,
        .keep_idle = true,
        .fresh = fresh,
        .travels = true,
        .source = render_source(g->target.domain->origin, WANT_RENDER),
        .share = { .fresh_ms = TRAVEL_MS, .encode = make_encode, .accept = make_accept }
    };
    render_share_id(&g->target, g->target.has_rev ? g->target.name.rev : 0, maker.share.id);
    return flight_join(g->app->flights, key, &maker, w);
}
