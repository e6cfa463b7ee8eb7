/* core.c - the decisions of flights: who joins, who makes, who is answered. Pure: flight.c holds
 * the lock and performs what is decided.
 *
 * Invariants:
 * 1. A key has at most one flight in the map (its current one). Only behind one that is MAKING may
 *    another stand as after, which is AFTER and begins when the first has ended.
 * 2. making counts flights MAKING or STOPPING. Where there is a limiter, their passes are IN or
 *    resting, so the limiter holds making to makes_max, and to makes_source_max of one source. The
 *    pass of a flight that is AFTER or ENDED is OUT.
 * 3. A waiter is in one list: a flight's that is AFTER, QUEUED or MAKING, or an outcome's. waiters
 *    counts them.
 * 4. AFTER and QUEUED have waiters. While a key's error lives, no flight of it is AFTER, QUEUED or
 *    begins.
 * 5. A flight with todo != 0 is in the todo list; ENDED ones live until their release was called.
 *
 *   AFTER --> QUEUED --> MAKING --> STOPPING      told to stop, or too late: nobody's outcome
 *     |         |          |           |
 *     +---------+--> ENDED <-----------+ */
#include "flight/core_impl.h"

#include "base/map.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

static const unsigned flight_next[FLIGHT_STATES] = {
    [FLIGHT_AFTER] = BIT(FLIGHT_QUEUED) | BIT(FLIGHT_ENDED),
    [FLIGHT_QUEUED] = BIT(FLIGHT_MAKING) | BIT(FLIGHT_ENDED),
    [FLIGHT_MAKING] = BIT(FLIGHT_STOPPING) | BIT(FLIGHT_ENDED),
    [FLIGHT_STOPPING] = BIT(FLIGHT_ENDED),
};

static bool waiter_first(const struct heap_node *a, const struct heap_node *b)
{
    const struct flight_waiter *wa = waiter_of((struct heap_node *)(uintptr_t)a);
    const struct flight_waiter *wb = waiter_of((struct heap_node *)(uintptr_t)b);
    return wa->deadline.ns < wb->deadline.ns;
}

static bool make_first(const struct heap_node *a, const struct heap_node *b)
{
    const struct flight *fa = (const void *)((const char *)a - offsetof(struct flight, node));
    const struct flight *fb = (const void *)((const char *)b - offsetof(struct flight, node));
    return fa->deadline.ns < fb->deadline.ns;
}

/* Of flights without a source. */
static const struct limiter_key nobody = { .origin = STR_INIT("") };

static unsigned greater(unsigned a, unsigned b)
{
    return a > b ? a : b;
}

void flight_core_limit(struct flight_core *c, const struct flight_opts *opts)
{
    struct limiter *l = c->opts.limiter;
    c->opts.flights_max = opts->flights_max;
    c->opts.flights_source_max = opts->flights_source_max;
    c->opts.waiters_max = opts->waiters_max;
    c->opts.waiters_all_max = opts->waiters_all_max;
    c->flights_peak = greater(c->flights_peak, opts->flights_max);
    c->source_peak = greater(c->source_peak, opts->flights_source_max);
    c->waiters_peak = greater(c->waiters_peak, opts->waiters_max);
    c->waiters_all_peak = greater(c->waiters_all_peak, opts->waiters_all_max);
    if (l == NULL)
        return;
    unsigned makes_max = opts->makes_max;
    struct limiter_limits all = limiter_limits_of(l, LIMITER_ALL, NULL); /* others have some, too */
    struct limiter_limits source = limiter_limits_of(l, LIMITER_KIND, NULL);
    all.held_max = makes_max;
    source.held_max = opts->makes_source_max;
    c->makes_peak = greater(c->makes_peak, makes_max);
    limiter_limit(l, LIMITER_ALL, NULL, all);
    limiter_limit(l, LIMITER_KIND, NULL, source);
    /* No host's limit is for what asks nobody. */
    limiter_limit(l, LIMITER_ORIGIN, &nobody, (struct limiter_limits){ .running_max = UINT_MAX });
}

