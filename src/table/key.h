/* key.h - row keys: memcmp of encoded keys is the order of rows.
 *
 * A component is the stored form of a value (value.h). Forms of fixed size and numbers stand as
 * they are; others have 00 written as 00 FF and end in 00 01, so that no component is a prefix of
 * another and any may be followed by more. A descending component has all its bytes inverted. A
 * decimal's zeros behind are left out: 1.0 and 1.00 are one key. Idea: FoundationDB's tuple layer.
 * Pure. */
#ifndef TABLE_KEY_H
#define TABLE_KEY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "table/schema.h"

enum {
    KEY_ROW = 1,
    KEY_EXPIRY = 2,
    KEY_INDEX = 3,
    KEY_TRAIL = 4, /* first byte in SPACE_ROW; the latter: index.h */
    KEY_STATIC = 0,
    KEY_REGULAR = 1,           /* between hash and range attributes */
    KEY_HEAD_BYTES = 9,        /* KEY_ROW, domain, table number */
    KEY_INDEX_HEAD_BYTES = 11, /* KEY_INDEX, domain, table number, index number */
    KEY_VERSION_BYTES = 16,    /* of the last component of a grouped index */
};

/* Appends one component; value is a valid stored form, not null. */
void key_put(struct buf *b, enum table_type type, bool desc, str value);
/* Takes one component off *rest; value in the arena. ERR_CORRUPT, ERR_LIMIT (arena). */
MUST_CHECK err key_take(struct arena *a, enum table_type type, bool desc, str *rest, str *value);
/* Bytes of the component that rest begins with; 0: none that is whole. */
size_t key_component_size(enum table_type type, bool desc, str rest);
/* Appends KEY_ROW, domain, table number; or what begins an index's entries, when s is seen through
 * one. */
void key_put_head(struct buf *b, uint32_t domain, const struct schema *s);

/* A key split into the values of the schema's key attributes. */
struct key_parts {
    str values[2 * TABLE_KEY_ATTRS_MAX]; /* hash attributes, then range attributes */
    size_t partition_size;               /* bytes up to and without the mark */
    bool is_static;
};
MUST_CHECK err key_split(struct arena *a, const struct schema *s, str key, struct key_parts *out);
/* The value of a key attribute of s; of any other none. */
str key_part(const struct schema *s, const struct key_parts *parts, const struct schema_attr *at);
/* Finds only where the partition ends and the mark. */
MUST_CHECK err key_partition(const struct schema *s, str key, size_t *partition_size,
                             bool *is_static);

#endif
