/* check_impl.h - one call to a wiki for words, and what is heard of its answer. Private to check.c
 * and check_call.c. */
#ifndef PAGE_CHECK_IMPL_H
#define PAGE_CHECK_IMPL_H

#include "page/check.h"
#include "render/words.h"

/* What became of an item of a call. */
enum check_became {
    CHECK_UNANSWERED,
    CHECK_HEARD,
    CHECK_UNWRITTEN, /* the store failed */
    CHECK_LAGS,      /* once more, later */
    CHECK_ABOVE,     /* is the revision `above` there? */
    CHECK_OVERTAKEN, /* by a word asked for later: once more */
};
struct check_asked {
    struct check_item *item; /* check.c's */
    struct trust_cell *cell;
    struct title_word word; /* of a title. In, with above: what it said before */
    uint64_t above;         /* in: is this there? 0: what the cell says is asked for */
    bool believe;           /* in */
    enum check_became became;
    bool news; /* HEARD: the store had heard something else */
};
struct check_call {
    const struct page_service *service;
    const struct page_domain *domain;
    bool of_revisions, urgent;
    unsigned count;
    struct check_asked asked[WORDS_MAX];
    store_time asked_at;
    struct arena arena;
    struct words_request request;
    void (*over)(struct check_call *call); /* once, later, on the loop */
    void *ctx;
    enum render_why why; /* out. Not FINE: nothing became of any */
    /* check_call.c's */
    unsigned next;
    struct page_hear hear;
    struct title_mark mark;
    struct task task;
};
/* Dies when out of memory. */
struct check_call *check_call_new(const struct page_service *s, const struct page_domain *d);
void check_call_free(struct check_call **cp);
/* The wiki is asked, the store hears the answer, and what it heard is trusted. Thread: loop. */
void check_call_start(struct check_call *call);

#endif
