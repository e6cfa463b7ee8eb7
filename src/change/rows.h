/* rows.h - the rows of what is to be done, byte by byte. Private to this folder.
 *
 *   'h'                        the head, one row: version 2, cursor 8, count 8,
 *                              instant 8, missed 8, missed at 8. Version 1 has no `missed
 *                              at`: it is unknown, or nothing was missed
 *   'n' name                   a rule: version 1, number 4, flags 1, from 8, hash 8,
 *                              replay after 8, replay until 8
 *   'N'                        the next number of a rule: 8
 *   'c' rule 4                 how many items of the rule are in each state: 8 each
 *   'i' rule 4, id 8           an item: version 1, state 1, flags 1, attempts 4, seq 8,
 *                              taken 8, due 8, lane 16, order 16, target 8; stream,
 *                              domain, type, error: 1 + n each. The event is the blob,
 *                              or that of 'b' seq, if flags have CHANGE_ITEM_SHARES
 *   'b' seq 8                  an event that items share: version 1, how many do 8. The
 *                              event is the blob
 *   'r' rule 4, lane 16, id 8  it is ready
 *   's' due 8, rule 4, id 8    it is scheduled
 *   'd' rule 4, id 8           it is dead
 *   'o' rule 4, order 16, id 8 its place among the items of its title; of a rule that
 *                              collapses, its key
 *   'm' rule 4, digest 16      what is remembered: instant 8, until 8
 *   'x' until 8, rule 4, digest 16  when that is forgotten
 *
 * 'i' says all; 'r', 's', 'd' and 'o' are indexes of it and have no value. A rule has a number,
 * never used again. The id of an item is CHANGE_SUBS times the sequence number of the event that
 * made it, and a part for several of one event. Digests are halves of SHA-256: nobody who sends
 * events can make two titles that are taken for one. Numbers are big-endian. */
#ifndef CHANGE_ROWS_H
#define CHANGE_ROWS_H

#include "change/change.h"
#include "engine/engine.h"

enum {
    CHANGE_DIGEST_BYTES = 16,
    CHANGE_KEY_BYTES = 96,       /* at most: a rule's name */
    CHANGE_TYPE_BYTES_MAX = 100, /* of a job's type that is kept; what is longer is cut */
    CHANGE_VALUE_BYTES = 1024,   /* at most */
    CHANGE_HEAD_BYTES = 41,
    CHANGE_RULE_BYTES = 38,
    CHANGE_BYTES_BYTES = 9,
    CHANGE_COUNTS_BYTES = 8 * CHANGE_STATES,
    CHANGE_OWN_BYTES_MAX = 4096, /* of an event that each item keeps for itself */
    CHANGE_SUBS = 64,            /* items of one event and rule; it has 32 targets at most */
};

struct change_digest {
    unsigned char p[CHANGE_DIGEST_BYTES];
};
/* Of the parts, each with its length before it. */
struct change_digest change_digest_of(const str *parts, unsigned count);
bool change_digest_is_none(const struct change_digest *d); /* all zeros */

struct change_head {
    uint64_t cursor;      /* the sequence number up to which all is routed */
    uint64_t count;       /* of the event there: so many the log had taken */
    store_time at;        /* when the log took it */
    uint64_t missed;      /* events that the log removed before they were routed */
    store_time missed_at; /* when the last of them were found to be; ZERO: none, or it is unknown */
};
enum { CHANGE_FLAG_PAUSED = 1, CHANGE_FLAG_REMOVED = 2 };
struct change_rule_row {
    uint32_t number;
    unsigned flags;
    uint64_t from; /* it wants events behind this number */
    uint64_t hash;
    uint64_t replay_after, replay_until; /* equal: nothing is replayed */
};
struct change_counts {
    uint64_t of[CHANGE_STATES];
};
enum {
    CHANGE_ITEM_AGAIN = 1,      /* it was done, and is done once more */
    CHANGE_ITEM_SHARES = 2,     /* its event is in a row of its own */
    CHANGE_ITEM_ROOTED = 4,     /* a newer job of its root makes it needless */
    CHANGE_ITEM_HOPS_SHIFT = 4, /* behind that: the hops of its event; fewer than CHANGE_HOPS_MAX */
};
struct change_item_row {
    enum change_state state;
    unsigned flags; /* of CHANGE_ITEM_ */
    uint32_t attempts;
    uint64_t seq;
    store_time taken, due;
    struct change_digest lane, order; /* order none: it has none */
    uint64_t target;                  /* hash of its target; 0: it is not for one alone */
    str stream, domain, type, error;  /* borrowed from the row */
};

