#include "queue/store/pg/store_pg.h"

#include "loop/entropy.h"
#include "queue/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    FORMAT_VERSION = 1,
    OWN_STATEMENTS_MAX = 16,
    SCHEMA_LOCK = 0x71756575,
    SCHEMA_ARENA_BYTES_MAX = 64 << 10
};

struct store_pg *store_pg_of(struct queue_store *q)
{
    struct store_pg *s = CONTAINER_OF(q, struct store_pg, store);
    MAGIC_CHECK(s, STORE_PG_MAGIC);
    return s;
}

mono store_pg_deadline(const struct store_pg *s)
{
    return mono_add_ms(clock_mono(s->clock), s->timeout_ms);
}

/* ---- connections ---- */

/* By key alone, whatever the tables' statistics say: they count what lives, not what a held
 * snapshot keeps. */
static const char SETTINGS[] =
    "-c enable_seqscan=off -c enable_mergejoin=off -c enable_hashjoin=off";

/* What is acknowledged is committed as durably as the cluster can. Any other setting of a role or
 * database stands, but for a limit that later servers know, and that a walk would meet. Last: did
 * the session begin as it was to? */
static const struct pg_statement SESSION[] = {
    { .sql = "SELECT set_config('synchronous_commit', 'on', false)"
             " WHERE current_setting('synchronous_commit') = 'off'" },
    { .sql = "SELECT set_config('transaction_timeout', '0', false)"
             " WHERE current_setting('transaction_timeout', true) IS NOT NULL" },
    { .sql = "SELECT (current_setting('client_min_messages') = 'error')::int4" },
};

/* What a session needs. ERR_BAD: what it was to begin with did not reach it, so that no limit of
 * time holds. */
static err session_begin(struct pg *c, mono deadline, struct err_note *note)
{
    struct pg_rows *rows[COUNT_OF(SESSION)];
    struct pg_outcome o;
    pg_run(c, SESSION, COUNT_OF(SESSION), deadline, rows, &o);
    if (o.why != ERR_OK) {
        err_note_set(note, "%s", o.note.text);
        return ERR_UNAVAILABLE;
    }
    bool is_ours = pg_i64(rows[COUNT_OF(SESSION) - 1], 0, 0) == 1;
    for (size_t i = 0; i < COUNT_OF(SESSION); i++)
        pg_rows_free(&rows[i]);
    if (!is_ours)
        err_note_set(
            note,
            "something before PostgreSQL, a pooler perhaps, drops the options of its sessions; each"
            " has to be ours alone, with these options");
    return is_ours ? ERR_OK : ERR_BAD;
}

err store_pg_connect(struct store_pg *s, struct pg **out, struct err_note *note)
{
    struct pg_opts opts = {
        .url = s->url,
        .application = s->name,
        .settings = SETTINGS,
        .clock = s->clock,
        .address = &s->address,
        .ended = &s->ended,
        .statement_timeout_ms =
            s->timeout_ms / 4 * 3, /* before we give it up: then nothing of it is there */
    };
    struct pg *c = NULL;
    mono deadline = store_pg_deadline(s);
    err why = pg_open(&opts, deadline, &c, note);
    if (why == ERR_OK)
        why = session_begin(c, deadline, note);
    if (why != ERR_OK) {
        pg_close(&c);
        return why;
    }
    *out = c;
    return ERR_OK;
}

static uint64_t missed(struct store_pg *s, unsigned more)
{
    pthread_mutex_lock(&s->lock);
    s->missed += more;
    uint64_t count = s->missed;
    pthread_mutex_unlock(&s->lock);
    return count;
}

err store_pg_reader(struct store_pg *s, struct pg_reader **out)
{
    unsigned i = 0;
    uint64_t before = missed(s, 0);
    while (i < PG_READERS && pthread_mutex_trylock(&s->readers[i].lock) != 0)
        i++;
    struct pg_reader *r = &s->readers[i % PG_READERS];
    if (i == PG_READERS)
        pthread_mutex_lock(&r->lock); /* each ends at its deadline */
    pthread_mutex_lock(&s->lock);
    bool failed = s->failed || (i == PG_READERS &&
                                s->missed != before); /* else who waits waits that long once more */
    pthread_mutex_unlock(&s->lock);
    err why = failed ? ERR_UNAVAILABLE : ERR_OK;
    if (why == ERR_OK && r->conn == NULL)
        why = store_pg_connect(s, &r->conn, NULL);
    if (why != ERR_OK) {
        (void)missed(s, failed ? 0 : 1);
        pthread_mutex_unlock(&r->lock);
        return ERR_UNAVAILABLE;
    }
    r->store = s;
    *out = r;
    return ERR_OK;
}

