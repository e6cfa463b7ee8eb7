/* store_ops.c - the table of what a page store does (store/page_store.h), on pages.h: each request
 * goes through the gate (store_gate_enter).
 *
 * Invariant: a request that the gate refuses is over at once (STORE_DONE), and is never started. */
#include "cassandra/store_impl.h"

static struct cassandra_store *store_of(struct page_store *s)
{
    struct cassandra_store *c = CONTAINER_OF(s, struct cassandra_store, store);
    MAGIC_CHECK(c, CASSANDRA_STORE_MAGIC);
    return c;
}

/* ---- reads ---- */

static enum store_start ops_read(struct page_store *s, struct page_read *r)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&r->call, e)
                       : store_gate_leave(c, cassandra_pages_read(c->pages, r));
}

static enum store_start ops_list(struct page_store *s, struct page_list *l)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&l->call, e)
                       : store_gate_leave(c, cassandra_pages_list(c->pages, l));
}

static enum store_start ops_explain(struct page_store *s, struct page_explain *x)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&x->call, e)
                       : store_gate_leave(c, cassandra_pages_explain(c->pages, x));
}

/* ---- writes ---- */

static enum store_start ops_put(struct page_store *s, struct page_put *p)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, &p->note);
    return e != ERR_OK ? store_call_done(&p->call, e)
                       : store_gate_leave(c, cassandra_pages_put(c->pages, p));
}

static enum store_start ops_order(struct page_store *s, struct page_order *o)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, &o->note);
    return e != ERR_OK ? store_call_done(&o->call, e)
                       : store_gate_leave(c, cassandra_pages_order(c->pages, o));
}

/* ---- the wiki's word ---- */

static enum store_start ops_hear(struct page_store *s, struct page_hear *h)
{
    struct cassandra_store *c = store_of(s);
    /* A hearing has no note: the caller asks the wiki again, whatever the reason. */
    err e = store_gate_enter(c, true, NULL);
    return e != ERR_OK ? store_call_done(&h->call, e)
                       : store_gate_leave(c, cassandra_pages_hear(c->pages, h));
}

static enum store_start ops_revs(struct page_store *s, struct page_revs *r)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&r->call, e)
                       : store_gate_leave(c, cassandra_pages_revs(c->pages, r));
}

static enum store_start ops_forget(struct page_store *s, struct page_forget *f)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, NULL);
    return e != ERR_OK ? store_call_done(&f->call, e)
                       : store_gate_leave(c, cassandra_pages_forget(c->pages, f));
}

static enum store_start ops_note_put(struct page_store *s, struct page_note_put *n)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, true, NULL);
    return e != ERR_OK ? store_call_done(&n->call, e)
                       : store_gate_leave(c, cassandra_pages_note_put(c->pages, n));
}

static enum store_start ops_knows(struct page_store *s, struct page_knows *k)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&k->call, e)
                       : store_gate_leave(c, cassandra_pages_knows(c->pages, k));
}

static err ops_note_get(struct page_store *s, uint32_t domain, enum page_note note, char *out,
                        size_t *n)
{
    struct cassandra_store *c = store_of(s);
    return store_wait_note(c, domain, note, out, n);
}

static enum store_start ops_walk(struct page_store *s, struct page_walk *w)
{
    struct cassandra_store *c = store_of(s);
    err e = store_gate_enter(c, false, NULL);
    return e != ERR_OK ? store_call_done(&w->call, e)
                       : store_gate_leave(c, cassandra_pages_walk(c->pages, w));
}

/* The store sweeps by its own ticks (sweep.h). The server's upkeep asks all stores, so there has to
 * be an answer: nothing to do, ever. */
static err ops_upkeep(struct page_store *s, bool *more, store_time *next)
{
    (void)store_of(s);
    *more = false;
    *next = STORE_TIME_NEVER;
    return ERR_OK;
}

/* ---- the rest ---- */

/* A domain's number is of this process alone, so the gate is not asked: routes are made before the
 * store is open. */
static err ops_domain(struct page_store *s, str name, uint32_t *out)
{
    return cassandra_pages_domain(store_of(s)->pages, name, out);
}

static struct page_bucket *ops_bucket(struct page_store *s, str name)
{
    return cassandra_pages_bucket(store_of(s)->pages, name);
}

static bool ops_ready(struct page_store *s, struct err_note *note)
{
    return cassandra_store_tell(store_of(s), note);
}

static void ops_stats(struct page_store *s, struct pages_stats *out)
{
    cassandra_pages_stats(store_of(s)->pages, out);
}

/* Cassandra's own repair compares what its replicas hold. */
static err ops_check(struct page_store *s, void (*found)(void *ctx, const char *what), void *ctx)
{
    (void)store_of(s);
    (void)found;
    (void)ctx;
    return ERR_OK;
}

static void ops_listen(struct page_store *s, const struct page_listener *l)
{
    cassandra_pages_listen(store_of(s)->pages, l);
}

/* The writes of other servers reach no follower here. So the server refuses options that need
 * followers when it starts (server/options_store.c). */
static void ops_follow(struct page_store *s, const struct page_follower *f)
{
    (void)store_of(s);
    (void)f;
}

/* There is no list of changes, so a position says an instant and no place. */
static struct page_position ops_position(struct page_store *s)
{
    return (struct page_position){ .at = clock_store(store_of(s)->opts.clock) };
}

const struct page_store_ops cassandra_store_ops = {
    .domain = ops_domain,
    .bucket = ops_bucket,
    .bucket_policy = cassandra_pages_bucket_policy,
    .bucket_number = cassandra_pages_bucket_number,
    .read = ops_read,
    .put = ops_put,
    .order = ops_order,
    .hear = ops_hear,
    .knows = ops_knows,
    .list = ops_list,
    .explain = ops_explain,
    .walk = ops_walk,
    .revs = ops_revs,
    .forget = ops_forget,
    .note_put = ops_note_put,
    .note_get = ops_note_get,
    .upkeep = ops_upkeep,
    .ready = ops_ready,
    .stats = ops_stats,
    .check = ops_check,
    .listen = ops_listen,
    .follow = ops_follow,
    .position = ops_position,
};
