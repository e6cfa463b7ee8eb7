/* Goal: a server finds at another one what that has noted, and believes nobody who does not know
 * the secret, whatever stands in Redis; what fails is as if nobody had it, and soon. Method: a real
 * redis-server, and another server whose connections do what the test says. */
#include "peer/peer.h"

#include "../cmocka_all.h"
#include "flight/shared.h"
#include "lib/clock.h"
#include "lib/wait.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "redis_server.h"
#include "rogue.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum play {
    PLAY_FINE,
    PLAY_NO_SEAL,
    PLAY_OTHER_STATUS,
    PLAY_OTHER_BODY,
    PLAY_OTHER_SECRET,
    PLAY_AGAIN,   /* what was right for the question before */
    PLAY_REFUSES, /* whoever asks, for now */
    PLAY_CUT,
    PLAY_SILENT,
    PLAYS
};
static const unsigned char id[FLIGHT_ID_BYTES] = { 1, 2, 3 };

struct world {
    struct redis_server redis;
    struct sysclock *sysclock;
    struct loop *loop;
    pthread_t thread;
    struct http_client *client;
    struct flight_shared *shared;
    struct peers *ours, *theirs, *strangers, *late; /* late: with a clock of its own */
    struct fake_clock clock;
    struct rogue *rogue;
    _Atomic int play;
    _Atomic bool was_sealed, was_of_now;
    pthread_mutex_t lock;
    char last_seal[PEER_SEAL_BYTES + 1];
};

/* ---- the other server ---- */

static str between(const char *text, const char *from, const char *to)
{
    const char *at = strstr(text, from);
    assert_non_null(at);
    at += strlen(from);
    const char *end = strstr(at, to);
    assert_non_null(end);
    return (str){ .p = at, .n = (size_t)(end - at) };
}

static void last_seal(struct world *w, char seal[PEER_SEAL_BYTES + 1], bool keep)
{
    pthread_mutex_lock(&w->lock);
    memcpy(keep ? w->last_seal : seal, keep ? seal : w->last_seal, PEER_SEAL_BYTES + 1);
    pthread_mutex_unlock(&w->lock);
}

static void other_server(struct rogue *r, int fd, unsigned nth)
{
    char *request = malloc(ROGUE_REQUEST_BYTES_MAX);
    struct world *w = rogue_ctx(r);
    char seal[PEER_SEAL_BYTES + 1], answer[512];
    (void)nth;
    assert_non_null(request);
    while (rogue_read(r, fd, request)) {
        enum play play = (enum play)w->play;
        str question = between(request, "GET ", " HTTP"),
            given = between(request, PEER_FIELD ": ", "\r\n");
        w->was_sealed = peer_is_sealed(w->theirs, question, given);
        w->was_of_now = peer_is_sealed(w->late, question, given);
        peer_seal(play == PLAY_OTHER_SECRET ? w->strangers : w->theirs, given, 200, STR("hello"),
                  seal);
        if (play == PLAY_AGAIN)
            last_seal(w, seal, false);
        (void)snprintf(
            answer, sizeof answer, "HTTP/1.1 %s\r\nContent-Length: 5\r\n%s: %s\r\n\r\n%s",
            play == PLAY_OTHER_STATUS ? "410 Gone"
            : play == PLAY_REFUSES    ? "503 Service Unavailable"
                                      : "200 OK",
            play == PLAY_NO_SEAL || play == PLAY_REFUSES ? "X-Other" : "Palimpsest-Servers",
            play == PLAY_AGAIN ? w->last_seal : seal, play == PLAY_OTHER_BODY ? "jello" : "hello");
        if (play == PLAY_FINE)
            last_seal(w, seal, true);
        if (play == PLAY_SILENT)
            rogue_wait(fd);
        if (play == PLAY_CUT)
            answer[strlen(answer) - 2] = 0;
        if (!rogue_say(fd, answer) || play == PLAY_CUT)
            break;
    }
    free(request);
}

/* ---- the world ---- */

static void *loop_runs(void *world)
{
    struct world *w = world;
    loop_run(w->loop);
    flight_shared_stop(w->shared);
    http_client_free(&w->client);
    return NULL;
}

static struct peers *peers_of(const struct world *w, struct clock *clock, const char *address,
                              str secret)
{
    const struct peers_opts opts = { .loop = w->loop,
                                     .clock = clock,
                                     .client = w->client,
                                     .shared = w->shared,
                                     .address = address,
                                     .secret = secret };
    return peers_new(&opts);
}

