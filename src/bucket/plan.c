/* plan.c - the policy of each bucket: what the catalog has of it, and how another one comes into
 * force, at a start and while the store runs.
 *
 * Invariants
 *  1. A plan in force (page_bucket.plan) is on disk, and rows by a plan are on disk with it or
 * after it. So a start finds no row of a plan that it does not know.
 *  2. While an update with another plan is decided and not yet on disk (page_bucket.next),
 * decisions behind it ask the catalog, in their own view, by which of the two they are: it may
 * still fail.
 *  3. A plan stays in memory as long as its bucket: who began to read by it ends so. A reader may
 *     meet rows of a plan after its own, for a moment; those are as they should be.
 *  4. The next plan that plans rows anew comes once no row of the plans before the last is left. */
#include "bucket/catalog.h"

#include <stdlib.h>
#include <string.h>

enum { PLAN_REPLANNED = 1 }; /* flag 2 is in stores before, without a meaning now */
enum { CATALOG_VERSION = 1, PLAN_ROW_BYTES_MAX = 128 };

/* Plans that were in force since the start. Owner: the bucket; freed with it, as readers may
 * hold any. */
struct page_plan_kept {
    struct page_plan plan;
    struct page_plan_kept *before;
};

/* ---- plans as bytes ---- */

/* CATALOG_VERSION, bucket number, kind, flags, number of the plan, count, and seven times. */
static str plan_encode(uint16_t number, const struct page_plan *plan, char *out)
{
    const struct page_policy *p = &plan->policy;
    const int64_t times[] = { p->grace_ttl_ns,    p->historical_ttl_ns, p->stash_ttl_ns,
                              p->ledger_ttl_ns,   p->interval_ns,       p->ttl_ns,
                              plan->changed_at.ns };
    char *at = out;
    *at++ = CATALOG_VERSION;
    put_be16(at, number);
    at += 2;
    *at++ = (char)p->kind;
    *at++ = (char)(plan->replanned ? PLAN_REPLANNED : 0);
    put_be32(at, plan->number);
    put_be32(at + 4, p->count);
    at += 8;
    for (unsigned i = 0; i < COUNT_OF(times); i++, at += 8)
        put_be64(at, (uint64_t)times[i]);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

static err plan_decode(str value, uint16_t *number, struct page_plan *plan)
{
    struct cursor c = { .rest = value };
    struct page_policy *p = &plan->policy;
    uint8_t version = cursor_u8(&c);
    *number = cursor_be16(&c);
    uint8_t kind = cursor_u8(&c), flags = cursor_u8(&c);
    plan->number = cursor_be32(&c);
    p->count = cursor_be32(&c);
    int64_t *const times[] = { &p->grace_ttl_ns,    &p->historical_ttl_ns, &p->stash_ttl_ns,
                               &p->ledger_ttl_ns,   &p->interval_ns,       &p->ttl_ns,
                               &plan->changed_at.ns };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        *times[i] = (int64_t)cursor_be64(&c);
    if (!cursor_done(&c) || version != CATALOG_VERSION || kind >= POLICY_KINDS)
        return ERR_CORRUPT;
    p->kind = (enum page_policy_kind)kind;
    plan->replanned = (flags & PLAN_REPLANNED) != 0;
    return ERR_OK;
}

/* Do both policies plan rows alike? Fields that are not named here are part of no stored time. */
static bool plans_alike(const struct page_policy *a, const struct page_policy *b)
{
    if (a->kind != b->kind)
        return false;
    switch (a->kind) {
    case POLICY_APP_TTL:
        return a->grace_ttl_ns == b->grace_ttl_ns;
    case POLICY_LATEST:
        return a->grace_ttl_ns == b->grace_ttl_ns && a->count == b->count;
    case POLICY_INTERVAL:
        return a->grace_ttl_ns == b->grace_ttl_ns && a->count == b->count &&
               a->interval_ns == b->interval_ns;
    case POLICY_TTL:
        return a->ttl_ns == b->ttl_ns;
    case POLICY_ALL:
    case POLICY_LATEST_HASH:
    case POLICY_KINDS:
        break;
    }
    return true;
}

err bucket_policy_check(const struct page_policy *p, struct err_note *note)
{
    const int64_t times[] = { p->grace_ttl_ns, p->historical_ttl_ns, p->stash_ttl_ns,
                              p->ledger_ttl_ns, p->ttl_ns };
    for (unsigned i = 0; i < COUNT_OF(times); i++)
        if (times[i] < 0)
            return err_bad(note, "a time of a page policy is negative");
    bool grouped = retention_grouped(p);
    if (grouped && (p->count < 1 || p->count > PAGE_POLICY_COUNT_MAX))
        return err_bad(note, "policy %s: count must be 1 to %d", page_policy_name(p->kind),
                       PAGE_POLICY_COUNT_MAX);
    if (p->kind == POLICY_INTERVAL && p->interval_ns <= 0)
        return err_bad(note, "policy interval: interval must be greater than 0");
    return ERR_OK;
}

/* ---- one that comes into force ---- */

/* A plan that is to come into force. next: allocated before the update, which may decide more
 * than once. */
struct plan_job {
    struct page_bucket *bucket;
    const struct page_policy *policy; /* NULL: only load */
    struct page_plan_kept *next;      /* the job's until it is in force */
    uint16_t number;                  /* of the bucket */
    bool found;
};

static void job_init(struct plan_job *j, struct page_bucket *b, const struct page_policy *policy)
{
    *j = (struct plan_job){ .bucket = b, .policy = policy, .number = b->number };
    j->next = calloc(1, sizeof *j->next);
    INVARIANT(j->next != NULL);
}

static err plan_put(struct engine_txn *t, const struct plan_job *j)
{
    char value[PLAN_ROW_BYTES_MAX];
    return catalog_bucket_put(t, str_of(j->bucket->opts.name),
                              plan_encode(j->number, &j->next->plan, value));
}

/* What the catalog has of the bucket; next is untouched when it has nothing. */
static err plan_load(struct engine_txn *t, struct plan_job *j)
{
    struct engine_row row;
    err e = catalog_bucket_get(engine_txn_view(t), str_of(j->bucket->opts.name), &row);
    j->found = e == ERR_OK;
    if (e == ERR_OK)
        e = plan_decode(row.value, &j->number, &j->next->plan);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* A new bucket: it gets its number, and its first plan. There are no rows to plan anew. */
static err plan_first(struct engine_txn *t, struct plan_job *j)
{
    uint32_t number = 0;
    err e = catalog_number_give(t, 0, &number);
    if (e != ERR_OK)
        return e;
    j->number = (uint16_t)number;
    j->next->plan = (struct page_plan){ .policy = *j->policy, .number = 1, .replanned = true };
    return plan_put(t, j);
}

/* Writes the plan of the policy, if that is another one. A new number only where rows must be
 * planned anew. */
static err plan_decide(struct engine_txn *t, struct plan_job *j)
{
    struct page_plan *plan = &j->next->plan;
    err e = plan_load(t, j);
    if (e != ERR_OK || j->policy == NULL)
        return e;
    if (!j->found)
        return plan_first(t, j);
    if (page_policies_same(&plan->policy, j->policy))
        return ERR_OK;
    if (!plans_alike(&plan->policy, j->policy)) {
        plan->number++;
        plan->changed_at = engine_txn_now(t);
        plan->replanned = false;
        /* Replanning starts at the first row. */
        e = catalog_cursor_put(t, j->bucket, STR_NONE);
    }
    plan->policy = *j->policy;
    return e == ERR_OK ? plan_put(t, j) : e;
}

/* The plan is on disk: readers and decisions take it from here on. Limits come before the plan
 * itself, as a reader of the plan checks rows by them. */
static void plan_enter(struct plan_job *j)
{
    struct page_bucket *b = j->bucket;
    if (b->number != j->number)
        b->number = j->number; /* at a start */
    j->next->before = b->plans;
    b->plans = j->next;
    atomic_store(&b->plan_max, j->next->plan.number);
    atomic_store(&b->replanned, j->next->plan.replanned);
    atomic_store_explicit(&b->plan, &j->next->plan, memory_order_release);
    j->next = NULL;
}

/* ---- at a start ---- */

static err open_decide(struct engine_txn *t, void *ctx)
{
    return plan_decide(t, ctx);
}

/* One update of a start; the caller waits for it. */
static err open_step(struct page_bucket *b, const struct page_policy *policy, bool *found)
{
    struct plan_job job;
    job_init(&job, b, policy);
    err e = engine_update_wait(b->pages->engine, open_decide, &job);
    *found = job.found;
    if (e == ERR_OK)
        plan_enter(&job);
    free(job.next);
    return e;
}

/* First loads, then waits for a replanning that did not end in the last run, and only then
 * changes: rows of two plans are known, not of three (invariant 4). */
err bucket_plan_open(struct page_bucket *b)
{
    const struct page_policy *policy = &b->opts.policy;
    bool found;
    err e = open_step(b, NULL, &found);
    while (e == ERR_OK && found && !plans_alike(&bucket_plan(b)->policy, policy) &&
           !atomic_load(&b->replanned)) {
        bool more;
        e = bucket_replan(b, &more);
    }
    return e == ERR_OK ? open_step(b, policy, &found) : e;
}

/* A dormant bucket: the plan of its catalog row, without an update. */
err bucket_plan_set(struct page_bucket *b, str value)
{
    struct plan_job job;
    job_init(&job, b, NULL);
    err e = plan_decode(value, &job.number, &job.next->plan);
    if (e == ERR_OK)
        plan_enter(&job);
    free(job.next);
    return e;
}

void bucket_plans_free(struct page_bucket *b)
{
    while (b->plans != NULL) {
        struct page_plan_kept *before = b->plans->before;
        free(b->plans);
        b->plans = before;
    }
}

/* ---- while the store runs ---- */

/* One call of pages_policies: the plans of all buckets, in one update. */
struct policies_job {
    struct plan_job *all;
    unsigned count; /* `next` of the buckets is set */
    bool decided;
};

/* Has the plan a new number, as rows must be planned anew? */
static bool plan_is_other(const struct plan_job *j)
{
    return j->next->plan.number != bucket_plan(j->bucket)->number;
}

/* All buckets or none. Sets `next` last, once every plan is written: decisions behind this one
 * must find them. */
static err policies_decide(struct engine_txn *t, void *ctx)
{
    struct policies_job *own = ctx;
    err e = ERR_OK;
    for (unsigned i = 0; i < own->count && e == ERR_OK; i++)
        e = plan_decide(t, &own->all[i]);
    for (unsigned i = 0; i < own->count && e == ERR_OK; i++) {
        struct page_bucket *b = own->all[i].bucket;
        b->next = &own->all[i].next->plan;
        /* Rows of the plan may come to disk before plan_enter: readers accept them from now on. */
        atomic_store(&b->plan_max, b->next->number);
        if (plan_is_other(&own->all[i]))
            atomic_store(&b->replanned, false);
        own->decided = true;
    }
    return e;
}

/* On the committer. decided: false when the update was refused, or its decision failed. */
static void policies_done(void *ctx, err why)
{
    struct policies_job *own = ctx;
    for (unsigned i = 0; i < own->count && own->decided; i++) {
        struct plan_job *j = &own->all[i];
        j->bucket->next = NULL;
        if (why == ERR_OK)
            plan_enter(j);
        else if (plan_is_other(j))
            atomic_store(&j->bucket->replanned, true); /* as it was: nothing is planned anew */
    }
}

static err policies_check(struct pages *p, const struct pages_policy *all, unsigned count,
                          struct err_note *note)
{
    for (unsigned i = 0; i < count; i++) {
        if (pages_find(p, all[i].bucket) == NULL)
            return err_bad(note, "there is no bucket %.*s", STR_ARG(all[i].bucket));
        err e = bucket_policy_check(&all[i].policy, note);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

err pages_policies(struct pages *p, const struct pages_policy *all, unsigned count,
                   const atomic_bool *stop, struct err_note *note)
{
    MAGIC_CHECK(p, PAGES_MAGIC);
    err e = policies_check(p, all, count, note);
    if (e != ERR_OK)
        return e;
    struct policies_job job = { .all = calloc(count + 1, sizeof *job.all), .count = count };
    INVARIANT(job.all != NULL);
    for (unsigned i = 0; i < count; i++)
        job_init(&job.all[i], pages_find(p, all[i].bucket), &all[i].policy);
    /* Invariant 4: a replanning that is under way is finished first. upkeep may do part of it
     * meanwhile. */
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        struct page_bucket *b = job.all[i].bucket;
        bool more;
        while (e == ERR_OK && !atomic_load(&b->replanned) &&
               !plans_alike(&bucket_plan(b)->policy, &all[i].policy))
            e = stop != NULL && atomic_load(stop) ? ERR_SHUTDOWN : bucket_replan(b, &more);
    }
    const struct engine_update update = { .decide = policies_decide,
                                          .done = policies_done,
                                          .ctx = &job };
    if (e == ERR_OK)
        e = engine_submit_wait(p->engine, &update);
    if (e != ERR_OK)
        err_note_set(note, "the store cannot record other policies of pages: %s", err_name(e));
    /* plan_enter took those that are in force; the rest is the job's. */
    for (unsigned i = 0; i < count; i++)
        free(job.all[i].next);
    free(job.all);
    return e;
}

/* The bucket's plan, or the next one, if the update that brings it was decided before this one
 * and is still written in its view. */
err bucket_plan_decides(struct page_bucket *b, struct engine_txn *t, const struct page_plan **out)
{
    struct engine_row row;
    struct page_plan stored;
    uint16_t number;
    *out = bucket_plan(b);
    if (b->next == NULL)
        return ERR_OK;
    err e = catalog_bucket_get(engine_txn_view(t), str_of(b->opts.name), &row);
    if (e == ERR_OK)
        e = plan_decode(row.value, &number, &stored);
    if (e == ERR_OK && stored.number == b->next->number &&
        page_policies_same(&stored.policy, &b->next->policy))
        *out = b->next;
    return e;
}

/* In the last batch of a replanning: the row says that no earlier plan has rows. The cursor
 * goes. */
err bucket_replanned(struct engine_txn *t, struct page_bucket *b)
{
    const struct page_plan *plan;
    char value[PLAN_ROW_BYTES_MAX];
    err e = bucket_plan_decides(b, t, &plan);
    if (e == ERR_OK)
        e = catalog_cursor_put(t, b, STR_NONE);
    if (e != ERR_OK)
        return e;
    struct page_plan over = *plan;
    over.replanned = true;
    return catalog_bucket_put(t, str_of(b->opts.name), plan_encode(b->number, &over, value));
}

const struct page_policy *page_bucket_policy(const struct page_bucket *b)
{
    return &page_bucket_plan(b)->policy;
}

const struct page_plan *page_bucket_plan(const struct page_bucket *b)
{
    MAGIC_CHECK(b, PAGE_BUCKET_MAGIC);
    return bucket_plan(b);
}
