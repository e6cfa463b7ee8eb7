/* make.c - makes one list: by its generator, or of what another server made. For list.c. */
#include "base/log.h"
#include "http/client.h"
#include "http/percent.h"
#include "list/list_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ARENA_BYTES_MAX = 16 << 20, NUMBER_BYTES = 24 };

/* The maker of one flight; the flight frees it by make_release. */
struct list_make {
    struct lists *lists;
    const struct list_bucket_opts *bucket;
    struct flight *flight;
    struct http_call call;
    struct http_pair headers[3];
    char budget[NUMBER_BYTES];
    bool calling, only_cached, anew, pinned;
    bool unlike; /* what came from another server was no list of this bucket */
    struct flight_keeping keeping;
    str url, display, want;
    unsigned char id[FLIGHT_ID_BYTES];
    uint32_t mark;           /* of the cache, when the generator was asked */
    uint64_t turn;           /* then */
    struct list_value *held; /* a reference, or NULL */
    struct arena arena;      /* of the texts and of the reply */
};

/* Errors are remembered for a while: a generator that fails is not asked by every reader. */
static void finish_error(struct list_make *m, err why, const struct err_note *note)
{
    m->lists->failed++;
    flight_finish(m->flight, why, NULL, true, note);
}

/* The token of the lease, else a name that no other server gives. */
static void name_version(struct lists *l, struct list_value *v, str version)
{
    if (version.n > 0 && str_to_cstr(version, v->version, sizeof v->version))
        return;
    unsigned long long us = (unsigned long long)(clock_store(l->opts.clock).ns / 1000);
    (void)snprintf(v->version, sizeof v->version, "%llu.alone%llu", us,
                   (unsigned long long)++l->alone); /* fits */
}

/* Without a lease nobody else has what is made. A look makes nothing, and has none either. */
static bool has_no_lease(const struct list_make *m)
{
    return flight_version(m->flight).n == 0;
}

/* Pins a display's list from now on: it stays for display_ttl, whatever its own times say. */
static void pin(const struct list_make *m, struct list_value *v)
{
    v->keeping = m->keeping;
    if (!m->pinned)
        return;
    v->pin_ms = m->bucket->display_ttl_ms;
    if (v->stale_ms < v->pin_ms)
        v->stale_ms = v->pin_ms;
}

/* Turns the generator's answer into the list, or into an error that says what is wrong with it. */
static void take_reply(struct list_make *m)
{
    struct lists *l = m->lists;
    struct list_value *v;
    struct err_note note, why_not;
    if (m->call.status != 200) {
        err_note_set(&note, "the generator of this list answered %d", m->call.status);
        finish_error(m, ERR_UNAVAILABLE, &note);
        return;
    }
    err why = list_value_parse(m->bucket, m->call.reply_body, &v, &why_not);
    if (why != ERR_OK) {
        err_note_set(&note, "the generator's answer is no list: %.200s", why_not.text);
        finish_error(m, why == ERR_BAD ? ERR_CORRUPT : why, &note);
        return;
    }
    /* A display must see one list everywhere: one that Redis cannot take would differ between
     * servers. */
    if (m->pinned && l->opts.shared != NULL && v->json.n > FLIGHT_VALUE_BYTES_MAX) {
        struct flight_value *value = &v->v;
        err_note_set(&note, "a display's list has %zu bytes, %d are the most that servers share",
                     v->json.n, FLIGHT_VALUE_BYTES_MAX);
        flight_value_unref(&value);
        finish_error(m, ERR_CORRUPT, &note);
        return;
    }
    name_version(l, v, flight_version(m->flight));
    v->alone = has_no_lease(m);
    v->unlike = m->unlike;
    v->at = clock_mono(l->opts.clock);
    v->fresh_ms = m->bucket->ttl_ms;
    v->stale_ms = m->bucket->ttl_ms + m->bucket->stale_ttl_ms;
    pin(m, v);
    l->made++;
    v->turn =
        v->alone ? m->turn : list_cache_turn(l->cache); /* under a lease Redis has the order */
    if (v->alone)                                       /* whoever asked may have left */
        list_cache_put(l->cache, m->id, m->mark, v, mono_add_ms(v->at, v->stale_ms));
    if (l->metric_evicted != NULL)
        metric_set(l->metric_evicted, (int64_t)list_cache_evicted(l->cache));
    flight_finish(m->flight, ERR_OK, &v->v, false, NULL);
}

static void call_done(struct http_call *call, err why)
{
    struct list_make *m = call->ctx;
    struct err_note note;
    m->calling = false;
    if (why == ERR_OK) {
        take_reply(m);
        return;
    }
    err_note_set(&note, "the generator of this list: %.200s", call->note.text);
    finish_error(m, why == ERR_BAD || why == ERR_LIMIT ? ERR_UNAVAILABLE : why, &note);
}

/* Is it here by now? Another flight may have ended between the look into the cache and this start.
 * Under a lease Redis was asked already. */
