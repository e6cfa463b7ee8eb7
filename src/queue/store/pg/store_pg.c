/* store_pg.c - opening a store in PostgreSQL: its schema, the owner's lock, the connection for
 * writing; opening again after a failure; closing. */
#include "queue/store/pg/store_pg.h"

#include "loop/entropy.h"
#include "queue/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FORMAT_VERSION = 1, SCHEMA_LOCK = 0x71756575, SCHEMA_ARENA_BYTES_MAX = 64 << 10 };

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
