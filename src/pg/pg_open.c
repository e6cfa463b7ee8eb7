/* pg_open.c - connecting: the URL's addresses in turn, each within its share of the time.
 *
 * libpq's steps run on the pool: they read certificates, and compute what a password proves. The
 * loop waits for the socket between them, so a server that does not answer holds no thread. */
#include "pg/conn.h"
#include "pg/url.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define PORT_DEFAULT "5432"
enum { OPTIONS_BYTES_MAX = PG_URL_OPTIONS_BYTES_MAX + 768, KEEPALIVE_S = 5 };

/* One of the URL's addresses: libpq itself would wait for the first one as long as there is
 * time. */
struct address {
    char *host, *hostaddr, *port;
    const char *session; /* NULL: as the URL has it */
    const char *options; /* the URL's */
};

/* Number i of count. Of several servers one is the primary: the others take connections too, and
 * show what it was a moment ago. */
static struct address address_at(const PQconninfoOption *options, unsigned i, unsigned count)
{
    const char *ports = pg_url_option(options, "port");
    struct address a = { .host = pg_url_nth(pg_url_option(options, "host"), i),
                         .hostaddr = pg_url_nth(pg_url_option(options, "hostaddr"), i),
                         .port = pg_url_nth(ports, pg_url_count(ports) == 1 ? 0 : i),
                         .options = pg_url_option(options, "options") };
    if (count > 1 && pg_url_option(options, "target_session_attrs")[0] == '\0')
        a.session = "primary";
    if (a.port == NULL)
        a.port = strdup(PORT_DEFAULT);
    if (a.host == NULL)
        a.host = strdup(a.hostaddr); /* else the URL's whole list would stand beside one address */
    INVARIANT(a.port != NULL);
    INVARIANT(a.host != NULL);
    return a;
}

static void address_free(struct address *a)
{
    free(a->host);
    free(a->hostaddr);
    free(a->port);
}

/* The URL's options, and what holds whatever it, a role or a database says: no statement is waited
 * for longer than somebody waits for the answer, and no lock as long, so that it is named; no
 * session ends while it is idle, and a row that another changed meanwhile is no failure. False:
 * they do not fit. */
static bool session_options(const struct pg_opts *opts, const char *of_url,
                            char out[OPTIONS_BYTES_MAX])
{
    long long ms = opts->statement_timeout_ms,
              lock_ms = ms < 3 ? ms : ms / 3 * 2; /* 0 is for ever */
    int n = snprintf(
        out, OPTIONS_BYTES_MAX,
        "%s -c statement_timeout=%lld -c lock_timeout=%lld -c "
        "idle_in_transaction_session_timeout=%lld"
        " -c idle_session_timeout=0 -c default_transaction_isolation=read\\ committed"
        " -c client_min_messages=error -c tcp_keepalives_idle=%d -c tcp_keepalives_interval=%d"
        " -c tcp_keepalives_count=3 -c jit=off %s",
        of_url, ms, lock_ms, ms, KEEPALIVE_S, KEEPALIVE_S,
        opts->settings == NULL ? "" : opts->settings);
    return n > 0 && n < OPTIONS_BYTES_MAX;
}

/* libpq would print it. */
static void drop_notice(void *ctx, const PGresult *notice)
{
    (void)ctx, (void)notice;
}

static PGconn *connect_start(const struct pg_opts *opts, const struct address *at)
{
    char options[OPTIONS_BYTES_MAX], keepalive[16];
    INVARIANT(session_options(opts, at->options, options)); /* the URL's were measured */
    (void)snprintf(keepalive, sizeof(keepalive), "%d", KEEPALIVE_S);
    const char *keys[] = { "dbname",
                           "options",
                           "application_name",
                           "keepalives_idle",
                           "keepalives_interval",
                           "client_encoding",
                           "host",
                           "hostaddr",
                           "port",
                           "target_session_attrs",
                           NULL };
    const char *values[] = { opts->url, options,  opts->application, keepalive, keepalive,
                             "UTF8",    at->host, at->hostaddr,      at->port,  at->session,
                             NULL };
    PGconn *conn =
        PQconnectStartParams(keys, values, 1); /* the URL is taken apart where dbname stands */
    INVARIANT(conn != NULL);
    (void)PQsetNoticeReceiver(conn, drop_notice, NULL);
    return conn;
}

