/* wikis.c - the seed's table "Edits by wiki": entries a timeline holds at 30 and 10 days, unsampled
 * and sampled.
 *
 *   bench_wikis DIR [ENTRIES_PER_S [BURST [SCALE]]]
 *
 * Edits arrive by a Poisson process of each wiki's daily rate; every edit supersedes one revision
 * and is offered to the revision timeline in a real store in DIR. Printed: the seed's figure, what
 * was stored without sampling, what was stored with it, and the longest and 99th-percentile time
 * between two kept entries: how stale the answer to "what may be culled" gets. SCALE < 1 shortens
 * the run; figures are then scaled back. */
#include "base/arena.h"
#include "base/rng.h"
#include "engine/store.h"
#include "timeline/timeline.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define DAY_S 86400.0

enum { BATCH = 1000, TITLES = 20000, GAPS_MAX = 8 << 20 };

struct wiki {
    const char *name;
    double per_day;
    unsigned seed_30d, seed_10d;
};
static const struct wiki wikis[] = {
    { "mkwikimedia", 1.3, 39, 13 },
    { "cebwiki", 29578, 887340, 295780 },
    { "commonswiki", 151434, 4543020, 1514340 },
    { "enwiki", 186497, 5594910, 1864970 },
};

struct run {
    struct engine *engine;
    struct timeline_sampler *sampler;
    struct rng rng;
    uint32_t domain;
    double days;
    struct timeline_entry batch[BATCH];
    unsigned titles[BATCH], batch_count;
    uint64_t offered, kept, kept_10d;
    double *gaps;
    unsigned gaps_count;
};

