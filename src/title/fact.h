/* fact.h - what happened to one title, as facts that only accumulate.
 *
 * All rows of a title follow from its facts, taken in the order of their times (title.h). The time
 * of a fact is the instant it arrived, and a count within that instant for a server whose clock
 * stands still. The times of one server rise strictly; so a time and a server name one fact.
 * Facts of several servers may have one time: then those of the wiki come first, purges before
 * puts, puts before pins.
 *
 * Two facts of one server and time are one fact, however often a store gives them.
 * Plain values; pure; the encoding is fuzzed. */
#ifndef TITLE_FACT_H
#define TITLE_FACT_H

#include "base/check.h"
#include "base/err.h"
#include "title/row.h"

/* Numbers are stored: never reuse one. In the order of those with one time. */
enum fact_what {
    FACT_WORD = 1, /* the wiki says that name.rev is its latest revision */
    /* Marks: the wiki says of the revisions name.rev to rev_last that they are not hidden, that
     * their text is hidden, that they are deleted. */
    FACT_SHOWN = 2,
    FACT_SUPPRESSED = 3,
    FACT_DELETED = 4,
    /* Of a render, a revision (tid zero) or the whole title (rev 0). ELSEWHERE: no stored render
     * becomes the latest in the place of one taken. */
    FACT_PURGE = 5,
    FACT_PURGE_ELSEWHERE = 6,
    FACT_FENCE = 7, /* several purges as one: of the whole title, against what comes later alone */
    FACT_PUT = 8,
    /* Pins of one render, until then. */
    FACT_REQUEST = 9,
    FACT_STASH = 10,
    FACT_HOLD = 11,
    FACT_UNSTASH = 12, /* the stash of a render ends */
    FACT_DROP = 13,    /* and the render, kept for it alone, is purged */
    FACT_RELEASE = 14, /* the hold of a render ends, or those of a revision (tid zero) */
    FACT_MADE = 15,    /* the wiki made a render once more, and it is the same */
    /* Puts of names up to this one that came up to `at` are as if they never were (derive.h). */
    FACT_FORGOTTEN = 16,
    FACT_WHATS
};
const char *fact_name(enum fact_what what); /* "put" */

struct fact {
    enum fact_what what;
    uint32_t srv;         /* who wrote it */
    store_time at;        /* FENCE: the instant up to which tids are refused */
    store_time joined_at; /* FENCE, FORGOTTEN: its arrival */
    uint32_t n;
    struct page_name name;
    uint64_t rev_last;       /* marks */
    store_time said_at;      /* WORD, marks, PUT: when the wiki was asked */
    store_time until;        /* pins; PUT: as of a request, ZERO: none */
    struct title_under made; /* MADE, PUT */
    /* PUT */
    store_time stash_until; /* ZERO: none */
    uint64_t behind;        /* > name.rev: this revision exists elsewhere */
    unsigned char digest[PAGE_DIGEST_BYTES], plain_digest[PAGE_DIGEST_BYTES];
    const struct page_content *contents; /* borrowed */
    unsigned contents_count;             /* 0: the bytes are gone */
};
static inline bool fact_is_mark(const struct fact *f)
{
    return f->what == FACT_SHOWN || f->what == FACT_SUPPRESSED || f->what == FACT_DELETED;
}
static inline bool fact_is_purge(const struct fact *f)
{
    return f->what == FACT_PURGE || f->what == FACT_PURGE_ELSEWHERE;
}
static inline bool fact_is_pin(const struct fact *f)
{
    return f->what == FACT_REQUEST || f->what == FACT_STASH || f->what == FACT_HOLD;
}
/* Does it tell of the facts before it, and have an arrival of its own? */
static inline bool fact_is_joined(const struct fact *f)
{
    return f->what == FACT_FENCE || f->what == FACT_FORGOTTEN;
}
/* Its arrival. */
static inline store_time fact_arrived(const struct fact *f)
{
    return fact_is_joined(f) ? f->joined_at : f->at;
}
/* The order of the fold, total: 0 only for one fact. */
int fact_cmp(const struct fact *a, const struct fact *b);
/* Is a earlier by arrival and count alone? */
bool fact_before(const struct fact *a, const struct fact *b);

/* Version, what, server, count, times, name; then what this kind has. Big-endian. */
enum {
    FACT_CONTENT_BYTES_MAX = 1 + PAGE_CONTENT_NAME_BYTES_MAX + 1 + 3 * 4 + 8,
    FACT_BYTES_MAX = 2 + 8 + 8 + 8 + TID_KEY_BYTES + 7 * 8 + 2 * PAGE_DIGEST_BYTES + 1 +
                     PAGE_CONTENTS_MAX * FACT_CONTENT_BYTES_MAX,
};
/* out has FACT_BYTES_MAX bytes. Invariant: what fact_decode takes. */
str fact_encode(const struct fact *f, char *out);
/* contents has PAGE_CONTENTS_MAX places, which *out borrows. ERR_CORRUPT: both undefined. */
MUST_CHECK err fact_decode(str value, struct fact *out, struct page_content *contents);

#endif
