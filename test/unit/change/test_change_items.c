/* Goal: items move from state to state as items.h says, whatever comes in which order, and their
 * rows hold among each other. Method: random updates on an engine in memory against a plain model.
 * After each update the rows are checked (change_check), and each item of the model is compared
 * with its row. ITEMS_SEED runs one seed alone, ITEMS_STEPS so many updates; the seed is printed by
 * a failure. */
#include "../bucket/engine_mem.h"
#include "base/buf.h"
#include "base/rng.h"
#include "change/items.h"
#include "engine/store.h"
#include "lib/clock.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STEPS = 12000,
    ITEMS_MAX = 512,
    OPS_MAX = 6,
    RULES = 4,
    TITLES = 3,
    RETRIES = 2,
    DELAY_MAX = 50,
};
#define EPOCH (1800000000 * NS_PER_S)

/* The bytes of an event: one in three is shared by its items. */
static char large[CHANGE_OWN_BYTES_MAX + 256];

static str bytes_of(uint64_t seq)
{
    return (str){ .p = large, .n = seq % 3 == 0 ? CHANGE_OWN_BYTES_MAX + 1 + seq % 255 : seq % 99 };
}

/* What the rules are, by number less one. */
static const struct {
    bool ordered, collapses, holds;
} kinds[RULES] = {
    { true, false, false }, { true, false, true }, { true, true, false }, { false, false, false }
};

/* ---- the model ---- */

struct thing {
    bool there, ordered, again;
    uint32_t rule;
    unsigned title; /* its order, when it has one; and its lane */
    uint64_t id, seq;
    enum change_state state;
    unsigned attempts;
    int64_t due;
};

enum op_kind { OP_ROUTE, OP_SETTLE, OP_WAKE, OP_RETRY, OP_DROP, OP_ASIDE };
struct op {
    enum op_kind kind;
    struct change_route route;
    struct change_settle settle;
    uint32_t rule;
    uint64_t id;
    /* out */
    enum change_routed how;
    bool died;
};
struct world {
    struct rng rng;
    uint64_t seed, step;
    struct fake_clock clock;
    struct engine *engine;
    struct thing things[ITEMS_MAX];
    uint64_t seq;
    store_time next_due; /* as somebody knows it who hears of each update alone */
    /* this update */
    struct op ops[OPS_MAX];
    unsigned ops_count;
    struct change_edit edit;
    bool woke;
};

static unsigned below(struct world *w, unsigned n)
{
    return (unsigned)rng_below(&w->rng, n);
}

static int64_t now_ns(struct world *w)
{
    return clock_store(&w->clock.clock).ns;
}

static struct thing *thing_find(struct world *w, uint32_t rule, uint64_t id)
{
    for (unsigned i = 0; i < ITEMS_MAX; i++)
        if (w->things[i].there && w->things[i].rule == rule && w->things[i].id == id)
            return &w->things[i];
    return NULL;
}

/* The first of its order; NULL: there is none. */
static struct thing *thing_first(struct world *w, uint32_t rule, unsigned title)
{
    struct thing *first = NULL;
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        struct thing *t = &w->things[i];
        if (t->there && t->ordered && t->rule == rule && t->title == title &&
            (first == NULL || t->id < first->id))
            first = t;
    }
    return first;
}

static void thing_move(struct world *w, struct thing *t, enum change_state state, int64_t due)
{
    t->state = state;
    t->due = due;
    w->woke |= state == CHANGE_READY;
}

static enum change_state state_at(struct world *w, int64_t due)
{
    return due > now_ns(w) ? CHANGE_SCHEDULED : CHANGE_READY;
}

/* One that did not wait has left its order: the first of the others goes on. */
static void order_left(struct world *w, const struct thing *t)
{
    struct thing *next = thing_first(w, t->rule, t->title);
    if (t->state != CHANGE_WAITING && next != NULL)
        thing_move(w, next, state_at(w, next->due), next->due);
}

static void thing_drop(struct world *w, struct thing *t)
{
    t->there = false;
    if (t->ordered)
        order_left(w, t);
}

