/* flight.c - one lock around the decisions (core.h); the loop's turns perform the effects with the
 * lock free. A turn is posted when there is something to do and none is posted: posted is true from
 * then until it runs. */
#include "flight/flight.h"

#include "base/metrics.h"
#include "flight/share.h"
#include "loop/limiter.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>

#define FLIGHTS_MAGIC 0xf1195f1eu

static const struct {
    enum metric_id id;
    size_t offset;
} rows[] = {
    { METRIC_FLIGHTS, offsetof(struct flight_stats, flights) },
    { METRIC_FLIGHT_WAITERS, offsetof(struct flight_stats, waiters) },
    { METRIC_FLIGHT_MAKES, offsetof(struct flight_stats, making) },
    { METRIC_FLIGHT_MADE, offsetof(struct flight_stats, made) },
    { METRIC_FLIGHT_FAILED, offsetof(struct flight_stats, failed) },
    { METRIC_FLIGHT_SHARED, offsetof(struct flight_stats, shared) },
    { METRIC_FLIGHT_NEGATIVE, offsetof(struct flight_stats, negative) },
    { METRIC_FLIGHT_REFUSED, offsetof(struct flight_stats, refused) },
    { METRIC_FLIGHT_TIMED_OUT, offsetof(struct flight_stats, timed_out) },
};

struct flights {
    uint32_t magic;
    struct loop *loop;
    struct clock *clock;
    struct flight_shared *shared; /* NULL: none */
    struct limiter *own;          /* NULL: another's, or none */
    struct loop_timer *timer;     /* loop thread */
    struct metric *metrics[COUNT_OF(rows)], *make_time;
    pthread_mutex_t lock; /* of the rest */
    struct flight_core *core;
    bool posted;
    mono armed; /* when the timer fires; INT64_MAX: not */
};

static const char *const detail_names[FLIGHT_DETAILS] = { "leader", "waiter", "negative", "remote",
                                                          "degraded" };

const char *flight_detail_name(enum flight_detail d)
{
    INVARIANT(d < FLIGHT_DETAILS);
    return detail_names[d];
}

static void flight_turn(void *ctx);

static void lock(struct flights *fs)
{
    INVARIANT(pthread_mutex_lock(&fs->lock) == 0);
}

/* Sees to a turn of the loop when one is wanted, and unlocks. */
static void flight_unlock(struct flights *fs)
{
    bool post =
        !fs->posted && (flight_core_busy(fs->core) || flight_core_wake(fs->core).ns < fs->armed.ns);
    if (post) {
        fs->posted = true;
        loop_post(fs->loop, flight_turn,
                  fs); /* under the lock: nobody may find us idle and free us before */
    }
    INVARIANT(pthread_mutex_unlock(&fs->lock) == 0);
}

static void turn_came(struct limiter_pass *p, bool in)
{
    struct flight *f = flight_of_pass(p);
    struct flights *fs = flight_owner(f);
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    INVARIANT(in); /* it has no deadline */
    lock(fs);
    flight_core_admit(fs->core, f);
    flight_unlock(fs);
}

static void start(struct flights *fs, struct flight *f)
{
    const struct flight_maker *m = flight_maker_of(f);
    if (fs->shared != NULL && m->travels)
        share_start(fs->shared, f);
    else
        m->start(f, m->ctx);
}

static void cancel(struct flight *f)
{
    const struct flight_maker *m = flight_maker_of(f);
    if (flight_call_of(f) != NULL)
        share_cancel(flight_call_of(f));
    else if (m->cancel != NULL)
        m->cancel(f, m->ctx);
}

static void perform(struct flights *fs, const struct flight_todo *todo, unsigned count)
{
    for (unsigned i = 0; i < count; i++) {
        const struct flight_maker *m = flight_maker_of(todo[i].flight);
        switch (todo[i].what) {
        case FLIGHT_START:
            start(fs, todo[i].flight);
            break;
        case FLIGHT_CANCEL:
            cancel(todo[i].flight);
            break;
        case FLIGHT_RELEASE:
            if (m->release != NULL)
                m->release(m->ctx);
            break;
        case FLIGHT_DOES:
            INVARIANT(false);
        }
    }
}

