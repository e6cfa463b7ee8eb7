/* values_impl.h - what the files of values.h share. Private to this folder. */
#ifndef CASSANDRA_VALUES_IMPL_H
#define CASSANDRA_VALUES_IMPL_H

#include "cassandra/blame.h"
#include "cassandra/values.h"
#include "cassandra/values_keep.h"
#include "cql/cql.h"

#include <pthread.h>

enum values_statement {
    VALUES_META,
    VALUES_META_AFTER,
    VALUES_META_REV,
    VALUES_META_REV_AFTER,
    VALUES_META_ROW,
    VALUES_FULL,
    VALUES_FULL_REV,
    VALUES_FULL_ROW,
    VALUES_DECIDE,
    VALUES_PUT,
    VALUES_MOVE,
    VALUES_DELETE_TO, /* rows up to a revision */
    VALUES_DELETE_REV,
    VALUES_DELETE_ROW,
    VALUES_CHUNK_PUT,
    VALUES_CHUNK_GET,
    VALUES_CHUNK_IDS,
    VALUES_CHUNK_DELETE,
    VALUES_DROP,
    VALUES_CHUNK_DROP,
    VALUES_KEY_PUT,
    VALUES_KEY_LIST,
    VALUES_KEY_DELETE,
    VALUES_MADE_PUT,
    VALUES_MADE_LIST,
    VALUES_MADE_DELETE,
    VALUES_LEASE_GET,
    VALUES_LEASE_SET,
    VALUES_STATEMENTS
};
enum {
    VALUES_MARK_BYTES = 8,     /* of a write, in a version: a sum of its id */
    VALUES_VERSION_MARKS = 64, /* writes that a version knows */
    VALUES_VERSION_BYTES_MAX = VALUES_VERSION_MARKS * VALUES_MARK_BYTES,
    VALUES_KEY_BYTES_MAX = 8192, /* of what names a partition, in a request */
    VALUES_PARTS_MAX = 72,
    VALUES_PAGE_ROWS = 500,
    VALUES_TRIES_MAX = 16,
    VALUES_CACHE_MAX = 4096,
};

struct values_cached;
struct values {
    uint32_t magic;
    struct table_store store;
    struct values_opts opts;
    struct blame blame;
    char *texts[VALUES_STATEMENTS];
    const struct cql_statement *statements[VALUES_STATEMENTS];
    atomic_uint ids; /* given */
    _Atomic uint64_t puts, deletes, gets, expired, dropped_rows, damaged;
    pthread_mutex_t lock;                           /* of what is below */
    struct values_cached *cached[VALUES_CACHE_MAX]; /* by hash; NULL: none */
    struct values_sweep *sweep;                     /* the upkeep's place; NULL: at the beginning */
};
#define VALUES_MAGIC 0xca55a100u

/* ---- values.c ---- */

struct values_id values_id_new(struct values *v);
store_time values_id_time(const struct values_id *id);
mono values_deadline(const struct values *v, const struct store_call *call);

/* A partition. */
struct values_key {
    str bucket, domain;
    struct values_id made;
    str key;
};
void values_put_id(struct cql_values *to, const struct values_id *id);
MUST_CHECK bool values_get_id(const struct cql_cell *c, struct values_id *out);

/* One exchange with the cluster: statements with their values, one or a batch. */
struct values_ask {
    struct values *values;
    struct cql_request request;
    struct cql_part parts[VALUES_PARTS_MAX];
    struct cql_values bound[VALUES_PARTS_MAX];
    unsigned count;
    size_t bytes;
    void *ctx; /* who asks */
};
/* The values of one more statement, of at most so many bytes besides the key's. */
struct cql_values *values_ask_add(struct values_ask *a, enum values_statement s, size_t bytes);
/* The same, which begins with the partition. */
struct cql_values *values_ask_key(struct values_ask *a, enum values_statement s,
                                  const struct values_key *k, size_t bytes);
void values_ask_clear(struct values_ask *a);
/* Sets the request: at LOCAL_QUORUM, without a timestamp. To be started by cql_start. */
void values_ask_set(struct values_ask *a, struct home *home, mono deadline,
                    void (*done)(struct cql_request *q));

/* What a failure of the cluster is to the caller; note: the cause, and then what he is told
 * (blame.h). unknown: of a write that may have happened, or may happen yet. */
err values_blame(struct values *v, const struct store_call *call, err why, bool unknown, str of,
                 struct err_note *note);

/* ---- values_bucket.c: what a bucket is ---- */