static void thing_make(struct world *w, const struct change_route *r, unsigned title, bool waits)
{
    unsigned i = 0;
    while (i < ITEMS_MAX && w->things[i].there)
        i++;
    assert_true(i < ITEMS_MAX);
    struct thing *t = &w->things[i];
    *t = (struct thing){ .there = true,
                         .rule = r->rule,
                         .ordered = kinds[r->rule - 1].ordered,
                         .title = title,
                         .id = r->id,
                         .seq = r->seq };
    thing_move(w, t, waits ? CHANGE_WAITING : state_at(w, r->due.ns), r->due.ns);
}

static enum change_routed model_route(struct world *w, const struct change_route *r)
{
    unsigned title = r->lane.p[1];
    bool ordered = kinds[r->rule - 1].ordered;
    struct thing *first = ordered ? thing_first(w, r->rule, title) : NULL;
    if (r->collapses && first != NULL) {
        if (r->seq < first->seq)
            return CHANGE_COLLAPSED;
        first->seq = r->seq;
        first->attempts = 0;
        first->again = false;
        int64_t due =
            first->state == CHANGE_SCHEDULED && first->due < r->due.ns ? first->due : r->due.ns;
        if (first->state != CHANGE_READY)
            thing_move(w, first, state_at(w, due), due);
        return CHANGE_COLLAPSED;
    }
    if (!r->collapses && thing_find(w, r->rule, r->id) != NULL)
        return CHANGE_HAD;
    thing_make(w, r, title, first != NULL);
    return CHANGE_MADE;
}

/* *died is what is to come out. */
static void model_settle(struct world *w, const struct change_settle *s, bool *died)
{
    struct thing *t = thing_find(w, s->rule, s->id);
    *died = false;
    if (t == NULL || t->state != CHANGE_READY)
        return;
    bool newer = t->seq != s->seq;
    bool done = s->how == SETTLED_DONE || s->how == SETTLED_AGAIN;
    bool once_more = s->how == SETTLED_AGAIN && !t->again;
    if (done && !newer && !once_more) {
        thing_drop(w, t);
        return;
    }
    int64_t again = s->again_at.ns;
    if (newer || once_more) {
        int64_t due = done && newer ? t->due : again;
        t->attempts = 0;
        t->again = !newer;
        thing_move(w, t, state_at(w, due), due);
        return;
    }
    t->attempts++;
    *died = s->how == SETTLED_DEAD || t->attempts > RETRIES;
    if (!*died) {
        thing_move(w, t, state_at(w, again), again);
        return;
    }
    t->state = CHANGE_DEAD;
    if (s->holds || s->collapses)
        return;
    bool ordered = t->ordered;
    t->ordered = false;
    if (ordered)
        order_left(w, t);
}

static void model_wake(struct world *w, struct thing *t, bool fresh)
{
    if (t->state != CHANGE_SCHEDULED && t->state != CHANGE_DEAD)
        return;
    if (fresh)
        t->attempts = 0;
    thing_move(w, t, CHANGE_READY, t->due);
}

static unsigned others_of(struct world *w, const struct thing *t)
{
    unsigned count = 0;
    for (unsigned i = 0; i < ITEMS_MAX; i++)
        count += w->things[i].there && w->things[i].ordered && w->things[i].rule == t->rule &&
                 w->things[i].title == t->title && &w->things[i] != t;
    return count;
}

static void model_aside(struct world *w, struct thing *t)
{
    if (t->state != CHANGE_DEAD || !t->ordered ||
        (kinds[t->rule - 1].collapses && others_of(w, t) == 0))
        return;
    t->ordered = false;
    order_left(w, t);
}

static void model_op(struct world *w, const struct op *o)
{
    struct thing *t = thing_find(w, o->rule, o->id);
    bool died;
    switch (o->kind) {
    case OP_ROUTE:
        assert_int_equal(model_route(w, &o->route), o->how);
        break;
    case OP_SETTLE:
        model_settle(w, &o->settle, &died);
        assert_int_equal(died, o->died);
        break;
    case OP_WAKE:
    case OP_RETRY:
        if (t != NULL)
            model_wake(w, t, o->kind == OP_RETRY);
        break;
    case OP_DROP:
        if (t != NULL)
            thing_drop(w, t);
        break;
    case OP_ASIDE:
        if (t != NULL)
            model_aside(w, t);
        break;
    }
}

/* ---- what happens ---- */

