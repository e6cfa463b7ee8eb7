/* redis.c - the client of one Redis: two connections, commands in a pipeline, subscriptions.
 *
 * Invariants (states without their REDIS_):
 *  1. pending holds what was sent and not answered, in order; replies of the command connection
 *     take from its front.
 *  2. Whatever breaks, breaks both connections: state DOWN has none, and pending is empty then.
 *  3. UP: each script has its digest, each channel its acknowledgement.
 *
 *   DOWN --retry timer--> RESOLVING --address--> CONNECTING --both said hello--> UP
 *    ^___________________________________________________________________________|  anything
 *    breaks */
#include "redis/redis_impl.h"

#include "base/log.h"
#include "redis/reply.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ECHO_LATE_MAX = 2 /* so many times it was published, and has not come */ };

static const str echo_mark = STR_INIT("\001echo ");

static const unsigned state_next[REDIS_STATES] = {
    [REDIS_DOWN] = 1u << REDIS_RESOLVING | 1u << REDIS_STOPPED,
    [REDIS_RESOLVING] = 1u << REDIS_CONNECTING | 1u << REDIS_DOWN | 1u << REDIS_STOPPED,
    [REDIS_CONNECTING] = 1u << REDIS_UP | 1u << REDIS_DOWN | 1u << REDIS_STOPPED,
    [REDIS_UP] = 1u << REDIS_DOWN | 1u << REDIS_STOPPED,
    [REDIS_STOPPED] = 0,
};

static void redis_move(struct redis *r, enum redis_state to)
{
    INVARIANT(state_next[r->state] & 1u << to);
    r->state = to;
    atomic_store(&r->up, to == REDIS_UP);
}

mono redis_now(const struct redis *r)
{
    return clock_mono(r->opts.clock);
}

/* ---- messages ---- */

static void on_message(struct redis *r, str channel, str payload)
{
    uint64_t number;
    if (str_starts(payload, echo_mark) && str_eq(channel, str_of(r->channels[0]))) {
        if (str_to_u64(str_skip(payload, echo_mark.n), &number))
            r->echo_seen = number;
        return;
    }
    r->stats.messages++;
    if (r->opts.message != NULL)
        r->opts.message(r->opts.ctx, channel, payload);
}

static void on_push(void *ctx, const struct redis_reply *reply)
{
    struct redis *r = ctx;
    str error = reply_error(reply);
    if (error.p != NULL) {
        char text[ERR_NOTE_BYTES];
        (void)snprintf(text, sizeof text, "%.*s",
                       STR_ARG(str_take(error, sizeof text - 1))); /* cut when longer */
        redis_break(r, ERR_UNAVAILABLE, text);
        return;
    }
    if (!r->subscriber_let_in && redis_type(reply) == REDIS_TEXT) {
        r->subscriber_let_in = true; /* +OK to AUTH */
        return;
    }
    str kind = redis_count(reply) == 3 ? redis_text(redis_at(reply, 0)) : STR_NONE;
    if (str_eq(kind, STR("message"))) {
        on_message(r, redis_text(redis_at(reply, 1)), redis_text(redis_at(reply, 2)));
    } else if (str_eq(kind, STR("subscribe"))) {
        r->subscribed++;
        redis_maybe_up(r);
    }
}

static void echo_published(void *ctx, err why, const struct redis_reply *reply,
                           const struct err_note *note)
{
    struct redis *r = ctx;
    (void)why; /* refused, as by a user who may not: then it will not come */
    (void)reply;
    (void)note;
    r->echo_answered = true;
}

/* An echo each time, once the one before has come back. Of one whose PUBLISH waits behind other
 * commands nothing is known yet: their timeout tells of a server that stands still. */
