/* schema_tables.c - the tables of the schema, and what a keyspace lacks of them. Pure, for
 * schema.c.
 *
 * Columns are read out of the statements that make the tables, so each is said once: "(name type,
 * name type static, ..., PRIMARY KEY ...". Types are single words.
 * Invariant: a column's place in its statement is its bit in schema_there; so a table has
 * SCHEMA_COLUMNS_MAX columns at most. */
#include "cassandra/schema_impl.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

/* Behind "CREATE TABLE IF NOT EXISTS KEYSPACE.name ": each is safe to run twice. The first table is
 * made before the lock, which lies in it. Rows of `stashes` and `due` end by TTL and are never
 * deleted, so a gc_grace of three hours does: as long as hints are kept. */
const struct schema_table schema_tables[SCHEMA_TABLES] = {
    { 1, "meta", "(key text, value text, PRIMARY KEY (key))" },
    /* Facts that are no puts have the lesser kind, so they come first; puts follow from the newest
     * name down. */
    { 1, "title",
      "(bucket text, domain text, title text, kind tinyint, "
      "rev bigint, tid blob, at bigint, n int, srv int, fact blob, "
      "PRIMARY KEY ((bucket, domain, title), kind, rev, tid, at, n, srv)) "
      "WITH CLUSTERING ORDER BY (kind ASC, rev DESC, tid DESC, at ASC, n ASC, srv ASC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    /* Content first: the newest bytes of one content are the first row of their range. */
    { 1, "body",
      "(bucket text, domain text, title text, content text, "
      "rev bigint, tid blob, digest blob, chunk int, bytes blob, "
      "PRIMARY KEY ((bucket, domain, title), content, rev, tid, digest, chunk)) "
      "WITH CLUSTERING ORDER BY (content ASC, rev DESC, tid DESC, digest ASC, chunk ASC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'} "
      "AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}" },
    { 1, "decide",
      "(scope text, kind tinyint, key blob, gen blob static, ver blob, value blob, "
      "PRIMARY KEY (scope, kind, key)) "
      "WITH compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "word",
      "(domain text, title text, asked_at bigint, at bigint, srv int, how tinyint, "
      "word blob, PRIMARY KEY ((domain, title), asked_at, at, srv)) "
      "WITH CLUSTERING ORDER BY (asked_at DESC, at DESC, srv DESC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "note",
      "(domain text, note text, bytes blob, PRIMARY KEY (domain, note)) "
      "WITH gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "titles",
      "(bucket text, domain text, shard tinyint, title text, "
      "PRIMARY KEY ((bucket, domain, shard), title)) "
      "WITH gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "stashes",
      "(bucket text, domain text, shard tinyint, title text, until bigint, "
      "PRIMARY KEY ((bucket, domain, shard), title, until)) "
      "WITH CLUSTERING ORDER BY (title ASC, until DESC) "
      "AND gc_grace_seconds = 10800 "
      "AND compaction = {'class': 'TimeWindowCompactionStrategy', "
      "'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}" },
    { 1, "value",
      "(bucket text, domain text, made blob, key blob, rev bigint, tid blob, "
      "ver blob static, id blob, own bigint, expires bigint, written bigint, size bigint, "
      "sum bigint, head blob, bytes blob, "
      "PRIMARY KEY ((bucket, domain, made, key), rev, tid)) "
      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "value_chunk",
      "(bucket text, domain text, made blob, key blob, id blob, chunk int, "
      "bytes blob, PRIMARY KEY ((bucket, domain, made, key), id, chunk)) "
      "WITH gc_grace_seconds = 864000 AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "value_key",
      "(bucket text, domain text, made blob, shard tinyint, key blob, "
      "PRIMARY KEY ((bucket, domain, made, shard), key)) "
      "WITH gc_grace_seconds = 864000 AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "value_made",
      "(one tinyint, bucket text, domain text, made blob, "
      "PRIMARY KEY (one, bucket, domain, made)) WITH gc_grace_seconds = 864000" },
    { 1, "due",
      "(dc text, hour int, shard tinyint, due_at bigint, bucket text, domain text, "
      "title text, PRIMARY KEY ((dc, hour, shard), due_at, bucket, domain, title)) "
      "WITH gc_grace_seconds = 10800 "
      "AND compaction = {'class': 'TimeWindowCompactionStrategy', "
      "'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}" },
    { 1, "lease",
      "(job text, part int, holder bigint, epoch bigint, until bigint, place bigint, "
      "done_at bigint, PRIMARY KEY (job, part))" },
};

/* ---- columns, by the statement ---- */

struct column {
    str name, type; /* type: "blob", and maybe " static" behind it */
};
struct columns {
    struct column at[SCHEMA_COLUMNS_MAX];
    unsigned count;
    str keys; /* "((a, b), c)" and what follows */
};

/* Reads the columns of a table out of its statement. A mistake in a statement ends the process at
 * the first look. */
static void columns_of(unsigned table, struct columns *out)
{
    str rest = str_skip(str_of(schema_tables[table].rest), 1);
    out->count = 0;
    while (!str_starts(rest, STR("PRIMARY KEY "))) {
        str one = str_trim(str_split(&rest, ','));
        INVARIANT(out->count < SCHEMA_COLUMNS_MAX);
        struct column *c = &out->at[out->count++];
        c->name = str_split(&one, ' ');
        c->type = one;
        rest = str_trim(rest);
    }
    out->keys = str_skip(rest, STR("PRIMARY KEY ").n);
}

/* A key column cannot be added to a table: without it the table is another one. */
static bool column_is_key(const struct columns *all, str name)
{
    /* The text behind the keys names other things. */
    str rest = all->keys, behind = STR(" WITH ");
    rest = str_take(rest, str_find_str(rest, behind));
    while (rest.n > 0) {
        str word = str_split(&rest, ',');
        while (word.n > 0 && (word.p[0] == '(' || word.p[0] == ' '))
            word = str_skip(word, 1);
        while (word.n > 0 && (word.p[word.n - 1] == ')' || word.p[word.n - 1] == ' '))
            word.n--;
        if (str_eq(word, name))
            return true;
    }
    return false;
}

/* ---- what is there ---- */

/* SCHEMA_TABLES: it is none of ours. A keyspace may hold tables of others. */
static unsigned table_find(str name)
{
    unsigned i = 0;
    while (i < SCHEMA_TABLES && !str_eq(name, str_of(schema_tables[i].name)))
        i++;
    return i;
}

/* An id of zeros is no id that Cassandra gives. */
bool schema_table_is_there(const struct schema_there *t, unsigned table)
{
    static const unsigned char none[SCHEMA_ID_BYTES];
    return memcmp(t->ids[table], none, sizeof none) != 0;
}

bool schema_tables_take(struct schema_there *t, struct cql_rows rows)
{
    struct cql_cell cells[2];
    if (rows.columns == NULL || rows.columns->count != COUNT_OF(cells))
        return false;
    while (cql_rows_next(&rows, cells)) {
        const unsigned char *id;
        str name;
        if (!cql_get_bytes(&cells[0], &name) || !cql_get_uuid(&cells[1], &id))
            return false;
        unsigned table = table_find(name);
        if (table < SCHEMA_TABLES)
            memcpy(t->ids[table], id, SCHEMA_ID_BYTES);
    }
    return !rows.rest.failed;
}

/* Notes that a column is there, and whether its type is the one wanted. Columns that no statement
 * has are gone past: a newer program may have added them. */
static void column_take(struct schema_there *t, unsigned table, str name, str type)
{
    struct columns all;
    columns_of(table, &all);
    for (unsigned i = 0; i < all.count; i++) {
        str wanted = all.at[i].type;
        if (!str_eq(all.at[i].name, name))
            continue;
        t->columns[table] |= 1u << i;
        if (!str_eq(str_split(&wanted, ' '), type))
            t->others[table] |= 1u << i;
    }
}

bool schema_columns_take(struct schema_there *t, struct cql_rows rows)
{
    struct cql_cell cells[3];
    if (rows.columns == NULL || rows.columns->count != COUNT_OF(cells))
        return false;
    while (cql_rows_next(&rows, cells)) {
        str name, column, type;
        if (!cql_get_bytes(&cells[0], &name) || !cql_get_bytes(&cells[1], &column) ||
            !cql_get_bytes(&cells[2], &type))
            return false;
        unsigned table = table_find(name);
        if (table < SCHEMA_TABLES)
            column_take(t, table, column, type);
    }
    return !rows.rest.failed;
}

/* ---- what is missing ---- */

/* Counts and names the columns that one table lacks. A missing key column counts as another table.
 */
static void table_compare(const struct schema_there *t, unsigned table, struct schema_found *found,
                          struct buf *names)
{
    struct columns all;
    columns_of(table, &all);
    for (unsigned i = 0; i < all.count; i++) {
        bool is = (t->columns[table] & 1u << i) != 0;
        bool other =
            (t->others[table] & 1u << i) != 0 || (!is && column_is_key(&all, all.at[i].name));
        if (is && !other)
            continue;
        found->columns_missing += !other;
        found->columns_other += other;
        buf_printf(names, ", column %s.%.*s%s", schema_tables[table].name, STR_ARG(all.at[i].name),
                   other ? " (another table)" : "");
    }
}

/* Names stand in one text, ", " before each; the first two bytes are cut off. */
void schema_compare(const struct schema_there *t, struct schema_found *found)
{
    struct buf names;
    bool any = false;
    buf_init(&names, 1 << 16);
    for (unsigned i = 0; i < SCHEMA_TABLES; i++)
        any |= schema_table_is_there(t, i);
    for (unsigned i = 0; i < SCHEMA_TABLES; i++) {
        /* `meta` belongs to every version. A keyspace without any table is new, and lacks nothing.
         */
        bool wanted = i == SCHEMA_META ? any : schema_tables[i].version <= found->version;
        if (schema_table_is_there(t, i)) {
            /* which columns the tables of another version have is not known here */
            if (found->version == 0 || found->version == SCHEMA_VERSION)
                table_compare(t, i, found, &names);
        } else if (wanted) {
            found->tables_missing++;
            buf_printf(&names, ", table %s", schema_tables[i].name);
        }
    }
    str text = str_take(str_skip(buf_str(&names), 2), sizeof found->missing - 1);
    if (text.n > 0)
        memcpy(found->missing, text.p, text.n);
    found->missing[text.n] = '\0';
    buf_fini(&names);
    memcpy(found->ids, t->ids, sizeof found->ids);
}

bool schema_column_lacks(const struct schema_there *t, unsigned table, unsigned *at, str *column)
{
    struct columns all;
    columns_of(table, &all);
    for (; *at < all.count; ++*at) {
        if ((t->columns[table] & 1u << *at) != 0)
            /* Name, type and "static" stand together in the statement. */
            continue;
        const struct column *c = &all.at[*at];
        *column = (str){ .p = c->name.p, .n = (size_t)(c->type.p + c->type.n - c->name.p) };
        ++*at;
        return true;
    }
    return false;
}

bool schema_is_whole(const struct schema_found *f)
{
    return f->tables_missing == 0 && f->columns_missing == 0 && f->columns_other == 0;
}

/* The worst first: tables that were dropped, then no schema at all, then another version. */
err schema_tell(const struct schema_found *f, unsigned version, const char *keyspace,
                struct err_note *note)
{
    if (!schema_is_whole(f))
        err_note_set(note, "keyspace %s lacks %s: palimpsest store schema --look tells more",
                     keyspace, f->missing);
    else if (f->version == 0)
        err_note_set(
            note, "keyspace %s has no tables of this program: palimpsest store schema makes them",
            keyspace);
    else if (f->version != version)
        err_note_set(note, "the schema of keyspace %s has version %u, this program knows %u: %s",
                     keyspace, f->version, version,
                     f->version < version ? "palimpsest store schema brings it there"
                                          : "a newer program is needed");
    else
        return ERR_OK;
    return ERR_CONFLICT;
}
