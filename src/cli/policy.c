/* policy.c - palimpsest policy show, policy apply: the policies of page buckets that all servers on
 * one Cassandra have, beside those of the options. All runs on a loop of our own, on this thread.
 *
 *   WAIT for a node -> LOOK at the schema -> CLOCK -> LOAD, or APPLY -> over */
#include "app/config.h"
#include "base/date.h"
#include "base/units.h"
#include "cassandra/policies.h"
#include "cassandra/schema.h"
#include "cassandra/skew.h"
#include "cli/config.h"
#include "cli/out.h"
#include "cli/verbs.h"
#include "cql/cql.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "server/buckets.h"
#include "server/cluster.h"
#include "server/options.h"

#include <string.h>

enum { TIMEOUT_S = 30, POLL_MS = 20, ARENA_BYTES_MAX = 64 << 20, TEXT_BYTES_MAX = 1000 };

struct policy_verb {
    const struct cli_call *call;
    const struct config *config;
    struct clock *clock;
    struct loop *loop;
    struct loop_timer *poll;
    struct cluster cluster;
    struct catalog *catalog;
    mono deadline;
    bool applies;
    struct server_buckets all;
    struct arena arena;
    struct catalog_load load;
    struct policies_apply apply;
    err why;
    bool unknown;
    struct err_note note;
};

static void verb_over(struct policy_verb *v, err why, const struct err_note *note)
{
    v->why = why;
    if (why != ERR_OK)
        v->note = *note;
    loop_stop(v->loop);
}

/* ---- asking ---- */

static void policies_loaded(struct store_call *c)
{
    struct policy_verb *v = CONTAINER_OF(c, struct policy_verb, load.call);
    verb_over(v, c->why, &v->load.note);
}

static void policies_are_applied(struct store_call *c)
{
    struct policy_verb *v = CONTAINER_OF(c, struct policy_verb, apply.call);
    v->unknown = v->apply.unknown;
    verb_over(v, c->why, &v->apply.note);
}

static struct store_call call_of(struct policy_verb *v, void (*done)(struct store_call *c))
{
    return (struct store_call){ .home = loop_home(v->loop), .done = done, .deadline = v->deadline };
}

static void verb_load(struct policy_verb *v)
{
    v->load =
        (struct catalog_load){ .call = call_of(v, policies_loaded), .scope = STR(POLICIES_SCOPE) };
    store_call_then(catalog_load(v->catalog, &v->load), &v->load.call);
}

static void verb_apply(struct policy_verb *v)
{
    v->apply = (struct policies_apply){ .call = call_of(v, policies_are_applied),
                                        .catalog = v->catalog,
                                        .buckets = v->all.of,
                                        .count = v->all.count,
                                        .now = clock_store(v->clock),
                                        .max_skew_ns = v->config->cassandra.max_skew_ns,
                                        .dry = cli_flag(v->call, "dry-run"),
                                        .arena = &v->arena };
    store_call_then(policies_apply(&v->apply), &v->apply.call);
}

/* From when a policy is in force is said by this machine's clock. */
static void clock_compared(void *ctx, err why, int64_t ahead_ns)
{
    struct policy_verb *v = ctx;
    struct err_note note;
    int64_t max_ns = v->config->cassandra.max_skew_ns;
    err_note_set(&note, "no node of the cluster told its time within --timeout: is one of "
                        "store.contact_points up?");
    if (why == ERR_OK && (ahead_ns > max_ns || ahead_ns < -max_ns)) {
        err_note_set(
            &note,
            "this machine's clock is %lld ms ahead of those of the cluster (below 0: behind), "
            "more than store.max_skew: set it, and apply again",
            (long long)(ahead_ns / NS_PER_MS));
        why = ERR_UNAVAILABLE;
    }
    if (why == ERR_OK)
        verb_apply(v);
    else
        verb_over(v, why, &note);
}

static void schema_seen(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    struct policy_verb *v = ctx;
    struct err_note told = *note;
    if (why == ERR_OK)
        why = schema_tell(found, SCHEMA_VERSION, v->config->cassandra.keyspace, &told);
    const struct skew_opts o = { .client = v->cluster.client,
                                 .clock = v->clock,
                                 .deadline = v->deadline };
    if (why != ERR_OK)
        verb_over(v, why, &told);
    else if (v->applies)
        skew_look(&o, clock_compared, v);
    else
        verb_load(v);
}