static void draw_route(struct world *w, struct op *o)
{
    uint32_t rule = 1 + below(w, RULES);
    unsigned title = below(w, TITLES);
    bool again = below(w, 5) == 0 && w->seq > 20; /* a replay asks about an older event */
    uint64_t seq = again ? w->seq - below(w, 20) : ++w->seq;
    struct change_route *r = &o->route;
    title = (unsigned)(seq * 2654435761u >> 7) % TITLES; /* an event has one title, ever */
    *r = (struct change_route){ .rule = rule,
                                .id = seq * CHANGE_SUBS,
                                .seq = seq,
                                .taken = { .ns = now_ns(w) },
                                .due = { .ns = now_ns(w) },
                                .lane = { .p = { 1, (unsigned char)title } },
                                .collapses = kinds[rule - 1].collapses,
                                .stream = STR("s"),
                                .domain = STR("d"),
                                .type = STR(""),
                                .bytes = bytes_of(seq) };
    if (below(w, 3) == 0)
        r->due.ns += 1 + below(w, DELAY_MAX);
    if (kinds[rule - 1].ordered)
        r->order = (struct change_digest){ .p = { 2, (unsigned char)title } };
}

/* One of the items, mostly one in that state; NULL: there are none. */
static struct thing *draw_thing(struct world *w, enum change_state state)
{
    unsigned from = below(w, ITEMS_MAX);
    bool any = below(w, 8) == 0;
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        struct thing *t = &w->things[(from + i) % ITEMS_MAX];
        if (t->there && (any || t->state == state))
            return t;
    }
    return NULL;
}

static void draw_settle(struct world *w, struct op *o, const struct thing *t)
{
    static const enum change_settled hows[] = { SETTLED_DONE,   SETTLED_DONE,   SETTLED_DONE,
                                                SETTLED_FAILED, SETTLED_FAILED, SETTLED_DEAD };
    o->settle = (struct change_settle){ .rule = t->rule,
                                        .id = t->id,
                                        .seq = t->seq - (below(w, 4) == 0),
                                        .how = hows[below(w, COUNT_OF(hows))],
                                        .holds = kinds[t->rule - 1].holds,
                                        .collapses = kinds[t->rule - 1].collapses,
                                        .retries = RETRIES,
                                        .again_at = { .ns = now_ns(w) + below(w, DELAY_MAX) },
                                        .error = STR("no") };
    if (!kinds[t->rule - 1].collapses)
        o->settle.seq = t->seq;
}

static void draw_op(struct world *w, unsigned there)
{
    static const enum op_kind often[] = { OP_ROUTE,  OP_ROUTE,  OP_ROUTE, OP_SETTLE, OP_SETTLE,
                                          OP_SETTLE, OP_SETTLE, OP_RETRY, OP_DROP,   OP_ASIDE };
    struct op *o = &w->ops[w->ops_count];
    *o = (struct op){ .kind = often[below(w, COUNT_OF(often))] };
    if (there > 60 && o->kind == OP_ROUTE)
        o->kind = OP_SETTLE;
    const struct thing *t =
        draw_thing(w, o->kind == OP_SETTLE                         ? CHANGE_READY
                      : o->kind == OP_RETRY || o->kind == OP_ASIDE ? CHANGE_DEAD
                                                                   : CHANGE_WAITING);
    if (o->kind == OP_ROUTE) {
        draw_route(w, o);
    } else if (t == NULL) {
        return;
    } else {
        o->rule = t->rule;
        o->id = t->id;
        if (o->kind == OP_SETTLE)
            draw_settle(w, o, t);
    }
    w->ops_count++;
}

/* Those that are due are woken, in one update, when the time has come that is known. */
static void draw_due(struct world *w)
{
    if (w->next_due.ns > now_ns(w))
        return;
    w->next_due = STORE_TIME_NEVER;
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        const struct thing *t = &w->things[i];
        if (!t->there || t->state != CHANGE_SCHEDULED)
            continue;
        if (t->due <= now_ns(w) && w->ops_count < OPS_MAX)
            w->ops[w->ops_count++] = (struct op){ .kind = OP_WAKE, .rule = t->rule, .id = t->id };
        else
            w->next_due = store_time_min(w->next_due, (store_time){ .ns = t->due });
    }
}

