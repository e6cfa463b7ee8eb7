/* operations.c - the seed's table "Comparison: Operation counts", measured: one edit trace through
 * every strategy, counted, with latency and bytes beside.
 *
 *   bench_operations DIR [EDITS]
 *
 * Trace: titles drawn with a skew (u^3), 30 % of the updates are new renders of the same revision,
 * a minute apart on the given clock with pauses, so that a part of them finds something older than
 * grace_ttl (1 d). After each update: eight reads of latest, and for one in four a read of the
 * previous render (an editor), for one in fifty one of an old revision, rendered and stored as
 * historical on a miss. A bundle is html 20 KB, data-parsoid 6 KB, section offsets 300 B. Every
 * strategy sees the same trace; the store syncs each batch. The last row is what the server does
 * instead: one update that decides, writes the bundle and its due row, and culls apart. */
#include "base/arena.h"
#include "base/rng.h"
#include "bucket/page_write.h"
#include "engine/store.h"
#include "strategy/strategy.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define GRACE_NS (86400 * NS_PER_S)
#define START_NS (1767225600 * NS_PER_S)
#define STEP_NS (60 * NS_PER_S)

enum { TITLES = 500, CONTENTS = 3, EDITS = 4000, READS_A_PUT = 8, ARENA_BYTES = 64 << 20 };

struct column {
    const char *name;
    enum strategy_kind kind;
    bool together;
    double probability;
};
static const struct column columns[] = {
    { "app_ttl, bundle, p 0.10", STRATEGY_APP_TTL, true, 0.10 },
    { "app_ttl, bundle, p 1.0", STRATEGY_APP_TTL, true, 1.0 },
    { "app_ttl, apart, p 0.10", STRATEGY_APP_TTL, false, 0.10 },
    { "app_ttl, apart, p 1.0", STRATEGY_APP_TTL, false, 1.0 },
    { "two_table, p 0.10", STRATEGY_TWO_TABLE, false, 0.10 },
    { "two_table, p 1.0", STRATEGY_TWO_TABLE, false, 1.0 },
    { "table_per_query A", STRATEGY_PER_QUERY_A, false, 1.0 },
    { "table_per_query B, p 0.10", STRATEGY_PER_QUERY_B, false, 0.10 },
    { "table_per_query B, p 1.0", STRATEGY_PER_QUERY_B, false, 1.0 },
};

struct traced {
    struct strategy_name_of latest, before;
    unsigned renders;
};

struct trace {
    struct strategy *s;
    struct rng rng;
    struct arena arena;
    struct traced titles[TITLES];
    char *bodies[CONTENTS];
    double *put_us, *get_us;
    unsigned puts, gets, misses;
    store_time now;
};

static const size_t body_bytes[CONTENTS] = { 20000, 6000, 300 };

static double now_us(void)
{
    struct timespec t;
    if (clock_gettime(CLOCK_MONOTONIC, &t) != 0)
        abort();
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec / 1e3;
}

static void bodies_make(struct trace *t)
{
    static const char *const words[] = { "<p>",    "the ",   "render ",        "of ",  "a ",
                                         "page ",  "</p>\n", "<a href=\"#\">", "</a>", "revision ",
                                         "title ", "is ",    "kept " };
    for (unsigned i = 0; i < CONTENTS; i++) {
        t->bodies[i] = malloc(body_bytes[i]);
        if (t->bodies[i] == NULL)
            abort();
        for (size_t n = 0; n < body_bytes[i];) {
            const char *w = words[rng_below(&t->rng, COUNT_OF(words))];
            size_t take = strlen(w) < body_bytes[i] - n ? strlen(w) : body_bytes[i] - n;
            memcpy(t->bodies[i] + n, w, take);
            n += take;
        }
    }
}

static void check(err why, const char *what)
{
    if (why == ERR_OK)
        return;
    fprintf(stderr, "%s: %s\n", what, err_name(why));
    exit(1);
}

static str title_text(unsigned i, char out[16])
{
    int n = snprintf(out, 16, "Title_%u", i);
    return (str){ .p = out, .n = (size_t)n };
}

