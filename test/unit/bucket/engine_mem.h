/* engine_mem.h - engine.h in memory, for tests of what stands on it: a sorted array, updates one at
 * a time.
 *
 * Stricter than a real engine where that finds faults: every decision is run twice, the first time
 * thrown away; rows are moved on each write; and updates can be made to fail. Nothing survives
 * engine_close. */
#ifndef TEST_ENGINE_MEM_H
#define TEST_ENGINE_MEM_H

#include "engine/engine.h"

struct engine *engine_mem_new(struct clock *clock);
/* The next update that is submitted gets this instead of being decided; ERR_OK: no longer. */
void engine_mem_refuse(struct engine *e, err why);
/* The disk is full but for the reserve: an update that writes gets ERR_FULL, unless it frees.
 * Thread: any. */
void engine_mem_full(struct engine *e, bool full);
/* One call fails: the one after `after` others of reading a row or a blob (ERR_IO), or of writing
 * one or ending an update that wrote (ERR_FULL). Negative: none does. Thread: any. */
void engine_mem_fault(struct engine *e, int64_t after);
/* It did. */
bool engine_mem_faulted(struct engine *e);
/* After so many reads from memory, count of them find their bytes on the disk alone. */
void engine_mem_cold(struct engine *e, unsigned after, unsigned count);
/* Pins that nobody has taken back. A blob's bytes here lie in its row: they end with that. */
int engine_mem_pins(struct engine *e);
/* How many rows the last decision read and wrote: cost must not grow with history. */
struct engine_mem_cost {
    uint64_t reads, writes;
};
struct engine_mem_cost engine_mem_last_cost(struct engine *e);
/* How many rows of a space there are. */
uint64_t engine_mem_rows(struct engine *e, enum engine_space space);
/* Puts or deletes (value.p NULL) a row behind everybody's back: damage for checks to find. */
void engine_mem_damage(struct engine *e, enum engine_space space, str key, str value);
/* A row there is fails its sum from now on: whoever reads it gets ERR_CORRUPT. */
void engine_mem_rot(struct engine *e, enum engine_space space, str key);

#endif
