/* naive.c - see naive.h. */
#include "naive.h"

#include <string.h>

typedef struct naive_render render;

static int cmp(struct page_name a, struct page_name b)
{
    if (a.rev != b.rev)
        return a.rev < b.rev ? -1 : 1;
    return tid_cmp(a.tid, b.tid);
}

static store_time plus(store_time t, int64_t ns)
{
    return t.ns == INT64_MAX ? t : (store_time){ .ns = t.ns + ns };
}

static store_time later(store_time a, store_time b)
{
    return a.ns > b.ns ? a : b;
}

static const struct page_policy *policy(const struct naive *n)
{
    return &n->plan->policy;
}

static bool grouped(const struct page_policy *p)
{
    return p->kind == POLICY_LATEST || p->kind == POLICY_INTERVAL;
}

static bool there(const struct naive *n, const render *r)
{
    return r->fate == NAIVE_STORED && r->due.ns > n->now.ns;
}

static bool shown(const struct naive *n, const render *r)
{
    return there(n, r) && r->hidden == PAGE_CURRENT;
}

static bool is_latest(const render *r)
{
    return r->superseded.ns == INT64_MAX;
}

static render *named(struct naive *n, struct page_name name)
{
    for (unsigned i = 0; i < n->count; i++)
        if (cmp(n->renders[i].name, name) == 0)
            return &n->renders[i];
    return NULL;
}

static render *newest(struct naive *n)
{
    render *best = NULL;
    for (unsigned i = 0; i < n->count; i++)
        if (shown(n, &n->renders[i]) && (best == NULL || cmp(n->renders[i].name, best->name) > 0))
            best = &n->renders[i];
    return best;
}

static render *least_above(struct naive *n, struct page_name name)
{
    render *best = NULL;
    for (unsigned i = 0; i < n->count; i++)
        if (shown(n, &n->renders[i]) && cmp(n->renders[i].name, name) > 0 &&
            (best == NULL || cmp(n->renders[i].name, best->name) < 0))
            best = &n->renders[i];
    return best;
}

/* ---- how long ---- */

static store_time due_of(const struct page_policy *p, const render *r)
{
    int64_t window = p->kind == POLICY_TTL                     ? p->ttl_ns
                     : p->kind == POLICY_APP_TTL || grouped(p) ? p->grace_ttl_ns
                                                               : 0;
    if (r->out.ns == INT64_MAX)
        return r->out;
    return later(later(plus(r->out, window), r->requested), later(r->stashed, r->held));
}

static void plan_one(const struct naive *n, render *r)
{
    const struct page_policy *p = policy(n);
    if (p->kind == POLICY_APP_TTL || p->kind == POLICY_LATEST_HASH)
        r->out = r->superseded;
    if (p->kind == POLICY_ALL)
        r->out = STORE_TIME_NEVER;
    if (p->kind == POLICY_TTL)
        r->out = r->stored;
    r->due = due_of(p, r);
}

static void supersede(const struct naive *n, render *r, struct page_name by)
{
    r->superseded = n->now;
    r->by = by;
    plan_one(n, r);
}

static void make_latest(const struct naive *n, render *r)
{
    r->superseded = r->out = STORE_TIME_NEVER;
    r->by = (struct page_name){ 0 };
    plan_one(n, r);
}

/* A pin ended: whoever does not know it yet may pin the render still. */
static void unpin(const struct naive *n, render *r)
{
    r->due = later(due_of(policy(n), r), plus(n->now, n->in->linger_ns));
}

static void repin(const struct naive *n, render *r)
{
    r->due = later(due_of(policy(n), r), n->now);
}

/* As after a read that names it. */
static void request(const struct naive *n, render *r)
{
    int64_t ttl = policy(n)->historical_ttl_ns;
    r->requested = later(r->requested, plus(n->now, ttl + ttl / 4));
    repin(n, r);
}

static int64_t interval_of(const struct page_policy *p, struct page_name name)
{
    int64_t t = tid_time(name.tid).ns, each = p->interval_ns;
    return t >= 0 ? t / each : -((-t + each - 1) / each);
}

