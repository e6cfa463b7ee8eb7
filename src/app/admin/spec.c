/* spec.c - the words of the OpenAPI document. */
#include "app/admin/spec.h"

#include "http/openapi.h"

static const struct openapi_words rows[] = {
    { "page.put", "Store one render as a bundle of named contents", "stash",
      "201 Stored; ETag names the render|200 Nothing new: the same bytes, or the newest render of "
      "the revision|"
      "409 Other bytes are stored under this revision and tid|410 Purged, or what the policy "
      "cannot keep|"
      "412 A condition does not hold|507 stash=true: as much is kept for edits as may be" },
    { "page.put_content", "Store one render of a single content, given as the raw body", "stash",
      "201 Stored; ETag names the render|200 Nothing new|409 Other bytes are stored under this "
      "revision and tid|"
      "410 Purged, or what the policy cannot keep|412 A condition does not hold|"
      "507 stash=true: as much is kept for edits as may be" },
    { "page.get",
      "One content of the latest render, of a revision, of an exact render, or of an instant",
      "at stash",
      "200 The content, with the headers it was stored with|206 A range of it|304 The client has "
      "it|"
      "404 It never was|410 It was, and is gone: reason, at, policy|412 A condition does not hold|"
      "416 The range lies outside|507 stash=true: as much is kept for edits as may be" },
    { "page.history", "Renders of a title, newest first", "limit page",
      "200 items and, when there is more, next" },
    { "page.explain", "What keeps a render, until when, or why it is gone", NULL, "200 One item" },
    { "entry.domain", "The names below a domain", NULL, "200 items" },
    { "entry.api", "The names below a domain's API; with ?spec this document", "spec",
      "200 items, or the document" },
    { "entry.bucket", "The contents and routes of a bucket of pages", NULL, "200 items" },
    { "page.titles", "Titles of a domain in key order", "limit page",
      "200 items and, when there is more, next" },
    { "page.title", "The latest render of a title, or of a revision, as RESTBase lists it", NULL,
      "200 items, count" },
    { "page.hold", "Keep a render until an instant, whatever the policy says", NULL,
      "200 The render as it is now" },
    { "page.release", "Take a hold away", NULL, "204 Released" },
    { "page.purge", "Remove renders and leave a fence against older ones", NULL, "204 Purged" },
    { "health", "Whether the process answers (healthz) and takes requests (readyz)", NULL,
      "200 Yes|503 It shuts down" },
    { "metrics", "Counters, gauges and histograms in Prometheus's text format", NULL,
      "200 The figures" },
    { "spec", "This document (with ?spec), or where to find it", "spec", "200 The document" },
    { "admin.check", "Verify every row, and every value that a row points to", NULL,
      "200 ok and the damages found" },
    { "admin.backup", "Copy a consistent state of the store to a directory of the server", NULL,
      "200 Bytes copied and kept|409 The directory holds something else" },
    { "admin.stats", "Figures of the store", NULL, "200 The figures" },
    { "admin.slow", "The slowest requests of the last hour, with the stages they went through",
      "limit", "200 slow: slowest first" },
    { "admin.change", "The event log, its rules, and how often wikis are asked for their words",
      NULL, "200 log, router, rules, targets, and domains: each whose wiki can be asked" },
    { "admin.change.look", "Ask the wiki about a title now", NULL,
      "200 As why, and news: had it changed?|400 The domain has no origin with api.php" },
    { "admin.change.why", "What a reader of a title would get now, and why", NULL,
      "200 The last word, and by bucket what is stored" },
    { "admin.change.sweep", "Ask the wiki about every stored title, beginning now", NULL,
      "200 It has begun|400 The domain has no origin with api.php" },
    { "admin.change.redo", "Have all renders of a domain made anew by their next readers", NULL,
      "200 redo_before: what was made before that|400 The domain has no origin with api.php" },
    { "admin.change.pause", "Begin nothing more of a rule", NULL,
      "200 The rule|404 There is no such rule" },
    { "admin.change.resume", "Go on with a rule that was paused", NULL,
      "200 The rule|404 There is no such rule" },
    { "admin.change.limit", "Other limits of a rule, until the next start", NULL,
      "200 The rule|404 There is no such rule" },
    { "admin.change.replay", "Ask a rule again about events that were taken since", NULL,
      "200 The rule|404 There is no such rule|409 It is being replayed, or is not configured" },
    { "admin.change.drain", "Begin nothing more at a target, or do so again", NULL,
      "200 target, drained, was|404 There is no such target" },
    { "admin.change.explain", "What each rule says to an event, and what became of that", NULL,
      "200 The event and its rules|404 The event log does not have it" },
    { "admin.change.dry", "What rules would have done for the last events", NULL,
      "200 looked, and rules: how many events each would have matched|400 The rules have faults" },
    { "admin.change.items", "What a rule has still to do, and what it could not do", NULL,
      "200 items and, when there is more, next|404 There is no such rule" },
    { "admin.change.lanes", "How many items of a rule are in which state, by domain and type", NULL,
      "200 lanes, and cut: there are more|404 There is no such rule" },
    { "admin.change.item", "One item, with its event", NULL,
      "200 The item|404 There is no such item" },
    { "admin.change.retry", "Try items again at once that failed", NULL,
      "200 count|404 There is no such rule, or item" },
    { "admin.change.drop", "Delete items, but none that runs", NULL,
      "200 count|404 There is no such rule, or item|409 The item runs, and comes to its end" },
    { "admin.change.timeline", "What was superseded before an instant, as a rule keeps it", NULL,
      "200 entries and, when there may be more, next|400 The domain is not configured|503 Redis, "
      "which has that timeline, does not answer" },
    { "admin.stash.list", "What stash=true keeps for edits: pinned renders and previews",
      "title limit page", "200 items and, when there may be more, next" },
    { "admin.stash.remove",
      "Take away what stash=true keeps, of a title or of a domain, some at a time", "title page",
      "200 removed, bytes and, when there may be more, next" },
    { "admin.tokens.create", "Make a key; its secret is shown once", NULL, "200 The key" },
    { "admin.tokens.list", "Keys, without their secrets", NULL, "200 The keys" },
    { "admin.tokens.delete", "Delete a key; it opens nothing from the answer on", NULL,
      "200 Deleted" },
    { "admin.door", "Whether anonymous callers may do everything", NULL, "200 The state" },
    { "table.create", "Create a table or change its schema", NULL, "201 Created" },
    { "table.schema", "The schema of a table", NULL, "200 The schema|404 There is no such table" },
    { "table.drop", "Drop a table and its rows", NULL, "204 Dropped" },
    { "table.get", "Rows that a query selects", NULL,
      "200 items and, when there is more, next|404 No rows: items is empty" },
    { "table.put", "Put a row, under a condition or without", NULL,
      "201 Put; a conditional put says applied" },
    { "table.delete", "Delete the rows a query selects, a range among them", NULL, "204 Deleted" },
    { "table.batch", "Puts and deletes on one partition key, over several tables: all or nothing",
      NULL, "201 Applied" },
    { "key_value.create", "Create a bucket of one value a key", NULL, "201 Created" },
    { "key_value.drop", "Drop a bucket and all its values", NULL,
      "204 Dropped|404 There is no such bucket" },
    { "key_value.keys", "Keys of a bucket in order", "limit page", "200 items" },
    { "key_value.get", "The value of a key, with the headers it was stored with", NULL,
      "200 The value|404 No such key" },
    { "key_value.put", "Store a value; x-store-NAME headers are kept as NAME", NULL, "201 Stored" },
    { "key_value.delete", "Delete the value of a key", NULL, "204 Deleted" },
    { "key_rev_value.create", "Create a bucket of values by key, revision and render", NULL,
      "201 Created" },
    { "key_rev_value.drop", "Drop a bucket and all its values", NULL,
      "204 Dropped|404 There is no such bucket" },
    { "key_rev_value.keys", "Keys of a bucket in order", "limit page", "200 items" },
    { "key_rev_value.revs", "Revisions of a key, newest first", "limit page", "200 items" },
    { "key_rev_value.get", "The value of the latest, of a revision, or of an exact render", NULL,
      "200 The value|404 No such value" },
    { "key_rev_value.put", "Store a value under a revision", NULL, "201 Stored" },
    { "key_rev_value.delete", "Delete the values of a key, a revision or a render", NULL,
      "204 Deleted" },
    { "multi_content.create", "Say what a configured bucket is", NULL, "201 Created" },
    { "multi_content.put", "Store one render as a bundle of named contents", "stash",
      "201 Stored|200 Nothing new" },
    { "multi_content.purge", "Remove renders and leave a fence against older ones", NULL,
      "204 Purged" },
    { "multi_content.history", "Renders of a title, newest first", "limit page", "200 items" },
    { "multi_content.titles", "Titles of a domain in key order", "limit page", "200 items" },
    { "multi_content.get", "One content of a render", "at stash",
      "200 The content|304 The client has it|410 It is gone" },
    { "change.events", "Say what happened to pages of a wiki: one event, or an array of them",
      "hasty",
      "201 On disk; the pages are looked at|202 The same, with hasty|207 Some are invalid, or not "
      "stored|400 None is valid, or there is none|413 More than 10 MiB, or too many|500 None is "
      "stored" },
    { "change.stream", "Follow events as they happen: server-sent events", "stream domain since",
      "200 Events, until the client leaves|503 Too many follow" },
    { "test.clock", "Move the clock of stored time", NULL, "200 Its instant" },
    { "test.pause", "Park the requests of a queue", NULL, "200 Done" },
};

