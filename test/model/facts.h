/* facts.h - the facts of one title as a test keeps them, and the comparison of two titles. */
#ifndef TEST_MODEL_FACTS_H
#define TEST_MODEL_FACTS_H

#include "base/rng.h"
#include "title/derive.h"
#include "title/find.h"

enum { FACTS_MAX = 1024, FACTS_PLANS_MAX = 64, FACTS_SRV_FORGETS = 99 };

struct facts_log {
    struct fact facts[FACTS_MAX];
    struct page_content contents[FACTS_MAX][1];
    unsigned count;
};
struct facts_plans {
    struct title_plan plans[FACTS_PLANS_MAX];
    unsigned count;
    int64_t skew_ns, linger_ns;
};

/* Writes the fact and reads it back. False: it is not what was written, or not later than the one
 * before; or there is no room. */
bool facts_add(struct facts_log *log, const struct fact *f);
/* The same, in any order; one more of a server and time that are there already is left out. */
bool facts_add_any(struct facts_log *log, const struct fact *f);
/* Is there little room left in one of them? */
bool facts_full(const struct facts_log *logs, unsigned count);
/* False: no room. */
bool facts_plan(struct facts_plans *plans, const struct page_plan *plan, store_time at);
store_time facts_last(const struct facts_log *log); /* arrival of the latest */

err facts_derive(const struct facts_log *log, const struct facts_plans *plans, store_time now,
                 struct arena *a, struct title_memory *out);

/* In any order, some twice. Owner: caller, with free. */
struct facts_log *facts_shuffled(const struct facts_log *log, struct rng *rng);
/* Likewise. */
void facts_shuffle_plans(struct facts_plans *plans, struct rng *rng);
/* Takes out any part of what may be forgotten at the horizon, and leaves the fact that says so; and
 * the bytes of a part of what may be culled. */
err facts_thin(struct facts_log *log, const struct facts_plans *plans, store_time horizon,
               struct rng *rng, unsigned *forgotten);

/* Facts that were taken out of all come back, any part of them. False: no room. */
bool facts_revive(struct facts_log *log, const struct facts_log *all, struct rng *rng);

/* The name of some put. False: there is none. */
bool facts_some_name(const struct facts_log *log, struct rng *rng, struct page_name *out);
/* An instant from now on at which a render, pin or trace ends. False: there is none. */
bool facts_some_due(const struct facts_log *log, const struct facts_plans *plans, store_time now,
                    struct rng *rng, int64_t *out);
struct page_policy facts_draw_policy(struct rng *rng, int64_t ledger_ttl_ns);
/* Any fact of one of three servers around an instant. */
void facts_draw(struct rng *rng, int64_t around_ns, struct fact *out);

struct facts_difference {
    char text[256];
};
/* All that two titles answer about what log names, at one time. False: *out says where they
 * differ. */
bool facts_compare(const struct title *a, const struct title *b, const struct facts_log *log,
                   struct rng *rng, struct facts_difference *out);
/* To stderr. */
void facts_print(const struct facts_log *log, const struct facts_plans *plans);

#endif
