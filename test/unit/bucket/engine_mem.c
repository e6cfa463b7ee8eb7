#include "engine_mem.h"
#include "engine/store.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

struct row {
    enum engine_space space;
    bool rotten;
    size_t key_n, value_n, blob_n;
    char bytes[];
};
struct undo {
    struct row *was;
    enum engine_space space;
    size_t key_n;
    char key[ENGINE_KEY_BYTES_MAX];
};

struct engine_view {
    struct engine *engine;
    bool locked;
    struct engine_cursor *cursors;
};
struct engine_txn {
    struct engine_view view;
    struct undo *undo;
    size_t undo_count, undo_size;
    store_time now;
};
struct engine {
    pthread_rwlock_t rows_lock;
    pthread_mutex_t queue_lock;
    bool draining;
    struct engine_update *first, *last;
    struct row **rows;
    size_t count, size;
    struct clock *clock;
    store_time last_now;
    err refuse;
    atomic_bool full;
    _Atomic int64_t fault; /* calls until one fails, and from then on below 0 */
    atomic_bool faulted;
    unsigned warms, colds; /* reads from memory that find it there, then those that do not */
    atomic_int pins;
    _Atomic uint64_t reads;
    uint64_t writes;
    struct engine_mem_cost cost;
};
struct engine_cursor {
    struct engine_cursor *next, **link; /* of its view, with which it ends */
    struct engine *engine;
    enum engine_space space;
    char from[ENGINE_KEY_BYTES_MAX + 8], until[ENGINE_KEY_BYTES_MAX + 8],
        at[ENGINE_KEY_BYTES_MAX + 8];
    size_t from_n, until_n, at_n;
    bool reversed, started, inclusive;
};

static str row_key(const struct row *r)
{
    return (str){ .p = r->bytes, .n = r->key_n };
}

static int row_cmp(const struct row *r, enum engine_space space, str key)
{
    if (r->space != space)
        return r->space < space ? -1 : 1;
    return str_cmp(row_key(r), key);
}

/* The first row that is not before (space, key). */
static size_t lower_bound(const struct engine *e, enum engine_space space, str key)
{
    size_t low = 0, high = e->count;
    while (low < high) {
        size_t mid = low + (high - low) / 2;
        if (row_cmp(e->rows[mid], space, key) < 0)
            low = mid + 1;
        else
            high = mid;
    }
    return low;
}

static bool holds(const struct engine *e, size_t i, enum engine_space space, str key)
{
    return i < e->count && row_cmp(e->rows[i], space, key) == 0;
}

static err fill(const struct row *r, struct engine_row *out)
{
    const char *value = r->bytes + r->key_n;
    if (r->rotten) {
        *out = (struct engine_row){ .key = row_key(r) };
        return ERR_CORRUPT;
    }
    *out = (struct engine_row){ .key = row_key(r), .value = { .p = value, .n = r->value_n } };
    if (r->blob_n > 0)
        out->blob = (struct engine_blob){ .n = r->blob_n,
                                          .mem = value + r->value_n,
                                          .hash = XXH3_64bits(value + r->value_n, r->blob_n) };
    return ERR_OK;
}

static void replace_at(struct engine *e, size_t i, bool there, struct row *r)
{
    if (there && r != NULL) {
        e->rows[i] = r;
    } else if (there) {
        memmove(&e->rows[i], &e->rows[i + 1], (e->count - i - 1) * sizeof(*e->rows));
        e->count--;
    } else if (r != NULL) {
        if (e->count == e->size) {
            e->size = e->size * 2 + 64;
            e->rows = realloc(e->rows, e->size * sizeof(*e->rows));
            INVARIANT(e->rows != NULL);
        }
        memmove(&e->rows[i + 1], &e->rows[i], (e->count - i) * sizeof(*e->rows));
        e->rows[i] = r;
        e->count++;
    }
}

