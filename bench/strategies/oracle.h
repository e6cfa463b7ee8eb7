/* oracle.h - what a lookup has to answer, by the seed's requirements; and how often it did not.
 *
 * Duties, the first that holds (TTL is grace_ttl; two seconds of each are left out, as Cassandra
 * counts TTLs in seconds):
 *   LATEST  the greatest (rev, tid) that was acknowledged
 *   RECENT  what was superseded less than TTL ago, or is the latest, by its name or its revision
 *   LATE    the same of what was superseded already when it came
 *   ASKED   the same of what was rendered on request: TTL from then
 *   CORNER  longer gone, but a lookup that named it found it less than TTL ago: the seed's corner
 *           case
 * Pure. Thread: one at a time for a title. */
#ifndef STRATEGIES_ORACLE_H
#define STRATEGIES_ORACLE_H

#include "strategies/strategies.h"

enum duty { DUTY_LATEST, DUTY_RECENT, DUTY_LATE, DUTY_ASKED, DUTY_CORNER, DUTY_NONE, DUTIES };
const char *duty_name(enum duty d);

struct tally {
    uint64_t asked[DUTIES];   /* lookups */
    uint64_t missing[DUTIES]; /* of them nothing was found */
    uint64_t other[DUTIES];   /* another render was answered */
    uint64_t mixed;           /* a value under another one's name */
};

struct oracle_render;
struct oracle_title {
    struct oracle_render *renders;
    unsigned count;
    unsigned latest; /* good when count is > 0 */
    int64_t ttl_ns;
};
void oracle_init(struct oracle_title *t, int64_t ttl_ns);
void oracle_fini(struct oracle_title *t);
/* A put was acknowledged. asked: it was rendered on request. */
void oracle_put(struct oracle_title *t, struct page_name name, bool asked, store_time now);
/* Judges the answer to a lookup, and notes that what it found was read. */
void oracle_judge(struct oracle_title *t, const struct lookup *l, bool found, store_time now,
                  struct tally *out);
/* Renders that have to be there. */
unsigned oracle_needed(const struct oracle_title *t, store_time now);

/* What a content of that render begins with. */
void head_make(struct page_name name, char out[HEAD_BYTES]);

#endif
