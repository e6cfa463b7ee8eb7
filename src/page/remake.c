/* remake.c - lines of what is to be made once more.
 *
 *   wanted -> JUDGED: is it old? (pool) -> WAITS, in its line -> LOOKED at once more (pool)
 *                ^    \-> no: over                     ^            |   \-> not old now: over
 *                |                                     |            v
 *                |                                     \- failed - MADE -> over
 *                \-------------- a word came meanwhile ----------/
 *
 * Invariants
 *  1. An item is in the table until it is over, once a title and bucket.
 *  2. It is in its line while it WAITS, and in no list else: it comes last and leaves first.
 *  3. A line is in `active` while somebody WAITS there.
 *  4. `running` of a line counts its items that are LOOKED at or MADE.
 *  5. Table, lists and states change under the lock; all but the entry of an item, on the loop. */
#include "page/remake.h"

#include "base/hash.h"
#include "base/list.h"
#include "loop/loop.h"
#include "page/check.h"
#include "page/make.h"
#include "page/old.h"
#include "page/trusted.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum {
    REMAKE_WAIT_MS = 3600 * 1000,     /* a flight ends by itself before that */
    REMAKE_ARENA_BYTES_MAX = 1 << 20, /* of a look for a name */
};

enum remake_state { REMAKE_JUDGED, REMAKE_WAITS, REMAKE_LOOKED, REMAKE_MADE, REMAKE_STATES };
static const unsigned remake_next[REMAKE_STATES] = {
    [REMAKE_JUDGED] = BIT(REMAKE_WAITS),
    [REMAKE_WAITS] = BIT(REMAKE_LOOKED),
    [REMAKE_LOOKED] = BIT(REMAKE_MADE) | BIT(REMAKE_JUDGED) | BIT(REMAKE_WAITS),
    [REMAKE_MADE] = BIT(REMAKE_WAITS) | BIT(REMAKE_JUDGED),
};

/* The items of one domain that wait. Owner: page_remakes. */
struct remake_line {
    struct list active;
    struct list items; /* that WAIT */
    const struct page_domain *domain;
    struct page_rerender_limits limits;
    unsigned waiting, running;
    uint64_t came; /* into the line, ever */
    /* nothing begins before: by pace, after a failure */
    mono paced_until, paused_until;
    unsigned failures; /* in a row */
    uint64_t made, failed, dropped;
};

/* What is under way for an item: large, so an item that WAITS has none. Owner: the item. */
struct remake_turn {
    struct remake *of;
    struct task task;
    struct page_seen seen; /* before the read */
    struct page_read read;
    struct arena arena;
    struct flight_waiter flight;
};
/* One title in one bucket. Owner: the table; freed when it is over. */
struct remake {
    struct hash_node node;
    struct list link;
    struct page_remakes *all;
    struct remake_line *line;
    const struct page_settings *settings;
    enum remake_state state;
    unsigned tries;
    bool again;               /* a word came after the store was looked at */
    store_time due;           /* it does not begin before; ZERO: it was not JUDGED */
    mono until;               /* it leaves the line; 0: it was not there yet */
    uint64_t number;          /* WAITS: of those that came into the line */
    struct remake_turn *turn; /* NULL: WAITS */
    size_t title_bytes;
    char title[];
};

/* Owner: the service. The lock covers table, lists and counters; page_remake enters from any
 * thread. */
struct page_remakes {
    const struct page_service *service;
    uint64_t seed;
    struct loop_timer *timer;
    struct remake_line *lines; /* as the service's domains */
    pthread_mutex_t lock;
    struct hash table;
    struct list active;
    unsigned active_count, waiting, judged;
    bool stopped;
};

static void remakes_lock(struct page_remakes *r)
{
    int failed = pthread_mutex_lock(&r->lock);
    INVARIANT(failed == 0);
}

static void remakes_unlock(struct page_remakes *r)
{
    int failed = pthread_mutex_unlock(&r->lock);
    INVARIANT(failed == 0);
}

static struct remake_line *line_of(const struct page_remakes *r, const struct page_domain *d)
{
    return &r->lines[d - r->service->domains];
}

/* Never changes while the item lives: read without the lock. */
static str title_of(const struct remake *m)
{
    return (str){ .p = m->title, .n = m->title_bytes };
}

/* ---- items; under the lock ---- */

static uint64_t remake_hash(const struct page_remakes *r, const struct page_target *t)
{
    return hash_of_str(t->title, r->seed ^ (uint64_t)t->domain->number << 32);
}

