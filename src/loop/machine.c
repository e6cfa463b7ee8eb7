/* machine.c - the memory of the machine, as the kernel and its control groups tell. What cannot be
 * read is no limit. */
#include "loop/machine.h"

#include "base/check.h"
#include "base/str.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MACHINE_LINE_BYTES = 4096 };

static uint64_t least(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* The number in a file; UINT64_MAX: there is none, or "max". */
static uint64_t number_of(const char *path)
{
    char text[64] = "";
    uint64_t n;
    FILE *f = fopen(path, "re");
    if (f == NULL)
        return UINT64_MAX;
    bool read = fgets(text, sizeof text, f) != NULL;
    (void)fclose(f); /* only read */
    text[strcspn(text, "\n")] = '\0';
    return read && str_to_u64(str_of(text), &n) && n > 0 ? n : UINT64_MAX;
}

/* The least limit of a group and of those above it. group: "/a/b", cut short from its end. */
static uint64_t group_limit(const char *root, const char *tree, char *group, const char *file)
{
    uint64_t limit = UINT64_MAX;
    for (;;) {
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s/sys/fs/cgroup%s%s/%s", root, tree, group, file);
        if (n > 0 && (size_t)n < sizeof path)
            limit = least(limit, number_of(path));
        char *slash = strrchr(group, '/');
        if (slash == NULL)
            return limit;
        *slash = '\0';
    }
}

/* A line of /proc/self/cgroup: "0::/group" of version 2, "7:memory:/group" or "7:cpu,memory:/group"
 * of version 1. */
static uint64_t line_limit(const char *root, char *line)
{
    line[strcspn(line, "\n")] = '\0';
    char *controllers = strchr(line, ':'),
         *group = controllers == NULL ? NULL : strchr(controllers + 1, ':');
    if (group == NULL)
        return UINT64_MAX;
    *group++ = '\0';
    str all = str_of(controllers + 1);
    if (all.n == 0)
        return group_limit(root, "", group, "memory.max");
    while (all.n > 0)
        if (str_eq(str_split(&all, ','), STR("memory")))
            return group_limit(root, "/memory", group, "memory.limit_in_bytes");
    return UINT64_MAX;
}

static uint64_t groups_limit(const char *root)
{
    char path[PATH_MAX], line[MACHINE_LINE_BYTES];
    uint64_t limit = UINT64_MAX;
    int n = snprintf(path, sizeof path, "%s/proc/self/cgroup", root);
    FILE *f = n > 0 && (size_t)n < sizeof path ? fopen(path, "re") : NULL;
    if (f == NULL)
        return limit;
    while (fgets(line, sizeof line, f) != NULL)
        limit = least(limit, line_limit(root, line));
    (void)fclose(f); /* only read */
    return limit;
}

uint64_t machine_memory_bytes(const char *root)
{
    long pages = sysconf(_SC_PHYS_PAGES), page_bytes = sysconf(_SC_PAGESIZE);
    INVARIANT(pages > 0 && page_bytes > 0);
    return least((uint64_t)pages * (uint64_t)page_bytes, groups_limit(root));
}
