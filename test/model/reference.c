#include "reference.h"
#include "bucket/page_write.h"

static int cmp(struct page_name a, struct page_name b)
{
    if (a.rev != b.rev)
        return a.rev < b.rev ? -1 : 1;
    return tid_cmp(a.tid, b.tid);
}

static bool never(store_time t)
{
    return t.ns == INT64_MAX;
}

static store_time plus(store_time t, int64_t ns)
{
    return never(t) ? t : (store_time){ .ns = t.ns + ns };
}

static bool grouped(const struct page_policy *p)
{
    return p->kind == POLICY_LATEST || p->kind == POLICY_INTERVAL;
}

bool ref_alive(const struct ref *ref, const struct ref_render *r)
{
    return r->fate == REF_STORED && r->due.ns > ref->now.ns;
}

/* Is the trace of a gone one still known? */
static bool traced(const struct ref *ref, const struct ref_render *r)
{
    return r->fate != REF_STORED && r->gone_at.ns + ref->policy.ledger_ttl_ns > ref->now.ns;
}

void ref_sweep(const struct ref *ref, struct ref_title *t)
{
    for (unsigned i = 0; i < t->count; i++) {
        struct ref_render *r = &t->renders[i];
        if (r->fate != REF_STORED || ref_alive(ref, r))
            continue;
        INVARIANT(r->due.ns >= r->promised.ns);
        r->fate = REF_CULLED;
        r->gone_at = r->due;
        r->gone_policy = ref->policy.kind;
    }
}

const struct ref_render *ref_next(const struct ref *ref, const struct ref_title *t,
                                  const struct page_name *below)
{
    const struct ref_render *best = NULL;
    for (unsigned i = 0; i < t->count; i++) {
        const struct ref_render *r = &t->renders[i];
        if (!ref_alive(ref, r) || (below != NULL && cmp(r->name, *below) >= 0))
            continue;
        if (best == NULL || cmp(r->name, best->name) > 0)
            best = r;
    }
    return best;
}

static struct ref_render *greatest(const struct ref *ref, struct ref_title *t)
{
    const struct ref_render *r = ref_next(ref, t, NULL);
    return r == NULL ? NULL : &t->renders[r - t->renders];
}

/* ---- how long ---- */

static store_time due_of(const struct page_policy *p, const struct ref_render *r)
{
    int64_t window = p->kind == POLICY_TTL           ? p->ttl_ns
                     : p->kind == POLICY_LATEST_HASH ? 0
                                                     : p->grace_ttl_ns;
    if (never(r->out_at))
        return STORE_TIME_NEVER;
    store_time due = plus(r->out_at, window);
    const store_time pins[] = { r->requested, r->stashed, r->held };
    for (unsigned i = 0; i < COUNT_OF(pins); i++)
        if (pins[i].ns > due.ns)
            due = pins[i];
    return due;
}

static int64_t interval_of(const struct page_policy *p, struct page_name name)
{
    int64_t t = tid_time(name.tid).ns, n = p->interval_ns;
    return t >= 0 ? t / n : -((-t + n - 1) / n);
}

static bool same_group(const struct page_policy *p, struct page_name a, struct page_name b)
{
    if (a.rev != b.rev)
        return false;
    return p->kind == POLICY_LATEST || interval_of(p, a) == interval_of(p, b);
}

static unsigned rank_in_group(const struct ref *ref, const struct ref_title *t,
                              const struct ref_render *r)
{
    unsigned rank = 0;
    for (unsigned i = 0; i < t->count; i++)
        if (ref_alive(ref, &t->renders[i]) &&
            same_group(&ref->policy, t->renders[i].name, r->name) &&
            cmp(t->renders[i].name, r->name) > 0)
            rank++;
    return rank;
}

/* Grouped policies: who is among the newest count of its group now? Ranks first, changes after. */
static void regroup(const struct ref *ref, struct ref_title *t, bool keep_out_at)
{
    unsigned ranks[REF_RENDERS_MAX];
    for (unsigned i = 0; i < t->count; i++)
        ranks[i] = rank_in_group(ref, t, &t->renders[i]);
    for (unsigned i = 0; i < t->count; i++) {
        struct ref_render *r = &t->renders[i];
        if (!ref_alive(ref, r))
            continue;
        store_time was = r->out_at;
        if (ranks[i] < ref->policy.count)
            r->out_at = STORE_TIME_NEVER;
        else if (never(was) || !keep_out_at)
            r->out_at = ref->now;
        if (was.ns != r->out_at.ns)
            r->due = due_of(&ref->policy, r);
    }
}

