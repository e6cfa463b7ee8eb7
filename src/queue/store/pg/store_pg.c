/* store_pg.c - opening a store in PostgreSQL, for the server: its schema, the owner's lock, the
 * connection for writing; opening again after a failure; closing. Invariant: s->conn holds the
 * owner's lock, and the connection before it is closed only when the next one holds that lock,
 * too. */
#include "queue/store/pg/store_pg.h"

#include "loop/entropy.h"
#include "queue/catalogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    /* SCHEMA_LOCK: an advisory lock of this schema, by a number of our own. */
    FORMAT_VERSION = 1,
    SCHEMA_LOCK = 0x71756575,
    BEGIN_ARENA_BYTES_MAX = 64 << 10,
    BEGIN_TEXT_BYTES = 64,
};

/* ---- the schema ---- */

/* fillfactor: rows that are often updated find room in their page. */
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

/* Is the database of our version, and of our deployment? */
static err schema_check(struct store_pg *s, const struct pg_rows *found, struct err_note *note)
{
    if (pg_rows_count(found) != 1 || pg_i64(found, 0, 0) != FORMAT_VERSION) {
        err_note_set(note, "store %s: the queues of its database are of another version", s->name);
        return ERR_BAD;
    }
    return queue_owner_check(s->name, "database", pg_bytes(found, 0, 1), s->deployment, note);
}

/* ---- beginning: the connection for writing, and what it needs to be there. On the loop ---- */

/* Loop: the connection stands, or could not be had. Whoever waits for it is told: queue_pg_open,
 * or recover. */
static void begin_over(struct store_pg *s, err why, struct err_note note)
{
    struct pg_beginning *b = &s->beginning;
    struct queue_later *later = b->later;
    bool first = later == NULL;
    if (why != ERR_OK)
        /* b->before goes in any case: without a new connection nobody relies on its lock. */
        pg_close(&s->conn);
    pg_close(&b->before);
    arena_fini(&b->arena);
    b->active = false;
    /* Later on a user who is denied counts as a store that is away. */
    why = why == ERR_OK || why == ERR_BAD || (first && why == ERR_DENIED) ? why : ERR_UNAVAILABLE;
    pthread_mutex_lock(&s->lock);
    /* From here on writes are taken. */
    s->failed = why != ERR_OK;
    if (first) {
        s->opening = false;
        s->opened = why;
        s->opened_note = note;
    }
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (why != ERR_OK && b->note != NULL)
        *b->note = note;
    if (later != NULL) {
        later->why = why;
        home_post(later->home, &later->task);
    }
    /* Another recover, or close, may have waited for this one. */
    store_pg_settle(s);
}

/* One unit on the connection that is being made; its answer comes to done. */
static void begin_send(struct store_pg *s, unsigned count, struct pg_rows **rows,
                       void (*done)(struct pg_unit *u))
{
    struct pg_beginning *b = &s->beginning;
    b->unit = (struct pg_unit){ .list = b->list,
                                .count = count,
                                .deadline = store_pg_deadline(s),
                                .rows = rows,
                                .done = done };
    pg_start(s->conn, &b->unit);
}

/* function(n), SQL. */
static char *begin_text(struct pg_beginning *b, const char *function, long long n)
{
    char *text = arena_alloc(&b->arena, BEGIN_TEXT_BYTES);
    INVARIANT(text != NULL);
    (void)snprintf(text, BEGIN_TEXT_BYTES, "SELECT %s(%lld)", function, n);
    return text;
}

/* ERR_IO as well: the connection is of no use. */
static void owner_locked(struct pg_unit *u)
{
    struct store_pg *s = CONTAINER_OF(u, struct store_pg, beginning.unit);
    if (u->out.why == ERR_OK)
        begin_over(s, ERR_OK, u->out.note);
    else
        begin_over(s, ERR_UNAVAILABLE,
                   (struct err_note){ "PostgreSQL does not give the owner's lock" });
}

/* The lock says that this process lives. While an earlier connection of it lingers its lock does
 * the same. */
