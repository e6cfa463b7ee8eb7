/* store_pg_own.c - partitions: their tables, who owns them, what is known of each. */
#include "queue/store/pg/store_pg.h"

#include <stdio.h>
#include <string.h>

enum { OWN_STATEMENTS_MAX = 16 };

#define VACUUM "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.1"
static const char *const FAMILY[] = {
    ("CREATE TABLE {b} (first bytea PRIMARY KEY, count int4 NOT NULL, created int8 NOT NULL, "
     "expire int8 NOT NULL,"
     " aside int4 NOT NULL, order_key bytea NOT NULL, size int4 NOT NULL, bytes bytea NOT NULL) "
     "WITH (" VACUUM ")"),
    "ALTER TABLE {b} ALTER bytes SET STORAGE EXTERNAL",
    "CREATE TABLE {s} (first bytea PRIMARY KEY, states bytea NOT NULL) WITH (fillfactor = "
    "70, " VACUUM ")",
    ("CREATE TABLE {e} (kind int4, at int8, id bytea, batch bytea NOT NULL, idx int4 NOT NULL, "
     "attempts int8 NOT NULL,"
     " created int8 NOT NULL, expire int8 NOT NULL, order_key bytea NOT NULL, PRIMARY KEY (kind, "
     "at, id))"
     " WITH (" VACUUM ")"),
    ("CREATE TABLE {l} (id bytea PRIMARY KEY, batch bytea NOT NULL, idx int4 NOT NULL, in_place "
     "int4 NOT NULL,"
     " deadline int8 NOT NULL, attempts int8 NOT NULL, token int8 NOT NULL, created int8 NOT NULL,"
     " expire int8 NOT NULL, order_key bytea NOT NULL) WITH (fillfactor = 70, " VACUUM ")"),
    ("CREATE TABLE {k} (kind int4, name bytea, first bytea NOT NULL, count int8 NOT NULL, expire "
     "int8 NOT NULL,"
     " PRIMARY KEY (kind, name)) WITH (" VACUUM ")"),
    ("CREATE TABLE {r} (n int8 PRIMARY KEY, ready int8 CHECK (ready >= 0), scheduled int8 CHECK "
     "(scheduled >= 0),"
     " leased int8 CHECK (leased >= 0), bytes int8 CHECK (bytes >= 0), last_id bytea NOT NULL, "
     "settled bytea NOT NULL)"
     " WITH (" VACUUM ")"),
    "INSERT INTO {r} SELECT 0, 0, 0, 0, 0, n, n FROM (SELECT decode(repeat('00', 20), 'hex') n) z",
};
static const char *const FAMILY_TABLES[] = { "{b}", "{s}", "{e}", "{l}", "{k}", "{r}" };

/* ---- records ---- */

static err record_take(const struct pg_rows *rows, struct queue_part_record *out)
{
    struct queue_part_record r;
    if (pg_rows_count(rows) != 1)
        return ERR_CORRUPT;
    for (unsigned i = 0; i < 4; i++)
        if (!pg_is_i64(rows, 0, i))
            return ERR_CORRUPT;
    r = (struct queue_part_record){
        .ready = (uint64_t)pg_i64(rows, 0, 0),
        .scheduled = (uint64_t)pg_i64(rows, 0, 1),
        .leased = (uint64_t)pg_i64(rows, 0, 2),
        .bytes = (uint64_t)pg_i64(rows, 0, 3),
    };
    if (!pg_id(rows, 0, 4, &r.last_id) || !pg_id(rows, 0, 5, &r.settled))
        return ERR_CORRUPT;
    *out = r;
    return ERR_OK;
}

#define RECORD_SQL                                                                                 \
    "SELECT ready, scheduled, leased, bytes, last_id, settled FROM {r} ORDER BY n DESC LIMIT 1"

static void part_params(struct pg_params *p, struct arena *a, struct queue_part part)
{
    pg_params_init(p, a);
    pg_put_i64(p, part.queue);
    pg_put_i32(p, (int32_t)part.partition);
}

