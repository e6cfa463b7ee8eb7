/* app.h - what the handlers share, and their route tables. Handlers know HTTP and the modules
 * below; the modules know nothing of HTTP. Errors become answers in errors.c alone. */
#ifndef APP_APP_H
#define APP_APP_H

#include "app/config.h"
#include "base/metrics.h"
#include "http/http.h"
#include "page/page.h"
#include "value/value.h"

#include <stdatomic.h>

/* Twice: the first may come before all that a body was taken apart into is freed. */
enum { APP_BIG_BODY_BYTES = 1 << 20, APP_TRIMS = 2 };

struct app_counters; /* counters.h: figures of the store */
struct http_counts;  /* http/counts.h: requests by route */
struct app_hot;      /* hot/hot.h: ready answers */
struct frame_pool;
struct pace;      /* http/pace.h: requests with stash=true by client */
struct auth;      /* auth/auth.h */
struct change;    /* change/change.h */
struct event_log; /* event/log.h */
struct streams;   /* change/streams.h */
struct lists;     /* list/list.h */
struct http_client;
struct origin_metrics;
struct loop;
struct queues; /* queue/queue.h */
struct sysclock;

/* The object graph the handlers see; built by server/boot.c, which owns every part. */
struct app {
    /* What a SIGHUP takes over is the loop's; what others read is here, or with its module. */
    const struct config *config;
    atomic_bool access_log;          /* a line for each request */
    _Atomic int64_t wait_timeout_ms; /* of one request for a render or a transform */
    struct page_service page;        /* its changes, quota and shapes are set by app_start */
    struct engine *engine;
    struct event_log *events;
    struct streams *streams; /* change/streams.h */
    struct change *change;   /* change/change.h */
    struct table_store *tables;
    struct value_service values; /* buckets in the order of config's values */
    struct queues *queues;
    struct auth *auth;
    struct app_hot *hot;           /* set by app_start */
    struct app_counters *counters; /* set by app_start */
    struct http_counts *requests;  /* set by app_start */
    struct pace *pace;             /* set by app_start */
    struct frame_pool *frames;     /* codec/frame.h: of bodies in a coding; set by app_start */
    struct budget *budget;         /* http.bytes_max: what requests hold; NULL in tests */
    struct http_ready *ok[2];      /* of rpc_ok, by enum wire_encoding; set by app_start */
    struct metrics *metrics;
    struct log *log;
    struct clock *clock;
    struct sysclock *sysclock;
    struct loop *loop;
    struct http_client *client; /* of the three: NULL, as long as no domain has an origin */
    struct lists *lists;        /* never NULL once the server listens */
    struct origin_metrics *origin_metrics; /* render/render.h; NULL as client */
    _Atomic size_t transform_bytes;        /* of the bodies of transforms under way */
    atomic_uint trims; /* how often yet the timer gives memory back, since a big body came */
    struct http_server *http;
    /* Runs all that is due now and returns when it is done; for the clock hook and the timer. Pool
     * thread. */
    void (*upkeep_all)(struct app *app);
};

/* Makes what the handlers keep for themselves (hot, counters) and follows the page store. Call
 * it when all other members but http are set, before http_server_start; app_stop after
 * http_server_free. Dies when out of memory. */
void app_start(struct app *app);
void app_stop(struct app *app);

/* The {domain} of this request, or NULL after answering 404 domain_not_found. */
const struct page_domain *app_domain_of(struct http_exchange *x, const struct app *app);

/* The OpenAPI document of what is served. */
void app_answer_spec(struct http_exchange *x, const struct app *app);

/* Route tables; each ends with a row whose pattern is NULL. */
extern const struct http_route app_page_routes[]; /* page.c: pages and buckets of that kind */
/* entry.c: the names below a domain, its API, a bucket */
extern const struct http_route app_entry_routes[];
extern const struct http_route app_hop_routes[];   /* page_hop.c: what other servers ask for */
extern const struct http_route app_table_routes[]; /* table.c: tables and batches */
/* value.c: key_value, key_rev_value, multi_content */
extern const struct http_route app_value_routes[];
/* stash.c: what is kept for editors, for operators */
extern const struct http_route app_stash_routes[];
/* admin.c: health, metrics, spec, check, backup, tokens */
extern const struct http_route app_admin_routes[];
/* keys.c: keys of the authority, on the admin listener */
extern const struct http_route app_key_routes[];
extern const struct http_route app_list_routes[];   /* lists.c: lists by position */
extern const struct http_route app_flight_routes[]; /* flights.c: what is being made */
extern const struct http_route app_slow_routes[];   /* slow.c: the slowest requests */
extern const struct http_route app_fresh_routes[];  /* fresh.c: how fresh what is stored is */
/* authority.c: Querator's namespaces, users, keys, roles */
extern const struct http_route app_authority_routes[];
/* queue.c: queues, Querator's API and ours; /health */
extern const struct http_route app_queue_routes[];
extern const struct http_route app_event_routes[];    /* events.c: what wikis tell of changes */
extern const struct http_route app_stream_routes[];   /* stream.c: events as they happen */
extern const struct http_route app_purge_routes[];    /* purge.c: the same, as caches are told */
extern const struct http_route app_rule_routes[];     /* rules.c: rules of changes, for operators */
extern const struct http_route app_item_routes[];     /* items.c: what these have to do */
extern const struct http_route app_timeline_routes[]; /* timeline.c: what was superseded */
extern const struct http_route app_hook_routes[]; /* hooks.c: test.clock; only with --test-hooks */

/* All of the above, app_hook_routes last, ended by NULL: the one list of routes. */
enum { APP_TABLES_MAX = 22 };
extern const struct http_route *const app_tables[APP_TABLES_MAX];

/* May the sender do this in that namespace (empty: AUTH_SYSTEM)? False: it was answered, 401 or
 * 403. For routes whose permission is NULL because the namespace stands in the body; that the key
 *      is good was asked before. */
bool app_may(struct http_exchange *x, const char *permission, str space, const struct app *app);
/* The same, and nothing is answered: its sender may do without. */
bool app_has(struct http_exchange *x, const char *permission, str space, const struct app *app);

/* What http_hooks wants; app is a struct app. */
bool app_early(struct http_exchange *x, void *app);
bool app_authorize(struct http_exchange *x, const char *permission, void *app);
void app_options(struct http_exchange *x, void *app);
void app_refuse(struct http_exchange *x, int status, const char *type, str detail, void *app);
str app_target_shown(const struct http_exchange *x, void *app);
void app_finished(struct http_exchange *x, int status, int64_t ns, uint64_t bytes_sent, void *app);

#endif
