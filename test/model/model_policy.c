/* Goal: what one group of the committer decides beside another policy is by that policy, or by the
 * one before where that fails; who reads in between finds no damage. Method: the embedded engine,
 * held up by an update, until the updates of the next group stand in their order.
 *
 *   model_policy [DIR] */
#include "bucket/page.h"
#include "engine/store.h"
#include "lib/clock.h"
#include "lib/wait.h"
#include "sync.h"

#include <ftw.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdio.h>
#include <unistd.h>

#define T0 ((int64_t)1767225600 * NS_PER_S)

struct stage {
    const char *dir;
    struct fake_clock clock;
    struct engine *engine;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    struct engine_update hold, look;
    sem_t held, go;
    err looked;        /* by a reader: all of the group is visible, the policies are not told */
    unsigned plan_was; /* its number then */
    struct page_policy next;
    err ended; /* what the policies got */
    pthread_t policies, write;
};

static void stage_open(struct stage *s, enum page_policy_kind kind, uint64_t free_bytes_min)
{
    struct err_note note = { "" };
    store_time greatest;
    const struct engine_opts opts = { .dir = s->dir,
                                      .segment_bytes = 1u << 20,
                                      .map_bytes = 1u << 28,
                                      .free_bytes_min = free_bytes_min };
    const struct page_bucket_opts bucket = { .name = "page", .policy = { .kind = kind } };
    INVARIANT(engine_open(&opts, &s->engine, &greatest, &note) == ERR_OK);
    INVARIANT(engine_start(s->engine, &s->clock.clock, &note) == ERR_OK);
    const struct pages_opts all = { s->engine, &s->clock.clock, 5, &bucket, 1 };
    INVARIANT(pages_new(&all, &s->pages, &note) == ERR_OK);
    s->bucket = pages_find(s->pages, STR("page"));
    INVARIANT(pages_domain(s->pages, STR("localhost"), &s->domain) == ERR_OK);
}

static void stage_close(struct stage *s)
{
    pages_free(&s->pages);
    engine_close(&s->engine);
}

static void put(struct stage *s, uint64_t rev)
{
    struct page_put p = { .domain = s->domain, .title = STR("T"), .rev = rev, .contents_count = 1 };
    char text[32];
    int n = snprintf(text, sizeof text, "text %u", (unsigned)rev);
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = { text, (size_t)n } };
    INVARIANT(sync_put(s->bucket, &p) == ERR_OK);
}

static err find(struct stage *s, uint64_t rev, struct page_render *out)
{
    const struct page_which w = {
        .domain = s->domain, .title = STR("T"), .select = SELECT_REV, .name = { .rev = rev }
    };
    struct engine_view *v = engine_view_begin(s->engine);
    err e = page_find(s->bucket, v, &w, out, NULL);
    engine_view_end(&v);
    return e;
}

/* ---- one group ---- */

static err hold_decide(struct engine_txn *t, void *ctx)
{
    struct stage *s = ctx;
    (void)t;
    INVARIANT(sem_post(&s->held) == 0);
    INVARIANT(sem_wait(&s->go) == 0);
    return ERR_OK;
}

static void hold_done(void *ctx, err why)
{
    (void)ctx;
    INVARIANT(why == ERR_OK);
}

static err look_decide(struct engine_txn *t, void *ctx)
{
    (void)t, (void)ctx;
    return ERR_OK;
}

/* First of its group: told when the rows of all are visible, before the others are told. */
static void look_done(void *ctx, err why)
{
    struct stage *s = ctx;
    struct page_render r;
    INVARIANT(why == ERR_OK);
    s->plan_was = page_bucket_plan(s->bucket)->number;
    s->looked = find(s, 1, &r);
}

static uint64_t waiting(struct stage *s)
{
    struct engine_stats stats;
    engine_stats_get(s->engine, &stats);
    return stats.waiting;
}

static void *policies_run(void *ctx)
{
    struct stage *s = ctx;
    struct err_note note;
    const struct pages_policy one = { STR("page"), s->next };
    s->ended = pages_policies(s->pages, &one, 1, NULL, &note);
    return NULL;
}

static void *put_run(void *ctx)
{
    put(ctx, 2);
    return NULL;
}

