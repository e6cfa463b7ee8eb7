/* site.c - the rules of one wiki's titles, asked for once for all who wait, and again after
 * siteinfo_ttl. For title.c, request.c and words.c.
 *
 * A wiki of kind rest is then asked whether it has core's transforms: a GET of a route that takes
 * POST alone is 405 there, 404 elsewhere. These are two questions. Each keeps its last good answer,
 * which no failure takes away. A failed question is asked again after a pause of its own.
 *
 * Invariants
 *  1. fetching is set from the moment a fetch is decided until its outcome is kept.
 *  2. Waiters stand in the list only while fetching.
 *  3. Fields are under the lock; fetch, job, arena and timer are the loop's (the job's while it
 *     runs). */
#include "render/site.h"

#include "base/log.h"
#include "render/api.h"
#include "render/fetch.h"
#include "render/siteinfo.h"
#include "render/title_rules.h"

#include <stdlib.h>

enum { QUESTION_RULES, QUESTION_TRANSFORMS, QUESTIONS };
/* What is remembered of one question, beside its answer. */
struct question {
    unsigned failures;   /* in a row */
    mono again_at;       /* not asked before */
    enum render_why why; /* of the last failure */
    struct err_note note;
    mono told_at;        /* the last line in the log; 0: none */
    unsigned told_count; /* failures since */
};

/* One for each origin with api.php; the origin owns it. */
struct site {
    struct origin *origin;
    pthread_mutex_t lock;
    struct siteinfo *info;
    mono had_at;                       /* of info */
    enum origin_transforms transforms; /* of kind rest: the wiki's last word */
    struct question questions[QUESTIONS];
    bool fetching, probe_first; /* probe_first: the rules are not asked for */
    struct siteinfo_waiter *waiters;
    /* the loop's */
    struct fetch fetch;
    struct loop_job job;
    struct arena arena;
    struct loop_timer *timer; /* earliest deadline of a waiter; NULL until the first fetch */
    struct siteinfo *parsed;
    enum render_why parsed_why;
};

static void lock(struct site *s)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
}

static void site_unlock(struct site *s)
{
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

struct site *site_new(struct origin *o)
{
    struct site *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->origin = o;
    s->transforms = TRANSFORMS_UNKNOWN;
    for (size_t i = 0; i < QUESTIONS; i++)
        s->questions[i].again_at = (mono){ .ns = INT64_MIN };
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
    site_unlock(o->site);
    return idle;
}

/* ---- who waits; loop thread ---- */

/* Sets the timer to the first deadline of those who wait. */
static void site_arm(struct site *s)
{
    mono at = { .ns = INT64_MAX };
    lock(s);
    for (const struct siteinfo_waiter *w = s->waiters; w != NULL; w = w->next)
        at = w->deadline.ns < at.ns ? w->deadline : at;
    site_unlock(s);
    int64_t rest = at.ns - clock_mono(s->origin->clock).ns;
    if (at.ns == INT64_MAX)
        loop_timer_stop(s->timer);
    else
        loop_timer_start(s->timer, rest <= 0 ? 0 : rest / NS_PER_MS + 1, 0);
}

/* Without the lock: got may ask again. */
static void site_tell(struct siteinfo_waiter *list, enum render_why why,
                      const struct err_note *note)
{
    while (list != NULL) {
        struct siteinfo_waiter *w = list;
        list = w->next;
        w->got(w, why, why == RENDER_FINE ? NULL : note);
    }
}

/* Those whose deadline has come leave the list in one pass, and are told behind the lock. */
static void on_deadline(void *ctx)
{
    static const struct err_note why = { .text = "the wiki did not say its rules in time" };
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
    site_unlock(s);
    site_arm(s);
    site_tell(late, RENDER_TIMEOUT, &why);
}

/* ---- outcomes; loop thread ---- */

/* Does w wait for an answer about transforms that is not there yet? Under the lock. */
static bool lacks_transforms(const struct site *s, const struct siteinfo_waiter *w)
{
    return w->transforms && s->origin->opts.kind == ORIGIN_REST &&
           s->transforms == TRANSFORMS_UNKNOWN;
}

/* Takes waiters out of the list: those that have all they want by now, or all of them. Under the
 * lock. */
static struct siteinfo_waiter *take_waiters(struct site *s, bool all)
{
    struct siteinfo_waiter *taken = NULL, **end = &taken;
    for (struct siteinfo_waiter **at = &s->waiters; *at != NULL;) {
        struct siteinfo_waiter *w = *at;
        if (!all && lacks_transforms(s, w)) {
            at = &w->next;
            continue;
        }
        *at = w->next;
        w->next = NULL;
        *end = w;
        end = &w->next;
    }
    return taken;
}

/* The fetch is over, and all waiters are to be told. Under the lock. */
static struct siteinfo_waiter *end_fetching(struct site *s)
{
    s->fetching = false;
    return take_waiters(s, true);
}

/* The end of a fetch: the arena is free again, and waiters are told. */
static void rest(struct site *s, struct siteinfo_waiter *waiters, enum render_why why,
                 const struct err_note *note)
{
    arena_reset(&s->arena);
    loop_timer_stop(s->timer);
    site_tell(waiters, why, note);
}

/* One line a minute for each question; none for what a server that ends gave up. */
static void log_failure(struct site *s, struct question *q, bool known)
{
    mono now = clock_mono(s->origin->clock);
    q->told_count++;
    if (q->why == RENDER_CANCELED ||
        (q->told_at.ns != 0 && mono_add_ms(q->told_at, SITE_TELL_MS).ns > now.ns))
        return;
    log_event(s->origin->log, LOG_WARN, "siteinfo.failed", LOG_STR("domain", s->origin->log_domain),
              LOG_CSTR("what", q == &s->questions[QUESTION_RULES] ? "rules" : "transforms"),
              LOG_CSTR("why", render_why_name(q->why)), LOG_CSTR("note", q->note.text),
              LOG_CSTR("goes_on_with", known ? "what_was_known" : "nothing"),
              LOG_INT("count", q->told_count));
    q->told_at = now;
    q->told_count = 0;
}

/* The pause doubles from SITE_AGAIN_MS_MIN up to SITE_AGAIN_MS_MAX. What was known before stays. */
static void site_fail(struct site *s, unsigned question, enum render_why why)
{
    struct question *q = &s->questions[question];
    struct err_note note = s->fetch.note;
    lock(s);
    int64_t ms = q->failures < 6 ? (int64_t)SITE_AGAIN_MS_MIN << q->failures : SITE_AGAIN_MS_MAX;
    q->again_at = mono_add_ms(clock_mono(s->origin->clock), ms);
    q->failures++;
    q->why = why;
    q->note = note;
    bool known = question == QUESTION_RULES ? s->info != NULL : s->transforms != TRANSFORMS_UNKNOWN;
    struct siteinfo_waiter *waiters = end_fetching(s);
    site_unlock(s);
    log_failure(s, q, known);
    siteinfo_unref(&s->parsed);
    rest(s, waiters, why, &note);
}

/* ---- asking; loop thread ---- */

/* Pool: an answer of a large wiki takes long to read. */
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
    /* Any answer of the wiki itself tells whether the route is there. */
    bool told = why == RENDER_REFUSED || why == RENDER_NO_REVISION || why == RENDER_DENIED ||
                why == RENDER_FINE;
    if (!told) {
        site_fail(s, QUESTION_TRANSFORMS, why);
        return;
    }
    lock(s);
    s->transforms = f->call.status == 405 ? TRANSFORMS_HAD : TRANSFORMS_NONE;
    s->questions[QUESTION_TRANSFORMS].failures = 0;
    struct siteinfo_waiter *waiters = end_fetching(s);
    site_unlock(s);
    rest(s, waiters, RENDER_FINE, NULL);
}

