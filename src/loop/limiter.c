/* limiter.c - a tree of places, one for each part of a key, under one lock.
 *
 * Invariants:
 * 1. A pass that is not OUT is counted at its place and at all places above: as waiting while
 *    WAITING, as running while GRANTED or IN, as held while a holder is not WAITING.
 * 2. A place stands in the turns of the place above while it has room and somebody to let in. So a
 *    waiter is let in from the first place of each level's turns.
 * 3. Outside the lock nobody waits who could be let in.
 * 4. A place lives while it is used: by passes, by places below, by limits of its own.
 * 5. posted is true from the post of a turn until it runs; it runs also after limiter_free, which
 *    leaves the memory to it. */
#include "loop/limiter.h"

#include "base/map.h"
#include "loop/loop.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define LIMITER_MAGIC 0x11317e40u
enum { LIMITER_TIMER_MS_MAX = 3600000 };

struct limiter_place {
    struct limiter_place *above; /* NULL: all */
    enum limiter_level level;
    unsigned uses;
    struct list turn;    /* in above's turns; alone: not its turn */
    struct list turns;   /* places below that have room and somebody to let in */
    struct list waiting; /* of a kind: passes, in order of arrival */
    struct limiter_limits own;
    uint64_t running, held, waiting_count, refused;
    uint64_t bounded; /* of those that wait: waiting_max is for these */
    int64_t wait_ns_max;
    size_t name_bytes;
    char name[];
};

struct limiter {
    uint32_t magic;
    struct loop *loop; /* NULL: driven by hand */
    struct clock *clock;
    struct loop_timer *timer; /* the loop's */
    pthread_mutex_t lock;     /* of the rest */
    struct limiter_place *all;
    struct map *places;
    struct limiter_limits levels[LIMITER_LEVELS];
    struct list granted;   /* passes whose go is to be called */
    struct heap deadlines; /* of passes WAITING that have one */
    bool posted, freed, closed;
};

static struct limiter_pass *pass_of_node(const struct heap_node *n)
{
    return CONTAINER_OF(unconst(n), struct limiter_pass, node);
}

static bool pass_is_due_before(const struct heap_node *a, const struct heap_node *b)
{
    return pass_of_node(a)->deadline.ns < pass_of_node(b)->deadline.ns;
}

static bool pass_holds(const struct limiter_pass *p)
{
    return (p->flags & LIMITER_HOLDS) != 0;
}

static struct limiter_pass *pass_first(const struct list *passes)
{
    struct list *first = list_first(passes);
    return first == NULL ? NULL : CONTAINER_OF(first, struct limiter_pass, link);
}

/* ---- lock, turn and timer ---- */

static void limiter_lock(struct limiter *l)
{
    MAGIC_CHECK(l, LIMITER_MAGIC);
    INVARIANT(pthread_mutex_lock(&l->lock) == 0);
}

static void turn_on_loop(void *ctx);

/* wake: the first deadline is another. */
static void limiter_unlock(struct limiter *l, bool wake)
{
    if (l->loop != NULL && !l->posted && (wake || !list_empty(&l->granted))) {
        l->posted = true;
        loop_post(l->loop, turn_on_loop, l); /* under the lock: nobody frees us before */
    }
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
}

static void limiter_destroy(struct limiter *l)
{
    INVARIANT(pthread_mutex_destroy(&l->lock) == 0);
    l->magic = 0;
    free(l);
}

/* ---- places ---- */

/* Its own limits, else its level's; 0: none. */
static struct limiter_limits place_limits(const struct limiter *l, const struct limiter_place *at)
{
    const struct limiter_limits *own = &at->own, *level = &l->levels[at->level];
    return (struct limiter_limits){
        .running_max = own->running_max != 0 ? own->running_max : level->running_max,
        .held_max = own->held_max != 0 ? own->held_max : level->held_max,
        .waiting_max = own->waiting_max != 0 ? own->waiting_max : level->waiting_max
    };
}

static bool is_below(uint64_t count, unsigned max)
{
    return max == 0 || count < max;
}

