/* transform_take.c - an original that is stored nowhere here: the secondary may have it, of which
 * an editor began while readers were not sent here yet. It is taken as by a read, and looked for
 * once more. */
#include "page/secondary.h"
#include "page/transform_impl.h"

/* A preview is in no secondary, nor is what has no revision. */
bool transform_may_take(const struct page_transform *t)
{
    bool culled = t->why == ERR_GONE && t->trace.state == PAGE_CULLED;
    return page_secondary_keeps(t->service->secondary, &t->target) && !t->taken_from &&
           (t->why == ERR_NOT_FOUND || culled) && !t->original_name.stash &&
           t->original_name.name.rev != 0;
}

/* Loop. Taken: look once more. None there: as without a secondary. */
static void transform_take_taken(struct flight_waiter *w, err why, struct flight_value *v,
                                 const struct err_note *note)
{
    static const struct err_note away = {
        .text =
            "the render that was edited may lie in the secondary store, which does not answer now"
    };
    struct page_transform *t = CONTAINER_OF(w, struct page_transform, taking);
    (void)v;    /* that it is there is all */
    (void)note; /* the log has it */
    if (why == ERR_OK)
        transform_go(t, PHASE_FIND);
    else if (why == ERR_NOT_FOUND || why == ERR_GONE)
        transform_go(t, transform_original_missing(t));
    else
        transform_go(t, transform_end_why(t, TRANSFORM_FAILED, ERR_UNAVAILABLE, &away));
}

enum transform_phase transform_take_enter(struct page_transform *t)
{
    struct page_target target = t->target;
    target.has_rev = target.has_tid = true;
    target.name = t->original_name.name;
    t->taken_from = true;
    t->taking = (struct flight_waiter){ .deadline = t->deadline, .done = transform_take_taken };
    err why = page_secondary_take(t->service->secondary, &target, &t->taking);
    return why == ERR_OK ? PHASE_WAITS : transform_end_why(t, TRANSFORM_FAILED, why, NULL);
}
