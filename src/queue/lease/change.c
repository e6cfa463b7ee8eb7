/* change.c - complete, retry, extend, delete, clear: all of a request or nothing, fenced by the
 * id, and by the token if there is one. */
#include "queue/order/flush.h"

#include <stdlib.h>

enum {
    RECENT_MAX = 1024 /* completions with a token remembered, so that saying it again is no error */
};

static const char *verb_of(const struct queue_change *c)
{
    switch (c->kind) {
    case CHANGE_COMPLETE:
        return "completed";
    case CHANGE_RETRY:
        return "retried";
    case CHANGE_EXTEND:
        return "extended";
    case CHANGE_DELETE:
    case CHANGE_CLEAR:
        return "deleted";
    }
    return "changed";
}

/* ---- a request comes ---- */

err id_parse(str text, struct ksuid *out, struct err_note *note)
{
    if (ksuid_parse(text, out))
        return ERR_OK;
    return err_bad(note, "invalid storage id; '%.*s': %s", STR_ARG(str_take(text, 100)),
                   ksuid_refusal(text));
}

/* Memory of all ids is taken before the request begins: judging it can then fail for no lack of
 * memory. */
static err parse_ids(struct queue_change *c)
{
    struct own_change *own = own_change(c);
    own->ids = arena_calloc(c->arena, c->items_count, sizeof *own->ids);
    own->there = arena_calloc(c->arena, c->items_count, sizeof *own->there);
    if (own->ids == NULL || own->there == NULL)
        return ERR_LIMIT;
    for (unsigned i = 0; i < c->items_count; i++) {
        err why = id_parse(c->items[i].id, &own->ids[i], &c->note);
        if (why != ERR_OK)
            return why;
        if (c->kind == CHANGE_EXTEND && c->items[i].extend_ns <= 0) {
            err_note_set(&c->note, "extension is invalid; must be greater than zero");
            return ERR_BAD;
        }
    }
    /* From here on the arena holds what the store says; part_look releases that before it asks
     * again. */
    own->looks = arena_mark(c->arena);
    return ERR_OK;
}

/* Removals take items in whatever state, and ids of nothing are no error. */
static bool removes(const struct queue_change *c)
{
    return c->kind == CHANGE_DELETE || c->kind == CHANGE_CLEAR;
}

static err change_check(struct queue_change *c)
{
    bool retry = c->kind == CHANGE_RETRY;
    if (c->items_count == 0) {
        err_note_set(&c->note, retry ? "items is invalid; list of items cannot be empty"
                                     : "ids is invalid; list of ids cannot be empty");
        return ERR_BAD;
    }
    if (c->items_count > QUEUE_COMPLETE_IDS_MAX) {
        err_note_set(&c->note,
                     retry ? "items is invalid; max_retry_batch_size is %d but received %u"
                           : "ids is invalid; max_complete_batch_size is %d but received %u",
                     QUEUE_COMPLETE_IDS_MAX, c->items_count);
        return ERR_BAD;
    }
    return parse_ids(c);
}

void change_begin(struct queue *q, struct queue_change *c)
{
    struct part *p = q->parts[c->partition];
    struct req *req = &own_change(c)->req;
    req->part = p;
    req->state = REQ_PENDING;
    list_append(&p->changes, &req->link);
    queue_work(p);
}

/* Thread: any. The checks that need no lock come first. */
err queue_change_start(struct queue_change *c)
{
    struct queue *q = c->queue;
    struct own_change *own = own_change(c);
    if (c->partition >= atomic_load(&q->parts_shown)) {
        err_note_set(&c->note, "partition is invalid; '%u' is not a valid partition", c->partition);
        return ERR_BAD;
    }
    *own = (struct own_change){ .req = { .kind = REQ_CHANGE, .home = c->home } };
    c->note.text[0] = '\0';
    err why = change_check(c);
    if (why != ERR_OK)
        return why;
    queue_enter(q);
    why = req_admit(q, &c->note);
    /* A partition whose memory was lost refuses at once: its store may be away for long. */
    if (why == ERR_OK && part_failing(q->parts[c->partition]))
        why = part_failing_note(q->parts[c->partition], &c->note);
    if (why == ERR_OK) {
        req_add(q, &own->req, c->deadline);
        if (q->paused && !removes(c)) /* what is done by hand goes on */
            list_append(&q->held, &own->req.link);
        else
            change_begin(q, c);
    }
    queue_leave(q);
    return why;
}