static bool limits_are_none(const struct limiter_limits *limits)
{
    return limits->running_max == 0 && limits->held_max == 0 && limits->waiting_max == 0;
}

static str key_part(const struct limiter_key *key, unsigned level)
{
    const str parts[LIMITER_LEVELS] = { STR_NONE, key->origin, key->domain, key->kind };
    return parts[level];
}

/* What the map knows a place by: the place above and the name. */
struct place_id {
    const struct limiter_place *above;
    char name[LIMITER_NAME_BYTES_MAX];
};

static str place_id_set(struct place_id *id, const struct limiter_place *above, str name)
{
    INVARIANT(name.n <= sizeof id->name);
    id->above = above;
    if (name.n > 0)
        memcpy(id->name, name.p, name.n);
    return (str){ .p = (const char *)id, .n = offsetof(struct place_id, name) + name.n };
}

static struct limiter_place *place_new(struct limiter_place *above, enum limiter_level level,
                                       str name)
{
    struct limiter_place *at = calloc(1, sizeof *at + name.n);
    INVARIANT(at != NULL);
    at->above = above;
    at->level = level;
    at->name_bytes = name.n;
    if (name.n > 0)
        memcpy(at->name, name.p, name.n);
    list_init(&at->turn);
    list_init(&at->turns);
    list_init(&at->waiting);
    return at;
}

/* NULL: it is idle. */
static struct limiter_place *place_find(const struct limiter *l, enum limiter_level level,
                                        const struct limiter_key *key)
{
    struct limiter_place *at = l->all;
    struct place_id id;
    for (unsigned i = LIMITER_ORIGIN; at != NULL && i <= level; i++)
        at = map_get(l->places, place_id_set(&id, at, key_part(key, i)));
    return at;
}

/* One use more, until place_close. */
static struct limiter_place *place_open(struct limiter *l, enum limiter_level level,
                                        const struct limiter_key *key)
{
    struct limiter_place *at = l->all;
    for (unsigned i = LIMITER_ORIGIN; i <= level; i++) {
        struct place_id id;
        str name = key_part(key, i);
        str by = place_id_set(&id, at, name);
        struct limiter_place *below = map_get(l->places, by);
        if (below == NULL) {
            below = place_new(at, (enum limiter_level)i, name);
            INVARIANT(map_put(l->places, by, below) == NULL);
            at->uses++;
        }
        at = below;
    }
    at->uses++;
    return at;
}

static void place_close(struct limiter *l, struct limiter_place *at)
{
    for (;;) {
        INVARIANT(at->uses > 0);
        if (--at->uses > 0 || at->above == NULL)
            return;
        struct limiter_place *above = at->above;
        struct place_id id;
        INVARIANT(at->running == 0);
        INVARIANT(at->held == 0);
        INVARIANT(at->waiting_count == 0);
        list_remove(&at->turn);
        str name = { .p = at->name, .n = at->name_bytes };
        INVARIANT(map_remove(l->places, place_id_set(&id, above, name)) == at);
        free(at);
        at = above;
    }
}

/* ---- turns ---- */

static bool place_may_hold(const struct limiter *l, const struct limiter_place *at)
{
    return is_below(at->held, place_limits(l, at).held_max);
}

static bool place_has_room(const struct limiter *l, const struct limiter_place *at)
{
    return is_below(at->running, place_limits(l, at).running_max);
}

static bool place_wants_turn(const struct limiter *l, const struct limiter_place *at)
{
    if (!place_has_room(l, at))
        return false;
    if (at->level != LIMITER_KIND)
        return !list_empty(&at->turns);
    const struct limiter_pass *first = pass_first(&at->waiting);
    return first != NULL && (!pass_holds(first) || place_may_hold(l, at));
}

/* After a change at at. Who wants a turn stands behind all others, or stays where it stands. */
static void turns_update(struct limiter *l, struct limiter_place *at)
{
    for (; at->above != NULL; at = at->above) {
        bool wants = place_wants_turn(l, at);
        if (wants && list_empty(&at->turn))
            list_append(&at->above->turns, &at->turn);
        else if (!wants)
            list_remove(&at->turn);
    }
}

