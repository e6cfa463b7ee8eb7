/* log.c - opening the event log, and telling its followers. append.c appends to it.
 *
 * Invariants: 1. The head row says what the newest event's row says, and is written with it: so the
 * next number is known without a search, also when every event was removed. 2. A follower has one
 * task, which is posted by whoever raises tellings from 0. It calls told until all tellings that it
 * found before are answered: so told never runs twice at once, and no event comes unseen. */
#include "event/append.h"
#include "event/log_impl.h"

#include "base/buf.h"

#include <inttypes.h>
#include <stdlib.h>

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

static err opening_failed(err why, struct err_note *note)
{
    err_note_set(note, "the event log cannot be opened: %s", err_name(why));
    return why;
}

err event_log_new(const struct event_log_opts *opts, struct event_log **out, struct err_note *note)
{
    struct log_opening o = { .random = opts->random };
    err why = engine_update_wait(opts->engine, opening_decide, &o);
    if (why != ERR_OK)
        return opening_failed(why, note);
    struct event_log *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct event_log){
        .magic = EVENT_LOG_MAGIC, .engine = opts->engine, .clock = opts->clock, .id = o.head.log
    };
    atomic_init(&l->given, o.head.last);
    INVARIANT(pthread_mutex_init(&l->lock, NULL) == 0);
    event_log_limits(l, &opts->limits);
    event_batch_init(l);
    why = event_ids_load(l);
    if (why != ERR_OK) {
        event_log_free(&l);
        return opening_failed(why, note);
    }
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
    event_batch_fini(l);
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

void event_log_limits(struct event_log *l, const struct event_limits *limits)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    atomic_store(&l->retention_ns, limits->retention_ns);
    atomic_store(&l->bytes_max, limits->bytes_max);
    atomic_store(&l->dedupe_ns, limits->dedupe_ns);
    atomic_store(&l->ids_max, limits->ids_max);
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

uint64_t event_number_raise(_Atomic uint64_t *number, uint64_t to)
{
    uint64_t from = atomic_load(number);
    while (from < to && !atomic_compare_exchange_weak(number, &from, to))
        ;
    return from < to ? to : from;
}

uint64_t event_log_cut(struct event_log *l)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    uint64_t now_us = (uint64_t)(clock_store(l->clock).ns / NS_PER_US);
    uint64_t given = atomic_load(&l->given);
    return event_number_raise(&l->line, given > now_us ? given : now_us);
}

uint64_t event_log_behind(store_time at)
{
    return at.ns <= NS_PER_US ? 0 : (uint64_t)(at.ns / NS_PER_US) - 1;
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

void event_id_put(struct buf *b, uint64_t high, uint64_t low)
{
    high = (high & ~(uint64_t)0xf000) | 0x4000;
    low = (low & ~((uint64_t)3 << 62)) | (uint64_t)2 << 62;
    buf_printf(b, "%08" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%04" PRIx64 "-%012" PRIx64, high >> 32,
               high >> 16 & 0xffff, high & 0xffff, low >> 48, low & 0xffffffffffff);
}
