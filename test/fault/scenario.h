/* scenario.h - what a store goes through while its disk fails, and what it must show afterwards.
 *
 * Three times: open (or make), write, index, write, reclaim, back up, close; in turn with zeros
 * ahead in the log and without. Then, without faults: every row shows the version last
 * acknowledged, or a later one whose outcome was unknown, whole; the store is sound; a backup of it
 * works. */
#ifndef TEST_FAULT_SCENARIO_H
#define TEST_FAULT_SCENARIO_H

#include "model.h"

enum { SCENARIO_KEYS = 12, SCENARIO_WRITES = 10, SCENARIO_ROUNDS = 3 };

struct scenario {
    struct scratch scratch;
    char backup[SCRATCH_PATH_BYTES];
    uint64_t acked[SCENARIO_KEYS]; /* version each key must at least show; 0: none */
    uint64_t tried[SCENARIO_KEYS]; /* the last version submitted */
    bool unknown[SCENARIO_KEYS]; /* the last write failed with ERR_IO: it may or may not be there */
    uint64_t versions;
    atomic_int failures; /* on_failure calls */
    int refused;         /* updates that were not acknowledged */
};

/* tmpfs when there is one: thousands of syncs. Call first. */
void scenario_on_tmpfs(void);
void scenario_init(struct scenario *s, const struct file_faults *faults);
void scenario_run(struct scenario *s);
/* Faults are off by now. */
void scenario_compare(struct scenario *s);
void scenario_fini(struct scenario *s);

#endif
