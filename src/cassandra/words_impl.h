/* words_impl.h - a title in all buckets that hear the wiki: loaded, and written to, at once.
 * Private to this folder. */
#ifndef CASSANDRA_WORDS_IMPL_H
#define CASSANDRA_WORDS_IMPL_H

#include "cassandra/pages_impl.h"

struct fan;
struct fan_part {
    struct store_call call; /* of its work */
    struct fan *fan;
    struct work *work;  /* derived; NULL: it failed, and call.why says how */
    struct fact *facts; /* to be appended; in the work's arena */
    size_t facts_count, appended;
};
struct fan {
    struct cassandra_pages *pages;
    struct store_call *request;
    struct home *home; /* where each step goes on, and the title is derived */
    uint32_t domain;
    str domain_name, title; /* borrowed: the request's and the store's */
    bool everywhere;        /* what hides is written to a quorum of each data centre */
    void (*joined)(struct fan *f);
    atomic_uint waits;
    unsigned count;
    struct fan_part parts[CASSANDRA_BUCKETS_MAX]; /* in the order of the buckets */
};
void fan_init(struct fan *f, struct cassandra_pages *p, struct store_call *request, uint32_t domain,
              str title);
void fan_fini(struct fan *f); /* nothing is under way */
/* Each calls joined once, when all parts are over; others may wait with them: so many fan_join. */
void fan_load(struct fan *f, unsigned others);
void fan_append(struct fan *f, unsigned others); /* the facts of each part */
void fan_join(struct fan *f);
err fan_why(const struct fan *f); /* of the first part that failed */
/* A call of the fan's own, which ends at its home. */
struct store_call fan_call(const struct fan *f, void (*done)(struct store_call *c));

/* Another server heard words beside this one. What follows from each of them and the one before it
 * becomes facts; then the request ends. chain: as words_load says, copied. */
void words_settle(struct cassandra_pages *p, struct store_call *request, uint32_t domain, str title,
                  const struct title_said *chain, size_t count);
/* Appends the facts of a put, and keeps its word as the first of the title; then the request ends.
 * facts_count may be 0. */
void words_first(struct work *w, struct fact *facts, unsigned facts_count,
                 const struct titles_bytes *bytes);

#endif
