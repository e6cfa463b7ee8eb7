/* queue_items.c - palimpsest queue lease, complete, retry and peek: items on their way out. */
#include "base/arena.h"
#include "base/date.h"
#include "base/ksuid.h"
#include "base/units.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"
#include "loop/entropy.h"
#include "loop/sysclock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    HANDLE_BYTES = 48,
    CLIENT_BYTES = 80,
    ESCAPE_BYTES = 4 /* \xHH */,
    ITEMS_ARENA_BYTES = 512 << 20, /* an item, and the same escaped */
};

/* ---- what is printed ---- */

static void print_bytes(str bytes)
{
    if (out_is_terminal(stdout))
        out_text(stdout, bytes);
    else
        (void)fwrite(bytes.p, 1, bytes.n, stdout); /* cli_run looks at the stream */
}

/* As a part of one line, without a tab, from which the bytes can be made again. */
static bool escape(const struct cli_call *call, str bytes, struct arena *a, str *out)
{
    static const char hex[] = "0123456789abcdef";
    char *p = arena_alloc(a, bytes.n * ESCAPE_BYTES + 1);
    size_t n = 0;
    if (p == NULL) {
        (void)cli_fail(call, CLI_FAILED, "an item of %zu bytes is too long to be printed", bytes.n);
        return false;
    }
    for (size_t i = 0; i < bytes.n; i++) {
        unsigned char c = (unsigned char)bytes.p[i];
        bool named = c == '\n' || c == '\t' || c == '\\',
             plain = c >= 0x20 && c != 0x7f && c != '\\';
        if (plain) {
            p[n++] = (char)c;
            continue;
        }
        p[n++] = '\\';
        p[n++] = named ? (c == '\n' ? 'n' : c == '\t' ? 't' : '\\') : 'x';
        if (!named) {
            p[n++] = hex[c >> 4];
            p[n++] = hex[c & 15];
        }
    }
    *out = (str){ .p = p, .n = n };
    return true;
}

/* Behind a handle no item may look like the end of its record, and what follows like the next
 * handle. */
static bool behind_handle(const struct cli_call *call, const char *handle, str bytes,
                          struct arena *a, str *out)
{
    if (!cli_flag(call, "null"))
        return escape(call, bytes, a, out);
    *out = bytes;
    if (str_find(bytes, '\0') == bytes.n)
        return true;
    (void)cli_fail(
        call, CLI_FAILED,
        "%s: %s is an item that holds NUL: it can be had without --null, with --json, or "
        "alone with --body",
        call->verb->name, handle);
    return false;
}

/* "PARTITION/ID<tab>BYTES" and a line end, or the bytes alone, as they are. */
static bool print_item(const struct cli_call *call, const json_t *item, const char *member,
                       const char *handle)
{
    struct arena a;
    str bytes;
    arena_init(&a, ITEMS_ARENA_BYTES);
    bool fine = queue_bytes(call, item, member, &a, &bytes), as_json = cli_flag(call, "json");
    bool headed = !as_json && !cli_flag(call, "body");
    if (fine && headed)
        fine = behind_handle(call, handle, bytes, &a, &bytes);
    if (fine && as_json) {
        json_t *doc = queue_item_json(item, member, bytes);
        queue_set(doc, "handle", handle);
        out_json(stdout, doc);
        json_decref(doc);
    } else if (fine) {
        if (headed)
            printf("%s\t", handle);
        print_bytes(bytes);
        putchar(cli_flag(call, "null") ? '\0' : '\n');
    }
    arena_fini(&a);
    return fine;
}

/* ---- lease ---- */

struct leasing {
    struct client c;
    const struct cli_call *call;
    int64_t count, left; /* asked for, still wanted */
    char client_id[CLIENT_BYTES];
    const char *timeout;
};

static bool complete_ids(struct leasing *l, int64_t partition, json_t *ids)
{
    json_t *body = queue_named(l->call->operands[0]);
    INVARIANT(json_object_set_new(body, "partition", json_integer(partition)) == 0);
    INVARIANT(json_object_set(body, "ids", ids) == 0);
    queue_set(body, "request_timeout", "1m");
    return queue_order(&l->c, "queue.complete", body);
}

static bool print_leased(const struct leasing *l, int64_t partition, json_t *item)
{
    char handle[HANDLE_BYTES];
    int n =
        snprintf(handle, sizeof handle, "%lld/%s", (long long)partition, queue_text(item, "id"));
    if (n < 0 || n >= HANDLE_BYTES) {
        (void)cli_fail(l->call, CLI_FAILED,
                       "queue lease: the server's answer holds an item whose id is too long");
        return false;
    }
    (void)json_object_set_new(item, "partition",
                              json_integer(partition)); /* dies with its document */
    return print_item(l->call, item, "bytes", handle);
}

