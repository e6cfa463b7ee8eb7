/* share_core.c - the state machine of one call across servers. Pure: share.c performs what it
 * decides.
 *
 * Invariants: (1) making is true exactly in LEADING and ALONE, and in OVER until a stopped maker
 * has finished; (2) each machine is answered once; (3) PUT is asked for only with the token of a
 * grant that was the last. */
#include "flight/share_core.h"

const char *share_state_name(enum share_state s)
{
    static const char *const names[SHARE_STATES] = {
        [SHARE_JOINING] = "joining",       [SHARE_WAITING] = "waiting", [SHARE_LEADING] = "leading",
        [SHARE_PUBLISHING] = "publishing", [SHARE_ALONE] = "alone",     [SHARE_OVER] = "over",
    };
    return names[s];
}

static const unsigned share_next[SHARE_STATES] = {
    [SHARE_JOINING] = BIT(SHARE_WAITING) | BIT(SHARE_LEADING) | BIT(SHARE_ALONE) | BIT(SHARE_OVER),
    [SHARE_WAITING] = BIT(SHARE_JOINING) | BIT(SHARE_ALONE) | BIT(SHARE_OVER),
    [SHARE_LEADING] = BIT(SHARE_PUBLISHING) | BIT(SHARE_OVER),
    [SHARE_PUBLISHING] = BIT(SHARE_JOINING) | BIT(SHARE_OVER),
    [SHARE_ALONE] = BIT(SHARE_OVER),
    [SHARE_OVER] = 0,
};

static void share_core_move(struct share_machine *m, enum share_state to)
{
    INVARIANT(share_next[m->state] & BIT(to));
    m->state = to;
}

static unsigned share_core_over(struct share_machine *m, unsigned actions)
{
    share_core_move(m, SHARE_OVER);
    INVARIANT(!m->answered);
    m->answered = true;
    return actions;
}

unsigned share_begin(struct share_machine *m)
{
    *m = (struct share_machine){ .state = SHARE_JOINING };
    return SHARE_DO_JOIN;
}

static unsigned share_core_make(struct share_machine *m, enum share_state as)
{
    share_core_move(m, as);
    m->making = true;
    return SHARE_DO_MAKE;
}

static unsigned joining(struct share_machine *m, enum share_event e)
{
    switch (e) {
    case SHARE_GOT_VALUE:
    case SHARE_GOT_ERROR:
        return share_core_over(m, SHARE_ANSWER_THEIRS);
    case SHARE_GOT_WAIT:
        share_core_move(m, SHARE_WAITING);
        return SHARE_DO_WAIT;
    case SHARE_GOT_GRANT:
        return share_core_make(m, SHARE_LEADING);
    case SHARE_NO_REDIS:
        return share_core_make(m, SHARE_ALONE);
    case SHARE_STOP:
        return share_core_over(m, SHARE_ANSWER_STOPPED);
    case SHARE_GOT_RETRY: /* of an older wait: the answer to this JOIN is on its way */
    case SHARE_LEASE_RAN_OUT:
    case SHARE_MADE:
    case SHARE_STORED:
    case SHARE_LOST_VALUE:
    case SHARE_LOST:
    case SHARE_PUT_FAILED:
    case SHARE_EVENTS:
        return 0;
    }
    return 0;
}

static unsigned waiting(struct share_machine *m, enum share_event e)
{
    switch (e) {
    case SHARE_GOT_VALUE:
    case SHARE_GOT_ERROR:
        return share_core_over(m, SHARE_ANSWER_THEIRS);
    case SHARE_GOT_RETRY:
    case SHARE_LEASE_RAN_OUT:
        share_core_move(m, SHARE_JOINING);
        return SHARE_DO_JOIN;
    case SHARE_NO_REDIS:
        return share_core_make(m, SHARE_ALONE);
    case SHARE_STOP:
        return share_core_over(m, SHARE_ANSWER_STOPPED);
    case SHARE_GOT_WAIT:
    case SHARE_GOT_GRANT:
    case SHARE_MADE:
    case SHARE_STORED:
    case SHARE_LOST_VALUE:
    case SHARE_LOST:
    case SHARE_PUT_FAILED:
    case SHARE_EVENTS:
        return 0;
    }
    return 0;
}

static unsigned leading(struct share_machine *m, enum share_event e)
{
    if (e == SHARE_MADE) {
        m->making = false;
        share_core_move(m, SHARE_PUBLISHING);
        return SHARE_DO_PUT;
    }
    if (e == SHARE_STOP)
        return share_core_over(m, SHARE_ANSWER_STOPPED | SHARE_DO_CANCEL | SHARE_DO_ABORT);
    return 0; /* a lost lease is found out by PUT; the value is made either way */
}

static unsigned publishing(struct share_machine *m, enum share_event e)
{
    switch (e) {
    case SHARE_STORED:
        return share_core_over(m, SHARE_ANSWER_OURS);
    case SHARE_LOST_VALUE:
        return share_core_over(m, SHARE_ANSWER_THEIRS);
    case SHARE_LOST:
        if (m->rejoins++ == SHARE_REJOINS_MAX)
            return share_core_over(m, SHARE_ANSWER_OURS | SHARE_MARK_DEGRADED);
        share_core_move(m, SHARE_JOINING);
        return SHARE_DO_JOIN;
    case SHARE_PUT_FAILED:
    case SHARE_STOP:
        return share_core_over(m, SHARE_ANSWER_OURS | SHARE_MARK_DEGRADED);
    case SHARE_GOT_VALUE:
    case SHARE_GOT_ERROR:
    case SHARE_GOT_WAIT:
    case SHARE_GOT_GRANT:
    case SHARE_GOT_RETRY:
    case SHARE_LEASE_RAN_OUT:
    case SHARE_NO_REDIS:
    case SHARE_MADE:
    case SHARE_EVENTS:
        return 0;
    }
    return 0;
}

static unsigned alone(struct share_machine *m, enum share_event e)
{
    if (e == SHARE_MADE) {
        m->making = false;
        return share_core_over(m, SHARE_ANSWER_OURS | SHARE_MARK_DEGRADED);
    }
    if (e == SHARE_STOP)
        return share_core_over(m, SHARE_ANSWER_STOPPED | SHARE_DO_CANCEL);
    return 0;
}

unsigned share_step(struct share_machine *m, enum share_event e)
{
    switch (m->state) {
    case SHARE_JOINING:
        return joining(m, e);
    case SHARE_WAITING:
        return waiting(m, e);
    case SHARE_LEADING:
        return leading(m, e);
    case SHARE_PUBLISHING:
        return publishing(m, e);
    case SHARE_ALONE:
        return alone(m, e);
    case SHARE_OVER:
        m->making = m->making && e != SHARE_MADE;
        return 0;
    case SHARE_STATES:
        break;
    }
    return 0;
}