static void *purge_run(void *ctx)
{
    struct stage *s = ctx;
    struct page_render r;
    INVARIANT(find(s, 2, &r) == ERR_OK);
    struct page_order o = { .kind = ORDER_PURGE,
                            .domain = s->domain,
                            .title = STR("T"),
                            .has_rev = true,
                            .has_tid = true,
                            .name = r.name };
    INVARIANT(sync_order(s->bucket, &o) == ERR_OK);
    return NULL;
}

/* A look, another policy, and a write behind it. */
static void group(struct stage *s, void *(*write)(void *))
{
    s->hold = (struct engine_update){ .decide = hold_decide, .done = hold_done, .ctx = s };
    s->look = (struct engine_update){ .decide = look_decide, .done = look_done, .ctx = s };
    INVARIANT(sem_init(&s->held, 0, 0) == 0);
    INVARIANT(sem_init(&s->go, 0, 0) == 0);
    engine_submit(s->engine, &s->hold);
    INVARIANT(sem_wait(&s->held) == 0);
    engine_submit(s->engine, &s->look);
    WAIT_UNTIL(waiting(s) == 2);
    INVARIANT(pthread_create(&s->policies, NULL, policies_run, s) == 0);
    WAIT_UNTIL(waiting(s) == 3);
    INVARIANT(pthread_create(&s->write, NULL, write, s) == 0);
    WAIT_UNTIL(waiting(s) == 4);
    INVARIANT(sem_post(&s->go) == 0);
    INVARIANT(pthread_join(s->policies, NULL) == 0);
    INVARIANT(pthread_join(s->write, NULL) == 0);
    (void)sem_destroy(&s->held);
    (void)sem_destroy(&s->go);
}

static void damage_found(void *ctx, const char *what)
{
    (void)ctx; /* the process ends by what pages_check returns */
    (void)fprintf(stderr, "model_policy: %s\n", what);
}

/* latest_hash would keep nothing of a render that is superseded. */
static void a_put_behind_a_policy_is_by_that_policy(struct stage *s)
{
    struct page_render r;
    stage_open(s, POLICY_LATEST_HASH, 0);
    put(s, 1);
    group(s, put_run);
    INVARIANT(s->ended == ERR_OK);
    INVARIANT(s->plan_was == 1);
    INVARIANT(s->looked == ERR_OK);
    INVARIANT(page_bucket_plan(s->bucket)->number == 2);
    INVARIANT(find(s, 1, &r) == ERR_OK);
    INVARIANT(r.due_at.ns == INT64_MAX);
    INVARIANT(pages_check(s->pages, damage_found, NULL) == ERR_OK);
    stage_close(s);
}

/* There is no room for the policy, and there is for what frees. */
static void a_write_behind_a_policy_that_fails_is_by_the_one_before(struct stage *s)
{
    struct page_render r;
    s->next.kind = POLICY_LATEST_HASH;
    stage_open(s, POLICY_ALL, 0);
    put(s, 1);
    put(s, 2);
    stage_close(s);
    stage_open(s, POLICY_ALL, INT64_MAX);
    group(s, purge_run);
    INVARIANT(s->ended == ERR_FULL);
    INVARIANT(s->looked == ERR_OK);
    INVARIANT(page_bucket_plan(s->bucket)->number == 1);
    INVARIANT(find(s, 1, &r) == ERR_OK);
    stage_close(s);
    stage_open(s, POLICY_ALL, 0); /* rows of a plan that was never there would be damaged */
    INVARIANT(page_bucket_plan(s->bucket)->number == 1);
    INVARIANT(find(s, 1, &r) == ERR_OK);
    INVARIANT(r.state == PAGE_CURRENT);
    INVARIANT(pages_check(s->pages, damage_found, NULL) == ERR_OK);
    stage_close(s);
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

static void run(const char *dir, void (*test)(struct stage *s))
{
    struct stage s = { .dir = dir, .next = { .kind = POLICY_ALL } };
    fake_clock_init(&s.clock, T0);
    test(&s);
    (void)nftw(dir, forget, 16, FTW_DEPTH | FTW_PHYS);
}

int main(int argc, char **argv)
{
    char dir[256];
    if (argc > 1)
        (void)snprintf(dir, sizeof dir, "%s", argv[1]);
    else
        (void)snprintf(dir, sizeof dir, "model_policy.%ld", (long)getpid());
    run(dir, a_put_behind_a_policy_is_by_that_policy);
    run(dir, a_write_behind_a_policy_that_fails_is_by_the_one_before);
    return 0;
}
