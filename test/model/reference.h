/* reference.h - a naive page bucket: every render there ever was in one array, everything worked
 * out anew from the rules of docs/api.md, 2, each time. Written from the contract, not from the
 * code it judges: no keys, no seeks, no due rows, no culls. Lives in shared memory, so that it
 * survives the process it judges. */
#ifndef TEST_MODEL_REFERENCE_H
#define TEST_MODEL_REFERENCE_H

#include "bucket/page_write.h"

enum { REF_RENDERS_MAX = 512, REF_FENCES_MAX = 512 };

enum ref_fate { REF_STORED, REF_CULLED, REF_PURGED };
struct ref_render {
    struct page_name name;
    unsigned text, about; /* what it holds; equal texts are equal but for about */
    store_time stored_at, superseded_at, out_at, requested, stashed, held, due;
    store_time promised; /* to a read that named it: not culled before, unless the policy changes */
    struct page_name superseded_by;
    enum ref_fate fate;
    store_time gone_at;
    enum page_policy_kind gone_policy;
};
struct ref_fence {
    bool has_rev, has_tid;
    struct page_name name;
    store_time at;
};
struct ref_title {
    struct ref_render renders[REF_RENDERS_MAX];
    unsigned count;
    struct ref_fence fences[REF_FENCES_MAX];
    unsigned fences_count;
};
struct ref {
    struct page_policy policy;
    store_time now;
};

/* Everything due at ref->now is gone from here on. Called before anything else happens. */
void ref_sweep(const struct ref *ref, struct ref_title *t);

struct ref_put {
    struct page_name name; /* tid as asked for, or as it was minted */
    bool minted;
    unsigned text, about;
    int64_t stash_ns;
    bool latest, applied; /* out */
    struct page_name stored;
    enum page_state gone; /* with ERR_GONE */
};
/* What a put must answer; applied to t when it is ERR_OK. */
err ref_put(const struct ref *ref, struct ref_title *t, struct ref_put *p);
/* A minted tid must be greater than this one's time (and than every tid of that time). */
bool ref_mint_is_fine(const struct ref *ref, const struct ref_title *t, struct page_name minted);

struct ref_order {
    enum page_order_kind kind;
    bool has_rev, has_tid;
    struct page_name name;
    store_time until;
    uint64_t purged; /* out */
};
err ref_order(const struct ref *ref, struct ref_title *t, struct ref_order *o);

/* The policy changes now. */
void ref_policy(struct ref *ref, struct ref_title *titles, unsigned count,
                const struct page_policy *policy);

/* What a read must answer: ERR_OK and the render; ERR_GONE and the one whose trace is shown;
 * ERR_NOT_FOUND. */
err ref_find(const struct ref *ref, const struct ref_title *t, enum page_select select,
             struct page_name name, store_time at, const struct ref_render **out);
enum page_state ref_state(const struct ref *ref, const struct ref_render *r);
bool ref_alive(const struct ref *ref, const struct ref_render *r);
/* Stored ones, newest first: the next below *below (NULL: the first). NULL: no more. */
const struct ref_render *ref_next(const struct ref *ref, const struct ref_title *t,
                                  const struct page_name *below);

#endif
