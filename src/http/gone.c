#include "http/gone.h"

#include "http/exchange.h"
#include "loop/loop.h"

#include <stdlib.h>
#include <sys/epoll.h>
#include <unistd.h>

enum {
    GONE_EVENTS_MAX = 64,
    GONE_SLOTS_FIRST = 64,
    /* of one sweep: each is a system call, on the loop; the next takes others */
    GONE_ENTERED_MAX = 1024,
};

enum slot_state { SLOT_FREE, SLOT_LATER, SLOT_WATCHING, SLOT_TELLING, SLOT_TOLD, SLOT_STATES };

struct slot {
    enum slot_state state;
    uint32_t generation; /* of its use, so that an old event is known as one */
    unsigned next_free;  /* FREE: index + 1 of another one; 0: none */
    bool answered;       /* TELLING: resume it afterwards */
    bool swept;          /* LATER: a sweep has seen it */
    struct http_exchange *x;
};

struct gone {
    uint32_t magic;
    int set;
    struct loop_watch *watch;
    pthread_mutex_t lock; /* of all below */
    struct slot *slots;
    unsigned slots_count, taken_count, later_count;
    unsigned free_first; /* index + 1 */
};
#define GONE_MAGIC 0x60e60e60u

static const unsigned slot_next[SLOT_STATES] = {
    [SLOT_FREE] = BIT(SLOT_WATCHING) | BIT(SLOT_LATER),
    [SLOT_LATER] = BIT(SLOT_WATCHING) | BIT(SLOT_FREE),
    [SLOT_WATCHING] = BIT(SLOT_TELLING) | BIT(SLOT_FREE),
    [SLOT_TELLING] = BIT(SLOT_TOLD) | BIT(SLOT_FREE),
    [SLOT_TOLD] = BIT(SLOT_FREE),
};

static void slot_move(struct slot *s, enum slot_state to)
{
    INVARIANT(slot_next[s->state] & BIT(to));
    s->state = to;
}

static void lock(struct gone *g)
{
    INVARIANT(pthread_mutex_lock(&g->lock) == 0);
}

static void unlock(struct gone *g)
{
    INVARIANT(pthread_mutex_unlock(&g->lock) == 0);
}

/* ---- slots; under the lock ---- */

static void slots_grow(struct gone *g)
{
    unsigned count = g->slots_count == 0 ? GONE_SLOTS_FIRST : g->slots_count * 2;
    struct slot *more =
        realloc(g->slots, count * sizeof *more); /* as many as connections that wait */
    INVARIANT(more != NULL);
    for (unsigned i = g->slots_count; i < count; i++) {
        more[i] = (struct slot){ .next_free = g->free_first };
        g->free_first = i + 1;
    }
    g->slots = more;
    g->slots_count = count;
}

static struct slot *slot_take(struct gone *g)
{
    if (g->free_first == 0)
        slots_grow(g);
    struct slot *s = &g->slots[g->free_first - 1];
    g->free_first = s->next_free;
    g->taken_count++;
    return s;
}

static void later_ends(struct gone *g)
{
    INVARIANT(g->later_count > 0);
    g->later_count--;
}

/* Its connection is still suspended, or it never came into the set. */
static void slot_leave(struct gone *g, struct slot *s)
{
    if (s->state == SLOT_LATER)
        later_ends(g);
    else
        (void)epoll_ctl(g->set, EPOLL_CTL_DEL, s->x->conn->fd,
                        NULL); /* fails when it never came in */
    slot_move(s, SLOT_FREE);
    s->generation++;
    s->x->gone_slot = 0;
    s->x = NULL;
    s->next_free = g->free_first;
    g->free_first = (unsigned)(s - g->slots) + 1;
    INVARIANT(g->taken_count > 0);
    g->taken_count--;
}

static void slot_enter(struct gone *g, struct slot *s)
{
    slot_move(s, SLOT_WATCHING);
    uint64_t name = ((uint64_t)s->generation << 32) | (uint64_t)(s - g->slots);
    struct epoll_event event = { .events = EPOLLRDHUP | EPOLLONESHOT, .data.u64 = name };
    if (epoll_ctl(g->set, EPOLL_CTL_ADD, s->x->conn->fd, &event) != 0)
        slot_leave(g, s);
}

