/* condition.c - judges conditions on renders, of readers and of writers. Pure. */
#include "store/page_store.h"

bool page_condition_is_none(const struct page_condition *c)
{
    return c->match.kind == MATCH_UNASKED && c->none_match.kind == MATCH_UNASKED && !c->dated;
}

/* ANY matches each render; there is one. */
static bool condition_matches(const struct page_match *m, const struct page_name *name)
{
    if (m->kind == MATCH_ANY)
        return true;
    for (unsigned i = 0; i < m->count; i++)
        if (page_name_cmp(m->names[i], *name) == 0)
            return true;
    return false;
}

/* The order is that of RFC 9110 13.2.2: If-Match, then the date, then If-None-Match. */
enum page_verdict page_condition_judge(const struct page_condition *c, struct page_name name)
{
    if (c->match.kind != MATCH_UNASKED && !condition_matches(&c->match, &name))
        return CONDITION_FAILS;
    if (c->dated && !store_time_before(tid_time(name.tid), c->before))
        return CONDITION_FAILS;
    bool same = c->none_match.kind != MATCH_UNASKED && condition_matches(&c->none_match, &name);
    return same ? CONDITION_SAME : CONDITION_HOLDS;
}

bool page_condition_holds(const struct page_condition *c, const struct page_name *latest)
{
    /* Nothing is stored: only "it is one of these" can fail. */
    if (latest == NULL)
        return c->match.kind == MATCH_UNASKED;
    return page_condition_judge(c, *latest) == CONDITION_HOLDS;
}
