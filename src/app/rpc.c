/* rpc.c - reads the body of a queue call and sends its answer, as protobuf or as JSON. Handlers
 * of queues see messages only. Invariant: each call is answered once, in the encoding that its
 * Accept header asked for, errors too. */
#include "app/rpc.h"

#include "app/errors.h"
#include "base/utf8.h"
#include "http/status.h"

#include <stdarg.h>
#include <stdio.h>

enum {
    CODE_TOO_LARGE = 413,
    CODE_SHUTDOWN = 453,
    CODE_RETRY = 454,
    CODE_CONTENT = 455,
    CODE_INTERNAL = 500,
    CODE_STARVED = 503,
    MESSAGE_BYTES_MAX = 4096
};

/* What HTTP has no words for, or others. */
static const struct {
    int code;
    const char *text;
} code_texts[] = {
    { 452, "Client Error" },           { 454, "Retry Request" },   { 455, "Client Content Error" },
    { 500, "Internal Service Error" }, { 512, "Transport Error" },
};

static const char *code_text(int code)
{
    for (size_t i = 0; i < COUNT_OF(code_texts); i++)
        if (code_texts[i].code == code)
            return code_texts[i].text;
    return http_status_text(code);
}

/* ---- content types ---- */

/* The first type of a field, without parameters. */
static str first_type(str field)
{
    size_t semicolon = str_find(field, ';'), comma = str_find(field, ',');
    return str_trim(str_take(field, semicolon < comma ? semicolon : comma));
}

/* False: neither. */
static bool encoding_of(str field, enum wire_encoding *out)
{
    static const str json[] = { STR_INIT(""), STR_INIT("*/*"), STR_INIT("application/*"),
                                STR_INIT("application/json") };
    str type = first_type(field);
    if (str_eq_nocase(type, STR("application/protobuf"))) {
        *out = WIRE_PROTOBUF;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(json); i++) {
        if (str_eq_nocase(type, json[i])) {
            *out = WIRE_JSON;
            return true;
        }
    }
    return false;
}

/* JSON when nothing, or nothing known, is asked for: so DUH has it, whatever the request is in. */
static enum wire_encoding reply_encoding(const struct http_exchange *x)
{
    enum wire_encoding encoding;
    return encoding_of(http_common(x)->accept, &encoding) ? encoding : WIRE_JSON;
}

/* ---- answers ---- */

enum { SEND_HEADERS = 2 };

static void send_headers(enum wire_encoding encoding, struct http_pair out[SEND_HEADERS])
{
    bool json = encoding == WIRE_JSON;
    out[0] = (struct http_pair){ STR("content-type"),
                                 json ? STR("application/json") : STR("application/protobuf") };
    out[1] = (struct http_pair){ STR("x-content-type-options"), STR("nosniff") };
}

static void send(struct http_exchange *x, int status, enum wire_encoding encoding, str body)
{
    struct http_pair headers[SEND_HEADERS];
    send_headers(encoding, headers);
    for (unsigned i = 0; i < SEND_HEADERS; i++)
        http_reply_header(x, headers[i].name, headers[i].value);
    http_answer(x, status, body);
}

err rpc_encode(struct http_exchange *x, const ProtobufCMessage *m, str *body)
{
    return wire_encode(http_arena(x), m, reply_encoding(x), body);
}

void rpc_send(struct http_exchange *x, str body)
{
    if (body.p != NULL)
        send(x, 200, reply_encoding(x), body);
    else
        rpc_error(x, CODE_INTERNAL, STR("the answer needs more memory than a request may have"));
}

struct http_ready *rpc_ok_new(enum wire_encoding encoding)
{
    static const char protobuf[] = "\x08\xc8\x01"; /* field 1 is 200 */
    struct http_pair headers[SEND_HEADERS];
    send_headers(encoding, headers);
    struct http_ready *ok = http_ready_new(NULL, 200, headers, SEND_HEADERS,
                                           encoding == WIRE_JSON ? STR("{\"code\":200}")
                                                                 : (str){ .p = protobuf, .n = 3 });
    INVARIANT(ok != NULL); /* at the start */
    return ok;
}

void rpc_ok(struct http_exchange *x, const struct app *app)
{
    if (http_has_request_id(x))
        http_reply_header(x, STR("x-request-id"), http_request_id(x));
    http_answer_ready(x, app->ok[reply_encoding(x)]);
}

/* As errors.c has it, but for 454, which says "again" by itself. */
static bool is_starved(struct http_exchange *x, int code)
{
    return arena_is_starved(http_arena(x)) && code >= 400 && code <= 500 && code != CODE_RETRY &&
           code != CODE_SHUTDOWN;
}

