/* router.c - follows the event log: reads some events, asks the rules, and writes the items with
 * the place it has come to.
 *
 *   IDLE --kick--> READING (a job on the pool) --> WRITING (an update) --> IDLE, and again if there
 * is
 *                     \-- nothing to write: IDLE
 *
 * Invariants: 1. What is written of the head is behind all items of the events before it: they are
 * written together. 2. The head in memory may be ahead of that on disk by events for which nobody
 * wanted anything: after a kill these are asked about again, and give nothing again. 3. A replay
 * goes the same way for one rule, between two turns of the rest; its place stands in the rule's
 * row. */
#include "change/change_impl.h"

#include <stdlib.h>
#include <string.h>

enum {
    ROUTER_LOOKS_MAX = 1024, /* events in one turn */
    ROUTER_BYTES_MAX = 4 << 20,
    ROUTER_TURN_MS = 50,        /* after which a turn takes no more events */
    ROUTER_IDLE_EVENTS = 20000, /* the head goes to disk at least every so many, */
    ROUTER_IDLE_MS = 5000,      /* and so often */
    ROUTER_ARENA_BYTES_MAX = 64 << 20,
    LOOP_SILENT_MS = 60 * 1000,
};

static void router_fail(struct change *c, const char *what, err why)
{
    struct change_router *r = &c->router;
    change_failed(c, &c->fails_router, "change.router", what, why);
    r->again_at = mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS);
    if (c->wanted_count > 0)
        r->caught = c->wanted[0].until; /* what is left is for the rules to come */
    change_arm(c, r->again_at);
}

/* ---- reading, on the pool ---- */

struct router_reading {
    const struct event_read *read;
    struct change_batch *batch;
    mono until;      /* of the turn */
    uint64_t behind; /* the last event that was routed */
    err why;
};

/* Events that the log removed before the rules were asked about them. */
static void missed_count(struct change_batch *b, const struct event_read *read)
{
    if (b->is_replay || read->missed <= b->head.cursor || read->removed <= b->head.count)
        return;
    b->head.missed += read->removed - b->head.count;
    b->head.missed_at = clock_store(b->change->opts.clock);
    b->head.count = read->removed;
    b->head.cursor = read->missed;
}

static void reading_take(void *ctx, const struct event_seen *e, str bytes)
{
    struct router_reading *g = ctx;
    struct change_batch *b = g->batch;
    missed_count(b, g->read);
    if (b->past || b->full || g->why != ERR_OK || (b->is_replay && e->seq > b->replay_until))
        return;
    b->past = b->until != 0 && e->seq > b->until; /* and not full: all up to there was taken */
    if (b->past)
        return;
    g->why = change_route_event(b, e, bytes);
    if (g->why != ERR_OK)
        return;
    b->head.cursor = e->seq;
    b->head.count = e->count;
    b->head.at = e->at;
    /* Patterns may take long. What is routed has its effects, and a drain ends, meanwhile. */
    b->full |= clock_mono(b->change->opts.clock).ns >= g->until.ns;
}

static void router_read(struct loop_job *j)
{
    struct change_router *r = CONTAINER_OF(j, struct change_router, job);
    struct change_batch *b = &r->batch;
    struct event_read read = { .after = b->head.cursor,
                               .looks_max = ROUTER_LOOKS_MAX,
                               .bytes_max = ROUTER_BYTES_MAX,
                               .take = reading_take };
    mono began = clock_mono(b->change->opts.clock);
    struct router_reading g = { .read = &read,
                                .batch = b,
                                .until = mono_add_ms(began, ROUTER_TURN_MS) };
    read.ctx = &g;
    r->why = event_log_read(b->change->opts.events, &read);
    if (r->why == ERR_OK) { /* also when none is left that could be taken */
        missed_count(b, &read);
        r->why = g.why;
    }
    bool cut = b->full || g.why != ERR_OK;
    if (!cut && !b->past) /* events that are damaged, or gone, are passed over */
        b->head.cursor = read.after > b->head.cursor ? read.after : b->head.cursor;
    r->more = read.more || cut || b->past;
    if (b->is_replay && !r->more && b->head.cursor < b->replay_until)
        b->head.cursor = b->replay_until;
}

