/* store_pg_own.c - partitions in PostgreSQL: their tables, who owns them, what is known of each.
 * For store_pg.c and the queues' reading. Invariant: a partition's row in queue_part and its
 * tables are made in one transaction, and dropped in one. */
#include "queue/store/pg/store_pg.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Autovacuum comes early: rows of queues die soon after they were written. */
#define VACUUM "autovacuum_vacuum_scale_factor = 0.01, autovacuum_vacuum_insert_scale_factor = 0.1"
static const char *const FAMILY[] = {
    ("CREATE TABLE {b} (first bytea PRIMARY KEY, count int4 NOT NULL, created int8 NOT NULL, "
     "expire int8 NOT NULL,"
     " aside int4 NOT NULL, order_key bytea NOT NULL, size int4 NOT NULL, bytes bytea NOT NULL) "
     "WITH (" VACUUM ")"),
    /* Uncompressed and out of line, so that a part of the bytes is read without the rest. */
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
    /* The record begins with one row of zeros; a write adds the next from the newest one. */
    "INSERT INTO {r} SELECT 0, 0, 0, 0, 0, n, n FROM (SELECT decode(repeat('00', 20), 'hex') n) z",
};
static const char *const FAMILY_TABLES[] = { "{b}", "{s}", "{e}", "{l}", "{k}", "{r}" };

/* ---- records ---- */

/* Each column of the type it should have: a restored table may have others. */
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

/* The newest row is the record. */
#define RECORD_SQL                                                                                 \
    "SELECT ready, scheduled, leased, bytes, last_id, settled FROM {r} ORDER BY n DESC LIMIT 1"

#define PART_SQL "SELECT epoch, boot FROM queue_part WHERE queue = $1 AND partition = $2"

static struct pg_params *part_params(struct pg_ask *k)
{
    struct pg_params *p = pg_ask_params(k);
    pg_put_i64(p, k->part.queue);
    pg_put_i32(p, (int32_t)k->part.partition);
    return p;
}

/* The row of a partition; ERR_NOT_FOUND. boot, when it is there. */
static err part_take(const struct pg_rows *rows, struct queue_part_record *out)
{
    if (pg_rows_count(rows) != 1)
        return ERR_NOT_FOUND;
    str boot = pg_bytes(rows, 0, 1);
    out->epoch = (uint64_t)pg_i64(rows, 0, 0);
    if (boot.n == sizeof(out->boot))
        memcpy(out->boot, boot.p, boot.n);
    return ERR_OK;
}

struct record_ask {
    struct pg_ask ask;
    struct queue_part_record *out;
};

static bool record_next(struct pg_ask *k)
{
    struct record_ask *r = CONTAINER_OF(k, struct record_ask, ask);
    struct queue_part_record part = { .epoch = 0 };
    /* Two statements of one unit: one transaction, so epoch and counts fit together. */
    if (k->step == 0) {
        pg_ask_add(k, PART_SQL, part_params(k));
        pg_ask_add(k, RECORD_SQL, NULL);
        return true;
    }
    k->why = part_take(k->got[0], &part);
    if (k->why == ERR_OK)
        k->why = record_take(k->got[1], r->out);
    if (k->why == ERR_OK) {
        r->out->epoch = part.epoch;
        memcpy(r->out->boot, part.boot, sizeof(part.boot));
    }
    return false;
}

static void record_free(struct pg_ask *k)
{
    free(CONTAINER_OF(k, struct record_ask, ask));
}

/* Blocks: only a migration asks. */
err store_pg_record(struct queue_store *q, struct queue_part p, struct queue_part_record *out)
{
    struct record_ask *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct record_ask){ .ask = { .next = record_next, .free = record_free }, .out = out };
    return pg_ask_run(&r->ask, q, p, NULL);
}

/* ---- owning ---- */

#define TABLE_THERE_STATE "42P07"
/* Does the process that owns live? It holds the lock of its number, shared. Who looks takes that
 * lock alone till its transaction ends, so two who look at once hide it from each other: hence the
 * list of locks. Who comes back in between is fenced by the epoch. */
#define OWNER_LIVES(owner)                                                                         \
    "(NOT pg_try_advisory_xact_lock(" owner ") AND EXISTS (SELECT FROM pg_locks WHERE granted"     \
    " AND locktype = 'advisory' AND mode = 'ShareLock' AND objsubid = 1"                           \
    " AND database = (SELECT oid FROM pg_database WHERE datname = current_database())"             \
    " AND (classid::int8 << 32 | objid::int8) = " owner "))"
#define OWN_SQL                                                                                    \
    "INSERT INTO queue_part AS p VALUES ($1, $2, 1, $3, $4) ON CONFLICT (queue, partition) DO "    \
    "UPDATE"                                                                                       \
    " SET epoch = p.epoch + 1, owner = $3, boot = $4 WHERE p.owner = $3 OR NOT " OWNER_LIVES(      \
        "p.owner") " RETURNING epoch"

/* Those that writes did not come to; also when it is another's, whom they are of no use either. */
#define RECORDS_OLD_SQL "DELETE FROM {r} WHERE n < (SELECT max(n) FROM {r}) - 16"

/* A call to own, partition after partition. own.out and own.note are the caller's. */
struct own_ask {
    struct pg_ask ask;
    struct queue_own own;
    unsigned at; /* which partition */
    bool found;
    struct queue_part_record before;
};

