/* headers.h - header fields of content: which may be kept with it.
 *
 * Kept: what describes the content and says nothing of the writer. Never kept:
 * - what belongs to one connection, one request or one writer: hop-by-hop fields, host, cookies,
 *   credentials, conditions, accept*, traces, x-client-ip, x-request-*;
 * - what the server states itself: date, etag, vary, content-length, content-encoding; the security
 *   fields too, for a stored one could not be changed any more;
 * - digests: they are of the bytes that were sent in, not of the bytes that go out;
 * - orders to caches, proxies and browsers. New ones come every year, so most go by a word of their
 *   name: whatever has "policy", "cache" or "origin" in it is one.
 * A list of what may be kept was not taken: RESTBase's clients have names of their own, and its
 * suite wants `a` back. The lists stand in headers.c, and the same in docs/api.md, section 3. Kept
 * lines are "name: value\n", names in lower case. Sources: RESTBase
 * lib/security_response_header_filter.js, whose leaks of the writer's headers are not repeated; RFC
 * 9110 7.6.1; RFC 9213; RFC 9530. Pure. Thread: any. */
#ifndef PAGE_HEADERS_H
#define PAGE_HEADERS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "http/negotiate.h"

enum headers_rule {
    HEADERS_ALL,     /* every field that may be kept (members of a bundle; key_rev_value) */
    HEADERS_X_STORE, /* x-store-NAME as NAME, and content-type unless x-store-content-type is there
                        (a raw content) */
    HEADERS_VALUE,   /* the same, and of vary, location, content-location and last-modified too
                        (key_value) */
};

/* May a field of this name be kept and replayed? The name in any letter case; false for what is no
 * token. */
bool headers_may_keep(str name, enum headers_rule rule);
/* No control bytes but tab, at most PAGE_HEADERS_BYTES_MAX long. */
bool headers_value_is_sane(str value);
/* The lines to keep of these fields, in the arena; fields that may not be kept are left out in
 * silence. A later field of a name already there is left out. Fails: ERR_BAD (a value that is not
 * sane), ERR_LIMIT (more than PAGE_HEADERS_MAX or PAGE_HEADERS_BYTES_MAX). */
MUST_CHECK err headers_keep(struct arena *a, const struct http_pair *fields, unsigned count,
                            enum headers_rule rule, str *lines, struct err_note *note);
/* Cuts the next line from *lines; false at the end. */
bool headers_next(str *lines, struct http_pair *out);
/* The value of a kept field; false when absent. */
bool headers_find(str lines, str name, str *value);

#endif
