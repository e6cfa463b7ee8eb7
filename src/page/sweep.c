/* sweep.c - the sweeps of all domains: whose turn it is, and what of them is shown. Loop, but
 * figures.
 *
 * Invariants
 *  1. A domain has one batch (sweep_batch.c) at most, a host SWEEPS_OF_HOST.
 *  2. No batch begins while SWEEPS_AT_ONCE others are busy with the store, while its wiki is
 *     left alone, or once stopped. A batch that waits for its wiki is not busy: a host that
 *     hangs does not keep others from being asked.
 *  3. Hosts take turns, and so do the domains of one host: each list is in the order in which
 *     they began. */
#include "page/sweep_impl.h"

#include "base/log.h"
#include "base/map.h"
#include "loop/limiter.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The domains of one host and port. Owner: page_sweeps. */
struct sweep_host {
    struct list link;
    struct list sweeps;
    unsigned begun; /* batches */
};
struct page_sweeps {
    const struct page_service *service;
    struct sweep *of; /* as the service's domains */
    unsigned count;
    struct list hosts;
    unsigned hosts_count;
    unsigned running, asking; /* batches: busy here; that wait for their wiki */
    struct loop_timer *timer;
    bool stopped;
    pthread_mutex_t lock; /* of `shown` of all sweeps */
};

static void shown_lock(struct page_sweeps *s)
{
    int failed = pthread_mutex_lock(&s->lock);
    INVARIANT(failed == 0);
}

static void shown_unlock(struct page_sweeps *s)
{
    int failed = pthread_mutex_unlock(&s->lock);
    INVARIANT(failed == 0);
}

/* ---- turns ---- */

/* May its next batch begin: by the clock, after a failure, and by the wiki? */
static bool sweep_is_due(const struct sweep *w)
{
    const struct page_service *s = w->service;
    if (w->batch != NULL || clock_mono(s->clock).ns < w->again_at.ns ||
        page_checks_pauses(s->checks, w->domain))
        return false;
    store_time due = lap_due(&w->lap, w->domain->sweep_period_ns, w->hurries);
    return w->wanted || !store_time_before(clock_store(s->clock), due);
}

/* Of those that are due, the one that began the longest ago; NULL: none may begin. */
static struct sweep *host_next(const struct sweep_host *h)
{
    if (h->begun >= SWEEPS_OF_HOST)
        return NULL;
    for (struct list *l = h->sweeps.next; l != &h->sweeps; l = l->next) {
        struct sweep *w = CONTAINER_OF(l, struct sweep, link);
        if (sweep_is_due(w))
            return w;
    }
    return NULL;
}

/* To the end of its host's list: the others come first next time. */
static void sweep_begin(struct sweep *w)
{
    list_remove(&w->link);
    list_append(&w->host->sweeps, &w->link);
    w->host->begun++;
    w->all->running++;
    sweep_go(w);
}

/* Each host begins one batch, by turns, until a whole round has begun none. */
static void sweeps_turn(struct page_sweeps *s)
{
    for (unsigned idle = 0; idle < s->hosts_count && s->running < SWEEPS_AT_ONCE && !s->stopped;) {
        struct sweep_host *h = CONTAINER_OF(list_take(&s->hosts), struct sweep_host, link);
        list_append(&s->hosts, &h->link);
        struct sweep *w = host_next(h);
        idle = w != NULL ? 0 : idle + 1;
        if (w != NULL)
            sweep_begin(w);
    }
}

/* From the batch: it is not busy with the store now, so another may begin. */
void sweep_asks(struct sweep *w)
{
    w->asks = true;
    w->all->running--;
    w->all->asking++;
    sweeps_turn(w->all);
}

void sweep_goes_on(struct sweep *w)
{
    w->asks = false;
    w->all->asking--;
    w->all->running++;
}

/* The end of a batch: its place is free, and figures show what it did. */
void sweep_rests(struct sweep *w, bool fails)
{
    struct page_sweeps *s = w->all;
    s->running--;
    w->host->begun--;
    shown_lock(s);
    w->shown.lap = w->lap;
    w->shown.hurries = w->hurries;
    w->shown.laps = w->laps;
    w->shown.fails = fails;
    w->shown.failures += fails;
    shown_unlock(s);
    sweeps_turn(s);
}

void sweep_count(struct sweep *w, const struct sweep_counts *more)
{
    struct sweep_counts *c = &w->shown.counts;
    shown_lock(w->all);
    c->found += more->found;
    c->revisions += more->revisions;
    c->forgotten += more->forgotten;
    c->unanswered += more->unanswered;
    shown_unlock(w->all);
}

/* Also ends the waits for wikis that began to pause meanwhile, so that their hosts' places are
 * free. */
static void sweeps_fired(void *ctx)
{
    struct page_sweeps *s = ctx;
    for (unsigned i = 0; i < s->count; i++)
        if (s->of[i].asks && page_checks_pauses(s->service->checks, s->of[i].domain))
            sweep_leave(&s->of[i]);
    sweeps_turn(s);
}

/* ---- the whole ---- */

