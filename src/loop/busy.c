#include "loop/busy.h"

#include "base/check.h"
#include "base/str.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { UPTIME_BYTES_MAX = 128 };

int64_t busy_idle_ns(const char *text)
{
    str line = str_of(text), idle = str_skip(line, str_find(line, ' ') + 1);
    idle = str_take(idle, str_find(idle, '\n'));
    size_t dot = str_find(idle, '.');
    uint64_t seconds, hundredths;
    if (!str_to_u64(str_take(idle, dot), &seconds) || !str_to_u64(str_skip(idle, dot + 1), &hundredths) ||
        seconds > INT64_MAX / NS_PER_S - 1 || hundredths > 99)
        return -1;
    return (int64_t)seconds * NS_PER_S + (int64_t)hundredths * (NS_PER_S / 100);
}

static int64_t idle_read(void)
{
    char text[UPTIME_BYTES_MAX];
    int fd = open("/proc/uptime", O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return -1;
    ssize_t n = read(fd, text, sizeof text - 1);
    (void)close(fd); /* nothing was written */
    if (n <= 0)
        return -1;
    text[n] = 0;
    return busy_idle_ns(text);
}

bool busy_add(struct busy *b, const struct busy_sample *s)
{
    struct busy_sample before = b->last;
    int64_t took = s->at.ns - before.at.ns;
    bool first = before.at.ns == 0;
    b->last = *s;
    if (first || took <= 0)
        return false;
    int64_t percent = (s->ran_ns - before.ran_ns) * 100 / took;
    bool spare = s->idle_ns < 0 || before.idle_ns < 0 ||
                 (s->idle_ns - before.idle_ns) * 100 / took >= BUSY_SPARE_PERCENT;
    bool full = percent >= BUSY_FULL_PERCENT && spare;
    atomic_store(&b->percent, percent < 0 ? 0u : (unsigned)percent);
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
    const struct busy_sample s = { .at = now, .ran_ns = (int64_t)ran.tv_sec * NS_PER_S + ran.tv_nsec,
                                   .idle_ns = idle_read() };
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
