/* map_guard.c - handles SIGBUS over the mapped index: says which file could not be read, then
 * ends the process. Everything that the handler calls is safe in a signal handler. */
#include "engine/map_guard.h"

#include "base/check.h"

#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

/* base is stored last and cleared first, so the handler sees whole entries or none. */
struct guarded {
    _Atomic uintptr_t base;
    size_t bytes, path_n;
    char path[PATH_MAX];
};
static struct guarded maps[MAP_GUARD_MAPS_MAX];
static pthread_mutex_t maps_lock = PTHREAD_MUTEX_INITIALIZER; /* of add and remove */

static void map_guard_say(const char *p, size_t n)
{
    while (n > 0) {
        ssize_t w = write(STDERR_FILENO, p, n);
        if (w <= 0)
            return; /* nobody is left to be told */
        p += w;
        n -= (size_t)w;
    }
}

static void say_number(uint64_t v)
{
    char digits[20];
    size_t at = sizeof(digits);
    do
        digits[--at] = (char)('0' + v % 10);
    while ((v /= 10) > 0);
    map_guard_say(digits + at, sizeof(digits) - at);
}

static void say_text(const char *text)
{
    map_guard_say(text, strlen(text));
}

/* Async-signal-safe: write and _exit only. */
static void on_bus_error(int number, siginfo_t *info, void *context)
{
    (void)context; /* where the load was does not matter */
    uintptr_t at = (uintptr_t)info->si_addr;
    for (size_t i = 0; info->si_code > 0 && i < MAP_GUARD_MAPS_MAX; i++) {
        uintptr_t base = atomic_load(&maps[i].base);
        if (base == 0 || at < base || at - base >= maps[i].bytes)
            continue;
        say_text("error store.unreadable file=\"");
        map_guard_say(maps[i].path, maps[i].path_n);
        say_text("\" offset=");
        say_number(at - base);
        say_text(" what=\"the index cannot be read there: the file was cut off, or the disk fails; "
                 "restore the store "
                 "from a backup\"\n");
        _exit(MAP_GUARD_EXIT);
    }
    (void)signal(number, SIG_DFL); /* its default end, when this returns */
    (void)raise(number);
}

static void install(void)
{
    struct sigaction action = { .sa_sigaction = on_bus_error, .sa_flags = SA_SIGINFO };
    (void)sigemptyset(&action.sa_mask);
    int rc = sigaction(SIGBUS, &action, NULL);
    INVARIANT(rc == 0);
}

void map_guard_add(const void *base, size_t bytes, const char *path)
{
    pthread_mutex_lock(&maps_lock);
    install();
    for (size_t i = 0; i < MAP_GUARD_MAPS_MAX; i++) {
        if (atomic_load(&maps[i].base) != 0)
            continue;
        maps[i].bytes = bytes;
        maps[i].path_n = strnlen(path, PATH_MAX);
        memcpy(maps[i].path, path, maps[i].path_n);
        atomic_store(&maps[i].base, (uintptr_t)base);
        break;
    }
    pthread_mutex_unlock(&maps_lock);
}

void map_guard_remove(const void *base)
{
    pthread_mutex_lock(&maps_lock);
    for (size_t i = 0; i < MAP_GUARD_MAPS_MAX; i++)
        if (atomic_load(&maps[i].base) == (uintptr_t)base)
            atomic_store(&maps[i].base, 0);
    pthread_mutex_unlock(&maps_lock);
}
