/* move_out.c - the side of a move that leaves the source: items are doomed, removed, or put back.
 *
 * A doomed item is given to nobody any more. The row of its lease says so (step.c), also after a
 * restart, which goes on with its move. The lease of an ordered item (queue.requeue) names the
 * queue that the item goes to. */
#include "queue/lease/wait.h"
#include "queue/move/move.h"

static void doom(struct slot *s, const struct move *m, struct qitem *it)
{
    if (it->from != QITEM_LEASED && m->to_number == 0)
        return; /* past its time, also after a restart: it is moved before it is given */
    if (it->from != QITEM_LEASED) {
        it->ordered_to = m->to_number;
        it->due_at = STORE_TIME_ZERO;
        s->write.parts[0].ready--;
        s->write.parts[0].leased++;
    }
    it->doomed = true;
    slot_op(s, OP_LEASE_PUT)->u.lease = qitem_lease(it, it->due_at);
}

/* What was written: who was ready is leased. */
static void doomed(struct move *m)
{
    m->doomed = true;
    m->inserts = m->keeps;
    for (unsigned i = 0; i < m->round && m->generation == m->part->generation && m->to_number > 0;
         i++)
        m->items[i].item->from = QITEM_LEASED;
}

/* As if nobody had ordered anything. What stands in the target already is not given back: only its
 * removal is left. */
static void give_back(struct part *p, struct qitem *it)
{
    it->doomed = false;
    it->ordered_to = 0;
    it->attempts++; /* a release takes it away again */
    list_append(&p->orphans, &it->link);
    part_heads(p);
    queue_work(p);
}

void move_put_back(struct move *m, const struct moved *moved)
{
    struct part *p = m->part;
    struct qitem *it = moved->item;
    qitem_move(it, (enum qitem_state)it->from);
    if (it->state == QITEM_LEASED && it->ordered_to > 0 && m->gives_back && !moved->skip) {
        give_back(p, it);
    } else if (it->state == QITEM_LEASED || it->state == QITEM_SCHEDULED) {
        due_add(it, it->doomed ? STORE_TIME_ZERO : it->due_at);
    } else {
        it->doomed = false;
        it->ordered_to = 0;
        it->token = 0;
        it->state = QITEM_READY;
        part_ready_put(p, it);
    }
}

void move_build(struct part *p, struct slot *s)
{
    struct list *n = list_first(&p->moves);
    if (n == NULL || s->move != NULL)
        return;
    struct move *m = CONTAINER_OF(n, struct move, link);
    if (!slot_takes(s, MOVE_ITEMS_MAX * STEP_OPS_MAX) || !slot_room(s, m->round * STEP_OPS_MAX)) {
        p->first = FIRST_MOVE;
        return;
    }
    unsigned before = s->ops_count;
    list_remove(n);
    for (unsigned i = 0; i < m->round; i++) {
        if (m->stage == MOVE_DOOM)
            doom(s, m, m->items[i].item);
        else
            step_gone(s, m->items[i].item);
    }
    if (m->stage == MOVE_DOOM && s->ops_count == before) {
        loop_post(p->queue->all->opts.loop, move_insert, m);
        return;
    }
    s->move = m;
    if (m->stage == MOVE_REMOVE && m->placed) {
        move_side_of_target(m, &s->write.parts[1]);
        s->write.parts_count = 2;
    }
}

/* Its step was taken back: out of where that put it, still on its way. */
static void keep_moving(struct part *p, struct qitem *it)
{
    if (it->due.place != 0)
        heap_remove(&p->queue->due, &it->due);
    part_unlist(p, it);
    qitem_move(it, QITEM_MOVING);
}

void move_outcome(struct move *m, err why)
{
    struct part *p = m->part;
    struct loop *loop = p->queue->all->opts.loop;
    bool current = m->generation == p->generation && why != ERR_IO && why != ERR_CORRUPT;
    if (why != ERR_OK && m->stage == MOVE_REMOVE && current)
        for (unsigned i = 0; i < m->round; i++)
            keep_moving(p, m->items[i].item);
    if (m->stage == MOVE_DOOM && why == ERR_OK) {
        doomed(m);
        loop_post(loop, move_insert, m);
    } else if (why == ERR_OK) {
        move_round_over(m);
    } else if (m->stage == MOVE_REMOVE && !m->placed && current && move_is_current(m)) {
        move_failed(m, why);
        if (m->waiter != NULL) /* the items are in the target: only this is left */
            waiter_done(m->waiter, why, 0);
        m->waiter = NULL;
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