/* Whose turn it is below at; NULL: nobody's. Four levels deep. */
static struct limiter_pass *turn_next(const struct limiter *l, const struct limiter_place *at,
                                      bool may_hold)
{
    if (!place_has_room(l, at))
        return NULL;
    may_hold = may_hold && place_may_hold(l, at);
    if (at->level == LIMITER_KIND) {
        struct limiter_pass *first = pass_first(&at->waiting);
        return may_hold || !pass_holds(first) ? first : NULL;
    }
    for (struct list *t = at->turns.next; t != &at->turns; t = t->next) {
        struct limiter_pass *p =
            turn_next(l, CONTAINER_OF(t, struct limiter_place, turn), may_hold);
        if (p != NULL)
            return p;
    }
    return NULL;
}

/* ---- passes ---- */

static bool pass_is_bounded(const struct limiter_pass *p)
{
    return (p->flags & LIMITER_UNREFUSED) == 0;
}

static void pass_await(struct limiter *l, struct limiter_pass *p)
{
    p->state = LIMITER_WAITING;
    p->since = clock_mono(l->clock);
    list_append(&p->place->waiting, &p->link);
    for (struct limiter_place *at = p->place; at != NULL; at = at->above) {
        at->waiting_count++;
        at->bounded += pass_is_bounded(p);
    }
    turns_update(l, p->place);
}

/* It waits no longer. The caller says what it is now, and updates turns. */
static void pass_unwait(struct limiter *l, struct limiter_pass *p)
{
    INVARIANT(p->state == LIMITER_WAITING);
    int64_t waited_ns = clock_mono(l->clock).ns - p->since.ns;
    list_remove(&p->link);
    if (p->node.place != 0)
        heap_remove(&l->deadlines, &p->node);
    for (struct limiter_place *at = p->place; at != NULL; at = at->above) {
        INVARIANT(at->waiting_count > 0);
        at->waiting_count--;
        at->bounded -= pass_is_bounded(p);
        at->wait_ns_max = waited_ns > at->wait_ns_max ? waited_ns : at->wait_ns_max;
    }
}

static void pass_grant(struct limiter *l, struct limiter_pass *p)
{
    pass_unwait(l, p);
    p->state = LIMITER_GRANTED;
    list_append(&l->granted, &p->link);
    for (struct limiter_place *at = p->place; at != NULL; at = at->above) {
        at->running++;
        at->held += pass_holds(p);
        list_remove(&at->turn); /* the others' turn first */
    }
    turns_update(l, p->place);
}

static void passes_grant(struct limiter *l)
{
    for (struct limiter_pass *p = turn_next(l, l->all, true); p != NULL;
         p = turn_next(l, l->all, true))
        pass_grant(l, p);
}

static void pass_uncount(struct limiter_pass *p, bool runs, bool holds)
{
    for (struct limiter_place *at = p->place; at != NULL; at = at->above) {
        INVARIANT(at->running >= runs);
        INVARIANT(at->held >= holds);
        at->running -= runs;
        at->held -= holds;
    }
}

/* From any state but OUT. */
static void pass_end(struct limiter *l, struct limiter_pass *p)
{
    if (p->state == LIMITER_WAITING) {
        pass_unwait(l, p);
    } else {
        list_remove(&p->link);
        pass_uncount(p, p->state != LIMITER_RESTING, pass_holds(p));
    }
    struct limiter_place *at = p->place;
    p->state = LIMITER_OUT;
    p->place = NULL;
    turns_update(l, at);
    place_close(l, at);
}

static bool pass_is_too_many(const struct limiter *l, const struct limiter_pass *p)
{
    for (const struct limiter_place *at = p->place; at != NULL && pass_is_bounded(p);
         at = at->above)
        if (!is_below(at->bounded - 1, place_limits(l, at).waiting_max))
            return true;
    return false;
}

