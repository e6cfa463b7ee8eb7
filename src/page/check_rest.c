/* check_rest.c - titles whose word lags rest until they are asked for again, for check.c. Loop.
 *
 * Invariant: a title that rests is in the list of its rest, in the order of their ends. */
#include "page/check_impl.h"

static const int64_t rests_ms[CHECK_RESTS] = { 1000, 5000, 30000 };
enum { LAGS_MS_MAX = BEHIND_S * 1000 }; /* of all rests, however often it is looked at anew */

/* The last rest repeats, until the word is believed. */
void check_item_tire(struct check_item *i, store_time now)
{
    unsigned rest = i->rested < CHECK_RESTS ? i->rested : CHECK_RESTS - 1;
    const store_time believed_at = store_time_add(i->lags_at, LAGS_MS_MAX * NS_PER_MS);
    i->due = store_time_add(now, rests_ms[rest] * NS_PER_MS);
    if (store_time_before(now, believed_at)) /* else it comes from copies that are behind */
        i->due = store_time_min(i->due, believed_at);
    i->rested = rest + 1;
}

/* Behind those that end before it. All of one list rest equally long, so most go to the end. */
void check_item_lay(struct check_item *i)
{
    struct list *resting = &i->of->resting[i->rested - 1], *after = resting->prev;
    while (after != resting &&
           store_time_before(i->due, CONTAINER_OF(after, struct check_item, link)->due))
        after = after->prev;
    i->state = ITEM_RESTS;
    list_append(after->next, &i->link);
}

bool check_item_awaits_list(const struct check_item *i, const struct check_call *call,
                            const struct check_asked *a)
{
    /* Only a word that the store did not hear may need the list: one that takes something back. */
    bool may_be = call->behind || (a->became == CHECK_UNREACHED && a->says == 0);
    /* Once for each lag, and only while somebody waits. */
    return may_be && !i->listed && !i->again && i->rested == 0 && !list_empty(&i->waiters);
}

void check_item_await_list(struct check_item *i, store_time now)
{
    i->listed = true;
    i->above = 0;
    i->early = false;
    if (i->lags_at.ns == STORE_TIME_ZERO.ns)
        i->lags_at = now;
    i->rested = 1; /* its place; the rest itself is still to come */
    i->due = store_time_add(now, CHECK_LISTED_MS * NS_PER_MS);
    check_item_lay(i);
    i->rested = 0;
}

/* All rests are over, or it lags for as long as a copy may be behind. */
bool check_item_believes(const struct check_item *i, store_time now)
{
    bool long_enough = i->lags_at.ns != STORE_TIME_ZERO.ns &&
                       !store_time_before(now, store_time_add(i->lags_at, LAGS_MS_MAX * NS_PER_MS));
    return long_enough || (i->rested >= CHECK_RESTS && !i->early);
}
