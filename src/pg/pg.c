/* pg.c - connecting, and running a list of statements.
 *
 * Invariants
 *  1. Every wait ends at its deadline, or when *ended is set; after one that was missed the
 *     connection is broken.
 *  2. An outcome is definite only when the server said so: the commit is known by an answer for
 *     each statement and one for the list's end, a failure by an error of one of its statements or
 *     of the commit. The end of the connection after all statements were answered, with or without
 *     a word, says nothing. */
#include "pg/pg.h"

#include "base/buf.h"
#include "pg/url.h"

#include <linux/tcp.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>

struct pg {
    uint32_t magic;
    PGconn *conn;
    struct clock *clock;
    const atomic_bool *ended;
    bool broken;
};
#define PG_MAGIC 0x9c0117ecu
#define DENIED_STATE "42501"
#define PORT_DEFAULT "5432"
enum { OPTIONS_BYTES_MAX = PG_URL_OPTIONS_BYTES_MAX + 768, KEEPALIVE_S = 5 };
enum { LOOK_MS = 100, ANSWER_BYTES_MAX = 256 << 20 };

/* ---- connecting ---- */

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

/* Waits for events until the deadline, or the end. ERR_TIMEOUT. */
static err socket_wait(struct pg *c, short events, mono deadline)
{
    struct pollfd p = { .fd = PQsocket(c->conn), .events = events };
    for (;;) {
        int64_t left_ns = deadline.ns - clock_mono(c->clock).ns;
        if (left_ns <= 0)
            return ERR_TIMEOUT;
        if (c->ended != NULL && atomic_load(c->ended))
            return ERR_TIMEOUT;
        int64_t ms = left_ns / NS_PER_MS + 1, most = c->ended == NULL ? INT32_MAX : LOOK_MS;
        int n = poll(&p, 1, (int)(ms > most ? most : ms));
        if (n > 0)
            return ERR_OK;
    }
}

/* Text of libpq in one line: line ends, tabs and what stands beside them are one blank. */
static void note_of(struct err_note *note, const char *what, const char *text)
{
    if (note == NULL)
        return;
    err_note_set(note, "%s: %s", what, text == NULL ? "" : text);
    char *to = note->text;
    for (const char *p = note->text; *p != '\0'; p++) {
        bool blank = (unsigned char)*p <= ' ';
        if (!blank)
            *to++ = *p;
        else if (to > note->text && to[-1] != ' ')
            *to++ = ' ';
    }
    *to = '\0';
    str trimmed = str_trim(str_of(note->text));
    note->text[trimmed.n] = '\0'; /* it began with a letter */
}

enum { SQL_SHOWN_BYTES = 48 };

/* What the server said of a statement. A right that is missing: which statement wanted it, and of
 * which table. */
static void note_of_result(struct err_note *note, const PGresult *result, const char *sql)
{
    struct err_note said;
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    note_of(&said, "PostgreSQL", PQresultErrorMessage(result));
    *note = said;
    if (sql != NULL && state != NULL && strcmp(state, DENIED_STATE) == 0)
        err_note_set(note, "%s; '%.*s...' needs SELECT, INSERT, UPDATE or DELETE there", said.text,
                     SQL_SHOWN_BYTES, sql);
}

/* Where "SQLSTATE: " stands in what is said of a connection, with PQERRORS_VERBOSE; text.n:
 * nowhere. */
static size_t state_at(str text)
{
    for (size_t i = 0; i + PG_STATE_BYTES + 1 <= text.n; i++) {
        size_t n = 0;
        while (n < PG_STATE_BYTES - 1 && ((text.p[i + n] >= '0' && text.p[i + n] <= '9') ||
                                          (text.p[i + n] >= 'A' && text.p[i + n] <= 'Z')))
            n++;
        bool begins =
            i > 1 && text.p[i - 1] == ' ' && text.p[i - 2] == ' '; /* FATAL, before it, has one */
        if (begins && n == PG_STATE_BYTES - 1 && str_starts(str_skip(text, i + n), STR(": ")))
            return i;
    }
    return text.n;
}

/* Why there is no connection. Who used a password is denied for what the server says of it alone:
 * there may be no connection left for them, or no primary. */
