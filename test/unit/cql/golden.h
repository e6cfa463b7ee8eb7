/* golden.h - golden.txt in memory: what another client says of the protocol (oracle.py). */
#ifndef UNIT_CQL_GOLDEN_H
#define UNIT_CQL_GOLDEN_H

#include "base/str.h"

enum { GOLDEN_LINES_MAX = 512 };
struct golden_line {
    str kind, name;
    str bytes; /* an allocation of just these, so that ASan sees a read behind them */
    str text;  /* of an answer: how it is read */
    bool met;  /* for the test */
};
struct golden {
    char *text;
    unsigned count;
    struct golden_line at[GOLDEN_LINES_MAX];
};
/* Fails the test when the file cannot be read. */
void golden_read(struct golden *g, const char *path);
void golden_fini(struct golden *g);
/* Fails the test when there is no such line. */
struct golden_line *golden_find(struct golden *g, const char *kind, const char *name);

#endif
