/* client.c - requests, and what their failures mean to people and scripts.
 *
 * A call that follows a redirect is the same call, started again at another URL. */
#include "cli/client.h"
#include "base/disk.h"
#include "cli/out.h"
#include "cli/stop.h"
#include "codec/json.h"
#include "http/http.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

enum {
    RETRY_ROOM_BYTES = ERR_NOTE_BYTES - 80, /* of a note, so that what is added is not cut */
    URL_BYTES_MAX = 16 << 10,
    TOKEN_BYTES_MAX = 8 << 10,
    HEAD_BYTES_MAX = 256 << 10, /* of a reply's, as the client of src/http keeps it */
};

static const char *given_or(const struct cli_call *call, const char *name, const char *env,
                            const char *fallback)
{
    const char *value = cli_value(call, name);
    if (value == NULL && env != NULL)
        value = getenv(env);
    return value != NULL && value[0] != '\0' ? value : fallback;
}

static void on_late(void *ctx)
{
    struct client *c = ctx;
    loop_stop(c->loop);
}

/* What is between the options and the server. */
static void client_wire(struct client *c)
{
    c->sysclock = sysclock_new();
    c->loop = loop_new(1); /* for names */
    c->late = loop_timer_new(c->loop, on_late, c);
    c->http = http_client_new(&(struct http_client_opts){
        .loop = c->loop,
        .clock = sysclock_clock(c->sysclock),
        .per_host_max = CLIENT_PARALLEL_MAX,
        .connections_max = CLIENT_PARALLEL_MAX,
        .connect_timeout_ms = CLIENT_CONNECT_TIMEOUT_MS,
        .user_agent = "palimpsest",
    });
    buf_init(&c->bearer, URL_BYTES_MAX);
    if (c->token != NULL)
        buf_printf(&c->bearer, "Bearer %s", c->token);
}

enum cli_exit client_open(struct client *c, const struct cli_call *call)
{
    return client_open_at(c, call, NULL);
}

/* Where requests go. False: it was said why nowhere. */
static bool server_find(struct client *c)
{
    str server = str_of(c->server);
    c->unix_path = http_listen_path(c->server);
    c->url = c->unix_path != NULL ? CLIENT_UNIX_URL : c->server;
    if (c->unix_path == NULL) {
        bool fine = str_starts(server, STR("http://")) || str_starts(server, STR("https://"));
        if (!fine)
            (void)cli_fail(c->call, CLI_USAGE,
                           "a server is a URL such as %s, or unix:/PATH, not \"%s\"",
                           CLIENT_SERVER_DEFAULT, c->server);
        return fine;
    }
    if (c->unix_path[0] != '/' || strlen(c->unix_path) > HTTP_UNIX_PATH_BYTES_MAX) {
        (void)cli_fail(c->call, CLI_USAGE,
                       "a unix socket is unix:/PATH, with a path of at most %d bytes, not \"%s\"",
                       HTTP_UNIX_PATH_BYTES_MAX, c->server);
        return false;
    }
    return true;
}

static enum cli_exit options_check(struct client *c)
{
    if (!server_find(c))
        return CLI_USAGE;
    if (c->token != NULL && strpbrk(c->token, "\r\n") != NULL)
        return cli_fail(c->call, CLI_USAGE, "--token holds a line break");
    if (c->token != NULL && strlen(c->token) > TOKEN_BYTES_MAX)
        return cli_fail(c->call, CLI_USAGE, "--token is too long");
    return CLI_OK;
}

enum cli_exit client_open_at(struct client *c, const struct cli_call *call, const char *at)
{
    *c = (struct client){
        .call = call,
        .server =
            at != NULL ? at : given_or(call, "server", "PALIMPSEST_SERVER", CLIENT_SERVER_DEFAULT),
        .token = given_or(call, "token", "PALIMPSEST_TOKEN", NULL),
        .domain = given_or(call, "domain", NULL, "localhost"),
        .bucket = given_or(call, "bucket", NULL, "page"),
        .json = cli_flag(call, "json"),
    };
    enum cli_exit code = options_check(c);
    if (code == CLI_OK)
        client_wire(c);
    return code;
}

