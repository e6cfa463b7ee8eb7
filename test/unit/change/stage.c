/* stage.c - see stage.h. */
#include "stage.h"

#include "../bucket/engine_mem.h"
#include "../event/append_wait.h"
#include "../rule/rules.h"
#include "base/buf.h"
#include "lib/wait.h"
#include "rogue.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EPOCH (1800000000 * NS_PER_S)
enum { CALM_LOOKS = 3, RULES_BYTES_MAX = 64 << 10 };

/* ---- the target ---- */

static void request_note(struct stage *s, const char *request)
{
    const char *path = strchr(request, ' ');
    assert_non_null(path);
    size_t n = strcspn(path + 1, " ");
    assert_true(s->seen < STAGE_SEEN_MAX && n < STAGE_PATH_BYTES);
    memcpy(s->paths[s->seen], path + 1, n);
    s->paths[s->seen++][n] = '\0';
}

/* Each request looks anew whether it is held. Under the lock. */
static void requests_wake(struct stage *s)
{
    s->held = 0;
    s->wakes++;
    INVARIANT(pthread_cond_broadcast(&s->changed) == 0);
}

static const char *request_wait(struct stage *s, const char *request)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    request_note(s, request);
    const char *path = s->paths[s->seen - 1];
    s->running++;
    while (s->let == 0 || (s->stuck != NULL && strcmp(path, s->stuck) == 0)) {
        unsigned wakes = s->wakes;
        s->held++;
        while (s->wakes == wakes)
            INVARIANT(pthread_cond_wait(&s->changed, &s->lock) == 0);
    }
    if (s->let != UINT32_MAX)
        s->let--;
    s->running--;
    const char *reply = s->reply;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return reply != NULL ? reply : "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
}

static void sink_play(struct rogue *r, int fd, unsigned nth)
{
    static _Thread_local char request[ROGUE_REQUEST_BYTES_MAX];
    (void)nth;
    struct stage *s = rogue_ctx(r);
    while (rogue_read(r, fd, request))
        if (!rogue_say(fd, request_wait(s, request)))
            return;
}

void stage_let(struct stage *s, unsigned count)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->let = count;
    requests_wake(s);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

void stage_stick(struct stage *s, const char *path)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->stuck = path;
    requests_wake(s);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

void stage_reply(struct stage *s, const char *reply)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->reply = reply;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

static unsigned locked(struct stage *s, const unsigned *what)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    unsigned n = *what;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return n;
}

unsigned stage_seen(struct stage *s)
{
    return locked(s, &s->seen);
}

unsigned stage_running(struct stage *s)
{
    return locked(s, &s->running);
}

/* ---- running ---- */

static void looked(void *ctx)
{
    struct stage *s = ctx;
    if (++s->looks == WAIT_MS)
        fail_msg("nothing happened for %d ms", WAIT_MS);
    if (s->over(s))
        loop_stop(s->loop);
}

static struct stage *running; /* the one whose loop runs; NULL: none */

void stage_until(struct stage *s, bool (*over)(struct stage *s))
{
    running = s;
    s->over = over;
    s->looks = 0;
    s->look = loop_timer_new(s->loop, looked, s);
    loop_timer_start(s->look, 1, 1);
    loop_run(s->loop);
    loop_timer_free(&s->look);
    running = NULL;
}

/* Calls that the target holds are no work of ours. */
static bool is_calm(struct stage *s)
{
    bool calm = s->change->busy == locked(s, &s->held);
    s->calm = calm ? s->calm + 1 : 0;
    return s->calm >= CALM_LOOKS;
}

void stage_calm(struct stage *s)
{
    s->calm = 0;
    stage_until(s, is_calm);
}

void stage_later(struct stage *s, int64_t ms)
{
    fake_clock_advance(&s->clock, ms * NS_PER_MS);
    change_upkeep_all(s->change);
    stage_calm(s);
}

/* ---- what is held back ---- */

static struct {
    const struct stage *stage; /* NULL: nothing is to be held */
    enum stage_hold what;
    struct loop_job *job;
    void (*run)(struct loop_job *j); /* of rules taken over */
    struct engine_update *update;
} hold;

void __real_loop_job_start(struct loop *l, struct loop_job *j);
void __wrap_loop_job_start(struct loop *l, struct loop_job *j);
void __real_engine_submit(struct engine *e, struct engine_update *u);
void __wrap_engine_submit(struct engine *e, struct engine_update *u);

static bool is_held(const struct loop_job *j)
{
    struct change *c = hold.stage == NULL ? NULL : hold.stage->change;
    if (c == NULL || hold.job != NULL)
        return false;
    if (hold.what == STAGE_READ || hold.what == STAGE_TAKEN)
        return j == (hold.what == STAGE_READ ? &c->router.job : &c->take_job);
    for (unsigned i = 0; i < c->runners_count; i++) {
        const struct change_pick *p = c->runners[i]->pick;
        if (hold.what == STAGE_LOOK && p != NULL && j == &p->job)
            return true;
    }
    return false;
}

