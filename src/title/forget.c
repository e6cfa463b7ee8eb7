/* forget.c - says which facts no longer matter, for the upkeep of stores that keep facts
 * (title_forget of derive.h). Pure.
 *
 * Why the lowest names: only a greater render supersedes a render, or pushes it out of its group.
 * Only the purge of a greater one makes it the latest again. So a put matters to renders of lesser
 * names alone; and a forgotten put does not matter for itself.
 *
 * Why a FORGOTTEN stays for puts that go: one of two deleted puts may come back. A copy that was
 * away for longer than deletions are remembered brings it. Without the other put it would be the
 * latest.
 * Invariant: a fact goes only when it is behind the horizon, and so cannot be waited for. */
#include "title/forgotten.h"
#include "title/steps.h"

/* ---- what was forgotten before ---- */

/* Pointers into the facts of in. Two walks: the first counts. */
err forgotten_find(const struct title_facts *in, struct arena *a, struct title_forgotten *out)
{
    out->count = 0;
    for (size_t i = 0; i < in->facts_count; i++)
        out->count += in->facts[i].what == FACT_FORGOTTEN;
    out->facts = arena_calloc(a, out->count + 1, sizeof(out->facts[0]));
    if (out->facts == NULL)
        return ERR_LIMIT;
    out->count = 0;
    for (size_t i = 0; i < in->facts_count; i++)
        if (in->facts[i].what == FACT_FORGOTTEN)
            out->facts[out->count++] = &in->facts[i];
    return ERR_OK;
}

/* By name and arrival: a put that came after the FORGOTTEN was made counts, whatever its name. */
static bool forgotten_covers(const struct fact *forgotten, struct page_name name, store_time at)
{
    return page_name_cmp(name, forgotten->name) <= 0 && !store_time_before(forgotten->at, at);
}

bool forgotten_has(const struct title_forgotten *g, const struct fact *fact)
{
    bool has = false;
    for (size_t i = 0; i < g->count && fact->what == FACT_PUT && !has; i++)
        has = forgotten_covers(g->facts[i], fact->name, fact->at);
    return has;
}

bool title_has_puts(const struct title_facts *in)
{
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *put = &in->facts[i];
        bool counts = put->what == FACT_PUT;
        for (size_t k = 0; k < in->facts_count && counts; k++)
            if (in->facts[k].what == FACT_FORGOTTEN)
                counts = !forgotten_covers(&in->facts[k], put->name, put->at);
        if (counts)
            return true;
    }
    return false;
}

/* ---- what may be forgotten now ---- */

static bool is_behind(store_time horizon, const struct fact *fact)
{
    return !store_time_before(horizon, fact_arrived(fact));
}

err title_derive_behind(const struct title_facts *in, const struct title_forgotten *gone,
                        store_time horizon, struct arena *a, struct title_memory *out)
{
    struct title_facts behind = *in;
    struct fact *facts = arena_calloc(a, in->facts_count + 1, sizeof(*facts));
    if (facts == NULL)
        return ERR_LIMIT;
    behind.facts = facts;
    behind.facts_count = 0;
    for (size_t i = 0; i < in->facts_count; i++)
        if (is_behind(horizon, &in->facts[i]) && !forgotten_has(gone, &in->facts[i]))
            facts[behind.facts_count++] = in->facts[i];
    return title_derive(&behind, horizon, a, out);
}

/* The least name whose trace stays, where a title keeps traces_max of them. Traces rise by name, so
 * the lowest go. */
static struct page_name find_least_trace(const struct title_memory *m, size_t traces_max)
{
    size_t count = m->traces_count;
    return traces_max == 0 || count <= traces_max ? page_name_first
                                                  : m->traces[count - traces_max].trace.name;
}

/* Is the render of this name neither stored nor traced? Traces below least do not count. */
static bool name_is_unknown(const struct title_memory *m, struct page_name name,
                            struct page_name least)
{
    struct page_name known;
    struct page_row row;
    if (m->title.ops->greatest_known(&m->title, name, name, &known) == ERR_NOT_FOUND)
        return true;
    /* A trace below least does not count, but a stored render does. */
    return page_name_cmp(name, least) < 0 && title_get(&m->title, name, &row) != ERR_OK;
}

/* Finds the earliest put that stays, and the earliest instant at which the wiki was asked for such
 * a put. Earlier pins and marks have met none of these. */
