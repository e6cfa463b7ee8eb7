/* fresh.c - palimpsest fresh: how often wikis are asked, what they last said of a page, and what a
 * reader of it gets. */
#include "cli/client.h"
#include "cli/out.h"
#include "cli/verbs.h"

#include "codec/json_text.h"
#include "loop/loop.h"

#include <string.h>

enum { CELL_BYTES = 64, BODY_BYTES_MAX = 8192, SWEEP_LOOK_MS = 500 };

static str text_of(const json_t *doc, const char *name)
{
    const json_t *t = json_object_get(doc, name);
    return json_is_string(t) ? (str){ .p = json_string_value(t), .n = json_string_length(t) }
                             : STR("-");
}

static long long count_of(const json_t *doc, const char *name)
{
    return (long long)json_integer_value(json_object_get(doc, name));
}

static str count_text(const json_t *doc, const char *name, char out[CELL_BYTES])
{
    (void)snprintf(out, CELL_BYTES, "%lld", count_of(doc, name)); /* fits */
    return str_of(out);
}

/* POST of {"domain"} and, unless NULL, {"title"}. NULL: it was said why. */
static json_t *fresh_tell(struct client *c, const char *path, const char *domain, const char *title,
                          const char *member)
{
    struct buf body;
    buf_init(&body, BODY_BYTES_MAX);
    buf_put(&body, STR("{\"domain\":"));
    json_text_append(&body, str_of(domain));
    if (title != NULL) {
        buf_put(&body, STR(",\"title\":"));
        json_text_append(&body, str_of(title));
    }
    buf_put_c(&body, '}');
    json_t *doc = NULL;
    if (buf_status(&body) == ERR_OK)
        doc = client_ask_json(c, &(struct client_request){ .method = "POST",
                                                           .path = str_of(path),
                                                           .has_body = true,
                                                           .content_type = "application/json",
                                                           .body = buf_str(&body),
                                                           .member = member });
    else
        c->failed = cli_fail(c->call, CLI_USAGE, "the title is too long");
    buf_fini(&body);
    return doc;
}

static enum cli_exit verb_end(struct client *c, json_t *doc)
{
    enum cli_exit code = doc == NULL ? c->failed : CLI_OK;
    if (doc != NULL && c->json)
        out_json(stdout, doc);
    json_decref(doc);
    client_close(c);
    return code;
}

/* ---- ls ---- */

static json_t *ask_domains(struct client *c)
{
    return client_ask_json(c, &(struct client_request){ .method = "GET",
                                                        .path = STR("/v1/admin.change"),
                                                        .member = "domains" });
}

/* "goes, 150 of 1200, at Earth"; "rests" */
static str sweep_text(const json_t *sweep, char *out, size_t size)
{
    str state = text_of(sweep, "state"), at = text_of(sweep, "at");
    const char *fails = json_is_true(json_object_get(sweep, "fails")) ? ", fails" : "";
    if (str_eq(state, STR("goes")))
        (void)snprintf(out, size, "goes%s, %lld of %lld, at %.*s", fails, count_of(sweep, "asked"),
                       count_of(sweep, "titles"), STR_ARG(at)); /* cut, if it must be */
    else
        (void)snprintf(out, size, "%.*s%s", STR_ARG(state), fails);
    return str_of(out);
}

static const struct out_column columns[] = {
    { "DOMAIN", false }, { "CALLS", true },      { "WORDS", true },  { "FAILED", true },
    { "MISSED", true },  { "ALL SINCE", false }, { "SWEEP", false },
};

static void add_domain(struct out_table *t, const json_t *d)
{
    char calls[CELL_BYTES], words[CELL_BYTES], failed[CELL_BYTES], missed[CELL_BYTES], sweep[600];
    const json_t *s = json_object_get(d, "sweep");
    bool closed = json_is_true(json_object_get(d, "closed"));
    out_table_row(t,
                  (const str[]){ text_of(d, "domain"), count_text(d, "checks", calls),
                                 count_text(d, "words", words), count_text(d, "failures", failed),
                                 count_text(d, "missed", missed), text_of(s, "all_since"),
                                 closed ? STR("the wiki is closed to us")
                                        : sweep_text(s, sweep, sizeof sweep) },
                  json_is_true(json_object_get(s, "fails")) ? "33" : NULL);
}