/* A request before a node is there would fail at once; one at the deadline says why. */
static void poll_fired(void *ctx)
{
    struct policy_verb *v = ctx;
    if (!cql_is_ready(v->cluster.client) && clock_mono(v->clock).ns < v->deadline.ns)
        return;
    loop_timer_stop(v->poll);
    schema_look(&(struct schema_opts){ .client = v->cluster.client,
                                       .clock = v->clock,
                                       .keyspace = v->config->cassandra.keyspace,
                                       .deadline = v->deadline },
                schema_seen, v);
}

static void verb_run(struct policy_verb *v)
{
    const struct cluster_opts o = {
        .config = &v->config->cassandra, .section = "store", .loop = v->loop, .clock = v->clock
    };
    v->why = cluster_open(&v->cluster, &o, &v->note);
    if (v->why == ERR_OK) {
        const struct catalog_opts catalog = { .client = v->cluster.client,
                                              .loop = v->loop,
                                              .clock = v->clock,
                                              .keyspace = v->config->cassandra.keyspace,
                                              .entropy = entropy_bytes };
        v->catalog = catalog_new(&catalog, &v->note);
        v->why = v->catalog == NULL ? ERR_BAD : ERR_OK;
    }
    if (v->why == ERR_OK) {
        v->poll = loop_timer_new(v->loop, poll_fired, v);
        loop_timer_start(v->poll, 0, POLL_MS);
        loop_run(v->loop);
        loop_timer_free(&v->poll);
    }
    cluster_close(&v->cluster);
    catalog_free(&v->catalog);
}

/* ---- telling ---- */

static const char *from_text(store_time at, char text[DATE_RFC3339_BYTES + 1])
{
    if (at.ns == STORE_TIME_ZERO.ns)
        return "the beginning";
    date_format_ms(at.ns, text);
    return text;
}

static void print_plan(const char *bucket, const struct title_plan *p, const char *state)
{
    char text[DATE_RFC3339_BYTES + 1];
    struct buf words;
    buf_init(&words, TEXT_BYTES_MAX);
    policies_print(bucket, &p->plan.policy, &words);
    printf("%s\t%u\t%s\tfrom %s\t%.*s\n", bucket, p->plan.number, state, from_text(p->at, text),
           STR_ARG(buf_str(&words)));
    buf_fini(&words);
}

static void json_plan(const char *bucket, const struct title_plan *p, const char *state)
{
    char text[DATE_RFC3339_BYTES + 1];
    struct buf words;
    buf_init(&words, TEXT_BYTES_MAX);
    policies_print(bucket, &p->plan.policy, &words);
    json_t *doc =
        json_pack("{s:s, s:i, s:s, s:s%}", "bucket", bucket, "number", (int)p->plan.number, "state",
                  state, "policy", buf_str(&words).p, buf_str(&words).n);
    json_object_set_new(doc, "from",
                        p->at.ns == 0 ? json_null() : json_string(from_text(p->at, text)));
    out_json(stdout, doc);
    json_decref(doc);
    buf_fini(&words);
}

static void tell_plan(const struct policy_verb *v, const char *bucket, const struct title_plan *p,
                      const char *state)
{
    if (cli_flag(v->call, "json"))
        json_plan(bucket, p, state);
    else
        print_plan(bucket, p, state);
}

/* *differs: the options say another one than the last. */
static err tell_bucket(struct policy_verb *v, const struct page_bucket_opts *b, bool *differs)
{
    struct policies of;
    err e = policies_of(v->load.rows, str_of(b->name), &v->arena, &of, &v->note);
    if (e != ERR_OK)
        return e;
    store_time now = clock_store(v->clock);
    const struct title_plan *in_force = policies_at(&of, now);
    for (size_t i = 0; i < of.count; i++)
        tell_plan(v, b->name, &of.plans[i],
                  &of.plans[i] == in_force                 ? "in force"
                  : store_time_before(now, of.plans[i].at) ? "to come"
                                                           : "past");
    const struct title_plan file = { .plan = { .policy = b->policy } };
    bool other =
        of.count == 0 || !page_policies_same(&of.plans[of.count - 1].plan.policy, &b->policy);
    if (other)
        tell_plan(v, b->name, &file, "in the options");
    *differs |= other;
    return ERR_OK;
}

