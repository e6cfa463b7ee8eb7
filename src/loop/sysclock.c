/* sysclock.c - store_time from the machine's clocks, readable by any thread without a lock.
 *
 * Invariants:
 * 1. store_time does not fall, except by the first freeze and by the first start.
 * 2. sequence is odd while a writer (holding writing) is between its first and last store. A writer
 *    makes it odd before it reads the clock, and a reader reads the clock before it looks at the
 *    sequence again: so a reader that kept the old line read an instant before the new anchor, and
 *    at the anchor both lines agree.
 * 3. frozen: store_time is frozen_ns exactly. */
#include "loop/sysclock.h"

#include "base/date.h"
#include "loop/slew.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <time.h>

#define SYSCLOCK_MAGIC 0x5c10c4u

struct sysclock {
    uint32_t magic;
    struct clock clock;
    pthread_mutex_t writing;
    atomic_uint sequence;
    _Atomic int64_t boot_ns, store_ns, offset_ns; /* a struct slew */
    _Atomic int64_t frozen_ns;
    atomic_bool frozen;
    /* Under writing: */
    bool was_frozen, started;
    int64_t leap_ns_max;
    int64_t ahead_ns; /* of wall, by hooks; what the slew leans towards */
};

static int64_t kernel_ns(clockid_t id)
{
    struct timespec t;
    INVARIANT(clock_gettime(id, &t) == 0);
    return (int64_t)t.tv_sec * NS_PER_S + (int64_t)t.tv_nsec;
}

enum { READ_APART_NS_MAX = 10 * 1000 * 1000, READ_TRIES_MAX = 100 };

/* CLOCK_BOOTTIME and wall at one instant: a thread that lost its turn between them would see a step
 * that was none. */
static int64_t read_both(int64_t *wall_ns)
{
    int64_t before, after;
    unsigned tries = 0;
    do {
        before = kernel_ns(CLOCK_BOOTTIME);
        *wall_ns = kernel_ns(CLOCK_REALTIME);
        after = kernel_ns(CLOCK_BOOTTIME);
    } while (after - before > READ_APART_NS_MAX && ++tries < READ_TRIES_MAX);
    return after;
}

static struct slew slew_load(const struct sysclock *c)
{
    return (struct slew){
        .boot_ns = atomic_load_explicit(&c->boot_ns, memory_order_acquire),
        .store_ns = atomic_load_explicit(&c->store_ns, memory_order_acquire),
        .offset_ns = atomic_load_explicit(&c->offset_ns, memory_order_acquire),
    };
}

/* Release, each: whoever sees one of them also sees the odd sequence. */
static void slew_store(struct sysclock *c, struct slew s)
{
    atomic_store_explicit(&c->boot_ns, s.boot_ns, memory_order_release);
    atomic_store_explicit(&c->store_ns, s.store_ns, memory_order_release);
    atomic_store_explicit(&c->offset_ns, s.offset_ns, memory_order_release);
}

static void write_begin(struct sysclock *c)
{
    MAGIC_CHECK(c, SYSCLOCK_MAGIC);
    INVARIANT(pthread_mutex_lock(&c->writing) == 0);
    unsigned sequence = atomic_load(&c->sequence);
    INVARIANT(sequence % 2 == 0);
    atomic_store(&c->sequence, sequence + 1);
}

static void write_end(struct sysclock *c)
{
    atomic_store(&c->sequence, atomic_load(&c->sequence) + 1);
    INVARIANT(pthread_mutex_unlock(&c->writing) == 0);
}

static int64_t read_store(const struct sysclock *c)
{
    for (;;) {
        unsigned before = atomic_load(&c->sequence);
        if (before % 2 != 0)
            continue;
        struct slew s = slew_load(c);
        bool frozen = atomic_load_explicit(&c->frozen, memory_order_acquire);
        int64_t frozen_ns = atomic_load_explicit(&c->frozen_ns, memory_order_acquire);
        int64_t now = frozen ? frozen_ns : slew_at(&s, kernel_ns(CLOCK_BOOTTIME));
        if (atomic_load(&c->sequence) == before)
            return now;
    }
}

static struct sysclock *of_clock(struct clock *clock)
{
    struct sysclock *c = CONTAINER_OF(clock, struct sysclock, clock);
    MAGIC_CHECK(c, SYSCLOCK_MAGIC);
    return c;
}

static store_time now_store(struct clock *clock)
{
    return (store_time){ .ns = read_store(of_clock(clock)) };
}

static mono now_mono(struct clock *clock)
{
    (void)clock; /* the kernel's, whoever asks */
    return (mono){ .ns = kernel_ns(CLOCK_MONOTONIC) };
}

static wall now_wall(struct clock *clock)
{
    (void)clock; /* as above */
    return (wall){ .ns = kernel_ns(CLOCK_REALTIME) };
}

struct sysclock *sysclock_new(void)
{
    struct sysclock *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    c->magic = SYSCLOCK_MAGIC;
    c->leap_ns_max = DURATION_NEVER;
    c->clock = (struct clock){ .store_now = now_store, .mono_now = now_mono, .wall_now = now_wall };
    INVARIANT(pthread_mutex_init(&c->writing, NULL) == 0);
    slew_store(c, (struct slew){ .boot_ns = kernel_ns(CLOCK_BOOTTIME),
                                 .store_ns = kernel_ns(CLOCK_REALTIME) });
    return c;
}

void sysclock_free(struct sysclock **cp)
{
    if (*cp == NULL)
        return;
    MAGIC_CHECK(*cp, SYSCLOCK_MAGIC);
    INVARIANT(pthread_mutex_destroy(&(*cp)->writing) == 0);
    (*cp)->magic = 0;
    free(*cp);
    *cp = NULL;
}

