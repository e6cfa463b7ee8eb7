/* hot.c - ready answers, sharded, for the handlers of pages.
 *
 * Invariants
 *  1. An entry is in its shard's table and ring, or in neither.
 *  2. bytes of a shard is the sum of its entries' bytes, and at most bytes_max.
 *  3. An entry holds one reference to each of its answers, and to its cell. */
#include "hot/hot.h"

#include "base/hash.h"
#include "base/list.h"
#include "http/negotiate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HOT_MAGIC 0x407a45e0u
enum { SHARD_BYTES_MIN = 4 << 20, CACHE_LINE = 64 };

/* One ready answer. Owner: its shard, under whose lock it is read. */
struct entry {
    struct hash_node node;
    struct list ring; /* the hand looks at the first */
    struct page_seen seen;
    store_time valid_until;
    struct trust_cell *cell;
    uint64_t says;
    enum trust_reader reader;
    const struct trust_rules *rules;
    int64_t age_s_max;
    struct http_ready *full, *same;
    size_t bytes;
    bool touched; /* hit since the hand passed */
    unsigned variant, kind;
    uint32_t target_bytes;
    uint32_t tag_bytes;
    char tag[HOT_TAG_BYTES_MAX];
    char target[];
};

/* Each on a cache line of its own, as all workers lock them. */
struct shard {
    _Alignas(CACHE_LINE) pthread_mutex_t lock;
    struct hash entries; /* by what of the hash did not choose the shard */
    struct list ring;
    size_t bytes, bytes_max;
    uint64_t hits_of[HOT_KINDS_MAX], misses, evicted;
};

/* Keys that were asked for once, so that the second request makes an entry. Lossy, and without a
 * lock. */
struct passed {
    _Atomic uint32_t at[HOT_SEEN]; /* the upper half of the hash that came by last */
};

struct app_hot {
    uint32_t magic;
    unsigned shards_count; /* a power of two */
    uint64_t seed;
    struct shard *shards;
    const struct page_changes *changes;
    struct passed *passed;
};

static void *must_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    INVARIANT(p != NULL);
    return p;
}

static void shard_init(struct shard *s, size_t bytes_max)
{
    *s = (struct shard){ .bytes_max = bytes_max };
    hash_init(&s->entries);
    list_init(&s->ring);
    int failed = pthread_mutex_init(&s->lock, NULL);
    INVARIANT(failed == 0);
}

struct app_hot *hot_new(size_t bytes_max, uint64_t seed, const struct page_changes *changes)
{
    struct app_hot *h = must_alloc(1, sizeof *h);
    unsigned count = 1;
    /* Shards as many as leave each SHARD_BYTES_MIN: an entry may take half of one. */
    while (count < HOT_SHARDS_MAX && bytes_max / (count * 2) >= SHARD_BYTES_MIN)
        count *= 2;
    *h = (struct app_hot){
        .magic = HOT_MAGIC, .shards_count = count, .seed = seed, .changes = changes
    };
    h->shards = aligned_alloc(CACHE_LINE, count * sizeof(struct shard));
    INVARIANT(h->shards != NULL);
    for (unsigned i = 0; i < count; i++)
        shard_init(&h->shards[i], bytes_max / count);
    h->passed = must_alloc(1, sizeof *h->passed);
    return h;
}

static void entry_free(struct entry *e)
{
    http_ready_unref(&e->full);
    http_ready_unref(&e->same);
    trust_release(&e->cell);
    free(e);
}

/* Takes an entry out of table and ring, and frees it. Under the lock. */
static void hot_drop(struct shard *s, struct entry *e)
{
    hash_remove(&s->entries, &e->node);
    list_remove(&e->ring);
    INVARIANT(s->bytes >= e->bytes);
    s->bytes -= e->bytes;
    entry_free(e);
}

/* The ring must not be empty. */
static struct entry *at_hand(const struct shard *s)
{
    return CONTAINER_OF(list_first(&s->ring), struct entry, ring);
}

void hot_free(struct app_hot **hp)
{
    struct app_hot *h = *hp;
    if (h == NULL)
        return;
    MAGIC_CHECK(h, HOT_MAGIC);
    h->magic = 0;
    for (unsigned i = 0; i < h->shards_count; i++) {
        struct shard *s = &h->shards[i];
        while (!list_empty(&s->ring))
            hot_drop(s, at_hand(s));
        hash_fini(&s->entries);
        (void)pthread_mutex_destroy(&s->lock); /* nobody is left to hold it */
    }
    free(h->shards);
    free(h->passed);
    free(h);
    *hp = NULL;
}

