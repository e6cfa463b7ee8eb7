/* memory.h - an arena for each case of a test, which is freed behind it: a setup and a teardown of
 * cmocka. */
#ifndef TEST_LIB_MEMORY_H
#define TEST_LIB_MEMORY_H

#include "base/arena.h"

enum { MEMORY_BYTES = 1 << 20 };
extern struct arena memory;

int memory_setup(void **state);
int memory_teardown(void **state);

#endif