static void put(struct trace *t, unsigned i)
{
    char text[16];
    struct traced *title = &t->titles[i];
    bool rerender = title->renders > 0 && rng_unit(&t->rng) < 0.3;
    struct strategy_render r = { .domain = 1,
                                 .title = title_text(i, text),
                                 .has_previous = title->renders > 0,
                                 .previous = title->latest,
                                 .name = { .rev = title->latest.rev + (rerender ? 0 : 1),
                                           .tid =
                                               tid_make(tid_ticks(t->now), rng_next(&t->rng)) } };
    for (unsigned c = 0; c < CONTENTS; c++)
        r.contents[c] = (str){ .p = t->bodies[c], .n = body_bytes[c] };
    memcpy(t->bodies[0], &r.name.tid.ticks, sizeof r.name.tid.ticks); /* no two renders are equal */
    double began = now_us();
    check(strategy_put(t->s, &r, t->now), "put");
    t->put_us[t->puts++] = now_us() - began;
    title->before = title->latest;
    title->latest = r.name;
    title->renders++;
}

static void get(struct trace *t, unsigned i, enum strategy_select select,
                struct strategy_name_of name)
{
    char text[16];
    str value;
    struct strategy_name_of got;
    struct strategy_which w = {
        .domain = 1, .title = title_text(i, text), .select = select, .name = name
    };
    double began = now_us();
    err why = strategy_get(t->s, &w, t->now, &t->arena, &got, &value);
    t->get_us[t->gets++] = now_us() - began;
    arena_reset(&t->arena);
    if (why == ERR_NOT_FOUND && select == STRATEGY_REV) {
        struct strategy_render r = { .domain = 1,
                                     .title = w.title,
                                     .name = { .rev = name.rev,
                                               .tid = tid_make(tid_ticks(t->now), 1) } };
        for (unsigned c = 0; c < CONTENTS; c++)
            r.contents[c] = (str){ .p = t->bodies[c], .n = body_bytes[c] };
        t->misses++;
        why = strategy_put_historical(t->s, &r, t->now);
    }
    if (why == ERR_NOT_FOUND && select == STRATEGY_EXACT)
        why = ERR_OK; /* an editor that stayed longer than grace_ttl */
    check(why, "get");
}

static void step(struct trace *t)
{
    double u = rng_unit(&t->rng);
    unsigned i = (unsigned)(u * u * u * TITLES);
    const struct traced *title = &t->titles[i];
    t->now = store_time_add(t->now, STEP_NS);
    put(t, i);
    for (unsigned n = 0; n < READS_A_PUT; n++)
        get(t, i, STRATEGY_LATEST, title->latest);
    if (title->renders > 1 && rng_below(&t->rng, 4) == 0)
        get(t, i, STRATEGY_EXACT, title->before);
    if (title->latest.rev > 1 && rng_below(&t->rng, 50) == 0)
        get(t, i, STRATEGY_REV,
            (struct strategy_name_of){ .rev = 1 + rng_below(&t->rng, title->latest.rev) });
}

/* ---- the server's own way: bucket/page.h ---- */

struct own {
    struct clock clock;
    struct trace *trace;
    struct engine *engine;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
    err why;
    struct home home; /* of one put */
};

static store_time own_store(struct clock *c)
{
    return CONTAINER_OF(c, struct own, clock)->trace->now;
}

/* On the committer: the put is over. */
static void own_over(struct home *h, struct task *t)
{
    struct own *o = CONTAINER_OF(h, struct own, home);
    pthread_mutex_lock(&o->lock);
    o->done = true;
    o->why = CONTAINER_OF(t, struct store_call, task)->why;
    pthread_cond_signal(&o->over);
    pthread_mutex_unlock(&o->lock);
}

static void own_put(struct own *o, unsigned i)
{
    static const char *const names[CONTENTS] = { "html", "data-parsoid", "section-offsets" };
    struct trace *t = o->trace;
    char text[16];
    struct traced *title = &t->titles[i];
    bool rerender = title->renders > 0 && rng_unit(&t->rng) < 0.3;
    struct strategy_name_of name = { .rev = title->latest.rev + (rerender ? 0 : 1),
                                     .tid = tid_make(tid_ticks(t->now), rng_next(&t->rng)) };
    struct page_put p = { .domain = o->domain,
                          .title = title_text(i, text),
                          .rev = name.rev,
                          .has_tid = true,
                          .tid = name.tid,
                          .contents_count = CONTENTS,
                          .arena = &t->arena,
                          .call = { .home = &o->home } };
    memcpy(t->bodies[0], &name.tid.ticks, sizeof name.tid.ticks);
    for (unsigned c = 0; c < CONTENTS; c++)
        p.contents[c] =
            (struct page_put_content){ .name = str_of(names[c]),
                                       .headers = STR("content-type: text/html\n"),
                                       .raw = { .p = t->bodies[c], .n = body_bytes[c] } };
    o->done = false;
    double began = now_us();
    if (page_put_start(o->bucket, &p) == STORE_DONE)
        check(p.call.why, "put");
    pthread_mutex_lock(&o->lock);
    while (!o->done)
        pthread_cond_wait(&o->over, &o->lock);
    pthread_mutex_unlock(&o->lock);
    t->put_us[t->puts++] = now_us() - began;
    check(o->why, "put");
    arena_reset(&t->arena);
    title->before = title->latest;
    title->latest = name;
    title->renders++;
}

