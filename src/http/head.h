/* head.h - one pass over a request head: is it what every other HTTP reader would see? Private to
 * http.
 *
 * Model. A head is read where it lies: what the exchange says of it points into its bytes. Lines
 * end in CRLF and in nothing else, names are tokens, values hold no control bytes, blanks and
 * tabs around a value are no part of it, no line is folded, and the fields that decide where a body
 * ends and whose request it is appear once (RFC 9112 2.2, 3, 5, 6; RFC 9110 5.5, 7.2). Of an
 * absolute target ("http://host/path") the path is the target, and the host stands for the one that
 * Host says, which must be there and fine all the same (RFC 9112 3.2, 3.2.2).
 *   A chunked request says exactly "chunked", in HTTP/1.1, without a length, and chunk.h refuses
 * whatever another reader could see another end in: so what is behind it is the next request. Some
 * readers do not know what is rare, though it is allowed: blanks behind "chunked", extensions of
 * chunks, trailers. A request with those is taken, and is the last of its connection. Thread: the
 * connection's worker. */
#ifndef HTTP_HEAD_H
#define HTTP_HEAD_H

#include "http/exchange.h"

enum { HEAD_EMPTY_LINES_MAX = 2 }; /* before a request line; they are dropped (RFC 9112 2.2) */

struct head_fault {
    int status;         /* 0: the head is fine */
    const char *detail; /* static */
};

/* Is there a byte below least, or DEL? TAB is none when least is a blank. */
bool head_has_control(const char *p, size_t n, unsigned char least);

/* As in a request line; static, with a NUL behind it. m is none of HTTP_OTHER. */
str head_method_name(enum http_method m);

/* Fills the head's part of x from the head at the start of bytes; *n: its size, empty lines before
 * it included. 0: its end is not there yet, and x is as exchange_end leaves it, or must go back to
 * that by it. With a fault *n is what was looked at, and says nothing of where a request ends. */
struct head_fault head_read(struct http_exchange *x, str bytes, size_t *n);

/* Is the end of a head in bytes, or what no head may hold? from: so much of them was looked at
 * before. Linear over all looks, for who sends a head byte by byte. */
bool head_has_end(str bytes, size_t from);

/* The fault of a head that has no end within head_bytes_max. */
struct head_fault head_too_large(str bytes);

#endif