void store_pg_reader_back(struct pg_reader **rp)
{
    struct pg_reader *r = *rp;
    *rp = NULL;
    if (r->conn != NULL && pg_broken(r->conn)) {
        pg_close(&r->conn);
        (void)missed(r->store, 1);
    }
    pthread_mutex_unlock(&r->lock);
}

/* ---- what it said ---- */

void store_pg_keep(struct store_pg *s, const struct pg_outcome *o)
{
    if (o->why == ERR_OK)
        return;
    pthread_mutex_lock(&s->lock);
    s->said = o->note;
    pthread_mutex_unlock(&s->lock);
}

static void store_pg_said(struct queue_store *q, struct err_note *note)
{
    struct store_pg *s = store_pg_of(q);
    pthread_mutex_lock(&s->lock);
    *note = s->said;
    pthread_mutex_unlock(&s->lock);
}

/* ---- SQL ---- */

const char *store_pg_sql(struct arena *a, struct queue_part p, const char *format)
{
    char family[32];
    int n =
        snprintf(family, sizeof(family), "queue_%u_%u_", (unsigned)p.queue, (unsigned)p.partition);
    size_t count = 0;
    for (const char *at = strchr(format, '{'); at != NULL; at = strchr(at + 1, '{'))
        count++;
    char *sql = arena_alloc(a, strlen(format) + count * (size_t)n + 1);
    if (sql == NULL)
        return NULL;
    char *to = sql;
    for (const char *from = format; *from != '\0'; from++) {
        if (*from == '{') {
            memcpy(to, family, (size_t)n);
            to += n;
        } else if (*from != '}') {
            *to++ = *from;
        }
    }
    *to = '\0';
    return sql;
}

void pg_put_id(struct pg_params *p, struct ksuid id)
{
    unsigned char bytes[KSUID_BYTES];
    ksuid_key(id, bytes);
    pg_put_bytes(p, (str){ .p = (const char *)bytes, .n = sizeof(bytes) });
}

bool pg_id(const struct pg_rows *r, unsigned row, unsigned column, struct ksuid *out)
{
    str s = pg_bytes(r, row, column);
    if (s.n != KSUID_BYTES)
        return false;
    *out = ksuid_from_key((const unsigned char *)s.p);
    return true;
}

/* ---- the schema ---- */

static const char *const SCHEMA[] = {
    "CREATE TABLE IF NOT EXISTS queue_store (version int4 PRIMARY KEY, beats int8 NOT NULL) WITH "
    "(fillfactor = 10)",
    ("CREATE TABLE IF NOT EXISTS queue_part (queue int8, partition int4, epoch int8 NOT NULL, "
     "owner int8 NOT NULL,"
     " boot bytea NOT NULL, PRIMARY KEY (queue, partition)) WITH (fillfactor = 50)"),
    "INSERT INTO queue_store SELECT 1, 0 WHERE NOT EXISTS (SELECT FROM queue_store)",
    "CREATE TABLE IF NOT EXISTS queue_deployment (name bytea NOT NULL)",
};
#define DEPLOYMENT_SQL                                                                             \
    "INSERT INTO queue_deployment SELECT $1 WHERE NOT EXISTS (SELECT FROM queue_deployment)"

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

/* Is it of our version, and ours? */
static err schema_check(struct store_pg *s, const struct pg_rows *found, struct err_note *note)
{
    if (pg_rows_count(found) != 1 || pg_i64(found, 0, 0) != FORMAT_VERSION) {
        err_note_set(note, "store %s: the queues of its database are of another version", s->name);
        return ERR_BAD;
    }
    return queue_owner_check(s->name, "database", pg_bytes(found, 0, 1), s->deployment, note);
}

