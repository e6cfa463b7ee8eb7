/* buckets.h - the buckets that a store keeps, as the options name them: buckets of pages, the
 * bucket of previews for editors, and buckets of values. On Cassandra all servers must agree on
 * their policies (cassandra/policies.h).
 *
 * Thread: any. */
#ifndef SERVER_BUCKETS_H
#define SERVER_BUCKETS_H

#include "app/config.h"

enum { SERVER_BUCKETS_MAX = CONFIG_BUCKETS_MAX + 1, SERVER_BUCKET_NAME_BYTES_MAX = 300 };
struct server_buckets {
    struct page_bucket_opts of[SERVER_BUCKETS_MAX];
    unsigned pages, count; /* the first are buckets of pages */
    char names[SERVER_BUCKETS_MAX][SERVER_BUCKET_NAME_BYTES_MAX];
};
/* Borrows from the config. The names of buckets of values are those of their tables, and lie in *b:
 * it stays where it is. */
void server_buckets_take(struct server_buckets *b, const struct config *c);

#endif
