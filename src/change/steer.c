/* steer.c - what an operator has done to rules and targets: pause, limit, replay, drain.
 *
 * A pause and a replay stand in the rule's row and outlive a restart. Limits and drains are in
 * memory: a restart ends them. Pool threads. */
#include "change/change_impl.h"

#include <stdio.h>
#include <string.h>

static void steered(void *ctx)
{
    struct change *c = ctx;
    change_lock(c);
    change_router_kick(c);
    for (unsigned i = 0; i < c->runners_count; i++) {
        c->runners[i]->blocked_count = 0; /* a target may be there again */
        change_runner_wake(c->runners[i]);
    }
    change_unlock(c);
}

/* The same of a rule that purges. */
static void purges_steered(void *ctx)
{
    struct change *c = ctx;
    steered(c);
    change_lock(c);
    bool over = c->draining;
    change_unlock(c);
    if (!over && c->opts.took != NULL)
        c->opts.took(c->opts.ctx);
}

/* Under the lock. r NULL: its rule is gone. */
static bool runner_purges(const struct change_runner *r)
{
    return r != NULL && r->rule != NULL && r->rule->effect == RULE_PURGE;
}

static err unknown(str rule, struct err_note *note)
{
    err_note_set(note, "there is no rule named '%.*s'", STR_ARG(rule));
    return ERR_NOT_FOUND;
}

/* ---- rows of rules ---- */

struct steering {
    struct change *change;
    uint64_t number; /* out: of all steerings, in the order of the updates */
    str rule;
    bool paused;
    uint64_t replay_after, replay_until; /* until 0: the pause is what is asked */
    bool removed;                        /* out: so the rule cannot be replayed */
};

static err steer_decide(struct engine_txn *t, void *ctx)
{
    struct steering *s = ctx;
    struct change_rule_row row;
    s->number = atomic_fetch_add(&s->change->steerings, 1) + 1;
    err why = change_rule_get(engine_txn_view(t), s->rule, &row);
    if (why != ERR_OK)
        return why;
    s->removed = (row.flags & CHANGE_FLAG_REMOVED) != 0;
    if (s->replay_until != 0 && (row.replay_until != 0 || s->removed))
        return ERR_CONFLICT;
    if (s->replay_until != 0) {
        row.replay_after = s->replay_after;
        row.replay_until = s->replay_until;
    } else {
        row.flags &= ~(unsigned)CHANGE_FLAG_PAUSED;
        row.flags |= s->paused ? CHANGE_FLAG_PAUSED : 0;
    }
    return change_rule_put(t, s->rule, &row);
}

static err refused(const struct steering *s, struct err_note *note)
{
    err_note_set(note,
                 s->removed ? "rule '%.*s' is not in the configuration any more"
                            : "rule '%.*s' is being replayed already",
                 STR_ARG(s->rule));
    return ERR_CONFLICT;
}

static err steer_steer(struct change *c, struct steering *s, struct err_note *note)
{
    s->change = c;
    if (s->rule.n == 0 || s->rule.n > RULE_NAME_BYTES_MAX)
        return unknown(s->rule, note);
    /* The row is there, and grows no longer: a full disk stops nobody from pausing a rule. */
    const struct engine_update update = {
        .decide = steer_decide, .ctx = s, .deadline = change_update_deadline(c), .frees = true
    };
    err why = engine_submit_wait(c->opts.engine, &update);
    if (why == ERR_NOT_FOUND)
        return unknown(s->rule, note);
    if (why == ERR_CONFLICT)
        return refused(s, note);
    if (why != ERR_OK)
        err_note_set(note, "it could not be stored: %s", err_name(why));
    return why;
}

err change_pause(struct change *c, str rule, bool paused, struct err_note *note)
{
    struct steering s = { .rule = rule, .paused = paused };
    err why = steer_steer(c, &s, note);
    if (why != ERR_OK)
        return why;
    change_lock(c);
    struct change_runner *r = change_runner_find(c, rule);
    if (r != NULL && r->paused_by < s.number) { /* the later update holds */
        r->paused = paused;
        r->paused_by = s.number;
    }
    bool purges = runner_purges(r);
    change_unlock(c);
    loop_post(c->opts.loop, purges ? purges_steered : steered, c);
    return ERR_OK;
}

/* No event is so new. It is a success all the same, if the rule can be replayed. */
static err replay_nothing(struct change *c, struct steering *s, struct err_note *note)
{
    change_lock(c);
    const struct change_runner *r = change_runner_find(c, s->rule);
    bool known = r != NULL && s->rule.n > 0, replays = known && r->replay_until != 0;
    s->removed = known && r->rule == NULL;
    change_unlock(c);
    if (!known)
        return unknown(s->rule, note);
    return s->removed || replays ? refused(s, note) : ERR_OK;
}