static err refused(PGconn *conn, struct err_note *note)
{
    str text = str_of(PQerrorMessage(conn));
    text = str_take(text, str_find_str(text, STR("\nLOCATION:"))); /* in the server's source */
    text = str_take(text, str_find_str(text, STR("\n\t")));        /* libpq asks whether it runs */
    size_t state = state_at(text);
    str behind = str_skip(text, state == text.n ? text.n : state + PG_STATE_BYTES + 1);
    struct err_note said;
    err_note_set(&said, "%.*s%.*s", STR_ARG(str_take(text, state)), STR_ARG(behind));
    note_of(note, "PostgreSQL refuses", said.text);
    bool password = PQconnectionUsedPassword(conn) && str_starts(str_skip(text, state), STR("28"));
    return password || PQconnectionNeedsPassword(conn) ? ERR_DENIED : ERR_UNAVAILABLE;
}

static err connect_wait(struct pg *c, mono deadline, struct err_note *note)
{
    PostgresPollingStatusType status = PGRES_POLLING_WRITING;
    (void)PQsetErrorVerbosity(
        c->conn, PQERRORS_VERBOSE); /* with the SQLSTATE, which libpq keeps for itself */
    while (status != PGRES_POLLING_OK) {
        if (status == PGRES_POLLING_FAILED || PQstatus(c->conn) == CONNECTION_BAD)
            return refused(c->conn, note);
        err why = socket_wait(c, status == PGRES_POLLING_READING ? POLLIN : POLLOUT, deadline);
        if (why != ERR_OK) {
            err_note_set(note, "PostgreSQL does not answer");
            return why;
        }
        status = PQconnectPoll(c->conn);
    }
    (void)PQsetErrorVerbosity(c->conn, PQERRORS_DEFAULT);
    return ERR_OK;
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

static err open_at(const struct pg_opts *opts, const struct address *at, mono deadline,
                   struct pg **out, struct err_note *note)
{
    struct pg *c = calloc(1, sizeof(*c));
    INVARIANT(c != NULL);
    *c = (struct pg){ .magic = PG_MAGIC,
                      .conn = connect_start(opts, at),
                      .clock = opts->clock,
                      .ended = opts->ended };
    err why = connect_wait(c, deadline, note);
    if (why == ERR_OK && (PQsetnonblocking(c->conn, 1) != 0 || PQenterPipelineMode(c->conn) != 1)) {
        note_of(note, "PostgreSQL", PQerrorMessage(c->conn));
        why = ERR_UNAVAILABLE;
    }
    if (why != ERR_OK) {
        pg_close(&c);
        return why;
    }
    *out = c;
    return ERR_OK;
}

/* Tries them in turn, from that of the last connection on; as libpq, none behind one that
 * denies. */
static err open_any(const struct pg_opts *opts, const PQconninfoOption *options, mono deadline,
                    struct pg **out, struct err_note *note)
{
    unsigned count = pg_url_count(pg_url_addresses(options));
    unsigned first = opts->address == NULL ? 0 : atomic_load(opts->address);
    struct err_note said = { .text = "" };
    err why = ERR_UNAVAILABLE;
    for (unsigned i = 0; i < count && why != ERR_OK && why != ERR_DENIED; i++) {
        struct err_note before = said, one = { .text = "" };
        unsigned index = (first + i) % count;
        struct address at = address_at(options, index, count);
        int64_t now_ns = clock_mono(opts->clock).ns;
        why = open_at(opts, &at, (mono){ .ns = now_ns + (deadline.ns - now_ns) / (count - i) }, out,
                      &one);
        address_free(&at);
        if (why == ERR_OK && opts->address != NULL)
            atomic_store(opts->address, index);
        err_note_set(&said, "%s%s%s", before.text, i == 0 ? "" : "; ", one.text);
    }
    if (why != ERR_OK)
        err_note_set(note, "%s", said.text);
    return why;
}

/* The URL's sslpassword or none: OpenSSL would ask at the terminal for that of a key, and wait. */
void pg_ask_nobody(void)
{
    PQsetSSLKeyPassHook_OpenSSL(PQdefaultSSLKeyPassHook_OpenSSL);
}

err pg_open(const struct pg_opts *opts, mono deadline, struct pg **out, struct err_note *note)
{
    err why = pg_url_check(opts->url, note);
    if (why != ERR_OK)
        return why;
    PQconninfoOption *options = PQconninfoParse(opts->url, NULL);
    INVARIANT(options != NULL); /* it was read before */
    why = open_any(opts, options, deadline, out, note);
    PQconninfoFree(options);
    return why;
}

void pg_close(struct pg **cp)
{
    struct pg *c = *cp;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, PG_MAGIC);
    PQfinish(c->conn);
    c->magic = 0;
    free(c);
    *cp = NULL;
}

