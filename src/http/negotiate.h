/* negotiate.h - pure reading of header fields: tokens, codings, entity tags, ranges, preferences
 * (RFC 9110 5.6.2, 8.8, 12.5, 13, 14). */
#ifndef HTTP_NEGOTIATE_H
#define HTTP_NEGOTIATE_H

#include "base/check.h"
#include "base/str.h"

/* A header field, or a parameter of a query. */
struct http_pair {
    str name, value;
};

enum http_coding { CODING_IDENTITY, CODING_GZIP, CODING_ZSTD, CODINGS };
const char *http_coding_name(enum http_coding c);

/* Weight in thousandths each coding has for this Accept-Encoding; absent field: identity 1000,
 * others 0. identity is 0 only where the client forbids it by identity;q=0 or *;q=0. */
struct http_accept {
    int weight[CODINGS];
};
struct http_accept http_accept_encoding(str field);

/* The next entity tag of *rest, a list of them; false at the end and at anything that is no tag. */
struct http_etag {
    str opaque; /* without its quotes; borrowed */
    bool weak;
};
MUST_CHECK bool http_etag_next(str *rest, struct http_etag *out);
/* Does a list of entity tags ("*" or "a", W/"b") match tag (without quotes)? weak: W/ is
 * ignored. */
bool http_etag_matches(str field, str tag, bool weak);

/* What an entity tag says: without W/ and without its quotes, when it has both. *weak: it had W/.
 * Borrowed. */
str http_etag_bare(str tag, bool *weak);

/* One byte range of a body of size bytes. Several ranges or another unit: NONE, the whole is
 * sent. */
enum http_range_kind { RANGE_NONE, RANGE_ONE, RANGE_UNSATISFIABLE };
struct http_range {
    enum http_range_kind kind;
    uint64_t first, last;
};
struct http_range http_range(str field, uint64_t size);

/* Is s a token (RFC 9110 5.6.2)? It is not empty. */
bool http_is_token(str s);
/* Cuts the token s begins with; empty when there is none. */
str http_token_take(str *s);

/* The seconds that Prefer: wait=SECONDS asks for (RFC 7240, 4.3); the first of several counts.
 * False: it asks for none. */
bool http_prefer_wait(str field, uint64_t *seconds);

/* Is directive among Cache-Control's (in any letter case)? */
bool http_cache_control_has(str field, str directive);
/* For how many seconds the caches that it allows may give an answer: the smallest of max-age and
 * s-maxage that is not 0; 0: for none, or it does not say. */
uint64_t http_cache_life_s(str field);

#endif
