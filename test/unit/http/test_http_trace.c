/* Goal: a request that was handed over shows its stages in order, the slowest are kept whatever
 * comes after them, and a broken invariant prints what its thread was at work for. Method: the ring
 * and the kept requests alone, with threads; a live server; servers in children that die. */
#include "echo.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "http/server.h"
#include "http/slow_kept.h"
#include "http/trace.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { WRITERS = 4, EACH = 20000, READS = 200, HELD_MS = 20, FAST = 1000, DEATH_BYTES = 4096 };

static struct http_slow listed[HTTP_SLOW_MAX + 1];

/* ---- the ring ---- */

static void the_ring_keeps_the_last_events(void **state)
{
    (void)state;
    static struct trace t;
    uint64_t events[HTTP_TRACE_MAX];
    unsigned lost = 1;
    assert_int_equal(trace_copy(&t, events, &lost), 0);
    assert_int_equal(lost, 0);
    for (int i = 0; i < HTTP_TRACE_MAX + 36; i++)
        trace_put(&t, TRACE_TASK, i);
    assert_int_equal(trace_copy(&t, events, &lost), HTTP_TRACE_MAX);
    assert_int_equal(lost, 36);
    for (int i = 0; i < HTTP_TRACE_MAX; i++) {
        struct http_event e = http_event_of(events[i]);
        assert_int_equal(e.ns, 36 + i);
        assert_string_equal(e.stage, "task");
        assert_true(strlen(e.thread) > 0);
    }
}

static void times_are_cut_to_what_an_event_holds(void **state)
{
    (void)state;
    static struct trace t;
    uint64_t events[HTTP_TRACE_MAX];
    unsigned lost;
    trace_put(&t, TRACE_HEAD, -1);
    trace_put(&t, TRACE_CUT, INT64_MAX);
    assert_int_equal(trace_copy(&t, events, &lost), 2);
    assert_int_equal(http_event_of(events[0]).ns, 0);
    assert_string_equal(http_event_of(events[0]).stage, "head");
    assert_int_equal(http_event_of(events[1]).ns, (INT64_C(1) << 48) - 1);
    assert_string_equal(http_event_of(events[1]).stage, "cut");
}

static void *ring_write(void *trace)
{
    for (int i = 0; i < EACH; i++)
        trace_put(trace, TRACE_POSTED, i);
    return NULL;
}

static void writers_and_readers_get_whole_events(void **state)
{
    (void)state;
    static struct trace t;
    pthread_t threads[WRITERS];
    uint64_t events[HTTP_TRACE_MAX];
    unsigned lost;
    for (int i = 0; i < HTTP_TRACE_MAX; i++)
        trace_put(&t, TRACE_POSTED, 0);
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, ring_write, &t), 0);
    for (int i = 0; i < READS; i++) {
        unsigned count = trace_copy(&t, events, &lost);
        for (unsigned k = 0; k < count; k++) {
            assert_string_equal(http_event_of(events[k]).stage, "posted");
            assert_true(http_event_of(events[k]).ns < EACH);
        }
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(trace_copy(&t, events, &lost), HTTP_TRACE_MAX);
    assert_int_equal(lost, WRITERS * EACH);
}

/* ---- what is kept ---- */

static void keep(struct slow *s, int64_t ms, int64_t finished_s)
{
    const struct http_slow r = { .ns = ms * NS_PER_MS,
                                 .finished = { .ns = finished_s * NS_PER_S } };
    if (slow_wants(s, r.ns))
        slow_keep(s, &r);
}

static unsigned list(struct slow *s, int64_t now_s)
{
    return slow_list(s, (mono){ .ns = now_s * NS_PER_S }, listed, COUNT_OF(listed));
}

static void the_slowest_are_kept_and_listed_first(void **state)
{
    (void)state;
    struct slow *s = slow_new();
    assert_false(slow_wants(s, HTTP_SLOW_NS_MIN - 1));
    for (int64_t i = 0; i < 1000; i++) /* each of 1 to 1000 once, in disorder */
        keep(s, 1 + i * 7 % 1000, 1);
    assert_int_equal(list(s, 1), HTTP_SLOW_MAX);
    for (int i = 0; i < HTTP_SLOW_MAX; i++)
        assert_int_equal(listed[i].ns, (1000 - i) * NS_PER_MS);
    assert_false(slow_wants(s, (1000 - HTTP_SLOW_MAX + 1) * NS_PER_MS));
    assert_true(slow_wants(s, (1000 - HTTP_SLOW_MAX + 1) * NS_PER_MS + 1));
    assert_int_equal(slow_list(s, (mono){ .ns = NS_PER_S }, listed, 3), 3);
    assert_int_equal(listed[2].ns, 998 * NS_PER_MS);
    slow_free(&s);
}

