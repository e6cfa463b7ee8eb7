/* Calls across servers: events of Redis, of timers and of makers go into the machine of
 * share_core.h, and what it says is done here.
 *
 * Invariants: (1) a call is in `all` and in by_id until its flight ended, and lives until no reply
 * of Redis and no post is on its way; (2) a grant that comes too late is given back; (3) a flight
 * is ended once, by end_with or by whoever accepted an arrival. */
#include "flight/share_impl.h"

#include "base/buf.h"
#include "loop/loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 32, LEASE_PARTS = 3, UNPINNED_MAX = 16 };
#define AGE_MS_MAX (INT64_C(10) * 365 * 24 * 3600 * 1000)

static void act(struct share_call *c, unsigned actions);
static void on_call_timer(void *ctx);

static void step(struct share_call *c, enum share_event e)
{
    act(c, share_step(&c->machine, e));
}

static str number(int64_t n, char out[NUMBER_BYTES])
{
    int length = snprintf(out, NUMBER_BYTES, "%lld", (long long)n);
    return (str){ .p = out, .n = (size_t)length };
}

static mono now_of(const struct share_call *c)
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

static void forget(struct share_call *c)
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
    forget(c);
    c->flight = NULL;
    return f;
}

static void end_with(struct share_call *c, const struct flight_result *r, enum flight_detail detail)
{
    struct flight *f = leave_flight(c);
    flight_end_now(f, r, detail);
    maybe_free(c);
}

static void end_stopped(struct share_call *c, err why, const char *what)
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

static int64_t clip(int64_t n, int64_t least, int64_t most)
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
    out.age_ms = clip(a->age_ms, 0, AGE_MS_MAX);
    out.stale_ms = clip(a->stale_ms, -AGE_MS_MAX, most);
    out.fresh_ms = clip(a->fresh_ms, -AGE_MS_MAX, share->fresh_ms);
    return out;
}