/* out_at and due_at of one render by itself. */
static void plan(const struct ref *ref, struct ref_render *r)
{
    const struct page_policy *p = &ref->policy;
    if (p->kind == POLICY_APP_TTL || p->kind == POLICY_LATEST_HASH)
        r->out_at = r->superseded_at;
    if (p->kind == POLICY_ALL)
        r->out_at = STORE_TIME_NEVER;
    if (p->kind == POLICY_TTL)
        r->out_at = r->stored_at;
    r->due = due_of(p, r);
}

static bool recent(const struct ref *ref, const struct ref_render *r)
{
    if (ref->policy.kind == POLICY_TTL)
        return plus(r->stored_at, ref->policy.ttl_ns).ns > ref->now.ns;
    if (ref->policy.kind == POLICY_LATEST_HASH)
        return false;
    return plus(r->superseded_at, ref->policy.grace_ttl_ns).ns > ref->now.ns;
}

enum page_state ref_state(const struct ref *ref, const struct ref_render *r)
{
    if (r->fate != REF_STORED)
        return r->fate == REF_PURGED ? PAGE_PURGED : PAGE_CULLED;
    if (never(r->superseded_at))
        return PAGE_CURRENT;
    if (recent(ref, r))
        return PAGE_RECENT;
    if (r->requested.ns > ref->now.ns)
        return PAGE_HISTORICAL;
    if (r->stashed.ns > ref->now.ns || r->held.ns > ref->now.ns)
        return PAGE_HELD;
    return PAGE_ARCHIVE;
}

/* ---- put ---- */

static struct ref_render *named(struct ref_title *t, struct page_name name)
{
    for (unsigned i = 0; i < t->count; i++)
        if (cmp(t->renders[i].name, name) == 0)
            return &t->renders[i];
    return NULL;
}

static bool fence_covers(const struct ref_fence *f, struct page_name name)
{
    if (f->has_rev && f->name.rev != name.rev)
        return false;
    return !f->has_tid || tid_cmp(f->name.tid, name.tid) == 0;
}

static bool fenced(const struct ref_title *t, struct page_name name)
{
    for (unsigned i = 0; i < t->fences_count; i++)
        if (fence_covers(&t->fences[i], name) && tid_time(name.tid).ns <= t->fences[i].at.ns)
            return true;
    return false;
}

bool ref_mint_is_fine(const struct ref *ref, const struct ref_title *t, struct page_name minted)
{
    if (tid_time(minted.tid).ns < ref->now.ns || fenced(t, minted))
        return false;
    for (unsigned i = 0; i < t->count; i++) {
        const struct ref_render *r = &t->renders[i];
        bool known = ref_alive(ref, r) || traced(ref, r);
        if (known && r->name.rev == minted.rev && tid_cmp(r->name.tid, minted.tid) >= 0)
            return false;
    }
    return true;
}

static err duplicate(const struct ref *ref, struct ref_put *p, struct ref_render *r)
{
    p->stored = r->name;
    p->latest = never(r->superseded_at);
    p->applied = false;
    store_time until = plus(ref->now, p->stash_ns);
    if (p->stash_ns > 0 && until.ns > r->stashed.ns) {
        r->stashed = until;
        r->due = due_of(&ref->policy, r);
        if (r->due.ns < ref->now.ns)
            r->due = ref->now;
    }
    return ERR_OK;
}

static err stored_before(const struct ref *ref, struct ref_title *t, struct ref_put *p)
{
    struct ref_render *same = named(t, p->name), *newest = NULL;
    if (!p->minted && same != NULL && ref_alive(ref, same)) {
        if (same->text != p->text || same->about != p->about)
            return ERR_CONFLICT;
        return duplicate(ref, p, same);
    }
    for (unsigned i = 0; i < t->count; i++) {
        struct ref_render *r = &t->renders[i];
        if (ref_alive(ref, r) && r->name.rev == p->name.rev &&
            (newest == NULL || cmp(r->name, newest->name) > 0))
            newest = r;
    }
    if (newest != NULL && newest->text == p->text)
        return duplicate(ref, p, newest);
    return ERR_NOT_FOUND;
}

/* The least stored name above this one. */
static const struct ref_render *neighbour(const struct ref *ref, const struct ref_title *t,
                                          struct page_name name)
{
    const struct ref_render *best = NULL;
    for (unsigned i = 0; i < t->count; i++)
        if (ref_alive(ref, &t->renders[i]) && cmp(t->renders[i].name, name) > 0 &&
            (best == NULL || cmp(t->renders[i].name, best->name) < 0))
            best = &t->renders[i];
    return best;
}

