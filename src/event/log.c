/* log.c - opening the event log, appending to it, and telling its followers.
 *
 * Invariants: 1. The head row says what the newest event's row says, and is written with it: so the
 * next number is known without a search, also when every event was removed. 2. A follower has one
 * task, which is posted by whoever raises tellings from 0. It calls told until all tellings that it
 * found before are answered: so told never runs twice at once, and no event comes unseen. */
#include "event/append.h"
#include "event/log_impl.h"
#include "event/rows.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- opening ---- */

struct log_opening {
    uint64_t random;
    struct event_head head;
};

static err opening_decide(struct engine_txn *t, void *ctx)
{
    struct log_opening *o = ctx;
    err why = event_head_get(engine_txn_view(t), &o->head);
    if (why != ERR_NOT_FOUND)
        return why;
    o->head = (struct event_head){ .log = o->random };
    return event_head_put(t, &o->head);
}

static void follower_run(struct task *t)
{
    struct event_telling *f = CONTAINER_OF(t, struct event_telling, task);
    unsigned found;
    do {
        found = atomic_load(&f->tellings);
        f->follower.told(f->follower.ctx);
    } while (atomic_fetch_sub(&f->tellings, found) != found);
}

err event_log_new(const struct event_log_opts *opts, struct event_log **out, struct err_note *note)
{
    struct log_opening o = { .random = opts->random };
    err why = engine_update_wait(opts->engine, opening_decide, &o);
    if (why != ERR_OK) {
        err_note_set(note, "the event log cannot be opened: %s", err_name(why));
        return why;
    }
    struct event_log *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct event_log){
        .magic = EVENT_LOG_MAGIC, .engine = opts->engine, .clock = opts->clock, .id = o.head.log
    };
    INVARIANT(pthread_mutex_init(&l->lock, NULL) == 0);
    event_log_limits(l, opts->retention_ns, opts->bytes_max, opts->dedupe_ns);
    *out = l;
    return ERR_OK;
}

void event_log_free(struct event_log **lp)
{
    struct event_log *l = *lp;
    if (l == NULL)
        return;
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    for (unsigned i = 0; i < l->tellings_count; i++)
        INVARIANT(atomic_load(&l->tellings[i].tellings) == 0);
    INVARIANT(pthread_mutex_destroy(&l->lock) == 0);
    l->magic = 0;
    free(l);
    *lp = NULL;
}

uint64_t event_log_id(const struct event_log *l)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    return l->id;
}

void event_log_limits(struct event_log *l, int64_t retention_ns, uint64_t bytes_max,
                      int64_t dedupe_ns)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    atomic_store(&l->retention_ns, retention_ns);
    atomic_store(&l->bytes_max, bytes_max);
    atomic_store(&l->dedupe_ns, dedupe_ns);
}

void event_log_follow(struct event_log *l, const struct event_follower *f)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    INVARIANT(l->tellings_count < EVENT_FOLLOWERS_MAX);
    l->tellings[l->tellings_count++] =
        (struct event_telling){ .follower = *f, .task = { .run = follower_run } };
}

void event_log_hush(struct event_log *l)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
    l->hushed = true;
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
}

uint64_t event_log_behind(store_time at)
{
    return at.ns <= NS_PER_US ? 0 : (uint64_t)(at.ns / NS_PER_US) - 1;
}

/* ---- appending ---- */

/* Was an event with this digest taken, less than dedupe_ns ago? */
static err find_before(struct event_log *l, struct engine_txn *t, const struct event_key *id,
                       struct event_taken *out)
{
    struct engine_row row;
    err why = engine_get(engine_txn_view(t), SPACE_EVENT, event_key_str(id), &row);
    *out = (struct event_taken){ .before = false };
    if (why == ERR_NOT_FOUND ||
        why == ERR_CORRUPT) /* a damaged one says nothing; it is written anew */
        return ERR_OK;
    if (why != ERR_OK)
        return why;
    struct cursor c = { .rest = row.value };
    uint64_t seq = cursor_be64(&c);
    store_time at = { .ns = (int64_t)cursor_be64(&c) };
    if (!cursor_done(&c))
        return ERR_OK;
    store_time until = store_time_add(at, atomic_load(&l->dedupe_ns));
    if (store_time_before(engine_txn_now(t), until))
        *out = (struct event_taken){ .seq = seq, .before = true };
    return ERR_OK;
}

static err id_put(struct engine_txn *t, const struct event_key *id, uint64_t seq)
{
    char value[16];
    put_be64(value, seq);
    put_be64(value + 8, (uint64_t)engine_txn_now(t).ns);
    return engine_txn_put(t, SPACE_EVENT, event_key_str(id), (str){ .p = value, .n = sizeof value },
                          STR_NONE);
}

