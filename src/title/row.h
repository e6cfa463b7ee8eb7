/* row.h - what is known of one title: a row a stored render, a trace a render that is gone. Plain
 * values, which the title machine works on and stores keep. */
#ifndef TITLE_ROW_H
#define TITLE_ROW_H

#include "title/stored.h"

enum { PAGE_DIGEST_BYTES = 16 };

/* As a row was read, or written last in this update: an edit tells by it what changed. */
struct page_row_was {
    bool known; /* else it is new */
    bool latest, hidden;
};

/* One stored render. r.due_at is effective once settled (bucket/look.h); due_stored is what the row
 * says and its due row is filed under. */
struct page_row {
    struct page_render r;
    uint32_t plan; /* of the bucket's policy, at which out_at and due_stored were computed */
    enum page_policy_kind policy; /* that plan's */
    store_time due_stored;
    struct page_row_was was;
    store_time said_at; /* when the origin was asked for it; rows on disk say when it was stored */
    unsigned char digest[PAGE_DIGEST_BYTES], plain_digest[PAGE_DIGEST_BYTES];
};

/* What is left of a render that is gone, and until when. */
struct page_trace_row {
    struct page_trace trace;
    store_time stored_at;
    store_time forget_at; /* from when on it is not known; NEVER: it always is */
};

#endif
