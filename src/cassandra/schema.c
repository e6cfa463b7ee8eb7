/* schema.c - looks at the schema's version, and applies what is missing. For a store that opens,
 * store_watch.c, and `palimpsest store schema`.
 *
 * Steps of an apply; after each that changes the schema all nodes are waited for:
 *   KEYSPACE -> META -> LOCK -> LOOK -> TABLES -> COLUMNS -> STATEMENT (each that is missing)
 *   -> NOTE -> UNLOCK
 * A look is LOOK -> TABLES -> COLUMNS.
 * Invariants:
 *   1 one run at a time changes tables: it holds the lock. A lock that is left by a run that broke
 *     off ends by itself after SCHEMA_LOCK_S;
 *   2 the version is noted last: by then the keyspace has all tables of that version. */
#include "cassandra/schema_impl.h"

#include "cassandra/titles.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1200, LOCK_BYTES = 17 };

enum step {
    STEP_KEYSPACE,
    STEP_META,
    STEP_LOCK,
    STEP_LOOK,
    STEP_TABLES,
    STEP_COLUMNS,
    STEP_STATEMENT,
    STEP_NOTE,
    STEP_UNLOCK,
};

/* One look or apply. It frees itself in schema_end, on the client's loop. */
struct schema {
    struct schema_opts opts;
    schema_done_fn *done;
    void *ctx;
    bool applies; /* an apply; else a look, which writes nothing */
    enum step step;
    /* of schema_tables, and of that table: what statement_next looks at next */
    unsigned at, column;
    struct schema_there there;
    struct schema_found found;
    char lock[LOCK_BYTES]; /* of this run, so that a lock that was taken unseen is known again */
    char text[TEXT_BYTES_MAX];
    struct cql_request request;
    err why; /* what it ended by, kept while the lock is given back */
    struct err_note note;
};

static void schema_end(struct schema *s, err why)
{
    s->done(s->ctx, why, &s->found, &s->note);
    free(s);
}

static void schema_done(struct cql_request *q);

/* Sends s->text; schema_done goes on from s->step. */
static void schema_ask(struct schema *s, enum step step)
{
    struct cql_request *q = &s->request;
    s->step = step;
    *q = (struct cql_request){ .way = CQL_WAY_TEXT, .text = str_of(s->text), .done = schema_done };
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    /* LOCAL_SERIAL is enough: schemas are applied from one place. */
    if (step == STEP_LOCK || step == STEP_UNLOCK)
        q->params.serial = CQL_LOCAL_SERIAL;
    /* The row 'schema' is written without a condition, so it needs a time of its own. */
    if (step == STEP_NOTE)
        q->params.timestamp_us = clock_wall(s->opts.clock).ns / NS_PER_US;
    q->deadline = s->opts.deadline;
    cql_start(s->opts.client, q);
}

static void text_set(struct schema *s, const char *format, ...) PRINTF_LIKE(2, 3);
static void text_set(struct schema *s, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(s->text, sizeof s->text, format, args);
    va_end(args);
    INVARIANT(n > 0 && n < (int)sizeof s->text); /* what goes in is bounded */
}

/* Makes the statement of a step, and sends it. Statements go as text: the client prepares nothing
 * whose table may be missing. */
static void schema_step(struct schema *s, enum step step)
{
    const char *keyspace = s->opts.keyspace;
    switch (step) {
    case STEP_KEYSPACE:
        text_set(s, "CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s", keyspace,
                 s->opts.replication);
        break;
    case STEP_META:
        text_set(s, "CREATE TABLE IF NOT EXISTS %s.meta %s", keyspace,
                 schema_tables[SCHEMA_META].rest);
        break;
    case STEP_LOCK:
        text_set(s,
                 "INSERT INTO %s.meta (key, value) VALUES ('lock', '%s') IF NOT EXISTS "
                 "USING TTL %d",
                 keyspace, s->lock, SCHEMA_LOCK_S);
        break;
    case STEP_LOOK:
        text_set(s, "SELECT value FROM %s.meta WHERE key = 'schema'", keyspace);
        break;
    case STEP_TABLES:
        text_set(s, "SELECT table_name, id FROM system_schema.tables WHERE keyspace_name = '%s'",
                 keyspace);
        break;
    case STEP_COLUMNS:
        text_set(s,
                 "SELECT table_name, column_name, type FROM system_schema.columns "
                 "WHERE keyspace_name = '%s'",
                 keyspace);
        break;
    case STEP_STATEMENT:
        break; /* set by schema_next_statement */
    case STEP_NOTE:
        text_set(s, "INSERT INTO %s.meta (key, value) VALUES ('schema', '%d')", keyspace,
                 SCHEMA_VERSION);
        break;
    case STEP_UNLOCK:
        text_set(s, "DELETE FROM %s.meta WHERE key = 'lock' IF value = '%s'", keyspace, s->lock);
        break;
    }
    schema_ask(s, step);
}

