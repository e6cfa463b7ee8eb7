/* sweep_lap.h - how far a sweep of a domain came, when it goes on, and what of it outlives a
 * restart. Private to sweep.c and sweep_batch.c. Pure.
 *
 * A note: version u8, flags u8 (1: over), began, before, said, said before, titles, asked: 8 bytes
 * each, the title. */
#ifndef PAGE_SWEEP_LAP_H
#define PAGE_SWEEP_LAP_H

#include "page/sweep.h"

struct sweep_text {
    size_t n; /* 0: none */
    char p[PAGE_TITLE_BYTES_MAX];
};
void sweep_text_set(struct sweep_text *t, str s);
static inline str sweep_text_str(const struct sweep_text *t)
{
    return (str){ .p = t->p, .n = t->n };
}

struct lap {
    bool over;
    /* By our clock; ZERO: never. before: when the last lap began that came to its end before this
     * one began */
    store_time began, before;
    int64_t said, said_before; /* what the wiki's clock was then; 0: unknown */
    uint64_t titles, asked;    /* counted when it began; asked for so far */
    struct sweep_text at;      /* the last of them */
};
/* A lap begins, whether or not the one before came to its end. */
void lap_begin(struct lap *l, store_time now, uint64_t titles);
/* So many titles more were asked for, up to this one. */
void lap_advance(struct lap *l, const struct sweep_text *at, uint64_t titles, bool over);
/* When the next titles are to be asked for, or the next lap begins. period_ns 0, or NEVER: only as
 * long as it hurries. */
store_time lap_due(const struct lap *l, int64_t period_ns, bool hurries);
/* Of older revisions those are asked for that came since then: all of them, when the page was
 * touched since the lap before began. */
store_time lap_history_since(const struct lap *l, const struct title_word *word);
/* Each title that is stored since then was asked for since then; NEVER: no lap came to its end. */
store_time lap_all_since(const struct lap *l);

/* out has PAGE_NOTE_BYTES_MAX bytes; returns how many are used. */
size_t lap_encode(const struct lap *l, char *out);
/* ERR_CORRUPT: *out undefined. */
MUST_CHECK err lap_decode(str bytes, struct lap *out);

#endif
