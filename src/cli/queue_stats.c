/* queue_stats.c - palimpsest queue stats: how much stands where. */
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"

#include <string.h>

static const char *colour_of(const char *state)
{
    if (strcmp(state, "available") == 0)
        return NULL;
    return strcmp(state, "error") == 0 ? "31" : "33";
}

static void add_partition(struct out_table *t, const json_t *p)
{
    static const char *const members[] = { "partition", "ready", "scheduled", "leased",
                                           "failures" };
    char cells[COUNT_OF(members)][QUEUE_CELL_BYTES], oldest[QUEUE_CELL_BYTES];
    for (size_t i = 0; i < COUNT_OF(members); i++)
        queue_number_cell(queue_count(p, members[i]), cells[i]);
    queue_age_cell(queue_age_ns(p, "oldest_age"), oldest);
    const char *state = queue_text(p, "state");
    out_table_row(t,
                  (const str[]){ str_of(cells[0]), str_of(queue_text(p, "store")), str_of(state),
                                 str_of(cells[1]), str_of(cells[2]), str_of(cells[3]),
                                 str_of(cells[4]), str_of(oldest) },
                  colour_of(state));
}

static void print_partitions(const json_t *state)
{
    static const struct out_column columns[] = {
        { "PARTITION", true }, { "STORE", false }, { "STATE", false },   { "READY", true },
        { "SCHEDULED", true }, { "LEASED", true }, { "FAILURES", true }, { "OLDEST", true },
    };
    struct out_table *t = out_table_new(stdout, columns, COUNT_OF(columns));
    json_t *p;
    size_t i;
    json_array_foreach(json_object_get(state, "partitions"), i, p) add_partition(t, p);
    out_table_end(&t);
}

enum cli_exit verb_queue_stats(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *stats = queue_ask(&c, "queue.stats", queue_named(call->operands[0]));
    json_t *state =
        stats != NULL ? queue_ask(&c, "partitions.list", queue_named(call->operands[0])) : NULL;
    if (state != NULL && c.json) {
        json_t *doc =
            json_pack("{s:s, s:O*, s:O*, s:O*}", "queue_name", call->operands[0], "waiting",
                      json_array_get(json_object_get(stats, "logicalQueues"), 0), "partitions",
                      json_object_get(state, "partitions"), "durability",
                      json_object_get(state, "durability"));
        if (doc != NULL)
            (void)json_object_del(json_object_get(doc, "waiting"),
                                  "partitions"); /* the other says more */
        out_json(stdout, doc);
        json_decref(doc);
    } else if (state != NULL) {
        print_partitions(state);
    }
    json_decref(stats);
    json_decref(state);
    client_close(&c);
    return state != NULL ? CLI_OK : c.failed;
}
