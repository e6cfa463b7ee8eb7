/* Goal: an item becomes the requests that its rule asks for; an event never chooses who is asked,
 * and never gets out of its place. Method: tables of rules and events, hostile ones among them; a
 * request is compared as one text. */
#include "change/request.h"

#include "../rule/rules.h"
#include "change/change.h"
#include "codec/json.h"
#include "codec/json_text.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 4 << 20, TEXT_MAX = 64 << 10 };

static bool is_configured(void *ctx, str domain)
{
    (void)ctx;
    return str_eq(domain, STR("en.test"));
}

/* All requests as one text: method, url, headers, body; or "!" and why not. */
static void put_requests(struct buf *b, const struct change_requests *r)
{
    buf_put(b, r->target);
    for (unsigned i = 0; i < r->count; i++) {
        const struct change_request *q = &r->at[i];
        buf_printf(b, "|%s %.*s", q->method, STR_ARG(q->url));
        for (unsigned k = 0; k < q->headers_count; k++)
            if (!str_eq(q->headers[k].name, STR("Accept-Encoding")) &&
                !str_eq(q->headers[k].name, STR(CHANGE_HOPS_HEADER)))
                buf_printf(b, ";%.*s=%.*s", STR_ARG(q->headers[k].name),
                           STR_ARG(q->headers[k].value));
        if (q->body.p != NULL)
            buf_printf(b, " <%.*s>", STR_ARG(q->body));
    }
}

struct made {
    struct rule_set *set;
    struct rule_event *event;
    struct rule_given given;
    struct rule_verdict verdict;
    struct arena arena;
    struct change_requests requests;
    struct err_note note;
    err why;
};

/* fields: of the rule, as YAML in one line. */
static void make_in(struct made *m, const char *fields, str target, struct rule_given given,
                    size_t room)
{
    char text[16384];
    int n = snprintf(text, sizeof text, "rules: { r: { match: { stream: \"*\" }, %s } }", fields);
    assert_in_range(n, 0, sizeof text - 1);
    *m = (struct made){ .set = rules_of(text), .given = given };
    m->event = rule_event_new(m->set);
    assert_int_equal(rule_event_begin(m->event, &m->given), ERR_OK);
    rule_match(m->event, rule_set_at(m->set, 0), &m->verdict);
    assert_int_equal(m->verdict.answer, RULE_MATCHES);
    arena_init(&m->arena, room);
    const struct rule_domains domains = { .has = is_configured };
    const struct change_making making = { .rule = rule_set_at(m->set, 0),
                                          .given = &m->given,
                                          .event = m->event,
                                          .verdict = &m->verdict,
                                          .domains = &domains,
                                          .hops = 7,
                                          .target = target };
    m->why = change_requests_make(&making, &m->arena, &m->requests, &m->note);
}

static void made_end(struct made *m)
{
    arena_fini(&m->arena);
    rule_event_free(&m->event);
    rule_set_unref(&m->set);
}

static void make_text(const char *fields, const char *target, struct rule_given given,
                      char out[TEXT_MAX])
{
    struct made m;
    struct buf b;
    make_in(&m, fields, str_of(target), given, ROOM);
    if (m.why == ERR_OK) {
        buf_init(&b, TEXT_MAX - 1);
        put_requests(&b, &m.requests);
        assert_int_equal(buf_status(&b), ERR_OK);
        snprintf(out, TEXT_MAX, "%.*s", STR_ARG(buf_str(&b)));
        buf_fini(&b);
    } else {
        assert_int_equal(m.why, ERR_BAD);
        assert_null(m.requests.at); /* untouched */
        assert_true(strlen(m.note.text) > 0);
        snprintf(out, TEXT_MAX, "!%s", m.note.text);
    }
    made_end(&m);
}

