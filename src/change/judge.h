/* judge.h - what the answer to a request of an item means for the item. Private to change.
 *
 * Model. An attempt counts when the target may have had the request and did not do what it says. It
 * costs none when the target was never reached, or asked to be left alone: then all items of that
 * target wait. Some answers will be the same each time: such an item is dead at once.
 *   A table in judge.c has one row for each meaning, and says why. The statuses that a rule names
 * in `ok` and `ignore` come before it. Pure. Thread: any. */
#ifndef CHANGE_JUDGE_H
#define CHANGE_JUDGE_H

#include "base/times.h"
#include "change/change.h"

enum { CHANGE_WAIT_S_MAX = 3600 }; /* of what a target asks for in Retry-After */

enum change_fate {
    CHANGE_DONE,
    CHANGE_IGNORED,  /* there was nothing to do: as done, but counted apart */
    CHANGE_FAILED,   /* counts as an attempt */
    CHANGE_PAUSED,   /* the target asks to be left alone, or is not there: costs no attempt */
    CHANGE_HOPELESS, /* it will never work: dead at once */
    CHANGE_STOPPED,  /* it was canceled, or the client stopped: the item stays as it is */
    CHANGE_FATES
};
const char *change_fate_name(enum change_fate f); /* "done" */

struct change_answer {
    err why; /* ERR_OK: there is a whole reply; else what http_call was done with */
    bool sent;
    int status;
    bool read_only;  /* X-Readonly: true, as MediaWiki says it */
    str retry_after; /* as sent; p NULL: not there */
    str line;        /* what the reply's body begins with */
    str note;        /* why there is no reply */
};
struct change_result {
    enum change_fate fate;
    int status;      /* 0: there was no reply */
    int64_t wait_ns; /* of PAUSED: as long as the target said; 0: it did not say */
    char text[CHANGE_ERROR_BYTES_MAX + 1]; /* UTF-8 without control characters; of DONE: empty */
};
/* now: for a Retry-After that is a date. rule: effect http, job or purge. */
void change_judge(const struct rule *rule, const struct change_answer *answer, wall now,
                  struct change_result *out);
/* How long an item waits that failed so often before: backoff * factor^attempts, 30 days at most.
 */
int64_t change_backoff_ns(const struct rule *rule, uint32_t attempts);

#endif
