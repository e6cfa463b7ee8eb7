/* items.c - what updates do to items, for router, runs and operators (items.h). Each function
 * reads an item, works out what it is to be, and writes the item and its index rows. Thread: the
 * committer's.
 *   Invariant: `item_move` is the only one that changes a state. */
#include "change/items.h"

#include "base/buf.h"

#include <string.h>

/* ---- counts ---- */

/* An edit may be run again: all of it begins here. */
void change_edit_begin(struct change_edit *e, struct engine_txn *t)
{
    e->txn = t;
    e->now = engine_txn_now(t);
    e->tallies_count = 0;
    e->next_due = STORE_TIME_NEVER;
    e->woke = false;
}

/* The counts of a rule as this edit has them, read at the first touch. */
static err tally_of(struct change_edit *e, uint32_t rule, struct change_counts **out)
{
    for (unsigned i = 0; i < e->tallies_count; i++) {
        if (e->tallies[i].rule == rule) {
            *out = &e->tallies[i].counts;
            return ERR_OK;
        }
    }
    if (e->tallies_count == CHANGE_EDIT_RULES_MAX)
        return ERR_LIMIT;
    struct change_tally *t = &e->tallies[e->tallies_count];
    err why = change_counts_get(engine_txn_view(e->txn), rule, &t->counts);
    /* Damaged counts stop nobody: they are left as they are (lost). */
    if (why != ERR_OK && why != ERR_CORRUPT)
        return why;
    t->rule = rule;
    t->lost = why == ERR_CORRUPT;
    e->tallies_count++;
    *out = &t->counts;
    return ERR_OK;
}

static err change_items_count(struct change_edit *e, uint32_t rule, enum change_state state,
                              bool up)
{
    struct change_counts *c;
    err why = tally_of(e, rule, &c);
    if (why != ERR_OK)
        return why;
    if (up)
        c->of[state]++;
    /* Counts that are damage do not go below zero. */
    else if (c->of[state] > 0)
        c->of[state]--;
    return ERR_OK;
}

err change_edit_end(struct change_edit *e)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < e->tallies_count && why == ERR_OK; i++) {
        struct change_key key;
        char value[CHANGE_COUNTS_BYTES];
        if (e->tallies[i].lost)
            continue;
        for (unsigned s = 0; s < CHANGE_STATES; s++)
            put_be64(value + 8 * s, e->tallies[i].counts.of[s]);
        change_key_counts(&key, e->tallies[i].rule);
        why = engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&key),
                             (str){ .p = value, .n = sizeof value }, STR_NONE);
    }
    return why;
}

/* ---- rows of an item ---- */

static err put_empty(struct change_edit *e, const struct change_key *k)
{
    return engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(k), STR(""), STR_NONE);
}

static err delete_key(struct change_edit *e, const struct change_key *k)
{
    return engine_txn_delete(e->txn, SPACE_CHANGE, change_key_str(k));
}

/* Out of the index of its state. What is in state WAITING has no row there. */
static err state_leave(struct change_edit *e, uint32_t rule, uint64_t id,
                       const struct change_item_row *r)
{
    struct change_key key;
    err why = change_items_count(e, rule, r->state, false);
    if (why == ERR_OK && change_key_state(&key, rule, id, r))
        why = delete_key(e, &key);
    return why;
}

static err state_enter(struct change_edit *e, uint32_t rule, uint64_t id,
                       const struct change_item_row *r)
{
    struct change_key key;
    /* Runners look once the update is on disk. */
    if (r->state == CHANGE_READY)
        e->woke = true;
    if (r->state == CHANGE_SCHEDULED)
        e->next_due = store_time_min(e->next_due, r->due);
    err why = change_items_count(e, rule, r->state, true);
    if (why == ERR_OK && change_key_state(&key, rule, id, r))
        why = put_empty(e, &key);
    return why;
}

