/* streams.h - what a connection and its worker ask of a stream (stream.h). Private to http.
 *
 * States, moved by the worker alone after http_answer_pull:
 *
 *   NONE                               refused: an answer as any other, behind which over is called
 *   NONE -> BARE                       no body is sent: the same
 *   NONE -> BEGINS -> FLOWS <-> FULL   FULL: a piece waits for its client
 *                     FLOWS <-> WAITS  for http_wake
 *           any of these but BARE -> ENDED -> NONE   ENDED: over was called, a wake is on its way
 */
#ifndef HTTP_STREAMS_H
#define HTTP_STREAMS_H

#include "http/transport.h"

/* x is answered by a stream that has a body. head: of the answer, in the worker's own memory. */
enum stream_got stream_begin(struct http_conn *c, struct pieces *head);
/* x's answer cannot be made. */
enum stream_got stream_drop(struct http_conn *c);
/* As the set tells. */
enum stream_got stream_see(struct http_conn *c, uint32_t events);
/* Its turn has come again. */
enum stream_got stream_turn(struct http_conn *c);
/* There may be more, or the server drains. */
enum stream_got stream_rouse(struct http_conn *c);
/* over was called, if there was a stream; the request ends. */
void stream_end(struct http_conn *c);
/* over is called now, though its end comes later: nothing wakes it any more. */
void stream_tell(struct http_conn *c);
/* The lines of a head that frame the body. */
void stream_frame(const struct http_conn *c, struct buf *b);

static inline bool stream_is(const struct http_conn *c)
{
    return c->stream.state > STREAM_BARE;
}

#endif
