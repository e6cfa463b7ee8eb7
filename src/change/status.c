/* status.c - how each rule, and each target, stands. What is in memory is copied under the lock;
 * counts, the oldest items, and how far the log was read are read from the store behind that, in
 * one view. Invariant: of an event that the log had when it was asked, the figures have what is
 * left to do once: it is behind, or it has items. */
#include "change/change_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *change_state_name(enum change_state s)
{
    static const char *const names[CHANGE_STATES] = {
        [CHANGE_READY] = "ready",
        [CHANGE_WAITING] = "waiting",
        [CHANGE_SCHEDULED] = "scheduled",
        [CHANGE_DEAD] = "dead",
    };
    return s < CHANGE_STATES ? names[s] : "";
}

struct status_numbered {
    struct change_rule_status *status;
    uint32_t number;
};

/* ---- from memory, under the lock ---- */

static str status_kept(struct arena *a, const char *text)
{
    return arena_copy(a, str_of(text));
}

static bool types_copy(const struct change_runner *r, struct arena *a,
                       struct change_rule_status *out)
{
    out->types = arena_calloc(a, r->types_count + 1, sizeof *out->types);
    if (out->types == NULL)
        return false;
    out->types_count = r->types_count;
    for (unsigned i = 0; i < r->types_count; i++) {
        out->types[i].type = status_kept(a, r->types[i].type);
        out->types[i].concurrency = r->types[i].concurrency;
        if (out->types[i].type.p == NULL)
            return false;
    }
    return true;
}

void change_target_tell(struct change *c, const struct change_target *t,
                        struct change_target_status *s)
{
    int64_t left = t->paused_until.ns - clock_mono(c->opts.clock).ns;
    s->running = t->running;
    s->failed = t->failed;
    s->drained = t->drained;
    if (t->paused_until.ns != 0)
        s->paused_until = store_time_add(clock_store(c->opts.clock), left > 0 ? left : 0);
    memcpy(s->last_error, t->error, sizeof s->last_error);
}

struct rule_targets {
    const struct change_runner *runner;
    struct arena *a;
    struct change_target_status *at;
    unsigned count, size;
    bool full;
};

static void rule_target_count(void *ctx, const char *name)
{
    struct rule_targets *g = ctx;
    (void)name;
    g->size++;
}

/* Its own runs alone; what it failed, and how it is, is of all. One that is named twice is told
 * once. */
static void rule_target_copy(void *ctx, const char *name)
{
    struct rule_targets *g = ctx;
    for (unsigned i = 0; i < g->count; i++)
        if (str_eq(g->at[i].name, str_of(name)))
            return;
    struct change_target_status *s = &g->at[g->count];
    *s = (struct change_target_status){ .name = status_kept(g->a, name) };
    g->full = g->full || s->name.p == NULL;
    if (g->full)
        return;
    g->count++;
    const struct change_target *t = map_get(g->runner->change->targets, str_of(name));
    if (t == NULL)
        return;
    change_target_tell(g->runner->change, t, s);
    s->running = change_runs_at(g->runner, t);
}

static bool rule_targets_copy(const struct change_runner *r, struct arena *a,
                              struct change_rule_status *out)
{
    struct rule_targets g = { .runner = r, .a = a };
    if (r->rule == NULL)
        return true;
    change_rule_targets(r->change, r->rule, rule_target_count, &g);
    g.at = arena_calloc(a, g.size + 1, sizeof *g.at);
    if (g.at == NULL)
        return false;
    change_rule_targets(r->change, r->rule, rule_target_copy, &g);
    out->targets = g.at;
    out->targets_count = g.count;
    return !g.full;
}