/* Blocks: at the start. A note that cannot be read costs a lap. */
static void sweep_load(struct sweep *w)
{
    const struct page_service *s = w->service;
    char bytes[PAGE_NOTE_BYTES_MAX];
    size_t n = 0;
    err e = page_store_note_get(s->store, w->domain->number, PAGE_NOTE_SWEEP, bytes, &n);
    if (e == ERR_OK)
        e = lap_decode((str){ .p = bytes, .n = n }, &w->lap);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        return;
    w->lap = (struct lap){ .over = false };
    log_event(s->log, LOG_WARN, "page.sweep_lost", LOG_STR("domain", w->domain->name),
              LOG_CSTR("why", err_name(e)),
              LOG_CSTR("what", "how far its sweep came cannot be read; it begins anew"));
}

/* The domain's host, by the origin's URL; api.php is there too, as a rule. */
static struct sweep_host *host_of(struct page_sweeps *s, struct map *hosts,
                                  const struct page_domain *d)
{
    str at = render_source(d->origin, WANT_META)->origin;
    struct sweep_host *h = map_get(hosts, at);
    if (h != NULL)
        return h;
    h = calloc(1, sizeof *h);
    INVARIANT(h != NULL);
    list_init(&h->sweeps);
    list_append(&s->hosts, &h->link);
    s->hosts_count++;
    (void)map_put(hosts, at, h); /* there was none */
    return h;
}

struct page_sweeps *page_sweeps_new(const struct page_service *service)
{
    struct page_sweeps *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    s->service = service;
    list_init(&s->hosts);
    struct map *hosts = map_new(0); /* their names are of the options */
    s->count = service->domains_count;
    s->of = calloc(s->count + 1, sizeof *s->of);
    INVARIANT(s->of != NULL);
    int failed = pthread_mutex_init(&s->lock, NULL);
    INVARIANT(failed == 0);
    for (unsigned i = 0; i < s->count; i++) {
        struct sweep *w = &s->of[i];
        const struct page_domain *d = &service->domains[i];
        w->all = s;
        w->service = service;
        if (d->origin == NULL || !origin_has_api(d->origin))
            continue;
        w->domain = d;
        w->host = host_of(s, hosts, d);
        list_append(&w->host->sweeps, &w->link);
        sweep_load(w);
        w->shown.lap = w->lap;
    }
    map_free(&hosts);
    s->timer = loop_timer_new(service->loop, sweeps_fired, s);
    loop_timer_start(s->timer, 0, SWEEP_TICK_MS);
    return s;
}

void page_sweeps_stop(struct page_sweeps *s)
{
    s->stopped = true;
    for (unsigned i = 0; i < s->count; i++)
        s->of[i].stopped = true;
    loop_timer_stop(s->timer);
}

bool page_sweeps_idle(const struct page_sweeps *s)
{
    return s->running == 0 && s->asking == 0;
}

void page_sweeps_free(struct page_sweeps **sp)
{
    struct page_sweeps *s = *sp;
    if (s == NULL)
        return;
    INVARIANT(page_sweeps_idle(s));
    loop_timer_free(&s->timer);
    (void)pthread_mutex_destroy(&s->lock); /* nobody has it */
    for (struct list *l = list_take(&s->hosts); l != NULL; l = list_take(&s->hosts))
        free(CONTAINER_OF(l, struct sweep_host, link));
    free(s->of);
    free(s);
    *sp = NULL;
}

bool page_sweep_now(struct page_sweeps *s, const struct page_domain *d)
{
    struct sweep *w = &s->of[d - s->service->domains];
    if (w->domain == NULL || s->stopped)
        return false;
    w->wanted = true;
    /* Somebody asks for it: a failure of before does not delay it. */
    w->again_at = (mono){ .ns = 0 };
    sweeps_turn(s);
    return true;
}

void page_sweeps_figures(const struct page_sweeps *s, const struct page_domain *d,
                         struct sweep_figures *out)
{
    struct page_sweeps *locked = (struct page_sweeps *)(uintptr_t)s;
    const struct sweep *w = &s->of[d - s->service->domains];
    shown_lock(locked);
    const struct lap lap = w->shown.lap;
    bool hurries = w->shown.hurries;
    *out = (struct sweep_figures){ .fails = w->shown.fails,
                                   .laps = w->shown.laps,
                                   .found = w->shown.counts.found,
                                   .revisions = w->shown.counts.revisions,
                                   .forgotten = w->shown.counts.forgotten,
                                   .unanswered = w->shown.counts.unanswered,
                                   .failures = w->shown.failures };
    shown_unlock(locked);
    store_time due = lap_due(&lap, d->sweep_period_ns, hurries),
               now = clock_store(s->service->clock);
    bool goes = lap.began.ns != STORE_TIME_ZERO.ns && !lap.over;
    out->is = w->domain == NULL || due.ns == INT64_MAX ? SWEEP_OFF
              : goes                                   ? SWEEP_GOES
                                                       : SWEEP_RESTS;
    out->began = lap.began;
    out->titles = lap.titles;
    out->asked = lap.asked;
    out->all_since = lap_all_since(&lap);
    /* A lap that hurries has no pace to be behind. */
    if (out->is != SWEEP_OFF && !hurries && lap.began.ns != STORE_TIME_ZERO.ns &&
        store_time_before(due, now))
        out->late_ns = now.ns - due.ns;
    memcpy(out->at, lap.at.p, lap.at.n);
    out->at[lap.at.n] = '\0';
}
