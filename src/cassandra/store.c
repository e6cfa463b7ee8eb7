/* store.c - opens the store, watches it, and lets requests pass its gate.
 *
 *   SCHEMA -> POLICIES -> NUMBER -> CLOCK -> open
 *
 * Each step, when it fails, begins at SCHEMA again a second later. All steps and ticks run on the
 * loop.
 * Invariants:
 *   1 a request goes to pages.h only while the store is open, and its tables are the same as when
 *     it was opened;
 *   2 after cassandra_store_close nothing is started any more;
 *   3 state goes from OPENING to OPEN to CLOSED, and never back. */
#include "cassandra/store_impl.h"

#include "base/log.h"
#include "cassandra/incarnation.h"
#include "cassandra/pages_impl.h"
#include "cassandra/policies.h"
#include "cassandra/schema.h"
#include "cassandra/skew.h"
#include "cassandra/values.h"
#include "cql/cql.h"
#include "loop/loop.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { OPEN_PERIOD_MS = 1000 };

mono store_in_ms(const struct cassandra_store *s, int64_t ms)
{
    return mono_add_ms(clock_mono(s->opts.clock), ms);
}

/* ---- opening ---- */

/* The log is told once for each reason: the store asks each second. */
static void open_failed(struct cassandra_store *s, const char *why)
{
    bool news = strcmp(s->why.text, why) != 0;
    s->busy = false;
    s->open_at = store_in_ms(s, OPEN_PERIOD_MS);
    err_note_set(&s->why, "%s", why);
    if (news)
        log_event(s->opts.log, LOG_WARN, "cluster.away", LOG_CSTR("why", why));
}

/* Judges the last comparison. The gate refuses writes while skewed is set. The log gets changes
 * alone. */
void store_skew_judge(struct cassandra_store *s, int64_t ahead_ns)
{
    /* Tests move the clock on purpose. */
    if (s->opts.unguarded)
        return;
    bool skewed = ahead_ns > s->opts.max_skew_ns || ahead_ns < -s->opts.max_skew_ns;
    bool was = atomic_exchange(&s->skewed, skewed);
    skew_guard_set(&s->guard, s->apart_ns);
    s->ahead_ns = ahead_ns;
    if (skewed && !was)
        log_event(s->opts.log, LOG_ERROR, "cluster.clock_skew",
                  LOG_INT("ahead_ms", ahead_ns / NS_PER_MS),
                  LOG_INT("max_ms", s->opts.max_skew_ns / NS_PER_MS),
                  LOG_CSTR("what", "this machine's clock is not where those of the cluster are: "
                                   "writes are refused until it is"));
    else if (was && !skewed)
        log_event(s->opts.log, LOG_INFO, "cluster.clock_fine",
                  LOG_INT("ahead_ms", ahead_ns / NS_PER_MS));
}

static void open_compared(void *ctx, err why, int64_t ahead_ns)
{
    struct cassandra_store *s = ctx;
    if (why != ERR_OK) {
        open_failed(s, "no node of the cluster told its time");
        return;
    }
    store_skew_judge(s, ahead_ns);
    s->skew_at = store_in_ms(s, s->opts.skew_period_ms);
    s->busy = false;
    s->why.text[0] = '\0';
    s->look_at = clock_mono(s->opts.clock);
    atomic_store(&s->ready, true); /* what was read just now was read at a quorum */
    int opening = STORE_OPENING;
    (void)atomic_compare_exchange_strong(&s->state, &opening, STORE_OPEN); /* or it was closed */
    log_event(s->opts.log, LOG_INFO, "cluster.open", LOG_CSTR("keyspace", s->opts.keyspace),
              LOG_INT("server", s->number));
}

static void open_numbered(void *ctx, err why, uint32_t number, const struct err_note *note)
{
    struct cassandra_store *s = ctx;
    if (why != ERR_OK) {
        open_failed(s, note->text);
        return;
    }
    /* A number that was taken and is not used is lost: that costs nothing. */
    s->number = number;
    cassandra_pages_number(s->pages, number);
    values_number(s->values, number);
    const struct skew_opts o = { .client = s->opts.client,
                                 .clock = s->opts.clock,
                                 .deadline = store_in_ms(s, STORE_WAIT_MS) };
    s->apart_ns = skew_apart(s->opts.clock);
    skew_look(&o, open_compared, s);
}