/* ---- writing, on the committer ---- */

static err place_put(struct change_edit *e, const struct change_batch *b)
{
    struct change_key key;
    char value[CHANGE_HEAD_BYTES];
    struct change_rule_row row;
    if (!b->is_replay) {
        change_key_head(&key);
        return engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&key),
                              change_head_encode(&b->head, value), STR_NONE);
    }
    str name = rule_set_at(b->ruled->set, b->rule)->name;
    err why = change_rule_get(engine_txn_view(e->txn), name, &row);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    bool over = b->head.cursor >= b->replay_until;
    row.replay_after = over ? 0 : b->head.cursor;
    row.replay_until = over ? 0 : b->replay_until;
    return change_rule_put(e->txn, name, &row);
}

static err router_decide(struct engine_txn *t, void *ctx)
{
    struct change_router *r = ctx;
    struct change_batch *b = &r->batch;
    err why = ERR_OK;
    if (atomic_load(&b->ruled->generation) != atomic_load(&b->change->generations))
        return ERR_CONFLICT; /* other rules were taken over since: they are to be asked */
    change_edit_begin(&r->edit, t);
    unsigned count = rule_set_count(b->ruled->set);
    for (unsigned i = 0; i < count; i++)
        b->by[i].collapsed = b->by[i].needless = b->by[i].kept = 0;
    for (unsigned i = 0; i < b->count && why == ERR_OK; i++) {
        enum change_routed how = CHANGE_MADE;
        why = change_item_route(&r->edit, &b->routes[i], &how);
        b->by[b->routes[i].index].collapsed += how == CHANGE_COLLAPSED;
        b->by[b->routes[i].index].needless += how == CHANGE_NEEDLESS;
    }
    for (unsigned i = 0; i < b->noted_count && why == ERR_OK; i++) {
        bool had = false;
        why = change_timeline_note(t, &b->noted[i], &had);
        b->by[b->noted[i].index].collapsed += had;
        b->by[b->noted[i].index].kept += !had;
    }
    if (why == ERR_OK)
        why = change_edit_end(&r->edit);
    return why == ERR_OK ? place_put(&r->edit, b) : why;
}

static void router_written(void *ctx, err why)
{
    struct change_router *r = ctx;
    r->why = why;
    home_post(loop_home(r->batch.change->opts.loop), &r->task);
}

/* ---- on the loop ---- */

static void batch_fini(struct change_batch *b)
{
    if (b->event != NULL)
        change_event_give(b->ruled, b->event);
    change_ruled_unref(&b->ruled);
    arena_fini(&b->arena);
    free(b->by);
    free(b->routes);
    free(b->noted);
    *b = (struct change_batch){ .change = b->change };
}

/* One line a minute for each rule at most. */
static void loop_say(struct change *c, struct change_runner *r, unsigned events)
{
    mono now = clock_mono(c->opts.clock);
    r->looped += events;
    if (events == 0 || now.ns < r->loop_silent_until.ns)
        return;
    log_event(c->opts.log, LOG_ERROR, "change.loop", LOG_CSTR("rule", r->name),
              LOG_INT("events", r->looped - r->loop_said), LOG_INT("hops", CHANGE_HOPS_MAX),
              LOG_CSTR("what", "effects of rules led to these events one after another, so often: "
                               "rules feed each other. Nothing is done about the events"));
    r->loop_said = r->looped;
    r->loop_silent_until = mono_add_ms(now, LOOP_SILENT_MS);
}

static void figures_add(struct change *c, const struct change_batch *b)
{
    for (unsigned i = 0; i < rule_set_count(b->ruled->set); i++) {
        struct change_runner *runner = change_runner_numbered(c, b->ruled->rules[i].number);
        if (runner == NULL)
            continue;
        runner->matched += b->by[i].matched;
        runner->collapsed += b->by[i].collapsed;
        runner->refused += b->by[i].refused;
        runner->dropped += b->by[i].needless + b->by[i].too_old;
        loop_say(c, runner, b->by[i].looped);
        runner->ignored += b->by[i].ignored;
        runner->sampled += b->by[i].sampled;
        runner->done += b->by[i].kept;
        if (b->by[i].matched > 0)
            change_runner_wake(runner);
    }
}

