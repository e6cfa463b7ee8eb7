/* errors.h - errors remembered by key: how long they are answered from memory. Private to this
 * folder.
 *
 * The n-th failure in a row of a key lives min(max, base * 2^(n-1)), +-20 %. The row is forgotten
 * when the key succeeds, or when it was not asked for again within error_max_ms after its error
 * ended. When there are too many, the one that ends first goes. Pure. */
#ifndef FLIGHT_ERRORS_H
#define FLIGHT_ERRORS_H

#include "base/err.h"
#include "base/heap.h"
#include "base/rng.h"
#include "base/str.h"
#include "base/times.h"

struct map;
struct flight_errors {
    struct map *by_key;
    struct heap by_end;
    struct rng rng;
    size_t count_max;
    int64_t base_ms, max_ms;
};
struct flight_error {
    struct heap_node node; /* in by_end, by forget_at */
    mono until, forget_at;
    unsigned in_a_row;
    err why;
    struct err_note note;
    size_t key_bytes;
    char key[];
};

void flight_errors_init(struct flight_errors *e, uint64_t seed, size_t count_max, int64_t base_ms,
                        int64_t max_ms);
void flight_errors_fini(struct flight_errors *e);
/* The error that answers for key now, or NULL; borrowed until the next call. */
const struct flight_error *flight_errors_find(struct flight_errors *e, mono now, str key);
/* Remembers one more failure of key. Dies when out of memory. */
const struct flight_error *flight_errors_add(struct flight_errors *e, mono now, str key, err why,
                                             const struct err_note *note);
/* key succeeded. */
void flight_errors_forget(struct flight_errors *e, str key);
size_t flight_errors_count(const struct flight_errors *e);

#endif
