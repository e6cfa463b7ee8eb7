/* trim.h - revisionRetentionPolicy of a table: which rows a put lets go (the peer's 1.8).
 *
 *   all          nothing
 *   ttl          rows are put with that many seconds to live; there is no more to it
 *   latest       of the rows that differ in their version alone the newest `count` stay, others expire grace_ttl
 *                seconds after they fell out
 *   interval     the same among those whose versions are of the same interval of time, counted from 1970
 *   latest_hash  in a partition what comes first in the order of the index stays: rows with another first range
 *                attribute are deleted, of the others the newest version stays and the rest expire after grace_ttl
 * The version is the last range attribute, a timeuuid, descending. Decided in the update of the put, over rows that are
 * alive. A put lets TABLE_TRIM_ROWS go at most, besides the one written: after a migration what is stored follows with
 * the next puts. A row that is to expire sooner does. */
#ifndef TABLE_TRIM_H
#define TABLE_TRIM_H

#include "table/schema.h"
#include "table/store.h"

/* Reads the policy; key and options are read. ERR_BAD with a note. */
MUST_CHECK err trim_read(const json_t *json, struct schema *s, struct err_note *note);
void trim_pack(struct buf *b, const struct schema *s);
MUST_CHECK bool trim_unpack(struct cursor *c, struct schema *s);
/* key: of the row just written; partition_size: bytes of it without the mark. */
MUST_CHECK err trim_apply(struct engine_txn *t, const struct schema *s, str key, size_t partition_size);

#endif
