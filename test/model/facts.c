/* facts.c - see facts.h. */
#include "facts.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- keeping ---- */

static bool is_taken(const struct facts_log *log, const struct fact *f)
{
    for (unsigned i = 0; i < log->count; i++)
        if (log->facts[i].srv == f->srv && !fact_before(&log->facts[i], f) &&
            !fact_before(f, &log->facts[i]))
            return true;
    return false;
}

bool facts_add_any(struct facts_log *log, const struct fact *f)
{
    static struct page_content contents[PAGE_CONTENTS_MAX];
    char written[FACT_BYTES_MAX], again[FACT_BYTES_MAX];
    if (log->count == FACTS_MAX)
        return false;
    if (is_taken(log, f))
        return true;
    struct fact *kept = &log->facts[log->count];
    str bytes = fact_encode(f, written);
    if (fact_decode(bytes, kept, contents) != ERR_OK || kept->contents_count > 1 ||
        !str_eq(fact_encode(kept, again), bytes))
        return false;
    log->contents[log->count][0] = contents[0];
    kept->contents = log->contents[log->count];
    log->count++;
    return true;
}

bool facts_add(struct facts_log *log, const struct fact *f)
{
    bool rises = log->count == 0 || fact_before(&log->facts[log->count - 1], f);
    return rises && facts_add_any(log, f);
}

bool facts_full(const struct facts_log *logs, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (logs[i].count > FACTS_MAX - 200)
            return true;
    return false;
}

bool facts_plan(struct facts_plans *plans, const struct page_plan *plan, store_time at)
{
    if (plans->count == FACTS_PLANS_MAX)
        return false;
    plans->plans[plans->count++] = (struct title_plan){ .plan = *plan, .at = at };
    return true;
}

store_time facts_last(const struct facts_log *log)
{
    store_time last = STORE_TIME_ZERO;
    for (unsigned i = 0; i < log->count; i++)
        last = store_time_max(last, fact_arrived(&log->facts[i]));
    return last;
}

static struct title_facts facts_of(const struct facts_log *log, const struct facts_plans *plans)
{
    return (struct title_facts){ .facts = log->facts,
                                 .facts_count = log->count,
                                 .plans = plans->plans,
                                 .plans_count = plans->count,
                                 .skew_ns = plans->skew_ns,
                                 .linger_ns = plans->linger_ns };
}

err facts_derive(const struct facts_log *log, const struct facts_plans *plans, store_time now,
                 struct arena *a, struct title_memory *out)
{
    struct title_facts in = facts_of(log, plans);
    return title_derive(&in, now, a, out);
}

/* ---- changing what must not matter ---- */

static void facts_copy(struct facts_log *to, const struct facts_log *from, unsigned i)
{
    INVARIANT(to->count < FACTS_MAX);
    to->facts[to->count] = from->facts[i];
    to->contents[to->count][0] = from->contents[i][0];
    to->facts[to->count].contents = to->contents[to->count];
    to->count++;
}

struct facts_log *facts_shuffled(const struct facts_log *log, struct rng *rng)
{
    unsigned places[FACTS_MAX], count = 0;
    struct facts_log *out = malloc(sizeof(*out));
    INVARIANT(out != NULL);
    out->count = 0;
    for (unsigned i = 0; i < log->count; i++)
        places[count++] = i;
    for (unsigned i = 0; i < log->count && count < FACTS_MAX; i++)
        if (rng_below(rng, 4) == 0)
            places[count++] = i;
    for (unsigned i = count; i > 1; i--) {
        unsigned j = (unsigned)rng_below(rng, i), was = places[i - 1];
        places[i - 1] = places[j];
        places[j] = was;
    }
    for (unsigned i = 0; i < count; i++)
        facts_copy(out, log, places[i]);
    return out;
}

void facts_shuffle_plans(struct facts_plans *plans, struct rng *rng)
{
    for (unsigned i = plans->count; i > 0 && plans->count < FACTS_PLANS_MAX; i--)
        if (rng_below(rng, 3) == 0)
            plans->plans[plans->count++] = plans->plans[i - 1];
    for (unsigned i = plans->count; i > 1; i--) {
        unsigned j = (unsigned)rng_below(rng, i);
        struct title_plan was = plans->plans[i - 1];
        plans->plans[i - 1] = plans->plans[j];
        plans->plans[j] = was;
    }
}