static err store_batch(struct engine_txn *t, void *ctx)
{
    struct run *r = ctx;
    for (unsigned i = 0; i < r->batch_count; i++) {
        char title[32];
        int n = snprintf(title, sizeof title, "Title %u", r->titles[i]);
        struct timeline_where w = { .kind = TIMELINE_REVISION,
                                    .domain = r->domain,
                                    .title = { .p = title, .n = (size_t)n } };
        err why = timeline_add(t, &w, &r->batch[i]);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

static void flush(struct run *r)
{
    if (r->batch_count == 0)
        return;
    if (engine_update_wait(r->engine, store_batch, r) != ERR_OK)
        abort();
    r->batch_count = 0;
}

static void keep(struct run *r, double at_s, double *last_s)
{
    r->kept++;
    if (at_s >= (r->days - 10) * DAY_S)
        r->kept_10d++;
    if (*last_s >= 0 && r->gaps_count < GAPS_MAX)
        r->gaps[r->gaps_count++] = at_s - *last_s;
    *last_s = at_s;
    r->titles[r->batch_count] = (unsigned)rng_below(&r->rng, TITLES);
    r->batch[r->batch_count++] =
        (struct timeline_entry){ .at = { .ns = (int64_t)(at_s * (double)NS_PER_S) },
                                 .rev = r->offered };
    if (r->batch_count == BATCH)
        flush(r);
}

static void simulate(struct run *r, double per_day)
{
    double at_s = 0, last_s = -1;
    for (;;) {
        at_s += -log(1.0 - rng_unit(&r->rng)) * DAY_S / per_day;
        if (at_s >= r->days * DAY_S)
            break;
        r->offered++;
        if (timeline_sample(r->sampler, r->domain,
                            (store_time){ .ns = (int64_t)(at_s * (double)NS_PER_S) }))
            keep(r, at_s, &last_s);
    }
    flush(r);
}

static int by_value(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static uint64_t counted(struct engine *e, uint32_t domain)
{
    uint64_t n = 0;
    struct engine_view *v = engine_view_begin(e);
    if (timeline_count(v, TIMELINE_REVISION, domain, &n) != ERR_OK)
        abort();
    engine_view_end(&v);
    return n;
}

struct outcome {
    uint64_t stored, stored_10d;
    double gap_p99_s, gap_max_s;
};

static struct outcome one(struct engine *e, const struct wiki *w, uint32_t domain,
                          const struct timeline_sampler_opts *opts, double scale)
{
    struct run *r = calloc(1, sizeof *r);
    if (r == NULL || (r->gaps = malloc(GAPS_MAX * sizeof r->gaps[0])) == NULL)
        abort();
    r->engine = e;
    r->domain = domain;
    r->days = 10 + 20 * scale;
    r->sampler = timeline_sampler_new(opts);
    rng_init(&r->rng, 20260101 + domain);
    simulate(r, w->per_day);
    uint64_t stored = counted(e, domain);
    if (stored != r->kept)
        abort(); /* a timeline that loses entries is not worth a table */
    qsort(r->gaps, r->gaps_count, sizeof r->gaps[0], by_value);
    struct outcome out = { .stored = (uint64_t)((double)stored * 30 / r->days),
                           .stored_10d = r->kept_10d };
    if (r->gaps_count > 0) {
        out.gap_p99_s = r->gaps[(unsigned)(0.99 * (r->gaps_count - 1))];
        out.gap_max_s = r->gaps[r->gaps_count - 1];
    }
    timeline_sampler_free(&r->sampler);
    free(r->gaps);
    free(r);
    return out;
}

static store_time bench_store(struct clock *c)
{
    struct timespec now;
    (void)c;
    if (clock_gettime(CLOCK_REALTIME, &now) != 0)
        abort();
    return (store_time){ .ns = now.tv_sec * NS_PER_S + now.tv_nsec };
}

static mono bench_mono(struct clock *c)
{
    return (mono){ .ns = bench_store(c).ns };
}

static wall bench_wall(struct clock *c)
{
    return (wall){ .ns = bench_store(c).ns };
}

static double number(int argc, char **argv, int i, double otherwise)
{
    return i < argc ? strtod(argv[i], NULL) : otherwise;
}

int main(int argc, char **argv)
{
    struct clock clock = { bench_store, bench_mono, bench_wall };
    struct engine *e;
    struct err_note note = { "" };
    store_time greatest;
    if (argc < 2) {
        fprintf(stderr, "usage: %s DIR [ENTRIES_PER_S [BURST [SCALE]]]\n", argv[0]);
        return 2;
    }
    struct timeline_sampler_opts sampled = { .entries_per_s = number(argc, argv, 2, 0.02),
                                             .burst = number(argc, argv, 3, 60),
                                             .domains_max = 64 };
    struct timeline_sampler_opts all = { .domains_max = 64 };
    double scale = number(argc, argv, 4, 1);
    struct engine_opts opts = { .dir = argv[1] };
    if (engine_open(&opts, &e, &greatest, &note) != ERR_OK ||
        engine_start(e, &clock, &note) != ERR_OK) {
        fprintf(stderr, "%s\n", note.text);
        return 1;
    }
    printf("sampling: %.3g entries/s a domain, burst %.0f\n\n", sampled.entries_per_s,
           sampled.burst);
    printf("| wiki | edits/day | 30d seed | 30d stored | 30d sampled | 10d seed | 10d stored | 10d "
           "sampled | gap p99, max"
           " unsampled | gap p99, max sampled |\n| --- | ---: | ---: | ---: | ---: | ---: | ---: | "
           "---: | ---: | ---: |\n");
    for (unsigned i = 0; i < COUNT_OF(wikis); i++) {
        struct outcome u = one(e, &wikis[i], 1 + i, &all, scale);
        struct outcome s = one(e, &wikis[i], 33 + i, &sampled, scale);
        printf("| %s | %.6g | %u | %llu | %llu | %u | %llu | %llu | %.3g s, %.3g s | %.3g s, %.3g "
               "s |\n",
               wikis[i].name, wikis[i].per_day, wikis[i].seed_30d, (unsigned long long)u.stored,
               (unsigned long long)s.stored, wikis[i].seed_10d, (unsigned long long)u.stored_10d,
               (unsigned long long)s.stored_10d, u.gap_p99_s, u.gap_max_s, s.gap_p99_s,
               s.gap_max_s);
        fflush(stdout);
    }
    struct engine_stats stats;
    engine_stats_get(e, &stats);
    printf("\nstore: %llu rows, index %llu MiB\n", (unsigned long long)stats.rows,
           (unsigned long long)(stats.index_bytes >> 20));
    engine_close(&e);
    return 0;
}
