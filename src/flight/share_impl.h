/* share_impl.h - one call in one flight across servers, and all of them. Private to share*.c. */
#ifndef FLIGHT_SHARE_IMPL_H
#define FLIGHT_SHARE_IMPL_H

#include "base/map.h"
#include "base/metrics.h"
#include "base/rng.h"
#include "flight/share.h"
#include "flight/share_core.h"
#include "flight/share_scripts.h"

#include <stdatomic.h>

enum { SHARE_ID_TEXT = 2 * FLIGHT_ID_BYTES, SHARE_KEY_BYTES = SHARE_ID_TEXT + 9 };
/* Microseconds; Lua's numbers hold it exactly. */
#define SHARE_FENCE_MAX UINT64_C(9000000000000000)

/* What came for a call: a value, or why there is none. bytes are of the call when kept. */
struct share_news {
    enum share_event event; /* GOT_VALUE, GOT_ERROR, GOT_RETRY */
    uint64_t fence;
    struct flight_arrival value;
    err why;
    struct err_note note;
    int64_t left_ms; /* of an error: how long Redis answers it */
};

struct share_call {
    uint32_t magic;
    struct flight_shared *shared;
    struct flight *flight; /* NULL: it ended */
    struct share_machine machine;
    struct share_call *next, *prev; /* all */
    struct share_call *same_next;   /* of the same id */
    struct loop_timer *timer;       /* WAITING: the lease's end; LEADING: renewals */
    unsigned replies;               /* of Redis that are still to come */
    bool posted;                    /* made_here waits for its turn of the loop */
    char id[SHARE_ID_TEXT + 1], key[SHARE_KEY_BYTES + 1];
    char token[FLIGHT_TOKEN_BYTES_MAX + 1]; /* of our lease, or of the one we wait for */
    uint64_t fence;
    char since[24];  /* for JOIN (share_scripts.h); empty: any value will do */
    bool offered;    /* what the maker holds was given back, or it holds none */
    bool waited_out; /* the next JOIN is because a lease ran out */
    mono began, make_began;
    char *kept; /* a push that came before the answer to JOIN; NULL: none */
    size_t kept_bytes;
    /* what the maker gave */
    bool has_result, result_keep;
    err result_why;
    struct flight_value *result;
    struct err_note result_note;
};
#define SHARE_CALL_MAGIC 0x5a4eca11u

struct flight_shared {
    uint32_t magic;
    struct flight_shared_opts opts;
    char node[FLIGHT_NODE_BYTES_MAX + 1], channel[FLIGHT_NODE_BYTES_MAX + 8];
    char run_id[64];
    struct redis *redis;
    struct rng rng;
    struct share_call *all;
    struct map *by_id; /* id text to the first of its calls */
    struct flight_shared_stats stats;
    struct share_tells *tells;
    struct metric *metrics[18];
    struct metric *up;
};
#define SHARED_MAGIC 0x5a4edf11u

/* share.c; c may be gone behind what ends it: stop, end_theirs, reply_over. */
void share_call_step(struct share_call *c, enum share_event e);
void share_call_act(struct share_call *c, unsigned actions); /* what the machine said */
void share_call_stop(struct share_call *c, err why, const char *what);
void share_call_end_theirs(struct share_call *c, const struct share_news *n);
void share_call_reply_over(struct share_call *c);
mono share_call_now(const struct share_call *c);
int64_t share_clip(int64_t n, int64_t least, int64_t most);
void share_pushed(struct share_call *c, const struct share_news *n,
                  str message);              /* c may be gone behind it */
void share_redis_down(struct share_call *c); /* as above */

/* share_lease.c */
void share_lease_join(struct share_call *c);
void share_lease_publish(struct share_call *c);
void share_lease_renew(struct share_call *c);
void share_lease_give_back(struct share_call *c, str token);
void share_lease_redis_away(struct share_call *c);
/* What came from others, asked for or not. */
void share_lease_deliver(struct share_call *c, const struct share_news *n);

/* share_tell.c */
#define SHARE_ALL_CHANNEL "pal:all"
#define SHARE_TELL_MARK "! "
struct share_tells;
/* Dies when out of memory. */
struct share_tells *share_tells_new(struct flight_shared *s);
void share_tells_free(struct share_tells **tp); /* Redis is stopped */
/* once: of equal texts that wait one will do. Thread: any. */
void share_tells_add(struct share_tells *t, str text, bool once);

/* shared.c: the figures into the metrics. */
void share_show(struct flight_shared *s);

/* share_words.c; pure */
/* A message on our channel: "ID TOKEN KIND ...". False: none of ours. */
MUST_CHECK bool share_push_parse(str message, str *id, struct share_news *out);
/* An error as text for the others, and back: NAME or NAME SENTENCE. */
str share_class(err why, const struct err_note *note, char out[FLIGHT_CLASS_BYTES_MAX]);
void share_class_parse(str text, err *why, struct err_note *note);
uint64_t share_fence_of(str token); /* 0: it is no token */
/* The key of what is pinned with it; empty: it is not pinned. */
str share_index(const struct flight_keeping *keeping, char out[SHARE_KEY_BYTES + 1]);
void share_id_text(const unsigned char *id, char out[SHARE_ID_TEXT + 1]);
MUST_CHECK bool share_id_parse(str text, unsigned char out[FLIGHT_ID_BYTES]);
#define SHARE_CLASS_NOT_SHARED "not_shared"

#endif