enum cli_exit verb_fresh_ls(struct cli_call *call)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    struct out_table *t = c.json ? NULL : out_table_new(stdout, columns, COUNT_OF(columns));
    json_t *doc = ask_domains(&c), *domain;
    size_t i;
    json_array_foreach(json_object_get(doc, "domains"), i, domain)
    {
        if (c.json)
            out_json(stdout, domain);
        else
            add_domain(t, domain);
    }
    if (doc != NULL)
        out_table_end(&t);
    out_table_drop(&t);
    code = doc == NULL ? c.failed : CLI_OK;
    json_decref(doc);
    client_close(&c);
    return code;
}

/* ---- check, why ---- */

static bool is_stored(const json_t *doc)
{
    const json_t *bucket;
    size_t i;
    bool is = false;
    json_array_foreach(json_object_get(doc, "buckets"), i, bucket) is =
        is || !str_eq(text_of(bucket, "state"), STR("nothing"));
    return is;
}

static void print_word(const json_t *doc)
{
    const json_t *word = json_object_get(doc, "word");
    char line[256];
    if (!json_is_object(word)) {
        out_pair(stdout, "word",
                 is_stored(doc) ? STR("none yet") : STR("none: nothing of it is stored"));
        return;
    }
    str said = text_of(word, "said"), touched = text_of(word, "touched");
    bool missing = json_is_true(json_object_get(word, "missing"));
    if (missing && !json_is_string(json_object_get(word, "said")))
        (void)snprintf(line, sizeof line, "no such page");
    else if (missing)
        (void)snprintf(line, sizeof line, "no such page; said %.*s", STR_ARG(said));
    else
        (void)snprintf(line, sizeof line, "revision %lld of page %lld, touched %.*s; said %.*s",
                       count_of(word, "rev"), count_of(word, "page_id"), STR_ARG(touched),
                       STR_ARG(said)); /* fits: the server's own instants */
    out_pair(stdout, "word", str_of(line));
    out_pair(stdout, "heard_at", text_of(word, "heard_at"));
}

static void print_trust(const json_t *doc)
{
    const json_t *age = json_object_get(doc, "age_s");
    char line[CELL_BYTES];
    str doubt = text_of(doc, "in_doubt_since");
    bool asked = json_is_integer(age) || json_is_string(json_object_get(doc, "in_doubt_since"));
    if (!asked && !is_stored(doc))
        return; /* there is nothing that could be trusted */
    if (json_is_integer(age))
        (void)snprintf(line, sizeof line, "asked %lld s ago", count_of(doc, "age_s"));
    else if (json_is_string(json_object_get(doc, "in_doubt_since")))
        (void)snprintf(line, sizeof line, "in doubt since %.*s", STR_ARG(doubt));
    else
        (void)snprintf(line, sizeof line, "not asked since the server started");
    out_pair(stdout, "trust", str_of(line));
}

/* Is it made anew without a reader? */
static void print_line(const json_t *anew)
{
    char line[CELL_BYTES];
    if (!json_is_object(anew))
        return;
    bool waits = str_eq(text_of(anew, "state"), STR("waits"));
    (void)snprintf(line, sizeof line, "number %lld of %lld that wait for it",
                   count_of(anew, "place"), count_of(anew, "of")); /* fits */
    out_pair(stdout, "  made anew", waits ? str_of(line) : STR("now"));
}

static void print_bucket(const json_t *bucket)
{
    const json_t *under = json_object_get(bucket, "made_under");
    char line[256];
    str tid = text_of(bucket, "tid"), made_at = text_of(bucket, "made_at"),
        touched = text_of(under, "touched"), state = text_of(bucket, "state");
    out_pair(stdout, "bucket", text_of(bucket, "bucket"));
    if (json_object_get(bucket, "tid") != NULL) {
        (void)snprintf(line, sizeof line, "%lld/%.*s", count_of(bucket, "rev"), STR_ARG(tid));
        out_pair(stdout, "  latest", str_of(line));
        (void)snprintf(line, sizeof line, "%.*s%s%.*s", STR_ARG(made_at),
                       json_is_object(under) ? ", under the word of a page touched " : "",
                       json_is_object(under) ? (int)touched.n : 0, touched.p);
        out_pair(stdout, "  made_at", str_of(line));
    }
    out_pair(stdout, "  state", state);
    out_pair(stdout, "  reader gets", text_of(bucket, "reader"));
    print_line(json_object_get(bucket, "anew"));
}

