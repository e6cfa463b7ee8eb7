/* due.c - items whose delay or backoff is over are made ready.
 *
 * They stand in the order of their instants. An update takes the first CHANGE_DUE_MAX that are due;
 * one that was full is followed by another. Invariant: next_due is no later than the first of them,
 * as far as this process has written or seen it; a look at the store puts it right. */
#include "change/change_impl.h"

#include <stdlib.h>

/* On the committer: the rows as they are now. */
static err due_find(struct change_due *d)
{
    struct change_edit *e = &d->edit;
    struct engine_cursor *rows = change_rows_open(engine_txn_view(e->txn), STR("s"), STR_NONE);
    struct engine_row row;
    err why = ERR_OK;
    d->count = 0;
    while (d->count < CHANGE_DUE_MAX && (why = change_rows_next(rows, &row)) == ERR_OK) {
        struct change_woken *w = &d->items[d->count];
        if (!change_key_due_parse(row.key, &w->due, &w->rule, &w->id)) {
            why = ERR_CORRUPT;
            break;
        }
        if (store_time_before(e->now, w->due)) {
            d->next = w->due;
            break;
        }
        d->count++;
    }
    engine_cursor_close(&rows);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* An entry whose item is lost. */
static err due_forget(struct change_due *d, const struct change_woken *w)
{
    struct change_key key;
    change_key_due(&key, w->due, w->rule, w->id);
    return engine_txn_delete(d->edit.txn, SPACE_CHANGE, change_key_str(&key));
}

static err due_decide(struct engine_txn *t, void *ctx)
{
    /* On the committer. Wakes what is due, and forgets what is to be forgotten: both are told by
     * one instant. */
    struct change_due *d = ctx;
    change_edit_begin(&d->edit, t);
    d->next = STORE_TIME_NEVER;
    err why = due_find(d);
    for (unsigned i = 0; i < d->count && why == ERR_OK; i++) {
        why = change_item_wake(&d->edit, d->items[i].rule, d->items[i].id, false);
        if (why == ERR_NOT_FOUND || why == ERR_CORRUPT) /* palimpsest check tells of damage */
            /* Another try would meet the same row: without it the others go on. */
            why = due_forget(d, &d->items[i]);
    }
    store_time forget = STORE_TIME_NEVER;
    if (why == ERR_OK)
        why = change_memory_forget(&d->edit, &forget);
    d->next = store_time_min(d->next, forget);
    return why == ERR_OK ? change_edit_end(&d->edit) : why;
}

/* On the committer; the rest is done on the loop. */
static void due_done(void *ctx, err why)
{
    struct change_due *d = ctx;
    struct change *c = CONTAINER_OF(d, struct change, due);
    d->why = why;
    home_post(loop_home(c->opts.loop), &d->task);
}

/* Runners have more to do. Loop; under the lock. */
static void due_tell(struct change *c, const struct change_due *d)
{
    for (unsigned i = 0; i < d->count; i++) {
        struct change_runner *r = change_runner_numbered(c, d->items[i].rule);
        if (r != NULL)
            r->more = true;
    }
    /* Others may begin what this runner left. */
    for (unsigned i = 0; d->count > 0 && i < c->runners_count; i++)
        change_runner_fill(c->runners[i]);
}

static void due_over(struct task *t)
{
    struct change *c = CONTAINER_OF(t, struct change, due.task);
    struct change_due *d = &c->due;
    change_lock(c);
    c->waking = false;
    if (d->why != ERR_OK) {
        change_failed(c, &c->fails_due, "change.due", "items that are due could not be made ready",
                      d->why);
        change_arm(c, mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS));
    } else {
        /* A full update: more may be due. */
        c->next_due = d->count == CHANGE_DUE_MAX ? STORE_TIME_ZERO : d->next;
        due_tell(c, d);
        change_due_at(c, c->next_due);
    }
    change_busy(c, -1);
    change_unlock(c);
}

/* On a full disk, too: what is ready is on its way to its end. */
static struct engine_update due_update(struct change_due *d, void (*done)(void *ctx, err why))
{
    return (struct engine_update){ .decide = due_decide, .done = done, .ctx = d, .frees = true };
}

void change_due_kick(struct change *c)
{
    if (!c->begun || c->draining || c->waking ||
        store_time_before(clock_store(c->opts.clock), c->next_due))
        return;
    c->waking = true;
    c->due.task.run = due_over;
    c->due.update = due_update(&c->due, due_done);
    change_busy(c, 1);
    engine_submit(c->opts.engine, &c->due.update);
}

void change_due_at(struct change *c, store_time at)
{
    c->next_due = store_time_min(c->next_due, at);
    if (c->next_due.ns == INT64_MAX)
        return;
    store_time now = clock_store(c->opts.clock);
    int64_t left_ms = c->next_due.ns <= now.ns ? 0 : (c->next_due.ns - now.ns) / NS_PER_MS + 1;
    /* No longer than CHANGE_FAR_MS: store_time may be set forward meanwhile. */
    change_arm(c, mono_add_ms(clock_mono(c->opts.clock),
                              left_ms < CHANGE_FAR_MS ? left_ms : CHANGE_FAR_MS));
}

/* ---- at once, for who moves the clock ---- */

/* Loop: whatever the clock made due is looked at. */
static void upkeep_told(void *ctx)
{
    struct change *c = ctx;
    change_lock(c);
    for (unsigned i = 0; i < c->runners_count; i++)
        change_runner_wake(c->runners[i]);
    c->timelines.remote_at.ns = 0; /* the clock may have moved */
    change_remote_kick(c);
    change_router_kick(c);
    change_unlock(c);
}

void change_upkeep_all(struct change *c)
{
    struct change_due *d = calloc(1, sizeof *d);
    INVARIANT(d != NULL);
    /* A copy of what the loop's update has: both may be under way. */
    const struct engine_update update = due_update(d, NULL);
    do
        d->why = engine_submit_wait(c->opts.engine, &update);
    while (d->why == ERR_OK && (d->count == CHANGE_DUE_MAX || d->next.ns == 0));
    free(d);
    change_timelines_expire_all(c);
    /* Runners are the loop's. */
    loop_post(c->opts.loop, upkeep_told, c);
}
