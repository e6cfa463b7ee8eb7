/* edge.c - what caches in front may keep, by the rules in force. rule/edge.c decides it. */
#include "change/change_impl.h"

bool change_edges(struct change *c)
{
    struct change_ruled *r = change_ruled_now(c);
    bool edges = false;
    for (unsigned i = 0; i < rule_set_count(r->set) && !edges; i++)
        edges = rule_set_at(r->set, i)->edge_ttl_ns > 0;
    change_ruled_unref(&r);
    return edges;
}

int64_t change_edge_ttl_s(struct change *c, const struct rule_page *page)
{
    struct change_ruled *r = change_ruled_now(c);
    struct rule_event *e = change_event_take(r);
    int64_t ttl_ns = rule_edge_ttl_ns(e, page);
    change_event_give(r, e);
    change_ruled_unref(&r);
    return ttl_ns / NS_PER_S;
}
