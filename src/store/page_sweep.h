/* page_sweep.h - what a page store is asked for by who asks the wiki about all of its titles, one
 * after the other (page/sweep.h). Part of page_store.h. */
#ifndef STORE_PAGE_SWEEP_H
#define STORE_PAGE_SWEEP_H

#include "store/store.h"
#include "title/word.h"

enum {
    PAGE_FORGET_MAX = 128,      /* titles of one page_forget */
    PAGE_REVS_MAX = 50,         /* revisions of one page_revs */
    PAGE_NOTE_BYTES_MAX = 1000, /* of one note */
};

/* A title of which a render is stored that hears the wiki, or of which a word alone is left. */
struct page_swept {
    str title;   /* borrowed inside the call */
    bool stored; /* a render is; it may be due */
    bool heard;  /* word is the last. Not of a store that would read each title for it */
    struct title_word word;
};
/* Titles of a domain in key order. Rows that cannot be read are gone past. call.why: ERR_OK;
 * ERR_IO.
 */
struct page_walk {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    str after, until; /* keys: behind this one, up to and with that; empty: all */
    unsigned titles;  /* how many at most */
    /* Inside the start, or before done. False: enough; this one is not gone past */
    bool (*each)(void *ctx, const struct page_swept *t);
    void *ctx;
    /* out */
    bool more; /* there may be */
};

/* Revisions of a title that are stored, greatest first. call.why: ERR_OK; ERR_CORRUPT, ERR_IO. */
struct page_revs {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    str title;
    uint64_t below;   /* > 0 */
    store_time since; /* of these those alone whose newest render came then or later */
    /* out */
    unsigned count;
    uint64_t revs[PAGE_REVS_MAX];
    uint64_t next; /* below which to go on; 0: that was all */
};

/* Words go of titles of which no render is stored. call.why: as of a put. */
struct page_forget {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    const str *titles; /* PAGE_FORGET_MAX at most */
    unsigned count;
    store_time before; /* those alone that were asked for before this: a render may be under way
                          that they deny */
    /* out */
    unsigned forgotten;
};

/* What is kept of a domain itself, as bytes that its writer alone reads. */
enum page_note { PAGE_NOTE_SWEEP, PAGE_NOTE_REDO, PAGE_NOTES };
/* call.why: as of a put. */
struct page_note_put {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    enum page_note note;
    str bytes; /* PAGE_NOTE_BYTES_MAX at most */
};

#endif