static void probe(struct site *s)
{
    struct origin *o = s->origin;
    s->fetch = (struct fetch){ .origin = o,
                               .kind = FETCH_SITEINFO,
                               .url = origin_core_url(o, &s->arena,
                                                      &(struct origin_page){
                                                          .path = "transform/wikitext/to/html" }),
                               .reply_bytes_max = ORIGIN_API_REPLY_BYTES_MAX,
                               .deadline = mono_add_ms(clock_mono(o->clock), o->opts.timeout_ms),
                               .arena = &s->arena,
                               .done = probed,
                               .ctx = s };
    INVARIANT(s->fetch.url.p != NULL); /* the arena has room for far more */
    fetch_start(&s->fetch);
}

/* May the wiki be asked about transforms? A failed question waits for its pause; an answered one is
 * asked again with the rules. Under the lock. */
static bool transforms_due(const struct site *s, mono now)
{
    const struct question *q = &s->questions[QUESTION_TRANSFORMS];
    return s->origin->opts.kind == ORIGIN_REST && now.ns >= q->again_at.ns;
}

/* The rules are here: waiters for titles alone are told at once, and do not wait for the question
 * about transforms. */
static void keep_rules(struct site *s)
{
    mono now = clock_mono(s->origin->clock);
    lock(s);
    struct siteinfo *old = s->info;
    s->info = s->parsed;
    s->had_at = now;
    /* Readers hold references: the old rules go when the last one lets go. */
    s->questions[QUESTION_RULES].failures = 0;
    struct siteinfo_waiter *waiters = take_waiters(s, false);
    bool probes = s->waiters != NULL || transforms_due(s, now);
    s->fetching = probes;
    site_unlock(s);
    s->parsed = NULL;
    siteinfo_unref(&old);
    if (!probes) {
        rest(s, waiters, RENDER_FINE, NULL);
        return;
    }
    site_arm(s);
    site_tell(waiters, RENDER_FINE, NULL);
    probe(s);
}

static void parse_done(struct loop_job *j, bool canceled)
{
    struct site *s = CONTAINER_OF(j, struct site, job);
    enum render_why why = canceled ? RENDER_CANCELED : s->parsed_why;
    fetch_count(&s->fetch, why);
    if (why == RENDER_FINE)
        keep_rules(s);
    else
        site_fail(s, QUESTION_RULES, why);
}

