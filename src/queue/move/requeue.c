/* requeue.c - the items of a dead queue back to another, by order: from every partition, until
 * as many are moved as are wanted or none is left. A partition that is being read is waited for;
 * of one that is away the answer says so. Thread: pool; the caller blocks until all moves are
 * over. */
#include "queue/admin.h"
#include "queue/move/move.h"

enum {
    REQUEUE_READ_MS_MAX = 10000, /* that no item is moved because partitions are being read */
    REQUEUE_MOVES_MAX = 64,      /* of a round: each has up to MOVE_ITEMS_MAX items */
};

/* One order, on the stack of queue_requeue: moves point at it until they have told it. */
struct requeue {
    struct queue *from, *to;
    struct move_order order;
    unsigned left;              /* items wanted */
    unsigned moves;             /* of this round */
    const struct part *reading; /* it may have more, which memory will know soon; NULL: none has */
    const struct part *away; /* it may have more, and nobody knows when memory will; NULL: none */
};

/* At most left ready items of a partition begin to move; the result is how many. */
static unsigned requeue_part(struct requeue *r, struct part *p)
{
    struct move *m = NULL;
    unsigned n = 0;
    /* From the head, the oldest first: those behind the window come in later rounds. */
    for (struct qitem *it; n < r->left && n < MOVE_ITEMS_MAX && (it = part_head(p)) != NULL; n++) {
        if (m == NULL)
            m = move_new(p, NULL, r->to->info.name);
        move_add(m, it);
    }
    if (m != NULL) {
        m->order = &r->order;
        m->requeues = true;
        m->to_number = r->to->number;
        waiter_expect(&r->order.waiter);
    }
    move_begin(p);
    return n;
}

static void requeue_look(struct requeue *r, struct part *p)
{
    /* The counts of an owned partition are right before it is read. */
    if (p->owned && p->ready == 0)
        return;
    if (part_usable(p)) {
        unsigned n = requeue_part(r, p);
        r->left -= n;
        r->moves += n > 0;
        /* Memory is empty, and the store may have more. */
        if (n == 0 && (p->refilling || part_reads_on(p)))
            r->reading = p;
    } else if (part_failing(p)) {
        r->away = p;
    } else {
        r->reading = p;
    }
    queue_work(p);
}

/* Begins everything that can be moved now, up to REQUEUE_MOVES_MAX moves. An error: of the
 * queue. */
static err requeue_round(struct requeue *r, struct err_note *note)
{
    struct queue *q = r->from;
    r->moves = 0;
    r->reading = r->away = NULL;
    queue_enter(q);
    err why = q->draining || q->deleted ? req_admit(q, note) : ERR_OK;
    for (uint32_t i = 0;
         i < q->parts_count && r->left > 0 && r->moves < REQUEUE_MOVES_MAX && why == ERR_OK; i++)
        requeue_look(r, q->parts[i]);
    queue_leave(q);
    return why;
}

/* Nothing is left that can be moved, but for what p may have. */
static err requeue_lacks(const struct part *p, struct err_note *note)
{
    queue_enter(p->queue);
    (void)part_failing_note(p, note); /* its store is probed soon */
    err_note_set(note, "partition not available; partition '%u' is %s", p->number,
                 p->foreign        ? "owned by another process"
                 : part_failing(p) ? "failing"
                                   : "being read");
    queue_leave(p->queue);
    return ERR_UNAVAILABLE;
}

/* A move failed. ordered: of how many items. */
static err requeue_failed(const struct requeue *r, unsigned ordered, struct err_note *note)
{
    /* Each item has been moved or is on its way: the target did not refuse them. */
    if (r->order.waiter.good + r->order.open == ordered)
        err_note_set(note, "items are still being moved");
    else
        err_note_set(note, "queue '%.*s' does not take the items",
                     STR_ARG(str_take(r->to->info.name, 150)));
    return ERR_UNAVAILABLE;
}

/* Rounds of moves. Between two rounds all moves are over, or on their way without this order. */
static err requeue_all(struct requeue *r, struct err_note *note)
{
    unsigned wanted = r->left;
    struct clock *clock = r->from->all->opts.clock;
    mono deadline = mono_add_ms(clock_mono(clock), REQUEUE_READ_MS_MAX);
    while (r->left > 0) {
        err why = requeue_round(r, note);
        if (why != ERR_OK)
            return why;
        if (waiter_wait(&r->order.waiter) != ERR_OK)
            return requeue_failed(r, wanted - r->left, note);
        if (r->moves > 0)
            /* The time counts from when something moved last. */
            deadline = mono_add_ms(clock_mono(clock), REQUEUE_READ_MS_MAX);
        else if (r->reading == NULL)
            return r->away == NULL ? ERR_OK : requeue_lacks(r->away, note);
        else if (clock_mono(clock).ns >= deadline.ns)
            return requeue_lacks(r->reading, note);
        else
            queue_rest();
    }
    return ERR_OK;
}

/* again: there may be more to move. */
static void requeue_tell(const struct requeue *r, const char *why, bool again,
                         struct err_note *note)
{
    unsigned moved = r->order.waiter.good, open = r->order.open;
    const char *end = again ? ", try again" : "";
    if (open == 0)
        err_note_set(note, "%s; %u were moved%s", why, moved, end);
    else
        err_note_set(note, "%s; %u were moved, %u are on their way%s", why, moved, open, end);
}

err queue_requeue(struct queue *dead, struct queue *to, unsigned count, unsigned *moved,
                  struct err_note *note)
{
    struct requeue r = { .from = dead, .to = to, .left = count };
    struct err_note said;
    if (dead == to) {
        err_note_set(note, "queue is invalid; items cannot be moved to the queue they are in");
        return ERR_BAD;
    }
    waiter_init(&r.order.waiter);
    err why = requeue_all(&r, &said);
    *moved = r.order.waiter.good;
    waiter_fini(&r.order.waiter);
    if (why != ERR_OK)
        requeue_tell(&r, said.text, why == ERR_UNAVAILABLE && *moved + r.order.open < count, note);
    return why;
}
