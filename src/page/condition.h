/* condition.h - the conditions of a request (RFC 9110 13.1), as the store judges them. Pure. */
#ifndef PAGE_CONDITION_H
#define PAGE_CONDITION_H

#include "base/arena.h"
#include "store/page_store.h"

/* Header fields as they were sent; n 0: absent. */
struct page_condition_fields {
    str if_match, if_none_match, if_unmodified_since;
};
/* Tags of others name no render. Beside If-Match the date counts for nothing, and one that cannot
 * be read asks for nothing. false: the arena is full. */
MUST_CHECK bool page_condition_parse(struct arena *a, const struct page_condition_fields *f,
                                     struct page_condition *out);
/* With Cache-Control: no-cache the date is the peer's question, "is yours younger than this?": only
 * a render that is strictly older will do, and a date that cannot be read refuses all. After
 * page_condition_parse. */
void page_condition_ask_younger(const struct page_condition_fields *f, struct page_condition *c);
/* So asked: is the stored render young enough to spare the making? */
bool page_condition_spares(const struct page_condition *c, struct page_name stored);

#endif
