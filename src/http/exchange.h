/* exchange.h - one request and its answer, and the connection it came on. Private to http.
 *
 * Model: each connection owns one exchange, used for its requests in turn, so that a request costs
 * no allocation of its own. The worker that owns the connection moves the stage; only http_answer,
 * after http_defer, and tasks for its home may come from another thread. The sweep reads phase and
 * body_bytes alone. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/home.h"
#include "http/http.h"
#include "http/router.h"

#include <microhttpd.h>
#include <pthread.h>
#include <stdatomic.h>

enum {
    HTTP_HEADERS_MAX = 128,   /* fields in one head; one more gets 431 */
    HTTP_HEADERS_INLINE = 24, /* more than these go to the arena */
    /* of a request's memory, never filled by its body: to say what is wrong */
    HTTP_ANSWER_ROOM = 128 << 10,
    HTTP_PEER_BYTES = 48,
    HTTP_REQUEST_ID_BYTES_MAX = 128
};

/* Where the worker stands with a request.
 *
 *   IDLE -> LINE -> RUN -> SENT                     no body
 *           LINE -> BODY -> RUN -> SENT             a body, collected
 *           LINE -> DROP -> RUN ...                 answered already; the body is read and
 *                   forgotten BODY -> DROP                    it grew too large
 *   Any stage goes back to IDLE when the library says that the request is over. */
enum stage { STAGE_IDLE, STAGE_LINE, STAGE_BODY, STAGE_DROP, STAGE_RUN, STAGE_SENT, STAGES };

struct reply_header {
    struct reply_header *next;
    const char *name, *value;
};

struct http_exchange {
    uint32_t magic;
    enum stage stage;
    struct http_exchange *self; /* for getters that must fill a cache */
    struct http_conn *conn;
    struct MHD_Connection *mhd;

    /* the head */
    enum http_method method;
    bool version_11; /* or later; else 1.0 */
    const char *method_name;
    const char *line_target;  /* as the library holds it; for the check of the head */
    size_t line_target_bytes; /* with the query */
    str target, query;
    struct http_pair *headers; /* headers_inline, or in the arena */
    unsigned headers_count;
    struct http_common common;
    uint64_t body_declared; /* Content-Length; UINT64_MAX when chunked */
    bool has_body, expects_continue;
    mono began;

    /* route */
    bool routed;
    struct router_match match;

    /* body */
    size_t body_bytes_max; /* the route's, or less */
    struct buf body;
    struct budget_part body_part; /* of what has come of it */
    uint64_t dropped, dropped_max;

    /* answer */
    atomic_bool answered;
    http_gone_fn *gone; /* whom to tell that the client left; NULL: nobody asked */
    void *gone_ctx;
    bool gone_late;     /* only when it waits long */
    unsigned gone_slot; /* under gone.c's lock; 0: not watched */
    bool deferred;      /* set before the handing over, so plain reads after it are ordered */
    struct home home;
    struct task resume; /* once it is answered */
    bool close;         /* this answer ends the connection */
    bool queue_failed;
    bool reply_failed; /* a header found no room */
    bool shared;       /* http_share */
    bool withheld;     /* http_withhold */
    int status;        /* of the answer; 0: none yet */
    struct reply_header *reply_first, *reply_last;
    bool has_age; /* http_reply_age */
    int64_t age_s;
    struct MHD_Response *response; /* ours until it was queued */
    struct http_ready *ready;      /* a reference kept for a copy or a deferred answer */
    uint64_t answer_bytes;

    void *state;
    _Atomic size_t *charged; /* NULL: nothing is */
    size_t charge;
    str request_id;
    struct arena arena;
    struct http_pair headers_inline[HTTP_HEADERS_INLINE];
};
#define EXCHANGE_MAGIC 0x0e8c4a01u

/* What the sweep may see of a connection. */
enum phase { PHASE_IDLE, PHASE_HEAD, PHASE_BODY, PHASE_WORK, PHASE_SEND };
enum { PHASE_BITS = 3 };

/* Of http_conn.phase: the low bits of the word. */
static inline enum phase phase_of(uint64_t word)
{
    return (enum phase)(word & (BIT(PHASE_BITS) - 1));
}

struct http_conn {
    uint32_t magic;
    int fd;
    struct http_server *server;
    const struct http_listen *listen;
    struct http_conn *prev, *next; /* table; under its lock */
    _Atomic uint64_t phase;        /* a count of changes, shifted, and the phase in the low bits */
    _Atomic uint64_t body_bytes;   /* received for bodies, ever */
    /* the sweep's own */
    uint64_t swept_phase;
    int64_t phase_seen_ns, window_ns, probe_ns, moved_ns, left_ns;
    uint64_t window_bytes, idle_bytes, moved_bytes;
    uint64_t window_turns; /* its worker's when the window of a body began */
    uint64_t rested_turns; /* and 1 more, when its worker rested at the last sweep; else 0 */
    bool cut;
    uint64_t stuck_bytes; /* under the table's lock: body_bytes when its worker had nothing to do */
    bool owed; /* under the table's lock: conns_owe saw it in work or sending, at owed_phase */
    uint64_t owed_phase;
    uint64_t line_phase;        /* phase when a request line had begun already; 0: the first line */
    struct lane *lane;          /* whose it is; NULL: the library's */
    struct http_worker *worker; /* the library's thread that has it */
    /* on its way from a lane to the library */
    struct task give;
    int given_fd;
    struct hash_node given;
    str rest_head,
        rest_body;     /* of an answer from a lane: what the client's kernel had no room for */
    size_t kept_bytes; /* what its lane answered and left with the kernel */
    bool asked; /* the lane asked the early hook about the request that the library reads first */
    char peer[HTTP_PEER_BYTES];
    struct http_exchange x;
};
#define CONN_MAGIC 0x0c0991e1u

/* Starts the exchange for the request whose line was read. */
void exchange_begin(struct http_exchange *x, struct MHD_Connection *mhd, const char *line_target);
/* Forgets the request and its memory. */
void exchange_end(struct http_exchange *x);
/* Forgets the body alone. */
void exchange_body_end(struct http_exchange *x);
void conn_phase_set(struct http_conn *c, enum phase to);

/* answer.c. It is deferred, and its answer is stored: the worker resumes it. x may be gone
 * afterwards, but on its worker. Thread: any. */
void exchange_resume(struct http_exchange *x);
/* The ready answer that x has: its head, but for Date, Age, what http_reply_header added and the
 * empty line; and the body to send. */
void exchange_ready_parts(const struct http_exchange *x, str *head, str *body);
/* Hands the stored answer to the library; MHD_NO closes the connection. */
enum MHD_Result exchange_queue(struct http_exchange *x);

#endif
