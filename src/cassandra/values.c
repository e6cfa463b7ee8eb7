/* values.c - the statements of the tables of values, ids, and what requests have in common. The
 * other files of values.h stand on it.
 *
 * One table `value` serves both kinds of bucket: a value of key_value is a row of revision 0. Its
 * version is a static column, so a batch may depend on the version whatever rows it writes.
 * Invariant: no statement here has a write timestamp of ours (values_ask_set). Rows and versions
 * are written by batches with VALUES_DECIDE in them. */
#include "cassandra/values_impl.h"

#include "cassandra/titles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 512 };

#define KEY "bucket = ? AND domain = ? AND made = ? AND key = ?"
#define META "SELECT ver, rev, tid, id, own, expires, written, size, sum FROM "
#define FULL "SELECT ver, rev, tid, id, own, expires, written, size, sum, head, bytes FROM "
#define T_KEY "text, text, blob, blob"
#define G_META "blob, bigint, blob, blob, bigint, bigint, bigint, bigint, bigint"
#define G_FULL G_META ", blob, blob"

/* The keyspace stands between the two. differs: a conditional write, which has another effect when
 * it is sent twice. */
static const struct {
    const char *name, *before, *behind, *takes, *gives;
    bool differs;
} texts[VALUES_STATEMENTS] = {
    /* Rows without their bytes, the newest first. AFTER: the rows of a list's next page. ROW: one
     * alone. */
    [VALUES_META] = { "value.rows", META, ".value WHERE " KEY, T_KEY, G_META, false },
    [VALUES_META_AFTER] = { "value.rows_after", META,
                            ".value WHERE " KEY " AND (rev, tid) < (?, ?)", T_KEY ", bigint, blob",
                            G_META, false },
    [VALUES_META_REV] = { "value.rows_rev", META, ".value WHERE " KEY " AND rev = ?",
                          T_KEY ", bigint", G_META, false },
    [VALUES_META_REV_AFTER] = { "value.rows_rev_after", META,
                                ".value WHERE " KEY " AND rev = ? AND tid < ?",
                                T_KEY ", bigint, blob", G_META, false },
    [VALUES_META_ROW] = { "value.row", META, ".value WHERE " KEY " AND rev = ? AND tid = ?",
                          T_KEY ", bigint, blob", G_META, false },
    /* Rows with their bytes. A larger value has its bytes in value_chunk instead. */
    [VALUES_FULL] = { "value.get", FULL, ".value WHERE " KEY, T_KEY, G_FULL, false },
    [VALUES_FULL_REV] = { "value.get_rev", FULL, ".value WHERE " KEY " AND rev = ?",
                          T_KEY ", bigint", G_FULL, false },
    [VALUES_FULL_ROW] = { "value.get_row", FULL, ".value WHERE " KEY " AND rev = ? AND tid = ?",
                          T_KEY ", bigint, blob", G_FULL, false },
    /* Makes a batch depend on the key's version: all of it is applied, or nothing. */
    [VALUES_DECIDE] = { "value.decide", "UPDATE ",
                        ".value USING TTL ? SET ver = ? WHERE " KEY " IF ver = ?",
                        "int, blob, " T_KEY ", blob", NULL, true },
    [VALUES_PUT] = { "value.put", "INSERT INTO ",
                     ".value (bucket, domain, made, key, rev, tid, id, own, expires, written, "
                     "size, sum, head, bytes) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
                     "USING TTL ?",
                     T_KEY ", bigint, blob, blob, bigint, bigint, bigint, bigint, bigint, blob, "
                           "blob, int",
                     NULL, false },
    /* Sets a row's end; the TTL here is of that column alone. */
    [VALUES_MOVE] = { "value.move", "UPDATE ",
                      ".value USING TTL ? SET expires = ? WHERE " KEY " AND rev = ? AND tid = ?",
                      "int, bigint, " T_KEY ", bigint, blob", NULL, false },
    [VALUES_DELETE_TO] = { "value.delete_to", "DELETE FROM ", ".value WHERE " KEY " AND rev <= ?",
                           T_KEY ", bigint", NULL, false },
    [VALUES_DELETE_REV] = { "value.delete_rev", "DELETE FROM ", ".value WHERE " KEY " AND rev = ?",
                            T_KEY ", bigint", NULL, false },
    [VALUES_DELETE_ROW] = { "value.delete_row", "DELETE FROM ",
                            ".value WHERE " KEY " AND rev = ? AND tid = ?", T_KEY ", bigint, blob",
                            NULL, false },
    /* Chunks stand under the id of their write, so two writes never share one. */
    [VALUES_CHUNK_PUT] = { "value_chunk.put", "INSERT INTO ",
                           ".value_chunk (bucket, domain, made, key, id, chunk, bytes) "
                           "VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL ?",
                           T_KEY ", blob, int, blob, int", NULL, false },
    [VALUES_CHUNK_GET] = { "value_chunk.get", "SELECT chunk, bytes FROM ",
                           ".value_chunk WHERE " KEY " AND id = ?", T_KEY ", blob", "int, blob",
                           false },
    [VALUES_CHUNK_IDS] = { "value_chunk.ids", "SELECT id FROM ", ".value_chunk WHERE " KEY, T_KEY,
                           "blob", false },
    [VALUES_CHUNK_DELETE] = { "value_chunk.delete", "DELETE FROM ",
                              ".value_chunk WHERE " KEY " AND id = ?", T_KEY ", blob", NULL,
                              false },
    /* Whole keys of a dropped bucket. */
    [VALUES_DROP] = { "value.drop", "DELETE FROM ", ".value WHERE " KEY, T_KEY, NULL, false },
    [VALUES_CHUNK_DROP] = { "value_chunk.drop", "DELETE FROM ", ".value_chunk WHERE " KEY, T_KEY,
                            NULL, false },
    /* The list of a bucket's keys, in shards: a partition has a bounded share of them. */
    [VALUES_KEY_PUT] = { "value_key.put", "INSERT INTO ",
                         ".value_key (bucket, domain, made, shard, key) VALUES (?, ?, ?, ?, ?)",
                         "text, text, blob, tinyint, blob", NULL, false },
    [VALUES_KEY_LIST] = { "value_key.list", "SELECT key FROM ",
                          ".value_key WHERE bucket = ? AND domain = ? AND made = ? AND shard = ? "
                          "AND key > ? LIMIT ?",
                          "text, text, blob, tinyint, blob, int", "blob", false },
    [VALUES_KEY_DELETE] = { "value_key.delete", "DELETE FROM ",
                            ".value_key WHERE bucket = ? AND domain = ? AND made = ? AND "
                            "shard = ? AND key = ?",
                            "text, text, blob, tinyint, blob", NULL, false },
    /* All buckets that were ever made stand in one partition, for the upkeep. */
    [VALUES_MADE_PUT] = { "value_made.put", "INSERT INTO ",
                          ".value_made (one, bucket, domain, made) VALUES (0, ?, ?, ?)",
                          "text, text, blob", NULL, false },
    [VALUES_MADE_LIST] = { "value_made.list", "SELECT bucket, domain, made FROM ",
                           ".value_made WHERE one = 0 AND (bucket, domain, made) > (?, ?, ?) "
                           "LIMIT 1",
                           "text, text, blob", "text, text, blob", false },
    [VALUES_MADE_DELETE] = { "value_made.delete", "DELETE FROM ",
                             ".value_made WHERE one = 0 AND bucket = ? AND domain = ? AND made = ?",
                             "text, text, blob", NULL, false },
    /* The lease of the upkeep lies in the table of sweeps, as the one part of a job of its own. */
    [VALUES_LEASE_GET] = { "value_lease.get", "SELECT holder, epoch, until, done_at FROM ",
                           ".lease WHERE job = ? AND part = 0", "text",
                           "bigint, bigint, bigint, bigint", false },
    [VALUES_LEASE_SET] = { "value_lease.set", "UPDATE ",
                           ".lease SET holder = ?, epoch = ?, until = ?, place = 0, done_at = ? "
                           "WHERE job = ? AND part = 0 IF epoch = ?",
                           "bigint, bigint, bigint, bigint, text, bigint", NULL, true },
};

