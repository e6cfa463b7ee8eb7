/* derive.c - folds facts into rows: title_derive and title_stamp of derive.h. Pure.
 *
 * Policies come into force between the facts. Before each fact and each policy, renders that are
 * due by then are culled.
 * Invariant: facts and policies are sorted totally, and facts that are equal are stepped once. So
 * the result does not depend on how a store gives them. */
#include "title/derive.h"

#include "title/forgotten.h"
#include "title/step.h"

#include <stdlib.h>
#include <string.h>

/* ---- order ---- */

static int pointed_cmp(const void *a, const void *b)
{
    return fact_cmp(*(const struct fact *const *)a, *(const struct fact *const *)b);
}

static int number_cmp(int64_t a, int64_t b)
{
    return a == b ? 0 : a < b ? -1 : 1;
}

/* A total order, so that sorting is the same everywhere. Policies that differ in no number are the
 * same. */
static int policy_cmp(const struct page_policy *a, const struct page_policy *b)
{
    const int64_t pairs[][2] = {
        { a->kind, b->kind },
        { a->grace_ttl_ns, b->grace_ttl_ns },
        { a->historical_ttl_ns, b->historical_ttl_ns },
        { a->stash_ttl_ns, b->stash_ttl_ns },
        { a->ledger_ttl_ns, b->ledger_ttl_ns },
        { a->count, b->count },
        { a->interval_ns, b->interval_ns },
        { a->ttl_ns, b->ttl_ns },
    };
    int cmp = 0;
    for (unsigned i = 0; i < COUNT_OF(pairs) && cmp == 0; i++)
        cmp = number_cmp(pairs[i][0], pairs[i][1]);
    return cmp;
}

static int plan_cmp(const void *a, const void *b)
{
    const struct title_plan *x = *(const struct title_plan *const *)a;
    const struct title_plan *y = *(const struct title_plan *const *)b;
    int cmp = number_cmp(x->at.ns, y->at.ns);
    if (cmp == 0)
        cmp = number_cmp(x->n, y->n);
    if (cmp == 0)
        cmp = number_cmp(x->plan.number, y->plan.number);
    if (cmp == 0)
        cmp = number_cmp(x->plan.changed_at.ns, y->plan.changed_at.ns);
    return cmp != 0 ? cmp : policy_cmp(&x->plan.policy, &y->plan.policy);
}

/* A policy of the same instant and count comes before the fact. */
static bool plan_is_first(const struct title_plan *p, const struct fact *f)
{
    store_time at = fact_arrived(f);
    return store_time_before(p->at, at) || (p->at.ns == at.ns && p->n <= f->n);
}

/* ---- folding ---- */

/* One fold under way; its arrays lie in the caller's arena. */
struct fold {
    const struct title_facts *in;
    struct title_memory *out;
    const struct fact **facts; /* in their order, each once, without forgotten puts */
    size_t facts_count;
    const struct title_plan **plans; /* in their order */
    size_t plans_done; /* plans in force so far; the first is in force from the beginning */
};

/* Leaves out forgotten puts, sorts, and drops repeated facts. */
static err fold_sort(struct fold *fold, struct arena *a)
{
    const struct title_facts *in = fold->in;
    struct title_forgotten gone;
    size_t count = 0;
    err e = forgotten_find(in, a, &gone);
    fold->facts = arena_calloc(a, in->facts_count + 1, sizeof(fold->facts[0]));
    fold->plans = arena_calloc(a, in->plans_count, sizeof(fold->plans[0]));
    if (e != ERR_OK || fold->facts == NULL || fold->plans == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < in->facts_count; i++)
        if (!forgotten_has(&gone, &in->facts[i]))
            fold->facts[count++] = &in->facts[i];
    for (size_t i = 0; i < in->plans_count; i++)
        fold->plans[i] = &in->plans[i];
    qsort(fold->facts, count, sizeof(fold->facts[0]), pointed_cmp);
    qsort(fold->plans, in->plans_count, sizeof(fold->plans[0]), plan_cmp);
    for (size_t i = 0; i < count; i++)
        if (i == 0 || fact_cmp(fold->facts[i - 1], fold->facts[i]) != 0)
            fold->facts[fold->facts_count++] = fold->facts[i];
    return ERR_OK;
}

static err fold_plan(struct fold *fold)
{
    const struct title_plan *p = fold->plans[fold->plans_done++];
    err e = title_memory_expire(fold->out, p->at);
    return e == ERR_OK ? title_memory_replan(fold->out, &p->plan) : e;
}

/* Steps a fact to its last part. A put that was ignored because its name has other bytes is a
 * conflict. */
static err fold_step(struct fold *fold, const struct fact *f)
{
    struct title *t = &fold->out->title;
    struct title_part part = { .more = false };
    struct page_row row;
    err e;
    do {
        part.resumed = part.more;
        part.from = part.next;
        e = title_step(t, f, &part);
    } while (e == ERR_OK && part.more);
    if (e == ERR_OK && part.ignored && title_get(t, f->name, &row) == ERR_OK)
        fold->out->conflicts += memcmp(row.digest, f->digest, sizeof(f->digest)) != 0;
    return e;
}

/* Before the fact come policies, and renders that fell due. */
static err fold_fact(struct fold *fold, const struct fact *f)
{
    err e = ERR_OK;
    while (e == ERR_OK && fold->plans_done < fold->in->plans_count &&
           plan_is_first(fold->plans[fold->plans_done], f))
        e = fold_plan(fold);
    if (e == ERR_OK)
        e = title_memory_expire(fold->out, fact_arrived(f));
    return e == ERR_OK ? fold_step(fold, f) : e;
}

/* From the last fact to now. */
static err fold_rest(struct fold *fold, store_time now)
{
    err e = ERR_OK;
    while (e == ERR_OK && fold->plans_done < fold->in->plans_count &&
           !store_time_before(now, fold->plans[fold->plans_done]->at))
        e = fold_plan(fold);
    return e == ERR_OK ? title_memory_expire(fold->out, now) : e;
}

err title_derive(const struct title_facts *in, store_time now, struct arena *a,
                 struct title_memory *out)
{
    INVARIANT(in->plans_count > 0);
    struct fold fold = { .in = in, .out = out, .plans_done = 1 };
    err e = fold_sort(&fold, a);
    if (e != ERR_OK)
        return e;
    title_memory_init(out, a, &fold.plans[0]->plan);
    out->title.skew_ns = in->skew_ns;
    out->title.linger_ns = in->linger_ns;
    for (size_t i = 0; i < fold.facts_count && e == ERR_OK; i++)
        e = fold_fact(&fold, fold.facts[i]);
    /* A title is never derived as of an instant before its latest fact: a server whose clock is
     * behind sees the facts of others. */
    for (size_t i = 0; i < in->facts_count; i++)
        now = store_time_max(now, fact_arrived(&in->facts[i]));
    return e == ERR_OK ? fold_rest(&fold, now) : e;
}

store_time title_stamp(const struct title_facts *in, store_time clock, store_time last)
{
    for (size_t i = 0; i < in->facts_count; i++)
        last = store_time_max(last, fact_arrived(&in->facts[i]));
    return store_time_max(clock, store_time_add(last, 1));
}
