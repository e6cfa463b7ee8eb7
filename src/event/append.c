/* append.c - events are appended: within an update of somebody else, or as requests.
 *
 * Requests that come while an update is on its way wait, and are one update together. Small events
 * share rows: what an event costs is its bytes, and not a row, whoever sends it alone.
 *
 * Invariants: 1. At most one update of requests is the engine's (flying). So whatever is decided is
 * decided after the ids of all before it are in the table, and the table needs no lock. 2. An id
 * enters the table when its event is decided, and is struck when the update fails or is decided
 * again. 3. An update reads the line (event_log_cut) once, after it took its requests in: so all of
 * their events are behind the line, and numbers of a row follow on each other. 4. text has its full
 * size before the first row is put: the engine borrows from it until done. */
#include "event/append.h"
#include "event/log_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    ALONE_BYTES = 8 << 10,             /* a longer text has a row of its own */
    ROW_TEXT_BYTES = 64 << 10,         /* of one row, before its digests */
    BATCH_BYTES = 1 << 20,             /* an update takes no more requests beyond */
    TEXT_KEPT_BYTES = 2 * BATCH_BYTES, /* for the next update */
    FORGOTTEN_BYTES = 16 << 20,        /* a million ids; of more that are refused some count */
};

static bool event_fits(const struct event *e)
{
    return e->stream.n <= EVENT_NAME_BYTES_MAX && e->domain.n <= EVENT_NAME_BYTES_MAX &&
           e->bytes.n <= EVENT_BYTES_MAX;
}

static bool events_fit(const struct event *events, unsigned count)
{
    for (unsigned i = 0; i < count; i++)
        if (!event_fits(&events[i]))
            return false;
    return true;
}

/* ---- rows ---- */

static uint64_t number_take(struct engine_txn *t, struct event_head *head)
{
    uint64_t now_us = (uint64_t)(engine_txn_now(t).ns / NS_PER_US);
    head->last = now_us > head->last ? now_us : head->last + 1;
    return head->last;
}

/* The row of the last events that took numbers. */
static err row_put(struct engine_txn *t, struct event_head *head, struct event_row *row, str blob)
{
    char value[EVENT_VALUE_BYTES];
    struct event_key key;
    head->newest = row->at = engine_txn_now(t);
    row->count = head->count += row->events;
    row->bytes = head->bytes += blob.n + EVENT_ROW_BYTES;
    event_key_event(&key, head->last);
    return engine_txn_put(t, SPACE_EVENT, event_key_str(&key), event_row_encode(row, value), blob);
}

static err row_put_one(struct engine_txn *t, struct event_head *head, const struct event *e,
                       const unsigned char digest[EVENT_DIGEST_BYTES])
{
    struct event_row row = {
        .events = 1, .stream = e->stream, .domain = e->domain, .hops = e->hops
    };
    memcpy(row.digest, digest, sizeof row.digest);
    return row_put(t, head, &row, e->bytes);
}

/* The head, from which the next number is taken. */
static err head_begin(struct event_log *l, struct engine_txn *t, struct event_head *head)
{
    err why = event_head_get(engine_txn_view(t), head);
    uint64_t line = atomic_load(&l->line);
    if (why == ERR_OK && head->last < line)
        head->last = line;
    return why;
}

/* The numbers are given before their events are on disk: so no line is before those that are. */
static err head_end(struct event_log *l, struct engine_txn *t, const struct event_head *head)
{
    (void)event_number_raise(&l->given, head->last); /* the greater one is of no use here */
    return event_head_put(t, head);
}

/* ---- within an update ---- */

err event_log_append(struct event_log *l, struct engine_txn *t, const struct event *events,
                     unsigned count, struct event_taken *taken)
{
    struct event_head head = { .last = 0 };
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    INVARIANT(count <= EVENT_APPEND_MAX);
    if (!events_fit(events, count))
        return ERR_LIMIT;
    err why = head_begin(l, t, &head);
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        event_digest(events[i].stream, events[i].id, taken[i].digest);
        taken[i].before = false;
        taken[i].seq = number_take(t, &head);
        why = row_put_one(t, &head, &events[i], taken[i].digest);
    }
    return why == ERR_OK && count > 0 ? head_end(l, t, &head) : why;
}

/* ---- the row of several ---- */

static void row_begin(struct event_batch *b)
{
    b->row_text = b->end;
    b->events = 0;
}

static err row_end(struct event_batch *b, struct engine_txn *t, struct event_head *head)
{
    err why = ERR_OK;
    if (b->events == 1) {
        why = row_put_one(t, head, b->only, b->digests);
    } else if (b->events > 1) {
        struct event_row row = { .events = b->events };
        size_t digests = (size_t)b->events * EVENT_DIGEST_BYTES;
        memcpy(b->end, b->digests, digests);
        b->end += digests;
        why =
            row_put(t, head, &row, (str){ .p = b->row_text, .n = (size_t)(b->end - b->row_text) });
    }
    row_begin(b);
    return why;
}

