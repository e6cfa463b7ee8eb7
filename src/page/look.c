/* look.c - titles that somebody said changed, on their way to the checks.
 *
 *   page_look -> WAITS -> in a batch: is it known? (pool) -> asked for (loop) -> over
 *                 ^ ^                     \-> no: over            \-> RESTS, without a bound
 *                 | \------------- said again -----------------------/ |
 *                 \--------------- its time has come ------------------/
 *
 * Invariants
 *  1. A title that WAITS or RESTS is in the table, once. One in a batch is not.
 *  2. There is one batch at a time; `running` is set meanwhile.
 *  3. Titles that REST are in the order of their times. */
#include "page/look.h"

#include "base/hash.h"
#include "base/list.h"
#include "loop/loop.h"
#include "page/check.h"
#include "page/tell.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#define LOOKS_MAGIC 0x100c5a11u
enum { REST_LOOK_MS = 100 }; /* how often those at rest are looked at: tests move their clock */

enum look_state { LOOK_WAITS, LOOK_RESTS };
/* One title that somebody spoke of. Owner: the table, or the batch that took it. */
struct look {
    struct hash_node node;
    struct list link;
    const struct page_domain *domain;
    struct title_bound bound; /* what a word must reach: of all who spoke */
    enum look_state state;
    bool recheck;   /* once more, after this */
    bool doubted;   /* its trust has ended */
    store_time due; /* RESTS */
    size_t title_bytes;
    char title[];
};

/* Owner: the service. Any thread fills the table; one batch at a time goes from pool to loop. */
struct page_looks {
    uint32_t magic;
    const struct page_service *service;
    int64_t recheck_ns;
    uint64_t seed;
    struct loop_timer *timer;
    bool timed; /* it runs; loop */
    pthread_mutex_t lock;
    struct hash table;
    struct list waiting, resting;
    bool running, stopped; /* under the lock */
    struct task task;
    struct look *batch[LOOK_BATCH_MAX]; /* whose it is that runs */
    unsigned batch_at, batch_end;       /* those between wait to be looked for in the store */
    unsigned batch_count;               /* those before are known there */
    struct page_knows knows;
    _Atomic uint64_t looked, unknown, rechecked, dropped;
};

static void looks_lock(struct page_looks *l)
{
    int failed = pthread_mutex_lock(&l->lock);
    INVARIANT(failed == 0);
}

static void looks_unlock(struct page_looks *l)
{
    int failed = pthread_mutex_unlock(&l->lock);
    INVARIANT(failed == 0);
}

static void look_count(_Atomic uint64_t *n)
{
    atomic_fetch_add_explicit(n, 1, memory_order_relaxed);
}

/* ---- the table; under the lock ---- */

/* One batch owns an item without the lock, so its title is read freely. */
static str title_of(const struct look *k)
{
    return (str){ .p = k->title, .n = k->title_bytes };
}

static uint64_t look_hash(const struct page_looks *l, const struct page_domain *d, str title)
{
    return hash_of_str(title, l->seed ^ ((uint64_t)d->number << 32));
}

static struct look *look_find(const struct page_looks *l, const struct page_domain *d, str title)
{
    uint64_t hash = look_hash(l, d, title);
    for (struct hash_node *n = hash_first(&l->table, hash); n != NULL; n = hash_next(n)) {
        struct look *k = CONTAINER_OF(n, struct look, node);
        if (k->domain == d && str_eq(title, title_of(k)))
            return k;
    }
    return NULL;
}

static struct look *look_new(const struct page_domain *d, str title)
{
    struct look *k = calloc(1, sizeof *k + title.n);
    INVARIANT(k != NULL);
    k->domain = d;
    k->title_bytes = title.n;
    memcpy(k->title, title.p, title.n);
    list_init(&k->link);
    return k;
}

/* Both lists are first in, first out: all rests are equally long. */
static void look_enter(struct page_looks *l, struct look *k, enum look_state state)
{
    hash_add(&l->table, &k->node, look_hash(l, k->domain, title_of(k)));
    k->state = state;
    list_append(state == LOOK_WAITS ? &l->waiting : &l->resting, &k->link);
}

static void look_leave(struct page_looks *l, struct look *k)
{
    hash_remove(&l->table, &k->node);
    list_remove(&k->link);
}

/* From its rest back among those that wait. */
static void look_wake(struct page_looks *l, struct look *k)
{
    list_remove(&k->link);
    k->state = LOOK_WAITS;
    list_append(&l->waiting, &k->link);
}

/* True: the caller begins a batch, once it has let go of the lock. running is set by now, so no
 * other does. */
static bool batch_wanted(struct page_looks *l)
{
    bool wanted = !l->running && !l->stopped && !list_empty(&l->waiting);
    l->running |= wanted;
    return wanted;
}

/* Starts the timer when titles rest and it does not run. Loop. */
static void timer_want(struct page_looks *l, bool rest)
{
    if (rest && !l->timed)
        loop_timer_start(l->timer, REST_LOOK_MS, 0);
    l->timed |= rest;
}

/* ---- a batch ---- */

