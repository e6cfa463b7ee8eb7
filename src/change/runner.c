/* runner.c - what may begin for a rule now: by its concurrency and rate, its types and domains, and
 * its targets.
 *
 * A runner has a window of items in sight. It goes over the window from its front and begins each
 * that may. While there is room in the window it looks for more (pick.c). Invariants: 1. running_by
 * counts the runs by type and domain; a count of 0 has no entry. 2. A lane that is blocked, or
 * whose target is closed, has nothing in the window that is begun before its time. 3. more is true
 * whenever there may be a ready item that neither runs nor is in sight and could begin: whoever
 * makes one ready says so. */
#include "change/change_impl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RATE_BURST_NS = 10 * 1000 * 1000 }; /* begun at once, of a fast rate */

struct change_runner *change_runner_new(struct change *c, str name, uint32_t number)
{
    struct change_runner *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct change_runner){ .change = c,
                                 .number = number,
                                 .more = true,
                                 .override = { .rate_count = -1 },
                                 .wake_at = { .ns = INT64_MAX },
                                 .running_by = map_new(c->seed) };
    INVARIANT(str_to_cstr(name, r->name, sizeof r->name));
    list_init(&r->runs);
    return r;
}

static void count_free(void *ctx, str key, void *value)
{
    (void)ctx, (void)key;
    free(value);
}

void change_runner_free(struct change_runner **rp)
{
    struct change_runner *r = *rp;
    *rp = NULL;
    if (r == NULL)
        return;
    INVARIANT(list_empty(&r->runs));
    INVARIANT(r->pick == NULL);
    map_each(r->running_by, count_free, NULL);
    map_free(&r->running_by);
    free(r);
}

void change_runner_error(struct change_runner *r, str text)
{
    (void)snprintf(r->last_error, sizeof r->last_error, "%.*s", STR_ARG(text));
    r->last_error_at = clock_store(r->change->opts.clock);
}

/* ---- counts ---- */

static str key_bytes(const uint64_t *key)
{
    return (str){ .p = (const char *)key, .n = sizeof *key };
}

unsigned change_running_by(const struct change_runner *r, uint64_t key)
{
    const unsigned *n = map_get(r->running_by, key_bytes(&key));
    return n == NULL ? 0 : *n;
}

void change_running_count(struct change_runner *r, uint64_t key, int by)
{
    unsigned *n = map_get(r->running_by, key_bytes(&key));
    if (n == NULL) {
        n = calloc(1, sizeof *n);
        INVARIANT(n != NULL);
        (void)map_put(r->running_by, key_bytes(&key), n);
    }
    *n += (unsigned)by;
    if (*n == 0)
        free(map_remove(r->running_by, key_bytes(&key)));
}

int64_t change_runner_concurrency(const struct change_runner *r)
{
    if (r->override.concurrency > 0)
        return r->override.concurrency;
    bool calls = r->rule != NULL && (r->rule->effect == RULE_HTTP || r->rule->effect == RULE_JOB ||
                                     r->rule->effect == RULE_PURGE);
    return calls ? r->rule->concurrency : CHANGE_PLAIN_CONCURRENCY;
}

/* ---- rate ---- */

int64_t change_runner_step_ns(const struct change_runner *r)
{
    int64_t count = r->override.rate_count >= 0 ? r->override.rate_count : r->rule->rate_count;
    int64_t per_ns = r->override.rate_count >= 0 ? r->override.rate_per_ns : r->rule->rate_per_ns;
    return count > 0 ? per_ns / count : 0;
}

/* May one begin by the rate? Else it says when. */
static bool rate_takes(struct change_runner *r, mono now)
{
    int64_t step = change_runner_step_ns(r), burst = step < RATE_BURST_NS ? RATE_BURST_NS : 0;
    if (step == 0 || r->next_begin.ns <= now.ns + burst)
        return true;
    mono at = { .ns = r->next_begin.ns - burst };
    r->wake_at = at.ns < r->wake_at.ns ? at : r->wake_at;
    return false;
}

