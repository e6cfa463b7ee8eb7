/* rows.c - a row store on a scope of the catalogue, for keys and roles (src/auth). Views read a
 * copy. Changes read, decide and write, again until no other server comes in between.
 *
 * Changes block the calling thread, and need the loop to turn meanwhile.
 * Invariants:
 *   1 when a change returns ERR_OK, the copy of this server has it, or there is none;
 *   2 a copy that may be older than ttl_ms is not read. */
#include "cassandra/rows.h"

#include "base/log.h"
#include "cassandra/catalog_impl.h"
#include "cassandra/rows_impl.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>

struct cassandra_rows {
    uint32_t magic;
    struct row_store store;
    struct cassandra_rows_opts opts;
    struct catalog_watch *watch;
    pthread_mutex_t lock;         /* of what is below */
    unsigned changing;            /* changes that have entered and not left */
    bool stopping, watch_stopped; /* watch_stopped: the watch has nothing under way any more */
    void (*stopped)(void *ctx);
    void *stopped_ctx;
};
#define CASSANDRA_ROWS_MAGIC 0xca550707u

static struct cassandra_rows *rows_of(struct row_store *s)
{
    struct cassandra_rows *r = CONTAINER_OF(s, struct cassandra_rows, store);
    MAGIC_CHECK(r, CASSANDRA_ROWS_MAGIC);
    return r;
}

/* ---- reading ---- */

static bool is_fresh(const struct cassandra_rows *r, mono fresh_at)
{
    return clock_mono(r->opts.clock).ns <= mono_add_ms(fresh_at, r->opts.ttl_ms).ns;
}

/* Asked at each check of a key, so no lock: the watch keeps the instant beside the copy. */
static bool rows_known(struct row_store *s)
{
    struct cassandra_rows *r = rows_of(s);
    mono fresh_at;
    return catalog_watch_fresh(r->watch, &fresh_at) && is_fresh(r, fresh_at);
}

static struct row_view *rows_view_begin(struct row_store *s)
{
    struct cassandra_rows *r = rows_of(s);
    struct rows_view *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    mono fresh_at;
    v->view.ops = &cassandra_rows_ops;
    v->rows = catalog_watch_rows(r->watch, &fresh_at);
    /* Rows stay NULL then, and each reading of the view is ERR_UNAVAILABLE. */
    if (v->rows != NULL && !is_fresh(r, fresh_at))
        catalog_rows_drop(&v->rows);
    return &v->view;
}

/* ---- a change ---- */

/* one call of the catalogue that a thread waits for; it lies on that thread's stack */
struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool over;
};
struct load_wait {
    struct waiter waiter;
    struct catalog_load load;
};
struct change_wait {
    struct waiter waiter;
    struct catalog_change change;
};

static void waiter_init(struct waiter *w)
{
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->turned, NULL) == 0);
    w->over = false;
}

