/* queue_produce.c - palimpsest queue produce: items from lines, pieces or whole files.
 *
 * What stands in a pipe is sent when the batch is full or nothing more has come yet. A request
 * carries an idempotency key of its own, so that it may be sent again when its outcome is unknown:
 * nothing is stored twice. */
#include "base/arena.h"
#include "base/date.h"
#include "base/units.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"
#include "codec/base64.h"
#include "loop/entropy.h"
#include "loop/sysclock.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    BATCH_DEFAULT = 100,
    PATIENCE_DEFAULT_S = 60,
    PATIENCE_MAX_S = 240, /* within the window in which the server knows a key */
    PAUSE_MS = 50,
    PAUSE_MAX_MS = 1000,
    HEADER_BYTES = 400,
    REQUEST_BYTES_MAX = 5000000, /* the server's limit */
    AROUND_BYTES = 4096,         /* of a request, beside its items */
};

struct producing {
    struct client c;
    const struct cli_call *call;
    struct sysclock *sysclock;
    struct clock *clock;
    int64_t batch_max, patience_ns;
    char enqueue_at[DATE_RFC3339_BYTES + 1];
    json_t *fields; /* of each item, all but its bytes */
    size_t fields_bytes;
    json_t *items;
    size_t bytes; /* of items, as they are sent */
    uint64_t run, batches, produced;
    enum cli_exit failed; /* CLI_FAILED, unless the server said why */
    char order_header[HEADER_BYTES];
};

static bool read_options(struct producing *p)
{
    const char *timeout = cli_value(p->call, "timeout"), *at = cli_value(p->call, "at"),
               *order = cli_value(p->call, "order-key");
    p->batch_max = BATCH_DEFAULT;
    p->patience_ns = PATIENCE_DEFAULT_S * NS_PER_S;
    if (!queue_number(p->call, "batch", 1, QUEUE_BATCH_MAX, &p->batch_max))
        return false;
    if (timeout != NULL &&
        (!units_parse_duration(str_of(timeout), &p->patience_ns) ||
         p->patience_ns > PATIENCE_MAX_S * NS_PER_S || p->patience_ns < NS_PER_S)) {
        (void)cli_fail(p->call, CLI_USAGE,
                       "queue produce: --timeout wants a duration from 1s to %ds, not \"%s\"",
                       PATIENCE_MAX_S, timeout);
        return false;
    }
    int64_t ns;
    if (at != NULL && !date_parse_any(str_of(at), &ns)) {
        (void)cli_fail(p->call, CLI_USAGE, "queue produce: --at wants " DATE_WANTED ", not \"%s\"",
                       at);
        return false;
    }
    if (at != NULL)
        date_format_ns(ns, p->enqueue_at);
    if (order != NULL &&
        str_trim(str_of(order)).n == 0) { /* a header without a value says nothing */
        (void)cli_fail(p->call, CLI_USAGE, "queue produce: --order-key is empty");
        return false;
    }
    bool fits = order == NULL ||
                (strpbrk(order, "\r\n") == NULL &&
                 snprintf(p->order_header, HEADER_BYTES, "Order-Key: %s", order) < HEADER_BYTES);
    if (!fits)
        (void)cli_fail(p->call, CLI_USAGE,
                       "queue produce: --order-key is too long or holds a line break");
    return fits;
}

/* ---- one request ---- */

static json_t *request_of(const struct producing *p, int64_t left_ns)
{
    char timeout[UNITS_TEXT_BYTES];
    int64_t ms = left_ns / NS_PER_MS;
    (void)snprintf(timeout, sizeof timeout, "%lldms", (long long)(ms < 100 ? 100 : ms)); /* fits */
    json_t *body = queue_named(p->call->operands[0]);
    queue_set(body, "request_timeout", timeout);
    INVARIANT(json_object_set(body, "items", p->items) == 0);
    return body;
}

/* Statuses after which the same request may do better. */
static bool may_pass(long status)
{
    return status == 0 || status == 429 || status == 453 || status == 454 ||
           (status >= 500 && status != 501);
}

static bool send_batch(struct producing *p)
{
    char key[HEADER_BYTES];
    const char *headers[2] = { key, p->order_header[0] != '\0' ? p->order_header : NULL };
    int64_t end_ns = clock_mono(p->clock).ns + p->patience_ns;
    (void)snprintf(key, sizeof key, "Idempotency-Key: %016llx-%llu", (unsigned long long)p->run,
                   (unsigned long long)p->batches++); /* fits */
    for (int pause_ms = PAUSE_MS;;
         pause_ms = pause_ms * 2 < PAUSE_MAX_MS ? pause_ms * 2 : PAUSE_MAX_MS) {
        struct queue_reply reply;
        json_t *doc = queue_post(&p->c, "queue.produce",
                                 request_of(p, end_ns - clock_mono(p->clock).ns), headers, &reply);
        json_decref(doc);
        if (doc != NULL)
            return true;
        if (!may_pass(reply.status) || clock_mono(p->clock).ns + pause_ms * NS_PER_MS > end_ns) {
            p->failed = queue_fail(p->call, "queue produce: ", &reply);
            return false;
        }
        (void)poll(NULL, 0, pause_ms); /* cut short by a signal: no harm */
    }
}

static bool flush_batch(struct producing *p)
{
    size_t count = json_array_size(p->items);
    if (count == 0)
        return true;
    bool fine = send_batch(p);
    p->produced += fine ? count : 0;
    p->bytes = 0;
    (void)json_array_clear(p->items); /* it is an array */
    return fine;
}

/* ---- items ---- */

