/* rows.h - the rows of the event log, byte by byte. Private to this folder.
 *
 *   'h'                      the head, one row: version 1, log 8, last 8, count 8, bytes 8,
 *                            culled 8, culled count 8, culled bytes 8, forgotten 8, newest 8
 *   'e' seq 8                an event: version 1, instant 8, count 8, bytes 8, digest 16,
 *                            stream 1 + n, domain 1 + n. Version 2: hops 1 behind that, not 0.
 *                            The text is the row's blob
 *   'e' seq 8                several, with numbers that follow on each other, of which seq is the
 *                            last: version 3, instant 8, count 8, bytes 8, events 2. The blob has
 *                            for each: hops 1, stream 1 + n, domain 1 + n, text 4 + n; and behind
 *                            the last one the digests of all, 16 each
 *
 * count and bytes say how many events, and how many bytes, the log has taken up to and with the
 * last event of that row. So what lies between two rows is a subtraction. A digest is the first
 * half of SHA-256 over stream, NUL and id: whoever may send events cannot make two ids that are
 * taken for one. All zeros: the event has no id. Numbers are big-endian. */
#ifndef EVENT_ROWS_H
#define EVENT_ROWS_H

#include "base/buf.h"
#include "engine/engine.h"
#include "event/log.h"

enum {
    EVENT_KEY_BYTES = 9,                                     /* at most */
    EVENT_VALUE_BYTES = 42 + 2 * (1 + EVENT_NAME_BYTES_MAX), /* at most */
    EVENT_HEAD_BYTES = 73,
    EVENT_ROW_BYTES = 256, /* that a row is counted with beside its blob: value, index */
    EVENT_ROW_EVENTS_MAX = 256,
};

struct event_head {
    uint64_t log;
    uint64_t last;
    uint64_t count, bytes; /* taken ever */
    uint64_t culled, culled_count, culled_bytes;
    store_time newest; /* when the last one was taken */
};

struct event_row {
    store_time at;
    uint64_t count, bytes;
    unsigned events; /* of one, the rest: */
    unsigned char digest[EVENT_DIGEST_BYTES];
    str stream, domain; /* borrowed from the row */
    uint8_t hops;
};

/* One event of a row. Borrowed from the row and its blob. */
struct event_one {
    uint64_t seq, count;
    const unsigned char *digest;
    str stream, domain, text;
    uint8_t hops;
};
/* Goes over the events of a row, in order. */
struct event_walk {
    const struct event_row *row;
    struct cursor frames, digests;
    uint64_t seq; /* of the one before */
    unsigned left;
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
/* False: it is no key of an event. */
bool event_key_parse(str key, uint64_t *seq);

/* All zeros for an empty id. */
void event_digest(str stream, str id, unsigned char out[EVENT_DIGEST_BYTES]);
bool event_has_id(const unsigned char digest[EVENT_DIGEST_BYTES]);

str event_head_encode(const struct event_head *h, char out[EVENT_HEAD_BYTES]);
MUST_CHECK err event_head_decode(str value, struct event_head *out);
str event_row_encode(const struct event_row *r, char out[EVENT_VALUE_BYTES]);
MUST_CHECK err event_row_decode(str value, struct event_row *out);

/* Of one event among several. */
size_t event_frame_bytes(const struct event *e);
/* at: room for so many bytes. Returns what is behind them. */
char *event_frame_put(char *at, const struct event *e);
/* seq, row: of the row. blob: its bytes; of a row of one event it may be empty, which then is its
 * text. ERR_CORRUPT: it does not hold what the row says. */
MUST_CHECK err event_walk_begin(struct event_walk *w, uint64_t seq, const struct event_row *row,
                                str blob);
/* False: there are no more. */
bool event_walk_next(struct event_walk *w, struct event_one *out);

/* ERR_NOT_FOUND: the log was not begun. */
MUST_CHECK err event_head_get(struct engine_view *v, struct event_head *out);
MUST_CHECK err event_head_put(struct engine_txn *t, const struct event_head *h);
/* Behind after, in order. */
struct engine_cursor *event_rows_open(struct engine_view *v, uint64_t after);

#endif
