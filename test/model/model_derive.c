/* Goal: derive says the same of a set of facts in whatever order they come, however often, and
 * after any part of what may be culled and forgotten went or came back; and it says what the rules
 * say. Method: random facts of three servers, of all kinds and around the same names and instants,
 * such as no store would have made together; with policy changes, clocks that differ and grouped
 * policies. Compared with themselves, changed in what must not matter, and with a naive model
 * (naive.h), at the latest fact and at each later instant at which something ends. Facts that fail
 * are made fewer until each is needed, and printed.
 *
 *   model_derive [--seed N] [--histories N] [--seconds N]     0 histories: without end */
#include "facts.h"
#include "naive.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)
#define TTL_LEDGER (1000 * NS_PER_S)
enum { TRIES = 3, INSTANTS = 8 };

struct story {
    struct facts_log log;
    struct facts_plans plans;
    struct rng rng;
    uint64_t forgotten, sure;
    struct facts_difference why;
};

static bool fails(struct story *s, const char *format, ...) PRINTF_LIKE(2, 3);
static bool fails(struct story *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    (void)vsnprintf(s->why.text, sizeof(s->why.text), format, args);
    va_end(args);
    return false;
}

/* ---- itself, changed ---- */

struct derived {
    struct arena arena;
    struct title_memory m;
};

static void derive(struct derived *d, const struct facts_log *log, const struct facts_plans *plans,
                   store_time now)
{
    arena_init(&d->arena, 1u << 26);
    INVARIANT(facts_derive(log, plans, now, &d->arena, &d->m) == ERR_OK);
}

static bool holds_same(struct story *s, const struct facts_log *other,
                       const struct facts_plans *plans, store_time now, const char *what)
{
    struct derived a, b;
    struct facts_difference d = { "" };
    derive(&a, &s->log, &s->plans, now);
    derive(&b, other, plans, now);
    bool same = facts_compare(&a.m.title, &b.m.title, &s->log, &s->rng, &d);
    arena_fini(&a.arena);
    arena_fini(&b.arena);
    return same || fails(s, "%s, at %lld: %s", what, (long long)(now.ns - T0), d.text);
}

static bool holds_shuffled(struct story *s)
{
    struct facts_log *shuffled = facts_shuffled(&s->log, &s->rng);
    struct facts_plans plans = s->plans;
    facts_shuffle_plans(&plans, &s->rng);
    bool same = holds_same(s, shuffled, &plans, facts_last(&s->log), "in any order");
    free(shuffled);
    return same;
}

static store_time step_on(const struct story *s, store_time now, struct rng *rng)
{
    int64_t due;
    if (!facts_some_due(&s->log, &s->plans, now, rng, &due))
        return store_time_add(now, 1);
    due += (int64_t)rng_below(rng, 3) - 1; /* just before, at, just after */
    return store_time_max(now, (store_time){ .ns = due });
}

/* Some of what is behind the horizon is not known yet: such puts are asked for later than that. */
static struct facts_log *take_known(const struct story *s, store_time horizon, struct rng *rng)
{
    struct facts_log *known = calloc(1, sizeof(*known));
    INVARIANT(known != NULL);
    for (unsigned i = 0; i < s->log.count; i++) {
        const struct fact *f = &s->log.facts[i];
        bool may_come = store_time_before(horizon, fact_arrived(f)) &&
                        (f->what != FACT_PUT || !store_time_before(f->said_at, horizon));
        if (!may_come || rng_below(rng, 2) == 0)
            INVARIANT(facts_add_any(known, f));
    }
    return known;
}

static bool holds_thinned(struct story *s)
{
    store_time now = { .ns = T0 },
               horizon = { .ns = T0 + (int64_t)rng_below(&s->rng, 200) * NS_PER_S };
    struct facts_log *thin = take_known(s, horizon, &s->rng);
    bool same = true;
    for (unsigned round = 0; round < 3; round++) {
        unsigned forgotten;
        INVARIANT(facts_thin(thin, &s->plans, horizon, &s->rng, &forgotten) == ERR_OK);
        s->forgotten += forgotten;
        for (unsigned i = 0; i < s->log.count; i++) /* what was not known comes */
            if (store_time_before(horizon, fact_arrived(&s->log.facts[i])))
                INVARIANT(facts_add_any(thin, &s->log.facts[i]));
        if (rng_below(&s->rng, 2) == 0)
            INVARIANT(facts_revive(thin, &s->log, &s->rng));
        now = store_time_max(now, store_time_add(horizon, 1));
        if (round < 2)
            horizon.ns += (int64_t)rng_below(&s->rng, 1500) * NS_PER_S;
    }
    now = store_time_max(now, facts_last(&s->log));
    for (unsigned i = 0; i < INSTANTS && same; i++) {
        same = holds_same(s, thin, &s->plans, now, "what is left");
        now = step_on(s, now, &s->rng);
    }
    free(thin);
    return same;
}