static void run_already(struct loop_job *j)
{
    (void)j;
}

void __wrap_loop_job_start(struct loop *l, struct loop_job *j)
{
    if (!is_held(j)) {
        if (j->run == run_already)
            j->run = hold.run; /* once more */
        __real_loop_job_start(l, j);
        return;
    }
    hold.job = j;
    if (hold.what == STAGE_TAKEN) {
        hold.run = j->run;
        j->run(j);
        j->run = run_already;
    }
}

struct submitted {
    struct engine *engine;
    struct engine_update *update;
};

static void submit_posted(void *ctx)
{
    struct submitted *p = ctx;
    __real_engine_submit(p->engine, p->update);
    free(p);
}

/* The engine in memory decides inside engine_submit. A real one does not: no lock of the caller is
 * held then. */
static void submit(struct engine *e, struct engine_update *u)
{
    if (running == NULL || !loop_is_here(running->loop)) {
        __real_engine_submit(e, u);
        return;
    }
    struct submitted *p = malloc(sizeof *p);
    INVARIANT(p != NULL);
    *p = (struct submitted){ .engine = e, .update = u };
    loop_post(running->loop, submit_posted, p);
}

void __wrap_engine_submit(struct engine *e, struct engine_update *u)
{
    bool held =
        hold.stage != NULL && hold.what == STAGE_WRITE && u == &hold.stage->change->router.update;
    if (held)
        hold.update = u;
    else
        submit(e, u);
}

void stage_hold(struct stage *s, enum stage_hold what)
{
    hold.stage = s;
    hold.what = what;
}

static bool something_is_held(struct stage *s)
{
    (void)s;
    return hold.job != NULL || hold.update != NULL;
}

void stage_until_held(struct stage *s)
{
    stage_until(s, something_is_held);
}

void stage_let_go(struct stage *s)
{
    struct loop_job *j = hold.job;
    struct engine_update *u = hold.update;
    hold.stage = NULL;
    hold.job = NULL;
    hold.update = NULL;
    if (j != NULL)
        __real_loop_job_start(s->loop, j);
    if (u != NULL)
        __real_engine_submit(s->engine, u);
}

/* ---- between a look at the log and its reading ---- */

typedef void before_read_run(struct stage *s);
static struct {
    before_read_run *_Atomic run; /* whoever reads next takes it */
    struct stage *stage;
} before_read;

err __real_event_log_read(struct event_log *l, struct event_read *r);
err __wrap_event_log_read(struct event_log *l, struct event_read *r);

err __wrap_event_log_read(struct event_log *l, struct event_read *r)
{
    before_read_run *run = atomic_exchange(&before_read.run, NULL);
    if (run != NULL)
        run(before_read.stage);
    return __real_event_log_read(l, r);
}

void stage_before_read(struct stage *s, void (*run)(struct stage *s))
{
    before_read.stage = s;
    atomic_store(&before_read.run, run);
}

/* ---- life ---- */

struct rule_set *stage_rules(struct stage *s, const char *rules)
{
    char text[RULES_BYTES_MAX], url[64], other[64];
    struct buf b;
    buf_init(&b, sizeof text);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u", rogue_port(s->sink));     /* it fits */
    (void)snprintf(other, sizeof other, "http://localhost:%u", rogue_port(s->sink)); /* as well */
    for (const char *p = rules; *p != '\0'; p++) {
        bool target = p[0] == '$' && (p[1] == 'T' || p[1] == 'L');
        str name = str_of(p[1] == 'T' ? url : other);
        buf_put(&b, target ? name : (str){ .p = p, .n = 1 });
        p += target;
    }
    (void)snprintf(text, sizeof text, "%.*s", STR_ARG(buf_str(&b))); /* so does it */
    buf_fini(&b);
    return rules_of(text);
}

static void change_make(struct stage *s, const char *rules)
{
    struct err_note note;
    struct rule_set *set = rules == NULL ? NULL : stage_rules(s, rules);
    const struct change_opts opts = { .engine = s->engine,
                                      .events = s->events,
                                      .clock = &s->clock.clock,
                                      .loop = s->loop,
                                      .page = &s->page,
                                      .queues = &s->queues,
                                      .rules = set,
                                      .seed = 7 };
    assert_int_equal(change_new(&opts, &s->change, &note), ERR_OK);
    rule_set_unref(&set);
}

void stage_open(struct stage *s, const char *rules)
{
    struct err_note note;
    *s = (struct stage){ .let = UINT32_MAX,
                         .lock = PTHREAD_MUTEX_INITIALIZER,
                         .changed = PTHREAD_COND_INITIALIZER };
    fake_clock_init(&s->clock, EPOCH);
    s->engine = engine_mem_new(&s->clock.clock);
    const struct event_log_opts log = { .engine = s->engine,
                                        .clock = &s->clock.clock,
                                        .limits = { .retention_ns = 3600 * NS_PER_S,
                                                    .bytes_max = (uint64_t)1 << 40 } };
    assert_int_equal(event_log_new(&log, &s->events, &note), ERR_OK);
    s->sink = rogue_start(sink_play, s);
    s->loop = loop_new(4);
    change_make(s, rules);
}

