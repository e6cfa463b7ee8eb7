/* Goal: page buckets do what docs/api.md, 2, says whatever happens in whatever order. Method:
 * random histories on two titles (puts in any order, late, equal, conflicting, minted; pins,
 * purges; a clock that jumps to and around due times; upkeep or none; restarts, kills in the middle
 * of a put, other policies) against a naive reference; after each step every answer about every
 * render is compared, and after upkeep the rows counted.
 *
 *   model_pages [--seed N] [--histories N] [--steps N] [--seconds N] [--dir DIR]     0 histories:
 *     without end
 *
 * The state of the test lives in shared memory; on a real engine each life of the store is a
 * process. */
#include "base/rng.h"
#include "bucket/page_write.h"
#include "bucket/pages.h"
#include "reference.h"
#include "store.h"
#include "sync.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)
#define TTL_LEDGER (1000 * NS_PER_S)
enum { TITLES = 2, REVS = 5, TEXTS = 7, LIFE_OVER = 0, LIFE_AGAIN = 10 };

struct shared {
    struct ref ref;
    struct ref_title titles[TITLES];
    struct rng rng;
    uint64_t seed, step, steps, puts, orders, kills, restarts, policies;
    bool pending; /* a put was in the air when the process was killed */
    unsigned pending_title;
    struct ref_put put;
    struct page_position told; /* of the last change */
};

struct model {
    struct shared *s;
    struct fake_clock clock;
    struct model_store store;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
};

static const char *const title_names[TITLES] = { "Main_Page", "Main_Page2" };
static const char *const select_names[] = { "latest", "rev", "exact", "served_at", "current_at" };

_Noreturn static void differ(const struct model *m, const char *format, ...) PRINTF_LIKE(2, 3);
static void differ(const struct model *m, const char *format, ...)
{
    va_list args;
    (void)fprintf(stderr,
                  "model_pages: --seed %llu --histories 1, step %llu, policy %s, now %lld: ",
                  (unsigned long long)m->s->seed, (unsigned long long)m->s->step,
                  page_policy_name(m->s->ref.policy.kind), (long long)(m->s->ref.now.ns - T0));
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
    _exit(1);
}

static uint64_t below(struct model *m, uint64_t bound)
{
    return rng_below(&m->s->rng, bound);
}

/* ---- comparing ---- */

static void compare_times(const struct model *m, const struct page_render *a,
                          const struct ref_render *b)
{
    const struct {
        const char *what;
        int64_t is, should;
    } rows[] = {
        { "stored_at", a->stored_at.ns, b->stored_at.ns },
        { "superseded_at", a->superseded_at.ns, b->superseded_at.ns },
        { "superseded_by", (int64_t)a->superseded_by.rev, (int64_t)b->superseded_by.rev },
        { "superseded_by.tid", tid_cmp(a->superseded_by.tid, b->superseded_by.tid), 0 },
        { "out_at", a->out_at.ns, b->out_at.ns },
        { "requested_until", a->requested_until.ns, b->requested.ns },
        { "stash_until", a->stash_until.ns, b->stashed.ns },
        { "hold_until", a->hold_until.ns, b->held.ns },
        { "due_at", a->due_at.ns, b->due.ns },
        { "state", a->state, ref_state(&m->s->ref, b) },
        { "rev", (int64_t)a->name.rev, (int64_t)b->name.rev },
        { "tid", tid_cmp(a->name.tid, b->name.tid), 0 },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].is != rows[i].should)
            differ(m, "render %llu: %s is %lld, should be %lld", (unsigned long long)b->name.rev,
                   rows[i].what, (long long)rows[i].is, (long long)rows[i].should);
}

static str text_of(char out[64], unsigned text, unsigned about)
{
    int n = snprintf(out, 64, "<p about=\"#mwt%u\">text %u, text %u</p>", about, text, text);
    return (str){ .p = out, .n = (size_t)n };
}

static void compare_bytes(const struct model *m, const struct page_render *a,
                          const struct ref_render *b)
{
    struct arena arena;
    char text[64];
    struct page_bytes bytes;
    str raw;
    arena_init(&arena, 1u << 16);
    err e = page_read(m->bucket, a, &a->contents[0], &arena, false, &bytes);
    if (e == ERR_OK)
        e = frame_raw(&a->contents[0], bytes.frame, &arena, &raw);
    if (e != ERR_OK || !str_eq(raw, text_of(text, b->text, b->about)))
        differ(m, "render %llu: its bytes are not what was put: %s",
               (unsigned long long)b->name.rev, err_name(e));
    arena_fini(&arena);
}

