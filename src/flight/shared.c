/* shared.c - all calls of one process, its two connections, and what comes over them unasked. */
#include "base/log.h"
#include "flight/share_impl.h"
#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { CALLS_OF_ID_MAX = 16, TELL_BYTES_MAX = 4096 };
static const str all_channel = STR_INIT(SHARE_ALL_CHANNEL);
static const str tell_mark = STR_INIT(SHARE_TELL_MARK);

static const struct {
    enum metric_id id;
    size_t offset;
} rows[] = {
    { METRIC_SHARED_JOINS, offsetof(struct flight_shared_stats, joins) },
    { METRIC_SHARED_HITS, offsetof(struct flight_shared_stats, hits) },
    { METRIC_SHARED_STALE, offsetof(struct flight_shared_stats, stale) },
    { METRIC_SHARED_ERRORS, offsetof(struct flight_shared_stats, errors) },
    { METRIC_SHARED_WAITS, offsetof(struct flight_shared_stats, waits) },
    { METRIC_SHARED_GRANTS, offsetof(struct flight_shared_stats, grants) },
    { METRIC_SHARED_TAKEOVERS, offsetof(struct flight_shared_stats, takeovers) },
    { METRIC_SHARED_PUTS, offsetof(struct flight_shared_stats, puts) },
    { METRIC_SHARED_PUTS_LOST, offsetof(struct flight_shared_stats, puts_lost) },
    { METRIC_SHARED_PUSHES, offsetof(struct flight_shared_stats, pushes) },
    { METRIC_SHARED_PUSHES_LOST, offsetof(struct flight_shared_stats, pushes_lost) },
    { METRIC_SHARED_RENEWALS_FAILED, offsetof(struct flight_shared_stats, renewals_failed) },
    { METRIC_SHARED_DROPS, offsetof(struct flight_shared_stats, drops) },
    { METRIC_SHARED_OFFERS, offsetof(struct flight_shared_stats, offers) },
    { METRIC_SHARED_ALONE, offsetof(struct flight_shared_stats, alone) },
    { METRIC_SHARED_NOT_SHARED, offsetof(struct flight_shared_stats, not_shared) },
    { METRIC_SHARED_UNPINNED, offsetof(struct flight_shared_stats, unpinned) },
    { METRIC_SHARED_TELLS_LOST, offsetof(struct flight_shared_stats, tells_lost) },
};

void share_show(struct flight_shared *s)
{
    for (size_t i = 0; s->up != NULL && i < COUNT_OF(rows); i++) {
        const void *at = (const char *)&s->stats + rows[i].offset;
        metric_set(s->metrics[i], (int64_t) * (const uint64_t *)at);
    }
    if (s->up != NULL)
        metric_set(s->up, redis_is_up(s->redis));
}

/* ---- messages ---- */

/* fn may end calls; those of one id are few. */
static void each_of_id(struct flight_shared *s, str id, const struct share_news *n, str message)
{
    struct share_call *calls[CALLS_OF_ID_MAX];
    unsigned count = 0;
    for (struct share_call *c = map_get(s->by_id, id); c != NULL && count < CALLS_OF_ID_MAX;
         c = c->same_next)
        calls[count++] = c;
    for (unsigned i = 0; i < count; i++)
        share_pushed(calls[i], n, message);
}

static void shared_dropped(struct flight_shared *s, str id)
{
    unsigned char bytes[FLIGHT_ID_BYTES];
    if (share_id_parse(id, bytes) && s->opts.dropped != NULL)
        s->opts.dropped(s->opts.ctx, bytes);
}

static void on_message(void *ctx, str channel, str payload)
{
    struct flight_shared *s = ctx;
    MAGIC_CHECK(s, SHARED_MAGIC);
    str id;
    struct share_news n;
    if (str_eq(channel, all_channel) && str_starts(payload, tell_mark)) {
        if (s->opts.told != NULL)
            s->opts.told(s->opts.ctx, str_skip(payload, tell_mark.n));
    } else if (str_eq(channel, all_channel)) {
        shared_dropped(s, payload);
    } else if (share_push_parse(payload, &id, &n)) {
        each_of_id(s, id, &n, payload);
    } else {
        log_event(s->opts.log, LOG_WARN, "shared.odd_message",
                  LOG_CSTR("what",
                           "Redis sent what no server of this version sends; it was ignored"));
    }
    share_show(s);
}

static void on_state(void *ctx, bool up, str run_id)
{
    struct flight_shared *s = ctx;
    MAGIC_CHECK(s, SHARED_MAGIC);
    bool fresh = up && s->run_id[0] != 0 && !str_eq(run_id, str_of(s->run_id));
    if (up && !str_to_cstr(run_id, s->run_id, sizeof s->run_id))
        s->run_id[0] = 0;
    struct share_call *next;
    for (struct share_call *c = up ? NULL : s->all; c != NULL; c = next) {
        next = c->next;
        share_redis_down(c);
    }
    share_show(s);
    if (s->opts.state != NULL)
        s->opts.state(s->opts.ctx, up, fresh);
}