/* What the rule itself says of limits and of what fails. */
static bool rule_own_copy(const struct rule *r, struct arena *a, struct change_rule_status *out)
{
    bool full = false;
    for (unsigned by = 0; by < RULE_BYS && !full; by++) {
        unsigned count = r->concurrency_of[by].count;
        struct rule_limit *own = arena_calloc(a, count + 1, sizeof *own);
        full = own == NULL;
        for (unsigned i = 0; i < count && !full; i++) {
            own[i].name = arena_copy(a, r->concurrency_of[by].p[i].name);
            own[i].count = r->concurrency_of[by].p[i].count;
            full = own[i].name.p == NULL;
        }
        out->limits[by] = own;
        out->limits_count[by] = count;
    }
    out->calls = r->effect == RULE_PURGE || r->effect == RULE_HTTP || r->effect == RULE_JOB;
    out->retries = r->retries;
    out->backoff_ns = r->backoff_ns;
    out->backoff_factor = r->backoff_factor;
    return !full;
}

static bool rule_copy(const struct change_runner *r, struct arena *a,
                      struct change_rule_status *out)
{
    bool rated = r->override.rate_count >= 0;
    *out = (struct change_rule_status){ .name = status_kept(a, r->name),
                                        .effect = r->rule == NULL ? RULE_EFFECTS : r->rule->effect,
                                        .removed = r->rule == NULL,
                                        .paused = r->paused,
                                        .replaying = r->replay_until != 0,
                                        .concurrency = change_runner_concurrency(r),
                                        .rate_count = rated             ? r->override.rate_count
                                                      : r->rule == NULL ? 0
                                                                        : r->rule->rate_count,
                                        .rate_per_ns = rated             ? r->override.rate_per_ns
                                                       : r->rule == NULL ? 0
                                                                         : r->rule->rate_per_ns,
                                        .overridden = r->override.concurrency > 0 || rated,
                                        .running = r->running,
                                        .oldest = STORE_TIME_NEVER,
                                        .matched = r->matched,
                                        .collapsed = r->collapsed,
                                        .done = r->done,
                                        .ignored = r->ignored,
                                        .failed = r->failed,
                                        .died = r->died,
                                        .dropped = r->dropped,
                                        .refused = r->refused,
                                        .looped = r->looped,
                                        .sampled = r->sampled,
                                        .expired = r->expired,
                                        .last_error_at = r->last_error_at };
    memcpy(out->last_error, r->last_error, sizeof out->last_error);
    return out->name.p != NULL && types_copy(r, a, out) && rule_targets_copy(r, a, out) &&
           (r->rule == NULL || rule_own_copy(r->rule, a, out));
}

static bool rules_copy(struct change *c, struct arena *a, struct change_status *out,
                       struct status_numbered **numbered)
{
    out->rules = arena_calloc(a, c->runners_count + 1, sizeof *out->rules);
    *numbered = arena_calloc(a, c->runners_count + 1, sizeof **numbered);
    if (out->rules == NULL || *numbered == NULL)
        return false;
    for (unsigned i = 0; i < c->runners_count; i++) {
        (*numbered)[i] = (struct status_numbered){ &out->rules[i], c->runners[i]->number };
        if (!rule_copy(c->runners[i], a, &out->rules[i]))
            return false;
    }
    out->rules_count = c->runners_count;
    return true;
}

struct target_copying {
    struct change *c;
    struct arena *a;
    struct change_status *out;
    unsigned size;
    bool full;
};

static void target_copy(void *ctx, str key, void *value)
{
    struct target_copying *g = ctx;
    const struct change_target *t = value;
    (void)key;
    if (g->full || g->out->targets_count == g->size)
        return;
    struct change_target_status *s = &g->out->targets[g->out->targets_count++];
    *s = (struct change_target_status){ .name = status_kept(g->a, t->name) };
    change_target_tell(g->c, t, s);
    g->full = s->name.p == NULL;
}

