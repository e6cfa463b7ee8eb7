/* rules_json.c - see rules_json.h. One function an object; members in the order in which people
 * look for them. */
#include "app/change/rules_json.h"

#include "app/admin/fresh.h"
#include "base/units.h"
#include "base/utf8.h"
#include "codec/json_text.h"
#include "event/position.h"

#include <inttypes.h>
#include <stdio.h>

enum { RATE_MAX = 1000 * 1000 };

static const struct {
    const char *unit;
    int64_t ns;
} rate_units[] = { { "s", NS_PER_S }, { "m", 60 * NS_PER_S }, { "h", 3600 * NS_PER_S } };

void rules_rate_format(int64_t count, int64_t per_ns, char out[RULES_RATE_BYTES])
{
    out[0] = '\0';
    if (count <= 0)
        return;
    for (size_t i = 0; i < COUNT_OF(rate_units); i++) {
        if (rate_units[i].ns == per_ns) {
            (void)snprintf(out, RULES_RATE_BYTES, "%" PRId64 "/%s", count, rate_units[i].unit);
            return; /* it fits */
        }
    }
    (void)snprintf(out, RULES_RATE_BYTES, "%" PRId64 "/%" PRId64 "ns", count, per_ns); /* fits */
}

bool rules_rate_parse(str text, int64_t *count, int64_t *per_ns)
{
    str unit = text, number = str_split(&unit, '/');
    int64_t ns = unit.p == NULL ? NS_PER_S : 0, n;
    if (str_eq(text, STR("none"))) {
        *count = 0;
        *per_ns = NS_PER_S;
        return true;
    }
    for (size_t i = 0; i < COUNT_OF(rate_units); i++)
        if (unit.p != NULL && str_eq(unit, str_of(rate_units[i].unit)))
            ns = rate_units[i].ns;
    if (ns == 0 || !str_to_i64(number, &n) || n < 1 || n > RATE_MAX)
        return false;
    *count = n;
    *per_ns = ns;
    return true;
}

/* ---- members ---- */

/* {"name": or ,"name": */
static void put_name(const struct rules_json *j, char before, const char *name)
{
    buf_printf(j->out, "%c\"%s\":", before, name);
}

static void put_text(const struct rules_json *j, char before, const char *name, str text)
{
    put_name(j, before, name);
    if (text.n == 0) {
        buf_put(j->out, STR("null"));
    } else if (utf8_valid(text)) {
        json_text_append(j->out, text);
    } else {
        str mended = json_text_quote(j->arena, text); /* an error that was cut */
        buf_put(j->out, mended.p != NULL ? mended : STR("null"));
    }
}

static void put_count(const struct rules_json *j, char before, const char *name, uint64_t n)
{
    buf_printf(j->out, "%c\"%s\":%" PRIu64, before, name, n);
}

static void put_flag(const struct rules_json *j, char before, const char *name, bool is)
{
    buf_printf(j->out, "%c\"%s\":%s", before, name, is ? "true" : "false");
}

static void put_time(const struct rules_json *j, char before, const char *name, store_time t)
{
    put_name(j, before, name);
    fresh_put_time(j->out, t.ns);
}

/* at.ns 0: by the number, which is a microsecond. */
static void put_position(const struct rules_json *j, char before, const char *name, uint64_t seq,
                         store_time at)
{
    char text[EVENT_POSITION_BYTES];
    const struct event_position p = {
        .log = j->log, .seq = seq, .at_ms = at.ns > 0 ? at.ns / NS_PER_MS : (int64_t)(seq / 1000)
    };
    put_name(j, before, name);
    if (seq == 0)
        buf_put(j->out, STR("null"));
    else
        buf_printf(j->out, "\"%.*s\"", (int)event_position_print(&p, text), text);
}

/* How long ago, in whole s; null: never. */
static void put_age(const struct rules_json *j, char before, const char *name, store_time t)
{
    put_name(j, before, name);
    int64_t ns = j->now.ns - t.ns;
    if (t.ns == STORE_TIME_NEVER.ns)
        buf_put(j->out, STR("null"));
    else
        buf_printf(j->out, "%" PRId64, ns > 0 ? ns / NS_PER_S : 0);
}

/* ---- rules ---- */

static void put_counts(const struct rules_json *j, const struct change_rule_status *r)
{
    static const char names[CHANGE_STATES][16] = { "ready", "waiting", "scheduled", "dead" };
    for (unsigned i = 0; i < CHANGE_STATES; i++)
        put_count(j, ',', names[i], r->counts[i]);
    put_count(j, ',', "matched", r->matched);
    put_count(j, ',', "collapsed", r->collapsed);
    put_count(j, ',', "done", r->done);
    put_count(j, ',', "ignored", r->ignored);
    put_count(j, ',', "failures", r->failed);
    put_count(j, ',', "died", r->died);
    put_count(j, ',', "dropped", r->dropped);
    put_count(j, ',', "refused", r->refused);
    put_count(j, ',', "looped", r->looped);
    put_count(j, ',', "sampled", r->sampled);
    put_count(j, ',', "expired", r->expired);
}