void rpc_error(struct http_exchange *x, int code, str message)
{
    char text[MESSAGE_BYTES_MAX];
    str body;
    if (is_starved(x, code)) {
        code = CODE_STARVED;
        message = STR(BUDGET_FULL_TEXT);
        http_reply_header(x, STR("retry-after"), STR("1"));
    }
    enum wire_encoding encoding = reply_encoding(x);
    Wire__Reply reply = WIRE__REPLY__INIT;
    reply.code = code;
    reply.code_text = wire_bytes(str_of(code_text(code)));
    size_t n = utf8_clean(str_take(message, sizeof text), text, sizeof text);
    reply.message = wire_bytes((str){ .p = text, .n = n }); /* any client can read that */
    if (wire_encode(http_arena(x), &reply.base, encoding, &body) != ERR_OK) {
        encoding = WIRE_JSON; /* the arena is full: the least that is still true */
        code = CODE_INTERNAL;
        body = STR("{\"code\":500}");
    }
    send(x, code, encoding, body);
}

void rpc_errorf(struct http_exchange *x, int code, const char *format, ...)
{
    char text[MESSAGE_BYTES_MAX];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    INVARIANT(n >= 0);
    size_t size = (size_t)n < sizeof text ? (size_t)n : sizeof text - 1;
    rpc_error(x, code, (str){ .p = text, .n = size });
}

/* For good only what one request can never have: then large says so. */
static void refuse_memory(struct http_exchange *x, const char *large)
{
    if (arena_is_full(http_arena(x))) {
        rpc_error(x, CODE_TOO_LARGE, str_of(large));
        return;
    }
    http_reply_header(x, STR("retry-after"), STR("1"));
    rpc_error(x, CODE_STARVED, STR(BUDGET_FULL_TEXT));
}

void rpc_fail(struct http_exchange *x, err why, const struct err_note *note)
{
    static const short codes[ERR_CODES] = {
        [ERR_BAD] = 400,      [ERR_NOT_FOUND] = 400, [ERR_CONFLICT] = 400, [ERR_PRECONDITION] = 422,
        [ERR_DENIED] = 403,   [ERR_GONE] = 454,      [ERR_TIMEOUT] = 454,  [ERR_LIMIT] = 454,
        [ERR_AGAIN] = 454,    [ERR_FULL] = 454,      [ERR_IO] = 454,       [ERR_UNAVAILABLE] = 454,
        [ERR_SHUTDOWN] = 453,
    };
    INVARIANT(why < ERR_CODES);
    bool told = note != NULL && note->text[0] != '\0';
    if (codes[why] == 0) { /* what broke is for the log, not for the client */
        struct arena *a = http_arena(x);
        http_state_set(x, arena_cstr(a, arena_printf(a, "%s: %s", err_name(why),
                                                     told ? note->text : "")));
        rpc_error(x, CODE_INTERNAL, STR("Internal Error"));
    } else if (why == ERR_LIMIT && !told) {
        refuse_memory(x, "the request needs more memory than a request may have");
    } else if (why == ERR_SHUTDOWN) {
        rpc_error(x, 453, told ? str_of(note->text) : STR("queue is shutting down"));
    } else {
        rpc_error(x, codes[why],
                  told ? str_of(note->text) : STR("internal error, try your request again"));
    }
}

/* ---- requests ---- */

const void *rpc_read(struct http_exchange *x, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m;
    const struct http_common *c = http_common(x);
    struct err_note note = { "" };
    enum wire_encoding encoding, reply;
    if (!encoding_of(c->accept, &reply)) {
        rpc_errorf(x, CODE_CONTENT,
                   "Accept header '%.*s' is invalid format or unrecognized content type, only "
                   "[application/json,application/protobuf] are supported by this method",
                   STR_ARG(first_type(c->accept)));
        return NULL;
    }
    if (!encoding_of(c->content_type, &encoding)) {
        rpc_errorf(x, CODE_CONTENT,
                   "Content-Type header '%.*s' is invalid format or unrecognized content type",
                   STR_ARG(c->content_type));
        return NULL;
    }
    err why = wire_decode(http_arena(x), type, encoding, http_body(x), &m, &note);
    if (why == ERR_OK)
        return m;
    if (why == ERR_LIMIT)
        refuse_memory(x, note.text);
    else
        rpc_error(x, CODE_CONTENT, str_of(note.text));
    return NULL;
}

/* A limit as people read it: in thousands, in 1024s when it is a whole number of those. */
static void limit_text(size_t n, char out[24])
{
    static const char letters[] = "kMGTPE", letters_1024[] = "KMGTPE";
    size_t unit = n % 1024 == 0 ? 1024 : 1000, power = 0;
    double value = (double)n;
    if (n < unit) {
        (void)snprintf(out, 24, "%zuB", n);
        return;
    }
    for (value /= (double)unit; value >= (double)unit; value /= (double)unit)
        power++;
    (void)snprintf(out, 24, "%.1f%c%s", value, unit == 1024 ? letters_1024[power] : letters[power],
                   unit == 1024 ? "iB" : "B");
}

void rpc_too_large(struct http_exchange *x)
{
    char limit[24];
    limit_text(http_route(x)->body_bytes_max, limit);
    rpc_errorf(x, 400, "request body exceeds %s limit", limit);
}
