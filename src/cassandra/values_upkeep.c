/* values_upkeep.c - frees what nobody is shown any more, for values_store's upkeep. Blocks: a pool
 * thread of the server calls it, one at a time. A sweep goes through all buckets that were ever
 * made, their shards, and the keys there, some at a time:
 *   a key of a bucket that is      rows that ended an hour ago go; what a policy lets go ends;
 *                                  chunks that no row names go; a key without rows leaves the list
 *   a key of a dropped bucket      all of it goes, and the bucket leaves the list of those made
 * Invariants:
 *   1 one server sweeps, which holds a lease (values_lease.c). Two may sweep all the same for a
 *     while;
 *   2 rows of a bucket that is change by decisions alone, as those of puts do;
 *   3 chunks and keys of such a bucket go when they are older than VALUES_SPARE_S, and so than any
 *     request. */
#include "cassandra/values_impl.h"

#include "base/buf.h"

#include <stdlib.h>
#include <string.h>

enum {
    KEYS_OF_STEP = 32,
    ROWS_MAX = 20000,   /* of one key, looked at */
    PARTS_OF_STEP = 48, /* rows that one decision deletes or moves */
    WORK_BYTES_MAX = 16 << 20,
};

/* How far the sweep is. Owner: values.sweep; kept between steps, and lost with the process. */
struct values_sweep {
    bool in_bucket, dropped; /* dropped: the bucket under way is no more */
    char bucket[TABLE_NAME_BYTES_MAX], domain[CATALOG_KEY_BYTES_MAX], key[VALUES_KEY_BYTES_MAX];
    size_t bucket_bytes, domain_bytes, key_bytes;
    struct values_id made;
    struct values_bucket is;
    unsigned shard;
    store_time again_at; /* the last sweep is over, or another server's, until then */
    struct values_lease lease;
};

/* One step of the sweep, and the key that is under way in it. Lives during one call of the upkeep.
 */
struct tidy {
    struct values *values;
    struct values_sweep *sweep;
    struct values_ask ask;
    struct arena arena;
    struct values_key key;
    struct values_version version;
    struct values_row *rows; /* room for ROWS_MAX and one more (chunk_take) */
    size_t count;
    bool more; /* the decision was full: the key is looked at once more */
};

/* ---- exchanges that are waited for ---- */

/* One exchange that this thread waits for, on its stack. */
struct wait {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool over;
};

static void wait_init(struct wait *w)
{
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->changed, NULL) == 0);
    w->over = false;
}

