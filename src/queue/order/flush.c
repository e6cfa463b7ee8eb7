/* flush.c - what goes into the next write of a partition, for queue.c. Invariant: a write behind
 * another takes only what can be taken back when that one fails. */
#include "queue/order/flush.h"

/* The pause doubles with each failure, and ends with the first good write. */
enum { HOLD_MS = 50, HOLD_MS_MAX = 1000 };

/* After a failure nothing is written for a while; removals first, should the disk be full. */
void part_hold(struct part *p)
{
    struct queue *q = p->queue;
    mono now = clock_mono(q->all->opts.clock);
    /* A pause is running: failures of writes sent before it do not make it longer. */
    if (p->held_until.ns > now.ns)
        return;
    p->held_ms = p->held_ms == 0 ? HOLD_MS : p->held_ms * 2;
    if (p->held_ms > HOLD_MS_MAX)
        p->held_ms = HOLD_MS_MAX;
    p->held_until = mono_add_ms(now, p->held_ms);
    p->held = true;
    /* A held partition gives no leases. */
    part_heads(p);
    /* The queue looks again at the first instant at which one of its partitions may write. */
    if (p->held_until.ns < q->held_at.ns)
        q->held_at = p->held_until;
}

/* Is there work that a write behind another does not take? Such work cannot be taken back, so it
 * waits until nothing is on its way. */
static bool apart_waits(const struct part *p)
{
    return p->apart_wanted || !list_empty(&p->moves) || p->damage != NULL ||
           !list_empty(&p->old_idems) || p->frees_only;
}

static bool common_waits(const struct part *p)
{
    return !list_empty(&p->produces) || !list_empty(&p->changes) || !list_empty(&p->due) ||
           !list_empty(&p->orphans) || p->expire_due;
}

/* Behind a write that may fail, so that all of it can be taken back. */
static void build_behind(struct part *p, struct slot *s, store_time now)
{
    bool changes_first = p->first == FIRST_CHANGE;
    /* first is an order for this write alone: whoever finds no room sets it again. */
    p->first = FIRST_PRODUCE;
    if (changes_first)
        change_build(p, s, now);
    produce_build(p, s, now);
    if (!changes_first)
        change_build(p, s, now);
    orphan_build(p, s);
    /* A queue that ends lets items be: they are due in the next owner's memory, or deleted with
     * it. */
    if (!p->queue->draining && !p->queue->deleted)
        due_build(p, s, now);
}

/* Who found no room in the last write comes first in this one: others may fill each. */
static void build_main(struct part *p, struct slot *s, store_time now)
{
    enum part_first first = p->first;
    p->first = FIRST_PRODUCE;
    damage_build(p, s); /* on a full disk too: it only removes */
    if (first == FIRST_CHANGE)
        change_build(p, s, now);
    /* A move may find no room again, behind all others; build_main asks it a second time at the
     * end. */
    if (first == FIRST_MOVE && !p->frees_only)
        move_build(p, s);
    if (!p->frees_only)
        produce_build(p, s, now);
    if (first != FIRST_CHANGE)
        change_build(p, s, now);
    orphan_build(p, s); /* on a full disk too: nothing of the partition is given before */
    if (p->frees_only)
        return;
    if (!p->queue->draining && !p->queue->deleted)
        due_build(p, s, now);
    move_build(p, s);
    idem_delete(p, s);
}

static bool flush_behind(struct part *p)
{
    /* An open follower may be added to; a new one would keep work that waits for an idle track
     * waiting longer. */
    if (!common_waits(p) || (p->main.next == NULL && apart_waits(p)))
        return false;
    struct slot *s = track_open(p, &p->main);
    if (s == NULL)
        /* The write on its way is over: this is built when its outcome was taken in. */
        return false;
    build_behind(p, s, clock_store(p->queue->all->opts.clock));
    if (s->is_starved)
        part_hold(p);
    return track_close(p, &p->main, s);
}

static bool flush_main(struct part *p, mono now)
{
    if ((!common_waits(p) && !apart_waits(p) && list_empty(&p->dying)) || p->held_until.ns > now.ns)
        return false;
    if (p->main.sent != NULL)
        return flush_behind(p);
    struct slot *s = track_open(p, &p->main);
    bool frees_only = p->frees_only;
    build_main(p, s, clock_store(p->queue->all->opts.clock));
    s->write.frees = frees_only;
    p->frees_only = false;
    if (s->is_starved)
        part_hold(p); /* what found no memory is built later */
    /* nothing to remove: all else now, nobody comes back for it */
    return track_close(p, &p->main, s) || (frees_only && flush_main(p, now));
}

/* Leases have a track of their own: a lease need not wait for the sync of a produce. */
static bool flush_early(struct part *p, mono now)
{
    if (list_empty(&p->grants) || p->held_until.ns > now.ns)
        return false;
    struct slot *s = track_open(p, &p->early);
    if (s == NULL)
        return false;
    lease_build(p, s);
    s->write.frees = true; /* a lease is the way to a removal: a full disk can be emptied */
    if (s->is_starved)
        part_hold(p);
    return track_close(p, &p->early, s);
}

/* For queue_settle, until no part starts anything. */
bool part_flush(struct part *p)
{
    /* Starts a read when memory is not what the store has; until it is over, part_usable is
     * false. */
    part_read(p);
    if (!part_usable(p))
        return false;
    mono now = clock_mono(p->queue->all->opts.clock);
    bool started = flush_early(p, now);
    started |= flush_main(p, now);
    return started;
}
