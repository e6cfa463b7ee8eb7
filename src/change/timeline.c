/* timeline.c - see timeline.h.
 *
 * Invariants: 1. Samplers belong to who has the router's batch. 2. One expiry is under way at a
 * time. The timer is armed for the next one. 3. With no rule of the store's timeline, what an
 * earlier one left expires as by the default. */
#include "change/timeline.h"

#include "change/change_impl.h"
#include "page/page.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

/* ---- what an event says ---- */

bool change_timeline_domain(const struct page_service *page, str name, uint32_t *out)
{
    const struct page_domain *d = page == NULL ? NULL : page_domain_find(page, name);
    if (d != NULL)
        *out = d->number;
    return d != NULL;
}

/* 0: it has none, or no number of a revision. */
static uint64_t rev_of(struct rule_event *e, enum rule_text which)
{
    uint64_t rev = 0;
    return str_to_u64(rule_event_text(e, which), &rev) && rev <= INT64_MAX ? rev : 0;
}

static bool title_fits(str title)
{
    return title.n > 0 && title.n <= TIMELINE_TITLE_BYTES_MAX &&
           memchr(title.p, 0, title.n) == NULL;
}

enum change_noting change_timeline_read(const struct page_service *page, struct rule_event *e,
                                        str domain, store_time at, struct timeline_where *w,
                                        struct timeline_entry *out)
{
    uint64_t old = rev_of(e, RULE_TEXT_SUPERSEDED_REV), rev = rev_of(e, RULE_TEXT_REV);
    uint64_t last = rev_of(e, RULE_TEXT_LAST_REV);
    struct timeline_where where = { .title = rule_event_title(e) };
    struct timeline_entry entry = { .at = at, .rev = old };
    if (rule_event_text(e, RULE_TEXT_SUPERSEDED_REV).n == 0)
        return NOTING_NOTHING;
    if (old == 0 || rev == 0 || !title_fits(where.title) ||
        !tid_parse(rule_event_text(e, RULE_TEXT_SUPERSEDED_TID), &entry.tid) ||
        !change_timeline_domain(page, domain, &where.domain))
        return NOTING_REFUSED;
    where.kind = old < rev || old < last ? TIMELINE_REVISION : TIMELINE_RENDER;
    if (where.kind == TIMELINE_REVISION)
        entry.tid = (struct tid){ 0 };
    where.rev = old;
    *w = where;
    *out = entry;
    return NOTING_ENTRY;
}

err change_timeline_note(struct engine_txn *t, const struct change_noted *n, bool *had)
{
    err why = timeline_has(engine_txn_view(t), &n->where, &n->entry, had);
    if (why == ERR_CORRUPT) { /* palimpsest check tells of it; the router goes on */
        *had = false;
        why = ERR_OK;
    }
    return why == ERR_OK && !*had ? timeline_add(t, &n->where, &n->entry) : why;
}

/* ---- sampling ---- */

static uint32_t domains_max(const struct page_service *page)
{
    uint32_t most = 0;
    for (unsigned i = 0; page != NULL && i < page->domains_count; i++)
        most = page->domains[i].number > most ? page->domains[i].number : most;
    return most < CHANGE_SAMPLER_DOMAINS_MAX - 1 ? most + 1 : CHANGE_SAMPLER_DOMAINS_MAX;
}

static bool sampler_is_of(const struct change_sampler *s, uint32_t number, const struct rule *r,
                          uint64_t replay_until)
{
    return s->sampler != NULL && s->rule == number && s->rate_ppm == r->domain_rate_ppm &&
           s->burst == r->burst && s->replay_until == replay_until;
}

static void sampler_take(struct change *c, uint32_t number, const struct rule *r,
                         uint64_t replay_until)
{
    struct change_sampler *s =
        &c->timelines.samplers[2 * (unsigned)r->keep + (replay_until != 0 ? 1 : 0)];
    if (sampler_is_of(s, number, r, replay_until))
        return;
    const struct timeline_sampler_opts opts = { .entries_per_s = (double)r->domain_rate_ppm / 1e6,
                                                .burst = (double)r->burst,
                                                .domains_max = domains_max(c->opts.page) };
    timeline_sampler_free(&s->sampler);
    *s = (struct change_sampler){ .sampler = timeline_sampler_new(&opts),
                                  .rule = number,
                                  .rate_ppm = r->domain_rate_ppm,
                                  .burst = r->burst,
                                  .replay_until = replay_until };
}

void change_samplers_take(struct change *c, const struct change_batch *b)
{
    for (unsigned i = 0; i < rule_set_count(b->ruled->set); i++) {
        const struct rule *r = rule_set_at(b->ruled->set, i);
        if (r->effect == RULE_TIMELINE && (!b->is_replay || b->rule == i))
            sampler_take(c, b->ruled->rules[i].number, r, b->is_replay ? b->replay_until : 0);
    }
}

static uint64_t entry_hash(const struct timeline_where *w, const struct timeline_entry *e)
{
    const uint64_t parts[] = { (uint64_t)w->kind, w->domain, e->rev, e->tid.ticks, e->tid.low };
    return XXH3_64bits_withSeed(w->title.p, w->title.n, XXH3_64bits(parts, sizeof parts)) |
           1; /* 0 is none */
}