static struct remake *remake_find(const struct page_remakes *r, const struct page_target *t)
{
    for (struct hash_node *n = hash_first(&r->table, remake_hash(r, t)); n != NULL;
         n = hash_next(n)) {
        struct remake *m = CONTAINER_OF(n, struct remake, node);
        if (m->line->domain == t->domain && m->settings->bucket == t->settings->bucket &&
            str_eq(t->title, title_of(m)))
            return m;
    }
    return NULL;
}

static struct remake *remake_new(struct page_remakes *r, const struct page_target *t)
{
    struct remake *m = calloc(1, sizeof *m + t->title.n);
    INVARIANT(m != NULL);
    m->all = r;
    m->line = line_of(r, t->domain);
    m->settings = t->settings;
    m->title_bytes = t->title.n;
    memcpy(m->title, t->title.p, t->title.n);
    list_init(&m->link);
    m->state = REMAKE_JUDGED;
    r->judged++;
    hash_add(&r->table, &m->node, remake_hash(r, t));
    return m;
}

/* Only the first leaves: items end from the front, by turn, by age or at the stop. */
static void line_leave(struct remake *m)
{
    struct page_remakes *r = m->all;
    struct remake_line *l = m->line;
    INVARIANT(list_first(&l->items) == &m->link);
    list_remove(&m->link);
    r->waiting--;
    if (--l->waiting > 0)
        return;
    list_remove(&l->active);
    r->active_count--;
}

static void line_join(struct remake *m)
{
    struct page_remakes *r = m->all;
    struct remake_line *l = m->line;
    list_append(&l->items, &m->link);
    m->number = ++l->came;
    r->waiting++;
    if (l->waiting++ > 0)
        return;
    list_append(&r->active, &l->active);
    r->active_count++;
}

/* Undoes what its state counts, before it gets another one or ends. */
static void remake_out(struct remake *m)
{
    switch (m->state) {
    case REMAKE_JUDGED:
        m->all->judged--;
        return;
    case REMAKE_WAITS:
        line_leave(m);
        return;
    case REMAKE_LOOKED:
    case REMAKE_MADE:
        m->line->running--;
        return;
    case REMAKE_STATES:
        return;
    }
}

/* Every change of state: counts and lists follow it. */
static void remake_move(struct remake *m, enum remake_state to)
{
    INVARIANT(remake_next[m->state] & BIT(to));
    remake_out(m);
    m->state = to;
    if (to == REMAKE_WAITS) {
        free(m->turn);
        m->turn = NULL;
        line_join(m);
    } else if (to == REMAKE_JUDGED) {
        m->all->judged++;
    } else {
        m->line->running++;
    }
}

static void remake_end(struct remake *m)
{
    remake_out(m);
    hash_remove(&m->all->table, &m->node);
    free(m->turn);
    free(m);
}

static void remake_drop(struct remake *m)
{
    m->line->dropped++;
    remake_end(m);
}

/* ---- the store is looked at ---- */

/* Only the name and the word are wanted, no bytes. */
static unsigned read_nothing(struct page_read *r)
{
    (void)r;
    return 0;
}

static void looked_at(struct store_call *c);

static void look_run(struct task *t)
{
    struct remake_turn *turn = CONTAINER_OF(t, struct remake_turn, task);
    const struct remake *m = turn->of;
    const struct page_service *s = m->all->service;
    uint32_t domain = m->line->domain->number;
    arena_init(&turn->arena, REMAKE_ARENA_BYTES_MAX);
    turn->seen =
        page_changes_see(s->changes, page_store_bucket_number(s->store, m->settings->bucket),
                         domain, title_of(m));
    turn->read = (struct page_read){
        .call = { .home = loop_home(s->loop), .done = looked_at },
        .bucket = m->settings->bucket,
        .which = { .domain = domain, .title = title_of(m), .select = SELECT_LATEST },
        .arena = &turn->arena,
        .heeds = true,
        .choose = read_nothing
    };
    store_call_post(page_store_read(s->store, &turn->read), &turn->read.call);
}

/* Looks at the store on the pool. The item is JUDGED or LOOKED; words that come from here on set
 * `again`. */
static void remake_look(struct remake *m)
{
    if (m->turn == NULL)
        m->turn = malloc(sizeof *m->turn);
    INVARIANT(m->turn != NULL);
    *m->turn = (struct remake_turn){ .of = m, .task.run = look_run };
    /* The look begins now: it sees each word of before. */
    m->again = false;
    home_post(loop_pool(m->all->service->loop), &m->turn->task);
}

