/* table.c - tables and batches over HTTP (docs/api.md, 4): schemas, queries in JSON. A get answers
 * at once from memory. Writes answer when they are on disk. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/table/table_request.h"
#include "http/filter.h"
#include "loop/entropy.h"
#include "page/page.h"

enum { TABLE_BODY_BYTES_MAX = 12 << 20, TABLE_SCHEMA_BODY_BYTES_MAX = 64 << 10 };
/* Names of tables that begin so are the server's own. */
#define TABLE_OWN_PREFIX "."

struct table_request {
    struct http_exchange *x;
    struct app *app;
    const struct page_domain *domain; /* NULL: every one that is configured */
    str table;                        /* of the path */
    union {
        struct {
            struct table_schema_change change;
            unsigned domains_done;
            bool any; /* at least one domain had it */
        };
        struct table_schema_read schema;
        struct table_query query;
        struct {
            struct table_parse parse;
            struct table_update update;
        };
    };
};

void table_fail(struct http_exchange *x, err why, const struct err_note *note)
{
    bool told = note != NULL && note->text[0] != 0;
    if (why == ERR_NOT_FOUND)
        app_refused(x, 404, "unknown_table", told ? note->text : "There is no such table.");
    else if (why == ERR_FULL && told)
        app_fail_told(x, why, note); /* of a long delete a part may be done */
    else if (why == ERR_LIMIT && told)
        app_refused(x, 413, "content_too_large", note->text);
    else if (why == ERR_GONE && told)
        app_refused(x, 410, "expired", note->text);
    else
        app_fail(x, why, note);
}

void table_tell_damage(const struct app *app, struct http_exchange *x, str table, unsigned rows)
{
    if (rows > 0)
        log_event(app->log, LOG_ERROR, "table.damaged", LOG_STR("domain", http_param(x, "domain")),
                  LOG_STR("table", table), LOG_INT("rows", rows),
                  LOG_CSTR("what", "left out of an answer; palimpsest check names all damage"));
}

/* Of a domain, or with every of `*`, and of the {table} of the path. NULL: answered. */
static struct table_request *request_new(struct http_exchange *x, struct app *app, bool every)
{
    struct table_request *r = app_new(x, sizeof *r);
    if (r == NULL)
        return NULL;
    r->x = x;
    r->app = app;
    r->table = http_param(x, "table");
    every = every && str_eq(http_param(x, "domain"), STR("*"));
    r->domain = every ? NULL : app_domain_of(x, app);
    if (!every && r->domain == NULL)
        return NULL;
    if (!str_starts(r->table, STR(TABLE_OWN_PREFIX)))
        return r;
    app_refused(x, 400, "bad_request#invalid_table", "A table name must not begin with a dot.");
    return NULL;
}

/* ---- schemas ---- */

static enum store_start change_next(struct table_request *r)
{
    const struct page_domain *d = r->domain;
    r->change.domain = (d != NULL ? d : &r->app->page.domains[r->domains_done])->number;
    return table_store_change(r->app->tables, &r->change);
}

/* With domain `*` the domains are done one after the other; a drop skips those without the
 * table. */
static void change_done(struct store_call *c)
{
    struct table_request *r = CONTAINER_OF(c, struct table_request, change.call);
    bool drop = r->change.action == SCHEMA_DROP, skipped = c->why == ERR_NOT_FOUND && drop;
    err why = c->why;
    r->any |= why == ERR_OK;
    r->domains_done++;
    if ((why == ERR_OK || skipped) && r->domain == NULL &&
        r->domains_done < r->app->page.domains_count)
        store_call_then(change_next(r), c);
    else if (why != ERR_OK && !(skipped && r->any))
        table_fail(r->x, why, &r->change.note);
    else if (drop)
        http_answer(r->x, 204, STR_NONE);
    else
        answer_json(r->x, 201,
                    STR("{\"type\":\"table_created\",\"title\":\"The table is there.\"}"), NULL);
}

static void table_change(struct http_exchange *x, void *app)
{
    struct table_request *r = request_new(x, app, true);
    if (r == NULL || !app_may_wait(x))
        return;
    r->change =
        (struct table_schema_change){ .call = { .deadline = page_write_deadline(&r->app->page),
                                                .home = http_home(x),
                                                .done = change_done },
                                      .action = (enum table_schema_action)http_route(x)->kind,
                                      .table = r->table,
                                      .json = http_body(x),
                                      .arena = http_arena(x) };
    app_call_go(x, change_next(r), &r->change.call);
}

static void schema_got(struct store_call *c)
{
    struct table_request *r = CONTAINER_OF(c, struct table_request, schema.call);
    if (c->why == ERR_OK)
        answer_json(r->x, 200, r->schema.json, NULL);
    else
        table_fail(r->x, c->why, NULL);
}

static void table_schema(struct http_exchange *x, void *app)
{
    struct table_request *r = request_new(x, app, false);
    if (r == NULL)
        return;
    r->schema = (struct table_schema_read){ .call = { .home = http_home(x), .done = schema_got },
                                            .domain = r->domain->number,
                                            .table = r->table,
                                            .arena = http_arena(x) };
    app_read_go(x, table_store_schema(r->app->tables, &r->schema), &r->schema.call);
}

/* ---- reading ---- */