static void find_kept(const struct title_facts *in, struct title_forget *f)
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

/* The least name that stays. Names below it go, and with them all their puts; of one name an
 * earlier put may go and a later one stay. */
static struct page_name find_least(const struct title_facts *in, const struct title_forget *f,
                                   const struct title_memory *m, size_t traces_max)
{
    struct page_name least = page_name_last, traced = find_least_trace(m, traces_max);
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *put = &in->facts[i];
        if (put->what == FACT_PUT && page_name_cmp(put->name, least) < 0 &&
            !forgotten_has(&f->before, put) &&
            /* A put that is not behind the horizon stays, whatever its name. */
            (!is_behind(f->horizon, put) || !name_is_unknown(m, put->name, traced)))
            least = put->name;
    }
    return least;
}

/* The greatest name that goes. An earlier FORGOTTEN below `least` counts as well: when this one
 * reaches as far, the earlier one may go. */
static void find_up_to(const struct title_facts *in, struct title_forget *f, struct page_name least)
{
    f->up_to = page_name_first;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *fact = &in->facts[i];
        if (page_name_cmp(fact->name, least) >= 0 || page_name_cmp(fact->name, f->up_to) < 0)
            continue;
        if (fact->what == FACT_FORGOTTEN)
            f->up_to = fact->name;
        if (fact->what != FACT_PUT || forgotten_has(&f->before, fact))
            continue;
        f->up_to = fact->name;
        f->any = true;
    }
}

err title_forget(const struct title_facts *in, store_time horizon, size_t traces_max,
                 struct arena *a, struct title_forget *out)
{
    struct title_memory m;
    *out = (struct title_forget){ .horizon = horizon };
    err e = forgotten_find(in, a, &out->before);
    if (e == ERR_OK)
        e = title_derive_behind(in, &out->before, horizon, a, &m);
    if (e != ERR_OK)
        return e;
    find_up_to(in, out, find_least(in, out, &m, traces_max));
    find_kept(in, out);
    return ERR_OK;
}

/* Upkeep may delete so much at a time; the names in between stay known. */
void title_forget_less(const struct title_facts *in, struct title_forget *f, struct page_name up_to)
{
    if (f->any && page_name_cmp(up_to, f->up_to) < 0)
        f->up_to = up_to;
    find_kept(in, f);
}

/* `at` is the horizon: puts of these names that come later count again. */
struct fact title_forget_fact(const struct title_forget *f, store_time at)
{
    INVARIANT(f->any);
    return (
        struct fact){ .what = FACT_FORGOTTEN, .name = f->up_to, .at = f->horizon, .joined_at = at };
}

/* ---- one fact ---- */

/* Does the other purge do all that this one does? Every later put that this purge's fence refuses
 * meets the fence of the other, and no put that stays came between. */
