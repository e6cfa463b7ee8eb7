/* noted.c - remembers when renders were told of, for hop.c. Sets of four places, by a hash; in a
 * full set the place that was told first is taken. */
#include "page/noted.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <xxhash.h>

enum { WAYS = 4, SETS = PAGE_NOTED_PLACES / WAYS };

/* One render, as a hash of its key, and when it was told. Two writers at once may mix what and
 * at: then a render is told once too often, or not until the other one's time. */
struct place {
    _Atomic uint64_t what; /* 0: empty */
    _Atomic int64_t at;    /* store_time */
};
struct page_noted {
    uint64_t seed;
    struct place places[SETS][WAYS];
};

struct page_noted *page_noted_new(uint64_t seed)
{
    struct page_noted *n = calloc(1, sizeof *n);
    INVARIANT(n != NULL);
    n->seed = seed;
    return n;
}

void page_noted_free(struct page_noted **np)
{
    free(*np);
    *np = NULL;
}

static uint64_t what_of(const struct page_noted *n, const struct page_noted_key *k)
{
    unsigned char tid[TID_KEY_BYTES];
    tid_key(k->name.tid, tid);
    str bucket = str_of(k->bucket);
    uint64_t h = XXH3_64bits_withSeed(tid, sizeof tid, n->seed ^ k->domain);
    h = XXH3_64bits_withSeed(bucket.p, bucket.n, h ^ k->name.rev);
    h = XXH3_64bits_withSeed(k->title.p, k->title.n, h);
    /* 0 means empty. */
    return h == 0 ? 1 : h;
}

/* The place of this render, or the one that it takes: an empty one, or that of the oldest. */
static struct place *place_of(struct place set[WAYS], uint64_t what)
{
    struct place *oldest = &set[0];
    for (unsigned i = 0; i < WAYS; i++) {
        uint64_t there = atomic_load(&set[i].what);
        if (there == what)
            return &set[i];
        bool older = atomic_load(&set[i].at) < atomic_load(&oldest->at);
        if (atomic_load(&oldest->what) != 0 && (there == 0 || older))
            oldest = &set[i];
    }
    return oldest;
}

bool page_noted_due(struct page_noted *n, const struct page_noted_key *key, store_time now,
                    int64_t age_ns, store_time *again)
{
    uint64_t what = what_of(n, key);
    struct place *p = place_of(n->places[what % SETS], what);
    int64_t at = atomic_load(&p->at);
    bool known = atomic_load(&p->what) == what;
    if (known && now.ns < store_time_add((store_time){ .ns = at }, age_ns).ns) {
        *again = store_time_add((store_time){ .ns = at }, age_ns);
        return false;
    }
    *again = store_time_add(now, age_ns);
    /* Of two hits at once one wins, and tells. */
    if (!atomic_compare_exchange_strong(&p->at, &at, now.ns))
        return false; /* another one tells it, or took the place: then the next hit tells it */
    atomic_store(&p->what, what);
    return true;
}

void page_noted_forget(struct page_noted *n)
{
    for (unsigned i = 0; i < SETS; i++)
        for (unsigned j = 0; j < WAYS; j++)
            atomic_store(&n->places[i][j].what, 0);
}