/* There is nothing to make of it, unless a word came meanwhile: then it is judged once more.
 * Under the lock; m may be gone. */
static void remake_over(struct remake *m)
{
    if (!m->again || m->all->stopped) {
        remake_end(m);
        return;
    }
    if (m->state != REMAKE_JUDGED)
        remake_move(m, REMAKE_JUDGED);
    remake_look(m);
}

/* ---- turns; under the lock ---- */

/* How much longer the wiki wants to be left alone; CHECK_ASKED_PAUSE_S_MAX at most. */
static int64_t busy_ns(const struct remake_line *l, mono now)
{
    const int64_t max_ns = CHECK_ASKED_PAUSE_S_MAX * NS_PER_S;
    const _Atomic int64_t *until_ns = l->domain->busy_until_ns;
    int64_t left_ns = until_ns == NULL ? 0 : atomic_load(until_ns) - now.ns;
    return left_ns < max_ns ? left_ns : max_ns;
}

static struct remake *line_first(const struct remake_line *l)
{
    struct list *first = list_first(&l->items);
    return first == NULL ? NULL : CONTAINER_OF(first, struct remake, link);
}

/* Only the first is looked at: one behind it that waited too long is dropped when it comes
 * first. */
static void line_expire(struct remake_line *l, mono now)
{
    for (struct remake *m = line_first(l); m != NULL && m->until.ns <= now.ns; m = line_first(l))
        remake_drop(m);
}

/* The first of the line, if it may begin now; NULL: none may. */
static struct remake *line_next(const struct page_remakes *r, struct remake_line *l, mono now)
{
    const struct page_service *s = r->service;
    line_expire(l, now);
    struct remake *m = line_first(l);
    /* Without remaking, only unsettled renders stand in the line. */
    unsigned max = page_rerenders(s, l->domain) ? l->limits.concurrency : REMAKE_SETTLES_MAX;
    if (m == NULL || l->running >= max || now.ns < l->paced_until.ns ||
        now.ns < l->paused_until.ns || page_is_closed(s, l->domain))
        return NULL;
    return store_time_before(clock_store(s->clock), m->due) || !origin_has_room(l->domain->origin)
               ? NULL
               : m;
}

/* looked_at takes the pace back when nothing is made. */
static void remake_begin(struct remake *m, mono now)
{
    struct remake_line *l = m->line;
    if (l->domain->rerender == RERENDER_PACED)
        l->paced_until.ns = now.ns + NS_PER_S / l->limits.rate;
    remake_move(m, REMAKE_LOOKED);
    remake_look(m);
}

/* For the next instant at which some line may begin: the end of a pace, else a look every
 * REMAKE_LOOK_MS. */
static void timer_set(struct page_remakes *r, mono now)
{
    int64_t wait_ns = REMAKE_LOOK_MS * NS_PER_MS;
    for (struct list *n = r->active.next; n != &r->active; n = n->next) {
        const struct remake_line *l = CONTAINER_OF(n, struct remake_line, active);
        int64_t paced_ns = l->paced_until.ns - now.ns;
        if (paced_ns > 0 && paced_ns < wait_ns)
            wait_ns = paced_ns;
    }
    if (r->active_count > 0)
        loop_timer_start(r->timer, wait_ns / NS_PER_MS + 1, 0);
}

/* Each domain begins one item, by turns, until a whole round has begun none. */
static void turn(struct page_remakes *r)
{
    mono now = clock_mono(r->service->clock);
    for (unsigned idle = 0; idle < r->active_count && !r->stopped;) {
        struct remake_line *l = CONTAINER_OF(list_take(&r->active), struct remake_line, active);
        list_append(&r->active, &l->active);
        struct remake *m = line_next(r, l, now);
        idle = m != NULL ? 0 : idle + 1;
        if (m != NULL)
            remake_begin(m, now);
    }
    if (!r->stopped)
        timer_set(r, now);
}

static void timer_fired(void *ctx)
{
    struct page_remakes *r = ctx;
    remakes_lock(r);
    turn(r);
    remakes_unlock(r);
}

/* ---- making ---- */

/* Puts the item back, at the end of its line, or drops it. The whole line pauses: what failed
 * one title fails the next, more often than not. */
