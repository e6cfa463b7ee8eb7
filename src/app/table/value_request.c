/* value_request.c - a request for a value: its path, its failures; which targets are logged. */
#include "app/table/value_request.h"

#include "app/errors.h"

void value_fail(struct value_request *r, err why)
{
    if (why != ERR_NOT_FOUND)
        table_fail(r->x, why, &r->of.note);
    else if (r->of.target.settings != NULL)
        app_refused(r->x, 404, "not_found", "Nothing is stored under this key.");
    else
        app_refused(r->x, 404, "unknown_bucket", "There is no bucket of this name.");
}

/* What clients may do with it; settings stand as the configuration has them. */
static const struct config_value_access *access_of(const struct app *app,
                                                   const struct value_settings *s)
{
    const struct config *c = app->config;
    return s == NULL ? &c->value_access : &c->values[s - app->values.buckets].access;
}

str value_target_logged(const struct http_exchange *x)
{
    const struct http_route *route = http_route(x);
    return value_path_logged(http_target(x), route == NULL ? NULL : route->pattern);
}

void value_share(struct http_exchange *x, const struct app *app)
{
    enum value_kind kind;
    str name;
    if (value_path_bucket(http_arena(x), http_target(x), &kind, &name) &&
        access_of(app, value_settings_find(&app->values, kind, name))->cors)
        http_share(x);
}

struct value_request *value_request_new(struct http_exchange *x, struct app *app,
                                        void (*done)(struct store_call *c))
{
    const struct page_domain *domain = app_domain_of(x, app);
    struct value_request *r = domain == NULL ? NULL : app_new(x, sizeof *r);
    if (r == NULL)
        return NULL;
    enum value_kind kind = (enum value_kind)http_route(x)->kind;
    str bucket = http_param(x, "bucket"), rev = http_param(x, "rev"), tid = http_param(x, "tid");
    r->x = x;
    r->app = app;
    r->of.call = (struct store_call){ .deadline = page_write_deadline(&app->page),
                                      .home = http_home(x),
                                      .done = done };
    r->of.arena = http_arena(x);
    struct value_target *t = &r->of.target;
    *t = (struct value_target){ .domain = domain->name,
                                .domain_number = domain->number,
                                .domain_index = (unsigned)(domain - app->page.domains),
                                .kind = kind,
                                .settings = value_settings_find(&app->values, kind, bucket),
                                .bucket = bucket,
                                .key = http_param(x, "key"),
                                .has_rev = rev.p != NULL,
                                .has_tid = tid.p != NULL };
    r->access = access_of(app, t->settings);
    bool fine = false;
    if (!value_name_fits(bucket))
        app_refused(x, 404, "unknown_bucket", "No bucket can have this name.");
    else if (t->has_rev && (!str_to_i64(rev, &t->rev) || t->rev < 0))
        app_refused(x, 400, "bad_request#invalid_revision",
                    "A revision is a number from 0 to 2^63-1.");
    else if (t->has_tid && !tid_parse(tid, &t->tid))
        app_refused(x, 400, "bad_request#invalid_tid", "A tid is a version-1 UUID.");
    else
        fine = true;
    return fine ? r : NULL;
}
