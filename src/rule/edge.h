/* edge.h - what rules let caches in front keep. Part of rule.h. */
#ifndef RULE_EDGE_H
#define RULE_EDGE_H

#include "rule/rule.h"

/* A purge for an event that is older is not sent. */
int64_t rule_purge_ttl_ns(const struct rule *r);
/* Purges that wait longer, whatever else there is to do, are no reason to keep a page. */
#define RULE_EDGE_WAIT_NS (60 * NS_PER_S)
/* Rules whose purges do not come in time, by their index. */
struct rule_held {
    bool of[RULE_RULES_MAX];
};
/* The latest of a title, as caches know it. path: of its URL, from the slash on. */
struct rule_page {
    str domain, bucket, title, path;
};
/* How long caches may keep it: the rules of e's set purge path for each event by which it changes,
 * and in time. Late are those of held (NULL: none), and those that wait longer than
 * RULE_EDGE_WAIT_NS as they are written. 0: not at all. Ends the event that e has. */
int64_t rule_edge_ttl_ns(struct rule_event *e, const struct rule_page *page,
                         const struct rule_held *held);

#endif
