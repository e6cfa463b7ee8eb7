/* cull.c - events that are too old or too many are removed, row by row.
 *
 * Events lie in the order in which they came, so what is to go is a beginning of the log.
 * Everything is decided in one update, by the head row and the rows themselves. A look without an
 * update says beforehand whether there is anything to do. */
#include "event/log_impl.h"
#include "event/rows.h"

enum { CULL_BATCH = 1000, CULL_DAMAGED_MAX = 64 };

struct culling {
    struct event_log *log;
    struct event_head head;
    struct engine_txn *txn;
    store_time now;
    /* Damaged rows that the walk has passed, and that go with the next sound one. */
    uint64_t damaged[CULL_DAMAGED_MAX];
    unsigned damaged_count;
};

static err event_delete(struct culling *c, uint64_t seq)
{
    struct event_key key;
    event_key_event(&key, seq);
    return engine_txn_delete(c->txn, SPACE_EVENT, event_key_str(&key));
}

/* Has it no place in the log any more? */
static bool is_over(const struct culling *c, const struct event_row *e)
{
    store_time until = store_time_add(e->at, atomic_load(&c->log->retention_ns));
    return !store_time_before(c->now, until) ||
           c->head.bytes - c->head.culled_bytes > atomic_load(&c->log->bytes_max);
}

/* A row of the beginning, with the damaged ones before it. */
static err row_remove(struct culling *c, uint64_t seq, const struct event_row *e)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < c->damaged_count && why == ERR_OK; i++)
        why = event_delete(c, c->damaged[i]);
    if (why != ERR_OK)
        return why;
    c->damaged_count = 0;
    c->head.culled = seq;
    c->head.culled_count = e->count;
    c->head.culled_bytes = e->bytes;
    return event_delete(c, seq);
}

/* A damaged row is passed over: the next sound one says all that the damaged one said. */
static err beginning_remove(struct culling *c)
{
    struct engine_cursor *rows = event_rows_open(engine_txn_view(c->txn), c->head.culled);
    bool over = false;
    err why = ERR_OK;
    c->damaged_count = 0;
    for (unsigned i = 0; i < CULL_BATCH && !over && why == ERR_OK; i++) {
        struct engine_row row;
        struct event_row e;
        uint64_t seq;
        why = engine_cursor_next(rows, &row);
        bool keyed = (why == ERR_OK || why == ERR_CORRUPT) && event_key_parse(row.key, &seq);
        if (why == ERR_OK)
            why = keyed ? event_row_decode(row.value, &e) : ERR_CORRUPT;
        over = why == ERR_OK && !is_over(c, &e); /* it stays, and so do all behind it */
        if (why == ERR_OK && !over)
            why = row_remove(c, seq, &e);
        else if (why == ERR_CORRUPT && keyed && c->damaged_count < CULL_DAMAGED_MAX) {
            c->damaged[c->damaged_count++] = seq;
            why = ERR_OK;
        }
    }
    engine_cursor_close(&rows);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err cull_decide(struct engine_txn *t, void *ctx)
{
    struct culling *c = ctx;
    c->txn = t;
    c->now = engine_txn_now(t);
    err why = event_head_get(engine_txn_view(t), &c->head);
    const uint64_t before = c->head.culled;
    if (why == ERR_OK)
        why = beginning_remove(c);
    return why != ERR_OK || c->head.culled == before ? why : event_head_put(t, &c->head);
}

/* The first sound row behind after; ERR_NOT_FOUND. */
static err first_behind(struct engine_view *v, uint64_t after, struct event_row *e)
{
    struct engine_cursor *rows = event_rows_open(v, after);
    struct engine_row row;
    err why = ERR_CORRUPT;
    for (unsigned i = 0; i < CULL_DAMAGED_MAX && why == ERR_CORRUPT; i++) {
        why = engine_cursor_next(rows, &row);
        if (why == ERR_OK)
            why = event_row_decode(row.value, e);
    }
    engine_cursor_close(&rows);
    return why;
}

/* Is there anything to do now? *next: when there is, if nothing is appended. */
static err cull_look(struct culling *c, bool *due, store_time *next)
{
    struct event_row e;
    struct engine_view *v = engine_view_begin(c->log->engine);
    *due = false;
    *next = STORE_TIME_NEVER;
    err why = event_head_get(v, &c->head);
    if (why == ERR_OK)
        why = first_behind(v, c->head.culled, &e);
    if (why == ERR_OK) {
        *due = is_over(c, &e);
        *next = store_time_add(e.at, atomic_load(&c->log->retention_ns));
    }
    engine_view_end(&v);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err event_log_upkeep(struct event_log *l, bool *more, store_time *next)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    struct culling c = { .log = l, .now = clock_store(l->clock) };
    const struct engine_update update = { .decide = cull_decide, .ctx = &c, .frees = true };
    bool due;
    *more = false;
    err why = cull_look(&c, &due, next);
    if (why != ERR_OK || !due)
        return why;
    why = engine_submit_wait(l->engine, &update);
    c.now = clock_store(l->clock);
    return why == ERR_OK ? cull_look(&c, more, next) : why;
}