static void end_theirs(struct share_call *c, const struct share_news *n)
{
    if (n->event != SHARE_GOT_VALUE) {
        struct err_note note = n->note;
        int64_t left = clip(n->left_ms, 0, c->shared->opts.error_max_ms);
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
static void reply_over(struct share_call *c)
{
    INVARIANT(c->replies > 0);
    c->replies--;
    share_show(c->shared);
    maybe_free(c);
}

/* ---- Redis: JOIN ---- */

static void redis_is_away(struct share_call *c)
{
    if (flight_maker_of(c->flight)->share.not_alone) {
        (void)share_step(&c->machine, SHARE_STOP); /* ended here instead */
        end_stopped(c, ERR_AGAIN, "the servers cannot agree who makes it: Redis is away");
        return;
    }
    step(c, SHARE_NO_REDIS);
}

static bool news_of_value(const struct redis_reply *r, struct share_news *out)
{
    if (redis_count(r) < 8 || share_fence_of(redis_text(redis_at(r, 1))) == 0)
        return false;
    *out = (struct share_news){
        .event = SHARE_GOT_VALUE,
        .fence = share_fence_of(redis_text(redis_at(r, 1))),
        .value = { .version = redis_text(redis_at(r, 1)),
                   .fresh_ms = redis_integer(redis_at(r, 2)),
                   .stale_ms = redis_integer(redis_at(r, 3)),
                   .age_ms = redis_integer(redis_at(r, 4)),
                   .bytes = redis_text(redis_at(r, 6)),
                   .refresh = redis_integer(redis_at(r, 7)) == 1 },
    };
    return true;
}

static void give_back(struct share_call *c, str token)
{
    struct flight_shared *s = c->shared;
    char gen[NUMBER_BYTES], base[NUMBER_BYTES];
    str args[] = { str_of(c->key), token, str_of(c->id), number(s->opts.make_timeout_ms, gen),
                   number(s->opts.error_base_ms, base) };
    if (redis_run(s->redis, SHARE_ABORT, args, COUNT_OF(args), NULL, NULL) != ERR_OK)
        return; /* Redis is away: the lease runs out by itself */
}

static void got_grant(struct share_call *c, const struct redis_reply *r)
{
    str token = redis_text(redis_at(r, 1));
    uint64_t fence = share_fence_of(token);
    if (c->machine.state != SHARE_JOINING || fence == 0) {
        give_back(c, token);
        if (c->machine.state == SHARE_JOINING)
            redis_is_away(c);
        return;
    }
    c->shared->stats.grants++;
    c->shared->stats.takeovers += c->waited_out;
    c->fence = fence;
    INVARIANT(str_to_cstr(token, c->token, sizeof c->token)); /* a token fits */
    step(c, SHARE_GOT_GRANT);
}

static void deliver(struct share_call *c, const struct share_news *n)
{
    if (n->event == SHARE_NO_REDIS) {
        c->shared->stats.not_shared++;
        redis_is_away(c);
        return;
    }
    unsigned actions = share_step(&c->machine, n->event);
    if ((actions & SHARE_ANSWER_THEIRS) != 0)
        end_theirs(c, n);
    else
        act(c, actions);
}

static void got_wait(struct share_call *c, const struct redis_reply *r)
{
    struct flight_shared *s = c->shared;
    s->stats.waits++;
    str token = redis_text(redis_at(r, 1));
    c->fence = share_fence_of(token);
    if (c->fence == 0) {
        redis_is_away(c);
        return;
    }
    INVARIANT(str_to_cstr(token, c->token, sizeof c->token)); /* a token fits */
    step(c, SHARE_GOT_WAIT);
    str id;
    struct share_news n;
    str kept = { .p = c->kept, .n = c->kept_bytes };
    if (c->kept != NULL && share_push_parse(kept, &id, &n) && n.fence >= c->fence) {
        char *message = c->kept; /* the push was faster than the answer */
        c->kept = NULL;
        deliver(c, &n);
        free(message);
        return;
    }
    int64_t left = redis_integer(redis_at(r, 2));
    left = left < 1 ? 1 : left > s->opts.lease_ms ? s->opts.lease_ms : left;
    loop_timer_start(c->timer, left + 1 + (int64_t)rng_below(&s->rng, (uint64_t)s->opts.jitter_ms),
                     0);
}

/* For JOINs of a maker that wants a fresh value: only what was begun after this one will do. */
static void remember_since(struct share_call *c, const struct redis_reply *r, unsigned at)
{
    if (strcmp(c->since, "-1") == 0 &&
        !str_to_cstr(redis_text(redis_at(r, at)), c->since, sizeof c->since))
        return; /* stays -1 */
}

static void join(struct share_call *c);

/* Gives back what the maker holds, when it is newer than that, and joins again. Once for a call. */
static bool offer_held(struct share_call *c, uint64_t fence)
{
    const struct flight_maker *m = flight_maker_of(c->flight);
    struct flight_arrival a;
    if (c->offered || m->share.held == NULL || !m->share.held(&a, m->ctx) ||
        share_fence_of(a.version) <= fence)
        return false;
    c->offered = true;
    flight_shared_offer(c->shared, m->share.id, &m->share.keeping, &a);
    join(c);
    return true;
}

static void got_gone(struct share_call *c)
{
    if (offer_held(c, 0))
        return;
    c->offered = true; /* it was dropped meanwhile */
    join(c);
}

static void joined(struct share_call *c, const struct redis_reply *r)
{
    struct flight_shared *s = c->shared;
    str kind = redis_count(r) >= 3 ? redis_text(redis_at(r, 0)) : STR_NONE;
    struct share_news n = { .event = SHARE_GOT_ERROR };
    if (str_eq(kind, STR("GRANT"))) {
        remember_since(c, r, 2);
        got_grant(c, r);
        return;
    }
    if (c->machine.state != SHARE_JOINING)
        return;
    if (str_eq(kind, STR("WAIT")) && redis_count(r) == 4) {
        remember_since(c, r, 3);
        got_wait(c, r);
    } else if ((str_eq(kind, STR("HIT")) || str_eq(kind, STR("STALE"))) && news_of_value(r, &n)) {
        if (offer_held(c, n.fence))
            return;
        bool hit = kind.n == 3;
        s->stats.hits += hit;
        s->stats.stale += !hit;
        s->stats.pushes_lost += c->waited_out;
        if (redis_count(r) > 8)
            s->stats.unpinned += (uint64_t)clip(redis_integer(redis_at(r, 8)), 0, UNPINNED_MAX);
        deliver(c, &n);
    } else if (str_eq(kind, STR("ERR"))) {
        s->stats.errors++;
        share_class_parse(redis_text(redis_at(r, 1)), &n.why, &n.note);
        (void)str_to_i64(redis_text(redis_at(r, 2)), &n.left_ms); /* else it is not known */
        if (str_starts(redis_text(redis_at(r, 1)), STR(SHARE_CLASS_NOT_SHARED)))
            n.event = SHARE_NO_REDIS;
        deliver(c, &n);
    } else if (str_eq(kind, STR("GONE"))) {
        got_gone(c);
    } else if (str_eq(kind, STR("NONE"))) {
        step(c, SHARE_NO_REDIS); /* the maker says what that means */
    } else {
        redis_is_away(c);
    }
}

static void join_done(void *ctx, err why, const struct redis_reply *reply,
                      const struct err_note *note)
{
    struct share_call *c = ctx;
    (void)note; /* redis logged it when it broke */
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    if (why == ERR_OK)
        joined(c, reply);
    else if (c->machine.state == SHARE_JOINING)
        redis_is_away(c);
    reply_over(c);
}

static bool holds(const struct share_call *c)
{
    const struct flight_maker *m = flight_maker_of(c->flight);
    struct flight_arrival a;
    return !c->offered && m->share.held != NULL && m->share.held(&a, m->ctx);
}

static void join(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    const struct flight_maker *m = flight_maker_of(c->flight);
    char lease[NUMBER_BYTES], lease_max[NUMBER_BYTES], gen[NUMBER_BYTES], early[NUMBER_BYTES];
    char most[6][NUMBER_BYTES], index[SHARE_KEY_BYTES + 1];
    double soon = m->share.early > 0 ? -log(1.0 - rng_unit(&s->rng)) * m->share.early : 0;
    int n = snprintf(early, sizeof early, "%.6f", soon);
    str args[] = { str_of(c->key),
                   str_of(s->node),
                   number(s->opts.lease_ms, lease),
                   number(2 * s->opts.lease_ms, lease_max),
                   number(s->opts.make_timeout_ms, gen),
                   { .p = early, .n = (size_t)n },
                   str_of(c->since),
                   m->share.look   ? STR("2")
                   : m->share.peek ? STR("1")
                                   : STR("0"),
                   holds(c) ? STR("1") : STR("0"),
                   number(m->share.fresh_ms, most[0]),
                   number(m->share.stale_ms, most[1]),
                   number(s->opts.error_max_ms, most[2]),
                   number((int64_t)s->opts.value_bytes_max, most[3]),
                   number(m->share.keeping.touch_ms, most[4]),
                   m->share.want,
                   share_index(&m->share.keeping, index),
                   number(m->share.keeping.pins_max, most[5]) };
    s->stats.joins++;
    free(c->kept);
    c->kept = NULL;
    c->replies++;
    if (redis_run(s->redis, SHARE_JOIN, args, COUNT_OF(args), join_done, c) == ERR_OK)
        return;
    c->replies--;
    redis_is_away(c);
}

/* ---- Redis: PUT and RENEW ---- */

static void put_done(void *ctx, err why, const struct redis_reply *reply,
                     const struct err_note *note)
{
    struct share_call *c = ctx;
    (void)note;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    struct flight_shared *s = c->shared;
    struct share_news n = { .event = SHARE_GOT_VALUE };
    bool stored = why == ERR_OK && redis_count(reply) > 0 &&
                  str_eq(redis_text(redis_at(reply, 0)), STR("OK"));
    s->stats.puts += stored;
    if (stored && redis_count(reply) > 2)
        s->stats.unpinned += (uint64_t)clip(redis_integer(redis_at(reply, 2)), 0, UNPINNED_MAX);
    s->stats.puts_lost += why == ERR_OK && !stored;
    if (c->machine.state != SHARE_PUBLISHING) {
        reply_over(c);
        return;
    }
    if (why != ERR_OK) {
        step(c, SHARE_PUT_FAILED);
    } else if (stored) {
        step(c, SHARE_STORED);
    } else if (news_of_value(reply, &n)) {
        unsigned actions = share_step(&c->machine, SHARE_LOST_VALUE);
        INVARIANT(actions == SHARE_ANSWER_THEIRS);
        end_theirs(c, &n);
    } else {
        step(c, SHARE_LOST);
    }
    reply_over(c);
}

struct payload {
    str kind, bytes;
    int64_t error_base_ms, error_max_ms;
};

/* A value too large to travel, or one that has no bytes, is published as everybody's own to
 * make. */
static struct payload payload_of(struct share_call *c, struct buf *b,
                                 char class[FLIGHT_CLASS_BYTES_MAX])
{
    struct flight_shared *s = c->shared;
    const struct flight_maker *m = flight_maker_of(c->flight);
    struct payload p = { .kind = STR("E"),
                         .error_base_ms = s->opts.error_base_ms,
                         .error_max_ms = s->opts.error_max_ms };
    if (c->result_why != ERR_OK) {
        p.bytes = share_class(c->result_why, &c->result_note, class);
        if (!c->result_keep)
            p.error_base_ms = p.error_max_ms = 1;
        return p;
    }
    err why = m->share.encode(c->result, b, m->ctx);
    p.bytes = buf_str(b);
    if (why == ERR_OK && buf_status(b) == ERR_OK && p.bytes.n <= s->opts.value_bytes_max) {
        p.kind = STR("V");
        return p;
    }
    p.bytes = STR(SHARE_CLASS_NOT_SHARED);
    return p;
}

static void publish(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    const struct flight_share *sh = &flight_maker_of(c->flight)->share;
    char class[FLIGHT_CLASS_BYTES_MAX], n[11][NUMBER_BYTES], jitter[NUMBER_BYTES];
    char index[SHARE_KEY_BYTES + 1];
    struct buf b;
    buf_init(&b, s->opts.value_bytes_max + 1);
    struct payload p = payload_of(c, &b, class);
    int length = snprintf(jitter, sizeof jitter, "%.3f", 0.8 + 0.4 * rng_unit(&s->rng));
    int64_t took = (now_of(c).ns - c->make_began.ns) / NS_PER_MS;
    str args[] = { str_of(c->key),
                   str_of(c->token),
                   p.kind,
                   p.bytes,
                   number(sh->fresh_ms, n[0]),
                   number(sh->stale_ms, n[1]),
                   number(took, n[2]),
                   number(s->opts.make_timeout_ms, n[3]),
                   number((int64_t)s->opts.push_bytes_max, n[4]),
                   str_of(c->id),
                   number(p.error_base_ms, n[5]),
                   number(p.error_max_ms, n[6]),
                   { .p = jitter, .n = (size_t)length },
                   number((int64_t)s->opts.value_bytes_max, n[7]),
                   number(sh->keeping.touch_ms, n[8]),
                   number(sh->keeping.versions_max, n[9]),
                   share_index(&sh->keeping, index),
                   number(sh->keeping.pins_max, n[10]) };
    c->replies++;
    err why = redis_run(s->redis, SHARE_PUT, args, COUNT_OF(args), put_done, c);
    buf_fini(&b);
    if (why == ERR_OK)
        return;
    c->replies--;
    step(c, SHARE_PUT_FAILED);
}

static void renew_done(void *ctx, err why, const struct redis_reply *reply,
                       const struct err_note *note)
{
    struct share_call *c = ctx;
    (void)note;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    c->shared->stats.renewals_failed +=
        why != ERR_OK || redis_integer(reply) != 1; /* PUT will tell */
    reply_over(c);
}

static void renew(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    char lease[NUMBER_BYTES], gen[NUMBER_BYTES];
    str args[] = { str_of(c->key), str_of(c->token), number(s->opts.lease_ms, lease),
                   number(s->opts.make_timeout_ms, gen) };
    c->replies++;
    if (redis_run(s->redis, SHARE_RENEW, args, COUNT_OF(args), renew_done, c) == ERR_OK)
        return;
    c->replies--;
    s->stats.renewals_failed++;
}

/* ---- what the machine says ---- */

static void make(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    const struct flight_maker *m = flight_maker_of(c->flight);
    bool leads = c->machine.state == SHARE_LEADING;
    s->stats.alone += !leads && !m->share.look;
    c->make_began = now_of(c);
    if (c->result != NULL)
        flight_value_unref(&c->result); /* of a lease that was lost */
    c->has_result = false;
    flight_lease_set(c->flight, leads ? c->fence : 0, leads ? str_of(c->token) : STR_NONE);
    if (leads)
        loop_timer_start(c->timer, s->opts.lease_ms / LEASE_PARTS, s->opts.lease_ms / LEASE_PARTS);
    m->start(c->flight, m->ctx);
}

static void act(struct share_call *c, unsigned actions)
{
    if ((actions & (SHARE_DO_JOIN | SHARE_DO_PUT)) != 0)
        loop_timer_stop(c->timer);
    if ((actions & SHARE_DO_ABORT) != 0)
        give_back(c, str_of(c->token));
    if ((actions & SHARE_DO_CANCEL) != 0) {
        const struct flight_maker *m = flight_maker_of(c->flight);
        if (m->cancel != NULL)
            m->cancel(c->flight, m->ctx); /* the flight ends when it has finished */
        return;
    }
    if ((actions & SHARE_ANSWER_STOPPED) != 0)
        end_stopped(c, ERR_SHUTDOWN, "nobody waits for it any more");
    else if ((actions & SHARE_ANSWER_OURS) != 0)
        end_ours(c, (actions & SHARE_MARK_DEGRADED) != 0 ? FLIGHT_DEGRADED : FLIGHT_LED);
    else if ((actions & SHARE_DO_JOIN) != 0)
        join(c);
    else if ((actions & SHARE_DO_MAKE) != 0)
        make(c);
    else if ((actions & SHARE_DO_PUT) != 0)
        publish(c);
}

static void on_call_timer(void *ctx)
{
    struct share_call *c = ctx;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    if (c->machine.state == SHARE_LEADING) {
        renew(c);
        return;
    }
    c->waited_out = true;
    step(c, SHARE_LEASE_RAN_OUT);
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
        memcpy(c->since, "-1", sizeof "-1");
    if (s->all != NULL)
        s->all->prev = c;
    s->all = c;
    c->same_next = map_put(s->by_id, str_of(c->id), c);
    c->timer = loop_timer_new(s->opts.loop, on_call_timer, c);
    s->stats.calls++;
    flight_call_set(f, c);
    act(c, share_begin(&c->machine));
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
    step(c, SHARE_STOP);
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
        act(c, actions);
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
        deliver(c, n);
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
        redis_is_away(c); /* calls that join get their answers one by one */
}
