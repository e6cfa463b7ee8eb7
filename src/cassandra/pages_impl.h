/* pages_impl.h - what the files of pages.h share. Private to this folder. */
#ifndef CASSANDRA_PAGES_IMPL_H
#define CASSANDRA_PAGES_IMPL_H

#include "base/hash.h"
#include "cassandra/blame.h"
#include "cassandra/pages.h"
#include "cassandra/words.h"
#include "codec/frame.h"
#include "title/decide.h"
#include "title/find.h"

#include <pthread.h>
#include <stdatomic.h>

enum {
    /* TITLES_FACTS_MAX facts, and what is derived of them: 1.5 KB a fact each time. An upkeep and a
     * write derive three times */
    CASSANDRA_FACTS_BYTES_MAX = 160 << 20,
    /* and the bytes of one render beside them */
    CASSANDRA_WORK_BYTES_MAX = CASSANDRA_FACTS_BYTES_MAX + PAGE_BYTES_MAX,
};

struct bucket_plans { /* never changes */
    struct bucket_plans *older;
    size_t count;
    struct title_plan at[];
};
struct page_bucket {
    struct cassandra_pages *pages;
    struct page_bucket_opts opts;
    struct bucket_plans *_Atomic plans;
    bool told; /* they are of the catalogue */
    uint16_t number;
};
struct cassandra_pages {
    uint32_t magic;
    struct cassandra_pages_opts opts;
    struct page_bucket buckets[CASSANDRA_BUCKETS_MAX];
    struct frame_pool frames;
    const struct catalog_watch *watch; /* of policies; NULL: those of the options are all */
    atomic_bool plans_refused;
    struct page_listener listener; /* changed NULL: none */
    struct blame blame;
    _Atomic uint64_t puts, duplicates, purged, extended;
    pthread_mutex_t lock; /* of what is below */
    store_time last;      /* the greatest time of a fact of ours */
    store_time last_word; /* of a word, or a note */
    struct hash extensions;
    char **domains;
    uint32_t domains_count;
};
#define CASSANDRA_PAGES_MAGIC 0xca55b00cu
static inline void pages_lock(struct cassandra_pages *p)
{
    INVARIANT(pthread_mutex_lock(&p->lock) == 0);
}
static inline void pages_unlock(struct cassandra_pages *p)
{
    INVARIANT(pthread_mutex_unlock(&p->lock) == 0);
}

void bucket_plans_init(struct page_bucket *b);
void bucket_plans_fini(struct page_bucket *b);
const struct bucket_plans *bucket_plans(const struct page_bucket *b); /* lives as long as it */
bool pages_plans_known(const struct cassandra_pages *p, struct err_note *note);

/* Does what the wiki says of a title hold for what is stored of it here? */
static inline bool bucket_hears(const struct page_bucket *b)
{
    return !b->opts.deaf;
}
/* Where a call's work goes on that takes a while. */
static inline struct home *pages_pool(const struct cassandra_pages *p, const struct store_call *c)
{
    return p->opts.pool != NULL ? p->opts.pool : c->home;
}
/* Behind this no fact will come (title/derive.h, rule 3). */
static inline int64_t pages_behind_ns(const struct cassandra_pages *p)
{
    return 2 * p->opts.max_skew_ns + p->opts.write_timeout_ns + p->opts.making_ns;
}
static inline store_time pages_horizon(const struct cassandra_pages *p)
{
    return (store_time){ .ns = clock_store(p->opts.clock).ns - pages_behind_ns(p) };
}
/* Of a word or a note: later than that of any other one of this server. */
store_time pages_stamp(struct cassandra_pages *p);
str pages_domain_name(struct cassandra_pages *p, uint32_t domain);
/* As work_blame, of a call without a work. */
MUST_CHECK err pages_blame(struct cassandra_pages *p, const struct store_call *call,
                           const struct err_note *note, str title);
/* A title may have changed. */
static inline void pages_tell(const struct page_bucket *b, uint32_t domain, str title)
{
    const struct page_listener *l = &b->pages->listener;
    if (l->changed != NULL)
        l->changed(l->ctx, b->number, domain, title);
}

enum {
    WORK_LOST_MAX = 8,                     /* renders of one look whose bytes are not to be had */
    WORK_FACTS_AT_HOME = TITLES_PAGE_ROWS, /* titles with more are derived on the pool */
};
struct work_lost {
    struct page_name name;
    unsigned char digest[PAGE_DIGEST_BYTES];
    bool sure; /* also when looked for anew; it is passed over */
};

