/* value_request.c - a request for a value: its path, its failures; which targets are logged. */
#include "app/table/value_request.h"

#include "app/errors.h"

static bool value_refuse(struct http_exchange *x, int status, const char *type, const char *detail)
{
    app_problem(x, status, type, NULL, str_of(detail), STR_NONE);
    return false;
}

void value_fail(struct value_request *r, err why)
{
    if (why == ERR_NOT_FOUND && r->of.target.settings != NULL)
        app_problem(r->x, 404, "not_found", NULL, STR("Nothing is stored under this key."),
                    STR_NONE);
    else if (why == ERR_NOT_FOUND)
        app_problem(r->x, 404, "unknown_bucket", NULL, STR("There is no bucket of this name."),
                    STR_NONE);
    else
        table_fail(r->x, why, &r->of.note, NULL);
}

bool value_may_wait(struct value_request *r)
{
    r->of.call.deadline = table_deadline(r->app);
    return table_may_wait(r->x);
}

void value_go_on(struct value_request *r, enum store_start start)
{
    table_call_go(r->x, start, &r->of.call);
}

/* What clients may do with it; settings stand as the configuration has them. */
static const struct config_value_access *access_of(const struct app *app,
                                                   const struct value_settings *s)
{
    const struct config *c = app->config;
    return s == NULL ? &c->value_access : &c->values[s - app->values.buckets].access;
}

/* ---- the path ---- */

bool value_path(str path)
{
    str rest = str_skip(path, str_find(str_skip(path, 1), '/') + 1); /* behind the domain */
    return str_starts(rest, STR("/v1/key_value/")) || str_starts(rest, STR("/v1/key_rev_value/"));
}

static int hex_digit(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    c = (char)(c | 0x20);
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

/* Cuts the first character off, however it is encoded, in lower case; a broken escape is a '%'. */
static char take_char(str *s)
{
    char c = s->p[0];
    int high = c == '%' && s->n > 2 ? hex_digit(s->p[1]) : -1,
        low = high >= 0 ? hex_digit(s->p[2]) : -1;
    *s = str_skip(*s, low >= 0 ? 3 : 1);
    c = low >= 0 ? (char)(high * 16 + low) : c;
    return c >= 'A' && c <= 'Z' ? (char)(c | 0x20) : c;
}

/* Does s begin with word, however it is encoded? *rest is what follows. */
static bool reads(str s, str word, str *rest)
{
    for (size_t i = 0; i < word.n; i++)
        if (s.n == 0 || take_char(&s) != word.p[i])
            return false;
    *rest = s;
    return true;
}

/* Behind the next slash, however that is encoded. */
static str behind_slash(str s)
{
    while (s.n > 0 && take_char(&s) != '/')
        continue;
    return s;
}

/* No route of values took the target: whatever is behind a kind and a name may be a key that was
 * meant for a bucket. */
static str odd_target_logged(str target)
{
    for (str at = target, rest; at.n > 0; at = str_skip(at, 1))
        if (reads(at, STR("key_value"), &rest) || reads(at, STR("key_rev_value"), &rest)) {
            rest = behind_slash(behind_slash(rest));
            return str_take(target, target.n - rest.n);
        }
    return target;
}

str value_target_logged(const struct http_exchange *x)
{
    enum { PARTS_LOGGED = 5 }; /* "", domain, v1, kind, bucket */
    const struct http_route *route = http_route(x);
    str target = http_target(x), rest = target,
        pattern = route == NULL ? STR("") : str_of(route->pattern);
    if (route == NULL ||
        str_starts(pattern,
                   STR("/{domain}/v1/{"))) /* of buckets by any name: of none, or of pages */
        return odd_target_logged(target);
    if (!value_path(pattern))
        return target;
    for (unsigned i = 0; i < PARTS_LOGGED; i++)
        (void)str_split(&rest, '/'); /* not logged is what is left */
    return str_take(target, target.n - rest.n);
}

void value_share(struct http_exchange *x, const struct app *app)
{
    str rest = str_skip(http_target(x), 1), name;
    (void)str_split(&rest, '/'); /* the domain */
    bool v1 = str_eq(str_split(&rest, '/'), STR("v1"));
    str kind = str_split(&rest, '/');
    bool plain = str_eq(kind, STR("key_value"));
    if (!v1 || (!plain && !str_eq(kind, STR("key_rev_value"))))
        return;
    if (http_decode(http_arena(x), str_split(&rest, '/'), false, &name) != ERR_OK)
        return;
    enum value_kind of = plain ? VALUE_PLAIN : VALUE_REVS;
    if (access_of(app, value_settings_find(&app->values, of, name))->cors)
        http_share(x);
}

static bool name_parse(struct http_exchange *x, struct value_target *t)
{
    str rev = http_param(x, "rev"), tid = http_param(x, "tid");
    t->has_rev = rev.p != NULL;
    t->has_tid = tid.p != NULL;
    if (t->has_rev && (!str_to_i64(rev, &t->rev) || t->rev < 0))
        return value_refuse(x, 400, "bad_request#invalid_revision",
                            "A revision is a number from 0 to 2^63-1.");
    if (t->has_tid && !tid_parse(tid, &t->tid))
        return value_refuse(x, 400, "bad_request#invalid_tid", "A tid is a version-1 UUID.");
    return true;
}

struct value_request *value_request_new(struct http_exchange *x, struct app *app,
                                        enum value_kind kind, void (*done)(struct store_call *c))
{
    const struct page_domain *domain = app_domain_of(x, app);
    if (domain == NULL)
        return NULL;
    struct value_request *r = arena_calloc(http_arena(x), 1, sizeof *r);
    if (r == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return NULL;
    }
    str bucket = http_param(x, "bucket");
    r->x = x;
    r->app = app;
    r->of.call =
        (struct store_call){ .deadline = table_deadline(app), .home = http_home(x), .done = done };
    r->of.arena = http_arena(x);
    r->of.target =
        (struct value_target){ .domain = domain->name,
                               .domain_number = domain->number,
                               .domain_index = (unsigned)(domain - app->page.domains),
                               .kind = kind,
                               .settings = value_settings_find(&app->values, kind, bucket),
                               .bucket = bucket,
                               .key = http_param(x, "key") };
    r->access = access_of(app, r->of.target.settings);
    if (!value_name_fits(bucket)) {
        (void)value_refuse(x, 404, "unknown_bucket", "No bucket can have this name.");
        return NULL;
    }
    return name_parse(x, &r->of.target) ? r : NULL;
}