static bool is_idle(struct stage *s)
{
    return change_idle(s->change);
}

static void change_end(struct stage *s)
{
    stage_stick(s, NULL);
    stage_let(s, UINT32_MAX);
    change_drain(s->change);
    stage_until(s, is_idle);
    change_stop(s->change);
    if (s->late != NULL)
        home_post(loop_pool(s->loop), s->late);
    event_log_hush(s->events);
    loop_free(&s->loop);
    change_free(&s->change);
}

void stage_reopen(struct stage *s, const char *rules)
{
    struct err_note note;
    change_end(s);
    event_log_free(&s->events);
    const struct event_log_opts log = { .engine = s->engine,
                                        .clock = &s->clock.clock,
                                        .limits = { .retention_ns = 3600 * NS_PER_S,
                                                    .bytes_max = (uint64_t)1 << 40 } };
    assert_int_equal(event_log_new(&log, &s->events, &note), ERR_OK);
    s->loop = loop_new(4);
    change_make(s, rules);
}

void stage_close(struct stage *s)
{
    stage_check(s);
    change_end(s);
    rogue_stop(&s->sink);
    event_log_free(&s->events);
    engine_close(&s->engine);
}

static bool is_taken(struct stage *s)
{
    return !s->change->taking && s->change->wanted_count == 0;
}

void stage_want(struct stage *s, const char *rules)
{
    struct rule_set *set = rules == NULL ? NULL : stage_rules(s, rules);
    change_rules_take(s->change, set);
    rule_set_unref(&set);
}

void stage_take(struct stage *s, const char *rules)
{
    stage_want(s, rules);
    stage_until(s, is_taken);
}

/* ---- events and items ---- */

uint64_t stage_tell_stream(struct stage *s, const char *stream, const char *domain,
                           const char *title)
{
    char text[256];
    struct event_taken taken;
    (void)snprintf(text, sizeof text, "{\"page_title\":\"%s\"}", title); /* it fits */
    const struct event e = { .stream = str_of(stream),
                             .domain = str_of(domain),
                             .bytes = str_of(title[0] == '\0' ? "{}" : text) };
    fake_clock_advance(&s->clock, NS_PER_US);
    assert_int_equal(append_wait(s->events, &e, 1, &taken), ERR_OK);
    return taken.seq;
}

uint64_t stage_tell(struct stage *s, const char *domain, const char *title)
{
    return stage_tell_stream(s, "t", domain, title);
}

uint64_t stage_tell_hops(struct stage *s, const char *title, uint8_t hops)
{
    char text[256];
    struct event_taken taken;
    (void)snprintf(text, sizeof text, "{\"page_title\":\"%s\"}", title); /* it fits */
    const struct event e = {
        .stream = STR("t"), .domain = STR("d"), .bytes = str_of(text), .hops = hops
    };
    fake_clock_advance(&s->clock, NS_PER_US);
    assert_int_equal(append_wait(s->events, &e, 1, &taken), ERR_OK);
    return taken.seq;
}

uint64_t stage_tell_long(struct stage *s, const char *title, size_t bytes)
{
    struct event_taken taken;
    char *text = malloc(bytes + 1);
    assert_non_null(text);
    int n = snprintf(text, bytes, "{\"page_title\":\"%s\",\"fill\":\"", title); /* it fits */
    memset(text + n, 'x', bytes - (size_t)n - 2);
    memcpy(text + bytes - 2, "\"}", 2);
    const struct event e = { .stream = STR("t"),
                             .domain = STR("d"),
                             .bytes = { .p = text, .n = bytes } };
    fake_clock_advance(&s->clock, NS_PER_US);
    assert_int_equal(append_wait(s->events, &e, 1, &taken), ERR_OK);
    free(text);
    return taken.seq;
}

uint64_t stage_items(struct stage *s, const char *rule, int state)
{
    struct change_rule_row row;
    struct change_counts counts;
    uint64_t items = 0;
    struct engine_view *v = engine_view_begin(s->engine);
    err why = change_rule_get(v, str_of(rule), &row);
    if (why == ERR_OK)
        why = change_counts_get(v, row.number, &counts);
    engine_view_end(&v);
    assert_true(why == ERR_OK || why == ERR_NOT_FOUND);
    for (unsigned i = 0; i < CHANGE_STATES && why == ERR_OK; i++)
        items += state < 0 || (unsigned)state == i ? counts.of[i] : 0;
    return items;
}

static void damage_found(void *ctx, const char *what)
{
    (void)ctx;
    fail_msg("%s", what);
}

void stage_check(struct stage *s)
{
    assert_int_equal(change_check(s->engine, damage_found, NULL), ERR_OK);
}