static bool range_has(const struct title_range *r, struct page_name name)
{
    return page_name_cmp(r->low, name) <= 0 && page_name_cmp(name, r->high) <= 0;
}

/* The bytes of some of the ranges go. */
static err facts_cull(struct facts_log *log, const struct title_facts *in, store_time horizon,
                      struct rng *rng)
{
    struct arena arena;
    struct title_cull cull;
    arena_init(&arena, 1u << 26);
    err e = title_cull(in, horizon, &arena, &cull);
    for (size_t i = 0; e == ERR_OK && i < cull.count; i++)
        for (unsigned j = 0; rng_below(rng, 4) != 0 && j < log->count; j++)
            if (range_has(&cull.ranges[i], log->facts[j].name) &&
                !store_time_before(cull.at, log->facts[j].at))
                log->facts[j].contents_count = 0;
    arena_fini(&arena);
    return e;
}

/* The fact that is there for those that go. */
static bool facts_leave(struct facts_log *log, const struct title_forget *forget)
{
    struct fact f;
    if (!forget->any)
        return true;
    f = title_forget_fact(forget, store_time_add(forget->horizon, 1));
    f.srv = FACTS_SRV_FORGETS;
    while (is_taken(log, &f))
        f.n++;
    return facts_add_any(log, &f);
}

err facts_thin(struct facts_log *log, const struct facts_plans *plans, store_time horizon,
               struct rng *rng, unsigned *forgotten)
{
    struct arena arena;
    struct title_forget forget;
    struct page_name less;
    static bool goes[FACTS_MAX];
    unsigned kept = 0;
    *forgotten = 0;
    struct title_facts in = facts_of(log, plans);
    arena_init(&arena, 1u << 26);
    err e = facts_cull(log, &in, horizon, rng);
    if (e == ERR_OK)
        e = title_forget(&in, horizon, 0, &arena, &forget);
    if (e == ERR_OK && forget.any && rng_below(rng, 3) == 0 && facts_some_name(log, rng, &less))
        title_forget_less(&in, &forget, less);
    for (unsigned i = 0; i < log->count && e == ERR_OK; i++) {
        goes[i] = rng_below(rng, 2) == 0 && title_forgets(&in, &forget, &log->facts[i]);
        *forgotten += goes[i];
    }
    const unsigned count = log->count;
    if (e == ERR_OK && !facts_leave(log, &forget))
        e = ERR_LIMIT;
    arena_fini(&arena);
    for (unsigned i = 0; i < log->count && e == ERR_OK; i++) {
        if (i < count && goes[i])
            continue;
        log->facts[kept] = log->facts[i];
        log->contents[kept][0] = log->contents[i][0];
        log->facts[kept].contents = log->contents[kept];
        kept++;
    }
    if (e == ERR_OK)
        log->count = kept;
    return e;
}

bool facts_revive(struct facts_log *log, const struct facts_log *all, struct rng *rng)
{
    bool fits = true;
    for (unsigned i = 0; i < all->count && fits; i++)
        if (rng_below(rng, 3) == 0)
            fits = facts_add_any(log, &all->facts[i]);
    return fits;
}

/* ---- drawing ---- */

bool facts_some_name(const struct facts_log *log, struct rng *rng, struct page_name *out)
{
    for (unsigned i = 0; i < 20 && log->count > 0; i++) {
        const struct fact *f = &log->facts[rng_below(rng, log->count)];
        if (f->what != FACT_PUT)
            continue;
        *out = f->name;
        return true;
    }
    return false;
}

bool facts_some_due(const struct facts_log *log, const struct facts_plans *plans, store_time now,
                    struct rng *rng, int64_t *out)
{
    struct arena arena;
    struct title_memory m;
    unsigned seen = 0;
    arena_init(&arena, 1u << 26);
    if (facts_derive(log, plans, now, &arena, &m) != ERR_OK)
        m.rows_count = m.traces_count = 0;
    for (size_t i = 0; i < m.rows_count + m.traces_count; i++) {
        bool row = i < m.rows_count;
        int64_t at = row ? m.rows[i]->r.due_at.ns : m.traces[i - m.rows_count].forget_at.ns;
        if (row && rng_below(rng, 4) == 0 && m.rows[i]->r.requested_until.ns > now.ns)
            at = m.rows[i]->r.requested_until.ns;
        if (at != INT64_MAX && rng_below(rng, ++seen) == 0)
            *out = at;
    }
    arena_fini(&arena);
    return seen > 0;
}

