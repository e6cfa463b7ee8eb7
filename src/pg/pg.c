/* pg.c - a connection at work: units go out, answers come in.
 *
 * Units are sent one behind the other, each with its own end (Sync), without waiting for answers.
 * A turn sends what came, writes, reads and takes results; it never waits. It runs on the loop, or
 * on the pool when it is heavy: much to send, or a large answer.
 *
 * Invariants
 *  1. Every unit ends by its deadline; the connection of one that was missed is broken.
 *  2. An outcome is definite only when the server said so: the commit is known by an answer for
 *     each statement and one for the list's end, a failure by an error of one of its statements or
 *     of the commit. The end of the connection after all statements were answered, with or without
 *     a word, says nothing. */
#include "base/buf.h"
#include "pg/conn.h"
#include "pg/rows.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

enum {
    ANSWER_BYTES_MAX = 256 << 20,
    STATEMENT_WEIGHT = 512,
    READS_MAX = 4096 /* in a turn on the pool; then the loop looks at deadlines */
};

bool pg_broken(const struct pg *c)
{
    MAGIC_CHECK(c, PG_MAGIC);
    return atomic_load(&c->broken);
}

/* ---- sending ---- */

static err send_one(struct pg *c, const struct pg_statement *s)
{
    static const int binary[PG_PARAMS_MAX] = { 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1 };
    const struct pg_params *p = s->params;
    int sent = p == NULL ? PQsendQueryParams(c->conn, s->sql, 0, NULL, NULL, NULL, NULL, 1)
                         : PQsendQueryParams(c->conn, s->sql, (int)p->count, p->types, p->values,
                                             p->sizes, binary, 1);
    return sent == 1 ? ERR_OK : ERR_UNAVAILABLE;
}

/* What an SQLSTATE means for who asked; the statement it came from may mean something else to
 * them. */
static err err_of_state(const char *state)
{
    if (strcmp(state, "53100") == 0)
        return ERR_FULL;
    if (strcmp(state, "57014") == 0 || strcmp(state, "55P03") == 0)
        return ERR_TIMEOUT;
    if (strncmp(state, "22", 2) == 0 || strncmp(state, "23", 2) == 0)
        return ERR_PRECONDITION;
    if (strncmp(state, "28", 2) == 0 || strcmp(state, PG_DENIED_STATE) == 0)
        return ERR_DENIED;
    return ERR_UNAVAILABLE;
}

static void unit_over(struct pg *c, struct pg_unit *u)
{
    list_remove(&u->link);
    list_append(&c->over, &u->link);
}

/* Where nothing of it was sent, or its end was not. */
static void unit_refuse(struct pg *c, struct pg_unit *u, err why, const char *text)
{
    u->out.why = why;
    pg_note_of(&u->out.note, "PostgreSQL", text);
    unit_over(c, u);
}

static void conn_break(struct pg *c, err cause)
{
    c->cause = cause;
    atomic_store(&c->broken, true);
}

/* Queues it whole, in the memory of libpq. */
static void unit_send(struct pg *c, struct pg_unit *u)
{
    INVARIANT(u->rows == NULL || u->build == NULL);
    for (unsigned i = 0; u->rows != NULL && i < u->count; i++)
        u->rows[i] = NULL;
    if (atomic_load(&c->broken)) {
        unit_refuse(c, u, ERR_UNAVAILABLE, PQerrorMessage(c->conn));
        return;
    }
    if (u->build != NULL && !u->build(u)) {
        unit_refuse(c, u, ERR_LIMIT, "there is no memory for what is to be sent");
        return;
    }
    u->out.failed = u->count;
    for (unsigned i = 0; i < u->count; i++) {
        INVARIANT(u->list[i].params == NULL || !u->list[i].params->failed);
        if (send_one(c, &u->list[i]) == ERR_OK)
            continue;
        conn_break(c, ERR_IO); /* without its end it is never committed */
        unit_refuse(c, u, ERR_UNAVAILABLE, PQerrorMessage(c->conn));
        return;
    }
    u->sent = true;
    u->received_before = c->received;
    c->unflushed += u->weight;
    if (PQpipelineSync(c->conn) != 1)
        conn_break(c, ERR_IO);
}