/* ---- steps ---- */

struct pg_connecting {
    struct pg_opening *opening; /* NULL: nobody wants it any more */
    struct pg_opts opts;        /* texts are own memory */
    PQconninfoOption *options;
    unsigned count, first, tried; /* addresses */
    mono until;                   /* of this address */
    struct loop_watch *watch;
    struct loop_timer *timer;
    struct loop_job job;
    bool lent, late;
    /* who works at it */
    struct address at;
    PGconn *conn;
    PostgresPollingStatusType status;
    err why;
    struct err_note said, note; /* of all addresses so far; of this one */
};

static void connecting_drop(struct pg_connecting *x)
{
    PQfinish(x->conn);
    x->conn = NULL;
    address_free(&x->at);
    x->at = (struct address){ .host = NULL };
}

static void connecting_free(struct pg_connecting *x)
{
    connecting_drop(x);
    loop_timer_free(&x->timer);
    PQconninfoFree(x->options);
    free((char *)(uintptr_t)x->opts.url);
    free((char *)(uintptr_t)x->opts.application);
    free((char *)(uintptr_t)x->opts.settings);
    free(x);
}

/* Pool: one step. */
static void connecting_run(struct loop_job *j)
{
    struct pg_connecting *x = CONTAINER_OF(j, struct pg_connecting, job);
    if (x->options == NULL) { /* the first one: libpq makes itself ready, too */
        x->options = PQconninfoParse(x->opts.url, NULL);
        return;
    }
    if (x->conn == NULL) {
        x->conn = connect_start(&x->opts, &x->at);
        (void)PQsetErrorVerbosity(
            x->conn, PQERRORS_VERBOSE); /* with the SQLSTATE, which libpq keeps for itself */
        x->status = PGRES_POLLING_WRITING;
    } else {
        x->status = PQconnectPoll(x->conn);
    }
    if (x->status == PGRES_POLLING_FAILED || PQstatus(x->conn) == CONNECTION_BAD) {
        x->status = PGRES_POLLING_FAILED;
        x->why = pg_note_of_refusal(x->conn, &x->note);
    } else if (x->status == PGRES_POLLING_OK) {
        (void)PQsetErrorVerbosity(x->conn, PQERRORS_DEFAULT);
        if (PQsetnonblocking(x->conn, 1) == 0 && PQenterPipelineMode(x->conn) == 1)
            return;
        pg_note_of(&x->note, "PostgreSQL", PQerrorMessage(x->conn));
        x->status = PGRES_POLLING_FAILED;
        x->why = ERR_UNAVAILABLE;
    }
}

static void connecting_done(struct loop_job *j, bool canceled);

static void connecting_lend(struct pg_connecting *x)
{
    x->lent = true;
    x->job = (struct loop_job){ .run = connecting_run, .done = connecting_done };
    loop_job_start(x->opts.loop, &x->job);
}

/* Nobody is told but who waits still. */
static void connecting_end(struct pg_connecting *x, err why)
{
    struct pg_opening *o = x->opening;
    o->connecting = NULL;
    if (why == ERR_OK) {
        o->conn = pg_conn_new(x->conn, &x->opts);
        x->conn = NULL;
    } else {
        err_note_set(&o->note, "%s", x->said.text);
    }
    connecting_free(x);
    o->done(o, why);
}

/* Each gets an equal part of what is left. */
static void address_begin(struct pg_connecting *x)
{
    int64_t now_ns = clock_mono(x->opts.clock).ns,
            share_ns = (x->opening->deadline.ns - now_ns) / (x->count - x->tried);
    x->at = address_at(x->options, (x->first + x->tried) % x->count, x->count);
    x->note = (struct err_note){ .text = "" };
    x->late = false;
    x->until = (mono){ .ns = now_ns + share_ns };
    loop_timer_start(x->timer, share_ns <= 0 ? 0 : share_ns / NS_PER_MS + 1, 0);
    connecting_lend(x);
}

