/* trim.h - revisionRetentionPolicy of a table: which rows a put lets go (docs/peers.md, 1).
 *
 *   all          nothing
 *   ttl          every row, the static ones too, ends so many seconds after it was put, or as it
 *   was put to if before latest       of the rows that differ in their version alone the newest
 *                `count` stay, others expire grace_ttl seconds after they fell out
 *   interval     the same among those whose versions are of the same interval of time, counted from
 *                1970
 *   latest_hash  in a partition what comes first in the order of the index stays: rows with another
 *                first range attribute are deleted, of the others the newest version stays and the
 * rest expire after grace_ttl The version is the last range attribute, a timeuuid, descending.
 * Decided in the update of the put, over rows that are alive. A put changes TABLE_TRIM_ROWS at
 * most, besides the one written, and looks at those that count, `count` of them, and at a few that
 * do not. What it cannot finish so it leaves to the upkeep (trim_upkeep.c): until then rows are
 * there that will fall out, and none falls out that stays. After a migration the upkeep goes
 * through what is stored, table by table.
 *   An end that a policy made is taken back when the row is among the newest again: after a delete,
 * or a migration. Its expiry entry (row.h) knows the row's own. A row that ends by itself no later
 * than one that falls out now would is not counted, so that it takes no other with it.
 *   What cannot be kept at all is refused: with latest_hash a row that is not in front, and one
 * that falls out at once where grace_ttl is 0. */
#ifndef TABLE_TRIM_H
#define TABLE_TRIM_H

#include "table/schema.h"
#include "table/store.h"

/* Does the policy count rows beside each other? */
bool trim_compares(const struct schema *s);
/* Has the key a version? */
bool trim_versions(const struct schema *s);
/* Reads the policy; key and options are read. ERR_BAD with a note. */
MUST_CHECK err trim_read(const json_t *json, struct schema *s, struct err_note *note);
void trim_pack(struct buf *b, const struct schema *s);
MUST_CHECK bool trim_unpack(struct cursor *c, struct schema *s);
/* When a row that is put now and has that end of its own ends, and the entry of it. */
store_time trim_put_end(const struct schema *s, store_time now, store_time own);
MUST_CHECK err trim_entry_put(struct engine_txn *t, str key, store_time expiry, store_time own);
/* key: of the row just written; partition_size: bytes of it without the mark. ERR_GONE with a note:
 * the policy does not keep it, the update must not go on. */
MUST_CHECK err trim_written(struct engine_txn *t, const struct schema *s, str key,
                            size_t partition_size, struct err_note *note);
/* Keys of the first and the last row of a range just deleted. What counts in their place comes
 * back. */
enum { TRIM_BACK_WRITES_MAX = 2 * (3 * TABLE_KEEP_MAX + 1) }; /* of two groups, three of a row */
MUST_CHECK err trim_deleted(struct engine_txn *t, const struct schema *s, str first, str last);

/* Sees to stored rows of a table from key on, of one group, and moves key behind them. over: there
 * are no more before until. May pass looks_max by the rows of a group that stay, by looks_max that
 * do not count and by looks_max that fall. */
struct trim_stored {
    struct key_buf key;
    unsigned looks_max, looks;
    bool over;
};
MUST_CHECK err trim_stored(struct engine_txn *t, const struct schema *s, str until,
                           struct trim_stored *at);

/* A step of what trim_leave was told of. at: empty, or where it goes on and how many rows before
 * that stay. */
struct trim_rest {
    str from;
    struct key_buf at;
    int64_t counted;
    unsigned changes_max;
    bool over;
};
MUST_CHECK err trim_rest(struct engine_txn *t, const struct schema *s, struct trim_rest *at);

/* ---- trim_upkeep.c ---- */
/* from: what the keys of a group, or of the rows of a partition, begin at. Not all: some of it is
 * left to do. all: what was left there before is begun anew, because it has changed. */
MUST_CHECK err trim_leave(struct engine_txn *t, const struct schema *s, str from, bool all);
/* What a migration leaves to the upkeep. */
MUST_CHECK err trim_migrate(struct engine_txn *t, uint32_t domain, const struct schema *old,
                            const struct schema *next);
/* Is there anything for trim_upkeep? */
MUST_CHECK err trim_due(struct engine_view *v, bool *any);
/* Some rows' worth of the next job that can be done; fewer where there is little room. Fails with
 * what kept it from one before that, too. Blocks: a pool thread. */
MUST_CHECK err trim_upkeep(struct tables *ts);

#endif