/* ---- results ---- */

static void take_error(struct pg *c, struct pg_unit *u, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (u->failed)
        return;
    u->failed = true;
    u->out.failed = u->at;
    bool last_word = severity != NULL &&
                     strcmp(severity, "ERROR") != 0; /* FATAL: it goes; after a commit, perhaps */
    bool lost = state == NULL || (last_word && u->at == u->count);
    if (state == NULL || last_word)
        conn_break(c, ERR_IO);
    if (state != NULL)
        (void)str_to_cstr(str_of(state), u->out.state, sizeof(u->out.state)); /* five characters */
    u->out.why = lost ? ERR_IO : err_of_state(u->out.state);
    pg_note_of_result(&u->out.note, result, u->at < u->count ? u->list[u->at].sql : NULL);
}

static void rows_drop(struct pg_unit *u)
{
    for (unsigned i = 0; u->rows != NULL && i < u->count; i++)
        pg_rows_free(&u->rows[i]);
}

/* Its end has come; not an answer for each: nobody knows. */
static void take_end(struct pg *c, struct pg_unit *u)
{
    if (!u->failed && u->at != u->count) {
        conn_break(c, ERR_IO);
        return;
    }
    if (u->failed)
        rows_drop(u);
    unit_over(c, u);
    struct list *next = list_first(&c->units);
    if (next != NULL)
        CONTAINER_OF(next, struct pg_unit, link)->received_before = c->received;
}

/* Takes one result; it goes to the caller or ends here. */
static void take_result(struct pg *c, struct pg_unit *u, PGresult *result)
{
    bool kept = false, ended = false;
    switch ((int)PQresultStatus(result)) { /* not as the enum: later releases of libpq know more */
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
        if (u->at < u->count && u->rows != NULL) {
            u->rows[u->at] = pg_rows_of(result);
            kept = true;
        }
        u->at++;
        break;
    case PGRES_PIPELINE_ABORTED:
        u->at++;
        break;
    case PGRES_PIPELINE_SYNC:
        ended = true;
        break;
    case PGRES_FATAL_ERROR:
    case PGRES_NONFATAL_ERROR:
        take_error(c, u, result);
        u->at++;
        break;
    default: /* a COPY, rows one by one, what a later libpq knows: nobody asked for it, it would
                come again */
        take_error(c, u, result);
        conn_break(c, ERR_IO);
        break;
    }
    if (!kept)
        PQclear(result);
    if (ended)
        take_end(c, u);
}

/* Takes what has come. */
static void take_results(struct pg *c)
{
    struct list *first;
    unsigned nothing = 0;
    while (nothing < 2 && !atomic_load(&c->broken) && (first = list_first(&c->units)) != NULL &&
           PQisBusy(c->conn) == 0) {
        PGresult *result = PQgetResult(c->conn);
        nothing = result == NULL ? nothing + 1 : 0; /* one ends each statement */
        if (result != NULL)
            take_result(c, CONTAINER_OF(first, struct pg_unit, link), result);
    }
    if (nothing == 2) /* all was taken and the end did not come */
        conn_break(c, ERR_IO);
}

bool pg_tcp_received(PGconn *conn, uint64_t *bytes)
{
    struct tcp_info info = { .tcpi_state = 0 };
    socklen_t n = sizeof info;
    bool told = getsockopt(PQsocket(conn), IPPROTO_TCP, TCP_INFO, &info, &n) == 0;
    *bytes = info.tcpi_bytes_received;
    return told;
}

static uint64_t unread_bytes(const struct pg *c)
{
    int waiting = 0;
    return ioctl(PQsocket(c->conn), FIONREAD, &waiting) == 0 && waiting > 0 ? (uint64_t)waiting : 0;
}

