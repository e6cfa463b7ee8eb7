/* Goal: what an event says becomes a part of a URL, a header or a JSON text, and never more than
 * that. Method: a table of templates and values, hostile ones among them. */
#include "rules.h"

#include "codec/json.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool is_configured(void *ctx, str domain)
{
    (void)ctx;
    return str_eq(domain, STR("en.test"));
}
static const struct rule_domains domains = { .has = is_configured };

/* What the template becomes, or "!" and why not. bytes: the event. field: of an http rule, as YAML
 * in one line; the template is what pick gives of it. */
static void fill(const char *field, const struct rule_template *(*pick)(const struct rule *),
                 const char *domain, str bytes, char out[16384])
{
    char text[8192];
    struct rule_verdict v;
    struct err_note note;
    struct buf b;
    snprintf(
        text, sizeof text,
        "rules: { r: { match: { stream: \"*\", title: \"/^((?<ns>[A-Z]+):)?/\" }, effect: http%s, "
        "%s } }",
        strstr(field, "url: ") == NULL ? ", url: \"http://h/\"" : "", field);
    struct rule_set *s = rules_of(text);
    struct rule_event *e = rule_event_new(s);
    struct rule_given given = rules_given("s", domain, "");
    given.bytes = bytes;
    assert_int_equal(rule_event_begin(e, &given), ERR_OK);
    rule_match(e, rule_set_at(s, 0), &v);
    assert_int_equal(v.answer, RULE_MATCHES);
    buf_init(&b, 16000);
    err why = rule_expand(e, &v, pick(rule_set_at(s, 0)), &domains, &b, &note);
    if (why == ERR_OK)
        snprintf(out, 16384, "%.*s", STR_ARG(buf_str(&b)));
    else
        snprintf(out, 16384, "!%s", note.text);
    buf_fini(&b);
    rule_event_free(&e);
    rule_set_unref(&s);
}

static const struct rule_template *the_url(const struct rule *r)
{
    return r->url;
}
static const struct rule_template *the_header(const struct rule *r)
{
    return r->headers[0].value;
}
static const struct rule_template *the_body(const struct rule *r)
{
    return r->body_template;
}

static const struct {
    const char *url, *title, *want; /* title: as JSON writes it; NULL: the event has none */
} urls[] = {
    { "http://h/{title}", "A b/c", "http://h/A%20b%2Fc" },
    { "http://h:80/{domain}/{title}/{rev}", "T", "http://h:80/en.test/T/42" },
    { "http://h/a/{title}?x={title}&y={rev}", "&=?#+%",
      "http://h/a/%26%3D%3F%23%2B%25?x=%26%3D%3F%23%2B%25&y=42" },
    { "http://h/{title}", "\xc3\xa9", "http://h/%C3%A9" },
    { "http://h/{title}", "\\u00e9", "http://h/%C3%A9" },
    { "http://h/{title}", "-._~", "http://h/-._~" },
    { "http://h/{ns}/x", "AB:c", "http://h/AB/x" },
    { "http://h/{page.page_id}/{page.new}", "T", "http://h/7/true" },
    { "https://{domain}/{title}", "T", "https://en.test/T" },
    { "https://{domain}:8443?q={title}", "T", "https://en.test:8443?q=T" },
    { "http://{domain}", "T", "http://en.test" },
    { "http://[::1]:80/x{title}", "", "http://[::1]:80/x" },
    { "http://h/?q={title}", "", "http://h/?q=" },
    { "http://h/?q={title}/../x", "..", "http://h/?q=../../x" },
    { "http://h/a//b/", "T", "http://h/a//b/" },
    /* What must not become another URL. */
    { "http://h/{title}", "..", "!a segment of the path becomes . or .." },
    { "http://h/{title}/x", ".", "!a segment of the path becomes . or .." },
    { "http://h/.{title}/x", ".", "!a segment of the path becomes . or .." },
    { "http://h/%2e{title}", ".", "!a segment of the path becomes . or .." },
    { "http://h/.{title}", "", "!a segment of the path becomes . or .." },
    { "http://h/{title}", "%2e%2e", "http://h/%252e%252e" },
    { "http://h/{title}", "...", "http://h/..." },
    { "http://h/{title}", "../../etc", "http://h/..%2F..%2Fetc" },
    { "http://h/{title}", "..\\\\x", "http://h/..%5Cx" },
    { "http://h/{title}", "", "!a segment of the path becomes nothing" },
    { "http://h/{title}/x", "", "!a segment of the path becomes nothing" },
    { "http://h/a/{title}?x", "", "!a segment of the path becomes nothing" },
    { "http://h/{title}", "a\\r\\nX: y", "!{title} has a control character" },
    { "http://h/?{title}", "a\\nb", "!{title} has a control character" },
    { "http://h/{title}", "a\\u0000b", "!{title} has a control character" },
    { "http://h/{title}", "a\\u007f", "!{title} has a control character" },
    { "http://h/{title}", "{domain}", "http://h/%7Bdomain%7D" },
    { "http://h/{title}", "@evil.test/", "http://h/%40evil.test%2F" },
    { "http://h/{none}", "T", "!{none} is not there" },
    { "http://h/{nothing}", "T", "!{nothing} is not there" },
    { "http://h/{ns}", "t", "!{ns} is not there" },
    { "http://h/{page}", "T", "!{page} is no text" },
    { "http://h/{twice}", "T", "!the event has twice twice" },
};

