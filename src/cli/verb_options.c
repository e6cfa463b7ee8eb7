/* verb_options.c - the options of each verb; the rows that name them are in verbs.c. */
#include "cli/verb_options.h"

#define OPTIONS_END                                                                                \
    {                                                                                              \
        NULL, 0, NULL, NULL                                                                        \
    }
#define OPTION_JSON                                                                                \
    {                                                                                              \
        "json", 0, NULL, "Print JSON for machines"                                                 \
    }

const struct cli_option get_options[] = {
    { "content", 'c', "NAME", "Content of the render [html]" },
    { "output", 'o', "FILE",
      "Write to FILE: whole or not at all; a link stays, a device is written into" },
    { "at", 0, "INSTANT",
      "The render that was served at this instant: RFC 3339, an HTTP date or seconds since 1970" },
    OPTIONS_END,
};

const struct cli_option put_options[] = {
    { "content", 'c', "NAME", "Content of a FILE that names none itself [html]" },
    { "type", 't', "TYPE", "Content type of all FILEs [by content and name of the file]" },
    OPTIONS_END,
};

#define OPTIONS_IMPORT                                                                             \
    { "parallel", 0, "N", "Requests under way at once [8]" },                                      \
        { "state", 0, "FILE", "Keep the progress in FILE [below $XDG_STATE_HOME/palimpsest]" },    \
        { "restart", 0, NULL, "Send everything again" },                                           \
    {                                                                                              \
        "quiet", 'q', NULL, "No progress bar, no word on what is left out"                         \
    }

const struct cli_option import_git_options[] = {
    { "ref", 0, "REF", "Branch, tag or commit whose history it is [HEAD]" },
    { "match", 0, "PATTERN", "Only paths that match, as in '*.md'" },
    OPTIONS_IMPORT,
    OPTIONS_END,
};

const struct cli_option import_restbase_options[] = {
    { "contact-points", 0, "LIST", "Nodes of that Cassandra, as in 10.0.0.1:9042,10.0.0.2" },
    { "local-dc", 0, "NAME", "Data centre whose nodes are asked" },
    { "keyspace", 0, "LIST",
      "Keyspaces of the contents of a render, or CONTENT=KEYSPACE; the first lists the renders "
      "[all keyspaces of the only bucket]" },
    { "source-domain", 0, "NAME", "Domain as RESTBase knows it [that of --domain]" },
    { "cassandra-user", 0, "NAME",
      "Log in there; its password is in $PALIMPSEST_CASSANDRA_PASSWORD" },
    { "cassandra-ca", 0, "FILE", "Speak TLS there, and trust what these certificates signed" },
    { "verify", 0, NULL, "Read everything back when it is stored, and compare" },
    OPTIONS_IMPORT,
    OPTIONS_END,
};

const struct cli_option migrate_options[] = {
    { "from", 0, "URL", "Server whose renders are read: URL or unix:/PATH" },
    { "from-token", 0, "TOKEN", "Bearer token for the server of --from [$PALIMPSEST_FROM_TOKEN]" },
    { "to", 0, "URL", "Server that gets the renders [that of --server]" },
    { "verify", 0, NULL, "Read everything back when it is stored, and compare" },
    OPTIONS_IMPORT,
    OPTIONS_END,
};

const struct cli_option import_options[] = { OPTIONS_IMPORT, OPTIONS_END };

const struct cli_option prewarm_options[] = {
    { "wiki", 0, "URL", "Ask for all pages of the wiki whose api.php this is" },
    { "namespace", 0, "N", "Of that wiki only the pages of this namespace [all]" },
    { "fresh", 0, NULL, "Render stored pages again, too" },
    OPTIONS_IMPORT,
    OPTIONS_END,
};

#define OPTIONS_ADMIN                                                                              \
    { "server", 0, "URL",                                                                          \
      "Server to talk to, on its admin listener: URL or unix:/PATH [$PALIMPSEST_SERVER or "        \
      "http://127.0.0.1:7231]" },                                                                  \
        { "token", 0, "TOKEN", "Bearer token sent with each request [$PALIMPSEST_TOKEN]" },        \
        OPTION_JSON

