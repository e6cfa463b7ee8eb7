/* items.c - the items of a rule, for operators: what it has still to do, and what it could not do.
 *
 *   POST /v1/admin.change.items   {"rule", "state", "type", "domain", "pivot", "limit", "bytes"}
 *   POST /v1/admin.change.item    {"rule", "id"}: one, with its event
 *   POST /v1/admin.change.lanes   {"rule"}: how many in which state, by domain and type
 *   POST /v1/admin.change.retry   {"rule", "id"}
 *   POST /v1/admin.change.drop    {"rule", "id", "state"}
 */
#include "app/app.h"
#include "app/change/rules_call.h"

#include <inttypes.h>

enum { ITEMS_BODY_BYTES_MAX = 8192, ITEMS_DEFAULT = 100 };

/* ---- listing ---- */

static err read_items(struct rules_call *c, const json_t *body)
{
    struct change_listing l = { .rule = c->rule };
    int64_t limit = ITEMS_DEFAULT;
    err why = json_body_i64(body, "limit", 1, CHANGE_LIST_MAX, &limit, &c->note);
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = json_body_bool(body, "bytes", &l.wants_bytes, &c->note);
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = rules_read_state(c, body, &l.state);
    if (why == ERR_OK)
        why = rules_read_id(c, body, "pivot", &l.pivot);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "type", &l.type);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "domain", &l.domain);
    l.limit = (unsigned)limit;
    c->listing = l;
    return why;
}

static err run_items(struct rules_call *c, const struct rules_json *out)
{
    err why = change_list(c->pooled.app->change, &c->listing, out->arena, &c->note);
    if (why == ERR_OK)
        rules_json_listing(out, &c->listing);
    return why;
}

/* ---- lanes ---- */

static err read_lanes(struct rules_call *c, const json_t *body)
{
    (void)c, (void)body;
    return ERR_OK;
}

static err run_lanes(struct rules_call *c, const struct rules_json *out)
{
    struct change_lanes l = { .rule = c->rule };
    err why = change_lanes_get(c->pooled.app->change, &l, out->arena, &c->note);
    if (why == ERR_OK)
        rules_json_lanes(out, &l);
    return why;
}

/* ---- one ---- */

static err read_one(struct rules_call *c, const json_t *body)
{
    return rules_read_id(c, body, "id", &c->item.id);
}

static err run_one(struct rules_call *c, const struct rules_json *out)
{
    struct change_item item;
    err why = change_find(c->pooled.app->change, c->rule, c->item.id, out->arena, &item, &c->note);
    if (why == ERR_OK)
        rules_json_item(out, &item);
    return why;
}

/* ---- retry, drop ---- */

static err read_retry(struct rules_call *c, const json_t *body)
{
    return rules_read_id(c, body, "id", &c->item.id);
}

static err put_count(const struct rules_json *out, uint64_t count)
{
    buf_printf(out->out, "{\"count\":%" PRIu64 "}", count);
    return ERR_OK;
}

static err run_retry(struct rules_call *c, const struct rules_json *out)
{
    uint64_t count = 0;
    err why = change_retry(c->pooled.app->change, c->rule, c->item.id, &count, &c->note);
    return why == ERR_OK ? put_count(out, count) : why;
}

static err read_drop(struct rules_call *c, const json_t *body)
{
    err why = rules_read_state(c, body, &c->item.state);
    return why == ERR_OK ? rules_read_id(c, body, "id", &c->item.id) : why;
}

static err run_drop(struct rules_call *c, const struct rules_json *out)
{
    uint64_t count = 0;
    err why =
        change_drop(c->pooled.app->change, c->rule, c->item.id, c->item.state, &count, &c->note);
    return why == ERR_OK ? put_count(out, count) : why;
}

/* ---- routes ---- */

static const char *const rule_alone[] = { "rule", NULL };
static const char *const rule_and_id[] = { "rule", "id", NULL };
static const char *const drop_members[] = { "rule", "id", "state", NULL };
static const char *const items_members[] = { "rule",  "state", "type",  "domain",
                                             "pivot", "limit", "bytes", NULL };

static const struct rules_way way_items = { items_members, rule_alone, read_items, run_items };
static const struct rules_way way_lanes = { rule_alone, rule_alone, read_lanes, run_lanes };
static const struct rules_way way_one = { rule_and_id, rule_and_id, read_one, run_one };
static const struct rules_way way_retry = { rule_and_id, rule_alone, read_retry, run_retry };
static const struct rules_way way_drop = { drop_members, rule_alone, read_drop, run_drop };

const struct http_route app_item_routes[] = {
    { HTTP_POST, "/v1/admin.change.items", rules_call_start, .body_bytes_max = ITEMS_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.change.items", .row = &way_items, .admin = true },
    { HTTP_POST, "/v1/admin.change.lanes", rules_call_start, .body_bytes_max = ITEMS_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.change.lanes", .row = &way_lanes, .admin = true },
    { HTTP_POST, "/v1/admin.change.item", rules_call_start, .body_bytes_max = ITEMS_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.change.item", .row = &way_one, .admin = true },
    { HTTP_POST, "/v1/admin.change.retry", rules_call_start, .body_bytes_max = ITEMS_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.change.retry", .row = &way_retry,
      .admin = true },
    { HTTP_POST, "/v1/admin.change.drop", rules_call_start, .body_bytes_max = ITEMS_BODY_BYTES_MAX,
      .permission = "admin.write", .label = "admin.change.drop", .row = &way_drop, .admin = true },
    { .pattern = NULL },
};