struct page_policy facts_draw_policy(struct rng *rng, int64_t ledger_ttl_ns)
{
    static const int64_t graces[] = { 0, 20 * NS_PER_S, 60 * NS_PER_S, 100 * NS_PER_S };
    struct page_policy p = { .kind = (enum page_policy_kind)rng_below(rng, POLICY_KINDS),
                             .historical_ttl_ns = (int64_t)(20 + rng_below(rng, 40)) * NS_PER_S,
                             .stash_ttl_ns = 70 * NS_PER_S,
                             .ledger_ttl_ns = ledger_ttl_ns };
    p.grace_ttl_ns = graces[rng_below(rng, COUNT_OF(graces))];
    p.count = 1 + (uint32_t)rng_below(rng, 3);
    p.interval_ns = (int64_t)(10 + rng_below(rng, 60)) * NS_PER_S;
    p.ttl_ns = (int64_t)rng_below(rng, 120) * NS_PER_S;
    return p;
}

void facts_draw(struct rng *rng, int64_t around_ns, struct fact *out)
{
    static struct page_content content = { .name = "html", .stored_bytes = 7, .raw_bytes = 7 };
    static const enum fact_what often[] = { FACT_PUT, FACT_PUT,   FACT_PUT,     FACT_PUT,
                                            FACT_PUT, FACT_PURGE, FACT_DELETED, FACT_SHOWN };
    struct fact f = { .what = (enum fact_what)(1 + rng_below(rng, FACT_MADE)) };
    if (rng_below(rng, 2) == 0)
        f.what = often[rng_below(rng, COUNT_OF(often))];
    f.srv = (uint32_t)rng_below(rng, 3);
    f.n = (uint32_t)rng_below(rng, 2);
    f.at.ns = around_ns + (int64_t)rng_below(rng, 100) * NS_PER_S;
    f.joined_at.ns = f.at.ns + (int64_t)rng_below(rng, 20) * NS_PER_S;
    f.said_at.ns = f.at.ns - (int64_t)rng_below(rng, 2) * (int64_t)rng_below(rng, 40) * NS_PER_S;
    f.until.ns = f.at.ns + (int64_t)rng_below(rng, 120) * NS_PER_S;
    if (f.what == FACT_PUT && rng_below(rng, 3) != 0)
        f.until = STORE_TIME_ZERO;
    f.name.rev = 1 + rng_below(rng, 4);
    f.rev_last = f.name.rev + rng_below(rng, 3);
    bool title = f.what == FACT_FENCE || (fact_is_purge(&f) && rng_below(rng, 3) == 0);
    bool revision = fact_is_mark(&f) || f.what == FACT_WORD ||
                    ((fact_is_purge(&f) || f.what == FACT_RELEASE) && rng_below(rng, 2) == 0);
    if (title)
        f.name.rev = 0;
    else if (!revision)
        f.name.tid =
            tid_make(tid_ticks((store_time){ .ns = around_ns }) + rng_below(rng, 10) * 100000000,
                     rng_below(rng, 2));
    if (f.what == FACT_PUT) {
        memset(f.digest, (int)rng_below(rng, 3), sizeof(f.digest));
        f.behind = rng_below(rng, 3) == 0 ? f.name.rev + 1 : 0;
        f.stash_until.ns = rng_below(rng, 3) == 0 ? f.until.ns : 0;
        f.contents = &content;
        f.contents_count = 1;
    }
    *out = f;
}

/* ---- comparing ---- */

struct compare {
    const struct title *a, *b;
    struct facts_difference *out;
    bool differs;
};

static void compare_fail(struct compare *c, const char *format, ...) PRINTF_LIKE(2, 3);
static void compare_fail(struct compare *c, const char *format, ...)
{
    va_list args;
    if (c->differs)
        return;
    c->differs = true;
    va_start(args, format);
    (void)vsnprintf(c->out->text, sizeof(c->out->text), format, args);
    va_end(args);
}

struct compared {
    const char *what;
    int64_t a, b;
};

static void compare_numbers(struct compare *c, const char *of, struct page_name name,
                            const struct compared *rows, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (rows[i].a != rows[i].b)
            compare_fail(c, "%s %llu/%llx: %s is %lld and %lld", of, (unsigned long long)name.rev,
                         (unsigned long long)name.tid.ticks, rows[i].what, (long long)rows[i].a,
                         (long long)rows[i].b);
}

