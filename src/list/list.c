/* list.c - answers from here what is here; what is not, flies. A list that asks for its successor
 * gets a flight of its own behind the answer, which nobody waits for.
 *
 * Invariant: a mark is taken before each flight, so a drop in between keeps the flight's list
 * out. */
#include "list/list_impl.h"

#include "base/log.h"
#include "loop/loop.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Lists that are offered to a Redis that came back; bytes of a flight's key. */
enum { OFFERS_MAX = 1024, KEY_BYTES = 1 + sizeof(uint32_t) + FLIGHT_ID_BYTES };

/* What a flight's key begins with. */
enum { FLIES = 'L', REFRESHES = 'R', LOOKS = 'O', SEEKS = 'V' };

static void metrics_init(struct lists *l)
{
    struct metrics *m = l->opts.metrics;
    if (m == NULL)
        return;
    l->metric_kept = metrics_one(m, METRIC_LIST_PINS_KEPT);
    l->metric_lost = metrics_one(m, METRIC_LIST_PINS_LOST);
    l->metric_evicted = metrics_one(m, METRIC_LIST_PINS_EVICTED);
}

/* Calls to a generator take turns by its host and the bucket. */
static void turn_set(struct list_turn *t, const struct list_bucket_opts *b)
{
    if (http_client_origin(str_of(b->generator), t->at) != ERR_OK)
        t->at[0] = 0; /* as each call will say */
    t->key = (struct limiter_key){ .origin = str_of(t->at),
                                   .domain = STR(""),
                                   .kind = str_take(str_of(b->name), LIMITER_NAME_BYTES_MAX) };
}

/* Options as of now; replaced as a whole, as requests hold pointers into them. */
static struct list_buckets *buckets_new(const struct lists *l, const struct list_bucket_opts *of)
{
    struct list_buckets *b = calloc(1, sizeof *b + l->opts.buckets_count * sizeof b->of[0]);
    INVARIANT(b != NULL);
    for (unsigned i = 0; i < l->opts.buckets_count; i++) {
        b->of[i] = of[i];
        b->of[i].index = i;
    }
    return b;
}

struct lists *lists_new(const struct lists_opts *opts)
{
    struct lists *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->magic = LISTS_MAGIC;
    l->opts = *opts;
    struct list_buckets *buckets = buckets_new(l, opts->buckets);
    l->opts.buckets = buckets->of;
    l->buckets = buckets;
    l->turns = calloc(opts->buckets_count + 1, sizeof *l->turns);
    INVARIANT(l->turns != NULL);
    for (unsigned i = 0; i < opts->buckets_count; i++)
        turn_set(&l->turns[i], &buckets->of[i]);
    l->told = calloc(opts->buckets_count + 1, sizeof *l->told);
    INVARIANT(l->told != NULL);
    l->lost = calloc(opts->buckets_count + 1, sizeof *l->lost);
    INVARIANT(l->lost != NULL);
    INVARIANT(pthread_mutex_init(&l->lost_lock, NULL) == 0);
    l->cache = list_cache_new(opts->bytes_max, opts->seed);
    metrics_init(l);
    return l;
}

/* Options of all times are freed together. */
void lists_free(struct lists **lp)
{
    struct lists *l = *lp;
    if (l == NULL)
        return;
    MAGIC_CHECK(l, LISTS_MAGIC);
    l->magic = 0;
    list_cache_free(&l->cache);
    for (const struct list_buckets *b = l->buckets, *before; b != NULL; b = before) {
        before = b->before;
        free((void *)(uintptr_t)b);
    }
    free(l->turns);
    free(l->told);
    free(l->lost);
    INVARIANT(pthread_mutex_destroy(&l->lost_lock) == 0);
    free(l);
    *lp = NULL;
}

/* What lists_limit may change. */
static bool limits_same(const struct list_bucket_opts *a, const struct list_bucket_opts *b)
{
    return a->ttl_ms == b->ttl_ms && a->stale_ttl_ms == b->stale_ttl_ms &&
           a->display_ttl_ms == b->display_ttl_ms && a->displays_max == b->displays_max &&
           a->make_timeout_ms == b->make_timeout_ms && a->wait_timeout_ms == b->wait_timeout_ms &&
           a->no_cache_allowed == b->no_cache_allowed && a->is_public == b->is_public;
}