static void rate_begin(struct change_runner *r, mono now)
{
    int64_t from = r->next_begin.ns > now.ns ? r->next_begin.ns : now.ns;
    r->next_begin.ns = from + change_runner_step_ns(r);
}

void change_rate_return(struct change_runner *r)
{
    if (r->rule != NULL)
        r->next_begin.ns -= change_runner_step_ns(r);
}

/* ---- lanes that wait ---- */

static bool lane_eq(const struct change_digest *a, const struct change_digest *b)
{
    return memcmp(a, b, sizeof *a) == 0;
}

void change_lane_block(struct change_runner *r, const struct change_digest *lane, mono until)
{
    unsigned i = 0;
    mono now = clock_mono(r->change->opts.clock);
    while (i < r->blocked_count && !lane_eq(&r->blocked[i].lane, lane) &&
           r->blocked[i].until.ns > now.ns)
        i++;
    if (i == CHANGE_BLOCKED_MAX) { /* then all wait for a while: as a rule it is one target */
        mono rest = mono_add_ms(now, CHANGE_AGAIN_MS);
        r->rests_until = until.ns < rest.ns ? until : rest;
        return;
    }
    if (i == r->blocked_count)
        r->blocked_count++;
    r->blocked[i] = (struct change_blocked){ .lane = *lane, .until = until };
}

void change_lane_crowd(struct change_runner *r, const struct change_digest *lane,
                       const struct change_target *t)
{
    for (unsigned i = 0; i < r->blocked_count; i++)
        if (lane_eq(&r->blocked[i].lane, lane))
            r->blocked[i].crowded = t;
}

void change_lane_admit(struct change_runner *r, const struct change_target *t)
{
    struct change_blocked *first = NULL;
    for (unsigned i = 0; i < r->blocked_count; i++) {
        struct change_blocked *b = &r->blocked[i];
        if (b->crowded == NULL || (t != NULL && b->crowded != t))
            continue;
        if (first == NULL || b->until.ns < first->until.ns)
            first = b;
    }
    if (first == NULL)
        return;
    first->until.ns = 0;
    first->crowded = NULL;
    r->change->lacking = true; /* the runner is asked when this run is over */
}

bool change_lane_is_blocked(struct change_runner *r, const struct change_digest *lane, mono *until)
{
    mono now = clock_mono(r->change->opts.clock);
    for (unsigned i = 0; i < r->blocked_count; i++) {
        if (!lane_eq(&r->blocked[i].lane, lane))
            continue;
        *until = r->blocked[i].until;
        return until->ns > now.ns;
    }
    return false;
}

void change_lanes_open(struct change *c)
{
    for (unsigned i = 0; i < c->runners_count; i++) {
        struct change_runner *r = c->runners[i];
        if (r->blocked_count == 0 && r->wake_at.ns == INT64_MAX)
            continue;
        r->blocked_count = 0;
        change_runner_wake(r);
    }
}

/* When the first lane that waits has its time; those whose time it is are forgotten. */
static void blocked_wake(struct change_runner *r, mono now)
{
    for (unsigned i = 0; i < r->blocked_count;) {
        mono until = r->blocked[i].until;
        if (until.ns <= now.ns) {
            r->blocked[i] = r->blocked[--r->blocked_count];
            r->more = true;
            continue;
        }
        r->wake_at = until.ns < r->wake_at.ns ? until : r->wake_at;
        i++;
    }
}

/* ---- targets of purges ---- */

bool change_target_is_closed(const uint64_t *closed, unsigned count, uint64_t target)
{
    for (unsigned i = 0; i < count; i++)
        if (closed[i] == target)
            return true;
    return false;
}

/* A purge is for one target of its rule, which may have a lane for each domain: more than can be
 * noted as waiting. So it is the target that is asked, before anything begins. */