enum cli_exit client_beside(struct client *beside, const struct client *c, const char *server,
                            const char *token)
{
    *beside = *c;
    beside->server = server;
    beside->token = token;
    buf_init(&beside->bearer, URL_BYTES_MAX);
    if (token != NULL)
        buf_printf(&beside->bearer, "Bearer %s", token);
    return options_check(beside);
}

void client_beside_close(struct client *beside)
{
    buf_fini(&beside->bearer);
}

void client_open_url(struct client *c, const char *server)
{
    *c = (struct client){ .server = server, .url = server };
    client_wire(c);
}

void client_close(struct client *c)
{
    if (c->http == NULL || stop_asked())
        return;
    loop_timer_free(&c->late);
    http_client_free(&c->http);
    loop_free(&c->loop);
    sysclock_free(&c->sysclock);
    buf_fini(&c->bearer);
}

/* ---- one request ---- */

/* The fields of an answer that are kept: whole, or not at all. */
static const struct {
    const char *name;
    size_t at;
} fields[] = {
    { "etag", offsetof(struct client_answer, etag) },
    { "content-type", offsetof(struct client_answer, content_type) },
    { "cache-status", offsetof(struct client_answer, cache_status) },
    { "cache-control", offsetof(struct client_answer, cache_control) },
    { "age", offsetof(struct client_answer, age) },
    { "retry-after", offsetof(struct client_answer, retry_after) },
    { "list-version", offsetof(struct client_answer, list_version) },
    { "list-size", offsetof(struct client_answer, list_size) },
    { "next-pivot", offsetof(struct client_answer, next_pivot) },
};

static void answer_head(struct client_call *call)
{
    struct client_answer *a = &call->answer;
    a->status = call->http.status;
    for (size_t i = 0; i < COUNT_OF(fields); i++) {
        char *field = (char *)a + fields[i].at;
        str value = http_call_header(&call->http, fields[i].name);
        if (value.p == NULL || !str_to_cstr(value, field, CLIENT_FIELD_BYTES_MAX))
            field[0] = '\0';
    }
    buf_clear(&a->heads);
    for (unsigned i = 0; call->request.heads && i < call->http.reply_headers_count; i++) {
        const struct http_pair *h = &call->http.reply_headers[i];
        buf_put(&a->heads, h->name);
        buf_put_c(&a->heads, ':');
        buf_put(&a->heads, h->value);
        buf_put_c(&a->heads, '\n');
    }
}

/* Where the answer leads, for one that follows; STR_NONE: it is the last. */
static str call_location(const struct client_call *call)
{
    int status = call->http.status;
    bool leads = status == 301 || status == 302 || status == 303 || status == 307 || status == 308;
    return leads && call->request.follow ? http_call_header(&call->http, "location") : STR_NONE;
}

static bool on_piece(struct http_call *http, str piece)
{
    struct client_call *call = http->ctx;
    struct client_answer *a = &call->answer;
    const struct client_request *r = &call->request;
    if (call_location(call).p != NULL)
        return true;
    answer_head(call);
    bool ours = !r->render || client_is_render(a->etag, a->cache_status);
    if (r->take != NULL && a->status >= 200 && a->status < 300)
        return r->take(call, piece);
    if (r->to != NULL && a->status >= 200 && a->status < 300 && ours) {
        bool written = fwrite(piece.p, 1, piece.n, r->to) == piece.n;
        call->write_errno = written ? 0 : errno;
        return written;
    }
    if (r->skim)
        piece = str_take(piece, CLIENT_SKIM_BYTES_MAX - a->body.n);
    buf_put(&a->body, piece);
    return !a->body.failed;
}

