#include "app/admin/spec.h"

#include <stdio.h>
#include <string.h>

enum { PATH_BYTES_MAX = 256, PATHS_MAX = 512, PARAMS_MAX = 16 };

struct prose {
    const char *label, *summary;
    const char *query;   /* names of query parameters, by spaces; NULL: none */
    const char *answers; /* "200 text|404 text" beside the default problem */
};
static const struct prose rows[] = {
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
    { "test.clock", "Move the clock of stored time", NULL, "200 Its instant" },
    { "test.pause", "Park the requests of a queue", NULL, "200 Done" },
};

static const struct prose *prose_of(const char *label)
{
    static const struct prose none = { .summary = "", .answers = "200 Done" };
    for (size_t i = 0; label != NULL && i < COUNT_OF(rows); i++)
        if (strcmp(rows[i].label, label) == 0)
            return &rows[i];
    return &none;
}

static const char *const methods[HTTP_METHODS] = {
    [HTTP_GET] = "get",   [HTTP_HEAD] = "head",     [HTTP_PUT] = "put",
    [HTTP_POST] = "post", [HTTP_DELETE] = "delete", [HTTP_OPTIONS] = "options",
};

/* One path without optional tails, and the row it comes from. */
struct path {
    char text[PATH_BYTES_MAX];
    const struct http_route *route;
};
struct paths {
    unsigned count;
    struct path at[PATHS_MAX];
};

/* "/a[/{b}[/{c}]]" gives "/a", "/a/{b}" and "/a/{b}/{c}"; "{+rest}" is written "{rest}". */
static void add_paths(struct paths *p, const struct http_route *route)
{
    char text[PATH_BYTES_MAX];
    size_t n = 0;
    for (const char *at = route->pattern;; at++) {
        bool cut = *at == '[' || *at == ']' || *at == 0;
        if (cut) {
            INVARIANT(p->count < PATHS_MAX);
            struct path *out = &p->at[p->count++];
            memcpy(out->text, text, n);
            out->text[n] = 0;
            out->route = route;
        }
        if (*at == 0 || *at == ']')
            return;
        if (cut || *at == '+')
            continue;
        INVARIANT(n + 1 < sizeof text);
        text[n++] = *at;
    }
}

static void put_param(struct buf *b, const char *in, str name, bool rev_from_0, bool *first)
{
    const char *schema = "\"type\":\"string\"";
    if (str_eq(name, STR("rev")) && rev_from_0)
        schema = "\"type\":\"integer\",\"format\":\"int64\",\"minimum\":0";
    else if (str_eq(name, STR("rev")))
        schema = "\"type\":\"integer\",\"format\":\"int64\",\"minimum\":1";
    else if (str_eq(name, STR("tid")))
        schema = "\"type\":\"string\",\"format\":\"uuid\"";
    else if (str_eq(name, STR("limit")))
        schema = "\"type\":\"integer\",\"minimum\":1,\"maximum\":1000,\"default\":100";
    else if (str_eq(name, STR("stash")))
        schema = "\"type\":\"boolean\"";
    bool required = strcmp(in, "path") == 0;
    buf_printf(b, "%s{\"name\":\"%.*s\",\"in\":\"%s\",\"required\":%s,\"schema\":{%s}}",
               *first ? "" : ",", STR_ARG(name), in, required ? "true" : "false", schema);
    *first = false;
}

static void put_params(struct buf *b, const char *path, const char *query)
{
    bool first = true, rev_from_0 = strstr(path, "/key_rev_value/") != NULL;
    str rest = str_of(path);
    buf_put(b, STR(",\"parameters\":["));
    for (size_t at = str_find(rest, '{'); at < rest.n; at = str_find(rest, '{')) {
        rest = str_skip(rest, at + 1);
        put_param(b, "path", str_split(&rest, '}'), rev_from_0, &first);
    }
    rest = str_of(query);
    while (rest.n > 0)
        put_param(b, "query", str_split(&rest, ' '), rev_from_0, &first);
    buf_put_c(b, ']');
}

static void put_answers(struct buf *b, const char *answers)
{
    str rest = str_of(answers);
    buf_put(b, STR(",\"responses\":{"));
    while (rest.n > 0) {
        str one = str_split(&rest, '|');
        buf_printf(b, "\"%.*s\":{\"description\":\"%.*s\"},", STR_ARG(str_take(one, 3)),
                   STR_ARG(str_skip(one, 4)));
    }
    buf_put(b, STR("\"default\":{\"description\":\"A problem "
                   "document\",\"content\":{\"application/problem+json\":"
                   "{\"schema\":{\"$ref\":\"#/components/schemas/Problem\"}}}}}"));
}

static void put_operation(struct buf *b, const struct path *p)
{
    const struct http_route *r = p->route;
    const struct prose *words = prose_of(r->label);
    buf_printf(b, "\"%s\":{\"summary\":\"%s\",\"tags\":[\"%s\"]", methods[r->method],
               words->summary, r->label == NULL ? "" : r->label);
    put_params(b, p->text, words->query);
    if (r->body_bytes_max > 0)
        buf_printf(
            b, ",\"requestBody\":{\"content\":{\"*/*\":{}},\"description\":\"At most %zu bytes\"}",
            r->body_bytes_max);
    put_answers(b, words->answers);
    if (r->permission != NULL)
        buf_printf(b, ",\"security\":[{},{\"key\":[\"%s\"]}]", r->permission);
    buf_put_c(b, '}');
}

static bool seen_before(const struct paths *p, unsigned at)
{
    for (unsigned i = 0; i < at; i++)
        if (strcmp(p->at[i].text, p->at[at].text) == 0)
            return true;
    return false;
}

static void put_path(struct buf *b, const struct paths *p, unsigned at)
{
    bool first = true;
    buf_printf(b, "\"%s\":{", p->at[at].text);
    for (unsigned i = at; i < p->count; i++) {
        if (strcmp(p->at[i].text, p->at[at].text) != 0)
            continue;
        buf_put(b, first ? STR("") : STR(","));
        put_operation(b, &p->at[i]);
        first = false;
    }
    buf_put_c(b, '}');
}

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

err spec_render(const struct http_route *const *tables, struct arena *a, struct buf *out)
{
    struct paths *p = arena_alloc(a, sizeof *p);
    if (p == NULL)
        return ERR_LIMIT;
    p->count = 0;
    for (; *tables != NULL; tables++)
        for (const struct http_route *r = *tables; r->pattern != NULL; r++)
            add_paths(p, r);
    buf_put(out, str_of(head));
    bool first = true;
    for (unsigned i = 0; i < p->count; i++) {
        if (seen_before(p, i))
            continue;
        buf_put(out, first ? STR("") : STR(","));
        put_path(out, p, i);
        first = false;
    }
    buf_put(out, str_of(tail));
    return buf_status(out);
}
