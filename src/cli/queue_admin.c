/* queue_admin.c - palimpsest queue create, ls, info, update, rm; partitions; requeue; why. */
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"

#include <stdlib.h>
#include <string.h>

/* ---- create, update ---- */

static const struct {
    const char *option, *member;
} texts[] = {
    { "lease-timeout", "lease_timeout" }, { "expire-timeout", "expire_timeout" },
    { "dead-queue", "dead_queue" },       { "reference", "reference" },
    { "namespace", "namespace" },
};
static const struct {
    const char *option, *member;
    int64_t min, max;
} numbers[] = {
    { "max-attempts", "max_attempts", 0, QUEUE_ATTEMPTS_MAX },
    { "partitions", "requested_partitions", 1, QUEUE_PARTITIONS_MAX },
};

/* What was given takes the place of what is there. */
static bool set_given(const struct cli_call *call, json_t *info)
{
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        queue_set(info, texts[i].member, cli_value(call, texts[i].option));
    for (size_t i = 0; i < COUNT_OF(numbers); i++) {
        int64_t n = -1;
        if (!queue_number(call, numbers[i].option, numbers[i].min, numbers[i].max, &n))
            return false;
        if (n >= 0)
            INVARIANT(json_object_set_new(info, numbers[i].member, json_integer(n)) == 0);
    }
    return true;
}

/* Into a header: no message has a member for it. False: it was said. */
static bool read_durability(const struct cli_call *call, char out[QUEUE_TEXT_BYTES])
{
    static const char *const names[] = { "sync", "interval", "none" };
    const char *text = cli_value(call, "durability");
    out[0] = '\0';
    for (size_t i = 0; i < COUNT_OF(names) && text != NULL; i++) {
        if (strcmp(text, names[i]) == 0)
            (void)snprintf(out, QUEUE_TEXT_BYTES, "Queue-Durability: %s", text); /* fits */
    }
    if (text == NULL || out[0] != '\0')
        return true;
    (void)cli_fail(call, CLI_USAGE, "%s: --durability wants sync, interval or none, not \"%s\"",
                   call->verb->name, text);
    return false;
}

static enum cli_exit send_info(struct cli_call *call, struct client *c, const char *name,
                               json_t *info)
{
    char durability[QUEUE_TEXT_BYTES];
    if (!set_given(call, info) || !read_durability(call, durability)) {
        json_decref(info);
        return CLI_USAGE;
    }
    const char *headers[2] = { durability[0] != '\0' ? durability : NULL, NULL };
    json_t *doc = queue_ask_with(c, name, info, headers);
    json_decref(doc);
    return doc != NULL ? CLI_OK : c->failed;
}

enum cli_exit verb_queue_create(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *info = queue_named(call->operands[0]);
    queue_set(info, "lease_timeout", "1m");
    queue_set(info, "expire_timeout", "24h");
    INVARIANT(json_object_set_new(info, "requested_partitions", json_integer(1)) == 0);
    code = send_info(call, &c, "queues.create", info);
    client_close(&c);
    return code;
}

enum cli_exit verb_queue_update(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *info = queue_ask(&c, "queues.info", queue_named(call->operands[0]));
    if (info == NULL) {
        code = c.failed;
    } else {
        (void)json_object_del(info, "created_at"); /* the server's own; absent is fine */
        (void)json_object_del(info, "updated_at");
        (void)json_object_del(info, "partitions");
        code = send_info(call, &c, "queues.update", info);
    }
    client_close(&c);
    return code;
}

/* ---- ls, info, rm ---- */

static str or_dash(const char *text)
{
    return text[0] != '\0' ? str_of(text) : STR("-");
}

static void add_row(struct out_table *t, const json_t *q)
{
    char partitions[24], attempts[24];
    (void)snprintf(partitions, sizeof partitions, "%lld",
                   (long long)queue_count(q, "requested_partitions"));
    (void)snprintf(attempts, sizeof attempts, "%lld", (long long)queue_count(q, "max_attempts"));
    bool limited = queue_count(q, "max_attempts") > 0;
    out_table_row(t,
                  (const str[]){ str_of(queue_text(q, "queue_name")), str_of(partitions),
                                 or_dash(queue_text(q, "lease_timeout")),
                                 or_dash(queue_text(q, "expire_timeout")),
                                 limited ? str_of(attempts) : STR("-"),
                                 or_dash(queue_text(q, "dead_queue")),
                                 or_dash(queue_text(q, "reference")) },
                  NULL);
}

/* Those that begin so. */
static void print_page(const struct client *c, struct out_table *t, const json_t *page,
                       const char *prefix)
{
    json_t *q;
    size_t i;
    json_array_foreach(json_object_get(page, "items"), i, q)
    {
        if (!str_starts(str_of(queue_text(q, "queue_name")), str_of(prefix)))
            break;
        if (c->json)
            out_json(stdout, q);
        else
            add_row(t, q);
    }
}

