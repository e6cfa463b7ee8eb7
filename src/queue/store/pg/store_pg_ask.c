/* store_pg_ask.c - a call on a connection for reading, of which a store has few.
 *
 * The loop gives a call a connection, sends its statements and waits; the pool looks at what came
 * and says what is asked next. So nothing holds a thread while PostgreSQL works, and large answers
 * are decoded where they delay nobody.
 *
 * Invariants
 *  1. A reader is busy while a call has it, while it is being connected, and until the transaction
 *     that a call left open has ended.
 *  2. Calls wait in order. When a connection broke or could not be had, all that wait are refused:
 *     else each would wait for the same in turn. */
#include "queue/store/pg/store_pg.h"

#include <string.h>

/* A partition that is not there has no tables. */
static err ask_failed(const struct pg_outcome *o)
{
    return strcmp(o->state, "42P01") == 0 ? ERR_NOT_FOUND : ERR_UNAVAILABLE;
}

/* Any thread. k is gone afterwards; the result is whom to tell. */
static struct queue_later *ask_free(struct pg_ask *k)
{
    struct queue_later *later = k->later;
    later->why = k->why;
    arena_fini(&k->arena);
    k->free(k);
    return later;
}

/* For a home of any thread. */
static void ask_over(struct pg_ask *k)
{
    struct queue_later *later = ask_free(k);
    home_post(later->home, &later->task);
}

/* ---- readers ---- */

/* A reader became free. */
static void asks_serve(struct store_pg *s);

/* Nobody has the reader any more. A connection that broke is closed; the next call connects
 * anew. */
static void reader_free(struct pg_reader *r)
{
    struct store_pg *s = r->s;
    bool broken = r->conn != NULL && pg_broken(r->conn);
    INVARIANT(r->busy);
    r->busy = false;
    s->reading--;
    if (broken) {
        pg_close(&r->conn);
        pg_asks_refuse(s);
    }
    asks_serve(s);
    store_pg_settle(s);
}

/* A transaction that does not end in time leaves a connection that nobody may use. */
static void transaction_ended(struct pg_unit *u)
{
    struct pg_reader *r = CONTAINER_OF(u, struct pg_reader, unit);
    if (u->out.why != ERR_OK)
        pg_close(&r->conn);
    reader_free(r);
}

/* walking: a scan left its transaction open, with cursors in it. */
static void reader_back(struct pg_reader *r, bool walking)
{
    if (!walking || pg_broken(r->conn)) {
        reader_free(r);
        return;
    }
    r->end = (struct pg_statement){ .sql = "ROLLBACK" };
    r->unit = (struct pg_unit){
        .list = &r->end, .count = 1, .deadline = store_pg_deadline(r->s), .done = transaction_ended
    };
    pg_start(r->conn, &r->unit);
}

/* ---- units ---- */

/* Loop: the call is over. Told before the reader is free: close may be waiting for the last
 * reader. */
static void ask_end(struct pg_ask *k)
{
    struct pg_reader *r = k->reader;
    bool walking = k->walking;
    k->reader = NULL;
    ask_over(k);
    reader_back(r, walking);
}

static void ask_answered(struct pg_unit *u);

/* Loop. The arena and the statements stay until the answer. */
static void ask_send(struct pg_ask *k)
{
    k->unit = (struct pg_unit){ .list = k->list,
                                .count = k->count,
                                .deadline = store_pg_deadline(k->s),
                                .rows = k->rows,
                                .done = ask_answered };
    pg_start(k->reader->conn, &k->unit);
}

static void ask_send_run(struct task *t)
{
    ask_send(CONTAINER_OF(t, struct pg_ask, task));
}

/* What is asked next. False: nothing. Where the first one is made there are no rows. */
static bool ask_next(struct pg_ask *k)
{
    bool more = k->next(k);
    for (unsigned i = 0; more && i < k->count; i++)
        /* The arena was full, or the parameters did not fit. */
        if (k->list[i].sql == NULL || (k->list[i].params != NULL && k->list[i].params->failed)) {
            k->why = ERR_LIMIT;
            more = false;
        }
    k->count = more ? k->count : 0;
    return more;
}

static void reader_back_run(struct task *t)
{
    struct pg_reader *r = CONTAINER_OF(t, struct pg_reader, back);
    reader_back(r, r->walking);
}

/* Pool: the call is over. Its caller goes on here, when it is of the pool, too. The reader goes
 * back by a task of its own: k is freed before that runs. */
static void ask_end_here(struct pg_ask *k)
{
    struct loop *loop = k->s->loop;
    struct pg_reader *r = k->reader;
    r->walking = k->walking;
    struct queue_later *later = ask_free(k);
    r->back.run = reader_back_run;
    home_post(loop_home(loop), &r->back);
    /* One hand-over less. */
    if (later->home == loop_pool(loop))
        later->task.run(&later->task);
    else
        home_post(later->home, &later->task);
}