static void on_echo(void *ctx)
{
    struct redis *r = ctx;
    if (r->state != REDIS_UP)
        return;
    if (r->echo_seen != r->echo_sent) {
        if (r->echo_answered && ++r->echo_late == ECHO_LATE_MAX)
            redis_break(r, ERR_UNAVAILABLE, "messages do not arrive any more");
        return;
    }
    r->echo_answered = false;
    r->echo_late = 0;
    char text[REDIS_NUMBER_BYTES + 8];
    int n = snprintf(text, sizeof text, "%s%llu", echo_mark.p, (unsigned long long)++r->echo_sent);
    str args[] = { STR("PUBLISH"), str_of(r->channels[0]), { .p = text, .n = (size_t)n } };
    if (redis_command(r, args, COUNT_OF(args), echo_published, r) != ERR_OK)
        r->echo_sent--;
}

/* ---- up and down ---- */

static void log_state(struct redis *r, enum log_level level, const char *event,
                      struct log_field more)
{
    log_event(r->opts.log, level, event, LOG_CSTR("host", r->opts.address.host),
              LOG_INT("port", r->opts.address.port), more);
}

static void retry_later(struct redis *r)
{
    int64_t half = r->retry_ms / 2;
    int64_t wait = half + (int64_t)rng_below(&r->rng, (uint64_t)half + 1);
    loop_timer_start(r->retry, wait, 0);
    r->retry_ms = 2 * r->retry_ms < r->opts.retry_max_ms ? 2 * r->retry_ms : r->opts.retry_max_ms;
}

static void close_all(struct redis *r, err why, const char *what)
{
    struct err_note note;
    err_note_set(&note, "%s", what);
    conn_close(&r->commands);
    conn_close(&r->messages);
    struct redis_pending *list = r->first;
    r->first = NULL;
    r->end = &r->first;
    r->pending_count = 0;
    while (list != NULL) {
        struct redis_pending *p = list;
        list = p->next;
        redis_pending_finish(p, why, NULL, &note);
    }
}

void redis_break(struct redis *r, err why, const char *what)
{
    bool was_up = r->state == REDIS_UP;
    char kept[ERR_NOTE_BYTES];
    (void)snprintf(kept, sizeof kept, "%s", what); /* what may lie in a connection */
    loop_timer_stop(r->echo);
    redis_move(r, REDIS_DOWN);
    r->address += !was_up;
    if (was_up)
        r->down_since = redis_now(r);
    if (was_up && mono_add_ms(r->up_since, r->opts.retry_max_ms).ns <= redis_now(r).ns)
        r->retry_ms =
            r->opts.retry_min_ms; /* else it comes and goes: what it lets in it does not serve */
    log_state(r, LOG_WARN, was_up ? "redis.down" : "redis.not_up", LOG_CSTR("why", kept));
    close_all(r, why, kept);
    if (r->state != REDIS_DOWN) /* somebody stopped it meanwhile */
        return;
    retry_later(r);
    if (was_up && r->opts.state != NULL)
        r->opts.state(r->opts.ctx, false, STR_NONE);
}

void redis_maybe_up(struct redis *r)
{
    if (r->state != REDIS_CONNECTING || r->hello_wanted > 0 ||
        r->subscribed < r->opts.channels_count)
        return;
    loop_timer_stop(r->retry);
    redis_move(r, REDIS_UP);
    r->stats.ups++;
    r->stats.down_ns += (uint64_t)(redis_now(r).ns - r->down_since.ns);
    r->up_since = redis_now(r);
    r->echo_sent = r->echo_seen = 0;
    r->echo_answered = false;
    r->echo_late = 0;
    if (r->opts.channels_count > 0)
        loop_timer_start(r->echo, r->opts.echo_ms, r->opts.echo_ms);
    log_state(r, LOG_INFO, "redis.up", LOG_CSTR("run_id", r->run_id));
    if (r->opts.state != NULL)
        r->opts.state(r->opts.ctx, true, str_of(r->run_id));
}

static void on_broken(void *ctx, const char *why)
{
    redis_break(ctx, ERR_UNAVAILABLE, why);
}

