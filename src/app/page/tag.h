/* tag.h - entity tags that name a render, as editors bring them back: "rev/tid", "rev/tid/stash"
 * (docs/peers.md, 1).
 *
 * W/ and missing quotes are allowed: proxies weaken tags. What a proxy adds to the tid ("-gzip") is
 * ignored. Pure. */
#ifndef APP_PAGE_TAG_H
#define APP_PAGE_TAG_H

#include "base/arena.h"
#include "store/page_store.h"

struct tag {
    struct page_name name; /* rev 0: of a page that does not exist yet */
    bool stash;            /* it was transformed, not rendered */
};
/* One tag. False: it is none of ours. */
MUST_CHECK bool tag_parse(str field, struct tag *out);

#endif
