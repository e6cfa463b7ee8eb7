/* table_keep.h - what the schema of a table says of its rows' ends and of storage options: read
 * from JSON and checked, the same for every store. Part of table_store.h. Pure. */
#ifndef STORE_TABLE_KEEP_H
#define STORE_TABLE_KEEP_H

#include "store/table_read.h"

#include <jansson.h>

enum { TABLE_KEEP_MAX = 1000 }; /* rows that a policy counts */

/* The kinds of revisionRetentionPolicy. */
enum table_keep_kind { KEEP_ALL, KEEP_LATEST, KEEP_INTERVAL, KEEP_LATEST_HASH, KEEP_TTL };
struct table_keep {
    enum table_keep_kind kind;
    int64_t count, grace_ttl_s, interval_s; /* grace_ttl_s -1: not said; of TTL its ttl */
};
/* NULL, null and {} say ALL. What its kind needs is not checked: ERR_BAD with a note for unknown
 * names and numbers out of their limits. */
MUST_CHECK err table_keep_read(const json_t *json, struct table_keep *out, struct err_note *note);
/* Is what the kind needs there, in a table whose rows have a version and, of LATEST_HASH, a range
 * attribute before it? ERR_BAD with a note. */
MUST_CHECK err table_keep_check(const struct table_keep *k, bool versions, bool grouped,
                                struct err_note *note);
MUST_CHECK err table_keep_refuse(struct err_note *note, const char *what); /* ERR_BAD */
/* *ttl_s: default_time_to_live; untouched where it is not said. NULL: no options. ERR_BAD with a
 * note. */
MUST_CHECK err table_options_read(const json_t *json, int64_t *ttl_s, struct err_note *note);

#endif
