/* page_word.h - what the wiki says of a title, told to a page store. Part of page_store.h.
 *
 * All page buckets of the title hear it in one call. Its last word stays (title/word.h), for a
 * title of which something is stored; reads and puts are judged by it. */
#ifndef STORE_PAGE_WORD_H
#define STORE_PAGE_WORD_H

#include "store/page_read.h"
#include "title/word.h"

enum { PAGE_MARKS_MAX = 64 };

/* call.why: ERR_OK; ERR_BAD; and as of a put. STORE_DONE when nothing is to be written; the outcome
 * stands there, too. */
struct page_hear {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    str title;
    const struct title_word *word; /* NULL: marks alone */
    bool believe;                  /* also a word that lags (WORD_LAGS) */
    /* A copy of the wiki's database said so that is known to be behind. What would change anything
     * that is known or stored lags then, a mark too, and changes nothing */
    bool behind;
    /* The word does not reach what the wiki is known to have done (title_word_reaches). It lags
     * then, unless it says what the last one did, or is later than that (title_word_is_later); and
     * where a revision is stored above it. The first word of a title lags when the page is missing
     */
    bool doubted;
    uint64_t there; /* this revision is there, though greater than word's; 0: none was asked for */
    const struct title_mark *marks;
    unsigned marks_count;
    /* out */
    enum title_word_is is; /* with a word; LAGS: behind, without one too */
    bool echoes;           /* is OLD: the word says what the last one says */
    bool had;              /* one was heard before */
    bool changed;          /* a stored render was hidden, or shown, or is the latest again */
    /* A stored revision, shown, greater than the wiki's newest and than what is known to be there:
     * is it? 0: there is none */
    uint64_t above;
    uint64_t known; /* with above: what is known to be there below that; 0: nothing */
};

/* Is a render of the title stored in some bucket that hears the wiki, or is its last word?
 * call.why: ERR_OK; ERR_BAD; ERR_CORRUPT, ERR_IO. */
struct page_knows {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    str title;
    /* out */
    bool known;
};

#endif