static void closed_look(struct change_runner *r)
{
    uint64_t before[RULE_TARGETS_EACH_MAX];
    unsigned count = r->closed_count;
    if (count == 0 && r->blocked_count == 0) /* the first that finds it closed has its lane wait */
        return;
    memcpy(before, r->closed, sizeof before);
    r->closed_count = 0;
    for (unsigned i = 0; r->rule->effect == RULE_PURGE && i < r->rule->targets.count; i++) {
        char name[HTTP_ORIGIN_BYTES_MAX];
        mono until;
        if (http_client_origin(r->rule->targets.p[i], name) != ERR_OK)
            continue;
        struct change_target *t = map_get(r->change->targets, str_of(name));
        if (t == NULL || change_target_takes(r->change, t, &until))
            continue;
        r->closed[r->closed_count++] = change_target_hash(r->rule->targets.p[i]);
        r->wake_at = until.ns < r->wake_at.ns ? until : r->wake_at;
    }
    for (unsigned i = 0; i < count; i++) /* its items are looked for again */
        if (!change_target_is_closed(r->closed, r->closed_count, before[i]))
            r->more = true;
}

/* ---- targets of jobs ---- */

int64_t change_limit_of(const struct rule *rule, enum rule_by by, str name, str other)
{
    int64_t others = 0;
    for (unsigned i = 0; i < rule->concurrency_of[by].count; i++) {
        const struct rule_limit *l = &rule->concurrency_of[by].p[i];
        if (str_eq(l->name, name) || str_eq(l->name, other))
            return l->count;
        if (str_eq(l->name, STR("*")))
            others = l->count;
    }
    return others;
}

/* They run nothing yet, maybe, and might be forgotten to make room for another. */
static void targets_hold(struct change_target **t, unsigned count, bool held)
{
    for (unsigned i = 0; i < count; i++)
        if (t[i] != NULL)
            t[i]->running += held ? 1u : -1u;
}

/* The target that takes one more, and whose turn it is by the weights. NULL: none, and *until says
 * when to ask again. */
static struct change_target *target_choose(struct change_runner *r, str *url, mono *until)
{
    const struct rule *rule = r->rule;
    struct change_target *found[RULE_TARGETS_EACH_MAX] = { NULL };
    struct change_share shares[RULE_TARGETS_EACH_MAX];
    unsigned count = rule->targets.count;
    until->ns = INT64_MAX;
    for (unsigned n = 0; n < count; n++) {
        str one = rule->targets.p[n];
        char name[HTTP_ORIGIN_BYTES_MAX];
        mono later;
        shares[n] = (struct change_share){ .weight = rule->weights[n] };
        if (http_client_origin(one, name) != ERR_OK)
            continue;
        targets_hold(found, n, true);
        struct change_target *t = change_target_of(r->change, str_of(name));
        targets_hold(found, n, false);
        if (t == NULL) /* too many are in use; nobody tells when one is not any more */
            later = mono_add_ms(clock_mono(r->change->opts.clock), CHANGE_AGAIN_MS);
        if (t == NULL || !change_target_takes(r->change, t, &later)) {
            *until = later.ns < until->ns ? later : *until;
            continue;
        }
        int64_t limit = change_limit_of(rule, RULE_BY_TARGET, one, str_of(name));
        if (limit > 0 && t->running >= limit) {
            r->change->lacking = true; /* asked again when any run ends */
            continue;
        }
        found[n] = t;
        shares[n].takes = true;
        shares[n].running = t->running;
    }
    unsigned turn = change_share_turn(&r->shares, shares, count);
    if (turn == count)
        return NULL;
    *url = rule->targets.p[turn];
    return found[turn];
}

/* ---- beginning ---- */

enum takes { TAKES, TAKES_LATER, TAKES_NONE };

static bool limits_take(const struct change_runner *r, const struct change_candidate *c)
{
    for (unsigned by = 0; by < CHANGE_BYS; by++)
        if (c->limits[by] > 0 && change_running_by(r, c->keys[by]) >= c->limits[by])
            return false;
    return true;
}

