/* flights.c - what is being made on this server, for whom, and by whom: what "flight ls" shows. */
#include "app/answer.h"
#include "app/app.h"
#include "app/errors.h"
#include "base/arena.h"
#include "base/buf.h"
#include "base/date.h"
#include "codec/json_text.h"
#include "flight/flight.h"
#include "flight/shared.h"
#include "loop/loop.h"

#include <stdio.h>

enum { FLIGHTS_SHOWN_MAX = 1000, TEXT_BYTES_MAX = 4 << 20, ID_TEXT_BYTES = 2 * FLIGHT_ID_BYTES };

struct show {
    struct http_exchange *x;
    const struct app *app;
    wall now;
    unsigned shown, left_out;
    struct buf text;
};

static void put_text(struct show *s, const char *name, str value)
{
    str json = json_text_quote(http_arena(s->x), value);
    buf_printf(&s->text, ",\"%s\":", name);
    buf_put(&s->text, json.p != NULL ? json : STR("null"));
}

static void put_number(struct show *s, const char *name, uint64_t n)
{
    buf_printf(&s->text, "%s\"%s\":%llu", s->text.p[s->text.n - 1] == '{' ? "" : ",", name,
               (unsigned long long)n);
}

/* A token is FENCE.NODE: which generation, and who leads. */
static void put_lease(struct show *s, str token)
{
    str node = token;
    uint64_t fence = 0;
    if (token.n == 0 || !str_to_u64(str_split(&node, '.'), &fence))
        return;
    put_number(s, "generation", fence);
    put_text(s, "leader", node);
}

static void put_id(struct show *s, const unsigned char *id)
{
    char text[ID_TEXT_BYTES + 1];
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++)
        (void)snprintf(text + 2 * i, 3, "%02x", id[i]); /* fits */
    buf_printf(&s->text, ",\"record\":\"pal:f:{%s}\"", text);
}

static bool put_flight(void *ctx, const struct flight_seen *f)
{
    struct show *s = ctx;
    char since[DATE_RFC3339_BYTES + 1];
    if (s->shown == FLIGHTS_SHOWN_MAX) {
        s->left_out++;
        return true;
    }
    buf_printf(&s->text, "%s{\"state\":\"%s\"", s->shown++ > 0 ? "," : "", f->state);
    put_text(s, "what", f->label.n > 0 ? f->label : f->key);
    put_number(s, "waiters", f->waiters);
    date_format_ms(s->now.ns - f->age_ms * NS_PER_MS, since);
    buf_printf(&s->text, ",\"since\":\"%s\",\"age_ms\":%lld", since, (long long)f->age_ms);
    if (f->id != NULL && s->app->page.shared != NULL)
        put_id(s, f->id);
    put_lease(s, f->token);
    buf_put_c(&s->text, '}');
    return true;
}

static void put_counts(struct show *s)
{
    struct flight_stats f = { 0 };
    struct flight_shared_stats h = { 0 };
    if (s->app->page.flights != NULL)
        flights_stats_get(s->app->page.flights, &f);
    if (s->app->page.shared != NULL)
        flight_shared_stats_get(s->app->page.shared, &h);
    buf_put(&s->text, STR(",\"counts\":{"));
    put_number(s, "flights", f.flights);
    put_number(s, "waiters", f.waiters);
    put_number(s, "made", f.made);
    put_number(s, "failed", f.failed);
    put_number(s, "shared", f.shared);
    put_number(s, "negative", f.negative);
    put_number(s, "refused", f.refused);
    put_number(s, "timed_out", f.timed_out);
    put_number(s, "joins", h.joins);
    put_number(s, "led", h.grants);
    put_number(s, "takeovers", h.takeovers);
    put_number(s, "puts_lost", h.puts_lost);
    put_number(s, "alone", h.alone);
    put_number(s, "degraded_ms", h.redis.down_ns / (uint64_t)NS_PER_MS);
    buf_put_c(&s->text, '}');
}

static void put_node(struct show *s)
{
    const struct flight_shared *shared = s->app->page.shared;
    bool up = shared != NULL && flight_shared_is_up(shared);
    buf_printf(&s->text, "{\"redis\":\"%s\",\"degraded\":%s",
               shared == NULL ? "none"
               : up           ? "up"
                              : "away",
               shared != NULL && !up ? "true" : "false");
    if (shared != NULL)
        put_text(s, "node", str_of(flight_shared_node(shared)));
}

/* On the loop, where states of flights are. */
static void show(void *ctx)
{
    struct show *s = ctx;
    struct http_exchange *x = s->x;
    buf_init(&s->text, TEXT_BYTES_MAX);
    put_node(s);
    put_counts(s);
    buf_put(&s->text, STR(",\"flights\":["));
    if (s->app->page.flights != NULL)
        flights_each(s->app->page.flights, put_flight, s);
    buf_put_c(&s->text, ']');
    put_number(s, "left_out", s->left_out);
    buf_put_c(&s->text, '}');
    struct buf text = s->text; /* s is gone after the answer */
    str body = buf_status(&text) == ERR_OK ? arena_copy(http_arena(x), buf_str(&text)) : STR_NONE;
    buf_fini(&text);
    if (body.p != NULL)
        answer_json(x, 200, body, "no-store");
    else
        app_fail(x, ERR_LIMIT, NULL);
}

static void get_flights(struct http_exchange *x, void *ctx)
{
    const struct app *app = ctx;
    if (http_draining(x)) {
        app_fail(x, ERR_SHUTDOWN, NULL);
        return;
    }
    struct show *s = app_new(x, sizeof *s);
    if (s == NULL)
        return;
    *s = (struct show){ .x = x, .app = app, .now = clock_wall(app->clock) };
    http_defer(x);
    loop_post(app->loop, show, s);
}

const struct http_route app_flight_routes[] = {
    { HTTP_GET, "/v1/admin.flights", get_flights, .permission = "admin.read",
      .label = "admin.flights", .admin = true },
    { .pattern = NULL },
};