enum limiter_state limiter_enter(struct limiter *l, const struct limiter_key *key,
                                 struct limiter_pass *p)
{
    INVARIANT(p->state == LIMITER_OUT);
    bool wake = false;
    limiter_lock(l);
    p->place = place_open(l, LIMITER_KIND, key);
    p->node.place = 0;
    pass_await(l, p);
    passes_grant(l);
    if (p->state == LIMITER_GRANTED) {
        list_remove(&p->link);
        p->state = LIMITER_IN;
    } else if (pass_is_too_many(l, p)) {
        for (struct limiter_place *at = p->place; at != NULL; at = at->above)
            at->refused++;
        pass_end(l, p);
    } else if (p->deadline.ns < INT64_MAX) {
        heap_add(&l->deadlines, &p->node);
        wake = l->closed || heap_first(&l->deadlines) == &p->node;
    }
    enum limiter_state state = p->state;
    limiter_unlock(l, wake);
    return state;
}

void limiter_rest(struct limiter *l, struct limiter_pass *p)
{
    limiter_lock(l);
    if (p->state == LIMITER_IN && pass_holds(p)) {
        pass_uncount(p, true, false);
        p->state = LIMITER_RESTING;
        turns_update(l, p->place);
    } else if (p->state != LIMITER_OUT && p->state != LIMITER_RESTING) {
        pass_end(l, p);
    }
    passes_grant(l);
    limiter_unlock(l, false);
}

bool limiter_leave(struct limiter *l, struct limiter_pass *p)
{
    limiter_lock(l);
    bool waited = p->state == LIMITER_WAITING || p->state == LIMITER_GRANTED;
    if (p->state != LIMITER_OUT)
        pass_end(l, p);
    passes_grant(l);
    limiter_unlock(l, false);
    return waited;
}

/* ---- calling go ---- */

/* The next whose go is to be called, already IN or OUT; NULL: none. */
static struct limiter_pass *pass_take(struct limiter *l, mono now)
{
    struct limiter_pass *p = pass_first(&l->granted);
    if (p != NULL) {
        list_remove(&p->link);
        p->state = LIMITER_IN;
        return p;
    }
    const struct heap_node *n = heap_first(&l->deadlines);
    if (n == NULL || (!l->closed && pass_of_node(n)->deadline.ns > now.ns))
        return NULL;
    p = pass_of_node(n);
    pass_end(l, p);
    passes_grant(l); /* one that held may have stood before one that does not */
    return p;
}

void limiter_turn(struct limiter *l)
{
    mono now = clock_mono(l->clock);
    for (;;) {
        limiter_lock(l);
        struct limiter_pass *p = pass_take(l, now);
        bool in = p != NULL && p->state == LIMITER_IN;
        INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
        if (p == NULL)
            return;
        p->go(p, in);
    }
}

static void timer_arm(struct limiter *l)
{
    limiter_lock(l);
    const struct heap_node *n = heap_first(&l->deadlines);
    int64_t rest = n == NULL ? 0 : pass_of_node(n)->deadline.ns - clock_mono(l->clock).ns;
    limiter_unlock(l, false);
    int64_t ms = rest <= 0 ? 0 : rest / NS_PER_MS + 1;
    if (n == NULL)
        loop_timer_stop(l->timer);
    else
        loop_timer_start(l->timer, ms < LIMITER_TIMER_MS_MAX ? ms : LIMITER_TIMER_MS_MAX, 0);
}

static void turn_on_timer(void *ctx)
{
    struct limiter *l = ctx;
    limiter_turn(l);
    timer_arm(l);
}

static void turn_on_loop(void *ctx)
{
    struct limiter *l = ctx;
    limiter_lock(l);
    l->posted = false;
    bool freed = l->freed;
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
    if (freed)
        limiter_destroy(l);
    else
        turn_on_timer(l);
}

void limiter_close(struct limiter *l)
{
    limiter_lock(l);
    l->closed = true;
    limiter_unlock(l, true);
}

/* ---- limits and figures ---- */

static void turns_update_each(void *ctx, str key, void *value)
{
    (void)key;
    turns_update(ctx, value);
}

