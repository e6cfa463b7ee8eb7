/* run.c - one strategy through the trace, at a real Cassandra: what it answered wrong, what it
 * asked of Cassandra, how long that took, and what is left there. One line of JSON. What bytes went
 * over the wire, and what lies on disk, bench/strategies.py sees from outside.
 *
 * usage: cql_strategies POINT DC KEYSPACE VARIANT [NAME=VALUE...]
 *        cql_strategies variants
 *        cql_strategies POINT DC KEYSPACE timelines
 * The keyspace is there, and empty. Names: p (of a range delete, 1), creations (600), titles (30),
 * days (30), workers (1), seed (1), looks (4), olds (0.25), entries (of a sampled timeline, a day
 * and domain, 5), count (1: requests are counted by what asked for them; it takes time).
 *
 * A title is one worker's, and each worker goes through its events in order of time. Two puts at
 * once are two threads. The trace ends at the machine's time. */
#include "strategies/oracle.h"
#include "strategies/timelines.h"
#include "strategies/trace.h"

#include "base/buf.h"
#include "loop/sysclock.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WORKERS_MAX = 8, POOL_BYTES = 1 << 20, EDIT_BYTES = 200, QUIET_EVERY = 10 };
#define TTL_NS (86400 * NS_PER_S)

enum op { OP_PUT, OP_CULL, OP_KEEP, OP_LATEST, OP_NAMED, OPS };
static const char *const op_names[OPS] = { "put", "cull", "keep", "read_latest", "read_named" };

struct figures {
    uint64_t done[OPS], requests[OPS];
    double *took_us[OPS];
};
struct slot {
    bool found;
    struct page_name name;
};
struct run {
    struct databases *all;
    const struct strategy_variant *variant;
    struct trace trace;
    struct oracle_title *titles;
    struct slot *slots;
    struct sampling sampling;
    char *pool;
    double p;
    double entries; /* of a sampled timeline, a day and domain */
    unsigned workers;
    bool counts;
};
struct worker {
    struct run *run;
    unsigned number;
    struct strategy strategy;
    struct figures figures;
    struct tally tally;
    pthread_t thread;
};
struct bundle { /* a render, its title and its contents */
    struct render render;
    char title[24];
    char contents[CONTENTS][CONTENT_BYTES_MAX];
};

/* ---- bodies ---- */

static char *pool_make(struct rng *rng)
{
    static const char *const words[] = { "<p>",    "the ",   "render ",        "of ",  "a ",
                                         "page ",  "</p>\n", "<a href=\"#\">", "</a>", "revision ",
                                         "title ", "is ",    "kept " };
    char *pool = malloc(POOL_BYTES);
    INVARIANT(pool != NULL);
    for (size_t n = 0; n < POOL_BYTES;) {
        const char *w = words[rng_below(rng, COUNT_OF(words))];
        size_t take = strlen(w) < POOL_BYTES - n ? strlen(w) : POOL_BYTES - n;
        memcpy(pool + n, w, take);
        n += take;
    }
    return pool;
}

/* The text of a title, of which each render changes a sentence: renders of a page are alike. */
static void bundle_make(const struct run *r, const struct event *e, struct page_name name,
                        struct bundle *b)
{
    int n = snprintf(b->title, sizeof b->title, "Title_%u", e->title);
    b->render = (struct render){ .domain = e->title % QUIET_EVERY == QUIET_EVERY - 1 ? STR("quiet")
                                                                                     : STR("busy"),
                                 .title = { .p = b->title, .n = (size_t)n },
                                 .name = name };
    for (unsigned i = 0; i < CONTENTS; i++) {
        struct rng rng;
        rng_init(&rng, e->title * CONTENTS + i);
        memcpy(b->contents[i], r->pool + rng_below(&rng, POOL_BYTES - CONTENT_BYTES_MAX),
               content_bytes[i]);
        rng_init(&rng, name.tid.ticks ^ name.tid.low);
        memcpy(b->contents[i] + rng_below(&rng, content_bytes[i] - EDIT_BYTES),
               r->pool + rng_below(&rng, POOL_BYTES - EDIT_BYTES), EDIT_BYTES);
        head_make(name, b->contents[i]);
        b->render.contents[i] = (str){ .p = b->contents[i], .n = content_bytes[i] };
    }
}

