/* value_bucket.c - creating, dropping and listing buckets of values. */
#include "app/table/value_request.h"

#include "app/errors.h"
#include "app/page/page_request.h"
#include "codec/base64.h"
#include "codec/json_text.h"

#include <inttypes.h>

/* ---- creating and dropping ---- */

static void created(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else
        answer_json(r->x, 201,
                    STR("{\"type\":\"table_created\",\"title\":\"The bucket is there.\"}"), NULL);
}

static void dropped(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else
        http_answer(r->x, 204, STR_NONE);
}

void value_bucket_create(struct http_exchange *x, struct app *app, enum value_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind, created);
    if (r == NULL || !value_may_wait(r))
        return;
    r->bucket.json = http_body(x);
    value_go_on(r, value_bucket(&app->values, &r->bucket));
}

void value_bucket_drop(struct http_exchange *x, struct app *app, enum value_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind, dropped);
    if (r == NULL)
        return;
    if (r->of.target.settings != NULL) {
        app_problem(
            x, 409, "conflict", NULL,
            STR("This bucket stands in the configuration (buckets): take it out there first."),
            STR_NONE);
        return;
    }
    if (!value_may_wait(r))
        return;
    r->bucket.drop = true;
    value_go_on(r, value_bucket(&app->values, &r->bucket));
}

/* ---- listings ---- */

static void item_put(struct buf *b, const struct value_item *i)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(i->tid, tid);
    buf_printf(b, "\"revision\":%" PRId64 ",\"tid\":\"%s\"", i->rev, tid);
}

/* {"key":...,"revision":...,"tid":...}, the latter two in key_rev_value; {}: not even the key can
 * be read. */
static void damaged_put(struct buf *b, const struct value_item *i, enum value_kind kind)
{
    buf_put_c(b, '{');
    if (i->key.p != NULL) {
        buf_put(b, STR("\"key\":"));
        json_text_append(b, i->key);
    }
    if (i->key.p != NULL && kind == VALUE_REVS) {
        buf_put_c(b, ',');
        item_put(b, i);
    }
    buf_put_c(b, '}');
}

static void listing_answer(struct value_request *r)
{
    const struct value_list *l = &r->list;
    bool keys = r->of.target.key.n == 0;
    struct buf b;
    buf_init(&b, TABLE_ANSWER_BYTES_MAX);
    buf_put(&b, STR("{\"items\":["));
    for (unsigned i = 0; i < l->items_count; i++) {
        buf_put(&b, i > 0 ? STR(",") : STR(""));
        if (keys) {
            json_text_append(&b, l->items[i].key);
            continue;
        }
        buf_put_c(&b, '{');
        item_put(&b, &l->items[i]);
        buf_put_c(&b, '}');
    }
    buf_put_c(&b, ']');
    for (unsigned i = 0; i < l->damaged_count; i++) {
        buf_put(&b, i > 0 ? STR(",") : STR(",\"damaged\":["));
        damaged_put(&b, &l->damaged[i], r->of.target.kind);
    }
    if (l->damaged_count > 0)
        buf_put_c(&b, ']');
    if (l->next.n > 0) {
        buf_put(&b, STR(",\"next\":\""));
        buf_put(&b, base64_url(http_arena(r->x), l->next));
        buf_put_c(&b, '"');
    }
    buf_put_c(&b, '}');
    str body = buf_status(&b) == ERR_OK ? arena_copy(http_arena(r->x), buf_str(&b)) : STR_NONE;
    buf_fini(&b);
    if (body.p == NULL)
        value_fail(r, ERR_LIMIT);
    else
        answer_json(r->x, 200, body, NULL);
}

static void listing_done(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    const struct value_list *l = &r->list;
    bool keys = r->of.target.key.n == 0;
    if (c->why == ERR_OK)
        table_tell_damage(r->app, r->x, r->of.table, l->damaged_count);
    if (c->why == ERR_NOT_FOUND && r->of.target.settings != NULL && keys)
        answer_json(r->x, 200, STR("{\"items\":[]}"), NULL); /* nothing was put yet */
    else if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (!keys && l->items_count == 0 && l->damaged_count == 0 && l->from.n == 0)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
    else
        listing_answer(r);
}

static void listing_start(struct value_request *r)
{
    str text;
    if (!app_page_listing(r->x, &r->list.limit, &r->list.from) || !value_may_wait(r))
        return;
    if (!http_query(r->x, "limit", &text))
        r->list.limit = VALUE_LIMIT_DEFAULT;
    table_read_go(r->x, value_list(&r->app->values, &r->list), &r->of.call);
}

void value_bucket_keys(struct http_exchange *x, struct app *app, enum value_kind kind)
{
    struct value_request *r = value_request_new(x, app, kind, listing_done);
    if (r == NULL)
        return;
    if (r->access->listing)
        listing_start(r);
    else
        app_problem(
            x, 403, "forbidden#listing", NULL,
            STR("The keys of this bucket are not listed: they may be secrets. The configuration "
                "allows it "
                "(buckets.NAME.listing, or value.listing for buckets that it does not name)."),
            STR_NONE);
}

void value_key_revs(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, VALUE_REVS, listing_done);
    if (r != NULL)
        listing_start(r);
}