void limiter_limit(struct limiter *l, enum limiter_level level, const struct limiter_key *key,
                   struct limiter_limits limits)
{
    INVARIANT(level < LIMITER_LEVELS && (level != LIMITER_ALL || key == NULL));
    limiter_lock(l);
    if (key == NULL) {
        l->levels[level] = limits;
        map_each(l->places, turns_update_each, l);
    } else {
        struct limiter_place *at = place_open(l, level, key);
        bool had = !limits_are_none(&at->own);
        at->own = limits;
        at->uses += !limits_are_none(&limits);
        turns_update(l, at);
        if (had)
            place_close(l, at);
        place_close(l, at);
    }
    passes_grant(l);
    limiter_unlock(l, false);
}

struct limiter_limits limiter_limits_of(struct limiter *l, enum limiter_level level,
                                        const struct limiter_key *key)
{
    limiter_lock(l);
    const struct limiter_place *at = key == NULL ? NULL : place_find(l, level, key);
    struct limiter_limits limits = at == NULL ? l->levels[level] : place_limits(l, at);
    limiter_unlock(l, false);
    return limits;
}

void limiter_figures_get(struct limiter *l, enum limiter_level level, const struct limiter_key *key,
                         struct limiter_figures *out)
{
    static const struct limiter_place idle;
    limiter_lock(l);
    const struct limiter_place *at = key == NULL ? l->all : place_find(l, level, key);
    if (at == NULL)
        at = &idle;
    *out = (struct limiter_figures){ .running = at->running,
                                     .held = at->held,
                                     .waiting = at->waiting_count,
                                     .refused = at->refused,
                                     .wait_ns_max = at->wait_ns_max,
                                     .places = map_count(l->places) };
    limiter_unlock(l, false);
}

/* ---- the whole ---- */

struct limiter *limiter_new(struct loop *loop, struct clock *clock)
{
    struct limiter *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    *l = (struct limiter){ .magic = LIMITER_MAGIC, .loop = loop, .clock = clock };
    l->places = map_new((uint64_t)clock_mono(clock).ns);
    l->all = place_new(NULL, LIMITER_ALL, STR(""));
    list_init(&l->granted);
    heap_init(&l->deadlines, pass_is_due_before);
    INVARIANT(pthread_mutex_init(&l->lock, NULL) == 0);
    if (loop != NULL)
        l->timer = loop_timer_new(loop, turn_on_timer, l);
    return l;
}

static void place_free_each(void *ctx, str key, void *value)
{
    (void)ctx, (void)key;
    free(value);
}

void limiter_free(struct limiter **lp)
{
    struct limiter *l = *lp;
    if (l == NULL)
        return;
    limiter_lock(l);
    INVARIANT(l->all->running == 0 && l->all->held == 0 && l->all->waiting_count == 0);
    map_each(l->places, place_free_each, NULL); /* limits of their own alone kept them */
    map_free(&l->places);
    heap_fini(&l->deadlines);
    free(l->all);
    l->freed = true;
    bool posted = l->posted;
    INVARIANT(pthread_mutex_unlock(&l->lock) == 0);
    loop_timer_free(&l->timer);
    if (!posted)
        limiter_destroy(l);
    *lp = NULL;
}

static void place_check_each(void *ctx, str key, void *value)
{
    const struct limiter *l = ctx;
    const struct limiter_place *at = value;
    (void)key;
    INVARIANT(at->uses > 0);
    INVARIANT(at->running <= at->above->running && at->held <= at->above->held);
    INVARIANT(at->waiting_count <= at->above->waiting_count);
    INVARIANT(!list_empty(&at->turn) == place_wants_turn(l, at));
    INVARIANT(at->bounded <= at->waiting_count);
    INVARIANT(at->level != LIMITER_KIND || list_empty(&at->waiting) == (at->waiting_count == 0));
}

void limiter_check(struct limiter *l)
{
    limiter_lock(l);
    INVARIANT(turn_next(l, l->all, true) == NULL);
    map_each(l->places, place_check_each, l);
    limiter_unlock(l, false);
}
