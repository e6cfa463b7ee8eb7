/* schema.c - looks at the schema's version, and applies what is missing.
 *
 * Steps of an apply; after each that changes the schema all nodes are waited for:
 *   KEYSPACE -> META -> LOCK -> LOOK -> STATEMENT (each that is missing) -> NOTE -> UNLOCK
 * A lock that is left by a run that broke off ends by itself after SCHEMA_LOCK_S. */
#include "cassandra/schema.h"

#include "cassandra/titles.h"
#include "cql/cql.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 1200, LOCK_BYTES = 17 };

/* Each is safe to run twice. The keyspace stands between the two. */
static const struct {
    unsigned version;
    const char *before, *behind;
} ddl[] = {
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".title (bucket text, domain text, title text, kind tinyint, "
      "rev bigint, tid blob, at bigint, n int, srv int, fact blob, "
      "PRIMARY KEY ((bucket, domain, title), kind, rev, tid, at, n, srv)) "
      "WITH CLUSTERING ORDER BY (kind ASC, rev DESC, tid DESC, at ASC, n ASC, srv ASC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".body (bucket text, domain text, title text, content text, "
      "rev bigint, tid blob, digest blob, chunk int, bytes blob, "
      "PRIMARY KEY ((bucket, domain, title), content, rev, tid, digest, chunk)) "
      "WITH CLUSTERING ORDER BY (content ASC, rev DESC, tid DESC, digest ASC, chunk ASC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'} "
      "AND compression = {'class': 'LZ4Compressor', 'chunk_length_in_kb': 16}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".decide (scope text, kind tinyint, key blob, gen blob static, ver blob, value blob, "
      "PRIMARY KEY (scope, kind, key)) "
      "WITH compaction = {'class': 'LeveledCompactionStrategy'}" },

    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".word (domain text, title text, asked_at bigint, at bigint, srv int, how tinyint, "
      "word blob, PRIMARY KEY ((domain, title), asked_at, at, srv)) "
      "WITH CLUSTERING ORDER BY (asked_at DESC, at DESC, srv DESC) "
      "AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".note (domain text, note text, bytes blob, PRIMARY KEY (domain, note)) "
      "WITH gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".titles (bucket text, domain text, shard tinyint, title text, "
      "PRIMARY KEY ((bucket, domain, shard), title)) "
      "WITH gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".stashes (bucket text, domain text, shard tinyint, title text, until bigint, "
      "PRIMARY KEY ((bucket, domain, shard), title, until)) "
      "WITH CLUSTERING ORDER BY (title ASC, until DESC) "
      "AND gc_grace_seconds = 10800 "
      "AND compaction = {'class': 'TimeWindowCompactionStrategy', "
      "'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".value (bucket text, domain text, made blob, key blob, rev bigint, tid blob, "
      "ver blob static, id blob, own bigint, expires bigint, written bigint, size bigint, "
      "sum bigint, head blob, bytes blob, "
      "PRIMARY KEY ((bucket, domain, made, key), rev, tid)) "
      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) AND gc_grace_seconds = 864000 "
      "AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".value_chunk (bucket text, domain text, made blob, key blob, id blob, chunk int, "
      "bytes blob, PRIMARY KEY ((bucket, domain, made, key), id, chunk)) "
      "WITH gc_grace_seconds = 864000 AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".value_key (bucket text, domain text, made blob, shard tinyint, key blob, "
      "PRIMARY KEY ((bucket, domain, made, shard), key)) "
      "WITH gc_grace_seconds = 864000 AND compaction = {'class': 'LeveledCompactionStrategy'}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".value_made (one tinyint, bucket text, domain text, made blob, "
      "PRIMARY KEY (one, bucket, domain, made)) WITH gc_grace_seconds = 864000" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".due (dc text, hour int, shard tinyint, due_at bigint, bucket text, domain text, "
      "title text, PRIMARY KEY ((dc, hour, shard), due_at, bucket, domain, title)) "
      "WITH gc_grace_seconds = 10800 "
      "AND compaction = {'class': 'TimeWindowCompactionStrategy', "
      "'compaction_window_unit': 'DAYS', 'compaction_window_size': 1}" },
    { 1, "CREATE TABLE IF NOT EXISTS ",
      ".lease (job text, part int, holder bigint, epoch bigint, until bigint, place bigint, "
      "done_at bigint, PRIMARY KEY (job, part))" },
};

enum step {
    STEP_KEYSPACE,
    STEP_META,
    STEP_LOCK,
    STEP_LOOK,
    STEP_STATEMENT,
    STEP_NOTE,
    STEP_UNLOCK,
};

struct schema {
    struct schema_opts opts;
    schema_done_fn *done;
    void *ctx;
    bool applies;
    enum step step;
    unsigned at; /* of ddl */
    unsigned version;
    char lock[LOCK_BYTES]; /* of this run, so that a lock that was taken unseen is known again */
    char text[TEXT_BYTES_MAX];
    struct cql_request request;
    err why; /* what it ended by, kept while the lock is given back */
    struct err_note note;
};

static void schema_end(struct schema *s, err why)
{
    s->done(s->ctx, why, s->version, &s->note);
    free(s);
}

static void schema_done(struct cql_request *q);

static void schema_ask(struct schema *s, enum step step)
{
    struct cql_request *q = &s->request;
    s->step = step;
    *q = (struct cql_request){ .way = CQL_WAY_TEXT, .text = str_of(s->text), .done = schema_done };
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
    if (step == STEP_LOCK || step == STEP_UNLOCK)
        q->params.serial = CQL_LOCAL_SERIAL;
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

/* The statement of a step of an apply. */
static void schema_step(struct schema *s, enum step step)
{
    const char *keyspace = s->opts.keyspace;
    switch (step) {
    case STEP_KEYSPACE:
        text_set(s, "CREATE KEYSPACE IF NOT EXISTS %s WITH replication = %s", keyspace,
                 s->opts.replication);
        break;
    case STEP_META:
        text_set(s, "CREATE TABLE IF NOT EXISTS %s.meta (key text PRIMARY KEY, value text)",
                 keyspace);
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
    case STEP_STATEMENT:
        break; /* set by who goes on to it */
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

/* The next statement that is missing, or the version when there is none. */
static void schema_next_statement(struct schema *s)
{
    while (s->at < COUNT_OF(ddl) && ddl[s->at].version <= s->version)
        s->at++;
    if (s->at == COUNT_OF(ddl)) {
        schema_step(s, s->version == SCHEMA_VERSION ? STEP_UNLOCK : STEP_NOTE);
        return;
    }
    text_set(s, "%s%s%s", ddl[s->at].before, s->opts.keyspace, ddl[s->at].behind);
    s->at++;
    schema_ask(s, STEP_STATEMENT);
}

/* With the lock taken nothing ends before it is given back. */
static void schema_fail(struct schema *s, err why)
{
    s->why = why;
    if (s->applies && s->step > STEP_LOCK && s->step < STEP_UNLOCK)
        schema_step(s, STEP_UNLOCK);
    else
        schema_end(s, why);
}

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

/* Was the lock taken? A try before may have been, whose answer was lost. */
static bool lock_is_ours(struct schema *s)
{
    struct cql_rows rows = s->request.out.rows;
    struct cql_cell cells[3];
    bool applied = false;
    str holder = STR_NONE;
    if (rows.columns == NULL || rows.columns->count > COUNT_OF(cells) ||
        !cql_rows_next(&rows, cells) || !cql_get_bool(&cells[0], &applied))
        return false;
    if (!applied && rows.columns->count == 3 && !cql_get_bytes(&cells[2], &holder))
        return false;
    return applied || str_eq(holder, str_of(s->lock));
}

/* False: the row is there and says no number. */
static bool version_take(struct schema *s)
{
    struct cql_rows rows = s->request.out.rows;
    struct cql_cell cell;
    uint64_t version;
    str text;
    s->version = 0;
    if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell))
        return !rows.rest.failed;
    if (!cql_get_bytes(&cell, &text) || !str_to_u64(text, &version) || version > INT32_MAX)
        return false;
    s->version = (unsigned)version;
    return true;
}

static void schema_looked(struct schema *s)
{
    if (!version_take(s)) {
        err_note_set(&s->note, "%s.meta holds no version of the schema", s->opts.keyspace);
        schema_fail(s, ERR_CORRUPT);
    } else if (!s->applies) {
        schema_end(s, ERR_OK);
    } else if (s->version > SCHEMA_VERSION) {
        err_note_set(&s->note, "the schema of %s has version %u, and this program knows %d",
                     s->opts.keyspace, s->version, SCHEMA_VERSION);
        schema_fail(s, ERR_CONFLICT);
    } else {
        schema_next_statement(s);
    }
}

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
    case STEP_NOTE:
        s->version = SCHEMA_VERSION;
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
    /* Neither keyspace nor table: nothing was ever applied. */
    bool nothing = !s->applies && q->out.code == CQL_INVALID;
    err why = nothing ? ERR_OK : q->out.why;
    if (why == ERR_OK) {
        struct cql_outcome out = q->out;
        if (nothing)
            schema_end(s, ERR_OK);
        else
            schema_taken(s);
        cql_outcome_fini(&out);
        return;
    }
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
