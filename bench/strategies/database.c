/* database.c - steps: the thread that asks sleeps until the loop has told it of every request.
 *
 * Invariants: (1) a step's requests are touched by the loop between step_run's start and end only.
 * (2) whatever fails ends the program, with what Cassandra said. */
#include "strategies/database.h"

#include "loop/loop.h"
#include "loop/sysclock.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DATABASES_MAX = 16, TEXT_BYTES_MAX = 1200, TIMEOUT_MS = 60000, STOP_MS = 2000 };

struct turn { /* something that is waited for */
    pthread_mutex_t lock;
    pthread_cond_t turned;
    unsigned left;
};

struct database {
    struct databases *all;
    struct cql *client;
    const char *point, *dc, *keyspace;
    char *texts[CQL_STATEMENTS_MAX];
    unsigned texts_count;
    struct turn ready;
    uint64_t requests; /* as of the last look */
    struct turn looked;
};

struct databases {
    struct loop *loop;
    struct sysclock *time;
    pthread_t thread;
    bool runs;
    struct database *at[DATABASES_MAX];
    unsigned count;
    struct turn stopped;
};

struct request {
    struct step *step;
    struct cql_request cql;
    struct cql_part parts[STEP_PARTS_MAX];
    struct cql_values values[STEP_PARTS_MAX];
};
struct step {
    struct database *db;
    store_time now;
    unsigned count;
    struct turn turn;
    struct request requests[STEP_REQUESTS_MAX];
};

static void fail(const char *what, const char *why)
{
    fprintf(stderr, "cql_strategies: %s: %s\n", what, why);
    exit(1);
}

/* ---- turns ---- */

static void turn_init(struct turn *t, unsigned left)
{
    INVARIANT(pthread_mutex_init(&t->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&t->turned, NULL) == 0);
    t->left = left;
}

static void turn_fini(struct turn *t)
{
    INVARIANT(pthread_cond_destroy(&t->turned) == 0);
    INVARIANT(pthread_mutex_destroy(&t->lock) == 0);
}

