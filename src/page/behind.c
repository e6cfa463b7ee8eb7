/* behind.c - keeps how far the wiki's databases have come, for check_known.c. Invariant: newest
 * only grows, unless it is older than BEHIND_S. */
#include "page/behind.h"

#include "base/check.h"
#include "title/word.h"

void page_behind_init(struct page_behind *b)
{
    *b = (struct page_behind){ .asked_at = STORE_TIME_ZERO };
    int failed = pthread_mutex_init(&b->lock, NULL);
    INVARIANT(failed == 0);
}

void page_behind_fini(struct page_behind *b)
{
    (void)pthread_mutex_destroy(&b->lock); /* nobody has it */
}

static void behind_lock(struct page_behind *b)
{
    int failed = pthread_mutex_lock(&b->lock);
    INVARIANT(failed == 0);
}

static void behind_unlock(struct page_behind *b)
{
    int failed = pthread_mutex_unlock(&b->lock);
    INVARIANT(failed == 0);
}

/* asked_at counts as the instant from which each copy should show it, with BEHIND_S to spare. */
static void newest_set(struct page_behind *b, const struct wiki_newest *n, store_time asked_at,
                       store_time now)
{
    b->newest = *n;
    b->asked_at = asked_at;
    b->seen_at = now;
}

/* An answer that was asked for before the greatest change was seen may show an older one, too.
 * Only a later question finds a copy that is behind. */
bool page_behind_judge(struct page_behind *b, const struct wiki_newest *n, store_time asked_at,
                       store_time now, bool *news)
{
    bool behind = false;
    *news = false;
    /* An empty list of changes says nothing. */
    if (n->id == 0)
        return false;
    behind_lock(b);
    /* Until then an older answer is a copy's; after that the greatest may have been taken out of
     * the list, and the answer is believed. */
    store_time until = store_time_add(b->asked_at, BEHIND_S * NS_PER_S);
    if (wiki_newest_is_older(&b->newest, n)) {
        *news = true;
    } else if (wiki_newest_is_older(n, &b->newest)) {
        behind = store_time_before(asked_at, until);
        *news = !behind;
    }
    if (behind && !store_time_before(asked_at, b->seen_at))
        atomic_store(&b->found_ns, asked_at.ns);
    if (*news)
        newest_set(b, n, asked_at, now);
    behind_unlock(b);
    return behind;
}

void page_behind_know(struct page_behind *b, const struct wiki_newest *n, store_time now)
{
    behind_lock(b);
    if (n->id != 0 && wiki_newest_is_older(&b->newest, n))
        newest_set(b, n, now, now);
    behind_unlock(b);
}

int64_t page_behind_settle_s(const struct page_behind *b, store_time now)
{
    int64_t found_ns = atomic_load(&b->found_ns);
    bool recent = found_ns != 0 && now.ns - found_ns < BEHIND_RECENT_S * NS_PER_S;
    return recent ? BEHIND_S : TITLE_SETTLE_S;
}