static void connect_both(struct redis *r, const struct addrinfo *to)
{
    redis_move(r, REDIS_CONNECTING);
    r->subscribed = 0;
    r->hello_wanted = 1;
    struct conn_opts opts = { .loop = r->opts.loop,
                              .address_bytes = to->ai_addrlen,
                              .reply_bytes_max = r->opts.reply_bytes_max,
                              .connected = redis_hello_commands,
                              .reply = redis_pending_reply,
                              .broken = on_broken,
                              .ctx = r };
    memcpy(&opts.address, to->ai_addr, to->ai_addrlen);
    const char *why = NULL;
    r->commands = conn_open(&opts, &why);
    opts.connected = redis_hello_messages;
    opts.reply = on_push;
    if (r->commands != NULL)
        r->messages = conn_open(&opts, &why);
    if (r->messages == NULL) {
        redis_break(r, ERR_UNAVAILABLE, why);
        return;
    }
    loop_timer_start(r->retry, r->opts.connect_timeout_ms, 0);
}

/* ---- where it is ---- */

static void lookup_free(struct redis_lookup *l)
{
    if (l->found != NULL)
        freeaddrinfo(l->found);
    free(l);
}

static void lookup_run(struct loop_job *j)
{
    struct redis_lookup *l = CONTAINER_OF(j, struct redis_lookup, job);
    struct addrinfo hints = { .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM };
    l->result = getaddrinfo(l->host, l->port, &hints, &l->found);
}

/* Number i, counted round and round. */
static const struct addrinfo *address_at(const struct addrinfo *all, unsigned i)
{
    unsigned count = 0;
    for (const struct addrinfo *a = all; a != NULL; a = a->ai_next)
        count++;
    const struct addrinfo *a = all;
    for (i %= count; i > 0; i--)
        a = a->ai_next;
    return a;
}

static void lookup_done(struct loop_job *j, bool canceled)
{
    struct redis_lookup *l = CONTAINER_OF(j, struct redis_lookup, job);
    struct redis *r = l->owner;
    if (r != NULL) {
        r->lookup = NULL;
        if (canceled || l->result != 0 || l->found == NULL)
            redis_break(r, ERR_UNAVAILABLE, canceled ? "canceled" : gai_strerror(l->result));
        else
            connect_both(r, address_at(l->found, r->address));
    }
    lookup_free(l);
}

static void resolve(struct redis *r)
{
    redis_move(r, REDIS_RESOLVING);
    struct redis_lookup *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->owner = r;
    memcpy(l->host, r->opts.address.host, sizeof l->host);
    (void)snprintf(l->port, sizeof l->port, "%u", r->opts.address.port); /* fits */
    l->job = (struct loop_job){ .run = lookup_run, .done = lookup_done };
    r->lookup = l;
    loop_job_start(r->opts.loop, &l->job);
}

/* Down: time to try again. Connecting: it took too long. */
static void on_retry(void *ctx)
{
    struct redis *r = ctx;
    if (r->state == REDIS_DOWN)
        resolve(r);
    else if (r->state == REDIS_CONNECTING)
        redis_break(r, ERR_UNAVAILABLE, "it does not let us in in time");
}

/* ---- public ---- */

static void or_default(int64_t *value, int64_t initial)
{
    if (*value == 0)
        *value = initial;
}

static char *script_text(const struct redis_script *script)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < REDIS_PARTS_MAX && script->parts[i] != NULL; i++)
        bytes += strlen(script->parts[i]);
    char *text = calloc(1, bytes + 1), *at = text;
    INVARIANT(text != NULL);
    for (unsigned i = 0; i < REDIS_PARTS_MAX && script->parts[i] != NULL; i++) {
        size_t n = strlen(script->parts[i]);
        memcpy(at, script->parts[i], n);
        at += n;
    }
    return text;
}

