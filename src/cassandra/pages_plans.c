/* pages_plans.c - the policies of buckets: that of the options alone, or all of the catalogue.
 *
 * A request derives its title with the policies that were known when it had read the facts. Other
 * policies may come meanwhile. They come into force later, so the answer of the request stays
 * right. A list of policies is kept until the store ends, because requests borrow it; policies
 * change seldom.
 * Invariant: lists are only replaced by longer ones, and by one thread at a time
 * (cassandra_pages_plan). */
#include "cassandra/pages_impl.h"
#include "cassandra/policies.h"

#include <stdlib.h>
#include <string.h>

enum { PLANS_ARENA_BYTES_MAX = 16 << 20 };

static struct bucket_plans *plans_new(const struct title_plan *plans, size_t count)
{
    struct bucket_plans *n = calloc(1, sizeof *n + count * sizeof n->at[0]);
    INVARIANT(n != NULL);
    n->count = count;
    memcpy(n->at, plans, count * sizeof n->at[0]);
    return n;
}

/* The policy of the options, in force from the beginning. */
void bucket_plans_init(struct page_bucket *b)
{
    const struct title_plan first = {
        .plan = { .policy = b->opts.policy, .number = 1, .replanned = true }
    };
    atomic_init(&b->plans, plans_new(&first, 1));
}

void bucket_plans_fini(struct page_bucket *b)
{
    /* The newest list leads to those before it. */
    struct bucket_plans *n = atomic_load(&b->plans);
    while (n != NULL) {
        struct bucket_plans *older = n->older;
        free(n);
        n = older;
    }
}

const struct bucket_plans *bucket_plans(const struct page_bucket *b)
{
    /* Pairs with the release in bucket_take: who sees the list sees its policies. */
    return atomic_load_explicit(&b->plans, memory_order_acquire);
}

const struct page_policy *cassandra_pages_bucket_policy(const struct page_bucket *b)
{
    const struct bucket_plans *n = bucket_plans(b);
    const struct policies all = { .plans = n->at, .count = n->count };
    const struct title_plan *p = policies_at(&all, clock_store(b->pages->opts.clock));
    /* A clock before all policies: the first one counts, since something has to. */
    return p == NULL ? &n->at[0].plan.policy : &p->plan.policy;
}

/* ---- those of the catalogue ---- */

err cassandra_pages_same(const struct cassandra_pages *p, const struct catalog_rows *rows,
                         struct err_note *note)
{
    struct page_bucket_opts opts[CASSANDRA_BUCKETS_MAX];
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    for (unsigned i = 0; i < p->opts.buckets_count; i++)
        opts[i] = p->buckets[i].opts;
    return policies_check(rows, opts, p->opts.buckets_count, note);
}

/* Also policies of long ago: renders that were put under them are still judged by them. */
static err bucket_fits(const struct page_bucket *b, const struct policies *of,
                       struct err_note *note)
{
    err e = ERR_OK;
    for (size_t i = 0; i < of->count && e == ERR_OK; i++) {
        struct page_bucket_opts then = b->opts;
        then.policy = of->plans[i].plan.policy;
        e = policies_fit(&then, b->pages->opts.max_skew_ns, note);
    }
    if (of->count == 0) {
        err_note_set(
            note,
            "bucket %s has no policy in the cluster any more: palimpsest policy apply writes it",
            b->opts.name);
        e = ERR_CONFLICT;
    }
    return e;
}

static void bucket_take(struct page_bucket *b, const struct policies *of)
{
    struct bucket_plans *old = atomic_load(&b->plans);
    if (b->told && old->count == of->count) /* they are only added to */
        /* So an equal count means the same policies, and nothing is kept twice. */
        return;
    b->told = true;
    struct bucket_plans *n = plans_new(of->plans, of->count);
    n->older = old;
    atomic_store_explicit(&b->plans, n, memory_order_release);
}

err cassandra_pages_plan(struct cassandra_pages *p, const struct catalog_rows *rows,
                         struct err_note *note)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    struct policies of[CASSANDRA_BUCKETS_MAX];
    struct arena a;
    err e = ERR_OK;
    arena_init(&a, PLANS_ARENA_BYTES_MAX);
    /* All buckets are read and judged before any is changed: all or nothing. */
    for (unsigned i = 0; i < p->opts.buckets_count && e == ERR_OK; i++) {
        e = policies_of(rows, str_of(p->buckets[i].opts.name), &a, &of[i], note);
        if (e == ERR_OK)
            e = bucket_fits(&p->buckets[i], &of[i], note);
    }
    for (unsigned i = 0; i < p->opts.buckets_count && e == ERR_OK; i++)
        bucket_take(&p->buckets[i], &of[i]);
    /* Looked at by each request (pages_plans_known): a server that cannot keep a policy must not
     * answer by others. */
    atomic_store(&p->plans_refused, e != ERR_OK);
    arena_fini(&a);
    return e;
}

void cassandra_pages_watch(struct cassandra_pages *p, const struct catalog_watch *w)
{
    MAGIC_CHECK(p, CASSANDRA_PAGES_MAGIC);
    p->watch = w;
}

bool pages_plans_known(const struct cassandra_pages *p, struct err_note *note)
{
    mono at;
    if (p->watch == NULL)
        return true;
    if (atomic_load(&p->plans_refused)) {
        err_note_set(note, "policies_refused: the cluster holds policies that this server cannot "
                           "keep; its log says which (policies.refused)");
        return false;
    }
    bool known = catalog_watch_fresh(p->watch, &at) &&
                 /* Policies are written so far ahead that a server which looked within this time
                  * knows all in force. */
                 clock_mono(p->opts.clock).ns <= mono_add_ms(at, POLICIES_STALE_MS).ns;
    if (!known)
        err_note_set(note,
                     "policies_unread: the server could not read the policies of its cluster for "
                     "%d s; it asks each second",
                     POLICIES_STALE_MS / 1000);
    return known;
}