/* How much of the answer to the first unit has come: libpq keeps all of it in memory. */
static uint64_t answer_bytes(struct pg *c)
{
    uint64_t bytes, unread = 0;
    const struct list *first = list_first(&c->units);
    if (first == NULL)
        return 0;
    if (pg_tcp_received(c->conn, &bytes))
        c->received = bytes;
    else
        unread = unread_bytes(c);
    return c->received + unread -
           CONTAINER_OF(unconst(first), struct pg_unit, link)->received_before;
}

/* Reads as much as libpq has room for, and takes what is whole. A socket in a folder counts
 * nothing: what comes while it is read is not seen. False: the connection went. */
static bool conn_read(struct pg *c)
{
    uint64_t bytes, before = unread_bytes(c);
    bool reads = PQconsumeInput(c->conn) == 1;
    if (reads && !pg_tcp_received(c->conn, &bytes)) {
        uint64_t left = unread_bytes(c);
        c->received += before > left ? before - left : 0;
    }
    take_results(c); /* what came before it went, the reason it gave among it */
    return reads;
}

/* ---- a turn ---- */

/* The connection is broken: whatever was sent and not answered is unknown. */
static void units_drop(struct pg *c)
{
    const char *text = c->cause == ERR_TIMEOUT ? "no answer in time"
                       : c->cause == ERR_LIMIT ? "the answer is too large"
                                               : PQerrorMessage(c->conn);
    struct list *first;
    while ((first = list_first(&c->units)) != NULL) {
        struct pg_unit *u = CONTAINER_OF(first, struct pg_unit, link);
        if (u->sent)
            rows_drop(u);
        if (u->failed)
            unit_over(c, u); /* what was answered decides */
        else
            unit_refuse(c, u, u->sent ? ERR_IO : ERR_UNAVAILABLE, text);
    }
}

/* Loop or pool: all that can be done without waiting. */
static void conn_work(struct pg *c)
{
    for (struct list *n = c->units.next, *next; n != &c->units; n = next) {
        struct pg_unit *u = CONTAINER_OF(n, struct pg_unit, link);
        next = n->next;
        if (!u->sent)
            unit_send(c, u);
    }
    bool looks = c->readable || c->pending; /* libpq reads when it cannot write */
    int pending = atomic_load(&c->broken) ? 0 : PQflush(c->conn);
    if (pending < 0)
        conn_break(c, ERR_IO);
    c->pending = pending > 0;
    c->unflushed = c->pending ? c->unflushed : 0;
    /* On the pool all that has come: libpq takes a buffer's worth of a large answer at a time. */
    for (unsigned reads = 0; looks && !atomic_load(&c->broken); reads++) {
        if (!conn_read(c) && !atomic_load(&c->broken))
            conn_break(c, ERR_IO);
        if (answer_bytes(c) > ANSWER_BYTES_MAX && !atomic_load(&c->broken))
            conn_break(c, ERR_LIMIT);
        looks = c->lent && reads < READS_MAX && !atomic_load(&c->broken) && unread_bytes(c) > 0;
    }
    c->readable = c->writable = false;
    if (atomic_load(&c->broken))
        units_drop(c);
}

/* What the socket did not take waits until it takes more, and is no work before. */
static bool is_heavy(struct pg *c)
{
    uint64_t weight = c->pending && !c->writable ? 0 : c->unflushed;
    for (const struct list *n = c->units.next; n != &c->units; n = n->next) {
        const struct pg_unit *u = CONTAINER_OF(unconst(n), struct pg_unit, link);
        weight += u->sent ? 0 : u->weight;
    }
    return weight > PG_LIGHT_BYTES;
}

static void conn_turn(struct pg *c);
static void conn_ready(void *ctx, unsigned events);

