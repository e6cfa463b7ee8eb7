/* derive.c - sorting and folding. Policies come into force between the facts; before each of both,
 * what is due by then is culled. */
#include "title/derive.h"

#include "title/step.h"

#include <stdlib.h>

static int pointed_cmp(const void *a, const void *b)
{
    return fact_cmp(*(const struct fact *const *)a, *(const struct fact *const *)b);
}

static bool plan_is_first(const struct title_plan *p, const struct fact *f)
{
    store_time at = fact_arrived(f);
    return store_time_before(p->at, at) || (p->at.ns == at.ns && p->n <= f->n);
}

struct fold {
    const struct title_facts *in;
    struct title_memory *out;
    size_t plans_done;
};

static err fold_plan(struct fold *fold)
{
    const struct title_plan *p = &fold->in->plans[fold->plans_done++];
    err e = title_memory_expire(fold->out, p->at);
    return e == ERR_OK ? title_memory_replan(fold->out, &p->plan) : e;
}

static err fold_fact(struct fold *fold, const struct fact *f)
{
    const struct title_facts *in = fold->in;
    struct title_part part = { .more = false };
    err e = ERR_OK;
    while (e == ERR_OK && fold->plans_done < in->plans_count &&
           plan_is_first(&in->plans[fold->plans_done], f))
        e = fold_plan(fold);
    if (e == ERR_OK)
        e = title_memory_expire(fold->out, fact_arrived(f));
    do {
        part.resumed = part.more;
        part.from = part.next;
        if (e == ERR_OK)
            e = title_step(&fold->out->title, f, &part);
    } while (e == ERR_OK && part.more);
    return e;
}

static err fold_rest(struct fold *fold, store_time now)
{
    const struct title_facts *in = fold->in;
    err e = ERR_OK;
    while (e == ERR_OK && fold->plans_done < in->plans_count &&
           !store_time_before(now, in->plans[fold->plans_done].at))
        e = fold_plan(fold);
    return e == ERR_OK ? title_memory_expire(fold->out, now) : e;
}

err title_derive(const struct title_facts *in, store_time now, struct arena *a,
                 struct title_memory *out)
{
    INVARIANT(in->plans_count > 0);
    struct fold fold = { .in = in, .out = out, .plans_done = 1 };
    const struct fact **sorted = arena_calloc(a, in->facts_count + 1, sizeof(*sorted));
    if (sorted == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < in->facts_count; i++)
        sorted[i] = &in->facts[i];
    qsort(sorted, in->facts_count, sizeof(*sorted), pointed_cmp);
    title_memory_init(out, a, &in->plans[0].plan);
    err e = ERR_OK;
    for (size_t i = 0; i < in->facts_count && e == ERR_OK; i++)
        if (i == 0 || fact_cmp(sorted[i - 1], sorted[i]) != 0)
            e = fold_fact(&fold, sorted[i]);
    if (e == ERR_OK && in->facts_count > 0)
        now = store_time_max(now, fact_arrived(sorted[in->facts_count - 1]));
    return e == ERR_OK ? fold_rest(&fold, now) : e;
}
