/* options_table.c - the rows of all options: of the server, of buckets and of origins. Those of
 * lists are in options_list.c. */
#include "server/options_table.h"
#include "server/options.h"

#include "app/config.h"
#include "engine/engine.h"
#include "page/wiki_url.h"

static const char *const auths[] = { "open", "internal", NULL }; /* enum config_auth */
static const char *const etags[] = { "weak", "strong", NULL };   /* enum config_etag */
static const char *const hiddens[] = { "410", "403", NULL };     /* enum config_hidden */
static const char *const levels[] = { "debug", "info", "warn", "error", NULL }; /* enum log_level */
static const char *const formats[] = { "text", "json", NULL }; /* enum log_format */
static const char *const policies[] = { "app_ttl",  "all", "latest_hash", "latest",
                                        "interval", "ttl", NULL };
static const char *const origins[] = { "parsoid", "rest", "template", NULL }; /* enum origin_kind */
static const char *const rerenders[] = { "on_read", "at_once", "paced", "never",
                                         NULL }; /* enum page_rerender */
static const char *const lease_durabilities[] = { "auto", "written", "sync",
                                                  NULL }; /* enum queue_lease_durability */
static const char *const codecs[] = { "identity", "gzip", "zstd", NULL }; /* enum page_codec */
static const char *const pages[] = { "embedded", "cassandra", NULL };     /* enum config_pages */
static const char *const tls[] = { "off", "on", "unverified", NULL };     /* enum config_tls */
_Static_assert(COUNT_OF(pages) == PAGES_CASSANDRA + 2, "a name each");
_Static_assert(COUNT_OF(tls) == TLS_UNVERIFIED + 2, "a name each");
_Static_assert(COUNT_OF(auths) == AUTH_INTERNAL + 2, "a name each");
_Static_assert(COUNT_OF(etags) == ETAG_STRONG + 2, "a name each");
_Static_assert(COUNT_OF(hiddens) == HIDDEN_FORBIDDEN + 2, "a name each");
_Static_assert(COUNT_OF(levels) == LOG_LEVELS + 1, "a name each");
_Static_assert(COUNT_OF(formats) == LOG_JSON + 2, "a name each");
_Static_assert(COUNT_OF(policies) == POLICY_KINDS + 1, "a name each");
_Static_assert(COUNT_OF(origins) == ORIGIN_KINDS + 1, "a name each");
_Static_assert(COUNT_OF(rerenders) == RERENDER_NEVER + 2, "a name each");
_Static_assert(COUNT_OF(lease_durabilities) == QUEUE_LEASE_SYNC + 2, "a name each");
_Static_assert(COUNT_OF(codecs) == PAGE_ZSTD + 2, "a name each");

#define KI ((uint64_t)1 << 10)
#define MI ((uint64_t)1 << 20)
#define GI ((uint64_t)1 << 30)
#define TI ((uint64_t)1 << 40)
#define MS ((uint64_t)1000000)
#define SECOND (1000 * MS)
#define MINUTE (60 * SECOND)
#define HOUR (3600 * SECOND)
#define DAY (24 * HOUR)
#define NEVER ((uint64_t)INT64_MAX)
#define AT(field)                                                                                  \
    .offset = offsetof(struct config, field), .width = sizeof(((struct config *)NULL)->field)
#define OF(field)                                                                                  \
    .offset = offsetof(struct config_bucket, field),                                               \
    .width = sizeof(((struct config_bucket *)NULL)->field)
#define BY(field)                                                                                  \
    .offset = offsetof(struct config_domain, field),                                               \
    .width = sizeof(((struct config_domain *)NULL)->field)

