/* config.h - what the operator chose, typed: filled by server/options.c from one table of rows,
 * read by all. */
#ifndef APP_CONFIG_H
#define APP_CONFIG_H

#include "base/address.h"
#include "base/log.h"
#include "base/str.h"
#include "flight/flight.h"
#include "http/client.h"
#include "http/filter.h"
#include "list/list.h"
#include "page/page.h"
#include "queue/queue.h"
#include "render/render.h"
#include "store/page_store.h"

enum {
    CONFIG_DOMAINS_MAX = 4096,
    CONFIG_BUCKETS_MAX = 64,
    CONFIG_LISTENS_MAX = 9,
    CONFIG_LISTENERS_MAX = CONFIG_LISTENS_MAX - 2, /* that have a name */
    CONFIG_NAME_BYTES_MAX = 255
};

/* A listener with a name, which shows a part. */
struct config_listener {
    const char *name;
    const char *listen_text; /* addresses, as written; NULL: it is inherited */
    const char *routes_text, *domains_text, *buckets_text;
    struct http_filter filter; /* with texts and arrays of the options */
};

enum config_auth { AUTH_OPEN, AUTH_INTERNAL };

struct config_domain {
    const char *name;
    struct origin_opts origin;      /* url NULL: it has none, and what is missing stays missing */
    bool forward_cookies;           /* to the origin, with transforms */
    struct trust_rules trust;       /* of its words */
    int64_t check_wait_ms;          /* how long a reader waits for one */
    bool is_private;                /* its readers are asked about first */
    int64_t leave_ttl_ms;           /* how long a yes counts */
    const char *authorization_file; /* NULL: the server asks as nobody */
    const char *hosts_text;         /* as written; NULL: not said */
    const char *hosts;              /* where its readers find it, separated by commas */
    const char *article_path;       /* page/wiki_url.h */
    int64_t sweep_period_ns;        /* in which it is asked about all titles */
    enum page_rerender rerender;
    struct page_rerender_limits rerenders;
    int64_t rerender_after_ns; /* NEVER: none is too old for its age alone */
};
/* What clients may do with a bucket of values: its keys and values may be secrets (sessions, caches
 * of users). */
struct config_value_access {
    bool cors;                 /* scripts of other sites may read answers */
    bool listing;              /* its keys may be listed */
    const char *cache_control; /* of answers with a value */
};
enum config_kind { KIND_PAGE, KIND_KEY_VALUE, KIND_KEY_REV_VALUE, CONFIG_KINDS };
struct config_bucket {
    enum config_kind kind;
    struct config_value_access access; /* of values */
    int64_t value_ttl_ns;              /* of values; NEVER: none */
    struct page_bucket_opts page; /* of values: its name, and of key_rev_value what its policy is */
    const char *cache_control;    /* of answers with content; latest and superseded alike */
    int64_t stale_if_error_ns;    /* how old a render may be that is served because making it anew
                                     failed */
    unsigned stash_per_s_max;     /* of one client with a public address; 0: no limit */
    uint64_t stash_bytes_max; /* of previews and pinned renders in stash_ttl, of all clients; 0: no
                                 limit */
};

/* Servers that share one Redis. */
struct config_redis {
    const char *url; /* empty: flights and lists stay within the process */
    struct redis_address address;
    int64_t timeout_ms;          /* of one command */
    int64_t lease_ms, jitter_ms; /* of a flight's leader */
};
/* What these servers ask each other for. */
struct config_servers {
    const char *advertise; /* where the others ask this one; empty: nothing is asked */
    const char *secret_file;
};
enum { CONFIG_LISTS_MAX = 64 };
enum config_degrade { DEGRADE_LOCAL, DEGRADE_FAIL };
struct config_list {
    const char *params_text, *unique_text; /* names, separated by commas */
    const char *params[LIST_PARAMS_MAX], *unique_by[LIST_UNIQUE_MAX];
    enum config_degrade degrade;
    struct list_bucket_opts list;
};

/* Where pages are kept. */
enum config_pages { PAGES_EMBEDDED, PAGES_CASSANDRA };
enum config_tls { TLS_OFF, TLS_ON, TLS_UNVERIFIED };
enum { CONFIG_CONTACT_POINTS_MAX = 16 };
struct config_cassandra {
    const char *contact_points_text; /* as written */
    const char *contact_points[CONFIG_CONTACT_POINTS_MAX];
    unsigned contact_points_count;
    const char *local_dc; /* NULL or empty: not said */
    bool remote_dcs;
    const char *keyspace;
    const char *replication_text; /* "DC=COPIES", separated by commas */
    const char *replication;      /* as CQL has it; NULL: not said */
    const char *user, *password_file;
    bool plain_anywhere; /* the password goes without TLS to other machines, too */
    enum config_tls tls;
    const char *ca_file, *cert_file, *key_file, *tls_name;
    int64_t start_timeout_ms;
    int64_t max_skew_ns, skew_period_ms;
    int64_t auth_ttl_ms, sweep_period_ns;
    unsigned sweep_titles_per_s, due_percent;
};