/* ---- judging ---- */

/* Linear: it is asked for ids alone that memory does not know. */
static bool was_completed(const struct part *p, struct ksuid id, uint64_t token)
{
    for (unsigned i = 0; p->recent != NULL && i < RECENT_MAX; i++)
        if (p->recent[i].token == token && ksuid_cmp(p->recent[i].id, id) == 0)
            return true;
    return false;
}

/* Only completions with a token: without a token an id that is gone is refused as before. */
static void remember(struct part *p, const struct queue_change *c)
{
    const struct own_change *own = (const struct own_change *)(const void *)c->own;
    for (unsigned i = 0; i < c->items_count; i++) {
        if (c->items[i].token == 0)
            continue;
        if (p->recent == NULL)
            p->recent = calloc(RECENT_MAX, sizeof *p->recent);
        INVARIANT(p->recent != NULL);
        /* The oldest of the ring makes room. */
        p->recent[p->recent_at++ % RECENT_MAX] =
            (struct recent){ .id = own->ids[i], .token = c->items[i].token };
    }
}

static err change_refuse(struct queue_change *c, unsigned i, err why, const char *what)
{
    char id[KSUID_TEXT_BYTES + 1];
    ksuid_format(own_change(c)->ids[i], id);
    if (why == ERR_NOT_FOUND)
        err_note_set(&c->note, "invalid storage id; '%s' %s", id, what);
    else
        err_note_set(&c->note, "item(s) cannot be %s; '%s' %s", verb_of(c), id, what);
    return why;
}

/* An id that memory does not know: gone, behind the window, or never given. ERR_AGAIN: the store
 * has to be asked. */
static err judge_unknown(struct part *p, struct queue_change *c, unsigned i)
{
    struct own_change *own = own_change(c);
    if (c->kind == CHANGE_COMPLETE && c->items[i].token != 0 &&
        was_completed(p, own->ids[i], c->items[i].token))
        return ERR_OK;
    /* Ready items up to the edge are all in memory; schedules are when whole_due. */
    bool behind = !p->whole && ksuid_cmp(own->ids[i], p->edge) > 0;
    if (!own->looked && (behind || !p->whole_due)) {
        own->ask = true;
        return ERR_AGAIN;
    }
    if (removes(c))
        return ERR_OK;
    /* The store has it, and not as a lease: all leases are in memory. */
    if (own->looked && own->there[i].there)
        return change_refuse(c, i, ERR_CONFLICT, "is not marked as leased");
    return change_refuse(c, i, ERR_NOT_FOUND, "does not exist");
}

/* Where an item stands, for a clear: one on its way to another queue, where it was before. */
static enum qitem_state state_seen(const struct qitem *it)
{
    return (enum qitem_state)(it->state == QITEM_MOVING ? it->from : it->state);
}

/* What was seen of a kind that is to go may have become another since. */
static bool is_kept(const struct queue_change *c, enum qitem_state state)
{
    if (c->kind != CHANGE_CLEAR)
        return false;
    if (state == QITEM_LEASED)
        return !c->clears.leased;
    return state == QITEM_SCHEDULED ? !c->clears.scheduled : !c->clears.ready;
}

/* A removal takes items out of a move that failed and waits; apply does, when no item of the
 * request is in a try under way. Nobody else waits for a move that failed. */
static err judge_moving(struct queue_change *c, unsigned i, struct qitem *it)
{
    if (is_kept(c, state_seen(it)) || (removes(c) && move_lets_go(it->part, it)))
        return ERR_OK;
    if (!removes(c) && move_waits(it->part, it))
        return change_refuse(c, i, ERR_CONFLICT, "is on its way to another queue");
    own_change(c)->moving = it->id;
    return ERR_AGAIN;
}