static enum cli_exit tell_all(struct policy_verb *v)
{
    bool differs = false;
    err e = ERR_OK;
    for (unsigned i = 0; i < v->all.count && e == ERR_OK; i++)
        e = tell_bucket(v, &v->all.of[i], &differs);
    catalog_rows_drop(&v->load.rows);
    if (e != ERR_OK)
        return cli_fail(v->call, CLI_DAMAGED, "policy show: %s", v->note.text);
    return differs ? CLI_REFUSED : CLI_OK;
}

static enum cli_exit tell_applied(const struct policy_verb *v)
{
    for (unsigned i = 0; i < v->apply.applied_count; i++) {
        const struct policies_applied *x = &v->apply.applied[i];
        if (x->was.plan.number > 0)
            tell_plan(v, x->bucket.p, &x->was, "was");
        tell_plan(v, x->bucket.p, &x->now, v->apply.dry ? "would be" : "written");
    }
    if (v->apply.applied_count == 0 && !cli_flag(v->call, "json"))
        puts("the catalogue has these policies already");
    return CLI_OK;
}

static enum cli_exit verb_tell(struct policy_verb *v)
{
    if (v->why == ERR_OK)
        return v->applies ? tell_applied(v) : tell_all(v);
    return cli_fail(v->call,
                    v->why == ERR_BAD        ? CLI_USAGE
                    : v->why == ERR_CONFLICT ? CLI_REFUSED
                                             : CLI_FAILED,
                    "%s: %s%s", v->applies ? "policy apply" : "policy show", v->note.text,
                    v->unknown ? "; it may have been written: policy show tells" : "");
}

/* ---- the verbs ---- */

static bool timeout_take(const struct cli_call *call, int64_t *ms)
{
    const char *text = cli_value(call, "timeout");
    int64_t ns = TIMEOUT_S * NS_PER_S;
    bool fine =
        text == NULL || (units_parse_duration(str_of(text), &ns) && ns > 0 && ns != DURATION_NEVER);
    *ms = ns / NS_PER_MS;
    return fine;
}

static err buckets_take(struct policy_verb *v, struct err_note *note)
{
    err e = ERR_OK;
    server_buckets_take(&v->all, v->config);
    if (v->all.count > POLICIES_BUCKETS_MAX)
        return err_bad(note, "at most %d buckets", POLICIES_BUCKETS_MAX);
    for (unsigned i = 0; i < v->all.pages && e == ERR_OK; i++)
        e = policies_fit(&v->all.of[i], v->config->cassandra.max_skew_ns, note);
    return e;
}

static enum cli_exit policy_do(const struct config *config, const struct cli_call *call,
                               bool applies)
{
    int64_t timeout_ms;
    struct policy_verb v = { .call = call, .config = config, .applies = applies };
    if (config->pages != PAGES_CASSANDRA)
        return cli_fail(call, CLI_USAGE,
                        "policy: store.kind is not cassandra; a server with a store of its own "
                        "takes the policies of its options");
    if (!timeout_take(call, &timeout_ms))
        return cli_fail(call, CLI_USAGE, "policy: --timeout is no duration");
    if (buckets_take(&v, &v.note) != ERR_OK)
        return cli_fail(call, CLI_USAGE, "policy: %s", v.note.text);
    struct sysclock *sysclock = sysclock_new();
    v.clock = sysclock_clock(sysclock);
    v.loop = loop_new(2);
    v.deadline = mono_add_ms(clock_mono(v.clock), timeout_ms);
    arena_init(&v.arena, ARENA_BYTES_MAX);
    verb_run(&v);
    enum cli_exit code = verb_tell(&v);
    arena_fini(&v.arena);
    loop_free(&v.loop);
    sysclock_free(&sysclock);
    return code;
}

static enum cli_exit policy_run(struct cli_call *call, bool applies)
{
    struct options *o = options_new();
    enum cli_exit code = config_load(o, call);
    if (code == CLI_OK)
        code = policy_do(options_config(o), call, applies);
    options_free(&o);
    return code;
}

enum cli_exit verb_policy_show(struct cli_call *call)
{
    return policy_run(call, false);
}

enum cli_exit verb_policy_apply(struct cli_call *call)
{
    return policy_run(call, true);
}