static bool is_covered(const struct title_forget *f, const struct fact *purge,
                       const struct fact *other)
{
    struct page_name low, high, other_low, other_high;
    if ((!fact_is_purge(other) && other->what != FACT_FENCE) || !is_behind(f->horizon, other) ||
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

/* Is a FORGOTTEN covered by another one? Of two that say the same the later stays. */
static bool forgotten_is_covered(const struct title_forget *f, const struct fact *fact)
{
    bool covered = false;
    for (size_t i = 0; i < f->before.count && !covered; i++) {
        const struct fact *other = f->before.facts[i];
        bool same = page_name_cmp(fact->name, other->name) == 0 && fact->at.ns == other->at.ns;
        covered = same ? fact_cmp(fact, other) < 0 : forgotten_covers(other, fact->name, fact->at);
    }
    return covered;
}

/* Is all that a fact is of up to this name, and is the fact behind the instant? A mark also has to
 * be so old that no put can be hidden by it for which the wiki was asked later. */
static bool is_up_to(const struct title_facts *in, const struct fact *fact, struct page_name up_to,
                     store_time at)
{
    struct page_name low, high;
    title_range(fact->name, &low, &high);
    if (fact_is_mark(fact))
        high = page_name_high(fact->rev_last);
    return is_behind(at, fact) && page_name_cmp(high, up_to) <= 0 &&
           (!fact_is_mark(fact) ||
            !store_time_before(at, store_time_add(fact->said_at, in->skew_ns)));
}

/* Such a fact tells of forgotten renders alone. */
static bool is_of_forgotten(const struct title_facts *in, const struct title_forget *f,
                            const struct fact *fact)
{
    bool is = f->any && is_up_to(in, fact, f->up_to, f->horizon);
    for (size_t i = 0; i < f->before.count && !is; i++)
        is = is_up_to(in, fact, f->before.facts[i]->name, f->before.facts[i]->at);
    return is;
}

/* Is it a pin, mark or word that came before each put that stays? It met none of these renders, and
 * will meet none. */
static bool is_before_all(const struct title_facts *in, const struct title_forget *f,
                          const struct fact *fact)
{
    store_time said_until = store_time_add(fact->said_at, in->skew_ns);
    if (!is_behind(f->horizon, fact) ||
        (f->first_kept != NULL && !fact_before(fact, f->first_kept)))
        return false;
    /* A mark hides by when the wiki was asked, and not by when it came. */
    return !fact_is_mark(fact) || (!store_time_before(f->least_said_at, said_until) &&
                                   !store_time_before(f->horizon, said_until));
}

/* ---- marks that say the same again ---- */

static bool is_same_mark(const struct fact *a, const struct fact *b)
{
    return a->what == b->what && a->name.rev == b->name.rev && a->rev_last == b->rev_last;
}

/* The nearest mark that says the same: before this one, or after it and asked for no earlier. */
static const struct fact *find_same_mark(const struct title_facts *in, const struct fact *mark,
                                         bool after)
{
    const struct fact *found = NULL;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *f = &in->facts[i];
        int order = after ? fact_cmp(f, mark) : fact_cmp(mark, f);
        if (order <= 0 || !is_same_mark(f, mark) ||
            (after && store_time_before(f->said_at, mark->said_at)))
            continue;
        if (found == NULL || (after ? fact_cmp(f, found) : fact_cmp(found, f)) < 0)
            found = f;
    }
    return found;
}

/* Does the mark say of each render only how late the wiki was asked, and does a later mark say so,
 * too? Then the mark before hides all renders already, and nothing is put or shown between the two.
 */
static bool is_repeated(const struct title_facts *in, const struct title_forget *f,
                        const struct fact *mark)
{
    const struct fact *before = find_same_mark(in, mark, false);
    const struct fact *after = find_same_mark(in, mark, true);
    if (before == NULL || after == NULL || !is_behind(f->horizon, after))
        return false;
    store_time said_until = store_time_add(before->said_at, in->skew_ns);
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *fact = &in->facts[i];
        bool kept = fact->what == FACT_PUT && !is_of_forgotten(in, f, fact);
        bool other = fact_is_mark(fact) && !is_same_mark(fact, mark);
        /* Only puts that stay and other marks can come in between, up to the later mark. */
        if ((!kept && !other) || fact_cmp(fact, after) > 0)
            continue;
        if (fact_cmp(fact, before) > 0 || (kept && store_time_before(said_until, fact->said_at)))
            return false;
    }
    return true;
}

/* A render was made once more, and again after that: the last making counts. */
static bool making_is_covered(const struct title_facts *in, const struct title_forget *f,
                              const struct fact *fact)
{
    bool covered = false;
    for (size_t i = 0; i < in->facts_count && !covered; i++) {
        const struct fact *other = &in->facts[i];
        covered = other->what == FACT_MADE && page_name_cmp(other->name, fact->name) == 0 &&
                  is_behind(f->horizon, other) && fact_cmp(fact, other) < 0 &&
                  !title_under_later(fact->made, other->made);
    }
    return covered;
}

/* Each kind of fact has its own reason to go (derive.h). A put goes by name alone. */
bool title_forgets(const struct title_facts *in, const struct title_forget *f,
                   const struct fact *fact)
{
    if (fact->what == FACT_FORGOTTEN)
        return forgotten_is_covered(f, fact);
    if (fact_is_purge(fact) || fact->what == FACT_FENCE)
        return is_behind(f->horizon, fact) && purge_is_covered(in, f, fact);
    if (is_of_forgotten(in, f, fact) || (fact->what == FACT_MADE && making_is_covered(in, f, fact)))
        return true;
    bool hides = fact_is_mark(fact) && fact->what != FACT_SHOWN;
    return fact->what != FACT_PUT &&
           (is_before_all(in, f, fact) || (hides && is_repeated(in, f, fact)));
}