/* ---- orders from any thread ---- */

struct order {
    struct flight_shared *shared;
    err (*send)(struct order *o);
    char id[SHARE_ID_TEXT + 1];
    void (*done)(void *ctx, err why);
    void (*noted)(void *ctx, err why, str text);
    void *ctx;
    int64_t ttl_ms; /* of a note */
    size_t text_bytes;
    char text[];
};

static void order_done(void *ctx, err why, const struct redis_reply *reply,
                       const struct err_note *note)
{
    struct order *o = ctx;
    str text = why == ERR_OK && o->noted != NULL ? redis_text(reply) : STR_NONE;
    (void)note;
    if (o->done != NULL)
        o->done(o->ctx, why);
    if (o->noted != NULL)
        o->noted(o->ctx, why == ERR_OK && text.p == NULL ? ERR_NOT_FOUND : why, text);
    free(o);
}

static str order_text(const struct order *o)
{
    return (str){ .p = o->text, .n = o->text_bytes };
}

static err send_drop(struct order *o)
{
    struct flight_shared *s = o->shared;
    char key[SHARE_KEY_BYTES + 1], gen[24];
    (void)snprintf(key, sizeof key, "pal:f:{%s}", o->id); /* fits */
    int n = snprintf(gen, sizeof gen, "%lld", (long long)s->opts.make_timeout_ms);
    str args[] = { str_of(key), str_of(o->id), { .p = gen, .n = (size_t)n } };
    s->stats.drops++;
    return redis_run(s->redis, SHARE_DROP, args, COUNT_OF(args), order_done, o);
}

static str note_key(const struct order *o, char out[SHARE_KEY_BYTES + 1])
{
    int n = snprintf(out, SHARE_KEY_BYTES + 1, "pal:x:{%s}", o->id); /* fits */
    return (str){ .p = out, .n = (size_t)n };
}

static err send_note(struct order *o)
{
    char key[SHARE_KEY_BYTES + 1], ttl[24];
    int n = snprintf(ttl, sizeof ttl, "%lld", (long long)o->ttl_ms);
    str args[] = { STR("PSETEX"), note_key(o, key), { .p = ttl, .n = (size_t)n }, order_text(o) };
    return redis_command(o->shared->redis, args, COUNT_OF(args), order_done, o);
}

static err send_note_again(struct order *o)
{
    char key[SHARE_KEY_BYTES + 1], ttl[24];
    int n = snprintf(ttl, sizeof ttl, "%lld", (long long)o->ttl_ms);
    str args[] = { note_key(o, key), order_text(o), { .p = ttl, .n = (size_t)n } };
    return redis_run(o->shared->redis, SHARE_NOTE, args, COUNT_OF(args), order_done, o);
}

static err send_noted(struct order *o)
{
    char key[SHARE_KEY_BYTES + 1];
    str args[] = { STR("GET"), note_key(o, key) };
    return redis_command(o->shared->redis, args, COUNT_OF(args), order_done, o);
}

static void order_run(void *ctx)
{
    struct order *o = ctx;
    err why = o->send(o);
    if (why != ERR_OK)
        order_done(o, why, NULL, NULL);
}

static struct order *order_new(struct flight_shared *s, err (*send)(struct order *o), str text)
{
    struct order *o = malloc(sizeof *o + text.n);
    INVARIANT(o != NULL);
    *o = (struct order){ .shared = s, .send = send, .text_bytes = text.n };
    if (text.n > 0)
        memcpy(o->text, text.p, text.n);
    return o;
}

void flight_shared_drop(struct flight_shared *s, const unsigned char *id,
                        void (*done)(void *ctx, err why), void *ctx)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    struct order *o = order_new(s, send_drop, STR_NONE);
    share_id_text(id, o->id);
    o->done = done;
    o->ctx = ctx;
    loop_post(s->opts.loop, order_run, o);
}

void flight_shared_tell(struct flight_shared *s, str text, bool once)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    INVARIANT(text.n <= TELL_BYTES_MAX);
    share_tells_add(s->tells, text, once);
}

void flight_shared_note(struct flight_shared *s, const struct flight_note *note)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    INVARIANT(note->text.n <= FLIGHT_NOTE_BYTES_MAX);
    INVARIANT(note->ttl_ms > 0);
    struct order *o = order_new(s, note->yields ? send_note_again : send_note, note->text);
    share_id_text(note->id, o->id);
    o->ttl_ms = note->ttl_ms;
    o->done = note->done;
    o->ctx = note->ctx;
    loop_post(s->opts.loop, order_run, o);
}

void flight_shared_noted(struct flight_shared *s, const unsigned char *id,
                         void (*done)(void *ctx, err why, str text), void *ctx)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    struct order *o = order_new(s, send_noted, STR_NONE);
    share_id_text(id, o->id);
    o->noted = done;
    o->ctx = ctx;
    loop_post(s->opts.loop, order_run, o);
}