static void after_an_hour_they_make_room(void **state)
{
    (void)state;
    struct slow *s = slow_new();
    for (int i = 0; i < HTTP_SLOW_MAX; i++)
        keep(s, 5000, i < 2 ? 1000 : 10);
    assert_false(slow_wants(s, 5 * NS_PER_MS));
    slow_sweep(s, (mono){ .ns = 3600 * NS_PER_S });
    assert_false(slow_wants(s, 5 * NS_PER_MS));
    slow_sweep(s, (mono){ .ns = 3610 * NS_PER_S });
    keep(s, 5, 3610);
    assert_int_equal(list(s, 3610), 3);
    assert_int_equal(listed[2].ns, 5 * NS_PER_MS);
    assert_int_equal(list(s, 4600), 1);
    slow_free(&s);
}

static void *slow_write(void *slow)
{
    for (int64_t i = 0; i < 2000; i++)
        keep(slow, 1 + i, 1);
    return NULL;
}

static void many_threads_keep_beside_each_other(void **state)
{
    (void)state;
    struct slow *s = slow_new();
    pthread_t threads[WRITERS];
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, slow_write, s), 0);
    for (int i = 0; i < READS; i++) {
        slow_sweep(s, (mono){ .ns = NS_PER_S });
        unsigned count = list(s, 1);
        for (unsigned k = 1; k < count; k++)
            assert_true(listed[k - 1].ns >= listed[k].ns);
    }
    for (int i = 0; i < WRITERS; i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    assert_int_equal(list(s, 1), HTTP_SLOW_MAX);
    assert_int_equal(listed[HTTP_SLOW_MAX - 1].ns,
                     (2000 - HTTP_SLOW_MAX / WRITERS + 1) * NS_PER_MS);
    slow_free(&s);
}

/* ---- a server ---- */

static bool ends_with_stages(const struct http_slow *r, const char *stages)
{
    char all[512] = "";
    for (unsigned i = 0; i < r->events_count; i++) {
        struct http_event e = http_event_of(r->events[i]);
        (void)snprintf(all + strlen(all), sizeof all - strlen(all), "%s%s", i == 0 ? "" : " ",
                       e.stage);
        assert_true(e.ns <= r->ns);
        if (i > 0)
            assert_true(e.ns >= http_event_of(r->events[i - 1]).ns);
    }
    if (strcmp(all, stages) != 0)
        print_message("%s, not %s\n", all, stages);
    return strcmp(all, stages) == 0;
}

static void park_a_while(struct echo *e, struct wire_answer *out)
{
    static const char request[] =
        "GET /park?secret HTTP/1.1\r\nHost: a\r\nX-Request-Id: mine\r\n\r\n";
    const struct timespec tick = { .tv_nsec = NS_PER_MS };
    int fd = wire_connect(echo_port(e, 0));
    assert_true(wire_send(fd, str_of(request)));
    int64_t until = wire_now_ms() + WIRE_DEADLINE_MS, parked_ms = 0;
    while (parked_ms == 0 || wire_now_ms() <= parked_ms + HELD_MS) { /* cut to milliseconds */
        assert_true(wire_now_ms() < until);
        if (parked_ms == 0 && echo_parked(e) == 1)
            parked_ms = wire_now_ms();
        nanosleep(&tick, NULL);
    }
    echo_release(e);
    wire_read(fd, false, out);
    close(fd);
}

/* The one of this target; NULL: there is none. */
static const struct http_slow *kept_of(struct echo *e, const char *target)
{
    unsigned count =
        slow_list(echo_server(e)->slow, clock_mono(echo_clock()), listed, COUNT_OF(listed));
    for (unsigned i = 0; i < count; i++)
        if (str_eq((str){ .p = listed[i].target, .n = listed[i].target_n }, str_of(target)))
            return &listed[i];
    return NULL;
}

static void show_park(unsigned pool, const char *stages)
{
    static struct wire_answer answer;
    echo_pool(pool);
    struct echo *e = echo_start(&(struct http_limits){ .threads = 1 });
    park_a_while(e, &answer);
    assert_int_equal(answer.status, 200);
    for (int i = 0; i < FAST; i++)
        wire_ask(echo_port(e, 0),
                 STR("GET /ready HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"), &answer);
    const struct http_slow *r = kept_of(e, "/park"); /* its worker sent it before those */
    assert_non_null(r);
    assert_true(r->ns >= HELD_MS * NS_PER_MS);
    assert_int_equal(r->status, 200);
    assert_int_equal(r->bytes, 7);
    assert_string_equal(r->method, "GET");
    assert_true(str_eq((str){ .p = r->id, .n = r->id_n }, STR("mine")));
    assert_true(ends_with_stages(r, stages));
    const struct http_slow *ready = kept_of(e, "/ready");
    if (ready != NULL) /* a machine may be slow; but it was never handed over */
        assert_int_equal(ready->events_count, 0);
    echo_stop(&e);
    echo_pool(0);
}

static void what_was_deferred_is_kept_with_its_stages(void **state)
{
    (void)state;
    show_park(0, "head deferred answered send sent");
}

static void what_ran_on_the_pool_is_kept_with_its_stages(void **state)
{
    (void)state;
    show_park(2, "head pool run deferred answered send sent");
}

/* ---- when an invariant breaks ---- */

