/* scratch.h - an engine in a folder of a test. */
#ifndef UNIT_SCRATCH_H
#define UNIT_SCRATCH_H

#include "engine/engine.h"
#include "lib/clock.h"
#include "lib/folder.h"

/* Opens and starts an engine there; fails the test with the note otherwise. */
struct engine *scratch_engine(const char *dir, struct clock *clock);

#endif
