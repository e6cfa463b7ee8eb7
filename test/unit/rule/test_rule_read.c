/* Goal: a rule set is what its text says, and a wrong text is refused by line, rule and field.
 * Method: a table of faults; the example of the outside surface; two sets beside each other. */
#include "rules.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char example[] =
    "change: { retention: 7d, bytes_max: 1G, dedupe_window: 1h, purge_listen: \"127.0.0.1:7233\", "
    "databases: { enwiki: en.test },\n"
    "  rules: { jobs: { match: { stream: \"mediawiki.job.*\" }, effect: job, targets: "
    "[\"http://127.0.0.1:8080/w/rest.php/eventbus/v0/internal/job/execute\"], concurrency: 4, "
    "concurrency_of: { type: { refreshLinks: 2 } },\n"
    "                   timeout: 1m, retries: 2, backoff: 60s, backoff_factor: 6, collapse: sha1 "
    "},\n"
    "           edge: { match: { stream: \"palimpsest.render\" }, effect: purge, targets: "
    "[\"http://127.0.0.1:6081\"], urls: [\"/{domain}/v1/page/html/{title}\"], edge_ttl: 1d },\n"
    "           hook: { match: { all: [{ stream: \"*\" }, { domain: en.test }], not: [{ "
    "\"meta.stream\": \"mediawiki.job.*\" }] }, effect: http, url: "
    "\"http://127.0.0.1:9000/{domain}/{title}\", method: POST, body: event,\n"
    "                   ok: [200, 201, 202, 204], ignore: [404, 412], retries: 5, backoff: 1s, "
    "on_failure: skip } } }\n";

static void the_example_of_the_surface_is_read(void **state)
{
    (void)state;
    struct rule_set *s = rules_of(example);
    assert_int_equal(rule_set_count(s), 3);
    const struct rule *jobs = rule_set_at(s, 0), *edge = rule_set_find(s, STR("edge")),
                      *hook = rule_set_find(s, STR("hook"));
    assert_int_equal(jobs->effect, RULE_JOB);
    assert_int_equal(jobs->line, 2);
    assert_int_equal(jobs->concurrency, 4);
    assert_int_equal(jobs->concurrency_of[RULE_BY_TYPE].count, 1);
    assert_int_equal(jobs->concurrency_of[RULE_BY_TYPE].p[0].count, 2);
    assert_true(str_eq(jobs->concurrency_of[RULE_BY_TYPE].p[0].name, STR("refreshLinks")));
    assert_int_equal(jobs->timeout_ns, 60 * NS_PER_S);
    assert_int_equal(jobs->retries, 2);
    assert_int_equal(jobs->backoff_ns, 60 * NS_PER_S);
    assert_int_equal(jobs->backoff_factor, 6);
    assert_int_equal(jobs->collapse, RULE_COLLAPSE_SHA1);
    assert_int_equal(edge->effect, RULE_PURGE);
    assert_int_equal(edge->collapse, RULE_COLLAPSE_TITLE);
    assert_int_equal(edge->targets.count, 1);
    assert_true(str_eq(edge->targets.p[0], STR("http://127.0.0.1:6081")));
    assert_int_equal(edge->urls_count, 1);
    assert_true(str_eq(rule_template_source(edge->urls[0]), STR("/{domain}/v1/page/html/{title}")));
    assert_int_equal(edge->edge_ttl_ns, 86400 * NS_PER_S);
    assert_int_equal(hook->effect, RULE_HTTP);
    assert_true(str_eq(hook->method, STR("POST")));
    assert_int_equal(hook->body, RULE_BODY_EVENT);
    assert_int_equal(hook->ok_count, 4);
    assert_int_equal(hook->ok[3], 204);
    assert_int_equal(hook->ignore_count, 2);
    assert_int_equal(hook->ignore[1], 412);
    assert_int_equal(hook->on_failure, RULE_FAILURE_SKIP);
    assert_null(rule_set_find(s, STR("none")));
    rule_set_unref(&s);
    assert_null(s);
}

