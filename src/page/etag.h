/* etag.h - entity tags that name a render: "rev/tid"; and as editors bring them back:
 * "rev/tid/stash" (docs/peers.md, 1). Pure. */
#ifndef PAGE_ETAG_H
#define PAGE_ETAG_H

#include "store/page_store.h"

/* `rev/tid`, NUL-terminated; the entity tag without its quotes. */
enum { PAGE_TAG_BYTES = 20 + 1 + TID_TEXT_BYTES };
str page_tag(struct page_name n, char out[PAGE_TAG_BYTES + 1]);
/* The same in quotes, in the arena; STR_NONE when it is full. */
str page_etag(struct arena *a, struct page_name n);
/* The other way round: false when it is no tag that page_tag writes. */
MUST_CHECK bool page_tag_name(str tag, struct page_name *out);

struct page_edited {
    struct page_name name; /* rev 0: of a page that does not exist yet */
    bool stash;            /* it was transformed, not rendered */
};
/* One tag of an editor. W/ and missing quotes are allowed: proxies weaken tags. What a proxy adds
 * to the tid ("-gzip") is ignored. False: it is none of ours. */
MUST_CHECK bool page_edited_parse(str field, struct page_edited *out);

#endif
