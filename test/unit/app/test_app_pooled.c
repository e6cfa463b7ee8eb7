/* Goal: what takes long is done on the pool and answered at the request's worker; the loop does
 * neither. Method: a server with a loop; the threads of handler, work and answer are compared. */
#include "app/errors.h"
#include "app/pooled.h"
#include "echo.h"
#include "loop/loop.h"
#include "wire.h"

#include "../cmocka_all.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

struct traveller {
    struct pooled pooled;
    pthread_t worker, pool;
};
static pthread_t loop_thread;

static void travel_run(struct pooled *p)
{
    CONTAINER_OF(p, struct traveller, pooled)->pool = pthread_self();
}

static void travel_answer(struct pooled *p)
{
    const struct traveller *t = CONTAINER_OF(p, struct traveller, pooled);
    bool off_loop = !pthread_equal(t->pool, loop_thread) && !pthread_equal(t->pool, t->worker);
    bool at_worker = pthread_equal(pthread_self(), t->worker);
    http_answer(p->x, off_loop && at_worker ? 200 : 500, STR("here\n"));
}

static void get_travel(struct http_exchange *x, void *app)
{
    struct traveller *t = pooled_new(x, app, sizeof *t);
    if (t == NULL)
        return;
    assert_null(t->pooled.run); /* zeroed */
    t->worker = pthread_self();
    pooled_start(&t->pooled, travel_run, travel_answer);
}

static void get_drained(struct http_exchange *x, void *app)
{
    struct app *a = app;
    http_server_drain(a->http);
    assert_null(pooled_new(x, a, sizeof(struct traveller)));
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static const struct http_route routes[] = {
    { HTTP_GET, "/travel", get_travel, .label = "travel" },
    { HTTP_GET, "/drained", get_drained, .label = "drained" },
    { .pattern = NULL },
};
static const struct http_route *const tables[] = { routes };

static int ask(uint16_t port, const char *path)
{
    char text[128];
    static struct wire_answer answer;
    int n = snprintf(text, sizeof text, "GET %s HTTP/1.1\r\nHost: a\r\n\r\n", path);
    wire_ask(port, (str){ .p = text, .n = (size_t)n }, &answer);
    return answer.status;
}

static void *play_main(void *ctx)
{
    struct app *app = ctx;
    uint16_t port = http_server_port(app->http, 0);
    for (unsigned i = 0; i < 20; i++)
        assert_int_equal(ask(port, "/travel"), 200);
    assert_int_equal(ask(port, "/drained"), 503);
    loop_stop(app->loop);
    return NULL;
}

static void the_loop_neither_works_nor_answers(void **state)
{
    (void)state;
    static struct app app;
    pthread_t player;
    const struct http_listen listen = { .address = "127.0.0.1", .content = true };
    struct err_note note;
    app.loop = loop_new(2);
    loop_thread = pthread_self();
    struct http_server_opts opts = { .listens = &listen,
                                     .listens_count = 1,
                                     .tables = tables,
                                     .tables_count = 1,
                                     .limits = { .threads = 2 },
                                     .hooks = { .refuse = refuse, .app = &app },
                                     .clock = echo_clock(),
                                     .loop = app.loop };
    assert_int_equal(http_server_new(&opts, &app.http, &note), ERR_OK);
    assert_int_equal(http_server_start(app.http, &note), ERR_OK);
    assert_int_equal(pthread_create(&player, NULL, play_main, &app), 0);
    loop_run(app.loop);
    assert_int_equal(pthread_join(player, NULL), 0);
    http_server_free(&app.http);
    loop_free(&app.loop);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_loop_neither_works_nor_answers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