/* Says in the log when options and catalogue differ for buckets of values. The schema of such a
 * bucket decides, which is in the cluster. The options of this server count where a bucket is made.
 */
static void values_policies_doubt(struct cassandra_store *s, const struct catalog_rows *rows)
{
    struct err_note note;
    if (policies_check(rows, s->opts.values, s->opts.values_count, &note) != ERR_OK)
        log_event(s->opts.log, LOG_WARN, "policies.values_differ", LOG_CSTR("why", note.text),
                  LOG_CSTR("what", "buckets of values that this server makes get its own policy: "
                                   "start it again with the options that were applied"));
}

/* The watch has read other policies. They are known here before their instant; what cannot be kept
 * refuses requests (pages_plans_known). */
static void policies_changed(void *ctx, struct catalog_rows *rows)
{
    struct cassandra_store *s = ctx;
    struct err_note note = { .text = "" };
    err e = cassandra_pages_plan(s->pages, rows, &note);
    values_policies_doubt(s, rows);
    if (e != ERR_OK)
        log_event(s->opts.log, LOG_ERROR, "policies.refused", LOG_CSTR("why", note.text),
                  LOG_CSTR("what", "requests for pages are refused until the catalogue of the "
                                   "cluster holds policies that this server can keep"));
    else
        log_event(s->opts.log, LOG_INFO, "policies.known",
                  LOG_CSTR("what", "the policies in the catalogue of the cluster have changed"));
}

/* Begins to follow the policies, at the first opening that comes so far. Each further opening gives
 * its copy to the same watch. */
static void policies_follow(struct cassandra_store *s, struct catalog_rows *rows)
{
    if (s->policies == NULL) {
        s->policies = catalog_watch_new(&(struct catalog_watch_opts){ .catalog = s->catalog,
                                                                      .scope = POLICIES_SCOPE,
                                                                      .changed = policies_changed,
                                                                      .ctx = s });
        cassandra_pages_watch(s->pages, s->policies);
    }
    catalog_watch_take(s->policies, rows);
}

static void open_policies_read(struct store_call *call)
{
    struct cassandra_store *s = CONTAINER_OF(call, struct cassandra_store, load.call);
    struct err_note note = s->load.note;
    err e =
        /* Closed meanwhile: a watch that began now would never be stopped. */
        atomic_load(&s->state) == STORE_CLOSED && call->why == ERR_OK ? ERR_SHUTDOWN : call->why;
    if (call->why == ERR_OK && e != ERR_OK)
        catalog_rows_drop(&s->load.rows);
    if (e == ERR_OK) {
        /* The file's policies and the catalogue's must be the same; an operator mends that, so it
         * is told as denied. */
        e = cassandra_pages_same(s->pages, s->load.rows, &note);
        if (e == ERR_OK)
            e = policies_check(s->load.rows, s->opts.values, s->opts.values_count, &note);
        s->denied = e == ERR_CONFLICT;
        if (e == ERR_OK)
            e = cassandra_pages_plan(s->pages, s->load.rows, &note);
        if (e == ERR_OK)
            policies_follow(s, s->load.rows);
        catalog_rows_drop(&s->load.rows);
    }
    if (e != ERR_OK) {
        open_failed(s, note.text);
        return;
    }
    const struct incarnation_opts o = { .client = s->opts.client,
                                        .keyspace = s->opts.keyspace,
                                        .random = s->opts.random,
                                        .deadline = store_in_ms(s, STORE_WAIT_MS) };
    incarnation_take(&o, open_numbered, s);
}

/* The schema was read. Another version or a missing table is no end: the verb that applies it may
 * come later. */
static void open_looked(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    struct cassandra_store *s = ctx;
    struct err_note told;
    s->denied =
        why == ERR_OK && schema_tell(found, SCHEMA_VERSION, s->opts.keyspace, &told) != ERR_OK;
    if (why != ERR_OK || s->denied) {
        open_failed(s, why != ERR_OK ? note->text : told.text);
        return;
    }
    store_schema_opened(s, found);
    s->load = (struct catalog_load){ .call = { .home = loop_home(s->opts.loop),
                                               .done = open_policies_read,
                                               .deadline = store_in_ms(s, STORE_WAIT_MS) },
                                     .scope = STR(POLICIES_SCOPE) };
    store_call_then(catalog_load(s->catalog, &s->load), &s->load.call);
}