static bool same_group(const struct page_policy *p, struct page_name a, struct page_name b)
{
    return a.rev == b.rev && (p->kind == POLICY_LATEST || interval_of(p, a) == interval_of(p, b));
}

static unsigned rank(const struct naive *n, struct page_name name)
{
    unsigned above = 0;
    for (unsigned i = 0; i < n->count; i++)
        above += there(n, &n->renders[i]) && same_group(policy(n), n->renders[i].name, name) &&
                 cmp(n->renders[i].name, name) > 0;
    return above;
}

/* ---- going ---- */

static void gone(const struct naive *n, render *r, enum naive_fate fate, store_time at)
{
    r->fate = fate;
    r->gone_at = at;
    r->policy = policy(n)->kind;
    r->known_until = plus(at, policy(n)->ledger_ttl_ns);
}

static void expire(struct naive *n, store_time now)
{
    n->now = now;
    for (unsigned i = 0; i < n->count; i++)
        if (n->renders[i].fate == NAIVE_STORED && !there(n, &n->renders[i]))
            gone(n, &n->renders[i], NAIVE_CULLED, n->renders[i].due);
}

static void replan(struct naive *n, const struct page_plan *plan)
{
    static unsigned ranks[NAIVE_MAX];
    bool anew = plan->number > n->plan->number, was_grouped = grouped(policy(n));
    n->plan = plan;
    for (unsigned i = 0; i < n->count && anew && grouped(policy(n)); i++)
        ranks[i] = rank(n, n->renders[i].name);
    for (unsigned i = 0; i < n->count && anew; i++) {
        render *r = &n->renders[i];
        if (!there(n, r))
            continue;
        if (grouped(policy(n)) && ranks[i] < policy(n)->count)
            r->out = STORE_TIME_NEVER;
        else if (grouped(policy(n)) && (!was_grouped || r->out.ns == INT64_MAX))
            r->out = plan->changed_at;
        plan_one(n, r);
        r->due = later(r->due, plan->changed_at);
    }
}

/* ---- put ---- */

static bool is_hide(const struct fact *f)
{
    return f->what == FACT_SUPPRESSED || f->what == FACT_DELETED;
}

static bool covers(const struct fact *purge, struct page_name name)
{
    bool all = purge->what == FACT_FENCE || purge->name.rev == 0;
    bool rev = purge->name.rev == name.rev;
    bool exact = purge->name.tid.ticks != 0 || purge->name.tid.low != 0;
    return all || (rev && (!exact || tid_cmp(purge->name.tid, name.tid) == 0));
}

static bool is_purge(const struct fact *f)
{
    return f->what == FACT_PURGE || f->what == FACT_PURGE_ELSEWHERE || f->what == FACT_FENCE;
}

static bool purged_before(const struct naive *n, const struct fact *put)
{
    for (unsigned i = 0; i < n->done_count; i++)
        if (is_purge(n->done[i]) && covers(n->done[i], put->name) &&
            tid_time(put->name.tid).ns <= n->done[i]->at.ns)
            return true;
    return false;
}

/* The marks that came before say of it what they would have said had it been there. */
static void hide_as_before(const struct naive *n, const struct fact *put, render *r)
{
    int64_t skew = n->in->skew_ns;
    for (unsigned i = 0; i < n->done_count; i++) {
        const struct fact *f = n->done[i];
        bool hides = is_hide(f) && put->said_at.ns < plus(f->said_at, skew).ns;
        if ((!is_hide(f) && f->what != FACT_SHOWN) || r->name.rev < f->name.rev ||
            r->name.rev > f->rev_last)
            continue;
        if (hides) {
            if (f->what == FACT_SUPPRESSED)
                r->hidden = PAGE_SUPPRESSED;
            else if (r->hidden == PAGE_CURRENT)
                r->hidden = PAGE_DELETED;
            r->hidden_at = later(r->hidden_at, f->said_at);
        } else if (f->what == FACT_SHOWN && f->said_at.ns >= plus(r->hidden_at, skew).ns) {
            r->hidden = PAGE_CURRENT;
            r->hidden_at = STORE_TIME_ZERO;
        }
    }
}

