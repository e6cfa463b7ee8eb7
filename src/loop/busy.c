/* busy.c - measures how busy a thread is, from files of /proc, once a window. Invariant: a wait
 * that cannot be read counts as none, and idle time that cannot be read counts as enough for a
 * second thread. */
#include "loop/busy.h"

#include "base/check.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum {
    WAITED_BYTES_MAX = 128,
    STAT_BYTES = 4096, /* read at once; a line is shorter */
    PROCESSOR_SETS = 8 /* of 1,024: as many as Linux knows */
};

/* ---- what the kernel says ---- */

int64_t busy_waited_ns(str text)
{
    uint64_t ran, waited;
    str rest = str_take(text, str_find(text, '\n')), first = str_split(&rest, ' '),
        second = str_split(&rest, ' ');
    if (!str_to_u64(first, &ran) || !str_to_u64(second, &waited) || waited > INT64_MAX)
        return -1;
    return (int64_t)waited;
}

bool busy_processor(str line, unsigned *number, int64_t *idle_ticks)
{
    enum { FIELD_IDLE = 3, FIELDS = 5 };
    const uint64_t ticks_max = 100000000000; /* 30 years; those of all processors can be added */
    uint64_t n, ticks[FIELDS];
    str name = str_split(&line, ' ');
    if (!str_starts(name, STR("cpu")) || !str_to_u64(str_skip(name, 3), &n) || n > UINT32_MAX)
        return false;
    for (unsigned i = 0; i < FIELDS; i++)
        if (!str_to_u64(str_split(&line, ' '), &ticks[i]) || ticks[i] > ticks_max)
            return false;
    *number = (unsigned)n;
    *idle_ticks = (int64_t)(ticks[FIELD_IDLE] + ticks[FIELD_IDLE + 1]);
    return true;
}

/* Opened each time: a thread of many has no descriptor to spare for it. */
static int64_t waited_read(void)
{
    char text[WAITED_BYTES_MAX];
    int fd = open("/proc/thread-self/schedstat", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text);
    (void)close(fd); /* nothing was written */
    return n <= 0 ? -1 : busy_waited_ns((str){ .p = text, .n = (size_t)n });
}

struct idle {
    cpu_set_t own[PROCESSOR_SETS];
    int64_t ticks;
    bool any;
};

/* False: the lines of processors are over. */
static bool idle_add(struct idle *all, str line)
{
    unsigned number;
    int64_t ticks;
    if (!str_starts(line, STR("cpu")))
        return false;
    if (busy_processor(line, &number, &ticks) && CPU_ISSET_S(number, sizeof all->own, all->own)) {
        all->ticks += ticks;
        all->any = true;
    }
    return true;
}

static void idle_add_all(struct idle *all, int fd)
{
    char text[STAT_BYTES];
    size_t have = 0;
    ssize_t n;
    while ((n = read(fd, text + have, sizeof text - have)) > 0) {
        str rest = { .p = text, .n = have + (size_t)n };
        for (size_t end = str_find(rest, '\n'); end < rest.n; end = str_find(rest, '\n')) {
            if (!idle_add(all, str_take(rest, end)))
                return;
            rest = str_skip(rest, end + 1);
        }
        have = rest.n;
        memmove(text, rest.p, have);
    }
}

/* -1: not known; *blind: nor will it be. */
static int64_t idle_read(bool *blind)
{
    struct idle all = { .ticks = 0 };
    int64_t hz = sysconf(_SC_CLK_TCK);
    int fd = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    bool out_of_files = fd < 0 && (errno == EMFILE || errno == ENFILE || errno == ENOMEM);
    if (fd >= 0) {
        if (sched_getaffinity(0, sizeof all.own, all.own) == 0)
            idle_add_all(&all, fd);
        (void)close(fd); /* nothing was written */
    }
    *blind = !all.any && !out_of_files;
    return all.any ? all.ticks * 1000 / hz : -1;
}

/* ---- windows ---- */

static int64_t percent_of(int64_t part_ns, int64_t took_ns)
{
    return part_ns <= 0 ? 0 : part_ns * 100 / took_ns;
}

/* Of a figure in this window: none when it is not known what it was at its begin or end. */
static int64_t difference(int64_t before, int64_t now)
{
    return before >= 0 && now >= 0 ? now - before : 0;
}

static int64_t worked_percent(const struct busy_sample *before, const struct busy_sample *s)
{
    int64_t took = s->at.ns - before->at.ns;
    return percent_of(s->ran_ns - before->ran_ns + difference(before->waited_ns, s->waited_ns),
                      took);
}

bool busy_is_restless(const struct busy *b, const struct busy_sample *s)
{
    return b->last.at.ns != 0 && s->at.ns > b->last.at.ns &&
           worked_percent(&b->last, s) >= BUSY_FULL_PERCENT;
}

bool busy_add(struct busy *b, const struct busy_sample *s)
{
    struct busy_sample before = b->last;
    int64_t took = s->at.ns - before.at.ns;
    bool restless = busy_is_restless(b, s);
    b->last = *s;
    if (before.at.ns == 0 || took <= 0)
        return false;
    int64_t idle_ms = difference(before.idle_ms, s->idle_ms);
    bool spare = b->blind || percent_of(idle_ms * NS_PER_MS, took) >= BUSY_SPARE_PERCENT;
    bool waited =
        percent_of(difference(before.waited_ns, s->waited_ns), took) >= BUSY_WAITED_PERCENT;
    b->waited_windows = waited ? b->waited_windows + 1 : 0;
    bool full = restless && (spare || b->waited_windows >= BUSY_WAITED_WINDOWS);
    atomic_store(&b->percent, (unsigned)worked_percent(&before, s));
    atomic_store(&b->full, full);
    atomic_store(&b->at_ns, s->at.ns);
    return full;
}

bool busy_look(struct busy *b, mono now)
{
    struct timespec ran;
    if (now.ns - b->last.at.ns < BUSY_WINDOW_MS * NS_PER_MS)
        return false;
    INVARIANT(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &ran) == 0);
    struct busy_sample s = { .at = now,
                             .ran_ns = (int64_t)ran.tv_sec * NS_PER_S + ran.tv_nsec,
                             .waited_ns = waited_read(),
                             .idle_ms = -1 };
    if (busy_is_restless(
            b,
            &s)) /* /proc/stat takes the kernel a while: so the second such window counts first */
        s.idle_ms = idle_read(&b->blind);
    return busy_add(b, &s);
}

static bool is_recent(const struct busy *b, mono now)
{
    return now.ns - atomic_load(&b->at_ns) < 3 * BUSY_WINDOW_MS * NS_PER_MS;
}

unsigned busy_percent(const struct busy *b, mono now)
{
    return is_recent(b, now) ? atomic_load(&b->percent) : 0;
}

bool busy_full(const struct busy *b, mono now)
{
    return is_recent(b, now) && atomic_load(&b->full);
}