static err op_do(struct change_edit *e, struct op *o)
{
    err why = ERR_OK;
    switch (o->kind) {
    case OP_ROUTE:
        return change_item_route(e, &o->route, &o->how);
    case OP_SETTLE:
        return change_item_settle(e, &o->settle, &o->died);
    case OP_WAKE:
    case OP_RETRY:
        why = change_item_wake(e, o->rule, o->id, o->kind == OP_RETRY);
        break;
    case OP_DROP:
        why = change_item_drop(e, o->rule, o->id);
        break;
    case OP_ASIDE:
        why = change_item_aside(e, o->rule, o->id, kinds[o->rule - 1].collapses);
        break;
    }
    return why == ERR_NOT_FOUND ? ERR_OK : why; /* an earlier one of this update took it away */
}

static err ops_do(struct engine_txn *t, void *ctx)
{
    struct world *w = ctx;
    err why = ERR_OK;
    change_edit_begin(&w->edit, t);
    for (unsigned i = 0; i < w->ops_count && why == ERR_OK; i++)
        why = op_do(&w->edit, &w->ops[i]);
    return why == ERR_OK ? change_edit_end(&w->edit) : why;
}

/* ---- what must hold ---- */

static void damage_found(void *ctx, const char *what)
{
    const struct world *w = ctx;
    fail_msg("seed %llu, step %llu: %s", (unsigned long long)w->seed, (unsigned long long)w->step,
             what);
}

static void thing_expect(struct world *w, struct engine_view *v, const struct thing *t)
{
    struct change_item_kept k;
    assert_int_equal(change_item_get(v, t->rule, t->id, &k), ERR_OK);
    bool same = k.row.state == t->state && k.row.seq == t->seq && k.row.due.ns == t->due &&
                k.row.attempts == t->attempts && change_digest_is_none(&k.row.order) != t->ordered;
    if (!same)
        fail_msg("seed %llu, step %llu: rule %u, item %llu is %s, seq %llu, due %lld, attempts %u; "
                 "wanted %s, %llu, %lld, %u",
                 (unsigned long long)w->seed, (unsigned long long)w->step, t->rule,
                 (unsigned long long)t->id, change_state_name(k.row.state),
                 (unsigned long long)k.row.seq, (long long)k.row.due.ns, k.row.attempts,
                 change_state_name(t->state), (unsigned long long)t->seq, (long long)t->due,
                 t->attempts);
    assert_false(k.lost);
    assert_int_equal(k.blob.n, bytes_of(t->seq).n);
    assert_true(t->state != CHANGE_SCHEDULED || w->next_due.ns <= t->due);
}

/* Rows of events that items share: one for each event. change_check counts the items of each. */
static void shared_expect(struct world *w, struct engine_view *v)
{
    uint64_t rows = 0, events = 0;
    struct engine_row row;
    struct engine_cursor *c = change_rows_open(v, STR("b"), STR_NONE);
    while (engine_cursor_next(c, &row) == ERR_OK)
        rows++;
    engine_cursor_close(&c);
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        bool first = w->things[i].there && bytes_of(w->things[i].seq).n > CHANGE_OWN_BYTES_MAX;
        for (unsigned n = 0; n < i && first; n++)
            first = !w->things[n].there || w->things[n].seq != w->things[i].seq;
        events += first;
    }
    assert_int_equal(rows, events);
}

static uint64_t items_stored(struct engine_view *v)
{
    struct engine_cursor *c = change_rows_open(v, STR("i"), STR_NONE);
    struct engine_row row;
    uint64_t count = 0;
    while (engine_cursor_next(c, &row) == ERR_OK)
        count++;
    engine_cursor_close(&c);
    return count;
}

static unsigned world_expect(struct world *w)
{
    assert_int_equal(change_check(w->engine, damage_found, w), ERR_OK);
    struct engine_view *v = engine_view_begin(w->engine);
    unsigned there = 0;
    for (unsigned i = 0; i < ITEMS_MAX; i++) {
        if (w->things[i].there)
            thing_expect(w, v, &w->things[i]);
        there += w->things[i].there;
    }
    assert_int_equal(items_stored(v), there);
    shared_expect(w, v);
    engine_view_end(&v);
    return there;
}

static err rules_put(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    err why = ERR_OK;
    for (unsigned i = 0; i < RULES && why == ERR_OK; i++) {
        char name[2] = { (char)('a' + i), '\0' }, value[CHANGE_RULE_BYTES];
        const struct change_rule_row row = { .number = i + 1 };
        struct change_key key;
        change_key_rule(&key, str_of(name));
        why = engine_txn_put(t, SPACE_CHANGE, change_key_str(&key), change_rule_encode(&row, value),
                             STR_NONE);
    }
    return why;
}

