/* transform_impl.h - the phases of a transform. Private to transform*.c. */
#ifndef PAGE_TRANSFORM_IMPL_H
#define PAGE_TRANSFORM_IMPL_H

#include "page/transform.h"

/* WAITS: not begun; and as the next phase: something is under way, which calls transform_go; t may
 * be gone. */
enum transform_phase {
    PHASE_WAITS,
    PHASE_SETTLE,
    PHASE_RULES,
    PHASE_USER,
    PHASE_FIND,
    PHASE_HOP,
    PHASE_TAKE,
    PHASE_CHECK,
    PHASE_WRITE,
    PHASE_ASK,
    PHASE_UNWRAP,
    PHASE_KEEP,
    PHASE_FATE,
    PHASE_END,
    PHASES
};
void transform_go(struct page_transform *t, enum transform_phase to);
/* Always PHASE_END. */
enum transform_phase transform_end(struct page_transform *t, enum transform_outcome outcome);
enum transform_phase transform_end_why(struct page_transform *t, enum transform_outcome outcome,
                                       err why, const struct err_note *note);

/* transform_original.c */
enum transform_phase transform_find_enter(struct page_transform *t);
enum transform_phase transform_check_enter(struct page_transform *t);
/* The original is there, in parts. */
enum transform_phase transform_original_judge(struct page_transform *t);
/* It is in neither place here, nor at another server, or its time here was up. */
enum transform_phase transform_original_missing(struct page_transform *t);

/* transform_hop.c */
/* The original is missing here. May another server have it? */
bool transform_may_hop(const struct page_transform *t);
enum transform_phase transform_hop_enter(struct page_transform *t);

/* transform_take.c */
/* The original is missing. May the secondary have it, and was it not asked yet? */
bool transform_may_take(const struct page_transform *t);
enum transform_phase transform_take_enter(struct page_transform *t);

/* transform_keep.c */
enum transform_phase transform_keep_enter(struct page_transform *t);

#endif
