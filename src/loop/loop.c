/* loop.c - the event loop on libuv: posts from other threads, timers, and jobs on the pool.
 *
 * Invariants:
 * 1. Handles of libuv are touched on the loop thread only; other threads reach it through posts.
 * 2. Every started job, and every task of the pool, stands in jobs from its turn on the loop until
 *    it is over.
 * 3. done is called once, from the loop, never inside loop_job_start.
 * 4. Posts that wait have a wake under way, or the running loop owes them a look before it sleeps.
 */
#include "loop/loop.h"
#include "loop/signals.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <uv.h>

#define LOOP_MAGIC 0x100b100bu
#define TIMER_MAGIC 0x71e3e71eu
#define WATCH_MAGIC 0x3a7c43a7u
#define LOOP_STALL_NS 5000000u
enum {
    LOOP_THREADS_MAX = 1024, /* of libuv */
    LOOP_ROUNDS_MAX = 4,     /* of what the loop posts to itself, before it looks at sockets */
};

/* A call of loop_post: the loop's own task. */
struct post {
    struct task task;
    void (*fn)(void *ctx);
    void *ctx;
};

/* What is on its way through the pool: a job, or a task. */
struct request {
    uv_work_t work;
    struct loop_job *job; /* NULL: a task */
    struct task *task;
    struct loop *loop;
    struct request *prev, *next;
};

struct loop {
    uint32_t magic;
    uv_loop_t uv;
    uv_async_t wake;
    uv_prepare_t sleeps;                       /* called before it does */
    uv_poll_t signals;                         /* of signals_fd(), once there is a got */
    void (*got)(void *ctx, int signal_number); /* NULL until loop_signals */
    void *got_ctx;
    struct home home, pool;
    pthread_mutex_t lock;           /* of the next */
    struct task_list posts, pooled; /* to run here; to go to the pool */
    struct request *jobs;
    size_t timers_count, watches_count;
    const struct loop_timer *firing;
    bool ending, owes; /* owes: it posted to itself; the loop thread's */
    atomic_bool stopping, running;
    _Atomic pthread_t thread; /* the creator's until loop_run */
    _Atomic uint64_t stalls;
};

struct loop_timer {
    uint32_t magic;
    uv_timer_t uv;
    struct loop *loop;
    void (*fired)(void *ctx);
    void *ctx;
};

struct loop_watch {
    uint32_t magic;
    uv_poll_t uv;
    unsigned wanted; /* of libuv, while uv is active */
    struct loop *loop;
    void (*ready)(void *ctx, unsigned events);
    void *ctx;
};

static uint64_t turn_begin(void)
{
    return uv_hrtime();
}

static void turn_end(struct loop *l, uint64_t began)
{
    if (uv_hrtime() - began > LOOP_STALL_NS)
        (void)atomic_fetch_add(&l->stalls, 1); /* the old value is of no use */
}

static void task_begin(struct loop *l, struct task *t);

static void posts_run(struct loop *l)
{
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
    struct task_list posts = l->posts, pooled = l->pooled;
    l->posts = l->pooled = (struct task_list){ .first = NULL };
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
    for (struct task *t = task_list_take(&pooled); t != NULL; t = task_list_take(&pooled))
        task_begin(l, t);
    for (struct task *t = task_list_take(&posts); t != NULL; t = task_list_take(&posts)) {
        uint64_t began = turn_begin();
        t->run(t);
        turn_end(l, began);
    }
}

static void on_wake(uv_async_t *wake)
{
    struct loop *l = wake->data;
    MAGIC_CHECK(l, LOOP_MAGIC);
    bool stop = atomic_load(&l->stopping); /* before: what was posted before the stop is run */
    posts_run(l);
    if (stop && !l->ending)
        uv_stop(&l->uv);
}

/* What a task posts runs in the next round, and what the last round leaves after the sockets. */
static void on_sleeps(uv_prepare_t *sleeps)
{
    struct loop *l = sleeps->data;
    MAGIC_CHECK(l, LOOP_MAGIC);
    for (unsigned n = 0; l->owes && n < LOOP_ROUNDS_MAX; n++) {
        l->owes = false;
        posts_run(l);
    }
    if (l->owes)
        INVARIANT(uv_async_send(&l->wake) == 0);
}

static bool is_here(const struct loop *l)
{
    return pthread_equal(atomic_load(&l->thread), pthread_self()) != 0;
}

/* Wakes under the lock: once the loop has run the last task its owner may free the loop. A loop
 * that posts to itself is awake: to wake it costs three system calls. */
