/* effects.c - what the decisions of core.c left to do, handed out; and looking at it all. */
#include "flight/core_impl.h"
#include "flight/share.h"

#include "base/map.h"

#include <stdlib.h>

str flight_key(const struct flight *f)
{
    return (str){ .p = f->key, .n = f->key_bytes };
}

mono flight_deadline(const struct flight *f)
{
    return f->deadline;
}

mono flight_began(const struct flight *f)
{
    return f->began;
}

struct flight *flight_of_pass(struct limiter_pass *p)
{
    struct flight *f = CONTAINER_OF(p, struct flight, pass);
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    return f;
}

struct limiter_pass *flight_pass(struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    return f->core->opts.limiter == NULL ? NULL : &f->pass;
}

void *flight_owner(const struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    return f->core->owner;
}

const struct flight_maker *flight_maker_of(const struct flight *f)
{
    return &f->maker;
}

struct share_call *flight_call_of(const struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    return f->share;
}

void flight_call_set(struct flight *f, struct share_call *c)
{
    f->share = c;
}

void flight_lease_set(struct flight *f, uint64_t fence, str version)
{
    f->fence = fence;
    if (!str_to_cstr(version, f->version, sizeof f->version))
        f->version[0] = 0;
}

uint64_t flight_fence(const struct flight *f)
{
    return f->fence;
}

str flight_version(const struct flight *f)
{
    return str_of(f->version);
}

void flight_detail_set(struct flight *f, enum flight_detail detail)
{
    f->detail = detail;
}

enum flight_detail flight_made(const struct flight *f)
{
    return f->made;
}

void flight_made_set(struct flight *f, enum flight_detail made)
{
    f->made = made;
}

void flight_alone(struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    INVARIANT(f->made == FLIGHT_REMOTE);
    INVARIANT(f->share == NULL);
    flight_lease_set(f, 0, STR_NONE);
    flight_made_set(f, FLIGHT_DEGRADED);
}

unsigned flight_core_todo(struct flight_core *c, struct flight_todo *out, unsigned max)
{
    unsigned n = 0;
    while (n < max && c->todo_first != NULL) {
        struct flight *f = c->todo_first;
        for (unsigned what = 0; what < FLIGHT_DOES && n < max; what++)
            if (f->todo & BIT(what)) {
                f->todo &= ~BIT(what);
                out[n++] = (struct flight_todo){ .flight = f, .what = (enum flight_do)what };
            }
        if (f->todo != 0)
            break; /* the rest next time */
        f->in_todo = false;
        c->todo_first = f->todo_next;
        if (c->todo_first == NULL)
            c->todo_end = &c->todo_first;
    }
    return n;
}

void flight_core_released(struct flight_core *c, struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    INVARIANT(f->state == FLIGHT_ENDED);
    INVARIANT(!f->in_todo);
    if (f->prev != NULL)
        f->prev->next = f->next;
    else
        c->all = f->next;
    if (f->next != NULL)
        f->next->prev = f->prev;
    INVARIANT(c->stats.flights > 0);
    c->stats.flights--;
    source_leave(c->sources, f->source);
    f->magic = 0;
    free(f);
}

unsigned flight_core_calls(struct flight_core *c, struct flight_call *out, unsigned max)
{
    unsigned n = outcomes_take(&c->ready, &c->spent, out, max);
    INVARIANT(c->stats.waiters >= n);
    c->stats.waiters -= n;
    return n;
}

void flight_core_called(struct flight_core *c, const struct flight_call *calls, unsigned count)
{
    outcomes_called(&c->spent, calls, count);
}

struct flight_outcome *flight_core_spent(struct flight_core *c)
{
    struct flight_outcome *o = c->spent.first;
    outcomes_init(&c->spent);
    return o;
}

bool flight_core_busy(const struct flight_core *c)
{
    return c->todo_first != NULL || c->ready.first != NULL || c->spent.first != NULL ||
           !list_empty(&c->admitted);
}

bool flight_core_idle(const struct flight_core *c)
{
    return c->all == NULL && c->stats.waiters == 0 && !flight_core_busy(c);
}