/* Why no answer came, and what to do about it. */
static err call_explain(struct client_call *call, err why)
{
    const struct client *c = call->client;
    const struct http_call *http = &call->http;
    struct err_note *note = &call->note;
    if (call->answer.body.failed) {
        err_note_set(note, "an answer of more than %d bytes", CLIENT_ANSWER_BYTES_MAX);
        return ERR_LIMIT;
    }
    if (call->write_errno != 0) {
        const char *name = call->request.to_name;
        return disk_fail(note, "write", name != NULL ? name : "what the server sent",
                         call->write_errno);
    }
    if (why == ERR_SHUTDOWN) {
        err_note_set(note, "interrupted");
        return why;
    }
    const char *advice = "";
    if (c->call != NULL && http->fault == HTTP_FAULT_ABSENT)
        advice =
            " (is it running? --server or $PALIMPSEST_SERVER names it; see palimpsest help serve)";
    else if (c->call != NULL && http->fault == HTTP_FAULT_STRANGE)
        advice = " (is this the URL of a Palimpsest? --server or $PALIMPSEST_SERVER names it)";
    bool late = http->fault == HTTP_FAULT_LATE;
    bool no_file =
        http->fault == HTTP_FAULT_ABSENT && c->unix_path != NULL && access(c->unix_path, W_OK) != 0;
    err_note_set(note, "%s: %s%s", c->server,
                 late                       ? "Timeout was reached"
                 : no_file                  ? strerror(errno)
                 : http->fault_text != NULL ? http->fault_text
                                            : http->note.text,
                 advice);
    return late ? ERR_TIMEOUT : ERR_UNAVAILABLE;
}

static bool call_is_foreign(const struct client_call *call)
{
    char own[HTTP_ORIGIN_BYTES_MAX], asked[HTTP_ORIGIN_BYTES_MAX];
    return http_client_origin(str_of(call->client->url), own) != ERR_OK ||
           http_client_origin(call->http.url, asked) != ERR_OK || strcmp(own, asked) != 0;
}

static void header_add(struct client_call *call, str name, str value)
{
    INVARIANT(call->http.headers_count < CLIENT_HEADERS_MAX);
    call->headers[call->http.headers_count++] = (struct http_pair){ .name = name, .value = value };
}

static void header_add_line(struct client_call *call, const char *line)
{
    if (line == NULL)
        return;
    str rest = str_of(line), name = str_split(&rest, ':');
    header_add(call, name, str_trim(rest));
}

static void on_done(struct http_call *http, err why);

static int64_t call_stall_s(const struct client_request *r)
{
    if (r->patient)
        return 0;
    return r->stall_timeout_s > 0 ? r->stall_timeout_s : CLIENT_STALL_TIMEOUT_S;
}

/* To the URL in url. */
static void call_go(struct client_call *call)
{
    const struct client_request *r = &call->request;
    struct client *c = call->client;
    mono now = clock_mono(sysclock_clock(c->sysclock));
    mono deadline = call->redirects > 0 ? call->http.deadline
                    : r->timeout_ms > 0 ? mono_add_ms(now, r->timeout_ms)
                                        : (mono){ .ns = INT64_MAX };
    arena_reset(&call->arena);
    call->http = (struct http_call){ .method = r->method,
                                     .url = buf_str(&call->url),
                                     .headers = call->headers,
                                     .body = r->has_body ? r->body : STR_NONE,
                                     .reply_bytes_max = SIZE_MAX,
                                     .deadline = deadline,
                                     .stall_timeout_s = call_stall_s(r),
                                     .arena = &call->arena,
                                     .take = on_piece,
                                     .done = on_done,
                                     .ctx = call };
    bool foreign = call_is_foreign(call);
    call->http.unix_path = foreign ? NULL : c->unix_path;
    header_add(call, STR("Accept-Encoding"), STR("identity"));
    if (r->has_body)
        header_add(call, STR("Content-Type"),
                   str_of(r->content_type != NULL ? r->content_type : "application/json"));
    header_add_line(call, r->header);
    header_add_line(call, r->header_more);
    if (c->token != NULL && !foreign)
        header_add(call, STR("Authorization"), buf_str(&c->bearer));
    http_call_start(c->http, &call->http);
}

/* True: on the way to where the answer leads. */
static bool call_follow(struct client_call *call)
{
    str location = call_location(call);
    struct buf to;
    if (location.p == NULL || call->redirects == CLIENT_REDIRECTS_MAX)
        return false;
    buf_init(&to, URL_BYTES_MAX);
    bool leads = http_client_redirect(call->http.url, location, &to) == ERR_OK;
    buf_fini(&call->url);
    call->url = to;
    if (!leads)
        return false;
    call->redirects++;
    call_go(call);
    return true;
}

