/* Goal: whatever an event says, a rule is asked without harm; what a template becomes stays within
 * its place: a URL keeps its host and its number of segments, a header its line, a body is JSON. */
#include "codec/json.h"
#include "rule/rule.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char rules[] =
    "rules:\n"
    "  a:\n"
    "    match: { stream: \"*\", any: [{ title: '/^((?<ns>\\w+):)?(?<rest>.*)$/' }, { \"a.b\": [x, "
    "1] }], not: { kind: /^x/ } }\n"
    "    sample: 50%\n"
    "    claim_ttl: 1h\n"
    "    effect: http\n"
    "    url: \"http://h:1/{domain}/a{title}b/{ns}?x={a.b}&y={rest}\"\n"
    "    headers: { X-T: \"{title} {{}} {meta.id}\" }\n"
    "    body: { t: \"{title}\", all: \"{a}\", in: [\"<{rest}>\", \"{rev}\"] }\n"
    "  b: { match: { title: { present: true } }, effect: http, url: \"http://{domain}/{title}\" }\n"
    "  c: { match: { \"meta.dt\": '/^(a+)+$/' }, effect: drop }\n"
    "  d: { match: { not: [{ \"a.b.c\": { absent: true } }, { rev: 1, tid: [a, b] }] }, effect: "
    "http, url: \"http://h:1/{a.b.c}/..{tid}\" }\n";

static void told(void *ctx, const struct rule_fault *fault)
{
    (void)ctx;
    check_failed("rules", (int)fault->line, fault->text);
}

static bool any_domain(void *ctx, str domain)
{
    (void)ctx;
    return domain.n > 0;
}

static size_t count_of(str s, char c)
{
    size_t n = 0;
    for (size_t i = 0; i < s.n; i++)
        n += s.p[i] == c;
    return n;
}

static void look_at_url(str url, str source)
{
    for (size_t i = 0; i < url.n; i++)
        INVARIANT(url.p[i] > 0x20 && url.p[i] < 0x7f);
    INVARIANT(count_of(url, '/') == count_of(source, '/'));
    INVARIANT(count_of(url, '?') == count_of(source, '?'));
    INVARIANT(count_of(url, '&') == count_of(source, '&'));
    INVARIANT(count_of(url, '#') == 0);
    INVARIANT(count_of(url, '@') == 0);
    INVARIANT(str_starts(url, STR("http://")));
    str rest = str_skip(url, 7);
    (void)str_split(&rest, '/');
    rest = str_take(rest, str_find(rest, '?'));
    while (rest.p != NULL) {
        str segment = str_split(&rest, '/');
        INVARIANT(segment.n > 0);
        INVARIANT(!str_eq(segment, STR(".")));
        INVARIANT(!str_eq(segment, STR("..")));
    }
}

static void look_at_rule(struct rule_event *e, const struct rule *r)
{
    const struct rule_domains domains = { .has = any_domain };
    struct rule_verdict v;
    struct err_note note = { .text = "" };
    struct buf out;
    str value;
    rule_match(e, r, &v);
    rule_why(e, r, &v, &note);
    INVARIANT(strlen(note.text) > 0);
    if (v.answer == RULE_DIFFERS || v.answer == RULE_OPEN || r->effect != RULE_HTTP)
        return;
    buf_init(&out, RULE_EXPANDED_BYTES_MAX);
    if (rule_expand(e, &v, r->url, &domains, &out, &note) == ERR_OK)
        look_at_url(buf_str(&out), rule_template_source(r->url));
    buf_clear(&out);
    if (r->headers_count > 0 &&
        rule_expand(e, &v, r->headers[0].value, &domains, &out, &note) == ERR_OK)
        for (size_t i = 0; i < out.n; i++)
            INVARIANT((unsigned char)out.p[i] >= 0x20);
    buf_clear(&out);
    if (r->body_template != NULL &&
        rule_expand(e, &v, r->body_template, &domains, &out, &note) == ERR_OK)
        INVARIANT(json_slice_value(buf_str(&out), &value));
    buf_fini(&out);
}

/* The first byte says how long the domain is, which stands behind it; the rest is the event. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct rule_set *s = NULL;
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* of its exact size: reading past it is seen */
    INVARIANT(copy != NULL);
    memcpy(copy, data, size);
    INVARIANT(rule_set_read(str_of(rules), told, NULL, &s) == ERR_OK);
    struct rule_event *e = rule_event_new(s);
    str all = str_skip((str){ .p = copy, .n = size }, 1), domain = str_take(all, data[0] % 32);
    struct rule_given given = { .stream = STR("s"),
                                .domain = domain,
                                .bytes = str_skip(all, domain.n),
                                .now = { .ns = INT64_C(1767312000) * NS_PER_S } };
    if (rule_event_begin(e, &given) == ERR_OK)
        for (unsigned i = 0; i < rule_set_count(s); i++)
            look_at_rule(e, rule_set_at(s, i));
    rule_event_free(&e);
    rule_set_unref(&s);
    free(copy);
    return 0;
}
