/* client.h - requests to a Palimpsest server, on the client of src/http. Private to cli.
 *
 * A verb has one thread. client_send runs the client's loop until its answer is there; a verb with
 * several requests in the air starts each with client_call_start and runs the loop by client_turn.
 * Redirects are followed only where a request says so, and the token stays with the server. Paths
 * go out as they are. Thread: one. */
#ifndef CLI_CLIENT_H
#define CLI_CLIENT_H

#include "base/buf.h"
#include "base/err.h"
#include "cli/cli.h"
#include "http/client.h"

#include <jansson.h>
#include <stdio.h>

#define CLIENT_SERVER_DEFAULT "http://127.0.0.1:7231"
#define CLIENT_UNIX_URL "http://localhost" /* of what is asked over a unix socket */
enum {
    CLIENT_ANSWER_BYTES_MAX = 128 << 20, /* an answer kept in memory */
    CLIENT_CONNECT_TIMEOUT_MS = 10000,
    CLIENT_STALL_TIMEOUT_S = 300,  /* without a byte */
    CLIENT_FIELD_BYTES_MAX = 2048, /* of a header kept */
    CLIENT_REDIRECTS_MAX = 3,
    CLIENT_PARALLEL_MAX = 64,
    CLIENT_HEADERS_MAX = 5,
    CLIENT_SKIM_BYTES_MAX = 64 << 10,
};

struct client {
    struct sysclock *sysclock;
    struct loop *loop;
    struct http_client *http;
    struct loop_timer *late;                      /* ends a client_turn */
    struct buf bearer;                            /* the token's header value */
    const struct cli_call *call;                  /* borrowed; NULL: nothing is told */
    const char *server, *domain, *bucket, *token; /* borrowed from the call and the environment */
    const char *url;       /* that requests begin with: server, or the host of a unix socket */
    const char *unix_path; /* NULL: server is none */
    bool json;
    enum cli_exit failed; /* the code of the last failure that was told */
    uint64_t next_hash;   /* of where the last page of a listing said that it goes on */
};
/* Reads --server (a URL, or unix:/PATH), --token, --domain, --bucket, --json. Prints what is wrong.
 * Owner: caller, client_close. */
MUST_CHECK enum cli_exit client_open(struct client *c, const struct cli_call *call);
/* The same for another server than --server names; NULL: that one. */
MUST_CHECK enum cli_exit client_open_at(struct client *c, const struct cli_call *call,
                                        const char *server);
/* Another server by the loop and connections of c, which outlives it: what is in the air at the one
 * goes on while the other is waited for. token NULL: none. Owner: client_beside_close. */
MUST_CHECK enum cli_exit client_beside(struct client *beside, const struct client *c,
                                       const char *server, const char *token);
void client_beside_close(struct client *beside);
/* The same for any URL, with neither token nor call. */
void client_open_url(struct client *c, const char *server);
/* No call is in the air. After stop_asked it waits for nobody, as the process ends: a name server
 * may take its time. */
void client_close(struct client *c);

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

struct client_call;
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
    /* Gets each piece of a 2xx body as it comes, instead; what client_answer has of fields is set.
     * Inside client_turn. False: enough; done gets ERR_IO. */
    bool (*take)(struct client_call *call, str piece);
    bool only_stored; /* nothing is to be made: 504 says that it is not there (RFC 9111, 5.2.1.7) */
    bool patient;     /* may take hours without a byte: no stall time-out */
    int64_t stall_timeout_s; /* 0: CLIENT_STALL_TIMEOUT_S */
    int64_t timeout_ms;      /* of the whole answer; 0: none */
    bool heads;              /* all header fields go into the answer */
    bool skim;               /* of the body only the beginning is kept, CLIENT_SKIM_BYTES_MAX */
    bool render; /* a render is asked for: what a 2xx answer without its name brings is none */
    /* of client_ask_json: what the answer's object has in any case; NULL: nothing */
    const char *member;
};
struct client_answer {
    int status;
    struct buf body;
    struct buf heads; /* "name:value\n", as sent; where the request wants them */
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

/* A request in the air. The caller's memory, zeroed but for what is in, until done. */
struct client_call {
    struct client_request request; /* what it points to is borrowed until done */
    /* Inside client_turn. ERR_OK as client_send has it; else with a note. */
    void (*done)(struct client_call *call, err why);
    void *ctx;
    struct client_answer answer; /* of client_answer_fini, after done */
    struct err_note note;
    /* the client's */
    struct client *client;
    struct http_call http;
    struct http_pair headers[CLIENT_HEADERS_MAX];
    struct arena arena; /* of the reply's head */
    struct buf url;
    unsigned redirects;
    int write_errno; /* 0: nothing failed to be written */
};
/* ERR_LIMIT, and done is not called: the path is too long. */
MUST_CHECK err client_call_start(struct client *c, struct client_call *call);
/* done follows soon. */
void client_call_cancel(struct client_call *call);
/* Runs what is in the air until a call was done, timeout_ms have passed (-1: for ever), or
 * stop_asked became true. It may return early. */
void client_turn(struct client *c, int64_t timeout_ms);

/* What an entity tag names, weak or not. tid is borrowed from etag. false, and 0 and "": it names
 * no render. */
bool client_etag_read(const char *etag, uint64_t *rev, str *tid);
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
#endif