static void wait_tell(struct wait *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->over = true;
    INVARIANT(pthread_cond_signal(&w->changed) == 0);
    /* Told under the lock: the waiter destroys the lock as soon as it may go on. */
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

static void wait_end(struct wait *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->over)
        INVARIANT(pthread_cond_wait(&w->changed, &w->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    INVARIANT(pthread_cond_destroy(&w->changed) == 0);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
}

/* Runs on the client's loop thread (home_here). */
static void ask_done(struct cql_request *q)
{
    wait_tell(CONTAINER_OF(q, struct values_ask, request)->ctx);
}

err values_ask_wait(struct values_ask *a)
{
    struct wait w;
    wait_init(&w);
    a->ctx = &w;
    cql_start(a->values->opts.client, &a->request);
    wait_end(&w);
    return a->request.out.why;
}

void values_ask_background(struct values_ask *a)
{
    values_ask_set(a, home_here(), mono_add_ms(clock_mono(a->values->opts.clock), VALUES_WAIT_MS),
                   ask_done);
    a->request.class = CQL_BACKGROUND;
    /* QUORUM over all data centres, as what writes judge (values.h). */
    a->request.params.consistency = CQL_QUORUM;
}

/* Sends the parts as plain statements, with that instant as their write timestamp. */
static err ask_write(struct values_ask *a, store_time at)
{
    values_ask_background(a);
    a->request.params.consistency = CQL_LOCAL_QUORUM;
    a->request.params.timestamp_us = at.ns / NS_PER_US;
    err e = values_ask_wait(a);
    cql_outcome_fini(&a->request.out);
    values_ask_clear(a);
    return e;
}

/* Reads all pages; take sees each row. It ends by the first row that take refuses. */
typedef err row_take_fn(struct tidy *t, const struct cql_cell *cells);
static err ask_read(struct tidy *t, row_take_fn *take)
{
    struct values_ask *a = &t->ask;
    struct cql_cell cells[VALUES_FULL_COLUMNS];
    bool more = true;
    err e = ERR_OK;
    values_ask_background(a);
    a->request.params.page_rows = VALUES_PAGE_ROWS;
    while (e == ERR_OK && more) {
        e = values_ask_wait(a);
        struct cql_rows rows = a->request.out.rows;
        while (e == ERR_OK && cql_rows_next(&rows, cells))
            e = take(t, cells);
        if (e == ERR_OK && rows.rest.failed)
            e = ERR_CORRUPT;
        more = values_ask_more(a, &t->arena, &e);
        cql_outcome_fini(&a->request.out);
    }
    values_ask_clear(a);
    return e;
}

static void find_over(struct store_call *c)
{
    wait_tell(c->own);
}

/* ---- one key of a bucket that is ---- */

/* All requests that wrote before this instant are over. */
static store_time spare_at(const struct values *v)
{
    return (store_time){ .ns = clock_store(v->opts.clock).ns - VALUES_SPARE_S * NS_PER_S };
}

static err row_take(struct tidy *t, const struct cql_cell *cells)
{
    struct values_got got;
    err e = values_row_get(cells, false, &got);
    if (e != ERR_OK)
        return e;
    if (t->count == 0 && got.version.n > 0) {
        memcpy(t->version.bytes, got.version.p, got.version.n);
        t->version.n = got.version.n;
    }
    /* A key of so many rows is left alone (key_tidy). */
    if (got.has_row && t->count == ROWS_MAX)
        return ERR_LIMIT;
    if (got.has_row)
        t->rows[t->count++] = got.row;
    return ERR_OK;
}

static err rows_load(struct tidy *t)
{
    t->count = 0;
    t->version.n = 0;
    (void)values_ask_key(&t->ask, VALUES_META, &t->key, 0);
    return ask_read(t, row_take);
}

/* Adds deletions of rows that ended, and moves of ends, as many as one decision may have. Returns
 * their number. A row for which there is no room is not ended for this time. */
static unsigned parts_add(struct tidy *t, bool *ended)
{
    unsigned parts = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (parts == PARTS_OF_STEP)
            ended[i] = false;
        else if (ended[i])
            values_delete_add(&t->ask, &t->key, VALUES_DELETE_ROW, &t->rows[i]);
        else if (t->rows[i].moved)
            values_move_add(&t->ask, &t->key, &t->rows[i]);
        else
            continue;
        parts += parts < PARTS_OF_STEP;
    }
    return parts;
}

/* Takes the rows out that went, and says how many. */
static unsigned rows_leave(struct tidy *t, const bool *ended)
{
    size_t left = 0, all = t->count;
    for (size_t i = 0; i < all; i++)
        if (!ended[i])
            t->rows[left++] = t->rows[i];
    t->count = left;
    return (unsigned)(all - left);
}

/* Decides on the rows of a key, as a write does. *empty: the key has no rows, and a write that was
 * under way loses. */
static err rows_tidy(struct tidy *t, bool *empty)
{
    struct values *v = t->values;
    struct values_id id = values_id_new(v);
    struct values_version wanted;
    store_time now = clock_store(v->opts.clock), spare = spare_at(v);
    bool *ended = arena_calloc(&t->arena, t->count + 1, sizeof *ended);
    if (ended == NULL)
        return ERR_LIMIT;
    size_t left = 0, first = 0;
    /* The first row that is alive: latest_hash keeps its revision alone. */
    while (first < t->count && !store_time_before(now, t->rows[first].expires))
        first++;
    values_keep_all(&t->sweep->is.keep, t->rows, t->count, now);
    for (size_t i = 0; i < t->count; i++) {
        bool behind = t->sweep->is.keep.kind == KEEP_LATEST_HASH && i > first &&
                      t->rows[i].rev < t->rows[first].rev;
        ended[i] = behind || store_time_before(t->rows[i].expires, spare);
        left += !ended[i];
    }
    /* An empty key gets a version that ends a day later; a write under way loses against that
     * version. */
    *empty = left == 0 && t->count <= PARTS_OF_STEP;
    values_decide_add(&t->ask, &t->key, &id, (str){ .p = t->version.bytes, .n = t->version.n },
                      *empty, &wanted);
    unsigned parts = parts_add(t, ended);
    /* Nothing to change: no conditional write for it. */
    if (parts == 0 && (!*empty || t->version.n == 0)) {
        values_ask_clear(&t->ask);
        return ERR_OK;
    }
    values_ask_background(&t->ask);
    t->ask.request.params.consistency = CQL_EACH_QUORUM;
    t->ask.request.params.serial = CQL_SERIAL;
    err e = values_ask_wait(&t->ask);
    bool applied = e == ERR_OK && values_applied(&t->ask.request.out, &e);
    cql_outcome_fini(&t->ask.request.out);
    values_ask_clear(&t->ask);
    /* Refused: the key was written meanwhile, so it is not empty, and the next sweep looks again.
     */
    *empty &= applied;
    t->more |= applied && parts == PARTS_OF_STEP;
    if (applied)
        atomic_fetch_add(&v->expired, rows_leave(t, ended));
    return e;
}

/* Deletes the chunks of one id, unless a row names it or it is young. Ids are met in their order,
 * those of one write together, so each is deleted once. */
static err chunk_take(struct tidy *t, const struct cql_cell *cells)
{
    struct values_id id;
    store_time spare = spare_at(t->values);
    if (!values_get_id(&cells[0], &id))
        return ERR_CORRUPT;
    if (!store_time_before(values_id_time(&id), spare))
        return ERR_OK;
    for (size_t i = 0; i < t->count; i++)
        if (memcmp(t->rows[i].id.bytes, id.bytes, sizeof id.bytes) == 0)
            return ERR_OK;
    struct values_row *last = &t->rows[ROWS_MAX]; /* behind the rows: the id met last */
    if (memcmp(last->id.bytes, id.bytes, sizeof id.bytes) == 0)
        return ERR_OK;
    last->id = id;
    struct values_ask *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    a->values = t->values;
    values_put_id(values_ask_key(a, VALUES_CHUNK_DELETE, &t->key, 64), &id);
    err e = ask_write(a, store_time_max(spare, values_id_time(&id)));
    free(a);
    return e;
}

/* Takes the key out of the list, if the row there is no newer than `at`. */
static err key_leave(struct tidy *t, store_time at)
{
    struct cql_values *v = values_ask_add(&t->ask, VALUES_KEY_DELETE, 64);
    cql_put_bytes(v, t->key.bucket);
    cql_put_bytes(v, t->key.domain);
    values_put_id(v, &t->key.made);
    cql_put_i8(v, (int8_t)t->sweep->shard);
    cql_put_bytes(v, t->key.key);
    return ask_write(&t->ask, at);
}

/* Tidies a key of a bucket that is. Rows are read before chunks: a write that comes in between has
 * an id that is too young to go. */
static err key_tidy(struct tidy *t)
{
    bool empty = false;
    err e = rows_load(t);
    if (e == ERR_OK)
        e = rows_tidy(t, &empty);
    t->rows[ROWS_MAX] = (struct values_row){ .rev = 0 };
    if (e == ERR_OK) {
        (void)values_ask_key(&t->ask, VALUES_CHUNK_IDS, &t->key, 0);
        e = ask_read(t, chunk_take);
    }
    if (e == ERR_OK && empty)
        e = key_leave(t, spare_at(t->values));
    return e == ERR_LIMIT ? ERR_OK : e; /* a key of so many rows is left as it is */
}

/* All rows and chunks of a key of a dropped bucket. No request uses that bucket's id any more. */
static err key_drop(struct tidy *t)
{
    store_time now = clock_store(t->values->opts.clock);
    (void)values_ask_key(&t->ask, VALUES_DROP, &t->key, 0);
    (void)values_ask_key(&t->ask, VALUES_CHUNK_DROP, &t->key, 0);
    err e = ask_write(&t->ask, now);
    if (e == ERR_OK)
        e = key_leave(t, now);
    if (e == ERR_OK)
        atomic_fetch_add(&t->values->dropped_rows, 1);
    return e;
}

/* ---- the way through ---- */

struct keys {
    str at[KEYS_OF_STEP];
    unsigned count;
};

/* The next keys of the shard, behind the last one done. */
static err keys_load(struct tidy *t, struct keys *out)
{
    struct values_sweep *s = t->sweep;
    struct cql_values *v = values_ask_add(&t->ask, VALUES_KEY_LIST, 64);
    struct cql_cell cell;
    cql_put_bytes(v, t->key.bucket);
    cql_put_bytes(v, t->key.domain);
    values_put_id(v, &t->key.made);
    cql_put_i8(v, (int8_t)s->shard);
    cql_put_bytes(v, (str){ .p = s->key, .n = s->key_bytes });
    cql_put_i32(v, KEYS_OF_STEP);
    values_ask_background(&t->ask);
    err e = values_ask_wait(&t->ask);
    struct cql_rows rows = t->ask.request.out.rows;
    out->count = 0;
    while (e == ERR_OK && out->count < KEYS_OF_STEP && cql_rows_next(&rows, &cell)) {
        str key;
        if (!cql_get_bytes(&cell, &key) || key.n > sizeof s->key)
            e = ERR_CORRUPT;
        else
            out->at[out->count++] = arena_copy(&t->arena, key);
    }
    cql_outcome_fini(&t->ask.request.out);
    values_ask_clear(&t->ask);
    return e;
}

static err made_leave(struct tidy *t)
{
    struct cql_values *v = values_ask_add(&t->ask, VALUES_MADE_DELETE, 64);
    cql_put_bytes(v, t->key.bucket);
    cql_put_bytes(v, t->key.domain);
    values_put_id(v, &t->key.made);
    return ask_write(&t->ask, clock_store(t->values->opts.clock));
}

/* Some keys of a shard; behind its last key the next shard, and behind the last shard the next
 * bucket. */
static err shard_step(struct tidy *t)
{
    struct values_sweep *s = t->sweep;
    struct keys keys;
    err e = keys_load(t, &keys);
    for (unsigned i = 0; e == ERR_OK && i < keys.count; i++) {
        t->key.key = keys.at[i];
        do {
            t->more = false;
            e = s->dropped ? key_drop(t) : key_tidy(t);
        } while (e == ERR_OK && t->more);
        memcpy(s->key, keys.at[i].p, keys.at[i].n);
        s->key_bytes = keys.at[i].n;
    }
    if (e != ERR_OK || keys.count == KEYS_OF_STEP)
        return e;
    s->key_bytes = 0;
    s->shard++;
    s->in_bucket = s->shard < VALUES_SHARDS;
    return !s->in_bucket && s->dropped ? made_leave(t) : ERR_OK;
}

/* Is it the bucket of that name? Another one of its name means that it was dropped. A bucket that
 * is being made may not be decided yet, so a young bucket is passed over while it is missing. */
static err bucket_look(struct tidy *t)
{
    struct values_sweep *s = t->sweep;
    struct wait w;
    wait_init(&w);
    struct values_find f = { .call = { .home = home_here(), .done = find_over, .own = &w },
                             .table = t->key.bucket,
                             .domain_name = t->key.domain,
                             .fresh = true,
                             .named = true };
    store_call_then(values_find(t->values, &f), &f.call);
    wait_end(&w);
    bool is = f.call.why == ERR_OK &&
              memcmp(f.bucket.made.bytes, s->made.bytes, sizeof s->made.bytes) == 0;
    if (is)
        s->is = f.bucket;
    values_find_fini(&f);
    /* A find that failed says nothing: the step is tried again. */
    if (f.call.why != ERR_OK && f.call.why != ERR_NOT_FOUND)
        return f.call.why;
    s->dropped = !is;
    s->shard = 0;
    s->key_bytes = 0;
    s->in_bucket = is || store_time_before(values_id_time(&s->made), spare_at(t->values));
    return ERR_OK;
}

static bool text_take(const struct cql_cell *c, char *to, size_t max, size_t *n)
{
    str text;
    if (!cql_get_bytes(c, &text) || text.n > max)
        return false;
    memcpy(to, text.p, text.n);
    *n = text.n;
    return true;
}

/* The next bucket of the list of all that were made. *over: there is none behind the last one. */
static err bucket_next(struct tidy *t, bool *over)
{
    struct values_sweep *s = t->sweep;
    struct cql_values *v = values_ask_add(&t->ask, VALUES_MADE_LIST, 64);
    struct cql_cell cells[3];
    cql_put_bytes(v, t->key.bucket);
    cql_put_bytes(v, t->key.domain);
    values_put_id(v, &s->made);
    values_ask_background(&t->ask);
    err e = values_ask_wait(&t->ask);
    struct cql_rows rows = t->ask.request.out.rows;
    *over = e == ERR_OK && !cql_rows_next(&rows, cells);
    if (e == ERR_OK && !*over &&
        (!text_take(&cells[0], s->bucket, sizeof s->bucket, &s->bucket_bytes) ||
         !text_take(&cells[1], s->domain, sizeof s->domain, &s->domain_bytes) ||
         !values_get_id(&cells[2], &s->made)))
        e = ERR_CORRUPT;
    cql_outcome_fini(&t->ask.request.out);
    values_ask_clear(&t->ask);
    return e;
}

static void key_name(struct tidy *t)
{
    const struct values_sweep *s = t->sweep;
    t->key = (struct values_key){ .bucket = { .p = s->bucket, .n = s->bucket_bytes },
                                  .domain = { .p = s->domain, .n = s->domain_bytes },
                                  .made = s->made };
}

static err sweep_step(struct tidy *t, bool *over)
{
    key_name(t);
    if (t->sweep->in_bucket)
        return shard_step(t);
    err e = bucket_next(t, over);
    if (e != ERR_OK || *over)
        return e;
    key_name(t);
    return bucket_look(t);
}

/* One step of the server that holds the lease. */
static err upkeep_step(struct values *v, struct values_sweep *s)
{
    bool over = false;
    struct tidy *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->values = t->ask.values = v;
    t->sweep = s;
    arena_init(&t->arena, WORK_BYTES_MAX);
    t->rows = calloc(ROWS_MAX + 1, sizeof *t->rows);
    INVARIANT(t->rows != NULL);
    err e = sweep_step(t, &over);
    store_time next;
    if (e == ERR_OK && over)
        e = values_lease_done(v, &s->lease, &next);
    /* The place is at the beginning again. */
    if (e == ERR_OK && over)
        *s = (struct values_sweep){ .again_at = next };
    free(t->rows);
    arena_fini(&t->arena);
    free(t);
    return e;
}

err values_upkeep(struct table_store *store, bool *more, store_time *next)
{
    struct values *v = CONTAINER_OF(store, struct values, store);
    store_time now = clock_store(v->opts.clock);
    if (v->sweep == NULL)
        v->sweep = calloc(1, sizeof *v->sweep);
    INVARIANT(v->sweep != NULL);
    struct values_sweep *s = v->sweep;
    err e = ERR_OK;
    /* A step at a time: the caller comes again at once while there is more. */
    if (!store_time_before(now, s->again_at)) {
        store_time wait = now;
        e = values_lease_hold(v, &s->lease, &wait);
        if (e == ERR_OK && s->lease.held)
            e = upkeep_step(v, s);
        /* another server has it, or it was lost: then the sweep begins again */
        else if (e == ERR_OK)
            *s = (struct values_sweep){ .again_at = wait };
    }
    *more = e == ERR_OK && store_time_before(s->again_at, now);
    *next = *more ? now : s->again_at;
    return e;
}
