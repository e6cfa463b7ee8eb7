/* fetch.h - one request to an origin, tried again where that is safe. Private to this folder.
 *
 * It runs under a pass of the limiter, also between its tries: the origin's turns are origin.h's.
 * Again, after FETCH_AGAIN_MS for each time before: a
 * GET, or a POST that only reads, whose connection failed or was cut, or that got 500, 502 or 504,
 * up to the origin's retries and while its deadline leaves time. 408, 425, 429 and 503 are answers:
 * the origin asks to be left alone. Thread: start from any, done and cancel on the loop. */
#ifndef RENDER_FETCH_H
#define RENDER_FETCH_H

#include "render/measure.h"
#include "render/origin.h"

enum { FETCH_AGAIN_MS = 100, FETCH_HEADERS_MAX = 7, FETCH_RETRY_AFTER_S_MAX = 86400 };

struct fetch {
    /* in */
    struct origin *origin;
    enum fetch_kind kind;
    struct limiter_pass *pass; /* IN until done; NULL: each try enters by itself, TURN_ASIDE */
    str url, body;             /* body.p NULL: a GET */
    bool reads;                /* a POST that changes nothing at the origin */
    bool as_asker;             /* without the server's own authorization */
    size_t reply_bytes_max;
    mono deadline; /* and the origin's time-out from each try on */
    struct arena *arena;
    void (*done)(struct fetch *f, enum render_why why);
    void *ctx;
    /* out; FINE: status 200, and fetch_count is to be told what the reply was */
    struct http_call call;
    int64_t retry_after_s; /* of BUSY; of FINE too: errors of api.php come with status 200 */
    struct err_note note;
    /* fetch.c's */
    struct http_pair headers[FETCH_HEADERS_MAX];
    unsigned headers_count, tries;
    mono began;
    struct loop_timer *timer;
    bool canceled;
};
/* Before start. An empty value is left out. */
void fetch_header(struct fetch *f, const char *name, str value);
/* Accept as a client of HTML sends it, said for bundles: of the same version. p NULL: the arena is
 * full. */
str fetch_bundle_accept(struct arena *a, str accept);
void fetch_start(struct fetch *f);
void fetch_cancel(struct fetch *f);
/* After FINE, once: FINE still, or why the reply was of no use. Other outcomes are counted before
 * done. */
void fetch_count(const struct fetch *f, enum render_why why);

#endif