void lists_limit(struct lists *l, const struct list_bucket_opts *buckets)
{
    MAGIC_CHECK(l, LISTS_MAGIC);
    const struct list_buckets *now = l->buckets;
    bool same = true;
    for (unsigned i = 0; i < l->opts.buckets_count; i++)
        same = same && limits_same(&now->of[i], &buckets[i]);
    if (same)
        return;
    struct list_buckets *next = buckets_new(l, now->of);
    for (unsigned i = 0; i < l->opts.buckets_count; i++) {
        struct list_bucket_opts *b = &next->of[i];
        b->ttl_ms = buckets[i].ttl_ms;
        b->stale_ttl_ms = buckets[i].stale_ttl_ms;
        b->display_ttl_ms = buckets[i].display_ttl_ms;
        b->displays_max = buckets[i].displays_max;
        b->make_timeout_ms = buckets[i].make_timeout_ms;
        b->wait_timeout_ms = buckets[i].wait_timeout_ms;
        b->no_cache_allowed = buckets[i].no_cache_allowed;
        b->is_public = buckets[i].is_public;
    }
    /* Those of before stay: requests under way point to them. */
    next->before = now;
    l->buckets = next;
}

const struct list_bucket_opts *lists_bucket(const struct lists *l, str name)
{
    const struct list_buckets *now = l->buckets;
    for (unsigned i = 0; i < l->opts.buckets_count; i++)
        if (str_eq(name, str_of(now->of[i].name)))
            return &now->of[i];
    return NULL;
}

/* Makes the id out of all that the list belongs to. An absent param differs from an empty one. */
static void name_it(struct list_request *r)
{
    r->pinned = r->display.n > 0 && r->bucket->display_ttl_ms > 0;
    r->no_cache =
        r->no_cache && !r->pinned; /* whoever loads a page anew would else tear its list apart */
    str parts[4 + LIST_PARAMS_MAX * 2] = { STR("list"), r->domain, str_of(r->bucket->name),
                                           r->display };
    unsigned count = 4;
    for (unsigned i = 0; i < r->bucket->params_count; i++) {
        parts[count++] = r->params[i].p == NULL ? STR("-") : STR("+");
        parts[count++] = r->params[i];
    }
    flight_share_id(parts, count, r->id);
}

/* The key of a flight. With the mark in it, a request after a drop joins no flight of before, and
 * no error of before counts, as in Redis. Other lists of the mark lose their error's pause, too. */
static str key_of(char kind, const unsigned char *id, uint32_t mark, char out[KEY_BYTES])
{
    out[0] = kind;
    memcpy(out + 1, &mark, sizeof mark);
    memcpy(out + 1 + sizeof mark, id, FLIGHT_ID_BYTES);
    return (str){ .p = out, .n = KEY_BYTES };
}

/* Keeps a list here. detail: how it was had. DEGRADED: Redis did not take it, so it lasts as long
 * as it may be shown at all. */
static void list_keep(struct lists *l, const unsigned char *id, uint32_t mark, struct list_value *v,
                      enum flight_detail detail)
{
    if (v->alone)
        return;
    int64_t fresh_ms = v->pin_ms > 0 ? v->pin_ms : v->fresh_ms;
    int64_t ms = fresh_ms < LIST_CACHE_MS ? fresh_ms : LIST_CACHE_MS;
    if (detail == FLIGHT_DEGRADED)
        ms = v->stale_ms;
    list_cache_put(l->cache, id, mark, v, mono_add_ms(v->at, ms));
}

/* Times run on since the list came here: they are told as of now. */
struct flight_arrival list_arrival(const struct list_value *v, mono now)
{
    int64_t gone = (now.ns - v->at.ns) / NS_PER_MS;
    int64_t stale_ms = v->stale_ms - gone < v->pin_ms ? v->pin_ms : v->stale_ms - gone;
    return (struct flight_arrival){ .bytes = v->json,
                                    .version = str_of(v->version),
                                    .fresh_ms = v->fresh_ms - gone,
                                    .stale_ms = stale_ms,
                                    .age_ms = v->age_ms + gone };
}

/* ---- behind the answer ---- */

/* One making behind an answer; frees itself. */
struct refresh {
    struct lists *lists;
    unsigned char id[FLIGHT_ID_BYTES];
    uint32_t mark;
    struct flight_waiter waiter;
};

static void refreshed(struct flight_waiter *w, err why, struct flight_value *value,
                      const struct err_note *note)
{
    struct refresh *f = CONTAINER_OF(w, struct refresh, waiter);
    (void)note; /* counted as failed; the old one stands */
    if (why == ERR_OK)
        list_keep(f->lists, f->id, f->mark, list_value_of(value), w->detail);
    free(f);
}

