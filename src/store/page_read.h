/* page_read.h - what a page store is asked for. Part of page_store.h. */
#ifndef STORE_PAGE_READ_H
#define STORE_PAGE_READ_H

#include "base/arena.h"
#include "store/store.h"
#include "title/word.h"

enum {
    PAGE_TITLE_BYTES_MAX = 440,
    PAGE_HEADERS_MAX = 32, /* of one content */
    PAGE_HEADERS_BYTES_MAX = 8192,
    PAGE_BYTES_MAX = 64 << 20, /* of all contents of a render */
    PAGE_DAMAGED_MAX = 1000,   /* damaged rows one listing goes past */
    PAGE_WANTED_MAX = 4,       /* contents of one read */
};
#define PAGE_TID_AHEAD_NS (5 * NS_PER_S) /* a tid further in the future is refused */

struct page_bucket; /* as its store has it */

/* The key of a title: UTF-8, NFC, 1 to PAGE_TITLE_BYTES_MAX bytes, no control bytes, not "." or
 * ".."; else ERR_BAD. Pure. */
MUST_CHECK err page_title_key(struct arena *a, str title, str *out, struct err_note *note);

struct page_which {
    uint32_t domain;
    str title; /* a key */
    enum page_select select;
    struct page_name name; /* rev for REV; rev and tid for EXACT */
    bool deleted_too;      /* EXACT: also what is deleted at the origin, for who edits it still */
    store_time at;         /* SERVED_AT, CURRENT_AT */
};

/* A content as it is stored: verified, in pieces, in the arena of its read. */
struct page_body {
    str headers; /* "name: value\n" lines */
    enum page_codec codec;
    uint64_t raw_bytes; /* decoded */
    const str *pieces;
    unsigned pieces_count; /* 0: it was not read */
};
/* All of it in one piece: itself, when it is. STR_NONE: the arena is full. */
str page_body_whole(const struct page_body *b, struct arena *a);
/* The same decoded; itself when the codec is identity. ERR_CORRUPT, ERR_LIMIT. */
MUST_CHECK err page_body_raw(const struct page_body *b, struct arena *a, str *raw);

/* One render and contents of it. call.why: ERR_OK; ERR_GONE and trace (the newest of what was asked
 * for); ERR_NOT_FOUND; ERR_CORRUPT; ERR_IO; ERR_LIMIT (the arena is full, or more than
 * PAGE_AT_STEPS_MAX). Under policy ttl the latest may run out before renders put late: then there
 * is none. Cost: a few seeks; SERVED_AT and CURRENT_AT walk the title's renders down to the
 * instant. What lies in memory is read at once. */
struct page_read {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    struct page_which which;
    struct arena *arena; /* of what is read */
    bool heeds;          /* the domain has a wiki: its last word is wanted, too */
    bool eager; /* the first content wanted will be read, if it is there: it may be fetched before
                   choose says so */
    unsigned wanted_count;
    str wanted[PAGE_WANTED_MAX]; /* names of contents */
    /* Which of those to read, as bits, once render and contents are known; NULL: all that are
     * there. Inside the start. Pure but for the request. */
    unsigned (*choose)(struct page_read *r);
    /* out */
    bool found; /* render is; else why says that there is none. Contents may fail still */
    struct page_render render;
    /* up to and with which instant a read that names the render has not to extend its life first
     * (ORDER_EXTEND), as long as the title does not change; NEVER: at no time */
    store_time lasts_until;
    struct page_trace trace;
    bool heard; /* word is the last; with heeds */
    struct title_word word;
    enum title_dated dated;                               /* the render is, by that word */
    const struct page_content *contents[PAGE_WANTED_MAX]; /* NULL: the render has none of it */
    struct page_body bodies[PAGE_WANTED_MAX];
};

/* ---- listing ---- */

/* What a listing tells, until one returns false: that is not gone past. A row that cannot be read
 * is gone past and told to damaged: title empty and name NULL when its key cannot be read either.
 * damaged NULL, or PAGE_DAMAGED_MAX of them: ERR_CORRUPT. */
struct page_each {
    bool (*render)(void *ctx, str title, const struct page_render *r);
    bool (*damaged)(void *ctx, str title, const struct page_name *name);
    void *ctx;
};
enum page_list_what {
    LIST_HISTORY, /* renders of a title, newest first, none past due */
    LIST_TITLES,  /* titles of a domain in key order, each with its latest */
    /* Renders that a stash pins now, by title, newest first; title empty: of the whole domain.
     * There is no index of them: all renders are looked at, `steps` at most. Where a damaged row
     * stands is not believed, so with no more steps than PAGE_DAMAGED_MAX a listing may come no
     * further. */
    LIST_STASHES,
};
/* call.why: ERR_BAD: from is of no listing of this kind; ERR_CORRUPT, ERR_IO, ERR_LIMIT. */
struct page_list {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    enum page_list_what what;
    uint32_t domain;
    str title;             /* a key; TITLES: none */
    str from;              /* a next that a listing of this kind gave; n 0: the beginning */
    unsigned steps;        /* STASHES. Out: how many are left */
    struct page_each each; /* inside the start, or at the caller's home before done */
    struct arena *arena;
    /* out */
    str next; /* Opaque bytes, which the store alone reads: where to go on. n 0: that was all */
};

/* What became of a render. call.why: ERR_OK; ERR_CORRUPT, ERR_IO, ERR_LIMIT. */
struct page_explain {
    struct store_call call;
    /* in; borrowed until done */
    struct page_bucket *bucket;
    struct page_which which;
    /* out */
    struct page_explanation is;
};

#endif