/* The one that falls out of its group when a render of this name comes. */
static render *faller(struct naive *n, struct page_name name)
{
    for (unsigned i = 0; i < n->count; i++) {
        render *r = &n->renders[i];
        if (there(n, r) && same_group(policy(n), r->name, name) && cmp(r->name, name) < 0 &&
            rank(n, r->name) == policy(n)->count - 1)
            return r->out.ns == INT64_MAX ? r : NULL;
    }
    return NULL;
}

/* Where it stands among those that are there. */
static void place(struct naive *n, const struct fact *put, render *r)
{
    const render *latest = newest(n);
    make_latest(n, r);
    if (latest != NULL && cmp(r->name, latest->name) < 0)
        supersede(n, r, least_above(n, r->name)->name);
    else if (put->behind > r->name.rev)
        supersede(n, r, (struct page_name){ .rev = put->behind });
    else if (r->hidden != PAGE_CURRENT)
        supersede(n, r, (struct page_name){ .rev = r->name.rev + 1 });
    if (grouped(policy(n)) && rank(n, r->name) >= policy(n)->count) {
        r->out = n->now;
        r->due = due_of(policy(n), r);
    }
    if (r->hidden != PAGE_CURRENT && r->due.ns <= n->now.ns)
        request(n, r);
}

/* What is not there any more after the put. */
static void apply_to_others(struct naive *n, const render *r)
{
    render *latest = newest(n), *falls = grouped(policy(n)) ? faller(n, r->name) : NULL;
    if (latest != NULL && is_latest(latest) && r->hidden == PAGE_CURRENT &&
        cmp(r->name, latest->name) > 0)
        supersede(n, latest, r->name);
    if (falls != NULL) {
        falls->out = n->now;
        falls->due = due_of(policy(n), falls);
    }
}

static bool do_put(struct naive *n, const struct fact *f)
{
    render *slot = named(n, f->name);
    render r = { .name = f->name,
                 .stored = f->at,
                 .said = f->said_at,
                 .requested = f->until,
                 .stashed = f->stash_until,
                 .made = f->made,
                 .put = f,
                 .superseded = STORE_TIME_NEVER };
    if (slot != NULL && there(n, slot)) {
        n->conflicts += memcmp(slot->put->digest, f->digest, sizeof(f->digest)) != 0;
        return true;
    }
    bool purged = purged_before(n, f);
    if (purged) {
        gone(n, &r, NAIVE_PURGED, n->now);
    } else {
        hide_as_before(n, f, &r);
        place(n, f, &r);
        if (r.due.ns > n->now.ns)
            apply_to_others(n, &r);
        else
            gone(n, &r, NAIVE_CULLED, n->now);
    }
    if (slot == NULL && n->count == NAIVE_MAX)
        return false;
    if (slot == NULL)
        slot = &n->renders[n->count++];
    *slot = r;
    return true;
}

/* ---- the rest ---- */

static void refill(struct naive *n, struct page_name name)
{
    render *best = NULL;
    for (unsigned i = 0; i < n->count; i++) {
        render *r = &n->renders[i];
        if (there(n, r) && same_group(policy(n), r->name, name) && r->out.ns != INT64_MAX &&
            rank(n, r->name) < policy(n)->count && (best == NULL || cmp(r->name, best->name) > 0))
            best = r;
    }
    if (best != NULL)
        best->out = best->due = STORE_TIME_NEVER;
}

static void do_purge(struct naive *n, const struct fact *f)
{
    bool took = false, exact = f->name.tid.ticks != 0 || f->name.tid.low != 0;
    unsigned count = 0;
    for (unsigned i = 0; i < n->count; i++) {
        render *r = &n->renders[i];
        if (r->fate != NAIVE_STORED || !covers(f, r->name))
            continue;
        bool was = there(n, r);
        took |= was && is_latest(r);
        count += was;
        gone(n, r, was ? NAIVE_PURGED : NAIVE_CULLED, was ? n->now : r->due);
    }
    if (exact && count > 0 && grouped(policy(n)))
        refill(n, f->name);
    render *r = newest(n);
    if (!took || r == NULL || is_latest(r))
        return;
    if (f->what == FACT_PURGE)
        make_latest(n, r);
    else
        r->by.tid = (struct tid){ 0 };
}