static const struct {
    const char *fields, *target, *domain, *bytes, *want;
} rows[] = {
    /* http */
    { "effect: http, url: \"http://h:9/{domain}/{title}\"", "", "en.test",
      "{ \"page_title\" : \"A b\", \"x\":1}",
      "h:9|POST http://h:9/en.test/A%20b;Content-Type=application/json "
      "<{ \"page_title\" : \"A b\", \"x\":1}>" },
    { "effect: http, url: \"https://H/\", method: PUT, headers: { content-type: text/plain, X-T: "
      "\"{title}\" }",
      "", "d", "{\"page_title\":\"T\"}",
      "h:443|PUT https://H/;content-type=text/plain;X-T=T <{\"page_title\":\"T\"}>" },
    { "effect: http, url: \"http://h/\", method: GET", "", "d", "{}", "h:80|GET http://h/" },
    { "effect: http, url: \"http://h/\", body: none", "", "d", "{}", "h:80|POST http://h/" },
    { "effect: http, url: \"http://h/\", body: { a: \"{x}\", b: [\"<{x}>\"] }", "", "d",
      "{\"x\":\"q\\\"\"}",
      "h:80|POST http://h/;Content-Type=application/json <{\"a\":\"q\\\"\",\"b\":[\"<q\\\">\"]}>" },
    { "effect: http, url: \"http://{domain}:81/x\"", "", "en.test", "{}",
      "en.test:81|POST http://en.test:81/x;Content-Type=application/json <{}>" },
    { "effect: http, url: \"http://[::1]:81/x\", method: DELETE", "", "d", "{}",
      "[::1]:81|DELETE http://[::1]:81/x" },
    { "effect: http, url: \"http://h/\", method: GET, headers: { Host: \"{domain}\" }", "",
      "en.test", "{}", "h:80|GET http://h/;Host=en.test" },
    /* what must not be */
    { "effect: http, url: \"http://{domain}/x\"", "", "evil.test", "{}",
      "!url: {domain} is none of the configured domains" },
    { "effect: http, url: \"http://{domain}/x\"", "", "en.test@evil.test", "{}",
      "!url: {domain} is no host" },
    { "effect: http, url: \"http://h/\", headers: { Host: \"{domain}\" }", "", "evil.test", "{}",
      "!header Host: {domain} is none of the configured domains" },
    { "effect: http, url: \"http://h/{title}\"", "", "d", "{\"page_title\":\"..\"}",
      "!url: a segment of the path becomes . or .." },
    { "effect: http, url: \"http://h/{title}\"", "", "d",
      "{\"page_title\":\"x HTTP/1.1\\r\\nHost: evil\"}", "!url: {title} has a control character" },
    { "effect: http, url: \"http://h/\", headers: { X-Title: \"{title}\" }", "", "d",
      "{\"page_title\":\"x\\r\\nHost: evil\"}",
      "!header X-Title: {title} has a control character" },
    { "effect: http, url: \"http://h/\", headers: { X-Title: \"{title}\" }", "", "d",
      "{\"page_title\":\"x\\nHost: evil\"}", "!header X-Title: {title} has a control character" },
    { "effect: http, url: \"http://h/{title}\"", "", "d", "{}", "!url: {title} is not there" },
    { "effect: http, url: \"http://h/\", body: { a: \"x{title}\" }", "", "d", "{}",
      "!body: {title} is not there" },
    { "effect: http, url: \"http://h/\"", "http://h", "d", "{}",
      "!the rule has no target http://h" },
    /* jobs */
    { "effect: job, targets: \"http://r:8080/w/run?x\", headers: { X-Key: secret }",
      "http://r:8080/w/run?x", "d", " {\"type\":\"a\",  \"b\":1.0}\n",
      "r:8080|POST http://r:8080/w/run?x;X-Key=secret;Content-Type=application/json "
      "< {\"type\":\"a\",  \"b\":1.0}\n>" },
    { "effect: job, targets: [\"http://r/\", \"http://s/\"]", "http://s/", "d", "{}",
      "s:80|POST http://s/;Content-Type=application/json <{}>" },
    { "effect: job, targets: [\"http://r/\"]", "http://s/", "d", "{}",
      "!the rule has no target http://s/" },
    { "effect: job, targets: [\"http://r/\"]", "", "d", "{}", "!the rule has no target " },
    /* purges */
    { "effect: purge, targets: \"http://e:6081\", urls: [\"/{domain}/{title}\", \"/x?t={title}\"]",
      "http://e:6081", "en.test", "{\"page_title\":\"A/b\"}",
      "e:6081|PURGE http://e:6081/en.test/A%2Fb|PURGE http://e:6081/x?t=A%2Fb" },
    { "effect: purge, targets: \"http://e:6081\", urls: [\"https://{domain}/wiki/{title}?a=1\", "
      "\"http://{domain}:81\", \"http://{domain}?q\"]",
      "http://e:6081", "en.test", "{\"page_title\":\"A b\"}",
      "e:6081|PURGE http://e:6081/wiki/A%20b?a=1;Host=en.test"
      "|PURGE http://e:6081/;Host=en.test:81|PURGE http://e:6081/?q;Host=en.test" },
    { "effect: purge, targets: \"https://[::1]:6081/\", urls: \"/x\", headers: { Host: "
      "\"{domain}\", X-A: b }",
      "https://[::1]:6081", "en.test", "{}",
      "[::1]:6081|PURGE https://[::1]:6081/x;Host=en.test;X-A=b" },
    /* the authority of a whole URL comes before a Host of the rule */
    { "effect: purge, targets: \"http://e\", urls: [\"/x\", \"http://wiki.test/x\"], headers: { "
      "host: other.test, X-A: b }",
      "http://e", "d", "{}",
      "e:80|PURGE http://e/x;host=other.test;X-A=b|PURGE http://e/x;Host=wiki.test;X-A=b" },
    { "effect: purge, targets: \"http://e\", urls: [\"/x\", \"http://{domain}/x\"]", "http://e",
      "evil.test", "{}", "!urls: {domain} is none of the configured domains" },
    { "effect: purge, targets: \"http://e\", urls: \"/a/{title}\"", "http://e", "d",
      "{\"page_title\":\"..\"}", "!urls: a segment of the path becomes . or .." },
    { "effect: purge, targets: \"http://e\"", "http://e", "d", "{}", "e:80" },
    { "effect: purge, targets: \"http://e\", urls: \"/x\"", "http://f", "d", "{}",
      "!the rule has no target http://f" },
};

