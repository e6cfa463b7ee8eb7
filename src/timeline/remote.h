/* remote.h - a timeline in Redis: one for all servers that share it, and for readers that ask Redis
 * themselves.
 *
 * Model. The entries are those of timeline.h. Two kinds of sorted sets hold them, by plain
 * commands. In each a score is the instant, in microseconds since 1970; what is finer is cut.
 *
 *   pal:t:{DOMAIN}:t         all of a domain, by time. Member: kind 1, title, 0x00, rev 8, tid 16
 *   pal:t:{DOMAIN}:v:TITLE   revisions of a title.     Member: rev 8, tid 16 (zero)
 *   pal:t:{DOMAIN}:r:TITLE   renders of a title, of all its revisions. Member: rev 8, tid 16
 *
 *   Numbers are big-endian. A member says what was superseded, and not when. So what is told again,
 * by another bucket, another server, or after a failure, is the same member, and the earliest
 * instant stays (ZADD LT). Each command may be done twice, or in another order, and all end alike.
 * That is why no transaction is needed: who got no answer adds the entry once more.
 *   Age. timeline_remote_expire removes what is old. A set to which nothing is added for ttl goes
 * by itself: also that of a domain that nobody has any more.
 *   Each call is some commands in flight, and ends within the time-out of the client for each of
 * them. What stands in Redis and is no member of ours is passed over. Thread: the loop's. */
#ifndef TIMELINE_REMOTE_H
#define TIMELINE_REMOTE_H

#include "timeline/timeline.h"

enum {
    TIMELINE_REMOTE_DOMAIN_BYTES_MAX = 255,
    TIMELINE_REMOTE_BATCH = 256, /* members that one question asks for */
};

struct redis;
struct timeline_remote;
/* Owner: caller. redis outlives it. Dies when out of memory. */
struct timeline_remote *timeline_remote_new(struct redis *redis);
void timeline_remote_free(struct timeline_remote **rp); /* no call is under way */

/* A domain has a number in the store of each server, and a name in Redis. */
struct timeline_named {
    uint32_t number;
    str name;
};

/* Adds an entry. The caller's memory until done; so are its texts. */
struct timeline_remote_add {
    str domain;
    struct timeline_where where; /* its domain is not looked at */
    struct timeline_entry entry;
    int64_t ttl_ns;
    store_time old; /* entries of the title before that go, too */
    /* Once, never before the call returned. ERR_OK: both sets have it. Else an err of redis.h, and
     * the server's words: it may be there, in part; add it once more. */
    void (*done)(struct timeline_remote_add *a, err why, const struct err_note *note);
    void *ctx;
    bool had; /* out: it was there before */
    /* remote.c's */
    unsigned waiting;
    err why;
    struct err_note note;
};
/* ERR_BAD: domain or title is empty, too long, or has a zero byte. ERR_UNAVAILABLE, ERR_LIMIT:
 * Redis takes nothing now. done is not called then. */
MUST_CHECK err timeline_remote_add(struct timeline_remote *r, struct timeline_remote_add *a);

/* A page of entries, as timeline_list makes it; `take` is called on the loop. Two things differ.
 * Domains are those given. Renders of a title come by time alone: those of a greater revision stand
 * first because they were superseded later. The caller's memory until done. */
struct timeline_remote_list {
    struct timeline_listing *listing;
    const struct timeline_named *domains; /* by number, ascending */
    unsigned domains_count;
    void (*done)(struct timeline_remote_list *l, err why, const struct err_note *note);
    void *ctx;
    /* remote_list.c's */
    struct timeline_remote *remote;
    unsigned domain; /* index */
    enum timeline_kind kind;
    int64_t edge_us; /* score of the last member seen */
    char edge[TIMELINE_KEY_BYTES_MAX];
    size_t edge_n; /* 0: none of this set was seen */
    unsigned offset;
    unsigned looks, taken;
    bool full;
    char last[TIMELINE_KEY_BYTES_MAX];
    size_t last_n;
};
/* done is not called then: ERR_NOT_FOUND: none of the domains is to be listed; ERR_BAD: the pivot
 * is none of such a list, or the title is too long; else as timeline_remote_add. */
MUST_CHECK err timeline_remote_list(struct timeline_remote *r, struct timeline_remote_list *l);

/* Entries before an instant go, domain after domain, at most TIMELINE_EXPIRE_MAX in a call. The
 * caller's memory until done. */
struct timeline_remote_expiry {
    store_time before;
    const struct timeline_named *domains;
    unsigned domains_count;
    unsigned domain; /* index. In: the first that is looked at. Out: where to go on */
    void (*done)(struct timeline_remote_expiry *x, err why, const struct err_note *note);
    void *ctx;
    /* out */
    unsigned count; /* entries that went */
    bool more;      /* there may be more */
    /* remote_expire.c's */
    struct timeline_remote *remote;
    unsigned left, waiting;
    bool whole; /* that domain has no more */
    err why;
    struct err_note note;
};
/* done is not called then: ERR_NOT_FOUND: there are no domains; else as timeline_remote_add. */
MUST_CHECK err timeline_remote_expire(struct timeline_remote *r, struct timeline_remote_expiry *x);

#endif
