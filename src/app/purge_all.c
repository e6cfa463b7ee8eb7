#include "app/purge_all.h"

#include "app/page_mark.h"
#include "app/render_make.h"
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
    int n = snprintf(text, sizeof text, "purge %s %s %.*s %llu %s %.*s", flight_shared_node(app->shared),
                     t->config->page.name, STR_ARG(t->domain->name), (unsigned long long)rev, tid, STR_ARG(t->title));
    INVARIANT(n > 0 && n < TELL_BYTES_MAX); /* names and titles are bounded */
    flight_shared_tell(app->shared, (str){ .p = text, .n = (size_t)n });
    forget_flight(app, t, 0);
    if (rev != 0)
        forget_flight(app, t, rev);
}

void app_mark_tell(const struct app *app, const struct page_target *t, const struct page_order *mark)
{
    if (app->shared == NULL)
        return;
    char text[TELL_BYTES_MAX];
    int n = snprintf(text, sizeof text, "mark %s %s %.*s %s %llu %llu %lld %.*s", flight_shared_node(app->shared),
                     t->config->page.name, STR_ARG(t->domain->name), page_state_name(mark->mark),
                     (unsigned long long)mark->name.rev, (unsigned long long)mark->rev_last,
                     (long long)mark->said_at.ns, STR_ARG(t->title));
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
    w->bucket = pages_find(app->pages, str_split(&text, ' '));
    w->domain = app_domain_find(app, str_split(&text, ' '));
    w->rest = text;
    return w->bucket != NULL && w->domain != NULL && !str_eq(node, str_of(flight_shared_node(app->shared)));
}

static bool keep_title(str rest, char title[PAGE_TITLE_BYTES_MAX], str *out)
{
    if (rest.n == 0 || rest.n > PAGE_TITLE_BYTES_MAX)
        return false;
    memcpy(title, rest.p, rest.n);
    *out = (str){ .p = title, .n = rest.n };
    return true;
}

struct told_purge {
    struct page_order op;
    char title[PAGE_TITLE_BYTES_MAX];
    const struct app *app;
};

static void purged(struct page_order *op, err why)
{
    struct told_purge *t = CONTAINER_OF(op, struct told_purge, op);
    if (why != ERR_OK)
        log_event(t->app->log, LOG_WARN, "purge.not_followed", LOG_STR("title", op->title),
                  LOG_CSTR("why", err_name(why)));
    free(t);
}

static bool parse_name(str *rest, struct page_order *op)
{
    str rev = str_split(rest, ' '), tid = str_split(rest, ' ');
    if (!str_to_u64(rev, &op->name.rev) || op->name.rev > PAGE_REV_MAX)
        return false;
    op->has_rev = op->name.rev != 0;
    op->has_tid = !str_eq(tid, STR("-"));
    return !op->has_tid || (op->has_rev && tid_parse(tid, &op->name.tid));
}

static void told_purge(const struct app *app, const struct word *w)
{
    struct told_purge *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    str rest = w->rest;
    t->app = app;
    t->op = (struct page_order){ .kind = ORDER_PURGE, .domain = w->domain->number,
                                 .elsewhere = w->domain->origin != NULL, .deadline = app_page_deadline(app),
                                 .done = purged };
    if (parse_name(&rest, &t->op) && keep_title(rest, t->title, &t->op.title))
        page_order_start(w->bucket, &t->op);
    else
        free(t);
}

struct told_mark {
    struct page_marks marks;
    char title[PAGE_TITLE_BYTES_MAX];
};

static void marked(struct page_marks *m)
{
    free(CONTAINER_OF(m, struct told_mark, marks));
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

static bool parse_mark(struct told_mark *t, str rest, store_time now)
{
    enum page_state state;
    uint64_t first, last;
    store_time at;
    if (!parse_state(str_split(&rest, ' '), &state) || !str_to_u64(str_split(&rest, ' '), &first) ||
        !str_to_u64(str_split(&rest, ' '), &last) || !str_to_i64(str_split(&rest, ' '), &at.ns))
        return false;
    if (first > last || last > PAGE_REV_MAX || !keep_title(rest, t->title, &t->marks.title))
        return false;
    page_marks_add(&t->marks, state, first, last, store_time_before(now, at) ? now : at); /* whose clock is ahead */
    return true;
}

static void told_mark(const struct app *app, const struct word *w)
{
    struct told_mark *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->marks = (struct page_marks){ .app = app, .bucket = w->bucket, .domain = w->domain, .done = marked };
    if (parse_mark(t, w->rest, clock_store(app->clock)))
        page_marks_start(&t->marks);
    else
        free(t);
}

void app_told(struct app *app, str text)
{
    struct word w;
    if (!word_open(app, text, &w))
        return;
    if (str_eq(w.kind, STR("purge")))
        told_purge(app, &w);
    else if (str_eq(w.kind, STR("mark"))) /* other versions may say more */
        told_mark(app, &w);
}