/* The blob, which is the event, stays. */
static err item_put_value(struct change_edit *e, uint32_t rule, uint64_t id,
                          const struct change_item_row *r)
{
    struct change_key key;
    char value[CHANGE_VALUE_BYTES];
    change_key_item(&key, rule, id);
    return engine_txn_put_value(e->txn, SPACE_CHANGE, change_key_str(&key),
                                change_item_encode(r, value));
}

static err item_put(struct change_edit *e, uint32_t rule, uint64_t id,
                    const struct change_item_row *r, str bytes)
{
    struct change_key key;
    char value[CHANGE_VALUE_BYTES];
    change_key_item(&key, rule, id);
    return engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&key), change_item_encode(r, value),
                          bytes);
}

static bool shares(const struct change_item_row *r)
{
    return (r->flags & CHANGE_ITEM_SHARES) != 0;
}

/* The row with the event that it is for. */
static err item_put_event(struct change_edit *e, const struct change_route *r, uint64_t id,
                          struct change_item_row *row)
{
    bool shared = change_bytes_shared(r->bytes);
    row->flags = r->hops << CHANGE_ITEM_HOPS_SHIFT | (shared ? CHANGE_ITEM_SHARES : 0) |
                 /* A newer job of its root makes it needless, also once it waits. */
                 (change_digest_is_none(&r->root) ? 0 : CHANGE_ITEM_ROOTED);
    err why = item_put(e, r->rule, id, row, shared ? STR_NONE : r->bytes);
    return why == ERR_OK && shared ? change_bytes_take(e, row->seq, r->bytes) : why;
}

/* From the state and time it has to others, and the row with what else has changed in it. */
static err item_move(struct change_edit *e, uint32_t rule, uint64_t id, struct change_item_row *r,
                     enum change_state state, store_time due)
{
    err why = state_leave(e, rule, id, r);
    r->state = state;
    r->due = due;
    if (why == ERR_OK)
        why = state_enter(e, rule, id, r);
    return why == ERR_OK ? item_put_value(e, rule, id, r) : why;
}

/* READY, or SCHEDULED when it is not due yet. */
static enum change_state state_at(const struct change_edit *e, store_time due)
{
    return store_time_before(e->now, due) ? CHANGE_SCHEDULED : CHANGE_READY;
}

/* The next item of the title may begin, if it waited for one that is gone. The first by id,
 * whatever its instant. */
static err order_promote(struct change_edit *e, uint32_t rule, const struct change_digest *order)
{
    struct change_item_kept item;
    uint64_t id;
    err why = change_order_first(engine_txn_view(e->txn), rule, order, &id);
    if (why == ERR_OK)
        why = change_item_get(engine_txn_view(e->txn), rule, id, &item);
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    if (why != ERR_OK || item.row.state != CHANGE_WAITING)
        return why;
    return item_move(e, rule, id, &item.row, state_at(e, item.row.due), item.row.due);
}

/* was: the state it had. While it waited, another of its title was the one that does not. */
static err order_leave(struct change_edit *e, uint32_t rule, uint64_t id,
                       const struct change_digest *order, enum change_state was)
{
    struct change_key key;
    if (change_digest_is_none(order))
        return ERR_OK;
    change_key_order(&key, rule, order, id);
    err why = delete_key(e, &key);
    return why == ERR_OK && was != CHANGE_WAITING ? order_promote(e, rule, order) : why;
}

/* The order is left last: the next of the title may begin then. */
static err item_delete(struct change_edit *e, uint32_t rule, uint64_t id,
                       const struct change_item_row *r)
{
    struct change_key key;
    change_key_item(&key, rule, id);
    err why = state_leave(e, rule, id, r);
    if (why == ERR_OK)
        why = delete_key(e, &key);
    if (why == ERR_OK && shares(r))
        why = change_bytes_give(e, r->seq);
    return why == ERR_OK ? order_leave(e, rule, id, &r->order, r->state) : why;
}

/* ---- routing ---- */

