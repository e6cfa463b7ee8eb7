/* head.h - one pass over a request head: is it what every other HTTP reader would see? Private to
 * http.
 *
 * Model. The library parses leniently (bare LF, folded lines, NUL) and tells only names and values.
 * It parses in place, though: in a clean head each name starts two bytes after the value before it
 * and the last value ends four bytes before the head's end. So a head is accepted only when the
 * pieces tile it exactly; what the library bent does not. Then names are tokens, values hold no
 * control bytes, and the fields that decide where a body ends and whose request it is appear once
 * (RFC 9112 2.2, 3, 5, 6; RFC 9110 5.5, 7.2).
 *   Of an absolute target ("http://host/path") the path is the target, and the host stands for the
 * one that Host says, which must be there and fine all the same (RFC 9112 3.2, 3.2.2).
 *   Chunk framing is never shown to us, and the library takes bare LF in it and drops extensions
 * unread. Who stands before us may see other chunks, and so another end of the body: so a chunked
 * request is the last of its connection, and nothing behind it is read as a request. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "http/exchange.h"

/* The library's memory of a connection: it holds the head as sent, a record for each field, and the
 * answer's head; and each request clears one and a half times as much as there is. So there is
 * little more than what a head may have. */
enum {
    HEAD_ROOM_BYTES = 8 << 10,  /* beyond head_bytes_max */
    HEAD_FIELD_BYTES = 64,      /* its record of one field */
    HEAD_ANSWER_BYTES = 4 << 10 /* kept for the answer's head */
};

struct head_fault {
    int status;         /* 0: the head is fine */
    const char *detail; /* static */
};

/* Is there a byte below least, or DEL? TAB is none when least is a blank. */
bool head_has_control(const char *p, size_t n, unsigned char least);
/* Name of a field that we put before those that were sent; known by its address. */
extern const char head_not_sent[];

/* Fills the head's part of x. version is the library's pointer to it; head_bytes_max of all lines,
 * less when there are more than some 60 fields: those take from the answer's room. */
struct head_fault head_check(struct http_exchange *x, const char *version, size_t head_bytes_max);

/* The whole head of a plain request at the start of bytes, found without the library: GET or HEAD,
 * HTTP/1.1, no body, no more fields than fit into x, none that asks more of the connection than to
 * go on. Fills the head's part of x, whose strings point into bytes; *n is the head's size. False:
 * the library shall read it, and say what is wrong; x is to be ended. What is true here passes
 * head_check too, with the same fields. */
bool head_plain(struct http_exchange *x, str bytes, size_t *n);

#endif
