/* headers.h - header fields of content: which may be kept with it, and which every answer carries.
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
 * 9110 7.6.1; RFC 9213; RFC 9530. Thread: any. */
#ifndef APP_HEADERS_H
#define APP_HEADERS_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "http/http.h"

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

/* How long a request waits for what others make: at most most_ms, or less by Prefer: wait=SECONDS.
 */
int64_t headers_wait_ms(const struct http_exchange *x, int64_t most_ms);

/* An answer under construction: all its fields, so that it can be sent once or made ready and sent
 * often. Names and values are borrowed until it was sent or made. More than ANSWER_HEADERS_MAX is
 * an INVARIANT. */
enum { ANSWER_HEADERS_MAX = 32 + 32 };
struct answer {
    int status;
    str body;
    unsigned count;
    struct http_pair headers[ANSWER_HEADERS_MAX];
};
void answer_add(struct answer *w, str name, str value);
/* Adds every kept line. Those that may not be kept (older rules let them in) are left out. */
void answer_add_kept(struct answer *w, str lines, enum headers_rule rule);
/* The answer depends on this request field too: joined with a Vary that is there. Never a second
 * Vary. */
void answer_add_vary(struct answer *w, struct arena *a, str field);
/* Adds what every answer carries: nosniff, referrer-policy, x-frame-options, CORS and, by the
 * content type, the content-security-policy. domain: whose style sheets HTML may use; empty:
 * nobody's. */
void answer_add_security(struct answer *w, struct arena *a, str content_type, str domain);
/* As that. styles: one more source of style sheets, "https://host:port"; empty: none. */
void answer_add_security_and(struct answer *w, struct arena *a, str content_type, str domain,
                             str styles);
/* May pages of other sites read the answers of this route? Contents, yes; the server's own, below
 * /v1/, no; values where value_share said so. */
bool answer_shared(const struct http_exchange *x);
/* Sends it; adds x-request-id, leaves CORS out where it is not shared. */
void answer_send(struct http_exchange *x, const struct answer *w);

/* Answers with JSON, cache-control (NULL: the default, private), and the security fields. body as
 * http_answer. */
void answer_json(struct http_exchange *x, int status, str body, const char *cache_control);
#define HEADERS_CACHE_PRIVATE "private, max-age=0, s-maxage=0, must-revalidate"

#endif
