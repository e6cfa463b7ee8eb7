/* shared.h - flights across servers: one record in Redis for each key, and whoever is granted its
 * lease makes it.
 *
 * Given to flights_new, it stands beneath the flights of a process: one JOIN for each key and
 * server, however many wait here. What the leader made is pushed to the servers that wait; nobody
 * polls. A dead leader is succeeded within lease + jitter of its last renewal. Tokens fence: what a
 * leader publishes after its lease was given to another, or after a drop, is refused. Without Redis
 * flights are of this process (or refused, as each maker says).
 *   A value travels as bytes: the maker's share says how it becomes bytes and what to do with bytes
 * that arrive. Protocol, record and scripts: share_scripts.h; machine: share_core.h; both after
 * docs/flights.md, with models in test/models.
 * Thread: loop, unless said. */
#ifndef FLIGHT_SHARED_H
#define FLIGHT_SHARED_H

#include "flight/flight.h"
#include "redis/redis.h"

enum {
    FLIGHT_ID_BYTES = 16,
    FLIGHT_NODE_BYTES_MAX = 32,
    FLIGHT_TOKEN_BYTES_MAX = 64,
    FLIGHT_CLASS_BYTES_MAX = 256,
    FLIGHT_VALUE_BYTES_MAX = 1 << 20
};

struct flight_shared_opts {
    struct loop *loop;
    struct clock *clock;
    struct log *log;         /* NULL: silent */
    struct metrics *metrics; /* NULL: none */
    struct redis_address address;
    uint64_t seed;
    const char *node;                    /* this process's name, [a-z0-9]; copied; no two alike */
    int64_t lease_ms;                    /* renewed at each third [2 s] */
    int64_t jitter_ms;                   /* at most so much is waited beyond a lease [20] */
    int64_t redis_timeout_ms;            /* of one script [100] */
    int64_t make_timeout_ms;             /* as the flights' [30 s] */
    int64_t error_base_ms, error_max_ms; /* as the flights' [500 ms, 30 s] */
    size_t push_bytes_max;               /* a longer value is fetched by who waits [16 KiB] */
    size_t value_bytes_max; /* a longer one is not shared: each server makes its own [1 MiB] */
    /* A key was dropped, here or elsewhere; id: FLIGHT_ID_BYTES. */
    void (*dropped)(void *ctx, const unsigned char *id);
    /* Another server (or this one) told all. */
    void (*told)(void *ctx, str text);
    /* Redis is there or not; fresh: its records are gone (another server, or emptied by a
     * restart). */
    void (*state)(void *ctx, bool up, bool fresh);
    void *ctx;
};
/* Owner: caller. Dies when out of memory. Outlives the flights it was given to. */
struct flight_shared *flight_shared_new(const struct flight_shared_opts *opts);
/* When those flights are drained and idle. */
void flight_shared_stop(struct flight_shared *s);
void flight_shared_free(struct flight_shared **sp);
const char *flight_shared_node(const struct flight_shared *s); /* as given */
bool flight_shared_is_up(const struct flight_shared *s);       /* any thread */
/* Its client, for commands about what is kept beside flights; until flight_shared_stop. Borrowed.
 */
struct redis *flight_shared_redis(struct flight_shared *s);

/* The id of a key: over its length-prefixed parts, so that "ab","c" and "a","bc" differ. Pure. */
void flight_share_id(const str *parts, unsigned count, unsigned char out[FLIGHT_ID_BYTES]);
/* Forgets the value for all servers; no value whose making began before is stored any more. done
 * (may be NULL): ERR_OK, or why Redis did not do it. Thread: any. */
void flight_shared_drop(struct flight_shared *s, const unsigned char *id,
                        void (*done)(void *ctx, err why), void *ctx);
/* text to the told of every connected server, this one too, in the order of the calls; lost when
 * Redis is away, or when too much waits for it (tells_lost). once: it need not be told again while
 * the same text waits. A few are on their way at a time, however many are told: nothing else is
 * refused because of them. Thread: any. */
void flight_shared_tell(struct flight_shared *s, str text, bool once);
/* Notes: a text that all servers may read under an id, apart from the records of flights, instead
 * of the one before. Lost when Redis is away, or refuses it. done (may be NULL): Redis has it, or
 * not; on the loop, later. Both are bounded by redis_timeout_ms. Thread: any. */
enum { FLIGHT_NOTE_BYTES_MAX = 1024 };
struct flight_note {
    const unsigned char *id;
    str text;
    int64_t ttl_ms;
    bool yields; /* to another text with at least half of that left */
    void (*done)(void *ctx, err why);
    void *ctx;
};
void flight_shared_note(struct flight_shared *s, const struct flight_note *note);
/* done once, on the loop, later: ERR_OK and the text, borrowed; ERR_NOT_FOUND: there is none; else
 * why Redis did not say. Thread: any. */
void flight_shared_noted(struct flight_shared *s, const unsigned char *id,
                         void (*done)(void *ctx, err why, str text), void *ctx);
/* A value of before, for a record that is gone or holds an older one: whoever comes to another
 * server late gets the same. */
void flight_shared_offer(struct flight_shared *s, const unsigned char *id,
                         const struct flight_keeping *keeping, const struct flight_arrival *a);
/* Is it a token, as versions of values made under a lease are? Pure. */
bool flight_token_is_fine(str token);

struct flight_shared_stats {
    uint64_t joins, hits, stale, errors, waits, grants; /* JOIN by answer */
    uint64_t takeovers, puts, puts_lost, pushes, pushes_lost, renewals_failed, drops, offers, alone,
        not_shared;
    uint64_t unpinned; /* by others, for there were pins_max */
    uint64_t tells_lost;
    uint64_t calls; /* now */
    struct redis_stats redis;
};
void flight_shared_stats_get(const struct flight_shared *s, struct flight_shared_stats *out);

#endif
