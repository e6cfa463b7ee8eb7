/* policies.c - policies of buckets as cells of the catalogue, judged against a file, and in words.
 * For the store, the verbs of `palimpsest policy`, and buckets of values.
 *
 * The key of a cell is the bucket's name, a NUL and the policy's number. So the cells of a bucket
 * are in order of their numbers. The encoding of a cell is policy_put's. Cells are never changed,
 * so it may grow only by a new POLICY_VERSION.
 * Invariant: numbers of a bucket go from 1 on without a hole, and instants rise. Anything else is
 * ERR_CORRUPT: a server that misses a policy would answer otherwise than the others. */
#include "cassandra/policies.h"

#include "base/units.h"
#include "cassandra/policies_impl.h"

#include <stdlib.h>
#include <string.h>

enum { POLICY_VERSION = 1, SKEWS_OF_GRACE = 10 };

/* ---- cells ---- */

/* A bucket's name holds no NUL, so the cells of a bucket stand together, in order of their
 * numbers. */
bool policy_key_put(struct buf *b, str bucket, uint32_t number)
{
    buf_put(b, bucket);
    buf_put_u8(b, 0);
    buf_put_be32(b, number);
    return buf_status(b) == ERR_OK;
}

/* All kinds of policy have all fields: fields that a kind does not look at are stored as they are.
 */
void policy_put(struct buf *b, const struct title_plan *p)
{
    const struct page_policy *o = &p->plan.policy;
    const int64_t numbers[] = { p->at.ns,        o->grace_ttl_ns,  o->historical_ttl_ns,
                                o->stash_ttl_ns, o->ledger_ttl_ns, o->interval_ns,
                                o->ttl_ns };
    buf_put_u8(b, POLICY_VERSION);
    buf_put_be32(b, p->plan.number);
    buf_put_u8(b, (uint8_t)o->kind);
    buf_put_be32(b, o->count);
    for (unsigned i = 0; i < COUNT_OF(numbers); i++)
        buf_put_be64(b, (uint64_t)numbers[i]);
}

/* Reads a cell and judges it as strictly as options are: another program, or a hand, may have
 * written it. False: *out is untouched. */
static bool policy_get(str value, struct title_plan *out)
{
    struct cursor c = { .rest = value };
    struct title_plan p = { .plan = { .replanned = true } };
    struct page_policy *o = &p.plan.policy;
    int64_t *const numbers[] = { &p.at.ns,         &o->grace_ttl_ns,  &o->historical_ttl_ns,
                                 &o->stash_ttl_ns, &o->ledger_ttl_ns, &o->interval_ns,
                                 &o->ttl_ns };
    bool known = cursor_u8(&c) == POLICY_VERSION;
    p.plan.number = cursor_be32(&c);
    uint8_t kind = cursor_u8(&c);
    o->count = cursor_be32(&c);
    bool fine = true;
    for (unsigned i = 0; i < COUNT_OF(numbers); i++) {
        *numbers[i] = (int64_t)cursor_be64(&c);
        /* An instant or a window below 0 would turn comparisons around. */
        fine &= *numbers[i] >= 0;
    }
    if (!known || !cursor_done(&c) || kind >= POLICY_KINDS || !fine)
        return false;
    bool grouped = kind == POLICY_LATEST || kind == POLICY_INTERVAL;
    if ((grouped && (o->count < 1 || o->count > PAGE_POLICY_COUNT_MAX)) ||
        (kind == POLICY_INTERVAL && o->interval_ns <= 0))
        return false;
    o->kind = (enum page_policy_kind)kind;
    p.plan.changed_at = p.at;
    *out = p;
    return true;
}

/* Does this policy come right behind `before`? before NULL: it is the first, in force from the
 * beginning. */
static bool plan_follows(const struct title_plan *p, const struct title_plan *before, size_t index)
{
    if (p->plan.number != index + 1)
        return false;
    return before == NULL ? p->at.ns == STORE_TIME_ZERO.ns : before->at.ns < p->at.ns;
}