static err schema_make(struct store_pg *s, struct pg *c, struct err_note *note)
{
    struct pg_statement list[3 + COUNT_OF(SCHEMA)];
    struct pg_rows *rows[COUNT_OF(list)];
    struct pg_outcome out;
    struct pg_params params;
    struct arena a;
    char text[64];
    size_t count = 0;
    arena_init(&a, SCHEMA_ARENA_BYTES_MAX);
    pg_params_init(&params, &a);
    pg_put_bytes(&params, str_of(s->deployment));
    INVARIANT(!params.failed);
    (void)snprintf(text, sizeof(text), "SELECT pg_advisory_xact_lock(%d)",
                   SCHEMA_LOCK); /* two may begin at once */
    list[count++] = (struct pg_statement){ .sql = text };
    for (size_t i = 0; i < COUNT_OF(SCHEMA); i++)
        list[count++] = (struct pg_statement){ .sql = SCHEMA[i] };
    list[count++] = (struct pg_statement){ .sql = DEPLOYMENT_SQL, .params = &params };
    list[count++] =
        (struct pg_statement){ .sql = "SELECT version, name FROM queue_store, queue_deployment" };
    pg_run(c, list, (unsigned)count, store_pg_deadline(s), rows, &out);
    arena_fini(&a);
    if (out.why != ERR_OK) {
        err_note_set(note, "%s", out.note.text);
        return out.why == ERR_DENIED ? ERR_DENIED : ERR_UNAVAILABLE;
    }
    err why = schema_check(s, rows[count - 1], note);
    for (size_t i = 0; i < count; i++)
        pg_rows_free(&rows[i]);
    return why;
}

/* Says that this process lives. While an earlier connection of it lingers its lock does the
 * same. */
static err owner_lock(struct store_pg *s, struct pg *c)
{
    char text[64];
    struct pg_outcome out;
    (void)snprintf(text, sizeof(text), "SELECT pg_advisory_lock_shared(%lld)", (long long)s->owner);
    pg_run_one(c, text, NULL, store_pg_deadline(s), NULL, &out);
    return out.why;
}

/* ---- owning ---- */

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

static err store_pg_own(struct queue_store *q, const struct queue_part *parts, unsigned count,
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

static err store_pg_drop(struct queue_store *q, struct queue_part p)
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

/* ---- opening ---- */

static void readers_close(struct store_pg *s)
{
    for (unsigned i = 0; i < PG_READERS; i++) {
        pthread_mutex_lock(&s->readers[i].lock);
        pg_close(&s->readers[i].conn);
        pthread_mutex_unlock(&s->readers[i].lock);
    }
}

/* The connection for writing, and what it needs to be there. */
static err begin(struct store_pg *s, struct err_note *note)
{
    struct pg *c = NULL;
    err why = store_pg_connect(s, &c, note);
    if (why == ERR_OK)
        why = schema_make(s, c, note);
    if (why == ERR_OK && owner_lock(s, c) != ERR_OK) {
        err_note_set(note, "PostgreSQL does not give the owner's lock");
        why = ERR_UNAVAILABLE;
    }
    if (why != ERR_OK) {
        pg_close(&c);
        return why;
    }
    s->conn = c;
    return ERR_OK;
}

/* Until no job is on its way. Under the lock. */
static void wait_idle(struct store_pg *s)
{
    while (s->running || s->opening)
        pthread_cond_wait(&s->idle, &s->lock);
}

static err store_pg_recover(struct queue_store *q, struct err_note *note)
{
    struct store_pg *s = store_pg_of(q);
    pthread_mutex_lock(&s->lock);
    wait_idle(s);
    s->failed = true;
    pthread_mutex_unlock(&s->lock);
    readers_close(s);
    struct pg *before = s->conn; /* holds the owner's lock until the next one does */
    s->conn = NULL;
    err why = begin(s, note);
    pg_close(&before);
    pthread_mutex_lock(&s->lock);
    s->failed = why != ERR_OK;
    pthread_mutex_unlock(&s->lock);
    return why == ERR_OK || why == ERR_BAD ? why : ERR_UNAVAILABLE;
}

static void store_pg_close(struct queue_store **qp)
{
    if (*qp == NULL)
        return;
    struct store_pg *s = store_pg_of(*qp);
    *qp = NULL;
    pthread_mutex_lock(&s->lock);
    atomic_store(&s->ended, s->opening); /* nobody else uses it then; what writes is let end */
    wait_idle(s);
    pthread_mutex_unlock(&s->lock);
    readers_close(s);
    pg_close(&s->conn);
    for (unsigned i = 0; i < PG_READERS; i++)
        pthread_mutex_destroy(&s->readers[i].lock);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->idle);
    free(s->name);
    free(s->url);
    free(s->deployment);
    s->magic = 0;
    free(s);
}

