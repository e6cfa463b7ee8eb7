/* rules_json.h - what is said of rules, their items and targets (change/change.h), as JSON. Private
 * to src/app. Pure.
 *
 * What is empty or absent is null. Events stand in texts, byte for byte: who signs jobs signs the
 * order of their members. Ids are texts. */
#ifndef APP_CHANGE_RULES_JSON_H
#define APP_CHANGE_RULES_JSON_H

#include "base/buf.h"
#include "change/change.h"
#include "change/explain.h"
#include "change/lanes.h"

struct rules_json {
    struct buf *out;
    struct arena *arena; /* for texts that are no UTF-8 */
    uint64_t log;        /* whose positions these are */
    store_time now;
};
/* Members behind others: router, rules, targets. s NULL: they are not known. */
void rules_json_status(const struct rules_json *j, const struct change_status *s);
/* An object of one rule. */
void rules_json_rule(const struct rules_json *j, const struct change_status *s,
                     const struct change_rule_status *r);
/* {"target", "drained", "was"}: was is the target as it was before. */
void rules_json_drained(const struct rules_json *j, bool drained,
                        const struct change_target_status *was);
void rules_json_item(const struct rules_json *j, const struct change_item *i);
/* {"items", "next"} */
void rules_json_listing(const struct rules_json *j, const struct change_listing *l);
/* {"lanes", "cut"} */
void rules_json_lanes(const struct rules_json *j, const struct change_lanes *l);
void rules_json_explanation(const struct rules_json *j, uint64_t seq,
                            const struct change_explanation *e);
void rules_json_dry(const struct rules_json *j, const struct change_dry *d);

/* "10/s"; with a longer time than an hour in ns. "" for none. */
enum { RULES_RATE_BYTES = 48 };
void rules_rate_format(int64_t count, int64_t per_ns, char out[RULES_RATE_BYTES]);
/* 10, 10/s, 10/m, 10/h as in a rule; none: *count is 0. False: it is no rate. */
MUST_CHECK bool rules_rate_parse(str text, int64_t *count, int64_t *per_ns);

#endif
