/* Goal: the memory of the machine is what the least of its control groups says. Method: trees of
 * files such as the kernel shows. */
#include "loop/machine.h"

#include "base/check.h"
#include "lib/folder.h"

#include "../cmocka_all.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Writes root + path, with the folders above it. */
static void put(const char *dir, const char *path, const char *text)
{
    char full[PATH_MAX];
    int n = snprintf(full, sizeof full, "%s%s", dir, path);
    assert_true(n > 0 && (size_t)n < sizeof full);
    for (char *at = strchr(full + strlen(dir) + 1, '/'); at != NULL; at = strchr(at + 1, '/')) {
        *at = '\0';
        (void)mkdir(full, 0700); /* it may be there */
        *at = '/';
    }
    FILE *f = fopen(full, "we");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

static void the_least_group_above_counts(void **state)
{
    (void)state;
    char dir[FOLDER_PATH_BYTES];
    folder_make(dir);
    uint64_t machine = machine_memory_bytes(dir);
    assert_true(machine > 1 << 20);
    put(dir, "/proc/self/cgroup", "0::/a/b\n");
    assert_true(machine_memory_bytes(dir) == machine);
    put(dir, "/sys/fs/cgroup/a/b/memory.max", "max\n");
    assert_true(machine_memory_bytes(dir) == machine);
    put(dir, "/sys/fs/cgroup/a/memory.max", "3000000\n");
    assert_int_equal(machine_memory_bytes(dir), 3000000);
    put(dir, "/sys/fs/cgroup/a/b/memory.max", "2000000\n");
    assert_int_equal(machine_memory_bytes(dir), 2000000);
    put(dir, "/sys/fs/cgroup/memory.max",
        "1000000\n"); /* of a container, that sees its own group as the root */
    assert_int_equal(machine_memory_bytes(dir), 1000000);
    folder_remove(dir);
}

static void groups_of_version_1_count_too(void **state)
{
    (void)state;
    char dir[FOLDER_PATH_BYTES];
    folder_make(dir);
    put(dir, "/proc/self/cgroup", "12:pids:/x\n4:cpu,memory:/docker/7\n1:name=systemd:/y\n0::/\n");
    put(dir, "/sys/fs/cgroup/memory/docker/7/memory.limit_in_bytes", "5000000\n");
    put(dir, "/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "4000000\n");
    assert_int_equal(machine_memory_bytes(dir), 5000000);
    folder_remove(dir);
}

static void what_makes_no_sense_is_no_limit(void **state)
{
    static const char *const groups[] = { "", "\n", "0", "0:", "0::", ":::::\n", "0::/../../..\n",
                                          "x" };
    (void)state;
    char dir[FOLDER_PATH_BYTES];
    folder_make(dir);
    uint64_t machine = machine_memory_bytes(dir);
    put(dir, "/sys/fs/cgroup/memory.max", "-7 apples\n");
    for (size_t i = 0; i < COUNT_OF(groups); i++) {
        put(dir, "/proc/self/cgroup", groups[i]);
        assert_true(machine_memory_bytes(dir) == machine);
    }
    put(dir, "/sys/fs/cgroup/memory.max", "0\n");
    put(dir, "/proc/self/cgroup", "0::/\n");
    assert_true(machine_memory_bytes(dir) == machine);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_least_group_above_counts),
        cmocka_unit_test(groups_of_version_1_count_too),
        cmocka_unit_test(what_makes_no_sense_is_no_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