struct flight_core *flight_core_new(const struct flight_opts *opts, void *owner,
                                    void (*turn_came)(struct limiter_pass *p, bool in))
{
    struct flight_core *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->opts = *opts;
    c->owner = owner;
    c->turn_came = turn_came;
    c->by_key = map_new(opts->seed);
    c->sources = map_new(0); /* keys are ours */
    list_init(&c->admitted);
    flight_core_limit(c, opts);
    c->todo_end = &c->todo_first;
    heap_init(&c->deadlines, waiter_first);
    heap_init(&c->makes, make_first);
    flight_errors_init(&c->errors, opts->seed, opts->errors_max, opts->error_base_ms,
                       opts->error_max_ms);
    outcomes_init(&c->ready);
    outcomes_init(&c->spent);
    return c;
}

void flight_core_free(struct flight_core **cp)
{
    struct flight_core *c = *cp;
    if (c == NULL)
        return;
    INVARIANT(c->all == NULL);
    INVARIANT(c->ready.first == NULL);
    INVARIANT(c->stats.waiters == 0);
    flight_outcomes_free(c->spent.first);
    flight_errors_fini(&c->errors);
    heap_fini(&c->deadlines);
    heap_fini(&c->makes);
    INVARIANT(map_count(c->sources) == 0);
    map_free(&c->sources);
    map_free(&c->by_key);
    free(c);
    *cp = NULL;
}

/* ---- moving a flight ---- */

static void core_move(struct flight *f, enum flight_state to)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    INVARIANT(flight_next[f->state] & BIT(to));
    f->state = to;
}

static void todo_add(struct flight_core *c, struct flight *f, enum flight_do what)
{
    if (!f->in_todo) {
        f->in_todo = true;
        f->todo_next = NULL;
        *c->todo_end = f;
        c->todo_end = &f->todo_next;
    }
    f->todo |= BIT(what);
}

static struct flight *flight_new(struct flight_core *c, mono now, const struct flight_join *j)
{
    struct flight *f = calloc(1, sizeof *f + j->key.n);
    INVARIANT(f != NULL);
    f->magic = FLIGHT_MAGIC;
    f->core = c;
    f->source = source_join(c->sources, j->maker->source);
    f->pass = (struct limiter_pass){ .deadline = LIMITER_NEVER, /* its waiters' */
                                     .flags = LIMITER_HOLDS | LIMITER_UNREFUSED,
                                     .go = c->turn_came };
    list_init(&f->admitted);
    f->born = now;
    f->maker = *j->maker;
    f->key_bytes = j->key.n;
    if (j->key.n > 0)
        memcpy(f->key, j->key.p, j->key.n);
    f->next = c->all;
    if (c->all != NULL)
        c->all->prev = f;
    c->all = f;
    c->stats.flights++;
    return f;
}

static void become_current(struct flight_core *c, struct flight *f)
{
    INVARIANT(map_put(c->by_key, flight_key(f), f) == NULL);
    f->current = true;
    core_move(f, FLIGHT_QUEUED);
    enum limiter_state turn = LIMITER_IN;
    if (c->opts.limiter != NULL)
        turn = limiter_enter(c->opts.limiter, f->source->of != NULL ? f->source->of : &nobody,
                             &f->pass);
    INVARIANT(turn != LIMITER_OUT);
    if (turn == LIMITER_IN)
        list_append(&c->admitted, &f->admitted);
}

void flight_core_admit(struct flight_core *c, struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    if (f->state == FLIGHT_QUEUED)
        list_append(&c->admitted, &f->admitted);
}

static void pass_leave(struct flight_core *c, struct flight *f)
{
    if (c->opts.limiter != NULL)
        (void)limiter_leave(c->opts.limiter, &f->pass); /* what crosses it finds no flight QUEUED */
}

