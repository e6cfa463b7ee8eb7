/* schema.h - what a table is: attributes, index, options; read from JSON, checked, migrated,
 * stored.
 *
 * Stored in SPACE_SCHEMA: key 'S', domain, name; value and blob as schema_pack says. Attributes
 * have numbers that are never used twice in a table, so that a removed attribute's bytes in old
 * rows mean nothing. Migration (as the peer): only to a higher version; non-key attributes come and
 * go, options change; what is in the key stays, with its type and order; an attribute that stays
 * keeps its type and kind. Secondary indexes come, go and change: one that changes is another, with
 * a number of its own. So do retention policies. Pure. */
#ifndef TABLE_SCHEMA_H
#define TABLE_SCHEMA_H

#include "table/table.h"

#include <jansson.h>

enum schema_role { ROLE_PLAIN, ROLE_HASH, ROLE_RANGE, ROLE_STATIC, SCHEMA_ROLES };
struct schema_attr {
    str name;
    struct table_kind kind;
    enum schema_role role;
    bool desc; /* RANGE */
    uint16_t number;
};
/* A secondary index. Its key is its hash and range attributes, then the rest of the row's key,
 * descending. grouped: the last of the row's key is its version (a timeuuid, descending) and is not
 * named, so it is hidden behind the rest: of the rows that differ in it alone the newest counts. */
struct schema_index {
    str name;
    uint16_t number; /* 0: not stored yet; never used twice in a table */
    unsigned hash_count, range_count;
    uint8_t keys[2 * TABLE_KEY_ATTRS_MAX]; /* indexes of attrs: hash attributes, then range
                                              attributes */
    bool desc[2 * TABLE_KEY_ATTRS_MAX];    /* by the same */
    bool shown[TABLE_ATTRS_MAX];           /* by attrs: a query through the index may ask for it */
    bool grouped;
    bool lacking; /* stored by an earlier server, without all of the table's key: it answers
                   * nothing, and a migration, or the same schema again, makes another of it */
};
enum schema_policy_kind {
    POLICY_ALL,
    POLICY_LATEST,
    POLICY_INTERVAL,
    POLICY_LATEST_HASH,
    POLICY_TTL
};
struct schema_policy {
    enum schema_policy_kind kind;
    int64_t count, grace_ttl_s, interval_s;
}; /* trim.h */
struct schema {
    str name;
    uint32_t number;  /* of the table; 0: not stored yet */
    uint32_t changes; /* counts migrations: tells two states of a table apart */
    int64_t version;
    uint16_t attrs_made; /* numbers given so far */
    unsigned attrs_count, hash_count, range_count, statics_count;
    struct schema_attr attrs[TABLE_ATTRS_MAX];
    uint8_t hash[TABLE_KEY_ATTRS_MAX],
        range[TABLE_KEY_ATTRS_MAX]; /* indexes of attrs, in key order */
    int64_t ttl_s;                  /* default_time_to_live; 0: none */
    struct schema_policy policy;
    uint16_t indexes_made; /* numbers given so far */
    unsigned indexes_count;
    struct schema_index indexes[TABLE_INDEXES_MAX];
    /* NULL, or this is how the entries of an index look (schema_through) */
    const struct schema_index *through;
    str text; /* the schema as its writer gave it, table and version filled in */
};

/* Everything borrowed is in the arena. ERR_BAD with a note, ERR_LIMIT. table: the name it must
 * have. */
MUST_CHECK err schema_parse(struct arena *a, str table, str json, struct schema **out,
                            struct err_note *note);
/* Gives next what old has (number, attribute numbers) if next may follow it. *changed false: it is
 * the same, and so are its indexes. ERR_BAD with a note. */
MUST_CHECK err schema_migrate(const struct schema *old, struct schema *next, bool *changed,
                              struct err_note *note);
/* Numbers for a table that never was. */
void schema_first(struct schema *s, uint32_t number);

const struct schema_attr *schema_find(const struct schema *s, str name);        /* NULL: unknown */
const struct schema_index *schema_index_find(const struct schema *s, str name); /* NULL: unknown */
const struct schema_index *schema_index_numbered(const struct schema *s, uint16_t number);
/* The index as if it were a table of its own, with what it shows and its key; a hidden version has
 * no name. In the arena; NULL: full. */
const struct schema *schema_through(struct arena *a, const struct schema *s,
                                    const struct schema_index *ix);
/* Not . and .. either: clients take them out of a path before they send it. */
bool schema_name_valid(str table);

/* ---- schema_index.c, for schema.c and schema_store.c ---- */
/* Reads secondaryIndexes; attributes and index are read. ERR_BAD, ERR_LIMIT. */
MUST_CHECK err schema_indexes_read(struct arena *a, const json_t *json, struct schema *s,
                                   struct err_note *note);
/* Gives next's indexes the numbers of old's that are the same, and new ones to the others.
 * Attributes have numbers. */
MUST_CHECK err schema_indexes_follow(const struct schema *old, struct schema *next,
                                     struct err_note *note);
void schema_indexes_pack(struct buf *b, const struct schema *s);
MUST_CHECK bool schema_indexes_unpack(struct cursor *c, struct schema *s);

/* Bytes for the store and back. ERR_CORRUPT, ERR_LIMIT. name is borrowed from its argument. */
void schema_pack(struct buf *b, const struct schema *s);
MUST_CHECK err schema_unpack(struct arena *a, str name, str bytes, struct schema **out);

#endif