static void world_begin(struct world *w)
{
    char address[64];
    memset(w, 0, sizeof *w);
    assert_int_equal(pthread_mutex_init(&w->lock, NULL), 0);
    redis_server_start(&w->redis, 0, NULL);
    w->sysclock = sysclock_new();
    w->loop = loop_new(2);
    struct http_client_opts client = { .loop = w->loop, .clock = sysclock_clock(w->sysclock) };
    w->client = http_client_new(&client);
    struct flight_shared_opts shared = {
        .loop = w->loop,
        .clock = sysclock_clock(w->sysclock),
        .seed = 1,
        .node = "node0",
        .redis_timeout_ms = WAIT_MS,
        .address = { .host = "127.0.0.1", .port = w->redis.port },
    };
    w->shared = flight_shared_new(&shared);
    w->rogue = rogue_start(other_server, w);
    (void)snprintf(address, sizeof address, "http://127.0.0.1:%u", rogue_port(w->rogue));
    struct clock *clock = sysclock_clock(w->sysclock);
    fake_clock_init(&w->clock, clock_wall(clock).ns);
    w->ours = peers_of(w, clock, "http://127.0.0.1:9", STR("sixteen bytes or more"));
    w->theirs = peers_of(w, clock, address, STR("sixteen bytes or more"));
    w->late = peers_of(w, &w->clock.clock, address, STR("sixteen bytes or more"));
    w->strangers = peers_of(w, clock, address, STR("sixteen other bytes"));
    assert_int_equal(pthread_create(&w->thread, NULL, loop_runs, w), 0);
    WAIT_UNTIL(flight_shared_is_up(w->shared));
}

static void world_end(struct world *w)
{
    rogue_stop(&w->rogue);
    http_client_stop(w->client);
    loop_stop(w->loop);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    peers_free(&w->ours);
    peers_free(&w->theirs);
    peers_free(&w->late);
    peers_free(&w->strangers);
    flight_shared_free(&w->shared);
    loop_free(&w->loop);
    sysclock_free(&w->sysclock);
    redis_server_end(&w->redis);
}

static void noted(void *ctx, err why)
{
    awaited_tell(ctx, why);
}

static void note(struct peers *p)
{
    struct awaited over;
    awaited_init(&over);
    peer_note(p, &(struct peer_noting){ .id = id, .ttl_ms = WAIT_MS, .done = noted, .ctx = &over });
    assert_int_equal(awaited_wait(&over), ERR_OK);
    awaited_fini(&over);
}

struct asking {
    struct peer_ask ask;
    struct arena arena;
    struct awaited over;
};

static void asked(struct peer_ask *a)
{
    awaited_tell(&CONTAINER_OF(a, struct asking, ask)->over, a->why);
}

static void asking_start(struct asking *q, struct world *w, int64_t wait_ms)
{
    arena_init(&q->arena, 1 << 20);
    awaited_init(&q->over);
    q->ask = (struct peer_ask){ .peers = w->ours,
                                .id = id,
                                .question = STR("/v1/x?a=1"),
                                .deadline =
                                    mono_add_ms(clock_mono(sysclock_clock(w->sysclock)), wait_ms),
                                .reply_bytes_max = 1000,
                                .arena = &q->arena,
                                .done = asked };
    peer_ask_start(&q->ask);
}

static err asking_end(struct asking *q)
{
    err why = awaited_wait(&q->over);
    if (why == ERR_OK) {
        assert_int_equal(q->ask.status, 200);
        assert_true(str_eq(q->ask.body, STR("hello")));
    }
    awaited_fini(&q->over);
    arena_fini(&q->arena);
    return why;
}

static err ask(struct world *w, enum play play, int64_t wait_ms)
{
    struct asking q;
    w->play = (int)play;
    w->was_sealed = false;
    asking_start(&q, w, wait_ms);
    return asking_end(&q);
}

/* ---- what holds ---- */

static void what_another_has_is_found(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_NOT_FOUND); /* nobody noted it */
    assert_int_equal(rogue_requests(w.rogue), 0);
    note(w.ours);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_NOT_FOUND); /* we did, and lost it */
    assert_int_equal(rogue_requests(w.rogue), 0);
    note(w.theirs);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    assert_true(w.was_sealed);
    assert_int_equal(rogue_requests(w.rogue), 1);
    world_end(&w);
}

static void who_does_not_know_the_secret_is_not_believed(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    note(w.theirs);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    for (enum play p = PLAY_NO_SEAL; p < PLAY_REFUSES; p++)
        assert_int_equal(ask(&w, p, WAIT_MS), ERR_NOT_FOUND);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    world_end(&w);
}