static void compare_trace(const struct model *m, const struct page_trace *a,
                          const struct ref_render *b)
{
    if (page_state_name(a->state) != page_state_name(ref_state(&m->s->ref, b)) ||
        a->at.ns != b->gone_at.ns || a->superseded_at.ns != b->superseded_at.ns ||
        a->superseded_by.rev != b->superseded_by.rev || a->name.rev != b->name.rev ||
        tid_cmp(a->name.tid, b->name.tid) != 0 || a->policy != b->gone_policy)
        differ(m, "trace of %llu: %s at %lld of %llu by %d, should be %s at %lld by %d",
               (unsigned long long)b->name.rev, page_state_name(a->state),
               (long long)(a->at.ns - T0), (unsigned long long)a->name.rev, (int)a->policy,
               page_state_name(ref_state(&m->s->ref, b)), (long long)(b->gone_at.ns - T0),
               (int)b->gone_policy);
}

static void compare_find(struct model *m, struct engine_view *v, unsigned title,
                         enum page_select select, struct page_name name, store_time at)
{
    const struct page_which w = { .domain = m->domain,
                                  .title = str_of(title_names[title]),
                                  .select = select,
                                  .name = name,
                                  .at = at };
    const struct ref_render *should = NULL;
    struct page_render is;
    struct page_trace trace;
    struct page_explanation x;
    err e = page_find(m->bucket, v, &w, &is, &trace);
    err want = ref_find(&m->s->ref, &m->s->titles[title], select, name, at, &should);
    if (e != want)
        differ(m, "find %s of %llu in title %u: %s, should be %s", select_names[select],
               (unsigned long long)name.rev, title, err_name(e), err_name(want));
    if (page_explain(m->bucket, v, &w, &x) != ERR_OK)
        differ(m, "explain fails");
    enum page_state state = want == ERR_NOT_FOUND ? PAGE_UNKNOWN : ref_state(&m->s->ref, should);
    if (x.state != state)
        differ(m, "explain says %s, should be %s", page_state_name(x.state),
               page_state_name(state));
    if (want == ERR_OK) {
        compare_times(m, &is, should);
        if (select == SELECT_EXACT)
            compare_bytes(m, &is, should);
    }
    if (want == ERR_GONE)
        compare_trace(m, &trace, should);
}

struct history {
    const struct model *m;
    unsigned title;
    const struct ref_render *next;
};

static bool compare_item(void *ctx, str of, const struct page_render *r)
{
    struct history *h = ctx;
    (void)of; /* page_history tells its own */
    if (h->next == NULL)
        differ(h->m, "history goes on with %llu, should be over", (unsigned long long)r->name.rev);
    compare_times(h->m, r, h->next);
    h->next = ref_next(&h->m->s->ref, &h->m->s->titles[h->title], &h->next->name);
    return true;
}

static void compare_title(struct model *m, struct engine_view *v, unsigned title)
{
    struct ref_title *t = &m->s->titles[title];
    struct history h = { .m = m, .title = title, .next = ref_next(&m->s->ref, t, NULL) };
    const struct page_each each = { .render = compare_item, .ctx = &h };
    err e = page_history(m->bucket, v, m->domain, str_of(title_names[title]), NULL, &each);
    if (e != ERR_OK || h.next != NULL)
        differ(m, "history of title %u is too short", title);
    compare_find(m, v, title, SELECT_LATEST, (struct page_name){ 0 }, STORE_TIME_ZERO);
    for (uint64_t rev = 1; rev <= REVS; rev++)
        compare_find(m, v, title, SELECT_REV, (struct page_name){ .rev = rev }, STORE_TIME_ZERO);
    for (unsigned i = 0; i < t->count; i++)
        compare_find(m, v, title, SELECT_EXACT, t->renders[i].name, STORE_TIME_ZERO);
    for (unsigned i = 0; i < 4; i++) {
        int64_t past = m->s->ref.now.ns - T0 + 1;
        store_time at = { .ns = T0 + (int64_t)below(m, (uint64_t)past) };
        if (t->count > 0 && i % 2 == 0)
            at = t->renders[below(m, t->count)].stored_at;
        compare_find(m, v, title, SELECT_SERVED_AT, (struct page_name){ 0 }, at);
        compare_find(m, v, title, SELECT_CURRENT_AT, (struct page_name){ 0 }, at);
    }
}

