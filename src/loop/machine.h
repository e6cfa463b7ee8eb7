/* machine.h - how much memory this process may have: the machine's, or less where a control group
 * says so.
 *
 * Read are memory.max of cgroup version 2 and memory.limit_in_bytes of version 1, of this process's
 * group and of all above it. Thread: any. Blocks for some reads of files of the kernel: at the
 * start. */
#ifndef LOOP_MACHINE_H
#define LOOP_MACHINE_H

#include <stdint.h>

/* root: where /proc and /sys are, "" in service. Bytes, never 0. */
uint64_t machine_memory_bytes(const char *root);

#endif
