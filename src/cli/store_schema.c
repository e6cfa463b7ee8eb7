/* store_schema.c - palimpsest store schema: the tables of a page store on Cassandra, made or
 * brought to the version that this program knows. All runs on a loop of our own, on this thread.
 *
 *   WAIT for a node -> LOOK -> APPLY -> over      --look: without APPLY */
#include "app/config.h"
#include "base/units.h"
#include "cassandra/schema.h"
#include "cli/config.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "cql/cql.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "server/cluster.h"
#include "server/options.h"

#include <string.h>

enum { TIMEOUT_S = 120, POLL_MS = 20 };

struct schema_verb {
    const struct cli_call *call;
    const struct config_cassandra *config;
    struct clock *clock;
    struct loop *loop;
    struct loop_timer *poll;
    struct cluster cluster;
    mono deadline;
    bool looks; /* and no more */
    unsigned before, version;
    err why;
    struct err_note note;
};

static struct schema_opts schema_opts_of(const struct schema_verb *v)
{
    return (struct schema_opts){ .client = v->cluster.client,
                                 .clock = v->clock,
                                 .keyspace = v->config->keyspace,
                                 .replication = v->config->replication,
                                 .deadline = v->deadline };
}

static void schema_over(void *ctx, err why, unsigned version, const struct err_note *note)
{
    struct schema_verb *v = ctx;
    v->why = why;
    v->version = version;
    v->note = *note;
    loop_stop(v->loop);
}

static void schema_seen(void *ctx, err why, unsigned version, const struct err_note *note)
{
    struct schema_verb *v = ctx;
    v->before = version;
    const struct schema_opts o = schema_opts_of(v);
    if (why == ERR_OK && !v->looks && version != SCHEMA_VERSION)
        schema_apply(&o, schema_over, v);
    else
        schema_over(v, why, version, note);
}

/* A request before a node is there would fail at once; one at the deadline says why. */
static void poll_fired(void *ctx)
{
    struct schema_verb *v = ctx;
    if (!cql_is_ready(v->cluster.client) && clock_mono(v->clock).ns < v->deadline.ns)
        return;
    loop_timer_stop(v->poll);
    const struct schema_opts o = schema_opts_of(v);
    schema_look(&o, schema_seen, v);
}

static void schema_run(struct schema_verb *v)
{
    const struct cluster_opts o = {
        .config = v->config, .section = "store", .loop = v->loop, .clock = v->clock
    };
    v->why = cluster_open(&v->cluster, &o, &v->note);
    if (v->why == ERR_OK) {
        v->poll = loop_timer_new(v->loop, poll_fired, v);
        loop_timer_start(v->poll, 0, POLL_MS);
        loop_run(v->loop);
        loop_timer_free(&v->poll);
    }
    cluster_close(&v->cluster);
}

static enum cli_exit schema_tell(const struct schema_verb *v)
{
    const char *keyspace = v->config->keyspace;
    if (v->why != ERR_OK)
        return cli_fail(v->call,
                        v->why == ERR_BAD        ? CLI_USAGE
                        : v->why == ERR_CONFLICT ? CLI_REFUSED
                                                 : CLI_FAILED,
                        "store schema: %s", v->note.text);
    if (cli_flag(v->call, "json")) {
        json_t *told =
            json_pack("{s:s, s:i, s:i, s:i}", "keyspace", keyspace, "before", (int)v->before,
                      "version", (int)v->version, "known", SCHEMA_VERSION);
        out_json(stdout, told);
        json_decref(told);
    } else if (v->before != v->version) {
        printf("%s: version %u, was %u\n", keyspace, v->version, v->before);
    } else {
        printf("%s: version %u\n", keyspace, v->version);
    }
    return v->version == SCHEMA_VERSION ? CLI_OK : CLI_REFUSED;
}

static bool timeout_take(const struct cli_call *call, int64_t *ms)
{
    const char *text = cli_value(call, "timeout");
    int64_t ns = TIMEOUT_S * NS_PER_S;
    bool fine =
        text == NULL || (units_parse_duration(str_of(text), &ns) && ns > 0 && ns != DURATION_NEVER);
    *ms = ns / NS_PER_MS;
    return fine;
}

static enum cli_exit schema_do(const struct config *config, const struct cli_call *call)
{
    int64_t timeout_ms;
    bool looks = cli_flag(call, "look");
    if (config->pages != PAGES_CASSANDRA)
        return cli_fail(call, CLI_USAGE, "store schema: store.kind is not cassandra");
    if (!looks && config->cassandra.replication == NULL)
        return cli_fail(call, CLI_USAGE,
                        "store schema: store.replication is wanted: how many copies each data "
                        "centre has, such as dc1=3");
    if (!timeout_take(call, &timeout_ms))
        return cli_fail(call, CLI_USAGE, "store schema: --timeout is no duration");
    struct sysclock *sysclock = sysclock_new();
    struct schema_verb v = { .call = call,
                             .config = &config->cassandra,
                             .clock = sysclock_clock(sysclock),
                             .loop = loop_new(2),
                             .looks = looks };
    v.deadline = mono_add_ms(clock_mono(v.clock), timeout_ms);
    schema_run(&v);
    enum cli_exit code = schema_tell(&v);
    loop_free(&v.loop);
    sysclock_free(&sysclock);
    return code;
}

enum cli_exit verb_store_schema(struct cli_call *call)
{
    struct options *o = options_new();
    enum cli_exit code = config_load(o, call);
    if (code == CLI_OK)
        code = schema_do(options_config(o), call);
    options_free(&o);
    return code;
}