static void an_item_becomes_the_requests_of_its_rule(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        char got[TEXT_MAX];
        make_text(rows[i].fields, rows[i].target, rules_given("s", rows[i].domain, rows[i].bytes),
                  got);
        if (strcmp(got, rows[i].want) != 0)
            fail_msg("%s with %s:\n%s; wanted\n%s", rows[i].fields, rows[i].bytes, got,
                     rows[i].want);
    }
}

/* ---- the relay ---- */

#define NO_URL "!uri is no http or https URL, or has bytes that no URL has"

static const struct {
    const char *uri, *want; /* want: "PATH Host", or "!" and why not */
} relays[] = {
    { "http://wiki.test/wiki/Main_Page", "/wiki/Main_Page wiki.test" },
    { "https://Wiki.Test:8443/w/index.php?title=A&action=history",
      "/w/index.php?title=A&action=history Wiki.Test:8443" },
    { "HTTP://wiki.test/x", "/x wiki.test" },
    { "http://wiki.test", "/ wiki.test" },
    { "http://wiki.test?a=/b", "/?a=/b wiki.test" },
    { "http://[::1]:80/x", "/x [::1]:80" },
    { "http://127.0.0.1/x", "/x 127.0.0.1" },
    /* byte for byte: caches know the page under the name that its readers sent */
    { "http://w/%e4%C3%a9/%2E%2e/.././/a;b,c'(d)!*:@$+=~",
      "/%e4%C3%a9/%2E%2e/.././/a;b,c'(d)!*:@$+=~ w" },
    { "http://w/a%0d%0aHost:%20evil", "/a%0d%0aHost:%20evil w" },
    { "http://w/{domain}\\\\|^`<>\\\"", "/{domain}\\|^`<>\" w" },
    { "http://w//evil.test/x", "//evil.test/x w" },
    { "http://w/http://evil.test/", "/http://evil.test/ w" },
    { "http://w/@evil.test", "/@evil.test w" },
    { "http:\\/\\/w\\/\\u0061", "/a w" }, /* as PHP escapes it */
    /* what is no such URL */
    { "", NO_URL },
    { "/wiki/A", NO_URL },
    { "//w/A", NO_URL },
    { "w/A", NO_URL },
    { "http:/w/A", NO_URL },
    { "http:w", NO_URL },
    { "ftp://w/A", NO_URL },
    { "file:///etc/passwd", NO_URL },
    { "javascript://w/A", NO_URL },
    { " http://w/A", NO_URL },
    { "http://w/A ", NO_URL },
    { "http://w/a b", NO_URL },
    { "http://w/a#b", NO_URL },
    { "http://w/a\\r\\nHost: evil", NO_URL },
    { "http://w/a\\nb", NO_URL },
    { "http://w/a\\tb", NO_URL },
    { "http://w/a\\u0000b", NO_URL },
    { "http://w\\u0000.evil/a", NO_URL },
    { "http://w/a\\u007f", NO_URL },
    { "http://w/\xc3\xa9", NO_URL },
    { "http://w/\\u00e9", NO_URL },
    { "http://", NO_URL },
    { "http:///a", NO_URL },
    { "http://?a", NO_URL },
    { "http://:80/a", NO_URL },
    { "http://w:/a", NO_URL },
    { "http://w:0/a", NO_URL },
    { "http://w:65536/a", NO_URL },
    { "http://w:80:80/a", NO_URL },
    { "http://w:8o/a", NO_URL },
    { "http://u@w/a", NO_URL },
    { "http://u:p@w/a", NO_URL },
    { "http://w\\\\evil/a", NO_URL },
    { "http://w\\r\\nX: y/a", NO_URL },
    { "http://w,evil/a", NO_URL },
    { "http://w%2fevil/a", NO_URL },
    { "http://[::1/a", NO_URL },
    { "http://[w]/a", NO_URL },
    { "http://::1/a", NO_URL },
};