static void remake_failed(struct remake *m, err why)
{
    struct page_remakes *r = m->all;
    struct remake_line *l = m->line;
    mono now = clock_mono(r->service->clock);
    int64_t own_ns = (l->failures < 5 ? 1 << l->failures : REMAKE_PAUSE_S_MAX) * NS_PER_S;
    int64_t wants_ns = busy_ns(l, now);
    l->failures++;
    l->failed++;
    l->paused_until.ns = now.ns + (wants_ns > own_ns ? wants_ns : own_ns);
    m->tries += why != ERR_AGAIN; /* no fault of the title's */
    if (r->stopped)
        remake_end(m);
    else if (m->tries >= REMAKE_TRIES_MAX)
        remake_drop(m);
    else
        remake_move(m, REMAKE_WAITS);
}

/* Else the wiki answered, and has no such page, or it is hidden: nothing is to be made. */
static bool is_failure(err why)
{
    return why == ERR_UNAVAILABLE || why == ERR_TIMEOUT || why == ERR_AGAIN || why == ERR_CORRUPT ||
           why == ERR_LIMIT;
}

/* Loop. The flight is over. */
static void made(struct flight_waiter *w, err why, struct flight_value *value,
                 const struct err_note *note)
{
    struct remake *m = CONTAINER_OF(w, struct remake_turn, flight)->of;
    struct page_remakes *r = m->all;
    const struct page_made *it = why == ERR_OK ? page_made_of(value) : NULL;
    (void)note;
    remakes_lock(r);
    m->line->made += it != NULL && !it->found && !it->arrived && it->moved_to == NULL;
    if (is_failure(why)) {
        remake_failed(m, why);
    } else {
        m->line->failures = 0;
        m->tries++;
        /* Words come again and again: a title does not hold its line for ever. */
        m->again = m->again && m->tries < REMAKE_TRIES_MAX;
        remake_over(m);
    }
    turn(r);
    remakes_unlock(r);
}

/* Has it made. Without the lock: a flight may end inside, and calls made(). */
static void remake_make(struct remake *m, const struct page_anew *anew)
{
    struct page_remakes *r = m->all;
    const struct page_service *s = r->service;
    struct remake_turn *t = m->turn;
    const struct page_wish wish = { .domain = m->line->domain,
                                    .settings = m->settings,
                                    .title = title_of(m),
                                    .fresh = true,
                                    .dated = true,
                                    .settles = true,
                                    .purge = anew->purge,
                                    .since = anew->since,
                                    .seen = &t->seen };
    t->flight =
        (struct flight_waiter){ .deadline = mono_add_ms(clock_mono(s->clock), REMAKE_WAIT_MS),
                                .done = made };
    err why = page_make(s, &wish, &t->flight);
    if (why == ERR_OK)
        return; /* it may be over */
    remakes_lock(r);
    remake_failed(m, why);
    turn(r);
    remakes_unlock(r);
}

/* Puts an item into its line, or drops it when there is no room. An item that was made, and is
 * old again, waits a little longer each time. */
static void line_enter(struct remake *m, store_time due)
{
    struct page_remakes *r = m->all;
    if (m->until.ns == 0)
        m->until = mono_add_ms(clock_mono(r->service->clock), INT64_C(1000) * REMAKE_LINE_S);
    m->due =
        m->tries == 0 ? due : store_time_add(clock_store(r->service->clock), NS_PER_S << m->tries);
    if (r->waiting >= REMAKES_MAX || m->line->waiting >= REMAKES_DOMAIN_MAX)
        remake_drop(m);
    else
        remake_move(m, REMAKE_WAITS);
}

/* Loop. The store was looked at, before or after the item waited. */
static void looked_at(struct store_call *c)
{
    struct remake_turn *t = CONTAINER_OF(c, struct remake_turn, read.call);
    struct remake *m = t->of;
    struct page_remakes *r = m->all;
    struct page_anew anew = { .is = false };
    int64_t settle_s = page_checks_settle_s(r->service->checks, m->line->domain);
    if (c->why == ERR_OK)
        anew = page_old_anew(m->line->domain, &t->read, clock_store(r->service->clock), settle_s);
    remakes_lock(r);
    /* It came unjudged into the line, and its render could not be settled yet. */
    bool early = m->due.ns == STORE_TIME_ZERO.ns &&
                 store_time_before(clock_store(r->service->clock), anew.due);
    bool is = anew.is && !r->stopped, makes = is && m->state == REMAKE_LOOKED && !early;
    arena_fini(&t->arena);
    if (m->state == REMAKE_LOOKED && !makes)
        m->line->paced_until.ns = 0; /* it cost the wiki nothing */
    if (makes)
        remake_move(m, REMAKE_MADE);
    else if (is)
        line_enter(m, anew.due);
    else
        remake_over(m);
    turn(r);
    remakes_unlock(r);
    if (makes)
        remake_make(m, &anew);
}

