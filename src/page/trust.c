/* trust.c - cells in shards, each with a lock, a hash table and a CLOCK ring.
 *
 * Invariants
 *  1. A cell is in its shard's table and ring from page_trust_hold until it is forgotten.
 *  2. A cell that is held is not forgotten.
 *  3. asked_at and says are written under the shard's lock, says first. A reader of asked_at, then
 *     says, sees the number that belongs to it, or a newer one.
 *  4. The cell of a title is not forgotten before those of its revisions, which are in the same
 *     shard. */
#include "page/trust.h"

#include "base/hash.h"
#include "base/list.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#define TRUST_MAGIC 0x7a057a05u
enum { TRUST_SHARDS = 16, CACHE_LINE = 64 };

/* What was heard of one title or revision. Owner: its shard; who holds it may read it without the
 * lock. */
struct trust_cell {
    struct page_trust *all;
    struct shard *shard;
    struct trust_cell *title_cell; /* of a revision: its title's; else NULL */
    unsigned revisions;            /* cells of them, which stand on this one; under the lock */
    struct hash_node node;
    struct list ring;
    unsigned refs;      /* under the lock */
    atomic_bool used;   /* since the hand passed */
    atomic_bool wanted; /* trust_soon was called, and nothing heard since */
    atomic_bool posted; /* task is on its way */
    _Atomic int64_t asked_at, doubt_at;
    _Atomic int64_t purges_at; /* of a title: when all its purges will have been due */
    _Atomic uint64_t says;
    struct title_bound bound; /* of a title, with the next two under the lock */
    uint64_t reached_rev;     /* by the last word that was heard; 0: the page is missing */
    int64_t reached_touched;
    struct task task;
    uint32_t domain;
    uint64_t rev;
    size_t title_bytes;
    char title[];
};

/* Each on a line of its own: shards are locked by many threads at once. */
struct shard {
    _Alignas(CACHE_LINE) pthread_mutex_t lock;
    struct hash cells;
    struct list ring; /* the hand looks at the first */
    size_t count, held;
};

/* Owner: the service. */
struct page_trust {
    uint32_t magic;
    uint64_t seed;
    size_t shard_cells_max;
    struct home *home;
    trust_soon_fn *soon;
    void *soon_ctx;
    _Atomic uint64_t doubts;
    struct shard shards[TRUST_SHARDS];
};

struct page_trust *page_trust_new(unsigned cells_max, uint64_t seed)
{
    struct page_trust *t = aligned_alloc(CACHE_LINE, sizeof *t);
    INVARIANT(t != NULL);
    memset(t, 0, sizeof *t);
    t->magic = TRUST_MAGIC;
    t->seed = seed;
    t->shard_cells_max = cells_max / TRUST_SHARDS + 1;
    for (unsigned i = 0; i < TRUST_SHARDS; i++) {
        hash_init(&t->shards[i].cells);
        list_init(&t->shards[i].ring);
        int failed = pthread_mutex_init(&t->shards[i].lock, NULL);
        INVARIANT(failed == 0);
    }
    return t;
}

void page_trust_on_soon(struct page_trust *t, struct home *home, trust_soon_fn *soon, void *ctx)
{
    MAGIC_CHECK(t, TRUST_MAGIC);
    t->home = home;
    t->soon = soon;
    t->soon_ctx = ctx;
}

static void shard_lock(struct shard *s)
{
    int failed = pthread_mutex_lock(&s->lock);
    INVARIANT(failed == 0);
}

static void shard_unlock(struct shard *s)
{
    int failed = pthread_mutex_unlock(&s->lock);
    INVARIANT(failed == 0);
}

/* Under the lock. A cell that is held again may not be evicted. */
static void cell_ref(struct shard *s, struct trust_cell *c)
{
    s->held += c->refs == 0;
    c->refs++;
}

/* Under the lock. Nobody holds it, and no revision stands on it. */
static void cell_forget(struct shard *s, struct trust_cell *c)
{
    INVARIANT(c->revisions == 0);
    if (c->title_cell != NULL)
        c->title_cell->revisions--;
    hash_remove(&s->cells, &c->node);
    list_remove(&c->ring);
    s->count--;
    free(c);
}

/* of_revisions: forgets cells of revisions alone, which have to go before those of titles. */
static void shard_empty(struct shard *s, bool of_revisions)
{
    struct list *next;
    for (struct list *l = s->ring.next; l != &s->ring; l = next) {
        struct trust_cell *c = CONTAINER_OF(l, struct trust_cell, ring);
        next = l->next;
        if (c->title_cell != NULL || !of_revisions)
            cell_forget(s, c);
    }
}

