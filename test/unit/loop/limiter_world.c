#include "limiter_world.h"

#include "../cmocka_all.h"

#include <stdlib.h>

static struct world *world; /* of the running test */

static mono world_now(struct clock *c)
{
    return (mono){ .ns = CONTAINER_OF(c, struct world, clock)->now_ns };
}

struct world *world_new(void)
{
    struct world *w = calloc(1, sizeof *w);
    assert_non_null(w);
    w->clock.mono_now = world_now;
    w->now_ns = NS_PER_S;
    w->limiter = limiter_new(NULL, &w->clock);
    world = w;
    return w;
}

struct limiter_figures figures(const struct world *w, enum limiter_level level,
                               const struct limiter_key *key)
{
    struct limiter_figures f;
    limiter_figures_get(w->limiter, level, key, &f);
    return f;
}

void world_free(struct world *w)
{
    for (unsigned i = 0; i < w->count; i++)
        (void)limiter_leave(w->limiter, &w->guests[i].pass); /* most have left */
    limiter_turn(w->limiter);
    for (unsigned i = 0; i < w->count; i++)
        (void)limiter_leave(w->limiter, &w->guests[i].pass);
    struct limiter_figures f = figures(w, LIMITER_ALL, NULL);
    assert_int_equal(f.running + f.held + f.waiting, 0);
    limiter_free(&w->limiter);
    free(w);
}

static void guest_go(struct limiter_pass *p, bool in)
{
    struct guest *g = CONTAINER_OF(p, struct guest, pass);
    assert_int_equal(g->goes, 0);
    assert_int_equal(p->state, in ? LIMITER_IN : LIMITER_OUT);
    g->goes++;
    g->late = !in;
    if (in)
        g->place = ++world->let_in;
}

enum limiter_state guest_enter(struct world *w, struct guest *g, const struct limiter_key *key)
{
    g->key = key;
    g->arrived = ++w->arrivals;
    g->goes = g->place = 0;
    g->late = false;
    g->pass.go = guest_go;
    enum limiter_state state = limiter_enter(w->limiter, key, &g->pass);
    assert_int_equal(state, g->pass.state);
    if (state == LIMITER_IN)
        g->place = ++w->let_in;
    limiter_check(w->limiter);
    return state;
}
