/* list.h - lists computed once and served by position: one list for everybody who shows one
 * display, from any server.
 *
 * Model. A list belongs to (domain, bucket, display, values of the bucket's declared params); an
 * absent param is not an empty one. The bucket's generator computes it once, over HTTP: a JSON
 * array of at most size objects, each distinct in every unique_by field; anything else is the
 * generator's error, never a list with duplicates. Its version is the token of the flight that made
 * it (flight/shared.h), so that equal versions mean equal bytes everywhere.
 *   Without a display it is fresh for ttl from when it was made, reading does not prolong it; then
 * stale for stale_ttl: answered while one server makes the next, or when making it fails. Whoever
 * names a version gets that one until its stale_ttl has ended: LIST_VERSIONS_MAX of them are kept
 * beside the last.
 *   A display pins its list: it stays the display's until display_ttl after it was read last,
 * whatever its ttl. Of more than displays_max in Redis, or than bytes_max holds here, those read
 * least recently lose theirs.
 *   Each server answers from what it has seen for LIST_CACHE_MS at most (while Redis is away, for
 * the list's whole life), and holds it while it is fresh, in bytes_max: a Redis that lost it, by a
 * restart or by eviction, is given it back by whoever is asked for it, so that late requests see
 * the same list. A drop empties that on every connected server, and ends the pause after an error;
 * one that was cut off lets go of what it held, since it may have missed a drop.
 *   What Redis has may be no list by this server's rules: then it makes its own, which stays here.
 * It is answered while it is fresh and no drop may have been missed, and neither given to Redis nor
 * is the other's replaced.
 *   Of two lists made here without Redis the one that was begun last stays, whichever ends first.
 * Source: the article on coalescing in Redis; contract: docs/flights.md, 6.
 * Thread: any, but new, stop and free: the loop's. */
#ifndef LIST_LIST_H
#define LIST_LIST_H

#include "base/err.h"
#include "base/str.h"
#include "base/times.h"
#include "flight/shared.h"

enum {
    LIST_PARAMS_MAX = 16,
    LIST_UNIQUE_MAX = 8,
    LIST_SIZE_MAX = 1000,
    LIST_ITEM_BYTES_MAX = 8192,
    LIST_VALUE_BYTES_MAX = 2048, /* of one param */
    LIST_DISPLAY_BYTES_MAX = 128,
    LIST_CACHE_MS = 5000,
    LIST_VERSIONS_MAX = 16, /* of one list, kept beside the last */
    LIST_TELL_MS = 60000,   /* between two lines about lists of one bucket that are unlike */
};

struct list_bucket_opts {
    const char *name;
    const char *generator; /* http or https URL, no query */
    const char *const *params;
    unsigned params_count;
    const char *const *unique_by; /* none: no two items may be equal as a whole */
    unsigned unique_count;
    unsigned size;
    int64_t ttl_ms, stale_ttl_ms;
    int64_t display_ttl_ms;  /* 0: a display's list ends as any other */
    int64_t displays_max;    /* pinned in Redis, of one domain */
    int64_t make_timeout_ms; /* of one computation */
    int64_t wait_timeout_ms; /* of a request that does not say */
    bool fail_alone; /* without Redis: refuse, rather than different lists on different servers */
    bool no_cache_allowed; /* Cache-Control: no-cache of a request makes a new one */
    bool is_public;        /* for shared caches too */
    unsigned index;        /* the module's: of its buckets */
};

struct arena;
struct lists;
struct http_client;
struct loop;
struct lists_opts {
    struct loop *loop;
    struct clock *clock;
    struct http_client *client;
    struct flights *flights;      /* given shared, when there is one */
    struct flight_shared *shared; /* NULL: lists are of this process */
    struct log *log;              /* NULL: nothing is told */
    struct metrics *metrics;      /* NULL: none */
    uint64_t seed;
    size_t bytes_max;                       /* of what is kept */
    const struct list_bucket_opts *buckets; /* copied; their texts are borrowed */
    unsigned buckets_count;
};
/* Owner: caller. Dies when out of memory. */
struct lists *lists_new(const struct lists_opts *opts);
/* The flights are idle. */
void lists_free(struct lists **lp);
/* Other times and limits from here on, of the same buckets in the same order: ttl_ms, stale_ttl_ms,
 * display_ttl_ms, displays_max, make_timeout_ms, wait_timeout_ms, no_cache_allowed, is_public. What
 * is under way goes on as it began, and a list that is there keeps the times it was made with.
 * Thread: the loop's. */