static err insert(const struct ref *ref, struct ref_title *t, struct ref_put *p)
{
    const struct ref_render *above = neighbour(ref, t, p->name);
    struct ref_render *latest = greatest(ref, t), *slot = named(t, p->name);
    struct ref_render r = { .name = p->name,
                            .text = p->text,
                            .about = p->about,
                            .stored_at = ref->now,
                            .superseded_at = above == NULL ? STORE_TIME_NEVER : ref->now,
                            .out_at = STORE_TIME_NEVER };
    if (above != NULL)
        r.superseded_by = above->name;
    if (p->stash_ns > 0)
        r.stashed = plus(ref->now, p->stash_ns);
    plan(ref, &r);
    if (grouped(&ref->policy) && rank_in_group(ref, t, &r) >= ref->policy.count) {
        r.out_at = ref->now;
        r.due = due_of(&ref->policy, &r);
    }
    if (r.due.ns <= ref->now.ns) {
        p->gone = PAGE_CULLED;
        return ERR_GONE;
    }
    if (above == NULL && latest != NULL && never(latest->superseded_at)) {
        latest->superseded_at = ref->now;
        latest->superseded_by = r.name;
        plan(ref, latest);
    }
    if (slot == NULL) {
        INVARIANT(t->count < REF_RENDERS_MAX);
        slot = &t->renders[t->count++];
    }
    *slot = r;
    if (grouped(&ref->policy))
        regroup(ref, t, true);
    p->stored = r.name;
    p->latest = above == NULL;
    p->applied = true;
    ref_sweep(ref, t);
    return ERR_OK;
}

err ref_put(const struct ref *ref, struct ref_title *t, struct ref_put *p)
{
    if (!p->minted && fenced(t, p->name)) {
        p->gone = PAGE_PURGED;
        return ERR_GONE;
    }
    err e = stored_before(ref, t, p);
    return e == ERR_NOT_FOUND ? insert(ref, t, p) : e;
}

/* ---- orders ---- */

static bool in_range(const struct ref_order *o, struct page_name name)
{
    struct ref_fence range = { .has_rev = o->has_rev, .has_tid = o->has_tid, .name = o->name };
    return fence_covers(&range, name);
}

static err purge(const struct ref *ref, struct ref_title *t, struct ref_order *o)
{
    bool took_latest = false;
    INVARIANT(t->fences_count < REF_FENCES_MAX);
    t->fences[t->fences_count++] = (struct ref_fence){ o->has_rev, o->has_tid, o->name, ref->now };
    for (unsigned i = 0; i < t->count; i++) {
        struct ref_render *r = &t->renders[i];
        if (!ref_alive(ref, r) || !in_range(o, r->name))
            continue;
        took_latest |= never(r->superseded_at);
        r->fate = REF_PURGED;
        r->gone_at = ref->now;
        r->gone_policy = ref->policy.kind;
        o->purged++;
    }
    if (grouped(&ref->policy))
        regroup(ref, t, true);
    struct ref_render *r = greatest(ref, t);
    if (took_latest && r != NULL) {
        r->superseded_at = STORE_TIME_NEVER;
        r->superseded_by = (struct page_name){ 0 };
        plan(ref, r);
    }
    return ERR_OK;
}

static void repin(const struct ref *ref, struct ref_render *r)
{
    r->due = due_of(&ref->policy, r);
    if (r->due.ns < ref->now.ns)
        r->due = ref->now;
}

/* When it is gone if it falls out of its policy now and every stash and hold of it ends. */
static store_time surely_until(const struct ref *ref, const struct ref_render *r)
{
    struct ref_render worst = *r;
    if (never(r->out_at) && ref->policy.kind == POLICY_ALL)
        return STORE_TIME_NEVER;
    if (never(r->out_at))
        worst.out_at = ref->now;
    worst.stashed = worst.held = STORE_TIME_ZERO;
    return due_of(&ref->policy, &worst);
}

static void pin(const struct ref *ref, struct ref_render *r, const struct ref_order *o)
{
    const struct page_policy *p = &ref->policy;
    switch (o->kind) {
    case ORDER_EXTEND:
        r->promised = plus(ref->now, p->historical_ttl_ns);
        if (surely_until(ref, r).ns >= r->promised.ns)
            return;
        if (r->requested.ns < ref->now.ns + p->historical_ttl_ns / 4 * 5)
            r->requested = plus(ref->now, p->historical_ttl_ns / 4 * 5);
        break;
    case ORDER_STASH:
        if (r->stashed.ns >= plus(ref->now, p->stash_ttl_ns).ns)
            return;
        r->stashed = plus(ref->now, p->stash_ttl_ns);
        break;
    case ORDER_HOLD:
        r->held = o->until;
        break;
    case ORDER_RELEASE:
        if (r->held.ns == 0)
            return;
        r->held = STORE_TIME_ZERO;
        break;
    case ORDER_PURGE:
    case ORDER_UNSTASH: /* the histories have none of both */
        break;
    }
    repin(ref, r);
}

