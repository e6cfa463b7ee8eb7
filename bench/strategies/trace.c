/* trace.c - see trace.h. Title by title, then all of it is sorted by time. */
#include "strategies/trace.h"

#include "base/check.h"

#include <math.h>
#include <stdlib.h>

#define MINUTE_NS (60 * NS_PER_S)

struct title { /* while its events are made */
    unsigned number, revs_count;
    struct page_name latest; /* made, whether it came or not */
    store_time first;
    store_time *revs; /* when each was made first, by number - 1 */
};

static struct event *event_add(struct trace *t, unsigned title, enum event_kind kind, store_time at)
{
    static const struct event none;
    if (t->count == t->room) {
        t->room = t->room == 0 ? 1024 : 2 * t->room;
        t->events = realloc(t->events, t->room * sizeof *t->events);
        INVARIANT(t->events != NULL);
    }
    struct event *e = &t->events[t->count];
    *e = none;
    e->order = t->count++;
    e->kind = kind;
    e->title = title;
    e->at = at;
    e->draw = rng_unit(&t->rng);
    return e;
}

static int64_t within(struct trace *t, int64_t ns)
{
    return (int64_t)(rng_unit(&t->rng) * (double)ns);
}

static int64_t exponential(struct trace *t, int64_t mean_ns)
{
    return (int64_t)(-log(1 - rng_unit(&t->rng)) * (double)mean_ns);
}

static bool chance(struct trace *t, double p)
{
    return rng_unit(&t->rng) < p;
}

/* The next creation at an instant: its name, and what it replaces. */
static struct made create(struct trace *t, struct title *title, store_time at)
{
    struct made m = { .previous = title->latest };
    bool again = title->latest.rev > 0 && chance(t, 0.3);
    m.name.rev = title->latest.rev + (again ? 0 : 1);
    m.name.tid = tid_make(tid_ticks(at), rng_next(&t->rng));
    title->latest = m.name;
    if (!again)
        title->revs[title->revs_count++] = at;
    return m;
}

static void put_late(struct trace *t, struct title *title, store_time at)
{
    struct made late = create(t, title, at);
    store_time over = store_time_add(at, 5 * NS_PER_S);
    struct made newer = create(t, title, over);
    int64_t delay =
        chance(t, 0.2) ? within(t, t->opts.ttl_ns * 3 / 2) : exponential(t, 10 * MINUTE_NS);
    store_time comes = store_time_add(over, NS_PER_S + delay);
    event_add(t, title->number, EVENT_PUT, over)->made = newer;
    event_add(t, title->number, EVENT_PUT, comes)->made = late;
    store_time again = store_time_add(comes, within(t, t->opts.ttl_ns * 99 / 100));
    event_add(t, title->number, EVENT_KNOWN, again)->made = late;
    t->puts += 2;
    t->late++;
}

static void put_race(struct trace *t, struct title *title, store_time at)
{
    struct made one = create(t, title, at);
    struct made other = create(t, title, store_time_add(at, NS_PER_MS));
    bool swapped = chance(t, 0.5);
    struct event *e = event_add(t, title->number, EVENT_RACE, store_time_add(at, NS_PER_MS));
    e->made = swapped ? other : one;
    e->second = swapped ? one : other;
    t->puts += 2;
    t->races++;
}

static void editor_add(struct trace *t, const struct title *title, store_time at)
{
    int64_t longest = t->opts.ttl_ns * 99 / 100;
    int64_t stays = chance(t, 0.2) ? within(t, longest) : exponential(t, 30 * MINUTE_NS);
    unsigned slot = t->slots++;
    event_add(t, title->number, EVENT_OPEN, at)->slot = slot;
    at = store_time_add(at, stays < longest ? stays : longest);
    event_add(t, title->number, EVENT_CLOSE, at)->slot = slot;
}

static void old_add(struct trace *t, const struct title *title, store_time at)
{
    unsigned revs = 0;
    while (revs < title->revs_count && !store_time_before(at, title->revs[revs]))
        revs++;
    if (revs < 2)
        return;
    unsigned back = 1;
    while (back < revs - 1 && chance(t, 0.6))
        back++;
    unsigned slot = t->slots++;
    struct event *e = event_add(t, title->number, EVENT_OLD, at);
    e->slot = slot;
    e->made.name.rev = revs - back;
    at = store_time_add(at, NS_PER_S + within(t, t->opts.ttl_ns * 99 / 100));
    event_add(t, title->number, EVENT_BACK, at)->slot = slot;
}

static store_time some_time(struct trace *t, store_time since)
{
    return store_time_add(since, within(t, t->opts.end.ns - since.ns));
}

static int by_time(const void *a, const void *b)
{
    const store_time *x = a, *y = b;
    return (x->ns > y->ns) - (x->ns < y->ns);
}

/* Creations at these instants, and who looks. */
static void title_make(struct trace *t, struct title *title, const store_time *at, unsigned count)
{
    title->first = at[0];
    for (unsigned i = 0; i < count; i++) {
        double kind = rng_unit(&t->rng);
        if (i > 0 && kind < 0.06) {
            put_late(t, title, at[i]);
        } else if (i > 0 && kind < 0.12) {
            put_race(t, title, at[i]);
        } else {
            struct made made = create(t, title, at[i]);
            event_add(t, title->number, EVENT_PUT, at[i])->made = made;
            t->puts++;
        }
        store_time before = store_time_add(at[i], -exponential(t, 20 * MINUTE_NS));
        if (chance(t, 0.4) && store_time_before(title->first, before))
            editor_add(t, title, before);
    }
    for (unsigned i = 0; i < count; i++) {
        for (unsigned k = 0; k < t->opts.looks; k++)
            event_add(t, title->number, EVENT_LATEST, some_time(t, title->first));
        if (chance(t, 0.5))
            editor_add(t, title, some_time(t, title->first));
        for (double olds = t->opts.olds; olds > 0 && chance(t, olds); olds -= 1)
            old_add(t, title, some_time(t, title->first));
    }
}

static int by_event(const void *a, const void *b)
{
    const struct event *x = a, *y = b;
    if (x->at.ns != y->at.ns)
        return x->at.ns < y->at.ns ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

/* How many creations each title has: Zipf's law, and one at least. */
static unsigned share(const struct trace_opts *o, unsigned title)
{
    double all = 0;
    for (unsigned i = 0; i < o->titles; i++)
        all += 1.0 / (i + 1);
    unsigned n = (unsigned)(o->creations / all / (title + 1));
    return n > 0 ? n : 1;
}

void trace_make(struct trace *t, const struct trace_opts *o)
{
    *t = (struct trace){ .opts = *o };
    rng_init(&t->rng, o->seed);
    for (unsigned i = 0; i < o->titles; i++) {
        unsigned count = share(o, i);
        store_time *at = calloc(count, sizeof *at);
        struct title title = { .number = i, .revs = calloc(2 * count, sizeof *title.revs) };
        INVARIANT(at != NULL && title.revs != NULL);
        for (unsigned k = 0; k < count; k++)
            at[k] = some_time(t, o->begin);
        qsort(at, count, sizeof *at, by_time);
        title_make(t, &title, at, count);
        free(title.revs);
        free(at);
    }
    qsort(t->events, t->count, sizeof *t->events, by_event);
    while (t->count > 0 && store_time_before(o->end, t->events[t->count - 1].at))
        t->count--;
}

void trace_fini(struct trace *t)
{
    free(t->events);
    t->events = NULL;
}
