/* queue_gate.h - how many calls at once may hold a thread of the pool while they wait for other work of the pool: less
 * than there are threads, so that this work finds one. The rest wait their turn, first come first. Private to queue*.c.
 * Thread: any. */
#ifndef APP_QUEUE_GATE_H
#define APP_QUEUE_GATE_H

struct loop;
struct loop_job;
struct queue_gate;
struct queue_turn { struct queue_turn *next; struct loop_job *job; }; /* of one call; the gate's while it waits */

/* Owner: caller. threads: of the pool. Dies when out of memory. */
struct queue_gate *queue_gate_new(struct loop *loop, unsigned threads);
void queue_gate_free(struct queue_gate **gp); /* nobody is in it */
/* Starts the job now or when it is its turn. */
void queue_gate_enter(struct queue_gate *g, struct queue_turn *t, struct loop_job *job);
/* Its job is done. */
void queue_gate_leave(struct queue_gate *g);

#endif