/* The waiter no longer waits for a flight. */
static void unwait(struct flight_core *c, struct flight_waiter *w)
{
    waiters_remove(w);
    heap_remove(&c->deadlines, &waiting_of(w)->node);
    waiting_of(w)->flight = NULL;
}

static void make_ready(struct flight_outcome *o, struct flight_waiter *w)
{
    waiting_of(w)->state = WAITER_READY;
    waiters_add(&o->waiters, w);
}

static int64_t rest_ms(mono now, const struct flight_error *error)
{
    return (error->until.ns - now.ns + NS_PER_MS - 1) / NS_PER_MS;
}

/* All waiters of f get o; retry_ms: the life of a remembered error, else 0. */
static void core_settle(struct flight_core *c, struct flight *f, struct flight_outcome *o,
                        int64_t retry_ms)
{
    while (f->waiters.first != NULL) {
        struct flight_waiter *w = f->waiters.first;
        unwait(c, w);
        w->retry_after_ms = retry_ms;
        if (o->why == ERR_OK && w->detail == FLIGHT_WAITED)
            c->stats.shared++;
        if (f->detail != FLIGHT_LED)
            w->detail = f->detail;
        make_ready(o, w);
    }
}

static void core_end(struct flight_core *c, struct flight *f)
{
    INVARIANT(f->waiters.count == 0);
    core_move(f, FLIGHT_ENDED);
    todo_add(c, f, FLIGHT_RELEASE);
}

/* One that has not begun. */
static void core_drop(struct flight_core *c, struct flight *f)
{
    if (f->state == FLIGHT_AFTER) {
        f->before->after = NULL;
        f->before = NULL;
    } else {
        INVARIANT(f->state == FLIGHT_QUEUED);
        list_remove(&f->admitted);
        pass_leave(c, f);
        INVARIANT(map_remove(c->by_key, flight_key(f)) == f);
        f->current = false;
    }
    core_end(c, f);
}

/* f, which is MAKING, is no longer its key's: the one after it takes its place. */
static void detach(struct flight_core *c, struct flight *f)
{
    INVARIANT(f->current);
    INVARIANT(map_remove(c->by_key, flight_key(f)) == f);
    f->current = false;
    heap_remove(&c->makes, &f->node);
    struct flight *g = f->after;
    if (g == NULL)
        return;
    f->after = NULL;
    g->before = NULL;
    become_current(c, g);
}

/* The outcome is a remembered error: the flight after this one is not begun, it has its answer. */
static void settle_error(struct flight_core *c, mono now, struct flight *f,
                         const struct flight_error *error)
{
    struct flight_outcome *o = outcomes_add(&c->ready, error->why, NULL, &error->note);
    core_settle(c, f, o, rest_ms(now, error));
    if (f->after == NULL)
        return;
    core_settle(c, f->after, o, rest_ms(now, error));
    core_drop(c, f->after);
}

static void stop(struct flight_core *c, struct flight *f)
{
    detach(c, f);
    core_move(f, FLIGHT_STOPPING);
    if (f->maker.cancel != NULL || f->maker.travels)
        todo_add(c, f, FLIGHT_CANCEL);
}

static void left_alone(struct flight_core *c, struct flight *f)
{
    if (f->waiters.count > 0)
        return;
    if (f->state != FLIGHT_MAKING)
        core_drop(c, f);
    else if (!f->maker.keep_idle)
        stop(c, f);
}

/* ---- events ---- */

static void join_waiter(struct flight_core *c, struct flight *f, struct flight_waiter *w)
{
    struct waiting *at = waiting_of(w);
    at->state = WAITER_WAITING;
    at->flight = f;
    waiters_add(&f->waiters, w);
    heap_add(&c->deadlines, &at->node);
    c->stats.waiters++;
}

static void join_error(struct flight_core *c, mono now, const struct flight_error *error,
                       struct flight_waiter *w)
{
    w->detail = FLIGHT_NEGATIVE;
    w->retry_after_ms = rest_ms(now, error);
    make_ready(outcomes_add(&c->ready, error->why, NULL, &error->note), w);
    c->stats.negative++;
    c->stats.waiters++;
}

