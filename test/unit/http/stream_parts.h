/* stream_parts.h - a server of streams and a client that reads them, for tests.
 *
 *   GET /text?n=N            N bytes of the alphabet, over and over, in pieces
 *            &piece=P        of P bytes [1000]
 *            &length=L       with a declared length of L
 *            &lent=1         out of memory of the test's own, else written into the room
 *            &fail=F         fails before byte F
 *            &end=E          says END at byte E
 *   GET /feed                waits; each event of feeds_tell is a line "event"; ?max=M ends it
 * after M events. In a drain it says "bye" and ends GET /late                a feed that another
 * thread begins (bench_late) GET /plain               "plain\n", whole
 * "/text" and "/feed" are on the pool as "/pool/text" and "/pool/feed". */
#ifndef TEST_HTTP_STREAM_PARTS_H
#define TEST_HTTP_STREAM_PARTS_H

#include "http/http.h"
#include "http/stream.h"

#include <pthread.h>
#include <stdatomic.h>

enum { FEEDS_MAX = 1024, PIECE_BYTES_MAX = 4 << 20 };

struct flow;

struct bench {
    struct http_server *server;
    uint16_t port;
    char *letters;        /* what is lent */
    pthread_mutex_t lock; /* of the next two, and of what each feed has to say */
    struct flow *feeds[FEEDS_MAX];
    unsigned feeds_count, drops;
    struct http_exchange *_Atomic late;
    atomic_uint begun, pulls, overs, finished, refused;
    atomic_uint ended_told;        /* pulls that heard that the server drains */
    _Atomic uint64_t given;        /* by pulls */
    _Atomic uint64_t bytes;        /* as the finished hook had them of the last stream */
    atomic_int status;             /* the same */
    atomic_bool unordered;         /* finished came before over, or pull after it */
    atomic_int_least64_t ahead_ns; /* of the server's monotonic clock */
    struct clock clock;
};

void bench_begin(struct bench *b, const struct http_limits *limits);
/* Ends the server, and checks that each stream was told that it is over, once. */
void bench_end(struct bench *b);
/* So many events more for each feed that is there, and wakes them, under the lock. */
void feeds_tell(struct bench *b, unsigned events);
/* Each is given up by the server. */
void feeds_give_up(struct bench *b);
unsigned feeds_count(struct bench *b);
/* The thread that calls begins what asked for /late. */
void bench_late(struct bench *b);

/* ---- the client ---- */

int ask(const struct bench *b, const char *target);
int ask_as(const struct bench *b, const char *method, const char *target, const char *version);

enum { BODY_KEPT = 4096 };
struct read {
    int status;          /* 0: the connection ended before */
    bool chunked, close; /* as the head says */
    int64_t length;      /* the same; -1: it does not say */
    uint64_t body_n;
    bool alphabet; /* the body is what /text gives */
    bool whole;    /* it ended as it was framed */
    bool reset;
    char body[BODY_KEPT + 1]; /* cut; NUL-terminated */
};
/* One answer. bare: to HEAD. */
void read_answer(int fd, bool bare, struct read *out);
/* The head alone, then as many bytes of a chunked body as make `text`, framed or not. Dies when
 * something else comes. */
void read_until(int fd, const char *text);

#endif
