/* budget.h - bytes that many requests hold together, and how many they may.
 *
 * Model. Whoever takes memory for a request has a struct budget_part and says how much it has got
 * by now. The first BUDGET_FREE_BYTES of each part are not counted: a small request touches no
 * shared counter and is never refused. What is kept for many (ready answers) has a limit of its
 * own, kept_max, and counts beyond that alone: then some of it is only there because somebody still
 * reads it. A part that is urgent (what an operator asks) finds a reserve beyond bytes_max, so that
 * a full budget can be looked at. Thread: a part one at a time, all else any. */
#ifndef BASE_BUDGET_H
#define BASE_BUDGET_H

#include "base/check.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { BUDGET_FREE_BYTES = 32 << 10 };
/* What is told to whom memory was refused that others hold. */
#define BUDGET_FULL_TEXT                                                                           \
    "There is no memory for it now: requests under way hold what they may have (http.bytes_max), " \
    "or the machine has no more; try again later."

struct budget {
    size_t bytes_max; /* 0: there is no limit */
    size_t reserve;   /* beyond bytes_max, for parts that are urgent */
    size_t kept_max;
    _Atomic size_t held, kept;
    _Atomic size_t peak; /* the most of held since budget_fallen was asked */
    _Atomic uint64_t refused;
};
/* A zeroed one with .of NULL counts nothing. */
struct budget_part {
    struct budget *of;
    size_t counted;
    size_t beside; /* what its request has counted elsewhere, and keeps as long as this */
    bool urgent;
};

/* The part has so many bytes from now on. False: the budget has no room for more of them, and
 * nothing changed; less than before is always true. */
MUST_CHECK bool budget_part_set(struct budget_part *h, size_t bytes);
/* Will it never have so many: more than the budget has for one request alone? */
bool budget_never(const struct budget_part *h, size_t bytes);
/* The part has nothing any more. */
void budget_part_end(struct budget_part *h);

void budget_keep(struct budget *b, size_t bytes);
void budget_keep_end(struct budget *b, size_t bytes);
/* What counts against bytes_max now. */
size_t budget_held(const struct budget *b);
/* How far held has fallen below the most since this was asked last: memory that free() may still
 * have. */
size_t budget_fallen(struct budget *b);

#endif
