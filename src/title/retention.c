/* retention.c - until when a render is kept, by each policy. Pure. retention.h has the rule.
 *
 * Invariant: due_at follows from the other fields by retention_due. But no change of a pin or
 * policy moves it before the instant of the change. */
#include "title/retention.h"

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

bool retention_grouped(const struct page_policy *p)
{
    return p->kind == POLICY_LATEST || p->kind == POLICY_INTERVAL;
}

/* Ticks of the first tid whose time is not before ns. */
static uint64_t ticks_from(int64_t ns)
{
    return tid_ticks((store_time){ .ns = ns });
}

void retention_group(const struct page_policy *p, struct page_name name, struct page_name *low,
                     struct page_name *high)
{
    *low = page_name_low(name.rev);
    *high = page_name_high(name.rev);
    if (p->kind != POLICY_INTERVAL)
        return;
    /* An interval of time: rounded down, also before 1970, and open where int64 ends. */
    int64_t t = tid_time(name.tid).ns, begin, end;
    int64_t over = t % p->interval_ns;
    if (over < 0)
        over += p->interval_ns;
    if (!__builtin_sub_overflow(t, over, &begin))
        low->tid.ticks = ticks_from(begin);
    else
        begin = INT64_MIN;
    if (!__builtin_add_overflow(begin, p->interval_ns, &end) && begin != INT64_MIN)
        /* The end is the last tick before the next interval, whatever the tid's low part. */
        high->tid = (struct tid){ .ticks = ticks_from(end) - 1, .low = UINT64_MAX };
}

/* How long a policy keeps a render after out_at. */
static int64_t window_ns(const struct page_policy *p)
{
    switch (p->kind) {
    case POLICY_APP_TTL:
    case POLICY_LATEST:
    case POLICY_INTERVAL:
        return p->grace_ttl_ns;
    case POLICY_TTL:
        return p->ttl_ns;
    case POLICY_ALL:
    case POLICY_LATEST_HASH:
    case POLICY_KINDS:
        break;
    }
    return 0;
}

store_time retention_due(const struct page_policy *p, const struct page_render *r)
{
    if (is_never(r->out_at))
        return STORE_TIME_NEVER;
    /* The longest reason wins, so a pin only ever moves the end back. */
    store_time due = store_time_add(r->out_at, window_ns(p));
    due = store_time_max(due, r->requested_until);
    due = store_time_max(due, r->stash_until);
    return store_time_max(due, r->hold_until);
}

/* Sets out_at where it depends on the render alone. Grouped policies leave it: it depends on the
 * neighbours (place.c). */
static void plan_alone(const struct page_policy *p, struct page_render *r)
{
    switch (p->kind) {
    case POLICY_APP_TTL:
    case POLICY_LATEST_HASH:
        r->out_at = r->superseded_at;
        break;
    case POLICY_ALL:
        r->out_at = STORE_TIME_NEVER;
        break;
    case POLICY_TTL:
        r->out_at = r->stored_at;
        break;
    case POLICY_LATEST:
    case POLICY_INTERVAL:
    case POLICY_KINDS:
        break;
    }
    r->due_at = retention_due(p, r);
}

/* Under ttl the latest runs out, too: out_at is when it was stored. */
void retention_make_latest(const struct page_policy *p, struct page_render *r)
{
    r->superseded_at = STORE_TIME_NEVER;
    r->superseded_by = (struct page_name){ 0 };
    r->out_at = STORE_TIME_NEVER;
    plan_alone(p, r);
}

void retention_supersede(const struct page_policy *p, struct page_render *r, struct page_name by,
                         store_time now)
{
    r->superseded_at = now;
    r->superseded_by = by;
    plan_alone(p, r);
}

void retention_drop(const struct page_policy *p, struct page_render *r, store_time now)
{
    INVARIANT(retention_grouped(p));
    r->out_at = now;
    r->due_at = retention_due(p, r);
}

void retention_keep(const struct page_policy *p, struct page_render *r)
{
    INVARIANT(retention_grouped(p));
    r->out_at = STORE_TIME_NEVER;
    r->due_at = STORE_TIME_NEVER;
}

/* A reader may have the render until now, so due_at is not set before now. */
void retention_repin(const struct page_policy *p, struct page_render *r, store_time now)
{
    r->due_at = store_time_max(retention_due(p, r), now);
}

int64_t retention_stash_left(const struct page_render *r, store_time now)
{
    return store_time_before(now, r->stash_until) ? r->stash_until.ns - now.ns : 0;
}

