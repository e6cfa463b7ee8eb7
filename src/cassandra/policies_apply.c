/* policies_apply.c - writes the policies of a file to the catalogue, as far as they are new. For
 * `palimpsest policy apply`.
 *
 *   LOAD (at SERIAL) -> CHANGE (if the generation is still that) -> over
 *     ^                   |
 *     +---- somebody else changed them
 * Invariant: applying the same file again changes nothing, since what was written is what is there.
 */
#include "cassandra/policies_impl.h"

#include <stdlib.h>
#include <string.h>

enum { ROUNDS_MAX = 10 };

/* One application under way. It frees itself in apply_end. */
struct apply {
    struct policies_apply *apply;
    struct catalog_load load;
    struct catalog_change change;
    struct catalog_id generation;                  /* of the scope, as LOAD saw it */
    struct catalog_put puts[POLICIES_BUCKETS_MAX]; /* one for each of apply.applied */
    unsigned rounds;
};

static void apply_end(struct apply *a, err why)
{
    struct policies_apply *out = a->apply;
    free(a);
    out->call.why = why;
    out->call.done(&out->call);
}

/* The next cell of the change. Key and value lie in the caller's arena, which lives until done. */
static err cell_make(struct apply *a, str bucket, const struct title_plan *plan)
{
    struct policies_apply *out = a->apply;
    struct buf key, value;
    buf_init(&key, CATALOG_KEY_BYTES_MAX);
    buf_init(&value, POLICY_VALUE_BYTES_MAX);
    bool fits = policy_key_put(&key, bucket, plan->plan.number);
    policy_put(&value, plan);
    fits = fits && buf_status(&value) == ERR_OK;
    struct catalog_put *p = &a->puts[out->applied_count];
    *p = (struct catalog_put){ .key = arena_copy(out->arena, buf_str(&key)),
                               .value = arena_copy(out->arena, buf_str(&value)) };
    buf_fini(&key);
    buf_fini(&value);
    return fits && p->key.p != NULL && p->value.p != NULL ? ERR_OK : ERR_LIMIT;
}

/* The instant from which a new policy holds. The first policy of a bucket holds from the beginning.
 * A later policy holds from behind the last one, and so far ahead that all servers know it by then.
 */
static store_time from_when(const struct policies_apply *p, const struct policies *of)
{
    if (of->count == 0)
        return STORE_TIME_ZERO;
    int64_t ahead = POLICIES_AHEAD_SKEWS * p->max_skew_ns;
    if (ahead < POLICIES_AHEAD_NS)
        ahead = POLICIES_AHEAD_NS;
    store_time behind_last = store_time_add(of->plans[of->count - 1].at, 1);
    return store_time_max(store_time_add(p->now, ahead), behind_last);
}

/* Adds a policy of one bucket to the change, unless the cluster's last one is the same. */
static err bucket_apply(struct apply *a, const struct catalog_rows *rows,
                        const struct page_bucket_opts *b)
{
    struct policies_apply *out = a->apply;
    struct policies of;
    str name = str_of(b->name);
    err e = policies_of(rows, name, out->arena, &of, &out->note);
    if (e != ERR_OK)
        return e;
    const struct title_plan *last = of.count == 0 ? NULL : &of.plans[of.count - 1];
    if (last != NULL && page_policies_same(&last->plan.policy, &b->policy))
        return ERR_OK;
    if (of.count == POLICIES_OF_BUCKET_MAX) {
        err_note_set(&out->note, "bucket %s had %d policies already", b->name,
                     POLICIES_OF_BUCKET_MAX);
        return ERR_LIMIT;
    }
    struct title_plan now = {
        .plan = { .policy = b->policy, .number = (uint32_t)of.count + 1, .replanned = true },
        .at = from_when(out, &of)
    };
    now.plan.changed_at = now.at;
    e = cell_make(a, name, &now);
    if (e == ERR_OK) {
        struct policies_applied *x = &out->applied[out->applied_count++];
        *x = (struct policies_applied){ .bucket = name, .now = now };
        if (last != NULL)
            x->was = *last;
    }
    return e;
}

static void apply_load(struct apply *a);

/* Another server's change makes this one begin again. So does not a change whose end is unknown:
 * the caller is told. */
static void apply_changed(struct store_call *c)
{
    struct catalog_change *q = CONTAINER_OF(c, struct catalog_change, call);
    struct apply *a = CONTAINER_OF(q, struct apply, change);
    a->apply->unknown = q->unknown;
    if (c->why == ERR_CONFLICT && ++a->rounds < ROUNDS_MAX) {
        apply_load(a);
        return;
    }
    if (c->why != ERR_OK)
        a->apply->note = q->note;
    apply_end(a, c->why);
}

static void apply_change(struct apply *a)
{
    struct policies_apply *out = a->apply;
    a->change = (struct catalog_change){
        .call = { .home = out->call.home, .done = apply_changed, .deadline = out->call.deadline },
        .scope = STR(POLICIES_SCOPE),
        .if_generation = &a->generation,
        .puts = a->puts,
        .puts_count = out->applied_count
    };
    store_call_then(catalog_change(out->catalog, &a->change), &a->change.call);
}

/* The scope as it is. Each round judges from the beginning, and forgets the cells of the round
 * before. */
static void apply_loaded(struct store_call *c)
{
    struct catalog_load *l = CONTAINER_OF(c, struct catalog_load, call);
    struct apply *a = CONTAINER_OF(l, struct apply, load);
    struct policies_apply *out = a->apply;
    err e = c->why;
    if (e != ERR_OK) {
        out->note = l->note;
        apply_end(a, e);
        return;
    }
    out->applied_count = 0;
    a->generation = l->rows->generation;
    for (unsigned i = 0; i < out->count && e == ERR_OK; i++)
        e = bucket_apply(a, l->rows, &out->buckets[i]);
    catalog_rows_drop(&l->rows);
    if (e != ERR_OK || out->applied_count == 0 || out->dry)
        apply_end(a, e);
    else
        apply_change(a);
}

static void apply_load(struct apply *a)
{
    struct policies_apply *out = a->apply;
    a->load = (struct catalog_load){
        .call = { .home = out->call.home, .done = apply_loaded, .deadline = out->call.deadline },
        .scope = STR(POLICIES_SCOPE),
        /* At SERIAL: a change that is being written elsewhere is seen, and not run into. */
        .serial = true
    };
    store_call_then(catalog_load(out->catalog, &a->load), &a->load.call);
}

enum store_start policies_apply(struct policies_apply *p)
{
    INVARIANT(p->count <= POLICIES_BUCKETS_MAX);
    struct apply *a = calloc(1, sizeof *a);
    INVARIANT(a != NULL);
    a->apply = p;
    p->applied_count = 0;
    p->unknown = false;
    apply_load(a);
    return STORE_LATER;
}