static void put_limit(const struct rules_json *j, const struct change_rule_status *r)
{
    char rate[RULES_RATE_BYTES];
    rules_rate_format(r->rate_count, r->rate_per_ns, rate);
    put_name(j, ',', "limit");
    buf_printf(j->out, "{\"concurrency\":%" PRId64, r->concurrency);
    put_text(j, ',', "rate", str_of(rate));
    buf_put(j->out, STR(",\"types\":{"));
    for (unsigned i = 0; i < r->types_count; i++) {
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        json_text_append(j->out, r->types[i].type);
        buf_printf(j->out, ":%" PRId64, r->types[i].concurrency);
    }
    buf_put(j->out, STR("}}"));
    put_flag(j, ',', "override", r->overridden);
}

static void put_own(const struct rules_json *j, const struct change_rule_status *r)
{
    static const char *const by[RULE_BYS] = {
        [RULE_BY_TYPE] = "type", [RULE_BY_DOMAIN] = "domain", [RULE_BY_TARGET] = "target"
    };
    char backoff[UNITS_TEXT_BYTES];
    if (!r->calls) {
        buf_put(j->out, STR(",\"concurrency_of\":null,\"retries\":null,\"backoff\":null,"
                            "\"backoff_factor\":null"));
        return;
    }
    put_name(j, ',', "concurrency_of");
    for (unsigned b = 0; b < RULE_BYS; b++) {
        put_name(j, b == 0 ? '{' : ',', by[b]);
        for (unsigned i = 0; i < r->limits_count[b]; i++) {
            buf_put_c(j->out, i == 0 ? '{' : ',');
            json_text_append(j->out, r->limits[b][i].name);
            buf_printf(j->out, ":%" PRId64, r->limits[b][i].count);
        }
        buf_put(j->out, r->limits_count[b] == 0 ? STR("{}") : STR("}"));
    }
    units_format_duration(r->backoff_ns, backoff);
    buf_printf(j->out, "},\"retries\":%" PRId64 ",\"backoff\":\"%s\",\"backoff_factor\":%" PRId64,
               r->retries, backoff, r->backoff_factor);
}

static void put_target(const struct rules_json *j, const struct change_target_status *t)
{
    put_text(j, '{', "name", t->name);
    put_count(j, ',', "running", t->running);
    put_count(j, ',', "failed", t->failed);
    put_flag(j, ',', "drained", t->drained);
    put_time(j, ',', "paused_until", t->paused_until);
    put_text(j, ',', "last_error", str_of(t->last_error));
    buf_put_c(j->out, '}');
}

void rules_json_drained(const struct rules_json *j, bool drained,
                        const struct change_target_status *was)
{
    put_text(j, '{', "target", was->name);
    put_flag(j, ',', "drained", drained);
    put_name(j, ',', "was");
    put_target(j, was);
    buf_put_c(j->out, '}');
}

static void put_targets(const struct rules_json *j, const struct change_target_status *t,
                        unsigned count)
{
    put_name(j, ',', "targets");
    buf_put_c(j->out, '[');
    for (unsigned i = 0; i < count; i++) {
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        put_target(j, &t[i]);
    }
    buf_put_c(j->out, ']');
}

void rules_json_rule(const struct rules_json *j, const struct change_status *s,
                     const struct change_rule_status *r)
{
    uint64_t left =
        r->counts[CHANGE_READY] + r->counts[CHANGE_WAITING] + r->counts[CHANGE_SCHEDULED];
    put_text(j, '{', "name", r->name);
    put_text(j, ',', "effect",
             r->effect == RULE_EFFECTS ? STR("") : str_of(rule_effect_name(r->effect)));
    put_flag(j, ',', "paused", r->paused);
    put_flag(j, ',', "removed", r->removed);
    put_flag(j, ',', "replaying", r->replaying);
    put_position(j, ',', "position", s->cursor, s->cursor_at);
    put_count(j, ',', "lag", s->behind + left);
    put_age(j, ',', "oldest_s", r->oldest);
    put_count(j, ',', "running", r->running);
    put_limit(j, r);
    put_own(j, r);
    put_targets(j, r->targets, r->targets_count);
    put_counts(j, r);
    put_text(j, ',', "last_error", str_of(r->last_error));
    put_time(j, ',', "last_error_at",
             r->last_error[0] == '\0' ? STORE_TIME_ZERO : r->last_error_at);
    buf_put_c(j->out, '}');
}

void rules_json_status(const struct rules_json *j, const struct change_status *s)
{
    if (s == NULL) {
        buf_put(j->out, STR(",\"router\":null,\"rules\":null,\"targets\":null"));
        return;
    }
    put_name(j, ',', "router");
    put_position(j, '{', "position", s->cursor, s->cursor_at);
    put_count(j, ',', "behind", s->behind);
    put_age(j, ',', "lag_s", s->behind == 0 || s->cursor_at.ns == 0 ? j->now : s->cursor_at);
    put_count(j, ',', "missed", s->missed);
    put_time(j, ',', "missed_at", s->missed_at);
    buf_put(j->out, STR("},\"rules\":["));
    for (unsigned i = 0; i < s->rules_count; i++) {
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        rules_json_rule(j, s, &s->rules[i]);
    }
    buf_put_c(j->out, ']');
    put_targets(j, s->targets, s->targets_count);
}

