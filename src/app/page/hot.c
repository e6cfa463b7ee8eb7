/* Invariants: (1) an entry is in its shard's table and ring, or in neither; (2) bytes of a shard is
 * the sum of its entries' and at most bytes_max; (3) an entry holds one reference to each of its
 * answers. */
#include "app/page/hot.h"

#include "http/negotiate.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define HOT_MAGIC 0x407a45e0u
enum {
    SHARD_BYTES_MIN = 4 << 20,
    CHAINS_MIN = 64,
    CHAINS_MAX = 1 << 16,
    ENTRY_BYTES_TYPICAL = 16384,
    CACHE_LINE = 64
};

struct entry {
    struct entry *chain;          /* next of the same hash */
    struct entry *before, *after; /* in the ring */
    uint64_t hash;
    struct hot_mark mark;
    store_time valid_until;
    struct http_ready *full, *same;
    size_t bytes;
    bool touched; /* hit since the hand passed */
    unsigned variant, kind;
    uint32_t target_bytes;
    uint32_t tag_bytes;
    char tag[HOT_TAG_BYTES_MAX];
    char target[];
};

struct shard {
    _Alignas(CACHE_LINE) pthread_mutex_t lock;
    struct entry **chains;
    uint64_t chains_mask;
    struct entry *hand;
    size_t bytes, bytes_max;
    uint64_t hits_of[HOT_KINDS_MAX], misses, entries, evicted;
};

struct versions {
    _Atomic uint32_t of[HOT_SLOTS];
};
struct seen {
    _Atomic uint32_t at[HOT_SEEN]; /* the upper half of the hash that came by last */
};

struct app_hot {
    uint32_t magic;
    unsigned shards_count; /* a power of two */
    uint64_t seed;
    struct shard *shards;
    struct versions *versions;
    struct seen *seen;
};

static void *must_alloc(size_t count, size_t size)
{
    void *p = calloc(count, size);
    INVARIANT(p != NULL);
    return p;
}

static void shard_init(struct shard *s, size_t bytes_max)
{
    size_t chains = CHAINS_MIN;
    while (chains < CHAINS_MAX && chains * ENTRY_BYTES_TYPICAL < bytes_max)
        chains *= 2;
    *s = (struct shard){ .chains_mask = chains - 1, .bytes_max = bytes_max };
    s->chains = must_alloc(chains, sizeof(struct entry *));
    int failed = pthread_mutex_init(&s->lock, NULL);
    INVARIANT(failed == 0);
}

struct app_hot *hot_new(size_t bytes_max, uint64_t seed)
{
    struct app_hot *h = must_alloc(1, sizeof *h);
    unsigned count = 1;
    while (count < HOT_SHARDS_MAX && bytes_max / (count * 2) >= SHARD_BYTES_MIN)
        count *= 2;
    *h = (struct app_hot){ .magic = HOT_MAGIC, .shards_count = count, .seed = seed };
    h->shards = aligned_alloc(CACHE_LINE, count * sizeof(struct shard));
    INVARIANT(h->shards != NULL);
    for (unsigned i = 0; i < count; i++)
        shard_init(&h->shards[i], bytes_max / count);
    h->versions = must_alloc(1, sizeof *h->versions);
    h->seen = must_alloc(1, sizeof *h->seen);
    return h;
}

static struct entry **find_link(struct shard *s, const struct entry *e)
{
    struct entry **link = &s->chains[e->hash >> 16 & s->chains_mask];
    while (*link != e)
        link = &(*link)->chain;
    return link;
}

/* Takes an entry out and ends it. */
static void drop(struct shard *s, struct entry *e)
{
    *find_link(s, e) = e->chain;
    if (s->hand == e)
        s->hand = e->after == e ? NULL : e->after;
    e->before->after = e->after;
    e->after->before = e->before;
    INVARIANT(s->bytes >= e->bytes);
    INVARIANT(s->entries > 0);
    s->bytes -= e->bytes;
    s->entries--;
    http_ready_unref(&e->full);
    http_ready_unref(&e->same);
    free(e);
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
        while (s->hand != NULL)
            drop(s, s->hand);
        free(s->chains);
        (void)pthread_mutex_destroy(&s->lock); /* nobody is left to hold it */
    }
    free(h->shards);
    free(h->versions);
    free(h->seen);
    free(h);
    *hp = NULL;
}

static uint32_t slot_of(const struct app_hot *h, uint16_t bucket, uint32_t domain, str title)
{
    uint64_t seed = h->seed ^ ((uint64_t)bucket << 32 | domain);
    return (uint32_t)XXH3_64bits_withSeed(title.p, title.n, seed) % HOT_SLOTS;
}

struct hot_mark hot_mark(struct app_hot *h, uint16_t bucket, uint32_t domain, str title)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint32_t slot = slot_of(h, bucket, domain, title);
    return (struct hot_mark){
        .slot = slot, .version = atomic_load_explicit(&h->versions->of[slot], memory_order_acquire)
    };
}

void hot_bump(struct app_hot *h, uint16_t bucket, uint32_t domain, str title)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint32_t slot = slot_of(h, bucket, domain, title);
    (void)atomic_fetch_add_explicit(&h->versions->of[slot], 1,
                                    memory_order_acq_rel); /* the old value is of no use */
}

