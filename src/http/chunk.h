/* chunk.h - the chunks of a request's body (RFC 9112 7.1), in pieces as they come, strictly.
 * Private to http.
 *
 * Lines end in CRLF and in nothing else. A size is 1 to 16 hex digits. Extensions and trailer
 * fields are dropped; they hold no control byte but TAB, the name of a field is a token, and the
 * line of a chunk and the trailer section are limited. Whatever is read differently elsewhere is
 * CHUNK_BAD, so that nobody before us sees another end of the body. Pure. Thread: any. */
#ifndef HTTP_CHUNK_H
#define HTTP_CHUNK_H

#include "base/str.h"

enum {
    CHUNK_LINE_BYTES_MAX = 4096,   /* of a size with its extensions */
    CHUNK_TRAILER_BYTES_MAX = 8192 /* of all trailer fields */
};

enum chunk_got {
    CHUNK_MORE, /* all was taken, and the body goes on */
    CHUNK_DATA, /* a piece of the body */
    CHUNK_END,  /* that was all of it; what is left of the bytes is not of the body */
    CHUNK_BAD,
    CHUNK_TOO_LARGE /* a size that no number of 63 bits holds */
};

struct chunk_reader { /* zeroed before the first use */
    unsigned at;      /* what comes next; chunk.c's */
    unsigned digits;
    uint64_t size; /* being read; then what is left of the chunk */
    unsigned line_bytes;
    unsigned field_bytes; /* of this line of the trailer section */
    bool has_colon;
    bool odd; /* there was an extension, or a trailer field */
};

/* Takes bytes off *in up to the end of a piece of the body. After CHUNK_DATA it is called again
 * with what is left; after the last three not any more. */
enum chunk_got chunk_next(struct chunk_reader *r, str *in, str *data);

#endif
