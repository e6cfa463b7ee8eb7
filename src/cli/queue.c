/* queue.c - what the queue verbs share: a call and its reply, cells of tables, and lines of
 * standard input. Invariant: a page of a list that does not lead on ends the list, so that no
 * verb runs for ever. */
#include "cli/queue.h"

#include "base/units.h"
#include "cli/out.h"
#include "codec/base64.h"
#include "codec/goduration.h"
#include "codec/json.h"
#include "http/http.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <unistr.h>

enum { READ_BYTES = 64 << 10, PATH_BYTES = 64, AGE_ARENA_BYTES = 4096, NEXT_ARENA_BYTES = 8192 };
enum { SLACK_MS = 15000 };                          /* of a slow server and network */
#define REQUEST_TIMEOUT_MAX_NS (15 * 60 * NS_PER_S) /* the server's */
enum {
    STATUS_TRY_AGAIN = 453,
    STATUS_IN_VAIN = 454
}; /* Querator's own: it was not done, later it may be */

/* ---- calls ---- */

static json_t *read_reply(const struct client *c, const struct client_answer *a,
                          struct queue_reply *reply)
{
    str body = buf_str(&a->body);
    json_t *doc = json_body_read(body);
    const char *message = json_string_value(json_object_get(doc, "message"));
    reply->status = a->status;
    if (a->status == 200 && json_is_object(doc))
        return doc;
    reply->exit = client_explain(c, a, &reply->note);
    if (message != NULL)
        err_note_set(&reply->note, "%s", message);
    if (a->status == 400 &&
        str_find_str(str_of(reply->note.text), STR("does not exist")) < strlen(reply->note.text))
        reply->exit = CLI_NOT_FOUND;
    if (a->status == STATUS_TRY_AGAIN || a->status == STATUS_IN_VAIN)
        reply->exit = CLI_FAILED;
    json_decref(doc);
    return NULL;
}

/* What the server may take for a call with a request_timeout, beyond which it hangs; 0: it has
 * none. */
static int64_t patience_ms(const json_t *body)
{
    struct arena a;
    str why;
    int64_t ns = 0;
    const char *timeout = json_string_value(json_object_get(body, "request_timeout"));
    if (timeout == NULL)
        return 0;
    arena_init(&a, AGE_ARENA_BYTES);
    bool read = goduration_parse(str_of(timeout), &ns, &a, &why) == ERR_OK && ns > 0 &&
                ns <= REQUEST_TIMEOUT_MAX_NS;
    arena_fini(&a);
    return (read ? ns : REQUEST_TIMEOUT_MAX_NS) / NS_PER_MS +
           SLACK_MS; /* the server refuses another one */
}