/* ---- what the rules say ---- */

struct pair {
    const char *what;
    int64_t a, b;
};

static bool holds_pairs(struct story *s, struct page_name name, const struct pair *pairs,
                        unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (pairs[i].a != pairs[i].b)
            return fails(s, "the rules, of %llu/%llx: %s is %lld, and should be %lld",
                         (unsigned long long)name.rev, (unsigned long long)name.tid.ticks,
                         pairs[i].what, (long long)pairs[i].a, (long long)pairs[i].b);
    return true;
}

static bool holds_row(struct story *s, const struct page_row *row, const struct naive_render *r)
{
    const struct pair pairs[] = {
        { "stored", NAIVE_STORED, r->fate },
        { "stored_at", row->r.stored_at.ns, r->stored.ns },
        { "superseded_at", row->r.superseded_at.ns, r->superseded.ns },
        { "superseded_by", (int64_t)row->r.superseded_by.rev, (int64_t)r->by.rev },
        { "superseded_by.tid", tid_cmp(row->r.superseded_by.tid, r->by.tid), 0 },
        { "out_at", row->r.out_at.ns, r->out.ns },
        { "requested_until", row->r.requested_until.ns, r->requested.ns },
        { "stash_until", row->r.stash_until.ns, r->stashed.ns },
        { "hold_until", row->r.hold_until.ns, r->held.ns },
        { "due_at", row->r.due_at.ns, r->due.ns },
        { "hidden", row->r.hidden, r->hidden },
        { "hidden_at", row->r.hidden_at.ns, r->hidden_at.ns },
        { "said_at", row->said_at.ns, r->said.ns },
        { "touched", row->r.made.touched, r->made.touched },
        { "digest", memcmp(row->digest, r->put->digest, sizeof(row->digest)), 0 },
    };
    return holds_pairs(s, row->r.name, pairs, COUNT_OF(pairs));
}

static bool holds_trace(struct story *s, const struct page_trace *t, const struct naive_render *r)
{
    const struct pair pairs[] = {
        { "gone", t->state, r->fate == NAIVE_PURGED ? PAGE_PURGED : PAGE_CULLED },
        { "gone at", t->at.ns, r->gone_at.ns },
        { "gone by policy", t->policy, r->policy },
        { "superseded_at", t->superseded_at.ns, r->superseded.ns },
        { "superseded_by", (int64_t)t->superseded_by.rev, (int64_t)r->by.rev },
        { "superseded_by.tid", tid_cmp(t->superseded_by.tid, r->by.tid), 0 },
    };
    return r->fate != NAIVE_STORED ? holds_pairs(s, t->name, pairs, COUNT_OF(pairs))
                                   : fails(s, "the rules: %llu is gone and should be there",
                                           (unsigned long long)t->name.rev);
}

static bool holds_name(struct story *s, const struct title_memory *m, const struct naive *n,
                       struct page_name name)
{
    const struct title_which w = { .select = SELECT_EXACT, .name = name, .deleted_too = true };
    const struct naive_render *r = naive_find(n, name);
    struct page_row row;
    struct page_trace trace;
    err e = title_get(&m->title, name, &row);
    if (e == ERR_NOT_FOUND)
        e = title_find(&m->title, &w, &row, &trace) == ERR_GONE ? ERR_GONE : ERR_NOT_FOUND;
    if ((e == ERR_NOT_FOUND) != (r == NULL))
        return fails(s, "the rules: %llu/%llx is %s, and should be %s",
                     (unsigned long long)name.rev, (unsigned long long)name.tid.ticks, err_name(e),
                     r == NULL ? "unknown" : "known");
    if (e == ERR_OK)
        return holds_row(s, &row, r);
    return e != ERR_GONE || holds_trace(s, &trace, r);
}

static bool holds_latest(struct story *s, const struct title_memory *m, const struct naive *n)
{
    const struct naive_render *r = naive_newest(n);
    const struct title_which w = { .select = SELECT_LATEST };
    struct page_row row;
    bool has = title_find(&m->title, &w, &row, NULL) == ERR_OK;
    bool should = r != NULL && r->superseded.ns == INT64_MAX;
    if (has != should || (has && page_name_cmp(row.r.name, r->name) != 0))
        return fails(s, "the rules: the latest is %llu, and should be %llu",
                     has ? (unsigned long long)row.r.name.rev : 0,
                     should ? (unsigned long long)r->name.rev : 0);
    return m->conflicts == n->conflicts || fails(s, "the rules: conflicts are miscounted");
}