static void task_breaks(struct task *t)
{
    INVARIANT(t == NULL);
}

static void get_broken(struct http_exchange *x, void *app)
{
    static struct task task = { .run = task_breaks };
    (void)app;
    if (str_eq(http_param(x, "how"), STR("handler")))
        INVARIANT(x == NULL);
    http_defer(x);
    home_post(http_home(x), &task);
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)detail, (void)app;
    http_answer(x, status, STR(""));
}

static const struct http_route broken_routes[] = {
    { HTTP_GET, "/pooled/{how}", get_broken, .pool = true },
    { HTTP_GET, "/inline/{how}", get_broken, .label = "inline" },
    { .pattern = NULL },
};

static void child_dies(const char *request)
{
    const struct http_listen listen = { .address = "127.0.0.1", .content = true };
    const struct http_route *tables[] = { broken_routes };
    const struct http_server_opts opts = { .listens = &listen,
                                           .listens_count = 1,
                                           .tables = tables,
                                           .tables_count = 1,
                                           .limits = { .threads = 1 },
                                           .clock = echo_clock(),
                                           .pool_threads = 1,
                                           .hooks = { .refuse = refuse } };
    struct http_server *s = NULL;
    struct err_note note;
    static struct wire_answer answer;
    if (http_server_new(&opts, &s, &note) == ERR_OK && http_server_start(s, &note) == ERR_OK)
        wire_ask(http_server_port(s, 0), str_of(request), &answer);
    _exit(0);
}

/* What it says on stderr. */
static const char *death_of(const char *request)
{
    static char text[DEATH_BYTES];
    int ends[2], status = 0;
    size_t n = 0;
    assert_int_equal(pipe(ends), 0);
    pid_t child = fork();
    if (child == 0) {
        signal(SIGABRT, SIG_DFL);
        dup2(ends[1], STDERR_FILENO);
        child_dies(request);
    }
    assert_true(child > 0);
    close(ends[1]);
    for (ssize_t got = 1; got > 0 && n + 1 < sizeof text; n += got > 0 ? (size_t)got : 0)
        got = read(ends[0], text + n, sizeof text - 1 - n);
    text[n] = 0;
    close(ends[0]);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGABRT);
    return text;
}

/* said holds these words, in this order. */
static void says(const char *said, const char *const *words, size_t count)
{
    const char *at = said;
    for (size_t i = 0; i < count; i++) {
        const char *found = strstr(at, words[i]);
        if (found == NULL)
            fail_msg("no \"%s\" in \"%s\"", words[i], said);
        else
            at = found + strlen(words[i]);
    }
}

static void a_broken_handler_says_for_what(void **state)
{
    (void)state;
    const char *const pooled[] = { "invariant broken: x == NULL",
                                   "at work for GET /pooled/{how}",
                                   "request mine",
                                   "kept 3, lost 0",
                                   "us  head",
                                   "us  pool",
                                   "us  run",
                                   "http-pool-0" };
    const char *const inlined[] = { "invariant broken: x == NULL", "at work for GET /inline/{how}",
                                    "kept 0, lost 0" };
    const char *said = death_of("GET /pooled/handler?secret HTTP/1.1\r\nHost: a\r\n"
                                "X-Request-Id: mine\r\n\r\n");
    says(said, pooled, COUNT_OF(pooled));
    assert_null(strstr(said, "secret"));
    said = death_of("GET /inline/handler HTTP/1.1\r\nHost: a\r\n\r\n");
    says(said, inlined, COUNT_OF(inlined));
}

static void a_broken_task_says_for_what(void **state)
{
    (void)state;
    const char *const pooled[] = { "invariant broken: t == NULL",
                                   "at work for GET /pooled/{how}",
                                   "kept 6",
                                   "us  run",
                                   "us  deferred",
                                   "us  posted",
                                   "us  task" };
    const char *const inlined[] = { "invariant broken: t == NULL",
                                    "at work for GET /inline/{how}",
                                    "kept 4",
                                    "us  head",
                                    "us  deferred",
                                    "us  posted",
                                    "us  task" };
    says(death_of("GET /pooled/task HTTP/1.1\r\nHost: a\r\n\r\n"), pooled, COUNT_OF(pooled));
    says(death_of("GET /inline/task HTTP/1.1\r\nHost: a\r\n\r\n"), inlined, COUNT_OF(inlined));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_broken_handler_says_for_what), /* these fork: before there are threads */
        cmocka_unit_test(a_broken_task_says_for_what),
        cmocka_unit_test(the_ring_keeps_the_last_events),
        cmocka_unit_test(times_are_cut_to_what_an_event_holds),
        cmocka_unit_test(writers_and_readers_get_whole_events),
        cmocka_unit_test(the_slowest_are_kept_and_listed_first),
        cmocka_unit_test(after_an_hour_they_make_room),
        cmocka_unit_test(many_threads_keep_beside_each_other),
        cmocka_unit_test(what_was_deferred_is_kept_with_its_stages),
        cmocka_unit_test(what_ran_on_the_pool_is_kept_with_its_stages),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
