/* slow_kept.h - what a server keeps of its slow requests; see slow.h. Private to http. */
#ifndef HTTP_SLOW_KEPT_H
#define HTTP_SLOW_KEPT_H

#include "http/slow.h"

#include <pthread.h>
#include <stdatomic.h>

struct slow {
    uint32_t magic;
    _Atomic int64_t least_ns; /* who took less is not kept */
    _Atomic int64_t swept_ns;
    pthread_mutex_t lock; /* of the next */
    unsigned count;
    struct http_slow kept[HTTP_SLOW_MAX]; /* in no order */
};
#define SLOW_MAGIC 0x0510e001u

/* Owner: caller. Dies when out of memory. */
struct slow *slow_new(void);
void slow_free(struct slow **sp);
/* Would one that took so long be kept? */
static inline bool slow_wants(struct slow *s, int64_t ns)
{
    return ns >= atomic_load_explicit(&s->least_ns, memory_order_relaxed);
}
/* Copied, unless others were slower since. Thread: any. */
void slow_keep(struct slow *s, const struct http_slow *r);
/* What finished an hour ago goes; looks no more often than every ten seconds. Thread: any. */
void slow_sweep(struct slow *s, mono now);
/* Slowest first. Thread: any. */
unsigned slow_list(struct slow *s, mono now, struct http_slow *out, unsigned max);

#endif