struct redis *redis_new(const struct redis_opts *opts)
{
    INVARIANT(opts->channels_count <= REDIS_CHANNELS_MAX);
    INVARIANT(opts->scripts_count <= REDIS_SCRIPTS_MAX);
    struct redis *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct redis){ .magic = REDIS_MAGIC, .opts = *opts, .state = REDIS_DOWN };
    r->end = &r->first;
    or_default(&r->opts.timeout_ms, 100);
    or_default(&r->opts.connect_timeout_ms, 1000);
    or_default(&r->opts.retry_min_ms, 250);
    or_default(&r->opts.retry_max_ms, 5000);
    or_default(&r->opts.echo_ms, 1000);
    if (r->opts.pending_max == 0)
        r->opts.pending_max = 10000;
    if (r->opts.reply_bytes_max == 0)
        r->opts.reply_bytes_max = 16 << 20;
    rng_init(&r->rng, opts->seed);
    for (unsigned i = 0; i < opts->channels_count; i++) {
        r->channels[i] = strdup(opts->channels[i]);
        INVARIANT(r->channels[i] != NULL);
    }
    for (unsigned i = 0; i < opts->scripts_count; i++)
        r->texts[i] = script_text(&opts->scripts[i]);
    r->retry_ms = r->opts.retry_min_ms;
    r->down_since = redis_now(r);
    r->retry = loop_timer_new(opts->loop, on_retry, r);
    r->tick = loop_timer_new(opts->loop, redis_pending_tick, r);
    r->echo = loop_timer_new(opts->loop, on_echo, r);
    loop_timer_start(r->retry, 1, 0);
    return r;
}

void redis_stop(struct redis *r)
{
    MAGIC_CHECK(r, REDIS_MAGIC);
    loop_assert_here(r->opts.loop);
    if (r->state == REDIS_STOPPED)
        return;
    redis_move(r, REDIS_STOPPED);
    if (r->lookup != NULL)
        r->lookup->owner = NULL;
    close_all(r, ERR_SHUTDOWN, "shutting down");
    loop_timer_free(&r->retry);
    loop_timer_free(&r->tick);
    loop_timer_free(&r->echo);
}

void redis_free(struct redis **rp)
{
    struct redis *r = *rp;
    if (r == NULL)
        return;
    MAGIC_CHECK(r, REDIS_MAGIC);
    INVARIANT(r->state == REDIS_STOPPED);
    r->magic = 0;
    for (unsigned i = 0; i < r->opts.channels_count; i++)
        free(r->channels[i]);
    for (unsigned i = 0; i < r->opts.scripts_count; i++)
        free(r->texts[i]);
    free(r);
    *rp = NULL;
}

bool redis_is_up(const struct redis *r)
{
    return atomic_load(&r->up);
}

static err may_send(struct redis *r)
{
    MAGIC_CHECK(r, REDIS_MAGIC);
    loop_assert_here(r->opts.loop);
    if (r->state != REDIS_UP)
        return ERR_UNAVAILABLE;
    return r->pending_count < r->opts.pending_max ? ERR_OK : ERR_LIMIT;
}

err redis_command(struct redis *r, const str *args, unsigned count, redis_done_fn *done, void *ctx)
{
    err why = may_send(r);
    if (why == ERR_OK)
        why = conn_send(r->commands, args, count);
    if (why != ERR_OK)
        return why;
    struct redis_pending *p = redis_pending_new(r, args, count, false);
    p->done = done;
    p->ctx = ctx;
    redis_pending_push(r, p);
    r->stats.commands++;
    return ERR_OK;
}

err redis_run(struct redis *r, unsigned index, const str *args, unsigned count, redis_done_fn *done,
              void *ctx)
{
    INVARIANT(index < r->opts.scripts_count);
    INVARIANT(count >= 1 && count + 3 <= REDIS_ARGS_MAX);
    str all[REDIS_ARGS_MAX] = { STR("EVALSHA"), str_of(r->sha[index]), STR("1") };
    for (unsigned i = 0; i < count; i++)
        all[3 + i] = args[i];
    err why = may_send(r);
    if (why == ERR_OK)
        why = conn_send(r->commands, all, 3 + count);
    if (why != ERR_OK)
        return why;
    struct redis_pending *p = redis_pending_new(r, all, 3 + count, true);
    p->script = (int)index;
    p->done = done;
    p->ctx = ctx;
    redis_pending_push(r, p);
    r->stats.commands++;
    return ERR_OK;
}

void redis_stats_get(const struct redis *r, struct redis_stats *out)
{
    *out = r->stats;
    if (r->state != REDIS_UP)
        out->down_ns += (uint64_t)(redis_now(r).ns - r->down_since.ns);
}
