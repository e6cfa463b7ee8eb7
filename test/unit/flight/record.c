#include "record.h"

#include "../cmocka_all.h"

#include <string.h>

static void must(const struct record *r, bool holds, const char *what)
{
    if (!holds)
        fail_msg("seed %llu, step %llu: %s", (unsigned long long)r->opts.seed,
                 (unsigned long long)r->step, what);
}

void record_init(struct record *r, const struct record_opts *opts)
{
    *r = (struct record){ .opts = *opts, .now = 1000, .us = 1000000, .allowed = 1 };
}

static void forget(struct record *r)
{
    r->there = r->has_value = false;
    r->fence = r->lease = r->version = r->bytes = r->waits = 0;
    r->lease_until = r->lease_began = r->fresh_until = r->stale_until = r->error_until =
        r->dies_at = 0;
    r->errors = r->aborts = 0;
}

void record_at(struct record *r, int64_t now)
{
    if (now > r->now)
        r->now = now;
    r->us = (uint64_t)r->now * 1000 > r->us ? (uint64_t)r->now * 1000 : r->us + 1;
    r->pushes_count = 0;
    if (r->there && r->dies_at <= r->now) { /* PEXPIRE: it outlived every token */
        if (r->lease != 0 || r->has_value)
            r->allowed++;
        forget(r);
    }
}

static void keep(struct record *r, int64_t until)
{
    int64_t least = r->now + r->opts.gen_ms + 1000;
    r->dies_at = until > least ? until : least;
    r->there = true;
}

static bool live(const struct record *r)
{
    return r->lease != 0 && r->lease_until > r->now &&
           r->lease_until - r->now <= 2 * r->opts.lease_ms;
}

static void push_all(struct record *r, enum push_kind kind, uint64_t fence, uint64_t bytes)
{
    for (unsigned node = 0; node < RECORD_NODES_MAX; node++)
        if ((r->waits >> node & 1) != 0)
            r->pushes[r->pushes_count++] =
                (struct record_push){ node, kind, fence, bytes, r->losses };
    r->waits = 0;
}

static struct joined grant(struct record *r)
{
    if (r->lease != 0) { /* it ran out under its holder */
        r->allowed++;
        r->takeovers++;
    }
    if (r->has_value) /* no longer fresh */
        r->allowed++;
    uint64_t least = r->fence + 1;
    uint64_t token = least > r->us ? least : r->us;
    must(r, token > r->greatest, "S2: a token is not greater than the one before");
    r->greatest = token;
    r->fence = r->lease = token;
    r->lease_began = r->now;
    r->lease_until = r->now + r->opts.lease_ms;
    r->granted++;
    must(r, r->granted <= r->allowed, "S3: made more often than something allowed it");
    keep(r, r->stale_until);
    return (struct joined){ .answer = JOIN_GRANT, .token = token };
}

static struct joined answer_join(struct record *r, unsigned node)
{
    record_at(r, r->now);
    bool leads = live(r);
    struct joined value = { .version = r->version, .bytes = r->bytes, .answer = JOIN_HIT };
    if (r->has_value && r->now < r->fresh_until)
        return value;
    value.answer = JOIN_STALE;
    if (r->has_value && r->now < r->stale_until && (leads || r->error_until > r->now))
        return value;
    if (r->now < r->error_until && !leads) {
        must(r, !r->has_value || r->now >= r->stale_until,
             "S6: an error in place of a value that will do");
        return (struct joined){ .answer = JOIN_ERROR, .left_ms = r->error_until - r->now };
    }
    if (!leads)
        return grant(r);
    r->waits |= UINT64_C(1) << node;
    keep(r, r->stale_until);
    return (struct joined){ .answer = JOIN_WAIT,
                            .token = r->lease,
                            .left_ms = r->lease_until - r->now };
}

