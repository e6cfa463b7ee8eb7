/* old.c - says whether a render is to be made anew, by the wiki's last word and by age: for
 * reads, makers and remake.c. */
#include "page/old.h"

/* Was it made before the domain was told to make all anew (redo.h)? */
static bool is_told(const struct page_domain *d, const struct page_render *r)
{
    return d->redo_ns != NULL && title_made_at(r).ns < atomic_load(d->redo_ns);
}

store_time page_old_at(const struct page_domain *d, const struct page_render *r)
{
    /* rerender_after 0 or less: age alone never makes a render old. */
    if (is_told(d, r))
        return STORE_TIME_ZERO;
    return d->rerender_after_ns > 0 ? store_time_add(title_made_at(r), d->rerender_after_ns)
                                    : STORE_TIME_NEVER;
}

/* From the surest reason to the weakest: why.c shows the first that holds. */
enum page_old page_old(const struct page_domain *d, const struct page_read *r, store_time now)
{
    if (r->heard && !r->word.missing && r->word.rev > r->render.name.rev)
        return OLD_NEWER;
    /* heard and dated are by the same word: without one dated is NOT. */
    if (r->dated == DATED_TOUCHED && d->rerender != RERENDER_NEVER)
        return OLD_TOUCHED;
    if (is_told(d, &r->render))
        return OLD_TOLD;
    return store_time_before(now, page_old_at(d, &r->render)) ? OLD_NOT : OLD_AGED;
}

struct page_purge page_old_purge(const struct page_domain *d, const struct page_read *r,
                                 store_time now)
{
    return (struct page_purge){ .is = !store_time_before(now, page_old_at(d, &r->render)),
                                .before = title_making_of(&r->render) };
}

/* Is it made anew without a reader, and when at the soonest? A newer revision need not settle:
 * what its own edit touched is settled. */
static struct page_anew anew_of(const struct page_domain *d, const struct page_read *r,
                                store_time now, int64_t settle_s)
{
    store_time settles = title_settles_at(&r->word, settle_s);
    switch (page_old(d, r, now)) {
    case OLD_NEWER:
        return (struct page_anew){ .is = true, .due = now, .since = r->word.asked_at };
    case OLD_TOUCHED:
        return (struct page_anew){ .is = true,
                                   .due = title_settles_at(&r->word, TITLE_SETTLE_S),
                                   .since = r->word.asked_at };
    case OLD_TOLD:
        return (struct page_anew){ .is = true, .due = now, .since.ns = atomic_load(d->redo_ns) };
    /* Age alone is for readers: see old.h. */
    case OLD_AGED:
    case OLD_NOT:
        break;
    }
    return (struct page_anew){ .is = r->heard && title_is_unsettled(&r->word, &r->render, settle_s),
                               .due = settles,
                               .since = settles };
}

struct page_anew page_old_anew(const struct page_domain *d, const struct page_read *r,
                               store_time now, int64_t settle_s)
{
    struct page_anew a = anew_of(d, r, now, settle_s);
    a.purge = page_old_purge(d, r, now);
    return a;
}
