/* latest.c - the latest render without a fold, where no other fact can have touched it
 * (title_is_surely_latest). Pure; for reads of stores that keep facts. */
#include "title/derive.h"
#include "title/steps.h"

static bool name_is_within(struct page_name name, struct page_name low, struct page_name high)
{
    return page_name_cmp(low, name) <= 0 && page_name_cmp(name, high) <= 0;
}

/* Can this fact hide, supersede or take the render of a put, or say that the put is forgotten? In
 * doubt yes: then the caller folds. */
static bool touches(const struct fact *act, const struct fact *put)
{
    struct page_name low, high;
    switch (act->what) {
    case FACT_WORD:
        return act->name.rev > put->name.rev;
    case FACT_SUPPRESSED:
    case FACT_DELETED:
        return name_is_within(put->name, page_name_low(act->name.rev),
                              page_name_high(act->rev_last));
    case FACT_PURGE:
    case FACT_PURGE_ELSEWHERE:
    case FACT_FENCE:
    case FACT_DROP:
        title_range(act->name, &low, &high);
        return name_is_within(put->name, low, high);
    case FACT_FORGOTTEN:
        return page_name_cmp(put->name, act->name) <= 0;
    case FACT_PUT: /* is of no greater name */
    case FACT_SHOWN:
    case FACT_REQUEST:
    case FACT_STASH:
    case FACT_HOLD:
    case FACT_UNSTASH:
    case FACT_RELEASE:
    case FACT_MADE:
        return false;
    case FACT_WHATS:
        break;
    }
    INVARIANT(false);
    return true;
}

/* ttl: a render may be gone by now, whatever its place. */
bool title_is_surely_latest(const struct title_facts *acts, const struct fact *put)
{
    bool sure = put->behind <= put->name.rev;
    for (size_t i = 0; i < acts->plans_count && sure; i++)
        sure = acts->plans[i].plan.policy.kind != POLICY_TTL;
    for (size_t i = 0; i < acts->facts_count && sure; i++)
        sure = !touches(&acts->facts[i], put);
    return sure;
}