/* Has the successor of r's list made. The texts of r are needed only here. */
static void refresh(struct lists *l, const struct list_request *r)
{
    struct list_request again = *r;
    char key[KEY_BYTES];
    again.no_cache = again.only_cached = false;
    struct refresh *f = calloc(1, sizeof *f);
    INVARIANT(f != NULL);
    f->lists = l;
    memcpy(f->id, r->id, sizeof f->id);
    f->mark = list_cache_mark(l->cache, r->id);
    f->waiter = (struct flight_waiter){ .done = refreshed };
    f->waiter.deadline = mono_add_ms(clock_mono(l->opts.clock), 2 * r->bucket->make_timeout_ms);
    struct flight_maker m = list_maker(l, &again);
    m.share.peek = false;
    m.share.held = NULL; /* a new one is wanted */
    l->refreshes++;
    if (flight_join(l->opts.flights, key_of(REFRESHES, r->id, f->mark, key), &m, &f->waiter) !=
        ERR_OK)
        free(f); /* too much is in the air: the next reader asks again */
}

/* ---- requests ---- */

/* Does the request name a version, of a list that changes? */
static bool seeks(const struct list_request *r)
{
    return r->want.n > 0 && !r->pinned && !r->no_cache;
}

/* NULL also when the version that is wanted may be found in Redis (r->seeks). */
struct list_value *list_here(struct lists *l, struct list_request *r)
{
    MAGIC_CHECK(l, LISTS_MAGIC);
    mono now = clock_mono(l->opts.clock);
    name_it(r);
    bool alone = l->opts.shared == NULL || !flight_shared_is_up(l->opts.shared);
    struct list_value *v = NULL;
    if (seeks(r))
        v = list_cache_version(l->cache, r->id, r->want, now);
    bool found = v != NULL;
    r->seeks = !found && !alone && seeks(r) && flight_token_is_fine(r->want);
    if (!found && !r->seeks && !r->no_cache)
        v = list_cache_get(l->cache, r->id, now, alone);
    if (v == NULL)
        return NULL;
    if (!found && v->pin_ms == 0 &&
        list_fresh_ms(v, now) <= 0) /* kept because Redis does not have it */
        refresh(l, r);
    l->here++;
    r->hit = true;
    return v;
}

/* The version is nowhere: the last list is answered instead. */
static void sought_in_vain(struct list_request *r)
{
    struct lists *l = r->lists;
    r->want = STR("");
    struct list_value *v = list_here(l, r);
    if (v != NULL) {
        struct flight_value *value = &v->v;
        r->done(r, ERR_OK, v, NULL);
        flight_value_unref(&value);
        return;
    }
    err why = list_start(l, r);
    if (why != ERR_OK)
        r->done(r, why, NULL, NULL);
}

/* Loop. */
static void list_flown(struct flight_waiter *w, err why, struct flight_value *value,
                       const struct err_note *note)
{
    struct list_request *r = CONTAINER_OF(w, struct list_request, waiter);
    struct lists *l = r->lists;
    struct list_value *v = why == ERR_OK ? list_value_of(value) : NULL;
    r->detail = w->detail;
    r->retry_after_ms = w->retry_after_ms;
    /* A timeout is the request's own; any other failure means that the version is not there. */
    if (r->seeks && why != ERR_OK && why != ERR_TIMEOUT && why != ERR_SHUTDOWN) {
        sought_in_vain(r);
        return;
    }
    if (v != NULL && r->seeks)
        list_cache_keep(l->cache, r->id, r->mark, v);
    else if (v != NULL)
        list_keep(l, r->id, r->mark, v, w->detail);
    if (v != NULL && v->refresh)
        refresh(l, r);
    r->done(r, why, v, note);
}

/* Three kinds of flights do not mix: lists that may be made, looks, and searches for one
 * version. */
err list_start(struct lists *l, struct list_request *r)
{
    MAGIC_CHECK(l, LISTS_MAGIC);
    char key[KEY_BYTES + FLIGHT_TOKEN_BYTES_MAX];
    r->lists = l;
    r->mark = list_cache_mark(l->cache, r->id);
    r->waiter = (struct flight_waiter){ .deadline = r->deadline, .done = list_flown };
    struct flight_maker m = list_maker(l, r);
    l->asked++;
    str name = key_of(r->seeks ? SEEKS : r->only_cached ? LOOKS : FLIES, r->id, r->mark, key);
    if (r->seeks) {
        memcpy(key + KEY_BYTES, r->want.p, r->want.n); /* a token */
        name.n += r->want.n;
    }
    err why = flight_join(l->opts.flights, name, &m, &r->waiter);
    l->refused += why != ERR_OK;
    return why;
}