static void batch_run(struct task *t);

static void batch_begin(struct page_looks *l)
{
    l->task.run = batch_run;
    home_post(loop_pool(l->service->loop), &l->task);
}

/* Has the wiki asked about a known title, and ends the trust in what it said before. */
static void look_ask(struct page_looks *l, struct look *k)
{
    const struct page_service *s = l->service;
    const struct trust_key key = { .domain = k->domain->number, .title = title_of(k) };
    struct trust_cell *c = page_trust_hold(s->trust, &key);
    if (page_checks_look(s->checks, k->domain, c)) {
        look_count(&l->looked);
        trust_bind(c, &k->bound);
        /* A doubt of a later instant would deny words that came since. */
        if (!k->doubted)
            trust_doubt(c, clock_store(s->clock));
    } else {
        look_count(&l->dropped);
    }
    trust_release(&c);
}

/* A title without a bound rests for one more look; any other is freed. One that was spoken of
 * again meanwhile waits already, and takes the second look over. */
static void look_over(struct page_looks *l, struct look *k)
{
    looks_lock(l);
    bool rests = k->recheck && !l->stopped;
    struct look *other = rests ? look_find(l, k->domain, title_of(k)) : NULL;
    if (other != NULL) {
        other->recheck = true; /* said again meanwhile */
    } else if (rests) {
        k->bound = (struct title_bound){ .rev = 0 };
        k->due = store_time_add(clock_store(l->service->clock), l->recheck_ns);
        look_enter(l, k, LOOK_RESTS);
    }
    looks_unlock(l);
    if (!rests || other != NULL)
        free(k);
}

/* Loop. All are asked for before any rests, so that one call of the checks takes them. */
static void asked_run(struct task *t)
{
    struct page_looks *l = CONTAINER_OF(t, struct page_looks, task);
    for (unsigned i = 0; i < l->batch_count; i++)
        look_ask(l, l->batch[i]);
    for (unsigned i = 0; i < l->batch_count; i++)
        look_over(l, l->batch[i]);
    l->batch_count = 0;
    looks_lock(l);
    l->running = false;
    bool more = batch_wanted(l), rest = !list_empty(&l->resting) && !l->stopped;
    looks_unlock(l);
    timer_want(l, rest);
    if (more)
        batch_begin(l);
}

/* Pool. The store has answered for one title: known ones move to the front of the batch. A row
 * that cannot be read counts as known. */
static void look_told(struct page_looks *l)
{
    struct look *k = l->batch[l->batch_at++];
    if (l->knows.known || l->knows.call.why != ERR_OK) { /* a row that cannot be read was there */
        l->batch[l->batch_count++] = k;
        return;
    }
    look_count(&l->unknown);
    free(k);
}

static void batch_next(struct page_looks *l);

static void knows_done(struct store_call *c)
{
    struct page_looks *l = CONTAINER_OF(c, struct page_looks, knows.call);
    look_told(l);
    batch_next(l);
}

/* One request of the store after the other, from the pool; in the end the loop takes the known
 * ones. */
static void batch_next(struct page_looks *l)
{
    while (l->batch_at < l->batch_end) {
        const struct look *k = l->batch[l->batch_at];
        l->knows = (struct page_knows){ .call = { .home = loop_pool(l->service->loop),
                                                  .done = knows_done },
                                        .domain = k->domain->number,
                                        .title = title_of(k) };
        if (page_store_knows(l->service->store, &l->knows) == STORE_LATER)
            return;
        look_told(l);
    }
    l->task.run = asked_run;
    home_post(loop_home(l->service->loop), &l->task);
}

/* Pool. Takes what waits: from here on the titles are the batch's. */
static void batch_run(struct task *t)
{
    struct page_looks *l = CONTAINER_OF(t, struct page_looks, task);
    l->batch_at = l->batch_end = l->batch_count = 0;
    looks_lock(l);
    while (l->batch_end < LOOK_BATCH_MAX && !list_empty(&l->waiting)) {
        struct look *k = CONTAINER_OF(list_first(&l->waiting), struct look, link);
        look_leave(l, k);
        l->batch[l->batch_end++] = k;
    }
    looks_unlock(l);
    batch_next(l);
}

/* ---- once more ---- */

/* Takes the first title whose rest is over, awake again; NULL: none. Under the lock. */
static struct look *rested_take(struct page_looks *l, store_time now)
{
    struct list *first = list_first(&l->resting);
    struct look *k = first == NULL ? NULL : CONTAINER_OF(first, struct look, link);
    if (k == NULL || store_time_before(now, k->due))
        return NULL;
    look_wake(l, k);
    /* Its second look is its last, unless somebody speaks of it again. */
    k->recheck = k->doubted = false;
    return k;
}