static int target_cmp(const void *a, const void *b)
{
    const struct change_target_status *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

static bool targets_copy(struct change *c, struct arena *a, struct change_status *out)
{
    struct target_copying g = { .c = c, .a = a, .out = out };
    g.size = (unsigned)map_count(c->targets);
    out->targets = arena_calloc(a, g.size + 1, sizeof *out->targets);
    if (out->targets == NULL)
        return false;
    map_each(c->targets, target_copy, &g);
    qsort(out->targets, out->targets_count, sizeof *out->targets, target_cmp);
    return !g.full;
}

/* ---- from the store ---- */

/* When the first of its items that can be read was taken: ids stand in the order of events. */
static err oldest_find(struct engine_view *v, struct status_numbered *n)
{
    struct change_key key;
    struct engine_row row;
    struct change_item_row item;
    change_key_item(&key, n->number, 0);
    str prefix = str_take(change_key_str(&key), key.n - sizeof(uint64_t));
    struct engine_cursor *c = change_rows_open(v, prefix, STR_NONE);
    err why = change_rows_next(c, &row);
    if (why == ERR_OK)
        why = change_item_decode(row.value, &item);
    engine_cursor_close(&c);
    if (why == ERR_OK)
        n->status->oldest = item.taken;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* *head: how far the log was read, as it stands in memory. It may be behind its row, for the loop
 * learns of an update after the engine. An event that the row has passed is counted as an item. */
static err head_find(struct engine_view *v, struct change_head *head)
{
    struct change_head row;
    err why = change_head_get(v, &row);
    if (why == ERR_OK && row.cursor > head->cursor)
        *head = row;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* One view of all: no event is counted both as one that is behind and as an item. */
static err counts_find(struct change *c, struct status_numbered *numbered, unsigned count,
                       struct change_head *head)
{
    struct engine_view *v = engine_view_begin(c->opts.engine);
    err why = head_find(v, head);
    for (unsigned i = 0; i < count && why == ERR_OK; i++) {
        struct change_counts counts;
        why = change_counts_get(v, numbered[i].number, &counts);
        if (why == ERR_OK)
            memcpy(numbered[i].status->counts, counts.of, sizeof counts.of);
        if (why == ERR_CORRUPT) { /* the others are told all the same */
            struct change_rule_status *r = numbered[i].status;
            (void)snprintf(r->last_error, sizeof r->last_error,
                           "the counts of its items are damaged");
            r->last_error_at = clock_store(c->opts.clock);
            why = ERR_OK;
        }
        if (why == ERR_OK)
            why = oldest_find(v, &numbered[i]);
    }
    engine_view_end(&v);
    return why;
}

static int rule_cmp(const void *a, const void *b)
{
    const struct change_rule_status *x = a, *y = b;
    return str_cmp(x->name, y->name);
}

/* Rules that are gone, with all their items, are not told. */
static void rules_trim(struct change_status *out)
{
    unsigned kept_count = 0;
    for (unsigned i = 0; i < out->rules_count; i++) {
        const struct change_rule_status *r = &out->rules[i];
        uint64_t items = 0;
        for (unsigned s = 0; s < CHANGE_STATES; s++)
            items += r->counts[s];
        if (!r->removed || items > 0 || r->oldest.ns != STORE_TIME_NEVER.ns)
            out->rules[kept_count++] = *r;
    }
    out->rules_count = kept_count;
    qsort(out->rules, kept_count, sizeof *out->rules, rule_cmp);
}

err change_status_get(struct change *c, struct arena *a, struct change_status *out)
{
    struct event_figures f;
    struct status_numbered *numbered = NULL;
    *out = (struct change_status){ .cursor = 0 };
    err why = event_log_figures(c->opts.events, &f);
    if (why != ERR_OK)
        return why;
    change_lock(c);
    struct change_head head = c->router.head; /* of a moment before the view */
    bool idle = rule_set_count(c->ruled->set) == 0;
    bool fits = rules_copy(c, a, out, &numbered) && targets_copy(c, a, out);
    change_unlock(c);
    if (!fits)
        return ERR_LIMIT;
    why = counts_find(c, numbered, out->rules_count, &head);
    if (why != ERR_OK)
        return why;
    out->last = f.last;
    out->cursor = idle ? f.last : head.cursor;
    out->behind = idle || f.taken < head.count ? 0 : f.taken - head.count;
    out->cursor_at = head.at;
    out->missed = head.missed;
    out->missed_at = head.missed_at;
    rules_trim(out);
    return ERR_OK;
}
