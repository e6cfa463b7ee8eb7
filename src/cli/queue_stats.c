/* queue_stats.c - palimpsest queue stats and top: how much stands where, once or live. */
#include "base/date.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"
#include "loop/sysclock.h"

#include <poll.h>
#include <stdlib.h>
#include <string.h>

enum { CELL_BYTES = 32, QUEUES_SHOWN_MAX = 1000 };

static void number_cell(int64_t n, char out[CELL_BYTES])
{
    (void)snprintf(out, CELL_BYTES, "%lld", (long long)n); /* fits */
}

/* ---- stats ---- */

static const char *colour_of(const char *state)
{
    if (strcmp(state, "available") == 0)
        return NULL;
    return strcmp(state, "error") == 0 ? "31" : "33";
}

static void add_partition(struct out_table *t, const json_t *p)
{
    static const char *const members[] = { "partition", "ready", "scheduled", "leased", "failures" };
    char cells[COUNT_OF(members)][CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(members); i++)
        number_cell(queue_count(p, members[i]), cells[i]);
    const char *state = queue_text(p, "state");
    out_table_row(t, (const str[]){ str_of(cells[0]), str_of(queue_text(p, "store")), str_of(state), str_of(cells[1]),
                                    str_of(cells[2]), str_of(cells[3]), str_of(cells[4]),
                                    str_of(queue_text(p, "oldest_age")) }, colour_of(state));
}

static void print_partitions(const json_t *state)
{
    static const struct out_column columns[] = {
        { "PARTITION", true }, { "STORE", false }, { "STATE", false }, { "READY", true }, { "SCHEDULED", true },
        { "LEASED", true }, { "FAILURES", true }, { "OLDEST", true },
    };
    struct out_table *t = out_table_new(stdout, columns, COUNT_OF(columns));
    json_t *p;
    size_t i;
    json_array_foreach(json_object_get(state, "partitions"), i, p)
        add_partition(t, p);
    out_table_end(&t);
}

enum cli_exit verb_queue_stats(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *stats = queue_ask(&c, "queue.stats", queue_named(call->operands[0]));
    json_t *state = stats != NULL ? queue_ask(&c, "partitions.list", queue_named(call->operands[0])) : NULL;
    if (state != NULL && c.json) {
        json_t *doc = json_pack("{s:s, s:O*, s:O*, s:O*}", "queue_name", call->operands[0], "waiting",
                                json_array_get(json_object_get(stats, "logicalQueues"), 0), "partitions",
                                json_object_get(state, "partitions"), "durability",
                                json_object_get(state, "durability"));
        if (doc != NULL)
            (void)json_object_del(json_object_get(doc, "waiting"), "partitions"); /* the other says more */
        out_json(stdout, doc);
        json_decref(doc);
    } else if (state != NULL) {
        print_partitions(state);
    }
    json_decref(stats);
    json_decref(state);
    client_close(&c);
    return state != NULL ? CLI_OK : CLI_FAILED;
}

/* ---- top ---- */

struct top_row {
    const char *name;          /* borrowed from the list */
    int64_t partitions, ready, scheduled, leased, waiting;
    bool ill;
    char oldest[CELL_BYTES];
};

static void add_counts(struct top_row *row, const json_t *state)
{
    json_t *p;
    size_t i;
    json_array_foreach(json_object_get(state, "partitions"), i, p) {
        row->partitions++;
        row->ready += queue_count(p, "ready");
        row->scheduled += queue_count(p, "scheduled");
        row->leased += queue_count(p, "leased");
        row->ill = row->ill || strcmp(queue_text(p, "state"), "available") != 0;
        const char *oldest = queue_text(p, "oldest_age");
        if (strcmp(oldest, "0s") != 0 && row->oldest[0] == '\0') /* of the first that has any */
            (void)snprintf(row->oldest, CELL_BYTES, "%.31s", oldest);
    }
}

/* False: it was said, but for a queue that has gone meanwhile. */
static bool look(struct client *c, const char *name, struct top_row *row)
{
    struct queue_reply reply;
    json_t *state = queue_post(c, "partitions.list", queue_named(name), NULL, &reply);
    json_t *stats = state != NULL ? queue_post(c, "queue.stats", queue_named(name), NULL, &reply) : NULL, *logical;
    *row = (struct top_row){ .name = name };
    if (stats == NULL && reply.status != 400)
        cli_error("queue top: %s", reply.note.text);
    size_t i;
    add_counts(row, state);
    json_array_foreach(json_object_get(stats, "logicalQueues"), i, logical)
        row->waiting += queue_count(logical, "lease_waiting");
    json_decref(state);
    json_decref(stats);
    return stats != NULL || reply.status == 400;
}

