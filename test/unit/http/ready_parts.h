/* ready_parts.h - a server whose early hook has ready answers, on a listener of content and one of
 * admin; for tests and a fuzzer.
 *
 *   /told...   a ready answer that says what was seen of the request
 *   /same      a ready 304
 *   /large     a ready answer of PARTS_LARGE_BYTES, and a route with the same
 *   /healthz   a route: 200; /healthz/large with what /large has
 *   all else   no route: 404 */
#ifndef TEST_HTTP_READY_PARTS_H
#define TEST_HTTP_READY_PARTS_H

#include "http/http.h"

enum { PARTS_CONTENT, PARTS_ADMIN }; /* listeners */
enum { PARTS_LARGE_BYTES = 20000000, PARTS_CONNECTIONS_MAX = 200, PARTS_THREADS_MAX = 16 };

struct parts;
/* restless: connections go from worker to worker in every turn. */
struct parts *parts_start(unsigned threads, bool restless);
void parts_stop(struct parts **pp);
uint16_t parts_port(const struct parts *p, unsigned listen_index);
struct http_server *parts_server(struct parts *p);
unsigned parts_asked(struct parts *p);   /* how often the early hook was */
unsigned parts_threads(struct parts *p); /* how many threads asked it; PARTS_THREADS_MAX at most */
const char *parts_last_target(struct parts *p); /* of the request that finished last; static */
/* Sends one request whole, and again in pieces of so many bytes; dies when the answers differ in
 * more than Date, or one is none. head_only: it is answered without a body. */
void parts_compare(struct parts *p, str request, size_t piece, bool head_only);

#endif
