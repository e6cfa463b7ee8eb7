/* Goal: the handler of a deferred exchange hears that its client left, once, and never when it
 * answered before. Method: a server whose loop runs on the test's thread; a second thread plays the
 * clients, and others answer. */
#include "echo.h"
#include "odd_transport.h"
#include "wire.h"

#include "../cmocka_all.h"

#include "http/http.h"
#include "lib/wait.h"
#include "loop/loop.h"

#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { CLIENTS_MAX = 1000, ANSWERERS = 3, DEADLINE_MS = 60000 };

struct bench {
    struct loop *loop;
    struct http_server *server;
    uint16_t port;
    void (*clients)(struct bench *b);
    pthread_mutex_t lock;
    struct http_exchange *parked[CLIENTS_MAX];
    unsigned parked_count, parked_ever;
    bool answer_when_told;
    atomic_uint told, finished, answered_at_told;
    atomic_bool ended;
    sem_t told_now, go_on; /* used when hold is set, and by /unasked: the told one waits inside */
    bool hold;
    bool unasked; /* its handler goes on when the loop has ended */
    struct task late;
    struct http_exchange *late_x;
    struct home *late_home;
};

/* An exchange is answered by whoever takes it out of parked. */
static bool take(struct bench *b, struct http_exchange *x)
{
    bool found = false;
    pthread_mutex_lock(&b->lock);
    for (unsigned i = 0; i < b->parked_count && !found; i++) {
        if (b->parked[i] != x)
            continue;
        b->parked[i] = b->parked[--b->parked_count];
        found = true;
    }
    pthread_mutex_unlock(&b->lock);
    return found;
}

static struct http_exchange *take_any(struct bench *b)
{
    struct http_exchange *x = NULL;
    pthread_mutex_lock(&b->lock);
    if (b->parked_count > 0)
        x = b->parked[--b->parked_count];
    pthread_mutex_unlock(&b->lock);
    return x;
}

static void told(struct http_exchange *x, void *ctx)
{
    struct bench *b = ctx;
    loop_assert_here(b->loop);
    str *text = http_state(x);
    if (b->hold) {
        INVARIANT(sem_post(&b->told_now) == 0);
        INVARIANT(sem_wait(&b->go_on) == 0);
    }
    INVARIANT(str_eq(*text, STR("in the arena"))); /* it stays while this runs */
    atomic_fetch_add(&b->told, 1);
    if (b->answer_when_told && take(b, x)) {
        atomic_fetch_add(&b->answered_at_told, 1);
        http_answer(x, 503, STR("you left\n"));
    }
}

static void wait_begin(struct http_exchange *x)
{
    str *text = arena_alloc(http_arena(x), sizeof *text);
    INVARIANT(text != NULL);
    *text = arena_copy(http_arena(x), STR("in the arena"));
    http_state_set(x, text);
    http_defer(x);
}

static void park(struct bench *b, struct http_exchange *x)
{
    pthread_mutex_lock(&b->lock);
    INVARIANT(b->parked_count < CLIENTS_MAX);
    b->parked[b->parked_count++] = x;
    b->parked_ever++;
    pthread_mutex_unlock(&b->lock);
}

static void get_wait(struct http_exchange *x, void *app)
{
    wait_begin(x);
    http_on_gone(x, told, app);
    park(app, x);
}

static void late_run(struct task *t)
{
    struct bench *b = CONTAINER_OF(t, struct bench, late);
    http_on_gone(b->late_x, told, b);
    INVARIANT(atomic_load(&b->told) == 0); /* not while this runs */
}

/* Asks to be told in a task of its home. */
static void get_late(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    wait_begin(x);
    b->late_x = x;
    b->late.run = late_run;
    b->late_home = http_home(x);
    park(b, x);
}

static void answer_posted(void *x)
{
    http_answer(x, 200, STR("by the loop\n"));
}

/* A handler that does not ask whether the server drains. */
static void get_unasked(struct http_exchange *x, void *app)
{
    struct bench *b = app;
    INVARIANT(sem_post(&b->told_now) == 0);
    INVARIANT(sem_wait(&b->go_on) == 0);
    http_defer(x);
    loop_post(b->loop, answer_posted, x);
}

static void refuse(struct http_exchange *x, int status, const char *type, str detail, void *app)
{
    (void)type, (void)app;
    http_answer(x, status, detail);
}

static void finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent,
                     void *app)
{
    (void)x, (void)status, (void)ns, (void)bytes_sent; /* who left in time has no status */
    struct bench *b = app;
    atomic_fetch_add(&b->finished, 1);
}

static bool pooled; /* handlers run on the pool */

