/* want.c - which streams a rule set may want events of, whatever those events are.
 *
 * Conditions on the stream are decided as for an event of it, with their patterns; where the kind
 * is given, those on the kind, too. All others may hold or not: they are undecided, and so is what
 * depends on them. Only what is decided to be no excludes a stream. Recursion ends at
 * RULE_DEPTH_MAX, which the reader kept. */
#include "rule/rule_impl.h"

static enum rule_truth wants(struct rule_event *e, const struct rule_condition *c);

static bool is_kind(const struct rule_event *e, struct rule_subject s)
{
    const unsigned *known = e->set->paths.known;
    return s.kind == RULE_SUBJECT_KIND ||
           (s.kind == RULE_SUBJECT_MEMBER &&
            (s.index == known[RULE_KNOWN_KIND] || s.index == known[RULE_KNOWN_PAGE_CHANGE_KIND]));
}

static enum rule_truth test_wants(struct rule_event *e, const struct rule_condition *c)
{
    str captures[RULE_CAPTURES_MAX] = { STR_NONE };
    bool decides =
        c->subject.kind == RULE_SUBJECT_STREAM || (e->is_of_a_kind && is_kind(e, c->subject));
    return decides ? rule_test_holds(e, c, captures) : RULE_UNDECIDED;
}

/* The first that is decided so ends it: a group is that then; else what no condition left open. */
static enum rule_truth group_wants(struct rule_event *e, const struct rule_condition *c,
                                   enum rule_truth ends)
{
    enum rule_truth truth = ends == RULE_NO ? RULE_YES : RULE_NO;
    for (const struct rule_condition *one = c->first; one != NULL; one = one->next) {
        enum rule_truth now = wants(e, one);
        if (now == ends)
            return now;
        if (now == RULE_UNDECIDED)
            truth = now;
    }
    return truth;
}

static enum rule_truth wants(struct rule_event *e, const struct rule_condition *c)
{
    enum rule_truth none;
    switch (c->group) {
    case RULE_TEST:
        return test_wants(e, c);
    case RULE_ALL:
        return group_wants(e, c, RULE_NO);
    case RULE_ANY:
        return group_wants(e, c, RULE_YES);
    case RULE_NONE:
        none = group_wants(e, c, RULE_YES);
        return none == RULE_YES ? RULE_NO : none == RULE_NO ? RULE_YES : RULE_UNDECIDED;
    }
    return RULE_UNDECIDED;
}

bool rule_may_want_kind(struct rule_event *e, const struct rule *r)
{
    e->is_of_a_kind = true;
    bool wanted = wants(e, r->match) != RULE_NO;
    e->is_of_a_kind = false;
    return wanted;
}

bool rule_may_want_stream(const struct rule_set *s, const struct rule *r, str stream)
{
    struct rule_event *e = rule_event_new(s);
    const struct rule_given given = { .stream = stream, .domain = STR(""), .bytes = STR("{}") };
    err why = rule_event_begin(e, &given);
    INVARIANT(why == ERR_OK); /* that is an object */
    bool wanted = wants(e, r->match) != RULE_NO;
    rule_event_free(&e);
    return wanted;
}

bool rule_set_may_want(const struct rule_set *s, str stream)
{
    if (s == NULL)
        return false;
    struct rule_event *e = rule_event_new(s);
    const struct rule_given given = { .stream = stream, .domain = STR(""), .bytes = STR("{}") };
    bool wanted = rule_event_begin(e, &given) == ERR_OK; /* that is an object */
    INVARIANT(wanted);
    wanted = false;
    for (unsigned i = 0; i < rule_set_count(s) && !wanted; i++) {
        const struct rule *r = rule_set_at(s, i);
        wanted = r->effect != RULE_DROP && wants(e, r->match) != RULE_NO;
    }
    rule_event_free(&e);
    return wanted;
}
