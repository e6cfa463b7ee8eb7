/* Goal: who waits for whom, how long, and what ends a wait: deadlines, turns at a host, limits,
 * cancels, the end. Method: a real loop asks servers in this process that hold their replies until
 * a test lets them go. */
#include "rogue.h"

#include "loop/limiter.h"
#include "loop/loop.h"

#include "../cmocka_all.h"

#include <dirent.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { ASKS = 12 };

static void play_hang(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (rogue_read(r, fd, request))
        rogue_wait(fd);
}

static void a_silent_server_costs_no_more_than_the_deadline(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    q.call.deadline = mono_add_ms(q.call.deadline, 1000 - ROGUE_ASK_MS);
    ask_now(&q);
    assert_int_equal(q.why, ERR_TIMEOUT);
    assert_non_null(strstr(q.call.note.text, "127.0.0.1"));
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

/* Answers each request with ok, and counts how many it had at once. */
struct crowd {
    atomic_uint now, most;
    sem_t go; /* each reply waits for one */
};

static void crowd_enter(struct crowd *c)
{
    unsigned now = atomic_fetch_add(&c->now, 1) + 1, most = atomic_load(&c->most);
    while (most < now && !atomic_compare_exchange_weak(&c->most, &most, now)) {
    }
}

static void play_crowd(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    struct crowd *c = rogue_ctx(r);
    char request[ROGUE_REQUEST_BYTES_MAX];
    while (rogue_read(r, fd, request)) {
        crowd_enter(c);
        INVARIANT(sem_wait(&c->go) == 0);
        atomic_fetch_sub(&c->now, 1);
        if (!rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
            return;
    }
}

static void crowd_begin(struct crowd *c, unsigned go)
{
    atomic_store(&c->now, 0);
    atomic_store(&c->most, 0);
    assert_int_equal(sem_init(&c->go, 0, go), 0);
}

static void no_more_than_a_host_may_have_run_at_once(void **state)
{
    (void)state;
    for (unsigned most = 1; most <= 3; most++) {
        struct crowd c;
        crowd_begin(&c, ASKS);
        struct rogue *r = rogue_start(play_crowd, &c);
        struct asker a;
        struct ask q[ASKS];
        asker_begin(&a, &(struct http_client_opts){ .per_host_max = most });
        for (unsigned i = 0; i < ASKS; i++) {
            ask_begin(&q[i], &a, rogue_port(r), "/");
            ask_start(&q[i]);
        }
        asker_run(&a);
        for (unsigned i = 0; i < ASKS; i++) {
            assert_int_equal(q[i].why, ERR_OK);
            if (most == 1)
                assert_int_equal(q[i].order, i); /* in order of arrival */
            ask_end(&q[i]);
        }
        assert_true(atomic_load(&c.most) <= most);
        assert_true(rogue_connections(r) <= most);
        asker_end(&a);
        rogue_stop(&r);
        sem_destroy(&c.go);
    }
}

/* What all others have to keep to at the host of q. */
static void host_limit(struct asker *a, const struct ask *q, unsigned running_max)
{
    char origin[HTTP_ORIGIN_BYTES_MAX];
    assert_int_equal(http_client_origin(str_of(q->url), origin), ERR_OK);
    const struct limiter_key key = { .origin = str_of(origin) };
    limiter_limit(http_client_limiter(a->client), LIMITER_ORIGIN, &key,
                  (struct limiter_limits){ .running_max = running_max });
}

static void a_host_may_have_a_limit_of_its_own(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c, ASKS);
    struct rogue *r = rogue_start(play_crowd, &c);
    struct asker a;
    struct ask q[ASKS];
    asker_begin(&a, NULL);
    for (unsigned i = 0; i < ASKS; i++) {
        ask_begin(&q[i], &a, rogue_port(r), "/");
        if (i == 0)
            host_limit(&a, &q[0], 2);
        ask_start(&q[i]);
    }
    asker_run(&a);
    for (unsigned i = 0; i < ASKS; i++)
        ask_end(&q[i]);
    assert_true(atomic_load(&c.most) <= 2);
    asker_end(&a);
    rogue_stop(&r);
    sem_destroy(&c.go);
}

static void play_hang_or_ok(struct rogue *r, int fd, unsigned nth)
{
    char request[ROGUE_REQUEST_BYTES_MAX];
    (void)nth;
    while (rogue_read(r, fd, request)) {
        if (strncmp(request, "GET /ok", 7) != 0)
            rogue_wait(fd);
        else if (!rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"))
            return;
    }
}

static void pass_never(struct limiter_pass *p, bool in)
{
    (void)p, (void)in;
    fail_msg("a pass that was let in at once was called");
}

/* Three calls in a row under one pass, while the host is full: the caller is counted, not the
 * calls. */
static void who_brings_a_pass_waits_for_no_turn(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang_or_ok, NULL);
    struct asker a;
    struct ask hangs, waits, ok[3];
    asker_begin(&a, NULL);
    struct limiter *limiter = http_client_limiter(a.client);
    struct limiter_pass pass = { .deadline = LIMITER_NEVER, .go = pass_never };
    ask_begin(&hangs, &a, rogue_port(r), "/");
    host_limit(&a, &hangs, 2);
    char origin[HTTP_ORIGIN_BYTES_MAX];
    assert_int_equal(http_client_origin(str_of(hangs.url), origin), ERR_OK);
    const struct limiter_key here = { str_of(origin), STR("a.test"), STR("render") };
    ask_begin(&waits, &a, rogue_port(r), "/ok");
    hangs.call.deadline = mono_add_ms(hangs.call.deadline, 1000 - ROGUE_ASK_MS);
    waits.call.deadline = mono_add_ms(waits.call.deadline, 500 - ROGUE_ASK_MS);
    waits.call.key = &here;
    assert_int_equal(limiter_enter(limiter, &here, &pass), LIMITER_IN);
    ask_start(&hangs);
    ask_start(&waits); /* the pass and hangs fill the host */
    for (unsigned i = 0; i < COUNT_OF(ok); i++) {
        ask_begin(&ok[i], &a, rogue_port(r), "/ok");
        ok[i].call.pass = &pass;
        ask_start(&ok[i]);
    }
    asker_run(&a);
    assert_int_equal(hangs.why, ERR_TIMEOUT);
    assert_int_equal(waits.why, ERR_TIMEOUT);
    assert_false(waits.call.sent);
    for (unsigned i = 0; i < COUNT_OF(ok); i++) {
        assert_int_equal(ok[i].why, ERR_OK);
        assert_true(ok[i].order < COUNT_OF(ok));
        ask_end(&ok[i]);
    }
    assert_int_equal(pass.state, LIMITER_IN);
    assert_false(limiter_leave(limiter, &pass));
    assert_int_not_equal(http_client_origin(STR("/no/host"), origin), ERR_OK);
    assert_int_equal(http_client_origin(STR("HTTPS://Example.ORG/x?y"), origin), ERR_OK);
    assert_string_equal(origin, "example.org:443");
    ask_end(&hangs);
    ask_end(&waits);
    asker_end(&a);
    rogue_stop(&r);
}

static void in_all_no_more_run_than_there_may_be_connections(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c, ASKS);
    struct rogue *r[2] = { rogue_start(play_crowd, &c), rogue_start(play_crowd, &c) };
    struct asker a;
    struct ask q[ASKS];
    asker_begin(&a, &(struct http_client_opts){ .connections_max = 1 });
    for (unsigned i = 0; i < ASKS; i++) {
        ask_begin(&q[i], &a, rogue_port(r[i % 2]), "/");
        ask_start(&q[i]);
    }
    asker_run(&a);
    for (unsigned i = 0; i < ASKS; i++) {
        assert_int_equal(q[i].why, ERR_OK);
        assert_int_equal(q[i].order, i);
        ask_end(&q[i]);
    }
    assert_int_equal(atomic_load(&c.most), 1);
    asker_end(&a);
    rogue_stop(&r[0]);
    rogue_stop(&r[1]);
    sem_destroy(&c.go);
}

