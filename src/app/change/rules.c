/* rules.c - looking at rules and steering them, for operators:
 *
 *   POST /v1/admin.change.pause, .resume   {"rule"}
 *   POST /v1/admin.change.limit            {"rule", "concurrency", "rate"}; neither: the rule's
 * own.
 *                                          {"rule", "type", "concurrency"}: of jobs of that type
 *   POST /v1/admin.change.replay           {"rule", "from"}
 *   POST /v1/admin.change.drain            {"target", "drained"}
 *   POST /v1/admin.change.explain          {"position"} or {"id", "stream"}
 *   POST /v1/admin.change.dry              {"rules", "last"}
 *
 * How they stand is in GET /v1/admin.change (app/admin/fresh.c), their items in items.c. Listings
 * show events of private wikis and of jobs: all of it is the operator's. */
#include "app/app.h"
#include "app/change/rules_call.h"
#include "base/date.h"
#include "base/units.h"
#include "event/log.h"
#include "event/position.h"

enum {
    RULES_BODY_BYTES_MAX = 8192,
    DRY_BODY_BYTES_MAX = 2 * RULE_TEXT_BYTES_MAX + RULES_BODY_BYTES_MAX,
    DRY_LAST_DEFAULT = 10000,
    DRY_MS_MAX = 10000,
    CONCURRENCY_MAX = 10000, /* as in a rule */
};

static const char *const nothing[] = { NULL };
static const char *const rule_alone[] = { "rule", NULL };

/* ---- pause, resume ---- */

static err read_pause(struct rules_call *c, const json_t *body)
{
    (void)body;
    c->paused = true;
    return ERR_OK;
}

static err read_resume(struct rules_call *c, const json_t *body)
{
    (void)body;
    c->paused = false;
    return ERR_OK;
}

static err run_pause(struct rules_call *c, const struct rules_json *out)
{
    err why = change_pause(c->pooled.app->change, c->rule, c->paused, &c->note);
    return why == ERR_OK ? rules_put_rule(c, out) : why;
}

/* ---- limit ---- */

static err read_limit(struct rules_call *c, const json_t *body)
{
    struct change_limits l = { .concurrency = 0, .rate_count = -1, .rate_per_ns = NS_PER_S };
    str rate = STR("");
    err why = json_body_i64(body, "concurrency", 1, CONCURRENCY_MAX, &l.concurrency, &c->note);
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = json_body_str(body, "rate", &rate, &c->note);
    if (why == ERR_OK && !rules_rate_parse(rate, &l.rate_count, &l.rate_per_ns))
        return err_bad(&c->note, "rate: 10/s, 10/m, 10/h or none is wanted");
    if (why == ERR_OK && rate.n > 0 && json_object_get(body, "type") != NULL)
        return err_bad(&c->note, "rate: a type has none");
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = rules_read_text(c, body, "type", &l.type);
    c->limits = l;
    return why;
}

static err run_limit(struct rules_call *c, const struct rules_json *out)
{
    err why = change_limit(c->pooled.app->change, c->rule, &c->limits, &c->note);
    return why == ERR_OK ? rules_put_rule(c, out) : why;
}

/* ---- replay ---- */

static err read_replay(struct rules_call *c, const json_t *body)
{
    str from = STR("");
    int64_t ns;
    err why = json_body_str(body, "from", &from, &c->note);
    if (why != ERR_OK)
        return why;
    if (!date_parse_any(from, &ns)) {
        if (!units_parse_duration(from, &ns))
            return err_bad(&c->note, "from: " DATE_WANTED ", or a duration such as 2h, is wanted");
        ns = clock_store(c->pooled.app->clock).ns - ns;
    }
    if (ns > clock_store(c->pooled.app->clock).ns)
        return err_bad(&c->note, "from: that instant is still to come");
    c->from = (store_time){ .ns = ns < 0 ? 0 : ns };
    return ERR_OK;
}

static err run_replay(struct rules_call *c, const struct rules_json *out)
{
    err why = change_replay(c->pooled.app->change, c->rule, c->from, &c->note);
    return why == ERR_OK ? rules_put_rule(c, out) : why;
}

/* ---- drain ---- */

static err read_drain(struct rules_call *c, const json_t *body)
{
    c->target.drained = true;
    err why = json_body_bool(body, "drained", &c->target.drained, &c->note);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    return rules_read_text(c, body, "target", &c->target.name);
}

static err run_drain(struct rules_call *c, const struct rules_json *out)
{
    struct change_target_status was;
    err why = change_drain_target(c->pooled.app->change, c->target.name, c->target.drained, &was,
                                  &c->note);
    if (why == ERR_OK)
        rules_json_drained(out, c->target.drained, &was);
    return why;
}

/* ---- explain ---- */