static void add_top_row(struct out_table *t, const struct top_row *row)
{
    const int64_t numbers[] = { row->partitions, row->ready, row->scheduled, row->leased, row->waiting };
    char cells[COUNT_OF(numbers)][CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        number_cell(numbers[i], cells[i]);
    out_table_row(t, (const str[]){ str_of(row->name), str_of(cells[0]), str_of(cells[1]), str_of(cells[2]),
                                    str_of(cells[3]), str_of(cells[4]),
                                    row->oldest[0] != '\0' ? str_of(row->oldest) : STR("-") },
                  row->ill ? "33" : row->ready == 0 && row->leased == 0 ? "2" : NULL);
}

static void print_line(const struct client *c, const struct top_row *row, const char *at)
{
    if (c->json) {
        json_t *doc = json_pack("{s:s, s:s, s:I, s:I, s:I, s:I, s:I}", "at", at, "queue_name", row->name, "partitions",
                                (json_int_t)row->partitions, "ready", (json_int_t)row->ready, "scheduled",
                                (json_int_t)row->scheduled, "leased", (json_int_t)row->leased, "lease_waiting",
                                (json_int_t)row->waiting);
        out_json(stdout, doc);
        json_decref(doc);
        return;
    }
    printf("%s ", at);
    out_text(stdout, str_of(row->name));
    printf(" ready=%lld scheduled=%lld leased=%lld waiting=%lld oldest=%s\n", (long long)row->ready,
           (long long)row->scheduled, (long long)row->leased, (long long)row->waiting,
           row->oldest[0] != '\0' ? row->oldest : "0s");
}

static json_t *names_of(struct client *c, const struct cli_call *call)
{
    json_t *names = json_array(), *page, *q;
    for (unsigned i = 0; i < call->operands_count; i++)
        (void)json_array_append_new(names, json_string(call->operands[i])); /* dies with its document */
    if (call->operands_count > 0)
        return names;
    json_t *body = json_object();
    INVARIANT(json_object_set_new(body, "limit", json_integer(QUEUES_SHOWN_MAX)) == 0);
    queue_set(body, "namespace", cli_value(call, "namespace"));
    page = queue_ask(c, "queues.list", body);
    size_t i;
    json_array_foreach(json_object_get(page, "items"), i, q)
        (void)json_array_append(names, json_object_get(q, "queue_name"));
    if (page == NULL)
        json_decref(names);
    json_decref(page);
    return page != NULL ? names : NULL;
}

/* One picture: on a terminal over the one before, else lines. */
static bool show(struct client *c, const struct cli_call *call, const char *at, bool live)
{
    static const struct out_column columns[] = {
        { "QUEUE", false }, { "PARTITIONS", true }, { "READY", true }, { "SCHEDULED", true }, { "LEASED", true },
        { "WAITING", true }, { "OLDEST", true },
    };
    json_t *names = names_of(c, call), *name;
    struct out_table *t = live ? out_table_new(stdout, columns, COUNT_OF(columns)) : NULL;
    bool fine = names != NULL;
    size_t i;
    json_array_foreach(names, i, name) {
        struct top_row row;
        fine = fine && look(c, json_string_value(name), &row);
        if (fine && live)
            add_top_row(t, &row);
        else if (fine)
            print_line(c, &row, at);
    }
    if (fine && live) {
        printf("\033[H\033[2J%s  %s\n\n", at, c->server);
        out_table_end(&t);
    } else {
        out_table_drop(&t);
    }
    (void)fflush(stdout); /* cli_run looks at the stream */
    json_decref(names);
    return fine;
}

enum cli_exit verb_queue_top(struct cli_call *call)
{
    int64_t interval_ms = 1000, count = INT64_MAX;
    if (!queue_number(call, "interval", 100, 3600000, &interval_ms) ||
        !queue_number(call, "count", 1, INT32_MAX, &count))
        return CLI_USAGE;
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct sysclock *sysclock = sysclock_new();
    bool live = out_is_terminal(stdout) && !c.json, fine = true;
    for (int64_t i = 0; i < count && fine && !ferror(stdout); i++) {
        char at[DATE_RFC3339_BYTES + 1];
        if (i > 0)
            (void)poll(NULL, 0, (int)interval_ms); /* cut short by a signal: no harm */
        date_format_ms(clock_wall(sysclock_clock(sysclock)).ns, at);
        fine = show(&c, call, at, live);
    }
    sysclock_free(&sysclock);
    client_close(&c);
    return fine ? CLI_OK : CLI_FAILED;
}