static void open_begin(struct cassandra_store *s)
{
    const struct schema_opts o = { .client = s->opts.client,
                                   .clock = s->opts.clock,
                                   .keyspace = s->opts.keyspace,
                                   .deadline = store_in_ms(s, STORE_WAIT_MS) };
    s->busy = true;
    schema_look(&o, open_looked, s);
}

/* ---- ticks ---- */

/* The upkeep of titles begins with the first tick of an open store: it needs the run's number.
 * While the clock is wrong nothing is culled: the horizon would be wrong, too. */
static void sweep_tick(struct cassandra_store *s)
{
    const struct cassandra_sweep_opts o = { .pages = s->pages,
                                            .titles = s->titles,
                                            .clock = s->opts.clock,
                                            .home = loop_home(s->opts.loop),
                                            .srv = s->number,
                                            .seed = s->opts.random,
                                            .dc = s->opts.dc,
                                            .period_ns = s->opts.sweep_period_ns,
                                            .titles_per_s = s->opts.sweep_titles_per_s };
    if (s->sweep == NULL)
        s->sweep = cassandra_sweep_new(&o);
    if (!atomic_load(&s->skewed))
        cassandra_sweep_tick(s->sweep);
}

void cassandra_store_tick(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    int64_t now_ns = clock_mono(s->opts.clock).ns;
    int state = atomic_load(&s->state);
    /* The first try follows the client's first connection at once; later ones wait their second. */
    bool first = s->why.text[0] == '\0' && cql_is_ready(s->opts.client);
    if (state == STORE_OPENING && !s->busy && (first || now_ns >= s->open_at.ns))
        open_begin(s);
    if (state != STORE_OPEN)
        return;
    store_watch_tick(s, now_ns);
    /* Upkeep on other tables would delete what it does not know. */
    if (atomic_load(&s->fault) == STORE_WHOLE)
        sweep_tick(s);
}

/* ---- the gate ---- */

err store_gate_enter(struct cassandra_store *c, bool writes, struct err_note *note)
{
    /* Counted first and looked at then: a closing store either sees the count, or was seen by this
     * look. */
    (void)atomic_fetch_add(&c->starting, 1); /* the old value is of no use */
    int state = atomic_load(&c->state);
    bool whole = atomic_load(&c->fault) == STORE_WHOLE;
    if (state == STORE_OPEN && whole &&
        !(writes && (atomic_load(&c->skewed) || !skew_guard_holds(&c->guard, c->opts.clock))))
        return ERR_OK;
    (void)atomic_fetch_sub(&c->starting, 1);
    if (state == STORE_CLOSED)
        return ERR_SHUTDOWN;
    /* The worst is told first: what is missing, then the clock, then that the store is not open. */
    if (note != NULL && !whole)
        store_fault_note(c, note);
    else if (note != NULL && state == STORE_OPEN)
        err_note_set(note,
                     "clock_skew/%lld: this server's clock is not where those of the cluster are; "
                     "it is compared again by then",
                     (long long)((c->opts.skew_period_ms + 999) / 1000));
    else if (note != NULL)
        err_note_set(note, STORE_CLOSED_TEXT);
    return ERR_UNAVAILABLE;
}

/* The request has begun: from now on the client counts requests under way, and waits for them when
 * it stops. */
enum store_start store_gate_leave(struct cassandra_store *c, enum store_start start)
{
    (void)atomic_fetch_sub(&c->starting, 1);
    return start;
}

/* ---- life ---- */