/* The earliest put of the greatest name; and all that is no put. */
static const struct fact *take_acts(const struct facts_log *log, struct fact *acts, size_t *count)
{
    const struct fact *first = NULL;
    *count = 0;
    for (unsigned i = 0; i < log->count; i++) {
        const struct fact *f = &log->facts[i];
        if (f->what != FACT_PUT) {
            acts[(*count)++] = *f;
            continue;
        }
        int cmp = first == NULL ? 1 : page_name_cmp(f->name, first->name);
        if (cmp > 0 || (cmp == 0 && fact_cmp(f, first) < 0))
            first = f;
    }
    return first;
}

/* Derived of the newest put and what is no put: is the latest the same as derived of all? */
static bool is_same_alone(const struct title_memory *m, const struct title_facts *in)
{
    const struct title_which w = { .select = SELECT_LATEST };
    struct page_row row, alone;
    struct title_memory own;
    struct arena a;
    arena_init(&a, 1u << 26);
    bool same = title_derive(in, m->title.now, &a, &own) == ERR_OK &&
                title_find(&m->title, &w, &row, NULL) == ERR_OK &&
                title_find(&own.title, &w, &alone, NULL) == ERR_OK &&
                page_name_cmp(row.r.name, alone.r.name) == 0 &&
                row.r.stored_at.ns == alone.r.stored_at.ns &&
                row.r.due_at.ns == alone.r.due_at.ns &&
                row.r.stash_until.ns == alone.r.stash_until.ns &&
                memcmp(row.digest, alone.digest, sizeof row.digest) == 0;
    arena_fini(&a);
    return same;
}

static bool holds_sure(struct story *s, const struct title_memory *m)
{
    static struct fact acts[FACTS_MAX];
    struct title_facts in = { .facts = acts,
                              .plans = s->plans.plans,
                              .plans_count = s->plans.count };
    const struct title_which w = { .select = SELECT_LATEST };
    struct page_row row;
    const struct fact *put = take_acts(&s->log, acts, &in.facts_count);
    if (put == NULL || !title_is_surely_latest(&in, put))
        return true;
    s->sure++;
    acts[in.facts_count++] = *put;
    in.skew_ns = s->plans.skew_ns;
    in.linger_ns = s->plans.linger_ns;
    if (!is_same_alone(m, &in))
        return fails(s, "%llu is another one by itself", (unsigned long long)put->name.rev);
    return (title_find(&m->title, &w, &row, NULL) == ERR_OK && row.r.stored_at.ns == put->at.ns &&
            page_name_cmp(row.r.name, put->name) == 0) ||
           fails(s, "%llu is surely the latest, and is not", (unsigned long long)put->name.rev);
}

static bool holds_rules_at(struct story *s, store_time now)
{
    static struct naive n;
    struct derived d;
    const struct title_facts in = { .facts = s->log.facts,
                                    .facts_count = s->log.count,
                                    .plans = s->plans.plans,
                                    .plans_count = s->plans.count,
                                    .skew_ns = s->plans.skew_ns,
                                    .linger_ns = s->plans.linger_ns };
    INVARIANT(naive_derive(&n, &in, now));
    derive(&d, &s->log, &s->plans, now);
    bool holds = holds_latest(s, &d.m, &n) && holds_sure(s, &d.m);
    for (unsigned i = 0; i < s->log.count && holds; i++)
        if (!page_name_is_unmade(s->log.facts[i].name))
            holds = holds_name(s, &d.m, &n, s->log.facts[i].name);
    arena_fini(&d.arena);
    return holds;
}

static bool holds_rules(struct story *s)
{
    store_time now = facts_last(&s->log);
    bool holds = true;
    for (unsigned i = 0; i < INSTANTS && holds; i++) {
        holds = holds_rules_at(s, now);
        now = step_on(s, now, &s->rng);
    }
    return holds;
}

static bool holds(struct story *s, uint64_t seed)
{
    bool all = true;
    for (unsigned i = 0; i < TRIES && all; i++) {
        rng_init(&s->rng, seed + i);
        all = holds_rules(s) && holds_shuffled(s) && holds_thinned(s);
    }
    return all;
}

/* ---- stories ---- */

static void draw_plans(struct story *s, struct rng *rng)
{
    static const int64_t skews_s[] = { 0, 0, 1, 10, 30 };
    struct page_plan plan = { .policy = facts_draw_policy(rng, TTL_LEDGER), .number = 1 };
    s->plans.count = 0;
    s->plans.skew_ns = skews_s[rng_below(rng, COUNT_OF(skews_s))] * NS_PER_S;
    s->plans.linger_ns = s->plans.skew_ns + (s->plans.skew_ns > 0 ? NS_PER_S : 0);
    INVARIANT(facts_plan(&s->plans, &plan, (store_time){ .ns = T0 - 1 }));
    for (int64_t at_s = 0; rng_below(rng, 2) == 0 && s->plans.count < 4;) {
        at_s += (int64_t)rng_below(rng, 60);
        plan.policy = facts_draw_policy(rng, TTL_LEDGER);
        plan.number++;
        plan.changed_at.ns = T0 + at_s * NS_PER_S;
        INVARIANT(facts_plan(&s->plans, &plan, plan.changed_at));
    }
}

