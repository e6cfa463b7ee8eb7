/* exchange.h - one request and its answer, and the connection they come over. Private to http.
 *
 * A connection holds one exchange, which is emptied and used again for its next request: so a
 * request costs no allocation of its own. The worker that owns the connection moves the stage. Only
 * http_answer, tasks for its home, and a handler of a pooled route run elsewhere; while they may,
 * the exchange is held (`holds`). The sweep reads phase and body_bytes alone. */
#ifndef HTTP_EXCHANGE_H
#define HTTP_EXCHANGE_H

#include "base/buf.h"
#include "base/hash.h"
#include "base/home.h"
#include "http/chunk.h"
#include "http/conn_stream.h"
#include "http/http.h"
#include "http/router.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/uio.h>

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
 *   IDLE -> RUN -> SENT                 no body
 *   IDLE -> BODY -> RUN -> SENT         a body, collected
 *   IDLE -> DROP -> RUN -> SENT         answered already; the body is read and forgotten
 *           BODY -> DROP                it grew too large
 *   IDLE -> RUN -> SENT                 refused by its head; then the connection ends
 *   SENT goes back to IDLE when the answer is out, or the client is gone. */
enum stage { STAGE_IDLE, STAGE_BODY, STAGE_DROP, STAGE_RUN, STAGE_SENT, STAGES };

/* Who asked to be told that the client of a deferred exchange left; see gone.h. */
enum gone_state { GONE_UNASKED, GONE_ASKED, GONE_POSTED, GONE_TELLING, GONE_OVER };

struct trace; /* trace.h */

struct reply_header {
    struct reply_header *next;
    str name, value;
};

struct http_exchange {
    uint32_t magic;
    enum stage stage;
    struct http_exchange *self; /* for getters that must fill a cache */
    struct http_conn *conn;

    /* the head */
    enum http_method method;
    bool version_11;         /* or later; else 1.0 */
    bool keep_alive;         /* what 1.0 must ask for */
    const char *method_name; /* static, or in the arena */
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
    struct chunk_reader chunks;
    uint64_t body_seen; /* of a declared length, so much has come */
    uint64_t dropped, dropped_max;

    /* answer */
    atomic_bool answered;
    _Atomic unsigned holds; /* the answer that is owed, and who may still touch the exchange */
    http_gone_fn *gone;     /* whom to tell that the client left; NULL: nobody asked */
    void *gone_ctx;
    _Atomic int gone_state; /* enum gone_state */
    struct task gone_task, left_task, asked_task;
    bool deferred; /* set before the handing over, so plain reads after it are ordered */
    bool pooled;   /* its handler and tasks run on the pool, as a strand */
    bool strand_runs;
    struct task_list strand_tasks; /* both under the connection's strand_lock */
    struct task strand_turn, begin;
    struct home home;
    struct task resume; /* once it is answered and nobody holds it */
    bool close;         /* this answer ends the connection */
    bool reply_failed;  /* a header found no room */
    bool starved;       /* Retry-After: the arena's memory was others' */
    bool shared;        /* http_share */
    bool withheld;      /* http_withhold */
    bool patient;       /* http_patient */
    int status;         /* of the answer; 0: none yet */
    struct reply_header *reply_first, *reply_last;
    bool has_age; /* http_reply_age */
    int64_t age_s;
    str body_out;             /* of an answer that is not ready */
    struct http_ready *ready; /* a reference, until the exchange ends */
    uint64_t answer_bytes;    /* of the body that is sent */

    struct trace *_Atomic trace; /* NULL: it was not handed over, or there was no memory */
    void *state;
    _Atomic size_t *charged; /* NULL: nothing is */
    size_t charge;
    str request_id;
    struct arena arena;
    struct http_pair headers_inline[HTTP_HEADERS_INLINE];
};
#define EXCHANGE_MAGIC 0x0e8c4a01u

/* What the sweep may see of a connection. LINGER: all is sent, and what the client still sends is
 * dropped for a while. STREAM: an answer in pieces, none of which waits for its client; while one
 * does, SEND. */