const struct option option_rows[] = {
    { "listen", "listen", OPTION_LISTENS, .initial = "127.0.0.1:7231",
      .prose = "Addresses to answer on, ADDR:PORT, [ADDR]:PORT or unix:/PATH; port 0 is any free "
               "one",
      AT(listens) },
    { "listen_mode", NULL, OPTION_MODE, 0, 0777, .initial = "0660",
      .prose = "Mode of the file of each unix:/PATH, in octal: who may write it may connect",
      AT(listen_mode) },
    { "admin_listen", "admin-listen", OPTION_LISTEN_ADMIN, .initial = "",
      .prose = "Address for the admin routes alone; without it they answer on loopback listeners",
      AT(listens) },
    { "data", "data", OPTION_TEXT, .initial = "data",
      .prose = "Directory of the store, made when missing", AT(data_dir) },
    { "domains", "domain", OPTION_DOMAINS, .initial = "localhost",
      .prose = "Names of the domains served; file, environment and flags add up", AT(domains) },
    { "auth", NULL, OPTION_CHOICE, .choices = auths, .initial = "open",
      .prose = "Who may do what: open to everybody (loopback only), or keys, roles and bindings",
      AT(auth) },
    { "public_url", NULL, OPTION_TEXT, .initial = "",
      .prose = "Where clients reach a domain's API, as https://{domain}/api/rest_v1; "
               "Content-Location and Link name it",
      AT(public_url) },
    { "compat.etag", NULL, OPTION_CHOICE, .choices = etags, .initial = "weak",
      .prose = "ETag of answers in a content coding, of pages and values: weak as RFC 9110 wants, "
               "or strong as "
               "RESTBase's",
      AT(compat_etag) },
    { "compat.hidden", NULL, OPTION_CHOICE, .choices = hiddens, .initial = "410",
      .prose = "Status of a render whose text is hidden: 410, or 403 as RESTBase's",
      AT(compat_hidden) },
    { "drain_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "10s",
      .prose = "After SIGTERM, how long requests already read may take", AT(drain_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "write_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "10s",
      .prose = "How long a write may wait for its turn before it is refused",
      AT(write_timeout_ms) },
    { "clock.leap_max", NULL, OPTION_NS, HOUR, NEVER, .initial = OPTION_LEAP_MAX_INITIAL,
      .prose = "How far the machine's clock may be ahead of the last stored time; one further "
               "ahead is not followed",
      AT(leap_ns_max) },
    { "flight.wait_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "How long a request waits for a render or a transform; Prefer: wait=SECONDS asks "
               "for less",
      AT(wait_timeout_ms), .reload = OPTION_ON_RELOAD },
    { "flight.make_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "How long the making of one render may take", AT(flight.make_timeout_ms) },
    { "flight.keys_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "4096",
      .prose = "Missing renders asked for at once; requests for more are refused",
      AT(flight.flights_max), .reload = OPTION_ON_RELOAD },
    { "flight.keys_source_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "3072",
      .prose = "Of these, of one wiki or one generator of lists", AT(flight.flights_source_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.waiters_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "10000",
      .prose = "Requests that wait for one render", AT(flight.waiters_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.waiters_all_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "20000",
      .prose = "Requests that wait for renders", AT(flight.waiters_all_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.makes_max", NULL, OPTION_COUNT, 1, 10000, .initial = "64",
      .prose = "Renders in the making at once; the rest wait their turn", AT(flight.makes_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.makes_source_max", NULL, OPTION_COUNT, 1, 10000, .initial = "16",
      .prose = "Of these, of one wiki or one generator of lists; they take turns",
      AT(flight.makes_source_max), .reload = OPTION_ON_RELOAD },
    { "flight.error_base", NULL, OPTION_MS, MS, HOUR, .initial = "500ms",
      .prose = "How long a failure is remembered; twice as long with each one more",
      AT(flight.error_base_ms) },
    { "flight.error_max", NULL, OPTION_MS, MS, DAY, .initial = "30s",
      .prose = "The longest a failure is remembered", AT(flight.error_max_ms) },
    { "client.connections_max", NULL, OPTION_COUNT, 1, HTTP_CLIENT_CONNECTIONS_MAX, .initial = "64",
      .prose = "Connections to origins, kept and running", AT(client.connections_max),
      .reload = OPTION_ON_RELOAD },
    { "client.connect_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "3s",
      .prose = "How long connecting to an origin may take", AT(client.connect_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "client.dns_ttl", NULL, OPTION_MS, MS, DAY, .initial = "30s",
      .prose = "How long the address of an origin is believed", AT(client.dns_ttl_ms),
      .reload = OPTION_ON_RELOAD },
    { "client.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates that origins are checked against, instead of the system's",
      AT(client.ca_file) },
    { "hot_bytes", NULL, OPTION_SIZE, 0, TI, .initial = "64M",
      .prose = "Memory for answers kept ready", AT(hot_bytes) },
    { "hot_ttl", NULL, OPTION_NS, 0, HOUR, .initial = "1s",
      .prose = "With store.kind cassandra: how long an answer is kept ready, so how late a server "
               "shows what another one did; 0: none is",
      AT(hot_ttl_ns) },
    { "pool_threads", NULL, OPTION_COUNT, 2, 128, .initial = "4",
      .prose = "Threads for work that blocks: cold reads, upkeep, checks", AT(pool_threads) },
    { "page.body_bytes_max", NULL, OPTION_SIZE, KI, PAGE_BYTES_MAX, .initial = "8M",
      .prose = "Largest body of a PUT", AT(page_body_bytes_max) },
    { "page.renders_max", NULL, OPTION_COUNT, 0, 5000, .initial = "1000",
      .prose = "With store.kind cassandra: renders of one title that are kept at once; a put of "
               "one more is 429; 0 is no limit",
      AT(page_renders_max) },
    { "page.transform_bytes_max", NULL, OPTION_SIZE, 1, TI, .initial = "128M",
      .prose = "Bodies of all transforms that are under way, together; one alone is always taken",
      AT(page_transform_bytes_max) },
    { "page.secondary.contact_points", NULL, OPTION_TEXT, .initial = "",
      .prose = "Nodes of a Cassandra with RESTBase's tables, HOST or HOST:PORT: what is not stored "
               "here is taken from there; none: nothing is",
      AT(secondary.cluster.contact_points_text) },
    { "page.secondary.local_dc", NULL, OPTION_TEXT, .initial = "",
      .prose = "The same: name of the data centre whose nodes are asked",
      AT(secondary.cluster.local_dc) },
    { "page.secondary.keyspaces", NULL, OPTION_TEXT, .initial = "",
      .prose = "The same: one keyspace for each content of a render, KEYSPACE or CONTENT=KEYSPACE; "
               "the first says which renders there are",
      AT(secondary.keyspaces_text) },
    { "page.secondary.domains", NULL, OPTION_TEXT, .initial = "",
      .prose = "The same: domains that RESTBase calls otherwise, NAME=THERE",
      AT(secondary.domains_text) },
    { "page.secondary.timeout", NULL, OPTION_MS, 10 * MS, MINUTE, .initial = "1s",
      .prose = "The same: how long a read waits for it; then the origin is asked, or it is 503",
      AT(secondary.timeout_ms) },
    { "page.secondary.auth.user", NULL, OPTION_TEXT, .initial = "",
      .prose = "As whom the server logs in there; one that may only SELECT will do",
      AT(secondary.cluster.user) },
    { "page.secondary.auth.password_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with that user's password", AT(secondary.cluster.password_file) },
    { "page.secondary.auth.plain_anywhere", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Send the password without TLS to other machines, too",
      AT(secondary.cluster.plain_anywhere) },
    { "page.secondary.tls.mode", NULL, OPTION_CHOICE, .choices = tls, .initial = "off",
      .prose = "TLS to these nodes: off, on, or on whatever certificate a node has",
      AT(secondary.cluster.tls) },
    { "page.secondary.tls.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates that these nodes are checked against, instead of the system's",
      AT(secondary.cluster.ca_file) },
    { "page.secondary.tls.cert_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificate of this server, for nodes that want one",
      AT(secondary.cluster.cert_file) },
    { "page.secondary.tls.key_file", NULL, OPTION_TEXT, .initial = "", .prose = "Its key",
      AT(secondary.cluster.key_file) },
    { "page.secondary.tls.name", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name that the certificate of each node has; none: its own host's",
      AT(secondary.cluster.tls_name) },
    { "http.threads", NULL, OPTION_COUNT, 0, 256, .initial = "0",
      .prose = "HTTP workers, and as many threads of their pool; 0 is one for each core",
      AT(http.threads) },
    { "http.connections_max", NULL, OPTION_COUNT, 16, 1000000, .initial = "10000",
      .prose = "Connections open at once", AT(http.connections_max) },
    { "http.head_bytes_max", NULL, OPTION_SIZE, KI, MI, .initial = "16k",
      .prose = "Largest request head", AT(http.head_bytes_max) },
    { "http.body_drain_bytes_max", NULL, OPTION_SIZE, 1, GI, .initial = "1M",
      .prose = "How much of a refused body is read before the answer",
      AT(http.body_drain_bytes_max) },
    { "http.arena_bytes_max", NULL, OPTION_SIZE, MI, 4 * GI, .initial = "64M",
      .prose = "Memory of one request", AT(http.arena_bytes_max) },
    { "http.bytes_max", NULL, OPTION_SIZE, 0, TI, .initial = "0",
      .prose = "Memory of all requests under way, bodies and answers with it; beyond it they are "
               "refused (503). 0 is a"
               " quarter of the machine's, or of what the control group may have",
      AT(http_bytes_max) },
    { "http.head_timeout", NULL, OPTION_MS, 100 * MS, HOUR, .initial = "10s",
      .prose = "From the first byte of a request to the end of its head",
      AT(http.head_timeout_ms) },
    { "http.idle_timeout", NULL, OPTION_MS, 100 * MS, DAY, .initial = "60s",
      .prose = "How long a connection may rest between requests", AT(http.idle_timeout_ms) },
    { "http.body_bytes_per_s_min", NULL, OPTION_SIZE, 1, GI, .initial = "1k",
      .prose = "Slowest body accepted, in bytes a second", AT(http.body_bytes_per_s_min) },
    { "http.send_bytes_per_s_min", NULL, OPTION_SIZE, 1, GI, .initial = "1k",
      .prose = "Slowest reader accepted, in bytes a second", AT(http.send_bytes_per_s_min) },
    { "http.trusted_proxies", NULL, OPTION_TEXT, .initial = "",
      .prose = "Proxies whose X-Client-IP or X-Forwarded-For is believed: addresses, networks, as "
               "192.0.2.7,fd00::/8, and unix for who comes over a unix socket",
      AT(proxies_text) },
    { "store.segment_bytes", NULL, OPTION_SIZE, MI, 4 * GI - MI, .initial = "256M",
      .prose = "Size of one file of the value log", AT(segment_bytes) },
    { "store.index_bytes_max", NULL, OPTION_GONE, .initial = "",
      .prose = "Does nothing any more: the index may grow as long as the disk has room. The next "
               "release refuses it" },
    { "store.free_bytes_min", NULL, OPTION_SIZE, MI, TI, .initial = "64M",
      .prose = "Puts are refused when the disk has less than this left", AT(free_bytes_min) },
    { "store.kind", NULL, OPTION_CHOICE, .choices = pages, .initial = "embedded",
      .prose = "Where pages and buckets of values are kept: in the data directory, or in a cluster "
               "of Cassandra that servers share",
      AT(pages) },
    { "store.contact_points", NULL, OPTION_TEXT, .initial = "",
      .prose = "Nodes of the cluster that are asked first, HOST or HOST:PORT",
      AT(cassandra.contact_points_text) },
    { "store.local_dc", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name of the data centre that this server is in", AT(cassandra.local_dc) },
    { "store.remote_dcs", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Ask other data centres when no node of this one can be asked",
      AT(cassandra.remote_dcs) },
    { "store.keyspace", NULL, OPTION_TEXT, .initial = "palimpsest",
      .prose = "Where the tables are: a letter, then letters, digits and _, all small",
      AT(cassandra.keyspace) },
    { "store.replication", NULL, OPTION_TEXT, .initial = "",
      .prose = "How many copies each data centre has, DC=COPIES: for palimpsest store schema, "
               "which makes the keyspace",
      AT(cassandra.replication_text) },
    { "store.auth.user", NULL, OPTION_TEXT, .initial = "",
      .prose = "As whom the server logs in; none: it does not", AT(cassandra.user) },
    { "store.auth.password_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with that user's password", AT(cassandra.password_file) },
    { "store.auth.plain_anywhere", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Send the password without TLS to other machines, too",
      AT(cassandra.plain_anywhere) },
    { "store.tls.mode", NULL, OPTION_CHOICE, .choices = tls, .initial = "off",
      .prose = "TLS to the nodes: off, on, or on whatever certificate a node has",
      AT(cassandra.tls) },
    { "store.tls.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates that nodes are checked against, instead of the system's",
      AT(cassandra.ca_file) },
    { "store.tls.cert_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificate of this server, for nodes that want one", AT(cassandra.cert_file) },
    { "store.tls.key_file", NULL, OPTION_TEXT, .initial = "", .prose = "Its key",
      AT(cassandra.key_file) },
    { "store.tls.name", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name that the certificate of each node has; none: its own host's",
      AT(cassandra.tls_name) },
    { "store.start_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "10s",
      .prose = "How long a start waits for the cluster; one that answers later comes then",
      AT(cassandra.start_timeout_ms) },
    { "store.max_skew", NULL, OPTION_NS, 10 * MS, MINUTE, .initial = "500ms",
      .prose = "How far the clocks of servers and nodes may be apart; beyond it a server refuses "
               "writes",
      AT(cassandra.max_skew_ns) },
    { "store.skew_period", NULL, OPTION_MS, 100 * MS, DAY, .initial = "60s",
      .prose = "How often a server compares its clock with those of two nodes",
      AT(cassandra.skew_period_ms) },
    { "store.auth_ttl", NULL, OPTION_MS, 2 * SECOND, MINUTE, .initial = "5s",
      .prose = "How long a key is good for that the cluster was last asked for; so long another "
               "server may still let in who has just lost it",
      AT(cassandra.auth_ttl_ms) },
    { "store.sweep_period", NULL, OPTION_NS, 10 * SECOND, 30 * DAY, .initial = "24h",
      .prose = "In how long the upkeep of all servers looks at each title and each value once",
      AT(cassandra.sweep_period_ns) },
    { "store.sweep_titles_per_s", NULL, OPTION_COUNT, 1, 100000, .initial = "100",
      .prose = "So many titles one server culls in a second at most",
      AT(cassandra.sweep_titles_per_s) },
    { "store.due_sample", NULL, OPTION_COUNT, 0, 100, .initial = "100",
      .prose =
          "Of 100 writes that make a title due for culling, so many note it; 0: the sweep alone "
          "finds it",
      AT(cassandra.due_percent) },
    { "value.cors", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Buckets of values that are not named in buckets: scripts of other sites may read "
               "their answers",
      AT(value_access.cors) },
    { "value.listing", NULL, OPTION_FLAG, .initial = "false",
      .prose = "The same: their keys may be listed", AT(value_access.listing) },
    { "value.cache_control", NULL, OPTION_TEXT, .initial = "no-store",
      .prose = "The same: Cache-Control of answers with a value", AT(value_access.cache_control) },
    { "redis.url", NULL, OPTION_TEXT, .initial = "",
      .prose = "redis://[[user]:password@]host[:port][/db] that servers share; none: flights stay "
               "within the process",
      AT(redis.url) },
    { "redis.timeout", NULL, OPTION_MS, 10 * MS, 60 * SECOND, .initial = "100ms",
      .prose = "How long one of its answers may take; then it counts as away",
      AT(redis.timeout_ms) },
    { "redis.lease", NULL, OPTION_MS, 100 * MS, HOUR, .initial = "2s",
      .prose = "How long a server that makes a value is believed alive without a word",
      AT(redis.lease_ms) },
    { "redis.jitter", NULL, OPTION_MS, MS, SECOND, .initial = "20ms",
      .prose = "Most that is waited beyond a lease, so that not all ask at once",
      AT(redis.jitter_ms) },
    { "servers.advertise", NULL, OPTION_TEXT, .initial = "",
      .prose =
          "http://host:port at which the other servers of this Redis ask this one for renders, "
          "stashes and previews that they lack; none: they are not found elsewhere",
      AT(servers.advertise) },
    { "servers.secret_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with the secret that these servers share, 16 bytes or more",
      AT(servers.secret_file) },
    { "list.bytes", NULL, OPTION_SIZE, 0, TI, .initial = "64M",
      .prose = "Memory for lists; they are held while they are fresh, and given back to a Redis "
               "that lost them",
      AT(lists_bytes) },
    { "queue.durability", NULL, OPTION_CHOICE, .choices = queue_durability_names, .initial = "sync",
      .prose =
          "Of queues that do not say: acknowledged on disk, on disk within moments, or whenever",
      AT(queue.durability) },
    { "queue.lease_durability", NULL, OPTION_CHOICE, .choices = lease_durabilities,
      .initial = "auto",
      .prose = "A lease is answered when written (kill -9 keeps it), or when synced; auto: written "
               "on local stores,"
               " sync on PostgreSQL",
      AT(queue.lease_durability) },
    { "queue.start_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "1s",
      .prose = "How long a start waits for stores in PostgreSQL; one that answers later comes then",
      AT(queue.start_timeout_ms) },
    { "queue.write_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "3s",
      .prose = "How long one write to a store of queues may take", AT(queue.write_timeout_ms) },
    { "queue.idempotency_window", NULL, OPTION_NS, 0, 7 * DAY, .initial = "5m",
      .prose = "How long an Idempotency-Key of a produce is remembered",
      AT(queue.idempotency_window_ns) },
    { "queue.reply_bytes_max", NULL, OPTION_SIZE, 64 * KI, 32 * MI, .initial = "8M",
      .prose = "Where replies with items, and lists of queues, stop after at least one",
      AT(queue.reply_bytes_max) },
    { "queue.partitions_max", NULL, OPTION_COUNT, 1, 4 * MI, .initial = "131072",
      .prose = "Partitions of all queues together: each takes about 2.5 kB of memory, 4 kB with "
               "items, the items apart;"
               " a store that holds more is opened all the same",
      AT(queue.partitions_max) },
    { "queue.stores", NULL, OPTION_TEXT, .initial = "",
      .prose =
          "Where partitions are: NAME=PATH, NAME*WEIGHT=postgresql://...; none: the main store",
      AT(queue.stores_text) },
    { "queue.deployment", NULL, OPTION_TEXT, .initial = "",
      .prose = "The name by which the stores of queue.stores are this server's and of those that "
               "stand by for it; none:"
               " one made at the first start",
      AT(queue.deployment) },
    { "change.purge_listen", NULL, OPTION_LISTEN_ADMIN, .initial = "",
      .prose =
          "Address where wikis send PURGE for pages that changed, as to a cache; none: nowhere",
      AT(listens) },
    { "change.purge_from", NULL, OPTION_TEXT, .initial = "127.0.0.0/8,::1,unix",
      .prose = "Who may send PURGE there: addresses, networks, unix", AT(change.purge_from_text) },
    { "change.databases", NULL, OPTION_TEXT, .initial = "",
      .prose = "Whose events those are that name a database and no domain: NAME=DOMAIN",
      .bytes_max = OPTIONS_DATABASES_BYTES_MAX, AT(change.databases_text) },
    { "change.event_recheck", NULL, OPTION_NS, 0, HOUR, .initial = "10s",
      .prose = "After somebody said that a page changed, but not how to tell that the wiki knows: "
               "when the wiki is asked once more",
      AT(change.event_recheck_ns) },
    { "change.streams", NULL, OPTION_TEXT, .initial = "",
      .prose = "Events of the store that are kept, too: palimpsest.render, palimpsest.gone, "
               "palimpsest.dated, or palimpsest.* for all; none: those that a rule may want",
      AT(change.streams_text), .reload = OPTION_ON_RELOAD },
    { "change.rules", NULL, OPTION_RULES, .initial = "",
      .prose =
          "What is done about which events: a section for each rule, as docs/rules.md says; in "
          "the file alone",
      AT(change.rules), .reload = OPTION_ON_RELOAD },
    { "stream.clients", NULL, OPTION_COUNT, 0, 65536, .initial = "256",
      .prose = "Clients that follow streams of events at once", AT(stream_clients),
      .reload = OPTION_ON_RELOAD },
    { "change.retention", NULL, OPTION_NS, MINUTE, NEVER, .initial = "7d",
      .prose = "How long events are kept", AT(change.retention_ns), .reload = OPTION_ON_RELOAD },
    { "change.bytes_max", NULL, OPTION_SIZE, MI, TI, .initial = "1G",
      .prose = "Room for events; beyond it the oldest ones go before their time",
      AT(change.bytes_max), .reload = OPTION_ON_RELOAD },
    { "change.dedupe_window", NULL, OPTION_NS, 0, 30 * DAY, .initial = "1h",
      .prose = "How long an event that is sent again, with its meta.id, is not taken twice",
      AT(change.dedupe_window_ns), .reload = OPTION_ON_RELOAD },
    { "change.dedupe_ids_max", NULL, OPTION_COUNT, 0, 100000000, .initial = "4000000",
      .prose = "Ids of events that are kept in memory for that, 36 bytes each; beyond it the "
               "oldest ones are forgotten before their time",
      AT(change.dedupe_ids_max), .reload = OPTION_ON_RELOAD },
    { "log.level", NULL, OPTION_CHOICE, .choices = levels, .initial = "info",
      .prose = "Least level that is logged", AT(log_level), .reload = OPTION_ON_RELOAD },
    { "log.format", NULL, OPTION_CHOICE, .choices = formats, .initial = "text",
      .prose = "Form of a log line", AT(log_format) },
    { "log.access", NULL, OPTION_FLAG, .initial = "false",
      .prose = "A line for each request; what failed inside (500, 507) is logged anyway",
      AT(access_log), .reload = OPTION_ON_RELOAD },
    { "test_hooks", "test-hooks", OPTION_HOOKS, .initial = "",
      .prose = "Routes that move the clock, for tests; loopback only, command line only; an "
               "instant freezes it there",
      AT(test_hooks) },
    { .name = NULL },
};

const struct option option_bucket_rows[] = {
    { "policy", NULL, OPTION_CHOICE, .choices = policies, .initial = "app_ttl",
      .prose = "What is kept of superseded renders", OF(page.policy.kind),
      .reload = OPTION_ON_RELOAD },
    { "grace_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "How long a superseded render stays readable", OF(page.policy.grace_ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "historical_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "How long a render stays after the last request that named it, superseded then or "
               "only later",
      OF(page.policy.historical_ttl_ns), .reload = OPTION_ON_RELOAD },
    { "stash_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "How long ?stash=true pins a render; while it is never in one bucket, "
               "page.stash_bytes_max of all comes"
               " back only by stash rm or a restart",
      OF(page.policy.stash_ttl_ns), .reload = OPTION_ON_RELOAD },
    { "ledger_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "30d",
      .prose = "How long it is known that a render was there", OF(page.policy.ledger_ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "count", NULL, OPTION_COUNT, 1, PAGE_POLICY_COUNT_MAX, .initial = "1",
      .prose = "Policies latest and interval: renders kept of a revision, of an interval",
      OF(page.policy.count), .reload = OPTION_ON_RELOAD },
    { "interval", NULL, OPTION_NS, SECOND, NEVER, .initial = "1d",
      .prose = "Policy interval: its length", OF(page.policy.interval_ns),
      .reload = OPTION_ON_RELOAD },
    { "ttl", NULL, OPTION_NS, MS, NEVER, .initial = "30d",
      .prose = "Policy ttl: how long a render stays, superseded or not", OF(page.policy.ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "codec", NULL, OPTION_CHOICE, .choices = codecs, .initial = "gzip",
      .prose = "How contents are stored", OF(page.codec) },
    { "contents", NULL, OPTION_NAMES, .initial = "",
      .prose = "Names of contents that are accepted; none given: any", OF(page.contents) },
    { "cache_control", NULL, OPTION_TEXT,
      .initial = "private, max-age=0, s-maxage=0, must-revalidate",
      .prose = "Cache-Control of answers with content", OF(cache_control),
      .reload = OPTION_ON_RELOAD },
    { "stale_if_error", NULL, OPTION_NS, 0, NEVER, .initial = "7d",
      .prose = "How old a render may be that is served because making it anew failed",
      OF(stale_if_error_ns), .reload = OPTION_ON_RELOAD },
    { "stash_per_s_max", NULL, OPTION_COUNT, 0, 1000000, .initial = "5",
      .prose = "Requests with stash=true a second from one public address; 0 is no limit",
      OF(stash_per_s_max), .reload = OPTION_ON_RELOAD },
    { "stash_bytes_max", NULL, OPTION_SIZE, 0, UINT64_C(1) << 50, .initial = "1G",
      .prose = "Bytes that stash=true keeps in one stash_ttl, the longest of any bucket, of all "
               "clients and buckets:"
               " previews and pinned renders; 0 is no limit",
      OF(stash_bytes_max), .reload = OPTION_ON_RELOAD },
    { .name = NULL },
};

/* A name that is in the rows above too is set in both: which of them counts, the bucket's kind
 * says. */
const struct option option_value_rows[] = {
    { "ttl", NULL, OPTION_NS, MS, NEVER, .initial = "never",
      .prose = "How long a value stays after its last put", OF(value_ttl_ns) },
    { "cors", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Scripts of other sites may read its answers", OF(access.cors) },
    { "listing", NULL, OPTION_FLAG, .initial = "false", .prose = "Its keys may be listed",
      OF(access.listing) },
    { "cache_control", NULL, OPTION_TEXT, .initial = "no-store",
      .prose = "Cache-Control of answers with a value", OF(access.cache_control) },
    { .name = NULL },
};

const struct option option_origin_rows[] = {
    { "kind", NULL, OPTION_CHOICE, .choices = origins, .initial = "parsoid",
      .prose = "How it is asked: Parsoid's v3 routes, the wiki's own REST routes, or a URL with "
               "{domain}, {title}, "
               "{rev}",
      BY(origin.kind) },
    { "url", NULL, OPTION_TEXT, .initial = "",
      .prose = "Of rest.php, or the template; none: no origin", BY(origin.url) },
    { "api", NULL, OPTION_TEXT, .initial = "",
      .prose = "Of api.php; default: url with rest.php -> api.php", BY(origin.api) },
    { "domain", NULL, OPTION_TEXT, .initial = "",
      .prose = "The name the origin knows; default: ours", BY(origin.domain) },
    { "timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "How long one of its answers may take", BY(origin.timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "concurrency", NULL, OPTION_COUNT, 1, 10000, .initial = "8",
      .prose = "Requests to it at once", BY(origin.concurrency), .reload = OPTION_ON_RELOAD },
    { "retries", NULL, OPTION_COUNT, 0, 10, .initial = "1",
      .prose = "Of what is safe, after a 5xx or a cut", BY(origin.retries),
      .reload = OPTION_ON_RELOAD },
    { "reply_bytes_max", NULL, OPTION_SIZE, KI, GI, .initial = "32M",
      .prose = "Largest answer it may give", BY(origin.reply_bytes_max),
      .reload = OPTION_ON_RELOAD },
    { "siteinfo_ttl", NULL, OPTION_MS, SECOND, NEVER, .initial = "1h",
      .prose = "How long its rules of titles are believed", BY(origin.siteinfo_ttl_ms),
      .reload = OPTION_ON_RELOAD },
    { "forward_cookies", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Pass cookies on to it with transforms", BY(forward_cookies) },
    { "hosts", NULL, OPTION_TEXT, .initial = "",
      .prose = "Names under which its readers find it, with a port or without: PURGE and events "
               "name them; none: the url's, and the domain's",
      BY(hosts_text) },
    { "article_path", NULL, OPTION_TEXT, .initial = WIKI_ARTICLE_PATH,
      .prose = "Where its articles are there, with $1 for the title: its $wgArticlePath",
      BY(article_path) },
    { "trust_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "60s",
      .prose = "For how long what it last said of a page counts; then it is asked again",
      BY(trust.ttl_ns), .reload = OPTION_ON_RELOAD },
    { "trust_max", NULL, OPTION_NS, 0, NEVER, .initial = "5m",
      .prose = "For how long readers of the latest are answered meanwhile; at least trust_ttl",
      BY(trust.max_ns), .reload = OPTION_ON_RELOAD },
    { "check_wait", NULL, OPTION_MS, MS, 60 * SECOND, .initial = "1s",
      .prose = "How long a reader waits for it to say whether a page is still the same",
      BY(check_wait_ms), .reload = OPTION_ON_RELOAD },
    { "authorization_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with what Authorization says when the server asks it; none: nothing",
      BY(authorization_file) },
    { "private", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Not everybody may read it: it is asked about each reader first", BY(is_private) },
    { "leave_ttl", NULL, OPTION_MS, 0, HOUR, .initial = "0s",
      .prose = "The same: for how long its yes to a reader counts", BY(leave_ttl_ms) },
    { "rerender", NULL, OPTION_CHOICE, .choices = rerenders, .initial = "on_read",
      .prose = "Who has a render made anew whose page was touched since, as by an edit of a "
               "template: its next reader; the server itself, at once, or so many in a second; "
               "nobody",
      BY(rerender), .reload = OPTION_ON_RELOAD },
    { "rerender_concurrency", NULL, OPTION_COUNT, 1, 10000, .initial = "2",
      .prose =
          "How many the server itself has made at once, no more than concurrency; who waits for "
          "the wiki comes first",
      BY(rerenders.concurrency), .reload = OPTION_ON_RELOAD },
    { "rerender_rate", NULL, OPTION_COUNT, 1, 1000, .initial = "1",
      .prose = "How many it begins in a second, where they are paced", BY(rerenders.rate),
      .reload = OPTION_ON_RELOAD },
    { "rerender_after", NULL, OPTION_NS, SECOND, NEVER, .initial = "never",
      .prose = "How old a render of the latest may be, though no word of the wiki says that it is "
               "old: its next reader has it made anew",
      BY(rerender_after_ns), .reload = OPTION_ON_RELOAD },
    { "sweep_period", NULL, OPTION_NS, 0, NEVER, .initial = "24h",
      .prose = "In how long it is asked about every stored title, whoever reads it; 0 or never: it "
               "is not",
      BY(sweep_period_ns), .reload = OPTION_ON_RELOAD },
    { .name = NULL },
};
_Static_assert(COUNT_OF(option_rows) <= OPTION_ROWS_MAX, "origins are kept in arrays");
_Static_assert(COUNT_OF(option_bucket_rows) <= OPTION_ROWS_MAX, "origins are kept in arrays");