struct values_bucket {
    struct values_id made;
    int64_t version, ttl_s;
    struct table_keep keep;
    bool revs;
};
/* Finds a bucket. ERR_NOT_FOUND with a note; ERR_BAD: no table of a bucket of values. */
struct values_find {
    struct store_call call;
    /* in; borrowed until done */
    uint32_t domain;
    str table;
    bool fresh;      /* asked anew */
    bool named;      /* by domain_name, and not by its number; fresh */
    str domain_name; /* else out */
    /* out */
    struct values_bucket bucket;
    str text;                  /* of the schema; fresh only; until values_find_fini */
    struct catalog_id version; /* of its cell */
    bool dropped;              /* it was there once */
    struct err_note note;
    /* its own */
    struct values *values;
    struct catalog_load load;
    struct catalog_rows *rows;
    mono asked_at;
    char scope[CATALOG_SCOPE_BYTES_MAX], key[CATALOG_KEY_BYTES_MAX];
};
enum store_start values_find(struct values *v, struct values_find *f);
void values_find_fini(struct values_find *f);
enum store_start values_schema(struct table_store *s, struct table_schema_read *r);
enum store_start values_change(struct table_store *s, struct table_schema_change *c);
void values_cache_drop(struct values *v, uint32_t domain, str table);

/* ---- values_row.c: rows of a partition ---- */

/* Columns of meta and full statements. version: of the key, and n 0 where there is none. False in
 * has_row: the partition has a version alone. Slices borrow the answer. */
struct values_got {
    str version;
    bool has_row;
    struct values_row row;
};
enum { VALUES_META_COLUMNS = 9, VALUES_FULL_COLUMNS = 11 };
MUST_CHECK err values_row_get(const struct cql_cell *cells, bool full, struct values_got *out);
/* What a value has besides its bytes. */
struct values_head {
    str headers, etag, coding; /* p NULL: null */
};
MUST_CHECK str values_head_pack(struct arena *a, const struct values_head *h); /* p NULL: full */
MUST_CHECK bool values_head_read(str bytes, struct values_head *out);
/* A row as the value service asks for it; all copied into the arena but value, which lies there. */
struct values_shown {
    bool revs;
    str key; /* p NULL: not asked for */
    const struct values_row *row;
    const struct values_head *head; /* NULL, and then no value: the key alone is asked for */
    str value;
};
MUST_CHECK bool values_row_table(struct arena *a, const struct values_shown *s,
                                 struct table_row *out);
/* The bytes of a row, its chunks put together, in the arena. ERR_NOT_FOUND: they are not all
 * there. */
struct values_body {
    struct store_call call;
    /* in; borrowed until done */
    struct values *values;
    struct values_key key;
    struct values_row row;
    struct arena *arena;
    /* out */
    str bytes;
    struct err_note note;
    /* its own */
    struct values_ask ask;
    char *into;
    size_t seen;
};
enum store_start values_body(struct values_body *b);

/* ---- values_write.c: parts of a decision ---- */

struct values_version { /* marks of the last writes, the newest first */
    char bytes[VALUES_VERSION_BYTES_MAX];
    size_t n;
};
/* For Cassandra, of what ends then: in seconds, a day later; 0: none. */
int32_t values_ttl(struct values *v, store_time end);
/* If the version is that one, it is *wanted from now on: with the mark of this write. empties: the
 * key has no rows behind it. */
void values_decide_add(struct values_ask *a, const struct values_key *k, const struct values_id *id,
                       str version, bool empties, struct values_version *wanted);
void values_move_add(struct values_ask *a, const struct values_key *k, const struct values_row *r);
void values_delete_add(struct values_ask *a, const struct values_key *k, enum values_statement s,
                       const struct values_row *r);
MUST_CHECK bool values_applied(const struct cql_outcome *out, err *e);

/* ---- values_read.c, values_list.c, values_update.c, values_upkeep.c ---- */

enum store_start values_rows(struct table_store *s, struct table_rows *r);
enum store_start values_list(struct values *v, struct table_rows *r);
unsigned values_shard(str key);
/* The next page of an ask that was answered; false: there is none, or no memory (*e). */
MUST_CHECK bool values_ask_more(struct values_ask *a, struct arena *arena, err *e);
enum store_start values_update(struct table_store *s, struct table_update *u);
err values_upkeep(struct table_store *s, bool *more, store_time *next);
/* An exchange that is waited for, of an ask that was added to; its outcome is the caller's to end,
 * if values_ask_wait was called. Blocks. */
void values_ask_background(struct values_ask *a);
MUST_CHECK err values_ask_wait(struct values_ask *a);

/* ---- values_lease.c: which server sweeps. Blocks ---- */

struct values_lease {
    bool held;
    int64_t epoch; /* of the row, as last seen; -1: there is none */
    store_time until, done_at;
};
/* Takes or renews it. Not held afterwards: *next says when to come again. */
MUST_CHECK err values_lease_hold(struct values *v, struct values_lease *l, store_time *next);
/* The sweep is over. *next: when the next one begins. */
MUST_CHECK err values_lease_done(struct values *v, struct values_lease *l, store_time *next);

#endif