static void on_done(struct http_call *http, err why)
{
    struct client_call *call = http->ctx;
    if (why == ERR_OK && call_follow(call))
        return;
    if (why == ERR_OK && call_location(call).p != NULL) {
        why = ERR_UNAVAILABLE;
        http->fault_text = "it redirects too often, or to no URL";
    }
    if (why == ERR_OK)
        answer_head(call);
    else
        why = call_explain(call, why);
    buf_fini(&call->url);
    arena_fini(&call->arena);
    loop_stop(call->client->loop);
    call->done(call, why);
}

err client_call_start(struct client *c, struct client_call *call)
{
    call->client = c;
    call->redirects = 0;
    call->write_errno = 0;
    call->answer = (struct client_answer){ 0 };
    buf_init(&call->answer.body, CLIENT_ANSWER_BYTES_MAX);
    buf_init(&call->answer.heads, HEAD_BYTES_MAX);
    buf_init(&call->url, URL_BYTES_MAX);
    str server = str_of(c->url);
    while (str_ends(server, STR("/")))
        server.n--;
    buf_printf(&call->url, "%.*s%.*s", STR_ARG(server), STR_ARG(call->request.path));
    if (buf_status(&call->url) != ERR_OK || call->request.path.n == 0) {
        buf_fini(&call->url);
        err_note_set(&call->note, "the title, or another word, is too long for a request");
        return ERR_LIMIT;
    }
    arena_init(&call->arena, HEAD_BYTES_MAX);
    call_go(call);
    return ERR_OK;
}

void client_call_cancel(struct client_call *call)
{
    http_call_cancel(call->client->http, &call->http);
}

static void on_stop(void *ctx, unsigned events)
{
    (void)events;
    on_late(ctx);
}

void client_turn(struct client *c, int64_t timeout_ms)
{
    struct loop_watch *stop = NULL;
    if (stop_fd() >= 0 && !stop_asked()) {
        stop = loop_watch_new(c->loop, stop_fd(), on_stop, c);
        loop_watch_start(stop, LOOP_READABLE);
    }
    if (timeout_ms == 0)
        loop_stop(c->loop);
    else if (timeout_ms > 0)
        loop_timer_start(c->late, timeout_ms, 0);
    loop_run(c->loop);
    loop_timer_stop(c->late);
    loop_watch_free(&stop);
}

struct sending {
    err why;
    bool done;
};

static void on_sent(struct client_call *call, err why)
{
    struct sending *s = call->ctx;
    *s = (struct sending){ .why = why, .done = true };
}

err client_send(struct client *c, const struct client_request *r, struct client_answer *out,
                struct err_note *note)
{
    struct sending sending = { .why = ERR_OK };
    struct client_call call = { .request = *r, .done = on_sent, .ctx = &sending };
    err why = client_call_start(c, &call);
    bool canceled = false;
    while (why == ERR_OK && !sending.done) {
        client_turn(c, -1);
        if (!sending.done && !canceled && stop_asked()) {
            client_call_cancel(&call);
            canceled = true;
        }
    }
    *out = call.answer;
    if (why == ERR_OK)
        why = sending.why;
    if (why != ERR_OK)
        err_note_set(note, "%s", call.note.text);
    return why;
}

void client_answer_fini(struct client_answer *a)
{
    buf_fini(&a->body);
    buf_fini(&a->heads);
}

/* ---- what went wrong ---- */

static enum cli_exit exit_of_status(int status)
{
    if (status == 404 || status == 410)
        return CLI_NOT_FOUND;
    if (status == 503)
        return CLI_NO_SERVER;
    return status >= 500 ? CLI_FAILED : CLI_REFUSED;
}

/* The library below the server answers what it cannot read itself, without a document. */
static bool is_too_long(int status)
{
    return status == 414 || status == 431;
}