static bool is_here_by_now(struct list_make *m)
{
    struct lists *l = m->lists;
    mono now = clock_mono(l->opts.clock);
    struct list_value *v = NULL;
    if (m->want.n > 0)
        v = list_cache_version(l->cache, m->id, m->want, now);
    else if (!m->anew && has_no_lease(m))
        v = list_cache_get(l->cache, m->id, now, true);
    if (v == NULL)
        return false;
    if (m->want.n > 0 || v->pin_ms > 0 || list_fresh_ms(v, now) > 0) {
        flight_finish(m->flight, ERR_OK, &v->v, false, NULL);
        return true;
    }
    struct flight_value *value = &v->v;
    flight_value_unref(&value);
    return false;
}

static const struct limiter_key *list_turn_of(const struct list_make *m)
{
    const struct lists *l = m->lists;
    INVARIANT(m->bucket->index < l->opts.buckets_count);
    return &l->turns[m->bucket->index].key;
}

/* A look ends here: it must not make anything. */
static void ask_generator(struct list_make *m)
{
    struct lists *l = m->lists;
    if (m->only_cached) {
        static const struct err_note note = {
            .text = "no such list is there, and none was to be made"
        };
        flight_finish(m->flight, ERR_NOT_FOUND, NULL, false, &note);
        return;
    }
    /* The generator is told how long it has. */
    mono now = clock_mono(l->opts.clock);
    mono deadline = mono_add_ms(now, m->bucket->make_timeout_ms);
    if (flight_deadline(m->flight).ns < deadline.ns)
        deadline = flight_deadline(m->flight);
    int64_t budget = (deadline.ns - now.ns) / NS_PER_MS;
    int n = snprintf(m->budget, sizeof m->budget, "%lld", (long long)budget);
    unsigned count = 0;
    m->headers[count++] = (struct http_pair){ STR("Accept"), STR("application/json") };
    m->headers[count++] =
        (struct http_pair){ STR("Request-Timeout-Ms"), { .p = m->budget, .n = (size_t)n } };
    if (m->display.n > 0)
        m->headers[count++] = (struct http_pair){ STR("Palimpsest-Display"), m->display };
    m->call = (struct http_call){ .method = "GET",
                                  .url = m->url,
                                  .headers = m->headers,
                                  .headers_count = count,
                                  .reply_bytes_max =
                                      (size_t)m->bucket->size * (LIST_ITEM_BYTES_MAX + 64) + 1024,
                                  .deadline = deadline,
                                  .pass = flight_pass(m->flight),
                                  .key = list_turn_of(m),
                                  .arena = &m->arena,
                                  .done = call_done,
                                  .ctx = m };
    m->calling = true;
    m->mark = list_cache_mark(l->cache, m->id);
    m->turn = list_cache_turn(l->cache);
    http_call_start(l->opts.client, &m->call);
}

/* Loop: the flight has no value yet, from here or from Redis. */
static void make_start(struct flight *f, void *ctx)
{
    struct list_make *m = ctx;
    m->flight = f;
    if (!is_here_by_now(m))
        ask_generator(m);
}

/* The flight is given up: the call is over soon, and ends it. */
static void make_cancel(struct flight *f, void *ctx)
{
    struct list_make *m = ctx;
    (void)f;
    if (m->calling)
        http_call_cancel(m->lists->opts.client, &m->call);
}

/* Lets go of the reference that make_held took. */
static void let_go(struct list_make *m)
{
    if (m->held == NULL)
        return;
    struct flight_value *value = &m->held->v;
    flight_value_unref(&value);
    m->held = NULL;
}

static void make_release(void *ctx)
{
    struct list_make *m = ctx;
    let_go(m);
    arena_fini(&m->arena);
    free(m);
}

/* What may be given back to Redis; borrowed until the next call, or the maker's end. */
static bool make_held(struct flight_arrival *out, void *ctx)
{
    struct list_make *m = ctx;
    mono now = clock_mono(m->lists->opts.clock);
    let_go(m);
    m->held = list_cache_held(m->lists->cache, m->id, now);
    if (m->held == NULL)
        return false;
    *out = list_arrival(m->held, now);
    return true;
}

/* Other servers get the array as it is; times and version travel beside it. */
static err make_encode(const struct flight_value *v, struct buf *out, void *ctx)
{
    (void)ctx;
    buf_put(out, list_value_of((struct flight_value *)(uintptr_t)v)->json);
    return buf_status(out);
}

/* One line a minute for each bucket. Loop. */
static void tell_unlike(struct list_make *m, const struct err_note *note)
{
    struct lists *l = m->lists;
    INVARIANT(m->bucket->index < l->opts.buckets_count);
    struct list_told *told = &l->told[m->bucket->index];
    mono now = clock_mono(l->opts.clock);
    l->unlike++;
    told->count++;
    if (told->at.ns != 0 && mono_add_ms(told->at, LIST_TELL_MS).ns > now.ns)
        return;
    log_event(
        l->opts.log, LOG_WARN, "list.unlike", LOG_CSTR("bucket", m->bucket->name),
        LOG_STR("display", m->display), LOG_CSTR("note", note->text), LOG_INT("count", told->count),
        LOG_CSTR("what",
                 "what Redis has is no list by this server's rules for the bucket; made here"));
    *told = (struct list_told){ .at = now };
}

