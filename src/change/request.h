/* request.h - the HTTP requests that one item of a rule becomes. Private to change.
 *
 * Model. A rule with effect http, job or purge says who is asked, and how. An event fills in what
 * the rule leaves open. Both together make the requests here, before anything is sent.
 *   http   one request to the rule's url
 *   job    a POST of the event's bytes, as they came, to one of the rule's targets
 *   purge  a PURGE at one of the rule's targets, for each of the rule's urls
 *   relay  an event of the stream CHANGE_PURGES has a member "uri": the URL that a wiki asked to
 *          purge. A rule with effect purge sends one PURGE for that to its target, with the path
 *          and the query byte for byte, and the URL's authority as Host.
 * Only the rule says which machine is asked: an event chooses paths, never a host (but {domain},
 * which has to be one of the configured ones).
 * Pure. Thread: as the rule_event, one at a time. */
#ifndef CHANGE_REQUEST_H
#define CHANGE_REQUEST_H

#include "http/negotiate.h"
#include "rule/rule.h"

enum { CHANGE_URI_BYTES_MAX = 8 << 10 };

struct change_making {
    const struct rule *rule;            /* effect http, job or purge */
    const struct rule_given *given;     /* the event */
    struct rule_event *event;           /* has begun with that event */
    const struct rule_verdict *verdict; /* of the rule, which matches */
    const struct rule_domains *domains;
    unsigned hops; /* effects of rules that follow from one another, with this one */
    str target;    /* job, purge: one of rule->targets */
};
/* As http_call wants it. Borrowed: the body may be the event's bytes, names of headers are the
 * rule's; the rest is in the arena. */
struct change_request {
    const char *method;
    str url;
    const struct http_pair *headers;
    unsigned headers_count;
    str body; /* p NULL: none */
};
struct change_requests {
    const struct change_request *at;
    unsigned count; /* 0: a purge of a rule without urls has nothing to do for this event */
    str target;     /* "host:port" of all of them, as http_client_origin says it */
};
/* Fails: ERR_BAD, the item can never run, and note is a sentence without a full stop that says why;
 * ERR_LIMIT: the arena is full. */
MUST_CHECK err change_requests_make(const struct change_making *m, struct arena *a,
                                    struct change_requests *out, struct err_note *note);

/* Takes apart the URL that a wiki asked to purge; both are parts of uri. target: path and query;
 * empty: "/". ERR_BAD: it is not http or https, has no host that one can ask, is longer than
 * CHANGE_URI_BYTES_MAX, or has bytes that no URL has. */
MUST_CHECK err change_uri_split(str uri, str *authority, str *target, struct err_note *note);

#endif
