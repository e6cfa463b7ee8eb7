/* Invariants
 *  1. pending holds what was sent and not answered, in order; replies of the command connection take from its front.
 *  2. Whatever breaks, breaks both connections: state DOWN has none, and pending is empty then.
 *  3. UP: each script has its digest, each channel its acknowledgement.
 *
 *   DOWN --retry timer--> RESOLVING --address--> CONNECTING --both said hello--> UP
 *    ^___________________________________________________________________________|  anything breaks */
#include "redis/redis.h"

#include "base/log.h"
#include "base/rng.h"
#include "loop/loop.h"
#include "redis/conn.h"
#include "redis/reply.h"

#include <netdb.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TICK_MS = 10, WORDS = 512, NUMBER_BYTES = 24, RUN_ID_BYTES_MAX = 64, REFUSED_TELL_MS = 60000 };
static const str echo_mark = STR_INIT("\001echo ");

enum state { DOWN, RESOLVING, CONNECTING, UP, STOPPED, STATES };
static const unsigned state_next[STATES] = {
    [DOWN] = 1u << RESOLVING | 1u << STOPPED,
    [RESOLVING] = 1u << CONNECTING | 1u << DOWN | 1u << STOPPED,
    [CONNECTING] = 1u << UP | 1u << DOWN | 1u << STOPPED,
    [UP] = 1u << DOWN | 1u << STOPPED,
    [STOPPED] = 0,
};

/* One command in flight. args: of a script, to send it in full when the server does not know it. */
struct pending {
    struct pending *next;
    redis_done_fn *done;
    void *ctx;
    mono deadline;
    int script;             /* its number; -1: none */
    bool in_full;           /* EVAL: a second NOSCRIPT is an error */
    unsigned args_count;
    str args[];             /* their bytes behind them */
};

struct lookup {             /* getaddrinfo on the pool; outlives a stop */
    struct loop_job job;
    struct redis *owner;    /* NULL: nobody waits any more */
    char host[REDIS_HOST_BYTES_MAX + 1], port[8];
    struct addrinfo *found;
    int result;
};

struct redis {
    uint32_t magic;
    struct redis_opts opts;
    char *channels[REDIS_CHANNELS_MAX];
    char *texts[REDIS_SCRIPTS_MAX];
    enum state state;
    atomic_bool up;
    struct rng rng;
    struct loop_timer *retry, *tick, *echo;
    struct lookup *lookup;
    unsigned address;           /* of those that a name has, which one is tried */
    struct conn *commands, *messages;
    struct pending *first, **end;
    unsigned pending_count;
    bool ticking;
    unsigned hello_wanted;      /* answers to the hello that are still out */
    unsigned subscribed;
    bool subscriber_let_in;     /* AUTH on the subscriber, when there is one, was answered */
    char sha[REDIS_SCRIPTS_MAX][REDIS_SHA_BYTES + 1];
    char run_id[RUN_ID_BYTES_MAX + 1];
    int64_t retry_ms;
    uint64_t echo_sent, echo_seen;
    mono down_since, up_since;
    mono refused_at;            /* the last line about refusals */
    uint64_t refused;           /* since then */
    struct redis_stats stats;
};
#define REDIS_MAGIC 0x4ed15001u

static void break_all(struct redis *r, err why, const char *what);

static void move(struct redis *r, enum state to)
{
    INVARIANT(state_next[r->state] & 1u << to);
    r->state = to;
    atomic_store(&r->up, to == UP);
}

static mono now(const struct redis *r)
{
    return clock_mono(r->opts.clock);
}

/* ---- pending ---- */

static void pending_push(struct redis *r, struct pending *p)
{
    p->next = NULL;
    *r->end = p;
    r->end = &p->next;
    r->pending_count++;
    if (!r->ticking)
        loop_timer_start(r->tick, TICK_MS, TICK_MS);
    r->ticking = true;
}