/* Pins are of what was put, most often; a name is put twice now and then. */
static void draw_name(const struct story *s, struct rng *rng, struct fact *f)
{
    struct page_name name;
    bool exact = !page_name_is_unmade(f->name);
    uint64_t one_of = f->what == FACT_PUT ? 6 : fact_is_purge(f) ? 2 : 1;
    if (exact && rng_below(rng, one_of) == 0 && facts_some_name(&s->log, rng, &name))
        f->name = name;
}

/* Servers hear the same again. */
static void draw_again(const struct story *s, struct rng *rng, struct fact *f)
{
    const struct fact *was = &s->log.facts[rng_below(rng, s->log.count)];
    if (!fact_is_mark(was) || rng_below(rng, 2) == 0)
        return;
    *f = *was;
    f->at.ns += (int64_t)rng_below(rng, 4) * NS_PER_S;
    f->n = (uint32_t)rng_below(rng, 4);
    f->srv = (uint32_t)rng_below(rng, 3);
    f->said_at.ns += (int64_t)rng_below(rng, 4) * NS_PER_S;
}

static void draw_story(struct story *s, uint64_t seed)
{
    struct rng rng;
    rng_init(&rng, seed);
    draw_plans(s, &rng);
    s->log.count = 0;
    unsigned count = 4 + (unsigned)rng_below(&rng, rng_below(&rng, 3) == 0 ? 90 : 30);
    for (unsigned i = 0; i < count; i++) {
        struct fact f;
        facts_draw(&rng, T0, &f);
        draw_name(s, &rng, &f);
        if (s->log.count > 0)
            draw_again(s, &rng, &f);
        INVARIANT(facts_add_any(&s->log, &f));
    }
}

/* Without so many facts from there on. */
static void story_without(const struct story *s, unsigned from, unsigned count, struct story *out)
{
    out->plans = s->plans;
    out->log.count = 0;
    for (unsigned i = 0; i < s->log.count; i++)
        if (i < from || i >= from + count)
            INVARIANT(facts_add_any(&out->log, &s->log.facts[i]));
}

/* As long as it fails without some of its facts, it goes on without them. */
static void shrink(struct story *s, uint64_t seed)
{
    struct story *less = calloc(1, sizeof(*less)), *kept = calloc(1, sizeof(*kept));
    INVARIANT(less != NULL && kept != NULL);
    for (unsigned count = s->log.count / 2; count > 0;) {
        bool smaller = false;
        for (unsigned from = 0; from < s->log.count;) {
            story_without(s, from, count, less);
            if (holds(less, seed)) {
                from += count;
                continue;
            }
            smaller = true;
            story_without(less, 0, 0, kept);
            s->why = less->why;
            s->log.count = 0;
            for (unsigned i = 0; i < kept->log.count; i++)
                INVARIANT(facts_add_any(&s->log, &kept->log.facts[i]));
        }
        count = count > 1 ? count / 2 : smaller;
    }
    free(less);
    free(kept);
}

static void run(struct story *s, uint64_t seed)
{
    draw_story(s, seed);
    if (holds(s, seed))
        return;
    (void)fprintf(stderr, "model_derive: --seed %llu --histories 1: %s\n", (unsigned long long)seed,
                  s->why.text);
    shrink(s, seed);
    (void)fprintf(stderr, "fewer facts, skew %lld: %s\n", (long long)s->plans.skew_ns, s->why.text);
    facts_print(&s->log, &s->plans);
    exit(1);
}

int main(int argc, char **argv)
{
    static struct story s;
    uint64_t seed = 1, histories = 1000, seconds = UINT32_MAX, done = 0;
    for (int i = 1; i + 1 < argc; i += 2) {
        uint64_t *number = strcmp(argv[i], "--seed") == 0        ? &seed
                           : strcmp(argv[i], "--histories") == 0 ? &histories
                           : strcmp(argv[i], "--seconds") == 0   ? &seconds
                                                                 : NULL;
        if (number == NULL || !str_to_u64(str_of(argv[i + 1]), number))
            return 2;
    }
    time_t end = time(NULL) + (time_t)seconds;
    for (; (histories == 0 || done < histories) && time(NULL) < end; done++, seed++)
        run(&s, seed);
    (void)printf(
        "%llu histories up to seed %llu: %llu facts forgotten, the latest sure %llu times\n",
        (unsigned long long)done, (unsigned long long)seed - 1, (unsigned long long)s.forgotten,
        (unsigned long long)s.sure);
    return 0;
}