static void print_why(const json_t *doc)
{
    const json_t *bucket;
    size_t i;
    out_pair(stdout, "title", text_of(doc, "title"));
    if (json_is_string(json_object_get(doc, "asks"))) {
        print_word(doc);
        print_trust(doc);
    }
    if (json_object_get(doc, "news") != NULL)
        out_pair(stdout, "news",
                 json_is_true(json_object_get(doc, "news")) ? STR("yes: nobody had told of it")
                 : is_stored(doc)                           ? STR("no")
                                                            : STR("no: nothing of it is stored"));
    json_array_foreach(json_object_get(doc, "buckets"), i, bucket) print_bucket(bucket);
}

static enum cli_exit fresh_show(struct cli_call *call, const char *path)
{
    struct client c;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = fresh_tell(&c, path, call->operands[0], call->operands[1], "buckets");
    if (doc != NULL && !c.json)
        print_why(doc);
    return verb_end(&c, doc);
}

enum cli_exit verb_fresh_check(struct cli_call *call)
{
    return fresh_show(call, "/v1/admin.change.look");
}

enum cli_exit verb_fresh_why(struct cli_call *call)
{
    return fresh_show(call, "/v1/admin.change.why");
}

/* ---- sweep, redo ---- */

/* Borrowed from doc. */
static const json_t *sweep_find(const json_t *doc, const char *domain, const json_t **of)
{
    const json_t *d;
    size_t i;
    json_array_foreach(json_object_get(doc, "domains"), i, d)
    {
        if (str_eq(text_of(d, "domain"), str_of(domain))) {
            *of = d;
            return json_object_get(d, "sweep");
        }
    }
    return NULL;
}

/* How many laps came to their end; -1: it was said why. */
static long long laps_of(struct client *c, const char *domain, json_t **last)
{
    const json_t *of = NULL;
    json_decref(*last);
    *last = ask_domains(c);
    const json_t *sweep = sweep_find(*last, domain, &of);
    if (*last != NULL && sweep == NULL)
        c->failed = cli_fail(c->call, CLI_NOT_FOUND, "no wiki of %s can be asked", domain);
    return sweep == NULL ? -1 : count_of(sweep, "laps");
}

/* Until the lap that was begun is over. */
static bool sweep_wait(struct client *c, const char *domain, long long laps, json_t **last)
{
    long long now = laps;
    while (now == laps) {
        client_turn(c, SWEEP_LOOK_MS);
        now = laps_of(c, domain, last);
    }
    return now > laps;
}

static void print_swept(const struct client *c, const char *domain, const json_t *last)
{
    const json_t *of = NULL;
    const json_t *sweep = sweep_find(last, domain, &of);
    if (c->json)
        out_json(stdout, of);
    else
        printf("%lld titles asked for, %lld missed so far\n", count_of(sweep, "asked"),
               count_of(of, "missed"));
}

enum cli_exit verb_fresh_sweep(struct cli_call *call)
{
    const char *domain = call->operands[0];
    bool waits = cli_flag(call, "wait");
    struct client c;
    json_t *last = NULL, *doc = NULL;
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    long long laps = waits ? laps_of(&c, domain, &last) : 0;
    if (laps >= 0)
        doc = fresh_tell(&c, "/v1/admin.change.sweep", domain, NULL, "begun");
    bool fine = doc != NULL && (!waits || sweep_wait(&c, domain, laps, &last));
    if (fine && waits)
        print_swept(&c, domain, last);
    else if (fine && c.json)
        out_json(stdout, doc);
    else if (fine)
        printf("begun; fresh ls says how far it is\n");
    code = fine ? CLI_OK : c.failed;
    json_decref(last);
    json_decref(doc);
    client_close(&c);
    return code;
}

enum cli_exit verb_fresh_redo(struct cli_call *call)
{
    const char *named = cli_value(call, "domain");
    const char *domain = call->operands_count > 0 ? call->operands[0] : named;
    struct client c;
    if (domain == NULL)
        return cli_fail(call, CLI_USAGE,
                        "fresh redo: name the domain: palimpsest fresh redo DOMAIN");
    if (named != NULL && call->operands_count > 0)
        return cli_fail(call, CLI_USAGE,
                        "fresh redo: name the domain once, behind redo or with --domain");
    enum cli_exit code = client_open(&c, call);
    if (code != CLI_OK)
        return code;
    json_t *doc = fresh_tell(&c, "/v1/admin.change.redo", domain, NULL, "redo_before");
    if (doc != NULL && !c.json) {
        str before = text_of(doc, "redo_before");
        printf("what was rendered before %.*s is made anew by its next readers\n", STR_ARG(before));
    }
    return verb_end(&c, doc);
}