static void list_post(struct loop *l, struct task_list *list, struct task *t)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
    if (task_list_put(list, t)) {
        if (is_here(l) && atomic_load(&l->running))
            l->owes = true;
        else
            INVARIANT(uv_async_send(&l->wake) == 0);
    }
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
}

static void on_home_post(struct home *h, struct task *t)
{
    struct loop *l = CONTAINER_OF(h, struct loop, home);
    list_post(l, &l->posts, t);
}

static void on_pool_post(struct home *h, struct task *t)
{
    struct loop *l = CONTAINER_OF(h, struct loop, pool);
    list_post(l, &l->pooled, t);
}

struct loop *loop_new(unsigned threads)
{
    INVARIANT(threads > 0);
    INVARIANT(threads <= LOOP_THREADS_MAX);
    char digits[16];
    (void)snprintf(digits, sizeof digits, "%u", threads); /* four digits at most */
    INVARIANT(setenv("UV_THREADPOOL_SIZE", digits, 1) == 0);
    struct loop *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->magic = LOOP_MAGIC;
    l->home.post = on_home_post;
    l->pool.post = on_pool_post;
    atomic_store(&l->thread, pthread_self());
    INVARIANT(pthread_mutex_init(&l->lock, NULL) == 0);
    INVARIANT(uv_loop_init(&l->uv) == 0);
    INVARIANT(uv_async_init(&l->uv, &l->wake, on_wake) == 0);
    l->wake.data = l;
    INVARIANT(uv_prepare_init(&l->uv, &l->sleeps) == 0);
    l->sleeps.data = l;
    INVARIANT(uv_prepare_start(&l->sleeps, on_sleeps) == 0);
    return l;
}

static bool posts_waiting(struct loop *l)
{
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
    bool waiting = l->posts.first != NULL || l->pooled.first != NULL;
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
    return waiting;
}

/* What has not begun is taken back; its done is told so. What has begun is waited for. */
static void jobs_finish(struct loop *l)
{
    for (struct request *r = l->jobs; r != NULL; r = r->next)
        (void)uv_cancel((uv_req_t *)&r->work); /* EBUSY: it runs, and ends by itself */
    while (l->jobs != NULL || posts_waiting(l))
        (void)uv_run(&l->uv, UV_RUN_ONCE); /* says whether handles are open: they are */
}

void loop_free(struct loop **lp)
{
    struct loop *l = *lp;
    if (l == NULL)
        return;
    MAGIC_CHECK(l, LOOP_MAGIC);
    INVARIANT(!atomic_load(&l->running));
    atomic_store(&l->thread, pthread_self());
    l->ending = true;
    jobs_finish(l);
    INVARIANT(l->timers_count == 0);
    INVARIANT(l->watches_count == 0);
    uv_close((uv_handle_t *)&l->wake, NULL);
    uv_close((uv_handle_t *)&l->sleeps, NULL);
    if (l->got != NULL) {
        signals_ignore(SIGNALS_NOTED); /* no moment is left in which they kill */
        uv_close((uv_handle_t *)&l->signals, NULL);
    }
    INVARIANT(uv_run(&l->uv, UV_RUN_DEFAULT) == 0);
    INVARIANT(uv_loop_close(&l->uv) == 0);
    INVARIANT(pthread_mutex_destroy(&l->lock) == 0);
    l->magic = 0;
    free(l);
    *lp = NULL;
}

void loop_run(struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    INVARIANT(!atomic_exchange(&l->running, true));
    atomic_store(&l->thread, pthread_self());
    (void)uv_run(&l->uv, UV_RUN_DEFAULT); /* always by uv_stop: the async handle stays open */
    atomic_store(&l->stopping, false);
    atomic_store(&l->running, false);
    if (l->owes)
        INVARIANT(uv_async_send(&l->wake) == 0); /* for the next loop_run, or loop_free */
}

void loop_stop(struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    atomic_store(&l->stopping, true);
    INVARIANT(uv_async_send(&l->wake) == 0);
}

void loop_assert_here(const struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    INVARIANT(is_here(l));
}

bool loop_is_here(const struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    return is_here(l);
}

uint64_t loop_stalls(const struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    return atomic_load(&l->stalls);
}

struct home *loop_home(struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    return &l->home;
}

struct home *loop_pool(struct loop *l)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    return &l->pool;
}