/* Calls of done may start more, or close the connection. */
static void units_tell(struct pg *c)
{
    struct list over;
    list_init(&over);
    for (struct list *n; (n = list_take(&c->over)) != NULL;)
        list_append(&over, n);
    for (struct list *n; (n = list_take(&over)) != NULL;) {
        struct pg_unit *u = CONTAINER_OF(n, struct pg_unit, link);
        u->done(u);
    }
}

static void lent_run(struct loop_job *j)
{
    conn_work(CONTAINER_OF(j, struct pg, job));
}

/* canceled: the loop ends, and waits for nothing; what is to be done is short of time alone. */
static void lent_done(struct loop_job *j, bool canceled)
{
    struct pg *c = CONTAINER_OF(j, struct pg, job);
    if (canceled)
        conn_work(c);
    c->lent = false;
    conn_turn(c);
}

/* The watch and the timer, as what is on its way needs them. */
static void conn_await(struct pg *c)
{
    mono first = { .ns = INT64_MAX };
    for (const struct list *n = c->units.next; n != &c->units; n = n->next) {
        const struct pg_unit *u = CONTAINER_OF(unconst(n), struct pg_unit, link);
        first = u->deadline.ns < first.ns ? u->deadline : first;
    }
    unsigned events = LOOP_READABLE | (c->pending ? LOOP_WRITABLE : 0);
    if (atomic_load(&c->broken))
        events = 0;
    else if (c->watch == NULL)
        c->watch = loop_watch_new(c->loop, PQsocket(c->conn), conn_ready, c);
    if (events != c->watched)
        loop_watch_start(c->watch, events);
    c->watched = events;
    int64_t left_ns = first.ns - clock_mono(c->clock).ns;
    if (first.ns == INT64_MAX)
        loop_timer_stop(c->timer);
    else
        loop_timer_start(c->timer, left_ns <= 0 ? 0 : left_ns / NS_PER_MS + 1, 0);
}

/* libpq closes the socket of a connection that went, and the next one that is made has its number:
 * a watch on the old one, freed later, would take that out of the kernel's set. */
static void watch_drop(struct pg *c)
{
    loop_watch_free(&c->watch);
    c->watched = 0;
}

/* Nothing waits for the socket while the pool has the connection. */
static void conn_lend(struct pg *c)
{
    c->lent = true;
    watch_drop(c);
    c->job = (struct loop_job){ .run = lent_run, .done = lent_done };
    loop_job_start(c->loop, &c->job);
}

static void conn_work_here(struct pg *c)
{
    conn_work(c);
    if (atomic_load(&c->broken))
        watch_drop(c);
}

/* On the loop: what came, what is to be told, what comes of that. */
static void conn_turn(struct pg *c)
{
    if (c->lent || c->turning)
        return;
    c->turning = true;
    do {
        units_tell(c);
        if (c->closing)
            break;
        for (struct list *n; (n = list_take(&c->coming)) != NULL;)
            list_append(&c->units, n);
        uint64_t bytes = c->readable ? answer_bytes(c) : 0;
        if (bytes > ANSWER_BYTES_MAX)
            conn_break(c, ERR_LIMIT);
        if (bytes > PG_LIGHT_BYTES || is_heavy(c))
            conn_lend(c);
        else
            conn_work_here(c);
    } while (!c->lent && (!list_empty(&c->over) || !list_empty(&c->coming)));
    c->turning = false;
    if (!c->lent && !c->closing)
        conn_await(c);
}

static void conn_ready(void *ctx, unsigned events)
{
    struct pg *c = ctx;
    MAGIC_CHECK(c, PG_MAGIC);
    c->readable = (events & ~(unsigned)LOOP_WRITABLE) != 0;
    c->writable = (events & LOOP_WRITABLE) != 0;
    if ((events & LOOP_ERROR) != 0)
        c->watched = 0; /* it has stopped */
    conn_turn(c);
}