static void a_value_is_a_part_of_a_url(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        char field[256], bytes[512], got[16384];
        snprintf(field, sizeof field, "url: \"%s\"", urls[i].url);
        snprintf(bytes, sizeof bytes,
                 "{\"page_title\":\"%s\",\"rev_id\":42,\"nothing\":null,\"twice\":1,\"twice\":1,"
                 "\"page\":{\"page_id\":7,\"new\":true}}",
                 urls[i].title);
        fill(field, the_url, "en.test", str_of(bytes), got);
        if (strcmp(got, urls[i].want) != 0)
            fail_msg("%s with %s: %s; wanted %s", urls[i].url, urls[i].title, got, urls[i].want);
    }
}

static void a_host_is_a_configured_domain(void **state)
{
    static const struct {
        const char *domain, *want;
    } hosts[] = { { "en.test", "http://en.test/x" },
                  { "evil.test", "!{domain} is none of the configured domains" },
                  { "", "!{domain} is not there" },
                  { "en.test@evil.test", "!{domain} is no host" },
                  { "en.test:80", "!{domain} is no host" },
                  { "en.test/..", "!{domain} is no host" },
                  { "en.test\r\nX: y", "!{domain} is no host" } };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(hosts); i++) {
        char got[16384];
        str bytes = STR("{\"page_title\":\"T\"}");
        fill("url: \"http://{domain}/x\"", the_url, hosts[i].domain, bytes, got);
        assert_string_equal(got, hosts[i].want);
        fill("headers: { Host: \"{domain}\" }", the_header, hosts[i].domain, bytes, got);
        assert_string_equal(got, hosts[i].want[0] == '!' ? hosts[i].want : "en.test");
    }
}

static void a_value_in_a_header_ends_no_line(void **state)
{
    static const struct {
        const char *title, *want;
    } headers[] = { { "A b", "<A b> {x}" },
                    { "a\\r\\nX: y", "!{title} has a control character" },
                    { "a\\n", "!{title} has a control character" },
                    { "\\u0000", "!{title} has a control character" },
                    { "\\t", "!{title} has a control character" },
                    { "{rev}", "<{rev}> {x}" } };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(headers); i++) {
        char bytes[256], got[16384];
        snprintf(bytes, sizeof bytes, "{\"page_title\":\"%s\",\"rev_id\":1}", headers[i].title);
        fill("headers: { X-T: \"<{title}> {{x}}\" }", the_header, "d", str_of(bytes), got);
        assert_string_equal(got, headers[i].want);
    }
}