static void own_get(struct own *o, unsigned i, enum page_select select,
                    struct strategy_name_of name)
{
    struct trace *t = o->trace;
    char text[16];
    struct page_bytes bytes;
    struct page_render r;
    struct page_which w = { .domain = o->domain,
                            .title = title_text(i, text),
                            .select = select,
                            .name = { .rev = name.rev, .tid = name.tid } };
    double began = now_us();
    struct engine_view *v = engine_view_begin(o->engine);
    err why = page_find(o->bucket, v, &w, &r, NULL);
    if (why == ERR_OK)
        why =
            page_read(o->bucket, &r, page_content_find(&r, STR("html")), &t->arena, false, &bytes);
    engine_view_end(&v);
    t->get_us[t->gets++] = now_us() - began;
    arena_reset(&t->arena);
    if (why !=
        ERR_GONE) /* an editor that stayed longer than grace_ttl; a revision that was culled */
        check(why, "get");
}

static void own_step(struct own *o)
{
    struct trace *t = o->trace;
    double u = rng_unit(&t->rng);
    unsigned i = (unsigned)(u * u * u * TITLES);
    const struct traced *title = &t->titles[i];
    bool more = true;
    store_time next;
    t->now = store_time_add(t->now, STEP_NS);
    own_put(o, i);
    for (unsigned n = 0; n < READS_A_PUT; n++)
        own_get(o, i, SELECT_LATEST, title->latest);
    if (title->renders > 1 && rng_below(&t->rng, 4) == 0)
        own_get(o, i, SELECT_EXACT, title->before);
    if (title->latest.rev > 1 && rng_below(&t->rng, 50) == 0)
        own_get(o, i, SELECT_REV,
                (struct strategy_name_of){ .rev = 1 + rng_below(&t->rng, title->latest.rev) });
    while (more)
        check(pages_upkeep(o->pages, &more, &next), "upkeep");
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double quantile(double *values, unsigned count, double q)
{
    qsort(values, count, sizeof values[0], by_value);
    return values[(unsigned)(q * (count - 1))];
}

static void print_row(struct trace *t, const struct column *col)
{
    const struct strategy_counts *c = strategy_counts_of(t->s);
    uint64_t rows, bytes, removed;
    double n = (double)c->updates, g = (double)c->gets;
    double get_reads = (double)c->reads;
    check(strategy_expire(t->s, t->now, &removed), "expire");
    check(strategy_size(t->s, &rows, &bytes), "size");
    if (col->kind != STRATEGY_APP_TTL)
        get_reads -= n * CONTENTS; /* the read before each update */
    printf("| %s | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.2f | %.1f | %.0f / %.0f | %.1f / "
           "%.1f | %.1f |\n",
           col->name, get_reads / g, col->kind == STRATEGY_APP_TTL ? 0.0 : (double)CONTENTS,
           (double)c->writes / n, (double)c->index_writes / n, (double)c->index_reads / n,
           (double)c->range_deletes / n, (double)c->batches / n,
           (double)c->bytes_written / n / 1024, quantile(t->put_us, t->puts, 0.5),
           quantile(t->put_us, t->puts, 0.99), quantile(t->get_us, t->gets, 0.5),
           quantile(t->get_us, t->gets, 0.99), (double)bytes / (1 << 20));
    fflush(stdout);
}

static struct trace *trace_new(unsigned edits)
{
    struct trace *t = calloc(1, sizeof *t);
    if (t == NULL || (t->put_us = calloc(edits, sizeof(double))) == NULL ||
        (t->get_us = calloc((size_t)edits * (READS_A_PUT + 2), sizeof(double))) == NULL)
        abort();
    rng_init(&t->rng, 42);
    arena_init(&t->arena, ARENA_BYTES);
    bodies_make(t);
    t->now = (store_time){ .ns = START_NS };
    return t;
}

static void trace_free(struct trace *t)
{
    arena_fini(&t->arena);
    for (unsigned i = 0; i < CONTENTS; i++)
        free(t->bodies[i]);
    free(t->put_us);
    free(t->get_us);
    free(t);
}

static void run(struct engine *e, const struct column *col, uint8_t instance, unsigned edits)
{
    struct trace *t = trace_new(edits);
    t->s = strategy_new(&(struct strategy_opts){ .engine = e,
                                                 .kind = col->kind,
                                                 .instance = instance,
                                                 .contents = CONTENTS,
                                                 .together = col->together,
                                                 .delete_probability = col->probability,
                                                 .grace_ttl_ns = GRACE_NS,
                                                 .historical_ttl_ns = GRACE_NS,
                                                 .seed = 7 });
    for (unsigned i = 0; i < edits; i++)
        step(t);
    print_row(t, col);
    strategy_free(&t->s);
    trace_free(t);
}

static store_time bench_store(struct clock *c)
{
    (void)c;
    return (store_time){ .ns = (int64_t)(now_us() * 1e3) };
}

static mono bench_mono(struct clock *c)
{
    return (mono){ .ns = bench_store(c).ns };
}

static wall bench_wall(struct clock *c)
{
    return (wall){ .ns = bench_store(c).ns };
}

static void own_print(const struct own *o, unsigned edits)
{
    struct trace *t = o->trace;
    struct engine_stats stats;
    check(engine_flush(o->engine), "flush");
    engine_stats_get(o->engine, &stats);
    printf("| palimpsest's page bucket | %.2f | 0.00 | 1.00 | 1.00 | 0.00 | 0.00 | 1.00 | %.1f | "
           "%.0f / %.0f | %.1f / %.1f |"
           " %.1f |\n",
           1.0, (double)stats.log_bytes_written / edits / 1024, quantile(t->put_us, t->puts, 0.5),
           quantile(t->put_us, t->puts, 0.99), quantile(t->get_us, t->gets, 0.5),
           quantile(t->get_us, t->gets, 0.99), (double)stats.live_bytes / (1 << 20));
}

static void own_run(const char *dir, unsigned edits)
{
    char path[4096];
    struct err_note note = { "" };
    store_time greatest;
    struct own o = { .clock = { own_store, bench_mono, bench_wall },
                     .trace = trace_new(edits),
                     .home.post = own_over };
    struct page_bucket_opts bucket = { .name = "page",
                                       .codec = PAGE_GZIP,
                                       .policy = { .kind = POLICY_APP_TTL,
                                                   .grace_ttl_ns = GRACE_NS,
                                                   .historical_ttl_ns = GRACE_NS,
                                                   .stash_ttl_ns = GRACE_NS,
                                                   .ledger_ttl_ns = 30 * GRACE_NS } };
    (void)snprintf(path, sizeof path, "%s/pages", dir);
    struct engine_opts opts = { .dir = path };
    pthread_mutex_init(&o.lock, NULL);
    pthread_cond_init(&o.over, NULL);
    check(engine_open(&opts, &o.engine, &greatest, &note), note.text);
    check(engine_start(o.engine, &o.clock, &note), note.text);
    const struct pages_opts pages = { o.engine, &o.clock, 7, &bucket, 1 };
    check(pages_new(&pages, &o.pages, &note), note.text);
    check(pages_domain(o.pages, STR("bench.test"), &o.domain), "domain");
    o.bucket = pages_find(o.pages, STR("page"));
    for (unsigned i = 0; i < edits; i++)
        own_step(&o);
    own_print(&o, edits);
    pages_free(&o.pages);
    engine_close(&o.engine);
    trace_free(o.trace);
}

int main(int argc, char **argv)
{
    struct clock clock = { bench_store, bench_mono, bench_wall };
    struct engine *e;
    struct err_note note = { "" };
    store_time greatest;
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIR [EDITS]\n", argv[0]);
        return 2;
    }
    unsigned edits = argc > 2 ? (unsigned)strtod(argv[2], NULL) : EDITS;
    struct engine_opts opts = { .dir = argv[1] };
    if (engine_open(&opts, &e, &greatest, &note) != ERR_OK ||
        engine_start(e, &clock, &note) != ERR_OK) {
        fprintf(stderr, "%s\n", note.text);
        return 1;
    }
    printf("%u updates of a bundle of %d contents; figures a get or an update\n\n", edits,
           CONTENTS);
    printf(
        "| strategy | reads a get | reads an update | writes | index writes | index reads | range "
        "deletes | round trips |"
        " KB written | put p50 / p99 us | get p50 / p99 us | MB kept at the end |\n"
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |\n");
    for (unsigned i = 0; i < COUNT_OF(columns); i++)
        run(e, &columns[i], (uint8_t)i, edits);
    engine_close(&e);
    own_run(argv[1], edits);
    return 0;
}