static err judge_item(struct queue_change *c, unsigned i, struct qitem *it)
{
    switch ((enum qitem_state)it->state) {
    /* In a write on its way: its outcome decides what can be done. */
    case QITEM_ENDING:
    case QITEM_GRANTING:
        return ERR_AGAIN;
    case QITEM_MOVING:
        return judge_moving(c, i, it);
    case QITEM_LEASED:
        /* The client's lease ended, and the item goes to another queue. */
        if (it->doomed && !removes(c))
            return change_refuse(c, i, ERR_CONFLICT, "is not marked as leased");
        if (c->items[i].token != 0 && c->items[i].token != it->token)
            return change_refuse(c, i, ERR_CONFLICT, "is leased by another");
        return ERR_OK;
    case QITEM_READY:
    case QITEM_TAIL:
    case QITEM_BEHIND:
    case QITEM_DAMAGED:
    case QITEM_SCHEDULED:
        return removes(c) ? ERR_OK : change_refuse(c, i, ERR_CONFLICT, "is not marked as leased");
    case QITEM_FREE:
    case QITEM_STATES:
        break;
    }
    check_failed(__FILE__, __LINE__, "an item in use");
}

/* ERR_OK: all of it can be done. ERR_AGAIN: not yet. Else it is refused, and why is in its note. */
static err queue_change_judge(struct part *p, struct queue_change *c)
{
    struct own_change *own = own_change(c);
    err worst = ERR_OK;
    own->ask = false;
    own->moving = KSUID_NIL;
    /* Batches left memory since the store was asked: what it said may be old. */
    own->looked &= own->churn == p->churn;
    /* Items seen by this judgement carry its mark: an id that is listed twice is found. */
    uint64_t mark = ++p->queue->marks;
    for (unsigned i = 0; i < c->items_count; i++) {
        struct qitem *it = part_item(p, own->ids[i]);
        err why;
        if (it == NULL)
            why = judge_unknown(p, c, i);
        else if (it->mark == mark && !removes(c))
            why = change_refuse(c, i, ERR_BAD, "is listed twice");
        else
            why = judge_item(c, i, it);
        if (it != NULL)
            it->mark = mark;
        if (why != ERR_OK && why != ERR_AGAIN)
            /* A refusal ends the request whatever else it has: nothing is changed. */
            return why;
        if (why == ERR_AGAIN)
            worst = why;
    }
    return worst;
}

/* ---- doing ---- */

/* Spent and expired items die instead of waiting again. */
static void retry_item(struct part *p, struct slot *s, struct queue_change *c, unsigned i,
                       struct qitem *it, store_time now)
{
    const struct queue_change_item *want = &c->items[i];
    if (want->dead || item_dies(it, now))
        part_die(p, s, it, c);
    else if (want->retry_at.ns > store_time_add(now, QUEUE_SOON_NS).ns)
        step_schedule(s, it, want->retry_at);
    else
        step_return(s, it, now);
}

/* The item; one that memory does not know is made only to be removed. NULL: it is not there, or
 * stays. */
static struct qitem *queue_change_wanted(struct part *p, struct queue_change *c, unsigned i)
{
    struct own_change *own = own_change(c);
    struct qitem *it = part_item(p, own->ids[i]);
    const struct looked *there = it == NULL && removes(c) && own->looked ? &own->there[i] : NULL;
    if (there != NULL && !is_kept(c, there->scheduled ? QITEM_SCHEDULED : QITEM_READY))
        return looked_item(p, there);
    if (it == NULL || is_kept(c, state_seen(it)))
        return NULL;
    if (it->state == QITEM_MOVING)
        move_let_go(p, it);
    return it;
}

/* All items of the request were judged in this call, so no step can fail. Items that die go with
 * moves, which count in own->left. */
static void apply(struct part *p, struct slot *s, struct queue_change *c, store_time now)
{
    struct own_change *own = own_change(c);
    unsigned before = s->steps_count; /* not ops: a batch that changed becomes one at the end */
    for (unsigned i = 0; i < c->items_count; i++) {
        struct qitem *it = queue_change_wanted(p, c, i);
        if (it == NULL || it->state == QITEM_ENDING)
            continue; /* not there, deleted above, or completed before with the same token */
        switch (c->kind) {
        case CHANGE_COMPLETE:
        case CHANGE_DELETE:
        case CHANGE_CLEAR:
            step_gone(s, it);
            break;
        case CHANGE_RETRY:
            retry_item(p, s, c, i, it, now);
            break;
        case CHANGE_EXTEND:
            step_extend(s, it, store_time_add(now, c->items[i].extend_ns));
            break;
        }
    }
    list_remove(&own->req.link);
    own->req.state = REQ_WRITING;
    if (s->steps_count > before) {
        own->left++;
        slot_request(s, &own->req);
    }
    /* Nothing had to be written and no move was begun: all was done already. */
    if (own->left == 0)
        req_answer(p->queue, &own->req, ERR_OK);
}

