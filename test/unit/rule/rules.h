/* rules.h - rule sets of a test, from texts that have to be right. */
#ifndef UNIT_RULE_RULES_H
#define UNIT_RULE_RULES_H

#include "rule/rule.h"
#include "unit/cmocka_all.h"

/* Fails the test with the first fault. Owner: caller. */
struct rule_set *rules_of(const char *text);
/* One rule r with that `match`, as YAML in one line, and effect drop. */
struct rule_set *rules_matching(const char *match);
/* An event of stream s and domain d, taken now, which is 2026-01-02T00:00:00Z. */
struct rule_given rules_given(const char *stream, const char *domain, const char *bytes);

#endif