/* A call's look at one title: its facts, and what they make. In an arena of its own, so that the
 * caller's holds results alone. */
struct work {
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
    struct store_call *call; /* the request's */
    struct arena arena;
    uint32_t domain;
    struct titles_key key;
    struct titles_load load;
    bool heeds;                   /* the title's words are loaded, too */
    bool latest;                  /* which render is the latest is all that is asked */
    struct words_load *words;     /* with heeds; it may have failed */
    struct titles_newest *newest; /* asked for beside the facts; NULL: nothing is */
    atomic_uint waits;            /* loads under way */
    bool everywhere;              /* its facts hide something (titles_append.everywhere) */
    struct titles_append append;
    struct title_facts facts;
    struct title_memory memory;
    struct work_lost lost[WORK_LOST_MAX];
    unsigned lost_count;
    store_time lost_at;             /* the latest arrival of what is passed over */
    store_time stamp;               /* of its facts; ZERO: none was taken yet */
    err derived;                    /* how that ended, on its way back from the pool */
    struct task task;               /* to the pool, and back */
    void (*loaded)(struct work *w); /* the title is derived */
    void (*appended)(struct work *w);
    struct err_note *note; /* of the request; NULL: it has none */
    void *request;
};
/* Loads and derives at home; then loaded. *out NULL: there is no memory. */
struct work *work_new(struct cassandra_pages *p, struct page_bucket *b, struct store_call *call);
void work_start(struct work *w, uint32_t domain, str title, struct home *home);
/* What a failure of the cluster is to the caller, who is not told of nodes; the log is. unknown: a
 * write may have happened, or may happen yet. */
MUST_CHECK err work_blame(struct work *w, err why, bool unknown, const struct err_note *note);
/* The request is over: posted to its home, since the work may run on the pool. */
void work_end(struct work *w, err why);
/* Without a word to the request: its owner has taken what it wants. */
void work_free(struct work *w);
/* Takes the time of the facts to come, and sees that the decision holds at that time. False: it may
 * not, because a render falls due or a policy comes into force before. Then the title is derived as
 * of that time, and loaded runs once more; or the request is over. */
bool work_stamp(struct work *w);
/* Gives the facts of a decision the time of work_stamp, or one that it takes now, and the server;
 * and appends them. */
void work_append(struct work *w, struct fact *facts, unsigned count,
                 const struct titles_bytes *bytes);
/* Loads and derives again, then loaded; for pages_bytes.c. */
void work_load(struct work *w, struct home *home);
void work_load_all(struct work *w);  /* the newest put was not enough */
void work_tell_lost(struct work *w); /* in the log */
/* pages_bytes.c. Takes out of w->facts what is passed over. ERR_LIMIT. */
MUST_CHECK err work_pass_over(struct work *w);
/* No quorum has bytes of this render: it was culled, or its put was never acknowledged. Looks at
 * the title anew, the second time without it; then loaded. */
void work_without(struct work *w, const struct page_row *row);
/* ERR_OK: all bytes of it are on a quorum now. ERR_NOT_FOUND: they are not. then may run inside. */
void work_look_bytes(struct work *w, const struct page_row *row,
                     void (*then)(struct work *w, err why));
/* Is there room in the title for these facts? ERR_AGAIN, and the note begins with
 * "too_many_renders": there will be, when upkeep has forgotten some. */
MUST_CHECK err work_room(struct work *w, const struct fact *facts, size_t count);
/* Derives anew, with these facts too: what the title is after a decision. */
MUST_CHECK err work_after(struct work *w, const struct title_answer *a, struct title_memory *out);
/* Its title is a title. */
void pages_order_start(struct cassandra_pages *p, struct page_order *o);
/* pages_extend.c. An EXTEND of an exact render, without a condition; STORE_LATER. */
enum store_start pages_extend(struct cassandra_pages *p, struct page_order *o);
page_allow_fn *work_allow(const struct page_condition *c);
struct title_which work_which(const struct page_which *w);
/* The last word; NULL: there is none, or it is not known. */
static inline const struct title_word *work_word(const struct work *w)
{
    return w->words == NULL || w->words->call.why != ERR_OK ? NULL : words_last(w->words);
}

#endif
