#include "rules.h"

#include <stdio.h>
#include <string.h>

static void told(void *ctx, const struct rule_fault *fault)
{
    const char *text = ctx;
    fail_msg("line %u: %.*s: %s\n%s", fault->line, STR_ARG(fault->rule), fault->text, text);
}

struct rule_set *rules_of(const char *text)
{
    struct rule_set *set = NULL;
    assert_int_equal(rule_set_read(str_of(text), told, (void *)(uintptr_t)text, &set), ERR_OK);
    return set;
}

struct rule_set *rules_matching(const char *match)
{
    char text[8192];
    int n = snprintf(text, sizeof text, "rules: { r: { match: %s, effect: drop } }", match);
    assert_true(n > 0 && (size_t)n < sizeof text);
    return rules_of(text);
}

struct rule_given rules_given(const char *stream, const char *domain, const char *bytes)
{
    store_time now = { .ns = INT64_C(1767312000) * NS_PER_S };
    return (struct rule_given){ .stream = str_of(stream),
                                .domain = str_of(domain),
                                .bytes = str_of(bytes),
                                .at = now,
                                .now = now };
}