static void who_waits_too_long_for_its_turn_was_never_sent(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang, NULL);
    struct asker a;
    struct ask first, second;
    asker_begin(&a, &(struct http_client_opts){ .per_host_max = 1 });
    ask_begin(&first, &a, rogue_port(r), "/");
    ask_begin(&second, &a, rogue_port(r), "/");
    second.call.deadline = mono_add_ms(second.call.deadline, 1000 - ROGUE_ASK_MS);
    first.call.deadline = mono_add_ms(first.call.deadline, 2000 - ROGUE_ASK_MS);
    ask_start(&first);
    ask_start(&second);
    asker_run(&a);
    assert_int_equal(second.why, ERR_TIMEOUT);
    assert_false(second.call.sent);
    assert_int_equal(second.order, 0);
    assert_int_equal(first.why, ERR_TIMEOUT);
    ask_end(&first);
    ask_end(&second);
    asker_end(&a);
    rogue_stop(&r);
}

static void one_more_than_may_wait_is_refused(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c, ASKS);
    struct rogue *r = rogue_start(play_crowd, &c);
    struct asker a;
    struct ask q[5];
    asker_begin(&a, &(struct http_client_opts){ .per_host_max = 1, .waiting_max = 3 });
    for (unsigned i = 0; i < COUNT_OF(q); i++) {
        ask_begin(&q[i], &a, rogue_port(r), "/");
        ask_start(&q[i]);
    }
    asker_run(&a);
    for (unsigned i = 0; i < COUNT_OF(q); i++) {
        assert_int_equal(q[i].why, i < 4 ? ERR_OK : ERR_LIMIT); /* one runs, three wait */
        ask_end(&q[i]);
    }
    asker_end(&a);
    rogue_stop(&r);
    sem_destroy(&c.go);
}

