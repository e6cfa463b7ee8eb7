/* model.h - a naive reference: which key has which version, and random histories over it. */
#ifndef TEST_ENGINE_MODEL_H
#define TEST_ENGINE_MODEL_H

#include "base/rng.h"
#include "scratch.h"

enum { MODEL_KEYS = 64, MODEL_VALUE_BYTES_MAX = 40000 };

struct model {
    struct rng rng;
    uint64_t version[MODEL_KEYS];      /* 0: not there */
    uint64_t blob_version[MODEL_KEYS]; /* the version whose bytes the row has */
    uint64_t versions;
};

void model_init(struct model *m, uint64_t seed);
/* One update of 1..4 random writes, applied to both; some decisions fail and must leave nothing. */
void model_step(struct model *m, struct scratch *s);
/* Every key, by get and by both walks, with its bytes. */
void model_compare(const struct model *m, struct scratch *s);
/* Size of the bytes of a version: none, inline, or in the log. */
size_t model_bytes(uint64_t version, char *out);

/* engine_check finds nothing; prints what it found otherwise. */
void expect_sound(struct engine *e);

#endif
