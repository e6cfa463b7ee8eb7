/* target.c - who is called, and whether it wants to be left alone.
 *
 *   open --asked to be left alone, or not there--> paused --its time is over--> probed by one call
 *    ^                                                                             |
 *    \------------ it answered ----------------------------------------------------/  or paused
 * again
 *
 * A pause without a time of its own lasts twice as long as the one before, CHANGE_PAUSE_MS_MAX at
 * most. Invariant: a target that nothing runs at, that is not drained, and whose pause is over,
 * needs no memory; it is forgotten when there are CHANGE_TARGETS_MAX of them. */
#include "change/change_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct target_forget {
    mono now;
    struct change_target *found;
};

static void forget_look(void *ctx, str key, void *value)
{
    struct target_forget *f = ctx;
    struct change_target *t = value;
    (void)key;
    if (t->running == 0 && t->paused_until.ns <= f->now.ns && !t->drained)
        f->found = t;
}

/* Makes room for one. False: all are in use. */
static bool targets_forget(struct change *c)
{
    struct target_forget f = { .now = clock_mono(c->opts.clock) };
    map_each(c->targets, forget_look, &f);
    if (f.found == NULL)
        return false;
    (void)map_remove(c->targets, str_of(f.found->name));
    free(f.found->name);
    free(f.found);
    return true;
}

struct change_target *change_target_of(struct change *c, str name)
{
    struct change_target *t = map_get(c->targets, name);
    if (t != NULL)
        return t;
    if (map_count(c->targets) >= CHANGE_TARGETS_MAX && !targets_forget(c))
        return NULL;
    t = calloc(1, sizeof *t);
    INVARIANT(t != NULL);
    t->name = strndup(name.p, name.n);
    INVARIANT(t->name != NULL);
    (void)map_put(c->targets, name, t);
    return t;
}

bool change_target_takes(struct change *c, struct change_target *t, mono *until)
{
    mono now = clock_mono(c->opts.clock);
    *until = (mono){ .ns = INT64_MAX };
    if (t->drained)
        return false;
    *until = t->paused_until;
    return t->paused_until.ns <= now.ns;
}

void change_target_begin(struct change *c, struct change_target *t)
{
    t->running++;
    if (t->paused_until.ns != 0) /* a probe: the others wait for what becomes of it */
        t->paused_until = mono_add_ms(clock_mono(c->opts.clock), t->pause_ms);
}

static void target_pause(struct change *c, struct change_target *t, const struct change_result *r)
{
    t->pauses++;
    t->pause_ms = t->pause_ms == 0 ? CHANGE_PAUSE_MS : 2 * t->pause_ms;
    if (t->pause_ms > CHANGE_PAUSE_MS_MAX)
        t->pause_ms = CHANGE_PAUSE_MS_MAX;
    if (t->paused_until.ns == 0)
        log_event(c->opts.log, LOG_WARN, "change.target_paused", LOG_CSTR("target", t->name),
                  LOG_CSTR("why", r->text),
                  LOG_CSTR("what", "what is to be done there waits, and costs no attempt"));
    int64_t ms = r->wait_ns > 0 ? r->wait_ns / NS_PER_MS + 1 : t->pause_ms;
    t->paused_until = mono_add_ms(clock_mono(c->opts.clock), ms);
    (void)snprintf(t->error, sizeof t->error, "%s", r->text);
}

/* It answers again. It may be forgotten by this, for one that begins needs room. */
static void target_open(struct change *c, const struct change_target *t)
{
    log_event(c->opts.log, LOG_INFO, "change.target_open", LOG_CSTR("target", t->name));
    change_lanes_open(c);
}

void change_target_open(struct change *c, struct change_target *t)
{
    if (t->paused_until.ns == 0)
        return;
    t->paused_until.ns = 0;
    t->pause_ms = 0;
    t->pauses++; /* the probe that may run was sent before this */
    log_event(c->opts.log, LOG_INFO, "change.target_open", LOG_CSTR("target", t->name),
              LOG_CSTR("why", "by hand"));
}

void change_target_end(struct change *c, struct change_target *t, unsigned pauses,
                       const struct change_result *r)
{
    bool opens = false;
    t->running--;
    for (unsigned i = 0; i < c->runners_count; i++)
        change_lane_admit(c->runners[i], t);
    if (pauses != t->pauses) { /* it began before the target was paused */
        c->lacking = true;
    } else if (r->fate == CHANGE_PAUSED) {
        target_pause(c, t, r);
    } else if (r->fate != CHANGE_STOPPED) {
        opens = t->paused_until.ns != 0;
        t->paused_until.ns = 0;
        t->pause_ms = 0;
    }
    if (r->fate == CHANGE_FAILED || r->fate == CHANGE_HOPELESS) {
        t->failed++;
        (void)snprintf(t->error, sizeof t->error, "%s", r->text);
    }
    if (opens)
        target_open(c, t);
}