/* The statement borrows its text, so v keeps the text for its life. */
static bool statement_add(struct values *v, unsigned i, struct err_note *note)
{
    v->texts[i] = malloc(TEXT_BYTES_MAX);
    INVARIANT(v->texts[i] != NULL);
    int n = snprintf(v->texts[i], TEXT_BYTES_MAX, "%s%s%s", texts[i].before, v->opts.keyspace,
                     texts[i].behind);
    INVARIANT(n > 0 && n < TEXT_BYTES_MAX);
    const struct cql_statement_opts o = { .name = texts[i].name,
                                          .text = v->texts[i],
                                          .takes = texts[i].takes,
                                          .gives = texts[i].gives,
                                          .idempotent = !texts[i].differs };
    v->statements[i] = cql_statement_new(v->opts.client, &o, note);
    return v->statements[i] != NULL;
}

/* ---- the store ---- */

/* This store keeps no tables with queries: both ways to one are refused with the name of the table.
 */
static enum store_start query_refuse(struct table_store *s, struct table_query *q)
{
    (void)s;
    err_note_set(&q->note, "tables are not kept on Cassandra yet: %.*s", STR_ARG(q->table));
    return store_call_done(&q->call, ERR_BAD);
}

static enum store_start parse_refuse(struct table_store *s, struct table_parse *p)
{
    (void)s;
    err_note_set(&p->note, "tables are not kept on Cassandra yet: %.*s", STR_ARG(p->table));
    return store_call_done(&p->call, ERR_BAD);
}

