/* aside.c - dead items step aside when their rule does not have them hold up others any more.
 *
 * A dead item of a rule with `on_failure: hold` keeps its place before the next of its title. One
 * of a rule that collapses keeps it, too: a newer event brings it back. When the rule of that name
 * is another one later, what waits behind such an item would wait for ever. So the dead items are
 * looked through after the start, whenever rules were taken over, and when an item has died by a
 * rule that is not in force any more.
 *   Invariant: an update is by the rules that are in force in the store then: it is refused when
 * others were taken over. */
#include "change/change_impl.h"

#include <stdlib.h>

/* Items that one update moves. */
enum { ASIDE_BATCH = 256 };

/* One rule of the job at a time. ruled is the job's, with a reference. */
struct aside {
    struct change *change;
    struct change_ruled *ruled;
    const struct rule *rule;
    uint32_t number;
    uint64_t from; /* the next dead item to look at */
    bool more;
    uint64_t ids[ASIDE_BATCH];
    unsigned count;
    struct change_edit edit;
};

/* What collapses keeps its key when it is dead, so a newer event finds it. */
static bool collapses(const struct rule *r)
{
    return r->collapse != RULE_COLLAPSE_NONE;
}

/* By such a rule dead items keep their places: nothing has to be looked for. */
static bool lets_dead_hold(const struct rule *r)
{
    return !collapses(r) && r->on_failure == RULE_FAILURE_HOLD;
}

/* ---- on the pool ---- */

/* The item may have no order any more, or be the only one with it: then it holds nobody up. */
static err aside_look(struct aside *a, struct engine_view *v, uint64_t id)
{
    struct change_item_kept item;
    bool alone = false;
    err why = change_item_get(v, a->number, id, &item);
    if (why == ERR_NOT_FOUND || why == ERR_CORRUPT) /* palimpsest check tells of it */
        return ERR_OK;
    if (why == ERR_OK && collapses(a->rule))
        why = change_order_alone(v, a->number, &item.row.order, &alone);
    if (why == ERR_OK && !alone && !change_digest_is_none(&item.row.order))
        a->ids[a->count++] = id;
    return why;
}

/* The next dead items that are to step aside. a->from is behind the last one that was looked at. */
static err aside_find(struct aside *a)
{
    struct change_key from, prefix;
    struct engine_row row;
    uint32_t rule;
    uint64_t id;
    unsigned looks = 0;
    err why = ERR_OK;
    change_key_dead(&from, a->number, a->from);
    change_key_dead(&prefix, a->number, 0);
    struct engine_view *v = engine_view_begin(a->change->opts.engine);
    struct engine_cursor *c =
        change_rows_open(v, str_take(change_key_str(&prefix), prefix.n - sizeof id),
                         change_key_str(&from));
    a->count = 0;
    /* Looks are bounded as well: most dead items may have stepped aside long ago. */
    while (a->count < ASIDE_BATCH && looks++ < CHANGE_LOOKS_MAX &&
           (why = change_rows_next(c, &row)) == ERR_OK) {
        if (!change_key_item_parse(row.key, &rule, &id))
            continue;
        a->from = id + 1;
        why = aside_look(a, v, id);
        if (why != ERR_OK)
            break;
    }
    engine_cursor_close(&c);
    engine_view_end(&v);
    a->more = why == ERR_OK;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* On the committer. ERR_CONFLICT: other rules were taken over, and the job that follows goes by
 * those. */
static err aside_decide(struct engine_txn *t, void *ctx)
{
    struct aside *a = ctx;
    err why = ERR_OK;
    /* Both numbers change on the committer alone. */
    if (atomic_load(&a->ruled->generation) != atomic_load(&a->change->generations))
        return ERR_CONFLICT;
    change_edit_begin(&a->edit, t);
    for (unsigned i = 0; i < a->count && why == ERR_OK; i++)
        why = change_item_aside(&a->edit, a->number, a->ids[i], collapses(a->rule));
    return why == ERR_OK ? change_edit_end(&a->edit) : why;
}

static bool is_over(struct change *c)
{
    change_lock(c);
    bool over = c->draining;
    change_unlock(c);
    return over;
}

/* Batch after batch, until none is left or the server ends. frees: also on a full disk. */
static err aside_rule(struct aside *a, bool *moved)
{
    struct engine_update update = { .decide = aside_decide, .ctx = a, .frees = true };
    err why = ERR_OK;
    a->from = 0;
    a->more = true;
    while (a->more && why == ERR_OK && !is_over(a->change)) {
        why = aside_find(a);
        if (why != ERR_OK || a->count == 0)
            continue;
        update.deadline = change_update_deadline(a->change);
        why = engine_submit_wait(a->change->opts.engine, &update);
        /* Runners are told only when something may have become ready. */
        *moved |= why == ERR_OK;
    }
    return why;
}

/* Thread: pool. Rule after rule; the first error ends the job. */
static void aside_run(struct loop_job *j)
{
    struct change *c = CONTAINER_OF(j, struct change, aside.job);
    struct aside *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    a->change = c;
    a->ruled = c->aside.ruled;
    c->aside.why = ERR_OK;
    for (unsigned i = 0; i < rule_set_count(a->ruled->set) && c->aside.why == ERR_OK; i++) {
        a->rule = rule_set_at(a->ruled->set, i);
        a->number = a->ruled->rules[i].number;
        if (!lets_dead_hold(a->rule))
            c->aside.why = aside_rule(a, &c->aside.moved);
    }
    free(a);
}

/* ---- on the loop ---- */

/* Loop. A conflict is no failure: taking over other rules wants this job anew. */
static void aside_done(struct loop_job *j, bool canceled)
{
    struct change *c = CONTAINER_OF(j, struct change, aside.job);
    change_lock(c);
    change_ruled_unref(&c->aside.ruled);
    bool failed = canceled || (c->aside.why != ERR_OK && c->aside.why != ERR_CONFLICT);
    if (c->aside.moved) {
        /* What comes next may be due later, or at once. */
        change_due_at(c, STORE_TIME_ZERO);
        for (unsigned i = 0; i < c->runners_count; i++)
            change_runner_wake(c->runners[i]);
    }
    c->aside.moved = false;
    c->aside.goes = false;
    if (failed) {
        if (!canceled)
            change_failed(c, &c->fails_aside, "change.aside",
                          "dead items could not step aside for those behind them", c->aside.why);
        c->aside.wanted = true;
        change_arm(c, mono_add_ms(clock_mono(c->opts.clock), CHANGE_AGAIN_MS));
    } else {
        change_aside_kick(c);
    }
    change_busy(c, -1);
    change_unlock(c);
}

void change_aside_want(struct change *c)
{
    c->aside.wanted = true;
    change_aside_kick(c);
}

/* Begins the job, unless one is under way: aside_done looks at wanted again. */
void change_aside_kick(struct change *c)
{
    if (!c->begun || c->draining || c->aside.goes || !c->aside.wanted)
        return;
    c->aside.wanted = false;
    c->aside.goes = true;
    c->aside.ruled = change_ruled_ref(c->ruled);
    c->aside.job = (struct loop_job){ .run = aside_run, .done = aside_done };
    change_busy(c, 1);
    loop_job_start(c->opts.loop, &c->aside.job);
}