static void missed_say(struct change *c, const struct change_batch *b)
{
    uint64_t missed = b->head.missed - c->router.head.missed;
    if (missed > 0)
        log_event(c->opts.log, LOG_ERROR, "change.missed", LOG_INT("events", missed),
                  LOG_CSTR("what", "the event log had removed them before the rules were asked: "
                                   "change.retention and change.bytes_max say how long it keeps "
                                   "them"));
}

static void replay_went_on(struct change *c, const struct change_batch *b)
{
    struct change_runner *runner = change_runner_numbered(c, b->ruled->rules[b->rule].number);
    if (runner == NULL || runner->replay_until != b->replay_until)
        return;
    runner->replay_after = b->head.cursor;
    if (b->head.cursor >= b->replay_until)
        runner->replay_until = 0;
}

/* The batch is done with; was it written? */
static void router_over(struct change *c, bool written)
{
    struct change_router *r = &c->router;
    struct change_batch *b = &r->batch;
    figures_add(c, b);
    if (!b->is_replay) {
        missed_say(c, b);
        r->head = b->head;
    } else {
        replay_went_on(c, b);
    }
    if (written && !b->is_replay) {
        r->written = b->head;
        r->written_at = clock_mono(c->opts.clock);
    }
    if (!b->is_replay && r->more)
        r->told = true;
    bool caught = b->until != 0 && (b->past || !r->more);
    if (caught)
        r->caught = b->until;
    batch_fini(b);
    r->state = ROUTER_IDLE;
    change_busy(c, -1);
    if (caught || c->take_waits)
        change_take_begin(c);
    change_router_kick(c);
}

static void router_task(struct task *t)
{
    struct change_router *r = CONTAINER_OF(t, struct change_router, task);
    struct change *c = CONTAINER_OF(r, struct change, router);
    change_lock(c);
    if (r->why == ERR_OK) {
        change_due_at(c, r->edit.next_due);
        router_over(c, true);
    } else {
        if (r->why != ERR_CONFLICT) /* then the new rules come into force, and kick */
            router_fail(c, "items could not be written", r->why);
        r->told = true;
        batch_fini(&r->batch);
        r->state = ROUTER_IDLE;
        change_busy(c, -1);
        if (!c->ahead)
            change_router_kick(c);
    }
    change_unlock(c);
}

static bool must_write(struct change *c)
{
    const struct change_router *r = &c->router;
    const struct change_batch *b = &r->batch;
    mono due = mono_add_ms(r->written_at, ROUTER_IDLE_MS);
    return b->count > 0 || b->noted_count > 0 || b->is_replay || b->head.missed > r->head.missed ||
           b->head.count - r->written.count >= ROUTER_IDLE_EVENTS ||
           (b->head.cursor > r->written.cursor && clock_mono(c->opts.clock).ns >= due.ns);
}

/* It has asked other rules than are to be asked, or will be. */
static bool batch_is_stale(const struct change *c, const struct change_batch *b)
{
    return b->ruled != c->ruled ||
           (c->wanted_count > 0 && !b->is_replay && b->until == 0 &&
            b->head.cursor > c->wanted[0].until && c->router.caught != c->wanted[0].until);
}

static void router_was_read(struct loop_job *j, bool canceled)
{
    struct change_router *r = CONTAINER_OF(j, struct change_router, job);
    struct change *c = CONTAINER_OF(r, struct change, router);
    change_lock(c);
    if (!canceled && r->why == ERR_OK && batch_is_stale(c, &r->batch)) {
        r->told = true; /* once more, by the right ones */
        batch_fini(&r->batch);
        r->state = ROUTER_IDLE;
        change_busy(c, -1);
        change_router_kick(c);
    } else if (!canceled && r->why == ERR_OK && must_write(c)) {
        r->state = ROUTER_WRITING;
        r->update =
            (struct engine_update){ .decide = router_decide, .done = router_written, .ctx = r };
        engine_submit(c->opts.engine, &r->update);
    } else if (!canceled && r->why == ERR_OK) {
        router_over(c, false);
    } else {
        if (!canceled)
            router_fail(c, "the event log could not be read", r->why);
        r->told = true;
        batch_fini(&r->batch);
        r->state = ROUTER_IDLE;
        change_busy(c, -1);
    }
    change_unlock(c);
}