static uint64_t hash_of(const struct app_hot *h, struct hot_key key)
{
    return XXH3_64bits_withSeed(key.target.p, key.target.n, h->seed + key.variant);
}

static struct shard *shard_of(struct app_hot *h, uint64_t hash)
{
    return &h->shards[hash & (h->shards_count - 1)];
}

/* Low bits of the hash chose the shard: within it they tell nothing. */
static uint64_t hash_in_shard(uint64_t hash)
{
    return hash >> 16;
}

static struct entry *hot_find(const struct shard *s, uint64_t hash, struct hot_key key)
{
    for (struct hash_node *n = hash_first(&s->entries, hash_in_shard(hash)); n != NULL;
         n = hash_next(n)) {
        struct entry *e = CONTAINER_OF(n, struct entry, node);
        bool same = e->variant == key.variant && e->target_bytes == key.target.n;
        if (same && memcmp(e->target, key.target.p, key.target.n) == 0)
            return e;
    }
    return NULL;
}

/* NULL: no memory. Takes references of answers and cell. */
static struct entry *entry_new(struct hot_key key, const struct hot_entry_opts *o)
{
    /* An answer that cannot be kept is no failure: malloc may say no here. */
    struct entry *e = malloc(sizeof *e + key.target.n);
    if (e == NULL)
        return NULL;
    *e = (struct entry){ .seen = o->seen,
                         .valid_until = o->valid_until,
                         .cell = o->cell == NULL ? NULL : trust_hold(o->cell),
                         .says = o->says,
                         .reader = o->reader,
                         .rules = o->rules,
                         .age_s_max = o->age_s_max,
                         .variant = key.variant,
                         .kind = o->kind,
                         .full = o->full == NULL ? NULL : http_ready_ref(o->full),
                         .same = http_ready_ref(o->same),
                         .bytes = sizeof *e + key.target.n + http_ready_bytes(o->same) +
                                  (o->full == NULL ? 0 : http_ready_bytes(o->full)),
                         .target_bytes = (uint32_t)key.target.n,
                         .tag_bytes = (uint32_t)o->tag.n };
    memcpy(e->target, key.target.p, key.target.n);
    memcpy(e->tag, o->tag.p, o->tag.n);
    return e;
}

/* CLOCK: an entry that was hit goes round once more; one that was not hit meanwhile is dropped. */
static void make_room(struct shard *s, size_t bytes)
{
    while (!list_empty(&s->ring) && s->bytes > s->bytes_max - bytes) {
        struct entry *e = at_hand(s);
        if (e->touched) {
            e->touched = false;
            list_remove(&e->ring);
            list_append(&s->ring, &e->ring);
            continue;
        }
        hot_drop(s, e);
        s->evicted++;
    }
}

/* Under the lock, once there is room. */
static void insert(struct shard *s, struct entry *e, uint64_t hash)
{
    hash_add(&s->entries, &e->node, hash_in_shard(hash));
    list_append(&s->ring, &e->ring);
    s->bytes += e->bytes;
    INVARIANT(s->bytes <= s->bytes_max);
}

bool hot_wants(struct app_hot *h, struct hot_key key)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint64_t hash = hash_of(h, key);
    uint32_t mark = (uint32_t)(hash >> 32);
    /* The place of another key is written over: that key is seen as new the next time. */
    return atomic_exchange_explicit(&h->passed->at[hash % HOT_SEEN], mark, memory_order_relaxed) ==
           mark;
}

static size_t entry_bytes_max(const struct shard *s)
{
    return s->bytes_max / 2;
}

bool hot_takes(const struct app_hot *h, size_t body_bytes)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    return body_bytes <= entry_bytes_max(&h->shards[0]); /* they are alike */
}