/* waits: another item of its title is there. */
static err item_make(struct change_edit *e, const struct change_route *r, bool waits)
{
    struct change_key key;
    struct change_item_row row = { .state = waits ? CHANGE_WAITING : state_at(e, r->due),
                                   .seq = r->seq,
                                   .taken = r->taken,
                                   .due = r->due,
                                   .lane = r->lane,
                                   .order = r->order,
                                   .target = r->target,
                                   .stream = r->stream,
                                   .domain = r->domain,
                                   .type = r->type };
    err why = item_put_event(e, r, r->id, &row);
    if (why == ERR_OK)
        why = state_enter(e, r->rule, r->id, &row);
    if (why != ERR_OK || change_digest_is_none(&r->order))
        return why;
    change_key_order(&key, r->rule, &r->order, r->id);
    return put_empty(e, &key);
}

/* A newer event for what is to be done already: as soon as either of both wants it, with all its
 * attempts. It keeps its turn. */
static err item_renew(struct change_edit *e, const struct change_route *r, uint64_t id)
{
    struct change_item_kept item;
    err why = change_item_get(engine_txn_view(e->txn), r->rule, id, &item);
    if (why != ERR_OK)
        return why;
    struct change_item_row *row = &item.row;
    /* It is asked again about an older event, by a replay. */
    if (r->seq < row->seq) /* it is asked again about an older one */
        return ERR_OK;
    bool shared = shares(row);
    uint64_t before = row->seq;
    row->seq = r->seq;
    row->stream = r->stream;
    row->domain = r->domain;
    row->type = r->type;
    row->attempts = 0;
    why = item_put_event(e, r, id, row);
    if (why == ERR_OK && shared) /* after it has taken the next, which may be the same */
        why = change_bytes_give(e, before);
    if (why != ERR_OK || row->state == CHANGE_READY || row->state == CHANGE_WAITING)
        return why;
    /* A dead one is due when the new event is. */
    store_time due = row->state == CHANGE_SCHEDULED ? store_time_min(row->due, r->due) : r->due;
    return item_move(e, r->rule, id, row, state_at(e, due), due);
}

/* A free id for it among those of its event: MADE. Or HAD. Items that collapse go by their order:
 * another target of the same event may have the id, when the rule had others as that was routed.
 * NEEDLESS: those of targets that the rule had before have them all. */
static err id_find(struct change_edit *e, const struct change_route *r, uint64_t *id,
                   enum change_routed *how)
{
    struct change_item_kept item;
    uint64_t first = r->id - r->id % CHANGE_SUBS;
    for (unsigned i = 0; i < CHANGE_SUBS; i++) {
        /* From the id that was wanted, round through those of the event. */
        *id = first + (r->id + i) % CHANGE_SUBS;
        err why = change_item_get(engine_txn_view(e->txn), r->rule, *id, &item);
        *how = why == ERR_OK ? CHANGE_HAD : CHANGE_MADE;
        if (why == ERR_NOT_FOUND)
            return ERR_OK;
        if (why != ERR_OK || !r->collapses)
            return why;
    }
    *how = CHANGE_NEEDLESS;
    return ERR_OK;
}

/* Memory first, then the title: a job that is needless is not made, and does not renew another
 * one. */
err change_item_route(struct change_edit *e, const struct change_route *r, enum change_routed *how)
{
    struct change_route route = *r;
    uint64_t first;
    bool ordered = !change_digest_is_none(&r->order), needless;
    err why = change_memory_answers(e, r, &needless);
    *how = CHANGE_NEEDLESS;
    if (why != ERR_OK || needless)
        return why;
    why = ERR_NOT_FOUND;
    if (ordered)
        why = change_order_first(engine_txn_view(e->txn), r->rule, &r->order, &first);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    /* Others of its title are there; without collapsing it waits behind them. */
    bool others = why == ERR_OK;
    *how = CHANGE_COLLAPSED;
    if (others && r->collapses)
        return item_renew(e, r, first);
    why = id_find(e, r, &route.id, how);
    return why == ERR_OK && *how == CHANGE_MADE ? item_make(e, &route, others) : why;
}

/* ---- after a run ---- */

