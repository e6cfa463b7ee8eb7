/* share.c - calls across servers: events of Redis, of timers and of makers go into the machine of
 * share_core.h, and what it says is done here.
 *
 * Invariants: (1) a call is in `all` and in by_id until its flight ended, and lives until no reply
 * of Redis and no post is on its way; (2) a grant that comes too late is given back; (3) a flight
 * is ended once, by end_with or by whoever accepted an arrival. */
#include "flight/share_impl.h"

#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LEASE_PARTS = 3 };
#define AGE_MS_MAX (INT64_C(10) * 365 * 24 * 3600 * 1000)
#define FRESH_MS_MAX (INT64_C(3600) * 1000) /* no value is fresh for longer */

static void on_call_timer(void *ctx);

void share_call_step(struct share_call *c, enum share_event e)
{
    share_call_act(c, share_step(&c->machine, e));
}

mono share_call_now(const struct share_call *c)
{
    return clock_mono(c->shared->opts.clock);
}

/* ---- a call's life ---- */

static void maybe_free(struct share_call *c)
{
    if (c->flight != NULL || c->replies > 0 || c->posted)
        return;
    free(c->kept);
    if (c->result != NULL)
        flight_value_unref(&c->result);
    c->magic = 0;
    free(c);
}

static void share_forget(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    if (c->prev != NULL)
        c->prev->next = c->next;
    else
        s->all = c->next;
    if (c->next != NULL)
        c->next->prev = c->prev;
    struct share_call *first = map_remove(s->by_id, str_of(c->id));
    struct share_call **link = &first;
    while (*link != c)
        link = &(*link)->same_next;
    *link = c->same_next;
    if (first != NULL)
        (void)map_put(s->by_id, str_of(c->id), first); /* what was there was taken out above */
    loop_timer_free(&c->timer);
    INVARIANT(s->stats.calls > 0);
    s->stats.calls--;
}

/* The flight is no longer ours. */
static struct flight *leave_flight(struct share_call *c)
{
    struct flight *f = c->flight;
    flight_call_set(f, NULL);
    share_forget(c);
    c->flight = NULL;
    return f;
}

static void end_with(struct share_call *c, const struct flight_result *r, enum flight_detail detail)
{
    struct flight *f = leave_flight(c);
    flight_end_now(f, r, detail);
    maybe_free(c);
}

void share_call_stop(struct share_call *c, err why, const char *what)
{
    struct err_note note;
    err_note_set(&note, "%s", what);
    end_with(c, &(struct flight_result){ .why = why, .note = &note }, FLIGHT_LED);
}

static void end_ours(struct share_call *c, enum flight_detail detail)
{
    INVARIANT(c->has_result);
    struct err_note note = c->result_note;
    struct flight_result r = {
        .why = c->result_why, .keep_error = c->result_keep, .value = c->result, .note = &note
    };
    c->result = NULL; /* its reference passes on */
    end_with(c, &r, detail);
}

int64_t share_clip(int64_t n, int64_t least, int64_t most)
{
    return n < least ? least : n > most ? most : n;
}

/* As a value made here would be, at most. */
static struct flight_arrival believed(const struct flight_arrival *a,
                                      const struct flight_share *share)
{
    struct flight_arrival out = *a;
    int64_t most = share->fresh_ms + share->stale_ms;
    most = share->keeping.touch_ms > most ? share->keeping.touch_ms : most;
    out.age_ms = share_clip(a->age_ms, 0, AGE_MS_MAX);
    out.stale_ms = share_clip(a->stale_ms, -AGE_MS_MAX, most);
    out.fresh_ms = share_clip(a->fresh_ms, -AGE_MS_MAX, share->fresh_ms);
    return out;
}

void share_call_end_theirs(struct share_call *c, const struct share_news *n)
{
    if (n->event != SHARE_GOT_VALUE) {
        struct err_note note = n->note;
        int64_t left = share_clip(n->left_ms, 0, c->shared->opts.error_max_ms);
        struct flight_result r = { .why = n->why, .note = &note, .retry_ms = left };
        end_with(c, &r, FLIGHT_REMOTE);
        return;
    }
    const struct flight_maker *m = flight_maker_of(c->flight);
    struct flight_arrival a = believed(&n->value, &m->share);
    struct flight *f = leave_flight(c);
    flight_lease_set(f, n->fence, a.version);
    flight_made_set(f, FLIGHT_REMOTE);
    m->share.accept(f, &a, m->ctx);
    maybe_free(c);
}

/* The last thing done with a reply: c may be gone behind it. */
void share_call_reply_over(struct share_call *c)
{
    INVARIANT(c->replies > 0);
    c->replies--;
    share_show(c->shared);
    maybe_free(c);
}

/* ---- what the machine says ---- */

