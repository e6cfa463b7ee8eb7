/* Goal: whatever an event says, the requests of its item go to the target of the rule, each in one
 * line, and a relayed URL arrives byte for byte. */
#include "change/change.h"
#include "change/request.h"
#include "http/client.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define TARGET "http://edge.test:6081"
static const char rules[] =
    "rules:\n"
    "  p: { match: { stream: \"*\" }, effect: purge, targets: \"" TARGET "\",\n"
    "    urls: [\"/{domain}/{title}\", \"http://{domain}/w?t={title}\"], headers: { X-T: "
    "\"{kind}\" "
    "} }\n";

static void told(void *ctx, const struct rule_fault *fault)
{
    (void)ctx;
    check_failed("rules", (int)fault->line, fault->text);
}

static bool any_domain(void *ctx, str domain)
{
    (void)ctx;
    return domain.n > 0 && domain.n < 64;
}

static void look_at_request(const struct change_request *r)
{
    char origin[HTTP_ORIGIN_BYTES_MAX];
    INVARIANT(strcmp(r->method, "PURGE") == 0);
    INVARIANT(str_starts(r->url, STR(TARGET "/")));
    INVARIANT(http_client_origin(r->url, origin) == ERR_OK);
    INVARIANT(strcmp(origin, "edge.test:6081") == 0);
    unsigned hosts = 0;
    for (unsigned i = 0; i < r->headers_count; i++) {
        str value = r->headers[i].value;
        bool is_host = str_eq(r->headers[i].name, STR("Host"));
        hosts += is_host;
        for (size_t k = 0; k < value.n; k++)
            INVARIANT((unsigned char)value.p[k] >= 0x20 && value.p[k] != 0x7f);
        INVARIANT(!is_host || (value.n > 0 && str_find(value, ' ') == value.n &&
                               str_find(value, '/') == value.n && str_find(value, '@') == value.n));
    }
    INVARIANT(hosts <= 1);
}

static void look_at_uri(str uri)
{
    str authority, target;
    struct err_note note = { .text = "" };
    if (change_uri_split(uri, &authority, &target, &note) != ERR_OK) {
        INVARIANT(note.text[0] != 0);
        return;
    }
    INVARIANT(authority.n > 0);
    INVARIANT(target.n == 0 || target.p[0] == '/' || target.p[0] == '?');
    INVARIANT(authority.p > uri.p && authority.p + authority.n == target.p);
    INVARIANT(target.p + target.n == uri.p + uri.n); /* nothing is lost */
}

static void look_at_event(const struct rule_set *s, const struct rule_given *given)
{
    const struct rule_domains domains = { .has = any_domain };
    const struct rule *rule = rule_set_at(s, 0);
    struct rule_event *e = rule_event_new(s);
    struct rule_verdict v;
    struct change_requests made;
    struct err_note note = { .text = "" };
    struct arena a;
    arena_init(&a, 16 << 20);
    if (rule_event_begin(e, given) == ERR_OK) {
        rule_match(e, rule, &v);
        const struct change_making m = { .rule = rule,
                                         .given = given,
                                         .event = e,
                                         .verdict = &v,
                                         .domains = &domains,
                                         .target = STR(TARGET) };
        if (change_requests_make(&m, &a, &made, &note) != ERR_OK)
            INVARIANT(note.text[0] != 0);
        else
            for (unsigned i = 0; i < made.count; i++)
                look_at_request(&made.at[i]);
    }
    arena_fini(&a);
    rule_event_free(&e);
}

/* The first byte says how long the domain is, which stands behind it; the rest is the event, of
 * both kinds of streams, and a URL. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const str streams[] = { STR_INIT(CHANGE_PURGES), STR_INIT("s") };
    struct rule_set *s = NULL;
    if (size == 0)
        return 0;
    char *copy = malloc(size); /* of its exact size: reading past it is seen */
    INVARIANT(copy != NULL);
    memcpy(copy, data, size);
    INVARIANT(rule_set_read(str_of(rules), told, NULL, &s) == ERR_OK);
    str all = str_skip((str){ .p = copy, .n = size }, 1), domain = str_take(all, data[0] % 32);
    str rest = str_skip(all, domain.n);
    look_at_uri(rest);
    for (size_t i = 0; i < COUNT_OF(streams); i++)
        look_at_event(s, &(struct rule_given){ .stream = streams[i],
                                               .domain = domain,
                                               .bytes = rest,
                                               .now = { .ns = INT64_C(1767312000) * NS_PER_S } });
    rule_set_unref(&s);
    free(copy);
    return 0;
}