/* Prints first: an item that nobody got is not completed. */
static bool take_reply(struct leasing *l, const json_t *reply)
{
    json_t *items = json_object_get(reply, "items"), *printed = json_array(), *item;
    int64_t partition = queue_count(reply, "partition");
    size_t i;
    json_array_foreach(items, i, item) if (print_leased(l, partition, item))(void)
        json_array_append(printed,
                          json_object_get(item, "id")); /* without an id: as one not printed */
    bool fine = json_array_size(printed) == json_array_size(items);
    l->left -= (int64_t)json_array_size(items);
    if (cli_flag(l->call, "complete") && fflush(stdout) != 0) {
        (void)cli_fail(l->call, CLI_FAILED,
                       "queue lease: cannot write to standard output; what was leased is not "
                       "completed");
        fine = false;
    } else if (cli_flag(l->call, "complete") && json_array_size(printed) > 0) {
        fine = complete_ids(l, partition, printed) && fine;
    }
    json_decref(printed);
    return fine;
}

/* CLI_OK, or it was said why; *empty: the time passed and no item came. */
static enum cli_exit lease_once(struct leasing *l, bool *empty)
{
    json_t *body = queue_named(l->call->operands[0]);
    int64_t batch = l->left < QUEUE_BATCH_MAX ? l->left : QUEUE_BATCH_MAX;
    INVARIANT(json_object_set_new(body, "batch_size", json_integer(batch)) == 0);
    queue_set(body, "client_id", l->client_id);
    queue_set(body, "request_timeout", l->timeout);
    queue_set(body, "lease_timeout", cli_value(l->call, "lease-timeout"));
    struct queue_reply reply;
    bool own =
        cli_value(l->call, "lease-timeout") != NULL; /* a word that Querator's call does not know */
    json_t *doc = queue_post(&l->c, own ? "lease.take" : "queue.lease", body, NULL, &reply);
    *empty = doc == NULL && reply.status == 454 &&
             str_starts(str_of(reply.note.text), STR("request timeout; no items"));
    if (doc == NULL)
        return *empty ? CLI_OK : queue_fail(l->call, "queue lease: ", &reply);
    if (json_array_size(json_object_get(doc, "items")) ==
        0) { /* it would be asked for without an end */
        json_decref(doc);
        return cli_fail(l->call, CLI_NO_SERVER,
                        "queue lease: the answer of %s holds no items: is this the URL of a "
                        "Palimpsest? --server or $PALIMPSEST_SERVER names it",
                        l->c.server);
    }
    bool fine = take_reply(l, doc);
    json_decref(doc);
    return fine ? CLI_OK : l->c.failed != CLI_OK ? l->c.failed : CLI_FAILED;
}

static bool read_lease(struct leasing *l)
{
    const char *client_id = cli_value(l->call, "client"), *timeout = cli_value(l->call, "timeout");
    bool all = cli_flag(l->call, "all");
    l->count = all ? INT64_MAX : 1;
    if (!queue_number(l->call, "count", 1, INT32_MAX, &l->count))
        return false;
    if (all && cli_value(l->call, "count") != NULL) {
        (void)cli_fail(l->call, CLI_USAGE, "queue lease: --all and --count exclude each other");
        return false;
    }
    l->left = l->count;
    l->timeout = timeout != NULL ? timeout : "10s";
    int n = client_id != NULL ? snprintf(l->client_id, CLIENT_BYTES, "%s", client_id)
                              : snprintf(l->client_id, CLIENT_BYTES, "palimpsest-%016llx",
                                         (unsigned long long)entropy_u64());
    if (n < CLIENT_BYTES)
        return true;
    (void)cli_fail(l->call, CLI_USAGE, "queue lease: --client is longer than %d bytes",
                   CLIENT_BYTES - 1);
    return false;
}

enum cli_exit verb_queue_lease(struct cli_call *call)
{
    struct leasing l = { .call = call };
    if (!read_lease(&l))
        return CLI_USAGE;
    enum cli_exit code = client_open(&l.c, call);
    if (code != CLI_OK)
        return code;
    bool empty = false;
    while (code == CLI_OK && l.left > 0 && !empty)
        code = lease_once(&l, &empty);
    if (empty && l.left == l.count && !cli_flag(call, "all"))
        code = cli_fail(call, CLI_NOT_FOUND, "queue lease: no items are in the queue");
    client_close(&l.c);
    return code;
}

/* ---- complete, retry ---- */