static void compare(struct model *m)
{
    struct engine_view *v = engine_view_begin(m->store.engine);
    for (unsigned i = 0; i < TITLES; i++)
        compare_title(m, v, i);
    engine_view_end(&v);
}

static uint64_t rows_of(struct model *m, enum engine_space space)
{
    const struct engine_range all = { .space = space };
    struct engine_view *v = engine_view_begin(m->store.engine);
    struct engine_cursor *c = engine_cursor_open(v, &all);
    struct engine_row row;
    uint64_t n = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        n++;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return n;
}

/* Traces are removed together, a 64th of their time late at most. */
static bool trace_may_be_there(const struct ref_render *r, store_time now)
{
    int64_t step = TTL_LEDGER / 64, forget = r->gone_at.ns + TTL_LEDGER;
    return (forget + step - 1) / step * step > now.ns;
}

/* After upkeep there is a row for each stored render and each known trace, and no other. */
static void compare_rows(struct model *m)
{
    uint64_t stored = 0, traces = 0, leftover = 0;
    for (unsigned i = 0; i < TITLES; i++)
        for (unsigned j = 0; j < m->s->titles[i].count; j++) {
            const struct ref_render *r = &m->s->titles[i].renders[j];
            bool alive = ref_alive(&m->s->ref, r);
            stored += alive;
            bool known = !alive && r->gone_at.ns + TTL_LEDGER > m->s->ref.now.ns;
            traces += known;
            leftover += !alive && !known && trace_may_be_there(r, m->s->ref.now);
        }
    uint64_t there = traces_stored(m->store.engine);
    if (rows_of(m, SPACE_RENDER) != stored || there < traces || there > traces + leftover)
        differ(m, "upkeep leaves %llu renders and %llu traces, should be %llu and %llu",
               (unsigned long long)rows_of(m, SPACE_RENDER), (unsigned long long)there,
               (unsigned long long)stored, (unsigned long long)traces);
}

static void damage_found(void *ctx, const char *what)
{
    differ(ctx, "check: %s", what);
}

/* ---- steps ---- */

static struct page_name some_name(struct model *m, unsigned title, bool known)
{
    struct ref_title *t = &m->s->titles[title];
    if (known && t->count > 0)
        return t->renders[below(m, t->count)].name;
    int64_t ns = m->s->ref.now.ns + ((int64_t)below(m, 120) - 114) * NS_PER_S;
    return (struct page_name){ .rev = 1 + below(m, REVS), .tid = tid_at(ns, 1 + below(m, 2)) };
}

static void fill_put(const struct model *m, unsigned title, const struct ref_put *r, char text[64],
                     struct page_put *p)
{
    *p = (struct page_put){ .domain = m->domain,
                            .title = str_of(title_names[title]),
                            .rev = r->name.rev,
                            .has_tid = !r->minted,
                            .tid = r->name.tid,
                            .contents_count = 1,
                            .stash_ns = r->stash_ns };
    p->contents[0] = (struct page_put_content){ .name = STR("html"),
                                                .headers = STR("content-type: text/html\n"),
                                                .raw = text_of(text, r->text, r->about) };
}

static void draw_put(struct model *m, unsigned title, struct ref_put *r)
{
    *r = (struct ref_put){ .name = some_name(m, title, below(m, 4) == 0),
                           .minted = below(m, 3) == 0,
                           .text = (unsigned)below(m, TEXTS),
                           .about = (unsigned)below(m, 2) };
    if (below(m, 12) == 0)
        r->stash_ns = (int64_t)below(m, 90) * NS_PER_S;
}

static void step_put(struct model *m)
{
    unsigned title = (unsigned)below(m, TITLES);
    struct ref_title *t = &m->s->titles[title];
    struct ref_put r;
    struct page_put p;
    char text[64];
    draw_put(m, title, &r);
    if (t->count == REF_RENDERS_MAX)
        return;
    fill_put(m, title, &r, text, &p);
    err e = sync_put(m->bucket, &p), want;
    if (!r.minted && tid_time(r.name.tid).ns > m->s->ref.now.ns + PAGE_TID_AHEAD_NS) {
        if (e != ERR_BAD)
            differ(m, "a tid too far ahead gives %s", err_name(e));
        return;
    }
    if (r.minted && e == ERR_OK && p.applied) {
        if (!ref_mint_is_fine(&m->s->ref, t, p.stored))
            differ(m, "minted a tid that is not the greatest");
        r.name = p.stored;
    } else if (r.minted) { /* the name it would have had */
        r.name.tid = tid_at(m->s->ref.now.ns + 6 * NS_PER_S, 3);
    }
    want = ref_put(&m->s->ref, t, &r);
    if (e != want)
        differ(m, "put of %llu: %s (%s), should be %s", (unsigned long long)r.name.rev, err_name(e),
               p.note.text, err_name(want));
    if (e == ERR_GONE && p.trace.state != r.gone)
        differ(m, "put is refused as %s, should be %s", page_state_name(p.trace.state),
               page_state_name(r.gone));
    if (e == ERR_OK && (p.applied != r.applied || p.created != r.applied || p.latest != r.latest ||
                        p.stored.rev != r.stored.rev || tid_cmp(p.stored.tid, r.stored.tid) != 0))
        differ(m, "put of %llu: applied %d latest %d, should be %d %d",
               (unsigned long long)r.name.rev, p.applied, p.latest, r.applied, r.latest);
    m->s->puts++;
}

