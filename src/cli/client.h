/* client.h - one request at a time to a Palimpsest server, over libcurl. Private to cli.
 *
 * Follows redirects only where a request says so, uses no proxy, sends paths as they are. Thread:
 * one. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"

#include <curl/curl.h>
#include <jansson.h>
#include <stdio.h>

#define CLIENT_SERVER_DEFAULT "http://127.0.0.1:7231"
enum {
    CLIENT_ANSWER_BYTES_MAX = 128 << 20, /* an answer kept in memory */
    CLIENT_CONNECT_TIMEOUT_S = 10,
    CLIENT_STALL_TIMEOUT_S = 300,  /* without a byte */
    CLIENT_FIELD_BYTES_MAX = 2048, /* of a header kept */
    CLIENT_REDIRECTS_MAX = 3,
};

struct client {
    CURL *curl;
    const struct cli_call *call;                  /* borrowed; NULL: nothing is told */
    const char *server, *domain, *bucket, *token; /* borrowed from the call and the environment */
    bool json;
    enum cli_exit failed; /* the code of the last failure that was told */
    uint64_t next_hash;   /* of where the last page of a listing said that it goes on */
};
/* Reads --server, --token, --domain, --bucket, --json. Prints what is wrong. Owner: caller,
 * client_close. */
MUST_CHECK enum cli_exit client_open(struct client *c, const struct cli_call *call);
/* The same for another server than --server names; NULL: that one. */
MUST_CHECK enum cli_exit client_open_at(struct client *c, const struct cli_call *call,
                                        const char *server);
void client_close(struct client *c);
/* Options all requests share, for handles of others too. headers: NULL or extra fields,
 * borrowed. */
void client_setup(const struct client *c, CURL *curl, const struct curl_slist *headers);
/* Redirects are followed, CLIENT_REDIRECTS_MAX of them. libcurl keeps the token from other
 * hosts. */
void client_follow(CURL *curl);

/* Paths start with '/'. The path of something in the client's domain and bucket:
 * "/localhost/v1/page". */
void client_path_bucket(const struct client *c, struct buf *out);
/* Appends text, percent-encoded: a segment of a path, or of a query. */
void client_path_text(struct buf *out, str text);
/* The path for a request; empty, which client_send refuses, when it did not fit: cut short it would
 * name something else. Borrowed from path. */
str client_path(const struct buf *path);
/* Appends '/' and the percent-encoded segment. */
void client_path_segment(struct buf *out, str segment);
/* "/localhost/v1/page/{what}/{title}[/{rev}[/{tid}]]"; rev and tid NULL when absent. */
void client_path_render(const struct client *c, struct buf *out, str what, str title,
                        const char *const *name);

/* Are the operands from this one on a revision, and the name of a render of it? Those that are
 * absent are fine. False: it was said. */
MUST_CHECK bool client_check_name(const struct cli_call *call, unsigned operand);

struct client_request {
    const char *method;
    str path; /* encoded, with its query */
    bool has_body;
    str body;
    const char *content_type;
    const char *header, *header_more; /* two more, "Name: value"; Accept-Encoding is never sent */
    bool follow;                      /* redirects, of a title to how the wiki writes it */
    FILE *to;                         /* where a 2xx body goes; NULL: into the answer */
    const char *to_name;              /* what that is called when it cannot be written */
    bool only_stored; /* nothing is to be made: 504 says that it is not there (RFC 9111, 5.2.1.7) */
    bool patient;     /* may take hours without a byte: no stall time-out */
    int64_t timeout_ms; /* of the whole answer; 0: none */
    bool render; /* a render is asked for: what a 2xx answer without its name brings is none */
    /* of client_ask_json: what the answer's object has in any case; NULL: nothing */
    const char *member;
};
struct client_answer {
    long status;
    bool head_whole;
    struct buf body;
    char etag[CLIENT_FIELD_BYTES_MAX], content_type[CLIENT_FIELD_BYTES_MAX],
        cache_status[CLIENT_FIELD_BYTES_MAX];
    char cache_control[CLIENT_FIELD_BYTES_MAX], age[CLIENT_FIELD_BYTES_MAX],
        retry_after[CLIENT_FIELD_BYTES_MAX];
    char list_version[CLIENT_FIELD_BYTES_MAX], list_size[CLIENT_FIELD_BYTES_MAX],
        next_pivot[CLIENT_FIELD_BYTES_MAX];
};
/* ERR_OK for every answer that arrived whole, whatever its status. Owner: client_answer_fini, also
 * after an error. ERR_UNAVAILABLE, ERR_TIMEOUT, ERR_LIMIT, ERR_IO with a note. */
MUST_CHECK err client_send(struct client *c, const struct client_request *r,
                           struct client_answer *out, struct err_note *note);
void client_answer_fini(struct client_answer *a);

/* What an entity tag names, weak or not. tid is borrowed from etag. false, and 0 and "": it names
 * no render. */
bool client_etag_read(const char *etag, uint64_t *rev, str *tid);
/* A header line "name: value" whose name it is: value without its ends into dst, "" when it is too
 * long. */
void client_field_keep(str line, str name, char dst[CLIENT_FIELD_BYTES_MAX]);
/* Does a header line end the head? */
bool client_ends_head(str line);
/* Was it answered from the store? By its Cache-Status. */
bool client_was_stored(const char *cache_status);

/* Is it of a render, by its entity tag or Cache-Status, as a Palimpsest sends both? */
bool client_is_render(const char *etag, const char *cache_status);

/* Sends, and tells what went wrong, with its code in failed; true: a 2xx answer of a Palimpsest, as
 * far as the request says how to know it. Another web server may answer everything with 200. */
bool client_ask(struct client *c, const struct client_request *r, struct client_answer *out);
/* The same without a body that counts: 204 alone is good. */
bool client_order(struct client *c, const struct client_request *r);
/* The same, and reads the body as a JSON object. A page of a listing must lead on. NULL: it was
 * said why. Owner: caller, json_decref. */
MUST_CHECK json_t *client_ask_json(struct client *c, const struct client_request *r);
/* "the server answered 404 Not Found: detail" into note. Returns the code that belongs to the
 * status; CLI_NO_SERVER for an answer that no Palimpsest gives. */
enum cli_exit client_explain(const struct client *c, const struct client_answer *a,
                             struct err_note *note);
/* Why no answer came, and what to do about it. */
err client_explain_curl(const struct client *c, CURLcode code, struct err_note *note);

#endif
