/* shown.c - flights as JSON. */
#include "flight/shown.h"

#include "base/date.h"
#include "codec/json_text.h"
#include "flight/share_impl.h"

#include <inttypes.h>

enum { SHOWN_BYTES_MAX = 4 << 20 };

static void put_text(struct buf *b, struct arena *a, const char *name, str value)
{
    str json = json_text_quote(a, value);
    buf_printf(b, ",\"%s\":", name);
    buf_put(b, json.p != NULL ? json : STR("null"));
}

void flight_json(struct buf *b, struct arena *a, const struct flight_seen *f, bool has_record,
                 wall now)
{
    char since[DATE_RFC3339_BYTES + 1];
    str node = f->token; /* FENCE.NODE: which generation, and who leads */
    uint64_t fence = 0;
    date_format_ms(now.ns - f->age_ms * NS_PER_MS, since);
    buf_printf(b, "{\"state\":\"%s\"", f->state);
    put_text(b, a, "what", f->label.n > 0 ? f->label : f->key);
    buf_printf(b, ",\"waiters\":%" PRIu64 ",\"since\":\"%s\",\"age_ms\":%" PRId64, f->waiters,
               since, f->age_ms);
    if (f->id != NULL && has_record) {
        char id[SHARE_ID_TEXT + 1];
        share_id_text(f->id, id);
        buf_printf(b, ",\"record\":\"pal:f:{%s}\"", id);
    }
    if (node.n > 0 && str_to_u64(str_split(&node, '.'), &fence)) {
        buf_printf(b, ",\"generation\":%" PRIu64, fence);
        put_text(b, a, "leader", node);
    }
    buf_put_c(b, '}');
}

struct shown {
    struct arena *arena;
    struct buf text;
    wall now;
    unsigned count, left_out;
    bool has_records;
};

static bool shown_each(void *ctx, const struct flight_seen *f)
{
    struct shown *s = ctx;
    if (s->count == FLIGHTS_SHOWN_MAX) {
        s->left_out++;
        return true;
    }
    if (s->count++ > 0)
        buf_put_c(&s->text, ',');
    flight_json(&s->text, s->arena, f, s->has_records, s->now);
    return true;
}

static void counts_put(struct buf *b, struct flights *fs, const struct flight_shared *shared)
{
    struct flight_stats f = { 0 };
    struct flight_shared_stats h = { 0 };
    if (fs != NULL)
        flights_stats_get(fs, &f);
    if (shared != NULL)
        flight_shared_stats_get(shared, &h);
    const struct {
        const char *name;
        uint64_t count;
    } counts[] = {
        { "flights", f.flights },     { "waiters", f.waiters },
        { "made", f.made },           { "failed", f.failed },
        { "shared", f.shared },       { "negative", f.negative },
        { "refused", f.refused },     { "timed_out", f.timed_out },
        { "joins", h.joins },         { "led", h.grants },
        { "takeovers", h.takeovers }, { "puts_lost", h.puts_lost },
        { "alone", h.alone },         { "degraded_ms", h.redis.down_ns / (uint64_t)NS_PER_MS },
    };
    for (size_t i = 0; i < COUNT_OF(counts); i++)
        buf_printf(b, "%s\"%s\":%" PRIu64, i == 0 ? ",\"counts\":{" : ",", counts[i].name,
                   counts[i].count);
    buf_put_c(b, '}');
}

str flights_json(struct flights *fs, const struct flight_shared *shared, wall now, struct arena *a)
{
    struct shown s = { .arena = a, .now = now, .has_records = shared != NULL };
    bool up = shared != NULL && flight_shared_is_up(shared);
    const char *redis = shared == NULL ? "none" : up ? "up" : "away";
    buf_init(&s.text, SHOWN_BYTES_MAX);
    buf_printf(&s.text, "{\"redis\":\"%s\",\"degraded\":%s", redis,
               shared != NULL && !up ? "true" : "false");
    if (shared != NULL)
        put_text(&s.text, a, "node", str_of(flight_shared_node(shared)));
    counts_put(&s.text, fs, shared);
    buf_put(&s.text, STR(",\"flights\":["));
    if (fs != NULL)
        flights_each(fs, shown_each, &s);
    buf_printf(&s.text, "],\"left_out\":%u}", s.left_out);
    return buf_take(&s.text, a);
}