/* ---- operations, with their figures ---- */

static double clock_us(struct worker *w)
{
    return (double)clock_mono(databases_clock(w->run->all)).ns / (double)NS_PER_US;
}

static uint64_t requests_now(struct worker *w)
{
    return w->run->counts ? database_requests(w->strategy.db) : 0;
}

/* A thousand at a time, so that growing costs no measured time worth naming. */
static void figure_add(struct figures *f, enum op op, double us, uint64_t requests)
{
    if (f->done[op] % 1000 == 0) {
        f->took_us[op] = realloc(f->took_us[op], (f->done[op] + 1000) * sizeof(double));
        INVARIANT(f->took_us[op] != NULL);
    }
    f->took_us[op][f->done[op]++] = us;
    f->requests[op] += requests;
}

static bool look(struct worker *w, const struct event *e, struct lookup *l)
{
    uint64_t before = requests_now(w);
    double began = clock_us(w);
    bool found = w->strategy.kind->get(&w->strategy, l, e->at);
    figure_add(&w->figures, l->select == SELECT_LATEST ? OP_LATEST : OP_NAMED, clock_us(w) - began,
               requests_now(w) - before);
    oracle_judge(&w->run->titles[e->title], l, found, e->at, &w->tally);
    return found;
}

struct putting {
    struct worker *worker;
    struct bundle bundle;
    store_time at;
    double took_us;
    pthread_t thread;
};

static void *put_run(void *ctx)
{
    struct putting *p = ctx;
    struct strategy *s = &p->worker->strategy;
    double began = clock_us(p->worker);
    s->kind->put(s, &p->bundle.render, p->at);
    p->took_us = clock_us(p->worker) - began;
    return NULL;
}

static void putting_make(struct worker *w, const struct event *e, const struct made *m,
                         unsigned server, struct putting *p)
{
    p->worker = w;
    p->at = store_time_add(e->at, server * NS_PER_MS);
    bundle_make(w->run, e, m->name, &p->bundle);
    p->bundle.render.previous = m->previous;
    p->bundle.render.culls = e->draw < w->run->p;
    p->bundle.render.server = server;
}

static void cull(struct worker *w, const struct putting *p)
{
    const struct strategy_kind *kind = w->strategy.kind;
    if (!p->bundle.render.culls || kind->cull == NULL)
        return;
    uint64_t before = requests_now(w);
    double began = clock_us(w);
    kind->cull(&w->strategy, &p->bundle.render, p->at);
    figure_add(&w->figures, OP_CULL, clock_us(w) - began, requests_now(w) - before);
}

static void event_put(struct worker *w, const struct event *e)
{
    static const struct made *const none = NULL;
    const struct made *second = e->kind == EVENT_RACE ? &e->second : none;
    struct putting *p = calloc(SERVERS, sizeof *p);
    INVARIANT(p != NULL);
    unsigned count = second == none ? 1 : 2;
    uint64_t before = requests_now(w);
    for (unsigned i = 0; i < count; i++)
        putting_make(w, e, i == 0 ? &e->made : second, i, &p[i]);
    for (unsigned i = 1; i < count; i++)
        INVARIANT(pthread_create(&p[i].thread, NULL, put_run, &p[i]) == 0);
    (void)put_run(&p[0]);
    for (unsigned i = 1; i < count; i++)
        INVARIANT(pthread_join(p[i].thread, NULL) == 0);
    uint64_t requests = requests_now(w) - before;
    for (unsigned i = 0; i < count; i++) {
        figure_add(&w->figures, OP_PUT, p[i].took_us, i == 0 ? requests : 0);
        oracle_put(&w->run->titles[e->title], p[i].bundle.render.name, false, p[i].at);
    }
    for (unsigned i = 0; i < count; i++)
        cull(w, &p[i]);
    free(p);
}

