/* value_bucket.c - creating, dropping and listing buckets of values. */
#include "app/errors.h"
#include "app/table/value_request.h"
#include "codec/json_list.h"
#include "codec/json_text.h"

#include <inttypes.h>

enum { VALUE_LIMIT_DEFAULT = 125 /* of a listing, as the peer */ };

/* ---- creating and dropping ---- */

static void bucket_done(struct store_call *c)
{
    struct value_request *r = value_request_of(c);
    if (c->why != ERR_OK)
        value_fail(r, c->why);
    else if (r->bucket.drop)
        http_answer(r->x, 204, STR_NONE);
    else
        answer_json(r->x, 201,
                    STR("{\"type\":\"table_created\",\"title\":\"The bucket is there.\"}"), NULL);
}

void value_bucket_create(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, bucket_done);
    if (r == NULL || !app_may_wait(x))
        return;
    r->bucket.json = http_body(x);
    app_call_go(x, value_bucket(&r->app->values, &r->bucket), &r->of.call);
}

void value_bucket_drop(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, bucket_done);
    if (r == NULL)
        return;
    if (r->of.target.settings != NULL) {
        app_refused(x, 409, "conflict",
                    "This bucket stands in the configuration (buckets): take it out there first.");
        return;
    }
    if (!app_may_wait(x))
        return;
    r->bucket.drop = true;
    app_call_go(x, value_bucket(&r->app->values, &r->bucket), &r->of.call);
}

/* ---- listings ---- */

static void item_put(struct buf *b, const struct value_item *i)
{
    char tid[TID_TEXT_BYTES + 1];
    tid_format(i->tid, tid);
    buf_printf(b, "\"revision\":%" PRId64 ",\"tid\":\"%s\"}", i->rev, tid);
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
    } else {
        buf_put_c(b, '}');
    }
}

static void listing_answer(struct value_request *r)
{
    const struct value_list *l = &r->list;
    struct json_list out;
    json_list_init(&out, TABLE_ANSWER_BYTES_MAX);
    for (unsigned i = 0; i < l->items_count; i++) {
        struct buf *b = json_list_item(&out);
        if (r->of.target.key.n == 0) {
            json_text_append(b, l->items[i].key);
        } else {
            buf_put_c(b, '{');
            item_put(b, &l->items[i]);
        }
    }
    for (unsigned i = 0; i < l->damaged_count; i++)
        damaged_put(json_list_damaged(&out), &l->damaged[i], r->of.target.kind);
    str body = json_list_end(&out, http_arena(r->x), l->next, JSON_LIST_PLAIN);
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
        app_refused(r->x, 404, "not_found", "Nothing is stored under this key.");
    else
        listing_answer(r);
}

/* Of a bucket, or of a key the revisions. */
void value_keys(struct http_exchange *x, void *app)
{
    struct value_request *r = value_request_new(x, app, listing_done);
    if (r == NULL)
        return;
    if (r->of.target.key.n == 0 && !r->access->listing) {
        app_refused(x, 403, "forbidden#listing",
                    "The keys of this bucket are not listed: they may be secrets. The "
                    "configuration allows it (buckets.NAME.listing, or value.listing for buckets "
                    "that it does not name).");
        return;
    }
    r->list.limit = VALUE_LIMIT_DEFAULT;
    if (app_listing_parse(x, &r->list.limit, &r->list.from) && app_may_wait(x))
        app_read_go(x, value_list(&r->app->values, &r->list), &r->of.call);
}
