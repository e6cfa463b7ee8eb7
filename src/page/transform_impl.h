/* transform_impl.h - the phases of a transform. Private to transform.c and transform_keep.c. */
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

/* transform_keep.c */
enum transform_phase transform_keep_enter(struct page_transform *t);

#endif