/* A fresh maker takes the place of another that has not begun. */
static bool takes_place(const struct flight_maker *of, const struct flight_maker *by)
{
    return by->fresh && (!of->fresh || by->insists > of->insists);
}

/* Joins f, which serves j. */
static err join_flight(struct flight_core *c, struct flight *f, const struct flight_join *j,
                       struct flight_maker *spare)
{
    if (f->waiters.count >= c->opts.waiters_max)
        return ERR_LIMIT;
    bool keep_idle = f->maker.keep_idle || j->maker->keep_idle;
    *spare = *j->maker;
    if (takes_place(&f->maker, j->maker)) {
        *spare = f->maker;
        f->maker = *j->maker;
    }
    f->maker.keep_idle = keep_idle;
    j->waiter->detail = FLIGHT_WAITED;
    join_waiter(c, f, j->waiter);
    return ERR_OK;
}

static void join_new(struct flight_core *c, mono now, const struct flight_join *j,
                     struct flight *before)
{
    struct flight *f = flight_new(c, now, j);
    if (before == NULL) {
        become_current(c, f);
    } else {
        before->after = f;
        f->before = before;
    }
    j->waiter->detail = FLIGHT_LED;
    join_waiter(c, f, j->waiter);
}

static err join(struct flight_core *c, mono now, const struct flight_join *j,
                struct flight_maker *spare)
{
    if (c->drained)
        return ERR_SHUTDOWN;
    if (j->key.n > FLIGHT_KEY_BYTES_MAX || c->stats.waiters >= c->opts.waiters_all_max)
        return ERR_LIMIT;
    const struct flight_error *error = flight_errors_find(&c->errors, now, j->key);
    if (error != NULL) {
        join_error(c, now, error, j->waiter);
        *spare = *j->maker;
        return ERR_OK;
    }
    struct flight *before = NULL, *f = map_get(c->by_key, j->key);
    if (f != NULL && f->state == FLIGHT_MAKING && j->maker->fresh) {
        before = f;
        f = f->after;
    }
    if (f != NULL)
        return join_flight(c, f, j, spare);
    if (c->stats.flights >= c->opts.flights_max ||
        source_flights(c->sources, j->maker->source) >= c->opts.flights_source_max)
        return ERR_LIMIT;
    join_new(c, now, j, before);
    *spare = (struct flight_maker){ 0 };
    return ERR_OK;
}

err flight_core_join(struct flight_core *c, mono now, const struct flight_join *j,
                     struct flight_maker *spare)
{
    *waiting_of(j->waiter) = (struct waiting){ .state = WAITER_CALLED }; /* until it is in */
    j->waiter->retry_after_ms = 0;
    err e = join(c, now, j, spare);
    if (e != ERR_OK)
        c->stats.refused++;
    return e;
}

bool flight_core_leave(struct flight_core *c, struct flight_waiter *w)
{
    struct waiting *at = waiting_of(w);
    if (at->state != WAITER_WAITING && at->state != WAITER_READY)
        return false; /* called, refused, or zeroed and never joined */
    struct flight *f = at->flight;
    if (at->state == WAITER_WAITING)
        unwait(c, w);
    else
        waiters_remove(w);
    at->state = WAITER_CALLED;
    INVARIANT(c->stats.waiters > 0);
    c->stats.waiters--;
    if (f != NULL)
        left_alone(c, f);
    return true;
}

static void finish_current(struct flight_core *c, mono now, struct flight *f,
                           const struct flight_result *r)
{
    if (r->why == ERR_OK) {
        core_settle(c, f, outcomes_add(&c->ready, ERR_OK, r->value, NULL), 0);
    } else if (r->keep_error && r->why != ERR_SHUTDOWN) {
        settle_error(c, now, f, flight_errors_add(&c->errors, now, flight_key(f), r->why, r->note));
    } else {
        if (r->why != ERR_SHUTDOWN)
            flight_errors_forget(&c->errors, flight_key(f));
        core_settle(c, f, outcomes_add(&c->ready, r->why, NULL, r->note), r->retry_ms);
    }
    detach(c, f);
}