/* ---- telling; on the loop ---- */

static void tell(struct gone *g, uint64_t name)
{
    unsigned index = (unsigned)(name & UINT32_MAX);
    lock(g);
    struct slot *s = &g->slots[index];
    if (s->generation != name >> 32 ||
        s->state != SLOT_WATCHING) { /* answered since the kernel said so */
        unlock(g);
        return;
    }
    slot_move(s, SLOT_TELLING);
    s->answered = false;
    struct http_exchange *x = s->x;
    unlock(g);
    x->gone(x, x->gone_ctx);
    lock(g);
    s = &g->slots[index]; /* slots may have moved */
    bool answered = s->answered;
    if (answered)
        slot_leave(g, s);
    else
        slot_move(s, SLOT_TOLD);
    unlock(g);
    if (answered)
        exchange_resume(x);
}

static void on_ready(void *ctx, unsigned events)
{
    struct gone *g = ctx;
    MAGIC_CHECK(g, GONE_MAGIC);
    INVARIANT(events == LOOP_READABLE);
    struct epoll_event left[GONE_EVENTS_MAX];
    int n = epoll_wait(g->set, left, GONE_EVENTS_MAX, 0); /* the rest keeps the set readable */
    for (int i = 0; i < n; i++)
        tell(g, left[i].data.u64);
}

/* ---- what others call ---- */

struct gone *gone_new(struct loop *loop)
{
    struct gone *g = calloc(1, sizeof *g);
    INVARIANT(g != NULL);
    g->magic = GONE_MAGIC;
    INVARIANT(pthread_mutex_init(&g->lock, NULL) == 0);
    g->set = epoll_create1(EPOLL_CLOEXEC);
    INVARIANT(g->set >= 0);
    g->watch = loop_watch_new(loop, g->set, on_ready, g);
    loop_watch_start(g->watch, LOOP_READABLE);
    return g;
}

void gone_free(struct gone **gp)
{
    struct gone *g = *gp;
    if (g == NULL)
        return;
    MAGIC_CHECK(g, GONE_MAGIC);
    INVARIANT(g->taken_count == 0);
    loop_watch_free(&g->watch);
    close(g->set);
    INVARIANT(pthread_mutex_destroy(&g->lock) == 0);
    free(g->slots);
    g->magic = 0;
    free(g);
    *gp = NULL;
}

void gone_watch(struct gone *g, struct http_exchange *x)
{
    MAGIC_CHECK(g, GONE_MAGIC);
    lock(g);
    if (atomic_load(&x->answered)) { /* gone_end came first and found nothing, or comes and will
                                        find nothing */
        unlock(g);
        return;
    }
    struct slot *s = slot_take(g);
    s->x = x;
    x->gone_slot = (unsigned)(s - g->slots) + 1;
    if (x->gone_late) {
        slot_move(s, SLOT_LATER);
        s->swept = false;
        g->later_count++;
    } else {
        slot_enter(g, s);
    }
    unlock(g);
}

void gone_sweep(struct gone *g)
{
    MAGIC_CHECK(g, GONE_MAGIC);
    lock(g);
    unsigned room = GONE_ENTERED_MAX;
    for (unsigned i = 0, left = g->later_count; left > 0; i++) {
        struct slot *s = &g->slots[i];
        if (s->state != SLOT_LATER)
            continue;
        left--;
        if (s->swept && room > 0) {
            room--;
            later_ends(g);
            slot_enter(g, s);
        }
        s->swept = true;
    }
    unlock(g);
}

bool gone_end(struct gone *g, struct http_exchange *x)
{
    MAGIC_CHECK(g, GONE_MAGIC);
    INVARIANT(atomic_load(&x->answered));
    bool telling = false;
    lock(g);
    if (x->gone_slot != 0) {
        struct slot *s = &g->slots[x->gone_slot - 1];
        INVARIANT(s->x == x);
        telling = s->state == SLOT_TELLING;
        if (telling)
            s->answered = true;
        else
            slot_leave(g, s);
    }
    unlock(g);
    return !telling;
}