/* The next one, unless this one denies: libpq tries none behind it either. */
static void address_failed(struct pg_connecting *x, err why)
{
    struct err_note before = x->said;
    err_note_set(&x->said, "%s%s%s", before.text, x->tried == 0 ? "" : "; ", x->note.text);
    connecting_drop(x);
    x->tried++;
    if (why == ERR_DENIED || x->tried == x->count)
        connecting_end(x, why);
    else
        address_begin(x);
}

static void address_late(struct pg_connecting *x)
{
    err_note_set(&x->note, "PostgreSQL does not answer");
    address_failed(x, ERR_TIMEOUT);
}

static void connecting_ready(void *ctx, unsigned events)
{
    struct pg_connecting *x = ctx;
    (void)events;
    loop_watch_free(&x->watch); /* a step may close the socket, and make another */
    connecting_lend(x);
}

static void connecting_late(void *ctx)
{
    struct pg_connecting *x = ctx;
    x->late = true;
    if (x->lent)
        return;
    loop_watch_free(&x->watch);
    address_late(x);
}

static void connecting_done(struct loop_job *j, bool canceled)
{
    struct pg_connecting *x = CONTAINER_OF(j, struct pg_connecting, job);
    x->lent = false;
    if (x->opening == NULL) {
        connecting_free(x);
        return;
    }
    if (canceled) { /* the loop ends */
        x->note = (struct err_note){ .text = "" };
        connecting_end(x, ERR_UNAVAILABLE);
        return;
    }
    if (x->count == 0) {
        INVARIANT(x->options != NULL); /* pg_url_check said so */
        x->count = pg_url_count(pg_url_addresses(x->options));
        x->first = x->opts.address == NULL ? 0 : atomic_load(x->opts.address);
        address_begin(x);
    } else if (x->status == PGRES_POLLING_FAILED) {
        address_failed(x, x->why);
    } else if (x->status == PGRES_POLLING_OK) {
        if (x->opts.address != NULL)
            atomic_store(x->opts.address, (x->first + x->tried) % x->count);
        connecting_end(x, ERR_OK);
    } else if (x->late) {
        address_late(x);
    } else {
        x->watch = loop_watch_new(x->opts.loop, PQsocket(x->conn), connecting_ready, x);
        loop_watch_start(x->watch,
                         x->status == PGRES_POLLING_READING ? LOOP_READABLE : LOOP_WRITABLE);
    }
}

/* ---- */

/* The URL's sslpassword or none: OpenSSL would ask at the terminal for that of a key, and wait. */
void pg_ask_nobody(void)
{
    PQsetSSLKeyPassHook_OpenSSL(PQdefaultSSLKeyPassHook_OpenSSL);
}

static char *text_copy(const char *text)
{
    char *copy = strdup(text == NULL ? "" : text);
    INVARIANT(copy != NULL);
    return copy;
}

void pg_opening_start(struct pg_opening *o)
{
    struct pg_connecting *x = calloc(1, sizeof(*x));
    INVARIANT(x != NULL);
    loop_assert_here(o->opts.loop);
    *x = (struct pg_connecting){ .opening = o, .opts = o->opts };
    x->opts.url = text_copy(o->opts.url);
    x->opts.application = text_copy(o->opts.application);
    x->opts.settings = text_copy(o->opts.settings);
    x->timer = loop_timer_new(x->opts.loop, connecting_late, x);
    o->connecting = x;
    o->conn = NULL;
    o->note = (struct err_note){ .text = "" };
    connecting_lend(x);
}

void pg_opening_cancel(struct pg_opening *o)
{
    struct pg_connecting *x = o->connecting;
    if (x == NULL)
        return;
    loop_assert_here(x->opts.loop);
    o->connecting = NULL;
    x->opening = NULL;
    loop_watch_free(&x->watch);
    loop_timer_free(&x->timer);
    if (!x->lent)
        connecting_free(x);
}
