/* list_impl.h - what list*.c share. Private to this folder. */
#ifndef LIST_LIST_IMPL_H
#define LIST_LIST_IMPL_H

#include "base/metrics.h"
#include "http/client.h"
#include "list/cache.h"
#include "list/list.h"
#include "loop/limiter.h"

#include <pthread.h>

struct list_told {
    mono at;
    uint64_t count;
}; /* of a bucket: the last line; lists unlike since */
/* Whose turn calls to the generator of a bucket are. */
struct list_turn {
    char at[HTTP_ORIGIN_BYTES_MAX];
    struct limiter_key key; /* at, no domain, the bucket's name */
};
struct list_buckets {
    const struct list_buckets *before; /* NULL: the first */
    struct list_bucket_opts of[];      /* as many as opts.buckets_count */
};
struct lists {
    uint32_t magic;
    struct lists_opts opts;                     /* .buckets: as at the start */
    const struct list_buckets *_Atomic buckets; /* now; the others before it are kept */
    struct list_turn *turns;                    /* as many */
    struct list_told *told;                     /* as many; loop thread */
    struct list_told *lost;                     /* as many: pins that were lost; under lost_lock */
    pthread_mutex_t lost_lock;
    struct metric *metric_kept, *metric_lost, *metric_evicted;
    struct list_cache *cache;
    _Atomic uint64_t here, asked, made, failed, refused, refreshes, unlike;
    _Atomic uint64_t pins_kept, pins_lost;
    _Atomic uint64_t alone; /* names versions made without Redis */
};
#define LISTS_MAGIC 0x11575001u

/* value.c; pure. The items of a generator's answer, or of another server's bytes, checked against
 * the bucket. ERR_BAD with a note that says what is wrong; ERR_LIMIT. */
MUST_CHECK err list_value_parse(const struct list_bucket_opts *b, str json, struct list_value **out,
                                struct err_note *note);

/* What v is now, for other servers; borrowed from it. */
struct flight_arrival list_arrival(const struct list_value *v, mono now);

/* make.c. How the list of a request is made; the maker owns copies of all it needs. */
struct flight_maker list_maker(struct lists *l, const struct list_request *r);

#endif