static void what_is_canceled_ends_whether_it_waits_or_runs(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang, NULL);
    struct asker a;
    struct ask q[3];
    asker_begin(&a, &(struct http_client_opts){ .per_host_max = 1 });
    for (unsigned i = 0; i < COUNT_OF(q); i++) {
        ask_begin(&q[i], &a, rogue_port(r), "/");
        ask_start(&q[i]);
    }
    for (unsigned i = 0; i < COUNT_OF(q); i++)
        http_call_cancel(a.client, &q[COUNT_OF(q) - 1 - i].call);
    http_call_cancel(a.client, &q[0].call); /* twice is once */
    asker_run(&a);
    for (unsigned i = 0; i < COUNT_OF(q); i++) {
        assert_int_equal(q[i].why, ERR_SHUTDOWN);
        assert_int_equal(q[i].dones, 1);
    }
    http_call_cancel(a.client, &q[1].call); /* done long ago */
    struct ask last;
    ask_begin(&last, &a, 1, "/");
    ask_now(&last);
    assert_int_equal(last.why, ERR_UNAVAILABLE);
    assert_int_equal(q[1].dones, 1);
    ask_end(&last);
    for (unsigned i = 0; i < COUNT_OF(q); i++)
        ask_end(&q[i]);
    asker_end(&a);
    rogue_stop(&r);
}

static void the_end_ends_all_and_refuses_the_rest(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_hang, NULL);
    struct asker a;
    struct ask q[4];
    asker_begin(&a, &(struct http_client_opts){ .per_host_max = 1 });
    for (unsigned i = 0; i < COUNT_OF(q); i++)
        ask_begin(&q[i], &a, rogue_port(r), "/");
    for (unsigned i = 0; i < 3; i++)
        ask_start(&q[i]);
    http_client_stop(a.client);
    ask_start(&q[3]);
    asker_run(&a);
    for (unsigned i = 0; i < COUNT_OF(q); i++) {
        assert_int_equal(q[i].why, ERR_SHUTDOWN);
        ask_end(&q[i]);
    }
    asker_end(&a);
    rogue_stop(&r);
}

/* ---- connections that never come about ---- */

enum { FULL_FILLERS = 4, FULL_ASKS = 48, CHURN_FILES = 8, FILES_FEW = 64 };

/* Listens, but takes no more connections: who connects hangs. */
struct full {
    uint16_t port;
    int listening, fillers[FULL_FILLERS];
};