/* Pool: rows came. What of them next did not take is freed. */
static void ask_look_run(struct task *t)
{
    struct pg_ask *k = CONTAINER_OF(t, struct pg_ask, task);
    /* rows belongs to the next unit from here on. */
    memcpy(k->got, k->rows, sizeof k->got);
    unsigned count = k->count;
    k->count = 0;
    arena_reset(&k->arena);
    bool more = ask_next(k);
    for (unsigned i = 0; i < count; i++)
        pg_rows_free(&k->got[i]);
    if (!more) {
        ask_end_here(k);
        return;
    }
    k->task.run = ask_send_run;
    home_post(loop_home(k->s->loop), &k->task);
}

/* Loop: all statements of the unit were answered, or it failed. */
static void ask_answered(struct pg_unit *u)
{
    struct pg_ask *k = CONTAINER_OF(u, struct pg_ask, unit);
    struct pg_outcome *o = &u->out;
    if (o->why != ERR_OK) {
        k->why = k->failed(o);
        /* Words of the server about a condition in our SQL would mislead an operator. */
        if (k->why != ERR_CONFLICT && k->why != ERR_GONE) /* conditions of ours say nothing */
            store_pg_keep(k->s, o);
        ask_end(k);
        return;
    }
    k->step++;
    k->task.run = ask_look_run;
    home_post(loop_pool(k->s->loop), &k->task);
}

/* ---- who gets a reader ---- */

/* Their deadline would pass one after the other. */
void pg_asks_refuse(struct store_pg *s)
{
    for (struct list *n; (n = list_take(&s->asks)) != NULL;) {
        struct pg_ask *k = CONTAINER_OF(n, struct pg_ask, link);
        k->why = ERR_UNAVAILABLE;
        ask_over(k);
    }
}

/* Loop. Without a connection nobody that waits can be served. */
static void reader_connected(struct pg_link *l, err why)
{
    struct pg_reader *r = CONTAINER_OF(l, struct pg_reader, link);
    struct pg_ask *k = r->ask;
    r->ask = NULL;
    if (why == ERR_OK) {
        r->conn = l->conn;
        l->conn = NULL;
        ask_send(k);
        return;
    }
    k->why = ERR_UNAVAILABLE;
    k->reader = NULL;
    ask_over(k);
    pg_asks_refuse(r->s);
    reader_free(r);
}

/* Each free reader takes the call that has waited longest. */
static void asks_serve(struct store_pg *s)
{
    for (unsigned i = 0; i < PG_READERS && !list_empty(&s->asks); i++) {
        struct pg_reader *r = &s->readers[i];
        if (r->busy)
            continue;
        struct pg_ask *k = CONTAINER_OF(list_take(&s->asks), struct pg_ask, link);
        r->busy = true;
        s->reading++;
        k->reader = r;
        if (r->conn != NULL && pg_broken(r->conn))
            pg_close(&r->conn); /* while nobody had it */
        if (r->conn != NULL) {
            ask_send(k);
        } else {
            r->ask = k;
            r->link = (struct pg_link){ .s = s, .done = reader_connected };
            pg_link_start(&r->link);
        }
    }
}

/* Loop: the call joins the line, or is refused at once. */
static void ask_begin_run(struct task *t)
{
    struct pg_ask *k = CONTAINER_OF(t, struct pg_ask, task);
    struct store_pg *s = k->s;
    list_append(&s->asks, &k->link);
    if (store_pg_failed(s))
        pg_asks_refuse(s);
    else
        asks_serve(s);
}

/* ---- */

/* The text is in the arena; NULL there is found by ask_next. */
void pg_ask_add(struct pg_ask *k, const char *format, const struct pg_params *params)
{
    INVARIANT(k->count < PG_ASK_STATEMENTS);
    k->list[k->count++] =
        (struct pg_statement){ .sql = store_pg_sql(&k->arena, k->part, format), .params = params };
}

struct pg_params *pg_ask_params(struct pg_ask *k)
{
    struct pg_params *p = arena_alloc(&k->arena, sizeof *p);
    INVARIANT(p != NULL); /* small, and each unit begins with an empty arena */
    pg_params_init(p, &k->arena);
    return p;
}

/* Thread: any but the loop, when it blocks. The first unit is made on the calling thread. */
err pg_ask_run(struct pg_ask *k, struct queue_store *q, struct queue_part p,
               struct queue_later *later)
{
    struct wait_later blocked;
    k->s = store_pg_of(q);
    k->part = p;
    k->later = later == NULL ? wait_later_begin(&blocked) : later;
    k->failed = k->failed == NULL ? ask_failed : k->failed;
    arena_init(&k->arena, PG_ARENA_BYTES_MAX);
    arena_chunks(&k->arena, PG_ASK_CHUNK_BYTES); /* all partitions may be asked for at once */
    if (ask_next(k)) {
        k->task.run = ask_begin_run;
        home_post(loop_home(k->s->loop), &k->task);
    } else {
        ask_over(k);
    }
    return later == NULL ? wait_later_outcome(&blocked, ERR_AGAIN) : ERR_AGAIN;
}
