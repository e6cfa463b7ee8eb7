/* echo.h - a small server of every feature, for the live tests and as a program (http_echo).
 *
 *   GET  /echo/{a}[/{b}]     what was asked: method, target, query, params, chosen headers, one a
 *        line
 *   GET  /rest/{+rest}       the rest, still encoded
 *   GET  /size/{n}           n bytes of 'x'
 *   GET  /wide/{n}           a header of n bytes
 *   GET  /park               deferred until another thread answers it (POST /release, or
 *                            echo_release); with ?ready by the ready answer
 *   GET  /block              holds its worker up until echo_unblock
 *   GET  /ready              a ready answer, from the early hook; ?note= adds X-Note
 *   GET  /not-modified       304 with the size that a 200 would have
 *   POST /count              length and sum of a body of at most ECHO_BODY_BYTES_MAX
 *   PUT  /forbidden          refused by the authorize hook
 *   DELETE /thing            204
 *   GET  /admin/only         on admin listeners; /alive (label "health") on both
 */
#ifndef TEST_HTTP_ECHO_H
#define TEST_HTTP_ECHO_H

#include "http/http.h"

enum { ECHO_BODY_BYTES_MAX = 1 << 20, ECHO_PARKED_MAX = 512 };

struct echo;
struct echo_counts {
    unsigned finished, never_answered, early;
};

/* From here on servers start with so many threads of a pool for all routes but /block, /ready,
 * /release and /alive [0]. */
void echo_pool(unsigned threads);
/* From here on servers listen for content on this unix:/PATH, too, as listener 2; NULL: not.
 * Borrowed. */
void echo_unix(const char *address, unsigned mode);
/* From here on servers have this transport; NULL: the environment says which (odd_transport.h). */
void echo_transport(const struct http_transport *t);
/* Starts on 127.0.0.1: listener 0 serves content, listener 1 admin. Dies on failure. */
struct echo *echo_start(const struct http_limits *limits);
/* Drains, answers what is parked, stops. */
void echo_stop(struct echo **ep);
uint16_t echo_port(const struct echo *e, unsigned listen_index);
struct http_server *echo_server(struct echo *e);
unsigned echo_parked(struct echo *e);
/* Answers all that is parked, on the calling thread. */
void echo_release(struct echo *e);
/* Returns when a worker is held up; then lets go of it. */
void echo_blocked(struct echo *e);
void echo_unblock(struct echo *e);
struct echo_counts echo_counts(struct echo *e);
struct clock *echo_clock(void);

#endif