void retention_replan(const struct page_plan *plan, enum page_policy_kind before,
                      struct page_render *r, bool out_of_group)
{
    const struct page_policy *p = &plan->policy;
    if (retention_grouped(p)) {
        bool was_grouped = before == POLICY_LATEST || before == POLICY_INTERVAL;
        if (!out_of_group)
            r->out_at = STORE_TIME_NEVER;
        /* The policy before did not count groups, so the window runs from the change. */
        else if (!was_grouped || is_never(r->out_at))
            r->out_at = plan->changed_at;
    }
    plan_alone(p, r);
    /* A new policy does not take what was readable until now. */
    r->due_at = store_time_max(r->due_at, plan->changed_at);
}

static bool policy_keeps(const struct page_policy *p, const struct page_render *r, store_time now)
{
    return is_never(r->out_at) || store_time_before(now, store_time_add(r->out_at, window_ns(p)));
}

/* Superseded within its window. latest_hash has no window; under ttl the window runs from the put.
 */
static bool is_recent(const struct page_policy *p, const struct page_render *r, store_time now)
{
    if (p->kind == POLICY_TTL)
        return policy_keeps(p, r, now);
    if (p->kind == POLICY_LATEST_HASH)
        return false;
    return store_time_before(now, store_time_add(r->superseded_at, p->grace_ttl_ns));
}

/* A render past due is culled, hidden or not. Then the strongest reason is told. */
enum page_state retention_state(const struct page_policy *p, const struct page_render *r,
                                store_time now)
{
    if (!store_time_before(now, r->due_at))
        return PAGE_CULLED;
    if (r->hidden != PAGE_CURRENT)
        return r->hidden;
    if (is_never(r->superseded_at))
        return PAGE_CURRENT;
    if (is_recent(p, r, now))
        return PAGE_RECENT;
    if (store_time_before(now, r->requested_until))
        return PAGE_HISTORICAL;
    if (store_time_before(now, r->stash_until) || store_time_before(now, r->hold_until))
        return PAGE_HELD;
    return PAGE_ARCHIVE;
}

const char *retention_reason(const struct page_policy *p, enum page_state s)
{
    static const char *const kept[POLICY_KINDS] = {
        [POLICY_APP_TTL] = "kept by its policy",
        [POLICY_ALL] = "its policy keeps every render",
        [POLICY_LATEST_HASH] = "kept by its policy",
        [POLICY_LATEST] = "one of the newest renders of its revision, or fell out of them less "
                          "than grace_ttl ago",
        [POLICY_INTERVAL] = "one of the newest renders of its interval, or fell out of them less "
                            "than grace_ttl ago",
        [POLICY_TTL] = "stored less than ttl ago",
    };
    switch (s) {
    case PAGE_CURRENT:
        return p->kind == POLICY_TTL ? "the latest render, stored less than ttl ago"
                                     : "the latest render";
    case PAGE_RECENT:
        return p->kind == POLICY_TTL ? "superseded, stored less than ttl ago"
                                     : "superseded less than grace_ttl ago";
    case PAGE_HISTORICAL:
        return "asked for less than historical_ttl ago";
    case PAGE_HELD:
        return "pinned by a stash or a hold";
    case PAGE_ARCHIVE:
        return kept[p->kind];
    case PAGE_CULLED:
        return "removed by policy";
    case PAGE_PURGED:
        return "removed by order";
    case PAGE_SUPPRESSED:
        return "its text is hidden at the wiki";
    case PAGE_DELETED:
        return "deleted at the wiki";
    case PAGE_UNKNOWN:
    case PAGE_STATES:
        break;
    }
    return "never stored, or so long ago that its trace is gone";
}

/* Two things can keep the promise: a window at each supersession to come that is long enough, or a
 * request that is written already. Stashes and holds do not count: both can be released. */
store_time retention_lasts_until(const struct page_policy *p, const struct page_render *r)
{
    bool enough = window_ns(p) >= p->historical_ttl_ns;
    if (is_never(r->out_at) && (p->kind == POLICY_ALL || enough))
        return STORE_TIME_NEVER;
    store_time end = r->requested_until;
    /* Superseded already: its window has an end. */
    if (!is_never(r->out_at))
        end = store_time_max(end, store_time_add(r->out_at, window_ns(p)));
    if (is_never(end))
        return end;
    /* A promise for good is kept by a request for good alone. */
    return p->historical_ttl_ns == DURATION_NEVER ? STORE_TIME_ZERO
                                                  : store_time_add(end, -p->historical_ttl_ns);
}

bool retention_wants_extension(const struct page_policy *p, const struct page_render *r,
                               store_time now)
{
    return store_time_before(retention_lasts_until(p, r), now);
}

void retention_extend(const struct page_policy *p, struct page_render *r, store_time now)
{
    store_time until = store_time_add(now, p->historical_ttl_ns);
    /* The quarter more: retention.h says why. */
    until = store_time_add(until,
                           p->historical_ttl_ns == DURATION_NEVER ? 0 : p->historical_ttl_ns / 4);
    r->requested_until = store_time_max(r->requested_until, until);
    retention_repin(p, r, now);
}