static void post_run(struct task *t)
{
    struct post *p = CONTAINER_OF(t, struct post, task);
    p->fn(p->ctx);
    free(p);
}

void loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
    struct post *p = malloc(sizeof *p);
    INVARIANT(p != NULL);
    *p = (struct post){ .task = { .run = post_run }, .fn = fn, .ctx = ctx };
    home_post(loop_home(l), &p->task);
}

static void on_timer(uv_timer_t *uv)
{
    struct loop_timer *t = uv->data;
    MAGIC_CHECK(t, TIMER_MAGIC);
    struct loop *l = t->loop; /* fired may free the timer */
    uint64_t began = turn_begin();
    l->firing = t;
    t->fired(t->ctx);
    l->firing = NULL;
    turn_end(l, began);
}

static void on_timer_closed(uv_handle_t *uv)
{
    free(uv->data);
}

struct loop_timer *loop_timer_new(struct loop *l, void (*fired)(void *ctx), void *ctx)
{
    loop_assert_here(l);
    struct loop_timer *t = malloc(sizeof *t);
    INVARIANT(t != NULL);
    *t = (struct loop_timer){ .magic = TIMER_MAGIC, .loop = l, .fired = fired, .ctx = ctx };
    INVARIANT(uv_timer_init(&l->uv, &t->uv) == 0);
    t->uv.data = t;
    l->timers_count++;
    return t;
}

void loop_timer_start(struct loop_timer *t, int64_t first_ms, int64_t repeat_ms)
{
    MAGIC_CHECK(t, TIMER_MAGIC);
    loop_assert_here(t->loop);
    uv_update_time(&t->loop->uv); /* else it counts from the start of this turn */
    if (first_ms <= 0 && t->loop->firing == t)
        first_ms = 1; /* libuv would run it in this turn, and again, and look at nothing else */
    INVARIANT(uv_timer_start(&t->uv, on_timer, first_ms > 0 ? (uint64_t)first_ms : 0,
                             repeat_ms > 0 ? (uint64_t)repeat_ms : 0) == 0);
}

void loop_timer_stop(struct loop_timer *t)
{
    MAGIC_CHECK(t, TIMER_MAGIC);
    loop_assert_here(t->loop);
    INVARIANT(uv_timer_stop(&t->uv) == 0);
}

void loop_timer_free(struct loop_timer **tp)
{
    struct loop_timer *t = *tp;
    if (t == NULL)
        return;
    MAGIC_CHECK(t, TIMER_MAGIC);
    loop_assert_here(t->loop);
    INVARIANT(t->loop->timers_count > 0);
    t->loop->timers_count--;
    t->magic = 0;
    uv_close((uv_handle_t *)&t->uv, on_timer_closed);
    *tp = NULL;
}

/* libuv stops a handle whose socket has an error, and says EBADF whatever the error is. */
static void on_poll(uv_poll_t *uv, int status, int events)
{
    struct loop_watch *w = uv->data;
    MAGIC_CHECK(w, WATCH_MAGIC);
    struct loop *l = w->loop; /* ready may free the watch */
    unsigned seen = status < 0 ? LOOP_ERROR : 0;
    seen |= events & UV_READABLE ? LOOP_READABLE : 0;
    seen |= events & UV_WRITABLE ? LOOP_WRITABLE : 0;
    seen |= events & UV_DISCONNECT ? LOOP_GONE : 0;
    uint64_t began = turn_begin();
    w->ready(w->ctx, seen);
    turn_end(l, began);
}

static void on_poll_closed(uv_handle_t *uv)
{
    free(uv->data);
}

struct loop_watch *loop_watch_new(struct loop *l, int fd, void (*ready)(void *ctx, unsigned events),
                                  void *ctx)
{
    loop_assert_here(l);
    struct loop_watch *w = malloc(sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct loop_watch){ .magic = WATCH_MAGIC, .loop = l, .ready = ready, .ctx = ctx };
    INVARIANT(uv_poll_init(&l->uv, &w->uv, fd) == 0);
    w->uv.data = w;
    l->watches_count++;
    return w;
}

