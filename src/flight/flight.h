/* flight.h - one computation, many waiters.
 *
 * Model. Callers asking for one key while its computation is in the air share the outcome. The
 * first becomes the requester of the flight, not its owner: the computation belongs to the flight
 * and goes on when whoever asked first has gone. Each waiter has a deadline of its own. A failed
 * flight answers every waiter with the error, and whoever asks again within the error's life
 * (error_base_ms doubling with each failure in a row up to error_max_ms, +-20 %). Nothing else is
 * kept: a value's place is the store.
 *   A flight that nobody waits for goes on to its end (it fills the store), unless keep_idle is
 * false: then it is told to stop.
 *   Across servers: struct flight_shared (shared.h) stands beneath, for makers that say how their
 * value travels; callers see no difference but in detail.
 * Source: the Redis coalescing article, "Design"; waiter generations after Varnish cache_hash.c;
 * bounds after Unbound mesh.h. Invariants S1-S8, L1-L4 of docs/flights.md, 7, as far as one
 * process goes.
 *
 *   A computation begins when its turn comes at the limiter (loop/limiter.h), as its source says:
 * so sources take turns, and one that hangs delays only its own. It holds its pass until it ends,
 * and its calls bring it (flight_pass): who was let in here waits no more on the way to a wiki.
 * With flights across servers there is no turn before the start, as most of these wait for another
 * server's value; calls then enter by themselves.
 *   One key has one computation at a time; one that was told to stop no longer counts. What was not
 * begun when its last waiter left is dropped. No computation begins within the life of its key's
 * error.
 *
 * Thread: join, leave and finish from any thread; start, cancel, release and done are called on the
 * loop, done in order of joining, at most FLIGHT_RELEASE_MAX in one turn of the loop, shared among
 * the flights that ended, so that nobody is starved. No lock of ours is held meanwhile: all may
 * join, leave and finish. */
#ifndef FLIGHT_FLIGHT_H
#define FLIGHT_FLIGHT_H

#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

enum { FLIGHT_KEY_BYTES_MAX = 1024, FLIGHT_RELEASE_MAX = 256 };

struct limiter;
struct limiter_key;
struct limiter_pass;
struct loop;
struct metrics;
struct flights;
struct flight;        /* one computation, handed to its maker */
struct flight_waiter; /* one joined caller; embedded by it */

/* The outcome: shared by all waiters, read only, counted. */
struct flight_value {
    _Atomic unsigned refs;
    void (*free)(struct flight_value *v); /* the last reference is gone */
};
struct flight_value *flight_value_ref(struct flight_value *v);
void flight_value_unref(struct flight_value **vp);

enum flight_detail {
    FLIGHT_LED,
    FLIGHT_WAITED,
    FLIGHT_NEGATIVE,
    FLIGHT_REMOTE,
    FLIGHT_DEGRADED,
    FLIGHT_DETAILS
};
const char *
flight_detail_name(enum flight_detail d); /* "leader", "waiter", "negative", ... for Cache-Status */

struct flight_opts {
    struct loop *loop;
    struct clock *clock;
    struct metrics *metrics; /* NULL: none */
    uint64_t seed;
    unsigned flights_max;     /* keys in the air [4096]; one more: ERR_LIMIT */
    unsigned waiters_max;     /* of one flight [10000]; one more: ERR_LIMIT */
    unsigned waiters_all_max; /* [20000] */
    /* computations running at once [64]; the rest of the flights wait their turn. Not with shared
     */
    unsigned makes_max;
    unsigned makes_source_max;   /* of these, of one source [16]; sources take turns */
    unsigned flights_source_max; /* keys in the air of one source [3072]; one more: ERR_LIMIT */
    unsigned errors_max;         /* errors remembered [4096] */
    int64_t make_timeout_ms;     /* then every waiter gets ERR_TIMEOUT [30 s] */
    int64_t error_base_ms, error_max_ms; /* [500 ms, 30 s] */
    struct flight_shared *shared; /* shared.h: flights across servers; NULL: of this process */
    /* Where computations take turns; both limits above become its held_max, of all and of a kind.
     * It outlives the flights. NULL: one of their own. Not with shared */
    struct limiter *limiter;
};
/* 0 in opts: the default in brackets. Owner: caller. Dies when out of memory. Thread: the loop's,
 * or before it runs. */
struct flights *flights_new(const struct flight_opts *opts);
/* Other limits from here on, the counts of opts but errors_max; what runs and waits goes on. With
 * shared those of computations count for nothing. Thread: any. */
void flights_limit(struct flights *fs, const struct flight_opts *opts);
/* Every waiter gets ERR_SHUTDOWN, soon, and who joins from here on is refused with it. Computations
 * are told to stop. Thread: any. */
void flights_drain(struct flights *fs);
/* No computation runs, nobody waits for done, every value was let go: what flights_free wants.
 * Thread: any. */
bool flights_idle(struct flights *fs);
/* Idle, and the loop ran at least one turn since (or its loop_run has returned). Thread: the
 * loop's. */
void flights_free(struct flights **fsp);

