/* value.h - buckets of values, whoever asks for them and however: key_value, with one value for a
 * key, and key_rev_value, with one for each revision and tid of a key (docs/api.md, 3).
 *
 * Model. A bucket is a table of the server's own: `.key_value.NAME` or `.key_rev_value.NAME`, with
 * one row a value:
 *   key (hash), in key_rev_value rev and tid (range, descending); value: the bytes as they were
 *   sent; headers: the lines to replay (page/headers.h); etag: what the writer gave (key_value);
 *   coding: "gzip" or null.
 * The newest tid of the highest revision is the latest. A bucket that the configuration names has
 * its table made, or brought up to date, by the first put after a start.
 *   The service stands on a table store. It knows no request and no answer of HTTP: values go in,
 * values come out. Requests are calls as in store/store.h: DONE at once, or LATER at call.home.
 * Steps at call.home may take milliseconds, so call.home is never the loop. */
#ifndef VALUE_VALUE_H
#define VALUE_VALUE_H

#include "store/table_store.h"
#include "title/policy.h"

#include <stdatomic.h>

enum value_kind { VALUE_PLAIN, VALUE_REVS }; /* key_value, key_rev_value */

/* A bucket that the configuration names. */
struct value_settings {
    enum value_kind kind;
    str name;
    int64_t ttl_ns;                   /* DURATION_NEVER: none */
    const struct page_policy *policy; /* of REVS */
};

struct value_service {
    struct table_store *store;
    struct clock *clock;
    const struct value_settings *buckets;
    unsigned buckets_count, domains_count;
    atomic_bool *there; /* value_service_init: by domain and bucket, is its table made? */
};
/* The caller has set all members except there. The process ends when there is no memory. */
void value_service_init(struct value_service *s);
void value_service_fini(struct value_service *s);
/* NULL: not configured. */
const struct value_settings *value_settings_find(const struct value_service *s,
                                                 enum value_kind kind, str name);
/* Can a bucket have this name? */
bool value_name_fits(str bucket);

/* What a request is about. */
struct value_target {
    str domain;
    uint32_t domain_number;
    unsigned domain_index; /* less than domains_count */
    enum value_kind kind;
    const struct value_settings *settings; /* NULL: its name is not in the configuration */
    str bucket;                            /* value_name_fits */
    str key;
    bool has_rev, has_tid;
    int64_t rev;
    struct tid tid;
};

/* A stored value; all in the arena. */
struct value_row {
    bool found;
    int64_t rev;
    struct tid tid;
    str headers, etag, coding, body;
};

/* If-Match and If-None-Match of what changes a value (RFC 9110 13.1.1, 13.1.2), as they were sent;
 * n 0: absent. Judged in the update that decides, by the row that a read of the same target would
 * give. */
struct value_condition {
    str if_match, if_none_match;
};

/* What all requests begin with. call.why: ERR_NOT_FOUND: there is no such bucket, or of a
 * configured one no table yet; else as requests of tables. */
struct value_call;
typedef enum store_start value_next_fn(struct value_call *c, err why);
struct value_call {
    struct store_call call;
    /* in; borrowed until done */
    struct value_target target;
    struct arena *arena;
    /* out */
    struct err_note note; /* of why */
    struct value_row row; /* what a read found */
    /* the service's */
    struct value_service *service;
    str table;
    struct table_predicate predicates[3];
    unsigned predicates_count, scans;
    int64_t version; /* of a stored schema */
    bool with_body;
    value_next_fn *next, *found;
    union {
        struct store_call call;
        struct table_rows rows;
        struct table_update update;
        struct table_schema_read schema;
        struct table_schema_change change;
    } step; /* under way */
};

/* Finds the row the target names (of several the newest) into of.row. No row is ERR_OK, and
 * row.found is false. */
struct value_read {
    struct value_call of;
};
MUST_CHECK enum store_start value_read(struct value_service *s, struct value_read *r);
/* The bytes of a found row, out of their coding; row->body itself when it has none. ERR_CORRUPT,
 * ERR_LIMIT. */
MUST_CHECK err value_raw(const struct value_row *row, struct arena *a, str *raw);

/* Does a reader's If-None-Match name the value with this etag? */
bool value_is_named(str if_none_match, str etag);
/* Was a value with this etag, "rev/tid" and what may follow, made before an HTTP date? False for
 * other etags and dates. */
bool value_is_older(str etag, str date);

enum value_outcome {
    VALUE_WRITTEN,
    VALUE_UNMET,   /* a condition did not hold; nothing was written */
    VALUE_SAME,    /* a put with unlike: the stored value is the same, and nothing was written */
    VALUE_TID_LAST /* PUT of a revision whose newest tid is the last there can be */
};

/* Writes a value. REVS: the target has a revision; without a tid it gets one that is later than
 * what the revision has, also when the clock stands still. */
struct value_put {
    struct value_call of; /* out: target.tid */
    /* in */
    str body, coding; /* as it is stored; coding: "gzip" or n 0 */
    str raw;          /* what body holds */
    str headers;      /* lines to replay */
    str etag;         /* PLAIN */
    struct value_condition condition;
    bool unlike;     /* PLAIN: write only when the stored bytes or their content-type differ */
    uint64_t random; /* of the tid */
    /* out */
    enum value_outcome outcome;
    str same_headers, same_etag; /* SAME: of what is stored */
    /* the service's */
    struct table_write write;
    struct table_attr attrs[8];
    bool unmet;
    struct value_same *same;
};
MUST_CHECK enum store_start value_put(struct value_service *s, struct value_put *p);

/* Deletes what the target names, if its conditions hold. */
struct value_delete {
    struct value_call of;
    struct value_condition condition;
    enum value_outcome outcome;
    struct table_write write; /* the service's */
    bool unmet;
};
MUST_CHECK enum store_start value_delete(struct value_service *s, struct value_delete *d);

/* Keys of a bucket (the target has none), or revisions of a key, newest first. */
struct value_item {
    str key; /* p NULL: not even that can be read */
    int64_t rev;
    struct tid tid;
};
struct value_list {
    struct value_call of;
    /* in */
    uint32_t limit;
    str from; /* a next that a listing gave; n 0: the beginning */
    /* out */
    const struct value_item *items, *damaged;
    unsigned items_count, damaged_count;
    str next; /* opaque bytes; n 0: that was all */
};
MUST_CHECK enum store_start value_list(struct value_service *s, struct value_list *l);

/* Makes a bucket. Of a configured bucket nothing is made: call.why says whether it is as json asks
 * (ERR_BAD with a note: it is not). With drop, drops it. The caller refuses to drop a configured
 * bucket; this function does not. */
struct value_bucket {
    struct value_call of;
    bool drop;
    str json; /* what it is to be; n 0: nothing is said */
};
MUST_CHECK enum store_start value_bucket(struct value_service *s, struct value_bucket *b);

#endif
