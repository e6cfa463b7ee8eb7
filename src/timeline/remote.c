/* remote.c - see remote.h. An entry is added by some commands that are sent behind each other; it
 * is added when each of them was done. */
#include "timeline/remote_impl.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

struct timeline_remote *timeline_remote_new(struct redis *redis)
{
    struct timeline_remote *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->redis = redis;
    return r;
}

void timeline_remote_free(struct timeline_remote **rp)
{
    free(*rp);
    *rp = NULL;
}

str timeline_remote_number(char out[TIMELINE_REMOTE_NUMBER_BYTES], const char *before, int64_t n)
{
    int bytes = snprintf(out, TIMELINE_REMOTE_NUMBER_BYTES, "%s%" PRId64, before, n); /* fits */
    return (str){ .p = out, .n = (size_t)bytes };
}

int64_t timeline_remote_us(store_time at)
{
    return at.ns < 0 ? 0 : at.ns / NS_PER_US;
}

/* The first whole microsecond that is not before it. */
str timeline_remote_before(char out[TIMELINE_REMOTE_NUMBER_BYTES], store_time before)
{
    if (before.ns >= INT64_MAX - NS_PER_US)
        return STR("+inf");
    return timeline_remote_number(out, "(", timeline_remote_us(store_time_add(before, 999)));
}

/* ---- one entry ---- */

static void add_answered(struct timeline_remote_add *a, err why, const struct err_note *note)
{
    if (why != ERR_OK && a->why == ERR_OK) {
        a->why = why;
        a->note = *note;
    }
    INVARIANT(a->waiting > 0);
    if (--a->waiting == 0)
        a->done(a, a->why, &a->note);
}

static void add_said(void *ctx, err why, const struct redis_reply *reply,
                     const struct err_note *note)
{
    (void)reply;
    add_answered(ctx, why, note);
}

static void add_counted(void *ctx, err why, const struct redis_reply *reply,
                        const struct err_note *note)
{
    struct timeline_remote_add *a = ctx;
    a->had = why == ERR_OK && redis_integer(reply) == 0;
    add_answered(a, why, note);
}

struct adding {
    struct timeline_remote *remote;
    struct timeline_remote_add *add;
    err why; /* the first that Redis did not take */
};

static void add_send(struct adding *g, const str *args, unsigned count, redis_done_fn *done)
{
    if (g->why == ERR_OK)
        g->why = redis_command(g->remote->redis, args, count, done, g->add);
    g->add->waiting += g->why == ERR_OK;
}

/* The earliest instant stays. */
static void add_to_set(struct adding *g, str key, str member, redis_done_fn *done)
{
    char score[TIMELINE_REMOTE_NUMBER_BYTES], ms[TIMELINE_REMOTE_NUMBER_BYTES];
    const struct timeline_remote_add *a = g->add;
    int64_t us = timeline_remote_us(a->entry.at), ttl_ms = a->ttl_ns / NS_PER_MS;
    const str add[] = { STR("ZADD"), key, STR("LT"), timeline_remote_number(score, "", us),
                        member };
    const str age[] = { STR("PEXPIRE"), key,
                        timeline_remote_number(ms, "", ttl_ms > 0 ? ttl_ms : 1) };
    add_send(g, add, COUNT_OF(add), done);
    add_send(g, age, COUNT_OF(age), add_said);
}

err timeline_remote_add(struct timeline_remote *r, struct timeline_remote_add *a)
{
    struct timeline_remote_key by_title, by_time;
    struct timeline_key member;
    char old[TIMELINE_REMOTE_NUMBER_BYTES];
    struct adding g = { .remote = r, .add = a };
    err why = timeline_remote_key_time(&by_time, a->domain);
    if (why == ERR_OK)
        why = timeline_remote_key_title(&by_title, a->domain, a->where.kind, a->where.title);
    if (why != ERR_OK)
        return why;
    timeline_remote_member(&a->where, &a->entry, &member);
    str whole = timeline_key_str(&member), key = timeline_remote_key_str(&by_title);
    a->waiting = 0;
    a->had = false;
    a->why = ERR_OK;
    add_to_set(&g, key, str_skip(whole, whole.n - TIMELINE_REMOTE_TAIL_BYTES), add_said);
    const str forget[] = { STR("ZREMRANGEBYSCORE"), key, STR("-inf"),
                           timeline_remote_before(old, a->old) };
    add_send(&g, forget, COUNT_OF(forget), add_said);
    add_to_set(&g, timeline_remote_key_str(&by_time), whole, add_counted);
    if (a->waiting == 0)
        return g.why;
    if (g.why != ERR_OK) { /* told when the others were answered */
        a->why = g.why;
        err_note_set(&a->note, "too much is waiting for Redis");
    }
    return ERR_OK;
}