void page_trust_free(struct page_trust **tp)
{
    struct page_trust *t = *tp;
    if (t == NULL)
        return;
    MAGIC_CHECK(t, TRUST_MAGIC);
    for (unsigned i = 0; i < TRUST_SHARDS; i++) {
        struct shard *s = &t->shards[i];
        INVARIANT(s->held == 0);
        shard_empty(s, true);
        shard_empty(s, false);
        hash_fini(&s->cells);
        (void)pthread_mutex_destroy(&s->lock); /* nobody has it */
    }
    t->magic = 0;
    free(t);
    *tp = NULL;
}

/* ---- cells ---- */

static bool cell_in_doubt(const struct trust_cell *c)
{
    return atomic_load_explicit(&c->doubt_at, memory_order_acquire) >
           atomic_load_explicit(&c->asked_at, memory_order_acquire);
}

/* One round of the hand at most: a cell that cannot go stays, above the limit. */
static void shard_evict(struct shard *s, size_t cells_max)
{
    for (size_t looked = s->count; looked > 0 && s->count - s->held > cells_max; looked--) {
        struct trust_cell *c = CONTAINER_OF(list_take(&s->ring), struct trust_cell, ring);
        list_append(&s->ring, &c->ring);
        bool used = atomic_exchange_explicit(&c->used, false, memory_order_relaxed);
        if (!used && c->refs == 0 && c->revisions == 0)
            cell_forget(s, c);
    }
}

/* Of a title and its revisions; its upper bits choose their shard. */
static uint64_t title_hash(const struct page_trust *t, const struct trust_key *k)
{
    return XXH3_64bits_withSeed(k->title.p, k->title.n, t->seed ^ ((uint64_t)k->domain << 32));
}

static struct shard *shard_of(struct page_trust *t, const struct trust_key *k)
{
    _Static_assert(TRUST_SHARDS == 16, "four bits choose the shard");
    return &t->shards[title_hash(t, k) >> 60];
}

/* Fibonacci hashing of the revision: cells of one title lie apart. */
static uint64_t key_hash(const struct page_trust *t, const struct trust_key *k)
{
    return title_hash(t, k) ^ (k->rev * 0x9e3779b97f4a7c15u);
}

static struct trust_cell *cell_find(const struct shard *s, const struct trust_key *k, uint64_t hash)
{
    for (struct hash_node *n = hash_first(&s->cells, hash); n != NULL; n = hash_next(n)) {
        struct trust_cell *c = CONTAINER_OF(n, struct trust_cell, node);
        if (c->domain == k->domain && c->rev == k->rev &&
            str_eq(k->title, (str){ .p = c->title, .n = c->title_bytes }))
            return c;
    }
    return NULL;
}

static struct trust_cell *cell_new(struct page_trust *t, struct shard *s, const struct trust_key *k)
{
    struct trust_cell *c = calloc(1, sizeof *c + k->title.n);
    INVARIANT(c != NULL);
    c->all = t;
    c->shard = s;
    c->domain = k->domain;
    c->rev = k->rev;
    c->title_bytes = k->title.n;
    memcpy(c->title, k->title.p, k->title.n);
    hash_add(&s->cells, &c->node, key_hash(t, k));
    list_append(&s->ring, &c->ring);
    s->count++;
    return c;
}

/* Under the lock. */
static struct trust_cell *cell_get(struct page_trust *t, struct shard *s, const struct trust_key *k)
{
    struct trust_cell *c = cell_find(s, k, key_hash(t, k));
    if (c == NULL)
        c = cell_new(t, s, k);
    return c;
}

struct trust_cell *page_trust_hold(struct page_trust *t, const struct trust_key *k)
{
    MAGIC_CHECK(t, TRUST_MAGIC);
    const struct trust_key title = { .domain = k->domain, .title = k->title };
    struct shard *s = shard_of(t, k);
    shard_lock(s);
    struct trust_cell *c = cell_get(t, s, k);
    /* A revision's cell stands on its title's, whose doubts count for it. */
    if (k->rev != 0 && c->title_cell == NULL) {
        c->title_cell = cell_get(t, s, &title);
        c->title_cell->revisions++;
    }
    cell_ref(s, c);
    atomic_store_explicit(&c->used, true, memory_order_relaxed);
    /* The cell at hand is held by now, so it stays. */
    shard_evict(s, t->shard_cells_max);
    shard_unlock(s);
    return c;
}

struct trust_cell *trust_hold(struct trust_cell *c)
{
    shard_lock(c->shard);
    INVARIANT(c->refs > 0);
    cell_ref(c->shard, c);
    shard_unlock(c->shard);
    return c;
}