struct changing {
    struct client c;
    const struct cli_call *call;
    const char *name;     /* of the call */
    json_t *by_partition; /* partition as text -> ids */
    char retry_at[DATE_RFC3339_BYTES + 1];
    bool retries;
    enum cli_exit failed; /* CLI_OK: no call did */
    uint64_t done;
};

static json_t *change_body(const struct changing *ch, int64_t partition, const json_t *ids)
{
    json_t *body = queue_named(ch->call->operands[0]), *id;
    INVARIANT(json_object_set_new(body, "partition", json_integer(partition)) == 0);
    if (!ch->retries) {
        queue_set(body, "request_timeout", "1m");
        INVARIANT(json_object_set_new(body, "ids", json_copy((json_t *)(uintptr_t)ids)) == 0);
        return body;
    }
    json_t *items = json_array();
    size_t i;
    json_array_foreach(ids, i, id)
    {
        json_t *item = json_object();
        (void)json_object_set(item, "id", id); /* dies with its document */
        queue_set(item, "retry_at", ch->retry_at[0] != '\0' ? ch->retry_at : NULL);
        if (cli_flag(ch->call, "dead"))
            (void)json_object_set_new(item, "dead", json_true());
        (void)json_array_append_new(items, item);
    }
    INVARIANT(json_object_set_new(body, "items", items) == 0);
    return body;
}

static void send_batch(struct changing *ch, int64_t partition, const json_t *ids)
{
    if (queue_order(&ch->c, ch->name, change_body(ch, partition, ids)))
        ch->done += json_array_size(ids);
    else
        ch->failed = ch->c.failed;
}

static void send_ids(struct changing *ch, const char *partition, const json_t *ids)
{
    int64_t number = 0;
    INVARIANT(str_to_i64(str_of(partition), &number)); /* add_handle read it */
    json_t *batch = json_array(), *id;
    size_t i;
    json_array_foreach(ids, i, id)
    {
        (void)json_array_append(batch, id); /* dies with its document */
        if (json_array_size(batch) < QUEUE_BATCH_MAX && i + 1 < json_array_size(ids))
            continue;
        send_batch(ch, number, batch);
        (void)json_array_clear(batch); /* it is an array */
    }
    json_decref(batch);
}

/* Keeps it until all are read. What stands behind the handle in its record is left alone. */
static bool add_handle(struct changing *ch, str line)
{
    char partition[24];
    size_t tab = str_find(line, '\t'), blank = str_find(line, ' ');
    str handle = str_take(line, tab < blank ? tab : blank), rest = handle,
        number = str_split(&rest, '/');
    uint64_t n;
    if (handle.n == 0)
        return true;
    if (rest.n == 0 || !str_to_u64(number, &n) || n > INT32_MAX ||
        !str_to_cstr(number, partition, sizeof partition)) {
        ch->failed = cli_fail(ch->call, CLI_USAGE, "%s: a handle is PARTITION/ID, not \"%.*s\"",
                              ch->call->verb->name, STR_ARG(str_take(handle, 60)));
        return false;
    }
    json_t *ids = json_object_get(ch->by_partition, partition), *id = json_stringn(rest.p, rest.n);
    if (ids == NULL) {
        ids = json_array();
        INVARIANT(json_object_set_new(ch->by_partition, partition, ids) == 0);
    }
    if (id == NULL) {
        ch->failed = cli_fail(ch->call, CLI_USAGE, "%s: a handle is PARTITION/ID in UTF-8",
                              ch->call->verb->name);
        return false;
    }
    INVARIANT(json_array_append_new(ids, id) == 0);
    return true;
}

static bool add_stdin(struct changing *ch)
{
    struct queue_lines lines;
    queue_lines_init(&lines, ch->call, STDIN_FILENO, NULL);
    str line;
    enum queue_line got = LINE_NONE;
    bool fine = true;
    while (fine && (got = queue_lines_next(&lines, false, &line)) != LINE_NONE)
        fine = got == LINE_ONE && add_handle(ch, line);
    if (!fine && got == LINE_FAILED)
        ch->failed = CLI_FAILED;
    queue_lines_fini(&lines);
    return fine;
}