/* Loop. */
static void timer_fired(void *ctx)
{
    struct page_looks *l = ctx;
    const struct title_bound none = { .rev = 0 };
    store_time now = clock_store(l->service->clock);
    looks_lock(l);
    for (struct look *k = rested_take(l, now); k != NULL; k = rested_take(l, now)) {
        const struct trust_key key = { .domain = k->domain->number, .title = title_of(k) };
        /* The second look is a doubt of its own: words since the first may come from a copy that
         * was behind. */
        k->doubted = page_trust_doubt(l->service->trust, &key, now, &none);
        look_count(&l->rechecked);
    }
    bool wanted = batch_wanted(l), rest = !list_empty(&l->resting);
    looks_unlock(l);
    l->timed = false;
    timer_want(l, rest);
    if (wanted)
        batch_begin(l);
}

/* ---- from outside ---- */

/* The title's item, waiting; NULL: there are too many, or nothing begins any more. Under the
 * lock. */
static struct look *look_at(struct page_looks *l, const struct page_domain *d, str title)
{
    struct look *k = look_find(l, d, title);
    if (k != NULL && k->state == LOOK_RESTS)
        look_wake(l, k);
    if (k != NULL || l->stopped || l->table.count >= LOOK_TITLES_MAX)
        return k;
    k = look_new(d, title);
    look_enter(l, k, LOOK_WAITS);
    return k;
}

static bool is_looked_at(const struct page_service *s, const struct page_domain *d, str title)
{
    return s->looks != NULL && page_is_asked(s, d) && title.n > 0 &&
           title.n <= PAGE_TITLE_BYTES_MAX;
}

bool page_look(const struct page_service *s, const struct page_domain *d, str title,
               const struct title_bound *bound)
{
    const struct title_bound b = bound == NULL ? (struct title_bound){ .rev = 0 } : *bound;
    if (!is_looked_at(s, d, title))
        return true;
    page_look_tell(s, d, title, &b);
    return page_look_told(s, d, title, &b);
}

/* The trust ends before the item waits: a reader that comes in between asks by itself. */
bool page_look_told(const struct page_service *s, const struct page_domain *d, str title,
                    const struct title_bound *bound)
{
    struct page_looks *l = s->looks;
    if (!is_looked_at(s, d, title))
        return true;
    MAGIC_CHECK(l, LOOKS_MAGIC);
    const struct trust_key key = { .domain = d->number, .title = title };
    bool doubted = page_trust_doubt(s->trust, &key, clock_store(s->clock), bound);
    looks_lock(l);
    struct look *k = look_at(l, d, title);
    if (k != NULL) {
        title_bound_join(&k->bound, bound);
        k->recheck |= title_bound_is_none(bound);
        k->doubted |= doubted;
    }
    bool wanted = batch_wanted(l);
    looks_unlock(l);
    if (k == NULL)
        look_count(&l->dropped);
    if (wanted)
        batch_begin(l);
    return k != NULL;
}

void page_looks_figures(struct page_looks *l, struct look_figures *out)
{
    MAGIC_CHECK(l, LOOKS_MAGIC);
    *out = (struct look_figures){ .looked = atomic_load(&l->looked),
                                  .unknown = atomic_load(&l->unknown),
                                  .rechecked = atomic_load(&l->rechecked),
                                  .dropped = atomic_load(&l->dropped) };
    looks_lock(l);
    out->waiting = l->table.count;
    looks_unlock(l);
}

/* ---- the whole ---- */

struct page_looks *page_looks_new(const struct page_service *s, int64_t recheck_ns, uint64_t seed)
{
    struct page_looks *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->magic = LOOKS_MAGIC;
    l->service = s;
    l->recheck_ns = recheck_ns;
    l->seed = seed;
    hash_init(&l->table);
    list_init(&l->waiting);
    list_init(&l->resting);
    int failed = pthread_mutex_init(&l->lock, NULL);
    INVARIANT(failed == 0);
    l->timer = loop_timer_new(s->loop, timer_fired, l);
    return l;
}

static void list_forget(struct page_looks *l, struct list *looks)
{
    for (struct list *n = list_first(looks); n != NULL; n = list_first(looks)) {
        struct look *k = CONTAINER_OF(n, struct look, link);
        look_leave(l, k);
        free(k);
    }
}

/* A batch that runs goes on to its end; look_over then keeps nothing. */
void page_looks_stop(struct page_looks *l)
{
    MAGIC_CHECK(l, LOOKS_MAGIC);
    loop_timer_stop(l->timer);
    looks_lock(l);
    l->stopped = true;
    list_forget(l, &l->waiting);
    list_forget(l, &l->resting);
    looks_unlock(l);
}

bool page_looks_idle(const struct page_looks *l)
{
    /* Only its lock is written. */
    struct page_looks *of = unconst(l); /* its lock alone */
    looks_lock(of);
    bool idle = !l->running;
    looks_unlock(of);
    return idle;
}

void page_looks_free(struct page_looks **lp)
{
    struct page_looks *l = *lp;
    if (l == NULL)
        return;
    MAGIC_CHECK(l, LOOKS_MAGIC);
    INVARIANT(!l->running);
    list_forget(l, &l->waiting);
    list_forget(l, &l->resting);
    loop_timer_free(&l->timer);
    hash_fini(&l->table);
    (void)pthread_mutex_destroy(&l->lock); /* nobody has it */
    l->magic = 0;
    free(l);
    *lp = NULL;
}
