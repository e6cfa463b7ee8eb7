/* quota.c - counts bytes that are kept, and gives them back evenly over their time (a leaky
 * bucket), for stash.c. */
#include "page/quota.h"

#include <pthread.h>
#include <stdlib.h>

#define QUOTA_MAGIC 0x90a7a90au

struct page_quota {
    uint32_t magic;
    uint64_t bytes_max; /* 0: no limit */
    int64_t ttl_ns;
    pthread_mutex_t lock;
    uint64_t kept; /* bytes, as of kept_at */
    /* `kept` is brought up to date by each call, not by a timer. */
    store_time kept_at;
};

struct page_quota *page_quota_new(uint64_t bytes_max, int64_t ttl_ns)
{
    struct page_quota *q = calloc(1, sizeof *q);
    INVARIANT(q != NULL);
    q->magic = QUOTA_MAGIC;
    q->bytes_max = bytes_max;
    q->ttl_ns = ttl_ns;
    INVARIANT(pthread_mutex_init(&q->lock, NULL) == 0);
    return q;
}

void page_quota_set(struct page_quota *q, uint64_t bytes_max, int64_t ttl_ns)
{
    MAGIC_CHECK(q, QUOTA_MAGIC);
    INVARIANT(pthread_mutex_lock(&q->lock) == 0);
    /* Without a limit nothing was counted. */
    if (q->bytes_max == 0)
        q->kept = 0;
    q->bytes_max = bytes_max;
    q->ttl_ns = ttl_ns;
    INVARIANT(pthread_mutex_unlock(&q->lock) == 0);
}

void page_quota_free(struct page_quota **qp)
{
    if (*qp == NULL)
        return;
    MAGIC_CHECK(*qp, QUOTA_MAGIC);
    (*qp)->magic = 0;
    INVARIANT(pthread_mutex_destroy(&(*qp)->lock) == 0);
    free(*qp);
    *qp = NULL;
}

/* Gives back what time has freed, then takes n, if it fits or must be. The leak is bytes_max in
 * ttl_ns, however much is kept. */
static bool quota_keep(struct page_quota *q, uint64_t n, bool must, store_time now)
{
    MAGIC_CHECK(q, QUOTA_MAGIC);
    INVARIANT(pthread_mutex_lock(&q->lock) == 0);
    if (q->bytes_max == 0) {
        INVARIANT(pthread_mutex_unlock(&q->lock) == 0);
        return true;
    }
    int64_t elapsed = now.ns - q->kept_at.ns;
    bool all = elapsed >= q->ttl_ns;
    double back =
        all ? (double)q->kept : (double)q->bytes_max * (double)elapsed / (double)q->ttl_ns;
    if (all || back >= 1) { /* less than a byte is for a later call */
        q->kept -= back >= (double)q->kept ? q->kept : (uint64_t)back;
        q->kept_at = now;
    }
    bool fits = must || n == 0 || (n <= q->bytes_max && q->kept <= q->bytes_max - n);
    if (fits)
        q->kept += n;
    INVARIANT(pthread_mutex_unlock(&q->lock) == 0);
    return fits;
}

bool page_quota_take(struct page_quota *q, uint64_t n, store_time now)
{
    return quota_keep(q, n, false, now);
}

void page_quota_take_too(struct page_quota *q, uint64_t n, store_time now)
{
    (void)quota_keep(q, n, true, now); /* must: never refused */
}

void page_quota_give(struct page_quota *q, uint64_t n)
{
    MAGIC_CHECK(q, QUOTA_MAGIC);
    INVARIANT(pthread_mutex_lock(&q->lock) == 0);
    q->kept -= n < q->kept ? n : q->kept;
    INVARIANT(pthread_mutex_unlock(&q->lock) == 0);
}
