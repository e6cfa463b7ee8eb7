/* The rules of one wiki's titles, asked for once for all who wait, and again after siteinfo_ttl. A wiki of kind rest is
 * then asked whether it has core's transforms: a GET of a route that takes POST alone is 405 there, 404 elsewhere.
 *
 * Invariants: fetching from the moment a fetch is decided until its outcome is kept; waiters stand in the list only
 * while fetching. Fields are under the lock; fetch, job, arena and timer are the loop's (the job's while it runs). */
#include "render/site.h"

#include "render/api.h"
#include "render/fetch.h"
#include "render/siteinfo.h"

#include <stdlib.h>

struct site {
    struct origin *origin;
    pthread_mutex_t lock;
    struct siteinfo *info;
    mono had_at, again_at;       /* of info; after a failure */
    unsigned failures;           /* in a row */
    bool fetching;
    enum render_why why;         /* of the last failure */
    struct err_note note;
    struct siteinfo_waiter *waiters;
    /* the loop's */
    struct fetch fetch;
    struct loop_job job;
    struct arena arena;
    struct loop_timer *timer;    /* earliest deadline of a waiter; NULL until the first fetch */
    struct siteinfo *parsed;
    enum render_why parsed_why;
};

static void lock(struct site *s)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
}

static void unlock(struct site *s)
{
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

struct site *site_new(struct origin *o)
{
    struct site *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->origin = o;
    s->again_at = (mono){ .ns = INT64_MIN };
    INVARIANT(pthread_mutex_init(&s->lock, NULL) == 0);
    arena_init(&s->arena, (size_t)4 * ORIGIN_API_REPLY_BYTES_MAX);
    return s;
}

void site_free(struct site **sp)
{
    struct site *s = *sp;
    if (s == NULL)
        return;
    INVARIANT(!s->fetching);
    loop_timer_free(&s->timer);
    siteinfo_unref(&s->info);
    arena_fini(&s->arena);
    INVARIANT(pthread_mutex_destroy(&s->lock) == 0);
    free(s);
    *sp = NULL;
}

bool origin_idle(struct origin *o)
{
    if (o->site == NULL)
        return true;
    lock(o->site);
    bool idle = !o->site->fetching;
    unlock(o->site);
    return idle;
}

/* ---- who waits; loop thread ---- */

static void arm(struct site *s)
{
    mono at = { .ns = INT64_MAX };
    lock(s);
    for (const struct siteinfo_waiter *w = s->waiters; w != NULL; w = w->next)
        at = w->deadline.ns < at.ns ? w->deadline : at;
    unlock(s);
    int64_t rest = at.ns - clock_mono(s->origin->clock).ns;
    if (at.ns == INT64_MAX)
        loop_timer_stop(s->timer);
    else
        loop_timer_start(s->timer, rest <= 0 ? 0 : rest / NS_PER_MS + 1, 0);
}

static void tell(struct siteinfo_waiter *list, enum render_why why, const struct err_note *note)
{
    while (list != NULL) {
        struct siteinfo_waiter *w = list;
        list = w->next;
        w->got(w, why, why == RENDER_FINE ? NULL : note);
    }
}

static void on_deadline(void *ctx)
{
    static const struct err_note why = { .text = "the wiki did not say its titles' rules in time" };
    struct site *s = ctx;
    struct siteinfo_waiter *late = NULL, **late_end = &late;
    mono now = clock_mono(s->origin->clock);
    lock(s);
    for (struct siteinfo_waiter **at = &s->waiters; *at != NULL;) {
        struct siteinfo_waiter *w = *at;
        if (w->deadline.ns > now.ns) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = NULL;
        *late_end = w;
        late_end = &w->next;
    }
    unlock(s);
    arm(s);
    tell(late, RENDER_TIMEOUT, &why);
}

/* ---- asking; loop thread ---- */

static void keep(struct site *s, enum render_why why)
{
    lock(s);
    mono now = clock_mono(s->origin->clock);
    struct siteinfo *old = NULL;
    if (why == RENDER_FINE) {
        old = s->info;
        s->info = s->parsed;
        s->had_at = now;
        s->failures = 0;
    } else {
        int64_t ms = s->failures < 6 ? (int64_t)SITE_AGAIN_MS_MIN << s->failures : SITE_AGAIN_MS_MAX;
        s->again_at = mono_add_ms(now, ms);
        s->failures++;
        s->why = why;
    }
    struct siteinfo_waiter *waiters = s->waiters;
    struct err_note note = s->note;
    s->waiters = NULL;
    s->fetching = false;
    unlock(s);
    s->parsed = NULL;
    arena_reset(&s->arena);
    loop_timer_stop(s->timer);
    siteinfo_unref(&old);
    tell(waiters, why, &note);
}

static void parse_run(struct loop_job *j)
{
    struct site *s = CONTAINER_OF(j, struct site, job);
    s->parsed_why = api_parse_error(s->fetch.call.reply_body, &s->fetch.note);
    if (s->parsed_why == RENDER_FINE &&
        siteinfo_json_parse(s->fetch.call.reply_body, &s->parsed, &s->fetch.note) != ERR_OK)
        s->parsed_why = RENDER_FAILED;
}

static void probed(struct fetch *f, enum render_why why)
{
    struct site *s = f->ctx;
    bool told = why == RENDER_REFUSED || why == RENDER_NO_REVISION || why == RENDER_DENIED || why == RENDER_FINE;
    s->parsed->transforms = f->call.status == 405;
    if (!told) {
        lock(s);
        s->note = f->note;
        unlock(s);
        siteinfo_unref(&s->parsed);
    }
    keep(s, told ? RENDER_FINE : why);
}

static void probe(struct site *s)
{
    struct origin *o = s->origin;
    s->fetch = (struct fetch){ .origin = o,
                               .kind = FETCH_SITEINFO,
                               .url = origin_core_url(o, &s->arena,
                                                      &(struct origin_page){ .path = "transform/wikitext/to/html" }),
                               .reply_bytes_max = ORIGIN_API_REPLY_BYTES_MAX,
                               .deadline = mono_add_ms(clock_mono(o->clock), o->opts.timeout_ms),
                               .arena = &s->arena,
                               .done = probed,
                               .ctx = s };
    INVARIANT(s->fetch.url.p != NULL); /* the arena has room for far more */
    fetch_start(&s->fetch);
}

static void parse_done(struct loop_job *j, bool canceled)
{
    struct site *s = CONTAINER_OF(j, struct site, job);
    lock(s);
    s->note = s->fetch.note;
    unlock(s);
    enum render_why why = canceled ? RENDER_CANCELED : s->parsed_why;
    if (canceled)
        siteinfo_unref(&s->parsed);
    fetch_count(&s->fetch, why);
    if (why == RENDER_FINE && s->origin->opts.kind == ORIGIN_REST)
        probe(s);
    else
        keep(s, why);
}

static void fetched(struct fetch *f, enum render_why why)
{
    struct site *s = f->ctx;
    lock(s);
    s->note = f->note;
    unlock(s);
    if (why != RENDER_FINE) {
        keep(s, why);
        return;
    }
    s->job = (struct loop_job){ .run = parse_run, .done = parse_done };
    loop_job_start(s->origin->loop, &s->job);
}

static void begin(void *ctx)
{
    struct site *s = ctx;
    struct origin *o = s->origin;
    if (s->timer == NULL)
        s->timer = loop_timer_new(o->loop, on_deadline, s);
    s->fetch = (struct fetch){ .origin = o,
                               .kind = FETCH_SITEINFO,
                               .url = origin_api_url(o, &s->arena, STR("meta=siteinfo&siprop=general%7Cnamespaces%7C"
                                                                       "namespacealiases%7Cinterwikimap")),
                               .reply_bytes_max = ORIGIN_API_REPLY_BYTES_MAX,
                               .deadline = mono_add_ms(clock_mono(o->clock), o->opts.timeout_ms),
                               .arena = &s->arena,
                               .done = fetched,
                               .ctx = s };
    INVARIANT(s->fetch.url.p != NULL); /* an empty arena of megabytes */
    arm(s);
    fetch_start(&s->fetch);
}

static void arm_post(void *ctx)
{
    struct site *s = ctx;
    lock(s);
    bool fetching = s->fetching;
    unlock(s);
    if (fetching && s->timer != NULL)
        arm(s);
}

/* Under the lock: whether the caller is to post begin. */
static bool decide(struct site *s, mono now)
{
    bool old = s->info == NULL || now.ns > mono_add_ms(s->had_at, s->origin->opts.siteinfo_ttl_ms).ns;
    if (s->fetching || !old || now.ns < s->again_at.ns)
        return false;
    s->fetching = true;
    return true;
}

struct siteinfo *site_peek(struct site *s)
{
    if (s == NULL)
        return NULL;
    lock(s);
    struct siteinfo *info = s->info == NULL ? NULL : siteinfo_ref(s->info);
    unlock(s);
    return info;
}

enum origin_transforms origin_transforms(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    if (o->opts.kind != ORIGIN_REST)
        return o->opts.kind == ORIGIN_PARSOID ? TRANSFORMS_HAD : TRANSFORMS_NONE;
    struct siteinfo *info = origin_siteinfo(o); /* asks again when it is old */
    enum origin_transforms has = TRANSFORMS_UNKNOWN;
    if (info != NULL)
        has = info->transforms ? TRANSFORMS_HAD : TRANSFORMS_NONE;
    siteinfo_unref(&info);
    return has;
}

struct siteinfo *origin_siteinfo(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    struct site *s = o->site;
    if (s == NULL)
        return NULL;
    mono now = clock_mono(o->clock);
    lock(s);
    struct siteinfo *info = s->info == NULL ? NULL : siteinfo_ref(s->info);
    bool ask = decide(s, now);
    unlock(s);
    if (ask)
        loop_post(o->loop, begin, s);
    return info;
}

static void tell_now(void *ctx)
{
    struct siteinfo_waiter *w = ctx;
    struct err_note note = { .text = "this origin has no api.php" };
    struct site *s = w->origin->site;
    if (s != NULL && w->why != RENDER_FINE)
        meter_remembered(w->origin->meter);
    if (s != NULL) {
        lock(s);
        note = s->note;
        unlock(s);
    }
    w->next = NULL;
    tell(w, w->why, &note);
}

void origin_siteinfo_wait(struct origin *o, struct siteinfo_waiter *w)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    struct site *s = o->site;
    mono now = clock_mono(o->clock);
    w->origin = o;
    w->why = RENDER_REFUSED;
    bool ask = false, wait = false;
    if (s != NULL) {
        lock(s);
        ask = decide(s, now);
        wait = s->info == NULL && s->fetching;
        w->why = s->info != NULL ? RENDER_FINE : s->why;
        w->next = s->waiters;
        if (wait)
            s->waiters = w;
        unlock(s);
    }
    if (!wait)
        loop_post(o->loop, tell_now, w);
    if (s != NULL && (ask || wait))
        loop_post(o->loop, ask ? begin : arm_post, s);
}
