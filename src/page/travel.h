/* travel.h - a render made here, as bytes for the servers that wait for it; and back.
 *
 *   version u8 | rev u64 | tid 16 | flags u8 (1: latest, 2: the page is a redirect) | [word] |
 * redirect, fragment | count u8, each: name, headers, raw
 *
 * Every text is its length as u32 and its bytes, big-endian. Version 1 has no word. In version 2
 * the word is what the wiki said of the page just before: page id u64, newest revision u64, touched
 * and said i64. Without it nobody could tell later that the page was touched since. The release
 * before knows version 1 alone, and makes its own instead. Version 3 is sealed.h's. The HTML is the
 * origin's: who stores it puts the tid into its head. A preview has its wikitext with it. Pure.
 * Thread: any. */
#ifndef PAGE_TRAVEL_H
#define PAGE_TRAVEL_H

#include "base/buf.h"
#include "render/render.h"
#include "store/page_store.h"

struct page_travel {
    struct page_name name;
    bool latest, has_word;
    struct title_word word; /* asked_at: ZERO, as clocks of servers differ */
    str redirect_to, redirect_fragment;
    struct render_content contents[COUNT_OF(((struct render_request *)NULL)->contents)];
    unsigned contents_count;
};
void page_travel_put(struct buf *out, const struct page_travel *t);
/* Slices of bytes. ERR_CORRUPT. */
MUST_CHECK err page_travel_get(str bytes, struct page_travel *out);

#endif