static err event_put(struct engine_txn *t, struct event_head *head, const struct event *e,
                     const unsigned char digest[EVENT_DIGEST_BYTES])
{
    char value[EVENT_VALUE_BYTES];
    struct event_key key;
    uint64_t now_us = (uint64_t)(engine_txn_now(t).ns / NS_PER_US);
    head->last = now_us > head->last ? now_us : head->last + 1;
    head->newest = engine_txn_now(t);
    head->count++;
    head->bytes += e->bytes.n + EVENT_ROW_BYTES;
    struct event_row row = { .at = engine_txn_now(t),
                             .count = head->count,
                             .bytes = head->bytes,
                             .stream = e->stream,
                             .domain = e->domain,
                             .hops = e->hops };
    memcpy(row.digest, digest, sizeof row.digest);
    event_key_event(&key, head->last);
    return engine_txn_put(t, SPACE_EVENT, event_key_str(&key), event_row_encode(&row, value),
                          e->bytes);
}

static err append_one(struct event_log *l, struct engine_txn *t, struct event_head *head,
                      const struct event *e, struct event_taken *out)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    struct event_key id;
    event_digest(e->stream, e->id, digest);
    bool has_id = event_has_id(digest);
    event_key_id(&id, digest);
    *out = (struct event_taken){ .before = false };
    err why = has_id ? find_before(l, t, &id, out) : ERR_OK;
    if (why != ERR_OK || out->before)
        return why;
    why = event_put(t, head, e, digest);
    out->seq = head->last;
    return why == ERR_OK && has_id ? id_put(t, &id, head->last) : why;
}

static bool event_fits(const struct event *e)
{
    return e->stream.n <= EVENT_NAME_BYTES_MAX && e->domain.n <= EVENT_NAME_BYTES_MAX &&
           e->bytes.n <= EVENT_BYTES_MAX;
}

err event_log_append(struct event_log *l, struct engine_txn *t, const struct event *events,
                     unsigned count, struct event_taken *taken)
{
    struct event_head head;
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    INVARIANT(count <= EVENT_APPEND_MAX);
    for (unsigned i = 0; i < count; i++)
        if (!event_fits(&events[i]))
            return ERR_LIMIT;
    err why = event_head_get(engine_txn_view(t), &head);
    uint64_t last = head.last;
    for (unsigned i = 0; i < count && why == ERR_OK; i++)
        why = append_one(l, t, &head, &events[i], &taken[i]);
    return why == ERR_OK && head.last > last ? event_head_put(t, &head) : why;
}

void event_log_told(struct event_log *l)
{
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
    for (unsigned i = 0; i < l->tellings_count && !l->hushed; i++) {
        struct event_telling *f = &l->tellings[i];
        if (atomic_fetch_add(&f->tellings, 1) == 0)
            home_post(f->follower.home, &f->task);
    }
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
}

/* ---- as a request ---- */

struct append_update {
    struct engine_update update;
    struct event_append *append;
};

static err append_decide(struct engine_txn *t, void *ctx)
{
    const struct append_update *u = ctx;
    const struct event_append *a = u->append;
    return event_log_append(a->log, t, a->events, a->count, a->taken);
}

static void append_over(struct task *t)
{
    struct event_append *a = CONTAINER_OF(t, struct event_append, task);
    a->done(a, a->why);
}

static void append_done(void *ctx, err why)
{
    struct append_update *u = ctx;
    struct event_append *a = u->append;
    free(u);
    a->why = why;
    if (why == ERR_OK)
        event_log_told(a->log);
    home_post(a->home, &a->task);
}

void event_id_put(struct buf *b, uint64_t high, uint64_t low)
{
    high = (high & ~(uint64_t)0xf000) | 0x4000;
    low = (low & ~((uint64_t)3 << 62)) | (uint64_t)2 << 62;
    buf_printf(b, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, high >> 32,
               high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffffffffffff);
}

void event_append_start(struct event_append *a)
{
    MAGIC_CHECK(a->log, EVENT_LOG_MAGIC);
    struct append_update *u = calloc(1, sizeof *u);
    INVARIANT(u != NULL);
    a->task = (struct task){ .run = append_over };
    *u = (struct append_update){ .append = a,
                                 .update = { .decide = append_decide,
                                             .done = append_done,
                                             .ctx = u,
                                             .deadline = a->deadline } };
    engine_submit(a->log->engine, &u->update);
}