static void do_hide(struct naive *n, const struct fact *f)
{
    struct page_name greatest = { 0 };
    for (unsigned i = 0; i < n->count; i++) {
        render *r = &n->renders[i];
        if (!there(n, r) || r->name.rev < f->name.rev || r->name.rev > f->rev_last ||
            plus(f->said_at, n->in->skew_ns).ns < r->said.ns)
            continue;
        bool was_shown = r->hidden == PAGE_CURRENT;
        if (f->what == FACT_SUPPRESSED || was_shown)
            r->hidden = f->what == FACT_SUPPRESSED ? PAGE_SUPPRESSED : PAGE_DELETED;
        r->hidden_at = later(r->hidden_at, f->said_at);
        if (was_shown && cmp(r->name, greatest) > 0)
            greatest = r->name;
        if (is_latest(r)) {
            supersede(n, r, (struct page_name){ .rev = r->name.rev + 1 });
            if (!there(n, r))
                request(n, r);
        }
    }
    render *left = newest(n);
    if (left != NULL && greatest.rev != 0 && cmp(left->name, greatest) < 0 && !is_latest(left))
        left->by.tid = (struct tid){ 0 }; /* until the wiki says that it is the latest */
}

static void do_show(struct naive *n, const struct fact *f)
{
    render *latest = newest(n);
    for (unsigned i = 0; i < n->count; i++) {
        render *r = &n->renders[i];
        if (there(n, r) && r->hidden != PAGE_CURRENT && r->name.rev >= f->name.rev &&
            r->name.rev <= f->rev_last && f->said_at.ns >= plus(r->hidden_at, n->in->skew_ns).ns) {
            r->hidden = PAGE_CURRENT;
            r->hidden_at = STORE_TIME_ZERO;
        }
    }
    render *above = latest == NULL ? NULL : least_above(n, latest->name);
    if (above != NULL && is_latest(latest))
        supersede(n, latest, above->name);
}

static void do_word(struct naive *n, const struct fact *f)
{
    render *r = newest(n);
    if (r == NULL)
        return;
    const render *by = named(n, r->by);
    bool unmade = r->by.tid.ticks == 0 && r->by.tid.low == 0;
    bool waits = unmade || (by != NULL && there(n, by) && by->hidden != PAGE_CURRENT);
    if (is_latest(r) && f->name.rev > r->name.rev)
        supersede(n, r, f->name);
    else if (!is_latest(r) && f->name.rev == r->name.rev && waits)
        make_latest(n, r);
}

static void do_release(struct naive *n, const struct fact *f)
{
    for (unsigned i = 0; i < n->count; i++)
        if (there(n, &n->renders[i]) && covers(f, n->renders[i].name) &&
            n->renders[i].held.ns != 0) {
            n->renders[i].held = STORE_TIME_ZERO;
            unpin(n, &n->renders[i]);
        }
}

static void do_one(struct naive *n, const struct fact *f)
{
    render *r = named(n, f->name);
    if (r == NULL || !there(n, r))
        return;
    if (f->what == FACT_DROP) {
        gone(n, r, NAIVE_PURGED, n->now);
        if (grouped(policy(n)))
            refill(n, f->name);
    }
    if (f->what == FACT_MADE && title_under_later(f->made, r->made))
        r->made = f->made;
    if (f->what == FACT_DROP || f->what == FACT_MADE)
        return;
    if (f->what == FACT_REQUEST)
        r->requested = later(r->requested, f->until);
    if (f->what == FACT_STASH)
        r->stashed = later(r->stashed, f->until);
    if (f->what == FACT_HOLD)
        r->held = f->until;
    if (f->what == FACT_UNSTASH)
        r->stashed = STORE_TIME_ZERO;
    if (f->what == FACT_UNSTASH)
        unpin(n, r);
    else
        repin(n, r);
}

