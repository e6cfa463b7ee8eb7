/* Tables and batches over HTTP (docs/api.md, 4): schemas, queries in JSON. A get answers at once
 * from memory; what is cold is read on the pool. Writes answer when they are on disk. */
#include "app/answer.h"
#include "app/errors.h"
#include "app/table/table_request.h"
#include "loop/entropy.h"
#include "table/table_write.h"

#include <string.h>

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

static void warm_run(struct loop_job *j)
{
    struct table_change *c = CONTAINER_OF(j, struct table_change, job);
    tables_update_warm(&c->update);
}

static void warm_done(struct loop_job *j, bool canceled)
{
    struct table_change *c = CONTAINER_OF(j, struct table_change, job);
    if (canceled)
        c->done(c, ERR_SHUTDOWN);
    else
        tables_update_again(&c->update);
}

static void change_done(struct table_update *u, err why)
{
    struct table_change *c = CONTAINER_OF(u, struct table_change, update);
    if (why != ERR_AGAIN) {
        c->done(c, why);
        return;
    }
    c->job = (struct loop_job){ .run = warm_run, .done = warm_done };
    loop_job_start(c->app->loop, &c->job);
}

void table_change_start(struct table_change *c, struct http_exchange *x)
{
    c->update.arena = http_arena(x);
    c->update.deadline = table_deadline(c->app);
    c->update.random = entropy_u64();
    c->update.done = change_done;
    table_change_again(c);
}

