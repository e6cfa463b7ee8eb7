/* flight.c - palimpsest flight ls: what servers are making now, for whom, and who leads. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include <string.h>

enum { CELL_BYTES = 32, NODE_SHOWN_BYTES = 8 };

static str text_of(const json_t *doc, const char *name)
{
    const json_t *t = json_object_get(doc, name);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

static const char *count_of(const json_t *doc, const char *name, char out[CELL_BYTES])
{
    (void)snprintf(out, CELL_BYTES, "%lld",
                   (long long)json_integer_value(json_object_get(doc, name))); /* fits */
    return out;
}

static const char *seconds_of(const json_t *doc, const char *name, char out[CELL_BYTES])
{
    (void)snprintf(out, CELL_BYTES, "%.1fs",
                   (double)json_integer_value(json_object_get(doc, name)) / 1000.0);
    return out;
}

/* Names of processes are 16 random digits: the first eight tell them apart. */
static str node_of(const json_t *doc, const char *name)
{
    return str_take(text_of(doc, name), NODE_SHOWN_BYTES);
}

static const char *colour_of(str state)
{
    if (str_eq(state, STR("leading")) || str_eq(state, STR("publishing")))
        return "32";
    return str_eq(state, STR("alone")) || str_eq(state, STR("stopping")) ? "33" : NULL;
}

/* ---- tables: servers, and below them what they are making ---- */

static void add_server(struct out_table *t, const char *server, const json_t *doc)
{
    const json_t *counts = json_object_get(doc, "counts");
    char flights[CELL_BYTES], waiters[CELL_BYTES], takeovers[CELL_BYTES], alone[CELL_BYTES],
        away[CELL_BYTES];
    bool degraded = json_is_true(json_object_get(doc, "degraded"));
    out_table_row(t,
                  (const str[]){ str_of(server), node_of(doc, "node"), text_of(doc, "redis"),
                                 str_of(count_of(counts, "flights", flights)),
                                 str_of(count_of(counts, "waiters", waiters)),
                                 str_of(count_of(counts, "takeovers", takeovers)),
                                 str_of(count_of(counts, "alone", alone)),
                                 str_of(seconds_of(counts, "degraded_ms", away)) },
                  degraded ? "33" : NULL);
}

static void add_flights(struct out_table *t, const json_t *doc)
{
    char waiters[CELL_BYTES], age[CELL_BYTES], generation[CELL_BYTES];
    const json_t *f;
    size_t i;
    json_array_foreach(json_object_get(doc, "flights"), i, f)
    {
        bool led = json_object_get(f, "generation") != NULL;
        out_table_row(t,
                      (const str[]){ node_of(doc, "node"), text_of(f, "state"),
                                     node_of(f, "leader"),
                                     led ? str_of(count_of(f, "generation", generation)) : STR("-"),
                                     str_of(count_of(f, "waiters", waiters)),
                                     str_of(seconds_of(f, "age_ms", age)), text_of(f, "what") },
                      colour_of(text_of(f, "state")));
    }
}

static const struct out_column server_columns[] = {
    { "SERVER", false }, { "NODE", false },     { "REDIS", false }, { "FLIGHTS", true },
    { "WAITERS", true }, { "TAKEOVERS", true }, { "ALONE", true },  { "DEGRADED", true },
};
static const struct out_column flight_columns[] = {
    { "NODE", false },   { "STATE", false }, { "LEADER", false }, { "GENERATION", true },
    { "WAITERS", true }, { "AGE", true },    { "WHAT", false },
};

/* ---- asking ---- */

struct listing {
    const struct cli_call *call;
    struct out_table *servers, *flights; /* NULL with --json */
    size_t servers_count, flights_count;
};

/* CLI_OK, or it was said why. */
static enum cli_exit flight_ask(struct listing *l, const char *server)
{
    struct client c;
    enum cli_exit code = client_open_at(&c, l->call, server);
    if (code != CLI_OK)
        return code;
    json_t *doc = client_ask_json(&c, &(struct client_request){ .method = "GET",
                                                                .path = STR("/v1/admin.flights"),
                                                                .member = "flights" });
    if (doc != NULL && c.json) {
        INVARIANT(json_object_set_new(doc, "server", json_string(c.server)) == 0);
        out_json(stdout, doc);
    } else if (doc != NULL) {
        add_server(l->servers, c.server, doc);
        l->servers_count++;
        add_flights(l->flights, doc);
        l->flights_count += json_array_size(json_object_get(doc, "flights"));
    }
    code = doc != NULL ? CLI_OK : c.failed;
    json_decref(doc);
    client_close(&c);
    return code;
}

enum cli_exit verb_flight_ls(struct cli_call *call)
{
    struct listing l = { .call = call };
    if (!cli_flag(call, "json")) {
        l.servers = out_table_new(stdout, server_columns, COUNT_OF(server_columns));
        l.flights = out_table_new(stdout, flight_columns, COUNT_OF(flight_columns));
    }
    enum cli_exit code = CLI_OK;
    for (unsigned i = 0; i < call->operands_count; i++) {
        enum cli_exit one = flight_ask(&l, call->operands[i]);
        code = one != CLI_OK ? one : code;
    }
    if (call->operands_count == 0)
        code = flight_ask(&l, NULL);
    if (l.servers_count > 0)
        out_table_end(&l.servers);
    out_table_drop(&l.servers);
    if (l.flights != NULL && l.flights_count > 0) {
        printf("\n");
        out_table_end(&l.flights);
    }
    out_table_drop(&l.flights);
    return code;
}
