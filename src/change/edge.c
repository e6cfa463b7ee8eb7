/* edge.c - what caches in front may keep, by the rules in force, for answers to reads.
 * rule/edge.c decides it. Thread: any. */
#include "rule/edge.h"
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

/* The rules in force, and those of them that an operator keeps from purging in time: paused, or
 * with too slow a rate. */
static struct change_ruled *ruled_and_held(struct change *c, struct rule_held *held)
{
    *held = (struct rule_held){ .of = { false } };
    change_lock(c);
    struct change_ruled *ruled = change_ruled_ref(c->ruled);
    for (unsigned i = 0; i < c->runners_count; i++) {
        const struct change_runner *r = c->runners[i];
        if (r->rule != NULL)
            held->of[r->rule->index] = r->paused || change_runner_step_ns(r) > RULE_EDGE_WAIT_NS;
    }
    change_unlock(c);
    return ruled;
}

int64_t change_edge_ttl_s(struct change *c, const struct rule_page *page)
{
    struct rule_held held;
    struct change_ruled *r = ruled_and_held(c, &held);
    struct rule_event *e = change_event_take(r);
    int64_t ttl_ns = rule_edge_ttl_ns(e, page, &held);
    change_event_give(r, e);
    change_ruled_unref(&r);
    return ttl_ns / NS_PER_S;
}
