/* secondary.h - another store of renders, read only: what this store lacks is taken from there.
 *
 * Model. A wiki that moves here from another server leaves its renders in that server's store, the
 * secondary. A read that finds nothing here (get.h) asks the secondary, before its origin. What the
 * secondary has is put here once, under its revision and tid, as an import would put it, and the
 * read looks again. So all that holds for a put holds for it: policies, purges, the wiki's marks.
 * The secondary is never written.
 *   Only what is missing is asked for: a render that is stored here wins. A put from there says
 * that the wiki was asked at the beginning of time (SECONDARY_SAID_AT): each mark of the wiki's is
 * later, and it lifts none. A purge covers what is not newer than it.
 *   Reads of one name share one flight. A secondary that fails is left alone by a breaker
 * (base/breaker.h); a row that can be no render is a miss, and counted.
 *   What there is of it: the bucket "page", by title (the greatest revision), by revision (its
 * newest render), and by revision and tid. Not: instants, lists of renders and of titles, stashes.
 *
 *   read -> flight -> the source's start (loop) -> checked, put (pool) -> the flight ends (loop)
 */
#ifndef PAGE_SECONDARY_H
#define PAGE_SECONDARY_H

#include "flight/flight.h"
#include "http/negotiate.h"
#include "page/page.h"

enum {
    SECONDARY_PARTS_MAX = 4,
    SECONDARY_HEADERS_MAX = 64, /* of a part */
    SECONDARY_READS_MAX = 64,   /* under way at once; more wait */
    SECONDARY_FLIGHTS_MAX = 2048,
    SECONDARY_FAILURES_MAX = 5, /* in a row; then it is left alone */
    SECONDARY_PAUSE_MS = 1000,
    SECONDARY_PAUSE_MS_MAX = 30000,
    SECONDARY_TELL_MS = 60000, /* between two lines of one kind */
};
#define SECONDARY_SAID_AT ((store_time){ .ns = 1 })

/* One content of a render, as it lies there. */
struct secondary_part {
    str content; /* its name */
    bool json;   /* the value is JSON */
    str value;
    str headers; /* as the source keeps them; STR_NONE: none */
    str type;    /* STR_NONE: headers say it, or nothing does */
};
/* One question to a source. */
struct secondary_source;
struct secondary_read {
    /* in; borrowed until done */
    const struct page_domain *domain;
    str title;
    enum page_select select; /* LATEST, REV, EXACT */
    struct page_name name;   /* of REV and EXACT. out: of what was found */
    mono deadline;
    void (*done)(struct secondary_read *r); /* once, on the loop, after the start */
    /* out */
    /* ERR_OK; ERR_NOT_FOUND; ERR_CORRUPT: what lies there can be no render; else: nobody knows */
    err why;
    struct err_note note;
    struct secondary_part parts[SECONDARY_PARTS_MAX]; /* until release */
    unsigned parts_count;
    uint64_t newest; /* the title's greatest revision there, when a greater render is; else 0 */
    /* the source's */
    struct secondary_source *source;
    void *own;
};
struct secondary_source {
    /* Can it be asked now? Else a read fails at once. Loop. */
    bool (*ready)(struct secondary_source *s);
    /* False: nothing is under way, done is not called; why says why. Loop. */
    bool (*start)(struct secondary_source *s, struct secondary_read *r);
    /* It ends soon. Not after done. Loop. */
    void (*cancel)(struct secondary_source *s, struct secondary_read *r);
    /* Once, after done. Loop. */
    void (*release)(struct secondary_source *s, struct secondary_read *r);
    /* Headers of a part: names in lower case, each once; more than max are passed over. ERR_BAD;
     * ERR_LIMIT: the arena is full. Pure. */
    err (*headers)(struct arena *a, str text, struct http_pair *out, unsigned max, unsigned *count);
};

struct page_secondary;
struct page_secondary_opts {
    const struct page_service *service; /* whose pointer to it is set by the caller */
    struct secondary_source *source;    /* outlives it */
    struct metrics *metrics;
    int64_t timeout_ms; /* of one question */
    uint64_t seed;
};
/* Owner: caller. Dies when out of memory. Thread: the loop's, or before it runs. */
struct page_secondary *page_secondary_new(const struct page_secondary_opts *opts);
/* Nothing is begun any more, and what is under way ends soon. Thread: any. */
void page_secondary_drain(struct page_secondary *s);
bool page_secondary_idle(struct page_secondary *s);
/* Idle. Thread: the loop's. */
void page_secondary_free(struct page_secondary **sp);

/* Is it asked for what t names? */
bool page_secondary_keeps(const struct page_secondary *s, const struct page_target *t);
/* Takes what t names. The waiter gets ERR_OK: it is stored now, or was; ERR_NOT_FOUND: the
 * secondary has no such render, or none that is one; ERR_GONE: it was purged or hidden here, or is
 * kept no longer; ERR_UNAVAILABLE, ERR_TIMEOUT: nobody knows; else as of a put. Refuses as
 * flight_join. Thread: any; the waiter's done on the loop. */
MUST_CHECK err page_secondary_take(struct page_secondary *s, const struct page_target *t,
                                   struct flight_waiter *w);
bool page_secondary_leave(struct page_secondary *s, struct flight_waiter *w);

/* The contents of a put out of the parts that came, those that the bucket keeps. ERR_BAD with a
 * note: they are no render: no headers that can be read, no content type, compressed, no JSON where
 * JSON is said; none of the bucket's. ERR_LIMIT: the arena is full. Pure. */
MUST_CHECK err page_secondary_contents(const struct secondary_source *source,
                                       const struct secondary_read *r,
                                       const struct page_bucket_opts *bucket, struct page_put *p);

#endif