static enum cli_exit queue_items_change(struct cli_call *call, struct changing *ch)
{
    if (!queue_stdin_once(call))
        return CLI_USAGE;
    enum cli_exit code = client_open(&ch->c, call);
    if (code != CLI_OK)
        return code;
    ch->call = call;
    ch->by_partition = json_object();
    bool fine = true;
    if (call->operands_count == 1)
        fine = add_stdin(ch);
    for (unsigned i = 1; i < call->operands_count && fine; i++)
        fine = strcmp(call->operands[i], "-") == 0 ? add_stdin(ch)
                                                   : add_handle(ch, str_of(call->operands[i]));
    const char *partition;
    json_t *ids;
    json_object_foreach(ch->by_partition, partition, ids) if (fine) send_ids(ch, partition, ids);
    if (ch->c.json) {
        json_t *doc =
            json_pack("{s:s, s:I}", "queue_name", call->operands[0], "items", (json_int_t)ch->done);
        out_json(stdout, doc);
        json_decref(doc);
    }
    json_decref(ch->by_partition);
    client_close(&ch->c);
    return ch->failed;
}

enum cli_exit verb_queue_complete(struct cli_call *call)
{
    struct changing ch = { .name = "queue.complete" };
    return queue_items_change(call, &ch);
}

/* --at and --in as an instant. */
static bool read_when(const struct cli_call *call, char out[DATE_RFC3339_BYTES + 1])
{
    const char *at = cli_value(call, "at"), *in = cli_value(call, "in");
    int64_t ns = 0;
    if (at != NULL && in != NULL) {
        (void)cli_fail(call, CLI_USAGE, "queue retry: --at and --in exclude each other");
        return false;
    }
    if (at != NULL && !date_parse_any(str_of(at), &ns)) {
        (void)cli_fail(call, CLI_USAGE, "queue retry: --at wants " DATE_WANTED ", not \"%s\"", at);
        return false;
    }
    if (in != NULL) {
        if (!units_parse_duration(str_of(in), &ns) || ns == DURATION_NEVER) {
            (void)cli_fail(call, CLI_USAGE,
                           "queue retry: --in wants a duration such as 5m, not \"%s\"", in);
            return false;
        }
        struct sysclock *sysclock = sysclock_new();
        ns += clock_wall(sysclock_clock(sysclock)).ns;
        sysclock_free(&sysclock);
    }
    if (at != NULL || in != NULL)
        date_format_ns(ns, out);
    return true;
}

enum cli_exit verb_queue_retry(struct cli_call *call)
{
    struct changing ch = { .name = "queue.retry", .retries = true };
    if (!read_when(call, ch.retry_at))
        return CLI_USAGE;
    return queue_items_change(call, &ch);
}

/* ---- peek ---- */

struct peeking {
    struct client c;
    const struct cli_call *call;
    const char *name;                 /* of what is asked */
    int64_t partition, left;          /* partition -1: all; left: so many more are wanted */
    char pivot[KSUID_TEXT_BYTES + 1]; /* "": the first */
    enum cli_exit code;
};

static json_t *peek_body(const struct peeking *p)
{
    json_t *body = queue_named(p->call->operands[0]);
    INVARIANT(json_object_set_new(body, "limit", json_integer(p->left)) == 0);
    if (p->partition >= 0)
        INVARIANT(json_object_set_new(body, "partition", json_integer(p->partition)) == 0);
    if (p->pivot[0] != '\0')
        INVARIANT(json_object_set_new(body, "pivot", json_string(p->pivot)) == 0);
    return body;
}

/* One page: an answer ends at its bytes, too. False: that was the last, or it failed. */
static bool peek_page(struct peeking *p)
{
    json_t *doc = queue_ask(&p->c, p->name, peek_body(p)), *item;
    struct ksuid last = KSUID_NIL;
    bool more = false;
    size_t i;
    json_array_foreach(json_object_get(doc, "items"), i, item)
    {
        if (!print_item(p->call, item, "payload", queue_text(item, "id")))
            p->code = CLI_FAILED;
        more = ksuid_parse(str_of(queue_text(item, "id")), &last) && --p->left > 0;
    }
    if (more)
        ksuid_format(ksuid_add(last, 1), p->pivot);
    if (doc == NULL)
        p->code = p->c.failed;
    json_decref(doc);
    return more;
}

enum cli_exit verb_queue_peek(struct cli_call *call)
{
    struct peeking p = { .call = call, .partition = -1, .left = 10, .code = CLI_OK };
    if (!queue_number(call, "partition", 0, QUEUE_PARTITIONS_MAX - 1, &p.partition) ||
        !queue_number(call, "count", 1, QUEUE_LIST_MAX, &p.left))
        return CLI_USAGE;
    bool scheduled = cli_flag(call, "scheduled");
    if (scheduled && p.partition < 0)
        p.partition = 0;
    p.name = p.partition < 0 ? "queue.peek"
             : scheduled     ? "storage/scheduled.list"
                             : "storage/items.list";
    enum cli_exit code = client_open(&p.c, call);
    if (code != CLI_OK)
        return code;
    while (peek_page(&p))
        ;
    client_close(&p.c);
    return p.code;
}
