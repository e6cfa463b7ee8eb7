/* store_impl.h - what the files of store.h share. Private to this folder. */
#ifndef CASSANDRA_STORE_IMPL_H
#define CASSANDRA_STORE_IMPL_H

#include "cassandra/pages.h"
#include "cassandra/store.h"
#include "cql/cql.h"

enum cassandra_store_step { STORE_OPENING, STORE_OPEN, STORE_CLOSED };

struct cassandra_store {
    uint32_t magic;
    struct page_store store;
    struct cassandra_store_opts opts;
    struct titles *titles;
    struct cassandra_pages *pages;
    atomic_int state;
    atomic_uint starting; /* requests that are being started at this moment */
    atomic_bool ready, skewed;
    /* the loop's */
    bool busy, looking, comparing; /* exchanges that are under way */
    bool denied;
    mono open_at, look_at, skew_at;
    int64_t ahead_ns;
    uint32_t number;
    struct err_note why;
    char look_text[128];
    struct cql_request look;
};
#define CASSANDRA_STORE_MAGIC 0xca555707u

extern const struct page_store_ops cassandra_store_ops;

#endif