bool change_sampler_keeps(struct change *c, const struct change_batch *b, uint32_t rule,
                          const struct timeline_where *w, const struct timeline_entry *e)
{
    struct change_sampler *s = NULL;
    for (unsigned i = 0; i < CHANGE_SAMPLERS && s == NULL; i++) {
        struct change_sampler *one = &c->timelines.samplers[i];
        if (one->sampler != NULL && one->rule == rule &&
            one->replay_until == (b->is_replay ? b->replay_until : 0))
            s = one;
    }
    INVARIANT(s != NULL);
    uint64_t hash = entry_hash(w, e);
    uint64_t *known = &s->verdicts[(hash >> 1) % CHANGE_SAMPLER_VERDICTS];
    if ((*known | 1) == hash)
        return (*known & 1) != 0;
    bool keeps = timeline_sample(s->sampler, w->domain, e->at);
    *known = keeps ? hash : hash - 1;
    return keeps;
}

/* ---- age ---- */

static err expire_decide(struct engine_txn *t, void *ctx)
{
    return timeline_expire(t, ctx);
}

/* One step of expiry. x->more: there may be more. Waits for the engine. */
static err expire_step(struct change *c, struct timeline_expiry *x)
{
    struct engine_view *v = engine_view_begin(c->opts.engine);
    bool old = false;
    err why = timeline_has_old(v, x->before, &old);
    engine_view_end(&v);
    x->count = 0;
    x->more = false;
    const struct engine_update update = { .decide = expire_decide, .ctx = x, .frees = true };
    if (why == ERR_OK && old)
        why = engine_submit_wait(c->opts.engine, &update);
    return why;
}

static void expire_run(struct loop_job *j) /* pool thread: may block */
{
    struct change_timelines *tl = CONTAINER_OF(j, struct change_timelines, job);
    struct change *c = CONTAINER_OF(tl, struct change, timelines);
    store_time now = clock_store(c->opts.clock);
    struct timeline_expiry x = { .before = { .ns = now.ns - tl->ttl_ns }, .domain = tl->from };
    tl->why = expire_step(c, &x);
    tl->expired = tl->why == ERR_OK ? x.count : 0;
    tl->more = tl->why == ERR_OK && x.more;
    tl->from = tl->more ? x.domain : 0;
}

const struct rule *change_timeline_rule(const struct change *c, enum rule_keep keep)
{
    for (unsigned i = 0; i < rule_set_count(c->ruled->set); i++) {
        const struct rule *r = rule_set_at(c->ruled->set, i);
        if (r->effect == RULE_TIMELINE && r->keep == keep)
            return r;
    }
    return NULL;
}

void change_timeline_expired(struct change *c, enum rule_keep keep, uint64_t count)
{
    const struct rule *r = change_timeline_rule(c, keep);
    struct change_runner *runner = r == NULL ? NULL : change_runner_find(c, r->name);
    if (runner != NULL)
        runner->expired += count;
}

static void expired(struct loop_job *j, bool canceled)
{
    struct change_timelines *tl = CONTAINER_OF(j, struct change_timelines, job);
    struct change *c = CONTAINER_OF(tl, struct change, timelines);
    change_lock(c);
    tl->expiring = false;
    bool more = !canceled && tl->why == ERR_OK && tl->more;
    if (!canceled)
        change_timeline_expired(c, RULE_KEEP_STORE, tl->expired);
    if (!canceled && tl->why != ERR_OK && tl->why != ERR_SHUTDOWN)
        log_event(c->opts.log, LOG_WARN, "change.timeline", LOG_CSTR("why", err_name(tl->why)),
                  LOG_CSTR("what", "old entries of the timeline could not be removed"));
    tl->expire_at =
        mono_add_ms(clock_mono(c->opts.clock), more ? CHANGE_EXPIRE_MORE_MS : CHANGE_EXPIRE_MS);
    change_arm(c, tl->expire_at);
    change_busy(c, -1);
    change_unlock(c);
}

void change_timelines_kick(struct change *c)
{
    struct change_timelines *tl = &c->timelines;
    change_remote_kick(c);
    if (!c->begun || c->draining || tl->expiring)
        return;
    if (clock_mono(c->opts.clock).ns < tl->expire_at.ns) {
        change_arm(c, tl->expire_at);
        return;
    }
    const struct rule *r = change_timeline_rule(c, RULE_KEEP_STORE);
    tl->ttl_ns = r == NULL ? RULE_TIMELINE_TTL_NS : r->ttl_ns;
    tl->job = (struct loop_job){ .run = expire_run, .done = expired };
    tl->expiring = true;
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &tl->job);
}

void change_timelines_expire_all(struct change *c)
{
    change_lock(c);
    const struct rule *r = change_timeline_rule(c, RULE_KEEP_STORE);
    int64_t ttl_ns = r == NULL ? RULE_TIMELINE_TTL_NS : r->ttl_ns;
    change_unlock(c);
    struct timeline_expiry x = { .before = { .ns = clock_store(c->opts.clock).ns - ttl_ns } };
    uint64_t count = 0;
    bool more = true;
    while (more) {
        more = expire_step(c, &x) == ERR_OK && x.more;
        count += x.count;
    }
    change_lock(c);
    change_timeline_expired(c, RULE_KEEP_STORE, count);
    change_unlock(c);
}

void change_timelines_fini(struct change *c)
{
    for (unsigned i = 0; i < CHANGE_SAMPLERS; i++)
        timeline_sampler_free(&c->timelines.samplers[i].sampler);
}
