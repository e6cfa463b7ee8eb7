/* fields.h - how the values of a rule's fields are read: one function a kind of value. Private to
 * rule. */
#ifndef RULE_FIELDS_H
#define RULE_FIELDS_H

#include "rule/rule_impl.h"

/* at: where in the rule the value goes, offset bytes behind its beginning. False: a fault was told.
 */
struct rule_field;
typedef bool rule_field_fn(struct rule_reading *r, const struct rule_field *f, const yaml_node_t *n,
                           void *at);
struct rule_field {
    const char *name;
    unsigned effects, required; /* BIT(effect): which have it, which want it */
    rule_field_fn *read;        /* NULL: it is read before the others */
    size_t offset;              /* 0: the function knows where */
    int64_t least, most;        /* of numbers, durations in nanoseconds */
};
rule_field_fn rule_field_share, rule_field_duration, rule_field_number, rule_field_rate;
rule_field_fn rule_field_targets, rule_field_url, rule_field_urls, rule_field_method;
rule_field_fn rule_field_headers, rule_field_body, rule_field_statuses;
rule_field_fn rule_field_concurrency_of, rule_field_collapse, rule_field_on_failure;
rule_field_fn rule_field_queue, rule_field_domain_rate, rule_field_keep;

#endif