static void stats_get(struct table_store *s, struct tables_stats *out)
{
    struct values *v = CONTAINER_OF(s, struct values, store);
    *out = (struct tables_stats){ .puts = v->puts,
                                  .deletes = v->deletes,
                                  .gets = v->gets,
                                  .expired = v->expired,
                                  .dropped_rows = v->dropped_rows,
                                  .damaged = v->damaged };
}

static const struct table_store_ops values_ops = {
    .rows = values_rows,
    .query = query_refuse,
    .schema = values_schema,
    .change = values_change,
    .parse = parse_refuse,
    .update = values_update,
    .upkeep = values_upkeep,
    .stats = stats_get,
};

struct table_store *values_store(struct values *v)
{
    MAGIC_CHECK(v, VALUES_MAGIC);
    return &v->store;
}

void values_number(struct values *v, uint32_t srv)
{
    MAGIC_CHECK(v, VALUES_MAGIC);
    v->opts.srv = srv;
}

struct values *values_new(const struct values_opts *o, struct err_note *note)
{
    if (!titles_keyspace_is_fine(o->keyspace, note))
        return NULL;
    struct values *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    v->magic = VALUES_MAGIC;
    v->store.ops = &values_ops;
    v->opts = *o;
    v->blame.log = o->log;
    v->blame.clock = o->clock;
    INVARIANT(pthread_mutex_init(&v->lock, NULL) == 0);
    for (unsigned i = 0; i < VALUES_STATEMENTS; i++)
        if (!statement_add(v, i, note)) {
            values_free(&v);
            return NULL;
        }
    return v;
}

void values_free(struct values **vp)
{
    struct values *v = *vp;
    *vp = NULL;
    if (v == NULL)
        return;
    MAGIC_CHECK(v, VALUES_MAGIC);
    for (unsigned i = 0; i < VALUES_STATEMENTS; i++)
        free(v->texts[i]);
    for (unsigned i = 0; i < VALUES_CACHE_MAX; i++)
        free(v->cached[i]);
    free(v->sweep);
    INVARIANT(pthread_mutex_destroy(&v->lock) == 0);
    v->magic = 0;
    free(v);
}

/* ---- ids ---- */

/* A new id for a write: the instant, the server, a count. No two are the same, and each id says how
 * old its write is. */
