#include "app/page/purge_all.h"

#include "app/page/render_make.h"
#include "flight/shared.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TELL_BYTES_MAX = 2048 };

static void forget_flight(const struct app *app, const struct page_target *t, uint64_t rev)
{
    unsigned char id[FLIGHT_ID_BYTES];
    render_share_id(t, rev, id);
    flight_shared_drop(app->shared, id, NULL, NULL);
}

void app_purge_tell(const struct app *app, const struct page_target *t)
{
    if (app->shared == NULL)
        return;
    char text[TELL_BYTES_MAX], tid[TID_TEXT_BYTES + 1] = "-";
    if (t->has_tid)
        tid_format(t->name.tid, tid);
    uint64_t rev = t->has_rev ? t->name.rev : 0;
    int n = snprintf(text, sizeof text, "purge %s %s %.*s %llu %s %.*s",
                     flight_shared_node(app->shared), t->config->page.name,
                     STR_ARG(t->domain->name), (unsigned long long)rev, tid, STR_ARG(t->title));
    INVARIANT(n > 0 && n < TELL_BYTES_MAX); /* names and titles are bounded */
    flight_shared_tell(app->shared, (str){ .p = text, .n = (size_t)n });
    forget_flight(app, t, 0);
    if (rev != 0)
        forget_flight(app, t, rev);
}

void app_mark_tell(const struct app *app, const struct page_target *t, const struct page_mark *mark)
{
    if (app->shared == NULL)
        return;
    char text[TELL_BYTES_MAX];
    int n =
        snprintf(text, sizeof text, "mark %s %s %.*s %s %llu %llu %lld %.*s",
                 flight_shared_node(app->shared), t->config->page.name, STR_ARG(t->domain->name),
                 page_state_name(mark->state), (unsigned long long)mark->first,
                 (unsigned long long)mark->last, (long long)mark->said_at.ns, STR_ARG(t->title));
    INVARIANT(n > 0 && n < TELL_BYTES_MAX); /* names and titles are bounded */
    flight_shared_tell(app->shared, (str){ .p = text, .n = (size_t)n });
}

/* ---- being told ---- */

/* What any word begins with; rest: what follows, to the title. */
struct word {
    str kind, rest;
    struct page_bucket *bucket;
    const struct app_domain *domain;
};

/* False: it is ours, or of a bucket or domain that only others have. */
static bool word_open(const struct app *app, str text, struct word *w)
{
    *w = (struct word){ .kind = str_split(&text, ' ') };
    str node = str_split(&text, ' ');
    w->bucket = page_store_bucket(app->pages, str_split(&text, ' '));
    w->domain = app_domain_find(app, str_split(&text, ' '));
    w->rest = text;
    return w->bucket != NULL && w->domain != NULL &&
           !str_eq(node, str_of(flight_shared_node(app->shared)));
}

/* Words are followed in the order they came in: the loop hands them to the store one after the
 * other. Where the store ends with them is good enough to go on; the loop may be gone by then. */
struct told {
    struct page_order op;
    char title[PAGE_TITLE_BYTES_MAX];
    const struct app *app;
};

static void followed(struct store_call *c)
{
    struct told *t = CONTAINER_OF(c, struct told, op.call);
    if (c->why != ERR_OK)
        log_event(t->app->log, LOG_WARN,
                  t->op.kind == ORDER_PURGE ? "purge.not_followed" : "mark.not_followed",
                  LOG_STR("title", t->op.title), LOG_CSTR("why", err_name(c->why)));
    free(t);
}

static bool parse_purge(str *rest, struct page_order *op)
{
    str rev = str_split(rest, ' '), tid = str_split(rest, ' ');
    op->kind = ORDER_PURGE;
    if (!str_to_u64(rev, &op->name.rev) || op->name.rev > PAGE_REV_MAX)
        return false;
    op->has_rev = op->name.rev != 0;
    op->has_tid = !str_eq(tid, STR("-"));
    return !op->has_tid || (op->has_rev && tid_parse(tid, &op->name.tid));
}

static bool parse_state(str name, enum page_state *out)
{
    static const enum page_state said[] = { PAGE_CURRENT, PAGE_DELETED, PAGE_SUPPRESSED };
    for (size_t i = 0; i < COUNT_OF(said); i++) {
        *out = said[i];
        if (str_eq(name, str_of(page_state_name(said[i]))))
            return true;
    }
    return false;
}

static bool parse_mark(str *rest, struct page_order *op, store_time now)
{
    op->kind = ORDER_MARK;
    if (!parse_state(str_split(rest, ' '), &op->mark) ||
        !str_to_u64(str_split(rest, ' '), &op->name.rev) ||
        !str_to_u64(str_split(rest, ' '), &op->rev_last) ||
        !str_to_i64(str_split(rest, ' '), &op->said_at.ns))
        return false;
    if (store_time_before(now, op->said_at)) /* whose clock is ahead */
        op->said_at = now;
    return op->name.rev <= op->rev_last && op->rev_last <= PAGE_REV_MAX;
}

static bool parse(const struct app *app, struct word *w, struct told *t)
{
    bool fine = false;
    if (str_eq(w->kind, STR("purge")))
        fine = parse_purge(&w->rest, &t->op);
    else if (str_eq(w->kind, STR("mark"))) /* other versions may say more */
        fine = parse_mark(&w->rest, &t->op, clock_store(app->clock));
    if (!fine || w->rest.n == 0 || w->rest.n > sizeof t->title)
        return false;
    memcpy(t->title, w->rest.p, w->rest.n);
    t->op.title = (str){ .p = t->title, .n = w->rest.n };
    return true;
}

void app_told(struct app *app, str text)
{
    struct word w;
    if (!word_open(app, text, &w))
        return;
    struct told *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct told){ .app = app,
                        .op = { .call = { .deadline = app_page_deadline(app),
                                          .home = home_here(),
                                          .done = followed },
                                .bucket = w.bucket,
                                .domain = w.domain->number,
                                .elsewhere = w.domain->origin != NULL } };
    if (parse(app, &w, t))
        store_call_then(page_store_order(app->pages, &t->op), &t->op.call);
    else
        free(t);
}