static void step_order(struct model *m)
{
    static const enum page_order_kind kinds[] = { ORDER_EXTEND, ORDER_EXTEND,  ORDER_STASH,
                                                  ORDER_HOLD,   ORDER_RELEASE, ORDER_PURGE };
    unsigned title = (unsigned)below(m, TITLES);
    struct ref_title *t = &m->s->titles[title];
    struct ref_order r = { .kind = kinds[below(m, COUNT_OF(kinds))] };
    if (r.kind == ORDER_PURGE && (below(m, 3) != 0 || t->fences_count == 40))
        r.kind = ORDER_EXTEND;
    r.has_rev = below(m, 8) != 0;
    r.has_tid = r.has_rev && below(m, 3) != 0;
    r.name = some_name(m, title, below(m, 5) != 0);
    r.until.ns = m->s->ref.now.ns + ((int64_t)below(m, 200) - 10) * NS_PER_S;
    struct page_order o = { .kind = r.kind,
                            .domain = m->domain,
                            .title = str_of(title_names[title]),
                            .has_rev = r.has_rev,
                            .has_tid = r.has_tid,
                            .name = r.name,
                            .until = r.until };
    err e = sync_order(m->bucket, &o), want = ref_order(&m->s->ref, t, &r);
    if (e != want)
        differ(m, "order %d on %llu: %s, should be %s", (int)r.kind, (unsigned long long)r.name.rev,
               err_name(e), err_name(want));
    if (o.purged != r.purged)
        differ(m, "purged %llu, should be %llu", (unsigned long long)o.purged,
               (unsigned long long)r.purged);
    m->s->orders++;
}

static void clock_to(struct model *m, int64_t ns)
{
    if (ns <= m->s->ref.now.ns)
        return;
    fake_clock_advance(&m->clock, ns - m->s->ref.now.ns);
    m->s->ref.now.ns = ns;
    for (unsigned i = 0; i < TITLES; i++)
        ref_sweep(&m->s->ref, &m->s->titles[i]);
}

static void step_clock(struct model *m)
{
    const struct ref_title *t = &m->s->titles[below(m, TITLES)];
    int64_t now = m->s->ref.now.ns;
    if (below(m, 3) == 0 && t->count > 0) { /* to a due time, or just before or after it */
        const struct ref_render *r = &t->renders[below(m, t->count)];
        if (r->fate == REF_STORED && r->due.ns != INT64_MAX)
            clock_to(m, r->due.ns + (int64_t)below(m, 3) - 1);
        return;
    }
    clock_to(m, now + (int64_t)below(m, below(m, 10) == 0 ? 400 : 15) * NS_PER_S +
                    (int64_t)below(m, 2));
}

static void step_upkeep(struct model *m)
{
    store_time next;
    if (sync_upkeep(m->pages, &next) != ERR_OK || next.ns <= m->s->ref.now.ns)
        differ(m, "upkeep fails, or leaves something due");
    compare_rows(m);
    if (pages_check(m->pages, damage_found, m) != ERR_OK)
        differ(m, "check fails");
}

static void put_done(struct store_call *c)
{
    (void)c; /* the process is about to be killed */
}

/* Submits a put and kills the process while it is in the air: it must be there whole or not at
 * all. */