struct joined record_join(struct record *r, unsigned node)
{
    struct joined j = answer_join(r, node);
    bool is_value = j.answer == JOIN_HIT || j.answer == JOIN_STALE;
    must(r, !is_value || (r->has_value && r->now < r->stale_until), "S7: a value past its time");
    must(r, j.answer != JOIN_ERROR || r->now < r->error_until, "S6: an error past its time");
    must(r, j.answer != JOIN_WAIT || live(r), "L1: waits for nobody");
    return j;
}

static void end_lease(struct record *r)
{
    r->lease = 0;
    r->lease_until = r->lease_began = 0;
}

static void put_error(struct record *r, uint64_t token)
{
    int64_t pause = r->opts.neg_base_ms;
    for (unsigned i = 0; i < r->errors && pause < r->opts.neg_max_ms; i++)
        pause *= 2;
    r->errors++;
    r->errors_put++;
    r->allowed++;
    r->error_until = r->now + (pause < r->opts.neg_max_ms ? pause : r->opts.neg_max_ms);
    keep(r, r->stale_until > r->error_until ? r->stale_until : r->error_until);
    push_all(r, PUSH_ERROR, token, 0);
}

static void put_value(struct record *r, uint64_t token, uint64_t bytes)
{
    must(r, token > r->drop_fence, "S8: begun before a drop and stored behind it");
    must(r, !r->has_value || r->now >= r->fresh_until || token == r->version,
         "S1: a second version while the first is fresh");
    must(r, !r->has_value || token > r->version, "S7: an older version after a newer one");
    r->has_value = true;
    r->version = token;
    r->bytes = bytes;
    r->fresh_until = r->now + r->opts.fresh_ms;
    r->stale_until = r->fresh_until + r->opts.stale_ms;
    r->error_until = 0;
    r->errors = 0;
    r->accepted++;
    keep(r, r->stale_until);
    push_all(r, PUSH_VALUE, token, bytes);
}

struct put record_put(struct record *r, uint64_t token, bool is_error, uint64_t bytes)
{
    record_at(r, r->now);
    bool absent = r->lease == 0 && r->fence == 0;
    bool young = r->us < token || r->us - token <= (uint64_t)r->opts.gen_ms * 1000;
    if (r->lease != token && !(absent && young)) {
        r->refused++;
        if (r->has_value && r->now < r->fresh_until)
            return (
                struct put){ .answer = PUT_LOST_VALUE, .version = r->version, .bytes = r->bytes };
        return (struct put){ .answer = PUT_LOST };
    }
    if (r->fence < token)
        r->fence = token;
    end_lease(r);
    r->aborts = 0;
    if (is_error)
        put_error(r, token);
    else
        put_value(r, token, bytes);
    return (struct put){ .answer = PUT_OK, .version = token, .bytes = bytes };
}

bool record_renew(struct record *r, uint64_t token)
{
    record_at(r, r->now);
    if (r->lease != token)
        return false;
    r->lease_until = r->now + r->opts.lease_ms;
    keep(r, r->stale_until);
    return true;
}

bool record_abort(struct record *r, uint64_t token)
{
    record_at(r, r->now);
    if (r->lease != token)
        return false;
    end_lease(r);
    r->allowed++;
    if (++r->aborts >= 3) {
        r->aborts = 0;
        r->error_until = r->now + r->opts.neg_base_ms;
        r->errors++;
        push_all(r, PUSH_ERROR, token, 0);
    } else {
        push_all(r, PUSH_RETRY, token, 0);
    }
    keep(r, r->stale_until);
    return true;
}

void record_drop(struct record *r)
{
    record_at(r, r->now);
    uint64_t waits = r->waits, fence = r->fence + 1 > r->us ? r->fence + 1 : r->us;
    forget(r);
    r->waits = waits;
    r->fence = r->drop_fence = fence;
    r->allowed++;
    r->drops++;
    keep(r, 0);
    push_all(r, PUSH_RETRY, fence, 0);
}

void record_lose(struct record *r)
{
    record_at(r, r->now);
    forget(r);
    r->drop_fence = 0;
    r->allowed++;
    r->losses++;
}

void record_end_lease(struct record *r)
{
    record_at(r, r->now);
    if (r->lease != 0)
        r->lease_until = r->now;
}
