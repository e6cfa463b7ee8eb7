/* errors.h - the one place where errors become HTTP: RFC 9457 problem documents with RESTBase's
 * members (type, title, detail, method, uri, status; docs/peers.md, 1). Paths
 * under /v1/ answer as Querator does instead: {"code":400,"code_text":"Bad
 * Request","message":"..."}. */
#ifndef APP_ERRORS_H
#define APP_ERRORS_H

#include "base/err.h"
#include "http/http.h"

#define PROBLEM_TYPE_PREFIX "https://mediawiki.org/wiki/HyperSwitch/errors/"

/* Answers with a problem document. type: "not_found", becomes the problem type URI's last part;
 * title: NULL gives the status's standard phrase; extra: members to add as rendered JSON
 * (",\"reason\":\"culled\"") or STR_NONE. */
void app_problem(struct http_exchange *x, int status, const char *type, const char *title,
                 str detail, str extra);
/* The same of a problem that says more. */
struct app_problem {
    int status;
    const char *type, *title;
    str detail, extra;
    int64_t retry_s;           /* 0: not said, but with 503 */
    const char *cache_control; /* NULL: whoever keeps it asks again each time, as all others say */
};
void app_problem_told(struct http_exchange *x, const struct app_problem *p);
/* The same in words alone. False, so that a check can end with it. detail NULL: no memory for it.
 */
bool app_refused(struct http_exchange *x, int status, const char *type, const char *detail);
/* Refuses with 503 when the server drains: for requests that would have to wait. False:
 * answered. */
MUST_CHECK bool app_may_wait(struct http_exchange *x);
/* The standard status and type of a code; detail from note (may be NULL). For 500 and 507 the note
 * goes to the log instead, by way of http_state: app_finished writes it. */
void app_fail(struct http_exchange *x, err why, const struct err_note *note);
/* The same, and the client hears the note too: an operator, of the folder it named. */
void app_fail_told(struct http_exchange *x, err why, const struct err_note *note);

/* Why an origin, or a flight to it, gave nothing: 502, 503, 504, and what it said of the page
 * itself. retry_ms: how long asking again is in vain; 0: unknown. */
void app_origin_fail(struct http_exchange *x, err why, const struct err_note *note,
                     int64_t retry_ms);
/* The same with a Cache-Control, as above. */
void app_origin_fail_kept(struct http_exchange *x, err why, const struct err_note *note,
                          int64_t retry_ms, const char *cache_control);

/* Zeroed memory of the request, for what its handler keeps. NULL: there is none, which is
 * answered. */
MUST_CHECK void *app_new(struct http_exchange *x, size_t size);

#endif