struct clock *sysclock_clock(struct sysclock *c)
{
    MAGIC_CHECK(c, SYSCLOCK_MAGIC);
    return &c->clock;
}

/* Within write_begin and write_end. */
static int64_t store_here(const struct sysclock *c, int64_t boot_ns)
{
    struct slew s = slew_load(c);
    return atomic_load(&c->frozen) ? atomic_load(&c->frozen_ns) : slew_at(&s, boot_ns);
}

void sysclock_believe(struct sysclock *c, int64_t leap_ns_max)
{
    write_begin(c);
    INVARIANT(!c->started);
    c->leap_ns_max = leap_ns_max;
    write_end(c);
}

/* Within write_begin and write_end. */
static bool believes(const struct sysclock *c, int64_t now, int64_t target)
{
    int64_t lead;
    bool fits = !__builtin_sub_overflow(target, now, &lead);
    return now < SYSCLOCK_SET_S * NS_PER_S || (fits && lead <= c->leap_ns_max);
}

void sysclock_start(struct sysclock *c, store_time greatest_stored)
{
    write_begin(c);
    int64_t wall_ns, boot_ns = read_both(&wall_ns);
    bool frozen = atomic_load(&c->frozen);
    int64_t now = frozen || c->started ? store_here(c, boot_ns) : greatest_stored.ns;
    if (now < greatest_stored.ns)
        now = greatest_stored.ns;
    if (frozen) {
        atomic_store_explicit(&c->frozen_ns, now, memory_order_release);
    } else {
        if (now < wall_ns && believes(c, now, wall_ns))
            now = wall_ns;
        slew_store(c, (struct slew){ .boot_ns = boot_ns, .store_ns = now });
    }
    c->started = true;
    write_end(c);
}

/* Within write_begin and write_end, not frozen. */
static struct sysclock_look lean(struct sysclock *c)
{
    int64_t target, boot_ns = read_both(&target);
    struct slew s = slew_load(c);
    int64_t now = slew_at(&s, boot_ns);
    if (__builtin_add_overflow(target, c->ahead_ns, &target))
        target = INT64_MAX;
    struct sysclock_look look = { .verdict = SYSCLOCK_NEAR };
    if (__builtin_sub_overflow(target, now, &look.lead_ns))
        look.lead_ns = target > now ? INT64_MAX : INT64_MIN;
    if (look.lead_ns < -SYSCLOCK_STEP_MS * NS_PER_MS)
        look.verdict = SYSCLOCK_BEHIND;
    else if (!believes(c, now, target))
        look.verdict = SYSCLOCK_LEAP;
    else if (look.lead_ns > SYSCLOCK_STEP_MS * NS_PER_MS)
        look.verdict = SYSCLOCK_STEPPED;
    if (look.verdict == SYSCLOCK_STEPPED)
        slew_store(c, (struct slew){ .boot_ns = boot_ns, .store_ns = target });
    else
        slew_store(c, slew_towards(&s, boot_ns, look.verdict == SYSCLOCK_LEAP ? now : target));
    return look;
}

struct sysclock_look sysclock_tick(struct sysclock *c)
{
    write_begin(c);
    bool frozen = atomic_load(&c->frozen);
    struct sysclock_look look =
        frozen ? (struct sysclock_look){ .verdict = SYSCLOCK_NEAR } : lean(c);
    write_end(c);
    return look;
}

static void freeze_at(struct sysclock *c, int64_t ns)
{
    atomic_store_explicit(&c->frozen_ns, ns, memory_order_release);
    atomic_store_explicit(&c->frozen, true, memory_order_release);
    c->was_frozen = true;
}

err sysclock_freeze(struct sysclock *c, store_time at, struct err_note *note)
{
    write_begin(c);
    int64_t now = store_here(c, kernel_ns(CLOCK_BOOTTIME));
    bool back = c->was_frozen && at.ns < now;
    if (!back)
        freeze_at(c, at.ns);
    write_end(c);
    if (!back)
        return ERR_OK;
    char text[DATE_RFC3339_BYTES + 1];
    date_format_ns(now, text);
    err_note_set(note, "the clock stands at %s and does not go back", text);
    return ERR_BAD;
}

err sysclock_advance(struct sysclock *c, int64_t ns, struct err_note *note)
{
    if (ns < 0) {
        err_note_set(note, "the clock does not go back");
        return ERR_BAD;
    }
    write_begin(c);
    int64_t boot_ns = kernel_ns(CLOCK_BOOTTIME), then, ahead_ns;
    bool frozen = atomic_load(&c->frozen);
    bool fits = !__builtin_add_overflow(store_here(c, boot_ns), ns, &then) &&
                !__builtin_add_overflow(c->ahead_ns, ns, &ahead_ns);
    if (fits && frozen) {
        freeze_at(c, then);
    } else if (fits) {
        c->ahead_ns = ahead_ns;
        slew_store(c, (struct slew){ .boot_ns = boot_ns, .store_ns = then });
    }
    write_end(c);
    if (fits)
        return ERR_OK;
    err_note_set(note, "the clock ends in the year 2262");
    return ERR_BAD;
}

void sysclock_resume(struct sysclock *c)
{
    write_begin(c);
    if (atomic_load(&c->frozen)) {
        int64_t wall_ns = kernel_ns(CLOCK_REALTIME), now = atomic_load(&c->frozen_ns);
        if (now < wall_ns)
            now = wall_ns;
        c->ahead_ns = now - wall_ns;
        slew_store(c, (struct slew){ .boot_ns = kernel_ns(CLOCK_BOOTTIME), .store_ns = now });
        atomic_store_explicit(&c->frozen, false, memory_order_release);
    }
    write_end(c);
}
