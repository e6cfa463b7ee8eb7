/* slow.h - the slowest requests that a server finished of late, with the stages they went through.
 *
 * Model. A server keeps the HTTP_SLOW_MAX slowest of those that finished in the last hour. Whoever
 * is faster than all of them, or than HTTP_SLOW_NS_MIN, costs one comparison. A request that was
 * handed over (to the pool, or deferred) also has the last HTTP_TRACE_MAX of its events. Not kept:
 * requests that wait on purpose (http_patient). */
#ifndef HTTP_SLOW_H
#define HTTP_SLOW_H

#include "base/times.h"
#include "http/http.h"

enum {
    HTTP_SLOW_MAX = 256,
    HTTP_SLOW_NS_MIN = 1000000,
    HTTP_TRACE_MAX = 64,
    HTTP_SLOW_METHOD_BYTES = 16,
    HTTP_SLOW_TARGET_BYTES = 384,
    HTTP_SLOW_ID_BYTES = 128
};

struct http_slow {
    int64_t ns; /* first byte of the head to the end */
    mono finished;
    wall began;
    int status;      /* 0: never answered, or its client left before */
    uint64_t bytes;  /* of the body, sent */
    size_t target_n; /* of target; what is longer was cut */
    bool target_cut;
    char method[HTTP_SLOW_METHOD_BYTES]; /* NUL-terminated, cut */
    char target[HTTP_SLOW_TARGET_BYTES]; /* as hooks.target_shown has it */
    size_t id_n;
    char id[HTTP_SLOW_ID_BYTES];
    unsigned events_count, events_lost; /* lost: overwritten by later ones */
    uint64_t events[HTTP_TRACE_MAX];    /* oldest first; see http_event_of */
};

struct http_event {
    int64_t ns;         /* since the request began */
    const char *stage;  /* static */
    const char *thread; /* its name; static */
};
struct http_event http_event_of(uint64_t event);

/* x waits on purpose, for what may not come for long: it is not kept. Thread: its handler, before
 * http_defer. */
void http_patient(struct http_exchange *x);

/* Those of x's server, slowest first, at most max. Returns how many. Thread: any. */
unsigned http_slow_list(const struct http_exchange *x, struct http_slow *out, unsigned max);

#endif