enum cli_exit client_explain(const struct client *c, const struct client_answer *a,
                             struct err_note *note)
{
    str body = buf_str(&a->body);
    json_t *doc = json_body_read(body);
    const char *detail = json_string_value(json_object_get(doc, "detail"));
    const char *title = json_string_value(json_object_get(doc, "title"));
    const char *message = json_string_value(json_object_get(doc, "message"));
    bool ours = detail != NULL || title != NULL || message != NULL;
    if (detail == NULL)
        detail = message;
    if (ours)
        err_note_set(note, "the server answered %d%s%s%s%s", a->status, title != NULL ? " " : "",
                     title != NULL ? title : "", detail != NULL ? ": " : "",
                     detail != NULL ? detail : "");
    else if (is_too_long(a->status))
        err_note_set(note, "the server answered %d: the request is too long", a->status);
    else
        err_note_set(note,
                     "%s answered %d, and not as a Palimpsest does: is this its URL? --server or "
                     "$PALIMPSEST_SERVER names it",
                     c->server, a->status);
    json_decref(doc);
    return ours || is_too_long(a->status) ? exit_of_status(a->status) : CLI_NO_SERVER;
}

/* A listener without the admin routes says that it does not know them. */
static bool is_wrong_listener(const struct client_request *r, const struct client_answer *a)
{
    str body = buf_str(&a->body);
    bool method = str_find_str(body, STR("http method")) < body.n;
    return str_starts(r->path, STR("/v1/admin.")) &&
           (a->status == 501 || (a->status == 400 && method));
}

bool client_ask(struct client *c, const struct client_request *r, struct client_answer *out)
{
    struct err_note note;
    err e = client_send(c, r, out, &note);
    bool good = e == ERR_OK && out->status >= 200 && out->status < 300;
    if (good && (!r->render || client_is_render(out->etag, out->cache_status)))
        return true;
    c->failed = e == ERR_OK ? client_explain(c, out, &note) : cli_exit_of(e);
    if (e == ERR_OK && out->status == 504 && r->only_stored)
        c->failed = CLI_NOT_FOUND;
    if (e == ERR_OK && out->retry_after[0] != '\0' && strlen(note.text) < RETRY_ROOM_BYTES) {
        char said[sizeof note.text];
        (void)snprintf(said, sizeof said, "%s", note.text); /* of the same size */
        err_note_set(&note, "%s (Retry-After: %.40s)", said, out->retry_after);
    }
    if (e == ERR_OK && is_wrong_listener(r, out))
        err_note_set(
            &note,
            "%s has no admin routes: --server wants the URL of the server's admin listener "
            "(admin_listen)",
            c->server);
    (void)cli_fail_status(c->call, c->failed, e == ERR_OK ? out->status : 0,
                          note.text); /* gives failed back */
    return false;
}

bool client_order(struct client *c, const struct client_request *r)
{
    struct client_answer a;
    bool done = client_ask(c, r, &a);
    if (done && a.status != 204) {
        struct err_note note;
        c->failed = client_explain(c, &a, &note);
        if (c->failed != CLI_NO_SERVER) /* it has an error's members, with 2xx */
            c->failed = CLI_FAILED;
        (void)cli_fail_status(c->call, c->failed, a.status, note.text); /* gives failed back */
        done = false;
    }
    client_answer_fini(&a);
    return done;
}

/* An object with what the request wants of it, that says in no page to go on at the same place as
 * the page before. */
static bool is_answer(struct client *c, const struct client_request *r, const json_t *doc)
{
    const json_t *next = json_object_get(doc, "next");
    if (!json_is_object(doc) || (r->member != NULL && json_object_get(doc, r->member) == NULL))
        return false;
    if (next == NULL)
        return true;
    uint64_t hash = XXH3_64bits(json_string_value(next), json_string_length(next));
    bool leads_on = json_is_string(next) && hash != c->next_hash;
    c->next_hash = hash;
    return leads_on;
}

json_t *client_ask_json(struct client *c, const struct client_request *r)
{
    struct client_answer a;
    json_t *doc = NULL;
    if (client_ask(c, r, &a)) {
        doc = json_body_read(buf_str(&a.body));
        if (!is_answer(c, r, doc)) {
            c->failed = cli_fail(c->call, CLI_NO_SERVER,
                                 "the answer of %s is not JSON as a Palimpsest sends it: is "
                                 "this its URL? --server or $PALIMPSEST_SERVER names it",
                                 c->server);
            json_decref(doc);
            doc = NULL;
        }
    }
    client_answer_fini(&a);
    return doc;
}