/* Does it take as long as there are items? No byte comes before its end. */
static bool lasts(const char *name)
{
    static const char *const names[] = {
        "partitions.move", "partitions.rebalance", "queue.clear", "queue.reload", "queue.requeue",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (strcmp(name, names[i]) == 0)
            return true;
    return false;
}

json_t *queue_post(struct client *c, const char *name, json_t *body, const char *const headers[2],
                   struct queue_reply *reply)
{
    char path[PATH_BYTES];
    INVARIANT(snprintf(path, sizeof path, "/v1/%s", name) < PATH_BYTES);
    char *text = json_dumps(body, JSON_COMPACT);
    INVARIANT(text != NULL);
    int64_t timeout_ms = patience_ms(body);
    json_decref(body);
    *reply = (struct queue_reply){ .status = 0 };
    struct client_answer a;
    struct client_request r = { .method = "POST",
                                .path = str_of(path),
                                .has_body = true,
                                .body = str_of(text),
                                .patient = timeout_ms > 0 || lasts(name),
                                .timeout_ms = timeout_ms };
    if (headers != NULL) {
        r.header = headers[0];
        r.header_more = headers[1];
    }
    err e = client_send(c, &r, &a, &reply->note);
    reply->exit = cli_exit_of(e);
    json_t *doc = e == ERR_OK ? read_reply(c, &a, reply) : NULL;
    memcpy(reply->next, a.next_pivot, sizeof reply->next);
    client_answer_fini(&a);
    free(text);
    return doc;
}

/* False: it is none, or does not lead on, so that pages would never end. */
static bool read_next(const struct queue_reply *reply, char pivot[QUEUE_NAME_BYTES_MAX + 1])
{
    char before[QUEUE_NAME_BYTES_MAX + 1];
    struct arena a;
    str next;
    memcpy(before, pivot, sizeof before);
    arena_init(&a, 2 * CLIENT_FIELD_BYTES_MAX + NEXT_ARENA_BYTES);
    bool fine = http_decode(&a, str_of(reply->next), false, &next) == ERR_OK &&
                str_to_cstr(next, pivot, QUEUE_NAME_BYTES_MAX + 1) &&
                (next.n == 0 || strcmp(pivot, before) > 0);
    arena_fini(&a);
    return fine;
}

json_t *queue_list_page(struct client *c, char pivot[QUEUE_NAME_BYTES_MAX + 1], int64_t limit,
                        struct queue_reply *reply)
{
    json_t *body = json_object();
    INVARIANT(json_object_set_new(body, "limit", json_integer(limit)) == 0);
    queue_set(body, "pivot", pivot[0] != '\0' ? pivot : NULL);
    queue_set(body, "namespace", cli_value(c->call, "namespace"));
    json_t *page = queue_post(c, "queues.list", body, NULL, reply);
    if (page == NULL || read_next(reply, pivot))
        return page;
    json_decref(page);
    reply->exit = CLI_NO_SERVER;
    err_note_set(&reply->note, "%s: Next-Pivot is not as a Palimpsest sends it", c->server);
    return NULL;
}

enum cli_exit queue_fail(const struct cli_call *call, const char *before,
                         const struct queue_reply *reply)
{
    struct err_note note;
    err_note_set(&note, "%s%s", before, reply->note.text);
    return cli_fail_status(call, reply->exit, reply->status, note.text);
}

json_t *queue_ask_with(struct client *c, const char *name, json_t *body,
                       const char *const headers[2])
{
    struct queue_reply reply;
    json_t *doc = queue_post(c, name, body, headers, &reply);
    if (doc != NULL)
        return doc;
    c->failed = queue_fail(c->call, "", &reply);
    return NULL;
}

json_t *queue_ask(struct client *c, const char *name, json_t *body)
{
    return queue_ask_with(c, name, body, NULL);
}

bool queue_order(struct client *c, const char *name, json_t *body)
{
    json_t *doc = queue_ask(c, name, body);
    json_decref(doc);
    return doc != NULL;
}

json_t *queue_named(const char *name)
{
    json_t *body = json_object();
    queue_set(body, "queue_name", name);
    return body;
}

void queue_set(json_t *body, const char *member, const char *value)
{
    if (value == NULL)
        return;
    INVARIANT(json_object_set_new(body, member, json_string(value)) ==
              0); /* args_parse lets through UTF-8 alone */
}

/* ---- options and operands ---- */

static bool number_of(const char *text, int64_t min, int64_t max, int64_t *value)
{
    return str_to_i64(str_of(text), value) && *value >= min && *value <= max;
}

bool queue_number(const struct cli_call *call, const char *option, int64_t min, int64_t max,
                  int64_t *value)
{
    const char *text = cli_value(call, option);
    int64_t n;
    if (text == NULL)
        return true;
    if (!number_of(text, min, max, &n)) {
        (void)cli_fail(call, CLI_USAGE, "%s: --%s wants a number from %lld to %lld, not \"%s\"",
                       call->verb->name, option, (long long)min, (long long)max, text);
        return false;
    }
    *value = n;
    return true;
}

bool queue_partition(const struct cli_call *call, unsigned operand, int64_t *value)
{
    if (number_of(call->operands[operand], 0, QUEUE_PARTITIONS_MAX - 1, value))
        return true;
    (void)cli_fail(call, CLI_USAGE, "%s: a partition is a number from 0 to %d, not \"%s\"",
                   call->verb->name, QUEUE_PARTITIONS_MAX - 1, call->operands[operand]);
    return false;
}

/* ---- documents ---- */

const char *queue_text(const json_t *doc, const char *member)
{
    const char *text = json_string_value(json_object_get(doc, member));
    return text != NULL ? text : "";
}

int64_t queue_count(const json_t *doc, const char *member)
{
    const json_t *v = json_object_get(doc, member);
    int64_t n = 0;
    if (json_is_string(v) && !str_to_i64(str_of(json_string_value(v)), &n))
        n = 0;
    return json_is_integer(v) ? (int64_t)json_integer_value(v) : n;
}

int64_t queue_age_ns(const json_t *doc, const char *member)
{
    struct arena a;
    str why;
    int64_t ns = 0;
    arena_init(&a, AGE_ARENA_BYTES);
    if (goduration_parse(str_of(queue_text(doc, member)), &ns, &a, &why) != ERR_OK)
        ns = 0;
    arena_fini(&a);
    return ns;
}

void queue_number_cell(int64_t n, char out[QUEUE_CELL_BYTES])
{
    (void)snprintf(out, QUEUE_CELL_BYTES, "%lld", (long long)n); /* fits */
}

void queue_age_cell(int64_t ns, char out[QUEUE_CELL_BYTES])
{
    _Static_assert((int)QUEUE_CELL_BYTES > (int)GODURATION_BYTES_MAX,
                   "an age is longer than a cell");
    int64_t unit = ns < 10 * NS_PER_S ? NS_PER_MS : NS_PER_S;
    if (ns < NS_PER_MS)
        (void)snprintf(out, QUEUE_CELL_BYTES, "-"); /* fits */
    else
        goduration_format(ns - ns % unit, out);
}

bool queue_bytes(const struct cli_call *call, const json_t *item, const char *member,
                 struct arena *a, str *out)
{
    if (base64_decode(a, str_of(queue_text(item, member)), BASE64_STRICT, out) == ERR_OK)
        return true;
    (void)cli_fail(call, CLI_FAILED, "the server's answer holds an item that is no base64");
    return false;
}

json_t *queue_item_json(const json_t *item, const char *member, str bytes)
{
    json_t *doc = json_copy((json_t *)(uintptr_t)item), *body = NULL;
    INVARIANT(doc != NULL);
    if (u8_check((const uint8_t *)bytes.p, bytes.n) == NULL)
        body = json_stringn(bytes.n > 0 ? bytes.p : "", bytes.n);
    if (body != NULL)
        (void)json_object_set_new(doc, "body", body); /* dies with its document */
    else
        (void)json_object_set_new(doc, "base64", json_string(queue_text(item, member)));
    (void)json_object_del(doc, member); /* it may be absent */
    return doc;
}

/* ---- lines ---- */

void queue_lines_init(struct queue_lines *l, const struct cli_call *call, int fd, const char *file)
{
    bool named = file != NULL && strcmp(file, "-") != 0;
    *l = (struct queue_lines){ .call = call,
                               .fd = fd,
                               .file = named ? file : "standard input",
                               .end = cli_flag(call, "null") ? '\0' : '\n' };
    buf_init(&l->buf, QUEUE_ITEM_BYTES_MAX + READ_BYTES);
}

void queue_lines_fini(struct queue_lines *l)
{
    buf_fini(&l->buf);
}

static bool can_read_now(int fd)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, 0) != 0; /* also when it failed: the read tells */
}