/* ---- items ---- */

static void put_id(const struct rules_json *j, char before, const char *name, uint64_t id)
{
    buf_printf(j->out, "%c\"%s\":\"%" PRIu64 "\"", before, name, id);
}

void rules_json_item(const struct rules_json *j, const struct change_item *i)
{
    put_id(j, '{', "id", i->id);
    put_position(j, ',', "position", i->seq, STORE_TIME_ZERO);
    put_text(j, ',', "state", str_of(change_state_name(i->state)));
    put_flag(j, ',', "running", i->running);
    put_count(j, ',', "attempts", i->attempts);
    put_time(j, ',', "taken_at", i->taken);
    put_time(j, ',', "due_at", i->state == CHANGE_SCHEDULED ? i->due : STORE_TIME_ZERO);
    put_text(j, ',', "stream", i->stream);
    put_text(j, ',', "domain", i->domain);
    put_text(j, ',', "title", i->title);
    put_text(j, ',', "type", i->type);
    put_text(j, ',', "target", i->target);
    put_text(j, ',', "error", i->error);
    put_text(j, ',', "why", i->why);
    if (i->bytes.n > 0)
        put_text(j, ',', "event", i->bytes);
    buf_put_c(j->out, '}');
}

void rules_json_listing(const struct rules_json *j, const struct change_listing *l)
{
    buf_put(j->out, STR("{\"items\":["));
    for (unsigned i = 0; i < l->count; i++) {
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        rules_json_item(j, &l->items[i]);
    }
    buf_put_c(j->out, ']');
    if (l->next != 0)
        put_id(j, ',', "next", l->next);
    buf_put_c(j->out, '}');
}

static void put_lane(const struct rules_json *j, const struct change_lane *l)
{
    put_text(j, '{', "domain", l->domain);
    put_text(j, ',', "type", l->type);
    put_count(j, ',', "running", l->running);
    for (unsigned i = 0; i < CHANGE_STATES; i++)
        put_count(j, ',', change_state_name((enum change_state)i), l->counts[i]);
    put_time(j, ',', "oldest_at", l->oldest);
    buf_put_c(j->out, '}');
}

void rules_json_lanes(const struct rules_json *j, const struct change_lanes *l)
{
    buf_put(j->out, STR("{\"lanes\":["));
    for (unsigned i = 0; i < l->count; i++) {
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        put_lane(j, &l->lanes[i]);
    }
    buf_put_c(j->out, ']');
    put_flag(j, ',', "cut", l->cut);
    buf_put_c(j->out, '}');
}

/* ---- what would be done ---- */

void rules_json_explanation(const struct rules_json *j, uint64_t seq,
                            const struct change_explanation *e)
{
    put_position(j, '{', "position", seq, e->taken);
    put_time(j, ',', "taken_at", e->taken);
    put_text(j, ',', "stream", e->stream);
    put_text(j, ',', "domain", e->domain);
    put_flag(j, ',', "routed", e->routed);
    buf_put(j->out, STR(",\"rules\":["));
    for (unsigned i = 0; i < e->count; i++) {
        const struct change_explained *r = &e->rules[i];
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        put_text(j, '{', "rule", r->rule);
        put_flag(j, ',', "matches", r->matches);
        put_text(j, ',', "why", r->why);
        put_position(j, ',', "collapsed_into", r->collapsed_into, STORE_TIME_ZERO);
        put_name(j, ',', "item");
        if (r->item == NULL)
            buf_put(j->out, STR("null"));
        else
            rules_json_item(j, r->item);
        buf_put_c(j->out, '}');
    }
    buf_put(j->out, STR("]"));
    put_text(j, ',', "event", e->bytes);
    buf_put_c(j->out, '}');
}

void rules_json_dry(const struct rules_json *j, const struct change_dry *d)
{
    put_count(j, '{', "looked", d->looked);
    if (d->stopped)
        buf_put(j->out, STR(",\"stopped\":true"));
    buf_put(j->out, STR(",\"rules\":["));
    for (unsigned i = 0; i < d->count; i++) {
        const struct change_dry_rule *r = &d->rules[i];
        buf_put(j->out, i == 0 ? STR("") : STR(","));
        put_text(j, '{', "rule", r->rule);
        put_text(j, ',', "effect", str_of(rule_effect_name(r->effect)));
        put_count(j, ',', "matched", r->matched);
        put_count(j, ',', "unsampled", r->unsampled);
        put_count(j, ',', "too_old", r->too_old);
        put_count(j, ',', "open", r->open);
        put_count(j, ',', "untitled", r->untitled);
        put_position(j, ',', "example", r->example, STORE_TIME_ZERO);
        buf_put_c(j->out, '}');
    }
    buf_put(j->out, STR("]}"));
}
