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
      .prose = "Addresses to answer on: ADDR:PORT, [ADDR]:PORT or unix:/PATH; port 0 takes any "
               "free port",
      AT(listens) },
    { "listen_mode", NULL, OPTION_MODE, 0, 0777, .initial = "0660",
      .prose = "Mode of the file of each unix:/PATH, in octal: clients that may write the file "
               "may connect",
      AT(listen_mode) },
    { "admin_listen", "admin-listen", OPTION_LISTEN_ADMIN, .initial = "",
      .prose = "Address for the admin routes; without this option loopback listeners answer them",
      AT(listens) },
    { "data", "data", OPTION_TEXT, .initial = "data",
      .prose = "Directory of the store; the server makes a missing one", AT(data_dir) },
    { "domains", "domain", OPTION_DOMAINS, .initial = "localhost",
      .prose = "Names of the domains served; names of file, environment and flags add up",
      AT(domains) },
    { "auth", NULL, OPTION_CHOICE, .choices = auths, .initial = "open",
      .prose = "open: every client may do everything, on loopback only; internal: keys, roles and "
               "bindings decide",
      AT(auth) },
    { "public_url", NULL, OPTION_TEXT, .initial = "",
      .prose = "Address of a domain's API for clients, such as https://{domain}/api/rest_v1; "
               "Content-Location and Link use it",
      AT(public_url) },
    { "compat.etag", NULL, OPTION_CHOICE, .choices = etags, .initial = "weak",
      .prose = "ETag of compressed answers: weak as RFC 9110 wants, or strong as RESTBase's",
      AT(compat_etag) },
    { "compat.hidden", NULL, OPTION_CHOICE, .choices = hiddens, .initial = "410",
      .prose = "Status of a render with hidden text: 410, or 403 as RESTBase's",
      AT(compat_hidden) },
    { "drain_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "10s",
      .prose = "Time for requests that were read before SIGTERM", AT(drain_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "write_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "10s",
      .prose = "Longest wait of a write for its turn; then the server refuses the write",
      AT(write_timeout_ms) },
    { "clock.leap_max", NULL, OPTION_NS, HOUR, NEVER, .initial = OPTION_LEAP_MAX_INITIAL,
      .prose = "Largest step of the machine's clock ahead of the last stored time that the server "
               "follows",
      AT(leap_ns_max) },
    { "flight.wait_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "Longest wait of a request for a render or a transform; Prefer: wait=SECONDS asks "
               "for less",
      AT(wait_timeout_ms), .reload = OPTION_ON_RELOAD },
    { "flight.make_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "Longest time to make one render", AT(flight.make_timeout_ms) },
    { "flight.keys_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "4096",
      .prose = "Missing renders that requests wait for at once; the server refuses further ones",
      AT(flight.flights_max), .reload = OPTION_ON_RELOAD },
    { "flight.keys_source_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "3072",
      .prose = "The same, of one wiki or one generator of lists", AT(flight.flights_source_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.waiters_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "10000",
      .prose = "Requests that wait for the same render", AT(flight.waiters_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.waiters_all_max", NULL, OPTION_COUNT, 1, 1000000, .initial = "20000",
      .prose = "Requests that wait for any render", AT(flight.waiters_all_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.makes_max", NULL, OPTION_COUNT, 1, 10000, .initial = "64",
      .prose = "Renders being made at once; the others wait their turn", AT(flight.makes_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.makes_source_max", NULL, OPTION_COUNT, 1, 10000, .initial = "16",
      .prose = "The same, of one wiki or one generator of lists", AT(flight.makes_source_max),
      .reload = OPTION_ON_RELOAD },
    { "flight.error_base", NULL, OPTION_MS, MS, HOUR, .initial = "500ms",
      .prose = "Time that a first failure is remembered; the time doubles with each further "
               "failure",
      AT(flight.error_base_ms) },
    { "flight.error_max", NULL, OPTION_MS, MS, DAY, .initial = "30s",
      .prose = "Longest time that a failure is remembered", AT(flight.error_max_ms) },
    { "client.connections_max", NULL, OPTION_COUNT, 1, HTTP_CLIENT_CONNECTIONS_MAX, .initial = "64",
      .prose = "Connections to all origins, idle ones included", AT(client.connections_max),
      .reload = OPTION_ON_RELOAD },
    { "client.connect_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "3s",
      .prose = "Longest time to connect to an origin", AT(client.connect_timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "client.dns_ttl", NULL, OPTION_MS, MS, DAY, .initial = "30s",
      .prose = "Time that the address of an origin is kept", AT(client.dns_ttl_ms),
      .reload = OPTION_ON_RELOAD },
    { "client.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates to check origins against, in place of the system's",
      AT(client.ca_file) },
    { "hot_bytes", NULL, OPTION_SIZE, 0, TI, .initial = "64M", .prose = "Memory for ready answers",
      AT(hot_bytes) },
    { "hot_ttl", NULL, OPTION_NS, 0, HOUR, .initial = "1s",
      .prose = "With store.kind cassandra: time that a ready answer is kept; changes of other "
               "servers show this late; 0: no ready answers",
      AT(hot_ttl_ns) },
    { "pool_threads", NULL, OPTION_COUNT, 2, 128, .initial = "4",
      .prose = "Threads for blocking work: cold reads, upkeep, checks", AT(pool_threads) },
    { "page.body_bytes_max", NULL, OPTION_SIZE, KI, PAGE_BYTES_MAX, .initial = "8M",
      .prose = "Largest body of a PUT of pages", AT(page_body_bytes_max) },
    { "page.renders_max", NULL, OPTION_COUNT, 0, 5000, .initial = "1000",
      .prose = "With store.kind cassandra: renders of one title kept at once; a further PUT is "
               "429; 0: no limit",
      AT(page_renders_max) },
    { "page.transform_bytes_max", NULL, OPTION_SIZE, 1, TI, .initial = "128M",
      .prose = "Bodies of all transforms under way together; a single transform always fits",
      AT(page_transform_bytes_max) },
    { "page.secondary.contact_points", NULL, OPTION_TEXT, .initial = "",
      .prose = "Nodes of a Cassandra with RESTBase's tables, HOST or HOST:PORT; missing renders "
               "are read there",
      AT(secondary.cluster.contact_points_text) },
    { "page.secondary.local_dc", NULL, OPTION_TEXT, .initial = "",
      .prose = "Data centre of the nodes to ask", AT(secondary.cluster.local_dc) },
    { "page.secondary.keyspaces", NULL, OPTION_TEXT, .initial = "",
      .prose = "One keyspace for each content, KEYSPACE or CONTENT=KEYSPACE; the first lists the "
               "renders",
      AT(secondary.keyspaces_text) },
    { "page.secondary.domains", NULL, OPTION_TEXT, .initial = "",
      .prose = "Domains with another name in RESTBase, NAME=THERE", AT(secondary.domains_text) },
    { "page.secondary.timeout", NULL, OPTION_MS, 10 * MS, MINUTE, .initial = "1s",
      .prose = "Longest wait of a read for these nodes; then the origin is asked, or the answer "
               "is 503",
      AT(secondary.timeout_ms) },
    { "page.secondary.auth.user", NULL, OPTION_TEXT, .initial = "",
      .prose = "User for the log-in; the right to SELECT is enough", AT(secondary.cluster.user) },
    { "page.secondary.auth.password_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with the password of this user", AT(secondary.cluster.password_file) },
    { "page.secondary.auth.plain_anywhere", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Allow the password without TLS to other machines, too",
      AT(secondary.cluster.plain_anywhere) },
    { "page.secondary.tls.mode", NULL, OPTION_CHOICE, .choices = tls, .initial = "off",
      .prose = "TLS to these nodes; unverified accepts any certificate",
      AT(secondary.cluster.tls) },
    { "page.secondary.tls.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates to check these nodes against, in place of the system's",
      AT(secondary.cluster.ca_file) },
    { "page.secondary.tls.cert_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificate of this server, for nodes that ask for one",
      AT(secondary.cluster.cert_file) },
    { "page.secondary.tls.key_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Private key of "
               "this certificate",
      AT(secondary.cluster.key_file) },
    { "page.secondary.tls.name", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name in the certificate of each node; empty: the name of its host",
      AT(secondary.cluster.tls_name) },
    { "http.threads", NULL, OPTION_COUNT, 0, 256, .initial = "0",
      .prose = "HTTP workers, and as many threads of their pool; 0: one for each core",
      AT(http.threads) },
    { "http.connections_max", NULL, OPTION_COUNT, 16, 1000000, .initial = "10000",
      .prose = "Connections open at once", AT(http.connections_max) },
    { "http.head_bytes_max", NULL, OPTION_SIZE, KI, MI, .initial = "16k",
      .prose = "Largest request head", AT(http.head_bytes_max) },
    { "http.body_drain_bytes_max", NULL, OPTION_SIZE, 1, GI, .initial = "1M",
      .prose = "Bytes of a refused body that are read before the answer",
      AT(http.body_drain_bytes_max) },
    { "http.arena_bytes_max", NULL, OPTION_SIZE, MI, 4 * GI, .initial = "64M",
      .prose = "Memory of one request", AT(http.arena_bytes_max) },
    { "http.bytes_max", NULL, OPTION_SIZE, 0, TI, .initial = "0",
      .prose = "Memory of all requests under way; beyond it 503; 0: a quarter of the machine's or "
               "the control group's memory",
      AT(http_bytes_max) },
    { "http.head_timeout", NULL, OPTION_MS, 100 * MS, HOUR, .initial = "10s",
      .prose = "Time from the first byte of a request to the end of its head",
      AT(http.head_timeout_ms) },
    { "http.idle_timeout", NULL, OPTION_MS, 100 * MS, DAY, .initial = "60s",
      .prose = "Time that a connection may rest between requests", AT(http.idle_timeout_ms) },
    { "http.body_bytes_per_s_min", NULL, OPTION_SIZE, 1, GI, .initial = "1k",
      .prose = "Slowest client that may send a body, in bytes a second",
      AT(http.body_bytes_per_s_min) },
    { "http.send_bytes_per_s_min", NULL, OPTION_SIZE, 1, GI, .initial = "1k",
      .prose = "Slowest client that may read an answer, in bytes a second",
      AT(http.send_bytes_per_s_min) },
    { "http.trusted_proxies", NULL, OPTION_TEXT, .initial = "",
      .prose = "Proxies whose X-Client-IP or X-Forwarded-For counts: addresses, networks "
               "(192.0.2.7,fd00::/8), and unix for unix sockets",
      AT(proxies_text) },
    { "store.segment_bytes", NULL, OPTION_SIZE, MI, 4 * GI - MI, .initial = "256M",
      .prose = "Size of one file of the value log", AT(segment_bytes) },
    { "store.index_bytes_max", NULL, OPTION_GONE, .initial = "",
      .prose = "No effect: the index may grow as long as the disk has room; the next release "
               "refuses this option" },
    { "store.free_bytes_min", NULL, OPTION_SIZE, MI, TI, .initial = "64M",
      .prose = "Free disk below which puts are refused", AT(free_bytes_min) },
    { "store.kind", NULL, OPTION_CHOICE, .choices = pages, .initial = "embedded",
      .prose = "Place of pages and buckets of values: the data directory, or a Cassandra that "
               "servers share",
      AT(pages) },
    { "store.contact_points", NULL, OPTION_TEXT, .initial = "",
      .prose = "Nodes of the cluster to ask first, HOST or HOST:PORT",
      AT(cassandra.contact_points_text) },
    { "store.local_dc", NULL, OPTION_TEXT, .initial = "", .prose = "Data centre of this server",
      AT(cassandra.local_dc) },
    { "store.remote_dcs", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Ask other data centres when no node of this data centre answers",
      AT(cassandra.remote_dcs) },
    { "store.keyspace", NULL, OPTION_TEXT, .initial = "palimpsest",
      .prose = "Keyspace of the tables: a letter, then letters, digits and _, all small",
      AT(cassandra.keyspace) },
    { "store.replication", NULL, OPTION_TEXT, .initial = "",
      .prose = "Copies in each data centre, DC=COPIES; palimpsest store schema makes the keyspace "
               "with them",
      AT(cassandra.replication_text) },
    { "store.auth.user", NULL, OPTION_TEXT, .initial = "",
      .prose = "User for the log-in; empty: no log-in", AT(cassandra.user) },
    { "store.auth.password_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with the password of this user", AT(cassandra.password_file) },
    { "store.auth.plain_anywhere", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Allow the password without TLS to other machines, too",
      AT(cassandra.plain_anywhere) },
    { "store.tls.mode", NULL, OPTION_CHOICE, .choices = tls, .initial = "off",
      .prose = "TLS to the nodes; unverified accepts any certificate", AT(cassandra.tls) },
    { "store.tls.ca_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificates to check nodes against, in place of the system's",
      AT(cassandra.ca_file) },
    { "store.tls.cert_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Certificate of this server, for nodes that ask for one", AT(cassandra.cert_file) },
    { "store.tls.key_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "Private key of this "
               "certificate",
      AT(cassandra.key_file) },
    { "store.tls.name", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name in the certificate of each node; empty: the name of its host",
      AT(cassandra.tls_name) },
    { "store.start_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "10s",
      .prose = "Longest wait of a start for the cluster; a later cluster is used when it answers",
      AT(cassandra.start_timeout_ms) },
    { "store.max_skew", NULL, OPTION_NS, 10 * MS, MINUTE, .initial = "500ms",
      .prose = "Largest distance between the clocks of servers and nodes; beyond it a server "
               "refuses writes",
      AT(cassandra.max_skew_ns) },
    { "store.skew_period", NULL, OPTION_MS, 100 * MS, DAY, .initial = "60s",
      .prose = "Time between two comparisons of the clock with those of two nodes",
      AT(cassandra.skew_period_ms) },
    { "store.auth_ttl", NULL, OPTION_MS, 2 * SECOND, MINUTE, .initial = "5s",
      .prose = "Time that the cluster's word on a key counts; a deleted key may open other "
               "servers this long",
      AT(cassandra.auth_ttl_ms) },
    { "store.sweep_period", NULL, OPTION_NS, 10 * SECOND, 30 * DAY, .initial = "24h",
      .prose = "Time in which upkeep of all servers looks at each title and each value once",
      AT(cassandra.sweep_period_ns) },
    { "store.sweep_titles_per_s", NULL, OPTION_COUNT, 1, 100000, .initial = "100",
      .prose = "Most titles that one server culls in a second", AT(cassandra.sweep_titles_per_s) },
    { "store.due_sample", NULL, OPTION_COUNT, 0, 100, .initial = "100",
      .prose = "Of 100 writes that make a title due for culling, so many note the title; 0: only "
               "the sweep finds it",
      AT(cassandra.due_percent) },
    { "value.cors", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Buckets of values that buckets does not name: scripts of other sites may read "
               "answers",
      AT(value_access.cors) },
    { "value.listing", NULL, OPTION_FLAG, .initial = "false",
      .prose = "The same buckets: clients may list the keys", AT(value_access.listing) },
    { "value.cache_control", NULL, OPTION_TEXT, .initial = "no-store",
      .prose = "The same buckets: Cache-Control of answers with a value",
      AT(value_access.cache_control) },
    { "redis.url", NULL, OPTION_TEXT, .initial = "",
      .prose = "Redis that servers share, redis://[[user]:password@]host[:port][/db]; empty: each "
               "server works alone",
      AT(redis.url) },
    { "redis.timeout", NULL, OPTION_MS, 10 * MS, 60 * SECOND, .initial = "100ms",
      .prose = "Longest wait for an answer of Redis; then Redis counts as away",
      AT(redis.timeout_ms) },
    { "redis.lease", NULL, OPTION_MS, 100 * MS, HOUR, .initial = "2s",
      .prose = "Time without a sign of life after which a server no longer counts as making a "
               "value",
      AT(redis.lease_ms) },
    { "redis.jitter", NULL, OPTION_MS, MS, SECOND, .initial = "20ms",
      .prose = "Most that a server waits beyond a lease, so that servers do not all ask at once",
      AT(redis.jitter_ms) },
    { "servers.advertise", NULL, OPTION_TEXT, .initial = "",
      .prose = "http://host:port of this server for the other servers, which ask it for renders, "
               "stashes and previews; empty: they do not ask",
      AT(servers.advertise) },
    { "servers.secret_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with the secret of all these servers, 16 bytes or more",
      AT(servers.secret_file) },
    { "list.bytes", NULL, OPTION_SIZE, 0, TI, .initial = "64M",
      .prose = "Memory for fresh lists, which also go back to a Redis that lost them",
      AT(lists_bytes) },
    { "queue.durability", NULL, OPTION_CHOICE, .choices = queue_durability_names, .initial = "sync",
      .prose = "Queues without a durability of their own: acknowledge on disk, on disk within "
               "moments, or when written",
      AT(queue.durability) },
    { "queue.lease_durability", NULL, OPTION_CHOICE, .choices = lease_durabilities,
      .initial = "auto",
      .prose = "Answer a lease when written, or when on disk; auto: written on local stores, sync "
               "on PostgreSQL",
      AT(queue.lease_durability) },
    { "queue.start_timeout", NULL, OPTION_MS, 0, HOUR, .initial = "1s",
      .prose = "Longest wait of a start for stores in PostgreSQL; a later store is used when it "
               "answers",
      AT(queue.start_timeout_ms) },
    { "queue.write_timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "3s",
      .prose = "Longest time of one write to a store of queues", AT(queue.write_timeout_ms) },
    { "queue.idempotency_window", NULL, OPTION_NS, 0, 7 * DAY, .initial = "5m",
      .prose = "Time that an Idempotency-Key of a produce is remembered",
      AT(queue.idempotency_window_ns) },
    { "queue.reply_bytes_max", NULL, OPTION_SIZE, 64 * KI, 32 * MI, .initial = "8M",
      .prose = "Bytes after which replies with items, and lists of queues, end; each has at least "
               "one entry",
      AT(queue.reply_bytes_max) },
    { "queue.partitions_max", NULL, OPTION_COUNT, 1, 4 * MI, .initial = "131072",
      .prose = "Partitions of all queues together; each takes 2.5 to 4 kB of memory, and its "
               "items; a larger store still opens",
      AT(queue.partitions_max) },
    { "queue.stores", NULL, OPTION_TEXT, .initial = "",
      .prose = "Stores of partitions: NAME=PATH, NAME*WEIGHT=postgresql://...; empty: the main "
               "store",
      AT(queue.stores_text) },
    { "queue.deployment", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name of the servers that share the stores of queue.stores; empty: a name made at "
               "the first start",
      AT(queue.deployment) },
    { "change.purge_listen", NULL, OPTION_LISTEN_ADMIN, .initial = "",
      .prose = "Address where wikis send PURGE for changed pages, as to a cache", AT(listens) },
    { "change.purge_from", NULL, OPTION_TEXT, .initial = "127.0.0.0/8,::1,unix",
      .prose = "Senders of PURGE that are heard: addresses, networks, unix",
      AT(change.purge_from_text) },
    { "change.databases", NULL, OPTION_TEXT, .initial = "",
      .prose = "Domains of events that name a database and no domain: NAME=DOMAIN",
      .bytes_max = OPTIONS_DATABASES_BYTES_MAX, AT(change.databases_text) },
    { "change.event_recheck", NULL, OPTION_NS, 0, HOUR, .initial = "10s",
      .prose = "Time after which the wiki is asked once more about a change without a revision or "
               "an instant",
      AT(change.event_recheck_ns) },
    { "change.streams", NULL, OPTION_TEXT, .initial = "",
      .prose = "Streams of the store to keep: palimpsest.render, .gone, .dated, or palimpsest.*; "
               "empty: streams that a rule may match",
      AT(change.streams_text), .reload = OPTION_ON_RELOAD },
    { "change.rules", NULL, OPTION_RULES, .initial = "",
      .prose = "Rules, a section for each, as docs/rules.md says; in the file alone",
      AT(change.rules), .reload = OPTION_ON_RELOAD },
    { "stream.clients", NULL, OPTION_COUNT, 0, 65536, .initial = "256",
      .prose = "Clients that follow streams of events at once", AT(stream_clients),
      .reload = OPTION_ON_RELOAD },
    { "change.retention", NULL, OPTION_NS, MINUTE, NEVER, .initial = "7d",
      .prose = "Time that events are kept", AT(change.retention_ns), .reload = OPTION_ON_RELOAD },
    { "change.bytes_max", NULL, OPTION_SIZE, MI, TI, .initial = "1G",
      .prose = "Bytes of events; beyond it the oldest events go early", AT(change.bytes_max),
      .reload = OPTION_ON_RELOAD },
    { "change.dedupe_window", NULL, OPTION_NS, 0, 30 * DAY, .initial = "1h",
      .prose = "Time in which an event with the same meta.id is not taken again",
      AT(change.dedupe_window_ns), .reload = OPTION_ON_RELOAD },
    { "change.dedupe_ids_max", NULL, OPTION_COUNT, 0, 100000000, .initial = "4000000",
      .prose = "Ids of events in memory for that, 36 bytes each; beyond it the oldest ids go early",
      AT(change.dedupe_ids_max), .reload = OPTION_ON_RELOAD },
    { "log.level", NULL, OPTION_CHOICE, .choices = levels, .initial = "info",
      .prose = "Lowest level in the log", AT(log_level), .reload = OPTION_ON_RELOAD },
    { "log.format", NULL, OPTION_CHOICE, .choices = formats, .initial = "text",
      .prose = "Form of a log line", AT(log_format) },
    { "log.access", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Log a line for each request; 500 and 507 are always logged", AT(access_log),
      .reload = OPTION_ON_RELOAD },
    { "test_hooks", "test-hooks", OPTION_HOOKS, .initial = "",
      .prose = "Routes that move the clock, for tests; on loopback, as a flag only; an instant "
               "freezes the clock there",
      AT(test_hooks) },
    { .name = NULL },
};

const struct option option_bucket_rows[] = {
    { "policy", NULL, OPTION_CHOICE, .choices = policies, .initial = "app_ttl",
      .prose = "Policy for superseded renders", OF(page.policy.kind), .reload = OPTION_ON_RELOAD },
    { "grace_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "Time that a superseded render stays readable", OF(page.policy.grace_ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "historical_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "Time that a render stays after the last request that named it",
      OF(page.policy.historical_ttl_ns), .reload = OPTION_ON_RELOAD },
    { "stash_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "1d",
      .prose = "Time that ?stash=true pins a render; while a bucket has never, stash_bytes_max "
               "comes back by stash rm or a restart alone",
      OF(page.policy.stash_ttl_ns), .reload = OPTION_ON_RELOAD },
    { "ledger_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "30d",
      .prose = "Time that the trace of a removed render stays", OF(page.policy.ledger_ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "count", NULL, OPTION_COUNT, 1, PAGE_POLICY_COUNT_MAX, .initial = "1",
      .prose = "Policies latest and interval: renders kept of a revision, or of an interval",
      OF(page.policy.count), .reload = OPTION_ON_RELOAD },
    { "interval", NULL, OPTION_NS, SECOND, NEVER, .initial = "1d",
      .prose = "Policy interval: length of an interval", OF(page.policy.interval_ns),
      .reload = OPTION_ON_RELOAD },
    { "ttl", NULL, OPTION_NS, MS, NEVER, .initial = "30d",
      .prose = "Policy ttl: time that a render stays, superseded or not", OF(page.policy.ttl_ns),
      .reload = OPTION_ON_RELOAD },
    { "codec", NULL, OPTION_CHOICE, .choices = codecs, .initial = "gzip",
      .prose = "Coding of stored contents", OF(page.codec) },
    { "contents", NULL, OPTION_NAMES, .initial = "",
      .prose = "Names of contents that are accepted; empty: any name", OF(page.contents) },
    { "cache_control", NULL, OPTION_TEXT,
      .initial = "private, max-age=0, s-maxage=0, must-revalidate",
      .prose = "Cache-Control of answers with content", OF(cache_control),
      .reload = OPTION_ON_RELOAD },
    { "stale_if_error", NULL, OPTION_NS, 0, NEVER, .initial = "7d",
      .prose = "Largest age of a stored render that is served when a new one cannot be made",
      OF(stale_if_error_ns), .reload = OPTION_ON_RELOAD },
    { "stash_per_s_max", NULL, OPTION_COUNT, 0, 1000000, .initial = "5",
      .prose = "Requests with stash=true a second from one public address; 0: no limit",
      OF(stash_per_s_max), .reload = OPTION_ON_RELOAD },
    { "stash_bytes_max", NULL, OPTION_SIZE, 0, UINT64_C(1) << 50, .initial = "1G",
      .prose = "Bytes of previews and pinned renders, of all clients and buckets, in the longest "
               "stash_ttl; 0: no limit",
      OF(stash_bytes_max), .reload = OPTION_ON_RELOAD },
    { .name = NULL },
};

/* A name that is in the rows above too is set in both: which of them counts, the bucket's kind
 * says. */
const struct option option_value_rows[] = {
    { "ttl", NULL, OPTION_NS, MS, NEVER, .initial = "never",
      .prose = "Time that a value stays after its last PUT", OF(value_ttl_ns) },
    { "cors", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Scripts of other sites may read answers", OF(access.cors) },
    { "listing", NULL, OPTION_FLAG, .initial = "false", .prose = "Clients may list the keys",
      OF(access.listing) },
    { "cache_control", NULL, OPTION_TEXT, .initial = "no-store",
      .prose = "Cache-Control of answers with a value", OF(access.cache_control) },
    { .name = NULL },
};

const struct option option_origin_rows[] = {
    { "kind", NULL, OPTION_CHOICE, .choices = origins, .initial = "parsoid",
      .prose = "Interface of the origin: Parsoid's v3 routes, the wiki's own REST routes, or a "
               "URL with {domain}, {title}, {rev}",
      BY(origin.kind) },
    { "url", NULL, OPTION_TEXT, .initial = "",
      .prose = "URL of rest.php, or the template; empty: the domain has no origin",
      BY(origin.url) },
    { "api", NULL, OPTION_TEXT, .initial = "",
      .prose = "URL of api.php; empty: url with api.php in place of rest.php", BY(origin.api) },
    { "domain", NULL, OPTION_TEXT, .initial = "",
      .prose = "Name of the domain at the origin; empty: the same name", BY(origin.domain) },
    { "timeout", NULL, OPTION_MS, 10 * MS, HOUR, .initial = "30s",
      .prose = "Longest time of one answer of the origin", BY(origin.timeout_ms),
      .reload = OPTION_ON_RELOAD },
    { "concurrency", NULL, OPTION_COUNT, 1, 10000, .initial = "8",
      .prose = "Requests to the origin at once", BY(origin.concurrency),
      .reload = OPTION_ON_RELOAD },
    { "retries", NULL, OPTION_COUNT, 0, 10, .initial = "1",
      .prose = "Retries of safe requests after a 5xx or a cut connection", BY(origin.retries),
      .reload = OPTION_ON_RELOAD },
    { "reply_bytes_max", NULL, OPTION_SIZE, KI, GI, .initial = "32M",
      .prose = "Largest answer of the origin", BY(origin.reply_bytes_max),
      .reload = OPTION_ON_RELOAD },
    { "siteinfo_ttl", NULL, OPTION_MS, SECOND, NEVER, .initial = "1h",
      .prose = "Time that the wiki's rules of titles are kept", BY(origin.siteinfo_ttl_ms),
      .reload = OPTION_ON_RELOAD },
    { "forward_cookies", NULL, OPTION_FLAG, .initial = "false",
      .prose = "Pass cookies of clients on with transforms", BY(forward_cookies) },
    { "hosts", NULL, OPTION_TEXT, .initial = "",
      .prose = "Host names of the wiki in PURGE and events, with a port or without; empty: the "
               "host of url, and the domain",
      BY(hosts_text) },
    { "article_path", NULL, OPTION_TEXT, .initial = WIKI_ARTICLE_PATH,
      .prose = "Path of an article at the wiki, with $1 for the title: $wgArticlePath",
      BY(article_path) },
    { "trust_ttl", NULL, OPTION_NS, 0, NEVER, .initial = "60s",
      .prose = "Time that the wiki's last word on a page counts; then the wiki is asked again",
      BY(trust.ttl_ns), .reload = OPTION_ON_RELOAD },
    { "trust_max", NULL, OPTION_NS, 0, NEVER, .initial = "5m",
      .prose = "Time that readers of the latest get an answer meanwhile; at least trust_ttl",
      BY(trust.max_ns), .reload = OPTION_ON_RELOAD },
    { "check_wait", NULL, OPTION_MS, MS, 60 * SECOND, .initial = "1s",
      .prose = "Longest wait of a reader for the wiki's word on a page", BY(check_wait_ms),
      .reload = OPTION_ON_RELOAD },
    { "authorization_file", NULL, OPTION_TEXT, .initial = "",
      .prose = "File with the Authorization that the server sends to the wiki",
      BY(authorization_file) },
    { "private", NULL, OPTION_FLAG, .initial = "false",
      .prose = "The wiki is not for everybody: ask it about each reader first", BY(is_private) },
    { "leave_ttl", NULL, OPTION_MS, 0, HOUR, .initial = "0s",
      .prose = "With private: time that the wiki's yes to a reader counts", BY(leave_ttl_ms) },
    { "rerender", NULL, OPTION_CHOICE, .choices = rerenders, .initial = "on_read",
      .prose = "New render of a page that a template touched: for the next reader, by the "
               "server at once or paced, or never",
      BY(rerender), .reload = OPTION_ON_RELOAD },
    { "rerender_concurrency", NULL, OPTION_COUNT, 1, 10000, .initial = "2",
      .prose = "Renders that the server itself has made at once, at most concurrency; renders "
               "with a waiting reader come first",
      BY(rerenders.concurrency), .reload = OPTION_ON_RELOAD },
    { "rerender_rate", NULL, OPTION_COUNT, 1, 1000, .initial = "1",
      .prose = "With rerender paced: renders that begin in a second", BY(rerenders.rate),
      .reload = OPTION_ON_RELOAD },
    { "rerender_after", NULL, OPTION_NS, SECOND, NEVER, .initial = "never",
      .prose = "Largest age of the latest render, whatever the wiki says; the next reader gets a "
               "new render",
      BY(rerender_after_ns), .reload = OPTION_ON_RELOAD },
    { "sweep_period", NULL, OPTION_NS, 0, NEVER, .initial = "24h",
      .prose = "Time in which the wiki is asked about every stored title; 0 or never: no sweep",
      BY(sweep_period_ns), .reload = OPTION_ON_RELOAD },
    { .name = NULL },
};
_Static_assert(COUNT_OF(option_rows) <= OPTION_ROWS_MAX, "origins are kept in arrays");
_Static_assert(COUNT_OF(option_bucket_rows) <= OPTION_ROWS_MAX, "origins are kept in arrays");