static void full_begin(struct full *f)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t at_n = sizeof at;
    f->listening = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(f->listening >= 0);
    assert_int_equal(bind(f->listening, (struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(f->listening, 0), 0);
    assert_int_equal(getsockname(f->listening, (struct sockaddr *)&at, &at_n), 0);
    f->port = ntohs(at.sin_port);
    for (unsigned i = 0; i < FULL_FILLERS; i++) {
        f->fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        assert_true(f->fillers[i] >= 0);
        (void)connect(f->fillers[i], (struct sockaddr *)&at,
                      sizeof at); /* EINPROGRESS, all but the first for good */
    }
}

static void full_end(struct full *f)
{
    for (unsigned i = 0; i < FULL_FILLERS; i++)
        close(f->fillers[i]);
    close(f->listening);
}

/* Takes the numbers of files that others have closed, again and again, until it is over. */
static void *churn_main(void *ctx)
{
    atomic_bool *over = ctx;
    int files[CHURN_FILES];
    while (!atomic_load(over)) {
        for (unsigned i = 0; i < CHURN_FILES; i++)
            INVARIANT((files[i] = open("/dev/null", O_RDONLY | O_CLOEXEC)) >= 0);
        for (unsigned i = 0; i < CHURN_FILES; i++)
            close(files[i]);
    }
    return NULL;
}

static unsigned files_open(void)
{
    unsigned count = 0;
    DIR *folder = opendir("/proc/self/fd");
    assert_non_null(folder);
    while (readdir(folder) != NULL)
        count++;
    closedir(folder);
    return count;
}

/* Found by TSan only: the number of a socket that the library has closed is touched while it is
 * another thread's. */
static void what_never_connected_leaves_its_number_to_others(void **state)
{
    (void)state;
    struct full f;
    struct asker a;
    struct ask q[FULL_ASKS];
    atomic_bool over = false;
    pthread_t churn;
    full_begin(&f);
    asker_begin(&a, &(struct http_client_opts){ .per_host_max = FULL_ASKS });
    unsigned files = files_open();
    assert_int_equal(pthread_create(&churn, NULL, churn_main, &over), 0);
    for (unsigned i = 0; i < FULL_ASKS; i++) {
        ask_begin(&q[i], &a, f.port, "/");
        q[i].call.deadline = mono_add_ms(q[i].call.deadline, 500 - ROGUE_ASK_MS);
        ask_start(&q[i]);
    }
    asker_run(&a);
    atomic_store(&over, true);
    assert_int_equal(pthread_join(churn, NULL), 0);
    for (unsigned i = 0; i < FULL_ASKS; i++) {
        assert_int_equal(q[i].why, ERR_TIMEOUT);
        assert_false(q[i].call.sent);
        ask_end(&q[i]);
    }
    assert_int_equal(files_open(), files);
    asker_end(&a);
    full_end(&f);
}

static void one_file_that_may_be_opened_is_enough_to_connect(void **state)
{
    (void)state;
    struct full f;
    struct asker a;
    struct ask q;
    struct rlimit before, few;
    int taken[FILES_FEW];
    unsigned count = 0;
    full_begin(&f);
    asker_begin(&a, NULL);
    ask_begin(&q, &a, f.port, "/");
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
    few = (struct rlimit){ .rlim_cur = FILES_FEW, .rlim_max = before.rlim_max };
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
    for (int fd = dup(0); fd >= 0; fd = dup(0))
        taken[count++] = fd;
    assert_true(count > 0);
    close(taken[--count]);
    q.call.deadline = mono_add_ms(q.call.deadline, 500 - ROGUE_ASK_MS);
    ask_now(&q);
    assert_int_equal(q.why, ERR_TIMEOUT);
    int freed = dup(0); /* the library's was closed */
    assert_true(freed >= 0);
    close(freed);
    while (count > 0)
        close(taken[--count]);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
    ask_end(&q);
    asker_end(&a);
    full_end(&f);
}

/* ---- from other threads ---- */

enum { THREADS = 4, EACH = 50 };

struct mixed {
    struct http_client *client;
    uint16_t port;
    struct ask asks[EACH];
    sem_t done;
};

static void mixed_done(struct http_call *call, err why)
{
    struct ask *q = call->ctx;
    q->why = why;
    q->dones++;
    INVARIANT(sem_post(&CONTAINER_OF(q - q->order, struct mixed, asks)->done) == 0);
}

/* Asks, cancels every third at some point of its life, and waits for all. */
static void *mixed_main(void *ctx)
{
    struct mixed *m = ctx;
    struct asker none = { .loop = NULL };
    for (unsigned i = 0; i < EACH; i++) {
        struct ask *q = &m->asks[i];
        ask_begin(q, &none, m->port, "/");
        q->order = i;
        q->call.done = mixed_done;
        http_call_start(m->client, &q->call);
        if (i % 3 == 0)
            http_call_cancel(m->client, &m->asks[i / 2].call);
    }
    for (unsigned i = 0; i < EACH; i++)
        INVARIANT(sem_wait(&m->done) == 0);
    return NULL;
}

/* Waits for the others, then ends the loop. */
struct joiner {
    struct loop *loop;
    struct mixed *mixed;
};

static void *joiner_main(void *ctx)
{
    struct joiner *j = ctx;
    pthread_t threads[THREADS];
    for (unsigned i = 0; i < THREADS; i++)
        INVARIANT(pthread_create(&threads[i], NULL, mixed_main, &j->mixed[i]) == 0);
    for (unsigned i = 0; i < THREADS; i++)
        INVARIANT(pthread_join(threads[i], NULL) == 0);
    loop_stop(j->loop);
    return NULL;
}

static void any_thread_may_start_and_cancel(void **state)
{
    (void)state;
    struct crowd c;
    crowd_begin(&c, THREADS * EACH * 2);
    struct rogue *r = rogue_start(play_crowd, &c);
    struct asker a;
    asker_begin(&a, NULL);
    struct joiner j = { .loop = a.loop, .mixed = calloc(THREADS, sizeof *j.mixed) };
    assert_non_null(j.mixed);
    for (unsigned i = 0; i < THREADS; i++) {
        j.mixed[i].client = a.client;
        j.mixed[i].port = rogue_port(r);
        assert_int_equal(sem_init(&j.mixed[i].done, 0, 0), 0);
    }
    pthread_t joiner;
    assert_int_equal(pthread_create(&joiner, NULL, joiner_main, &j), 0);
    asker_run(&a);
    assert_int_equal(pthread_join(joiner, NULL), 0);
    unsigned answered = 0;
    for (unsigned i = 0; i < THREADS * EACH; i++) {
        struct ask *q = &j.mixed[i / EACH].asks[i % EACH];
        assert_int_equal(q->dones, 1);
        assert_true(q->why == ERR_OK || q->why == ERR_SHUTDOWN);
        answered += q->why == ERR_OK;
        ask_end(q);
    }
    assert_true(answered >= THREADS * EACH / 2); /* at most a third was canceled */
    free(j.mixed);
    asker_end(&a);
    rogue_stop(&r);
    sem_destroy(&c.go);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_silent_server_costs_no_more_than_the_deadline),
        cmocka_unit_test(no_more_than_a_host_may_have_run_at_once),
        cmocka_unit_test(a_host_may_have_a_limit_of_its_own),
        cmocka_unit_test(who_brings_a_pass_waits_for_no_turn),
        cmocka_unit_test(in_all_no_more_run_than_there_may_be_connections),
        cmocka_unit_test(who_waits_too_long_for_its_turn_was_never_sent),
        cmocka_unit_test(one_more_than_may_wait_is_refused),
        cmocka_unit_test(what_is_canceled_ends_whether_it_waits_or_runs),
        cmocka_unit_test(the_end_ends_all_and_refuses_the_rest),
        cmocka_unit_test(what_never_connected_leaves_its_number_to_others),
        cmocka_unit_test(one_file_that_may_be_opened_is_enough_to_connect),
        cmocka_unit_test(any_thread_may_start_and_cancel),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