err ref_order(const struct ref *ref, struct ref_title *t, struct ref_order *o)
{
    const struct ref_render *found;
    if (o->kind == ORDER_PURGE)
        return purge(ref, t, o);
    err e = ref_find(ref, t,
                     !o->has_rev  ? SELECT_LATEST
                     : o->has_tid ? SELECT_EXACT
                                  : SELECT_REV,
                     o->name, STORE_TIME_ZERO, &found);
    if (e != ERR_OK)
        return e;
    if (o->kind == ORDER_HOLD && o->until.ns <= ref->now.ns)
        return ERR_BAD;
    uint64_t rev = found->name.rev;
    if (o->kind != ORDER_RELEASE || o->has_tid)
        pin(ref, &t->renders[found - t->renders], o);
    else
        for (unsigned i = 0; i < t->count; i++)
            if (ref_alive(ref, &t->renders[i]) && t->renders[i].name.rev == rev)
                pin(ref, &t->renders[i], o);
    ref_sweep(ref, t);
    return ERR_OK;
}

void ref_policy(struct ref *ref, struct ref_title *titles, unsigned count,
                const struct page_policy *policy)
{
    bool was_grouped = grouped(&ref->policy);
    bool alike =
        ref->policy.kind == policy->kind && ref->policy.grace_ttl_ns == policy->grace_ttl_ns &&
        ref->policy.count == policy->count && ref->policy.interval_ns == policy->interval_ns &&
        ref->policy.ttl_ns == policy->ttl_ns;
    for (unsigned i = 0; i < count; i++)
        ref_sweep(ref, &titles[i]);
    ref->policy = *policy;
    for (unsigned i = 0; i < count && !alike; i++) {
        if (grouped(policy))
            regroup(ref, &titles[i], was_grouped);
        for (unsigned j = 0; j < titles[i].count; j++) {
            struct ref_render *r = &titles[i].renders[j];
            r->promised = STORE_TIME_ZERO;
            if (!ref_alive(ref, r))
                continue;
            plan(ref, r);
            if (r->due.ns < ref->now.ns)
                r->due = ref->now;
        }
        ref_sweep(ref, &titles[i]);
    }
}

/* ---- reads ---- */

static bool served(const struct ref_render *r, store_time at)
{
    return r->stored_at.ns <= at.ns && at.ns < r->superseded_at.ns;
}

/* Of those asked for, the greatest that is stored, or else the greatest whose trace is known. */
static bool asked_for(const struct ref_render *r, enum page_select select, struct page_name name,
                      store_time at)
{
    if (select == SELECT_REV)
        return r->name.rev == name.rev;
    if (select == SELECT_EXACT)
        return cmp(r->name, name) == 0;
    return select != SELECT_SERVED_AT || served(r, at);
}

static err revision_at(const struct ref *ref, const struct ref_title *t, store_time at,
                       uint64_t *rev)
{
    bool found = false;
    for (unsigned i = 0; i < t->count; i++) {
        const struct ref_render *r = &t->renders[i];
        if ((!ref_alive(ref, r) && !traced(ref, r)) || tid_time(r->name.tid).ns > at.ns)
            continue;
        if (!found || r->name.rev > *rev)
            *rev = r->name.rev;
        found = true;
    }
    return found ? ERR_OK : ERR_NOT_FOUND;
}

err ref_find(const struct ref *ref, const struct ref_title *t, enum page_select select,
             struct page_name name, store_time at, const struct ref_render **out)
{
    const struct ref_render *stored = NULL, *gone = NULL;
    if (select == SELECT_CURRENT_AT) {
        if (revision_at(ref, t, at, &name.rev) != ERR_OK)
            return ERR_NOT_FOUND;
        select = SELECT_REV;
    }
    for (unsigned i = 0; i < t->count; i++) {
        const struct ref_render *r = &t->renders[i];
        if (!asked_for(r, select, name, at))
            continue;
        if (ref_alive(ref, r) && (stored == NULL || cmp(r->name, stored->name) > 0))
            stored = r;
        if (traced(ref, r) && (gone == NULL || cmp(r->name, gone->name) > 0))
            gone = r;
    }
    if (select == SELECT_LATEST && stored != NULL && !never(stored->superseded_at))
        stored = NULL; /* ttl: the latest ran out before it */
    *out = stored != NULL ? stored : gone;
    return stored != NULL ? ERR_OK : gone != NULL ? ERR_GONE : ERR_NOT_FOUND;
}