static const struct http_route routes[] = {
    { HTTP_GET, "/wait", get_wait, .label = "wait", .pool = true },
    { HTTP_GET, "/late", get_late, .label = "late", .pool = true },
    { HTTP_GET, "/unasked", get_unasked, .label = "unasked", .pool = true },
    { .pattern = NULL },
};

static void *clients_main(void *ctx)
{
    struct bench *b = ctx;
    b->clients(b);
    http_server_drain(b->server);
    for (struct http_exchange *x = take_any(b); x != NULL; x = take_any(b))
        http_answer(x, 503, STR("the end\n"));
    loop_stop(b->loop);
    return NULL;
}

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", 2 * DEADLINE_MS);
}

static void bench_run(struct bench *b, void (*clients)(struct bench *b))
{
    b->loop = loop_new(1);
    b->clients = clients;
    assert_int_equal(pthread_mutex_init(&b->lock, NULL), 0);
    assert_int_equal(sem_init(&b->told_now, 0, 0), 0);
    assert_int_equal(sem_init(&b->go_on, 0, 0), 0);
    const struct http_listen listens[] = {
        { .address = "127.0.0.1", .content = true, .transport = odd_transport() }
    };
    const struct http_route *tables[] = { routes };
    struct err_note note = { "" };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = { .connections_max = 3 * CLIENTS_MAX, .threads = 2 },
        .clock = echo_clock(),
        .loop = b->loop,
        .pool_threads = pooled ? 2 : 0,
        .hooks = { .app = b, .refuse = refuse, .finished = finished },
    };
    assert_int_equal(http_server_new(&opts, &b->server, &note), ERR_OK);
    assert_int_equal(http_server_start(b->server, &note), ERR_OK);
    b->port = http_server_port(b->server, 0);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, clients_main, b), 0);
    struct loop_timer *watchdog = loop_timer_new(b->loop, overdue, NULL);
    loop_timer_start(watchdog, 2 * DEADLINE_MS, 0);
    loop_run(b->loop);
    loop_timer_free(&watchdog);
    assert_int_equal(pthread_join(thread, NULL), 0);
    if (b->unasked)
        INVARIANT(sem_post(&b->go_on) == 0);
    http_server_free(&b->server);
    loop_free(&b->loop);
    pthread_mutex_destroy(&b->lock);
    sem_destroy(&b->told_now);
    sem_destroy(&b->go_on);
}

/* ---- what clients do ---- */

static int ask_for(struct bench *b, str request)
{
    int fd = wire_connect(b->port);
    INVARIANT(wire_send(fd, request));
    return fd;
}

static int ask(struct bench *b)
{
    return ask_for(b, STR("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n"));
}

static void reset(int fd)
{
    struct linger now = { .l_onoff = 1, .l_linger = 0 };
    INVARIANT(setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(fd);
}

static unsigned parked_ever(struct bench *b)
{
    pthread_mutex_lock(&b->lock);
    unsigned ever = b->parked_ever;
    pthread_mutex_unlock(&b->lock);
    return ever;
}

static void until_parked(struct bench *b, unsigned ever)
{
    WAIT_UNTIL(parked_ever(b) >= ever);
}

static void clients_leave(struct bench *b)
{
    int closes = ask(b), resets = ask(b);
    until_parked(b, 2);
    INVARIANT(atomic_load(&b->told) == 0);
    close(closes);
    WAIT_UNTIL(atomic_load(&b->told) >= 1);
    reset(resets);
    WAIT_UNTIL(atomic_load(&b->told) >= 2);
    WAIT_UNTIL(atomic_load(&b->finished) >= 2);
}

static void who_leaves_is_told_of_and_answered_there(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = true };
    bench_run(&b, clients_leave);
    assert_int_equal(atomic_load(&b.told), 2);
    assert_int_equal(atomic_load(&b.answered_at_told), 2);
    assert_int_equal(atomic_load(&b.finished), 2);
}

static void clients_leave_unheard(struct bench *b)
{
    int fd = ask(b);
    until_parked(b, 1);
    close(fd);
    WAIT_UNTIL(atomic_load(&b->told) >= 1);
    INVARIANT(atomic_load(&b->finished) == 0);
}

static void who_is_told_may_leave_the_answer_to_others(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = false };
    bench_run(&b, clients_leave_unheard); /* which ends with an answer to all */
    assert_int_equal(atomic_load(&b.told), 1);
    assert_int_equal(atomic_load(&b.finished), 1);
}

static void clients_stay(struct bench *b)
{
    for (unsigned i = 0; i < 20; i++) {
        int fd = ask(b);
        until_parked(b, i + 1);
        struct http_exchange *x = take_any(b);
        INVARIANT(x != NULL);
        http_answer(x, 200, STR("well\n"));
        struct wire_answer a;
        wire_read(fd, false, &a);
        INVARIANT(a.status == 200);
        close(fd);
    }
}