/* Rendered on request, as of now. */
static struct page_name keep(struct worker *w, const struct event *e)
{
    struct bundle *b = malloc(sizeof *b);
    struct rng rng;
    INVARIANT(b != NULL);
    rng_init(&rng, (uint64_t)e->at.ns);
    struct page_name name = { .rev = e->made.name.rev,
                              .tid = tid_make(tid_ticks(e->at), rng_next(&rng)) };
    bundle_make(w->run, e, name, b);
    uint64_t before = requests_now(w);
    double began = clock_us(w);
    w->strategy.kind->keep(&w->strategy, &b->render, e->at);
    figure_add(&w->figures, OP_KEEP, clock_us(w) - began, requests_now(w) - before);
    oracle_put(&w->run->titles[e->title], name, true, e->at);
    free(b);
    return name;
}

/* ---- events ---- */

static struct lookup lookup_of(const struct event *e, char title[24], enum page_select select,
                               struct page_name name)
{
    int n = snprintf(title, 24, "Title_%u", e->title);
    bool quiet = e->title % QUIET_EVERY == QUIET_EVERY - 1;
    return (struct lookup){ .domain = quiet ? STR("quiet") : STR("busy"),
                            .title = { .p = title, .n = (size_t)n },
                            .select = select,
                            .name = name };
}

static void event_look(struct worker *w, const struct event *e)
{
    char title[24];
    struct slot *slot = &w->run->slots[e->slot];
    bool latest = e->kind == EVENT_LATEST || e->kind == EVENT_OPEN;
    struct lookup l = lookup_of(e, title, latest ? SELECT_LATEST : SELECT_REV, e->made.name);
    bool found = look(w, e, &l);
    if (e->kind == EVENT_LATEST)
        return;
    *slot = (struct slot){ .found = found, .name = l.got };
    if (e->kind == EVENT_OLD && !found)
        *slot = (struct slot){ .found = true, .name = keep(w, e) };
    if (e->kind == EVENT_OPEN && found) {
        struct lookup more = lookup_of(e, title, SELECT_EXACT, l.got);
        more.content = 1;
        (void)look(w, e, &more); /* judged there */
    }
}

static void event_look_again(struct worker *w, const struct event *e)
{
    char title[24];
    const struct slot *slot = &w->run->slots[e->slot];
    if (e->kind != EVENT_KNOWN && !slot->found)
        return;
    struct lookup l =
        lookup_of(e, title, SELECT_EXACT, e->kind == EVENT_KNOWN ? e->made.name : slot->name);
    (void)look(w, e, &l); /* judged there */
    if (e->kind != EVENT_CLOSE)
        return;
    l.content = 1;
    (void)look(w, e, &l);
}

static void *worker_run(void *ctx)
{
    struct worker *w = ctx;
    const struct trace *t = &w->run->trace;
    for (unsigned i = 0; i < t->count; i++) {
        const struct event *e = &t->events[i];
        if (e->title % w->run->workers != w->number)
            continue;
        switch (e->kind) {
        case EVENT_PUT:
        case EVENT_RACE:
            event_put(w, e);
            break;
        case EVENT_LATEST:
        case EVENT_OPEN:
        case EVENT_OLD:
            event_look(w, e);
            break;
        case EVENT_CLOSE:
        case EVENT_BACK:
        case EVENT_KNOWN:
            event_look_again(w, e);
            break;
        }
    }
    return NULL;
}