/* ---- from outside ---- */

/* Any thread: all is under the lock, and the store is looked at on the pool. */
void page_remake(struct page_remakes *r, const struct page_target *t)
{
    remakes_lock(r);
    struct remake *m = remake_find(r, t);
    bool full = r->judged >= REMAKES_JUDGED_MAX;
    /* A title that is there already is looked at once more, in whatever state it is. */
    if (m != NULL)
        m->again = true;
    else if (!r->stopped && full) /* those that are JUDGED set the timer, when they are */
        line_enter(remake_new(r, t), STORE_TIME_ZERO);
    else if (!r->stopped)
        remake_look(remake_new(r, t));
    remakes_unlock(r);
}

void page_remake_heard(const struct page_service *s, const struct page_domain *d, str title)
{
    if (!page_rerenders(s, d))
        return;
    /* The HTML decides for all contents: they are made together. */
    struct page_target t = { .domain = d, .content = STR("html"), .title = title };
    t.settings = page_settings_now(s);
    for (unsigned i = 0; i < s->buckets_count; i++, t.settings++)
        if (page_target_can_be_made(&t))
            page_remake(s->remakes, &t);
}

struct remake_place page_remake_place(struct page_remakes *r, const struct page_target *t)
{
    struct remake_place p = { .waits = false };
    remakes_lock(r);
    const struct remake *m = remake_find(r, t);
    p.is_made = m != NULL && (m->state == REMAKE_LOOKED || m->state == REMAKE_MADE);
    p.waits = m != NULL && m->state == REMAKE_WAITS;
    p.of = p.waits ? m->line->waiting : 0;
    /* Numbers in the line are consecutive, as only the first leaves. */
    p.place = p.waits ? m->number - (m->line->came - p.of) : 0;
    remakes_unlock(r);
    return p;
}

void page_remakes_figures(struct page_remakes *r, const struct page_domain *d,
                          struct remake_figures *out)
{
    const struct remake_line *l = line_of(r, d);
    remakes_lock(r);
    *out = (struct remake_figures){ .waiting = l->waiting,
                                    .making = l->running,
                                    .made = l->made,
                                    .failed = l->failed,
                                    .dropped = l->dropped };
    remakes_unlock(r);
}

void page_remakes_limit(struct page_remakes *r, const struct page_domain *d,
                        struct page_rerender_limits limits)
{
    remakes_lock(r);
    line_of(r, d)->limits = limits;
    turn(r);
    remakes_unlock(r);
}

/* ---- the whole ---- */

struct page_remakes *page_remakes_new(const struct page_service *s, uint64_t seed)
{
    struct page_remakes *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->service = s;
    r->seed = seed;
    r->lines = calloc(s->domains_count + 1, sizeof *r->lines);
    INVARIANT(r->lines != NULL);
    for (unsigned i = 0; i < s->domains_count; i++) {
        struct remake_line *l = &r->lines[i];
        list_init(&l->active);
        list_init(&l->items);
        l->domain = &s->domains[i];
        l->limits = l->domain->rerenders;
    }
    hash_init(&r->table);
    list_init(&r->active);
    int failed = pthread_mutex_init(&r->lock, NULL);
    INVARIANT(failed == 0);
    r->timer = loop_timer_new(s->loop, timer_fired, r);
    return r;
}

void page_remakes_stop(struct page_remakes *r)
{
    remakes_lock(r);
    r->stopped = true;
    loop_timer_stop(r->timer);
    /* Items under way end by themselves, and see `stopped`. */
    for (struct list *n = list_first(&r->active); n != NULL; n = list_first(&r->active))
        remake_end(line_first(CONTAINER_OF(n, struct remake_line, active)));
    remakes_unlock(r);
}

bool page_remakes_idle(struct page_remakes *r)
{
    remakes_lock(r);
    bool idle = r->table.count == 0;
    remakes_unlock(r);
    return idle;
}

void page_remakes_free(struct page_remakes **rp)
{
    struct page_remakes *r = *rp;
    if (r == NULL)
        return;
    INVARIANT(r->table.count == 0);
    loop_timer_free(&r->timer);
    hash_fini(&r->table);
    (void)pthread_mutex_destroy(&r->lock); /* nobody has it */
    free(r->lines);
    free(r);
    *rp = NULL;
}
