/* naive.h - a title worked out from its facts in the plainest way: written from what docs/api.md,
 * 2, and src/title say in words, and sharing no code with them but plain values. One array,
 * everything looked for from the start each time. */
#ifndef TEST_MODEL_NAIVE_H
#define TEST_MODEL_NAIVE_H

#include "title/derive.h"

enum { NAIVE_MAX = 1024 };
enum naive_fate { NAIVE_STORED, NAIVE_CULLED, NAIVE_PURGED };

/* Of each name the last thing that became of it. */
struct naive_render {
    struct page_name name, by;
    enum naive_fate fate;
    store_time stored, superseded, out, requested, stashed, held, due, said;
    enum page_state hidden;
    store_time hidden_at;
    struct title_under made;
    store_time gone_at, known_until;
    enum page_policy_kind policy;
    const struct fact *put; /* the one that is stored */
};
struct naive {
    const struct title_facts *in;
    const struct page_plan *plan;
    store_time now;
    struct naive_render renders[NAIVE_MAX];
    unsigned count;
    const struct fact *done[NAIVE_MAX]; /* facts, in their order */
    unsigned done_count;
    uint64_t conflicts;
};

/* False: too many names or facts. */
bool naive_derive(struct naive *n, const struct title_facts *in, store_time now);
/* NULL: nothing is known of it. */
const struct naive_render *naive_find(const struct naive *n, struct page_name name);
/* The greatest that is there and not hidden; NULL: none is. */
const struct naive_render *naive_newest(const struct naive *n);

#endif