static void site_fetched(struct fetch *f, enum render_why why)
{
    struct site *s = f->ctx;
    if (why != RENDER_FINE) {
        site_fail(s, QUESTION_RULES, why);
        return;
    }
    s->job = (struct loop_job){ .run = parse_run, .done = parse_done };
    loop_job_start(s->origin->loop, &s->job);
}

/* Loop: begins what site_decide has decided. */
static void site_begin(void *ctx)
{
    struct site *s = ctx;
    struct origin *o = s->origin;
    if (s->timer == NULL)
        s->timer = loop_timer_new(o->loop, on_deadline, s);
    lock(s);
    bool probe_first = s->probe_first;
    site_unlock(s);
    if (probe_first) {
        site_arm(s);
        probe(s);
        return;
    }
    s->fetch =
        (struct fetch){ .origin = o,
                        .kind = FETCH_SITEINFO,
                        .url = origin_api_url(o, &s->arena,
                                              STR("meta=siteinfo&siprop=general%7Cnamespaces%7C"
                                                  "namespacealiases%7Cinterwikimap")),
                        .reply_bytes_max = ORIGIN_API_REPLY_BYTES_MAX,
                        .deadline = mono_add_ms(clock_mono(o->clock), o->opts.timeout_ms),
                        .arena = &s->arena,
                        .done = site_fetched,
                        .ctx = s };
    INVARIANT(s->fetch.url.p != NULL); /* an empty arena of megabytes */
    site_arm(s);
    fetch_start(&s->fetch);
}

static void arm_post(void *ctx)
{
    struct site *s = ctx;
    lock(s);
    bool fetching = s->fetching;
    site_unlock(s);
    if (fetching && s->timer != NULL)
        site_arm(s);
}

/* Is a question due, and none under way? Then fetching is set, and the caller posts site_begin.
 * Under the lock. */
static bool site_decide(struct site *s, mono now)
{
    bool old =
        s->info == NULL || now.ns > mono_add_ms(s->had_at, s->origin->opts.siteinfo_ttl_ms).ns;
    bool rules = old && now.ns >= s->questions[QUESTION_RULES].again_at.ns;
    bool again =
        s->info != NULL && s->questions[QUESTION_TRANSFORMS].failures > 0 && transforms_due(s, now);
    if (s->fetching || !(rules || again))
        return false;
    s->fetching = true;
    s->probe_first = !rules;
    return true;
}

/* The rules as they are known, however old, without asking. */
struct siteinfo *site_peek(struct site *s)
{
    if (s == NULL)
        return NULL;
    lock(s);
    struct siteinfo *info = s->info == NULL ? NULL : siteinfo_ref(s->info);
    site_unlock(s);
    return info;
}

enum origin_transforms origin_transforms(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    if (o->opts.kind != ORIGIN_REST)
        return o->opts.kind == ORIGIN_PARSOID ? TRANSFORMS_HAD : TRANSFORMS_NONE;
    struct siteinfo *info = origin_siteinfo(o); /* asks again when it is old */
    siteinfo_unref(&info);
    lock(o->site);
    enum origin_transforms has = o->site->transforms;
    site_unlock(o->site);
    return has;
}

/* Rules that are old are given all the same, and asked for again behind that. */
struct siteinfo *origin_siteinfo(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    struct site *s = o->site;
    if (s == NULL)
        return NULL;
    mono now = clock_mono(o->clock);
    lock(s);
    struct siteinfo *info = s->info == NULL ? NULL : siteinfo_ref(s->info);
    bool ask = site_decide(s, now);
    site_unlock(s);
    if (ask)
        loop_post(o->loop, site_begin, s);
    return info;
}

/* The question whose answer w still lacks; NULL: none. Under the lock. */
static const struct question *lacks(const struct site *s, const struct siteinfo_waiter *w)
{
    if (s->info == NULL)
        return &s->questions[QUESTION_RULES];
    return lacks_transforms(s, w) ? &s->questions[QUESTION_TRANSFORMS] : NULL;
}

/* Loop. While the task was on its way an answer may have come: it is looked for once more. */
static void tell_now(void *ctx)
{
    struct siteinfo_waiter *w = ctx;
    struct err_note note = { .text = "this origin has no api.php" };
    struct site *s = w->origin->site;
    if (s != NULL && w->why != RENDER_FINE)
        meter_remembered(w->origin->meter);
    if (s != NULL) {
        lock(s);
        const struct question *q = lacks(s, w);
        note = q != NULL ? q->note : note;
        w->why = q == NULL ? RENDER_FINE : w->why;
        site_unlock(s);
    }
    w->next = NULL;
    site_tell(w, w->why, &note);
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
        ask = site_decide(s, now);
        const struct question *q = lacks(s, w);
        wait = q != NULL && s->fetching;
        w->why = q == NULL ? RENDER_FINE : q->why;
        w->next = s->waiters;
        if (wait)
            s->waiters = w;
        site_unlock(s);
    }
    /* Nothing is under way that would tell w: it is told what is known, or the last failure. */
    if (!wait)
        loop_post(o->loop, tell_now, w);
    if (s != NULL && (ask || wait))
        loop_post(o->loop, ask ? site_begin : arm_post, s);
}
