/* explain.h - what rules say to events that the log has, and would have said. Part of change.h.
 * Pool threads. */
#ifndef CHANGE_EXPLAIN_H
#define CHANGE_EXPLAIN_H

#include "change/change.h"

/* What each rule says to the event of that number, and where its item is. ERR_NOT_FOUND: the log
 * does not have it. */
struct change_explained {
    str rule;
    bool matches;
    str why;                  /* not, or why there is no item: in words */
    struct change_item *item; /* NULL: there is none, or no more */
    uint64_t collapsed_into;  /* the newer event that the item is for by now; 0: for this one */
};
struct change_explanation {
    str stream, domain, bytes;
    store_time taken;
    bool routed;
    struct change_explained *rules;
    unsigned count;
};
MUST_CHECK err change_explain(struct change *c, uint64_t seq, struct arena *a,
                              struct change_explanation *out, struct err_note *note);
/* What those rules would have done for the last events: how many each would have matched. Nothing
 * is done. rules NULL: those in force. */
struct change_dry {
    unsigned last; /* CHANGE_DRY_MAX at most */
    mono deadline; /* no event is looked at behind it; ns 0: none */
    /* out */
    uint64_t looked;
    bool stopped; /* there was no time for the newest ones */
    struct change_dry_rule {
        str rule;
        enum rule_effect effect;
        uint64_t matched, unsampled, too_old, open;
        uint64_t untitled; /* of matched: of effect look, which has nothing to look at then */
        uint64_t example;  /* sequence number of the newest that it matched; 0: none */
    } * rules;
    unsigned count;
};
MUST_CHECK err change_dry_run(struct change *c, struct rule_set *rules, struct change_dry *d,
                              struct arena *a, struct err_note *note);

#endif
