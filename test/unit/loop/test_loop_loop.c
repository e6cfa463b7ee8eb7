/* Goal: order of posts, one done per job, timers, signals, and an end that waits.
 * Method: real loops and threads; whatever is waited for ends the loop, and a watchdog timer fails
 * it. */
#include "loop/loop.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { THREADS = 2, WATCHDOG_MS = 120000, POSTERS = 4, POSTS_EACH = 500, JOBS = 200 };

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", WATCHDOG_MS);
}

static void run_watched(struct loop *l)
{
    struct loop_timer *watchdog = loop_timer_new(l, overdue, NULL);
    loop_timer_start(watchdog, WATCHDOG_MS, 0);
    loop_run(l);
    loop_timer_free(&watchdog);
    assert_null(watchdog);
}

struct poster {
    struct loop *loop;
    atomic_uint *left;
    unsigned id, next_sent, next_seen;
};
struct message {
    struct poster *from;
    unsigned number;
};

static void message_seen(void *ctx)
{
    struct message *m = ctx;
    struct poster *p = m->from;
    loop_assert_here(p->loop);
    assert_int_equal(m->number, p->next_seen);
    p->next_seen++;
    free(m);
    if (atomic_fetch_sub(p->left, 1) == 1)
        loop_stop(p->loop);
}

static void *poster_main(void *ctx)
{
    struct poster *p = ctx;
    for (unsigned i = 0; i < POSTS_EACH; i++) {
        struct message *m = malloc(sizeof *m);
        assert_non_null(m);
        *m = (struct message){ .from = p, .number = i };
        loop_post(p->loop, message_seen, m);
    }
    return NULL;
}

static void posts_of_each_thread_run_in_their_order(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    struct poster posters[POSTERS];
    pthread_t threads[POSTERS];
    atomic_uint left = POSTERS * POSTS_EACH;
    for (unsigned i = 0; i < POSTERS; i++) {
        posters[i] = (struct poster){ .loop = l, .left = &left, .id = i };
        assert_int_equal(pthread_create(&threads[i], NULL, poster_main, &posters[i]), 0);
    }
    run_watched(l);
    for (unsigned i = 0; i < POSTERS; i++) {
        assert_int_equal(pthread_join(threads[i], NULL), 0);
        assert_int_equal(posters[i].next_seen, POSTS_EACH);
    }
    loop_free(&l);
    assert_null(l);
}