_Noreturn static void step_kill(struct model *m)
{
    static struct page_put p; /* outlives this function until the process is gone */
    static struct arena arena;
    static char text[64];
    unsigned title = (unsigned)below(m, TITLES);
    draw_put(m, title, &m->s->put);
    m->s->put.minted = false;
    m->s->put.name.tid = tid_at(m->s->ref.now.ns, 100 + m->s->step); /* a name never used before */
    m->s->put.text = 1000 + (unsigned)m->s->step;
    m->s->pending_title = title;
    m->s->pending = m->s->titles[title].count < REF_RENDERS_MAX;
    m->s->kills++;
    arena_init(&arena, 1u << 20);
    fill_put(m, title, &m->s->put, text, &p);
    p.arena = &arena;
    p.call = (struct store_call){ .home = home_here(),
                                  .done = put_done,
                                  .deadline = { .ns = INT64_MAX } };
    uint64_t ns = below(m, 3000000);
    if (m->s->pending && page_put_start(m->bucket, &p) != STORE_LATER)
        differ(m, "a put is refused at once");
    (void)nanosleep(&(struct timespec){ .tv_nsec = (long)ns }, NULL); /* somewhere in its commit */
    _exit(LIFE_AGAIN);
}

static void settle_pending(struct model *m)
{
    struct ref_title *t = &m->s->titles[m->s->pending_title];
    const struct page_which w = { .domain = m->domain,
                                  .title = str_of(title_names[m->s->pending_title]),
                                  .select = SELECT_EXACT,
                                  .name = m->s->put.name };
    struct page_render r;
    if (!m->s->pending)
        return;
    m->s->pending = false;
    struct engine_view *v = engine_view_begin(m->store.engine);
    err e = page_find(m->bucket, v, &w, &r, NULL);
    engine_view_end(&v);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        differ(m, "the put in the air gives %s", err_name(e));
    if (e == ERR_OK && ref_put(&m->s->ref, t, &m->s->put) != ERR_OK)
        differ(m, "the put in the air was stored, should have been refused");
}

/* ---- lives ---- */

static struct page_policy draw_policy(struct rng *rng)
{
    static const int64_t graces[] = { 0, 20 * NS_PER_S, 60 * NS_PER_S, 100 * NS_PER_S };
    struct page_policy p = { .kind = (enum page_policy_kind)rng_below(rng, POLICY_KINDS),
                             .historical_ttl_ns = 40 * NS_PER_S,
                             .stash_ttl_ns = 70 * NS_PER_S,
                             .ledger_ttl_ns = TTL_LEDGER };
    p.grace_ttl_ns = graces[rng_below(rng, COUNT_OF(graces))];
    p.count = 1 + (uint32_t)rng_below(rng, 3);
    p.interval_ns = (int64_t)(10 + rng_below(rng, 60)) * NS_PER_S;
    p.ttl_ns = (int64_t)rng_below(rng, 120) * NS_PER_S;
    return p;
}

/* On the committer. */
static void changes_told(void *ctx, const struct page_change *changes, unsigned count)
{
    struct model *m = ctx;
    for (unsigned i = 0; i < count; i++) {
        if (page_position_cmp(m->s->told, changes[i].position) >= 0)
            differ(m, "a change is told at a position that was passed");
        m->s->told = changes[i].position;
    }
}

static void pages_begin(struct model *m)
{
    struct err_note note = { "" };
    const struct page_bucket_opts opts = { .name = "page",
                                           .policy = m->s->ref.policy,
                                           .codec = (enum page_codec)below(m, 3) };
    const struct pages_opts all = { m->store.engine, &m->clock.clock, rng_next(&m->s->rng), &opts,
                                    1 };
    if (pages_new(&all, &m->pages, &note) != ERR_OK)
        differ(m, "pages_new: %s", note.text);
    const struct page_follower follower = { .told = changes_told, .ctx = m, .home = home_here() };
    page_store_follow(pages_store(m->pages), &follower);
    m->bucket = pages_find(m->pages, STR("page"));
    if (pages_domain(m->pages, STR("en.example.test"), &m->domain) != ERR_OK)
        differ(m, "pages_domain fails");
}

/* Another policy comes into force while the store runs. */
static void step_policy(struct model *m)
{
    struct err_note note = { "" };
    struct pages_policy one = { .bucket = STR("page"), .policy = draw_policy(&m->s->rng) };
    if (below(m, 3) == 0) /* some fields of it stand in no row */
        one.policy.grace_ttl_ns = m->s->ref.policy.grace_ttl_ns;
    if (pages_policies(m->pages, &one, 1, NULL, &note) != ERR_OK)
        differ(m, "pages_policies: %s", note.text);
    ref_policy(&m->s->ref, m->s->titles, TITLES, &one.policy);
    m->s->policies++;
}