static bool is_dead(const struct app_hot *h, struct hot_mark mark)
{
    return atomic_load_explicit(&h->versions->of[mark.slot], memory_order_acquire) != mark.version;
}

static uint64_t hash_of(const struct app_hot *h, struct hot_key key)
{
    return XXH3_64bits_withSeed(key.target.p, key.target.n, h->seed + key.variant);
}

static struct shard *shard_of(struct app_hot *h, uint64_t hash)
{
    return &h->shards[hash & (h->shards_count - 1)];
}

static struct entry *find(const struct shard *s, uint64_t hash, struct hot_key key)
{
    struct entry *e = s->chains[hash >> 16 & s->chains_mask];
    while (e != NULL) {
        bool same = e->hash == hash && e->variant == key.variant && e->target_bytes == key.target.n;
        if (same && memcmp(e->target, key.target.p, key.target.n) == 0)
            return e;
        e = e->chain;
    }
    return NULL;
}

static struct entry *entry_new(uint64_t hash, struct hot_key key, const struct hot_entry_opts *o)
{
    struct entry *e = malloc(sizeof *e + key.target.n);
    if (e == NULL)
        return NULL;
    *e = (struct entry){ .hash = hash,
                         .mark = o->mark,
                         .valid_until = o->valid_until,
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

/* One turn gives every entry its second chance; the second takes what was not hit meanwhile. */
static void make_room(struct shard *s, size_t bytes)
{
    while (s->hand != NULL && s->bytes > s->bytes_max - bytes) {
        struct entry *e = s->hand;
        if (e->touched) {
            e->touched = false;
            s->hand = e->after;
            continue;
        }
        drop(s, e);
        s->evicted++;
    }
}

static void insert(struct shard *s, struct entry *e)
{
    struct entry **head = &s->chains[e->hash >> 16 & s->chains_mask];
    e->chain = *head;
    *head = e;
    if (s->hand == NULL) {
        e->before = e->after = e;
        s->hand = e;
    } else { /* just behind the hand: looked at last */
        e->after = s->hand;
        e->before = s->hand->before;
        e->before->after = e;
        e->after->before = e;
    }
    s->bytes += e->bytes;
    s->entries++;
    INVARIANT(s->bytes <= s->bytes_max);
}

bool hot_wants(struct app_hot *h, struct hot_key key)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint64_t hash = hash_of(h, key);
    uint32_t mark = (uint32_t)(hash >> 32);
    return atomic_exchange_explicit(&h->seen->at[hash % HOT_SEEN], mark, memory_order_relaxed) ==
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
    if (key.target.n > HOT_TARGET_BYTES_MAX || opts->tag.n > HOT_TAG_BYTES_MAX ||
        is_dead(h, opts->mark))
        return;
    uint64_t hash = hash_of(h, key);
    struct shard *s = shard_of(h, hash);
    struct entry *e = entry_new(hash, key, opts);
    if (e == NULL)
        return;
    pthread_mutex_lock(&s->lock);
    struct entry *old = find(s, hash, key);
    if (old != NULL)
        drop(s, old);
    bool fits = e->bytes <= entry_bytes_max(s);
    if (fits) {
        make_room(s, e->bytes);
        insert(s, e);
    }
    pthread_mutex_unlock(&s->lock);
    if (fits)
        return;
    http_ready_unref(&e->full);
    http_ready_unref(&e->same);
    free(e);
}

/* Under the lock: the entry when it is still good. */
static struct entry *find_good(struct app_hot *h, struct shard *s, uint64_t hash,
                               struct hot_key key, struct clock *clock)
{
    struct entry *e = find(s, hash, key);
    if (e == NULL)
        return NULL;
    bool dead = is_dead(h, e->mark);
    if (!dead && e->valid_until.ns != STORE_TIME_NEVER.ns)
        dead = !store_time_before(clock_store(clock), e->valid_until);
    if (!dead)
        return e;
    drop(s, e);
    return NULL;
}

static struct http_ready *chosen(const struct entry *e, str if_none_match)
{
    str tag = { .p = e->tag, .n = e->tag_bytes };
    bool same = if_none_match.n > 0 && http_etag_matches(if_none_match, tag, true);
    return same ? e->same : e->full;
}

struct http_ready *hot_get(struct app_hot *h, struct hot_key key, struct clock *clock,
                           str if_none_match)
{
    MAGIC_CHECK(h, HOT_MAGIC);
    uint64_t hash = hash_of(h, key);
    struct shard *s = shard_of(h, hash);
    struct http_ready *r = NULL;
    pthread_mutex_lock(&s->lock);
    struct entry *e = find_good(h, s, hash, key, clock);
    struct http_ready *fits = e == NULL ? NULL : chosen(e, if_none_match);
    if (fits == NULL) {
        s->misses++;
    } else {
        s->hits_of[e->kind]++;
        if (!e->touched) /* all workers read it */
            e->touched = true;
        r = http_ready_ref(fits);
    }
    pthread_mutex_unlock(&s->lock);
    return r;
}

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
        sum.entries += s->entries;
        sum.bytes += s->bytes;
        sum.evicted += s->evicted;
        pthread_mutex_unlock(&s->lock);
    }
    *out = sum;
}