static void count_up(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void posts_before_a_stop_and_before_the_end_are_run(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    unsigned before = 0, after = 0;
    loop_post(l, count_up, &before);
    loop_stop(l);
    loop_run(l);
    assert_int_equal(before, 1);
    loop_post(l, count_up, &after);
    assert_int_equal(after, 0);
    loop_free(&l);
    assert_int_equal(after, 1);
}

/* ---- homes ---- */

struct walker {
    struct task task;
    struct loop *loop;
    atomic_uint *left;
    unsigned steps;
    bool pooled;
};

/* From the loop to the pool and back, a few times. */
static void walker_step(struct task *t)
{
    struct walker *w = CONTAINER_OF(t, struct walker, task);
    if (!w->pooled)
        loop_assert_here(w->loop);
    w->pooled = !w->pooled;
    if (w->steps-- > 0)
        home_post(w->pooled ? loop_pool(w->loop) : loop_home(w->loop), t);
    else if (atomic_fetch_sub(w->left, 1) == 1)
        loop_stop(w->loop);
}

static void tasks_go_from_home_to_home(void **state)
{
    (void)state;
    enum { WALKERS = 100, STEPS = 20 };
    struct loop *l = loop_new(THREADS);
    struct walker walkers[WALKERS];
    atomic_uint left = WALKERS;
    for (unsigned i = 0; i < WALKERS; i++) {
        walkers[i] = (struct walker){
            .task = { .run = walker_step }, .loop = l, .left = &left, .steps = STEPS
        };
        home_post(loop_home(l), &walkers[i].task);
    }
    run_watched(l);
    assert_int_equal(left, 0);
    loop_free(&l);
}

struct marked {
    struct task task;
    unsigned *next, seen;
};

static void marked_run(struct task *t)
{
    struct marked *m = CONTAINER_OF(t, struct marked, task);
    m->seen = ++*m->next;
}

static void marked_post(void *ctx)
{
    ++*(unsigned *)ctx;
}

static void tasks_and_posts_run_in_one_order(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    unsigned next = 0;
    struct marked first = { .task = { .run = marked_run }, .next = &next }, last = first,
                  here = first;
    home_post(loop_home(l), &first.task);
    loop_post(l, marked_post, &next);
    home_post(loop_home(l), &last.task);
    assert_int_equal(next, 0);
    home_post(home_here(), &here.task);
    assert_int_equal(here.seen, 1);
    loop_free(&l); /* runs what was posted */
    assert_int_equal(first.seen, 2);
    assert_int_equal(last.seen, 4);
}

static void tasks_of_the_pool_run_although_the_loop_ends(void **state)
{
    (void)state;
    enum { TASKS = 50 };
    struct loop *l = loop_new(THREADS);
    atomic_uint left = TASKS;
    struct walker tasks[TASKS];
    for (unsigned i = 0; i < TASKS; i++) {
        tasks[i] = (struct walker){
            .task = { .run = walker_step }, .loop = l, .left = &left, .pooled = true
        };
        home_post(loop_pool(l), &tasks[i].task);
    }
    loop_free(&l);
    assert_int_equal(left, 0);
}

struct counted_job {
    struct loop_job job;
    unsigned *left;
    atomic_uint runs;
    unsigned dones;
    bool canceled, again;
    pthread_t ran_on;
};

static void counted_run(struct loop_job *j)
{
    struct counted_job *c = CONTAINER_OF(j, struct counted_job, job);
    c->ran_on = pthread_self();
    atomic_fetch_add(&c->runs, 1);
}

static void counted_done(struct loop_job *j, bool canceled)
{
    struct counted_job *c = CONTAINER_OF(j, struct counted_job, job);
    loop_assert_here(j->loop);
    c->dones++;
    c->canceled = canceled;
    if (c->again) {
        c->again = false;
        loop_job_start(j->loop, j);
        assert_int_equal(c->dones, 1); /* done comes later, also from the loop itself */
        return;
    }
    if (--*c->left == 0)
        loop_stop(j->loop);
}

static void jobs_run_on_the_pool_and_are_done_once(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    struct counted_job *jobs = calloc(JOBS, sizeof *jobs);
    assert_non_null(jobs);
    unsigned left = JOBS;
    for (unsigned i = 0; i < JOBS; i++) {
        jobs[i].job = (struct loop_job){ .run = counted_run, .done = counted_done };
        jobs[i].left = &left;
        jobs[i].again = i % 10 == 0;
        loop_job_start(l, &jobs[i].job);
    }
    run_watched(l);
    for (unsigned i = 0; i < JOBS; i++) {
        unsigned times = i % 10 == 0 ? 2 : 1;
        assert_int_equal(jobs[i].dones, times);
        assert_int_equal(atomic_load(&jobs[i].runs), times);
        assert_false(jobs[i].canceled);
        assert_false(pthread_equal(jobs[i].ran_on, pthread_self()));
    }
    free(jobs);
    loop_free(&l);
}

/* A gate that pool threads stand at until it opens. */
struct gate {
    pthread_mutex_t lock;
    pthread_cond_t opened;
    bool open;
    unsigned standing;
};
struct gated_job {
    struct loop_job job;
    struct gate *gate;
    unsigned runs, dones, canceled;
};

static void gated_run(struct loop_job *j)
{
    struct gated_job *g = CONTAINER_OF(j, struct gated_job, job);
    g->runs++;
    pthread_mutex_lock(&g->gate->lock);
    g->gate->standing++;
    pthread_cond_broadcast(&g->gate->opened);
    while (!g->gate->open)
        pthread_cond_wait(&g->gate->opened, &g->gate->lock);
    pthread_mutex_unlock(&g->gate->lock);
}

static void gated_done(struct loop_job *j, bool canceled)
{
    struct gated_job *g = CONTAINER_OF(j, struct gated_job, job);
    g->dones++;
    g->canceled += canceled;
    pthread_mutex_lock(&g->gate->lock); /* the first one taken back opens it for those that run */
    g->gate->open = true;
    pthread_cond_broadcast(&g->gate->opened);
    pthread_mutex_unlock(&g->gate->lock);
}

static void stop_now(void *ctx)
{
    loop_stop(ctx);
}

static void the_end_waits_for_running_jobs_and_takes_back_the_others(void **state)
{
    (void)state;
    enum { GATED = 20 };
    struct loop *l = loop_new(THREADS);
    struct gate gate = { .lock = PTHREAD_MUTEX_INITIALIZER, .opened = PTHREAD_COND_INITIALIZER };
    struct gated_job jobs[GATED];
    for (unsigned i = 0; i < GATED; i++) {
        jobs[i] =
            (struct gated_job){ .job = { .run = gated_run, .done = gated_done }, .gate = &gate };
        loop_job_start(l, &jobs[i].job);
    }
    loop_post(l, stop_now, l);
    run_watched(l);
    pthread_mutex_lock(&gate.lock);
    while (gate.standing == 0)
        pthread_cond_wait(&gate.opened, &gate.lock);
    pthread_mutex_unlock(&gate.lock);
    loop_free(&l);
    unsigned ran = 0;
    for (unsigned i = 0; i < GATED; i++) {
        assert_int_equal(jobs[i].dones, 1);
        assert_int_equal(jobs[i].runs + jobs[i].canceled, 1);
        ran += jobs[i].runs;
    }
    assert_true(ran >= 1);
    assert_true(ran <= THREADS);
}

struct ticker {
    struct loop *loop;
    struct loop_timer *timer;
    unsigned fired, limit;
    bool free_inside;
};

static void tick(void *ctx)
{
    struct ticker *t = ctx;
    loop_assert_here(t->loop);
    if (++t->fired < t->limit)
        return;
    if (t->free_inside)
        loop_timer_free(&t->timer);
    else
        loop_timer_stop(t->timer);
    loop_stop(t->loop);
}

static int64_t now_ms(void)
{
    struct timespec t;
    assert_int_equal(clock_gettime(CLOCK_MONOTONIC, &t), 0);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

static void timers_repeat_until_stopped_and_may_be_freed_inside(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    struct ticker repeating = { .loop = l, .limit = 3 };
    struct ticker once = { .loop = l, .limit = 1, .free_inside = true };
    repeating.timer = loop_timer_new(l, tick, &repeating);
    once.timer = loop_timer_new(l, tick, &once);
    loop_timer_start(repeating.timer, 1, 1);
    run_watched(l);
    assert_int_equal(repeating.fired, 3);
    int64_t began = now_ms();
    loop_timer_start(once.timer, 20, 0);
    run_watched(l);
    assert_int_equal(once.fired, 1);
    assert_null(once.timer);
    assert_true(now_ms() - began >= 19); /* the loop rounds to its own ms */
    assert_int_equal(repeating.fired, 3);
    loop_timer_free(&repeating.timer);
    loop_free(&l);
}

static void be_slow(void *ctx)
{
    struct loop *l = ctx;
    int64_t began = now_ms();
    while (now_ms() - began < 10) {
    }
    loop_stop(l);
}

static void a_slow_callback_is_counted(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    assert_int_equal(loop_stalls(l), 0);
    loop_post(l, be_slow, l);
    run_watched(l);
    assert_true(loop_stalls(l) >= 1);
    loop_free(&l);
}

/* A task that posts itself so many times, and then stops the loop. */
struct again {
    struct task task;
    struct loop *loop;
    unsigned runs, runs_max;
};

static void again_run(struct task *t)
{
    struct again *a = CONTAINER_OF(t, struct again, task);
    if (++a->runs == a->runs_max)
        loop_stop(a->loop);
    else
        home_post(loop_home(a->loop), t);
}

/* Of this process: a wake is one, of libuv's descriptor. 0: not known here. */
static unsigned long reads_so_far(void)
{
    unsigned long reads = 0;
    char line[64];
    FILE *io = fopen("/proc/self/io", "r");
    if (io == NULL)
        return 0;
    while (fgets(line, sizeof line, io) != NULL)
        (void)sscanf(line, "syscr: %lu", &reads); /* other lines change nothing */
    assert_int_equal(fclose(io), 0);
    return reads;
}

static void a_loop_that_posts_to_itself_is_seldom_woken(void **state)
{
    (void)state;
    if (reads_so_far() == 0)
        skip();
    struct loop *l = loop_new(THREADS);
    struct again a = { .task.run = again_run, .loop = l, .runs_max = 10000 };
    home_post(loop_home(l), &a.task);
    unsigned long before = reads_so_far();
    run_watched(l);
    unsigned long reads = reads_so_far() - before;
    loop_free(&l);
    assert_int_equal(a.runs, a.runs_max);
    assert_in_range(reads, 1, a.runs_max / 2);
}

static void a_task_that_posts_itself_lets_timers_fire(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    struct again a = { .task.run = again_run, .loop = l };
    struct loop_timer *timer = loop_timer_new(l, stop_now, l);
    loop_timer_start(timer, 1, 0);
    home_post(loop_home(l), &a.task);
    run_watched(l);
    a.runs_max = a.runs + 1; /* its last */
    loop_timer_free(&timer);
    loop_free(&l);
    assert_int_equal(a.runs, a.runs_max);
}

static void post_again(void *ctx)
{
    struct again *a = ctx;
    home_post(loop_home(a->loop), &a->task);
}

static void what_a_loop_posts_as_it_stops_runs_at_its_end(void **state)
{
    (void)state;
    struct loop *l = loop_new(THREADS);
    struct again a = { .task.run = again_run, .loop = l, .runs_max = 1 };
    loop_post(l, post_again, &a);
    loop_stop(l);
    loop_run(l); /* the stop was seen before the post */
    assert_int_equal(a.runs, 0);
    loop_free(&l);
    assert_int_equal(a.runs, 1);
}

struct signals_seen {
    struct loop *loop;
    unsigned hup, term;
};

static void signal_seen(void *ctx, int signal_number)
{
    struct signals_seen *s = ctx;
    loop_assert_here(s->loop);
    if (signal_number == SIGHUP) {
        s->hup++;
        assert_int_equal(kill(getpid(), SIGTERM), 0);
    }
    if (signal_number == SIGTERM) {
        s->term++;
        loop_stop(s->loop);
    }
}

static void signals_arrive_on_the_loop(void **state)
{
    (void)state;
    struct signals_seen seen = { .loop = loop_new(THREADS) };
    loop_signals(seen.loop, signal_seen, &seen);
    assert_int_equal(kill(getpid(), SIGHUP), 0);
    run_watched(seen.loop);
    assert_int_equal(seen.hup, 1);
    assert_int_equal(seen.term, 1);
    loop_free(&seen.loop);
}

/* ---- a timer that is always due ---- */

enum { HASTY_MAX = 100000 };
struct hasty {
    struct loop *loop;
    struct loop_timer *timer;
    unsigned fired;
    bool heard; /* what was posted at its first firing has run */
};

static void hasty_heard(void *ctx)
{
    struct hasty *h = ctx;
    h->heard = true;
    loop_stop(h->loop);
}

static void hasty_fired(void *ctx)
{
    struct hasty *h = ctx;
    if (h->fired++ == 0)
        loop_post(h->loop, hasty_heard, h);
    if (h->fired < HASTY_MAX)
        loop_timer_start(h->timer, 0, 0);
    else
        loop_stop(h->loop);
}

/* A peer that never stops sending has it started so: everybody else would wait for as long. */
static void a_timer_started_in_its_own_firing_lets_others_run(void **state)
{
    (void)state;
    struct hasty h = { .loop = loop_new(THREADS) };
    h.timer = loop_timer_new(h.loop, hasty_fired, &h);
    loop_timer_start(h.timer, 0, 0);
    run_watched(h.loop);
    assert_true(h.heard);
    assert_true(h.fired < HASTY_MAX);
    loop_timer_free(&h.timer);
    loop_free(&h.loop);
}

/* ---- signals that do not end ---- */

enum { LOOPS_SIGNALLED = 300 };

static void *signal_without_end(void *ctx)
{
    atomic_bool *over = ctx;
    while (!atomic_load(over))
        assert_int_equal(kill(getpid(), SIGTERM), 0);
    return NULL;
}

/* There is no moment at which what a signal does by default is what it does. */
static void signals_at_the_end_do_not_kill(void **state)
{
    (void)state;
    atomic_bool over = false;
    pthread_t sender;
    for (int i = 0; i < LOOPS_SIGNALLED; i++) {
        struct signals_seen seen = { .loop = loop_new(THREADS) };
        loop_signals(seen.loop, signal_seen, &seen);
        if (i == 0)
            assert_int_equal(pthread_create(&sender, NULL, signal_without_end, &over), 0);
        run_watched(seen.loop);
        assert_true(seen.term >= 1);
        loop_free(&seen.loop);
    }
    atomic_store(&over, true);
    assert_int_equal(pthread_join(sender, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(posts_of_each_thread_run_in_their_order),
        cmocka_unit_test(posts_before_a_stop_and_before_the_end_are_run),
        cmocka_unit_test(tasks_go_from_home_to_home),
        cmocka_unit_test(tasks_and_posts_run_in_one_order),
        cmocka_unit_test(tasks_of_the_pool_run_although_the_loop_ends),
        cmocka_unit_test(jobs_run_on_the_pool_and_are_done_once),
        cmocka_unit_test(the_end_waits_for_running_jobs_and_takes_back_the_others),
        cmocka_unit_test(timers_repeat_until_stopped_and_may_be_freed_inside),
        cmocka_unit_test(a_slow_callback_is_counted),
        cmocka_unit_test(a_loop_that_posts_to_itself_is_seldom_woken),
        cmocka_unit_test(a_task_that_posts_itself_lets_timers_fire),
        cmocka_unit_test(what_a_loop_posts_as_it_stops_runs_at_its_end),
        cmocka_unit_test(a_timer_started_in_its_own_firing_lets_others_run),
        cmocka_unit_test(signals_arrive_on_the_loop),
        cmocka_unit_test(signals_at_the_end_do_not_kill),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
