/* admin.c - health, figures, the API's own description, and what an operator asks of a running
 * store. Checks and backups run on the pool and answer when they are done; at most one of each at a
 * time would be kind to the disk, but nothing breaks when two run. */
#include "queue/admin.h"
#include "app/admin/fresh.h"
#include "app/admin/spec.h"
#include "app/answer.h"
#include "app/change/rules_figures.h"
#include "app/config.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/pooled.h"
#include "auth/auth.h"
#include "change/change.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "engine/store.h"
#include "event/log.h"
#include "queue/store/open.h"

#include <string.h>

enum {
    TEXT_BYTES_MAX = 4 << 20,
    DAMAGES_MAX = 1000,
    ADMIN_BODY_BYTES_MAX = 8192,
    SPEC_TABLES_MAX = APP_TABLES_MAX - 1
};

static void answer_text(struct http_exchange *x, str body, const char *type)
{
    if (body.p == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    struct answer w = { .status = 200, .body = body };
    answer_add(&w, STR("content-type"), str_of(type));
    answer_add(&w, STR("cache-control"), STR("no-store"));
    answer_add_security(&w, http_arena(x), str_of(type), STR_NONE);
    answer_send(x, &w);
}

static void answer_buf(struct http_exchange *x, struct buf *b)
{
    answer_text(x, buf_take(b, http_arena(x)), "application/json; charset=utf-8");
}

/* ---- health, figures, description ---- */

static void get_health(struct http_exchange *x, void *app)
{
    (void)app; /* that it runs is the answer */
    answer_json(x, 200, STR("{\"status\":\"ok\"}"), "no-store");
}

static void get_ready(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    if (!app_may_wait(x))
        return;
    struct err_note note = { .text = "" };
    bool known = auth_known(a->auth);
    if (!known)
        err_note_set(&note, "It is not known yet which keys and roles there are.");
    if (page_store_ready(a->page.store, &note) && known)
        answer_json(x, 200, STR("{\"status\":\"ready\"}"), "no-store");
    else
        app_fail(x, ERR_UNAVAILABLE, &note);
}

struct scrape {
    struct pooled pooled;
    struct buf text;
};

static void scrape_run(struct pooled *p)
{
    struct scrape *s = CONTAINER_OF(p, struct scrape, pooled);
    buf_init(&s->text, TEXT_BYTES_MAX);
    counters_render(p->app, &s->text);
    fresh_figures(&p->app->page, p->app->metrics, &s->text);
    rules_figures(p->app->change, p->app->clock, p->app->metrics, &s->text);
    queues_figures(p->app->queues, p->app->metrics, &s->text);
}

/* Only here the text takes of the memory that requests may have: who looks at that while there is
 * little left takes it from nobody for longer than the answer is on its way. */
static void scrape_answer(struct pooled *p)
{
    struct scrape *s = CONTAINER_OF(p, struct scrape, pooled);
    answer_text(p->x, buf_take(&s->text, http_arena(p->x)),
                "text/plain; version=0.0.4; charset=utf-8");
}

static void get_metrics(struct http_exchange *x, void *app)
{
    struct scrape *s = app_new(x, sizeof *s);
    if (s == NULL)
        return;
    s->pooled = (struct pooled){ .x = x, .app = app };
    pooled_start(&s->pooled, scrape_run, scrape_answer);
}

void app_answer_spec(struct http_exchange *x, const struct app *a)
{
    const struct http_route *tables[SPEC_TABLES_MAX + 1] = { NULL };
    unsigned count = 0;
    for (const struct http_route *const *t = app_tables; *t != NULL && count < SPEC_TABLES_MAX; t++)
        if (*t != app_hook_routes || a->config->test_hooks)
            tables[count++] = *t;
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    b.failed = spec_render(tables, http_filter_of(x), http_arena(x), &b) != ERR_OK;
    answer_buf(x, &b);
}

static void get_root(struct http_exchange *x, void *app)
{
    if (str_eq(http_query_raw(x), STR("spec")) || str_eq(http_query_raw(x), STR("spec=")))
        app_answer_spec(x, app);
    else
        answer_json(x, 200, STR("{\"name\":\"palimpsest\",\"spec\":\"/?spec\"}"), NULL);
}

static void post_stats(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    counters_stats(a, &b);
    answer_buf(x, &b);
}

/* ---- check ---- */

/* What these two say nothing of, as a member: what lies in a cluster. */
static const char *not_covered(const struct app *a)
{
    return a->config->pages == PAGES_CASSANDRA ? ",\"not_covered\":[\"pages\",\"values\",\"keys\"]"
                                               : "";
}

struct check {
    struct pooled pooled;
    struct buf found; /* JSON strings with commas between */
    uint64_t damages;
    err why;
};

static void check_found(void *ctx, const char *what)
{
    struct check *c = ctx;
    if (c->damages++ >= DAMAGES_MAX)
        return;
    buf_put(&c->found, c->found.n == 0 ? STR("") : STR(","));
    buf_put(&c->found, json_text_quote(http_arena(c->pooled.x), str_of(what)));
}

static void check_run(struct pooled *p)
{
    struct check *c = CONTAINER_OF(p, struct check, pooled);
    struct engine_check_opts opts = { .found = check_found, .ctx = c };
    buf_init(&c->found, TEXT_BYTES_MAX / 2);
    err engine = engine_check(p->app->engine, &opts);
    err pages = page_store_check(p->app->page.store, check_found, c);
    err queues = queue_local_check(p->app->engine, check_found, c);
    err events = event_log_check(p->app->engine, check_found, c);
    err changes = change_check(p->app->engine, check_found, c);
    c->why = pages != ERR_OK && pages != ERR_CORRUPT     ? pages
             : queues != ERR_OK && queues != ERR_CORRUPT ? queues
             : events != ERR_OK && events != ERR_CORRUPT ? events
                                                         : changes;
    if (engine != ERR_OK && engine != ERR_CORRUPT)
        c->why = engine;
}

static void check_answer(struct pooled *p)
{
    struct check *c = CONTAINER_OF(p, struct check, pooled);
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    buf_printf(&b, "{\"ok\":%s,\"damages\":%llu,\"found\":[", c->damages == 0 ? "true" : "false",
               (unsigned long long)c->damages);
    buf_put(&b, buf_str(&c->found));
    buf_printf(&b, "]%s}", not_covered(p->app));
    buf_fini(&c->found);
    if (c->why == ERR_OK || c->why == ERR_CORRUPT) {
        answer_buf(p->x, &b);
        return;
    }
    buf_fini(&b);
    app_fail(p->x, c->why, NULL);
}

static void post_check(struct http_exchange *x, void *app)
{
    struct check *c = pooled_new(x, app, sizeof *c);
    if (c != NULL)
        pooled_start(&c->pooled, check_run, check_answer);
}

/* ---- backup ---- */

struct backup {
    struct pooled pooled;
    const char *dir;
    struct engine_backup_result out;
    struct err_note note;
    err why;
};

static void backup_run(struct pooled *p)
{
    struct backup *b = CONTAINER_OF(p, struct backup, pooled);
    b->why = engine_backup(p->app->engine, b->dir, &b->out, &b->note);
}

static void backup_answer(struct pooled *p)
{
    const struct backup *b = CONTAINER_OF(p, struct backup, pooled);
    if (b->why != ERR_OK) {
        app_fail_told(p->x, b->why, &b->note);
        return;
    }
    answer_json(p->x, 200,
                arena_printf(http_arena(p->x),
                             "{\"bytes_copied\":%llu,\"bytes_kept\":%llu,\"segments\":%llu,"
                             "\"segments_replaced\":%llu%s}",
                             (unsigned long long)b->out.bytes_copied,
                             (unsigned long long)b->out.bytes_kept,
                             (unsigned long long)b->out.segments,
                             (unsigned long long)b->out.segments_replaced, not_covered(p->app)),
                "no-store");
}

/* {"to": "/an/absolute/path"} */
static void post_backup(struct http_exchange *x, void *app)
{
    struct backup *b = pooled_new(x, app, sizeof *b);
    str to;
    if (b == NULL)
        return;
    bool fine = json_slice_only(http_arena(x), http_body(x), "to", &to) == ERR_OK && to.n >= 2 &&
                to.p[0] == '/' && memchr(to.p, 0, to.n) == NULL;
    b->dir = fine ? arena_cstr(http_arena(x), to) : NULL;
    if (b->dir != NULL)
        pooled_start(&b->pooled, backup_run, backup_answer);
    else
        app_refused(x, 400, "bad_request#invalid_body",
                    "The body must be {\"to\": an absolute path}.");
}

const struct http_route app_admin_routes[] = {
    { HTTP_GET, "/healthz", get_health, .label = "health", .urgent = true },
    { HTTP_GET, "/readyz", get_ready, .label = "health", .urgent = true },
    { HTTP_GET, "/metrics", get_metrics, .label = "metrics", .pool = true, .urgent = true },
    { HTTP_GET, "/", get_root, .label = "spec", .pool = true },
    { HTTP_POST, "/v1/admin.check", post_check, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.check", .label = "admin.check", .pool = true, .urgent = true,
      .admin = true },
    { HTTP_POST, "/v1/admin.backup", post_backup, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.backup", .label = "admin.backup", .pool = true, .urgent = true,
      .admin = true },
    { HTTP_POST, "/v1/admin.stats", post_stats, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.stats", .pool = true, .urgent = true,
      .admin = true },
    { HTTP_GET, "/v1/admin.stats", post_stats, .permission = "admin.read", .label = "admin.stats",
      .pool = true, .urgent = true, .admin = true },
    { .pattern = NULL },
};