mono flight_core_wake(const struct flight_core *c)
{
    mono at = { .ns = INT64_MAX };
    const struct heap_node *waiter = heap_first(&c->deadlines), *make = heap_first(&c->makes);
    if (waiter != NULL)
        at = waiter_of((struct heap_node *)(uintptr_t)waiter)->deadline;
    if (make != NULL) {
        const struct flight *f = (const void *)((const char *)make - offsetof(struct flight, node));
        at = f->deadline.ns < at.ns ? f->deadline : at;
    }
    return at;
}

static struct flight_seen look_at(const struct flight *f, mono now)
{
    static const char *const names[FLIGHT_STATES] = {
        [FLIGHT_AFTER] = "queued",      [FLIGHT_QUEUED] = "queued", [FLIGHT_MAKING] = "making",
        [FLIGHT_STOPPING] = "stopping", [FLIGHT_ENDED] = "ended",
    };
    struct flight_seen s = { .key = flight_key(f),
                             .label = f->maker.label,
                             .id = f->maker.travels ? f->maker.share.id : NULL,
                             .state = names[f->state],
                             .waiters = f->waiters.count,
                             .age_ms = (now.ns - f->born.ns) / NS_PER_MS,
                             .making = f->state == FLIGHT_MAKING || f->state == FLIGHT_STOPPING };
    if (f->state == FLIGHT_MAKING && f->share != NULL)
        share_look(f->share, &s);
    return s;
}

void flight_core_each(const struct flight_core *c, mono now,
                      bool (*each)(void *ctx, const struct flight_seen *s), void *ctx)
{
    for (const struct flight *f = c->all; f != NULL; f = f->next) {
        struct flight_seen s = look_at(f, now);
        if (f->state != FLIGHT_ENDED && !each(ctx, &s))
            return;
    }
}

void flight_core_stats(const struct flight_core *c, struct flight_stats *out)
{
    *out = c->stats;
}

static void check_flight(const struct flight_core *c, const struct flight *f)
{
    MAGIC_CHECK(f, FLIGHT_MAGIC);
    bool unbegun = f->state == FLIGHT_AFTER || f->state == FLIGHT_QUEUED;
    INVARIANT(f->waiters.count <= c->waiters_peak);
    INVARIANT(!unbegun || f->waiters.count > 0);
    INVARIANT(unbegun || f->state == FLIGHT_MAKING || f->waiters.count == 0);
    INVARIANT(f->current == (f->state == FLIGHT_QUEUED || f->state == FLIGHT_MAKING));
    INVARIANT(!f->current || map_get(c->by_key, flight_key(f)) == f);
    INVARIANT((f->state == FLIGHT_AFTER) == (f->before != NULL));
    INVARIANT(f->before == NULL || f->before->after == f);
    INVARIANT(f->after == NULL || f->state == FLIGHT_MAKING);
    INVARIANT((f->state == FLIGHT_MAKING) == (f->node.place != 0));
    INVARIANT(f->todo == 0 || f->in_todo);
    INVARIANT(f->source->of == f->maker.source);
    INVARIANT(f->source->flights <= c->source_peak);
    INVARIANT(list_empty(&f->admitted) || f->state == FLIGHT_QUEUED);
    bool is_in = f->pass.state == LIMITER_IN || f->pass.state == LIMITER_RESTING;
    if (c->opts.limiter != NULL)
        INVARIANT(is_in == (f->state == FLIGHT_MAKING || f->state == FLIGHT_STOPPING ||
                            !list_empty(&f->admitted)));
}

void flight_core_check(const struct flight_core *c)
{
    uint64_t making = 0, flights = 0, waiters = 0, current = 0;
    for (const struct flight *f = c->all; f != NULL; f = f->next) {
        check_flight(c, f);
        flights++;
        making += f->state == FLIGHT_MAKING || f->state == FLIGHT_STOPPING;
        current += f->current;
        waiters += f->waiters.count;
    }
    INVARIANT(waiters == c->deadlines.count);
    for (const struct flight_outcome *o = c->ready.first; o != NULL; o = o->next)
        waiters += o->waiters.count;
    INVARIANT(flights == c->stats.flights);
    INVARIANT(flights <= c->flights_peak);
    INVARIANT(making == c->stats.making);
    INVARIANT(c->opts.limiter == NULL || making <= c->makes_peak);
    INVARIANT(current == map_count(c->by_key));
    INVARIANT(waiters == c->stats.waiters);
    INVARIANT(waiters <= c->waiters_all_peak);
    INVARIANT(flight_errors_count(&c->errors) <= c->errors.count_max);
}
