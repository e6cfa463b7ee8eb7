/* forget.c - which facts no longer matter.
 *
 * Why the lowest names: a render is superseded by a greater one, pushed out of its group by a
 * greater one, made the latest again when a greater one is purged. So a put matters to renders of
 * lesser names, and to no other; and one that is forgotten does not matter for itself. */
#include "title/derive.h"

#include "title/steps.h"

static bool is_behind(const struct title_forget *f, const struct fact *fact)
{
    return !store_time_before(f->horizon, fact_arrived(fact));
}

/* Is the render of this name neither stored nor traced? */
static bool name_is_forgotten(const struct title_memory *m, struct page_name name)
{
    struct page_name known;
    return m->title.ops->greatest_known(&m->title, name, name, &known) == ERR_NOT_FOUND;
}

static void find_first_kept(const struct title_facts *in, struct title_forget *f)
{
    f->first_kept = NULL;
    f->least_said_at = STORE_TIME_NEVER;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *put = &in->facts[i];
        if (put->what != FACT_PUT || title_forgets(in, f, put))
            continue;
        f->least_said_at = store_time_min(f->least_said_at, put->said_at);
        if (f->first_kept == NULL || fact_before(put, f->first_kept))
            f->first_kept = put;
    }
}

/* The title at the horizon: what comes later may pin what was still there. */
static err derive_behind(const struct title_facts *in, const struct title_forget *f,
                         struct arena *a, struct title_memory *out)
{
    struct title_facts behind = *in;
    struct fact *facts = arena_calloc(a, in->facts_count + 1, sizeof(*facts));
    if (facts == NULL)
        return ERR_LIMIT;
    behind.facts = facts;
    behind.facts_count = 0;
    for (size_t i = 0; i < in->facts_count; i++)
        if (is_behind(f, &in->facts[i]))
            facts[behind.facts_count++] = in->facts[i];
    return title_derive(&behind, f->horizon, a, out);
}

err title_forget(const struct title_facts *in, store_time horizon, struct arena *a,
                 struct title_forget *out)
{
    struct title_memory m;
    struct page_name least = page_name_last;
    *out = (struct title_forget){ .horizon = horizon };
    err e = derive_behind(in, out, a, &m);
    if (e != ERR_OK)
        return e;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *put = &in->facts[i];
        if (put->what == FACT_PUT && page_name_cmp(put->name, least) < 0 &&
            (!is_behind(out, put) || !name_is_forgotten(&m, put->name)))
            least = put->name;
    }
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *put = &in->facts[i];
        if (put->what != FACT_PUT || page_name_cmp(put->name, least) >= 0)
            continue;
        if (!out->any || page_name_cmp(put->name, out->up_to) > 0)
            out->up_to = put->name;
        out->any = true;
    }
    find_first_kept(in, out);
    return ERR_OK;
}

void title_forget_less(const struct title_facts *in, struct title_forget *f, struct page_name up_to)
{
    if (f->any && page_name_cmp(up_to, f->up_to) < 0)
        f->up_to = up_to;
    find_first_kept(in, f);
}

/* Does every later put that this purge's fence refuses meet the other one's, too? */
static bool is_covered(const struct title_forget *f, const struct fact *purge,
                       const struct fact *other)
{
    struct page_name low, high, other_low, other_high;
    if ((!fact_is_purge(other) && other->what != FACT_FENCE) || !is_behind(f, other) ||
        fact_cmp(purge, other) >= 0 || store_time_before(other->at, purge->at))
        return false;
    title_range(purge->name, &low, &high);
    title_range(other->name, &other_low, &other_high);
    return page_name_cmp(other_low, low) <= 0 && page_name_cmp(high, other_high) <= 0 &&
           (f->first_kept == NULL || fact_before(other, f->first_kept));
}

static bool purge_is_covered(const struct title_facts *in, const struct title_forget *f,
                             const struct fact *purge)
{
    for (size_t i = 0; i < in->facts_count; i++)
        if (is_covered(f, purge, &in->facts[i]))
            return true;
    return false;
}

bool title_forgets(const struct title_facts *in, const struct title_forget *f,
                   const struct fact *fact)
{
    struct page_name low, high;
    if (!is_behind(f, fact))
        return false;
    title_range(fact->name, &low, &high);
    if (fact_is_mark(fact))
        high = page_name_high(fact->rev_last);
    bool of_forgotten = f->any && page_name_cmp(high, f->up_to) <= 0;
    if (fact->what == FACT_PUT)
        return of_forgotten;
    if (fact_is_purge(fact) || fact->what == FACT_FENCE)
        return purge_is_covered(in, f, fact);
    bool before_all = f->first_kept == NULL || fact_before(fact, f->first_kept);
    if (fact_is_mark(fact) && store_time_before(f->least_said_at, fact->said_at))
        before_all = false;
    return before_all || of_forgotten;
}
