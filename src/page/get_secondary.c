/* get_secondary.c - what is not stored here may lie in the secondary: it is taken from there, and
 * the read looks again.
 *
 *   TAKE: join the flight -> stored now: look -> as any other that is stored
 *              |-> it has none, or none that may be shown -> on, as without a secondary
 *              \-> nobody knows -> made, if there is an origin -> else it cannot be said */
#include "page/get_impl.h"
#include "page/secondary.h"
#include "page/trusted.h"

/* Is it gone by its exact name? Nothing else would do, and a put of it would be refused. */
static bool is_gone_for_good(const struct page_get *g)
{
    return g->why == ERR_GONE && g->target.has_tid && g->read.trace.state != PAGE_CULLED;
}

/* The wiki has hidden this revision: what the secondary has of it must not come back. */
static bool is_denied(const struct page_get *g)
{
    const struct page_domain *d = g->target.domain;
    return g->target.has_rev && page_is_asked(g->service, d) &&
           page_known_denied(g->service, &g->target, g->target.name.rev, d->trust.max_ns) !=
               RENDER_FINE;
}

bool get_may_take(const struct page_get *g)
{
    bool anew = get_wants_anew(g) && get_can_be_made(g);
    return page_secondary_keeps(g->service->secondary, &g->target) && g->found == FOUND_NOTHING &&
           (g->flags & (GET_OWN | GET_AT)) == 0 && !anew &&
           (g->was & (WAS_MADE | WAS_SECONDARY)) == 0 && !is_gone_for_good(g) && !is_denied(g);
}

/* Nobody knows whether the secondary has it. A reader that can have it made goes on; any other
 * is told. */
static enum page_get_state take_failed(struct page_get *g, err why)
{
    static const struct err_note note = {
        .text = "what is not stored here may lie in the secondary store, which does not answer now"
    };
    if (get_can_be_made(g))
        return get_nothing(g);
    if (get_turn_back(g))
        return STEP_LOOK;
    return get_end_why(g, GOT_FAILED, why, why == ERR_UNAVAILABLE ? &note : NULL);
}

/* Stored now: look again. None there: on, as without a secondary. */
static enum page_get_state take_judge(struct page_get *g)
{
    err taken = g->taken_why;
    if (taken == ERR_OK) {
        g->was |= WAS_TAKEN;
        return STEP_LOOK;
    }
    if (taken == ERR_NOT_FOUND || taken == ERR_GONE)
        return get_nothing(g);
    if (taken == ERR_SHUTDOWN)
        return get_end(g, GOT_REFUSED);
    return take_failed(g, taken == ERR_FULL ? taken : ERR_UNAVAILABLE);
}

/* At home. */
static void take_run(struct task *t)
{
    struct page_get *g = CONTAINER_OF(t, struct page_get, task);
    get_go(g, take_judge(g));
}

/* Loop. The value does not matter: the render is in the store. */
static void taken(struct flight_waiter *w, err why, struct flight_value *v,
                  const struct err_note *note)
{
    struct page_get *g = CONTAINER_OF(w, struct page_get, flight);
    (void)v;    /* that it is there is all */
    (void)note; /* the log has it */
    g->taking = false;
    g->taken_why = why;
    g->task.run = take_run;
    home_post(g->home, &g->task);
}

/* Asked under the title that was looked for, which may be settled by now. */
enum page_get_state get_take_enter(struct page_get *g)
{
    g->was |= WAS_SECONDARY;
    if ((g->flags & GET_ONLY_CACHED) != 0)
        return get_end(g, GOT_UNCACHED);
    if (!g->wait(g, WAIT_OTHERS))
        return get_end(g, GOT_REFUSED);
    struct page_target target = g->target;
    target.title = g->read.which.title;
    g->flight = (struct flight_waiter){ .deadline = g->deadline, .done = taken };
    g->taking = true;
    err why = page_secondary_take(g->service->secondary, &target, &g->flight);
    if (why == ERR_OK)
        return STEP_WAITS; /* it may have been answered, and be gone */
    g->taking = false;
    return why == ERR_SHUTDOWN ? get_end(g, GOT_REFUSED) : take_failed(g, ERR_UNAVAILABLE);
}

bool get_take_leave(struct page_get *g)
{
    if (!g->taking || !page_secondary_leave(g->service->secondary, &g->flight))
        return false;
    g->taking = false;
    return true;
}
