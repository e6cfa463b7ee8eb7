/* retention.h - what a policy says about one render. Pure: policy, row and now in, row out
 * (docs/api.md, "What is kept").
 *
 *   out_at  when policy stopped keeping it, from which its window runs; NEVER while policy keeps
 *     it: app_ttl      superseded_at              window grace_ttl
 *     latest_hash  superseded_at              none
 *     all          never
 *     latest       when it fell out of the newest `count` of its revision    window grace_ttl
 *     interval     the same among the renders of its revision whose tid times are in one interval
 *     ttl          stored_at                  window ttl
 *   due_at  NEVER while out_at is, else the greatest of out_at + window, requested, stashed and
 * held until. latest and interval are grouped: out_at depends on the neighbours, which place.c and
 * step_purge.c walk.
 * Source: RESTBase table layer, revisionPolicy.js (scopes), the seed for app_ttl. */
#ifndef TITLE_RETENTION_H
#define TITLE_RETENTION_H

#include "base/check.h"
#include "title/stored.h"

/* The policy rows are judged by (the catalog's). */
struct page_plan {
    struct page_policy policy;
    uint32_t number;       /* of the policy; rows of a lesser one were planned before */
    store_time changed_at; /* when this plan came into force; ZERO for the first */
    bool replanned;        /* no row of an earlier plan is left */
};

MUST_CHECK bool retention_grouped(const struct page_policy *p);
/* The names whose newest `count` are kept together with name: low <= n <= high. Grouped policies
 * only. */
void retention_group(const struct page_policy *p, struct page_name name, struct page_name *low,
                     struct page_name *high);

/* Each sets due_at too. */
void retention_make_latest(const struct page_policy *p, struct page_render *r);
void retention_supersede(const struct page_policy *p, struct page_render *r, struct page_name by,
                         store_time now);
void retention_drop(const struct page_policy *p, struct page_render *r,
                    store_time now);                                     /* grouped: falls out */
void retention_keep(const struct page_policy *p, struct page_render *r); /* grouped: is back in */
/* due_at of r as its fields say. */
store_time retention_due(const struct page_policy *p, const struct page_render *r);
/* After a pin changed: due_at anew, but never before now, so that what was readable is not gone
 * earlier. */
void retention_repin(const struct page_policy *p, struct page_render *r, store_time now);
/* How much longer a stash pins r. */
int64_t retention_stash_left(const struct page_render *r, store_time now);

/* A render planned under the plan before (whose kind is before), still there when the plan changed:
 * as this plan sees it. out_of_group: at least `count` renders of its group precede it. */
void retention_replan(const struct page_plan *plan, enum page_policy_kind before,
                      struct page_render *r, bool out_of_group);

/* Suppressed or deleted when it is hidden; else the first of current, recent, historical, held,
 * archive that keeps it; culled once it is past due. Under ttl all that is superseded and inside
 * its ttl is recent. */
enum page_state retention_state(const struct page_policy *p, const struct page_render *r,
                                store_time now);
const char *retention_reason(const struct page_policy *p, enum page_state s);

/* A read that names a render keeps it for historical_ttl from then, superseded already or only
 * later. Up to and with which instant does r need nothing written for that, as long as it does not
 * change? NEVER: at no time. */
MUST_CHECK store_time retention_lasts_until(const struct page_policy *p,
                                            const struct page_render *r);
MUST_CHECK bool retention_wants_extension(const struct page_policy *p, const struct page_render *r,
                                          store_time now);
/* A quarter more than is wanted, so that reads write once per quarter of historical_ttl at most. */
void retention_extend(const struct page_policy *p, struct page_render *r, store_time now);

#endif