/* Makes the next statement: a table that is not there, or a column that a table lacks. False:
 * nothing is missing. */
static bool statement_next(struct schema *s)
{
    str column;
    for (; s->at < SCHEMA_TABLES; s->at++, s->column = 0) {
        const struct schema_table *t = &schema_tables[s->at];
        if (!schema_table_is_there(&s->there, s->at)) {
            text_set(s, "CREATE TABLE IF NOT EXISTS %s.%s %s", s->opts.keyspace, t->name, t->rest);
            /* Past the table: its statement makes all columns. */
            s->at++;
            return true;
        }
        if (schema_column_lacks(&s->there, s->at, &s->column, &column)) {
            text_set(s, "ALTER TABLE %s.%s ADD %.*s", s->opts.keyspace, t->name, STR_ARG(column));
            return true;
        }
    }
    return false;
}

static void schema_next_statement(struct schema *s)
{
    if (statement_next(s))
        schema_ask(s, STEP_STATEMENT);
    else
        /* The version is noted already when tables alone were missing. */
        schema_step(s, s->found.version == SCHEMA_VERSION ? STEP_UNLOCK : STEP_NOTE);
}

/* Ends the run by an error. With the lock taken the lock is given back first. */
static void schema_fail(struct schema *s, err why)
{
    s->why = why;
    if (s->applies && s->step > STEP_LOCK && s->step < STEP_UNLOCK)
        schema_step(s, STEP_UNLOCK);
    else
        schema_end(s, why);
}

/* All nodes have the change, or the deadline has passed. Steps up to META follow their order;
 * STATEMENT has as many as are missing. */
static void schema_agreed(void *ctx, err why)
{
    struct schema *s = ctx;
    if (why != ERR_OK) {
        err_note_set(&s->note, "the nodes have not all taken over: %s", s->text);
        schema_fail(s, why);
    } else if (s->step == STEP_STATEMENT) {
        schema_next_statement(s);
    } else {
        schema_step(s, s->step + 1);
    }
}

/* Was the lock taken? The answer of a try before may have been lost, and then the row holds our own
 * word. */
static bool lock_is_ours(struct schema *s)
{
    struct cql_rows rows = s->request.out.rows;
    struct cql_cell cells[3];
    bool applied = false;
    str holder = STR_NONE;
    if (rows.columns == NULL || rows.columns->count > COUNT_OF(cells) ||
        !cql_rows_next(&rows, cells) || !cql_get_bool(&cells[0], &applied))
        return false;
    /* A refused write shows the row: [applied], key, value. */
    if (!applied && rows.columns->count == 3 && !cql_get_bytes(&cells[2], &holder))
        return false;
    return applied || str_eq(holder, str_of(s->lock));
}

/* Reads the version. No row is version 0. False: the row is there and says no number. */
static bool version_take(struct schema *s)
{
    struct cql_rows rows = s->request.out.rows;
    struct cql_cell cell;
    uint64_t version;
    str text;
    s->found.version = 0;
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell))
        return !rows.rest.failed;
    if (!cql_get_bytes(&cell, &text) || !str_to_u64(text, &version) || version > INT32_MAX)
        return false;
    s->found.version = (unsigned)version;
    return true;
}

static void schema_looked(struct schema *s)
{
    if (!version_take(s)) {
        err_note_set(&s->note, "%s.meta holds no version of the schema", s->opts.keyspace);
        schema_fail(s, ERR_CORRUPT);
        /* A newer program has tables that this one does not know: it must not touch them. */
    } else if (s->applies && s->found.version > SCHEMA_VERSION) {
        err_note_set(&s->note, "the schema of %s has version %u, and this program knows %d",
                     s->opts.keyspace, s->found.version, SCHEMA_VERSION);
        schema_fail(s, ERR_CONFLICT);
    } else {
        schema_step(s, STEP_TABLES);
    }
}

