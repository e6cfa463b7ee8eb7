/* store_schema.c - palimpsest store schema: the tables of a page store on Cassandra, made or
 * brought to the version that this program knows. All runs on a loop of our own, on this thread.
 *
 *   WAIT for a node -> LOOK -> APPLY -> over      --look: without APPLY
 * Tables that somebody dropped are made again with --make-missing alone: their rows are gone, which
 * an operator has to know before servers answer "not found" for them. */
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
    bool looks, makes_missing;
    struct schema_found before, found;
    err why;
    struct err_note note;
};

static struct schema_opts schema_opts_of(const struct schema_verb *v)
{
    return (struct schema_opts){ .client = v->cluster.client,
                                 .clock = v->clock,
                                 .keyspace = v->config->keyspace,
                                 .replication = v->config->replication,
                                 .make_missing = v->makes_missing,
                                 .deadline = v->deadline };
}

static void schema_over(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    struct schema_verb *v = ctx;
    v->why = why;
    v->found = *found;
    v->note = *note;
    loop_stop(v->loop);
}

static void schema_seen(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    struct schema_verb *v = ctx;
    const struct schema_opts o = schema_opts_of(v);
    v->before = *found;
    bool whole = schema_is_whole(found), stays = found->version == SCHEMA_VERSION && whole;
    if (why == ERR_OK && !v->looks && !stays && (whole || v->makes_missing))
        schema_apply(&o, schema_over, v);
    else
        schema_over(v, why, found, note);
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

/* What was missing at first, and whether it is now. */
static void tell_missing(const struct schema_verb *v)
{
    const char *keyspace = v->config->keyspace;
    const struct schema_found *f = &v->before;
    if (schema_is_whole(f))
        return;
    bool made = schema_is_whole(&v->found) || v->makes_missing;
    fprintf(stderr, "palimpsest: store schema: keyspace %s lack%s %s.\n", keyspace,
            made ? "ed" : "s", f->missing);
    fprintf(stderr, "Somebody dropped that, and its rows are gone: renders, or what was purged or "
                    "hidden, or values, by the table.\n");
    if (made && f->tables_missing == 0)
        fprintf(stderr, "It was made again, empty. Servers that run go on.\n");
    else if (made)
        fprintf(stderr, "It was made again, empty. Servers that run end by themselves, and have to "
                        "be started again. What the table `title` or `word` knew to be hidden is "
                        "known no more.\n");
    else if (f->columns_other > 0)
        fprintf(stderr, "A table of that name is not of this program: nothing can be made.\n");
    else
        fprintf(stderr, "Restore a snapshot, or make it again, empty: palimpsest store schema "
                        "--make-missing\n");
}

static void tell_version(const struct schema_verb *v)
{
    const char *keyspace = v->config->keyspace;
    unsigned before = v->before.version, version = v->found.version;
    if (cli_flag(v->call, "json")) {
        json_t *told = json_pack("{s:s, s:i, s:i, s:i}", "keyspace", keyspace, "before",
                                 (int)before, "version", (int)version, "known", SCHEMA_VERSION);
        if (!schema_is_whole(&v->before))
            (void)json_object_set_new(told, "missing", json_string(v->before.missing));
        out_json(stdout, told);
        json_decref(told);
    } else if (before != version) {
        printf("%s: version %u, was %u\n", keyspace, version, before);
    } else {
        printf("%s: version %u\n", keyspace, version);
    }
}

static enum cli_exit schema_verb_tell(const struct schema_verb *v)
{
    if (v->why != ERR_OK)
        return cli_fail(v->call,
                        v->why == ERR_BAD        ? CLI_USAGE
                        : v->why == ERR_CONFLICT ? CLI_REFUSED
                                                 : CLI_FAILED,
                        "store schema: %s", v->note.text);
    tell_version(v);
    tell_missing(v);
    bool whole = schema_is_whole(&v->found) || v->makes_missing;
    return v->found.version == SCHEMA_VERSION && whole ? CLI_OK : CLI_REFUSED;
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
                             .looks = looks,
                             .makes_missing = !looks && cli_flag(call, "make-missing") };
    v.deadline = mono_add_ms(clock_mono(v.clock), timeout_ms);
    schema_run(&v);
    enum cli_exit code = schema_verb_tell(&v);
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
