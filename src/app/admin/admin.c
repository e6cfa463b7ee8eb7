/* Health, figures, the API's own description, and what an operator asks of a running store. Checks
 * and backups run on the pool and answer when they are done; at most one of each at a time would be
 * kind to the disk, but nothing breaks when two run. */
#include "app/admin/spec.h"
#include "app/answer.h"
#include "app/counters.h"
#include "app/errors.h"
#include "app/queue/queue_figures.h"
#include "base/utf8.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "engine/store.h"
#include "hot/hot.h"
#include "loop/loop.h"
#include "queue/store/open.h"

#include <string.h>

enum {
    TEXT_BYTES_MAX = 4 << 20,
    DAMAGES_MAX = 1000,
    ADMIN_BODY_BYTES_MAX = 8192,
    SPEC_TABLES_MAX = 16
};

static void answer_text(struct http_exchange *x, int status, const struct buf *b, const char *type)
{
    str body = b->failed ? STR_NONE : arena_copy(http_arena(x), buf_str(b));
    if (body.p == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    struct answer w = { .status = status, .body = body };
    answer_add(&w, STR("content-type"), str_of(type));
    answer_add(&w, STR("cache-control"), STR("no-store"));
    answer_add_security(&w, http_arena(x), str_of(type), STR_NONE);
    answer_send(x, &w);
}

/* ---- health, figures, description ---- */

static void get_health(struct http_exchange *x, void *app)
{
    (void)app; /* that it runs is the answer */
    answer_json(x, 200, STR("{\"status\":\"ok\"}"), "no-store");
}

static void get_ready(struct http_exchange *x, void *app)
{
    (void)app; /* the store is open before anything listens */
    if (http_draining(x))
        app_fail(x, ERR_SHUTDOWN, NULL);
    else
        answer_json(x, 200, STR("{\"status\":\"ready\"}"), "no-store");
}

struct scrape {
    struct http_exchange *x;
    const struct app *app;
    struct loop_job job;
    struct buf text;
};

static void scrape_run(struct loop_job *j)
{
    struct scrape *s = CONTAINER_OF(j, struct scrape, job);
    counters_render(s->app, &s->text);
    queue_figures_render(s->app->queues, s->app->metrics, &s->text);
}

static void scrape_done(struct loop_job *j, bool canceled)
{
    struct scrape *s = CONTAINER_OF(j, struct scrape, job);
    struct buf text = s->text; /* s may be gone after the answer */
    if (canceled)
        app_fail(s->x, ERR_SHUTDOWN, NULL);
    else
        answer_text(s->x, 200, &text, "text/plain; version=0.0.4; charset=utf-8");
    buf_fini(&text);
}

static void get_metrics(struct http_exchange *x, void *app)
{
    struct scrape *s = arena_alloc(http_arena(x), sizeof *s);
    if (s == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *s = (struct scrape){ .x = x, .app = app, .job = { .run = scrape_run, .done = scrape_done } };
    buf_init(&s->text, TEXT_BYTES_MAX);
    http_defer(x);
    loop_job_start(s->app->loop, &s->job);
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
    if (spec_render(tables, http_arena(x), &b) == ERR_OK)
        answer_text(x, 200, &b, "application/json; charset=utf-8");
    else
        app_fail(x, ERR_LIMIT, NULL);
    buf_fini(&b);
}

static void get_root(struct http_exchange *x, void *app)
{
    if (str_eq(http_query_raw(x), STR("spec")) || str_eq(http_query_raw(x), STR("spec=")))
        app_answer_spec(x, app);
    else
        answer_json(x, 200, STR("{\"name\":\"palimpsest\",\"spec\":\"/?spec\"}"), NULL);
}

static void put_figure(struct buf *b, const char *name, uint64_t value)
{
    buf_printf(b, "%s\"%s\":%llu", b->p[b->n - 1] == '{' ? "" : ",", name,
               (unsigned long long)value);
}

static void put_engine(struct buf *b, struct engine *e)
{
    struct engine_stats s;
    engine_stats_get(e, &s);
    buf_put(b, STR("\"engine\":{"));
    put_figure(b, "rows", s.rows);
    put_figure(b, "live_bytes", s.live_bytes);
    put_figure(b, "disk_bytes", s.disk_bytes);
    put_figure(b, "index_bytes", s.index_bytes);
    put_figure(b, "segments", s.segments);
    put_figure(b, "groups", s.groups);
    put_figure(b, "updates", s.updates);
    put_figure(b, "syncs", s.syncs);
    put_figure(b, "log_bytes_written", s.log_bytes_written);
    put_figure(b, "punched_bytes", s.punched_bytes);
    put_figure(b, "copied_bytes", s.copied_bytes);
    put_figure(b, "overlay_rows", s.overlay_rows);
    put_figure(b, "waiting", s.waiting);
    put_figure(b, "index_lag_ms", s.index_lag_ms);
    put_figure(b, "free_bytes", s.free_bytes);
    buf_put_c(b, '}');
}

static void put_pages(struct buf *b, const struct app *app)
{
    struct pages_stats s;
    struct hot_stats hot;
    page_store_stats(app->page.store, &s);
    hot_stats_get(app->hot, &hot);
    buf_put(b, STR(",\"pages\":{"));
    put_figure(b, "puts", s.puts);
    put_figure(b, "duplicates", s.duplicates);
    put_figure(b, "superseded", s.superseded);
    put_figure(b, "culled", s.culled);
    put_figure(b, "purged", s.purged);
    put_figure(b, "extended", s.extended);
    put_figure(b, "replanned", s.replanned);
    put_figure(b, "overdue_ns_max", s.overdue_ns_max);
    buf_put(b, STR("},\"hot\":{"));
    put_figure(b, "hits", hot.hits);
    put_figure(b, "misses", hot.misses);
    put_figure(b, "entries", hot.entries);
    put_figure(b, "bytes", hot.bytes);
    put_figure(b, "evicted", hot.evicted);
    buf_put_c(b, '}');
}

static void post_stats(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    buf_put_c(&b, '{');
    put_engine(&b, a->engine);
    put_pages(&b, a);
    buf_put_c(&b, '}');
    answer_text(x, 200, &b, "application/json; charset=utf-8");
    buf_fini(&b);
}

/* ---- check ---- */

struct check {
    struct http_exchange *x;
    const struct app *app;
    struct loop_job job;
    struct buf found; /* JSON strings with commas between */
    uint64_t damages;
    err result;
};

static void check_found(void *ctx, const char *what)
{
    struct check *c = ctx;
    if (c->damages++ >= DAMAGES_MAX)
        return;
    buf_put(&c->found, c->found.n == 0 ? STR("") : STR(","));
    buf_put(&c->found, json_text_quote(http_arena(c->x), str_of(what)));
}

static void check_run(struct loop_job *j)
{
    struct check *c = CONTAINER_OF(j, struct check, job);
    struct engine_check_opts opts = { .found = check_found, .ctx = c };
    err engine = engine_check(c->app->engine, &opts);
    err pages = page_store_check(c->app->page.store, check_found, c);
    err queues = queue_local_check(c->app->engine, check_found, c);
    c->result = pages != ERR_OK && pages != ERR_CORRUPT ? pages : queues;
    if (engine != ERR_OK && engine != ERR_CORRUPT)
        c->result = engine;
}

static void check_done(struct loop_job *j, bool canceled)
{
    struct check *c = CONTAINER_OF(j, struct check, job);
    struct http_exchange *x = c->x;
    err why = canceled ? ERR_SHUTDOWN : c->result;
    struct buf b;
    buf_init(&b, TEXT_BYTES_MAX);
    buf_printf(&b, "{\"ok\":%s,\"damages\":%llu,\"found\":[", c->damages == 0 ? "true" : "false",
               (unsigned long long)c->damages);
    buf_put(&b, buf_str(&c->found));
    buf_put(&b, STR("]}"));
    buf_fini(&c->found); /* before the answer: c may be gone after it */
    if (why == ERR_OK || why == ERR_CORRUPT)
        answer_text(x, 200, &b, "application/json; charset=utf-8");
    else
        app_fail(x, why, NULL);
    buf_fini(&b);
}

static void post_check(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct check *c = arena_alloc(http_arena(x), sizeof *c);
    if (c == NULL || http_draining(x)) {
        app_fail(x, c == NULL ? ERR_LIMIT : ERR_SHUTDOWN, NULL);
        return;
    }
    *c = (struct check){ .x = x, .app = a, .job = { .run = check_run, .done = check_done } };
    buf_init(&c->found, TEXT_BYTES_MAX / 2);
    http_defer(x);
    loop_job_start(a->loop, &c->job);
}

/* ---- backup ---- */

struct backup {
    struct http_exchange *x;
    const struct app *app;
    struct loop_job job;
    const char *dir;
    struct engine_backup_result out;
    struct err_note note;
    err result;
};

static void backup_run(struct loop_job *j)
{
    struct backup *b = CONTAINER_OF(j, struct backup, job);
    b->result = engine_backup(b->app->engine, b->dir, &b->out, &b->note);
}

static void backup_done(struct loop_job *j, bool canceled)
{
    struct backup *b = CONTAINER_OF(j, struct backup, job);
    err why = canceled ? ERR_SHUTDOWN : b->result;
    if (why != ERR_OK) {
        app_fail_told(b->x, why, &b->note);
        return;
    }
    answer_json(b->x, 200,
                arena_printf(http_arena(b->x),
                             "{\"bytes_copied\":%llu,\"bytes_kept\":%llu,\"segments\":%llu,"
                             "\"segments_replaced\":%llu}",
                             (unsigned long long)b->out.bytes_copied,
                             (unsigned long long)b->out.bytes_kept,
                             (unsigned long long)b->out.segments,
                             (unsigned long long)b->out.segments_replaced),
                "no-store");
}

/* {"to": "/an/absolute/path"}; NULL: something else. */
static const char *parse_to(struct arena *a, str body)
{
    struct json_member m;
    unsigned count;
    str value, text;
    if (!utf8_valid(body) || !json_slice_value(body, &value) ||
        json_slice_members(a, value, &m, 1, &count) != ERR_OK)
        return NULL;
    if (count != 1 || !str_eq(m.name, STR("to")) || json_slice_string(a, m.value, &text) != ERR_OK)
        return NULL;
    if (text.n < 2 || text.p[0] != '/' || memchr(text.p, 0, text.n) != NULL)
        return NULL;
    return arena_cstr(a, text);
}

static void post_backup(struct http_exchange *x, void *app)
{
    const struct app *a = app;
    struct backup *b = arena_alloc(http_arena(x), sizeof *b);
    if (b == NULL || http_draining(x)) {
        app_fail(x, b == NULL ? ERR_LIMIT : ERR_SHUTDOWN, NULL);
        return;
    }
    *b = (struct backup){ .x = x, .app = a, .job = { .run = backup_run, .done = backup_done } };
    b->dir = parse_to(http_arena(x), http_body(x));
    if (b->dir == NULL) {
        app_problem(x, 400, "bad_request#invalid_body", NULL,
                    STR("The body must be {\"to\": an absolute path}."), STR_NONE);
        return;
    }
    http_defer(x);
    loop_job_start(a->loop, &b->job);
}

const struct http_route app_admin_routes[] = {
    { HTTP_GET, "/healthz", get_health, .label = "health", .urgent = true },
    { HTTP_GET, "/readyz", get_ready, .label = "health", .urgent = true },
    { HTTP_GET, "/metrics", get_metrics, .label = "metrics", .urgent = true },
    { HTTP_GET, "/", get_root, .label = "spec" },
    { HTTP_POST, "/v1/admin.check", post_check, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.check", .label = "admin.check", .urgent = true, .admin = true },
    { HTTP_POST, "/v1/admin.backup", post_backup, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.backup", .label = "admin.backup", .urgent = true, .admin = true },
    { HTTP_POST, "/v1/admin.stats", post_stats, .body_bytes_max = ADMIN_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.stats", .urgent = true, .admin = true },
    { HTTP_GET, "/v1/admin.stats", post_stats, .permission = "admin.read", .label = "admin.stats",
      .urgent = true, .admin = true },
    { .pattern = NULL },
};