static struct row *row_new(enum engine_space space, str key, str value, str blob)
{
    struct row *r = malloc(sizeof(*r) + key.n + value.n + blob.n);
    INVARIANT(r != NULL);
    *r = (struct row){ .space = space, .key_n = key.n, .value_n = value.n, .blob_n = blob.n };
    memcpy(r->bytes, key.p, key.n);
    if (value.n > 0)
        memcpy(r->bytes + key.n, value.p, value.n);
    if (blob.n > 0)
        memcpy(r->bytes + key.n + value.n, blob.p, blob.n);
    return r;
}

static bool fails_now(struct engine *e)
{
    if (atomic_load(&e->fault) < 0 || atomic_fetch_sub(&e->fault, 1) != 0)
        return false;
    atomic_store(&e->faulted, true);
    return true;
}

/* ---- reading ---- */

struct engine_view *engine_view_begin(struct engine *e)
{
    struct engine_view *v = calloc(1, sizeof(*v));
    INVARIANT(v != NULL);
    INVARIANT(pthread_rwlock_rdlock(&e->rows_lock) == 0);
    *v = (struct engine_view){ .engine = e, .locked = true };
    return v;
}

static void cursors_end(struct engine_view *v)
{
    while (v->cursors != NULL) {
        struct engine_cursor *c = v->cursors;
        engine_cursor_close(&c);
    }
}

void engine_view_end(struct engine_view **vp)
{
    cursors_end(*vp);
    INVARIANT(pthread_rwlock_unlock(&(*vp)->engine->rows_lock) == 0);
    free(*vp);
    *vp = NULL;
}

err engine_get(struct engine_view *v, enum engine_space space, str key, struct engine_row *out)
{
    size_t i = lower_bound(v->engine, space, key);
    v->engine->reads++;
    if (fails_now(v->engine))
        return ERR_IO;
    if (!holds(v->engine, i, space, key))
        return ERR_NOT_FOUND;
    return fill(v->engine->rows[i], out);
}

struct engine_cursor *engine_cursor_open(struct engine_view *v, const struct engine_range *range)
{
    struct engine_cursor *c = calloc(1, sizeof(*c));
    INVARIANT(c != NULL);
    INVARIANT(range->from.n <= sizeof(c->from) && range->until.n <= sizeof(c->until));
    *c = (struct engine_cursor){ .engine = v->engine,
                                 .space = range->space,
                                 .reversed = range->reversed,
                                 .from_n = range->from.n,
                                 .until_n = range->until.n };
    if (range->from.n > 0)
        memcpy(c->from, range->from.p, range->from.n);
    if (range->until.n > 0)
        memcpy(c->until, range->until.p, range->until.n);
    c->next = v->cursors;
    c->link = &v->cursors;
    if (c->next != NULL)
        c->next->link = &c->next;
    v->cursors = c;
    return c;
}

static bool in_range(const struct engine_cursor *c, const struct row *r)
{
    if (r->space != c->space || str_cmp(row_key(r), (str){ c->from, c->from_n }) < 0)
        return false;
    return c->until_n == 0 || str_cmp(row_key(r), (str){ c->until, c->until_n }) < 0;
}

static size_t cursor_place(const struct engine_cursor *c)
{
    const struct engine *e = c->engine;
    str at = { c->at, c->at_n };
    if (!c->started) {
        if (!c->reversed)
            return lower_bound(e, c->space, (str){ c->from, c->from_n });
        if (c->until_n == 0)
            return lower_bound(e, c->space + 1, STR("")) - 1;
        return lower_bound(e, c->space, (str){ c->until, c->until_n }) - 1;
    }
    size_t i = lower_bound(e, c->space, at);
    bool there = holds(e, i, c->space, at);
    if (there && c->inclusive)
        return i;
    return c->reversed ? i - 1 : i + (there ? 1 : 0);
}

