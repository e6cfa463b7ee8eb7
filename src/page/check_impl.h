/* check_impl.h - one call to a wiki for words, and what is heard of its answer; who waits for that.
 * Private to check*.c. */
#ifndef PAGE_CHECK_IMPL_H
#define PAGE_CHECK_IMPL_H

#include "base/hash.h"
#include "page/behind.h"
#include "page/check.h"
#include "render/words.h"

#include <stdatomic.h>

/* What became of an item of a call. */
enum check_became {
    CHECK_UNANSWERED,
    CHECK_HEARD,
    CHECK_UNHEARD,   /* what is stored of it is damaged */
    CHECK_UNWRITTEN, /* the store failed */
    CHECK_LAGS,      /* once more, later */
    CHECK_UNREACHED, /* the same, of a word that does not reach what the wiki is known to have done
                      */
    CHECK_ABOVE,     /* is the revision `above` there? */
    CHECK_OVERTAKEN, /* by another word, asked for later: once more */
};
struct check_asked {
    struct check_item *item; /* check.c's */
    struct trust_cell *cell;
    struct title_word word; /* of a title. In, with above: what it said before */
    uint64_t above;         /* in: is this there? 0: what the cell says is asked for */
    uint64_t known;         /* in, with above: what is there below it, for sure; 0: nothing */
    bool believe;           /* in */
    bool doubted;           /* it does not reach what the wiki is known to have done */
    uint64_t says;          /* UNREACHED: the word, heard all the same; 0: it was not */
    enum check_became became;
    bool news; /* HEARD: the store had heard something else */
};
enum { CHECK_MARKS_MAX = 2 };
struct check_call {
    const struct page_service *service;
    const struct page_domain *domain;
    bool of_revisions, urgent;
    unsigned count;
    struct check_asked asked[WORDS_MAX];
    store_time asked_at;
    bool behind; /* a copy answered that is (behind.h) */
    bool plain;  /* a plain question is asked behind one that was barred */
    struct arena arena;
    struct words_request request;
    void (*over)(struct check_call *call); /* once, later, on the loop */
    void *ctx;
    enum render_why why; /* out. Not FINE: nothing became of any */
    bool barred;         /* out: by 401 or 403, and so was the plain question */
    /* check_call.c's */
    unsigned next;
    struct page_hear hear;
    struct title_mark marks[CHECK_MARKS_MAX]; /* of the current one */
    struct task task;
};
/* Dies when out of memory. */
struct check_call *check_call_new(const struct page_service *s, const struct page_domain *d);
void check_call_free(struct check_call **cp);
/* The wiki is asked, the store hears the answer, and what it heard is trusted. Thread: loop. */
void check_call_start(struct check_call *call);
/* check.c: the wiki has said whether it is for us to read. Thread: any. */
void checks_close(struct page_checks *c, const struct page_domain *d, bool closed);

/* check_wait.c: who waits, of a domain by deadline, and for one thing in a list. Thread: loop, but
 * waiting. */
struct check_waits {
    struct heap deadlines;
    _Atomic uint64_t waiting;
};
void check_waits_init(struct check_waits *w);
void check_waits_fini(struct check_waits *w);
void check_wait_begin(struct check_waits *w, struct list *waiters, struct page_check *c);
/* It is told; also one that never began. */
void check_wait_end(struct page_check *c, err why);
/* All in the list are told. */
void check_waits_end(struct list *waiters, err why, int64_t retry_after_s);
/* Those are told that did not come too late for it. */
void check_waits_heard(struct list *waiters, const struct check_call *call,
                       const struct check_asked *a);
/* A word that does not reach what the wiki is known to have done: what it said, by title_word_hash;
 * 0: it was not heard. */
struct check_unreached {
    store_time asked_at;
    uint64_t says;
};
/* One of those who wait is told, and did not come too late for it. */
void check_wait_unreached(struct page_check *c, const struct check_unreached *u);
/* Those are told that did not come too late for it, but for who has time. True: somebody waits
 * still who has none. */
bool check_waits_unreached(struct list *waiters, const struct check_unreached *u);
/* The wiki answered, but not for what they wait for. */
void check_waits_answered(struct list *waiters);
void check_waits_late(struct check_waits *w, mono now);
/* Of who waits the shortest; ns INT64_MAX: nobody does. */
mono check_waits_until(struct check_waits *w);

/* ---- what is wanted of a domain, and in which call: check.c's, on the loop, but what is atomic
 * ---- */

/* Of titles, and of revisions. */
enum check_kind { KIND_TITLES, KIND_REVISIONS, KINDS };
/* Who wants it: somebody waits, somebody said that it changed, or it is a little old. */
enum check_rank { RANK_URGENT, RANK_LOOKED, RANK_LATER, RANKS };
enum { CHECK_RESTS = 3 }; /* of a title whose word lags */

enum item_state { ITEM_NEW, ITEM_QUEUED, ITEM_ASKED, ITEM_RESTS };
struct check_item {
    struct hash_node node;
    struct list link;
    struct check_domain *of;
    struct trust_cell *cell; /* with a reference */
    struct list waiters;
    enum item_state state;
    enum check_rank rank; /* QUEUED */
    unsigned rested;      /* how often */
    store_time lags_at;   /* since when its word lags; ZERO: it does not */
    store_time due;       /* RESTS */
    bool early;           /* QUEUED, ASKED: before its rest is over, which goes on then */
    bool listed;          /* since its word lags it had CHECK_LISTED_MS once */
    struct check_unreached unreached; /* RESTS: its last word, if that was unreached; else 0 */
    bool again;                       /* it was looked at since its word was asked for */
    struct title_word word;
    uint64_t above; /* with word: is this there? */
    uint64_t known; /* with above: this is */
};

/* check_rest.c. Its next rest begins. One that is believed in the meantime is asked for then. */
void check_item_tire(struct check_item *i, store_time now);
/* Among those in the same rest, in order. */
void check_item_lay(struct check_item *i);
/* The word would take something back, and no change is listed that shows that it may. A wiki lists
 * what it did a moment after it did it; of a page that went it takes the changes out of the list
 * before that. So who waits for the word waits on, once. */
bool check_item_awaits_list(const struct check_item *i, const struct check_call *call,
                            const struct check_asked *a);
void check_item_await_list(struct check_item *i, store_time now);
/* Is what the wiki says of it now taken, whatever it was to reach? */
bool check_item_believes(const struct check_item *i, store_time now);

struct check_domain {
    struct page_checks *all;
    const struct page_domain *domain;
    struct hash items; /* by cell */
    struct list queued[RANKS][KINDS];
    struct list resting[CHECK_RESTS]; /* by which rest it is: each in order of its end */
    enum check_kind last;             /* that was asked for */
    struct check_waits waits;
    struct page_behind behind;
    struct check_call *calls[2]; /* urgent, and behind answers; NULL: none */
    bool gathers;                /* until gathered_at, however often what is gathered moves */
    mono gathered_at, paused_until;
    unsigned failures;    /* in a row */
    store_time barred_at; /* since when each question is, plain ones too; ZERO: it answered */
    struct loop_timer *timer;
    _Atomic uint64_t calls_made, words, failed, lagging, full;
    _Atomic int64_t away_ns;     /* store_time: until then it counts as away; 0: it answered last */
    _Atomic int64_t answered_ns; /* store_time of the last answer; 0: none yet */
};

struct page_checks {
    const struct page_service *service;
    struct check_domain *domains;
    unsigned domains_count;
    atomic_uint closed_count; /* domains whose wiki is */
    bool stopped;
};

#endif