/* ---- the end ---- */

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static void worker_merge(struct worker *to, const struct worker *w)
{
    for (unsigned op = 0; op < OPS; op++) {
        for (uint64_t i = 0; i < w->figures.done[op]; i++)
            figure_add(&to->figures, op, w->figures.took_us[op][i], 0);
        to->figures.requests[op] += w->figures.requests[op];
    }
    for (unsigned d = 0; d < DUTIES; d++) {
        to->tally.asked[d] += w->tally.asked[d];
        to->tally.missing[d] += w->tally.missing[d];
        to->tally.other[d] += w->tally.other[d];
    }
    to->tally.mixed += w->tally.mixed;
}

/* Rows of html that a reader could find. */
static uint64_t rows_count(struct strategy *s, const struct cql_statement *const *counts,
                           store_time now)
{
    uint64_t rows = 0;
    for (; *counts != NULL; counts++) {
        struct cql_cell cell;
        int64_t n = 0;
        struct step *st = step_new(s->db, now);
        (void)step_read(st, *counts);
        step_run(st);
        INVARIANT(step_row(st, 0, &cell) && cql_get_i64(&cell, &n));
        rows += (uint64_t)n;
        step_free(&st);
    }
    return rows;
}

static void print(struct worker *all, uint64_t rows)
{
    const struct run *r = all->run;
    unsigned needed = 0;
    for (unsigned i = 0; i < r->trace.opts.titles; i++)
        needed += oracle_needed(&r->titles[i], r->trace.opts.end);
    printf("{\"variant\": \"%s\", \"p\": %g, \"puts\": %u, \"late_puts\": %u, \"races\": %u, "
           "\"rows\": %llu, \"needed\": %u, \"mixed\": %llu",
           r->variant->name, r->p, r->trace.puts, r->trace.late, r->trace.races,
           (unsigned long long)rows, needed, (unsigned long long)all->tally.mixed);
    for (unsigned d = 0; d < DUTY_NONE; d++)
        printf(", \"%s\": {\"asked\": %llu, \"missing\": %llu, \"other\": %llu}", duty_name(d),
               (unsigned long long)all->tally.asked[d], (unsigned long long)all->tally.missing[d],
               (unsigned long long)all->tally.other[d]);
    for (unsigned op = 0; op < OPS; op++) {
        uint64_t n = all->figures.done[op];
        double *us = all->figures.took_us[op];
        if (n > 0)
            qsort(us, n, sizeof *us, by_value);
        printf(", \"%s\": {\"done\": %llu, \"requests\": %llu, \"p50_us\": %.0f, \"p99_us\": %.0f}",
               op_names[op], (unsigned long long)n, (unsigned long long)all->figures.requests[op],
               n > 0 ? us[n / 2] : 0, n > 0 ? us[n - 1 - n / 100] : 0);
    }
    printf("}\n");
}

static void workers_run(struct run *r, char **argv)
{
    struct worker *w = calloc(r->workers, sizeof *w);
    const struct cql_statement *counts[8] = { NULL };
    INVARIANT(w != NULL);
    for (unsigned i = 0; i < r->workers; i++) {
        w[i] = (struct worker){ .run = r, .number = i };
        struct database *db = database_open(r->all, argv[1], argv[2], argv[3]);
        strategy_init(&w[i].strategy, r->variant, db, TTL_NS);
        w[i].strategy.sampling = &r->sampling;
        if (r->variant->kind == &ours_kind)
            ours_init(&w[i].strategy, r->all, i);
    }
    for (unsigned i = 0; r->variant->kind->counts[i] != NULL; i++)
        counts[i] = database_statement(w[0].strategy.db, r->variant->kind->counts[i], 0);
    databases_run(r->all);
    for (unsigned i = 0; i < r->workers; i++)
        database_wait_ready(w[i].strategy.db);
    r->variant->kind->tables(&w[0].strategy);
    for (unsigned i = 0; i < r->workers; i++)
        INVARIANT(pthread_create(&w[i].thread, NULL, worker_run, &w[i]) == 0);
    for (unsigned i = 0; i < r->workers; i++)
        INVARIANT(pthread_join(w[i].thread, NULL) == 0);
    for (unsigned i = 1; i < r->workers; i++)
        worker_merge(&w[0], &w[i]);
    print(&w[0], rows_count(&w[0].strategy, counts, r->trace.opts.end));
    databases_free(&r->all);
    for (unsigned i = 0; i < r->workers; i++) {
        ours_fini(&w[i].strategy);
        for (unsigned op = 0; op < OPS; op++)
            free(w[i].figures.took_us[op]);
    }
    free(w);
}

