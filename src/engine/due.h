/* due.h - which rows want attention, and when.
 *
 * Model. A row that ends declares one instant when it is written. The engine keeps (instant, row)
 * in the order of the instants, and hands over what is due. The entry is written in the update of
 * its row, so an update stays within what it is of. Nothing here works an instant out, or looks at
 * a row: a row may have gone, or end at another time by now; who is handed an entry judges, and
 * drops or moves it.
 *
 * A lane is where the entries of one kind of rows lie. Key of an entry: the lane's prefix, the
 * instant as be64, the row's name; the value is the row's affair, as a rule empty. NEVER has no
 * entry. On any engine: this stands on engine.h alone. */
#ifndef ENGINE_DUE_H
#define ENGINE_DUE_H

#include "engine/engine.h"

enum {
    DUE_PREFIX_BYTES_MAX = 1,
    DUE_DAMAGED_MAX = 1000, /* entries without a key that one look goes past */
};
struct due_lane {
    enum engine_space space;
    str prefix;
    bool flips; /* the sign of instants, so that those before 1970 come first */
};
/* What names a row in its lane, in two parts. */
struct due_row {
    str kind; /* may be empty */
    str key;
};
struct due_key {
    size_t n;
    char p[ENGINE_KEY_BYTES_MAX + 1]; /* one more: a bound just behind the key */
};
static inline str due_key_str(const struct due_key *k)
{
    return (str){ .p = k->p, .n = k->n };
}
/* Pure. Invariant: at is not NEVER, and the key is at most ENGINE_KEY_BYTES_MAX bytes. */
void due_key(const struct due_lane *l, store_time at, struct due_row row, struct due_key *out);

/* ---- writing; what the engine says ---- */
MUST_CHECK err due_file(struct engine_txn *t, const struct due_lane *l, store_time at,
                        struct due_row row, str value);
MUST_CHECK err due_unfile(struct engine_txn *t, const struct due_lane *l, store_time at,
                          struct due_row row);
/* From one instant to another; the same one: nothing is written. */
MUST_CHECK err due_move(struct engine_txn *t, const struct due_lane *l, store_time from,
                        store_time to, struct due_row row);

/* ---- reading ---- */
MUST_CHECK err due_find(struct engine_view *v, const struct due_lane *l, store_time at,
                        struct due_row row, struct engine_row *out);

struct due_entry {
    struct due_key key;
    store_time at;
    size_t head; /* bytes before the row's name. 0: it says neither row nor instant; at is ZERO */
};
/* Kind and key of the row, one after the other. Borrowed from the entry. */
static inline str due_of(const struct due_entry *e)
{
    return str_skip(due_key_str(&e->key), e->head == 0 ? e->key.n : e->head);
}
/* Of a key in the lane. Pure. */
void due_parse(const struct due_lane *l, str key, struct due_entry *out);
/* The first entry's instant; NEVER: there is none. */
MUST_CHECK err due_next(struct engine_view *v, const struct due_lane *l, store_time *at);
struct due_batch {
    struct due_entry *entries; /* room for max */
    unsigned max, count;
};
/* The first entries up to and with now. One that fails its sum is as good as any, for
 * its key says all; one whose key is what is damaged is gone past. ERR_CORRUPT: too many are. */
MUST_CHECK err due_take(struct engine_view *v, const struct due_lane *l, store_time now,
                        struct due_batch *out);
MUST_CHECK err due_drop(struct engine_txn *t, const struct due_lane *l, const struct due_entry *e);

#endif