err engine_cursor_next(struct engine_cursor *c, struct engine_row *out)
{
    size_t i = cursor_place(c);
    c->engine->reads++;
    if (fails_now(c->engine))
        return ERR_IO;
    if (i >= c->engine->count || !in_range(c, c->engine->rows[i]))
        return ERR_NOT_FOUND;
    err e = fill(c->engine->rows[i], out);
    c->started = true;
    c->inclusive = false;
    c->at_n = out->key.n;
    memcpy(c->at, out->key.p, out->key.n);
    return e;
}

void engine_cursor_seek(struct engine_cursor *c, str key)
{
    c->started = c->inclusive = true;
    c->at_n = key.n;
    memcpy(c->at, key.p, key.n);
}

void engine_cursor_close(struct engine_cursor **cp)
{
    if (*cp != NULL) {
        *(*cp)->link = (*cp)->next;
        if ((*cp)->next != NULL)
            (*cp)->next->link = (*cp)->link;
    }
    free(*cp);
    *cp = NULL;
}

str engine_prefix_end(str prefix, char *out)
{
    size_t n = prefix.n;
    while (n > 0 && (unsigned char)prefix.p[n - 1] == 0xff)
        n--;
    if (n == 0)
        return STR_NONE;
    memcpy(out, prefix.p, n);
    out[n - 1]++;
    return (str){ .p = out, .n = n };
}

err engine_blob_read(struct engine *e, const struct engine_blob *b, uint64_t offset, uint64_t n,
                     char *dst)
{
    if (fails_now(e))
        return ERR_IO;
    if (offset > b->n || n > b->n - offset)
        return ERR_CORRUPT;
    memcpy(dst, b->mem + offset, n);
    return ERR_OK;
}

err engine_blob_read_now(struct engine *e, const struct engine_blob *b, uint64_t offset, uint64_t n,
                         char *dst)
{
    unsigned *left = e->warms > 0 ? &e->warms : &e->colds;
    bool cold = left == &e->colds && *left > 0;
    *left -= *left > 0;
    if (cold)
        return ERR_AGAIN;
    return engine_blob_read(e, b, offset, n, dst);
}

struct engine_pin engine_pin(struct engine_view *v)
{
    atomic_fetch_add(&v->engine->pins, 1);
    return (struct engine_pin){ .epoch = 1 };
}

void engine_unpin(struct engine *e, struct engine_pin pin)
{
    INVARIANT(pin.epoch == 1);
    INVARIANT(atomic_fetch_sub(&e->pins, 1) > 0);
}

/* ---- writing ---- */

struct engine_view *engine_txn_view(struct engine_txn *t)
{
    return &t->view;
}

store_time engine_txn_now(const struct engine_txn *t)
{
    return t->now;
}

static err txn_set(struct engine_txn *t, enum engine_space space, str key, struct row *r)
{
    struct engine *e = t->view.engine;
    if (key.n > ENGINE_KEY_BYTES_MAX || t->undo_count == ENGINE_UPDATE_ROWS_MAX) {
        free(r);
        return ERR_LIMIT;
    }
    if (fails_now(e)) {
        free(r);
        return ERR_FULL;
    }
    size_t i = lower_bound(e, space, key);
    bool there = holds(e, i, space, key);
    if (t->undo_count == t->undo_size) {
        t->undo_size = t->undo_size * 2 + 16;
        t->undo = realloc(t->undo, t->undo_size * sizeof(*t->undo));
        INVARIANT(t->undo != NULL);
    }
    struct undo *u = &t->undo[t->undo_count++];
    *u = (struct undo){ .was = there ? e->rows[i] : NULL, .space = space, .key_n = key.n };
    memcpy(u->key, key.p, key.n);
    replace_at(e, i, there, r);
    e->writes++;
    return ERR_OK;
}

err engine_txn_put(struct engine_txn *t, enum engine_space space, str key, str value, str bytes)
{
    if (value.n > ENGINE_VALUE_BYTES_MAX || bytes.n > ENGINE_BLOB_BYTES_MAX)
        return ERR_LIMIT;
    return txn_set(t, space, key, row_new(space, key, value, bytes));
}