/* What the relay of an event with those bytes becomes: "PATH Host". */
static void relay(const char *bytes, char out[TEXT_MAX])
{
    struct made m;
    make_in(&m, "effect: purge, targets: [\"http://e:6081\", \"http://f\"], urls: \"/{title}\"",
            STR("http://e:6081"), rules_given(CHANGE_PURGES, "en.test", bytes), ROOM);
    if (m.why != ERR_OK) {
        assert_int_equal(m.why, ERR_BAD);
        snprintf(out, TEXT_MAX, "!%s", m.note.text);
        made_end(&m);
        return;
    }
    const struct change_request *r = m.requests.at;
    assert_int_equal(m.requests.count, 1);
    assert_true(str_eq(m.requests.target, STR("e:6081")));
    assert_string_equal(r->method, "PURGE");
    assert_null(r->body.p);
    assert_true(str_starts(r->url, STR("http://e:6081/")));
    assert_int_equal(r->headers_count, 2);
    assert_true(str_eq(r->headers[0].name, STR("Host")));
    snprintf(out, TEXT_MAX, "%.*s %.*s", STR_ARG(str_skip(r->url, strlen("http://e:6081"))),
             STR_ARG(r->headers[0].value));
    made_end(&m);
}

static void a_url_of_the_wiki_goes_to_the_target_byte_for_byte(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(relays); i++) {
        char bytes[1024], got[TEXT_MAX];
        snprintf(bytes, sizeof bytes, "{\"meta\":{\"uri\":\"http://no\"},\"uri\":\"%s\"}",
                 relays[i].uri);
        relay(bytes, got);
        if (strcmp(got, relays[i].want) != 0)
            fail_msg("%s: %s; wanted %s", relays[i].uri, got, relays[i].want);
    }
}

