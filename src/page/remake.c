/* remake.c - a line of what is to be made once more.
 *
 *   wanted (any thread) -> in the line (loop) -> made, as the first of it -> over
 *
 * Invariants: count is of all that are there, on their way to the loop too; the first of the line
 * is the one that is made. */
#include "page/remake.h"

#include "base/check.h"
#include "base/list.h"
#include "loop/loop.h"
#include "page/make.h"

#include <stdlib.h>
#include <string.h>

enum { REMAKE_WAIT_MS = 3600 * 1000 }; /* a flight ends by itself before that */

struct page_remakes {
    const struct page_service *service;
    struct list line;
    bool making, stopped;
    atomic_uint count;
};
struct remake {
    struct page_remakes *all;
    struct list link;
    struct page_target target;
    struct page_seen seen;
    struct flight_waiter flight;
    struct task task;
    char title[];
};

static void remake_free(struct remake *m)
{
    list_remove(&m->link);
    atomic_fetch_sub(&m->all->count, 1);
    free(m);
}

static bool is_same(const struct remake *a, const struct remake *b)
{
    return a->target.domain == b->target.domain && a->target.settings == b->target.settings &&
           str_eq(a->target.title, b->target.title);
}

static bool is_wanted_already(const struct remake *m)
{
    for (struct list *l = m->all->line.next; l != &m->all->line; l = l->next)
        if (is_same(m, CONTAINER_OF(l, struct remake, link)))
            return true;
    return false;
}

static bool is_left_alone(const struct remake *m)
{
    const _Atomic int64_t *until_ns = m->target.domain->busy_until_ns;
    return until_ns != NULL && clock_mono(m->all->service->clock).ns < atomic_load(until_ns);
}

static void made(struct flight_waiter *w, err why, struct flight_value *value,
                 const struct err_note *note);

/* False: it could not be begun. */
static bool remake_begin(struct remake *m)
{
    const struct page_service *s = m->all->service;
    const struct page_wish wish = { .domain = m->target.domain,
                                    .settings = m->target.settings,
                                    .title = m->target.title,
                                    .fresh = true,
                                    .dated = true,
                                    .settles = true,
                                    .seen = &m->seen };
    m->flight =
        (struct flight_waiter){ .deadline = mono_add_ms(clock_mono(s->clock), REMAKE_WAIT_MS),
                                .done = made };
    return !is_left_alone(m) && page_make(s, &wish, &m->flight) == ERR_OK;
}

static void line_turn(struct page_remakes *r)
{
    for (struct list *l = list_first(&r->line); l != NULL && !r->making; l = list_first(&r->line)) {
        struct remake *m = CONTAINER_OF(l, struct remake, link);
        r->making = !r->stopped && remake_begin(m);
        if (!r->making)
            remake_free(m);
    }
}

/* Whatever came of it: where it failed, the next reader finds the same. Loop. */
static void made(struct flight_waiter *w, err why, struct flight_value *value,
                 const struct err_note *note)
{
    struct remake *m = CONTAINER_OF(w, struct remake, flight);
    struct page_remakes *r = m->all;
    (void)why, (void)value, (void)note;
    remake_free(m);
    r->making = false;
    line_turn(r);
}

static void wanted_run(struct task *t)
{
    struct remake *m = CONTAINER_OF(t, struct remake, task);
    struct page_remakes *r = m->all;
    if (r->stopped || is_wanted_already(m)) {
        remake_free(m);
        return;
    }
    list_append(&r->line, &m->link);
    line_turn(r);
}

void page_remake(struct page_remakes *r, const struct page_target *t, const struct page_seen *seen)
{
    if (atomic_fetch_add(&r->count, 1) >= REMAKES_MAX) {
        atomic_fetch_sub(&r->count, 1);
        return;
    }
    struct remake *m = calloc(1, sizeof *m + t->title.n);
    INVARIANT(m != NULL);
    m->all = r;
    list_init(&m->link);
    m->target = (struct page_target){ .domain = t->domain, .settings = t->settings };
    memcpy(m->title, t->title.p, t->title.n);
    m->target.title = (str){ .p = m->title, .n = t->title.n };
    m->seen = *seen;
    m->task.run = wanted_run;
    home_post(loop_home(r->service->loop), &m->task);
}

struct page_remakes *page_remakes_new(const struct page_service *s)
{
    struct page_remakes *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    r->service = s;
    list_init(&r->line);
    return r;
}

void page_remakes_stop(struct page_remakes *r)
{
    r->stopped = true;
}

void page_remakes_free(struct page_remakes **rp)
{
    struct page_remakes *r = *rp;
    if (r == NULL)
        return;
    INVARIANT(list_empty(&r->line));
    free(r);
    *rp = NULL;
}
