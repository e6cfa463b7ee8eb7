/* slow.c - palimpsest slow ls: the slowest requests of the last hour, and where their time went. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/queue.h"
#include "cli/verbs.h"

enum { SLOW_MAX = 256, SLOW_SHOWN = 20, CELL_BYTES = 64, SLOW_PATH_BYTES = 64 };

static str text_of(const json_t *doc, const char *name)
{
    const json_t *t = json_object_get(doc, name);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

static double seconds_of(const json_t *doc)
{
    return (double)json_integer_value(json_object_get(doc, "us")) / 1e6;
}

/* The stage before which the most time passed, and how much; "-" without events. */
static str longest_stage(const json_t *request, char out[CELL_BYTES])
{
    const json_t *event;
    str stage = STR("-");
    double before = 0, longest = -1;
    size_t i;
    json_array_foreach(json_object_get(request, "events"), i, event)
    {
        double at = seconds_of(event);
        if (at - before > longest) {
            longest = at - before;
            stage = text_of(event, "stage");
        }
        before = at;
    }
    if (longest < 0)
        return stage;
    int n = snprintf(out, CELL_BYTES, "%.*s %.3fs", (int)(stage.n < 16 ? stage.n : 16), stage.p,
                     longest);
    return (str){ .p = out, .n = (size_t)n };
}

static const struct out_column columns[] = {
    { "TOOK", true },     { "BEGAN", false },   { "STATUS", true }, { "METHOD", false },
    { "LONGEST", false }, { "REQUEST", false }, { "PATH", false },
};

static void add_request(struct out_table *t, const json_t *r)
{
    char took[CELL_BYTES], status[CELL_BYTES], longest[CELL_BYTES];
    int64_t code = json_integer_value(json_object_get(r, "status"));
    (void)snprintf(took, sizeof took, "%.3fs", seconds_of(r));
    (void)snprintf(status, sizeof status, "%lld", (long long)code);
    out_table_row(t,
                  (const str[]){ str_of(took), text_of(r, "began"),
                                 str_of(code == 0 ? "-" : status), text_of(r, "method"),
                                 longest_stage(r, longest), text_of(r, "request_id"),
                                 text_of(r, "path") },
                  code == 0 || code >= 500 ? "33" : NULL);
}

static void slow_show(const json_t *doc)
{
    struct out_table *t = out_table_new(stdout, columns, COUNT_OF(columns));
    const json_t *r;
    size_t i;
    json_array_foreach(json_object_get(doc, "slow"), i, r)
    {
        add_request(t, r);
    }
    out_table_end(&t);
}

enum cli_exit verb_slow_ls(struct cli_call *call)
{
    struct client c;
    char path[SLOW_PATH_BYTES];
    int64_t limit = SLOW_SHOWN;
    if (!queue_number(call, "limit", 1, SLOW_MAX, &limit))
        return CLI_USAGE;
    enum cli_exit code = client_open_at(&c, call, NULL);
    if (code != CLI_OK)
        return code;
    (void)snprintf(path, sizeof path, "/v1/admin.slow?limit=%lld", (long long)limit);
    json_t *doc = client_ask_json(
        &c, &(struct client_request){ .method = "GET", .path = str_of(path), .member = "slow" });
    if (doc != NULL && c.json)
        out_json(stdout, doc);
    else if (doc != NULL)
        slow_show(doc);
    code = doc != NULL ? CLI_OK : c.failed;
    json_decref(doc);
    client_close(&c);
    return code;
}
