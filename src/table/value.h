/* value.h - the types of attributes: JSON to stored bytes and back.
 *
 * A value is kept in one form everywhere, its stored form: bytes whose order is the order of the
 * values (sets aside). A null has p NULL. Forms:
 *   blob, string, json   the bytes (json: compact text)        boolean    one byte, 0 or 1
 *   int, long            be32, be64 with the sign bit turned   timestamp  as long, ms since 1970
 *   double, float        IEEE bits, negative ones inverted, positive ones with the sign bit turned
 *   uuid, timeuuid       16 bytes; timeuuid as tid_key, so by time
 *   varint, decimal      decimal.h; a decimal's zeros behind are no part of its order
 *   set<T>               be32 size and bytes of each element, ascending, each once; never empty
 * Pure; results are in the arena given. */
#ifndef TABLE_VALUE_H
#define TABLE_VALUE_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "table/table.h"

#include <jansson.h>

/* In stored numbers it is turned, so that they sort as unsigned bytes do. */
#define VALUE_SIGN64 ((uint64_t)1 << 63)
#define VALUE_SIGN32 ((uint32_t)1 << 31)

enum { VALUE_KIND_BYTES = 16, VALUE_SET_ELEMENTS_MAX = 65535 };

/* "int", "set<int>". False: no such type. */
MUST_CHECK bool value_kind_parse(str name, struct table_kind *out);
void value_kind_name(struct table_kind kind, char out[VALUE_KIND_BYTES]);

/* JSON null and the empty set give STR_NONE. ERR_BAD with a note that completes "attribute x: ";
 * ERR_LIMIT, with one if it is not the arena's. */
MUST_CHECK err value_from_json(struct arena *a, struct table_kind kind, const json_t *json,
                               str *out, struct err_note *note);
/* Appends JSON. ERR_CORRUPT: not a stored form of that kind; what was appended is then without
 * use. */
MUST_CHECK err value_to_json(struct buf *b, struct table_kind kind, str stored);
/* By value: 1.0 equals 1.00. */
int value_cmp(struct table_kind kind, str a, str b);
/* Could value_from_json have made this? */
bool value_valid(struct table_kind kind, str stored);
/* Bytes of the fixed stored form; 0: its size varies. */
size_t value_fixed_size(enum table_type type);

#endif