static void a_relay_wants_one_text(void **state)
{
    (void)state;
    static const struct {
        const char *bytes, *want;
    } odd[] = {
        { "{}", "!the event has no text uri to purge" },
        { "{\"uri\":null}", "!the event has no text uri to purge" },
        { "{\"uri\":[\"http://w/\"]}", "!the event has no text uri to purge" },
        { "{\"uri\":7}", "!the event has no text uri to purge" },
        { "{\"uri\":\"\\ud800\"}", "!the event has no text uri to purge" },
        { "{\"a\":{\"uri\":\"http://w/\"}}", "!the event has no text uri to purge" },
        { "{\"URI\":\"http://w/\"}", "!the event has no text uri to purge" },
        { "{\"uri\":\"http://w/a\",\"uri\":\"http://w/b\"}", "!the event has uri twice" },
        { "{\"uri\":\"http://w/a\",\"\\u0075ri\":\"http://w/a\"}", "!the event has uri twice" },
        { "{\"\\ud800\":1,\"\\u0075ri\":\"http://w/a\"}", "/a w" },
    };
    for (size_t i = 0; i < COUNT_OF(odd); i++) {
        char got[TEXT_MAX];
        relay(odd[i].bytes, got);
        if (strcmp(got, odd[i].want) != 0)
            fail_msg("%s: %s; wanted %s", odd[i].bytes, got, odd[i].want);
    }
}

static void a_relay_has_8_kib_at_most(void **state)
{
    (void)state;
    static char uri[CHANGE_URI_BYTES_MAX + 2], bytes[CHANGE_URI_BYTES_MAX + 64], got[TEXT_MAX];
    memset(uri, 'a', sizeof uri);
    memcpy(uri, "http://w/", strlen("http://w/"));
    uri[CHANGE_URI_BYTES_MAX + 1] = '\0';
    snprintf(bytes, sizeof bytes, "{\"uri\":\"%s\"}", uri);
    relay(bytes, got);
    assert_string_equal(got, "!uri is longer than 8192 bytes");
    uri[CHANGE_URI_BYTES_MAX] = '\0';
    snprintf(bytes, sizeof bytes, "{\"uri\":\"%s\"}", uri);
    relay(bytes, got);
    assert_int_equal(strlen(got), CHANGE_URI_BYTES_MAX - strlen("http://w") + strlen(" w"));
}

/* An event of another stream is no order to purge what it names. */
static void only_its_stream_is_relayed(void **state)
{
    (void)state;
    char got[TEXT_MAX];
    const char *rule = "effect: purge, targets: \"http://e\"";
    const char *bytes = "{\"uri\":\"http://w/a\"}";
    make_text(rule, "http://e", rules_given("palimpsest.purges", "d", bytes), got);
    assert_string_equal(got, "e:80");
    make_text(rule, "http://e", rules_given(CHANGE_PURGES, "d", bytes), got);
    assert_string_equal(got, "e:80|PURGE http://e/a;Host=w");
    make_text("effect: http, url: \"http://h/\", method: GET", "",
              rules_given(CHANGE_PURGES, "d", bytes), got);
    assert_string_equal(got, "h:80|GET http://h/");
}

/* ---- bytes and memory ---- */

static void the_bytes_of_an_event_are_not_copied(void **state)
{
    (void)state;
    static const char bytes[] = "{\"b\":1,\"a\":\"\\u00e9/\"}";
    struct made m;
    make_in(&m, "effect: job, targets: \"http://r/\"", STR("http://r/"),
            rules_given("s", "d", bytes), ROOM);
    assert_int_equal(m.why, ERR_OK);
    assert_ptr_equal(m.requests.at[0].body.p, m.given.bytes.p);
    assert_int_equal(m.requests.at[0].body.n, strlen(bytes));
    made_end(&m);
}

static void replies_are_asked_for_as_they_are(void **state)
{
    (void)state;
    static const struct {
        const char *fields;
        const char *want;
    } codings[] = {
        { "effect: http, url: \"http://h/\", method: GET", "identity" },
        { "effect: http, url: \"http://h/\", method: GET, headers: { accept-encoding: gzip }",
          "gzip" },
    };
    for (size_t i = 0; i < COUNT_OF(codings); i++) {
        struct made m;
        make_in(&m, codings[i].fields, STR(""), rules_given("s", "d", "{}"), ROOM);
        assert_int_equal(m.why, ERR_OK);
        assert_int_equal(m.requests.at[0].headers_count, 2); /* hops */
        assert_true(str_eq_nocase(m.requests.at[0].headers[0].name, STR("accept-encoding")));
        assert_true(str_eq(m.requests.at[0].headers[0].value, str_of(codings[i].want)));
        made_end(&m);
    }
}

