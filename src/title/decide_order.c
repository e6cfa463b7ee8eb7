/* decide_order.c - decides orders of clients on one render or title (title_decide_order): pins,
 * their ends, purges. Pure.
 *
 * Invariant: an extension or a stash that would change nothing makes no fact, since reads order
 * both again and again. */
#include "title/decide.h"
#include "title/find.h"
#include "title/seen.h"

/* One order while it is decided; all of it is borrowed. */
struct order_work {
    struct title *t;
    const struct title_order *order;
    struct page_render *render;
    struct title_answer *a;
};

static const struct page_policy *order_policy(const struct order_work *w)
{
    return &w->t->plan->policy;
}

/* Adds a fact to the answer. The caller sets what its kind needs besides the name. */
static struct fact *order_add_fact(struct order_work *w, enum fact_what what, struct page_name name)
{
    INVARIANT(w->a->facts_count < TITLE_FACTS_MAX);
    struct fact *f = &w->a->facts[w->a->facts_count++];
    *f = (struct fact){ .what = what, .at = w->t->now, .name = name };
    return f;
}

/* Finds the render that is named; without a tid the newest of the revision, without a revision the
 * latest. t->seen keeps the row as the last, so the step need not read it again. */
static err order_find(struct order_work *w)
{
    const struct title_order *o = w->order;
    const struct title_which which = {
        .select = !o->has_rev  ? SELECT_LATEST
                  : o->has_tid ? SELECT_EXACT
                               : SELECT_REV,
        .name = o->name,
    };
    struct title_seen *s = w->t->seen;
    err e = title_find(w->t, &which, &s->last, &w->a->trace);
    s->has_last = e == ERR_OK;
    if (e == ERR_OK)
        *w->render = s->last.r;
    return e;
}

/* ---- pins ---- */

/* A life is only made longer when it is too short for the promise: reads of one render would write
 * a fact each otherwise. */
static void decide_extension(struct order_work *w)
{
    struct page_render r = *w->render;
    if (!retention_wants_extension(order_policy(w), &r, w->t->now))
        return;
    retention_extend(order_policy(w), &r, w->t->now);
    order_add_fact(w, FACT_REQUEST, r.name)->until = r.requested_until;
    w->a->extended = true;
}

/* A later stash never shortens an earlier one. pinned_ns is the difference, for quotas of stashes.
 */
static void decide_stash(struct order_work *w)
{
    const struct page_render *r = w->render;
    store_time until = store_time_add(w->t->now, order_policy(w)->stash_ttl_ns);
    if (!store_time_before(r->stash_until, until))
        return;
    order_add_fact(w, FACT_STASH, r->name)->until = until;
    w->a->pinned_ns = order_policy(w)->stash_ttl_ns - retention_stash_left(r, w->t->now);
}

/* A stash by a read that named its revision makes the life longer, too, as any such read does. */
static err decide_pin(struct order_work *w)
{
    const struct title_order *o = w->order;
    err e = order_find(w);
    if (e != ERR_OK)
        return e;
    if (o->kind == ORDER_EXTEND || (o->kind == ORDER_STASH && o->named))
        decide_extension(w);
    if (o->kind == ORDER_STASH)
        decide_stash(w);
    if (o->kind != ORDER_HOLD)
        return ERR_OK;
    /* A hold that has ended by now would pin nothing. */
    if (!store_time_before(w->t->now, o->until)) {
        w->a->note = "a hold must end in the future";
        return ERR_BAD;
    }
    order_add_fact(w, FACT_HOLD, w->render->name)->until = o->until;
    return ERR_OK;
}

/* ---- their ends ---- */

/* Without a tid the holds of all renders of the revision end, in one fact. */
static err decide_release(struct order_work *w)
{
    err e = order_find(w);
    if (e != ERR_OK)
        return e;
    if (!w->order->has_tid)
        order_add_fact(w, FACT_RELEASE, (struct page_name){ .rev = w->render->name.rev });
    else if (w->render->hold_until.ns != 0)
        order_add_fact(w, FACT_RELEASE, w->render->name);
    return ERR_OK;
}

/* An unstash of nothing is no error: the stash may have ended by itself just before. */
static err decide_unstash(struct order_work *w)
{
    struct title_seen *s = w->t->seen;
    err e = title_get(w->t, w->order->name, &s->last);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !title_alive(w->t, &s->last)))
        return ERR_OK;
    if (e != ERR_OK)
        return e;
    s->has_last = true;
    /* The client hears how much stash it gives back. */
    w->a->pinned_ns = retention_stash_left(&s->last.r, w->t->now);
    if (w->order->drop)
        order_add_fact(w, FACT_DROP, w->order->name);
    else if (s->last.r.stash_until.ns != 0)
        order_add_fact(w, FACT_UNSTASH, w->order->name);
    return ERR_OK;
}

/* ---- many renders ---- */

/* A purge does not look at renders: step takes the stored ones, and the fact's fence refuses
 * renders to come. */
static void decide_purge(struct order_work *w)
{
    const struct title_order *o = w->order;
    struct page_name range = { .rev = 0 };
    if (o->has_rev)
        range.rev = o->name.rev;
    if (o->has_tid)
        range.tid = o->name.tid;
    order_add_fact(w, o->elsewhere ? FACT_PURGE_ELSEWHERE : FACT_PURGE, range);
}

/* The condition is judged on the latest that is shown, as of a GET. */
static err order_allowed(struct order_work *w)
{
    struct page_row row;
    if (w->order->allow == NULL)
        return ERR_OK;
    err e = title_newest_shown(w->t, page_name_first, page_name_last, &row);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    bool has = e == ERR_OK && title_is_latest(&row.r);
    return w->order->allow(w->order->allow_ctx, has ? &row.r : NULL) ? ERR_OK : ERR_PRECONDITION;
}

static err order_answer(struct order_work *w)
{
    err e = order_allowed(w);
    if (e != ERR_OK)
        return e;
    switch (w->order->kind) {
    case ORDER_EXTEND:
    case ORDER_STASH:
    case ORDER_HOLD:
        return decide_pin(w);
    case ORDER_UNSTASH:
        return decide_unstash(w);
    case ORDER_RELEASE:
        return decide_release(w);
    case ORDER_PURGE:
        decide_purge(w);
        break;
    }
    return ERR_OK;
}

err title_decide_order(struct title *t, const struct title_order *o, struct page_render *render,
                       struct title_answer *a)
{
    struct order_work w = { .t = t, .order = o, .render = render, .a = a };
    INVARIANT(t->seen != NULL);
    title_seen_init(t->seen);
    title_answer_init(a);
    err e = order_answer(&w);
    /* A refused order leaves no fact, also when it made one before it was refused. */
    if (e != ERR_OK)
        a->facts_count = 0;
    return e;
}
