/* peer.h - servers that share a Redis ask each other for what one of them has: one question, over
 * HTTP, never passed on. And seals for what one of them leaves in Redis for the others.
 *
 * Model. Who has something notes in Redis, under its id (flight_share_id), the address where the
 * other servers ask it. Who lacks the thing looks for the note, and asks at that address.
 *   A note is no more than a hint: whoever can write into Redis must not learn the secret that the
 * servers share, nor answer in their place. So question and answer carry a keyed hash
 * (HMAC-SHA-256). That of the question covers its path and query, with a nonce and when it was
 * asked: who draws one by a forged note can use it no longer than PEER_QUESTION_S. That of the
 * answer covers the question's, the status and the body. So an answer cannot be used for another
 * question, nor twice. All is bounded: the note by the time-out of Redis, the call by PEER_MS.
 * Who is noted and does not answer may have it all the same: UNAVAILABLE. Whatever else fails is as
 * if nobody had it. A server that draws its own address asks nobody. */
#ifndef PEER_PEER_H
#define PEER_PEER_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

enum {
    PEER_MS = 3000,
    PEER_NOTE_MS_MAX = 7 * 24 * 3600 * 1000, /* no note lasts longer */
    PEER_SECRET_BYTES_MIN = 16,
    PEER_SEAL_BYTES = 64,
    PEER_QUESTION_S = 300, /* how far the clocks of two servers may be apart */
};
#define PEER_FIELD "palimpsest-servers" /* with the hash, in question and answer */

struct flight_shared;
struct http_client;
struct loop;
struct metrics;
struct peers;
struct peers_opts {
    struct loop *loop;
    struct clock *clock;
    struct http_client *client;
    struct flight_shared *shared;
    struct metrics *metrics; /* NULL: none */
    const char *address;     /* "http://host:port" of this server; copied */
    str secret;              /* PEER_SECRET_BYTES_MIN at least; copied */
};
/* Is it an address, http or https, and nothing behind it? Others are asked for no path but ours.
 * Pure. */
MUST_CHECK bool peer_is_address(str url);
/* Owner: caller. Dies when out of memory. */
struct peers *peers_new(const struct peers_opts *opts);
/* Nothing is asked any more. */
void peers_free(struct peers **pp);

/* What has this id can be had here, whoever noted it before. Thread: any. */
struct peer_noting {
    const unsigned char *id;
    int64_t ttl_ms; /* more than 0 */
    bool yields;    /* to another server's note with at least half of that left */
    /* The others can find it, or Redis has not taken the note; on the loop, later. May be NULL */
    void (*done)(void *ctx, err why);
    void *ctx;
};
void peer_note(struct peers *p, const struct peer_noting *n);

struct peer_ask {
    /* in; borrowed until done */
    struct peers *peers;
    const unsigned char *id;
    str question; /* "/path?query" */
    mono deadline;
    size_t reply_bytes_max;
    struct arena *arena;
    void (*done)(struct peer_ask *a); /* once, later, on the pool */
    /* out */
    /* ERR_OK: status and body are another server's; ERR_UNAVAILABLE: it does not answer, or refuses
     * to for now; ERR_SHUTDOWN, ERR_LIMIT; else ERR_NOT_FOUND */
    err why;
    int status;
    str body; /* in the arena */
    struct peer_work *work;
};
/* Thread: any. */
void peer_ask_start(struct peer_ask *a);

/* The other side. Is this question another server's, and of now? question: path and query as they
 * came. */
MUST_CHECK bool peer_is_sealed(const struct peers *p, str question, str seal);
/* For an answer to what was sealed so. */
void peer_seal(const struct peers *p, str question_seal, int status, str body,
               char out[PEER_SEAL_BYTES + 1]);

/* What a server leaves where others may write, too. of: what it is, so that it is taken for nothing
 * else; at most PEER_PARTS_MAX, each counted with its length. */
enum { PEER_PARTS_MAX = 8 };
struct peer_value {
    const str *of;
    unsigned of_count;
    int64_t sealed_s; /* peer_now_s of who seals it */
    str bytes;
};
int64_t peer_now_s(const struct peers *p);
void peer_value_seal(const struct peers *p, const struct peer_value *v,
                     char out[PEER_SEAL_BYTES + 1]);
/* ours: the seal that it should have. Is given that, and of now? */
MUST_CHECK bool peer_value_is_sealed(const struct peers *p, int64_t sealed_s,
                                     const char ours[PEER_SEAL_BYTES + 1], str given);
/* It was not, or had none: to be counted. */
void peer_refused(const struct peers *p);

#endif
