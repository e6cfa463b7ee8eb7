/* sse.h - server-sent events (the HTML standard, 9.2.6) out of the pieces in which they arrive.
 * Private to cli.
 *
 * Model. A line ends with LF, CR or CRLF. A blank line ends an event. An event without data is
 * none, but its id counts. The id stays until another event ends: it names the place in the stream.
 * Pure. Thread: one at a time. */
#ifndef CLI_SSE_H
#define CLI_SSE_H

#include "base/buf.h"

enum {
    SSE_BYTES_MAX = 64 << 20, /* of one line, and of the data of one event */
    SSE_NAME_BYTES_MAX = 256, /* of an id, and of a name; longer ones are left out */
};

/* Borrowed inside the call that gets it. */
struct sse_event {
    str id;   /* the last one that came; empty: none has */
    str name; /* "message" when it says none */
    str data; /* lines with LF between them */
    str note; /* the last comment inside it; empty: none */
};
/* False: enough. */
typedef bool sse_take_fn(void *ctx, const struct sse_event *e);

struct sse {
    struct buf line, data;
    char id[SSE_NAME_BYTES_MAX + 1];      /* of the last event that is whole */
    char id_next[SSE_NAME_BYTES_MAX + 1]; /* of the one that is being put together */
    char name[SSE_NAME_BYTES_MAX + 1], note[SSE_NAME_BYTES_MAX + 1];
    bool has_data, after_cr, begun;
    bool alive; /* a comment came, or an event, since it was last set to false */
};
void sse_init(struct sse *s);
void sse_fini(struct sse *s);
/* A new connection: what was half there is forgotten, and the id stays. */
void sse_restart(struct sse *s);
/* Takes a piece apart, and calls take for each event that ends in it. ERR_IO: take had enough;
 * ERR_LIMIT: an event is too large. */
MUST_CHECK err sse_feed(struct sse *s, str piece, sse_take_fn *take, void *ctx);

#endif
