/* pages_extend.c - longer lives of renders: one order for all readers who ask for the same at once.
 *
 * Many readers may name one revision at the same instant, such as readers who waited until it was
 * made. Each reader who finds that its life is too short has it made longer. Side by side none of
 * them sees what the others write, and each would write a pin into the title. So the first reader's
 * order goes out, and the others wait for it. An extension is for longer than a reader is promised
 * (retention_extend). A reader who came later than the first has the promised life, or asks once
 * more.
 * Invariant: an extension is in the table from before its order goes out until it is over. */
#include "cassandra/pages_impl.h"

#include "title/retention.h"

#include <stdlib.h>

/* One order that is under way for all who wait for it. Owner: the table, until extension_over frees
 * it. */
struct extension {
    struct hash_node node;
    struct cassandra_pages *pages;
    struct page_order order;    /* that goes out; its title is the first waiter's */
    struct page_order *waiters; /* by their call.own; the first stands last */
};

/* Requests that are under way limit the table, so nobody gains by collisions: an address is seed
 * enough. */
static uint64_t extension_hash(const struct page_order *o)
{
    return hash_of_str(o->title, (uint64_t)(uintptr_t)o->bucket ^ o->name.rev);
}

static bool extension_is_of(const struct extension *x, const struct page_order *o)
{
    const struct page_order *a = &x->order;
    return a->bucket == o->bucket && a->domain == o->domain && a->name.rev == o->name.rev &&
           tid_cmp(a->name.tid, o->name.tid) == 0 && str_eq(a->title, o->title);
}

/* Under the lock. */
static struct extension *extension_find(const struct cassandra_pages *p, const struct page_order *o)
{
    for (struct hash_node *n = hash_first(&p->extensions, extension_hash(o)); n != NULL;
         n = hash_next(n)) {
        struct extension *x = CONTAINER_OF(n, struct extension, node);
        if (extension_is_of(x, o))
            return x;
    }
    return NULL;
}

/* Does what was written serve all who waited? Two readers ask once more: one came too late for a
 * short life, the other has time left where the first reader had none. */
static bool extension_is_enough(const struct extension *x)
{
    const struct page_policy *p = cassandra_pages_bucket_policy(x->order.bucket);
    err why = x->order.call.why;
    if (why != ERR_OK)
        return why != ERR_TIMEOUT && why != ERR_UNAVAILABLE;
    return !retention_wants_extension(p, &x->order.render, clock_store(x->pages->opts.clock));
}

static bool has_time(const struct extension *x, const struct page_order *o)
{
    int64_t until_ns = o->call.deadline.ns;
    return until_ns == 0 || clock_mono(x->pages->opts.clock).ns < until_ns;
}

/* Runs at the first waiter's home. The extension leaves the table first: a reader who asks from now
 * on starts a new one. */
static void extension_over(struct store_call *c)
{
    struct extension *x =
        CONTAINER_OF(CONTAINER_OF(c, struct page_order, call), struct extension, order);
    struct cassandra_pages *p = x->pages;
    pages_lock(p);
    hash_remove(&p->extensions, &x->node);
    pages_unlock(p);
    bool enough = extension_is_enough(x);
    for (struct page_order *o = x->waiters, *next; o != NULL; o = next) {
        next = o->call.own;
        o->call.own = NULL;
        /* The first waiter, who stands last, takes the result as it is: it was his order. The
         * others may ask again. */
        if (next != NULL && !enough && has_time(x, o)) {
            store_call_post(pages_extend(p, o), &o->call);
            continue;
        }
        o->render = x->order.render;
        o->trace = x->order.trace;
        o->note = x->order.note;
        store_call_end(&o->call, c->why);
    }
    free(x);
}

/* Under the lock. The order is a copy of the first waiter's, whose title lives until that waiter is
 * answered. */
static struct extension *extension_new(struct cassandra_pages *p, const struct page_order *o)
{
    struct extension *x = calloc(1, sizeof *x);
    INVARIANT(x != NULL);
    x->pages = p;
    x->order = (struct page_order){
        .call = { .deadline = o->call.deadline, .home = o->call.home, .done = extension_over },
        .bucket = o->bucket,
        .kind = ORDER_EXTEND,
        .domain = o->domain,
        .title = o->title,
        .has_rev = true,
        .has_tid = true,
        .name = o->name
    };
    hash_add(&p->extensions, &x->node, extension_hash(o));
    return x;
}

enum store_start pages_extend(struct cassandra_pages *p, struct page_order *o)
{
    pages_lock(p);
    struct extension *x = extension_find(p, o);
    bool first = x == NULL;
    if (first)
        x = extension_new(p, o);
    o->call.own = x->waiters;
    x->waiters = o;
    pages_unlock(p);
    if (first)
        /* Outside the lock: the order may end at once, and extension_over takes the lock. */
        pages_order_start(p, &x->order);
    return STORE_LATER;
}
