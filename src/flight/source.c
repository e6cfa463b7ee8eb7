/* Invariant: a source is in turn while it has a flight QUEUED and fewer than makes_max MAKING or
 * STOPPING. */
#include "flight/source.h"

#include "base/map.h"
#include "flight/core_impl.h"

#include <stdlib.h>

static str key_of(const void *const *of)
{
    return (str){ .p = (const char *)of, .n = sizeof *of };
}

void sources_init(struct sources *all, unsigned makes_max)
{
    *all = (struct sources){ .by_of = map_new(0), .makes_max = makes_max }; /* keys are ours */
    list_init(&all->turns);
}

void sources_fini(struct sources *all)
{
    INVARIANT(map_count(all->by_of) == 0);
    INVARIANT(list_empty(&all->turns));
    map_free(&all->by_of);
}

unsigned source_flights(const struct sources *all, const void *of)
{
    const struct source *s = map_get(all->by_of, key_of(&of));
    return s == NULL ? 0 : s->flights;
}

struct source *source_join(struct sources *all, const void *of)
{
    struct source *s = map_get(all->by_of, key_of(&of));
    if (s == NULL) {
        s = calloc(1, sizeof *s);
        INVARIANT(s != NULL);
        s->of = of;
        list_init(&s->queue);
        list_init(&s->turn);
        INVARIANT(map_put(all->by_of, key_of(&of), s) == NULL);
    }
    s->flights++;
    return s;
}

void source_leave(struct sources *all, struct source *s)
{
    INVARIANT(s->flights > 0);
    if (--s->flights > 0)
        return;
    INVARIANT(s->making == 0);
    INVARIANT(list_empty(&s->queue));
    INVARIANT(list_empty(&s->turn));
    INVARIANT(map_remove(all->by_of, key_of(&s->of)) == s);
    free(s);
}

/* ---- turns ---- */

/* Behind all others, unless it is in turn already, or has nothing to begin, or no room. */
static void turn_take(struct sources *all, struct source *s)
{
    if (list_empty(&s->turn) && !list_empty(&s->queue) && s->making < all->makes_max)
        list_append(&all->turns, &s->turn);
}

void source_enqueue(struct sources *all, struct source *s, struct flight *f)
{
    list_append(&s->queue, &f->queued);
    turn_take(all, s);
}

void source_dequeue(struct source *s, struct flight *f)
{
    list_remove(&f->queued);
    if (list_empty(&s->queue))
        list_remove(&s->turn);
}

struct flight *sources_next(const struct sources *all)
{
    struct list *turn = list_first(&all->turns);
    if (turn == NULL)
        return NULL;
    return CONTAINER_OF(list_first(&CONTAINER_OF(turn, struct source, turn)->queue), struct flight,
                        queued);
}

void source_begun(struct sources *all, struct source *s, struct flight *f)
{
    INVARIANT(!list_empty(&s->turn));
    INVARIANT(list_first(&s->queue) == &f->queued);
    list_remove(&s->turn);
    list_remove(&f->queued);
    s->making++;
    turn_take(all, s);
}

void source_ended(struct sources *all, struct source *s)
{
    INVARIANT(s->making > 0);
    s->making--;
    turn_take(all, s);
}