/* All is read. A table that the noted version has, and the keyspace lacks, was dropped with its
 * rows. The operator must allow another one (make_missing). A column of another type is another
 * program's table, and never mended. */
static void schema_compared(struct schema *s)
{
    schema_compare(&s->there, &s->found);
    bool whole = schema_is_whole(&s->found);
    if (!s->applies) {
        schema_end(s, ERR_OK);
    } else if (s->found.columns_other > 0 || (!whole && !s->opts.make_missing)) {
        err_note_set(&s->note, "keyspace %s lacks %s", s->opts.keyspace, s->found.missing);
        schema_fail(s, ERR_CONFLICT);
    } else {
        s->at = s->column = 0;
        schema_next_statement(s);
    }
}

/* False: the answer makes no sense. */
static bool there_take(struct schema *s)
{
    bool tables = s->step == STEP_TABLES;
    bool fine = tables ? schema_tables_take(&s->there, s->request.out.rows)
                       : schema_columns_take(&s->there, s->request.out.rows);
    if (!fine)
        err_note_set(&s->note, "system_schema of the cluster cannot be read");
    return fine;
}

/* The step has gone well; the next one follows from what it read. */
static void schema_taken(struct schema *s)
{
    switch (s->step) {
    case STEP_KEYSPACE:
    case STEP_META:
    case STEP_STATEMENT:
        cql_agree(s->opts.client, s->opts.deadline, schema_agreed, s);
        break;
    case STEP_LOCK:
        if (lock_is_ours(s)) {
            schema_step(s, STEP_LOOK);
        } else {
            err_note_set(&s->note, "another one changes the schema of %s", s->opts.keyspace);
            schema_end(s, ERR_CONFLICT);
        }
        break;
    case STEP_LOOK:
        schema_looked(s);
        break;
    case STEP_TABLES:
    case STEP_COLUMNS:
        if (!there_take(s))
            schema_fail(s, ERR_CORRUPT);
        else if (s->step == STEP_TABLES)
            schema_step(s, STEP_COLUMNS);
        else
            schema_compared(s);
        break;
    case STEP_NOTE:
        s->found.version = SCHEMA_VERSION;
        schema_step(s, STEP_UNLOCK);
        break;
    case STEP_UNLOCK:
        schema_end(s, s->why);
        break;
    }
}

static void schema_done(struct cql_request *q)
{
    struct schema *s = CONTAINER_OF(q, struct schema, request);
    /* The keyspace or the table is missing: it was never made, or was dropped. A look goes on to
     * say which tables are there. */
    bool nothing = !s->applies && s->step == STEP_LOOK && q->out.code == CQL_INVALID;
    err why = nothing ? ERR_OK : q->out.why;
    if (why == ERR_OK) {
        /* The step that follows uses the request again, or frees it with the run. */
        struct cql_outcome out = q->out;
        if (nothing)
            schema_step(s, STEP_TABLES);
        else
            schema_taken(s);
        cql_outcome_fini(&out);
        return;
    }
    /* The first failure is told, and not that of giving the lock back. */
    if (s->why == ERR_OK)
        s->note = q->out.note;
    cql_outcome_fini(&q->out);
    if (s->step == STEP_UNLOCK) /* it ends by itself; what was applied is applied */
        schema_end(s, s->why);
    else
        schema_fail(s, why);
}

static struct schema *schema_new(const struct schema_opts *o, schema_done_fn *done, void *ctx)
{
    INVARIANT(strlen(o->keyspace) <= TITLES_KEYSPACE_BYTES_MAX);
    INVARIANT(o->replication == NULL || strlen(o->replication) <= SCHEMA_REPLICATION_BYTES_MAX);
    struct schema *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->opts = *o;
    s->done = done;
    s->ctx = ctx;
    uint64_t now = (uint64_t)clock_wall(o->clock).ns, here = (uint64_t)(uintptr_t)s;
    (void)snprintf(s->lock, sizeof s->lock, "%016llx",
                   (unsigned long long)(now ^ here << 20)); /* unlike that of any other run */
    return s;
}

void schema_look(const struct schema_opts *o, schema_done_fn *done, void *ctx)
{
    schema_step(schema_new(o, done, ctx), STEP_LOOK);
}

void schema_apply(const struct schema_opts *o, schema_done_fn *done, void *ctx)
{
    struct schema *s = schema_new(o, done, ctx);
    s->applies = true;
    schema_step(s, STEP_KEYSPACE);
}