static void turn_told(struct turn *t)
{
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    if (t->left > 0 && --t->left == 0)
        INVARIANT(pthread_cond_broadcast(&t->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
}

/* Requests have deadlines of their own, so this ends. */
static void turn_wait(struct turn *t)
{
    INVARIANT(pthread_mutex_lock(&t->lock) == 0);
    while (t->left > 0)
        INVARIANT(pthread_cond_wait(&t->turned, &t->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&t->lock) == 0);
}

/* ---- databases ---- */

struct databases *databases_new(void)
{
    struct databases *ds = calloc(1, sizeof *ds);
    INVARIANT(ds != NULL);
    ds->loop = loop_new(1);
    ds->time = sysclock_new();
    return ds;
}

static void *databases_thread(void *ctx)
{
    struct databases *ds = ctx;
    loop_run(ds->loop);
    return NULL;
}

void databases_run(struct databases *ds)
{
    INVARIANT(pthread_create(&ds->thread, NULL, databases_thread, ds) == 0);
    ds->runs = true;
}

static void on_stopped(void *ctx)
{
    struct database *db = ctx;
    cql_free(&db->client);
    turn_told(&db->all->stopped);
}

static void stop_all(void *ctx)
{
    struct databases *ds = ctx;
    mono until = mono_add_ms(clock_mono(databases_clock(ds)), STOP_MS);
    for (unsigned i = 0; i < ds->count; i++)
        cql_stop(ds->at[i]->client, until, on_stopped, ds->at[i]);
}

static void stop_loop(void *ctx)
{
    struct databases *ds = ctx;
    loop_stop(ds->loop);
}

void databases_free(struct databases **dp)
{
    struct databases *ds = *dp;
    *dp = NULL;
    INVARIANT(ds->runs);
    turn_init(&ds->stopped, ds->count);
    loop_post(ds->loop, stop_all, ds);
    turn_wait(&ds->stopped);
    loop_post(ds->loop, stop_loop, ds);
    INVARIANT(pthread_join(ds->thread, NULL) == 0);
    turn_fini(&ds->stopped);
    for (unsigned i = 0; i < ds->count; i++) {
        struct database *db = ds->at[i];
        for (unsigned k = 0; k < db->texts_count; k++)
            free(db->texts[k]);
        turn_fini(&db->ready);
        free(db);
    }
    loop_free(&ds->loop);
    sysclock_free(&ds->time);
    free(ds);
}

struct clock *databases_clock(struct databases *ds)
{
    return sysclock_clock(ds->time);
}

struct loop *databases_loop(struct databases *ds)
{
    return ds->loop;
}

/* ---- a database ---- */

static void on_ready(void *ctx, bool ready)
{
    struct database *db = ctx;
    if (ready)
        turn_told(&db->ready);
}

struct database *database_open(struct databases *ds, const char *point, const char *dc,
                               const char *keyspace)
{
    struct database *db = calloc(1, sizeof *db);
    INVARIANT(db != NULL && !ds->runs && ds->count < DATABASES_MAX);
    *db = (struct database){ .all = ds, .point = point, .dc = dc, .keyspace = keyspace };
    turn_init(&db->ready, 1);
    ds->at[ds->count++] = db;
    const struct cql_opts o = { .loop = ds->loop,
                                .clock = databases_clock(ds),
                                .contact_points = { point },
                                .contact_points_count = 1,
                                .local_dc = dc,
                                .connections = 1,
                                .connect_timeout_ms = TIMEOUT_MS,
                                .answer_timeout_ms = TIMEOUT_MS,
                                .ready = on_ready,
                                .ctx = db };
    struct err_note note = { .text = "" };
    db->client = cql_new(&o, &note);
    if (db->client == NULL)
        fail("the client", note.text);
    return db;
}

void database_wait_ready(struct database *db)
{
    turn_wait(&db->ready);
}

struct cql *database_client(struct database *db)
{
    return db->client;
}

const char *database_keyspace(const struct database *db)
{
    return db->keyspace;
}

/* %s of the format is the keyspace, %u is n. */
static char *text_make(const struct database *db, const char *format, unsigned n)
{
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    for (const char *p = format; *p != '\0'; p++) {
        if (p[0] == '%' && p[1] == 's') {
            buf_put(&b, str_of(db->keyspace));
            p++;
        } else if (p[0] == '%' && p[1] == 'u') {
            char digits[16];
            int len = snprintf(digits, sizeof digits, "%u", n);
            buf_put(&b, (str){ .p = digits, .n = (size_t)len });
            p++;
        } else {
            buf_put(&b, (str){ .p = p, .n = 1 });
        }
    }
    buf_put(&b, (str){ .p = "", .n = 1 });
    str whole = buf_str(&b);
    char *text = malloc(whole.n);
    INVARIANT(text != NULL && buf_status(&b) == ERR_OK);
    memcpy(text, whole.p, whole.n);
    buf_fini(&b);
    return text;
}

const struct cql_statement *database_statement(struct database *db, const char *format, unsigned n)
{
    struct err_note note = { .text = "" };
    INVARIANT(db->texts_count < CQL_STATEMENTS_MAX);
    char *text = text_make(db, format, n);
    db->texts[db->texts_count++] = text;
    const struct cql_statement_opts o = { .name = "strategies", .text = text, .idempotent = true };
    const struct cql_statement *s = cql_statement_new(db->client, &o, &note);
    if (s == NULL)
        fail(text, note.text);
    return s;
}

static void look(void *ctx)
{
    struct database *db = ctx;
    struct cql_stats stats;
    cql_stats(db->client, &stats);
    db->requests = stats.requests[0] + stats.requests[1] + stats.requests[2];
    turn_told(&db->looked);
}

uint64_t database_requests(struct database *db)
{
    turn_init(&db->looked, 1);
    loop_post(db->all->loop, look, db);
    turn_wait(&db->looked);
    turn_fini(&db->looked);
    return db->requests;
}

/* ---- steps ---- */

static void request_done(struct cql_request *q)
{
    struct request *r = CONTAINER_OF(q, struct request, cql);
    turn_told(&r->step->turn);
}

void database_ddl(struct database *db, const char *format, unsigned n)
{
    struct step *s = step_new(db, STORE_TIME_ZERO);
    struct request *r = &s->requests[s->count++];
    char *text = text_make(db, format, n);
    r->step = s;
    r->cql = (struct cql_request){ .way = CQL_WAY_TEXT, .text = str_of(text) };
    r->cql.params.timestamp_us = CQL_NO_TIMESTAMP;
    r->cql.params.now_s = CQL_NO_NOW;
    step_run(s);
    step_free(&s);
    free(text);
}

struct step *step_new(struct database *db, store_time now)
{
    struct step *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->db = db;
    s->now = now;
    return s;
}

void step_free(struct step **sp)
{
    struct step *s = *sp;
    *sp = NULL;
    for (unsigned i = 0; i < s->count; i++) {
        cql_outcome_fini(&s->requests[i].cql.out);
        for (unsigned k = 0; k < s->requests[i].cql.parts_count; k++)
            cql_values_fini(&s->requests[i].values[k]);
    }
    free(s);
}

static struct cql_values *request_part(struct request *r, const struct cql_statement *statement)
{
    unsigned at = r->cql.parts_count++;
    INVARIANT(at < STEP_PARTS_MAX);
    cql_values_init(&r->values[at], STEP_BYTES_MAX);
    r->parts[at] = (struct cql_part){ .statement = statement, .values = &r->values[at] };
    return &r->values[at];
}

struct cql_values *step_read(struct step *s, const struct cql_statement *statement)
{
    INVARIANT(s->count < STEP_REQUESTS_MAX);
    struct request *r = &s->requests[s->count++];
    r->step = s;
    r->cql.parts = r->parts;
    r->cql.params.timestamp_us = CQL_NO_TIMESTAMP;
    r->cql.params.now_s = (int32_t)(s->now.ns / NS_PER_S);
    return request_part(r, statement);
}

struct cql_values *step_write(struct step *s, const struct cql_statement *statement)
{
    struct cql_values *v = step_read(s, statement);
    s->requests[s->count - 1].cql.params.timestamp_us = s->now.ns / NS_PER_US;
    return v;
}

struct cql_values *step_join(struct step *s, const struct cql_statement *statement)
{
    INVARIANT(s->count > 0);
    struct request *r = &s->requests[s->count - 1];
    r->cql.way = CQL_WAY_BATCH;
    r->cql.batch = CQL_LOGGED; /* BEGIN BATCH; of one partition it is one mutation all the same */
    return request_part(r, statement);
}

void step_written_at(struct step *s, int64_t timestamp_us)
{
    s->requests[s->count - 1].cql.params.timestamp_us = timestamp_us;
}

void step_run(struct step *s)
{
    turn_init(&s->turn, s->count);
    mono deadline = mono_add_ms(clock_mono(databases_clock(s->db->all)), TIMEOUT_MS);
    for (unsigned i = 0; i < s->count; i++) {
        struct cql_request *q = &s->requests[i].cql;
        q->params.consistency = CQL_LOCAL_QUORUM;
        q->deadline = deadline;
        q->done = request_done;
        cql_start(s->db->client, q);
    }
    turn_wait(&s->turn);
    turn_fini(&s->turn);
    for (unsigned i = 0; i < s->count; i++)
        if (s->requests[i].cql.out.why != ERR_OK)
            fail("a request failed", s->requests[i].cql.out.note.text);
}

bool step_row(struct step *s, unsigned request, struct cql_cell *cells)
{
    INVARIANT(request < s->count);
    return cql_rows_next(&s->requests[request].cql.out.rows, cells);
}