static void share_make(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    const struct flight_maker *m = flight_maker_of(c->flight);
    bool leads = c->machine.state == SHARE_LEADING;
    s->stats.alone += !leads && !m->share.look;
    c->make_began = share_call_now(c);
    if (c->result != NULL)
        flight_value_unref(&c->result); /* of a lease that was lost */
    c->has_result = false;
    flight_lease_set(c->flight, leads ? c->fence : 0, leads ? str_of(c->token) : STR_NONE);
    if (leads)
        loop_timer_start(c->timer, s->opts.lease_ms / LEASE_PARTS, s->opts.lease_ms / LEASE_PARTS);
    m->start(c->flight, m->ctx);
}

void share_call_act(struct share_call *c, unsigned actions)
{
    if ((actions & (SHARE_DO_JOIN | SHARE_DO_PUT)) != 0)
        loop_timer_stop(c->timer);
    if ((actions & SHARE_DO_ABORT) != 0)
        share_lease_give_back(c, str_of(c->token));
    if ((actions & SHARE_DO_CANCEL) != 0) {
        const struct flight_maker *m = flight_maker_of(c->flight);
        if (m->cancel != NULL)
            m->cancel(c->flight, m->ctx); /* the flight ends when it has finished */
        return;
    }
    if ((actions & SHARE_ANSWER_STOPPED) != 0)
        share_call_stop(c, ERR_SHUTDOWN, "nobody waits for it any more");
    else if ((actions & SHARE_ANSWER_OURS) != 0)
        end_ours(c, (actions & SHARE_MARK_DEGRADED) != 0 ? FLIGHT_DEGRADED : FLIGHT_LED);
    else if ((actions & SHARE_DO_JOIN) != 0)
        share_lease_join(c);
    else if ((actions & SHARE_DO_MAKE) != 0)
        share_make(c);
    else if ((actions & SHARE_DO_PUT) != 0)
        share_lease_publish(c);
}

static void on_call_timer(void *ctx)
{
    struct share_call *c = ctx;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    if (c->machine.state == SHARE_LEADING) {
        share_lease_renew(c);
        return;
    }
    c->waited_out = true;
    share_call_step(c, SHARE_LEASE_RAN_OUT);
}

/* ---- what flight.c asks ---- */

void share_start(struct flight_shared *s, struct flight *f)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    const struct flight_maker *m = flight_maker_of(f);
    struct share_call *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    *c = (struct share_call){ .magic = SHARE_CALL_MAGIC,
                              .shared = s,
                              .flight = f,
                              .next = s->all,
                              .began = clock_mono(s->opts.clock) };
    share_id_text(m->share.id, c->id);
    (void)snprintf(c->key, sizeof c->key, "pal:f:{%s}", c->id); /* fits */
    if (m->fresh)
        (void)snprintf(c->since, sizeof c->since, "-%lld",
                       (long long)share_clip(m->fresh_ago_ms, 0, FRESH_MS_MAX) + 1); /* fits */
    if (s->all != NULL)
        s->all->prev = c;
    s->all = c;
    c->same_next = map_put(s->by_id, str_of(c->id), c);
    c->timer = loop_timer_new(s->opts.loop, on_call_timer, c);
    s->stats.calls++;
    flight_call_set(f, c);
    share_call_act(c, share_begin(&c->machine));
}

void share_look(const struct share_call *c, struct flight_seen *s)
{
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    s->state = share_state_name(c->machine.state);
    s->token = str_of(c->token);
}

void share_cancel(struct share_call *c)
{
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    share_call_step(c, SHARE_STOP);
}

static void made_here(void *ctx)
{
    struct share_call *c = ctx;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    c->posted = false;
    bool was_over = c->machine.state == SHARE_OVER;
    unsigned actions = share_step(&c->machine, SHARE_MADE);
    if (was_over)
        end_ours(c, FLIGHT_LED);
    else
        share_call_act(c, actions);
}

void share_made(struct share_call *c, const struct flight_result *r)
{
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    c->has_result = true;
    c->result_why = r->why;
    c->result_keep = r->keep_error;
    c->result = r->value;
    c->result_note = r->note != NULL ? *r->note : (struct err_note){ .text = "" };
    c->posted = true;
    loop_post(c->shared->opts.loop, made_here, c);
}

/* ---- what comes unasked ---- */

void share_pushed(struct share_call *c, const struct share_news *n, str message)
{
    if (c->machine.state == SHARE_WAITING && n->fence >= c->fence) {
        c->shared->stats.pushes++;
        share_lease_deliver(c, n);
    } else if (c->machine.state == SHARE_JOINING && message.n > 0) {
        free(c->kept);
        c->kept = malloc(message.n);
        INVARIANT(c->kept != NULL);
        memcpy(c->kept, message.p, message.n);
        c->kept_bytes = message.n;
    }
}

void share_redis_down(struct share_call *c)
{
    if (c->machine.state == SHARE_WAITING)
        share_lease_redis_away(c); /* calls that join get their answers one by one */
}
