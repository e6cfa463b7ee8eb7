/* move_out.c - the source's side of a move: items are doomed, removed, given back or put back.
 *
 * A doomed item is given to nobody any more. The row of its lease says that it is doomed (step.c),
 * so its move goes on after a restart. The row of an ordered item (queue.requeue) names the queue
 * that the item goes to. Giving an item back is a write, which removes that row; putting it back
 * changes memory alone. */
#include "queue/move/move.h"

/* Does a mark have to say that the item is on its way? An item past its time needs none: also
 * after a restart it is moved before anybody gets it. */
static bool is_to_be_doomed(const struct move *m, const struct qitem *it)
{
    return it->from == QITEM_LEASED || m->to_number > 0;
}

static void doom_item(const struct move *m, struct qitem *it)
{
    it->doomed = true;
    it->ordered_to = m->to_number;
    if (it->ordered_to > 0)
        it->due_at = STORE_TIME_ZERO;
}

/* The row as it will be; memory follows in doomed, once the row is written. */
static void move_out_doom(struct slot *s, const struct move *m, const struct qitem *it)
{
    struct qitem then = *it; /* as it is once that is written */
    if (!is_to_be_doomed(m, it))
        return;
    if (it->from != QITEM_LEASED) {
        s->write.parts[0].ready--;
        s->write.parts[0].leased++;
    }
    doom_item(m, &then);
    slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(&then, then.due_at);
}

/* The marks are written: an item that was ready counts as leased. */
static void doomed(struct move *m)
{
    m->doomed = true;
    for (unsigned i = 0; i < m->round && m->generation == m->part->generation; i++) {
        struct qitem *it = m->items[i].item;
        if (!is_to_be_doomed(m, it))
            continue;
        doom_item(m, it);
        /* It was ready, and its row is a lease now: a failure puts it back as such. */
        it->from = QITEM_LEASED;
    }
}

/* The item is ready in its place, as before the order. An item that is in the target already is not
 * given back: its removal from here is all that is left. */
static void give_back(struct slot *s, struct move *m, struct moved *moved)
{
    struct qitem *it = moved->item;
    if (moved->skip)
        return;
    it->doomed = false;
    it->ordered_to = 0;
    it->attempts++; /* a release takes it away again */
    step_release(s, it);
    moved->item = NULL;
    m->returned++;
}

/* Memory alone: the item waits where it did. A doomed one is due at once, and its move begins
 * anew. */
void move_put_back(struct move *m, const struct moved *moved)
{
    struct qitem *it = moved->item;
    qitem_move(it, (enum qitem_state)it->from);
    if (it->state == QITEM_LEASED || it->state == QITEM_SCHEDULED) {
        due_add(it, it->doomed ? STORE_TIME_ZERO : it->due_at);
    } else {
        it->state = QITEM_READY;
        part_ready_put(m->part, it);
    }
}

static void build_item(struct slot *s, struct move *m, struct moved *moved)
{
    switch (m->stage) {
    case MOVE_DOOM:
        move_out_doom(s, m, moved->item);
        return;
    case MOVE_REMOVE:
        step_gone(s, moved->item);
        return;
    case MOVE_RELEASE:
        give_back(s, m, moved);
        return;
    case MOVE_NEW:
    case MOVE_INSERT:
        break;
    }
    check_failed(__FILE__, __LINE__, "a move that writes into its source");
}

/* One move for each write: the next one waits for the outcome of this one. */
void move_build(struct part *p, struct slot *s)
{
    struct list *n = list_first(&p->moves);
    if (n == NULL || s->move != NULL)
        return;
    struct move *m = CONTAINER_OF(n, struct move, link);
    /* Less room than the largest move needs is left to others: a move takes a write of its own
     * then. */
    if (!slot_takes(s, MOVE_ITEMS_MAX * STEP_OPS_MAX) || !slot_room(s, m->round * STEP_OPS_MAX)) {
        p->first = FIRST_MOVE;
        return;
    }
    unsigned before = s->ops_count;
    list_remove(n);
    for (unsigned i = 0; i < m->round; i++)
        build_item(s, m, &m->items[i]);
    /* No item needs a mark: the target's write comes at once. */
    if (m->stage == MOVE_DOOM && s->ops_count == before) {
        loop_post(p->queue->all->opts.loop, move_insert, m);
        return;
    }
    INVARIANT(s->ops_count + s->dirty_count > before);
    s->move = m;
    /* Both sides in one write: the target's part is on the same store. */
    if (m->stage == MOVE_REMOVE && m->placed) {
        move_side_of_target(m, &s->write.parts[1]);
        s->write.parts_count = 2;
    }
}

/* The failed step put the item back among the others. It is still on its way. */
static void keep_moving(struct part *p, struct qitem *it)
{
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    part_unlist(p, it);
    qitem_move(it, QITEM_MOVING);
}

/* After a release that failed the partition gives the items back by a later write, like leases that
 * nobody was told of. */
static void released(struct move *m, err why, bool current)
{
    if (why != ERR_OK)
        m->returned = 0;
    if (!current)
        m->generation = m->part->generation - 1;
    move_end(m, m->why);
}

/* The write of the source was answered; under its lock. Four stages, and whether the memory is
 * still that of the move. */
void move_outcome(struct move *m, err why)
{
    struct part *p = m->part;
    struct loop *loop = p->queue->all->opts.loop;
    bool current = m->generation == p->generation && why != ERR_IO && why != ERR_CORRUPT;
    m->unsure |= why == ERR_IO;
    /* step_undo put them back to where they were before the move: they are on their way again. */
    if (why != ERR_OK && m->stage == MOVE_REMOVE && current)
        for (unsigned i = 0; i < m->round; i++)
            keep_moving(p, m->items[i].item);
    if (m->stage == MOVE_DOOM && why == ERR_OK) {
        doomed(m);
        loop_post(loop, move_insert, m);
    } else if (m->stage == MOVE_RELEASE) {
        released(m, why, current);
    } else if (why == ERR_OK) {
        move_round_over(m);
        /* The target has the items, and the source could not remove them. */
    } else if (m->stage == MOVE_REMOVE && !m->placed && current && move_is_current(m)) {
        move_failed(m, why);
        move_stands_in_both(m, why);
        move_later(m);
    } else if (!current) {
        m->generation = p->generation - 1; /* its items are about to be thrown away */
        m->why = why;
        move_end(m, why);
    } else {
        m->why = why;
        loop_post(loop, move_again, m);
    }
}