static void who_was_answered_is_never_told_of(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = true };
    bench_run(&b, clients_stay);
    assert_int_equal(atomic_load(&b.told), 0);
    assert_int_equal(atomic_load(&b.finished), 20);
}

/* The second request on a connection asks anew; the first one's watch is no more. */
static void clients_ask_twice(struct bench *b)
{
    int fd = ask(b);
    until_parked(b, 1);
    http_answer(take_any(b), 200, STR("first\n"));
    struct wire_answer a;
    wire_read(fd, false, &a);
    INVARIANT(wire_send(fd, STR("GET /wait HTTP/1.1\r\nHost: x\r\n\r\n")));
    until_parked(b, 2);
    INVARIANT(atomic_load(&b->told) == 0);
    close(fd);
    WAIT_UNTIL(atomic_load(&b->told) >= 1);
}

static void each_request_of_a_connection_asks_for_itself(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = true };
    bench_run(&b, clients_ask_twice);
    assert_int_equal(atomic_load(&b.told), 1);
}

/* The worker sees the first leave before the second asks. */
static void clients_leave_before_it_is_asked(struct bench *b)
{
    int fd = ask_for(b, STR("GET /late HTTP/1.1\r\nHost: x\r\n\r\n"));
    until_parked(b, 1);
    close(fd);
    fd = ask(b);
    until_parked(b, 2);
    home_post(b->late_home, &b->late);
    WAIT_UNTIL(atomic_load(&b->told) >= 1);
    close(fd);
}

static void who_left_before_it_was_asked_is_told_of(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = true };
    bench_run(&b, clients_leave_before_it_is_asked);
    assert_true(atomic_load(&b.told) >= 1);
}

static void clients_shut_one_side(struct bench *b)
{
    int fd = ask(b);
    until_parked(b, 1);
    INVARIANT(shutdown(fd, SHUT_WR) == 0);
    WAIT_UNTIL(atomic_load(&b->told) >= 1);
    http_answer(take_any(b), 200, STR("still here\n"));
    struct wire_answer a;
    wire_read(fd, false, &a);
    INVARIANT(a.status == 200);
    INVARIANT(strcmp(a.body, "still here\n") == 0);
    close(fd);
}

static void who_shut_its_writing_side_is_told_of_but_gets_its_answer(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = false };
    bench_run(&b, clients_shut_one_side);
    assert_int_equal(atomic_load(&b.told), 1);
}

static void clients_are_answered_while_told(struct bench *b)
{
    int fd = ask(b);
    until_parked(b, 1);
    INVARIANT(shutdown(fd, SHUT_WR) == 0);
    INVARIANT(sem_wait(&b->told_now) == 0);
    http_answer(take_any(b), 200, STR("meanwhile\n")); /* must not wait for the teller */
    INVARIANT(atomic_load(&b->finished) == 0);
    INVARIANT(sem_post(&b->go_on) == 0);
    struct wire_answer a;
    wire_read(fd, false, &a);
    INVARIANT(a.status == 200);
    close(fd);
}

static void an_answer_while_it_is_told_waits_in_the_exchange(void **state)
{
    (void)state;
    struct bench b = { .hold = true };
    bench_run(&b, clients_are_answered_while_told);
    assert_int_equal(atomic_load(&b.told), 1);
    assert_int_equal(atomic_load(&b.finished), 1);
}

/* Among connections that are kept, too. */
static void clients_shut_one_side_beside_others(struct bench *b)
{
    int idle[8];
    struct wire_answer a;
    unsigned n = COUNT_OF(idle);
    for (unsigned i = 0; i < n; i++) {
        idle[i] = ask(b);
        until_parked(b, i + 1);
        http_answer(take_any(b), 200, STR("and stay\n"));
        wire_read(idle[i], false, &a);
        INVARIANT(a.status == 200);
    }
    for (unsigned i = 0; i < n; i++) {
        int fd = ask(b);
        until_parked(b, n + i + 1);
        INVARIANT(shutdown(fd, SHUT_WR) == 0);
        WAIT_UNTIL(atomic_load(&b->told) >= i + 1);
        http_answer(take_any(b), 200, STR("still here\n"));
        wire_read(fd, false, &a);
        INVARIANT(a.status == 200);
        INVARIANT(strcmp(a.body, "still here\n") == 0);
        close(fd);
    }
    for (unsigned i = 0; i < n; i++)
        close(idle[i]);
}

static void who_shut_its_writing_side_gets_its_answer_beside_others(void **state)
{
    (void)state;
    struct bench b = { .answer_when_told = false };
    bench_run(&b, clients_shut_one_side_beside_others);
    assert_int_equal(atomic_load(&b.told), 8);
}