const struct cli_option check_options[] = {
    { "data", 'd', "DIR", "Check this store, which no server has open; changes nothing in it" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};

const struct cli_option backup_options[] = {
    { "data", 'd', "DIR", "Back up this store, which no server has open" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};

const struct cli_option restore_options[] = {
    { "data", 'd', "DIR", "Where to; absent or empty" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option serve_options[] = {
    { "config", 0, "FILE", "Options in YAML; also $PALIMPSEST_CONFIG" },
    { "data", 0, "DIR", "Directory of the store [data]" },
    { "listen", 0, "ADDR:PORT", "Where to answer; port 0 is any free one [127.0.0.1:7231]" },
    { "admin-listen", 0, "ADDR:PORT", "Where to answer admin routes, and only there" },
    { "domain", 0, "NAME", "One more domain to serve [localhost]" },
    { "set", 0, "NAME=VALUE", "Any option by its name" },
    { "test-hooks", 0, NULL, "Routes that move the clock, for tests; =INSTANT freezes it there" },
    OPTIONS_END,
};

const struct cli_option origin_check_options[] = {
    { "config", 0, "FILE", "Options of the server in YAML; also $PALIMPSEST_CONFIG" },
    { "set", 0, "NAME=VALUE", "Any option of the server by its name" },
    { "title", 0, "TITLE", "Page to render, as its key [Main_Page]" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option store_schema_options[] = {
    { "config", 0, "FILE", "Options of the server in YAML; also $PALIMPSEST_CONFIG" },
    { "set", 0, "NAME=VALUE", "Any option of the server by its name" },
    { "look", 0, NULL,
      "Change nothing; exit status 6 when it is not the version of this program, or lacks a "
      "table" },
    { "make-missing", 0, NULL, "Make tables again that somebody dropped; their rows are gone" },
    { "timeout", 0, "DURATION", "How long it may take [2m]" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option policy_show_options[] = {
    { "config", 0, "FILE", "Options of the server in YAML; also $PALIMPSEST_CONFIG" },
    { "set", 0, "NAME=VALUE", "Any option of the server by its name" },
    { "timeout", 0, "DURATION", "How long it may take [30s]" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option policy_apply_options[] = {
    { "config", 0, "FILE", "Options of the server in YAML; also $PALIMPSEST_CONFIG" },
    { "set", 0, "NAME=VALUE", "Any option of the server by its name" },
    { "dry-run", 0, NULL, "Say what would be written, and write nothing" },
    { "timeout", 0, "DURATION", "How long it may take [30s]" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option options_options[] = {
    { "markdown", 0, NULL, "As a table in Markdown" },
    { "roff", 0, NULL, "As part of a man page" },
    OPTIONS_END,
};

#define OPTIONS_TOKEN                                                                              \
    { "data", 0, "DIR", "Work on this store, whose server is stopped" },                           \
        { "config", 0, "FILE", "Work on the keys in the Cassandra that these options name" },      \
        { "set", 0, "NAME=VALUE", "Any option of --config by its name" }, OPTIONS_ADMIN

const struct cli_option token_options[] = { OPTIONS_TOKEN, OPTIONS_END };
const struct cli_option token_create_options[] = {
    { "role", 'r', "NAME",
      "Role of the key: read, write, purge, admin, Admin; may be given again [read]" },
    { "domain", 0, "NAME", "Where it may do so: this domain alone [everywhere]" },
    { "expires", 0, "DURATION", "For how long, as in 30d [never ends]" },
    { "name", 0, "NAME", "Name of its user [made up]" },
    { "tag", 0, "TAG", "Beginning of its text, behind qtr- [live]" },
    { "new", 0, NULL, "Make the store of --data when there is none" },
    OPTIONS_TOKEN,
    OPTIONS_END,
};

#define OPTIONS_QUEUE                                                                              \
    { "server", 0, "URL",                                                                          \
      "Server to talk to: URL or unix:/PATH [$PALIMPSEST_SERVER or http://127.0.0.1:7231]" },      \
        { "token", 0, "TOKEN", "Bearer token sent with each request [$PALIMPSEST_TOKEN]" },        \
        OPTION_JSON, OPTIONS_END

/* What is said behind each when it is not given: of a new queue; nothing where it is kept. */
#define OPTIONS_QUEUE_INFO(partitions, lease, expire, attempts, dead, durability)                  \
    { "partitions", 'p', "N", "How many partitions it has" partitions },                           \
        { "lease-timeout", 0, "DURATION", "How long a lease lasts, as in 1m30s" lease },           \
        { "expire-timeout", 0, "DURATION", "How long an item may stay, as in 36h" expire },        \
        { "max-attempts", 0, "N", "Leases an item may have; 0 is any number" attempts },           \
        { "dead-queue", 0, "QUEUE", "Where items go that expire or fail too often" dead },         \
        { "durability", 0, "HOW", "sync, interval or none" durability },                           \
    {                                                                                              \
        "reference", 0, "TEXT", "Words of your own"                                                \
    }

const struct cli_option queue_options[] = { OPTIONS_QUEUE };
const struct cli_option queue_create_options[] = {
    OPTIONS_QUEUE_INFO(" [1]", " [1m]", " [24h]", " [0]", " [they are deleted]", " [the server's]"),
    { "namespace", 0, "NAME", "Namespace whose roles say who may use it [_system]" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_update_options[] = {
    OPTIONS_QUEUE_INFO("; never fewer than before", "", "", "", "; '' is none: they are deleted",
                       ""),
    OPTIONS_QUEUE,
};
const struct cli_option queue_rm_options[] = {
    { "force", 'f', NULL,
      "Also a dead queue of other queues; items that die in these are deleted from then on" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_ls_options[] = {
    { "namespace", 0, "NAME", "Queues of this namespace [_system]" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_produce_options[] = {
    { "file", 'f', NULL, "Each FILE is one item, whatever it holds" },
    { "null", '0', NULL, "Items end in NUL, not in a line end" },
    { "batch", 'n', "N", "Items of one request, at most 1000 [100]" },
    { "encoding", 0, "TEXT", "Encoding of the items, as their consumer is told" },
    { "kind", 0, "TEXT", "Kind of the items" },
    { "reference", 0, "TEXT", "Reference of the items" },
    { "at", 0, "INSTANT", "Not to be leased before: RFC 3339, an HTTP date or seconds since 1970" },
    { "order-key", 0, "TEXT", "Of items with the same key one is leased at a time, in order" },
    { "timeout", 't', "DURATION", "How long to try one request, at most 240s [60s]" },
    { "quiet", 'q', NULL, "Do not say how many" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_lease_options[] = {
    { "count", 'n', "N", "How many items [1]" },
    { "all", 'a', NULL, "All there are, until none comes within the timeout" },
    { "complete", 'c', NULL, "Complete them when they are printed" },
    { "body", 'b', NULL, "Print the items alone, without handles, as they are" },
    { "null", '0', NULL, "End each with NUL instead of a line end, and print it as it is" },
    { "client", 0, "ID", "Name of this consumer; two that wait need two [made up]" },
    { "timeout", 't', "DURATION", "How long to wait for the next, as in 1m30s, at most 15m [10s]" },
    { "lease-timeout", 0, "DURATION", "How long these leases last [the queue's]" },
    OPTIONS_QUEUE,
};
#define OPTION_RECORDS                                                                             \
    {                                                                                              \
        "null", '0', NULL, "Handles on standard input end in NUL, as lease -0 ends them"           \
    }

const struct cli_option queue_complete_options[] = { OPTION_RECORDS, OPTIONS_QUEUE };
const struct cli_option queue_retry_options[] = {
    { "at", 0, "INSTANT",
      "Not to be leased again before: RFC 3339, an HTTP date or seconds since 1970 [at once]" },
    { "in", 0, "DURATION", "Not to be leased again for so long, as in 5m" },
    { "dead", 0, NULL, "To the dead queue; without one they are deleted" },
    OPTION_RECORDS,
    OPTIONS_QUEUE,
};
const struct cli_option queue_peek_options[] = {
    { "count", 'n', "N", "How many items [10]" },
    { "partition", 'p', "N", "Of this partition [of all]" },
    { "scheduled", 0, NULL, "Items whose time has not come, of a partition [0]" },
    { "body", 'b', NULL, "Print the items alone, without ids, as they are" },
    { "null", '0', NULL, "End each with NUL instead of a line end, and print it as it is" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_requeue_options[] = {
    { "count", 'n', "N", "At most so many [all]" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_why_options[] = {
    { "limit", 'n', "N", "The last N decisions [100]" },
    OPTIONS_QUEUE,
};
const struct cli_option queue_top_options[] = {
    { "interval", 'i', "MS", "Milliseconds between two pictures [1000]" },
    { "count", 'n', "N", "End after N pictures" },
    { "namespace", 0, "NAME", "Queues of this namespace [_system]" },
    OPTIONS_QUEUE,
};

const struct cli_option flight_options[] = { OPTIONS_QUEUE };
const struct cli_option slow_options[] = {
    { "limit", 'n', "N", "The slowest N requests, 256 at most [20]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option fresh_options[] = { OPTIONS_ADMIN, OPTIONS_END };
const struct cli_option fresh_sweep_options[] = {
    { "wait", 0, NULL, "Wait until all titles were asked for" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option fresh_redo_options[] = {
    { "domain", 0, "NAME", "The same as DOMAIN" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_tail_options[] = {
    { "stream", 's', "NAMES",
      "Events of these streams: names with commas between, * at the end of one stands for the "
      "rest; may be given again [all]" },
    { "domain", 0, "NAME", "Events of this domain [all]" },
    { "since", 0, "WHEN", "Begin then: an instant, or a duration before now, as in 2h [now]" },
    OPTIONS_QUEUE,
};
const struct cli_option change_options[] = { OPTIONS_ADMIN, OPTIONS_END };
const struct cli_option change_explain_options[] = {
    { "stream", 0, "NAME", "Stream of the event with that ID [any]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_replay_options[] = {
    { "from", 0, "WHEN", "From then on: an instant, or a duration before now, as in 2h" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_limit_options[] = {
    { "concurrency", 0, "N", "So many items at once" },
    { "rate", 0, "RATE", "So many begin in a time: 10/s, 10/m, 10/h; none: without a limit" },
    { "reset", 0, NULL, "As the rule says" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_drop_options[] = {
    { "state", 0, "STATE", "Items in this state: ready, waiting, scheduled or dead [all]" },
    { "yes", 0, NULL, "It may be done" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_items_options[] = {
    { "state", 0, "STATE", "Items in this state: ready, waiting, scheduled or dead [all]" },
    { "type", 0, "TYPE", "Jobs of this type [all]" },
    { "domain", 0, "NAME", "Of events of this domain [all]" },
    { "limit", 'n', "N", "So many, 100000 at most [100]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_dry_options[] = {
    { "last", 'n', "N", "The last N events, 100000 at most [10000]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option timeline_ls_options[] = {
    { "before", 0, "T", "Superseded before this instant, or so long ago: 2h [all]" },
    { "domain", 0, "NAME", "Of this domain alone [all; with --title localhost]" },
    { "title", 0, "TITLE", "Of this title alone, the newest first" },
    { "kind", 0, "KIND", "revision, or render [both]" },
    { "keep", 0, "WHERE", "The timeline in store, or in redis [where a rule keeps one]" },
    { "limit", 'n', "N", "So many entries at most [1000]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
#define OPTIONS_JOBS                                                                               \
    { "type", 0, "TYPE", "Jobs of this type [all]" },                                              \
    {                                                                                              \
        "domain", 0, "NAME", "Jobs of this domain [all]"                                           \
    }
const struct cli_option jobs_ls_options[] = {
    OPTIONS_JOBS,
    { "state", 0, "STATE", "Items in this state: ready, waiting, scheduled or dead [all]" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option jobs_retry_options[] = { OPTIONS_JOBS, OPTIONS_ADMIN, OPTIONS_END };
const struct cli_option jobs_limit_options[] = {
    { "rule", 0, "RULE", "Of this rule alone [of all that run jobs]" },
    { "reset", 0, NULL, "As the rule says" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option jobs_drain_options[] = {
    { "undo", 0, NULL, "It gets work again, also where it asked to be left alone" },
    OPTIONS_ADMIN,
    OPTIONS_END,
};
const struct cli_option change_test_options[] = {
    { "domain", 0, "NAME", "Domain of an event that says none" },
    OPTION_JSON,
    OPTIONS_END,
};

const struct cli_option list_get_options[] = {
    { "param", 'p', "NAME=VALUE", "A parameter of the list; may be given again" },
    { "cached", 0, NULL, "Only what is there: nothing is made" },
    { "domain", 0, "NAME", "Domain of the list [localhost]" },
    OPTIONS_QUEUE,
};

#define OPTIONS_STASH                                                                              \
    { "domain", 0, "NAME", "Domain whose stashes they are [localhost]" }, OPTIONS_QUEUE

const struct cli_option stash_ls_options[] = { OPTIONS_STASH };
const struct cli_option stash_rm_options[] = {
    { "all", 0, NULL, "All of the domain" },
    OPTIONS_STASH,
};

const struct cli_option man_options[] = {
    { "write", 'w', "DIR", "Write all pages to DIR, which is made, each under its name" },
    OPTIONS_END,
};

const struct cli_option json_options[] = { OPTION_JSON, OPTIONS_END };
