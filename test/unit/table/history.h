/* history.h - versions of one row, and a reference of what a policy that counts them does: it goes
 * through all. */
#ifndef TEST_TABLE_HISTORY_H
#define TEST_TABLE_HISTORY_H

#include "base/rng.h"
#include "base/tid.h"

#include <stdbool.h>

/* A version 1 UUID of that second of April 2015. */
const char *tid_at(int second, char text[TID_TEXT_BYTES + 1]);

enum { HISTORY_VERSIONS_MAX = 300 };
/* Seconds; INT64_MAX: no end. own: what a version was put with, fall: what the policy made of
 * it. */
struct history {
    struct rng rng;
    bool there[HISTORY_VERSIONS_MAX];
    int64_t own[HISTORY_VERSIONS_MAX], fall[HISTORY_VERSIONS_MAX], now;
    int keep, grace_s;
};
int history_pick(struct history *h, unsigned below);
bool history_lives(const struct history *h, int version);
/* ttl_s 0: without an end. */
void history_put(struct history *h, int version, int ttl_s);
/* Versions low to high - 1 are counted together: the newest stay; others end a grace from now, or
 * sooner. One that ends by itself by then is not counted. */
void history_settle(struct history *h, int low, int high);
/* What ended is gone. */
void history_expire(struct history *h);

#endif