enum phase {
    PHASE_IDLE,
    PHASE_HEAD,
    PHASE_BODY,
    PHASE_WORK,
    PHASE_SEND,
    PHASE_LINGER,
    PHASE_STREAM
};
enum { PHASE_BITS = 3 };

/* Of http_conn.phase: the low bits of the word. */
static inline enum phase phase_of(uint64_t word)
{
    return (enum phase)(word & (BIT(PHASE_BITS) - 1));
}

/* Bytes of a connection's own; p NULL: none. */
struct conn_bytes {
    char *p;
    size_t n;
};

struct http_conn {
    uint32_t magic;
    int fd;
    struct http_server *server;
    const struct http_listen *listen;
    const struct http_transport *transport;
    void *carried;                 /* the transport's own */
    struct http_worker *worker;    /* whose it is */
    struct http_conn *prev, *next; /* table; under its lock */
    _Atomic uint64_t phase;        /* a count of changes, shifted, and the phase in the low bits */
    _Atomic uint64_t body_bytes;   /* received for bodies, ever */
    _Atomic uint64_t sent_bytes;   /* given to the kernel, ever */
    bool local;                    /* a unix socket */
    /* the sweep's own */
    uint64_t swept_phase;
    int64_t phase_seen_ns, window_ns, probe_ns, moved_ns;
    uint64_t window_bytes, moved_bytes;
    bool cut;
    bool owed; /* under the table's lock: conns_owe saw it in work or sending, at owed_phase */
    uint64_t owed_phase;
    /* its worker's */
    uint32_t events; /* that the worker's set waits for */
    bool lingers;
    bool holds; /* the transport has bytes that the descriptor does not tell of */
    bool again; /* in the worker's list of those that have more to read in left */
    struct http_conn *again_next;
    atomic_bool left;            /* the client has shut its side; told to who asks */
    struct conn_bytes head;      /* of the request, when it outlives the worker's turn */
    struct conn_bytes left_over; /* came, and is not read yet */
    size_t left_scanned;         /* of a head that is not whole: no end of it is in there */
    struct conn_bytes rest_head; /* of an answer, what the kernel had no room for */
    size_t rest_head_sent;
    str rest_body;
    uint64_t lingered; /* bytes dropped */
    struct conn_stream stream;
    pthread_mutex_t strand_lock;
    char peer[HTTP_PEER_BYTES];
    struct http_exchange x;
};

/* What was not sent yet of rest_head. Borrowed until that is freed. */
static inline str conn_rest_head(const struct http_conn *c)
{
    return str_skip((str){ .p = c->rest_head.p, .n = c->rest_head.n }, c->rest_head_sent);
}
#define CONN_MAGIC 0x0c0991e1u

/* Forgets the request and its memory. */
void exchange_end(struct http_exchange *x);
/* Forgets the body alone. */
void exchange_body_end(struct http_exchange *x);
/* What x says of its head pointed into from; it is a copy at to now. */
void exchange_rebase(struct http_exchange *x, str from, const char *to);
void conn_phase_set(struct http_conn *c, enum phase to);
/* The same, within one request: its count of changes stays. */
void conn_phase_turn(struct http_conn *c, enum phase to);

/* answer.c. Posts to x's home; x is held, or in work. Thread: any. */
void exchange_post(struct http_exchange *x, struct task *t);

/* answer.c. Whose home t was posted to; NULL: it is a task of http's own. */
struct http_exchange *exchange_of_task(const struct task *t);

/* answer.c. One who holds x lets go of it; the last has its worker send the answer. x may be gone
 * afterwards. Thread: any. */
void exchange_release(struct http_exchange *x);
/* False: nobody holds it any more. */
MUST_CHECK bool exchange_hold(struct http_exchange *x);

/* Where a worker makes what is not ready of a head: good until its next answer. */
enum { ANSWER_AGE_BYTES = 32 };
struct answer_room {
    struct buf text;
    char age[ANSWER_AGE_BYTES];
};
/* What is sent of an answer, in order; behind own come Date and the empty line. */
struct answer_parts {
    str head, own, body;
};
/* False: there was no memory. */
MUST_CHECK bool answer_parts(struct http_exchange *x, struct answer_room *room,
                             struct answer_parts *out);

#endif
