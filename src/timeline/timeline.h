/* timeline.h - when revisions and renders of a title were superseded: one index for all buckets,
 * and the sampling that keeps it small on busy domains.
 *
 * Model. Two timelines, as the seed has them: of revisions (by title) and of renders (by title and
 * revision). An entry says: at this instant this revision (render) was superseded. The newest entry
 * that is at least grace_ttl old names what may be culled with one range delete: everything up to
 * and with it. Each entry also stands in the order of time, so that a reader finds what of a domain
 * fell due by an instant, and age is found without a walk over titles.
 *   Losing entries only delays culling. Entries of one instant do not overwrite each other (the
 * published implementation lost them), and entries of a domain are apart from those of all others.
 *   Several buckets may tell of one supersession: it has one entry, of the first that told. Doubles
 * are looked for among the newest TIMELINE_LOOK_BACK entries alone. What is told again behind so
 * many newer ones is a second entry, with a later instant. That delays nothing: the first stays.
 *   Sampling: each domain may add so many entries a second (a token bucket); a quiet domain keeps
 * all of its entries, a busy one a steady rate. Source: RESTBase/StorageDesign "Index/Time-line
 * storage". Thread: as the engine says. */
#ifndef TIMELINE_TIMELINE_H
#define TIMELINE_TIMELINE_H

#include "base/tid.h"
#include "engine/engine.h"

enum timeline_kind { TIMELINE_REVISION, TIMELINE_RENDER, TIMELINE_KINDS };
const char *timeline_kind_name(enum timeline_kind kind); /* "revision" */

struct timeline_where {
    enum timeline_kind kind;
    uint32_t domain;
    str title;
    uint64_t rev; /* of TIMELINE_RENDER: whose renders */
};

struct timeline_entry {
    store_time at;  /* when it was superseded */
    uint64_t rev;   /* what was superseded */
    struct tid tid; /* the render; zero in TIMELINE_REVISION */
};

enum {
    TIMELINE_TITLE_BYTES_MAX = 440,
    TIMELINE_KEY_BYTES_MAX = 486,
    TIMELINE_LOOK_BACK = 64,    /* entries of a title among which the same one is looked for */
    TIMELINE_FORGET_MAX = 1000, /* entries of a title that one update forgets */
    TIMELINE_EXPIRE_MAX = 500,  /* entries that one update expires */
    TIMELINE_LIST_MAX = 1000,   /* entries of a page */
    TIMELINE_LOOKS_MAX = 10000, /* rows that a page looks at */
};

/* Adds an entry; the same again changes nothing. ERR_LIMIT: title empty or too long. */
MUST_CHECK err timeline_add(struct engine_txn *t, const struct timeline_where *w,
                            const struct timeline_entry *e);
/* Was that revision (render) noted at that instant, or before? Looks at TIMELINE_LOOK_BACK entries
 * of the title. */
MUST_CHECK err timeline_has(struct engine_view *v, const struct timeline_where *w,
                            const struct timeline_entry *e, bool *out);
/* The newest entry with at <= not_after. ERR_NOT_FOUND. */
MUST_CHECK err timeline_find(struct engine_view *v, const struct timeline_where *w,
                             store_time not_after, struct timeline_entry *out);
/* What entry names was culled: it and all older ones of w go, at most TIMELINE_FORGET_MAX now.
 * *count: how many. Of those who cull by timelines; the page bucket does not. */
MUST_CHECK err timeline_applied(struct engine_txn *t, const struct timeline_where *w,
                                const struct timeline_entry *entry, unsigned *count);
/* Entries of all domains with at < before go: at most TIMELINE_EXPIRE_MAX of them, oldest first
 * within a domain. */
struct timeline_expiry {
    store_time before;
    uint32_t domain; /* in: the first that is looked at. Out: where to go on */
    /* out */
    unsigned count; /* entries that went */
    bool more;      /* there may be more */
};
MUST_CHECK err timeline_expire(struct engine_txn *t, struct timeline_expiry *x);
/* Would timeline_expire find any, from the first domain on? */
MUST_CHECK err timeline_has_old(struct engine_view *v, store_time before, bool *out);
/* Entries of one kind in a domain. Walks them all: benchmarks and checks. */
MUST_CHECK err timeline_count(struct engine_view *v, enum timeline_kind kind, uint32_t domain,
                              uint64_t *out);

/* ---- lists ---- */

/* Entries with at < before: of all domains (oldest first, domain after domain), of one, or of one
 * title (newest first; with a kind both, revisions stand before renders, and renders of a greater
 * revision before others). */
struct timeline_listing {
    bool has_domain;
    uint32_t domain;
    str title; /* empty: all. Else of domain */
    int kind;  /* an enum timeline_kind; -1: both */
    store_time before;
    str pivot;      /* `next` of the page before; empty: the first page */
    unsigned limit; /* TIMELINE_LIST_MAX at most */
    /* Called for each; title is borrowed inside the call. False ends the page behind this entry. */
    bool (*take)(void *ctx, const struct timeline_where *w, const struct timeline_entry *e);
    void *ctx;
    /* out: where the next page begins; next_n 0: there is none. A page may be empty and have one */
    char next[TIMELINE_KEY_BYTES_MAX];
    size_t next_n;
};
/* ERR_BAD: the pivot is none of such a list; ERR_LIMIT: title too long; ERR_CORRUPT. Waits for the
 * disk. */
MUST_CHECK err timeline_list(struct engine_view *v, struct timeline_listing *l);

/* Looks at all rows. Calls found for each damage, with a sentence. ERR_CORRUPT when there was one.
 */
MUST_CHECK err timeline_check(struct engine *e, void (*found)(void *ctx, const char *what),
                              void *ctx);

/* ---- sampling ---- */

/* Pure. Thread: one at a time. */
struct timeline_sampler;
struct timeline_sampler_opts {
    double entries_per_s; /* of one domain; <= 0: every entry is kept */
    double burst;         /* entries at once after a pause; at least 1 */
    uint32_t domains_max; /* domain numbers from here on share the last bucket */
};
/* Owner: caller. Dies when out of memory. */
struct timeline_sampler *timeline_sampler_new(const struct timeline_sampler_opts *opts);
void timeline_sampler_free(struct timeline_sampler **sp);
/* Is the entry of this instant kept? Instants of one domain that go back count as no time
 * passed. */
bool timeline_sample(struct timeline_sampler *s, uint32_t domain, store_time at);

#endif
