/* pending.c - commands in flight: their replies come in order; a script that the server forgot is
 * sent once more. */
#include "redis/redis_impl.h"

#include "base/log.h"
#include "redis/reply.h"

#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 10, REFUSED_TELL_MS = 60000 };

void redis_pending_push(struct redis *r, struct redis_pending *p)
{
    p->next = NULL;
    *r->end = p;
    r->end = &p->next;
    r->pending_count++;
    if (!r->ticking)
        loop_timer_start(r->tick, TICK_MS, TICK_MS);
    r->ticking = true;
}

static struct redis_pending *pending_pop(struct redis *r)
{
    struct redis_pending *p = r->first;
    INVARIANT(p != NULL);
    r->first = p->next;
    if (r->first == NULL)
        r->end = &r->first;
    INVARIANT(r->pending_count > 0);
    r->pending_count--;
    return p;
}

void redis_pending_finish(struct redis_pending *p, err why, const struct redis_reply *reply,
                          const struct err_note *note)
{
    if (p->done != NULL)
        p->done(p->ctx, why, reply, note);
    free(p);
}

static size_t bytes_of(const str *args, unsigned count)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += args[i].n;
    return bytes;
}

struct redis_pending *redis_pending_new(struct redis *r, const str *args, unsigned count,
                                        bool keeps)
{
    size_t head = sizeof(struct redis_pending) + (keeps ? count * sizeof(str) : 0);
    struct redis_pending *p = malloc(head + (keeps ? bytes_of(args, count) : 0));
    INVARIANT(p != NULL);
    *p = (struct redis_pending){ .script = -1,
                                 .deadline = mono_add_ms(redis_now(r), r->opts.timeout_ms) };
    if (!keeps)
        return p;
    char *at = (char *)p + head;
    p->args_count = count;
    for (unsigned i = 0; i < count; i++) {
        if (args[i].n > 0)
            memcpy(at, args[i].p, args[i].n);
        p->args[i] = (str){ .p = at, .n = args[i].n };
        at += args[i].n;
    }
    return p;
}

void redis_pending_tick(void *ctx)
{
    struct redis *r = ctx;
    if (r->first == NULL) {
        loop_timer_stop(r->tick);
        r->ticking = false;
    } else if (r->first->deadline.ns <= redis_now(r).ns) {
        r->stats.timeouts++;
        redis_break(r, ERR_TIMEOUT, "a command was not answered in time");
    }
}

/* ---- replies on the command connection ---- */

/* The same script once more, in full; its place in the order is the end. */
static void send_in_full(struct redis *r, struct redis_pending *p)
{
    str args[REDIS_ARGS_MAX];
    memcpy(args, p->args, p->args_count * sizeof(str));
    args[0] = STR("EVAL");
    args[1] = str_of(r->texts[p->script]);
    p->in_full = true;
    p->deadline = mono_add_ms(redis_now(r), r->opts.timeout_ms);
    r->stats.scripts_reloaded++;
    redis_pending_push(r, p);
    if (conn_send(r->commands, args, p->args_count) != ERR_OK)
        redis_break(r, ERR_UNAVAILABLE, "too much is waiting to be sent");
}

/* Redis is there and will not: full, or our user may not. One line in a while says so. */
static void tell_refused(struct redis *r, const char *why)
{
    r->refused++;
    if (r->refused_at.ns != 0 && mono_add_ms(r->refused_at, REFUSED_TELL_MS).ns > redis_now(r).ns)
        return;
    log_event(r->opts.log, LOG_WARN, "redis.refused", LOG_CSTR("host", r->opts.address.host),
              LOG_INT("port", r->opts.address.port), LOG_CSTR("why", why),
              LOG_INT("count", r->refused));
    r->refused_at = redis_now(r);
    r->refused = 0;
}

void redis_pending_reply(void *ctx, const struct redis_reply *reply)
{
    struct redis *r = ctx;
    if (r->first == NULL) {
        redis_break(r, ERR_UNAVAILABLE, "an answer to nothing");
        return;
    }
    struct redis_pending *p = pending_pop(r);
    str error = reply_error(reply);
    if (error.p == NULL) {
        redis_pending_finish(p, ERR_OK, reply, NULL);
        return;
    }
    if (p->script >= 0 && !p->in_full && str_starts(error, STR("NOSCRIPT"))) {
        send_in_full(r, p);
        return;
    }
    struct err_note note;
    bool broken;
    err why = reply_error_code(error, &broken);
    err_note_set(&note, "%.*s", STR_ARG(str_take(error, ERR_NOTE_BYTES - 1)));
    if (!broken && r->state == REDIS_UP)
        tell_refused(r, note.text);
    redis_pending_finish(p, why, NULL, &note);
    if (broken && r->commands != NULL)
        redis_break(r, ERR_UNAVAILABLE, note.text);
}
