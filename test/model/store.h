/* store.h - the engine a model test runs on: the embedded one, whose process may be killed, or one
 * in memory. */
#ifndef TEST_MODEL_STORE_H
#define TEST_MODEL_STORE_H

#include "engine/engine.h"

struct model_store {
    const char *dir;
    struct engine *engine;
};
/* Does what was acknowledged survive the process? Then each life is a process of its own. */
extern const bool model_store_survives;
void model_store_open(struct model_store *s, struct clock *clock);
/* last: nobody will open it again. */
void model_store_close(struct model_store *s, bool last);

#endif
