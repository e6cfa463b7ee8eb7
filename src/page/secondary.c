/* secondary.c - one flight of a render that is taken from the secondary.
 *
 *   start (loop) -> is it left alone? -(yes)-> end
 *        \-> the source's read -> end, when it has nothing
 *                             \-> contents checked, put (pool) -> end (loop)
 *
 * Invariants
 *  1. From start to finish one of read and put is under way.
 *  2. The source's read is released once, at the end. */
#include "page/secondary.h"

#include "base/breaker.h"
#include "base/log.h"
#include "base/metrics.h"
#include "http/percent.h"
#include "loop/loop.h"
#include "page/trusted.h"

#include <stdio.h>
#include <stdlib.h>

/* How a take ended; each is a label of the metric. */
enum taken { TAKEN_HIT, TAKEN_MISS, TAKEN_GONE, TAKEN_BAD, TAKEN_FAILED, TAKEN_REFUSED, TAKENS };
static const char *const taken_names[] = { "hit", "miss", "gone", "bad", "failed", "refused" };
_Static_assert(COUNT_OF(taken_names) == TAKENS, "a name each");

/* The last line in the log about one kind of end, and how many since. */
struct told {
    mono at;
    uint64_t count;
};
struct page_secondary {
    const struct page_service *service;
    struct secondary_source *source;
    struct flights *flights;
    int64_t timeout_ms;
    struct metric *takens[TAKENS];
    /* loop */
    struct breaker breaker;
    struct told told[TAKENS];
};

#define TAKE_MAGIC 0x5ec07a4eu
/* One take. Owner: its flight, which frees it by take_release. */
struct take {
    uint32_t magic;
    struct page_secondary *secondary;
    struct flight *flight;
    struct arena arena;
    struct page_target target; /* its title is in the arena */
    struct secondary_read read;
    bool reading, held; /* held: the source's read is to be released */
    bool canceled;
    struct page_put put;
    struct task task;
    enum taken end;
    err why;
    struct err_note note;
};

/* ---- ending ---- */

static void value_free(struct flight_value *v)
{
    free(v);
}

/* The value says nothing: the render is in the store. */
static struct flight_value *value_new(void)
{
    struct flight_value *v = calloc(1, sizeof *v);
    INVARIANT(v != NULL);
    v->refs = 1;
    v->free = value_free;
    return v;
}

/* Logs one line a minute for all ends of a kind. */
static void take_tell(const struct take *t)
{
    struct page_secondary *s = t->secondary;
    struct told *told = &s->told[t->end];
    mono now = clock_mono(s->service->clock);
    told->count++;
    if (told->at.ns != 0 && mono_add_ms(told->at, SECONDARY_TELL_MS).ns > now.ns)
        return;
    log_event(s->service->log, LOG_WARN,
              t->end == TAKEN_BAD ? "secondary.bad_render" : "secondary.failed",
              LOG_STR("domain", t->target.domain->name), LOG_STR("title", t->target.title),
              LOG_INT("rev", t->read.name.rev), LOG_CSTR("why", err_name(t->why)),
              LOG_CSTR("note", t->note.text), LOG_INT("count", told->count));
    *told = (struct told){ .at = now };
}

/* What callers are told. A miss and a bad render are "there is none"; a failure is "nobody
 * knows". */
static err take_err(const struct take *t)
{
    switch (t->end) {
    case TAKEN_HIT:
        return ERR_OK;
    case TAKEN_MISS:
    case TAKEN_BAD:
        return ERR_NOT_FOUND;
    case TAKEN_GONE:
        return ERR_GONE;
    case TAKEN_FAILED:
    case TAKEN_REFUSED:
    case TAKENS:
        break;
    }
    return t->why == ERR_SHUTDOWN || t->why == ERR_FULL || t->why == ERR_TIMEOUT ? t->why
                                                                                 : ERR_UNAVAILABLE;
}

/* Loop; t may be gone afterwards. */
static void take_finish(struct take *t, enum taken end, err why, const char *note)
{
    struct page_secondary *s = t->secondary;
    t->end = end;
    t->why = why;
    if (note != NULL)
        err_note_set(&t->note, "%s", note);
    if (t->held)
        s->source->release(s->source, &t->read);
    t->held = false;
    metric_add(s->takens[end], 1);
    if ((end == TAKEN_FAILED && why != ERR_SHUTDOWN) || end == TAKEN_BAD)
        take_tell(t);
    /* t may be gone inside flight_finish. */
    struct err_note told = t->note;
    err given = take_err(t);
    flight_finish(t->flight, given, given == ERR_OK ? value_new() : NULL, false, &told);
}

static void take_release(void *ctx)
{
    struct take *t = ctx;
    MAGIC_CHECK(t, TAKE_MAGIC);
    t->magic = 0;
    arena_fini(&t->arena);
    free(t);
}

/* ---- putting ---- */