static void *answer_some(void *ctx)
{
    struct bench *b = ctx;
    while (!atomic_load(&b->ended)) {
        struct http_exchange *x = take_any(b);
        if (x != NULL)
            http_answer(x, 200, STR("well\n"));
        else
            sched_yield();
    }
    return NULL;
}

static void clients_leave_by_the_thousand(struct bench *b)
{
    int *fds = calloc(CLIENTS_MAX, sizeof *fds);
    INVARIANT(fds != NULL);
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        fds[i] = ask(b);
    until_parked(b, CLIENTS_MAX);
    for (unsigned i = 0; i < CLIENTS_MAX; i++)
        i % 2 == 0 ? (void)close(fds[i]) : reset(fds[i]);
    WAIT_UNTIL(atomic_load(&b->told) >= CLIENTS_MAX);
    free(fds);
    WAIT_UNTIL(http_server_open_requests(b->server) == 0);
}

static void a_thousand_that_leave_are_told_of_once_each(void **state)
{
    (void)state;
    struct bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->answer_when_told = true;
    bench_run(b, clients_leave_by_the_thousand);
    assert_int_equal(atomic_load(&b->told), CLIENTS_MAX);
    assert_int_equal(atomic_load(&b->answered_at_told), CLIENTS_MAX);
    assert_int_equal(atomic_load(&b->finished), CLIENTS_MAX);
    free(b);
}

static void clients_leave_while_others_answer(struct bench *b)
{
    pthread_t answerers[ANSWERERS];
    for (unsigned i = 0; i < ANSWERERS; i++)
        INVARIANT(pthread_create(&answerers[i], NULL, answer_some, b) == 0);
    for (unsigned i = 0; i < CLIENTS_MAX; i++) {
        int fd = ask(b);
        if (i == 0)
            until_parked(b, 1); /* of the others each may be gone before its handler is called */
        i % 3 == 0 ? reset(fd) : (void)close(fd);
    }
    atomic_store(&b->ended, true);
    for (unsigned i = 0; i < ANSWERERS; i++)
        INVARIANT(pthread_join(answerers[i], NULL) == 0);
    for (int64_t left_ms = WAIT_MS; http_server_open_requests(b->server) > 0;) {
        struct http_exchange *x = take_any(b);
        if (x != NULL)
            http_answer(x, 200, STR("late\n"));
        else
            wait_look(&left_ms, "no open request");
    }
}

static void leaving_and_answering_at_once_is_one_answer(void **state)
{
    (void)state;
    struct bench *b = calloc(1, sizeof *b);
    assert_non_null(b);
    b->answer_when_told = true;
    bench_run(b, clients_leave_while_others_answer);
    assert_true(atomic_load(&b->told) <= b->parked_ever);
    assert_true(b->parked_ever > 0);
    assert_true(atomic_load(&b->finished) >=
                b->parked_ever); /* some left before their handler was called */
    free(b);
}

/* ---- the end ---- */

static void clients_find_a_slow_handler(struct bench *b)
{
    int fd = wire_connect(b->port);
    INVARIANT(wire_send(fd, STR("GET /unasked HTTP/1.1\r\nHost: x\r\n\r\n")));
    INVARIANT(sem_wait(&b->told_now) == 0);
    close(fd);
}

/* What it waits for would come from the loop, which has ended by then. */
static void a_handler_that_defers_at_the_end_is_answered(void **state)
{
    (void)state;
    struct bench b = { .unasked = true };
    bench_run(&b, clients_find_a_slow_handler);
    assert_int_equal(atomic_load(&b.finished), 1);
}

static int on_workers(void **state)
{
    (void)state;
    pooled = false;
    return 0;
}

static int on_the_pool(void **state)
{
    (void)state;
    pooled = true;
    return 0;
}

int main(void)
{
#define FACT(fact)                                                                                 \
    cmocka_unit_test_setup(fact, on_workers),                                                      \
    {                                                                                              \
#fact " on the pool", fact, on_the_pool, NULL, NULL                                        \
    }
    const struct CMUnitTest tests[] = {
        FACT(who_leaves_is_told_of_and_answered_there),
        FACT(who_is_told_may_leave_the_answer_to_others),
        FACT(who_was_answered_is_never_told_of),
        FACT(each_request_of_a_connection_asks_for_itself),
        FACT(who_left_before_it_was_asked_is_told_of),
        FACT(who_shut_its_writing_side_is_told_of_but_gets_its_answer),
        FACT(an_answer_while_it_is_told_waits_in_the_exchange),
        FACT(who_shut_its_writing_side_gets_its_answer_beside_others),
        FACT(a_thousand_that_leave_are_told_of_once_each),
        FACT(leaving_and_answering_at_once_is_one_answer),
        FACT(a_handler_that_defers_at_the_end_is_answered),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