/* Makes room by dropping what was handed out, then reads once. */
static bool read_more(struct queue_lines *l)
{
    if (l->at > 0) {
        memmove(l->buf.p, l->buf.p + l->at, l->buf.n - l->at);
        l->buf.n -= l->at;
        l->at = 0;
    }
    size_t before = l->buf.n;
    char *room = buf_extend(&l->buf, READ_BYTES);
    if (room == NULL) {
        (void)cli_fail(l->call, CLI_FAILED, "a line of more than %d bytes in %s",
                       QUEUE_ITEM_BYTES_MAX, l->file);
        return false;
    }
    ssize_t got;
    do
        got = read(l->fd, room, READ_BYTES);
    while (got < 0 && errno == EINTR);
    l->buf.n = before + (got > 0 ? (size_t)got : 0);
    l->done = got == 0;
    if (got < 0)
        (void)cli_fail(l->call, CLI_FAILED, "cannot read %s: %s", l->file, strerror(errno));
    return got >= 0;
}

enum queue_line queue_lines_next(struct queue_lines *l, bool eager, str *line)
{
    for (;;) {
        str rest = str_skip(buf_str(&l->buf), l->at);
        size_t n = str_find(rest, l->end);
        if (n < rest.n || (l->done && rest.n > 0)) {
            *line = str_take(rest, n);
            l->at += n < rest.n ? n + 1 : n;
            return LINE_ONE;
        }
        if (l->done)
            return LINE_NONE;
        if (eager && !can_read_now(l->fd))
            return LINE_NOT_YET;
        if (!read_more(l))
            return LINE_FAILED;
    }
}

bool queue_stdin_once(const struct cli_call *call)
{
    unsigned times = 0;
    for (unsigned i = 1; i < call->operands_count; i++)
        times += strcmp(call->operands[i], "-") == 0;
    if (times > 1)
        (void)cli_fail(call, CLI_USAGE, "%s: - is standard input, which can be read once",
                       call->verb->name);
    return times <= 1;
}

int queue_open(const struct cli_call *call, const char *file)
{
    if (file == NULL || strcmp(file, "-") == 0)
        return STDIN_FILENO;
    int fd = open(file, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        (void)cli_fail(call, CLI_FAILED, "cannot open %s: %s", file, strerror(errno));
    return fd;
}