static void compare_contents(struct compare *c, const struct page_render *a,
                             const struct page_render *b)
{
    for (unsigned i = 0; i < a->contents_count && i < b->contents_count; i++) {
        const struct page_content *x = &a->contents[i], *y = &b->contents[i];
        const struct compared rows[] = {
            { "name", strcmp(x->name, y->name), 0 },
            { "codec", x->codec, y->codec },
            { "offset", x->offset, y->offset },
            { "headers_bytes", x->headers_bytes, y->headers_bytes },
            { "stored_bytes", x->stored_bytes, y->stored_bytes },
            { "raw_bytes", x->raw_bytes, y->raw_bytes },
            { "sum", (int64_t)x->sum, (int64_t)y->sum },
        };
        compare_numbers(c, "content of", a->name, rows, COUNT_OF(rows));
    }
}

static void compare_row(struct compare *c, const struct page_row *a, const struct page_row *b)
{
    const struct compared rows[] = {
        { "rev", (int64_t)a->r.name.rev, (int64_t)b->r.name.rev },
        { "tid", tid_cmp(a->r.name.tid, b->r.name.tid), 0 },
        { "stored_at", a->r.stored_at.ns, b->r.stored_at.ns },
        { "superseded_at", a->r.superseded_at.ns, b->r.superseded_at.ns },
        { "superseded_by", (int64_t)a->r.superseded_by.rev, (int64_t)b->r.superseded_by.rev },
        { "superseded_by.tid", tid_cmp(a->r.superseded_by.tid, b->r.superseded_by.tid), 0 },
        { "out_at", a->r.out_at.ns, b->r.out_at.ns },
        { "requested_until", a->r.requested_until.ns, b->r.requested_until.ns },
        { "stash_until", a->r.stash_until.ns, b->r.stash_until.ns },
        { "hold_until", a->r.hold_until.ns, b->r.hold_until.ns },
        { "hidden", a->r.hidden, b->r.hidden },
        { "hidden_at", a->r.hidden_at.ns, b->r.hidden_at.ns },
        { "touched", a->r.made.touched, b->r.made.touched },
        { "said", a->r.made.said, b->r.made.said },
        { "asked_at", a->r.made.asked_at.ns, b->r.made.asked_at.ns },
        { "due_at", a->r.due_at.ns, b->r.due_at.ns },
        { "state", a->r.state, b->r.state },
        { "contents_count", a->r.contents_count, b->r.contents_count },
        { "policy", a->policy, b->policy },
        { "digest", memcmp(a->digest, b->digest, PAGE_DIGEST_BYTES), 0 },
        { "plain_digest", memcmp(a->plain_digest, b->plain_digest, PAGE_DIGEST_BYTES), 0 },
    };
    compare_numbers(c, "render", a->r.name, rows, COUNT_OF(rows));
    compare_contents(c, &a->r, &b->r);
}

static void compare_trace(struct compare *c, const struct page_trace *a, const struct page_trace *b)
{
    const struct compared rows[] = {
        { "rev", (int64_t)a->name.rev, (int64_t)b->name.rev },
        { "tid", tid_cmp(a->name.tid, b->name.tid), 0 },
        { "state", a->state, b->state },
        { "at", a->at.ns, b->at.ns },
        { "policy", a->policy, b->policy },
        { "superseded_at", a->superseded_at.ns, b->superseded_at.ns },
        { "superseded_by", (int64_t)a->superseded_by.rev, (int64_t)b->superseded_by.rev },
        { "superseded_by.tid", tid_cmp(a->superseded_by.tid, b->superseded_by.tid), 0 },
    };
    compare_numbers(c, "trace", a->name, rows, COUNT_OF(rows));
}

static void compare_find(struct compare *c, const struct title_which *w)
{
    struct page_row x, y;
    struct page_trace s, t;
    struct page_explanation p, q;
    err e = title_find(c->a, w, &x, &s), f = title_find(c->b, w, &y, &t);
    if (e != f)
        compare_fail(c, "find %d of %llu/%llx: %s and %s", (int)w->select,
                     (unsigned long long)w->name.rev, (unsigned long long)w->name.tid.ticks,
                     err_name(e), err_name(f));
    else if (e == ERR_OK)
        compare_row(c, &x, &y);
    else if (e == ERR_GONE)
        compare_trace(c, &s, &t);
    if (title_explain(c->a, w, &p) != ERR_OK || title_explain(c->b, w, &q) != ERR_OK)
        compare_fail(c, "explain fails");
    else if (p.state != q.state || p.stashed != q.stashed || p.held != q.held ||
             p.requested != q.requested)
        compare_fail(c, "explained as %s and %s", page_state_name(p.state),
                     page_state_name(q.state));
}