err policies_of(const struct catalog_rows *rows, str bucket, struct arena *a, struct policies *out,
                struct err_note *note)
{
    struct buf key;
    buf_init(&key, CATALOG_KEY_BYTES_MAX);
    /* Number 0 is less than that of any policy, so the cells of the bucket begin here. */
    bool fine = policy_key_put(&key, bucket, 0);
    size_t from = catalog_rows_from(rows, buf_str(&key)), count = 0;
    /* The name with its NUL: bucket "a" is not taken for the beginning of "ab". */
    str prefix = str_take(buf_str(&key), bucket.n + 1);
    while (fine && from + count < rows->count && str_starts(rows->cells[from + count].key, prefix))
        count++;
    buf_fini(&key);
    struct title_plan *plans = arena_calloc(a, count + 1, sizeof *plans);
    if (plans == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; fine && i < count; i++)
        fine = policy_get(rows->cells[from + i].value, &plans[i]) &&
               plan_follows(&plans[i], i == 0 ? NULL : &plans[i - 1], i);
    if (!fine) {
        err_note_set(note,
                     "the policies of bucket %.*s in the cluster (table decide, scope policies) "
                     "cannot be read: a newer program wrote them, or somebody changed them by hand",
                     STR_ARG(bucket));
        return ERR_CORRUPT;
    }
    *out = (struct policies){ .plans = plans, .count = count };
    return ERR_OK;
}

/* The last one whose instant has come; instants rise. */
const struct title_plan *policies_at(const struct policies *p, store_time now)
{
    size_t i = p->count;
    while (i > 0 && store_time_before(now, p->plans[i - 1].at))
        i--;
    return i == 0 ? NULL : &p->plans[i - 1];
}

/* ---- against a file ---- */

/* The last policy counts, in force or not yet: it is what an operator applied last. */
static err bucket_check(const struct policies *p, const struct page_bucket_opts *b,
                        struct err_note *note)
{
    if (p->count == 0) {
        err_note_set(
            note,
            "bucket %s has no policy in the cluster: palimpsest policy apply --config FILE "
            "writes that of these options",
            b->name);
        return ERR_CONFLICT;
    }
    const struct page_policy *last = &p->plans[p->count - 1].plan.policy;
    if (page_policies_same(last, &b->policy))
        return ERR_OK;
    err_note_set(note,
                 "bucket %s has policy %s in these options and %s in the cluster, or other times: "
                 "palimpsest policy show tells both, palimpsest policy apply writes that of the "
                 "options",
                 b->name, page_policy_name(b->policy.kind), page_policy_name(last->kind));
    return ERR_CONFLICT;
}

err policies_check(const struct catalog_rows *rows, const struct page_bucket_opts *buckets,
                   unsigned count, struct err_note *note)
{
    /* The policies are looked at and dropped with the arena. */
    struct arena a;
    err e = ERR_OK;
    arena_init(&a, POLICIES_ARENA_BYTES_MAX);
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        struct policies p;
        e = policies_of(rows, str_of(buckets[i].name), &a, &p, note);
        if (e == ERR_OK)
            e = bucket_check(&p, &buckets[i], note);
    }
    arena_fini(&a);
    return e;
}

/* A reader who names a render is promised that it stays. Another server may learn of that only
 * within the skew of clocks, so the policy has to keep what is superseded for longer. */
err policies_fit(const struct page_bucket_opts *b, int64_t max_skew_ns, struct err_note *note)
{
    const struct page_policy *p = &b->policy;
    bool graced =
        p->kind == POLICY_APP_TTL || p->kind == POLICY_LATEST || p->kind == POLICY_INTERVAL;
    if (p->kind != POLICY_LATEST_HASH &&
        (!graced || p->grace_ttl_ns >= SKEWS_OF_GRACE * max_skew_ns))
        return ERR_OK;
    return err_bad(note,
                   "bucket %s: on a store of many servers a policy keeps what is superseded "
                   "for ten times max_skew at least; %s with this grace_ttl does not",
                   b->name, page_policy_name(p->kind));
}

/* ---- in words ---- */

static void print_time(struct buf *out, const char *name, int64_t ns)
{
    char text[UNITS_TEXT_BYTES];
    units_format_duration(ns, text);
    buf_printf(out, ", %s %s", name, text);
}

void policies_print(const char *bucket, const struct page_policy *p, struct buf *out)
{
    /* A bucket of values is named by its table, which begins with a dot (policies.h). */
    bool values = bucket[0] == '.', graced = values && p->kind == POLICY_LATEST_HASH;
    bool grouped = p->kind == POLICY_LATEST || p->kind == POLICY_INTERVAL;
    buf_put(out, str_of(page_policy_name(p->kind)));
    if (grouped)
        buf_printf(out, ", count %u", p->count);
    if (p->kind == POLICY_INTERVAL)
        print_time(out, "interval", p->interval_ns);
    if (p->kind == POLICY_APP_TTL || grouped || graced)
        print_time(out, "grace_ttl", p->grace_ttl_ns);
    if (p->kind == POLICY_TTL || values)
        print_time(out, "ttl", p->ttl_ns);
    if (values)
        return;
    print_time(out, "historical_ttl", p->historical_ttl_ns);
    print_time(out, "stash_ttl", p->stash_ttl_ns);
    print_time(out, "ledger_ttl", p->ledger_ttl_ns);
}
