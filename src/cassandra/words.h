/* words.h - words of the wiki, and notes of domains, on Cassandra: rows.
 *
 * Model. The words of a title are one partition of the table `word`, whatever buckets there are. A
 * word that was news has a row of its own, named by when the wiki was asked, when it was kept, and
 * by the server. So no word overwrites another one, and which of them is the last is worked out
 * (title/words.h). Rows behind the last one are deleted, as of an instant: a row that came later
 * stays, whatever its place.
 *   The table `note` has a row for each note of a domain. Of two servers that write one note at
 * once, the one whose clock is ahead wins.
 * Consistency: LOCAL_QUORUM. Each request is STORE_LATER. Errors: those of src/cql. Thread: any.
 * Private to this folder. */
#ifndef CASSANDRA_WORDS_H
#define CASSANDRA_WORDS_H

#include "cassandra/titles.h"
#include "store/page_sweep.h"
#include "title/words.h"

enum { WORDS_MAX = 32 }; /* of a title that are looked at: those asked for last */

/* The words of a title. Rows that cannot be read are gone past: the wiki is asked again. */
struct words_load {
    struct store_call call;
    /* in; borrowed until done */
    str domain, title;
    /* out */
    struct title_said said[WORDS_MAX]; /* those that count, in their order */
    size_t count;
    size_t rows;         /* how many there are, with those that do not count */
    store_time kept_max; /* the latest `at` of them */
    struct err_note note;
};
enum store_start words_load(struct titles *t, struct words_load *l);
static inline const struct title_word *words_last(const struct words_load *l) /* NULL: none */
{
    return l->count == 0 ? NULL : &l->said[l->count - 1].word;
}

/* One word, its time and server set. The same again is the same row. */
struct words_put {
    struct store_call call;
    /* in; borrowed until done */
    str domain, title;
    struct title_said said;
    /* out */
    struct err_note note;
};
enum store_start words_put(struct titles *t, struct words_put *p);

/* Deletes the words before this one that were kept by the horizon. */
struct words_drop {
    struct store_call call;
    /* in; borrowed until done */
    str domain, title;
    const struct title_said *before; /* NULL: all */
    store_time horizon;
    /* out */
    struct err_note note;
};
enum store_start words_drop(struct titles *t, struct words_drop *d);

struct words_note {
    struct store_call call;
    /* in; borrowed until done */
    str domain;
    enum page_note kind;
    store_time at; /* put: its time, as of a fact */
    str bytes;     /* put: PAGE_NOTE_BYTES_MAX at most */
    /* out */
    char got[PAGE_NOTE_BYTES_MAX];
    size_t got_bytes;
    struct err_note note;
};
enum store_start words_note_put(struct titles *t, struct words_note *n);
/* ERR_NOT_FOUND: none was ever put. */
enum store_start words_note_get(struct titles *t, struct words_note *n);

#endif