static void what_is_not_said_has_defaults(void **state)
{
    (void)state;
    struct rule_set *s = rules_of("rules:\n"
                                  "  look: { match: { stream: x }, effect: look }\n"
                                  "  get: { match: { stream: x }, effect: http, url: "
                                  "\"http://h/\", method: GET }\n");
    const struct rule *look = rule_set_at(s, 0), *get = rule_set_at(s, 1);
    assert_int_equal(look->collapse, RULE_COLLAPSE_TITLE);
    assert_int_equal(look->sample_ppm, 1000000);
    assert_true(look->claim_ttl_ns == DURATION_NEVER);
    assert_int_equal(look->delay_ns, 0);
    assert_int_equal(get->body, RULE_BODY_NONE);
    assert_int_equal(get->ok_count, 0);
    assert_int_equal(get->rate_count, 0);
    rule_set_unref(&s);
    s = rules_of("rules: { t: { match: { stream: x }, effect: timeline } }");
    const struct rule *timeline = rule_set_at(s, 0);
    assert_int_equal(timeline->keep, RULE_KEEP_STORE);
    assert_int_equal(timeline->domain_rate_ppm, 20000);
    assert_int_equal(timeline->burst, 100);
    assert_int_equal(timeline->ttl_ns, RULE_TIMELINE_TTL_NS);
    rule_set_unref(&s);
    s = rules_of("change: { rules: ~ }");
    assert_int_equal(rule_set_count(s), 0);
    rule_set_unref(&s);
}

/* ---- faults ---- */

struct faults {
    char text[16384];
    size_t n;
};

static void told(void *ctx, const struct rule_fault *fault)
{
    struct faults *f = ctx;
    assert_null(strpbrk(fault->text, "\n\r"));
    int n = snprintf(f->text + f->n, sizeof f->text - f->n, "%u: %.*s: %s\n", fault->line,
                     STR_ARG(fault->rule), fault->text);
    assert_true(n > 0);
    f->n += (size_t)n;
    assert_true(f->n < sizeof f->text);
}

static void must_tell(const char *text, const char *want)
{
    struct faults f = { .n = 0 };
    struct rule_set *s = NULL;
    err why = rule_set_read(str_of(text), told, &f, &s);
    if (why != ERR_BAD || strcmp(f.text, want) != 0)
        fail_msg("%s\ntold:\n%swanted:\n%s", text, f.text, want);
    assert_null(s);
}

/* Of a rule r of two lines: line 2 has the fields that each effect wants, line 3 the one that is
 * looked at. */