static void flight_show(struct flights *fs, const struct flight_stats *stats)
{
    if (fs->make_time == NULL)
        return;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        const void *at = (const char *)stats + rows[i].offset;
        metric_set(fs->metrics[i], (int64_t) * (const uint64_t *)at);
    }
}

static void flight_arm(struct flights *fs)
{
    mono at = flight_core_wake(fs->core);
    if (at.ns == fs->armed.ns)
        return;
    fs->armed = at;
    if (at.ns == INT64_MAX) {
        loop_timer_stop(fs->timer);
        return;
    }
    int64_t rest = at.ns - clock_mono(fs->clock).ns;
    loop_timer_start(fs->timer, rest <= 0 ? 0 : rest / NS_PER_MS + 1, 0);
}

static void flight_turn(void *ctx)
{
    struct flights *fs = ctx;
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    struct flight_todo todo[FLIGHT_RELEASE_MAX];
    struct flight_call calls[FLIGHT_RELEASE_MAX];
    lock(fs);
    flight_core_tick(fs->core, clock_mono(fs->clock));
    unsigned todo_count = flight_core_todo(fs->core, todo, COUNT_OF(todo));
    unsigned calls_count = flight_core_calls(fs->core, calls, COUNT_OF(calls));
    INVARIANT(pthread_mutex_unlock(&fs->lock) ==
              0); /* posted stays true: what comes meanwhile is seen below */
    perform(fs, todo, todo_count);
    for (unsigned i = 0; i < calls_count; i++)
        flight_call(&calls[i]);
    lock(fs);
    for (unsigned i = 0; i < todo_count; i++)
        if (todo[i].what == FLIGHT_RELEASE)
            flight_core_released(fs->core, todo[i].flight);
    flight_core_called(fs->core, calls, calls_count);
    struct flight_outcome *spent = flight_core_spent(fs->core);
    struct flight_stats stats;
    flight_core_stats(fs->core, &stats);
    INVARIANT(pthread_mutex_unlock(&fs->lock) == 0);
    flight_outcomes_free(spent); /* before they may be found idle: values are their makers' */
    flight_show(fs, &stats);
    lock(fs);
    flight_arm(fs);
    fs->posted = false;
    flight_unlock(fs);
}

static void on_timer(void *ctx)
{
    struct flights *fs = ctx;
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    fs->armed = (mono){ .ns = INT64_MAX };
    flight_unlock(fs);
}

static unsigned or_default(unsigned value, unsigned otherwise)
{
    return value != 0 ? value : otherwise;
}

static struct flight_opts with_defaults(const struct flight_opts *opts)
{
    struct flight_opts o = *opts;
    o.flights_max = or_default(o.flights_max, 4096);
    o.waiters_max = or_default(o.waiters_max, 10000);
    o.waiters_all_max = or_default(o.waiters_all_max, 20000);
    o.makes_max = or_default(o.makes_max, 64);
    o.makes_source_max = or_default(o.makes_source_max, 16);
    o.flights_source_max = or_default(o.flights_source_max, 3072);
    o.errors_max = or_default(o.errors_max, 4096);
    o.make_timeout_ms = o.make_timeout_ms != 0 ? o.make_timeout_ms : 30000;
    o.error_base_ms = o.error_base_ms != 0 ? o.error_base_ms : 500;
    o.error_max_ms = o.error_max_ms != 0 ? o.error_max_ms : 30000;
    return o;
}