/* It failed for good. What collapses keeps its key: a newer event brings it back. */
static err item_die(struct change_edit *e, const struct change_settle *s,
                    struct change_item_row *row)
{
    struct change_digest order = row->order;
    bool steps_aside = !s->holds && !s->collapses;
    if (steps_aside)
        /* The items behind it go on without it. */
        row->order = (struct change_digest){ .p = { 0 } };
    err why = item_move(e, s->rule, s->id, row, CHANGE_DEAD, row->due);
    return why == ERR_OK && steps_aside ? order_leave(e, s->rule, s->id, &order, CHANGE_DEAD) : why;
}

err change_item_settle(struct change_edit *e, const struct change_settle *s, bool *died)
{
    struct change_item_kept item;
    struct change_item_row *row = &item.row;
    *died = false;
    err why = change_item_get(engine_txn_view(e->txn), s->rule, s->id, &item);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why; /* it was dropped meanwhile */
    /* Woken, or renewed, by hand: what has just run counts no more. */
    if (row->state != CHANGE_READY)
        return ERR_OK;
    /* The item was renewed while it ran: the newer event is still to be done. */
    bool newer = row->seq != s->seq;
    bool again = s->how == SETTLED_AGAIN && (row->flags & CHANGE_ITEM_AGAIN) == 0;
    bool done = s->how == SETTLED_DONE || s->how == SETTLED_AGAIN;
    if (done && s->remembers)
        why = change_memory_done(e, s->rule, &row->order, s->began);
    if (why != ERR_OK)
        return why;
    if (done && !newer && !again)
        return item_delete(e, s->rule, s->id, row);
    row->error = done ? STR("") : s->error;
    if (newer || again) { /* for the newer event: at once, if nothing is wrong */
        row->attempts = 0;
        row->flags = (row->flags & ~(unsigned)CHANGE_ITEM_AGAIN) | (newer ? 0 : CHANGE_ITEM_AGAIN);
        /* After a failure also the newer event waits for the backoff. */
        store_time due = done && newer ? row->due : s->again_at;
        return item_move(e, s->rule, s->id, row, state_at(e, due), due);
    }
    /* It failed for the event that it still has. */
    row->attempts++;
    *died = s->how == SETTLED_DEAD || row->attempts > s->retries;
    if (*died)
        return item_die(e, s, row);
    return item_move(e, s->rule, s->id, row, state_at(e, s->again_at), s->again_at);
}

/* ---- by hand, and by time ---- */

err change_item_wake(struct change_edit *e, uint32_t rule, uint64_t id, bool fresh)
{
    struct change_item_kept item;
    err why = change_item_get(engine_txn_view(e->txn), rule, id, &item);
    if (why != ERR_OK)
        return why;
    if (fresh)
        item.row.attempts = 0;
    /* Ready ones run anyway; those that wait have another before them. */
    if (item.row.state != CHANGE_SCHEDULED && item.row.state != CHANGE_DEAD)
        return ERR_OK;
    return item_move(e, rule, id, &item.row, CHANGE_READY, item.row.due);
}

err change_item_aside(struct change_edit *e, uint32_t rule, uint64_t id, bool collapses)
{
    struct change_item_kept item;
    bool alone = false;
    err why = change_item_get(engine_txn_view(e->txn), rule, id, &item);
    if (why == ERR_NOT_FOUND)
        return ERR_OK;
    /* Borrowed by value: item_put_value writes another order. */
    const struct change_digest order = item.row.order;
    if (why == ERR_OK && collapses)
        why = change_order_alone(engine_txn_view(e->txn), rule, &order, &alone);
    if (why != ERR_OK || alone || item.row.state != CHANGE_DEAD || change_digest_is_none(&order))
        return why;
    item.row.order = (struct change_digest){ .p = { 0 } };
    why = item_put_value(e, rule, id, &item.row);
    return why == ERR_OK ? order_leave(e, rule, id, &order, CHANGE_DEAD) : why;
}

err change_item_drop(struct change_edit *e, uint32_t rule, uint64_t id)
{
    struct change_item_kept item;
    err why = change_item_get(engine_txn_view(e->txn), rule, id, &item);
    return why != ERR_OK ? why : item_delete(e, rule, id, &item.row);
}