struct values_id values_id_new(struct values *v)
{
    struct values_id id;
    put_be64(id.bytes, (uint64_t)clock_store(v->opts.clock).ns);
    put_be32(id.bytes + 8, v->opts.srv);
    put_be32(id.bytes + 12, atomic_fetch_add(&v->ids, 1));
    return id;
}

store_time values_id_time(const struct values_id *id)
{
    return (store_time){ .ns = (int64_t)get_be64(id->bytes) };
}

void values_put_id(struct cql_values *to, const struct values_id *id)
{
    cql_put_bytes(to, (str){ .p = (const char *)id->bytes, .n = VALUES_ID_BYTES });
}

bool values_get_id(const struct cql_cell *c, struct values_id *out)
{
    str bytes;
    if (!cql_get_bytes(c, &bytes) || bytes.n != VALUES_ID_BYTES)
        return false;
    memcpy(out->bytes, bytes.p, VALUES_ID_BYTES);
    return true;
}

/* ---- exchanges ---- */

mono values_deadline(const struct values *v, const struct store_call *call)
{
    return call->deadline.ns != 0 ? call->deadline
                                  : mono_add_ms(clock_mono(v->opts.clock), VALUES_WAIT_MS);
}

err values_blame(struct values *v, const struct store_call *call, err why, bool unknown, str of,
                 struct err_note *note)
{
    /* note is both the cause and what the caller is told, so the cause is copied first. */
    struct err_note cause = *note;
    if (why == ERR_OK || !(unknown || blame_is_due(why, call)))
        return why;
    return blame_cluster(&v->blame, why, &cause, unknown, of, note);
}

struct cql_values *values_ask_add(struct values_ask *a, enum values_statement s, size_t bytes)
{
    INVARIANT(a->count < VALUES_PARTS_MAX);
    struct cql_values *b = &a->bound[a->count];
    cql_values_init(b, VALUES_KEY_BYTES_MAX + bytes);
    a->parts[a->count++] = (struct cql_part){ .statement = a->values->statements[s], .values = b };
    a->bytes += bytes;
    return b;
}

struct cql_values *values_ask_key(struct values_ask *a, enum values_statement s,
                                  const struct values_key *k, size_t bytes)
{
    struct cql_values *b = values_ask_add(a, s, bytes);
    cql_put_bytes(b, k->bucket);
    cql_put_bytes(b, k->domain);
    values_put_id(b, &k->made);
    cql_put_bytes(b, k->key);
    return b;
}

/* The answer is not touched: it is the caller's to end. */
void values_ask_clear(struct values_ask *a)
{
    for (unsigned i = 0; i < a->count; i++)
        cql_values_fini(&a->bound[i]);
    a->count = 0;
    a->bytes = 0;
}

/* One part goes out alone, more as a batch. All parts are of one partition, so a batch is one
 * mutation. */
void values_ask_set(struct values_ask *a, struct home *home, mono deadline,
                    void (*done)(struct cql_request *q))
{
    a->request = (struct cql_request){ .way = a->count == 1 ? CQL_WAY_EXECUTE : CQL_WAY_BATCH,
                                       .batch = CQL_UNLOGGED,
                                       .parts = a->parts,
                                       .parts_count = a->count,
                                       .deadline = deadline,
                                       .home = home,
                                       .done = done };
    a->request.params.consistency = CQL_LOCAL_QUORUM;
    a->request.params.timestamp_us = CQL_NO_TIMESTAMP;
    a->request.params.now_s = CQL_NO_NOW;
}

/* The state is copied: the answer that holds it is ended before the next page is asked for. */
bool values_ask_more(struct values_ask *a, struct arena *arena, err *e)
{
    const struct cql_rows *rows = &a->request.out.rows;
    if (*e != ERR_OK || !rows->more)
        return false;
    str state = arena_copy(arena, rows->page_state);
    if (state.p == NULL)
        *e = ERR_LIMIT;
    a->request.params.page_state = state;
    return *e == ERR_OK;
}