static void a_template_that_is_too_long_is_bad_for_ever(void **state)
{
    (void)state;
    static char bytes[3 * RULE_EXPANDED_BYTES_MAX], got[TEXT_MAX];
    int n = snprintf(bytes, sizeof bytes, "{\"page_title\":\"");
    memset(bytes + n, 'a', RULE_EXPANDED_BYTES_MAX);
    snprintf(bytes + n + RULE_EXPANDED_BYTES_MAX, 8, "\"}");
    make_text("effect: http, url: \"http://h/{title}\"", "", rules_given("s", "d", bytes), got);
    assert_string_equal(got, "!url: it becomes longer than 8192 bytes");
}

/* Whatever does not fit, it is said, and nothing is made of half. */
static void a_full_arena_is_a_limit_and_no_fault(void **state)
{
    (void)state;
    static const struct {
        const char *fields, *target, *stream, *bytes;
    } all[] = {
        { "effect: http, url: \"http://h/{title}\", headers: { A: \"{title}\" }, body: { a: "
          "\"{title}\" }",
          "", "s", "{\"page_title\":\"T\"}" },
        { "effect: job, targets: \"http://r/\", headers: { A: b }", "http://r/", "s", "{}" },
        { "effect: purge, targets: \"http://e\", urls: [\"/x\", \"http://w/x\"]", "http://e", "s",
          "{}" },
        { "effect: purge, targets: \"http://e\"", "http://e", CHANGE_PURGES,
          "{\"\\u0061\":1,\"uri\":\"http:\\/\\/w/\"}" },
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        unsigned limits = 0;
        err why = ERR_LIMIT;
        for (size_t room = 16; why == ERR_LIMIT && room < 128 << 10; room += 16) {
            struct made m;
            make_in(&m, all[i].fields, str_of(all[i].target),
                    rules_given(all[i].stream, "d", all[i].bytes), room);
            why = m.why;
            limits += why == ERR_LIMIT;
            if (why == ERR_LIMIT) {
                assert_null(m.requests.at);
                assert_string_equal(m.note.text, "the request finds no room in memory");
            }
            made_end(&m);
        }
        assert_int_equal(why, ERR_OK);
        assert_true(limits > 0);
    }
}

/* How often the request of such a rule says how many effects led to it; each says 7. */
static unsigned hops_said(const char *fields, const char *target)
{
    struct made m;
    unsigned said = 0;
    make_in(&m, fields, str_of(target), rules_given("s", "en.test", "{}"), ROOM);
    assert_int_equal(m.why, ERR_OK);
    for (unsigned i = 0; i < m.requests.at[0].headers_count; i++) {
        const struct http_pair *h = &m.requests.at[0].headers[i];
        if (!str_eq_nocase(h->name, STR(CHANGE_HOPS_HEADER)))
            continue;
        assert_true(str_eq(h->value, STR("7")));
        said++;
    }
    made_end(&m);
    return said;
}

static void a_request_says_how_many_effects_led_to_it(void **state)
{
    (void)state;
    assert_int_equal(hops_said("effect: http, url: \"http://h/\"", ""), 1);
    assert_int_equal(hops_said("effect: http, url: \"http://h/\", body: none, headers: { "
                               "palimpsest-hops: \"1\", X: y }",
                               ""),
                     1);
    assert_int_equal(hops_said("effect: job, targets: [\"http://h/run\"]", "http://h/run"), 0);
    assert_int_equal(hops_said("effect: purge, targets: [\"http://h\"], urls: [\"/\"]", "http://h"),
                     0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_says_how_many_effects_led_to_it),
        cmocka_unit_test(an_item_becomes_the_requests_of_its_rule),
        cmocka_unit_test(a_url_of_the_wiki_goes_to_the_target_byte_for_byte),
        cmocka_unit_test(a_relay_wants_one_text),
        cmocka_unit_test(a_relay_has_8_kib_at_most),
        cmocka_unit_test(only_its_stream_is_relayed),
        cmocka_unit_test(the_bytes_of_an_event_are_not_copied),
        cmocka_unit_test(replies_are_asked_for_as_they_are),
        cmocka_unit_test(a_template_that_is_too_long_is_bad_for_ever),
        cmocka_unit_test(a_full_arena_is_a_limit_and_no_fault),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