void table_change_again(struct table_change *c)
{
    err why = tables_update(c->app->tables, &c->update, false);
    if (why != ERR_OK)
        c->done(c, why);
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

static void schema_next(struct schema_request *r)
{
    r->change.domain = r->app->page.domains[r->domain].number;
    err why = tables_change(r->app->tables, &r->change);
    if (why != ERR_OK)
        schema_answer(r, why);
}

/* With domain `*` the domains are done one after the other; a drop skips those without the
 * table. */
static void schema_done(struct table_schema_change *c, err why)
{
    struct schema_request *r = CONTAINER_OF(c, struct schema_request, change);
    bool skipped = why == ERR_NOT_FOUND && c->action == SCHEMA_DROP;
    r->any |= why == ERR_OK;
    r->domain++;
    if ((why == ERR_OK || skipped) && r->domain < r->domains_end)
        schema_next(r);
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
    r->change = (struct table_schema_change){ .action = action,
                                              .json = http_body(x),
                                              .arena = http_arena(x),
                                              .deadline = table_deadline(app),
                                              .done = schema_done };
    if (!domains_of(x, r) || !table_of(x, &r->change.table) || !table_may_wait(x))
        return;
    http_defer(x);
    schema_next(r);
}

static void table_create(struct http_exchange *x, void *app)
{
    schema_start(x, app, SCHEMA_CREATE);
}

static void table_drop(struct http_exchange *x, void *app)
{
    schema_start(x, app, SCHEMA_DROP);
}

/* ---- reading ---- */

struct read_request {
    struct http_exchange *x;
    struct app *app;
    uint32_t domain;
    str table;
    bool schema; /* the schema is asked for, not rows */
    struct table_answer answer;
    struct err_note note;
    err why;
    struct loop_job job;
};

static err read_try(struct read_request *r, bool now)
{
    struct arena *a = http_arena(r->x);
    if (r->schema)
        return tables_schema(r->app->tables, r->domain, r->table, a, now, &r->answer.json);
    return tables_get_json(r->app->tables, r->domain, r->table, http_body(r->x), a, now, &r->answer,
                           &r->note);
}

static void read_answer(struct read_request *r, err why)
{
    if (why == ERR_OK && !r->schema)
        table_tell_damage(r->app, r->x, r->table, r->answer.damaged);
    if (why != ERR_OK)
        table_fail(r->x, why, &r->note, NULL);
    else if (!r->schema && r->answer.rows == 0 && r->answer.damaged == 0 && !r->answer.more &&
             !r->answer.went_on)
        app_problem(r->x, 404, "not_found", NULL, STR("No row matches."), STR(",\"items\":[]"));
    else
        answer_json(r->x, 200, r->answer.json, NULL);
}

static void read_run(struct loop_job *j)
{
    struct read_request *r = CONTAINER_OF(j, struct read_request, job);
    r->why = read_try(r, false);
}

static void read_done(struct loop_job *j, bool canceled)
{
    struct read_request *r = CONTAINER_OF(j, struct read_request, job);
    read_answer(r, canceled ? ERR_SHUTDOWN : r->why);
}

static void read_start(struct http_exchange *x, struct app *app, bool schema)
{
    struct read_request *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    const struct page_domain *d = app_domain_of(x, app);
    if (d == NULL)
        return;
    *r = (struct read_request){ .x = x, .app = app, .domain = d->number, .schema = schema };
    if (!table_of(x, &r->table))
        return;
    err why = http_body(x).n > TABLE_NOW_BODY_BYTES_MAX ? ERR_AGAIN : read_try(r, true);
    if (why != ERR_AGAIN) {
        read_answer(r, why);
        return;
    }
    if (!table_may_wait(x))
        return;
    http_defer(x);
    r->job = (struct loop_job){ .run = read_run, .done = read_done };
    loop_job_start(app->loop, &r->job);
}

static void table_schema(struct http_exchange *x, void *app)
{
    read_start(x, app, true);
}

static void table_get(struct http_exchange *x, void *app)
{
    read_start(x, app, false);
}

/* ---- writing ---- */

struct write_request {
    struct http_exchange *x;
    struct table_query query;
    struct table_change change;
    struct loop_job job;
    err why;
};

static bool is_conditional(const struct table_update *u)
{
    for (unsigned i = 0; i < u->writes_count; i++)
        if (u->writes[i].condition != IF_ALWAYS)
            return true;
    return false;
}

static void write_done(struct table_change *c, err why)
{
    struct write_request *w = CONTAINER_OF(c, struct write_request, change);
    bool applied = c->update.applied;
    if (why != ERR_OK)
        table_fail(w->x, why, &c->update.note, NULL);
    else if (w->query.kind == QUERY_DELETE)
        http_answer(w->x, 204, STR_NONE);
    else if (w->query.kind == QUERY_BATCH || is_conditional(&c->update))
        answer_json(w->x, 201, applied ? STR("{\"applied\":true}") : STR("{\"applied\":false}"),
                    NULL);
    else
        http_answer(w->x, 201, STR_NONE);
}

static err write_parse(struct write_request *w)
{
    struct table_update *u = &w->change.update;
    err why =
        tables_parse(w->change.app->tables, u->domain, &w->query, http_arena(w->x), u, &u->note);
    for (unsigned i = 0; why == ERR_OK && i < u->writes_count; i++)
        if (str_starts(u->writes[i].table, STR(TABLE_OWN_PREFIX))) {
            err_note_set(&u->note, "operation %u: a table name must not begin with a dot", i);
            return ERR_BAD;
        }
    return why;
}

static void parse_run(struct loop_job *j)
{
    struct write_request *w = CONTAINER_OF(j, struct write_request, job);
    w->query.now = false;
    w->why = write_parse(w);
}

static void parse_done(struct loop_job *j, bool canceled)
{
    struct write_request *w = CONTAINER_OF(j, struct write_request, job);
    if (canceled || w->why != ERR_OK)
        write_done(&w->change, canceled ? ERR_SHUTDOWN : w->why);
    else
        table_change_start(&w->change, w->x);
}

static void write_start(struct http_exchange *x, struct app *app, enum table_query_kind kind)
{
    struct write_request *w = arena_calloc(http_arena(x), 1, sizeof *w);
    if (w == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    const struct page_domain *d = app_domain_of(x, app);
    if (d == NULL)
        return;
    w->x = x;
    w->change.app = app;
    w->change.done = write_done;
    w->change.update.domain = d->number;
    w->query = (struct table_query){ .kind = kind, .json = http_body(x), .now = true };
    if ((kind != QUERY_BATCH && !table_of(x, &w->query.table)) || !table_may_wait(x))
        return;
    err why = http_body(x).n > TABLE_NOW_BODY_BYTES_MAX ? ERR_AGAIN : write_parse(w);
    if (why != ERR_OK && why != ERR_AGAIN) {
        write_done(&w->change, why);
        return;
    }
    http_defer(x);
    if (why == ERR_OK) {
        table_change_start(&w->change, x);
        return;
    }
    w->job = (struct loop_job){ .run = parse_run, .done = parse_done };
    loop_job_start(app->loop, &w->job);
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