static const struct {
    const char *effect, *line, *want;
} faults[] = {
    { "look", "colour: red", "3: r: colour is no field of a rule" },
    { "look", "url: x", "3: r: url is a field of http, and the effect is look" },
    { "drop", "retries: 1",
      "3: r: retries is a field of purge, http, job, and the effect is drop" },
    { "timeline", "delay: 1s",
      "3: r: delay is a field of look, purge, http, job, produce, and the effect is timeline" },
    { "look", "ttl: 1d", "3: r: ttl is a field of timeline, and the effect is look" },
    { "timeline", "ttl: 0", "3: r: ttl is 0; from 1s to 3650d is allowed" },
    { "timeline", "keep: disk", "3: r: keep \"disk\" is neither store nor redis" },
    { "timeline", "burst: 0", "3: r: burst is 0; from 1 to 1000000 is allowed" },
    { "timeline", "rate_per_s: 0",
      "3: r: rate_per_s \"0\" is no rate: write 0.02 or 2, above 0 and below 1000" },
    { "timeline", "rate_per_s: 10/s",
      "3: r: rate_per_s \"10/s\" is no rate: write 0.02 or 2, above 0 and below 1000" },
    { "look", "delay: 5", "3: r: delay \"5\" is no duration: write 500ms, 2s, 5m, 1h or 7d" },
    { "look", "delay: 31d", "3: r: delay is 31d; from 0 to 30d is allowed" },
    { "look", "delay:", "3: r: delay has no value" },
    { "look", "delay: [1s]", "3: r: delay wants a text" },
    { "look", "claim_ttl: 0", "3: r: claim_ttl is 0; from 1s to never is allowed" },
    { "look", "sample: 0",
      "3: r: sample \"0\" is no share: write 0.1 or 10%, above 0 and at most 1" },
    { "look", "sample: 101%",
      "3: r: sample \"101%\" is no share: write 0.1 or 10%, above 0 and at most 1" },
    { "look", "sample: 0.0000001",
      "3: r: sample \"0.0000001\" is no share: write 0.1 or 10%, above 0 and at most 1" },
    { "look", "collapse: sha1", "3: r: collapse is sha1; with effect look it is title" },
    { "look", "collapse: some", "3: r: collapse is some; with effect look it is title" },
    { "job", "collapse: some", "3: r: collapse is some; with effect job it is none or sha1" },
    { "http", "collapse: title", "3: r: collapse is title; with effect http it is none" },
    { "http", "timeout: never", "3: r: timeout is never; from 100ms to 3d is allowed" },
    { "http", "retries: 101", "3: r: retries is 101; from 0 to 100 is allowed" },
    { "http", "retries: many", "3: r: retries \"many\" is no whole number" },
    { "http", "retries: 99",
      "3: r: retries with this backoff and backoff_factor wait longer than 30 days" },
    { "http", "concurrency: 0", "3: r: concurrency is 0; from 1 to 10000 is allowed" },
    { "http", "rate: 5/d",
      "3: r: rate \"5/d\" is no rate: write 10/s, 10/m or 10/h, from 1 to 1000000" },
    { "http", "method: get",
      "3: r: method \"get\" is none of GET, HEAD, POST, PUT, PATCH, DELETE and PURGE" },
    { "http", "on_failure: stop", "3: r: on_failure \"stop\" is none of skip and hold" },
    { "http", "ok: [200, 99]", "3: r: ok is 99; from 100 to 599 is allowed" },
    { "http", "ok: []", "3: r: ok wants a status, or a list of 1 to 256" },
    { "http", "body: text",
      "3: r: body is neither event, nor none, nor a section that becomes JSON" },
    { "http", "body: { a: \"{\" }", "3: r: body has a { without a }" },
    { "http", "body: [\"{x y}\"]",
      "3: r: body has {x y}, which is no name of a member: letters, digits, _, - and $, parted by "
      "dots" },
    { "http", "body: [[[[[[[[[1]]]]]]]]]", "3: r: body is nested deeper than 8" },
    { "http", "headers: { \"a b\": c }", "3: r: headers \"a b\" is no name of a header" },
    { "http", "headers: { Content-Length: 5 }",
      "3: r: headers \"Content-Length\" is a header that the server sets itself" },
    { "http", "headers: { X-A: 1, x-a: 2 }", "3: r: headers \"x-a\" is there twice" },
    { "http", "headers: { X-A: \"a\\r\\nB: c\" }", "3: r: headers has a control character" },
    { "http", "headers: { X-A: \"a\\0\" }", "3: r: headers has a control character" },
    { "http", "headers: { Host: \"{title}\" }",
      "3: r: headers has a placeholder in its host; {domain} alone may be there, as all of it" },
    { "http", "concurrency_of: { type: { a: 1 } }",
      "3: r: concurrency_of has type, and only jobs have one" },
    { "job", "concurrency_of: { wiki: { a: 1 } }",
      "3: r: concurrency_of has a name that is none of type, domain and target" },
    { "job", "concurrency_of: { type: { a: 0 } }",
      "3: r: concurrency_of is 0; from 1 to 10000 is allowed" },
    { "purge", "urls: [\"//h/x\"]", "3: r: urls begins with two slashes" },
    { "purge", "urls: [\"/a/../b\"]", "3: r: urls has . or .. in its path" },
    { "purge", "urls: [\"/a/%2E%2e/b\"]", "3: r: urls has . or .. in its path" },
    { "purge", "urls: [\"/a b\"]", "3: r: urls has a character that has to be percent-encoded" },
    { "purge", "urls: [\"/a#b\"]", "3: r: urls has a #, which no request carries" },
    { "purge", "urls: [\"/a%2\"]", "3: r: urls has a % that is no percent-encoding" },
    { "purge", "urls: [\"/{a\"]", "3: r: urls has a { without a }" },
    { "purge", "urls: [\"/a}\"]", "3: r: urls has a } without a {" },
    { "purge", "urls: []", "3: r: urls wants a path or a URL, or a list of 1 to 32" },
    { "purge", "edge_ttl: 0", "3: r: edge_ttl is 0; from 1s to 365d is allowed" },
    { "produce", "queue: q", "3: r: has queue twice, first on line 2" },
};