static const struct openapi_param params[] = {
    { "rev", "/key_rev_value/", "\"type\":\"integer\",\"format\":\"int64\",\"minimum\":0" },
    { "rev", NULL, "\"type\":\"integer\",\"format\":\"int64\",\"minimum\":1" },
    { "tid", NULL, "\"type\":\"string\",\"format\":\"uuid\"" },
    { "limit", NULL, "\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":100" },
    { "stash", NULL, "\"type\":\"boolean\"" },
};

static const char head[] = "{\"openapi\":\"3.1.0\",\"info\":{\"title\":\"Palimpsest\",\"version\":"
                           "\"1\",\"description\":\"A revisioned render "
                           "store. Every error is a problem document (RFC 9457); paths under /v1/ "
                           "answer with code, code_text and message.\"},"
                           "\"paths\":{";
static const char tail[] =
    "},\"components\":{\"securitySchemes\":{\"key\":{\"type\":\"http\",\"scheme\":\"bearer\"}},"
    "\"schemas\":{\"Problem\":{"
    "\"type\":\"object\",\"required\":[\"type\",\"title\",\"detail\",\"method\",\"uri\",\"status\"]"
    ",\"properties\":{"
    "\"type\":{\"type\":\"string\",\"format\":\"uri\"},\"title\":{\"type\":\"string\"},\"detail\":{"
    "\"type\":\"string\"},"
    "\"method\":{\"type\":\"string\"},\"uri\":{\"type\":\"string\"},\"status\":{\"type\":"
    "\"integer\"},"
    "\"reason\":{\"type\":\"string\",\"enum\":[\"culled\",\"purged\",\"suppressed\",\"expired\"]},"
    "\"at\":{\"type\":\"string\",\"format\":\"date-time\"},\"policy\":{\"type\":\"string\"}}}}}}";

err spec_render(const struct http_route *const *tables, const struct http_filter *filter,
                struct arena *a, struct buf *out)
{
    const struct openapi_opts opts = { .head = head,
                                       .tail = tail,
                                       .tables = tables,
                                       .filter = filter,
                                       .words = rows,
                                       .words_count = COUNT_OF(rows),
                                       .params = params,
                                       .params_count = COUNT_OF(params) };
    return openapi_render(&opts, a, out);
}