void loop_watch_start(struct loop_watch *w, unsigned events)
{
    MAGIC_CHECK(w, WATCH_MAGIC);
    loop_assert_here(w->loop);
    INVARIANT((events & ~(unsigned)(LOOP_READABLE | LOOP_WRITABLE | LOOP_GONE)) == 0);
    if (events == 0) {
        loop_watch_stop(w);
        return;
    }
    unsigned wanted = 0;
    wanted |= events & LOOP_READABLE ? UV_READABLE : 0;
    wanted |= events & LOOP_WRITABLE ? UV_WRITABLE : 0;
    wanted |= events & LOOP_GONE ? UV_DISCONNECT : 0;
    if (w->wanted == wanted && uv_is_active((uv_handle_t *)&w->uv))
        return; /* libuv would take the descriptor out of the kernel's set, and put it back */
    w->wanted = wanted;
    INVARIANT(uv_poll_start(&w->uv, (int)wanted, on_poll) == 0);
}

void loop_watch_stop(struct loop_watch *w)
{
    MAGIC_CHECK(w, WATCH_MAGIC);
    loop_assert_here(w->loop);
    INVARIANT(uv_poll_stop(&w->uv) == 0);
}

void loop_watch_free(struct loop_watch **wp)
{
    struct loop_watch *w = *wp;
    if (w == NULL)
        return;
    MAGIC_CHECK(w, WATCH_MAGIC);
    loop_assert_here(w->loop);
    INVARIANT(w->loop->watches_count > 0);
    w->loop->watches_count--;
    w->magic = 0;
    uv_close((uv_handle_t *)&w->uv,
             on_poll_closed); /* takes the descriptor from the kernel's set at once */
    *wp = NULL;
}

static void on_work(uv_work_t *work)
{
    struct request *r = work->data;
    if (r->job != NULL)
        r->job->run(r->job);
    else
        r->task->run(r->task);
}

/* ---- requests: what stands in jobs ---- */

static void on_worked(uv_work_t *work, int status);

static void request_begin(struct loop *l, struct loop_job *job, struct task *task)
{
    struct request *r = malloc(sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct request){ .job = job, .task = task, .loop = l, .next = l->jobs };
    r->work.data = r;
    if (l->jobs != NULL)
        l->jobs->prev = r;
    l->jobs = r;
    INVARIANT(uv_queue_work(&l->uv, &r->work, on_work, on_worked) == 0);
    if (l->ending)
        (void)uv_cancel((uv_req_t *)&r->work); /* as in jobs_finish */
}

static void request_end(struct request *r)
{
    if (r->prev != NULL)
        r->prev->next = r->next;
    else
        r->loop->jobs = r->next;
    if (r->next != NULL)
        r->next->prev = r->prev;
    free(r);
}

static void task_begin(struct loop *l, struct task *t)
{
    request_begin(l, NULL, t); /* jobs has it */
}

/* ---- jobs ---- */

static void job_over(struct loop_job *job, bool canceled)
{
    struct loop *l = job->loop;
    uint64_t began = turn_begin();
    job->done(job, canceled); /* may free the job */
    turn_end(l, began);
}

/* A task that was taken back runs here: nobody else is told that it will not. */
static void on_worked(uv_work_t *work, int status)
{
    struct request *r = work->data;
    struct loop_job *job = r->job;
    struct task *task = r->task;
    bool canceled = status == UV_ECANCELED;
    request_end(r);
    if (job != NULL)
        job_over(job, canceled);
    else if (canceled)
        task->run(task);
}

static void job_begin(void *ctx)
{
    struct loop_job *job = ctx;
    request_begin(job->loop, job, NULL); /* jobs has it */
}

void loop_job_start(struct loop *l, struct loop_job *j)
{
    MAGIC_CHECK(l, LOOP_MAGIC);
    j->loop = l;
    if (atomic_load(&l->running) && is_here(l))
        job_begin(j);
    else
        loop_post(l, job_begin, j);
}

static void on_signals(uv_poll_t *uv, int status, int events)
{
    struct loop *l = uv->data;
    MAGIC_CHECK(l, LOOP_MAGIC);
    INVARIANT(status == 0);
    INVARIANT(events == UV_READABLE);
    uint64_t began = turn_begin();
    for (unsigned came = signals_take(); came != 0; came &= came - 1)
        l->got(l->got_ctx, signals_number(came));
    turn_end(l, began);
}

void loop_signals(struct loop *l, void (*got)(void *ctx, int signal_number), void *ctx)
{
    loop_assert_here(l);
    INVARIANT(l->got == NULL);
    l->got = got;
    l->got_ctx = ctx;
    signals_watch(SIGNALS_NOTED, SIGNALS_EACH);
    INVARIANT(uv_poll_init(&l->uv, &l->signals, signals_fd()) == 0);
    l->signals.data = l;
    INVARIANT(uv_poll_start(&l->signals, UV_READABLE, on_signals) == 0);
}
