/* answer.h - answers with content: which header fields each carries, and sending them. */
#ifndef APP_ANSWER_H
#define APP_ANSWER_H

#include "http/http.h"
#include "http/stream.h"
#include "page/headers.h"

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
/* Adds the content-type of kept lines that have none. Returns theirs, or that. */
str answer_add_type(struct answer *w, str lines);
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
/* The same in pieces (http/stream.h): w's body is not sent. length: -1: it is not known. */
void answer_send_pull(struct http_exchange *x, const struct answer *w, int64_t length,
                      const struct http_stream *of, void *ctx);

/* Answers with JSON, cache-control (NULL: the default, private), and the security fields. body as
 * http_answer. */
void answer_json(struct http_exchange *x, int status, str body, const char *cache_control);
/* The same in pieces (http/stream.h). */
void answer_json_pull(struct http_exchange *x, int status, const char *cache_control,
                      const struct http_stream *of, void *ctx);
#define HEADERS_CACHE_NONE "private, no-store"
#define HEADERS_CACHE_PRIVATE "private, max-age=0, s-maxage=0, must-revalidate"

#endif