/* What came from elsewhere; borrowed, valid inside accept. */
struct flight_arrival {
    str bytes, version;                 /* version: the token of who made it */
    int64_t fresh_ms, stale_ms, age_ms; /* left; stale_ms from now as well; since it was put */
    bool refresh;                       /* somebody should make a new one; peek was set */
};
struct buf;
/* What servers keep of a key beyond its value's own times. */
struct flight_keeping {
    int64_t touch_ms; /* not 0: pinned: whoever joins keeps it for so long, whatever its age */
    unsigned char index[16]; /* of what is pinned together; a flight_share_id */
    int64_t pins_max;        /* of these */
    int64_t versions_max;    /* older values that are kept until their own ends */
};
/* How the value of a flight travels to other servers. */
struct flight_share {
    unsigned char id[16];       /* flight_share_id */
    int64_t fresh_ms, stale_ms; /* of a value made here; stale_ms beyond fresh_ms */
    double early;               /* XFetch's beta; 0: not before its time */
    bool peek;                  /* what is stale, or soon will be, is answered and not led for */
    bool look; /* what is not there is not made: the maker is started to say so, without a lease */
    struct flight_keeping keeping;
    str want;       /* with look: this version alone; empty: any */
    bool not_alone; /* without Redis: ERR_AGAIN instead of making it here */
    /* The bytes of a value made here. ERR_LIMIT: it does not travel. */
    err (*encode)(const struct flight_value *v, struct buf *out, void *ctx);
    /* A value made elsewhere: take it in and call flight_finish exactly once, from any thread,
     * inside too. */
    void (*accept)(struct flight *f, const struct flight_arrival *a, void *ctx);
    /* A fresh value of before that this server holds, borrowed until the next call of the maker:
     * given back when Redis has lost it or has an older one. False: none; NULL: never. Loop
     * thread. */
    bool (*held)(struct flight_arrival *out, void *ctx);
};
/* How a missing value is made. start: begin it, then call flight_finish exactly once, from any
 * thread, inside start too. cancel: nobody wants it any more or its time is up: finish soon; NULL:
 * it cannot be stopped; it may cross a finish under way on another thread. release: once, after all
 * that, or when it never started; it frees ctx. Each may be NULL but start. */
struct flight_maker {
    void (*start)(struct flight *f, void *ctx);
    void (*cancel)(struct flight *f, void *ctx);
    void (*release)(void *ctx);
    void *ctx;
    bool keep_idle;
    bool fresh; /* join only a flight that begins from here on (no-cache): one already in the air
                   began too early;   the new one begins when that has ended */
    unsigned insists;     /* of two fresh ones, who join before it begins, the one with more of this
                             makes     it */
    int64_t fresh_ago_ms; /* with fresh: what another server began since then will do, too [0] */
    bool travels;         /* share is filled in */
    /* Who makes it, and values of other keys: an origin, a generator. Its address is its name, and
     * it says whose turn it is. Borrowed until release; NULL: nobody is asked */
    const struct limiter_key *source;
    str label; /* what is made, for people; borrowed until release; may be empty */
    struct flight_share share;
};
/* The fence of the lease under which it is made, in microseconds of Redis's clock: orders values of
 * one key across servers; 0: made without. */
uint64_t flight_fence(const struct flight *f);
/* The token of that lease, which is the version of its value; empty: made without. */
str flight_version(const struct flight *f);
/* Inside accept or later on the loop, before flight_finish: what came is of no use here. The value
 * is made here after all, as without Redis: no fence, no version, FLIGHT_DEGRADED. */
void flight_alone(struct flight *f);
/* For calls of its maker, from start until flight_finish: a holder, which is IN until somebody has
 * let it rest. NULL: they enter by themselves. */
struct limiter_pass *flight_pass(struct flight *f);
str flight_key(const struct flight *f);
/* Deadline of the computation. */
mono flight_deadline(const struct flight *f);
/* why ERR_OK: value (one reference passes to the flight); else value NULL. An error is remembered,
 * except ERR_SHUTDOWN, and those with keep_error false (404, whose answer is about one title
 * now). */
void flight_finish(struct flight *f, err why, struct flight_value *value, bool keep_error,
                   const struct err_note *note);

struct flight_waiter {
    /* in */
    mono deadline;
    /* exactly once. value is borrowed: valid inside the call; reference it to keep it. note: of an
     * error. */
    void (*done)(struct flight_waiter *w, err why, struct flight_value *value,
                 const struct err_note *note);
    void *ctx;
    /* out */
    enum flight_detail detail;
    int64_t retry_after_ms; /* with a remembered error: how long it lives on */
    void *own[12];          /* the module's */
};
/* Joins the flight for key, or starts one with maker. Refuses (done not called; maker->release is
 * called): ERR_LIMIT (also a key over FLIGHT_KEY_BYTES_MAX), ERR_SHUTDOWN. maker is copied; when a
 * flight is in the air already its release is called at once, on this thread. done is never called
 * inside; from another thread than the loop it may have been called when this returns. key is
 * copied. */
MUST_CHECK err flight_join(struct flights *fs, str key, const struct flight_maker *maker,
                           struct flight_waiter *w);
/* The waiter's client has gone: true: done will not be called; false: it is being called or was. */
bool flight_leave(struct flights *fs, struct flight_waiter *w);

/* state: queued, making, stopping; across servers instead of making: joining, waiting, leading,
 * publishing, alone. */
struct flight_seen {
    str key, label;
    const unsigned char *id; /* its flight_share_id; NULL: it does not travel */
    const char *state;
    str token; /* of the lease it is made under, here or elsewhere: FENCE.NODE; empty: none known */
    uint64_t waiters; /* here */
    int64_t age_ms;
    bool making; /* begun, not yet ended */
};
/* For "flight ls": inside the lock, in no order; until each returns false. What is seen is borrowed
 * inside each. Thread: the loop's. */
void flights_each(struct flights *fs, bool (*each)(void *ctx, const struct flight_seen *s),
                  void *ctx);
struct flight_stats {
    uint64_t flights, waiters, making; /* now; waiters: until done is called */
    uint64_t made, failed;             /* computations that ended with a value, without */
    uint64_t shared; /* waiters answered from a computation another had asked for */
    uint64_t negative, refused,
        timed_out; /* waiters: by a remembered error, by a limit, at their own deadline */
};
void flights_stats_get(struct flights *fs, struct flight_stats *out);

#endif
