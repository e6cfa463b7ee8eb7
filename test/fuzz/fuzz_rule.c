/* Goal: no text of rules breaks the reader; what is refused is told, each fault in a line; what is
 * taken is within its limits, and is the same as itself when it is read again. */
#include "rule/rule.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void told(void *ctx, const struct rule_fault *fault)
{
    unsigned *count = ctx;
    ++*count;
    INVARIANT(strlen(fault->text) > 0);
    for (const char *p = fault->text; *p != '\0'; p++)
        INVARIANT((unsigned char)*p >= 0x20);
}

static void look_at(const struct rule_set *s)
{
    INVARIANT(rule_set_count(s) <= RULE_RULES_MAX);
    for (unsigned i = 0; i < rule_set_count(s); i++) {
        const struct rule *r = rule_set_at(s, i);
        INVARIANT(r->name.n >= 1 && r->name.n <= RULE_NAME_BYTES_MAX);
        INVARIANT(rule_set_find(s, r->name) == r);
        INVARIANT(r->effect < RULE_EFFECTS);
        INVARIANT(r->match != NULL);
        INVARIANT(r->captures_count <= RULE_CAPTURES_MAX);
        INVARIANT(r->effect != RULE_HTTP || r->url != NULL);
        INVARIANT((r->effect != RULE_JOB && r->effect != RULE_PURGE) || r->targets.count > 0);
        INVARIANT(r->effect != RULE_PRODUCE || r->queue.n > 0);
        INVARIANT(r->domain_rate_ppm > 0);
        INVARIANT(r->burst > 0);
        INVARIANT(r->ttl_ns > 0);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    unsigned faults = 0;
    struct rule_set *s = NULL, *again = NULL;
    str text = { .p = (const char *)data, .n = size };
    if (rule_set_read(text, told, &faults, &s) == ERR_OK) {
        INVARIANT(faults == 0);
        look_at(s);
        INVARIANT(rule_set_read(text, told, &faults, &again) == ERR_OK);
        INVARIANT(rule_sets_compare(s, again, NULL, NULL));
    } else {
        INVARIANT(faults >= 1 && faults <= RULE_FAULTS_MAX);
        INVARIANT(s == NULL);
    }
    rule_set_unref(&s);
    rule_set_unref(&again);
    return 0;
}