static void compare_history(struct compare *c)
{
    struct title_walk v, w;
    struct page_row x, y;
    err e, f;
    title_walk_open(&v, c->a, page_name_first, page_name_last, false);
    title_walk_open(&w, c->b, page_name_first, page_name_last, false);
    do {
        e = title_walk_alive(&v, &x);
        f = title_walk_alive(&w, &y);
        if (e != f)
            compare_fail(c, "the history of one goes on with %llu",
                         (unsigned long long)(e == ERR_OK ? x.r.name.rev : y.r.name.rev));
        else if (e == ERR_OK)
            compare_row(c, &x, &y);
    } while (e == ERR_OK && f == ERR_OK);
    title_walk_close(&v);
    title_walk_close(&w);
}

static void compare_fence(struct compare *c, struct page_name name, const struct tid *tid)
{
    bool x, y;
    store_time s = STORE_TIME_ZERO, t = STORE_TIME_ZERO;
    if (c->a->ops->fence(c->a, name.rev, tid, &x, &s) != ERR_OK ||
        c->b->ops->fence(c->b, name.rev, tid, &y, &t) != ERR_OK)
        compare_fail(c, "a fence cannot be seen");
    else if (x != y || (x && s.ns != t.ns))
        compare_fail(c, "fence over %llu: %d at %lld and %d at %lld", (unsigned long long)name.rev,
                     x, (long long)s.ns, y, (long long)t.ns);
}

bool facts_compare(const struct title *a, const struct title *b, const struct facts_log *log,
                   struct rng *rng, struct facts_difference *out)
{
    struct compare c = { .a = a, .b = b, .out = out };
    struct title_which w = { .select = SELECT_LATEST };
    INVARIANT(a->now.ns == b->now.ns);
    compare_history(&c);
    compare_find(&c, &w);
    for (unsigned i = 0; i < log->count; i++) {
        const struct fact *f = &log->facts[i];
        w = (struct title_which){ .select = SELECT_REV, .name = f->name };
        compare_find(&c, &w);
        compare_fence(&c, f->name, NULL);
        if (page_name_is_unmade(f->name))
            continue;
        compare_fence(&c, f->name, &f->name.tid);
        w.select = SELECT_EXACT;
        w.deleted_too = rng_below(rng, 2) == 0;
        compare_find(&c, &w);
    }
    for (unsigned i = 0; i < 4 && log->count > 0; i++) {
        const struct fact *f = &log->facts[rng_below(rng, log->count)];
        w = (struct title_which){ .select = SELECT_SERVED_AT, .at = f->at };
        w.at.ns += (int64_t)rng_below(rng, 3) - 1;
        compare_find(&c, &w);
        w.select = SELECT_CURRENT_AT;
        compare_find(&c, &w);
    }
    return !c.differs;
}

void facts_print(const struct facts_log *log, const struct facts_plans *plans)
{
    for (unsigned i = 0; i < plans->count; i++)
        (void)fprintf(stderr, "plan %u: %s at %lld, number %u\n", i,
                      page_policy_name(plans->plans[i].plan.policy.kind),
                      (long long)plans->plans[i].at.ns, (unsigned)plans->plans[i].plan.number);
    for (unsigned i = 0; i < log->count; i++) {
        const struct fact *f = &log->facts[i];
        (void)fprintf(stderr,
                      "%-15s %llu/%llx.%llx srv %u at %lld.%u said %lld until %lld "
                      "stash %lld behind %llu last %llu\n",
                      fact_name(f->what), (unsigned long long)f->name.rev,
                      (unsigned long long)f->name.tid.ticks,
                      (unsigned long long)(f->name.tid.low & 0xff), (unsigned)f->srv,
                      (long long)fact_arrived(f).ns, (unsigned)f->n, (long long)f->said_at.ns,
                      (long long)f->until.ns, (long long)f->stash_until.ns,
                      (unsigned long long)f->behind, (unsigned long long)f->rev_last);
    }
}