static void query_done(struct store_call *c)
{
    struct table_request *r = CONTAINER_OF(c, struct table_request, query.call);
    const struct table_query *q = &r->query;
    if (c->why != ERR_OK) {
        table_fail(r->x, c->why, &q->note);
        return;
    }
    table_tell_damage(r->app, r->x, q->table, q->damaged);
    if (q->rows == 0 && q->damaged == 0 && !q->more && !q->went_on)
        app_problem(r->x, 404, "not_found", NULL, STR("No row matches."), STR(",\"items\":[]"));
    else
        answer_json(r->x, 200, q->json, NULL);
}

static void table_get(struct http_exchange *x, void *app)
{
    struct table_request *r = request_new(x, app, false);
    if (r == NULL)
        return;
    r->query = (struct table_query){ .call = { .home = http_home(x), .done = query_done },
                                     .domain = r->domain->number,
                                     .table = r->table,
                                     .query = http_body(x),
                                     .arena = http_arena(x) };
    app_read_go(x, table_store_query(r->app->tables, &r->query), &r->query.call);
}

/* ---- writing ---- */

static void write_done(struct store_call *c)
{
    struct table_request *r = CONTAINER_OF(c, struct table_request, update.call);
    const struct table_update *u = &r->update;
    bool says = r->parse.kind == QUERY_BATCH; /* whether it was applied */
    for (unsigned i = 0; i < u->writes_count; i++)
        says |= u->writes[i].condition != IF_ALWAYS;
    if (c->why != ERR_OK)
        table_fail(r->x, c->why, &u->note);
    else if (r->parse.kind == QUERY_DELETE)
        http_answer(r->x, 204, STR_NONE);
    else if (says)
        answer_json(r->x, 201, u->applied ? STR("{\"applied\":true}") : STR("{\"applied\":false}"),
                    NULL);
    else
        http_answer(r->x, 201, STR_NONE);
}

/* The update of what was parsed; DONE: it failed. */
static enum store_start write_go(struct table_request *r)
{
    const struct table_parse *p = &r->parse;
    struct table_update *u = &r->update;
    *u = (struct table_update){ .call = { .deadline = page_write_deadline(&r->app->page),
                                          .home = http_home(r->x),
                                          .done = write_done },
                                .domain = p->domain,
                                .writes = p->writes,
                                .writes_count = p->writes_count,
                                .one_step = p->one_step,
                                .random = entropy_u64(),
                                .note = p->note,
                                .arena = p->arena };
    if (p->call.why != ERR_OK)
        return store_call_done(&u->call, p->call.why);
    for (unsigned i = 0; i < u->writes_count; i++)
        if (str_starts(u->writes[i].table, STR(TABLE_OWN_PREFIX))) {
            err_note_set(&u->note, "operation %u: a table name must not begin with a dot", i);
            return store_call_done(&u->call, ERR_BAD);
        }
    return table_store_update(r->app->tables, u);
}

static void parse_done(struct store_call *c)
{
    struct table_request *r = CONTAINER_OF(c, struct table_request, parse.call);
    store_call_then(write_go(r), &r->update.call);
}

/* Would the listener show the table's own route for that? */
static bool batch_shows(void *ctx, str table, bool is_delete)
{
    const str parts[] = { STR("table"), table, is_delete ? STR("delete") : STR("put") };
    return http_filter_path(ctx, parts, COUNT_OF(parts));
}

static void table_write(struct http_exchange *x, void *app)
{
    struct table_request *r = request_new(x, app, false);
    if (r == NULL || !app_may_wait(x))
        return;
    r->parse =
        (struct table_parse){ .call = { .home = http_home(x), .done = parse_done },
                              .domain = r->domain->number,
                              .table = r->table,
                              .kind = (enum table_query_kind)http_route(x)->kind,
                              .json = http_body(x),
                              .shown = http_filter_of(x) == NULL ? NULL : batch_shows,
                              .shown_ctx = (void *)(uintptr_t)http_filter_of(x), /* only read */
                              .arena = http_arena(x) };
    if (table_store_parse(r->app->tables, &r->parse) == STORE_LATER)
        http_defer(x);
    else
        app_call_go(x, write_go(r), &r->update.call);
}

#define TABLE "/{domain}/v1/table/{table}"
const struct http_route app_table_routes[] = {
    { HTTP_PUT, TABLE, table_change, .kind = SCHEMA_CREATE,
      .body_bytes_max = TABLE_SCHEMA_BODY_BYTES_MAX, .permission = "table.write",
      .label = "table.create" },
    { HTTP_GET, TABLE, table_schema, .permission = "table.read", .label = "table.schema" },
    { HTTP_DELETE, TABLE, table_change, .kind = SCHEMA_DROP, .permission = "table.purge",
      .label = "table.drop" },
    { HTTP_POST, TABLE "/get", table_get, .body_bytes_max = TABLE_BODY_BYTES_MAX,
      .permission = "table.read", .label = "table.get", .pool = true },
    { HTTP_POST, TABLE "/put", table_write, .kind = QUERY_PUT,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.write", .label = "table.put",
      .pool = true },
    { HTTP_POST, TABLE "/delete", table_write, .kind = QUERY_DELETE,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.write", .label = "table.delete",
      .pool = true },
    { HTTP_POST, "/{domain}/v1/batch", table_write, .kind = QUERY_BATCH,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.write", .label = "table.batch",
      .pool = true },
    { .pattern = NULL },
};
