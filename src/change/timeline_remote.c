/* timeline_remote.c - the timeline of a rule with `keep: redis`: its items are noted, and what is
 * old goes.
 *
 * An item stays until Redis said that it has the entry. While Redis is away, full, or refuses, the
 * item waits as it does for a target that is paused: no attempt is lost, and the others of its
 * domain wait with it. An entry that is noted twice is one (timeline/remote.h). */
#include "change/run.h"

#include "page/page.h"

#include <stdio.h>
#include <stdlib.h>

/* ---- one item ---- */

bool change_run_note_read(struct change_run *run, struct rule_event *e)
{
    struct change *c = run->c;
    const struct rule *r = run->rule;
    struct timeline_remote_add *a = &run->note;
    const struct page_domain *d = page_domain_find(c->opts.page, run->domain);
    store_time old = store_time_add(clock_store(c->opts.clock), -r->ttl_ns);
    if (d == NULL || store_time_before(run->taken, old) ||
        change_timeline_read(c->opts.page, e, run->domain, run->taken, &a->where, &a->entry) !=
            NOTING_ENTRY)
        return false;
    a->domain = d->name;
    a->where.title = run->title; /* the event ends before it is noted */
    a->ttl_ns = r->ttl_ns;
    a->old = old;
    return run->title.p != NULL;
}

static void note_judge(err why, const char *text, struct change_result *out)
{
    /* a key of ours that is no sorted set stays what it is; all else may end by itself */
    bool hopeless = why == ERR_BAD && str_starts(str_of(text), STR("WRONGTYPE"));
    *out = (struct change_result){ .fate = why == ERR_OK         ? CHANGE_DONE
                                           : why == ERR_SHUTDOWN ? CHANGE_STOPPED
                                           : hopeless            ? CHANGE_HOPELESS
                                                                 : CHANGE_PAUSED };
    if (why != ERR_OK)
        (void)snprintf(out->text, sizeof out->text, "Redis: %.*s", CHANGE_ERROR_BYTES_MAX - 7,
                       text[0] == '\0' ? err_name(why) : text); /* cut when longer */
}

static void note_over(struct timeline_remote_add *a, err why, const struct err_note *note)
{
    struct change_run *run = CONTAINER_OF(a, struct change_run, note);
    struct change *c = run->c;
    change_lock(c);
    note_judge(why, why == ERR_OK ? "" : note->text, &run->result);
    change_run_settle(run);
    change_unlock(c);
}

static bool notes_here(const struct change_run *run)
{
    return run->rule->keep == RULE_KEEP_STORE;
}

err change_run_note_here(struct change_run *run, struct engine_txn *t)
{
    const struct change_noted n = { .where = run->note.where, .entry = run->note.entry };
    bool had;
    return notes_here(run) ? change_timeline_note(t, &n, &had) : ERR_OK;
}

void change_run_note(struct change_run *run)
{
    struct timeline_remote *remote = run->c->opts.timelines;
    err why = ERR_OK;
    run->note.done = note_over;
    if (!notes_here(run) && remote == NULL)
        note_judge(ERR_UNAVAILABLE, "this server has none: redis.url is not set", &run->result);
    else if (!notes_here(run) && (why = timeline_remote_add(remote, &run->note)) == ERR_OK)
        return;
    else
        note_judge(why, why == ERR_UNAVAILABLE ? "it is away" : "", &run->result);
    change_run_settle(run);
}

/* ---- age ---- */

static int by_number(const void *a, const void *b)
{
    const struct timeline_named *x = a, *y = b;
    return (x->number > y->number) - (x->number < y->number);
}

struct timeline_named *change_timeline_names(const struct page_service *page, unsigned *count)
{
    *count = page == NULL ? 0 : page->domains_count;
    struct timeline_named *named = calloc(*count + 1, sizeof *named);
    INVARIANT(named != NULL);
    for (unsigned i = 0; i < *count; i++)
        named[i] = (struct timeline_named){ page->domains[i].number, page->domains[i].name };
    qsort(named, *count, sizeof *named, by_number);
    return named;
}

/* Under the lock. */
static void remote_later(struct change *c, int64_t ms)
{
    struct change_timelines *tl = &c->timelines;
    free(tl->named);
    tl->named = NULL;
    tl->remote_expiring = false;
    tl->remote_at = mono_add_ms(clock_mono(c->opts.clock), ms);
    change_arm(c, tl->remote_at);
}

static void remote_expired(struct timeline_remote_expiry *x, err why, const struct err_note *note)
{
    struct change *c = x->ctx;
    change_lock(c);
    change_timeline_expired(c, RULE_KEEP_REDIS, x->count);
    if (why != ERR_OK && why != ERR_SHUTDOWN && why != ERR_UNAVAILABLE) /* else Redis told it */
        log_event(c->opts.log, LOG_WARN, "change.timeline", LOG_CSTR("why", note->text),
                  LOG_CSTR("what", "old entries of the timeline in Redis could not be removed"));
    remote_later(c, why == ERR_OK && x->more ? CHANGE_EXPIRE_MORE_MS : CHANGE_EXPIRE_MS);
    change_busy(c, -1);
    change_unlock(c);
}

void change_remote_kick(struct change *c)
{
    struct change_timelines *tl = &c->timelines;
    const struct rule *r = change_timeline_rule(c, RULE_KEEP_REDIS);
    if (!c->begun || c->draining || tl->remote_expiring || c->opts.timelines == NULL || r == NULL)
        return;
    if (clock_mono(c->opts.clock).ns < tl->remote_at.ns) {
        change_arm(c, tl->remote_at);
        return;
    }
    unsigned count;
    tl->named = change_timeline_names(c->opts.page, &count);
    tl->remote = (struct timeline_remote_expiry){
        .before = store_time_add(clock_store(c->opts.clock), -r->ttl_ns),
        .domains = tl->named,
        .domains_count = count,
        .domain = tl->remote.domain,
        .done = remote_expired,
        .ctx = c,
    };
    if (timeline_remote_expire(c->opts.timelines, &tl->remote) != ERR_OK) {
        remote_later(c, CHANGE_EXPIRE_MS); /* Redis is away, or there are no domains */
        return;
    }
    tl->remote_expiring = true;
    change_busy(c, 1);
}