static void make_fields(struct producing *p)
{
    p->fields = json_object();
    queue_set(p->fields, "encoding", cli_value(p->call, "encoding"));
    queue_set(p->fields, "kind", cli_value(p->call, "kind"));
    queue_set(p->fields, "reference", cli_value(p->call, "reference"));
    queue_set(p->fields, "enqueue_at", p->enqueue_at[0] != '\0' ? p->enqueue_at : NULL);
    char *text = json_dumps(p->fields, JSON_COMPACT);
    INVARIANT(text != NULL);
    p->fields_bytes = strlen(text) + sizeof ",\"bytes\":\"\",";
    free(text);
}

static json_t *item_of(const struct producing *p, str bytes)
{
    struct arena a;
    str text;
    arena_init(&a, bytes.n * 2 + (1 << 16));
    INVARIANT(base64_encode(&a, bytes, &text) == ERR_OK);
    json_t *item = json_copy(p->fields);
    INVARIANT(json_object_set_new(item, "bytes", json_stringn(text.n > 0 ? text.p : "", text.n)) ==
              0);
    arena_fini(&a);
    return item;
}

static size_t base64_bytes(size_t n)
{
    return (n + 2) / 3 * 4;
}

/* What came before an item that is too long is sent. */
static bool add_item(struct producing *p, str bytes)
{
    size_t sent = base64_bytes(bytes.n) + p->fields_bytes, most = REQUEST_BYTES_MAX - AROUND_BYTES;
    if (p->bytes + sent > most && !flush_batch(p))
        return false;
    if (sent > most) {
        (void)cli_fail(p->call, CLI_FAILED,
                       "queue produce: an item of %zu bytes is too long: in base64 it makes a "
                       "request of more than %d bytes, which is the server's limit",
                       bytes.n, REQUEST_BYTES_MAX);
        return false;
    }
    INVARIANT(json_array_append_new(p->items, item_of(p, bytes)) == 0);
    p->bytes += sent;
    return (int64_t)json_array_size(p->items) < p->batch_max || flush_batch(p);
}

static bool add_lines(struct producing *p, const char *file)
{
    int fd = queue_open(p->call, file);
    if (fd < 0)
        return false;
    struct queue_lines lines;
    queue_lines_init(&lines, p->call, fd, file);
    bool fine = true;
    enum queue_line got = LINE_ONE;
    while (fine && got != LINE_NONE) {
        str line;
        got = queue_lines_next(&lines, json_array_size(p->items) > 0, &line);
        if (got == LINE_ONE)
            fine = add_item(p, line);
        else if (got == LINE_NOT_YET)
            fine = flush_batch(p);
        else if (got == LINE_FAILED)
            fine = false;
    }
    queue_lines_fini(&lines);
    if (fd != STDIN_FILENO)
        (void)close(fd); /* it was read alone */
    return fine;
}

/* Each FILE is an item, whatever it holds. */
static bool add_file(struct producing *p, const char *file)
{
    FILE *from = strcmp(file, "-") == 0 ? stdin : fopen(file, "rb");
    errno = from != NULL ? 0 : errno;
    struct buf all;
    buf_init(&all, QUEUE_ITEM_BYTES_MAX);
    bool fine = from != NULL;
    char piece[16 << 10];
    size_t n;
    while (fine && buf_status(&all) == ERR_OK && (n = fread(piece, 1, sizeof piece, from)) > 0)
        buf_put(&all, (str){ .p = piece, .n = n });
    fine = fine && !ferror(from);
    if (!fine)
        (void)cli_fail(p->call, CLI_FAILED, "queue produce: cannot read %s: %s", file,
                       strerror(errno));
    else if (buf_status(&all) != ERR_OK)
        (void)cli_fail(p->call, CLI_FAILED, "queue produce: %s has more than %d bytes", file,
                       QUEUE_ITEM_BYTES_MAX);
    fine = fine && buf_status(&all) == ERR_OK;
    if (from != NULL && from != stdin)
        (void)fclose(from); /* it was read alone */
    fine = fine && add_item(p, buf_str(&all));
    buf_fini(&all);
    return fine;
}

static bool add_all(struct producing *p)
{
    bool whole = cli_flag(p->call, "file"), fine = true;
    if (p->call->operands_count == 1)
        return whole ? add_file(p, "-") : add_lines(p, NULL);
    for (unsigned i = 1; i < p->call->operands_count && fine; i++)
        fine = whole ? add_file(p, p->call->operands[i]) : add_lines(p, p->call->operands[i]);
    return fine;
}

static void print_result(const struct producing *p)
{
    if (p->c.json) {
        json_t *doc = json_pack("{s:s, s:I, s:I}", "queue_name", p->call->operands[0], "items",
                                (json_int_t)p->produced, "requests", (json_int_t)p->batches);
        out_json(stdout, doc);
        json_decref(doc);
    } else if (!cli_flag(p->call, "quiet")) {
        fprintf(stderr, "%llu items\n", (unsigned long long)p->produced);
    }
}

enum cli_exit verb_queue_produce(struct cli_call *call)
{
    struct producing p = { .call = call, .run = entropy_u64(), .failed = CLI_FAILED };
    if (!queue_stdin_once(call) || !read_options(&p))
        return CLI_USAGE;
    enum cli_exit code = client_open(&p.c, call);
    if (code != CLI_OK)
        return code;
    p.sysclock = sysclock_new();
    p.clock = sysclock_clock(p.sysclock);
    p.items = json_array();
    make_fields(&p);
    bool fine = add_all(&p) && flush_batch(&p);
    print_result(&p); /* also of what was stored before it failed */
    json_decref(p.items);
    json_decref(p.fields);
    sysclock_free(&p.sysclock);
    client_close(&p.c);
    return fine ? CLI_OK : p.failed;
}