void lists_limit(struct lists *l, const struct list_bucket_opts *buckets);
/* As of now; what it points to lives as long as l. */
const struct list_bucket_opts *lists_bucket(const struct lists *l, str name); /* NULL: unknown */

/* A list; counted through its flight_value. */
struct list_item {
    str text;
}; /* {"..."} as JSON, compact, without "position" */
struct list_value {
    struct flight_value v;
    char version[FLIGHT_TOKEN_BYTES_MAX + 1];
    mono at;                            /* when it came here */
    int64_t fresh_ms, stale_ms, age_ms; /* then */
    int64_t pin_ms; /* how long a read keeps it for its display; 0: it has none */
    struct flight_keeping keeping;
    bool refresh;  /* it asked for its successor */
    bool alone;    /* made here without the others; kept by its maker */
    bool unlike;   /* alone because what Redis has is no list of this bucket */
    uint64_t turn; /* at this server: made alone, when it was begun; else, when it came */
    str json;      /* the whole array */
    unsigned count;
    struct list_item items[];
};
static inline struct list_value *list_value_of(struct flight_value *v)
{
    return CONTAINER_OF(v, struct list_value, v);
}
int64_t list_age_ms(const struct list_value *v, mono now);
int64_t list_fresh_ms(const struct list_value *v, mono now); /* left; may be negative */
/* As JSON: the item of a position that is there, or the whole list, for 0. STR_NONE: the arena is
 * full. */
str list_json(struct arena *a, const struct list_value *v, unsigned position);

struct list_request {
    /* in; borrowed until done, params and texts too */
    const struct list_bucket_opts *bucket;
    str domain;
    str display;                 /* empty: the params alone */
    str params[LIST_PARAMS_MAX]; /* in declared order; p NULL: absent */
    str want;                    /* a version, for no display; empty: the last */
    bool no_cache;               /* make a new one; a display keeps what it has */
    bool only_cached;            /* never make one: ERR_NOT_FOUND instead */
    mono deadline;
    /* On the loop, once. value is borrowed. detail: how it was had. */
    void (*done)(struct list_request *r, err why, struct list_value *value,
                 const struct err_note *note);
    void *ctx;
    /* out */
    enum flight_detail detail;
    bool hit;           /* it was here already */
    bool pinned, seeks; /* by its display; it asks for the version it wants */
    int64_t retry_after_ms;
    /* the module's */
    unsigned char id[FLIGHT_ID_BYTES];
    struct lists *lists;
    uint32_t mark;
    struct flight_waiter waiter;
};
/* What is here, fresh: with a reference for the caller; NULL: ask for it. Fills in r's id. */
struct list_value *list_here(struct lists *l, struct list_request *r);
/* After list_here. ERR_LIMIT, ERR_SHUTDOWN: done is not called. */
MUST_CHECK err list_start(struct lists *l, struct list_request *r);
/* The client has gone: true: done will not be called. */
bool list_leave(struct lists *l, struct list_request *r);
/* Forgets the list on all servers; done on the loop: ERR_OK, or ERR_UNAVAILABLE: only here. */
void list_drop(struct lists *l, struct list_request *r, void (*done)(void *ctx, err why),
               void *ctx);

/* A client named a version, and was answered with that one or with another. Thread: any. */
void lists_pin_told(struct lists *l, const struct list_request *r, bool kept);

/* For flight_shared_opts. */
void lists_dropped(struct lists *l, const unsigned char *id);
void lists_redis(struct lists *l, bool up, bool fresh);

struct lists_stats {
    uint64_t here, asked, made, failed, refused, kept, kept_bytes, refreshes, unlike;
    uint64_t pins_kept, pins_lost, pins_evicted;
};
void lists_stats_get(struct lists *l, struct lists_stats *out);

#endif