void trust_release(struct trust_cell **cp)
{
    struct trust_cell *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    struct shard *s = c->shard;
    shard_lock(s);
    INVARIANT(c->refs > 0);
    c->refs--;
    s->held -= c->refs == 0;
    shard_unlock(s);
}

struct trust_key trust_key_of(const struct trust_cell *c)
{
    return (struct trust_key){ .domain = c->domain,
                               .title = { .p = c->title, .n = c->title_bytes },
                               .rev = c->rev };
}

/* ---- trust ---- */

static int64_t doubt_of(const struct trust_cell *c)
{
    return atomic_load_explicit(&c->doubt_at, memory_order_acquire);
}

/* The later of its own doubt and its title's. */
static int64_t doubt_at(const struct trust_cell *c)
{
    int64_t own = doubt_of(c), title = c->title_cell == NULL ? 0 : doubt_of(c->title_cell);
    return own > title ? own : title;
}

int64_t trust_age_ns(const struct trust_cell *c, uint64_t says, store_time now)
{
    /* asked_at before says: see invariant 3. */
    int64_t asked_at = atomic_load_explicit(&c->asked_at, memory_order_acquire);
    if (asked_at == 0 || asked_at < doubt_at(c) ||
        atomic_load_explicit(&c->says, memory_order_acquire) != says)
        return TRUST_NEVER;
    return now.ns > asked_at ? now.ns - asked_at : 0;
}

int64_t trust_waited_ns(const struct trust_cell *c, uint64_t says, store_time since, store_time now)
{
    int64_t asked_at = atomic_load_explicit(&c->asked_at, memory_order_acquire);
    if (asked_at < since.ns || atomic_load_explicit(&c->says, memory_order_acquire) != says)
        return TRUST_NEVER;
    return now.ns > asked_at ? now.ns - asked_at : 0;
}

store_time trust_doubted_at(const struct trust_cell *c)
{
    return (store_time){ .ns = doubt_at(c) };
}

/* purges_at runs ahead of the clock by TRUST_PURGE_S for each purge; it may be TRUST_PURGES_MAX - 1
 * ahead. */
bool trust_may_purge(struct trust_cell *c, store_time now)
{
    const int64_t each_ns = TRUST_PURGE_S * NS_PER_S;
    int64_t due = atomic_load(&c->purges_at), from;
    do {
        from = due > now.ns ? due : now.ns;
        if (from - now.ns > (TRUST_PURGES_MAX - 1) * each_ns)
            return false;
    } while (!atomic_compare_exchange_weak(&c->purges_at, &due, from + each_ns));
    return true;
}

/* Under the lock. A word that was asked for earlier than the last is passed over. */
static void cell_hear(struct trust_cell *c, store_time asked_at, uint64_t says)
{
    if (asked_at.ns >= atomic_load_explicit(&c->asked_at, memory_order_relaxed)) {
        atomic_store_explicit(&c->says, says, memory_order_release);
        atomic_store_explicit(&c->asked_at, asked_at.ns, memory_order_release);
    }
}

void trust_hear(struct trust_cell *c, store_time asked_at, uint64_t says)
{
    shard_lock(c->shard);
    cell_hear(c, asked_at, says);
    shard_unlock(c->shard);
    atomic_store_explicit(&c->wanted, false, memory_order_release);
}

bool trust_said_since(const struct trust_cell *c, store_time since, uint64_t *says, store_time *at)
{
    at->ns = atomic_load_explicit(&c->asked_at, memory_order_acquire);
    *says = atomic_load_explicit(&c->says, memory_order_acquire);
    return at->ns > since.ns;
}

/* The bound ends with the first word that reaches it. */
bool trust_hear_word(struct trust_cell *c, const struct title_word *w, bool believe)
{
    shard_lock(c->shard);
    bool heard = believe || title_word_reaches(w, &c->bound);
    if (heard) {
        c->bound = (struct title_bound){ .rev = 0 };
        c->reached_rev = w->rev;
        c->reached_touched = w->touched;
        cell_hear(c, w->asked_at, title_word_hash(w));
    }
    shard_unlock(c->shard);
    if (heard)
        atomic_store_explicit(&c->wanted, false, memory_order_release);
    return heard;
}

/* Under the lock. */
static void cell_doubt(struct trust_cell *c, store_time at)
{
    if (at.ns > doubt_of(c))
        atomic_store_explicit(&c->doubt_at, at.ns, memory_order_release);
    atomic_fetch_add_explicit(&c->all->doubts, 1, memory_order_relaxed);
}

/* Adds a bound. What the last word reached is heard of already, and asks for nothing. Under the
 * lock. */