/* The row of a partition; ERR_NOT_FOUND. boot, when it is there. */
static err part_find(struct store_pg *s, struct pg *c, struct arena *a, struct queue_part p,
                     struct queue_part_record *out)
{
    struct pg_params params;
    struct pg_rows *rows = NULL;
    struct pg_outcome o;
    part_params(&params, a, p);
    if (params.failed)
        return ERR_LIMIT;
    pg_run_one(c, "SELECT epoch, boot FROM queue_part WHERE queue = $1 AND partition = $2", &params,
               store_pg_deadline(s), &rows, &o);
    store_pg_keep(s, &o);
    if (o.why != ERR_OK)
        return ERR_UNAVAILABLE;
    err why = pg_rows_count(rows) == 1 ? ERR_OK : ERR_NOT_FOUND;
    if (why == ERR_OK) {
        str boot = pg_bytes(rows, 0, 1);
        out->epoch = (uint64_t)pg_i64(rows, 0, 0);
        if (boot.n == sizeof(out->boot))
            memcpy(out->boot, boot.p, boot.n);
    }
    pg_rows_free(&rows);
    return why;
}

err store_pg_record(struct queue_store *q, struct queue_part p, struct queue_part_record *out)
{
    struct store_pg *s = store_pg_of(q);
    struct pg_reader *r = NULL;
    struct arena a;
    struct queue_part_record part = { .epoch = 0 }, record;
    err why = store_pg_reader(s, &r);
    if (why != ERR_OK)
        return why;
    arena_init(&a, PG_ARENA_BYTES_MAX);
    why = part_find(s, r->conn, &a, p, &part);
    if (why == ERR_OK) {
        struct pg_rows *rows = NULL;
        struct pg_outcome o;
        pg_run_one(r->conn, store_pg_sql(&a, p, RECORD_SQL), NULL, store_pg_deadline(s), &rows, &o);
        why = o.why == ERR_OK ? record_take(rows, &record) : ERR_UNAVAILABLE;
        pg_rows_free(&rows);
    }
    store_pg_reader_back(&r);
    arena_fini(&a);
    if (why != ERR_OK)
        return why;
    *out = record;
    out->epoch = part.epoch;
    memcpy(out->boot, part.boot, sizeof(part.boot));
    return ERR_OK;
}

/* ---- owning ---- */

#define TABLE_THERE_STATE "42P07"
#define OWN_SQL                                                                                    \
    "INSERT INTO queue_part AS p VALUES ($1, $2, 1, $3, $4) ON CONFLICT (queue, partition) DO "    \
    "UPDATE"                                                                                       \
    " SET epoch = p.epoch + 1, owner = $3, boot = $4 WHERE p.owner = $3 OR "                       \
    "pg_try_advisory_xact_lock(p.owner)"                                                           \
    " RETURNING epoch"

/* Those that writes did not come to; also when it is another's, whom they are of no use either. */
#define RECORDS_OLD_SQL "DELETE FROM {r} WHERE n < (SELECT max(n) FROM {r}) - 16"

struct owning {
    struct store_pg *s;
    struct pg *conn;
    struct arena arena;
    const unsigned char *boot;
};

