/* flights.c - GET /v1/admin.flights: what is being made on this server (flight/shown.h). */
#include "app/answer.h"
#include "app/app.h"
#include "app/errors.h"
#include "flight/shown.h"
#include "loop/loop.h"

struct show {
    struct http_exchange *x;
    const struct app *app;
};

/* On the loop, where states of flights are. */
static void flights_show(void *ctx)
{
    struct show *s = ctx;
    const struct page_service *page = &s->app->page;
    str body =
        flights_json(page->flights, page->shared, clock_wall(s->app->clock), http_arena(s->x));
    if (body.p != NULL)
        answer_json(s->x, 200, body, "no-store");
    else
        app_fail(s->x, ERR_LIMIT, NULL);
}

static void get_flights(struct http_exchange *x, void *app)
{
    struct show *s = app_may_wait(x) ? app_new(x, sizeof *s) : NULL;
    if (s == NULL)
        return;
    *s = (struct show){ .x = x, .app = app };
    http_defer(x);
    loop_post(s->app->loop, flights_show, s);
}

const struct http_route app_flight_routes[] = {
    { HTTP_GET, "/v1/admin.flights", get_flights, .permission = "admin.read",
      .label = "admin.flights", .pool = true, .first = true, .admin = true },
    { .pattern = NULL },
};