static void cell_bind(struct trust_cell *c, const struct title_bound *b)
{
    struct title_bound left = *b;
    if (left.rev <= c->reached_rev)
        left.rev = 0;
    if (left.touched <= c->reached_touched)
        left.touched = 0;
    if (left.heard.rev <= c->reached_rev)
        left.heard.rev = 0;
    if (left.heard.touched <= c->reached_touched)
        left.heard.touched = 0;
    title_bound_join(&c->bound, &left);
}

void trust_doubt(struct trust_cell *c, store_time at)
{
    shard_lock(c->shard);
    cell_doubt(c, at);
    shard_unlock(c->shard);
}

void trust_bind(struct trust_cell *c, const struct title_bound *b)
{
    shard_lock(c->shard);
    cell_bind(c, b);
    shard_unlock(c->shard);
}

bool trust_reaches(const struct trust_cell *c, const struct title_word *w)
{
    shard_lock(c->shard);
    bool reaches = title_word_reaches(w, &c->bound);
    shard_unlock(c->shard);
    return reaches;
}

/* Of a title that has no cell nothing is trusted: there is nothing to doubt. */
bool page_trust_doubt(struct page_trust *t, const struct trust_key *k, store_time at,
                      const struct title_bound *b)
{
    MAGIC_CHECK(t, TRUST_MAGIC);
    INVARIANT(k->rev == 0);
    struct shard *s = shard_of(t, k);
    shard_lock(s);
    struct trust_cell *c = cell_find(s, k, key_hash(t, k));
    if (c != NULL) {
        cell_bind(c, b);
        cell_doubt(c, at);
    }
    shard_unlock(s);
    return c != NULL;
}

bool page_trust_says(struct page_trust *t, const struct trust_key *k, uint64_t says)
{
    MAGIC_CHECK(t, TRUST_MAGIC);
    struct shard *s = shard_of(t, k);
    shard_lock(s);
    const struct trust_cell *c = cell_find(s, k, key_hash(t, k));
    bool same = c != NULL && !cell_in_doubt(c) &&
                atomic_load_explicit(&c->says, memory_order_relaxed) == says;
    shard_unlock(s);
    return same;
}

/* At the home of `soon`. posted is cleared first: a wish from here on posts again. */
static void soon_run(struct task *task)
{
    struct trust_cell *c = CONTAINER_OF(task, struct trust_cell, task);
    atomic_store_explicit(&c->posted, false, memory_order_release);
    if (c->all->soon != NULL)
        c->all->soon(c->all->soon_ctx, c);
    trust_release(&c);
}

/* Once until a word is heard (wanted), and never while the task is on its way (posted): it lies in
 * the cell. */
void trust_soon(struct trust_cell *c)
{
    struct page_trust *t = c->all;
    if (t->soon == NULL || atomic_load_explicit(&c->wanted, memory_order_relaxed) ||
        atomic_exchange_explicit(&c->wanted, true, memory_order_acq_rel) ||
        atomic_exchange_explicit(&c->posted, true, memory_order_acq_rel))
        return;
    c->task.run = soon_run;
    /* The task holds the cell; soon_run lets it go. */
    home_post(t->home, &trust_hold(c)->task);
}

void trust_unheard(struct trust_cell *c)
{
    atomic_store_explicit(&c->wanted, false, memory_order_release);
}

enum trust_need trust_need(const struct trust_rules *r, enum trust_reader reader, int64_t age_ns)
{
    if (age_ns == TRUST_NEVER) /* however long words are trusted: there is none */
        return TRUST_FIRST;
    int64_t ttl_ns = atomic_load_explicit(&r->ttl_ns, memory_order_relaxed);
    switch (reader) {
    case TRUST_PLAIN:
        /* Past ttl a plain reader is answered by the old word, while a new one is asked for. */
        if (age_ns <= ttl_ns)
            return TRUST_FINE;
        return age_ns <= atomic_load_explicit(&r->max_ns, memory_order_relaxed) ? TRUST_BEHIND
                                                                                : TRUST_FIRST;
    case TRUST_NAMED:
        return age_ns <= ttl_ns ? TRUST_FINE : TRUST_FIRST;
    case TRUST_SAVER:
        return age_ns <= TRUST_RECENT_NS ? TRUST_FINE : TRUST_FIRST;
    case TRUST_EDITOR:
        break;
    }
    return TRUST_FIRST;
}

void page_trust_figures(struct page_trust *t, struct trust_figures *out)
{
    MAGIC_CHECK(t, TRUST_MAGIC);
    *out = (struct trust_figures){ .doubts = atomic_load(&t->doubts) };
    for (unsigned i = 0; i < TRUST_SHARDS; i++) {
        shard_lock(&t->shards[i]);
        out->cells += t->shards[i].count;
        out->held += t->shards[i].held;
        shard_unlock(&t->shards[i]);
    }
}