/* Takes one, makes its tables when it is new. ERR_CONFLICT: it is of a process that lives. */
static err own_one(struct owning *o, struct queue_part p, struct queue_part_record *out)
{
    struct queue_part_record before = { .epoch = 0 };
    struct pg_statement list[OWN_STATEMENTS_MAX];
    struct pg_rows *rows[OWN_STATEMENTS_MAX];
    struct pg_outcome outcome;
    struct pg_params params;
    unsigned count = 0;
    err found = part_find(o->s, o->conn, &o->arena, p, &before);
    if (found != ERR_OK && found != ERR_NOT_FOUND)
        return found;
    part_params(&params, &o->arena, p);
    pg_put_i64(&params, o->s->owner);
    pg_put_bytes(&params, (str){ .p = (const char *)o->boot, .n = QUEUE_BOOT_BYTES });
    for (size_t i = 0; i < COUNT_OF(FAMILY) && found == ERR_NOT_FOUND; i++)
        list[count++] = (struct pg_statement){ .sql = store_pg_sql(&o->arena, p, FAMILY[i]) };
    unsigned own = count;
    list[count++] = (struct pg_statement){ .sql = OWN_SQL, .params = &params };
    list[count++] = (struct pg_statement){ .sql = store_pg_sql(&o->arena, p, RECORD_SQL) };
    list[count++] = (struct pg_statement){ .sql = store_pg_sql(&o->arena, p, RECORDS_OLD_SQL) };
    pg_run(o->conn, list, count, store_pg_deadline(o->s), rows, &outcome);
    store_pg_keep(o->s, &outcome);
    if (strcmp(outcome.state, TABLE_THERE_STATE) == 0)
        return ERR_CORRUPT; /* its row is gone, and what lies in its tables is nobody's */
    if (outcome.why != ERR_OK)
        return outcome.why == ERR_FULL ? ERR_FULL : ERR_UNAVAILABLE;
    err why = pg_rows_count(rows[own]) == 1 ? record_take(rows[own + 1], out) : ERR_CONFLICT;
    if (why == ERR_OK) {
        out->epoch = (uint64_t)pg_i64(rows[own], 0, 0);
        memcpy(out->boot, before.boot, sizeof(before.boot));
    }
    for (unsigned i = 0; i < count; i++)
        pg_rows_free(&rows[i]);
    return why;
}

err store_pg_own(struct queue_store *q, const struct queue_part *parts, unsigned count,
                 const unsigned char boot[QUEUE_BOOT_BYTES], struct queue_part_record *out,
                 struct err_note *note)
{
    struct store_pg *s = store_pg_of(q);
    struct pg_reader *r = NULL;
    err why = count > QUEUE_OWN_MAX ? ERR_LIMIT : store_pg_reader(s, &r);
    if (why == ERR_OK) {
        struct owning o = { .s = s, .conn = r->conn, .boot = boot };
        arena_init(&o.arena, PG_ARENA_BYTES_MAX);
        for (unsigned i = 0; i < count && why == ERR_OK; i++) {
            why = own_one(&o, parts[i], &out[i]);
            arena_reset(&o.arena);
        }
        arena_fini(&o.arena);
        store_pg_reader_back(&r);
    }
    if (why == ERR_CONFLICT) {
        err_note_set(note, "store %s: another process owns these partitions", q->name);
    } else if (why != ERR_OK) {
        err_note_set(note, "store %s cannot take its partitions: %s", q->name, err_name(why));
    }
    return why;
}

/* ---- dropping ---- */

err store_pg_drop(struct queue_store *q, struct queue_part p)
{
    struct store_pg *s = store_pg_of(q);
    struct pg_reader *r = NULL;
    err why = store_pg_reader(s, &r);
    if (why != ERR_OK)
        return why;
    struct arena a;
    struct pg_params params;
    struct pg_statement list[1 + COUNT_OF(FAMILY_TABLES)];
    struct pg_outcome o;
    arena_init(&a, PG_ARENA_BYTES_MAX);
    part_params(&params, &a, p);
    list[0] =
        (struct pg_statement){ .sql = "DELETE FROM queue_part WHERE queue = $1 AND partition = $2",
                               .params = &params };
    for (size_t i = 0; i < COUNT_OF(FAMILY_TABLES); i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "DROP TABLE IF EXISTS %s", FAMILY_TABLES[i]);
        list[i + 1] = (struct pg_statement){ .sql = store_pg_sql(&a, p, text) };
    }
    pg_run(r->conn, list, COUNT_OF(list), store_pg_deadline(s), NULL, &o);
    store_pg_reader_back(&r);
    arena_fini(&a);
    return o.why;
}