void hot_put(struct app_hot *h, struct hot_key key, const struct hot_entry_opts *opts)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    INVARIANT(opts->kind < HOT_KINDS_MAX);
    /* A change since the look makes the answer old before it is kept. One that comes later is seen
     * by hot_get. */
    if (key.target.n > HOT_TARGET_BYTES_MAX || opts->tag.n > HOT_TAG_BYTES_MAX ||
        page_changed_since(h->changes, opts->seen))
        return;
    uint64_t hash = hash_of(h, key);
    struct shard *s = shard_of(h, hash);
    struct entry *e = entry_new(key, opts);
    if (e == NULL)
        return;
    /* The entry is made before the lock is taken: making it copies. */
    pthread_mutex_lock(&s->lock);
    struct entry *old = hot_find(s, hash, key);
    if (old != NULL)
        hot_drop(s, old);
    bool fits = e->bytes <= entry_bytes_max(s);
    if (fits) {
        make_room(s, e->bytes);
        insert(s, e, hash);
    }
    pthread_mutex_unlock(&s->lock);
    if (fits)
        return;
    entry_free(e);
}

/* What an entry with a cell is worth now. */
struct worth {
    bool behind; /* a word is wanted */
    int64_t age_s;
};

/* Does the entry end by the clock, or by what the wiki was last asked? *w: what it is worth, if
 * not. */
static bool is_over(const struct entry *e, struct clock *clock, struct worth *w)
{
    *w = (struct worth){ .age_s = -1 };
    if (e->cell == NULL && e->valid_until.ns == STORE_TIME_NEVER.ns)
        return false;
    store_time now = clock_store(clock);
    if (!store_time_before(now, e->valid_until))
        return true;
    if (e->cell == NULL)
        return false;
    int64_t age_ns = trust_age_ns(e->cell, e->says, now);
    enum trust_need need = trust_need(e->rules, e->reader, age_ns);
    w->behind = need == TRUST_BEHIND;
    w->age_s = age_ns / NS_PER_S;
    if (e->age_s_max > 0 && w->age_s > e->age_s_max)
        w->age_s = e->age_s_max;
    return need == TRUST_FIRST;
}

/* The entry, if it is still good; else it is dropped, and NULL. Under the lock. */
static struct entry *find_good(struct app_hot *h, struct shard *s, uint64_t hash,
                               struct hot_key key, struct clock *clock, struct worth *w)
{
    struct entry *e = hot_find(s, hash, key);
    if (e == NULL)
        return NULL;
    if (!page_changed_since(h->changes, e->seen) && !is_over(e, clock, w))
        return e;
    hot_drop(s, e);
    return NULL;
}

/* NULL: the entry has only the other answer. */
static struct http_ready *chosen(const struct entry *e, str if_none_match)
{
    str tag = { .p = e->tag, .n = e->tag_bytes };
    bool same = if_none_match.n > 0 && http_etag_matches(if_none_match, tag, true);
    return same ? e->same : e->full;
}

struct http_ready *hot_get(struct app_hot *h, struct hot_key key, struct clock *clock,
                           str if_none_match, int64_t *age_s)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint64_t hash = hash_of(h, key);
    struct shard *s = shard_of(h, hash);
    struct http_ready *r = NULL;
    struct trust_cell *old = NULL;
    struct worth worth = { .behind = false };
    pthread_mutex_lock(&s->lock);
    struct entry *e = find_good(h, s, hash, key, clock, &worth);
    struct http_ready *fits = e == NULL ? NULL : chosen(e, if_none_match);
    if (fits == NULL) {
        s->misses++;
    } else {
        s->hits_of[e->kind]++;
        if (!e->touched) /* a line that all workers read is not written without need */
            e->touched = true;
        r = http_ready_ref(fits);
        *age_s = worth.age_s;
        old = worth.behind ? trust_hold(e->cell) : NULL;
    }
    pthread_mutex_unlock(&s->lock);
    /* Behind the lock: trust_soon may post a task. */
    if (old != NULL)
        trust_soon(old);
    trust_release(&old);
    return r;
}

/* Shard after shard: the sums are of slightly different instants. */
void hot_stats_get(struct app_hot *h, struct hot_stats *out)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    struct hot_stats sum = { 0 };
    for (unsigned i = 0; i < h->shards_count; i++) {
        struct shard *s = &h->shards[i];
        pthread_mutex_lock(&s->lock);
        for (unsigned kind = 0; kind < HOT_KINDS_MAX; kind++) {
            sum.hits += s->hits_of[kind];
            sum.hits_of[kind] += s->hits_of[kind];
        }
        sum.misses += s->misses;
        sum.entries += s->entries.count;
        sum.bytes += s->bytes;
        sum.evicted += s->evicted;
        pthread_mutex_unlock(&s->lock);
    }
    *out = sum;
}