void flight_shared_offer(struct flight_shared *s, const unsigned char *id,
                         const struct flight_keeping *keeping, const struct flight_arrival *a)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    char text[SHARE_ID_TEXT + 1], key[SHARE_KEY_BYTES + 1], index[SHARE_KEY_BYTES + 1], n[7][24];
    int64_t numbers[] = { a->fresh_ms,       a->stale_ms,
                          a->age_ms,         s->opts.make_timeout_ms,
                          keeping->touch_ms, keeping->versions_max,
                          keeping->pins_max };
    for (unsigned i = 0; i < COUNT_OF(numbers); i++)
        (void)snprintf(n[i], sizeof n[i], "%lld", (long long)numbers[i]); /* fits */
    s->stats.offers++;
    share_id_text(id, text);
    (void)snprintf(key, sizeof key, "pal:f:{%s}", text); /* fits */
    str args[] = { str_of(key),
                   a->version,
                   str_of(n[0]),
                   str_of(n[1]),
                   str_of(n[2]),
                   STR("V"),
                   a->bytes,
                   str_of(n[3]),
                   str_of(n[4]),
                   str_of(n[5]),
                   share_index(keeping, index),
                   str_of(n[6]) };
    if (redis_run(s->redis, SHARE_OFFER, args, COUNT_OF(args), NULL, NULL) != ERR_OK)
        return; /* then a late comer gets a new value, as the documentation says */
}

/* ---- life ---- */

static void or_default(int64_t *value, int64_t initial)
{
    if (*value == 0)
        *value = initial;
}

static void metrics_init(struct flight_shared *s)
{
    struct metrics *m = s->opts.metrics;
    _Static_assert(COUNT_OF(rows) <= COUNT_OF(s->metrics), "a place each");
    for (size_t i = 0; m != NULL && i < COUNT_OF(rows); i++)
        s->metrics[i] = metrics_one(m, rows[i].id);
    if (m != NULL)
        s->up = metrics_one(m, METRIC_REDIS_UP);
}

static void redis_init(struct flight_shared *s)
{
    struct redis_opts r = { .loop = s->opts.loop,
                            .clock = s->opts.clock,
                            .log = s->opts.log,
                            .address = s->opts.address,
                            .seed = rng_next(&s->rng),
                            .timeout_ms = s->opts.redis_timeout_ms,
                            .reply_bytes_max = 2 * s->opts.value_bytes_max + (1 << 20),
                            .channels = { s->channel, "pal:all" },
                            .channels_count = 2,
                            .scripts_count = SHARE_SCRIPTS,
                            .message = on_message,
                            .state = on_state,
                            .ctx = s };
    memcpy(r.scripts, share_scripts, sizeof share_scripts);
    s->redis = redis_new(&r);
}

struct flight_shared *flight_shared_new(const struct flight_shared_opts *opts)
{
    struct flight_shared *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    *s = (struct flight_shared){ .magic = SHARED_MAGIC, .opts = *opts };
    INVARIANT(str_to_cstr(str_of(opts->node), s->node, sizeof s->node));
    INVARIANT(s->node[0] != 0);
    (void)snprintf(s->channel, sizeof s->channel, "pal:n:%s", s->node); /* fits */
    s->opts.node = s->node;
    or_default(&s->opts.lease_ms, 2000);
    or_default(&s->opts.jitter_ms, 20);
    or_default(&s->opts.redis_timeout_ms, 100);
    or_default(&s->opts.make_timeout_ms, 30000);
    or_default(&s->opts.error_base_ms, 500);
    or_default(&s->opts.error_max_ms, 30000);
    if (s->opts.push_bytes_max == 0)
        s->opts.push_bytes_max = 16 << 10;
    if (s->opts.value_bytes_max == 0)
        s->opts.value_bytes_max = FLIGHT_VALUE_BYTES_MAX;
    rng_init(&s->rng, opts->seed);
    s->by_id = map_new(opts->seed);
    s->tells = share_tells_new(s);
    metrics_init(s);
    redis_init(s);
    return s;
}

void flight_shared_stop(struct flight_shared *s)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    INVARIANT(s->all == NULL);
    redis_stop(s->redis);
}

void flight_shared_free(struct flight_shared **sp)
{
    struct flight_shared *s = *sp;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, SHARED_MAGIC);
    s->magic = 0;
    redis_free(&s->redis);
    share_tells_free(&s->tells);
    map_free(&s->by_id);
    free(s);
    *sp = NULL;
}

const char *flight_shared_node(const struct flight_shared *s)
{
    return s->node;
}

struct redis *flight_shared_redis(struct flight_shared *s)
{
    MAGIC_CHECK(s, SHARED_MAGIC);
    return s->redis;
}

bool flight_shared_is_up(const struct flight_shared *s)
{
    return redis_is_up(s->redis);
}

void flight_shared_stats_get(const struct flight_shared *s, struct flight_shared_stats *out)
{
    *out = s->stats;
    redis_stats_get(s->redis, &out->redis);
}