/* Takes what another server made, if it is a list by this server's rules. */
static void make_accept(struct flight *f, const struct flight_arrival *a, void *ctx)
{
    struct list_make *m = ctx;
    struct list_value *v;
    struct err_note note;
    err why = list_value_parse(m->bucket, a->bytes, &v, &note);
    if (why != ERR_OK) { /* another server has other rules, or somebody wrote into Redis: until that
                            ends, our own */
        if (!m->only_cached)
            tell_unlike(m, &note);
        flight_alone(f);
        m->flight = f;
        m->unlike = true;
        ask_generator(m);
        return;
    }
    if (m->want.n > 0 &&
        !str_eq(a->version, m->want)) { /* of a server that does not know such questions */
        struct flight_value *value = &v->v;
        flight_value_unref(&value);
        m->flight = f;
        ask_generator(m);
        return;
    }
    name_version(m->lists, v, a->version);
    v->at = clock_mono(m->lists->opts.clock);
    v->fresh_ms = a->fresh_ms;
    v->stale_ms = a->stale_ms;
    v->age_ms = a->age_ms;
    v->refresh = a->refresh;
    pin(m, v);
    v->turn = list_cache_turn(m->lists->cache);
    flight_finish(f, ERR_OK, &v->v, false, NULL);
}

/* The generator's URL with the params that are there. p NULL: the arena is full. */
static str url_of(struct arena *a, const struct list_bucket_opts *b, const struct list_request *r)
{
    str url = str_of(b->generator);
    char mark = '?';
    for (unsigned i = 0; i < b->params_count && url.p != NULL; i++) {
        if (r->params[i].p == NULL)
            continue;
        str name = http_encode(a, str_of(b->params[i])), value = http_encode(a, r->params[i]);
        url = arena_printf(a, "%.*s%c%.*s=%.*s", STR_ARG(url), mark, STR_ARG(name), STR_ARG(value));
        mark = '&';
    }
    return url;
}

/* How Redis keeps the list. A read here is told to Redis once in LIST_CACHE_MS, so a pin lasts that
 * much longer there. */
static struct flight_keeping keeping_of(const struct list_request *r)
{
    const struct list_bucket_opts *b = r->bucket;
    str parts[] = { STR("pins"), r->domain, str_of(b->name) };
    struct flight_keeping k = { .touch_ms = r->pinned ? b->display_ttl_ms + LIST_CACHE_MS : 0,
                                .pins_max = b->displays_max,
                                .versions_max =
                                    r->pinned || b->stale_ttl_ms == 0 ? 0 : LIST_VERSIONS_MAX };
    flight_share_id(parts, COUNT_OF(parts), k.index);
    return k;
}

/* Owner: the flight. All that outlives the request is copied. */
struct flight_maker list_maker(struct lists *l, const struct list_request *r)
{
    const struct list_bucket_opts *b = r->bucket;
    struct list_make *m = calloc(1, sizeof *m);
    INVARIANT(m != NULL);
    m->lists = l;
    m->bucket = b;
    m->only_cached = r->only_cached || r->seeks;
    m->anew = r->no_cache;
    m->pinned = r->pinned;
    m->keeping = keeping_of(r);
    arena_init(&m->arena, ARENA_BYTES_MAX);
    m->url = url_of(&m->arena, b, r);
    m->display = arena_copy(&m->arena, r->display);
    m->want = r->seeks ? arena_copy(&m->arena, r->want) : STR("");
    memcpy(m->id, r->id, sizeof m->id);
    str label = arena_printf(&m->arena, "list %.*s %s %.*s", STR_ARG(r->domain), b->name,
                             STR_ARG(r->display.n > 0 ? r->display : STR("*")));
    INVARIANT(m->url.p !=
              NULL); /* LIST_PARAMS_MAX and LIST_VALUE_BYTES_MAX are far below the arena's */
    struct flight_maker maker = {
        .start = make_start,
        .cancel = make_cancel,
        .release = make_release,
        .ctx = m,
        .keep_idle = true,
        .fresh = m->anew,
        .travels = true,
        .label = label,
        .source = m->only_cached ? NULL : list_turn_of(m), /* a look asks no generator */
        .share = { .fresh_ms = b->ttl_ms,
                   .stale_ms = b->stale_ttl_ms,
                   .early = r->pinned ? 0 : 1.0,
                   .peek = true,
                   .look = m->only_cached,
                   .want = m->want,
                   .not_alone = b->fail_alone,
                   .encode = make_encode,
                   .accept = make_accept,
                   .held = m->anew || r->seeks ? NULL : make_held },
    };
    maker.share.keeping = m->keeping;
    memcpy(maker.share.id, r->id, sizeof maker.share.id);
    return maker;
}
