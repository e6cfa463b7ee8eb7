/* gate.h - how many renders one origin makes at once; the rest wait in order of arrival. Private
 * here.
 *
 * A render is two requests. Let in one by one they would all ask for their metadata first, and
 * then, behind one another, all run out of time; so a render is let in as a whole, and its requests
 * find the way free. Somebody's save (a transform, and before it whose the cookie is) passes a gate
 * of its own, and so does what is asked for alone and is cheap (metadata, wikitext): no crowd of
 * one kind is in the way of another. Thread: enter from any, the rest on the loop. go: on the loop,
 * or inside enter. */
#ifndef RENDER_GATE_H
#define RENDER_GATE_H

#include "base/heap.h"
#include "base/list.h"
#include "render/render.h"

enum { GATE_WAITING_MAX = 10000, GATE_METAS_WAITING_MAX = 1000 };

struct gate;
struct meter;
enum gate_state { GATE_OUT, GATE_WAITING, GATE_IN };
struct gate_pass {
    mono deadline;
    void (*go)(struct gate_pass *p, bool in); /* in: until gate_leave; else the deadline passed */
    /* the gate's */
    enum gate_state state;
    struct list link;
    struct heap_node node;
};
struct gate *gate_new(struct loop *loop, struct clock *clock, unsigned at_once_max,
                      unsigned waiting_max);
void gate_free(struct gate **gp); /* nobody is in or waits */
/* Who is in and who waits is counted there too. Before anybody enters; borrowed. */
void gate_measure(struct gate *g, struct meter *m);
/* False: waiting_max wait already, and go is not called. */
MUST_CHECK bool gate_enter(struct gate *g, struct gate_pass *p);
/* Does nothing for one that is not in. */
void gate_leave(struct gate *g, struct gate_pass *p);
/* How many are in, and wait. Thread: any. */
void gate_counts(struct gate *g, uint64_t *in, uint64_t *waiting);
/* True: it waited, and go is not called any more. */
bool gate_cancel(struct gate *g, struct gate_pass *p);

#endif