/* The next rule that is being replayed; false: there is none. */
static bool replay_find(struct change *c, struct change_batch *b)
{
    for (unsigned i = 0; i < c->runners_count; i++) {
        const struct change_runner *runner = c->runners[i];
        if (runner->rule == NULL || runner->replay_until == 0)
            continue;
        b->is_replay = true;
        b->rule = runner->rule->index;
        b->replay_until = runner->replay_until;
        b->head.cursor = runner->replay_after;
        return true;
    }
    return false;
}

static void router_begin(struct change *c, bool replay)
{
    struct change_router *r = &c->router;
    struct change_batch *b = &r->batch;
    *b = (struct change_batch){ .change = c, .head = r->head };
    if (replay && !replay_find(c, b))
        return;
    if (!replay && c->wanted_count > 0 && r->caught != c->wanted[0].until)
        b->until = c->wanted[0].until;
    b->ruled = change_ruled_ref(c->ruled);
    b->event = change_event_take(b->ruled);
    arena_init(&b->arena, ROUTER_ARENA_BYTES_MAX);
    b->by = calloc(rule_set_count(b->ruled->set) + 1, sizeof *b->by);
    INVARIANT(b->by != NULL);
    change_samplers_take(c, b);
    r->state = ROUTER_READING;
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &r->job);
}

static bool replays_any(const struct change *c)
{
    for (unsigned i = 0; i < c->runners_count; i++)
        if (c->runners[i]->rule != NULL && c->runners[i]->replay_until != 0)
            return true;
    return false;
}

/* What was looked at, and gave nothing, is known on disk, too, after a while: or retention would
 * take it for missed. */
static bool head_is_stale(struct change *c)
{
    struct change_router *r = &c->router;
    mono due = mono_add_ms(r->written_at, ROUTER_IDLE_MS);
    if (r->head.cursor <= r->written.cursor)
        return false;
    if (clock_mono(c->opts.clock).ns >= due.ns)
        return true;
    change_arm(c, due);
    return false;
}

void change_router_kick(struct change *c)
{
    struct change_router *r = &c->router;
    bool later = r->again_at.ns != 0 && clock_mono(c->opts.clock).ns < r->again_at.ns;
    if (!c->begun || c->draining || c->taking || r->state != ROUTER_IDLE || later ||
        rule_set_count(c->ruled->set) == 0)
        return;
    r->again_at.ns = 0;
    if (head_is_stale(c))
        r->told = true;
    bool replay = replays_any(c) && (r->turn || !r->told);
    if (!replay && !r->told)
        return;
    r->turn = !replay;
    if (!replay)
        r->told = false;
    router_begin(c, replay);
}

bool change_router_ends(struct change *c)
{
    struct change_router *r = &c->router;
    bool ends = !c->begun || rule_set_count(c->ruled->set) == 0 || r->caught == c->wanted[0].until;
    c->take_waits = ends && r->state != ROUTER_IDLE;
    if (!ends) {
        r->told = true;
        change_router_kick(c);
    }
    return ends && !c->take_waits;
}

static void router_told(void *ctx)
{
    struct change *c = ctx;
    change_lock(c);
    c->router.told = true;
    change_router_kick(c);
    change_unlock(c);
}

void change_router_open(struct change *c, const struct change_head *head)
{
    struct change_router *r = &c->router;
    *r = (struct change_router){ .told = true,
                                 .job = { .run = router_read, .done = router_was_read },
                                 .task = { .run = router_task },
                                 .head = *head,
                                 .written = *head,
                                 .written_at = clock_mono(c->opts.clock) };
    const struct event_follower f = { .told = router_told,
                                      .ctx = c,
                                      .home = loop_home(c->opts.loop) };
    event_log_follow(c->opts.events, &f);
}