/* What an error of owning says; that of a look at a partition's row has no such state. */
static err own_failed(const struct pg_outcome *o)
{
    if (strcmp(o->state, TABLE_THERE_STATE) == 0)
        return ERR_GONE; /* its row is, and who owns what lies in its tables cannot be known */
    return o->why == ERR_FULL ? ERR_FULL : ERR_UNAVAILABLE;
}

/* One unit: makes the tables when the partition is new, takes its row, reads its record. */
static void own_add(struct own_ask *o)
{
    struct pg_ask *k = &o->ask;
    struct pg_params *params = part_params(k);
    pg_put_i64(params, k->s->owner);
    pg_put_bytes(params, (str){ .p = (const char *)o->own.boot, .n = QUEUE_BOOT_BYTES });
    /* Without IF NOT EXISTS: tables without a row are an error (own_failed). */
    for (size_t i = 0; i < COUNT_OF(FAMILY) && !o->found; i++)
        pg_ask_add(k, FAMILY[i], NULL);
    pg_ask_add(k, OWN_SQL, params);
    pg_ask_add(k, RECORD_SQL, NULL);
    pg_ask_add(k, RECORDS_OLD_SQL, NULL);
}

/* ERR_CONFLICT: it is of a process that lives. */
static err own_take(struct own_ask *o)
{
    /* Answers come in the order of statements: those of FAMILY first. */
    unsigned own = o->found ? 0 : COUNT_OF(FAMILY);
    struct pg_rows **rows = &o->ask.got[own];
    struct queue_part_record *out = &o->own.out[o->at];
    /* No row returned: the condition of OWN_SQL did not hold. */
    err why = pg_rows_count(rows[0]) == 1 ? record_take(rows[1], out) : ERR_CONFLICT;
    if (why == ERR_OK) {
        out->epoch = (uint64_t)pg_i64(rows[0], 0, 0);
        memcpy(out->boot, o->before.boot, sizeof(o->before.boot));
    }
    return why;
}

/* Two units for each partition: is it there, and then owning. */
static bool own_next(struct pg_ask *k)
{
    struct own_ask *o = CONTAINER_OF(k, struct own_ask, ask);
    /* Odd steps have the answer to PART_SQL. */
    if (k->step % 2 == 1) {
        o->before = (struct queue_part_record){ .epoch = 0 };
        o->found = part_take(k->got[0], &o->before) == ERR_OK;
        own_add(o);
        return true;
    }
    k->why = k->step == 0 ? ERR_OK : own_take(o);
    o->at += k->step > 0;
    if (k->why != ERR_OK || o->at == o->own.count)
        return false;
    k->part = o->own.parts[o->at];
    pg_ask_add(k, PART_SQL, part_params(k));
    return true;
}

/* Notes are made here, where why is final, on whatever thread frees it. */
static void own_free(struct pg_ask *k)
{
    struct own_ask *o = CONTAINER_OF(k, struct own_ask, ask);
    if (k->why == ERR_CONFLICT)
        err_note_set(o->own.note, "store %s: another process owns these partitions", k->s->name);
    else if (k->why == ERR_GONE)
        err_note_set(
            o->own.note,
            "its tables are there, and its row in queue_part (queue %u, partition %u) is not: "
            "put the row back, or drop the tables",
            k->part.queue, k->part.partition);
    else if (k->why != ERR_OK)
        err_note_set(o->own.note, "store %s cannot take its partitions: %s", k->s->name,
                     err_name(k->why));
    free(o);
}

/* Those that were owned before a failure stay owned: the next own takes them again (open.h). */
err store_pg_own(struct queue_store *q, const struct queue_own *own)
{
    if (own->count > QUEUE_OWN_MAX)
        return ERR_LIMIT;
    struct own_ask *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    *o = (struct own_ask){ .ask = { .next = own_next, .failed = own_failed, .free = own_free },
                           .own = *own };
    return pg_ask_run(&o->ask, q, own->parts[0], own->later);
}

/* ---- dropping ---- */

#define DROP_ANOTHERS_STATE "22012" /* division by zero */
/* Fails when a process that lives owns it; else nobody takes it before the transaction ends. */
#define DROP_MAY_SQL                                                                               \
    "SELECT 1 / (count(*) = 0)::int4 FROM queue_part p WHERE queue = $1 AND partition = $2 AND "   \
    "owner <> $3 AND " OWNER_LIVES("p.owner")

/* The row goes in the same transaction as the tables: its owner can write no more. */
static bool drop_next(struct pg_ask *k)
{
    if (k->step > 0)
        return false;
    struct pg_params *may = part_params(k);
    pg_put_i64(may, k->s->owner);
    pg_ask_add(k, DROP_MAY_SQL, may);
    pg_ask_add(k, "DELETE FROM queue_part WHERE queue = $1 AND partition = $2", part_params(k));
    for (size_t i = 0; i < COUNT_OF(FAMILY_TABLES); i++) {
        char text[32];
        (void)snprintf(text, sizeof(text), "DROP TABLE IF EXISTS %s", FAMILY_TABLES[i]);
        pg_ask_add(k, text, NULL);
    }
    return true;
}

static err drop_failed(const struct pg_outcome *o)
{
    return strcmp(o->state, DROP_ANOTHERS_STATE) == 0 ? ERR_CONFLICT : o->why;
}

static void ask_free(struct pg_ask *k)
{
    free(k);
}

err store_pg_drop(struct queue_store *q, struct queue_part p, struct queue_later *later)
{
    struct pg_ask *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    *k = (struct pg_ask){ .next = drop_next, .failed = drop_failed, .free = ask_free };
    return pg_ask_run(k, q, p, later);
}