struct engine_blob engine_blob_of(str bytes)
{
    return (struct engine_blob){ .n = bytes.n, .mem = bytes.p };
}

err engine_txn_put_blob(struct engine_txn *t, enum engine_space space, str key, str value,
                        const struct engine_blob *blob)
{
    return engine_txn_put(t, space, key, value, (str){ .p = blob->mem, .n = blob->n });
}

err engine_txn_put_value(struct engine_txn *t, enum engine_space space, str key, str value)
{
    struct engine *e = t->view.engine;
    size_t i = lower_bound(e, space, key);
    if (!holds(e, i, space, key))
        return ERR_NOT_FOUND;
    const struct row *was = e->rows[i];
    str blob = { .p = was->bytes + was->key_n + was->value_n, .n = was->blob_n };
    return engine_txn_put(t, space, key, value, blob);
}

err engine_txn_delete(struct engine_txn *t, enum engine_space space, str key)
{
    return txn_set(t, space, key, NULL);
}

static void txn_end(struct engine_txn *t, bool keep)
{
    struct engine *e = t->view.engine;
    while (t->undo_count > 0) {
        struct undo *u = &t->undo[--t->undo_count];
        if (keep) {
            free(u->was);
            continue;
        }
        str key = { u->key, u->key_n };
        size_t i = lower_bound(e, u->space, key);
        bool there = holds(e, i, u->space, key);
        struct row *now = there ? e->rows[i] : NULL;
        replace_at(e, i, there, u->was);
        free(now);
    }
}

static err decide_once(struct engine *e, struct engine_update *u, bool keep)
{
    struct engine_txn t = { .view = { .engine = e } };
    t.now = store_time_max(clock_store(e->clock), e->last_now);
    e->last_now = t.now;
    uint64_t reads = e->reads;
    e->writes = 0;
    err why = u->decide(&t, u->ctx);
    if (why == ERR_OK && t.undo_count > 0 && !u->frees && atomic_load(&e->full))
        why = ERR_FULL;
    if (why == ERR_OK && t.undo_count > 0 && fails_now(e))
        why = ERR_FULL;
    e->cost = (struct engine_mem_cost){ .reads = e->reads - reads, .writes = e->writes };
    txn_end(&t, keep && why == ERR_OK);
    free(t.undo);
    cursors_end(&t.view);
    return why;
}

static void run(struct engine *e, struct engine_update *u)
{
    err why = e->refuse;
    void (*done)(void *ctx, err why) = u->done;
    void *ctx = u->ctx;
    if (why == ERR_OK) {
        INVARIANT(pthread_rwlock_wrlock(&e->rows_lock) == 0);
        err first = decide_once(e, u, false);
        why = decide_once(e, u, true);
        INVARIANT(first == why || atomic_load(&e->faulted));
        INVARIANT(pthread_rwlock_unlock(&e->rows_lock) == 0);
    }
    done(ctx, why);
}

void engine_submit(struct engine *e, struct engine_update *u)
{
    INVARIANT(pthread_mutex_lock(&e->queue_lock) == 0);
    u->next = NULL;
    if (e->first == NULL)
        e->first = u;
    else
        e->last->next = u;
    e->last = u;
    if (e->draining) {
        INVARIANT(pthread_mutex_unlock(&e->queue_lock) == 0);
        return;
    }
    e->draining = true;
    while (e->first != NULL) {
        struct engine_update *next = e->first;
        e->first = next->next;
        INVARIANT(pthread_mutex_unlock(&e->queue_lock) == 0);
        run(e, next);
        INVARIANT(pthread_mutex_lock(&e->queue_lock) == 0);
    }
    e->draining = false;
    INVARIANT(pthread_mutex_unlock(&e->queue_lock) == 0);
}

struct wait {
    const struct engine_update *update;
    pthread_mutex_t lock;
    pthread_cond_t over;
    bool done;
    err why;
};