static bool is_alone(const struct event *e)
{
    return e->bytes.n > ALONE_BYTES;
}

static bool row_has_room(const struct event_batch *b, const struct event *e)
{
    return b->events < EVENT_ROW_EVENTS_MAX && !is_alone(e) &&
           (size_t)(b->end - b->row_text) + event_frame_bytes(e) <= ROW_TEXT_BYTES;
}

static err row_add(struct event_batch *b, struct engine_txn *t, struct event_head *head,
                   const struct event *e, struct event_taken *taken)
{
    err why = b->events > 0 && !row_has_room(b, e) ? row_end(b, t, head) : ERR_OK;
    if (why != ERR_OK)
        return why;
    taken->seq = number_take(t, head);
    memcpy(b->digests + (size_t)b->events++ * EVENT_DIGEST_BYTES, taken->digest,
           EVENT_DIGEST_BYTES);
    b->only = e;
    if (is_alone(e))
        return row_end(b, t, head);
    b->end = event_frame_put(b->end, e);
    return ERR_OK;
}

/* ---- a batch ---- */

void event_batch_init(struct event_log *l)
{
    INVARIANT(pthread_mutex_init(&l->batch.lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&l->batch.landed, NULL) == 0);
    l->batch.ids = event_ids_new();
    buf_init(&l->batch.forgotten, FORGOTTEN_BYTES);
}

void event_batch_fini(struct event_log *l)
{
    struct event_batch *b = &l->batch;
    INVARIANT(pthread_mutex_lock(&b->lock) == 0);
    while (b->flying) /* its last request was answered; done returns soon */
        INVARIANT(pthread_cond_wait(&b->landed, &b->lock) == 0);
    INVARIANT(b->first == NULL);
    INVARIANT(pthread_mutex_unlock(&b->lock) == 0);
    INVARIANT(pthread_cond_destroy(&b->landed) == 0);
    INVARIANT(pthread_mutex_destroy(&b->lock) == 0);
    event_ids_free(&b->ids);
    buf_fini(&b->forgotten);
    free(b->text);
}

uint64_t event_batch_since(struct event_log *l, store_time now)
{
    int64_t dedupe_ns = atomic_load(&l->dedupe_ns);
    return now.ns > dedupe_ns ? (uint64_t)((now.ns - dedupe_ns) / NS_PER_US) : 0;
}

void event_batch_bound(struct event_log *l, store_time now)
{
    event_ids_bound(l->batch.ids, event_batch_since(l, now),
                    atomic_load(&l->dedupe_ns) == 0 ? 0 : atomic_load(&l->ids_max));
}

static size_t append_bytes(const struct event_append *a)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < a->count; i++)
        bytes +=
            is_alone(&a->events[i]) ? 0 : event_frame_bytes(&a->events[i]) + EVENT_DIGEST_BYTES;
    return bytes;
}

/* Under the lock, by who decides. */
static void ids_forget(struct event_batch *b)
{
    for (size_t at = 0; at < b->forgotten.n; at += EVENT_DIGEST_BYTES) {
        const unsigned char *digest = (const unsigned char *)b->forgotten.p + at;
        uint64_t seq = event_ids_find(b->ids, digest);
        if (seq > 0)
            event_ids_strike(b->ids, digest, seq);
    }
    buf_clear(&b->forgotten);
}

void event_log_forget(struct event_log *l, str stream, str id)
{
    struct event_batch *b = &l->batch;
    unsigned char digest[EVENT_DIGEST_BYTES];
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    event_digest(stream, id, digest);
    if (!event_has_id(digest))
        return;
    INVARIANT(pthread_mutex_lock(&b->lock) == 0);
    buf_put(&b->forgotten, (str){ .p = (const char *)digest, .n = sizeof digest });
    INVARIANT(pthread_mutex_unlock(&b->lock) == 0);
}

/* The first ones that wait are decided now. */
static void batch_take(struct event_batch *b)
{
    size_t bytes = 0;
    unsigned events = 0;
    INVARIANT(pthread_mutex_lock(&b->lock) == 0);
    ids_forget(b);
    struct event_append **link = &b->first;
    while (*link != NULL && (link == &b->first || (bytes < BATCH_BYTES &&
                                                   events + (*link)->count <= EVENT_APPEND_MAX))) {
        bytes += append_bytes(*link);
        events += (*link)->count;
        b->waiting--;
        link = &(*link)->next;
    }
    b->decided = b->first;
    b->first = *link;
    *link = NULL;
    INVARIANT(pthread_mutex_unlock(&b->lock) == 0);
    if (bytes > b->text_size) {
        free(b->text);
        b->text = malloc(bytes);
        INVARIANT(b->text != NULL);
        b->text_size = bytes;
    }
}