struct flights *flights_new(const struct flight_opts *opts)
{
    struct flight_opts o = with_defaults(opts);
    struct flights *fs = calloc(1, sizeof *fs);
    INVARIANT(fs != NULL);
    fs->magic = FLIGHTS_MAGIC;
    fs->loop = o.loop;
    fs->clock = o.clock;
    fs->shared = o.shared;
    fs->armed = (mono){ .ns = INT64_MAX };
    INVARIANT(pthread_mutex_init(&fs->lock, NULL) == 0);
    fs->timer = loop_timer_new(o.loop, on_timer, fs);
    if (o.shared != NULL)
        o.limiter = NULL;
    else if (o.limiter == NULL)
        o.limiter = fs->own = limiter_new(o.loop, o.clock);
    fs->core = flight_core_new(&o, fs, turn_came);
    for (size_t i = 0; o.metrics != NULL && i < COUNT_OF(rows); i++)
        fs->metrics[i] = metrics_one(o.metrics, rows[i].id);
    if (o.metrics != NULL)
        fs->make_time = metrics_one(o.metrics, METRIC_FLIGHT_MAKE_SECONDS);
    return fs;
}

void flights_limit(struct flights *fs, const struct flight_opts *opts)
{
    const struct flight_opts o = with_defaults(opts);
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    flight_core_limit(fs->core, &o);
    flight_unlock(fs);
}

void flights_drain(struct flights *fs)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    flight_core_drain(fs->core);
    flight_unlock(fs);
}

bool flights_idle(struct flights *fs)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    bool idle = flight_core_idle(fs->core) && !fs->posted;
    flight_unlock(fs);
    return idle;
}

void flights_free(struct flights **fsp)
{
    struct flights *fs = *fsp;
    if (fs == NULL)
        return;
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    loop_assert_here(fs->loop);
    INVARIANT(flights_idle(fs));
    loop_timer_free(&fs->timer);
    flight_core_free(&fs->core);
    limiter_free(&fs->own);
    INVARIANT(pthread_mutex_destroy(&fs->lock) == 0);
    fs->magic = 0;
    free(fs);
    *fsp = NULL;
}

err flight_join(struct flights *fs, str key, const struct flight_maker *maker,
                struct flight_waiter *w)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    struct flight_maker spare = *maker;
    mono now = clock_mono(fs->clock);
    lock(fs);
    err e =
        flight_core_join(fs->core, now,
                         &(struct flight_join){ .key = key, .maker = maker, .waiter = w }, &spare);
    flight_unlock(fs);
    if (spare.release != NULL)
        spare.release(spare.ctx);
    return e;
}

bool flight_leave(struct flights *fs, struct flight_waiter *w)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    bool left = flight_core_leave(fs->core, w);
    flight_unlock(fs);
    return left;
}

void flight_end_now(struct flight *f, const struct flight_result *r, enum flight_detail detail)
{
    struct flights *fs = flight_owner(f);
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    mono now = clock_mono(fs->clock);
    if (fs->make_time != NULL)
        metric_observe_ns(fs->make_time, now.ns - flight_began(f).ns);
    lock(fs);
    flight_detail_set(f, detail);
    flight_core_finish(fs->core, now, f, r);
    flight_unlock(fs);
}

void flight_finish(struct flight *f, err why, struct flight_value *value, bool keep_error,
                   const struct err_note *note)
{
    struct flight_result r = { .why = why, .keep_error = keep_error, .value = value, .note = note };
    if (flight_call_of(f) != NULL)
        share_made(flight_call_of(f), &r);
    else
        flight_end_now(f, &r, flight_made(f));
}

void flights_each(struct flights *fs, bool (*each)(void *ctx, const struct flight_seen *s),
                  void *ctx)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    mono now = clock_mono(fs->clock);
    lock(fs);
    flight_core_each(fs->core, now, each, ctx);
    flight_unlock(fs);
}

void flights_stats_get(struct flights *fs, struct flight_stats *out)
{
    MAGIC_CHECK(fs, FLIGHTS_MAGIC);
    lock(fs);
    flight_core_stats(fs->core, out);
    flight_unlock(fs);
    flight_show(fs, out);
}