static void world_step(struct world *w, unsigned there)
{
    fake_clock_advance(&w->clock, below(w, 4));
    w->ops_count = 0;
    w->woke = false;
    draw_due(w);
    if (w->ops_count == 0)
        for (unsigned n = 1 + below(w, OPS_MAX - 1); n > 0; n--)
            draw_op(w, there);
    assert_int_equal(engine_update_wait(w->engine, ops_do, w), ERR_OK);
    for (unsigned i = 0; i < w->ops_count; i++)
        model_op(w, &w->ops[i]);
    w->next_due = store_time_min(w->next_due, w->edit.next_due);
    assert_int_equal(w->edit.woke, w->woke);
}

static uint64_t number_of(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    uint64_t n;
    return text != NULL && str_to_u64(str_of(text), &n) ? n : otherwise;
}

static void items_move_as_the_model_says(void **state)
{
    (void)state;
    static struct world w;
    uint64_t seed = number_of("ITEMS_SEED", 20261127), steps = number_of("ITEMS_STEPS", STEPS);
    w = (struct world){ .seed = seed, .next_due = STORE_TIME_NEVER, .seq = 1000 };
    print_message("seed %llu\n", (unsigned long long)seed);
    rng_init(&w.rng, seed);
    fake_clock_init(&w.clock, EPOCH);
    w.engine = engine_mem_new(&w.clock.clock);
    assert_int_equal(engine_update_wait(w.engine, rules_put, NULL), ERR_OK);
    unsigned there = 0;
    for (w.step = 0; w.step < steps; w.step++) {
        world_step(&w, there);
        there = world_expect(&w);
    }
    engine_close(&w.engine);
}

/* ---- ids ---- */

struct ids {
    uint64_t seq;
    unsigned sub, order;
    enum change_routed how;
};

static err ids_route(struct engine_txn *t, void *ctx)
{
    struct ids *i = ctx;
    struct change_edit e;
    struct change_route r = { .rule = 3,
                              .id = i->seq * CHANGE_SUBS + i->sub,
                              .seq = i->seq,
                              .collapses = true,
                              .stream = STR("s"),
                              .domain = STR("d"),
                              .type = STR(""),
                              .bytes = STR("{}") };
    r.order.p[0] = 1;
    r.order.p[1] = (unsigned char)i->order;
    change_edit_begin(&e, t);
    err why = change_item_route(&e, &r, &i->how);
    return why == ERR_OK ? change_edit_end(&e) : why;
}

static enum change_routed ids_do(struct engine *engine, struct ids i)
{
    assert_int_equal(engine_update_wait(engine, ids_route, &i), ERR_OK);
    return i.how;
}

/* Also when the targets of a rule were other ones, and none of their items is done. */
static void an_item_never_has_the_id_of_another_event(void **state)
{
    (void)state;
    struct fake_clock clock;
    fake_clock_init(&clock, EPOCH);
    struct world w = { .engine = engine_mem_new(&clock.clock) };
    assert_int_equal(engine_update_wait(w.engine, rules_put, NULL), ERR_OK);
    for (unsigned i = 0; i < CHANGE_SUBS; i++)
        assert_int_equal(ids_do(w.engine, (struct ids){ 7, 31, i, CHANGE_HAD }), CHANGE_MADE);
    assert_int_equal(ids_do(w.engine, (struct ids){ 7, 31, CHANGE_SUBS, CHANGE_HAD }),
                     CHANGE_NEEDLESS);
    struct engine_view *v = engine_view_begin(w.engine);
    struct change_item_kept k;
    for (unsigned i = 0; i < CHANGE_SUBS; i++) {
        assert_int_equal(change_item_get(v, 3, 7 * CHANGE_SUBS + i, &k), ERR_OK);
        assert_int_equal(k.row.seq, 7);
        assert_int_equal(change_item_get(v, 3, 8 * CHANGE_SUBS + i, &k), ERR_NOT_FOUND);
    }
    engine_view_end(&v);
    assert_int_equal(change_check(w.engine, damage_found, &w), ERR_OK);
    engine_close(&w.engine);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(items_move_as_the_model_says),
        cmocka_unit_test(an_item_never_has_the_id_of_another_event),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