bool pg_broken(const struct pg *c)
{
    MAGIC_CHECK(c, PG_MAGIC);
    return c->broken;
}

/* ---- rows ---- */

struct pg_rows {
    PGresult *result;
};

unsigned pg_rows_count(const struct pg_rows *r)
{
    return (unsigned)PQntuples(r->result);
}

str pg_bytes(const struct pg_rows *r, unsigned row, unsigned column)
{
    INVARIANT(row < pg_rows_count(r));
    INVARIANT(column < (unsigned)PQnfields(r->result));
    return (str){
        .p = PQgetvalue(r->result, (int)row, (int)column),
        .n = (size_t)PQgetlength(r->result, (int)row, (int)column),
    };
}

bool pg_is_i64(const struct pg_rows *r, unsigned row, unsigned column)
{
    enum { INT8 = 20, INT2 = 21, INT4 = 23 }; /* as pg_type.dat numbers them */
    Oid type = PQftype(r->result, (int)column);
    size_t wanted = type == INT8 ? 8 : type == INT4 ? 4 : type == INT2 ? 2 : 0;
    return wanted != 0 && pg_bytes(r, row, column).n == wanted;
}

int64_t pg_i64(const struct pg_rows *r, unsigned row, unsigned column)
{
    str s = pg_is_i64(r, row, column) ? pg_bytes(r, row, column) : STR_NONE;
    if (s.n == 8)
        return (int64_t)get_be64(s.p);
    if (s.n == 4)
        return (int32_t)get_be32(s.p);
    return s.n == 2 ? (int16_t)get_be16(s.p) : 0;
}

void pg_rows_free(struct pg_rows **rp)
{
    if (*rp == NULL)
        return;
    PQclear((*rp)->result);
    free(*rp);
    *rp = NULL;
}

static struct pg_rows *rows_of(PGresult *result)
{
    struct pg_rows *r = malloc(sizeof(*r));
    INVARIANT(r != NULL);
    r->result = result;
    return r;
}

/* ---- running ---- */

struct run {
    struct pg *c;
    const struct pg_statement *list;
    unsigned count, at; /* statements; answered ones */
    struct pg_rows **rows;
    struct pg_outcome *out;
    bool failed, ended;
    uint64_t received_before; /* on this connection, as TCP counts */
    uint64_t received;        /* bytes: libpq keeps all of an answer in memory */
};

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
    if (strncmp(state, "28", 2) == 0 || strcmp(state, DENIED_STATE) == 0)
        return ERR_DENIED;
    return ERR_UNAVAILABLE;
}

static void take_error(struct run *r, const PGresult *result)
{
    const char *state = PQresultErrorField(result, PG_DIAG_SQLSTATE);
    const char *severity = PQresultErrorField(result, PG_DIAG_SEVERITY_NONLOCALIZED);
    if (r->failed)
        return;
    r->failed = true;
    r->out->failed = r->at;
    bool last_word = severity != NULL &&
                     strcmp(severity, "ERROR") != 0; /* FATAL: it goes; after a commit, perhaps */
    bool lost = state == NULL || (last_word && r->at == r->count);
    r->c->broken = r->c->broken || state == NULL || last_word;
    if (state != NULL)
        (void)str_to_cstr(str_of(state), r->out->state,
                          sizeof(r->out->state)); /* five characters */
    r->out->why = lost ? ERR_IO : err_of_state(r->out->state);
    note_of_result(&r->out->note, result, r->at < r->count ? r->list[r->at].sql : NULL);
}

/* Takes one result; it goes to the caller or ends here. */
static void take_result(struct run *r, PGresult *result)
{
    bool kept = false;
    switch ((int)PQresultStatus(result)) { /* not as the enum: later releases of libpq know more */
    case PGRES_TUPLES_OK:
    case PGRES_COMMAND_OK:
    case PGRES_EMPTY_QUERY:
        if (r->at < r->count && r->rows != NULL) {
            r->rows[r->at] = rows_of(result);
            kept = true;
        }
        r->at++;
        break;
    case PGRES_PIPELINE_ABORTED:
        r->at++;
        break;
    case PGRES_PIPELINE_SYNC:
        r->ended = true;
        break;
    case PGRES_FATAL_ERROR:
    case PGRES_NONFATAL_ERROR:
        take_error(r, result);
        r->at++;
        break;
    default: /* a COPY, rows one by one, what a later libpq knows: nobody asked for it, it would
                come again */
        take_error(r, result);
        r->c->broken = true;
        break;
    }
    if (!kept)
        PQclear(result);
}

