/* Invariant: who waits does so because at_once_max are in. Timer and go are the loop's; the rest is
 * under the lock. */
#include "render/gate.h"

#include "loop/loop.h"
#include "render/measure.h"

#include <pthread.h>
#include <stdlib.h>

struct gate {
    struct loop *loop;
    struct clock *clock;
    struct loop_timer *timer; /* NULL until somebody waited */
    pthread_mutex_t lock;
    unsigned at_once_max, waiting_max, in;
    struct list waiting;   /* in order of arrival */
    struct heap deadlines; /* of who waits */
    struct meter *meter;   /* NULL: nobody measures */
};

static struct gate_pass *pass_of(const struct heap_node *n)
{
    return (struct gate_pass *)((uintptr_t)n - offsetof(struct gate_pass, node));
}

static bool is_before(const struct heap_node *a, const struct heap_node *b)
{
    return pass_of(a)->deadline.ns < pass_of(b)->deadline.ns;
}

static void lock(struct gate *g)
{
    INVARIANT(pthread_mutex_lock(&g->lock) == 0);
}

static void unlock(struct gate *g)
{
    INVARIANT(pthread_mutex_unlock(&g->lock) == 0);
}

struct gate *gate_new(struct loop *loop, struct clock *clock, unsigned at_once_max,
                      unsigned waiting_max)
{
    struct gate *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    *g = (struct gate){
        .loop = loop, .clock = clock, .at_once_max = at_once_max, .waiting_max = waiting_max
    };
    list_init(&g->waiting);
    heap_init(&g->deadlines, is_before);
    INVARIANT(pthread_mutex_init(&g->lock, NULL) == 0);
    return g;
}

void gate_free(struct gate **gp)
{
    struct gate *g = *gp;
    if (g == NULL)
        return;
    INVARIANT(g->in == 0);
    INVARIANT(list_empty(&g->waiting));
    loop_timer_free(&g->timer);
    heap_fini(&g->deadlines);
    INVARIANT(pthread_mutex_destroy(&g->lock) == 0);
    free(g);
    *gp = NULL;
}

void gate_measure(struct gate *g, struct meter *m)
{
    INVARIANT(g->in == 0);
    INVARIANT(list_empty(&g->waiting));
    g->meter = m;
}

static void append(struct gate *g, struct gate_pass *p)
{
    p->state = GATE_WAITING;
    list_append(&g->waiting, &p->link);
    heap_add(&g->deadlines, &p->node);
    meter_waiting(g->meter, 1);
}

static void take_out(struct gate *g, struct gate_pass *p, enum gate_state to)
{
    INVARIANT(p->state == GATE_WAITING);
    list_remove(&p->link);
    heap_remove(&g->deadlines, &p->node);
    meter_waiting(g->meter, -1);
    p->state = to;
}

static void arm(void *ctx);

static void on_deadline(void *ctx)
{
    struct gate *g = ctx;
    mono now = clock_mono(g->clock);
    for (;;) {
        lock(g);
        struct heap_node *n = heap_first(&g->deadlines);
        struct gate_pass *late = n != NULL && pass_of(n)->deadline.ns <= now.ns ? pass_of(n) : NULL;
        if (late != NULL)
            take_out(g, late, GATE_OUT);
        unlock(g);
        if (late == NULL)
            break;
        late->go(late, false);
    }
    arm(g);
}

/* Sets the timer to the first deadline. */
static void arm(void *ctx)
{
    struct gate *g = ctx;
    if (g->timer == NULL)
        g->timer = loop_timer_new(g->loop, on_deadline, g);
    lock(g);
    const struct heap_node *n = heap_first(&g->deadlines);
    int64_t rest = n == NULL ? 0 : pass_of(n)->deadline.ns - clock_mono(g->clock).ns;
    unlock(g);
    if (n == NULL)
        loop_timer_stop(g->timer);
    else
        loop_timer_start(g->timer, rest <= 0 ? 0 : rest / NS_PER_MS + 1, 0);
}

bool gate_enter(struct gate *g, struct gate_pass *p)
{
    bool in = false, full = false;
    lock(g);
    if (g->in < g->at_once_max) {
        INVARIANT(list_empty(&g->waiting));
        g->in++;
        meter_making(g->meter, 1);
        p->state = GATE_IN;
        in = true;
    } else if (g->deadlines.count >= g->waiting_max) {
        full = true;
    } else {
        append(g, p);
        if (heap_first(&g->deadlines) == &p->node)
            loop_post(g->loop, arm,
                      g); /* under the lock: it runs before this pass can be through */
    }
    unlock(g);
    if (in)
        p->go(p, true);
    return !full;
}

void gate_leave(struct gate *g, struct gate_pass *p)
{
    loop_assert_here(g->loop);
    if (p->state != GATE_IN)
        return;
    lock(g);
    INVARIANT(g->in > 0);
    p->state = GATE_OUT;
    g->in--;
    meter_making(g->meter, -1);
    struct list *first = list_first(&g->waiting);
    struct gate_pass *next = first == NULL ? NULL : CONTAINER_OF(first, struct gate_pass, link);
    if (next != NULL) {
        take_out(g, next, GATE_IN);
        g->in++;
        meter_making(g->meter, 1);
    }
    unlock(g);
    if (next != NULL)
        next->go(next, true);
}

bool gate_cancel(struct gate *g, struct gate_pass *p)
{
    loop_assert_here(g->loop);
    lock(g);
    bool waited = p->state == GATE_WAITING;
    if (waited)
        take_out(g, p, GATE_OUT);
    unlock(g);
    return waited;
}

void gate_counts(struct gate *g, uint64_t *in, uint64_t *waiting)
{
    lock(g);
    *in = g->in;
    *waiting = g->deadlines.count;
    unlock(g);
}
