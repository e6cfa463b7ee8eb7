/* decide.h - what a request makes of a title: the answer, and the facts that come of it.
 *
 * Decisions look and edit nothing; the facts are for step.h, or for a store that keeps facts. An
 * answer other than ERR_OK makes no fact. t->seen holds what a decision saw: steps that follow it
 * on the same rows do not look again. */
#ifndef TITLE_DECIDE_H
#define TITLE_DECIDE_H

#include "title/title.h"
#include "title/word.h"

/* A condition of the caller's; latest NULL: there is none. Pure. */
typedef bool page_allow_fn(const void *ctx, const struct page_render *latest);

enum { TITLE_FACTS_MAX = 5 };
struct title_answer {
    struct fact facts[TITLE_FACTS_MAX]; /* in their order; srv and n are the caller's to set */
    unsigned facts_count;
    /* a put: which render stands for it; created: it is a new one */
    struct page_name name;
    uint64_t bytes;
    bool latest, created;
    bool superseded; /* the latest is none any longer */
    /* a put: under what the render was made that was the latest until then; said 0: there was none,
       or no wiki made it */
    struct title_under before;
    bool extended;           /* a render lives longer, as after a read that names it */
    int64_t pinned_ns;       /* by how much longer it is stashed; UNSTASH: how long it was to be */
    struct page_trace trace; /* with ERR_GONE */
    const char *note;        /* with ERR_BAD, ERR_CONFLICT, ERR_GONE of a put; else NULL */
};
static inline void title_answer_init(struct title_answer *a)
{
    a->facts_count = 0;
    a->latest = a->created = a->superseded = a->extended = false;
    a->pinned_ns = 0;
    a->before = (struct title_under){ .said = 0 };
    a->note = NULL;
}

struct title_put {
    uint64_t rev;
    bool has_tid;
    struct tid tid;
    uint64_t random; /* for a tid that is minted */
    const unsigned char *digest, *plain_digest;
    const struct page_content *contents; /* the fact borrows them */
    unsigned contents_count;
    int64_t stash_ns;   /* > 0: stashed at once */
    uint64_t behind;    /* > rev: this revision exists elsewhere */
    store_time said_at; /* when the origin was asked; ZERO: now */
    bool asked;         /* made on request */
    bool own_name;      /* known under another name, it is stored under this one too */
    struct title_under made;
    page_allow_fn *allow; /* NULL: no condition */
    const void *allow_ctx;
};
/* ERR_PRECONDITION; ERR_CONFLICT: other bytes are stored under this name; ERR_GONE: purged, hidden
 * since the origin was asked, or not to be kept at all by the policy. */
MUST_CHECK err title_decide_put(struct title *t, const struct title_put *put,
                                struct title_answer *a);

/* The tid of a render of rev whose making began then: greater than all the revision had. ERR_GONE:
 * purged since, when asked whether. */
struct title_mint {
    uint64_t rev;
    store_time began;
    bool gone_if_purged;
    uint64_t random;
};
MUST_CHECK err title_mint(const struct title *t, const struct title_mint *m, struct tid *out);

struct title_order {
    enum page_order_kind kind;
    bool has_rev, has_tid;
    struct page_name name;
    store_time until; /* HOLD */
    bool named;       /* STASH: the read named its revision */
    bool drop;        /* UNSTASH: the render goes, too */
    bool elsewhere;   /* PURGE */
    page_allow_fn *allow;
    const void *allow_ctx;
};
/* render: as it is before the facts; not for UNSTASH, PURGE. ERR_PRECONDITION, ERR_BAD;
 * ERR_NOT_FOUND, ERR_GONE with the trace. What a purge took, step says. */
MUST_CHECK err title_decide_order(struct title *t, const struct title_order *o,
                                  struct page_render *render, struct title_answer *a);

/* What the wiki said: of the title, of revisions. */
struct title_hearing {
    const struct title_word *word; /* NULL: nothing of the title, or what says nothing (word.h) */
    const struct title_word *last; /* before that; NULL: none */
    const struct title_mark *marks;
    unsigned marks_count;
};
/* The next fact that would change a stored render; or, unless t->serial, hide one that is to come.
 * *at: 0, then one more than it was left at; facts come in an order in which none undoes one
 * before. Each is stepped before the next is asked for, and one that is stepped in parts until
 * there are no more. ERR_NOT_FOUND: that was all. */
MUST_CHECK err title_hearing_next(const struct title *t, const struct title_hearing *h,
                                  unsigned *at, struct fact *f);
/* The greatest stored revision that is shown, when it is greater than the wiki's newest; else 0. It
 * was deleted, or the wiki answered from a copy of its database that is behind. */
MUST_CHECK err title_hearing_above(const struct title *t, const struct title_word *word,
                                   uint64_t *rev);

#endif
