/* timeline.c - what was superseded before an instant, as a rule keeps it (change/change.h), for
 * operators and for those who cull by it:
 *
 *   POST /v1/admin.change.timeline   {"domain", "title", "kind", "before", "keep", "pivot",
 * "limit"}
 */
#include "app/admin/fresh.h"
#include "app/app.h"
#include "app/change/rules_call.h"
#include "base/date.h"
#include "base/units.h"
#include "change/superseded.h"
#include "codec/json_text.h"

#include <inttypes.h>

enum { TIMELINE_BODY_BYTES_MAX = 16 << 10, TIMELINE_DEFAULT = 100 };

/* ---- what was asked ---- */

/* Absent: all. */
static err read_before(struct rules_call *c, const json_t *body, store_time *out)
{
    str text;
    int64_t ns, now = clock_store(c->pooled.app->clock).ns;
    err why = json_body_str(body, "before", &text, &c->note);
    if (why == ERR_NOT_FOUND)
        *out = STORE_TIME_NEVER;
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    if (!date_parse_any(text, &ns)) {
        if (!units_parse_duration(text, &ns) || ns == DURATION_NEVER)
            return err_bad(&c->note,
                           "before: " DATE_WANTED ", or a duration such as 2h, is wanted");
        ns = now - ns;
    }
    out->ns = ns < 0 ? 0 : ns;
    return ERR_OK;
}

static err read_timeline(struct rules_call *c, const json_t *body)
{
    struct change_timeline t = { .limit = 0 };
    int64_t limit = TIMELINE_DEFAULT;
    err why = json_body_i64(body, "limit", 1, CHANGE_LIST_MAX, &limit, &c->note);
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = rules_read_text(c, body, "kind", &t.kind);
    if (why == ERR_OK)
        why = read_before(c, body, &t.before);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "domain", &t.domain);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "title", &t.title);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "pivot", &t.pivot);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "keep", &t.keep);
    t.limit = (unsigned)limit;
    c->timeline = t;
    return why;
}

/* ---- the answer ---- */

static void put_text(struct buf *out, const char *before, str text)
{
    buf_put(out, str_of(before));
    if (text.n > 0)
        json_text_append(out, text);
    else
        buf_put(out, STR("null"));
}

static void put_page(const struct change_timeline *t, const struct rules_json *j)
{
    buf_put(j->out, STR("{\"entries\":["));
    for (unsigned i = 0; i < t->count; i++) {
        const struct change_superseded *e = &t->entries[i];
        buf_put(j->out, i == 0 ? STR("{\"at\":") : STR(",{\"at\":"));
        fresh_put_time(j->out, e->at.ns);
        put_text(j->out, ",\"domain\":", e->domain);
        put_text(j->out, ",\"kind\":", e->kind);
        buf_printf(j->out, ",\"rev\":%" PRIu64, e->rev);
        put_text(j->out, ",\"tid\":", e->tid);
        put_text(j->out, ",\"title\":", e->title);
        buf_put_c(j->out, '}');
    }
    buf_put_c(j->out, ']');
    if (t->next.n > 0)
        put_text(j->out, ",\"next\":", t->next);
    buf_put_c(j->out, '}');
}

/* One in Redis is asked between two runs. */
static void timeline_told(void *ctx, err why)
{
    rules_call_go_on(ctx, why);
}

static void wait_timeline(struct rules_call *c)
{
    change_timeline_ask(c->pooled.app->change, &c->timeline, http_arena(c->pooled.x), &c->note,
                        timeline_told, c);
}

static err run_timeline(struct rules_call *c, const struct rules_json *j)
{
    struct change_timeline *t = &c->timeline;
    err why = c->again ? ERR_OK : change_timeline(c->pooled.app->change, t, j->arena, &c->note);
    if (why == ERR_OK && t->remote && !c->again)
        c->wait = wait_timeline;
    else if (why == ERR_OK)
        put_page(t, j);
    return why;
}

/* ---- routes ---- */

static const char *const nothing[] = { NULL };
static const char *const members[] = { "domain", "title", "kind",  "before",
                                       "keep",   "pivot", "limit", NULL };
static const struct rules_way way_timeline = { members, nothing, read_timeline, run_timeline };

const struct http_route app_timeline_routes[] = {
    { HTTP_POST, "/v1/admin.change.timeline", rules_call_start,
      .body_bytes_max = TIMELINE_BODY_BYTES_MAX, .permission = "admin.read",
      .label = "admin.change.timeline", .row = &way_timeline, .admin = true },
    { .pattern = NULL },
};