err change_replay(struct change *c, str rule, store_time from, struct err_note *note)
{
    struct event_figures f;
    struct steering s = { .rule = rule, .replay_after = event_log_behind(from) };
    err why = event_log_figures(c->opts.events, &f);
    if (why != ERR_OK) {
        err_note_set(note, "the event log cannot be read: %s", err_name(why));
        return why;
    }
    change_lock(c); /* what is not routed yet, is asked about in any case */
    s.replay_until = f.last < c->router.head.cursor ? f.last : c->router.head.cursor;
    change_unlock(c);
    if (s.replay_until <= s.replay_after)
        return replay_nothing(c, &s, note);
    why = steer_steer(c, &s, note);
    if (why != ERR_OK)
        return why;
    change_lock(c);
    struct change_runner *r = change_runner_find(c, rule);
    if (r != NULL) {
        r->replay_after = s.replay_after;
        r->replay_until = s.replay_until;
    }
    change_unlock(c);
    loop_post(c->opts.loop, steered, c);
    return ERR_OK;
}

/* ---- limits ---- */

static void type_remove(struct change_runner *r, unsigned i)
{
    r->types_count--;
    memmove(&r->types[i], &r->types[i + 1], (r->types_count - i) * sizeof r->types[0]);
}

/* False: there are too many. */
static bool type_limit(struct change_runner *r, str type, int64_t concurrency)
{
    unsigned i = 0;
    while (i < r->types_count && !str_eq(str_of(r->types[i].type), type))
        i++;
    if (concurrency == 0) {
        if (i < r->types_count)
            type_remove(r, i);
        return true;
    }
    if (i == CHANGE_TYPE_OVERRIDES_MAX)
        return false;
    if (i == r->types_count) {
        r->types_count++;
        (void)str_to_cstr(type, r->types[i].type, sizeof r->types[i].type);
    }
    r->types[i].concurrency = concurrency;
    return true;
}

err change_limit(struct change *c, str rule, const struct change_limits *l, struct err_note *note)
{
    err why = ERR_OK;
    if (l->type.n > CHANGE_TYPE_BYTES_MAX) {
        err_note_set(note, "the type is longer than %d bytes", CHANGE_TYPE_BYTES_MAX);
        return ERR_BAD;
    }
    change_lock(c);
    struct change_runner *r = change_runner_find(c, rule);
    if (r == NULL) {
        why = unknown(rule, note);
    } else if (l->type.n > 0) {
        if (!type_limit(r, l->type, l->concurrency)) {
            err_note_set(note, "%d types have a limit of their own already",
                         CHANGE_TYPE_OVERRIDES_MAX);
            why = ERR_LIMIT;
        }
    } else if (l->concurrency == 0 && l->rate_count < 0) {
        r->override = (struct change_override){ .rate_count = -1 };
        r->types_count = 0;
    } else {
        if (l->concurrency > 0)
            r->override.concurrency = l->concurrency;
        if (l->rate_count >= 0) {
            r->override.rate_count = l->rate_count;
            r->override.rate_per_ns = l->rate_per_ns;
        }
    }
    if (r != NULL) { /* what is in sight, or is being looked for, has the limits of before */
        r->window_count = 0;
        r->choices++;
        r->next_begin.ns = 0;
    }
    bool purges = runner_purges(r);
    change_unlock(c);
    loop_post(c->opts.loop, purges ? purges_steered : steered, c);
    return why;
}

/* ---- targets ---- */

struct sought {
    str name;
    bool found;
};

static void sought_look(void *ctx, const char *name)
{
    struct sought *s = ctx;
    s->found = s->found || str_eq(str_of(name), s->name);
}

err change_drain_target(struct change *c, str name, bool drained, struct change_target_status *was,
                        struct err_note *note)
{
    change_lock(c);
    struct sought sought = { .name = name, .found = map_get(c->targets, name) != NULL };
    for (unsigned i = 0; i < rule_set_count(c->ruled->set) && !sought.found; i++)
        change_rule_targets(c, rule_set_at(c->ruled->set, i), sought_look, &sought);
    struct change_target *t = sought.found ? change_target_of(c, name) : NULL;
    if (t != NULL && was != NULL) {
        *was = (struct change_target_status){ .name = name };
        change_target_tell(c, t, was);
    }
    if (t != NULL) {
        t->drained = drained;
        if (!drained)
            change_target_open(c, t);
    }
    change_unlock(c);
    if (sought.found && t == NULL) {
        err_note_set(note, "%d targets are in use already", CHANGE_TARGETS_MAX);
        return ERR_LIMIT;
    }
    if (t == NULL) {
        err_note_set(note, "there is no target '%.*s': a target is called host:port",
                     STR_ARG(name));
        return ERR_NOT_FOUND;
    }
    loop_post(c->opts.loop, steered, c);
    return ERR_OK;
}