static int life(struct model *m)
{
    struct shared *s = m->s;
    fake_clock_init(&m->clock, s->ref.now.ns);
    model_store_open(&m->store, &m->clock.clock);
    pages_begin(m); /* with the policy that was, to see what a put in the air became */
    if (page_position_cmp(s->told, page_store_position(pages_store(m->pages))) > 0)
        differ(m, "what was told is behind what is on disk");
    settle_pending(m);
    clock_to(m, s->ref.now.ns + 1); /* the store's clock does not stand over a start */
    if (s->step > 0 && below(m, 2) == 0) {
        struct page_policy p = draw_policy(&s->rng);
        ref_policy(&s->ref, s->titles, TITLES, &p);
        pages_free(&m->pages);
        s->told = (struct page_position){ .n = 0 }; /* no store begins anew in one life */
        pages_begin(m);
        s->policies++;
    }
    compare(m);
    bool again = false;
    while (s->step < s->steps && !again) {
        uint64_t what = below(m, 100);
        s->step++;
        if (what < 45)
            step_put(m);
        else if (what < 65)
            step_order(m);
        else if (what < 88)
            step_clock(m);
        else if (what < 95)
            step_upkeep(m);
        else if (what < 97 && model_store_survives)
            step_kill(m);
        else if (what < 98)
            step_policy(m);
        else
            again = below(m, 2) == 0;
        compare(m);
    }
    if (!again || below(m, 2) == 0)
        step_upkeep(m);
    compare(m);
    s->restarts += again;
    pages_free(&m->pages);
    model_store_close(&m->store, !again);
    return again ? LIFE_AGAIN : LIFE_OVER;
}

static int live(struct model *m)
{
    int status = 0;
    if (!model_store_survives)
        return life(m);
    pid_t pid = fork();
    INVARIANT(pid >= 0);
    if (pid == 0)
        _exit(life(m));
    INVARIANT(waitpid(pid, &status, 0) == pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static int history(struct shared *s, uint64_t seed, uint64_t steps, const char *dir)
{
    struct model m = { .s = s, .store = { .dir = dir } };
    int code;
    uint64_t puts = s->puts, orders = s->orders, kills = s->kills, restarts = s->restarts,
             policies = s->policies;
    *s = (struct shared){ .seed = seed,
                          .steps = steps,
                          .puts = puts,
                          .orders = orders,
                          .kills = kills,
                          .restarts = restarts,
                          .policies = policies };
    rng_init(&s->rng, seed);
    s->ref.now.ns = T0;
    s->ref.policy = draw_policy(&s->rng);
    do
        code = live(&m);
    while (code == LIFE_AGAIN);
    if (code != LIFE_OVER)
        (void)fprintf(stderr, "model_pages: --seed %llu ended with %d at step %llu\n",
                      (unsigned long long)seed, code, (unsigned long long)s->step);
    else if (model_store_survives)
        (void)nftw(dir, forget, 16, FTW_DEPTH | FTW_PHYS);
    return code;
}

int main(int argc, char **argv)
{
    uint64_t seed = 1, histories = 20, steps = 150, seconds = UINT32_MAX, done = 0;
    char dir[256] = "";
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0        ? &seed
                           : strcmp(argv[i], "--histories") == 0 ? &histories
                           : strcmp(argv[i], "--steps") == 0     ? &steps
                           : strcmp(argv[i], "--seconds") == 0   ? &seconds
                                                                 : NULL;
        if (number != NULL ? !str_to_u64(str_of(argv[i + 1]), number)
                           : strcmp(argv[i], "--dir") != 0)
            return 2;
        if (number == NULL)
            (void)snprintf(dir, sizeof(dir), "%s", argv[i + 1]);
    }
    if (dir[0] == 0)
        (void)snprintf(dir, sizeof(dir), "model_pages.%ld", (long)getpid());
    struct shared *s =
        mmap(NULL, sizeof(*s), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    INVARIANT(s != MAP_FAILED);
    time_t end = time(NULL) + (time_t)seconds;
    for (; (histories == 0 || done < histories) && time(NULL) < end; done++, seed++)
        if (history(s, seed, steps, dir) != LIFE_OVER)
            return 1;
    (void)printf("%llu histories up to seed %llu: %llu puts, %llu orders, %llu restarts, %llu "
                 "kills, %llu policies\n",
                 (unsigned long long)done, (unsigned long long)seed - 1,
                 (unsigned long long)s->puts, (unsigned long long)s->orders,
                 (unsigned long long)s->restarts, (unsigned long long)s->kills,
                 (unsigned long long)s->policies);
    return 0;
}