static inline unsigned change_item_hops(const struct change_item_row *r)
{
    return r->flags >> CHANGE_ITEM_HOPS_SHIFT;
}

struct change_key {
    char p[CHANGE_KEY_BYTES];
    size_t n;
};
static inline str change_key_str(const struct change_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}
void change_key_head(struct change_key *k);
void change_key_next(struct change_key *k);
void change_key_rule(struct change_key *k, str name);
void change_key_counts(struct change_key *k, uint32_t rule);
void change_key_item(struct change_key *k, uint32_t rule, uint64_t id);
void change_key_bytes(struct change_key *k, uint64_t seq);
void change_key_dead(struct change_key *k, uint32_t rule, uint64_t id);
void change_key_ready(struct change_key *k, uint32_t rule, const struct change_digest *lane,
                      uint64_t id);
void change_key_order(struct change_key *k, uint32_t rule, const struct change_digest *order,
                      uint64_t id);
void change_key_due(struct change_key *k, store_time due, uint32_t rule, uint64_t id);
/* The index row of its state; false: it has none. */
bool change_key_state(struct change_key *k, uint32_t rule, uint64_t id,
                      const struct change_item_row *r);
/* False: it is no key of that kind. */
bool change_key_item_parse(str key, uint32_t *rule, uint64_t *id); /* and 'd' */
bool change_key_bytes_parse(str key, uint64_t *seq);
bool change_key_ready_parse(str key, struct change_digest *lane, uint64_t *id);
bool change_key_order_parse(str key, uint64_t *id);
bool change_key_due_parse(str key, store_time *due, uint32_t *rule, uint64_t *id);
void change_key_memory(struct change_key *k, uint32_t rule, const struct change_digest *what);
void change_key_forget(struct change_key *k, store_time until, uint32_t rule,
                       const struct change_digest *what);
bool change_key_forget_parse(str key, store_time *until, uint32_t *rule,
                             struct change_digest *what);

str change_head_encode(const struct change_head *h, char out[CHANGE_HEAD_BYTES]);
MUST_CHECK err change_head_decode(str value, struct change_head *out);
str change_rule_encode(const struct change_rule_row *r, char out[CHANGE_RULE_BYTES]);
MUST_CHECK err change_rule_decode(str value, struct change_rule_row *out);
str change_bytes_encode(uint64_t count, char out[CHANGE_BYTES_BYTES]);
/* stream and domain: EVENT_NAME_BYTES_MAX; type, error: cut. */
str change_item_encode(const struct change_item_row *r, char out[CHANGE_VALUE_BYTES]);
MUST_CHECK err change_item_decode(str value, struct change_item_row *out);

/* ---- reading; ERR_NOT_FOUND, or as the engine says ---- */
MUST_CHECK err change_head_get(struct engine_view *v, struct change_head *out);
MUST_CHECK err change_rule_get(struct engine_view *v, str name, struct change_rule_row *out);
MUST_CHECK err change_counts_get(struct engine_view *v, uint32_t rule, struct change_counts *out);
/* How many items share that event. blob: as engine_row says. */
MUST_CHECK err change_bytes_get(struct engine_view *v, uint64_t seq, uint64_t *count,
                                struct engine_blob *blob);
/* An item with its texts. blob: of its event, also if it shares that; as engine_row says. */
struct change_item_kept {
    struct change_item_row row; /* its texts are in value */
    struct engine_blob blob;
    bool lost; /* the event that it shares is not there: damage. blob is empty then */
    char value[CHANGE_VALUE_BYTES];
};
MUST_CHECK err change_item_get(struct engine_view *v, uint32_t rule, uint64_t id,
                               struct change_item_kept *out);
/* What is remembered of that: an instant, and until when. */
MUST_CHECK err change_memory_get(struct engine_view *v, uint32_t rule,
                                 const struct change_digest *what, store_time *at,
                                 store_time *until);
/* The first item with that order. */
MUST_CHECK err change_order_first(struct engine_view *v, uint32_t rule,
                                  const struct change_digest *order, uint64_t *id);
/* Is there one item at most with that order? */
MUST_CHECK err change_order_alone(struct engine_view *v, uint32_t rule,
                                  const struct change_digest *order, bool *alone);
/* All keys that begin with the prefix, from from on (STR_NONE: from the first). */
struct engine_cursor *change_rows_open(struct engine_view *v, str prefix, str from);
/* The next one. A row that fails its sum is passed over, for it is one item's: palimpsest check
 * tells of it. ERR_CORRUPT: the index itself. */
MUST_CHECK err change_rows_next(struct engine_cursor *c, struct engine_row *out);

#endif