/* LATER: this one not, others maybe. NONE: nothing of this rule for now. */
static enum takes runner_takes(struct change_runner *r, const struct change_candidate *c,
                               struct change_target **target, str *url)
{
    mono until = { .ns = INT64_MAX };
    *target = NULL;
    if (!limits_take(r, c) || change_lane_is_blocked(r, &c->lane, &until))
        return TAKES_LATER;
    if (r->rule->effect != RULE_JOB)
        return TAKES;
    *target = target_choose(r, url, &until);
    if (*target == NULL && until.ns < r->wake_at.ns)
        r->wake_at = until;
    return *target == NULL ? TAKES_NONE : TAKES;
}

static void window_remove(struct change_runner *r, unsigned i)
{
    r->window_count--;
    memmove(&r->window[i], &r->window[i + 1], (r->window_count - i) * sizeof r->window[0]);
}

/* Items whose lane or target waits would only take room. */
static void window_clear_blocked(struct change_runner *r)
{
    mono until;
    for (unsigned i = 0; i < r->window_count;)
        if (change_lane_is_blocked(r, &r->window[i].lane, &until) ||
            change_target_is_closed(r->closed, r->closed_count, r->window[i].target))
            window_remove(r, i);
        else
            i++;
}

/* What all rules together may run, and hold of events. */
static bool crowd_takes(struct change *c, const struct change_candidate *item)
{
    bool bytes = c->run_bytes == 0 || c->run_bytes + item->bytes <= CHANGE_RUN_BYTES_MAX;
    if (bytes && c->running < CHANGE_CONNECTIONS_MAX)
        return true;
    c->crowded = true;
    return false;
}

/* Those that did not begin for the others may now. The first to be asked is another each time. */
void change_crowd_end(struct change *c)
{
    c->crowded = c->lacking = false;
    for (unsigned i = 0; i < c->runners_count && !c->crowded; i++)
        change_runner_fill(c->runners[(c->crowd_turn + i) % c->runners_count]);
    c->crowd_turn++;
}

static void runner_begin(struct change_runner *r, mono now)
{
    struct change *c = r->change;
    for (unsigned i = 0; i < r->window_count && r->running < change_runner_concurrency(r);) {
        struct change_target *target;
        str url = STR("");
        const struct change_candidate item = r->window[i];
        if (!crowd_takes(c, &item) || !rate_takes(r, now))
            return;
        enum takes takes = runner_takes(r, &item, &target, &url);
        if (takes == TAKES_NONE)
            return;
        if (takes == TAKES_LATER) {
            i++;
            continue;
        }
        window_remove(r, i);
        rate_begin(r, now);
        change_run_start(r, &item, target, url);
    }
}

void change_runner_wake(struct change_runner *r)
{
    r->more = true;
    change_runner_fill(r);
}

void change_runner_fill(struct change_runner *r)
{
    struct change *c = r->change;
    if (!c->begun || c->draining || r->paused || r->holds > 0 || r->rule == NULL)
        return;
    mono now = clock_mono(c->opts.clock);
    r->wake_at.ns = INT64_MAX;
    blocked_wake(r, now);
    closed_look(r);
    window_clear_blocked(r);
    if (r->rests_until.ns > now.ns) {
        r->more = true;
        change_arm(c, r->rests_until);
        r->wake_at = r->rests_until;
        return;
    }
    runner_begin(r, now);
    bool looks = r->more && r->pick == NULL && r->window_count <= CHANGE_WINDOW / 2 &&
                 r->running < change_runner_concurrency(r);
    if (looks && r->look_after.ns > now.ns)
        r->wake_at = r->look_after.ns < r->wake_at.ns ? r->look_after : r->wake_at;
    else if (looks)
        change_pick_start(r);
    if (r->wake_at.ns != INT64_MAX)
        change_arm(c, r->wake_at);
}