static void conn_late(void *ctx)
{
    struct pg *c = ctx;
    MAGIC_CHECK(c, PG_MAGIC);
    if (c->lent)
        return; /* looked at when it is back */
    mono now = clock_mono(c->clock);
    for (const struct list *n = c->units.next; n != &c->units; n = n->next)
        if (now.ns >= CONTAINER_OF(unconst(n), struct pg_unit, link)->deadline.ns &&
            !atomic_load(&c->broken))
            conn_break(c, ERR_TIMEOUT);
    conn_turn(c);
}

static void conn_free(struct pg *c)
{
    c->magic = 0;
    free(c);
}

static void told_run(struct task *t)
{
    struct pg *c = CONTAINER_OF(t, struct pg, told);
    c->telling = false;
    if (c->finished)
        conn_free(c);
    else
        conn_turn(c);
}

static uint64_t list_weight(const struct pg_statement *list, unsigned count)
{
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        const struct pg_params *p = list[i].params;
        bytes += STATEMENT_WEIGHT;
        for (unsigned k = 0; p != NULL && k < p->count; k++)
            bytes += (uint64_t)p->sizes[k];
    }
    return bytes;
}

void pg_start(struct pg *c, struct pg_unit *u)
{
    MAGIC_CHECK(c, PG_MAGIC);
    loop_assert_here(c->loop);
    INVARIANT(!c->closing);
    u->at = 0;
    u->sent = u->failed = false;
    u->out = (struct pg_outcome){ .why = ERR_OK, .failed = u->count };
    if (u->build == NULL)
        u->weight = list_weight(u->list, u->count);
    list_append(&c->coming, &u->link);
    if (c->lent || c->turning)
        return;
    /* done comes later, also of one that cannot be sent */
    for (struct list *n; (n = list_take(&c->coming)) != NULL;)
        list_append(&c->units, n);
    if (is_heavy(c)) {
        conn_lend(c);
        return;
    }
    conn_work_here(c);
    if (!list_empty(&c->over) && !c->telling) {
        c->telling = true;
        home_post(loop_home(c->loop), &c->told);
    }
    conn_await(c);
}

/* ---- beginning and end ---- */

struct pg *pg_conn_new(PGconn *conn, const struct pg_opts *opts)
{
    struct pg *c = calloc(1, sizeof(*c));
    INVARIANT(c != NULL);
    *c = (struct pg){ .magic = PG_MAGIC,
                      .loop = opts->loop,
                      .clock = opts->clock,
                      .conn = conn,
                      .told = { .run = told_run } };
    list_init(&c->coming);
    list_init(&c->units);
    list_init(&c->over);
    (void)pg_tcp_received(conn, &c->received); /* stays 0 where nothing is counted */
    c->timer = loop_timer_new(c->loop, conn_late, c);
    conn_await(c);
    return c;
}

static void finish_run(struct loop_job *j)
{
    PQfinish(CONTAINER_OF(j, struct pg, job)->conn);
}

static void finish_done(struct loop_job *j, bool canceled)
{
    struct pg *c = CONTAINER_OF(j, struct pg, job);
    if (canceled)
        PQfinish(c->conn);
    c->finished = true;
    if (!c->telling)
        conn_free(c);
}

void pg_close(struct pg **cp)
{
    struct pg *c = *cp;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, PG_MAGIC);
    loop_assert_here(c->loop);
    INVARIANT(!c->lent);
    *cp = NULL;
    for (struct list *n; (n = list_take(&c->units)) != NULL;)
        rows_drop(CONTAINER_OF(n, struct pg_unit, link));
    for (struct list *n; (n = list_take(&c->over)) != NULL;)
        rows_drop(CONTAINER_OF(n, struct pg_unit, link));
    c->closing = true;
    loop_watch_free(&c->watch);
    loop_timer_free(&c->timer);
    c->job = (struct loop_job){ .run = finish_run, .done = finish_done };
    loop_job_start(c->loop, &c->job); /* it may have much memory to give back */
}