/* What a RESTBase left in Cassandra, for reads of what is not stored here. */
enum { CONFIG_SECONDARY_TABLES_MAX = 4 };
struct config_secondary_table {
    const char *content, *keyspace; /* content empty: as the table's name says */
};
struct config_secondary_domain {
    const char *name, *there; /* ours, RESTBase's */
};
struct config_secondary {
    struct config_cassandra cluster; /* no contact points: there is no secondary */
    const char *keyspaces_text;      /* as written: "CONTENT=KEYSPACE", separated by commas */
    struct config_secondary_table tables[CONFIG_SECONDARY_TABLES_MAX];
    unsigned tables_count;
    const char *domains_text; /* as written: "NAME=THERE", separated by commas */
    const struct config_secondary_domain *domains;
    size_t domains_count;
    int64_t timeout_ms; /* of one look */
};

enum { CONFIG_STORES_MAX = 64 };
struct config_store {
    const char *name;
    const char *path, *url; /* one of them; path: within the data directory unless absolute */
    unsigned affinity;
};
struct config_queue {
    enum queue_durability durability;
    enum queue_lease_durability lease_durability;
    int64_t start_timeout_ms, write_timeout_ms, idempotency_window_ns;
    uint64_t reply_bytes_max;
    uint32_t partitions_max; /* of all queues together */
    const char *deployment;  /* NULL or empty: the one of the data directory */
    const char *stores_text; /* as written; NULL or empty: the main store */
    struct config_store stores[CONFIG_STORES_MAX];
    unsigned stores_count;
};

enum { CONFIG_PROXIES_MAX = 64 };

struct rule_set;
struct config_database {
    str name, domain;
};

/* Who tells of changes, and what becomes of it. */
struct config_change {
    int64_t event_recheck_ns;
    int64_t retention_ns, dedupe_window_ns; /* of the event log */
    uint64_t bytes_max;                     /* of the event log */
    unsigned dedupe_ids_max;
    const char *streams_text;
    unsigned streams; /* of the store, that the log is told: bits of enum page_stream */
    const char *purge_from_text;
    struct network purge_from[CONFIG_PROXIES_MAX]; /* who may send PURGE */
    unsigned purge_from_count;
    const char *databases_text;              /* of events: "NAME=DOMAIN", separated by commas */
    const struct config_database *databases; /* the same, by name */
    size_t databases_count;
    struct rule_set *rules; /* rule/rule.h; NULL: none */
};

/* What clients written for RESTBase may count on instead of what the standards say. */
enum config_etag { ETAG_BY_CODING, ETAG_STRONG };
enum config_hidden { HIDDEN_GONE, HIDDEN_FORBIDDEN };

struct config {
    struct http_listen listens[CONFIG_LISTENS_MAX]; /* the first is the main one */
    unsigned listens_count;
    struct config_listener listeners[CONFIG_LISTENERS_MAX];
    unsigned listeners_count;
    unsigned listen_mode; /* of the files of unix sockets */
    bool exposed;         /* some listener is not on loopback */
    const char *data_dir;
    struct config_domain *domains;
    unsigned domains_count;
    struct config_bucket buckets[CONFIG_BUCKETS_MAX]; /* the first is "page" */
    unsigned buckets_count;                           /* of pages */
    struct config_bucket values[CONFIG_BUCKETS_MAX];  /* buckets of values */
    unsigned values_count;
    struct config_value_access value_access; /* of those that are not named here */
    enum config_auth auth;
    const char *public_url; /* of a domain's API, with {domain}; NULL: its own paths are told */
    enum config_etag compat_etag;     /* of answers in a coding of their own */
    enum config_hidden compat_hidden; /* of a hidden text */
    struct http_limits http;
    const char *proxies_text;
    /* whose word for where a request comes from is believed */
    struct network proxies[CONFIG_PROXIES_MAX];
    unsigned proxies_count;
    struct config_queue queue;
    struct config_change change;
    unsigned stream_clients; /* of streams of events, at once */
    size_t page_body_bytes_max;
    unsigned page_renders_max; /* of one title at once, where the store is shared; 0: no limit */
    size_t page_transform_bytes_max; /* of the bodies of all transforms under way */
    size_t hot_bytes;                /* of ready answers */
    int64_t hot_ttl_ns;              /* of one, where the store is shared */
    size_t http_bytes_max;           /* of all requests under way; 0: a quarter of what there is */
    int64_t leap_ns_max; /* the machine's clock is believed so far ahead of what is stored */
    int64_t drain_timeout_ms;
    int64_t write_timeout_ms;       /* of one put or order */
    int64_t wait_timeout_ms;        /* of one request for a render or a transform */
    struct flight_opts flight;      /* limits; boot adds the parts */
    struct http_client_opts client; /* as above */
    struct config_redis redis;
    struct config_servers servers;
    struct config_list lists[CONFIG_LISTS_MAX];
    unsigned lists_count;
    size_t lists_bytes; /* of lists kept for a moment */
    enum config_pages pages;
    struct config_cassandra cassandra;
    struct config_secondary secondary;
    uint64_t segment_bytes, free_bytes_min;
    unsigned pool_threads; /* for what blocks */
    enum log_level log_level;
    enum log_format log_format;
    bool access_log;
    bool test_hooks;
    bool test_frozen; /* --test-hooks=INSTANT */
    store_time test_instant;
};

#endif