struct cassandra_store *cassandra_store_new(const struct cassandra_store_opts *o,
                                            struct err_note *note)
{
    struct cassandra_store *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->magic = CASSANDRA_STORE_MAGIC;
    s->opts = *o;
    s->store.ops = &cassandra_store_ops;
    s->guard.moved_ns_max = o->max_skew_ns;
    s->tables.ops = &cassandra_tables_ops;
    INVARIANT(pthread_mutex_init(&s->told_lock, NULL) == 0);
    s->open_at = mono_add_ms(clock_mono(o->clock), OPEN_PERIOD_MS);
    s->titles = titles_new(o->client, o->keyspace, o->clock, note);
    const struct cassandra_pages_opts pages = { .titles = s->titles,
                                                .clock = o->clock,
                                                .log = o->log,
                                                .pool = o->pool,
                                                .max_skew_ns = o->max_skew_ns,
                                                .guard = &s->guard,
                                                .write_timeout_ns = o->write_timeout_ns,
                                                .making_ns = o->making_ns,
                                                .each_quorum = true,
                                                .renders_max = o->renders_max,
                                                .due_sample = o->due_sample,
                                                .dc = o->dc,
                                                .buckets = o->buckets,
                                                .buckets_count = o->buckets_count };
    /* The first part that cannot be made ends it; values come last, and their being there says that
     * all are. */
    if (s->titles != NULL)
        s->pages = cassandra_pages_new(&pages, note);
    const struct catalog_opts catalog = { .client = o->client,
                                          .loop = o->loop,
                                          .clock = o->clock,
                                          .keyspace = o->keyspace,
                                          .entropy = o->entropy };
    if (s->pages != NULL)
        s->catalog = catalog_new(&catalog, note);
    if (s->catalog != NULL)
        s->values = cassandra_store_values(s, note);
    if (s->values == NULL) {
        cassandra_store_free(&s);
        return NULL;
    }
    int n = snprintf(s->look_text, sizeof s->look_text,
                     "SELECT value FROM %s.meta WHERE key = 'server'", o->keyspace);
    INVARIANT(n > 0 && (size_t)n < sizeof s->look_text); /* titles_new looked at the keyspace */
    return s;
}

/* From the last made to the first: each uses those before it. */
void cassandra_store_free(struct cassandra_store **sp)
{
    struct cassandra_store *s = *sp;
    *sp = NULL;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    cassandra_sweep_free(&s->sweep);
    values_free(&s->values);
    cassandra_pages_free(&s->pages);
    catalog_watch_free(&s->policies);
    catalog_free(&s->catalog);
    titles_free(&s->titles);
    INVARIANT(pthread_mutex_destroy(&s->told_lock) == 0);
    s->magic = 0;
    free(s);
}

struct page_store *cassandra_store_pages(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return &s->store;
}

struct catalog *cassandra_store_catalog(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    return s->catalog;
}

static void policies_stopped(void *ctx)
{
    (void)ctx; /* the copy stays, for requests that still end */
}

void cassandra_store_close(struct cassandra_store *s)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    /* In this order: no request enters from here on, and the store waits for requests that are
     * entering. */
    atomic_store(&s->state, STORE_CLOSED);
    atomic_store(&s->ready, false);
    while (atomic_load(&s->starting) > 0) /* each for a moment */
        (void)sched_yield();              /* it never fails */
    if (s->sweep != NULL)
        cassandra_sweep_close(s->sweep);
    if (s->policies != NULL)
        catalog_watch_stop(s->policies, policies_stopped, s);
}

void cassandra_store_look(const struct cassandra_store *s, struct cassandra_store_state *out)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    *out = (struct cassandra_store_state){ .open = atomic_load(&s->state) == STORE_OPEN,
                                           .ready = cassandra_store_ready(s),
                                           .whole = atomic_load(&s->fault) == STORE_WHOLE,
                                           .strange = atomic_load(&s->fault) == STORE_STRANGE,
                                           .denied = s->denied,
                                           .skewed = atomic_load(&s->skewed),
                                           .ahead_ns = s->ahead_ns,
                                           .number = s->number };
    (void)snprintf(out->why, sizeof out->why, "%s", s->why.text); /* as long */
}

void cassandra_store_swept(const struct cassandra_store *s, struct cassandra_sweep_figures *out)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    *out = (struct cassandra_sweep_figures){ .ranges = 0 };
    if (s->sweep != NULL)
        cassandra_sweep_figures(s->sweep, out);
}

bool cassandra_store_ready(const struct cassandra_store *s)
{
    struct err_note why;
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    /* Ready is three things: the last read was answered, the tables are there, and the policies are
     * known. */
    return atomic_load(&s->ready) && atomic_load(&s->fault) == STORE_WHOLE &&
           pages_plans_known(s->pages, &why);
}

bool cassandra_store_tell(struct cassandra_store *s, struct err_note *note)
{
    MAGIC_CHECK(s, CASSANDRA_STORE_MAGIC);
    if (cassandra_store_ready(s))
        return true;
    if (atomic_load(&s->fault) != STORE_WHOLE)
        store_fault_note(s, note);
    else if (atomic_load(&s->state) == STORE_OPENING)
        err_note_set(note, STORE_CLOSED_TEXT);
    else if (!atomic_load(&s->ready))
        err_note_set(note, BLAME_AWAY_TEXT);
    else
        return pages_plans_known(s->pages, note); /* they may have come meanwhile */
    return false;
}