static struct pending *pending_pop(struct redis *r)
{
    struct pending *p = r->first;
    INVARIANT(p != NULL);
    r->first = p->next;
    if (r->first == NULL)
        r->end = &r->first;
    INVARIANT(r->pending_count > 0);
    r->pending_count--;
    return p;
}

static void finish(struct pending *p, err why, const struct redis_reply *reply, const struct err_note *note)
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

/* keeps: the arguments may be needed again. */
static struct pending *pending_new(struct redis *r, const str *args, unsigned count, bool keeps)
{
    size_t head = sizeof(struct pending) + (keeps ? count * sizeof(str) : 0);
    struct pending *p = malloc(head + (keeps ? bytes_of(args, count) : 0));
    INVARIANT(p != NULL);
    *p = (struct pending){ .script = -1, .deadline = mono_add_ms(now(r), r->opts.timeout_ms) };
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

static void on_tick(void *ctx)
{
    struct redis *r = ctx;
    if (r->first == NULL) {
        loop_timer_stop(r->tick);
        r->ticking = false;
    } else if (r->first->deadline.ns <= now(r).ns) {
        r->stats.timeouts++;
        break_all(r, ERR_TIMEOUT, "a command was not answered in time");
    }
}

/* ---- replies on the command connection ---- */

/* The same script once more, in full; its place in the order is the end. */
static void send_in_full(struct redis *r, struct pending *p)
{
    str args[REDIS_ARGS_MAX];
    memcpy(args, p->args, p->args_count * sizeof(str));
    args[0] = STR("EVAL");
    args[1] = str_of(r->texts[p->script]);
    p->in_full = true;
    p->deadline = mono_add_ms(now(r), r->opts.timeout_ms);
    r->stats.scripts_reloaded++;
    pending_push(r, p);
    if (conn_send(r->commands, args, p->args_count) != ERR_OK)
        break_all(r, ERR_UNAVAILABLE, "too much is waiting to be sent");
}

/* Redis is there and will not: full, or our user may not. One line in a while says so. */
static void tell_refused(struct redis *r, const char *why)
{
    r->refused++;
    if (r->refused_at.ns != 0 && mono_add_ms(r->refused_at, REFUSED_TELL_MS).ns > now(r).ns)
        return;
    log_event(r->opts.log, LOG_WARN, "redis.refused", LOG_CSTR("host", r->opts.address.host),
              LOG_INT("port", r->opts.address.port), LOG_CSTR("why", why), LOG_INT("count", r->refused));
    r->refused_at = now(r);
    r->refused = 0;
}

static void on_reply(void *ctx, const struct redis_reply *reply)
{
    struct redis *r = ctx;
    if (r->first == NULL) {
        break_all(r, ERR_UNAVAILABLE, "an answer to nothing");
        return;
    }
    struct pending *p = pending_pop(r);
    str error = reply_error(reply);
    if (error.p == NULL) {
        finish(p, ERR_OK, reply, NULL);
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
    if (!broken && r->state == UP)
        tell_refused(r, note.text);
    finish(p, why, NULL, &note);
    if (broken && r->commands != NULL)
        break_all(r, ERR_UNAVAILABLE, note.text);
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

static void maybe_up(struct redis *r);

static void on_push(void *ctx, const struct redis_reply *reply)
{
    struct redis *r = ctx;
    str error = reply_error(reply);
    if (error.p != NULL) {
        char text[ERR_NOTE_BYTES];
        (void)snprintf(text, sizeof text, "%.*s", STR_ARG(str_take(error, sizeof text - 1))); /* cut when longer */
        break_all(r, ERR_UNAVAILABLE, text);
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
        maybe_up(r);
    }
}

/* The subscriber has sent an echo each time; the one before must have come back. */
static void on_echo(void *ctx)
{
    struct redis *r = ctx;
    if (r->state != UP)
        return;
    if (r->echo_seen != r->echo_sent) {
        break_all(r, ERR_UNAVAILABLE, "messages do not arrive any more");
        return;
    }
    char text[NUMBER_BYTES + 8];
    int n = snprintf(text, sizeof text, "%s%llu", echo_mark.p, (unsigned long long)++r->echo_sent);
    str args[] = { STR("PUBLISH"), str_of(r->channels[0]), { .p = text, .n = (size_t)n } };
    if (redis_command(r, args, COUNT_OF(args), NULL, NULL) != ERR_OK)
        r->echo_sent--;
}

/* ---- up and down ---- */

static void log_state(struct redis *r, enum log_level level, const char *event, struct log_field more)
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
    struct pending *list = r->first;
    r->first = NULL;
    r->end = &r->first;
    r->pending_count = 0;
    while (list != NULL) {
        struct pending *p = list;
        list = p->next;
        finish(p, why, NULL, &note);
    }
}

static void break_all(struct redis *r, err why, const char *what)
{
    bool was_up = r->state == UP;
    char kept[ERR_NOTE_BYTES];
    (void)snprintf(kept, sizeof kept, "%s", what); /* what may lie in a connection */
    loop_timer_stop(r->echo);
    move(r, DOWN);
    r->address += !was_up;
    if (was_up)
        r->down_since = now(r);
    if (was_up && mono_add_ms(r->up_since, r->opts.retry_max_ms).ns <= now(r).ns)
        r->retry_ms = r->opts.retry_min_ms; /* else it comes and goes: what it lets in it does not serve */
    log_state(r, LOG_WARN, was_up ? "redis.down" : "redis.not_up", LOG_CSTR("why", kept));
    close_all(r, why, kept);
    if (r->state != DOWN) /* somebody stopped it meanwhile */
        return;
    retry_later(r);
    if (was_up && r->opts.state != NULL)
        r->opts.state(r->opts.ctx, false, STR_NONE);
}

static void maybe_up(struct redis *r)
{
    if (r->state != CONNECTING || r->hello_wanted > 0 || r->subscribed < r->opts.channels_count)
        return;
    loop_timer_stop(r->retry);
    move(r, UP);
    r->stats.ups++;
    r->stats.down_ns += (uint64_t)(now(r).ns - r->down_since.ns);
    r->up_since = now(r);
    r->echo_sent = r->echo_seen = 0;
    if (r->opts.channels_count > 0)
        loop_timer_start(r->echo, r->opts.echo_ms, r->opts.echo_ms);
    log_state(r, LOG_INFO, "redis.up", LOG_CSTR("run_id", r->run_id));
    if (r->opts.state != NULL)
        r->opts.state(r->opts.ctx, true, str_of(r->run_id));
}

/* ---- hello ---- */

/* An answer of the hello; an error of it has broken everything already or does so here. */
static bool hello_fine(struct redis *r, err why, const struct err_note *note)
{
    if (why == ERR_OK)
        return true;
    if (r->state == CONNECTING && r->commands != NULL)
        break_all(r, ERR_UNAVAILABLE, note->text);
    return false;
}

static void hello_done(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct redis *r = ctx;
    (void)reply; /* +OK */
    if (!hello_fine(r, why, note))
        return;
    r->hello_wanted--;
    maybe_up(r);
}

static void info_done(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct redis *r = ctx;
    if (!hello_fine(r, why, note))
        return;
    str text = redis_text(reply);
    str mark = STR("run_id:");
    str rest = str_skip(text, str_find_str(text, mark));
    str id = str_skip(rest, mark.n);
    size_t end = 0;
    while (end < id.n && end < RUN_ID_BYTES_MAX && id.p[end] > ' ')
        end++;
    (void)str_to_cstr(str_take(id, end), r->run_id, sizeof r->run_id); /* empty when it does not say */
    r->hello_wanted--;
    maybe_up(r);
}

/* A replica reads what another wrote, and takes no lease: as good as none. It is tried again until it is a master. */
static void role_done(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct redis *r = ctx;
    if (!hello_fine(r, why, note))
        return;
    str text = redis_text(reply);
    if (str_find_str(text, STR("role:slave")) < text.n) {
        break_all(r, ERR_UNAVAILABLE, "it is a replica of another");
        return;
    }
    r->hello_wanted--;
    maybe_up(r);
}

/* Digests come in the order of the scripts; each pending says which by its script. */
struct loaded { struct redis *r; unsigned index; };
static void load_done(void *ctx, err why, const struct redis_reply *reply, const struct err_note *note)
{
    struct loaded l = *(struct loaded *)ctx;
    free(ctx);
    if (!hello_fine(l.r, why, note))
        return;
    if (!str_to_cstr(redis_text(reply), l.r->sha[l.index], sizeof l.r->sha[0]) ||
        strlen(l.r->sha[l.index]) != REDIS_SHA_BYTES) {
        break_all(l.r, ERR_UNAVAILABLE, "a script has no digest");
        return;
    }
    l.r->hello_wanted--;
    maybe_up(l.r);
}

static void hello_send(struct redis *r, const str *args, unsigned count, redis_done_fn *done, void *ctx)
{
    struct pending *p = pending_new(r, args, count, false);
    p->done = done;
    p->ctx = ctx;
    p->deadline = mono_add_ms(now(r), r->opts.connect_timeout_ms);
    pending_push(r, p);
    r->hello_wanted++;
    INVARIANT(conn_send(r->commands, args, count) == ERR_OK); /* the first of a new connection */
}

static unsigned login(const struct redis *r, str args[3])
{
    const struct redis_address *a = &r->opts.address;
    unsigned count = 0;
    args[count++] = STR("AUTH");
    if (a->user[0] != 0)
        args[count++] = str_of(a->user);
    args[count++] = str_of(a->password);
    return count;
}

static bool has_login(const struct redis *r)
{
    return r->opts.address.password[0] != 0 || r->opts.address.user[0] != 0;
}

static void commands_connected(void *ctx)
{
    struct redis *r = ctx;
    str args[3];
    if (has_login(r))
        hello_send(r, args, login(r, args), hello_done, r);
    char db[NUMBER_BYTES];
    (void)snprintf(db, sizeof db, "%u", r->opts.address.db); /* fits */
    hello_send(r, (str[]){ STR("SELECT"), str_of(db) }, 2, hello_done, r);
    hello_send(r, (str[]){ STR("INFO"), STR("server") }, 2, info_done, r);
    hello_send(r, (str[]){ STR("INFO"), STR("replication") }, 2, role_done, r);
    if (r->opts.channels_count > 0) { /* who may not tell others would leave them waiting */
        static const str echo = STR_INIT("\001echo 0");
        hello_send(r, (str[]){ STR("PUBLISH"), str_of(r->channels[0]), echo }, 3, hello_done, r);
    }
    for (unsigned i = 0; i < r->opts.scripts_count; i++) {
        struct loaded *l = malloc(sizeof *l);
        INVARIANT(l != NULL);
        *l = (struct loaded){ .r = r, .index = i };
        hello_send(r, (str[]){ STR("SCRIPT"), STR("LOAD"), str_of(r->texts[i]) }, 3, load_done, l);
    }
    r->hello_wanted--; /* the one that stood for the connection itself */
}

static void messages_connected(void *ctx)
{
    struct redis *r = ctx;
    str args[REDIS_CHANNELS_MAX + 1];
    r->subscriber_let_in = !has_login(r);
    if (has_login(r))
        INVARIANT(conn_send(r->messages, args, login(r, args)) == ERR_OK);
    args[0] = STR("SUBSCRIBE");
    for (unsigned i = 0; i < r->opts.channels_count; i++)
        args[i + 1] = str_of(r->channels[i]);
    if (r->opts.channels_count > 0)
        INVARIANT(conn_send(r->messages, args, r->opts.channels_count + 1) == ERR_OK);
}

static void on_broken(void *ctx, const char *why)
{
    break_all(ctx, ERR_UNAVAILABLE, why);
}

static void connect_both(struct redis *r, const struct addrinfo *to)
{
    move(r, CONNECTING);
    r->subscribed = 0;
    r->hello_wanted = 1;
    struct conn_opts opts = { .loop = r->opts.loop, .address_bytes = to->ai_addrlen,
                              .reply_bytes_max = r->opts.reply_bytes_max, .connected = commands_connected,
                              .reply = on_reply, .broken = on_broken, .ctx = r };
    memcpy(&opts.address, to->ai_addr, to->ai_addrlen);
    const char *why = NULL;
    r->commands = conn_open(&opts, &why);
    opts.connected = messages_connected;
    opts.reply = on_push;
    if (r->commands != NULL)
        r->messages = conn_open(&opts, &why);
    if (r->messages == NULL) {
        break_all(r, ERR_UNAVAILABLE, why);
        return;
    }
    loop_timer_start(r->retry, r->opts.connect_timeout_ms, 0);
}

/* ---- where it is ---- */

static void lookup_free(struct lookup *l)
{
    if (l->found != NULL)
        freeaddrinfo(l->found);
    free(l);
}

static void lookup_run(struct loop_job *j)
{
    struct lookup *l = CONTAINER_OF(j, struct lookup, job);
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
    struct lookup *l = CONTAINER_OF(j, struct lookup, job);
    struct redis *r = l->owner;
    if (r != NULL) {
        r->lookup = NULL;
        if (canceled || l->result != 0 || l->found == NULL)
            break_all(r, ERR_UNAVAILABLE, canceled ? "canceled" : gai_strerror(l->result));
        else
            connect_both(r, address_at(l->found, r->address));
    }
    lookup_free(l);
}

static void resolve(struct redis *r)
{
    move(r, RESOLVING);
    struct lookup *l = calloc(1, sizeof *l);
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
    if (r->state == DOWN)
        resolve(r);
    else if (r->state == CONNECTING)
        break_all(r, ERR_UNAVAILABLE, "it does not let us in in time");
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
    *r = (struct redis){ .magic = REDIS_MAGIC, .opts = *opts, .state = DOWN };
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
    r->down_since = now(r);
    r->retry = loop_timer_new(opts->loop, on_retry, r);
    r->tick = loop_timer_new(opts->loop, on_tick, r);
    r->echo = loop_timer_new(opts->loop, on_echo, r);
    loop_timer_start(r->retry, 1, 0);
    return r;
}

void redis_stop(struct redis *r)
{
    MAGIC_CHECK(r, REDIS_MAGIC);
    loop_assert_here(r->opts.loop);
    if (r->state == STOPPED)
        return;
    move(r, STOPPED);
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
    INVARIANT(r->state == STOPPED);
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
    if (r->state != UP)
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
    struct pending *p = pending_new(r, args, count, false);
    p->done = done;
    p->ctx = ctx;
    pending_push(r, p);
    r->stats.commands++;
    return ERR_OK;
}

err redis_run(struct redis *r, unsigned index, str key, const str *args, unsigned count, redis_done_fn *done, void *ctx)
{
    INVARIANT(index < r->opts.scripts_count);
    INVARIANT(count + 4 <= REDIS_ARGS_MAX);
    str all[REDIS_ARGS_MAX] = { STR("EVALSHA"), str_of(r->sha[index]), STR("1"), key };
    for (unsigned i = 0; i < count; i++)
        all[4 + i] = args[i];
    err why = may_send(r);
    if (why == ERR_OK)
        why = conn_send(r->commands, all, 4 + count);
    if (why != ERR_OK)
        return why;
    struct pending *p = pending_new(r, all, 4 + count, true);
    p->script = (int)index;
    p->done = done;
    p->ctx = ctx;
    pending_push(r, p);
    r->stats.commands++;
    return ERR_OK;
}

void redis_stats_get(const struct redis *r, struct redis_stats *out)
{
    *out = r->stats;
    if (r->state != UP)
        out->down_ns += (uint64_t)(now(r).ns - r->down_since.ns);
}