static const char *required_of(const char *effect)
{
    static const struct {
        const char *effect, *fields;
    } all[] = { { "http", ", url: \"http://h/\"" },
                { "purge", ", targets: [\"http://h\"]" },
                { "job", ", targets: [\"http://h/run\"]" },
                { "produce", ", queue: p" } };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        if (strcmp(effect, all[i].effect) == 0)
            return all[i].fields;
    return "";
}

static void a_fault_names_line_rule_and_field(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(faults); i++) {
        char text[2048], want[512];
        snprintf(text, sizeof text,
                 "rules:\n  r: { match: { stream: x }, effect: %s%s,\n    %s }\n", faults[i].effect,
                 required_of(faults[i].effect), faults[i].line);
        snprintf(want, sizeof want, "%s\n", faults[i].want);
        must_tell(text, want);
    }
}

static void urls_name_a_host_and_nothing_else_before_their_path(void **state)
{
    static const struct {
        const char *url, *want;
    } bad[] = {
        { "ftp://h/", "wants a URL that begins with http:// or https://" },
        { "/x", "wants a URL that begins with http:// or https://" },
        { "http:///x", "has no host" },
        { "http://{title}/",
          "has a placeholder in its host; {domain} alone may be there, as all of it" },
        { "http://a.{domain}/",
          "has a placeholder in its host; {domain} alone may be there, as all of it" },
        { "http://{domain}.evil/",
          "has a placeholder in its host; {domain} alone may be there, as all of it" },
        { "http://h:{rev}/",
          "has a placeholder in its host; {domain} alone may be there, as all of it" },
        { "http://{domain}:0/", "has a port that is none" },
        { "http://h:99999/", "has a port that is none" },
        { "http://u:p@h/", "has a user in its address; headers are for that" },
        { "http://{domain}@h/", "has a user in its address; headers are for that" },
        { "http://h\\\\x/", "has a host with characters that no host has" },
        { "http://[::1/", "has no address between its brackets" },
        { "http://h/a/./b", "has . or .. in its path" },
        { "http://h/{title}#x", "has a #, which no request carries" },
        { "http://h/{}",
          "has {}, which is no name of a member: letters, digits, _, - and $, parted "
          "by dots" },
        { "http://h/{a.b.c.d.e.f.g.h.i}", "has {a.b.c.d.e.f.g.h.i}, which has too many dots" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[1024], want[512];
        snprintf(text, sizeof text,
                 "rules:\n  r: { match: { stream: x }, effect: http,\n    url: \"%s\" }\n",
                 bad[i].url);
        snprintf(want, sizeof want, "3: r: url %s\n", bad[i].want);
        must_tell(text, want);
    }
}

static void conditions_are_refused_by_name(void **state)
{
    static const struct {
        const char *match, *want;
    } bad[] = {
        { "{}", "match has no condition; every event is stream: \"*\"" },
        { "x", "match wants a section, NAME: VALUE" },
        { "{ any: [] }", "any wants conditions: a section, or a list of them" },
        { "{ any: [{}] }", "any has no condition; every event is stream: \"*\"" },
        { "{ not: x }", "not wants conditions: a section, or a list of them" },
        { "{ title: }", "title has no value; absent: true is for what is not there" },
        { "{ title: [] }", "title wants a text, or a list of 1 to 256 texts" },
        { "{ title: [[a]] }", "title wants a text" },
        { "{ title: { like: a } }", "title wants a value, a list of them, or one of {equal: ..}, "
                                    "{pattern: ..}, {absent: true}, {present: true}" },
        { "{ title: { absent: false } }", "title wants absent: true" },
        { "{ title: { equal: { a: b } } }", "title wants a text, or a list of 1 to 256 texts" },
        { "{ \"a b\": c }",
          "a b is no name of a member: letters, digits, _, - and $, parted by dots" },
        { "{ title: /abc }", "title begins with / as a pattern, and does not end with / or /i; a "
                             "text that begins so is written {equal: TEXT}" },
        { "{ title: / }", "title begins with / as a pattern, and does not end with / or /i; a text "
                          "that begins so is written {equal: TEXT}" },
        { "{ title: // }",
          "title is an empty pattern, which every text matches; present: true says "
          "that" },
        { "{ title: \"/(a/\" }", "title is no regular expression: missing closing parenthesis, at "
                                 "character 3" },
        { "{ title: \"/(?<domain>a)/\" }", "title names a group as a placeholder is called that "
                                           "there is already" },
        { "{ title: \"/a\\\\Cb/\" }",
          "title is no regular expression: using \\C is disabled by the "
          "application, at character 4" },
        { "{ any: { any: { any: { any: { any: { any: { any: { any: { a: b } } } } } } } } }",
          "any has conditions nested deeper than 8" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[1024], want[512];
        snprintf(text, sizeof text, "rules:\n  r:\n    effect: drop\n    match: %s\n",
                 bad[i].match);
        snprintf(want, sizeof want, "4: r: %s\n", bad[i].want);
        must_tell(text, want);
    }
}

static void what_is_missing_or_contradicts_is_told(void **state)
{
    (void)state;
    must_tell("rules:\n  r: { effect: http }\n",
              "2: r: match is missing; every event is match: {stream: \"*\"}\n"
              "2: r: url is missing, and effect http wants it\n");
    must_tell(
        "rules:\n  r: { match: { stream: x } }\n",
        "2: r: effect is missing: look, purge, http, job, produce, timeline or drop is wanted\n");
    must_tell(
        "rules:\n  r: { match: { stream: x }, effect: fly }\n",
        "2: r: effect \"fly\" is none of look, purge, http, job, produce, timeline and drop\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: purge, targets: [\"http://h/x\"] }\n",
              "2: r: targets wants http://HOST:PORT without a path; urls are for that\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [\"http://{domain}/\"] "
              "}\n",
              "2: r: targets has a placeholder; targets have none\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [\"http://h/\", "
              "\"http://h/\"] }\n",
              "2: r: targets has http://h/ twice\n");
    must_tell(
        "rules:\n  r: { match: { stream: x }, effect: purge, targets: [{ url: \"http://h\" }] }\n",
        "2: r: targets wants a text\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [{ weight: 2 }] }\n",
              "2: r: targets has a target without url\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [{ url: \"http://h/\", "
              "weight: 101 }] }\n",
              "2: r: targets is 101; from 1 to 100 is allowed\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [{ url: \"http://h/\", "
              "weigth: 1 }] }\n",
              "2: r: targets has weigth in a target, which is none of url and weight\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: job, targets: [\"http://h/\", { url: "
              "\"http://h/\", weight: 2 }] }\n",
              "2: r: targets has http://h/ twice\n");
    must_tell("rules:\n  r:\n    match: { stream: x }\n    effect: produce\n    queue: ~x\n",
              "5: r: queue has a blank or a ~, which no queue of yours has in its name\n");
    must_tell("rules:\n  r:\n    match: { stream: x }\n    effect: http\n    url: \"http://h/\"\n"
              "    ok: [200, 404]\n    ignore: [404]\n",
              "7: r: ignore has 404, and so has ok\n");
    must_tell("rules:\n  r:\n    match: { stream: x }\n    effect: http\n    url: \"http://h/\"\n"
              "    method: GET\n    body: event\n",
              "7: r: body is not none, and method GET has no body\n");
    must_tell("rules:\n  r:\n    match: { stream: x }\n    effect: http\n    url: \"http://h/\"\n"
              "    retries: 0\n    backoff: 1s\n",
              "7: r: backoff is of no use: retries is 0\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: timeline }\n"
              "  t: { match: { stream: x }, effect: timeline, ttl: 1d }\n",
              "3: t: keep is store, and rule r keeps the timeline there\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: timeline, keep: redis }\n"
              "  s: { match: { stream: x }, effect: timeline }\n"
              "  t: { match: { stream: x }, effect: timeline, keep: redis }\n",
              "4: t: keep is redis, and rule r keeps the timeline there\n");
}

static void every_fault_of_a_text_is_told(void **state)
{
    (void)state;
    must_tell("rules:\n"
              "  A: { match: { stream: x }, effect: drop }\n"
              "  r:\n"
              "    match: { title: }\n"
              "    effect: http\n"
              "    url: x\n"
              "    retries: no\n"
              "  s: nothing\n",
              "2: : \"A\" is no name of a rule: 1 to 64 of a-z, 0-9, _ and -\n"
              "4: r: title has no value; absent: true is for what is not there\n"
              "6: r: url wants a URL that begins with http:// or https://\n"
              "7: r: retries \"no\" is no whole number\n"
              "8: s: wants a section, NAME: VALUE\n");
    must_tell("rules: { r: { match: { stream: x }, effect: drop }, r: 1 }",
              "1: : rules has r twice, first on line 1\n");
    must_tell("rules:\n  r: { match: { stream: x }, effect: http, url: \"http://h/\",\n"
              "       headers: { \"X-A b\": 1, Host: \"{title}\",\n"
              "                  X-B: \"{\", TE: 1, te: 2, X-C: 3 } }\n",
              "3: r: headers \"X-A b\" is no name of a header\n"
              "3: r: headers has a placeholder in its host; {domain} alone may be there, as all "
              "of it\n"
              "4: r: headers has a { without a }\n"
              "4: r: headers \"TE\" is a header that the server sets itself\n"
              "4: r: headers \"te\" is there twice\n");
    must_tell("a: b", "0: : there is no section `change: rules:`, and no `rules:` at the top\n");
    must_tell("rules:\n\t- x", "2: : not YAML: a tab: lines are indented with blanks\n");
    must_tell("rules: {}\n---\nrules: {}\n", "0: : more than one document\n");
    must_tell("rules: [x]", "1: : rules wants a section, NAME: VALUE\n");
}

static void a_text_that_grows_by_aliases_is_refused(void **state)
{
    (void)state;
    struct faults f = { .n = 0 };
    struct rule_set *s = NULL;
    str body = STR("rules:\n  r:\n    match: { stream: x }\n    effect: http\n    url: "
                   "\"http://h/\"\n    body:\n"
                   "      a: &a [1,1,1,1,1,1,1,1,1,1]\n      b: &b [*a,*a,*a,*a,*a,*a,*a,*a]\n"
                   "      c: &c [*b,*b,*b,*b,*b,*b,*b,*b]\n      d: &d [*c,*c,*c,*c,*c,*c,*c,*c]\n"
                   "      e: [*d,*d,*d,*d,*d,*d,*d,*d]\n");
    assert_int_equal(rule_set_read(body, told, &f, &s), ERR_BAD);
    assert_non_null(strstr(f.text, "r: body is longer than 8192 bytes"));
    f.n = 0;
    str match = STR("rules:\n  r:\n    effect: drop\n    match: &m\n      any: [*m, *m]\n");
    assert_int_equal(rule_set_read(match, told, &f, &s), ERR_BAD);
    assert_non_null(strstr(f.text, "any has conditions nested deeper than 8"));
}

/* ---- the same rules ---- */

static uint64_t hash_of(const char *fields)
{
    char text[1024];
    snprintf(text, sizeof text, "rules:\n  r: %s\n", fields);
    struct rule_set *s = rules_of(text);
    uint64_t hash = rule_set_at(s, 0)->hash;
    rule_set_unref(&s);
    return hash;
}

static void the_hash_is_of_what_a_rule_says(void **state)
{
    (void)state;
    uint64_t hash = hash_of("{ match: { stream: [a, b] }, effect: look, delay: 1s }");
    assert_int_equal(hash, UINT64_C(0x6d96fd5251e1ce5)); /* items in queues carry it */
    assert_true(hash ==
                hash_of("{ delay: \"1s\", effect: look, match: { \"stream\": [a, 'b'] } }"));
    assert_true(hash != hash_of("{ match: { stream: [b, a] }, effect: look, delay: 1s }"));
    assert_true(hash != hash_of("{ match: { stream: [a, b] }, effect: look, delay: 2s }"));
    assert_true(hash != hash_of("{ match: { stream: [a, b] }, effect: look }"));
    const char *url = "match: { stream: a }, effect: http, url: \"http://h/\"";
    char number[256], text[256];
    snprintf(number, sizeof number, "{ %s, body: { a: 1 } }", url);
    snprintf(text, sizeof text, "{ %s, body: { a: \"1\" } }", url);
    assert_true(hash_of(number) != hash_of(text));
}

static void difference(void *ctx, enum rule_difference how, str name)
{
    struct faults *f = ctx;
    int n = snprintf(f->text + f->n, sizeof f->text - f->n, "%c%.*s ", "+-*"[how], STR_ARG(name));
    f->n += (size_t)n;
}

static void two_sets_differ_by_rules(void **state)
{
    (void)state;
    struct faults f = { .n = 0 };
    struct rule_set *a = rules_of("rules:\n  x: { match: { stream: a }, effect: look }\n"
                                  "  y: { match: { stream: a }, effect: look }\n"
                                  "  z: { match: { stream: a }, effect: look }\n"),
                    *b = rules_of("rules:\n  y: { match: { stream: b }, effect: look }\n\n"
                                  "  new: { match: { stream: a }, effect: look }\n"
                                  "  x: { effect: look, match: { stream: a } }\n");
    assert_false(rule_sets_compare(a, b, difference, &f));
    assert_string_equal(f.text, "*y +new -z ");
    f.n = 0;
    f.text[0] = '\0';
    assert_true(rule_sets_compare(a, a, difference, &f));
    assert_string_equal(f.text, "");
    assert_false(rule_sets_compare(b, a, NULL, NULL));
    rule_set_unref(&a);
    rule_set_unref(&b);
}

static size_t rules_put(char *text, unsigned count)
{
    size_t n = (size_t)snprintf(text, 16, "rules:\n");
    for (unsigned i = 0; i < count; i++)
        n += (size_t)snprintf(text + n, 64, "  r%u: { match: { stream: x }, effect: drop }\n", i);
    return n;
}

static void limits_hold(void **state)
{
    (void)state;
    struct faults f = { .n = 0 };
    struct rule_set *s = NULL;
    char *text = malloc(RULE_TEXT_BYTES_MAX + 2);
    assert_non_null(text);
    memset(text, ' ', RULE_TEXT_BYTES_MAX + 1);
    assert_int_equal(rule_set_read((str){ .p = text, .n = RULE_TEXT_BYTES_MAX + 1 }, told, &f, &s),
                     ERR_BAD);
    assert_string_equal(f.text, "0: : the text is longer than 1048576 bytes\n");
    size_t n = rules_put(text, RULE_RULES_MAX);
    assert_int_equal(rule_set_read((str){ .p = text, .n = n }, told, &f, &s), ERR_OK);
    assert_int_equal(rule_set_count(s), RULE_RULES_MAX);
    rule_set_unref(&s);
    f.n = 0;
    n = rules_put(text, RULE_RULES_MAX + 1);
    assert_int_equal(rule_set_read((str){ .p = text, .n = n }, told, &f, &s), ERR_BAD);
    assert_string_equal(f.text, "2: : rules has more than 256 entries\n");
    free(text);
}

static void targets_of_jobs_have_weights(void **state)
{
    (void)state;
    struct rule_set *s = rules_of("rules:\n  r: { match: { stream: x }, effect: job, targets: "
                                  "[\"http://a/\", { url: \"http://b/x\", weight: 100 }, "
                                  "{ url: \"http://c/\" }] }\n");
    const struct rule *r = rule_set_at(s, 0);
    assert_int_equal(r->targets.count, 3);
    assert_true(str_eq(r->targets.p[1], STR("http://b/x")));
    assert_int_equal(r->weights[0], 1);
    assert_int_equal(r->weights[1], 100);
    assert_int_equal(r->weights[2], 1);
    rule_set_unref(&s);
}

/* So many rules of 31 targets each, and more rules with none. */
static size_t targets_put(char *text, unsigned full, unsigned without)
{
    enum { TARGETS = 31 };
    size_t n = (size_t)snprintf(text, 16, "rules:\n");
    for (unsigned i = 0; i < full + without; i++) {
        bool sends = i < full;
        n += (size_t)snprintf(text + n, 80, "  r%u: { match: { stream: x }, effect: %s", i,
                              sends ? "job, targets: [" : "look");
        for (unsigned t = 0; sends && t < TARGETS; t++)
            n += (size_t)snprintf(text + n, 32, "\"http://h:%u/\",", t + 1);
        n += (size_t)snprintf(text + n, 8, sends ? "] }\n" : " }\n");
    }
    return n;
}

static void all_rules_together_have_so_many_targets(void **state)
{
    (void)state;
    enum { FULL = 66, WITHOUT = 2 }; /* 66 * 31 + 2 = 2048 */
    struct faults f = { .n = 0 };
    struct rule_set *s = NULL;
    char *text = malloc(RULE_TEXT_BYTES_MAX);
    assert_non_null(text);
    size_t n = targets_put(text, FULL, WITHOUT);
    assert_int_equal(rule_set_read((str){ .p = text, .n = n }, told, &f, &s), ERR_OK);
    rule_set_unref(&s);
    n = targets_put(text, FULL, WITHOUT + 2);
    assert_int_equal(rule_set_read((str){ .p = text, .n = n }, told, &f, &s), ERR_BAD);
    assert_string_equal(f.text, "70: r68: targets of all rules together are more than 2048, with "
                                "those of this rule\n");
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_example_of_the_surface_is_read),
        cmocka_unit_test(what_is_not_said_has_defaults),
        cmocka_unit_test(a_fault_names_line_rule_and_field),
        cmocka_unit_test(urls_name_a_host_and_nothing_else_before_their_path),
        cmocka_unit_test(conditions_are_refused_by_name),
        cmocka_unit_test(what_is_missing_or_contradicts_is_told),
        cmocka_unit_test(every_fault_of_a_text_is_told),
        cmocka_unit_test(a_text_that_grows_by_aliases_is_refused),
        cmocka_unit_test(the_hash_is_of_what_a_rule_says),
        cmocka_unit_test(two_sets_differ_by_rules),
        cmocka_unit_test(limits_hold),
        cmocka_unit_test(targets_of_jobs_have_weights),
        cmocka_unit_test(all_rules_together_have_so_many_targets),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