/* A flight goes on without the request, and its list is kept for others. */
bool list_leave(struct lists *l, struct list_request *r)
{
    return flight_leave(l->opts.flights, &r->waiter);
}

/* ---- dropping ---- */

struct drop {
    void (*done)(void *ctx, err why);
    void *ctx;
};

static void dropped_here(void *ctx)
{
    struct drop *d = ctx;
    d->done(d->ctx, ERR_OK);
    free(d);
}

/* Here at once; the other servers hear of it by Redis. */
void list_drop(struct lists *l, struct list_request *r, void (*done)(void *ctx, err why), void *ctx)
{
    MAGIC_CHECK(l, LISTS_MAGIC);
    name_it(r);
    list_cache_drop(l->cache, r->id);
    if (l->opts.shared != NULL) {
        flight_shared_drop(l->opts.shared, r->id, done, ctx);
        return;
    }
    struct drop *d = malloc(sizeof *d);
    INVARIANT(d != NULL);
    *d = (struct drop){ done, ctx };
    loop_post(l->opts.loop, dropped_here, d);
}

void lists_dropped(struct lists *l, const unsigned char *id)
{
    list_cache_drop(l->cache, id);
}

/* Redis has gone or come. An empty one is given what is held here, so that late readers of a
 * display see the list that was shown. A Redis that kept its data may have told of drops that were
 * missed: what is held is let go. */
void lists_redis(struct lists *l, bool up, bool fresh)
{
    if (up && !fresh)
        list_cache_cut(l->cache);
    if (!up || !fresh)
        return;
    struct list_cached *all = calloc(OFFERS_MAX, sizeof *all);
    INVARIANT(all != NULL);
    mono now = clock_mono(l->opts.clock);
    unsigned count = list_cache_all(l->cache, now, all, OFFERS_MAX);
    for (unsigned i = 0; i < count; i++) {
        struct flight_arrival a = list_arrival(all[i].value, now);
        flight_shared_offer(l->opts.shared, all[i].id, &all[i].value->keeping, &a);
        struct flight_value *value = &all[i].value->v;
        flight_value_unref(&value);
    }
    free(all);
}

/* ---- pins that were lost ---- */

/* One line a minute for each bucket. */
static void tell_lost(struct lists *l, const struct list_request *r)
{
    struct list_told *told = &l->lost[r->bucket->index];
    mono now = clock_mono(l->opts.clock);
    INVARIANT(pthread_mutex_lock(&l->lost_lock) == 0);
    uint64_t count = ++told->count;
    bool tells = told->at.ns == 0 || mono_add_ms(told->at, LIST_TELL_MS).ns <= now.ns;
    if (tells)
        *told = (struct list_told){ .at = now };
    INVARIANT(pthread_mutex_unlock(&l->lost_lock) == 0);
    if (tells)
        log_event(
            l->opts.log, LOG_WARN, "list.pin_lost", LOG_CSTR("bucket", r->bucket->name),
            LOG_STR("display", r->display), LOG_INT("count", count),
            LOG_CSTR("what",
                     "clients named a version of a list that is no longer kept, and got another"));
}

void lists_pin_told(struct lists *l, const struct list_request *r, bool kept)
{
    MAGIC_CHECK(l, LISTS_MAGIC);
    uint64_t count = kept ? ++l->pins_kept : ++l->pins_lost;
    struct metric *metric = kept ? l->metric_kept : l->metric_lost;
    if (metric != NULL)
        metric_set(metric, (int64_t)count);
    if (!kept)
        tell_lost(l, r);
}

void lists_stats_get(struct lists *l, struct lists_stats *out)
{
    *out = (struct lists_stats){ .here = l->here,
                                 .asked = l->asked,
                                 .made = l->made,
                                 .failed = l->failed,
                                 .refused = l->refused,
                                 .refreshes = l->refreshes,
                                 .unlike = l->unlike,
                                 .pins_kept = l->pins_kept,
                                 .pins_lost = l->pins_lost,
                                 .pins_evicted = list_cache_evicted(l->cache) };
    list_cache_size(l->cache, &out->kept, &out->kept_bytes);
}
