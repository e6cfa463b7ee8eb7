/* rows.h - the rows of the event log, byte by byte. Private to this folder.
 *
 *   'h'                      the head, one row: version 1, log 8, last 8, count 8, bytes 8,
 *                            culled 8, culled count 8, culled bytes 8, forgotten 8, newest 8
 *   'e' seq 8                an event: version 1, instant 8, count 8, bytes 8, digest 16,
 *                            stream 1 + n, domain 1 + n. Version 2: hops 1 behind that, not 0.
 *                            The text is the row's blob
 *   'i' digest 16            an id that was taken: seq 8, instant 8
 *
 * count and bytes of an event say how many events, and how many bytes, the log has taken up to and
 * with it. So what lies between two events is a subtraction. A digest is the first half of SHA-256
 * over stream, NUL and id: whoever may send events cannot make two ids that are taken for one. All
 * zeros: the event has no id. Numbers are big-endian. */
#ifndef EVENT_ROWS_H
#define EVENT_ROWS_H

#include "engine/engine.h"
#include "event/log.h"

enum {
    EVENT_DIGEST_BYTES = 16,
    EVENT_KEY_BYTES = 17,                                    /* at most */
    EVENT_VALUE_BYTES = 42 + 2 * (1 + EVENT_NAME_BYTES_MAX), /* at most */
    EVENT_HEAD_BYTES = 73,
    EVENT_ROW_BYTES = 256, /* that an event is counted with beside its text: rows, index */
};

struct event_head {
    uint64_t log;
    uint64_t last;
    uint64_t count, bytes; /* taken ever */
    uint64_t culled, culled_count, culled_bytes;
    uint64_t forgotten; /* ids of events up to this number are not kept any more */
    store_time newest;  /* when the last one was taken */
};

struct event_row {
    store_time at;
    uint64_t count, bytes;
    unsigned char digest[EVENT_DIGEST_BYTES];
    str stream, domain; /* borrowed from the row */
    uint8_t hops;
};

struct event_key {
    char p[EVENT_KEY_BYTES];
    size_t n;
};
static inline str event_key_str(const struct event_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}
void event_key_head(struct event_key *k);
void event_key_event(struct event_key *k, uint64_t seq);
void event_key_id(struct event_key *k, const unsigned char digest[EVENT_DIGEST_BYTES]);
/* False: it is no key of an event. */
bool event_key_parse(str key, uint64_t *seq);

/* All zeros for an empty id. */
void event_digest(str stream, str id, unsigned char out[EVENT_DIGEST_BYTES]);
bool event_has_id(const unsigned char digest[EVENT_DIGEST_BYTES]);

str event_head_encode(const struct event_head *h, char out[EVENT_HEAD_BYTES]);
MUST_CHECK err event_head_decode(str value, struct event_head *out);
str event_row_encode(const struct event_row *r, char out[EVENT_VALUE_BYTES]);
MUST_CHECK err event_row_decode(str value, struct event_row *out);

/* ERR_NOT_FOUND: the log was not begun. */
MUST_CHECK err event_head_get(struct engine_view *v, struct event_head *out);
MUST_CHECK err event_head_put(struct engine_txn *t, const struct event_head *h);
/* Behind after, in order. */
struct engine_cursor *event_rows_open(struct engine_view *v, uint64_t after);

#endif