/* Names come in order: behind the last with this beginning there are no more. */
static bool print_pages(struct client *c, struct out_table *t, const char *prefix)
{
    char pivot[QUEUE_NAME_BYTES_MAX + 1];
    struct queue_reply reply;
    if (!str_to_cstr(str_of(prefix), pivot, sizeof pivot))
        return true; /* no name is so long */
    do {
        json_t *page = queue_list_page(c, pivot, QUEUE_PAGE, &reply);
        if (page == NULL) {
            c->failed = queue_fail(c->call, "", &reply);
            return false;
        }
        print_page(c, t, page, prefix);
        json_decref(page);
    } while (pivot[0] != '\0' && str_starts(str_of(pivot), str_of(prefix)));
    return true;
}

enum cli_exit verb_queue_ls(struct cli_call *call)
{
    static const struct out_column columns[] = {
        { "QUEUE", false },   { "PARTITIONS", true }, { "LEASE", true },      { "EXPIRE", true },
        { "ATTEMPTS", true }, { "DEAD", false },      { "REFERENCE", false },
    };
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    const char *prefix = call->operands_count > 0 ? call->operands[0] : "";
    struct out_table *t = c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    if (!print_pages(&c, t, prefix))
        code = c.failed;
    if (t != NULL && code == CLI_OK)
        out_table_end(&t);
    else
        out_table_drop(&t);
    client_close(&c);
    return code;
}

enum cli_exit verb_queue_info(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *info = queue_ask(&c, "queues.info", queue_named(call->operands[0]));
    client_close(&c);
    if (info == NULL)
        return c.failed;
    const char *key;
    json_t *value;
    if (c.json) {
        out_json(stdout, info);
    } else {
        json_object_foreach(info, key, value)
        {
            char *text = json_dumps(value, JSON_ENCODE_ANY | JSON_COMPACT);
            out_pair(stdout, key,
                     json_is_string(value) ? str_of(json_string_value(value)) : str_of(text));
            free(text);
        }
    }
    json_decref(info);
    return CLI_OK;
}

enum cli_exit verb_queue_rm(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    const char *headers[2] = { cli_flag(call, "force") ? NULL : "Queue-Delete: unnamed", NULL };
    for (unsigned i = 0; i < call->operands_count && code == CLI_OK; i++) {
        json_t *doc = queue_ask_with(&c, "queues.delete", queue_named(call->operands[i]), headers);
        code = doc != NULL ? CLI_OK : c.failed;
        json_decref(doc);
    }
    client_close(&c);
    return code;
}

/* ---- partitions ---- */

static enum cli_exit change_partition(struct cli_call *call, const char *name, bool partition,
                                      const char *store)
{
    int64_t number = 0;
    if (partition && !queue_partition(call, 1, &number))
        return CLI_USAGE;
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *body = queue_named(call->operands[0]);
    INVARIANT(json_object_set_new(body, "partition", json_integer(number)) == 0);
    queue_set(body, "store", store);
    code = queue_order(&c, name, body) ? CLI_OK : c.failed;
    client_close(&c);
    return code;
}

enum cli_exit verb_queue_drain(struct cli_call *call)
{
    return change_partition(call, "partitions.drain", true, NULL);
}

enum cli_exit verb_queue_pause(struct cli_call *call)
{
    return change_partition(call, "partitions.pause", true, NULL);
}

enum cli_exit verb_queue_resume(struct cli_call *call)
{
    return change_partition(call, "partitions.resume", true, NULL);
}

enum cli_exit verb_queue_move(struct cli_call *call)
{
    return change_partition(call, "partitions.move", true, call->operands[2]);
}

enum cli_exit verb_queue_add(struct cli_call *call)
{
    return change_partition(call, "partitions.add", false,
                            call->operands_count > 1 ? call->operands[1] : NULL);
}

enum cli_exit verb_queue_rebalance(struct cli_call *call)
{
    return change_partition(call, "partitions.rebalance", false, NULL);
}

/* ---- requeue, why ---- */

enum cli_exit verb_queue_requeue(struct cli_call *call)
{
    int64_t count = 0;
    if (!queue_number(call, "count", 1, INT32_MAX, &count))
        return CLI_USAGE;
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *body = queue_named(call->operands[0]);
    queue_set(body, "to", call->operands[1]);
    INVARIANT(json_object_set_new(body, "count", json_integer(count)) == 0);
    json_t *doc = queue_ask(&c, "queue.requeue", body);
    if (doc != NULL && c.json)
        out_json(stdout, doc);
    else if (doc != NULL)
        fprintf(stderr, "%lld items moved\n", (long long)queue_count(doc, "moved"));
    json_decref(doc);
    client_close(&c);
    return doc != NULL ? CLI_OK : c.failed;
}

enum cli_exit verb_queue_why(struct cli_call *call)
{
    int64_t limit = 100;
    if (!queue_number(call, "limit", 1, QUEUE_LIST_MAX, &limit))
        return CLI_USAGE;
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *body = queue_named(call->operands[0]), *line;
    INVARIANT(json_object_set_new(body, "limit", json_integer(limit)) == 0);
    json_t *doc = queue_ask(&c, "queue.why", body);
    size_t i;
    json_array_foreach(json_object_get(doc, "decisions"), i, line)
    {
        out_text(stdout, str_of(json_string_value(line)));
        putchar('\n');
    }
    json_decref(doc);
    client_close(&c);
    return doc != NULL ? CLI_OK : c.failed;
}
