#include "lib/memory.h"

struct arena memory;

int memory_setup(void **state)
{
    (void)state;
    arena_init(&memory, MEMORY_BYTES);
    return 0;
}

int memory_teardown(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}
