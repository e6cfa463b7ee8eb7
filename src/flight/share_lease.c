/* share_lease.c - what a call asks Redis, and what it makes of the answers: JOIN, PUT, RENEW,
 * ABORT. The scripts are in share_scripts.c.
 *
 * Invariant: each command on its way counts in replies, and its answer ends with
 * share_call_reply_over, behind which the call may be gone. */
#include "flight/share_impl.h"

#include "base/buf.h"
#include "loop/loop.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NUMBER_BYTES = 32, UNPINNED_MAX = 16 };

static str number(int64_t n, char out[NUMBER_BYTES])
{
    int length = snprintf(out, NUMBER_BYTES, "%lld", (long long)n);
    return (str){ .p = out, .n = (size_t)length };
}

/* ---- Redis: JOIN ---- */

void share_lease_redis_away(struct share_call *c)
{
    if (flight_maker_of(c->flight)->share.not_alone) {
        (void)share_step(&c->machine, SHARE_STOP); /* ended here instead */
        share_call_stop(c, ERR_AGAIN, "the servers cannot agree who makes it: Redis is away");
        return;
    }
    share_call_step(c, SHARE_NO_REDIS);
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

void share_lease_give_back(struct share_call *c, str token)
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
        share_lease_give_back(c, token);
        if (c->machine.state == SHARE_JOINING)
            share_lease_redis_away(c);
        return;
    }
    c->shared->stats.grants++;
    c->shared->stats.takeovers += c->waited_out;
    c->fence = fence;
    INVARIANT(str_to_cstr(token, c->token, sizeof c->token)); /* a token fits */
    share_call_step(c, SHARE_GOT_GRANT);
}

void share_lease_deliver(struct share_call *c, const struct share_news *n)
{
    if (n->event == SHARE_NO_REDIS) {
        c->shared->stats.not_shared++;
        share_lease_redis_away(c);
        return;
    }
    unsigned actions = share_step(&c->machine, n->event);
    if ((actions & SHARE_ANSWER_THEIRS) != 0)
        share_call_end_theirs(c, n);
    else
        share_call_act(c, actions);
}

static void got_wait(struct share_call *c, const struct redis_reply *r)
{
    struct flight_shared *s = c->shared;
    s->stats.waits++;
    str token = redis_text(redis_at(r, 1));
    c->fence = share_fence_of(token);
    if (c->fence == 0) {
        share_lease_redis_away(c);
        return;
    }
    INVARIANT(str_to_cstr(token, c->token, sizeof c->token)); /* a token fits */
    share_call_step(c, SHARE_GOT_WAIT);
    str id;
    struct share_news n;
    str kept = { .p = c->kept, .n = c->kept_bytes };
    if (c->kept != NULL && share_push_parse(kept, &id, &n) && n.fence >= c->fence) {
        char *message = c->kept; /* the push was faster than the answer */
        c->kept = NULL;
        share_lease_deliver(c, &n);
        free(message);
        return;
    }
    int64_t left = redis_integer(redis_at(r, 2));
    left = left < 1 ? 1 : left > s->opts.lease_ms ? s->opts.lease_ms : left;
    loop_timer_start(c->timer, left + 1 + (int64_t)rng_below(&s->rng, (uint64_t)s->opts.jitter_ms),
                     0);
}

/* For JOINs of a maker that wants a fresh value: since when what was begun will do. */
static void remember_since(struct share_call *c, const struct redis_reply *r, unsigned at)
{
    if (c->since[0] == '-' && !str_to_cstr(redis_text(redis_at(r, at)), c->since, sizeof c->since))
        return; /* stays as it is */
}

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
    share_lease_join(c);
    return true;
}

static void got_gone(struct share_call *c)
{
    if (offer_held(c, 0))
        return;
    c->offered = true; /* it was dropped meanwhile */
    share_lease_join(c);
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
            s->stats.unpinned +=
                (uint64_t)share_clip(redis_integer(redis_at(r, 8)), 0, UNPINNED_MAX);
        share_lease_deliver(c, &n);
    } else if (str_eq(kind, STR("ERR"))) {
        s->stats.errors++;
        share_class_parse(redis_text(redis_at(r, 1)), &n.why, &n.note);
        (void)str_to_i64(redis_text(redis_at(r, 2)), &n.left_ms); /* else it is not known */
        if (str_starts(redis_text(redis_at(r, 1)), STR(SHARE_CLASS_NOT_SHARED)))
            n.event = SHARE_NO_REDIS;
        share_lease_deliver(c, &n);
    } else if (str_eq(kind, STR("GONE"))) {
        got_gone(c);
    } else if (str_eq(kind, STR("NONE"))) {
        share_call_step(c, SHARE_NO_REDIS); /* the maker says what that means */
    } else {
        share_lease_redis_away(c);
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
        share_lease_redis_away(c);
    share_call_reply_over(c);
}

static bool share_lease_holds(const struct share_call *c)
{
    const struct flight_maker *m = flight_maker_of(c->flight);
    struct flight_arrival a;
    return !c->offered && m->share.held != NULL && m->share.held(&a, m->ctx);
}

void share_lease_join(struct share_call *c)
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
                   share_lease_holds(c) ? STR("1") : STR("0"),
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
    share_lease_redis_away(c);
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
        s->stats.unpinned +=
            (uint64_t)share_clip(redis_integer(redis_at(reply, 2)), 0, UNPINNED_MAX);
    s->stats.puts_lost += why == ERR_OK && !stored;
    if (c->machine.state != SHARE_PUBLISHING) {
        share_call_reply_over(c);
        return;
    }
    if (why != ERR_OK) {
        share_call_step(c, SHARE_PUT_FAILED);
    } else if (stored) {
        share_call_step(c, SHARE_STORED);
    } else if (news_of_value(reply, &n)) {
        unsigned actions = share_step(&c->machine, SHARE_LOST_VALUE);
        INVARIANT(actions == SHARE_ANSWER_THEIRS);
        share_call_end_theirs(c, &n);
    } else {
        share_call_step(c, SHARE_LOST);
    }
    share_call_reply_over(c);
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

void share_lease_publish(struct share_call *c)
{
    struct flight_shared *s = c->shared;
    const struct flight_share *sh = &flight_maker_of(c->flight)->share;
    char class[FLIGHT_CLASS_BYTES_MAX], n[11][NUMBER_BYTES], jitter[NUMBER_BYTES];
    char index[SHARE_KEY_BYTES + 1];
    struct buf b;
    buf_init(&b, s->opts.value_bytes_max + 1);
    struct payload p = payload_of(c, &b, class);
    int length = snprintf(jitter, sizeof jitter, "%.3f", 0.8 + 0.4 * rng_unit(&s->rng));
    int64_t took = (share_call_now(c).ns - c->make_began.ns) / NS_PER_MS;
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
    share_call_step(c, SHARE_PUT_FAILED);
}

static void renew_done(void *ctx, err why, const struct redis_reply *reply,
                       const struct err_note *note)
{
    struct share_call *c = ctx;
    (void)note;
    MAGIC_CHECK(c, SHARE_CALL_MAGIC);
    c->shared->stats.renewals_failed +=
        why != ERR_OK || redis_integer(reply) != 1; /* PUT will tell */
    share_call_reply_over(c);
}

void share_lease_renew(struct share_call *c)
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