static void schema_made(struct pg_unit *u)
{
    struct store_pg *s = CONTAINER_OF(u, struct store_pg, beginning.unit);
    struct pg_beginning *b = &s->beginning;
    struct err_note note = u->out.note;
    err why = u->out.why == ERR_OK || u->out.why == ERR_DENIED ? u->out.why : ERR_UNAVAILABLE;
    if (why == ERR_OK)
        why = schema_check(s, b->rows[PG_SCHEMA_STATEMENTS - 1], &note);
    for (unsigned i = 0; i < PG_SCHEMA_STATEMENTS; i++)
        /* Rows are freed whatever was found in them. */
        pg_rows_free(&b->rows[i]);
    if (why != ERR_OK) {
        begin_over(s, why, note);
        return;
    }
    b->list[0] = (struct pg_statement){ .sql = begin_text(b, "pg_advisory_lock_shared", s->owner) };
    begin_send(s, 1, NULL, owner_locked);
}

static void begin_linked(struct pg_link *l, err why)
{
    struct store_pg *s = CONTAINER_OF(l, struct store_pg, beginning.link);
    struct pg_beginning *b = &s->beginning;
    if (why != ERR_OK) {
        begin_over(s, why, l->note);
        return;
    }
    s->conn = l->conn;
    l->conn = NULL;
    struct pg_params *params = arena_alloc(&b->arena, sizeof *params);
    INVARIANT(params != NULL);
    pg_params_init(params, &b->arena);
    pg_put_bytes(params, str_of(s->deployment));
    INVARIANT(!params->failed);
    size_t count = 0;
    /* Released with the unit's transaction. */
    b->list[count++].sql =
        begin_text(b, "pg_advisory_xact_lock", SCHEMA_LOCK); /* two may begin at once */
    for (size_t i = 0; i < COUNT_OF(SCHEMA); i++)
        b->list[count++].sql = SCHEMA[i];
    b->list[count++] = (struct pg_statement){ .sql = DEPLOYMENT_SQL, .params = params };
    b->list[count++].sql = "SELECT version, name FROM queue_store, queue_deployment";
    INVARIANT(count == PG_SCHEMA_STATEMENTS);
    begin_send(s, PG_SCHEMA_STATEMENTS, b->rows, schema_made);
}

/* later NULL: for the first time. The connection before is kept until the next one holds the
 * lock of this owner. */
static void store_pg_begin(struct store_pg *s, struct queue_later *later, struct err_note *note)
{
    struct pg_beginning *b = &s->beginning;
    *b = (struct pg_beginning){ .link = { .s = s, .done = begin_linked },
                                .before = s->conn,
                                .later = later,
                                .note = note,
                                .active = true };
    s->conn = NULL;
    arena_init(&b->arena, BEGIN_ARENA_BYTES_MAX);
    pg_link_start(&b->link);
}

static void begin_run(struct task *t)
{
    store_pg_begin(CONTAINER_OF(t, struct store_pg, begin), NULL, NULL);
}

/* ---- when nothing is on its way: recover, close ---- */

/* No unit is under way: pg_close asks for that. */
static void connections_close(struct store_pg *s)
{
    for (unsigned i = 0; i < PG_READERS; i++)
        pg_close(&s->readers[i].conn);
    pg_close(&s->conn);
}

/* Loop. The first connection is given up, also while it is being made. */
static void close_all(struct store_pg *s)
{
    if (s->beginning.active) {
        pg_link_cancel(&s->beginning.link);
        /* begin_over will not come any more: what it would free is freed here. */
        pg_close(&s->beginning.before);
        arena_fini(&s->beginning.arena);
    }
    connections_close(s);
    pthread_mutex_lock(&s->lock);
    s->closed = true;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
}

/* Called whenever something ended. Recover and close begin once no group, no reader and no
 * beginning is on its way. */