static void a_body_is_json_whatever_the_values_are(void **state)
{
    static const struct {
        const char *body, *title, *want;
    } bodies[] = {
        { "{ t: \"{title}\", r: \"{rev}\", n: 1, x: null, y: [true, \"1\", \"\"] }", "a\\\"b",
          "{\"t\":\"a\\\"b\",\"r\":42,\"n\":1,\"x\":null,\"y\":[true,\"1\",\"\"]}" },
        { "[\"<{title}> {{x}} {rev}\"]", "\\\"],[\\\"", "[\"<\\\"],[\\\"> {x} 42\"]" },
        { "[\"{title}!\"]", "a\\u0000\\r\\n\\\\", "[\"a\\u0000\\r\\n\\\\!\"]" },
        { "[\"{page}\", \"{none}\", \"{domain}\", \"{ns}\"]", "AB:c",
          "[{\"page_id\":7},null,\"en.test\",\"AB\"]" },
        { "{ \"a\\\"b{title}\": \"q\\\"{rev}\" }", "T", "{\"a\\\"b{title}\":\"q\\\"42\"}" },
        { "[\"{none}!\"]", "T", "!{none} is not there" },
        { "[\"{page}!\"]", "T", "!{page} is no text" },
        { "[\"{twice}\"]", "T", "!the event has twice twice" },
        { "[01, 1e5, .5, yes]", "T", "[\"01\",1e5,\".5\",\"yes\"]" },
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(bodies); i++) {
        char field[256], bytes[256], got[16384];
        snprintf(field, sizeof field, "body: %s", bodies[i].body);
        snprintf(bytes, sizeof bytes,
                 "{\"page_title\":\"%s\",\"rev_id\":42,\"page\":{\"page_id\":7},\"twice\":1,"
                 "\"twice\":2}",
                 bodies[i].title);
        fill(field, the_body, "en.test", str_of(bytes), got);
        if (strcmp(got, bodies[i].want) != 0)
            fail_msg("%s with %s: %s; wanted %s", bodies[i].body, bodies[i].title, got,
                     bodies[i].want);
        str value;
        assert_true(got[0] == '!' || json_slice_value(str_of(got), &value));
    }
}

static void what_becomes_too_long_is_refused(void **state)
{
    (void)state;
    char got[16384], *bytes = malloc(RULE_EXPANDED_BYTES_MAX + 64);
    assert_non_null(bytes);
    for (int over = 0; over < 2; over++) {
        size_t n = (size_t)snprintf(bytes, 32, "{\"page_title\":\"");
        size_t fits = RULE_EXPANDED_BYTES_MAX - strlen("http://h/") + (size_t)over;
        memset(bytes + n, 'a', fits);
        memcpy(bytes + n + fits, "\"}", 3);
        fill("url: \"http://h/{title}\"", the_url, "d", str_of(bytes), got);
        assert_int_equal(got[0] == '!', over);
    }
    assert_string_equal(got, "!it becomes longer than 8192 bytes");
    fill("body: [\"{title}{title}\"]", the_body, "d", str_of(bytes), got);
    assert_string_equal(got, "!it becomes longer than 8192 bytes");
    fill("headers: { X: \"{title}{title}\" }", the_header, "d", str_of(bytes), got);
    assert_string_equal(got, "!it becomes longer than 8192 bytes");
    free(bytes);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_value_is_a_part_of_a_url),
        cmocka_unit_test(a_host_is_a_configured_domain),
        cmocka_unit_test(a_value_in_a_header_ends_no_line),
        cmocka_unit_test(a_body_is_json_whatever_the_values_are),
        cmocka_unit_test(what_becomes_too_long_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