static void wait_done(void *ctx, err why)
{
    struct wait *w = ctx;
    if (w->update->done != NULL)
        w->update->done(w->update->ctx, why);
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->why = why;
    w->done = true;
    INVARIANT(pthread_cond_signal(&w->over) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

static err wait_decide(struct engine_txn *t, void *ctx)
{
    const struct wait *w = ctx;
    return w->update->decide(t, w->update->ctx);
}

/* What stands on it is what starts anew. */
store_time engine_stored_until(const struct engine *e)
{
    return e->last_now;
}

err engine_submit_wait(struct engine *e, const struct engine_update *update)
{
    struct wait w = { .update = update,
                      .lock = PTHREAD_MUTEX_INITIALIZER,
                      .over = PTHREAD_COND_INITIALIZER };
    struct engine_update u = *update;
    u.decide = wait_decide;
    u.done = wait_done;
    u.ctx = &w;
    engine_submit(e, &u);
    INVARIANT(pthread_mutex_lock(&w.lock) == 0);
    while (!w.done)
        INVARIANT(pthread_cond_wait(&w.over, &w.lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w.lock) == 0);
    return w.why;
}

err engine_update_wait(struct engine *e, err (*decide)(struct engine_txn *t, void *ctx), void *ctx)
{
    const struct engine_update u = { .decide = decide, .ctx = ctx };
    return engine_submit_wait(e, &u);
}

/* ---- the test's own ---- */

struct engine *engine_mem_new(struct clock *clock)
{
    struct engine *e = calloc(1, sizeof(*e));
    INVARIANT(e != NULL);
    e->clock = clock;
    atomic_store(&e->fault, -1);
    INVARIANT(pthread_rwlock_init(&e->rows_lock, NULL) == 0);
    INVARIANT(pthread_mutex_init(&e->queue_lock, NULL) == 0);
    return e;
}

void engine_close(struct engine **ep)
{
    struct engine *e = *ep;
    if (e == NULL)
        return;
    for (size_t i = 0; i < e->count; i++)
        free(e->rows[i]);
    free(e->rows);
    (void)pthread_rwlock_destroy(&e->rows_lock); /* nobody is left */
    (void)pthread_mutex_destroy(&e->queue_lock);
    free(e);
    *ep = NULL;
}

void engine_mem_cold(struct engine *e, unsigned after, unsigned count)
{
    e->warms = after;
    e->colds = count;
}

int engine_mem_pins(struct engine *e)
{
    return atomic_load(&e->pins);
}

void engine_mem_refuse(struct engine *e, err why)
{
    e->refuse = why;
}

void engine_mem_full(struct engine *e, bool full)
{
    atomic_store(&e->full, full);
}

void engine_mem_fault(struct engine *e, int64_t after)
{
    atomic_store(&e->faulted, false);
    atomic_store(&e->fault, after);
}

bool engine_mem_faulted(struct engine *e)
{
    return atomic_load(&e->faulted);
}

struct engine_mem_cost engine_mem_last_cost(struct engine *e)
{
    return e->cost;
}

uint64_t engine_mem_rows(struct engine *e, enum engine_space space)
{
    return lower_bound(e, space + 1, STR("")) - lower_bound(e, space, STR(""));
}

void engine_mem_damage(struct engine *e, enum engine_space space, str key, str value)
{
    size_t i = lower_bound(e, space, key);
    bool there = holds(e, i, space, key);
    struct row *was = there ? e->rows[i] : NULL;
    str blob = STR_NONE;
    if (there)
        blob = (str){ .p = was->bytes + was->key_n + was->value_n, .n = was->blob_n };
    replace_at(e, i, there, value.p == NULL ? NULL : row_new(space, key, value, blob));
    free(was);
}

void engine_mem_rot(struct engine *e, enum engine_space space, str key)
{
    size_t i = lower_bound(e, space, key);
    INVARIANT(holds(e, i, space, key));
    e->rows[i]->rotten = true;
}