static bool do_fact(struct naive *n, const struct fact *f)
{
    bool fits = true;
    if (f->what == FACT_PUT)
        fits = do_put(n, f);
    else if (f->what == FACT_PURGE || f->what == FACT_PURGE_ELSEWHERE)
        do_purge(n, f);
    else if (is_hide(f))
        do_hide(n, f);
    else if (f->what == FACT_SHOWN)
        do_show(n, f);
    else if (f->what == FACT_WORD)
        do_word(n, f);
    else if (f->what == FACT_RELEASE)
        do_release(n, f);
    else if (f->what != FACT_FENCE && f->what != FACT_FORGOTTEN)
        do_one(n, f);
    return fits;
}

/* ---- order ---- */

static store_time arrived(const struct fact *f)
{
    return f->what == FACT_FENCE || f->what == FACT_FORGOTTEN ? f->joined_at : f->at;
}

static int order(const struct fact *a, const struct fact *b)
{
    const int64_t pairs[][2] = {
        { arrived(a).ns, arrived(b).ns }, { a->n, b->n }, { a->what, b->what }, { a->srv, b->srv }
    };
    for (unsigned i = 0; i < COUNT_OF(pairs); i++)
        if (pairs[i][0] != pairs[i][1])
            return pairs[i][0] < pairs[i][1] ? -1 : 1;
    return cmp(a->name, b->name);
}

static bool forgotten(const struct title_facts *in, const struct fact *put)
{
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *f = &in->facts[i];
        if (put->what == FACT_PUT && f->what == FACT_FORGOTTEN && put->at.ns <= f->at.ns &&
            cmp(put->name, f->name) <= 0)
            return true;
    }
    return false;
}

static const struct fact *next_fact(const struct title_facts *in, const struct fact *after)
{
    const struct fact *best = NULL;
    for (size_t i = 0; i < in->facts_count; i++) {
        const struct fact *f = &in->facts[i];
        if ((after == NULL || order(f, after) > 0) && (best == NULL || order(f, best) < 0))
            best = f;
    }
    return best;
}

/* The earliest that is later than number; those of one number are one. */
static const struct title_plan *next_plan(const struct title_facts *in, int64_t number)
{
    const struct title_plan *best = NULL;
    for (size_t i = 0; i < in->plans_count; i++) {
        const struct title_plan *p = &in->plans[i];
        if (p->plan.number > number && (best == NULL || p->plan.number < best->plan.number))
            best = p;
    }
    return best;
}

static void plans_until(struct naive *n, store_time at, uint32_t count)
{
    const struct title_plan *p;
    while ((p = next_plan(n->in, n->plan->number)) != NULL &&
           (p->at.ns < at.ns || (p->at.ns == at.ns && p->n <= count))) {
        expire(n, p->at);
        replan(n, &p->plan);
    }
}

bool naive_derive(struct naive *n, const struct title_facts *in, store_time now)
{
    const struct fact *f = NULL;
    memset(n, 0, sizeof(*n));
    n->in = in;
    n->plan = &next_plan(in, -1)->plan;
    while ((f = next_fact(in, f)) != NULL) {
        now = later(now, arrived(f));
        if (forgotten(in, f))
            continue;
        plans_until(n, arrived(f), f->n);
        expire(n, arrived(f));
        if (n->done_count == NAIVE_MAX || !do_fact(n, f))
            return false;
        n->done[n->done_count++] = f;
    }
    plans_until(n, now, UINT32_MAX);
    expire(n, now);
    return true;
}

const struct naive_render *naive_find(const struct naive *n, struct page_name name)
{
    for (unsigned i = 0; i < n->count; i++) {
        const render *r = &n->renders[i];
        if (cmp(r->name, name) == 0 && (there(n, r) || r->known_until.ns > n->now.ns))
            return r;
    }
    return NULL;
}

const struct naive_render *naive_newest(const struct naive *n)
{
    const render *best = NULL;
    for (unsigned i = 0; i < n->count; i++)
        if (shown(n, &n->renders[i]) && (best == NULL || cmp(n->renders[i].name, best->name) > 0))
            best = &n->renders[i];
    return best;
}
