/* conn.h - the steps of a connection: read heads and bodies, send answers, end. Private to http.
 *
 * Model. Bytes are received into the worker's room, and a head is read where it lies. Only what
 * must outlive the worker's turn is kept by the connection: the head of a request that is not
 * answered at once, what came behind it, what the kernel had no room for.
 *
 *   reading -> in work -> (sending) -> reading
 *   sending -> lingering -> over      an answer that ends the connection
 *
 * An answer in pieces is being sent until its end (streams.h).
 *
 * Nothing is read while a request is in work or its answer is unsent. A connection that we end is
 * shut for writing, and what the client still sends is dropped for a while: a reset would take the
 * answer from it. Thread: the worker's that has the connection. */
#ifndef HTTP_CONN_H
#define HTTP_CONN_H

#include "http/streams.h"

/* As its epoll set tells. c may be over afterwards. True: it waits for a request, and nothing of it
 * lies here. */
bool conn_see(struct http_conn *c, uint32_t events);
/* Is what it reads next of a body? */
bool conn_collects(const struct http_conn *c);
/* More of what came is looked at. c may be over afterwards. */
void conn_again(struct http_conn *c);
/* Its exchange is answered, and nobody holds it: the answer goes out. c may be over afterwards. */
void conn_answer(struct http_conn *c);
/* What its stream came to, outside of the calls above. c may be over afterwards. */
void conn_stream(struct http_conn *c, enum stream_got got);
/* Whatever it is at, but nothing is in work. */
void conn_end(struct http_conn *c);

#endif