/* Loop. Sorts what the store said. Only what is wrong with the render itself counts as bad. */
static void put_done(struct store_call *c)
{
    struct take *t = CONTAINER_OF(c, struct take, put.call);
    const char *note = t->put.note.text;
    bool starved = c->why == ERR_LIMIT && arena_is_starved(&t->arena);
    if (c->why == ERR_OK)
        take_finish(t, TAKEN_HIT, ERR_OK, NULL);
    else if (c->why == ERR_GONE)
        take_finish(t, TAKEN_GONE, c->why, note);
    else if (c->why == ERR_CONFLICT) /* it is stored, and not shown */
        take_finish(t, TAKEN_MISS, c->why, note);
    else if (c->why == ERR_BAD || (c->why == ERR_LIMIT && !starved))
        take_finish(t, TAKEN_BAD, c->why, note);
    else
        take_finish(t, TAKEN_FAILED, c->why,
                    note[0] != '\0' ? note : "the store did not take what the secondary has");
}

/* Has the wiki denied this revision since the render was made? */
static bool is_denied(const struct take *t)
{
    const struct page_service *s = t->secondary->service;
    return page_is_asked(s, t->target.domain) &&
           page_denied_since(s, &t->target, t->read.name.rev, tid_time(t->read.name.tid)).why !=
               RENDER_FINE;
}

/* What the put says of newer revisions: an older render must not become the latest. The next
 * reader of the latest then finds it missing, and takes the newest. */
static uint64_t behind_of(const struct secondary_read *r)
{
    if (r->newest == 0)
        return 0;
    return r->newest > r->name.rev ? r->newest : r->name.rev + 1;
}

/* Pool, as the put compresses. A denial or bad contents end it without a put. */
static void put_run(struct task *task)
{
    struct take *t = CONTAINER_OF(task, struct take, task);
    const struct page_service *s = t->secondary->service;
    const struct page_target *target = &t->target;
    t->put = (struct page_put){ .call = { .deadline = page_write_deadline(s),
                                          .home = loop_home(s->loop),
                                          .done = put_done },
                                .bucket = target->settings->bucket,
                                .domain = target->domain->number,
                                .title = target->title,
                                .rev = t->read.name.rev,
                                .has_tid = true,
                                .tid = t->read.name.tid,
                                .own_name = target->has_tid,
                                .behind = behind_of(&t->read),
                                .said_at = SECONDARY_SAID_AT,
                                .heeds = target->domain->origin != NULL,
                                .asked = target->has_rev,
                                .arena = &t->arena };
    err why = is_denied(t) ? ERR_GONE
                           : page_secondary_contents(t->secondary->source, &t->read,
                                                     target->settings->opts, &t->put);
    if (why == ERR_OK && page_store_put(s->store, &t->put) == STORE_LATER)
        return;
    /* By call.home back to the loop, also without a put. */
    store_call_end(&t->put.call, why != ERR_OK ? why : t->put.call.why);
}

/* ---- reading ---- */

/* Loop. The breaker counts answers, whatever they say; a cancel says nothing of the source. */
static void read_end(struct take *t)
{
    struct page_secondary *s = t->secondary;
    const struct secondary_read *r = &t->read;
    if (r->why == ERR_OK || r->why == ERR_NOT_FOUND || r->why == ERR_CORRUPT)
        breaker_succeeded(&s->breaker);
    else if (r->why != ERR_SHUTDOWN)
        (void)breaker_failed(&s->breaker, clock_mono(s->service->clock));
    if (r->why == ERR_OK && t->canceled) {
        take_finish(t, TAKEN_FAILED, ERR_SHUTDOWN, NULL);
    } else if (r->why == ERR_OK) {
        t->task.run = put_run;
        home_post(loop_pool(s->service->loop), &t->task);
    } else {
        take_finish(t,
                    r->why == ERR_NOT_FOUND ? TAKEN_MISS
                    : r->why == ERR_CORRUPT ? TAKEN_BAD
                                            : TAKEN_FAILED,
                    r->why, r->note.text);
    }
}

static void read_done(struct secondary_read *r)
{
    struct take *t = CONTAINER_OF(r, struct take, read);
    t->reading = false;
    read_end(t);
}

static enum page_select select_of(const struct page_target *t)
{
    return t->has_tid ? SELECT_EXACT : t->has_rev ? SELECT_REV : SELECT_LATEST;
}

/* ---- the flight's calls, on the loop ---- */