static const struct queue_store_ops pg_ops = {
    .write = store_pg_write,
    .own = store_pg_own,
    .record = store_pg_record,
    .scan = store_pg_scan,
    .batch = store_pg_batch,
    .bodies = store_pg_bodies,
    .drop = store_pg_drop,
    .recover = store_pg_recover,
    .heartbeat = store_pg_heartbeat,
    .said = store_pg_said,
    .close = store_pg_close,
};

void queue_pg_init(void)
{
    pg_ask_nobody();
}

err queue_pg_url_check(const char *url, struct err_note *note)
{
    return pg_url_check(url, note);
}

/* Of its own: the store may be closed before the loop comes to done. */
struct opening {
    struct loop_job job;
    struct store_pg *s;
};

static void opening_over(struct opening *o, err why, const struct err_note *note)
{
    struct store_pg *s = o->s;
    o->s = NULL;
    pthread_mutex_lock(&s->lock);
    s->opening = false;
    s->opened = why == ERR_OK || why == ERR_BAD || why == ERR_DENIED ? why : ERR_UNAVAILABLE;
    s->opened_note = *note;
    s->failed = why != ERR_OK;
    pthread_cond_broadcast(&s->idle);
    pthread_mutex_unlock(&s->lock);
}

static void opening_run(struct loop_job *j)
{
    struct opening *o = CONTAINER_OF(j, struct opening, job);
    struct err_note note = { .text = "" };
    err why = begin(o->s, &note);
    opening_over(o, why, &note);
}

static void opening_done(struct loop_job *j, bool canceled)
{
    struct opening *o = CONTAINER_OF(j, struct opening, job);
    if (canceled && o->s != NULL)
        opening_over(o, ERR_UNAVAILABLE, &(struct err_note){ .text = "" });
    free(o);
}

static void opening_start(struct store_pg *s)
{
    struct opening *o = calloc(1, sizeof(*o));
    INVARIANT(o != NULL);
    *o = (struct opening){ .job = { .run = opening_run, .done = opening_done }, .s = s };
    s->opening = s->failed = true;
    loop_job_start(s->loop, &o->job);
}

err queue_pg_opened(struct queue_store *q, struct err_note *note)
{
    struct store_pg *s = store_pg_of(q);
    pthread_mutex_lock(&s->lock);
    err why = s->opening ? ERR_AGAIN : s->opened;
    if (why != ERR_OK)
        err_note_set(note, "%s", s->opening ? "PostgreSQL does not answer" : s->opened_note.text);
    pthread_mutex_unlock(&s->lock);
    return why;
}

err queue_pg_open(const struct queue_pg_opts *opts, struct queue_store **out, struct err_note *note)
{
    err why = pg_url_check(opts->url, note);
    if (why == ERR_OK)
        why = queue_deployment_check(opts->deployment, note);
    if (why != ERR_OK)
        return why;
    struct store_pg *s = calloc(1, sizeof(*s));
    INVARIANT(s != NULL);
    *s = (struct store_pg){
        .magic = STORE_PG_MAGIC,
        .name = strdup(opts->name),
        .url = strdup(opts->url),
        .deployment = strdup(opts->deployment),
        .loop = opts->loop,
        .clock = opts->clock,
        .timeout_ms = opts->write_timeout_ms,
        .owner = (int64_t)(entropy_u64() >> 1),
        .job = { .run = store_pg_job_run, .done = store_pg_job_done },
    };
    INVARIANT(s->name != NULL && s->url != NULL && s->deployment != NULL);
    s->store = (struct queue_store){
        .ops = &pg_ops, .name = s->name, .dies_alone = true, .jobs_max = PG_READERS
    };
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->idle, NULL);
    for (unsigned i = 0; i < PG_READERS; i++)
        pthread_mutex_init(&s->readers[i].lock, NULL);
    struct queue_store *q = &s->store;
    if (opts->later) {
        opening_start(s);
        *out = q;
        return ERR_OK;
    }
    why = begin(s, note);
    s->failed = why != ERR_OK;
    if (why == ERR_BAD || why == ERR_DENIED) {
        store_pg_close(&q);
        return why;
    }
    *out = q; /* one that is away now is recovered later */
    return ERR_OK;
}
