/* tell.c - words between servers about titles. */
#include "page/tell.h"

#include "base/log.h"
#include "codec/told.h"
#include "flight/shared.h"
#include "page/make.h"

#include <stdlib.h>
#include <string.h>

static void forget_flight(const struct page_service *s, const struct page_target *t, uint64_t rev)
{
    unsigned char id[FLIGHT_ID_BYTES];
    page_make_share_id(t, rev, id);
    flight_shared_drop(s->shared, id, NULL, NULL);
}

/* t: all but who tells it, and where. */
static void tell(const struct page_service *s, const struct page_target *of, struct told t)
{
    struct buf text;
    t.node = str_of(flight_shared_node(s->shared));
    t.bucket = str_of(of->settings->opts->name);
    t.domain = of->domain->name;
    t.title = of->title;
    buf_init(&text, TOLD_BYTES_MAX);
    told_encode(&text, &t);
    INVARIANT(buf_status(&text) == ERR_OK); /* names and titles are bounded */
    flight_shared_tell(s->shared, buf_str(&text));
    buf_fini(&text);
}

void page_purge_tell(const struct page_service *s, const struct page_target *t)
{
    if (s->shared == NULL)
        return;
    uint64_t rev = t->has_rev ? t->name.rev : 0;
    tell(s, t,
         (struct told){ .kind = TOLD_PURGE,
                        .purge = { .rev = rev, .has_tid = t->has_tid, .tid = t->name.tid } });
    forget_flight(s, t, 0);
    if (rev != 0)
        forget_flight(s, t, rev);
}

static const enum page_state page_states[TOLD_STATES] = { [TOLD_CURRENT] = PAGE_CURRENT,
                                                          [TOLD_DELETED] = PAGE_DELETED,
                                                          [TOLD_SUPPRESSED] = PAGE_SUPPRESSED };

static enum told_state told_state_of(enum page_state state)
{
    unsigned i = 0;
    while (i < TOLD_STATES && page_states[i] != state)
        i++;
    INVARIANT(i < TOLD_STATES); /* a wiki says no other */
    return (enum told_state)i;
}

void page_mark_tell(const struct page_service *s, const struct page_target *t,
                    const struct page_mark *mark)
{
    if (s->shared != NULL)
        tell(s, t,
             (struct told){ .kind = TOLD_MARK,
                            .mark = { .state = told_state_of(mark->state),
                                      .first = mark->first,
                                      .last = mark->last,
                                      .said_at = mark->said_at } });
}

/* ---- being told ---- */

/* Words are followed in the order they came in: the loop hands them to the store one after the
 * other. Where the store ends with them is good enough to go on; the loop may be gone by then. */
struct following {
    struct page_order op;
    char title[PAGE_TITLE_BYTES_MAX];
    const struct page_service *service;
};

static void followed(struct store_call *c)
{
    struct following *t = CONTAINER_OF(c, struct following, op.call);
    if (c->why != ERR_OK)
        log_event(t->service->log, LOG_WARN,
                  t->op.kind == ORDER_PURGE ? "purge.not_followed" : "mark.not_followed",
                  LOG_STR("title", t->op.title), LOG_CSTR("why", err_name(c->why)));
    free(t);
}

static void follow_purge(struct page_order *op, const struct told *t)
{
    op->kind = ORDER_PURGE;
    op->name.rev = t->purge.rev;
    op->has_rev = t->purge.rev != 0;
    op->has_tid = t->purge.has_tid;
    if (op->has_tid)
        op->name.tid = t->purge.tid;
}

static void follow_mark(struct page_order *op, const struct told *t, store_time now)
{
    op->kind = ORDER_MARK;
    op->mark = page_states[t->mark.state];
    op->name.rev = t->mark.first;
    op->rev_last = t->mark.last;
    /* A clock that is ahead says no more than now. */
    op->said_at = store_time_before(now, t->mark.said_at) ? now : t->mark.said_at;
}

static struct following *following_new(const struct page_service *s, const struct told *t)
{
    struct following *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    f->service = s;
    memcpy(f->title, t->title.p, t->title.n);
    f->op.title = (str){ .p = f->title, .n = t->title.n };
    if (t->kind == TOLD_PURGE)
        follow_purge(&f->op, t);
    else
        follow_mark(&f->op, t, clock_store(s->clock));
    return f;
}

void page_told(const struct page_service *s, str text)
{
    struct told t;
    if (!told_decode(text, &t) || str_eq(t.node, str_of(flight_shared_node(s->shared))))
        return;
    struct page_bucket *bucket = page_store_bucket(s->store, t.bucket);
    const struct page_domain *domain = page_domain_find(s, t.domain);
    if (bucket == NULL || domain == NULL || t.title.n > PAGE_TITLE_BYTES_MAX)
        return; /* only others have it */
    struct following *f = following_new(s, &t);
    f->op.call.deadline = page_write_deadline(s);
    f->op.call.home = home_here();
    f->op.call.done = followed;
    f->op.bucket = bucket;
    f->op.domain = domain->number;
    f->op.elsewhere = domain->origin != NULL;
    store_call_then(page_store_order(s->store, &f->op), &f->op.call);
}
