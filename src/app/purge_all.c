#include "app/purge_all.h"

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

/* ---- being told ---- */

struct told {
    struct page_order op;
    char title[PAGE_TITLE_BYTES_MAX];
    const struct app *app;
};

static void purged(struct page_order *op, err why)
{
    struct told *t = CONTAINER_OF(op, struct told, op);
    if (why != ERR_OK)
        log_event(t->app->log, LOG_WARN, "purge.not_followed", LOG_STR("title", op->title),
                  LOG_CSTR("why", err_name(why)),
                  LOG_CSTR("what", "another server purged it; here it is still stored: purge it here, too"));
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

static bool is_of_others(const struct app *app, str *rest)
{
    str word = str_split(rest, ' ');
    str node = str_split(rest, ' ');
    return str_eq(word, STR("purge")) && !str_eq(node, str_of(flight_shared_node(app->shared)));
}

void app_told(struct app *app, str text)
{
    str rest = text;
    if (!is_of_others(app, &rest))
        return;
    struct page_bucket *bucket = pages_find(app->pages, str_split(&rest, ' '));
    const struct app_domain *domain = app_domain_find(app, str_split(&rest, ' '));
    struct told *t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->app = app;
    t->op = (struct page_order){ .kind = ORDER_PURGE, .deadline = app_page_deadline(app), .done = purged };
    bool fine = bucket != NULL && domain != NULL && parse_name(&rest, &t->op) && rest.n > 0 &&
                rest.n <= sizeof t->title;
    if (!fine) { /* of a bucket or domain that only others have, or none of ours */
        free(t);
        return;
    }
    memcpy(t->title, rest.p, rest.n);
    t->op.title = (str){ .p = t->title, .n = rest.n };
    t->op.domain = domain->number;
    t->op.elsewhere = domain->origin != NULL;
    page_order_start(bucket, &t->op);
}