void flight_core_finish(struct flight_core *c, mono now, struct flight *f,
                        const struct flight_result *r)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    INVARIANT((r->why == ERR_OK) == (r->value != NULL));
    INVARIANT(f->state == FLIGHT_MAKING || f->state == FLIGHT_STOPPING);
    if (f->state == FLIGHT_MAKING)
        finish_current(c, now, f, r);
    else
        (void)outcomes_add(&c->ready, r->why, r->value,
                           r->note); /* nobody's: the value is let go in its turn */
    if (r->why == ERR_OK)
        c->stats.made += f->made != FLIGHT_REMOTE, flight_errors_forget(&c->errors, flight_key(f));
    else
        c->stats.failed++;
    INVARIANT(c->stats.making > 0);
    c->stats.making--;
    pass_leave(c, f);
    f->todo &= ~BIT(FLIGHT_CANCEL);
    core_end(c, f);
}

static void waiters_tick(struct flight_core *c, mono now)
{
    struct flight_outcome *late = NULL;
    for (struct heap_node *n = heap_first(&c->deadlines); n != NULL;
         n = heap_first(&c->deadlines)) {
        struct flight_waiter *w = waiter_of(n);
        if (w->deadline.ns > now.ns)
            break;
        struct flight *f = waiting_of(w)->flight;
        if (late == NULL) {
            static const struct err_note why = {
                .text = "it was not made before the request's deadline"
            };
            late = outcomes_add(&c->ready, ERR_TIMEOUT, NULL, &why);
        }
        unwait(c, w);
        make_ready(late, w);
        c->stats.timed_out++;
        left_alone(c, f);
    }
}

static void makes_tick(struct flight_core *c, mono now)
{
    for (struct heap_node *n = heap_first(&c->makes); n != NULL; n = heap_first(&c->makes)) {
        struct flight *f = CONTAINER_OF(n, struct flight, node);
        if (f->deadline.ns > now.ns)
            break;
        struct err_note why;
        err_note_set(&why, "it was not made within %lld ms", (long long)c->opts.make_timeout_ms);
        settle_error(c, now, f,
                     flight_errors_add(&c->errors, now, flight_key(f), ERR_TIMEOUT, &why));
        stop(c, f);
    }
}

static void core_begin(struct flight_core *c, mono now, struct flight *f)
{
    list_remove(&f->admitted);
    core_move(f, FLIGHT_MAKING);
    f->began = now;
    f->deadline = mono_add_ms(now, c->opts.make_timeout_ms);
    heap_add(&c->makes, &f->node);
    c->stats.making++;
    todo_add(c, f, FLIGHT_START);
}

void flight_core_tick(struct flight_core *c, mono now)
{
    makes_tick(
        c, now); /* first: its error is remembered also when all who wait run out of time with it */
    /* before those are told who would not wait at all: what they asked for is made all the same */
    for (struct list *l = list_first(&c->admitted); l != NULL; l = list_first(&c->admitted))
        core_begin(c, now, CONTAINER_OF(l, struct flight, admitted));
    waiters_tick(c, now);
}

void flight_core_drain(struct flight_core *c)
{
    static const struct err_note why = { .text = "the server is shutting down" };
    if (c->drained)
        return;
    c->drained = true;
    struct flight_outcome *o = outcomes_add(&c->ready, ERR_SHUTDOWN, NULL, &why);
    for (struct flight *f = c->all; f != NULL; f = f->next)
        core_settle(c, f, o, 0);
    for (struct flight *f = c->all; f != NULL; f = f->next)
        if (f->state == FLIGHT_AFTER || f->state == FLIGHT_QUEUED)
            core_drop(c, f);
    for (struct flight *f = c->all; f != NULL; f = f->next)
        if (f->state == FLIGHT_MAKING)
            stop(c, f);
}