static void who_does_not_answer_may_have_it_all_the_same(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    note(w.theirs);
    assert_int_equal(ask(&w, PLAY_REFUSES, WAIT_MS), ERR_UNAVAILABLE);
    assert_int_equal(ask(&w, PLAY_CUT, WAIT_MS), ERR_UNAVAILABLE);
    assert_int_equal(ask(&w, PLAY_SILENT, 50), ERR_UNAVAILABLE);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    world_end(&w);
}

static void a_question_is_sealed_as_it_is(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    char seal[PEER_SEAL_BYTES + 1];
    peer_seal(w.theirs, STR("x"), 200, STR("hello"), seal);
    assert_false(peer_is_sealed(w.theirs, STR("/v1/x?a=1"), str_of(seal)));
    assert_false(peer_is_sealed(w.theirs, STR("/v1/x?a=1"), STR("")));
    assert_false(peer_is_sealed(w.theirs, STR("/v1/x?a=1"), STR_NONE));
    world_end(&w);
}

static void a_question_lasts_no_longer_than_clocks_are_apart(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    note(w.theirs);
    fake_clock_advance(&w.clock, (PEER_QUESTION_S - 60) * NS_PER_S);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    assert_true(w.was_of_now);
    fake_clock_advance(&w.clock, 120 * NS_PER_S);
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_OK);
    assert_true(w.was_sealed);
    assert_false(w.was_of_now);
    world_end(&w);
}

static void without_redis_nobody_has_it(void **state)
{
    (void)state;
    struct world w;
    world_begin(&w);
    note(w.theirs);
    struct redis_server dead = w.redis;
    redis_server_end(&dead);
    WAIT_UNTIL(!flight_shared_is_up(w.shared));
    assert_int_equal(ask(&w, PLAY_FINE, WAIT_MS), ERR_NOT_FOUND);
    struct awaited over;
    awaited_init(&over);
    peer_note(w.ours, &(struct peer_noting){ .id = id, .ttl_ms = 1, .done = noted, .ctx = &over });
    assert_int_not_equal(awaited_wait(&over), ERR_OK); /* and nobody waits */
    awaited_fini(&over);
    redis_server_start(&w.redis, dead.port, NULL);
    world_end(&w);
}

static void a_stop_ends_what_is_asked(void **state)
{
    (void)state;
    struct world w;
    struct asking q;
    world_begin(&w);
    note(w.theirs);
    w.play = PLAY_SILENT;
    asking_start(&q, &w, WAIT_MS);
    WAIT_UNTIL(rogue_requests(w.rogue) == 1);
    http_client_stop(w.client);
    err why = asking_end(&q);
    assert_true(why == ERR_SHUTDOWN || why == ERR_UNAVAILABLE); /* or PEER_MS were over before */
    world_end(&w);
}

static void many_ask_at_once(void **state)
{
    (void)state;
    enum { ASKINGS = 50 };
    struct world w;
    struct asking q[ASKINGS];
    world_begin(&w);
    note(w.theirs);
    w.play = PLAY_NO_SEAL;
    for (unsigned i = 0; i < ASKINGS; i++)
        asking_start(&q[i], &w, WAIT_MS);
    for (unsigned i = 0; i < ASKINGS; i++)
        assert_int_equal(asking_end(&q[i]), ERR_NOT_FOUND);
    world_end(&w);
}

static void an_address_has_nothing_behind_it(void **state)
{
    (void)state;
    static const char *const fine[] = { "http://10.0.0.1:7231", "https://a.example",
                                        "http://[::1]:80" };
    static const char *const bad[] = { "",
                                       "x",
                                       "http://",
                                       "10.0.0.1:7231",
                                       "file:///etc/passwd",
                                       "http://a/",
                                       "http://a?b",
                                       "http://a#b",
                                       "http://a@b",
                                       "http://a b",
                                       "http://a:0x",
                                       "HTTP://a" };
    for (size_t i = 0; i < COUNT_OF(fine); i++)
        assert_true(peer_is_address(str_of(fine[i])));
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_false(peer_is_address(str_of(bad[i])));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_another_has_is_found),
        cmocka_unit_test(who_does_not_know_the_secret_is_not_believed),
        cmocka_unit_test(who_does_not_answer_may_have_it_all_the_same),
        cmocka_unit_test(a_question_is_sealed_as_it_is),
        cmocka_unit_test(a_question_lasts_no_longer_than_clocks_are_apart),
        cmocka_unit_test(without_redis_nobody_has_it),
        cmocka_unit_test(a_stop_ends_what_is_asked),
        cmocka_unit_test(many_ask_at_once),
        cmocka_unit_test(an_address_has_nothing_behind_it),
    };
    redis_server_need();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