/* Takes what has come. */
static void take_results(struct run *r)
{
    unsigned nothing = 0;
    while (!r->ended && !r->c->broken && nothing < 2 && PQisBusy(r->c->conn) == 0) {
        PGresult *result = PQgetResult(r->c->conn);
        nothing = result == NULL ? nothing + 1 : 0; /* one ends each statement */
        if (result != NULL)
            take_result(r, result);
    }
    if (nothing == 2) /* all was taken and the end did not come */
        r->c->broken = true;
}

/* What TCP says it has received since the connection was made. False: it is a socket in a
 * folder. */
static bool tcp_received(struct pg *c, uint64_t *bytes)
{
    struct tcp_info info = { .tcpi_state = 0 };
    socklen_t n = sizeof info;
    bool told = getsockopt(PQsocket(c->conn), IPPROTO_TCP, TCP_INFO, &info, &n) == 0;
    *bytes = info.tcpi_bytes_received;
    return told;
}

/* libpq reads until nothing is there, as much as the server sends meanwhile: of a socket in a
 * folder, which counts nothing, some of that is not seen. */
static bool is_too_large(struct run *r)
{
    uint64_t bytes;
    int waiting = 0;
    if (tcp_received(r->c, &bytes))
        r->received = bytes - r->received_before;
    else if (ioctl(PQsocket(r->c->conn), FIONREAD, &waiting) == 0)
        r->received += (uint64_t)waiting;
    return r->received > ANSWER_BYTES_MAX;
}

/* Sends what waits and takes what comes, until the end or the deadline. ERR_TIMEOUT, ERR_LIMIT,
 * ERR_IO. */
static err exchange(struct run *r, mono deadline)
{
    PGconn *conn = r->c->conn;
    while (!r->ended && !r->c->broken) {
        int pending = PQflush(conn);
        if (pending < 0)
            return ERR_IO;
        err why = socket_wait(r->c, (short)(POLLIN | (pending > 0 ? POLLOUT : 0)), deadline);
        if (why == ERR_OK && is_too_large(r))
            why = ERR_LIMIT;
        if (why != ERR_OK)
            return why;
        if (PQconsumeInput(conn) != 1) {
            take_results(r); /* what came before it went, the reason it gave among it */
            return ERR_IO;
        }
        take_results(r);
    }
    return r->ended ? ERR_OK : ERR_IO;
}

static void rows_drop(struct run *r)
{
    for (unsigned i = 0; r->rows != NULL && i < r->count; i++)
        pg_rows_free(&r->rows[i]);
}

void pg_run(struct pg *c, const struct pg_statement *list, unsigned count, mono deadline,
            struct pg_rows **rows, struct pg_outcome *out)
{
    MAGIC_CHECK(c, PG_MAGIC);
    struct run r = { .c = c, .list = list, .count = count, .rows = rows, .out = out };
    *out = (struct pg_outcome){ .why = ERR_OK, .failed = count };
    (void)tcp_received(c, &r.received_before); /* stays 0 where nothing is counted */
    for (unsigned i = 0; rows != NULL && i < count; i++)
        rows[i] = NULL;
    err why = c->broken ? ERR_UNAVAILABLE : ERR_OK;
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        INVARIANT(list[i].params == NULL || !list[i].params->failed);
        why = send_one(c, &list[i]);
    }
    if (why != ERR_OK) { /* without its end it is never committed */
        c->broken = true;
        out->why = why;
        note_of(&out->note, "PostgreSQL", PQerrorMessage(c->conn));
        return;
    }
    why = PQpipelineSync(c->conn) == 1 ? exchange(&r, deadline) : ERR_IO;
    if (why == ERR_OK && !r.failed && r.at != count)
        why = ERR_IO; /* the end came, and not an answer for each */
    if (why != ERR_OK) {
        c->broken = true;
        if (!r.failed) {
            out->why = ERR_IO;
            note_of(&out->note, "PostgreSQL",
                    why == ERR_TIMEOUT ? "no answer in time"
                    : why == ERR_LIMIT ? "the answer is too large"
                                       : PQerrorMessage(c->conn));
        }
    }
    if (out->why != ERR_OK)
        rows_drop(&r);
}

void pg_run_one(struct pg *c, const char *sql, const struct pg_params *params, mono deadline,
                struct pg_rows **rows, struct pg_outcome *out)
{
    struct pg_statement one = { .sql = sql, .params = params };
    pg_run(c, &one, 1, deadline, rows, out);
}
