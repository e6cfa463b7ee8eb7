/* Goal: puts from many threads leave exactly one latest, and nobody ever reads a latest that goes
 * back, nor a row that seems damaged while other policies come into force. Method: on the embedded
 * engine, sixteen revisions of one title put by sixteen threads while two others read, and one
 * brings policy after policy, which all keep everything for the time of the test.
 *
 *   model_race [ROUNDS] [DIR] */
#include "bucket/page_write.h"
#include "store.h"
#include "sync.h"

#include <ftw.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

enum { WRITERS = 16, READERS = 2, CHANGERS = 1, RACERS = WRITERS + READERS + CHANGERS };
#define T0 ((int64_t)1767225600 * NS_PER_S)

struct race {
    struct fake_clock clock;
    struct model_store store;
    struct pages *pages;
    struct page_bucket *bucket;
    uint32_t domain;
    char title[32];
    atomic_bool over;
};
struct racer {
    struct race *race;
    uint64_t rev, reads;
};

static void *writer(void *ctx)
{
    struct racer *r = ctx;
    char text[32];
    int n = snprintf(text, sizeof(text), "text %llu", (unsigned long long)r->rev);
    struct page_put p = { .domain = r->race->domain,
                          .title = str_of(r->race->title),
                          .rev = r->rev,
                          .contents_count = 1 };
    p.contents[0] = (struct page_put_content){ .name = STR("html"), .raw = { text, (size_t)n } };
    INVARIANT(sync_put(r->race->bucket, &p) == ERR_OK);
    INVARIANT(p.created);
    INVARIANT(p.stored.rev == r->rev);
    return NULL;
}

static err latest(struct race *r, struct page_render *out)
{
    const struct page_which w = { .domain = r->domain, .title = str_of(r->title) };
    struct engine_view *v = engine_view_begin(r->store.engine);
    err e = page_find(r->bucket, v, &w, out, NULL);
    engine_view_end(&v);
    return e;
}

static bool alive_item(void *ctx, str title, const struct page_render *r)
{
    (void)ctx, (void)title;
    INVARIANT(r->name.rev > 0);
    return true;
}

/* Walks all renders of the title, so that rows of several plans are settled. */
static void history(struct race *r)
{
    struct engine_view *v = engine_view_begin(r->store.engine);
    const struct page_each each = { .render = alive_item };
    INVARIANT(page_history(r->bucket, v, r->domain, str_of(r->title), NULL, &each) == ERR_OK);
    engine_view_end(&v);
}

static void *changer(void *ctx)
{
    static const enum page_policy_kind kinds[] = { POLICY_ALL, POLICY_LATEST, POLICY_APP_TTL,
                                                   POLICY_INTERVAL, POLICY_TTL };
    struct racer *r = ctx;
    while (!atomic_load(&r->race->over)) {
        struct err_note note;
        const struct pages_policy one = { .bucket = STR("page"),
                                          .policy = { .kind = kinds[r->reads % COUNT_OF(kinds)],
                                                      .grace_ttl_ns = 3600 * NS_PER_S,
                                                      .ttl_ns = 3600 * NS_PER_S,
                                                      .interval_ns = 3600 * NS_PER_S,
                                                      .count = 1 + (uint32_t)r->reads % 3 } };
        INVARIANT(pages_policies(r->race->pages, &one, 1, NULL, &note) == ERR_OK);
        r->reads++;
    }
    return NULL;
}

static void *reader(void *ctx)
{
    struct racer *r = ctx;
    struct page_render render;
    while (!atomic_load(&r->race->over)) {
        err e = latest(r->race, &render);
        INVARIANT(e == ERR_OK || (e == ERR_NOT_FOUND && r->rev == 0));
        if (e == ERR_OK) {
            INVARIANT(render.name.rev >= r->rev);
            r->rev = render.name.rev;
        }
        history(r->race);
        r->reads++;
    }
    return NULL;
}

