/* reply.h - a reply as it arrives: its head's lines, its body's bytes, each within limits. Private
 * to http.
 *
 * Model. The client gives line by line what came before the body (interim heads too) and piece by
 * piece the body as sent, without chunk framing. Strict where a lie would be believed: no folded
 * lines, names are tokens, values hold no controls, one length, no transfer coding but chunked, at
 * most one content coding and a known one. Pure; fuzzed. Thread: one at a time. */
#ifndef HTTP_REPLY_H
#define HTTP_REPLY_H

#include "base/arena.h"
#include "http/http.h"
#include "http/inflate.h"

enum {
    HTTP_REPLY_HEAD_BYTES_MAX = 64 << 10, /* all lines, interim heads and trailers with them */
    HTTP_REPLY_HEADERS_MAX = 256
};

struct reply {
    int status;        /* of the newest head; 0: none yet */
    err why;           /* ERR_OK, or what ended it */
    const char *fault; /* static; what was wrong */
    struct buf body;   /* decoded bytes so far; who takes them clears it */
    /* the rest is reply.c's */
    struct buf head; /* "name: value\n" lines */
    unsigned lines_count;
    size_t head_bytes;
    uint64_t body_bytes; /* as sent */
    size_t body_bytes_max;
    uint64_t length; /* what Content-Length says */
    bool has_length, head_done, has_coding;
    struct inflater inflater;
};

/* What a header's value may hold. */
bool reply_is_value(str s);

void reply_init(struct reply *r, size_t body_bytes_max);
void reply_fini(struct reply *r);
/* False: why and fault say what is wrong, and nothing more is to be given. */
bool reply_line(struct reply *r, str line);
bool reply_data(struct reply *r, str data);
/* Writes the headers of the newest head in their order into the arena. ERR_LIMIT: it is full. */
MUST_CHECK err reply_head(struct reply *r, struct arena *a, struct http_pair **headers,
                          unsigned *headers_count);
/* All has come: was it whole? ERR_UNAVAILABLE, ERR_BAD: no. */
MUST_CHECK err reply_finish(struct reply *r);

#endif