/* Some of its items go to the dead queue: that cannot be taken back. */
static bool sends_away(struct part *p, const struct queue_change *c, store_time now)
{
    const struct own_change *own = own_change(unconst(c));
    for (unsigned i = 0; i < c->items_count && c->kind == CHANGE_RETRY; i++) {
        const struct qitem *it = part_item(p, own->ids[i]);
        if (c->items[i].dead || (it != NULL && item_dies(it, now)))
            return true;
    }
    return false;
}

/* Behind a write that may fail: is it left for later? One that was judged since the last outcome
 * would be judged alike. */
static bool is_left(struct part *p, const struct queue_change *c, store_time now)
{
    if (p->main.sent == NULL)
        return false;
    bool away = sends_away(p, c, now);
    p->apart_wanted |= away;
    return away || own_change(unconst(c))->judged == p->settled + 1;
}

/* Each request is judged by what memory says now, in order of arrival. Those that must wait stay
 * in the list. */
void change_build(struct part *p, struct slot *s, store_time now)
{
    p->apart_wanted &= p->main.sent != NULL;
    for (struct list *n = p->changes.next, *next; n != &p->changes; n = next) {
        next = n->next;
        struct queue_change *c = req_change(CONTAINER_OF(n, struct req, link));
        struct own_change *own = own_change(c);
        /* On a full disk only what removes goes on. */
        if (own->looking || (p->frees_only && c->kind != CHANGE_COMPLETE && !removes(c)) ||
            is_left(p, c, now))
            continue;
        /* The next write begins with changes, which has the whole room. */
        if (!slot_room(s, c->items_count * STEP_OPS_MAX)) {
            p->first = FIRST_CHANGE;
            return;
        }
        err why = queue_change_judge(p, c);
        own->judged = p->settled + 1;
        if (why == ERR_OK)
            apply(p, s, c, now);
        else if (why != ERR_AGAIN)
            req_answer(p->queue, &own->req, why);
        else if (own->ask)
            part_look(p, c);
    }
}

/* One of the writes it waits for was answered. */
void change_outcome(struct queue_change *c, err why)
{
    struct own_change *own = own_change(c);
    struct part *p = own->req.part;
    INVARIANT(own->left > 0);
    own->left--;
    if (why != ERR_OK)
        own->worst = why;
    if (own->left > 0)
        return;
    if (own->worst == ERR_OK) {
        if (c->kind == CHANGE_COMPLETE)
            remember(p, c);
        req_answer(p->queue, &own->req, ERR_OK);
        return;
    }
    if (c->note.text[0] == '\0')
        err_note_set(&c->note, "internal error, try your request again");
    req_answer(p->queue, &own->req, ERR_UNAVAILABLE);
}

/* Definitely not written: judged and tried again, until its deadline. */
void change_again(struct queue_change *c)
{
    struct own_change *own = own_change(c);
    INVARIANT(own->left > 0);
    own->left--;
    if (own->left > 0 ||
        own->req.part->queue->draining) { /* part of it is on its way to a dead queue */
        own->left++;
        change_outcome(c, ERR_UNAVAILABLE);
        return;
    }
    /* What the store said may be old by then. */
    own->req.state = REQ_PENDING;
    own->looked = false;
    own->judged = 0;
    list_append(&own->req.part->changes, &own->req.link);
    queue_work(own->req.part);
}

void change_unwritten(struct queue_change *c)
{
    struct own_change *own = own_change(c);
    INVARIANT(own->left == 1); /* what sends items away stands in no write behind another */
    own->left = 0;
    own->judged = 0;
}

/* The request is about to be answered while writes of it are on their way. Its moves go on
 * without it. */
void change_leave(struct queue_change *c)
{
    struct own_change *own = own_change(c);
    if (own->req.part != NULL && own->left > 0)
        move_forget_change(own->req.part, c);
}

/* The partition is not available: what waits there is told so. */
void change_refuse_all(struct part *p)
{
    for (struct list *n = p->changes.next, *next; n != &p->changes; n = next) {
        next = n->next;
        struct queue_change *c = req_change(CONTAINER_OF(n, struct req, link));
        if (own_change(c)->looking)
            /* look_done answers it: until then the store's answer is written into the request's
             * memory. */
            continue;
        req_answer(p->queue, &own_change(c)->req, part_failing_note(p, &c->note));
    }
}