struct tally {
    unsigned count, latest;
    uint64_t rev;
};

static bool tally_item(void *ctx, str title, const struct page_render *r)
{
    struct tally *t = ctx;
    INVARIANT(title.n > 0);
    bool is_latest = r->superseded_at.ns == INT64_MAX;
    INVARIANT(t->count++ == 0 || r->name.rev < t->rev);
    INVARIANT(is_latest || r->superseded_by.rev > r->name.rev);
    t->latest += is_latest;
    t->rev = r->name.rev;
    return true;
}

static void damage_found(void *ctx, const char *what)
{
    (void)ctx; /* the process ends by what pages_check returns */
    (void)fprintf(stderr, "model_race: %s\n", what);
}

static void round_of(struct race *r, unsigned number)
{
    pthread_t threads[RACERS];
    struct racer racers[RACERS];
    struct tally t = { 0 };
    struct page_render render;
    (void)snprintf(r->title, sizeof(r->title), "Title_%u", number);
    atomic_store(&r->over, false);
    for (unsigned i = 0; i < RACERS; i++) {
        racers[i] =
            (struct racer){ .race = r, .rev = i < WRITERS ? 1 + (i * 7 + number) % WRITERS : 0 };
        void *(*run)(void *) = i < WRITERS ? writer : i < WRITERS + READERS ? reader : changer;
        INVARIANT(pthread_create(&threads[i], NULL, run, &racers[i]) == 0);
    }
    for (unsigned i = 0; i < RACERS; i++) {
        if (i == WRITERS)
            atomic_store(&r->over, true);
        INVARIANT(pthread_join(threads[i], NULL) == 0);
    }
    INVARIANT(latest(r, &render) == ERR_OK);
    INVARIANT(render.name.rev == WRITERS);
    struct engine_view *v = engine_view_begin(r->store.engine);
    const struct page_each each = { .render = tally_item, .ctx = &t };
    INVARIANT(page_history(r->bucket, v, r->domain, str_of(r->title), NULL, &each) == ERR_OK);
    engine_view_end(&v);
    INVARIANT(t.count == WRITERS);
    INVARIANT(t.latest == 1);
}

static int forget(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
    (void)st, (void)type, (void)ftw;
    return remove(path);
}

int main(int argc, char **argv)
{
    struct race r = { 0 };
    uint64_t rounds = 30;
    char dir[256];
    struct err_note note = { "" };
    const struct page_bucket_opts opts = { .name = "page",
                                           .codec = PAGE_GZIP,
                                           .policy = { .grace_ttl_ns = 3600 * NS_PER_S } };
    if (argc > 1 && !str_to_u64(str_of(argv[1]), &rounds))
        return 2;
    if (argc > 2)
        (void)snprintf(dir, sizeof(dir), "%s", argv[2]);
    else
        (void)snprintf(dir, sizeof(dir), "model_race.%ld", (long)getpid());
    fake_clock_init(&r.clock, T0);
    r.store.dir = dir;
    model_store_open(&r.store, &r.clock.clock);
    const struct pages_opts all = { r.store.engine, &r.clock.clock, 5, &opts, 1 };
    INVARIANT(pages_new(&all, &r.pages, &note) == ERR_OK);
    r.bucket = pages_find(r.pages, STR("page"));
    INVARIANT(pages_domain(r.pages, STR("localhost"), &r.domain) == ERR_OK);
    for (unsigned i = 0; i < rounds; i++)
        round_of(&r, i);
    bool more = true;
    store_time next;
    while (more)
        INVARIANT(page_store_upkeep(pages_store(r.pages), &more, &next) == ERR_OK);
    INVARIANT(pages_check(r.pages, damage_found, NULL) == ERR_OK);
    pages_free(&r.pages);
    model_store_close(&r.store, true);
    (void)nftw(dir, forget, 16, FTW_DEPTH | FTW_PHYS);
    return 0;
}