static void run_make(struct run *r, const struct trace_opts *o)
{
    struct rng rng;
    rng_init(&rng, o->seed + 1);
    r->pool = pool_make(&rng);
    trace_make(&r->trace, o);
    r->titles = calloc(o->titles, sizeof *r->titles);
    r->slots = calloc(r->trace.slots + 1, sizeof *r->slots);
    INVARIANT(r->titles != NULL && r->slots != NULL);
    for (unsigned i = 0; i < o->titles; i++)
        oracle_init(&r->titles[i], o->ttl_ns);
    const struct timeline_sampler_opts sampler = { .entries_per_s = r->entries / 86400,
                                                   .burst = 4,
                                                   .domains_max = 2 };
    r->sampling.sampler = timeline_sampler_new(&sampler);
    INVARIANT(pthread_mutex_init(&r->sampling.lock, NULL) == 0);
}

static void run_fini(struct run *r)
{
    for (unsigned i = 0; i < r->trace.opts.titles; i++)
        oracle_fini(&r->titles[i]);
    timeline_sampler_free(&r->sampling.sampler);
    INVARIANT(pthread_mutex_destroy(&r->sampling.lock) == 0);
    free(r->titles);
    free(r->slots);
    free(r->pool);
    trace_fini(&r->trace);
}

/* The value of a name among NAME=VALUE; otherwise, when it is not said. */
static double option(char **words, const char *name, double otherwise)
{
    size_t n = strlen(name);
    for (; *words != NULL; words++)
        if (strncmp(*words, name, n) == 0 && (*words)[n] == '=')
            return strtod(*words + n + 1, NULL);
    return otherwise;
}

static int usage(void)
{
    fprintf(stderr, "usage: cql_strategies POINT DC KEYSPACE VARIANT|timelines [NAME=VALUE...]\n"
                    "       cql_strategies variants\n");
    return 2;
}

int main(int argc, char **argv)
{
    if (argc == 2 && strcmp(argv[1], "variants") == 0) {
        strategy_variants_print();
        return 0;
    }
    if (argc < 5)
        return usage();
    struct run r = { .all = databases_new() };
    store_time end = { .ns = clock_wall(databases_clock(r.all)).ns };
    if (strcmp(argv[4], "timelines") == 0)
        return timelines_run(r.all, argv, end);
    r.variant = strategy_variant(argv[4]);
    if (r.variant == NULL)
        return usage();
    r.p = option(argv, "p", 1);
    r.entries = option(argv, "entries", 5);
    r.workers = (unsigned)option(argv, "workers", 1);
    r.counts = option(argv, "count", 0) > 0;
    const struct trace_opts o = {
        .seed = (uint64_t)option(argv, "seed", 1),
        .titles = (unsigned)option(argv, "titles", 30),
        .creations = (unsigned)option(argv, "creations", 600),
        .begin = store_time_add(end, -(int64_t)(option(argv, "days", 30) * 86400) * NS_PER_S),
        .end = end,
        .ttl_ns = TTL_NS,
        .looks = (unsigned)option(argv, "looks", 4),
        .olds = option(argv, "olds", 0.25)
    };
    if (r.workers < 1 || r.workers > WORKERS_MAX || o.titles < 1 || o.creations < 1)
        return usage();
    run_make(&r, &o);
    workers_run(&r, argv);
    run_fini(&r);
    return 0;
}