/* Told under the lock: the waiter destroys it as soon as it may go on. */
static void waiter_tell(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->over = true;
    INVARIANT(pthread_cond_signal(&w->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

/* Each call ends by its deadline, so the wait does. Ends the waiter, too. */
static void waiter_wait(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->over)
        INVARIANT(pthread_cond_wait(&w->turned, &w->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    INVARIANT(pthread_cond_destroy(&w->turned) == 0);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
}

static void load_over(struct store_call *c)
{
    waiter_tell(&CONTAINER_OF(c, struct load_wait, load.call)->waiter);
}

static void change_over(struct store_call *c)
{
    waiter_tell(&CONTAINER_OF(c, struct change_wait, change.call)->waiter);
}

/* Reads the scope and waits for it. serial: also what is being written just now. */
static err rows_load(struct cassandra_rows *r, bool serial, mono deadline,
                     struct catalog_rows **out, struct err_note *why)
{
    struct load_wait w = {
        /* home_here: the call ends on the client's loop thread, which wakes the waiter. */
        .load = { .call = { .home = home_here(), .done = load_over, .deadline = deadline },
                  .scope = str_of(r->opts.scope),
                  .serial = serial }
    };
    waiter_init(&w.waiter);
    store_call_then(catalog_load(r->opts.catalog, &w.load), &w.load.call);
    waiter_wait(&w.waiter);
    if (w.load.call.why == ERR_OK)
        *out = w.load.rows;
    else
        *why = w.load.note;
    return w.load.call.why;
}

/* Writes all rows of a change, if nobody has changed the scope since it was read. */
static err writes_send(struct cassandra_rows *r, const struct rows_txn *t, mono deadline,
                       struct err_note *why)
{
    struct catalog_put puts[CATALOG_CHANGE_MAX];
    for (unsigned i = 0; i < t->writes.count; i++) {
        const struct rows_write *w = &t->writes.at[i];
        puts[i] = (struct catalog_put){ .key = w->key, .value = w->gone ? STR_NONE : w->cell };
    }
    struct change_wait w = {
        .change = { .call = { .home = home_here(), .done = change_over, .deadline = deadline },
                    .scope = str_of(r->opts.scope),
                    .if_generation = &t->view.rows->generation,
                    .puts = puts,
                    .puts_count = t->writes.count }
    };
    waiter_init(&w.waiter);
    store_call_then(catalog_change(r->opts.catalog, &w.change), &w.change.call);
    waiter_wait(&w.waiter);
    if (w.change.call.why != ERR_OK)
        *why = w.change.note;
    return w.change.call.why;
}

/* A decision of this server holds here at once. Otherwise the copy is forgotten: the old copy must
 * not answer once the caller knows that the change is done. */
static void copy_renew(struct cassandra_rows *r, mono deadline)
{
    struct catalog_rows *rows = NULL;
    struct err_note why;
    if (rows_load(r, false, deadline, &rows, &why) == ERR_OK)
        /* By now this reading may be older than the watch's own copy; the later one stays. */
        catalog_watch_take(r->watch, rows);
    else
        catalog_watch_forget(r->watch);
    catalog_rows_drop(&rows);
}

/* One round: read, decide, write. ERR_CONFLICT: another server was first. *decided: the result is
 * the decision's own, and final. */
static err change_try(struct cassandra_rows *r, const struct row_change *c, mono deadline,
                      bool *decided, struct err_note *why)
{
    struct rows_txn *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->txn.ops = t->view.view.ops = &cassandra_rows_ops;
    /* The decision reads its own writes, before they are sent. */
    t->view.writes = &t->writes;
    t->now = clock_store(r->opts.clock);
    *decided = false;
    err e = rows_load(r, true, deadline, &t->view.rows, why);
    if (e == ERR_OK) {
        e = c->decide(&t->txn, c->ctx);
        *decided = true;
    }
    if (e == ERR_LIMIT && t->writes.full)
        err_note_set(c->note,
                     "a change on a store of many servers writes at most %d rows; take away keys "
                     "and bindings one by one first",
                     CATALOG_CHANGE_MAX);
    /* Nothing written means that nothing has to be sent; the decision stands as it is. */
    if (e == ERR_OK && t->writes.count > 0) {
        *decided = false;
        e = writes_send(r, t, deadline, why);
        if (e == ERR_OK)
            copy_renew(r, deadline);
    }
    rows_writes_clear(&t->writes);
    catalog_rows_drop(&t->view.rows);
    free(t);
    return e;
}

/* Says what the caller is told: the cluster's own reasons are for the log. Not carried out and not
 * known are told alike, since a change that failed may still happen. */
static err change_failed(const struct cassandra_rows *r, const struct row_change *c, err e,
                         const struct err_note *why)
{
    if (r->opts.log != NULL)
        log_event(r->opts.log, LOG_WARN, "catalog.away", LOG_CSTR("scope", r->opts.scope),
                  LOG_CSTR("error", err_name(e)), LOG_CSTR("why", why->text));
    if (e == ERR_CONFLICT) {
        err_note_set(c->note, "other servers change the same at this moment");
        return ERR_AGAIN;
    }
    err_note_set(c->note, "the cluster did not carry it out, or did not say so; look again before "
                          "it is repeated");
    return e == ERR_SHUTDOWN || e == ERR_CORRUPT ? e : ERR_UNAVAILABLE;
}

/* Counts a change in, unless the store stops. */
static bool change_enter(struct cassandra_rows *r)
{
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    bool fine = !r->stopping;
    r->changing += fine ? 1 : 0;
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
    return fine;
}

static void rows_are_stopped(void *ctx)
{
    struct cassandra_rows *r = ctx;
    r->stopped(r->stopped_ctx);
}

/* Under the lock, by the last change or the watch. The caller hears of it on the loop. */
static void stop_if_over(struct cassandra_rows *r)
{
    if (r->stopping && r->watch_stopped && r->changing == 0)
        loop_post(r->opts.catalog->loop, rows_are_stopped, r);
}

static void change_leave(struct cassandra_rows *r)
{
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    INVARIANT(r->changing > 0);
    r->changing--;
    stop_if_over(r);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

static err rows_change(struct row_store *s, const struct row_change *c)
{
    struct cassandra_rows *r = rows_of(s);
    /* One deadline for all rounds. */
    mono deadline = mono_add_ms(clock_mono(r->opts.clock), CASSANDRA_ROWS_WAIT_MS);
    struct err_note why = { .text = "" };
    bool decided = false;
    err e = ERR_CONFLICT;
    INVARIANT(!loop_is_here(r->opts.catalog->loop)); /* which has to turn meanwhile */
    if (!change_enter(r))
        return ERR_SHUTDOWN;
    /* A round that lost to another server begins again; each of a few writers wins sooner or later.
     */
    for (unsigned i = 0; i < CASSANDRA_ROWS_ROUNDS && e == ERR_CONFLICT && !decided; i++)
        e = change_try(r, c, deadline, &decided, &why);
    if (e != ERR_OK && !decided)
        e = change_failed(r, c, e, &why);
    change_leave(r);
    return e;
}

static struct row_view *rows_txn_view(struct row_txn *txn)
{
    return &CONTAINER_OF(txn, struct rows_txn, txn)->view.view;
}

static store_time rows_txn_now(const struct row_txn *txn)
{
    const struct rows_txn *t = (const void *)((const char *)txn - offsetof(struct rows_txn, txn));
    return t->now;
}

const struct row_store_ops cassandra_rows_ops = {
    .view_begin = rows_view_begin,
    .view_end = rows_view_end,
    .get = rows_get,
    .more = rows_more,
    .cursor_open = rows_cursor_open,
    .cursor_next = rows_cursor_next,
    .cursor_close = rows_cursor_close,
    .change = rows_change,
    .txn_view = rows_txn_view,
    .txn_now = rows_txn_now,
    .put = rows_put,
    .remove = rows_remove,
    .known = rows_known,
};

/* ---- life ---- */

/* Another server has changed the scope: caches made from it end. */
static void rows_changed(void *ctx, struct catalog_rows *rows)
{
    (void)rows; /* it is the watch's copy already */
    struct cassandra_rows *r = ctx;
    row_store_tell(&r->store);
}

struct cassandra_rows *cassandra_rows_new(const struct cassandra_rows_opts *o)
{
    struct cassandra_rows *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->magic = CASSANDRA_ROWS_MAGIC;
    r->store.ops = &cassandra_rows_ops;
    r->opts = *o;
    if (r->opts.ttl_ms == 0)
        r->opts.ttl_ms = CASSANDRA_ROWS_TTL_MS;
    INVARIANT(pthread_mutex_init(&r->lock, NULL) == 0);
    r->watch = catalog_watch_new(&(struct catalog_watch_opts){ .catalog = o->catalog,
                                                               .scope = o->scope,
                                                               .poll_ms = o->poll_ms,
                                                               .changed = rows_changed,
                                                               .ctx = r });
    return r;
}

static void rows_watch_stopped(void *ctx)
{
    struct cassandra_rows *r = ctx;
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    r->watch_stopped = true;
    stop_if_over(r);
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
}

void cassandra_rows_stop(struct cassandra_rows *r, void (*stopped)(void *ctx), void *ctx)
{
    MAGIC_CHECK(r, CASSANDRA_ROWS_MAGIC);
    INVARIANT(pthread_mutex_lock(&r->lock) == 0);
    INVARIANT(!r->stopping);
    r->stopping = true;
    r->stopped = stopped;
    r->stopped_ctx = ctx;
    INVARIANT(pthread_mutex_unlock(&r->lock) == 0);
    /* Outside the lock: the watch may be done at once. */
    catalog_watch_stop(r->watch, rows_watch_stopped, r);
}

void cassandra_rows_free(struct cassandra_rows **rp)
{
    struct cassandra_rows *r = *rp;
    *rp = NULL;
    if (r == NULL)
        return;
    MAGIC_CHECK(r, CASSANDRA_ROWS_MAGIC);
    catalog_watch_free(&r->watch);
    INVARIANT(pthread_mutex_destroy(&r->lock) == 0);
    r->magic = 0;
    free(r);
}

struct row_store *cassandra_rows_store(struct cassandra_rows *r)
{
    MAGIC_CHECK(r, CASSANDRA_ROWS_MAGIC);
    return &r->store;
}