static err read_explain(struct rules_call *c, const json_t *body)
{
    struct event_position p;
    str position = STR("");
    err why = json_body_str(body, "position", &position, &c->note);
    c->event.seq = 0;
    if (why == ERR_OK && !event_position_parse(position, &p))
        return err_bad(&c->note, "position: the id of an event in a stream is wanted");
    if (why == ERR_OK && p.log != event_log_id(c->pooled.app->events))
        return err_bad(&c->note, "position: it is of another server, or of a log that is no more");
    if (why == ERR_OK)
        c->event.seq = p.seq;
    if (why == ERR_NOT_FOUND)
        why = rules_read_text(c, body, "id", &c->event.id);
    if (why == ERR_OK)
        why = rules_read_text(c, body, "stream", &c->event.stream);
    if (why == ERR_OK && c->event.seq == 0 && c->event.id.n == 0)
        return err_bad(&c->note, "position, or id, is missing");
    return why;
}

static err run_explain(struct rules_call *c, const struct rules_json *out)
{
    const struct app *app = c->pooled.app;
    struct change_explanation e;
    err why = ERR_OK;
    if (c->event.seq == 0)
        why = event_log_find(app->events, c->event.stream, c->event.id, &c->event.seq);
    if (why == ERR_OK)
        why = change_explain(app->change, c->event.seq, out->arena, &e, &c->note);
    if (why == ERR_NOT_FOUND && c->note.text[0] == '\0')
        err_note_set(&c->note, "The event log does not have this event, or not any more.");
    if (why == ERR_OK)
        rules_json_explanation(out, c->event.seq, &e);
    return why;
}

/* ---- dry ---- */

static err read_dry(struct rules_call *c, const json_t *body)
{
    int64_t last = DRY_LAST_DEFAULT;
    err why = json_body_i64(body, "last", 1, CHANGE_DRY_MAX, &last, &c->note);
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    struct clock *clock = c->pooled.app->clock;
    c->dry = (struct change_dry){ .last = (unsigned)last,
                                  .deadline = mono_add_ms(clock_mono(clock), DRY_MS_MAX) };
    return rules_read_text(c, body, "rules", &c->text);
}

/* A line each. */
static void dry_fault(void *ctx, const struct rule_fault *fault)
{
    struct buf *lines = ctx;
    buf_printf(lines, "%sline %u: %.*s%s%s", lines->n > 0 ? "\n" : "", fault->line,
               STR_ARG(fault->rule), fault->rule.n > 0 ? ": " : "", fault->text);
}

/* NULL without an error: there is no text, and those in force are meant. */
static err dry_rules(struct rules_call *c, struct arena *a, struct rule_set **rules)
{
    struct buf lines;
    *rules = NULL;
    if (c->text.n == 0)
        return ERR_OK;
    buf_init(&lines, RULE_TEXT_BYTES_MAX);
    err why = rule_set_read(c->text, dry_fault, &lines, rules);
    if (why != ERR_OK)
        c->faults = buf_take(&lines, a);
    buf_fini(&lines);
    return why;
}

static err run_dry(struct rules_call *c, const struct rules_json *out)
{
    struct rule_set *rules;
    err why = dry_rules(c, out->arena, &rules); /* a text of 1 MiB takes its time */
    if (why == ERR_OK)
        why = change_dry_run(c->pooled.app->change, rules, &c->dry, out->arena, &c->note);
    if (why == ERR_OK)
        rules_json_dry(out, &c->dry);
    rule_set_unref(&rules);
    return why;
}

/* ---- routes ---- */

static const char *const limit_members[] = { "rule", "type", "concurrency", "rate", NULL };
static const char *const replay_members[] = { "rule", "from", NULL };
static const char *const drain_members[] = { "target", "drained", NULL };
static const char *const drain_wanted[] = { "target", NULL };
static const char *const explain_members[] = { "position", "id", "stream", NULL };
static const char *const dry_members[] = { "rules", "last", NULL };

static const struct rules_way way_pause = { rule_alone, rule_alone, read_pause, run_pause };
static const struct rules_way way_resume = { rule_alone, rule_alone, read_resume, run_pause };
static const struct rules_way way_limit = { limit_members, rule_alone, read_limit, run_limit };
static const struct rules_way way_replay = { replay_members, replay_members, read_replay,
                                             run_replay };
static const struct rules_way way_drain = { drain_members, drain_wanted, read_drain, run_drain };
static const struct rules_way way_explain = { explain_members, nothing, read_explain, run_explain };
static const struct rules_way way_dry = { dry_members, nothing, read_dry, run_dry };

#define STEER(verb, what)                                                                          \
    {                                                                                              \
        HTTP_POST, "/v1/admin.change." verb, rules_call_start,                                     \
            .body_bytes_max = RULES_BODY_BYTES_MAX, .permission = "admin.write",                   \
            .label = "admin.change." verb, .row = &(what), .admin = true                           \
    }
const struct http_route app_rule_routes[] = {
    STEER("pause", way_pause),
    STEER("resume", way_resume),
    STEER("limit", way_limit),
    STEER("replay", way_replay),
    STEER("drain", way_drain),
    { HTTP_POST, "/v1/admin.change.explain", rules_call_start,
      .body_bytes_max = RULES_BODY_BYTES_MAX, .permission = "admin.read",
      .label = "admin.change.explain", .row = &way_explain, .admin = true },
    { HTTP_POST, "/v1/admin.change.dry", rules_call_start, .body_bytes_max = DRY_BODY_BYTES_MAX,
      .permission = "admin.read", .label = "admin.change.dry", .row = &way_dry, .pool = true,
      .admin = true },
    { .pattern = NULL },
};
