/* Tables and batches over HTTP (docs/api.md, 4): schemas, queries in JSON. A get answers at once
 * from memory. Writes answer when they are on disk. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/table/table_request.h"
#include "loop/entropy.h"

/* ---- shared ---- */

mono table_deadline(const struct app *app)
{
    return mono_add_ms(clock_mono(app->clock), app->config->write_timeout_ms);
}

bool table_may_wait(struct http_exchange *x)
{
    if (!http_draining(x))
        return true;
    app_fail(x, ERR_SHUTDOWN, NULL);
    return false;
}

void table_fail(struct http_exchange *x, err why, const struct err_note *note, const char *missing)
{
    bool told = note != NULL && note->text[0] != 0;
    if (why == ERR_NOT_FOUND)
        app_problem(x, 404, missing == NULL ? "unknown_table" : missing, NULL,
                    told ? str_of(note->text) : STR("There is no such table."), STR_NONE);
    else if (why == ERR_FULL && told)
        app_fail_told(x, why, note); /* of a long delete a part may be done */
    else if (why == ERR_LIMIT && told)
        app_problem(x, 413, "content_too_large", NULL, str_of(note->text), STR_NONE);
    else if (why == ERR_GONE && told)
        app_problem(x, 410, "expired", NULL, str_of(note->text), STR_NONE);
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

void table_call_go(struct http_exchange *x, enum store_start start, struct store_call *c)
{
    if (start == STORE_DONE)
        c->done(c);
    else
        http_defer(x);
}

static void read_gone(struct http_exchange *x, void *call)
{
    (void)x; /* what is canceled answers it */
    store_cancel(call);
}

void table_read_go(struct http_exchange *x, enum store_start start, struct store_call *c)
{
    table_call_go(x, start, c);
    if (start == STORE_LATER)
        http_on_gone_late(x, read_gone, c);
}

/* The {table} of the path. False: answered. */
static bool table_of(struct http_exchange *x, str *out)
{
    *out = http_param(x, "table");
    if (!str_starts(*out, STR(TABLE_OWN_PREFIX)))
        return true;
    app_problem(x, 400, "bad_request#invalid_table", NULL,
                STR("A table name must not begin with a dot."), STR_NONE);
    return false;
}

/* ---- schemas ---- */

struct schema_request {
    struct http_exchange *x;
    struct app *app;
    unsigned domain, domains_end; /* indexes of app->page.domains still to do */
    bool any;                     /* at least one domain had it */
    struct table_schema_change change;
};

static void schema_answer(struct schema_request *r, err why)
{
    bool drop = r->change.action == SCHEMA_DROP;
    if (why != ERR_OK)
        table_fail(r->x, why, &r->change.note, NULL);
    else if (drop)
        http_answer(r->x, 204, STR_NONE);
    else
        answer_json(r->x, 201,
                    STR("{\"type\":\"table_created\",\"title\":\"The table is there.\"}"), NULL);
}

static enum store_start schema_next(struct schema_request *r)
{
    r->change.domain = r->app->page.domains[r->domain].number;
    return table_store_change(r->app->tables, &r->change);
}

/* With domain `*` the domains are done one after the other; a drop skips those without the
 * table. */
static void schema_done(struct store_call *c)
{
    struct schema_request *r = CONTAINER_OF(c, struct schema_request, change.call);
    err why = c->why;
    bool skipped = why == ERR_NOT_FOUND && r->change.action == SCHEMA_DROP;
    r->any |= why == ERR_OK;
    r->domain++;
    if ((why == ERR_OK || skipped) && r->domain < r->domains_end)
        store_call_then(schema_next(r), c);
    else
        schema_answer(r, skipped && r->any ? ERR_OK : why);
}

/* False: answered. */
static bool domains_of(struct http_exchange *x, struct schema_request *r)
{
    if (str_eq(http_param(x, "domain"), STR("*"))) {
        r->domains_end = r->app->page.domains_count;
        return true;
    }
    const struct page_domain *d = app_domain_of(x, r->app);
    if (d == NULL)
        return false;
    r->domain = (unsigned)(d - r->app->page.domains);
    r->domains_end = r->domain + 1;
    return true;
}

static void schema_start(struct http_exchange *x, struct app *app, enum table_schema_action action)
{
    struct schema_request *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *r = (struct schema_request){ .x = x, .app = app };
    r->change = (struct table_schema_change){
        .call = { .deadline = table_deadline(app), .home = http_home(x), .done = schema_done },
        .action = action,
        .json = http_body(x),
        .arena = http_arena(x)
    };
    if (domains_of(x, r) && table_of(x, &r->change.table) && table_may_wait(x))
        table_call_go(x, schema_next(r), &r->change.call);
}

static void table_create(struct http_exchange *x, void *app)
{
    schema_start(x, app, SCHEMA_CREATE);
}

static void table_drop(struct http_exchange *x, void *app)
{
    schema_start(x, app, SCHEMA_DROP);
}

struct schema_get {
    struct http_exchange *x;
    struct table_schema_read read;
};

static void schema_got(struct store_call *c)
{
    struct schema_get *g = CONTAINER_OF(c, struct schema_get, read.call);
    if (c->why == ERR_OK)
        answer_json(g->x, 200, g->read.json, NULL);
    else
        table_fail(g->x, c->why, NULL, NULL);
}

/* Of a request about a domain and, unless table is NULL, one table. NULL: answered. */
static void *request_new(struct http_exchange *x, struct app *app, size_t size, uint32_t *domain,
                         str *table)
{
    void *r = arena_calloc(http_arena(x), 1, size);
    if (r == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return NULL;
    }
    const struct page_domain *d = app_domain_of(x, app);
    if (d == NULL || (table != NULL && !table_of(x, table)))
        return NULL;
    *domain = d->number;
    return r;
}

static void table_schema(struct http_exchange *x, void *app)
{
    struct app *a = app;
    struct table_schema_read read = { .call = { .home = http_home(x), .done = schema_got },
                                      .arena = http_arena(x) };
    struct schema_get *g = request_new(x, a, sizeof *g, &read.domain, &read.table);
    if (g == NULL)
        return;
    *g = (struct schema_get){ .x = x, .read = read };
    table_read_go(x, table_store_schema(a->tables, &g->read), &g->read.call);
}

/* ---- reading ---- */

struct get_request {
    struct http_exchange *x;
    struct app *app;
    struct table_query query;
};

static void get_done(struct store_call *c)
{
    struct get_request *r = CONTAINER_OF(c, struct get_request, query.call);
    const struct table_query *q = &r->query;
    if (c->why != ERR_OK) {
        table_fail(r->x, c->why, &q->note, NULL);
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
    struct app *a = app;
    struct table_query query = { .call = { .home = http_home(x), .done = get_done },
                                 .query = http_body(x),
                                 .arena = http_arena(x) };
    struct get_request *r = request_new(x, a, sizeof *r, &query.domain, &query.table);
    if (r == NULL)
        return;
    *r = (struct get_request){ .x = x, .app = a, .query = query };
    table_read_go(x, table_store_query(a->tables, &r->query), &r->query.call);
}

/* ---- writing ---- */

struct write_request {
    struct http_exchange *x;
    struct app *app;
    struct table_parse parse;
    struct table_update update;
};

static bool is_conditional(const struct table_update *u)
{
    for (unsigned i = 0; i < u->writes_count; i++)
        if (u->writes[i].condition != IF_ALWAYS)
            return true;
    return false;
}

static void write_done(struct store_call *c)
{
    struct write_request *w = CONTAINER_OF(c, struct write_request, update.call);
    bool applied = w->update.applied;
    if (c->why != ERR_OK)
        table_fail(w->x, c->why, &w->update.note, NULL);
    else if (w->parse.kind == QUERY_DELETE)
        http_answer(w->x, 204, STR_NONE);
    else if (w->parse.kind == QUERY_BATCH || is_conditional(&w->update))
        answer_json(w->x, 201, applied ? STR("{\"applied\":true}") : STR("{\"applied\":false}"),
                    NULL);
    else
        http_answer(w->x, 201, STR_NONE);
}

/* The update of what was parsed; DONE: it failed. */
static enum store_start write_go(struct write_request *w)
{
    const struct table_parse *p = &w->parse;
    struct table_update *u = &w->update;
    *u = (struct table_update){
        .call = { .deadline = table_deadline(w->app), .home = http_home(w->x), .done = write_done },
        .domain = p->domain,
        .writes = p->writes,
        .writes_count = p->writes_count,
        .one_step = p->one_step,
        .random = entropy_u64(),
        .arena = p->arena
    };
    if (p->call.why != ERR_OK) {
        u->note = p->note;
        return store_call_done(&u->call, p->call.why);
    }
    for (unsigned i = 0; i < u->writes_count; i++)
        if (str_starts(u->writes[i].table, STR(TABLE_OWN_PREFIX))) {
            err_note_set(&u->note, "operation %u: a table name must not begin with a dot", i);
            return store_call_done(&u->call, ERR_BAD);
        }
    return table_store_update(w->app->tables, u);
}

static void parse_done(struct store_call *c)
{
    struct write_request *w = CONTAINER_OF(c, struct write_request, parse.call);
    store_call_then(write_go(w), &w->update.call);
}

static void write_start(struct http_exchange *x, struct app *app, enum table_query_kind kind)
{
    struct table_parse parse = { .call = { .home = http_home(x), .done = parse_done },
                                 .kind = kind,
                                 .json = http_body(x),
                                 .arena = http_arena(x) };
    struct write_request *w =
        request_new(x, app, sizeof *w, &parse.domain, kind == QUERY_BATCH ? NULL : &parse.table);
    if (w == NULL || !table_may_wait(x))
        return;
    *w = (struct write_request){ .x = x, .app = app, .parse = parse };
    if (table_store_parse(app->tables, &w->parse) == STORE_LATER)
        http_defer(x);
    else
        table_call_go(x, write_go(w), &w->update.call);
}

static void table_put(struct http_exchange *x, void *app)
{
    write_start(x, app, QUERY_PUT);
}

static void table_delete(struct http_exchange *x, void *app)
{
    write_start(x, app, QUERY_DELETE);
}

static void table_batch(struct http_exchange *x, void *app)
{
    write_start(x, app, QUERY_BATCH);
}

const struct http_route app_table_routes[] = {
    { HTTP_PUT, "/{domain}/v1/table/{table}", table_create,
      .body_bytes_max = TABLE_SCHEMA_BODY_BYTES_MAX, .permission = "table.write",
      .label = "table.create" },
    { HTTP_GET, "/{domain}/v1/table/{table}", table_schema, .permission = "table.read",
      .label = "table.schema" },
    { HTTP_DELETE, "/{domain}/v1/table/{table}", table_drop, .permission = "table.purge",
      .label = "table.drop" },
    { HTTP_POST, "/{domain}/v1/table/{table}/get", table_get,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.read", .label = "table.get" },
    { HTTP_POST, "/{domain}/v1/table/{table}/put", table_put,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.write", .label = "table.put" },
    { HTTP_POST, "/{domain}/v1/table/{table}/delete", table_delete,
      .body_bytes_max = TABLE_BODY_BYTES_MAX, .permission = "table.write",
      .label = "table.delete" },
    { HTTP_POST, "/{domain}/v1/batch", table_batch, .body_bytes_max = TABLE_BODY_BYTES_MAX,
      .permission = "table.write", .label = "table.batch" },
    { .pattern = NULL },
};
