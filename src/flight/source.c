/* Invariant: a source is in turn while it has a flight QUEUED and fewer than makes_max MAKING or STOPPING. */
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
}

void sources_fini(struct sources *all)
{
    INVARIANT(map_count(all->by_of) == 0);
    INVARIANT(all->first == NULL);
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
    INVARIANT(s->first == NULL);
    INVARIANT(!s->in_turn);
    INVARIANT(map_remove(all->by_of, key_of(&s->of)) == s);
    free(s);
}

/* ---- turns ---- */

static void turn_end(struct sources *all, struct source *s)
{
    if (!s->in_turn)
        return;
    s->in_turn = false;
    if (s->prev != NULL)
        s->prev->next = s->next;
    else
        all->first = s->next;
    if (s->next != NULL)
        s->next->prev = s->prev;
    else
        all->last = s->prev;
}

/* Behind all others, unless it is in turn already, or has nothing to begin, or no room. */
static void turn_take(struct sources *all, struct source *s)
{
    if (s->in_turn || s->first == NULL || s->making >= all->makes_max)
        return;
    s->in_turn = true;
    s->prev = all->last;
    s->next = NULL;
    if (all->last != NULL)
        all->last->next = s;
    else
        all->first = s;
    all->last = s;
}

/* ---- the queue of one ---- */

static void queue_remove(struct source *s, struct flight *f)
{
    if (f->queue_prev != NULL)
        f->queue_prev->queue_next = f->queue_next;
    else
        s->first = f->queue_next;
    if (f->queue_next != NULL)
        f->queue_next->queue_prev = f->queue_prev;
    else
        s->last = f->queue_prev;
}

void source_enqueue(struct sources *all, struct source *s, struct flight *f)
{
    f->queue_prev = s->last;
    f->queue_next = NULL;
    if (s->last != NULL)
        s->last->queue_next = f;
    else
        s->first = f;
    s->last = f;
    turn_take(all, s);
}

void source_dequeue(struct sources *all, struct source *s, struct flight *f)
{
    queue_remove(s, f);
    if (s->first == NULL)
        turn_end(all, s);
}

struct flight *sources_next(const struct sources *all)
{
    return all->first == NULL ? NULL : all->first->first;
}

void source_begun(struct sources *all, struct source *s, struct flight *f)
{
    INVARIANT(s->in_turn);
    INVARIANT(s->first == f);
    turn_end(all, s);
    queue_remove(s, f);
    s->making++;
    turn_take(all, s);
}

void source_ended(struct sources *all, struct source *s)
{
    INVARIANT(s->making > 0);
    s->making--;
    turn_take(all, s);
}