static void take_start(struct flight *f, void *ctx)
{
    struct take *t = ctx;
    MAGIC_CHECK(t, TAKE_MAGIC);
    struct page_secondary *s = t->secondary;
    mono now = clock_mono(s->service->clock);
    t->flight = f;
    t->read = (struct secondary_read){ .domain = t->target.domain,
                                       .title = t->target.title,
                                       .select = select_of(&t->target),
                                       .name = t->target.name,
                                       .deadline = mono_add_ms(now, s->timeout_ms),
                                       .done = read_done };
    /* Both refusals answer at once: readers do not wait for a secondary that is away. */
    if (!s->source->ready(s->source)) {
        take_finish(t, TAKEN_REFUSED, ERR_UNAVAILABLE, "the secondary cannot be asked yet");
        return;
    }
    if (!breaker_enter(&s->breaker, now)) {
        take_finish(t, TAKEN_REFUSED, ERR_UNAVAILABLE,
                    "the secondary has failed again and again, and is left alone for now");
        return;
    }
    t->reading = true;
    /* Without a start done was not called, and nothing is to be released. */
    t->held = s->source->start(s->source, &t->read);
    if (!t->held)
        read_done(&t->read);
}

static void take_cancel(struct flight *f, void *ctx)
{
    struct take *t = ctx;
    (void)f;
    t->canceled = true;
    if (t->reading)
        t->secondary->source->cancel(t->secondary->source, &t->read);
}

/* ---- joining ---- */

static struct take *take_new(struct page_secondary *s, const struct page_target *target)
{
    struct take *t = calloc(1, sizeof *t);
    if (t == NULL)
        return NULL;
    *t = (struct take){ .magic = TAKE_MAGIC, .secondary = s, .target = *target };
    arena_init(&t->arena, s->service->arena_bytes_max);
    arena_share(&t->arena, s->service->budget);
    /* What outlives the call is copied; the content does not matter, as all are taken. */
    t->target.content = STR_NONE;
    t->target.title = arena_copy(&t->arena, target->title);
    if (t->target.title.p != NULL)
        return t;
    take_release(t);
    return NULL;
}

/* Only the first bucket, "page", has a secondary. */
bool page_secondary_keeps(const struct page_secondary *s, const struct page_target *t)
{
    return s != NULL && t->settings->bucket == page_settings_now(s->service)[0].bucket;
}

err page_secondary_take(struct page_secondary *s, const struct page_target *target,
                        struct flight_waiter *w)
{
    char key[FLIGHT_KEY_BYTES_MAX], tid[TID_TEXT_BYTES + 1] = "";
    /* A name with a tid names its revision, too. */
    uint64_t rev = target->has_rev || target->has_tid ? target->name.rev : 0;
    if (target->has_tid)
        tid_format(target->name.tid, tid);
    int n = snprintf(key, sizeof key, "secondary %.*s %llu %s %.*s", STR_ARG(target->domain->name),
                     (unsigned long long)rev, tid, STR_ARG(target->title));
    INVARIANT(n > 0 && n < FLIGHT_KEY_BYTES_MAX); /* names and titles are bounded */
    struct take *t = take_new(s, target);
    if (t == NULL)
        return ERR_LIMIT;
    const struct flight_maker maker = { .start = take_start,
                                        .cancel = take_cancel,
                                        .release = take_release,
                                        .ctx = t,
                                        .keep_idle = true };
    return flight_join(s->flights, (str){ .p = key, .n = (size_t)n }, &maker, w);
}

bool page_secondary_leave(struct page_secondary *s, struct flight_waiter *w)
{
    return flight_leave(s->flights, w);
}

/* ---- the whole ---- */

struct page_secondary *page_secondary_new(const struct page_secondary_opts *opts)
{
    const struct page_service *service = opts->service;
    struct page_secondary *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    *s = (struct page_secondary){ .service = service,
                                  .source = opts->source,
                                  .timeout_ms = opts->timeout_ms };
    breaker_init(&s->breaker, SECONDARY_FAILURES_MAX, SECONDARY_PAUSE_MS, SECONDARY_PAUSE_MS_MAX);
    struct metric_family *takens = metrics_row(opts->metrics, METRIC_SECONDARY_READS);
    for (unsigned i = 0; i < TAKENS; i++)
        s->takens[i] = metric_of(takens, taken_names[i]);
    const struct flight_opts flights = { .loop = service->loop,
                                         .clock = service->clock,
                                         .seed = opts->seed,
                                         .flights_max = SECONDARY_FLIGHTS_MAX,
                                         .flights_source_max = SECONDARY_FLIGHTS_MAX,
                                         .makes_max = SECONDARY_READS_MAX,
                                         .makes_source_max = SECONDARY_READS_MAX,
                                         /* A take has a read and a put, each with a timeout of
                                          * its own. */
                                         .make_timeout_ms =
                                             2 * (opts->timeout_ms + service->write_timeout_ms) };
    s->flights = flights_new(&flights);
    return s;
}

void page_secondary_drain(struct page_secondary *s)
{
    flights_drain(s->flights);
}

bool page_secondary_idle(struct page_secondary *s)
{
    return flights_idle(s->flights);
}

void page_secondary_free(struct page_secondary **sp)
{
    if (*sp == NULL)
        return;
    flights_free(&(*sp)->flights);
    free(*sp);
    *sp = NULL;
}
