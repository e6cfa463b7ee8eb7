/* key.h - keys of rows of page buckets; big-endian and order preserving, newest render first.
 *
 *   title prefix     bucket u16, domain u32, title bytes, 00 (titles hold no control bytes)
 *   render, ledger   title prefix, ~rev u64, ~tid 16 B: the first row of a prefix is the latest
 *   title            title prefix: counts and the fence of the whole title
 *   fence            title prefix, rev u64 [, tid 16 B], in the space of titles, behind its title
 *   due              by engine/due.h; names its row by kind u8 and the key of a render or ledger
 * row, of DUE_TRACES by a title prefix Private to this folder. Pure. */
#ifndef BUCKET_KEY_H
#define BUCKET_KEY_H

#include "bucket/page.h"
#include "engine/due.h"

enum {
    PAGE_NAME_BYTES = 8 + TID_KEY_BYTES,
    PAGE_KEY_BYTES_MAX = 2 + 4 + PAGE_TITLE_BYTES_MAX + 1 + PAGE_NAME_BYTES,
    /* One byte more: an exclusive bound just behind a key. */
    PAGE_BOUND_BYTES_MAX = PAGE_KEY_BYTES_MAX + 1,
};
/* DUE_LEDGER: one trace, as stores before had it; it is read and never written. DUE_TRACES: those
 * of a title that are to be forgotten by then; one row for all whose time lies in one step
 * (title_traces_due). */
enum page_due_kind { DUE_RENDER = 1, DUE_LEDGER = 2, DUE_TRACES = 3 };
extern const struct due_lane page_due;

struct page_key {
    size_t n;
    char p[PAGE_BOUND_BYTES_MAX];
};
static inline str page_key_str(const struct page_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}

/* Invariant: title is 1 to PAGE_TITLE_BYTES_MAX bytes. */
void page_key_title(struct page_key *k, uint16_t bucket, uint32_t domain, str title);
/* title: a title prefix. k may be title itself. */
void page_key_name(struct page_key *k, const struct page_key *title, struct page_name name);
void page_key_fence(struct page_key *k, const struct page_key *title, const uint64_t *rev,
                    const struct tid *tid);
/* The exclusive bound just behind k. */
void page_key_after(struct page_key *k);
/* Of a title prefix: the exclusive bound behind every key of the title. */
void page_key_title_end(struct page_key *k);
/* A copy of a row's key; empty when it is longer than such keys are. */
void page_key_of(struct page_key *k, str key);

struct page_key_parts {
    uint16_t bucket;
    uint32_t domain;
    str title;
    struct page_name name;
};
/* A render or ledger key. title is borrowed from key. False: it is none. */
MUST_CHECK bool page_key_parse(str key, struct page_key_parts *out);
/* A title prefix; the name is left out. */
MUST_CHECK bool page_key_title_parse(str key, struct page_key_parts *out);
/* row_key: borrowed. */
struct due_row page_due_row(enum page_due_kind kind, str row_key);
/* What such a row is named by. *row_key: borrowed. False: it is none. */
MUST_CHECK bool page_due_parse(str of, enum page_due_kind *kind, str *row_key);
/* The title prefix of a render or ledger key, or of a title row's own key. */
void page_key_prefix_of(struct page_key *k, str key);

#endif