/* Nothing of it was stored, or it is decided again. */
static void ids_strike(struct event_batch *b)
{
    for (struct event_append *a = b->decided; a != NULL; a = a->next)
        for (unsigned i = 0; i < a->count; i++) {
            struct event_taken *taken = &a->taken[i];
            if (taken->seq > 0 && !taken->before && event_has_id(taken->digest))
                event_ids_strike(b->ids, taken->digest, taken->seq);
            taken->seq = 0;
        }
}

static err event_decide(struct event_batch *b, struct engine_txn *t, struct event_head *head,
                        const struct event *e, struct event_taken *taken)
{
    bool has_id = event_has_id(taken->digest);
    uint64_t seq = has_id ? event_ids_find(b->ids, taken->digest) : 0;
    taken->before = seq > 0;
    taken->seq = seq;
    if (taken->before)
        return ERR_OK;
    err why = row_add(b, t, head, e, taken);
    if (has_id && taken->seq > 0)
        event_ids_put(b->ids, taken->digest, taken->seq);
    return why;
}

static err batch_decide(struct engine_txn *t, void *ctx)
{
    struct event_log *l = ctx;
    struct event_batch *b = &l->batch;
    struct event_head head = { .last = 0 };
    if (b->decided == NULL)
        batch_take(b);
    ids_strike(b);
    b->end = b->text;
    row_begin(b);
    event_batch_bound(l, engine_txn_now(t));
    mono now = clock_mono(l->clock);
    err why = head_begin(l, t, &head);
    const uint64_t last = head.last;
    for (struct event_append *a = b->decided; a != NULL && why == ERR_OK; a = a->next) {
        bool late = a->deadline.ns > 0 && now.ns >= a->deadline.ns;
        a->why = late ? ERR_TIMEOUT : ERR_OK;
        for (unsigned i = 0; i < a->count && !late && why == ERR_OK; i++)
            why = event_decide(b, t, &head, &a->events[i], &a->taken[i]);
    }
    if (why == ERR_OK)
        why = row_end(b, t, &head);
    return why == ERR_OK && head.last > last ? head_end(l, t, &head) : why;
}

/* ---- requests ---- */

static void append_over(struct task *t)
{
    struct event_append *a = CONTAINER_OF(t, struct event_append, task);
    a->done(a, a->why);
}

static void append_answer(struct event_append *a, err why)
{
    a->why = why;
    home_post(a->home, &a->task);
}

/* Returns whether others wait, for whom the update goes on. */
static bool batch_goes_on(struct event_batch *b)
{
    INVARIANT(pthread_mutex_lock(&b->lock) == 0);
    b->flying = b->first != NULL;
    bool more = b->flying;
    if (!more)
        INVARIANT(pthread_cond_signal(&b->landed) == 0);
    INVARIANT(pthread_mutex_unlock(&b->lock) == 0);
    return more;
}

static void batch_answer(struct event_batch *b, err why)
{
    struct event_append *next;
    for (struct event_append *a = b->decided; a != NULL; a = next) {
        next = a->next;
        append_answer(a, why != ERR_OK ? why : a->why);
    }
    b->decided = NULL;
    if (b->text_size > TEXT_KEPT_BYTES) {
        free(b->text);
        b->text = NULL;
        b->text_size = 0;
    }
}

/* The engine refused it before it was decided: so it would the next one. */
static void batch_refuse(struct event_batch *b, err why)
{
    do {
        batch_take(b);
        batch_answer(b, why);
    } while (batch_goes_on(b));
}

static void batch_done(void *ctx, err why)
{
    struct event_log *l = ctx;
    struct event_batch *b = &l->batch;
    if (b->decided == NULL) {
        batch_refuse(b, why);
        return;
    }
    if (why != ERR_OK)
        ids_strike(b);
    else
        event_log_told(l);
    batch_answer(b, why);
    if (batch_goes_on(b))
        engine_submit(l->engine, &b->update);
}

void event_append_start(struct event_append *a)
{
    struct event_log *l = a->log;
    struct event_batch *b = &l->batch;
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    INVARIANT(a->count <= EVENT_APPEND_MAX);
    a->task = (struct task){ .run = append_over };
    a->next = NULL;
    for (unsigned i = 0; i < a->count; i++) {
        a->taken[i].seq = 0;
        event_digest(a->events[i].stream, a->events[i].id, a->taken[i].digest);
    }
    INVARIANT(pthread_mutex_lock(&b->lock) == 0);
    bool takes = events_fit(a->events, a->count) && b->waiting < EVENT_WAITING_MAX;
    bool flies = b->flying;
    if (takes) {
        *(b->first == NULL ? &b->first : &b->last->next) = a;
        b->last = a;
        b->waiting++;
        b->flying = true;
    }
    INVARIANT(pthread_mutex_unlock(&b->lock) == 0);
    if (!takes) {
        append_answer(a, ERR_LIMIT);
    } else if (!flies) {
        b->update = (struct engine_update){ .decide = batch_decide, .done = batch_done, .ctx = l };
        engine_submit(l->engine, &b->update);
    }
}