void store_pg_settle(struct store_pg *s)
{
    pthread_mutex_lock(&s->lock);
    bool calm = !s->running && s->reading == 0, opening = s->opening;
    pthread_mutex_unlock(&s->lock);
    if (!calm || (s->beginning.active && !opening))
        return;
    /* Also while the first connection is being made: that one is given up. */
    if (s->closing) {
        close_all(s);
    } else if (s->recovery.later != NULL && !opening) {
        struct pg_recovery r = s->recovery;
        s->recovery = (struct pg_recovery){ .later = NULL };
        for (unsigned i = 0; i < PG_READERS; i++)
            pg_close(&s->readers[i].conn);
        store_pg_begin(s, r.later, r.note);
    }
}

/* Loop. From here on nothing new is sent; what is on its way ends by its deadline. */
static void recover_run(struct task *t)
{
    struct store_pg *s = CONTAINER_OF(t, struct store_pg, recovery_task);
    s->recovery = s->recovery_next;
    store_pg_fail(s);
    pg_asks_refuse(s);
    store_pg_settle(s);
}

/* Thread: any but the loop. One at a time (store.h), so recovery_next is free. */
static err store_pg_recover(struct queue_store *q, struct err_note *note, struct queue_later *later)
{
    struct store_pg *s = store_pg_of(q);
    struct wait_later blocked;
    s->recovery_next =
        (struct pg_recovery){ .later = later == NULL ? wait_later_begin(&blocked) : later,
                              .note = note };
    s->recovery_task.run = recover_run;
    home_post(loop_home(s->loop), &s->recovery_task);
    return later == NULL ? wait_later_outcome(&blocked, ERR_AGAIN) : ERR_AGAIN;
}

static void close_run(struct task *t)
{
    struct store_pg *s = CONTAINER_OF(t, struct store_pg, close);
    s->closing = true;
    store_pg_settle(s);
}

/* On the loop's thread when it has ended: nothing is on its way but the first connection, and the
 * end of a reader's transaction. */
static void store_pg_close(struct queue_store **qp)
{
    if (*qp == NULL)
        return;
    struct store_pg *s = store_pg_of(*qp);
    *qp = NULL;
    s->close.run = close_run;
    /* The loop runs no more: tasks would never run. */
    if (loop_is_here(s->loop))
        close_all(s);
    else
        home_post(loop_home(s->loop), &s->close);
    pthread_mutex_lock(&s->lock);
    while (!s->closed)
        pthread_cond_wait(&s->changed, &s->lock);
    /* Writes were answered before: running was false. */
    INVARIANT(s->first == NULL);
    pthread_mutex_unlock(&s->lock);
    arena_fini(&s->group.arena);
    pthread_mutex_destroy(&s->lock);
    pthread_cond_destroy(&s->changed);
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

/* Any thread: the loop writes opened under the lock. */
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

/* Thread: any but the loop's, unless opts->later: it waits for the loop. */
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
        /* Positive: the number is shown in SQL. It is another at each start, so a lock says
         * which process lives. */
        .owner = (int64_t)(entropy_u64() >> 1),
        .turn.run = store_pg_turn,
        .begin.run = begin_run,
        /* Until the first connection stands nothing is sent. */
        .failed = true,
        .opening = true,
    };
    INVARIANT(s->name != NULL && s->url != NULL && s->deployment != NULL);
    s->store = (struct queue_store){ .ops = &pg_ops, .name = s->name, .dies_alone = true };
    s->group.s = s;
    arena_init(&s->group.arena, PG_ARENA_BYTES_MAX);
    list_init(&s->asks);
    pthread_mutex_init(&s->lock, NULL);
    pthread_cond_init(&s->changed, NULL);
    for (unsigned i = 0; i < PG_READERS; i++)
        s->readers[i].s = s;
    struct queue_store *q = &s->store;
    home_post(loop_home(s->loop), &s->begin);
    if (opts->later) {
        *out = q;
        return ERR_OK;
    }
    pthread_mutex_lock(&s->lock);
    while (s->opening)
        pthread_cond_wait(&s->changed, &s->lock);
    why = s->opened;
    err_note_set(note, "%s", s->opened_note.text);
    pthread_mutex_unlock(&s->lock);
    /* Nothing that time would mend. */
    if (why == ERR_BAD || why == ERR_DENIED) {
        store_pg_close(&q);
        return why;
    }
    *out = q; /* one that is away now is recovered later */
    return ERR_OK;
}
