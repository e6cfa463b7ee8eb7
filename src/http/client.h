/* client.h - HTTP requests to origins and generators, on the loop. On libcurl's multi interface.
 *
 * Model. A call waits for its turn at the limiter (loop/limiter.h), runs, and is done once; its
 * deadline counts from start to end. The limiter is the client's, and all who call through the
 * client may enter it: a caller that makes several calls in a row enters once, and its calls bring
 * the pass and wait no more. At most connections_max run in all, and per_host_max to one host and
 * port that has no limit of its own there. The library below has no limits on what runs.
 *   Paths go out as they are given. Names are resolved on the pool (the library would start
 * threads) and cached for dns_ttl; connections are kept and reused. TLS is verified against the
 * system's store or ca_file. Redirects are handed to the caller, never followed. No proxy,
 * password, cookie or cache of the environment is used. A reply's head has at most 64 KiB and 256
 * lines; its body is bounded and counted against Content-Length. Folded lines, several lengths,
 * controls, transfer codings but chunked, content codings that were not asked for: ERR_BAD. What is
 * safe (GET, HEAD) and was cut before the first byte of the reply on a kept connection is tried
 * once more. Nothing else is ever sent twice. A kept connection on which something came unasked is
 * not used again. A peer that is gone without a word is noticed by TCP's keep-alive. The process
 * ignores SIGPIPE. The first TLS connection reads the certificates
 * (some 10 ms, on the loop). Thread: start and cancel from any thread; done on the loop. */
#ifndef HTTP_CLIENT_H
#define HTTP_CLIENT_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"
#include "http/negotiate.h"

struct buf;
struct limiter;
struct limiter_key;
struct limiter_pass;
struct loop;
struct http_client;
/* CONNECTION_FILES: open files of one connection, which is watched by a number of its own. */
enum { HTTP_CLIENT_CONNECTIONS_MAX = 4096, HTTP_CLIENT_CONNECTION_FILES = 2 };
enum { HTTP_ORIGIN_BYTES_MAX = 272 }; /* of "host:port", with its NUL */
struct http_client_opts {
    struct loop *loop;
    struct clock *clock;
    unsigned per_host_max; /* running at once [8] */
    /* kept and running, in all, HTTP_CLIENT_CONNECTIONS_MAX at most [64] */
    unsigned connections_max;
    /* calls of one key that wait for their turn [10000]; one more: ERR_LIMIT */
    unsigned waiting_max;
    int64_t connect_timeout_ms; /* [3 s] */
    int64_t dns_ttl_ms;         /* [30 s] */
    const char *ca_file;        /* NULL: the system's */
    const char *user_agent;
};
/* Owner: caller. Dies when out of memory. Thread: the loop's, or before it runs. */
struct http_client *http_client_new(const struct http_client_opts *opts);
/* Other connections_max, connect_timeout_ms and dns_ttl_ms from here on; what runs goes on, and an
 * address that is known stays so for as long as it was to. Thread: the loop's. */
void http_client_limit(struct http_client *c, const struct http_client_opts *opts);
/* Ends every call with ERR_SHUTDOWN, later, on the loop, and refuses those that start after it.
 * Thread: any. */
void http_client_stop(struct http_client *c);
/* Every call was done before, and nobody is in the limiter. Before loop_free: a name that is still
 * being resolved ends there. Thread: the loop's, or after it ran. */
void http_client_free(struct http_client **cp);
/* Who calls through it and when; borrowed. Its limits may be changed. Thread: any. */
struct limiter *http_client_limiter(struct http_client *c);
/* The version of the library below, as text. */
const char *http_client_library(void);
/* The origin of a limiter's key: whom a call of this url goes to, as "host:port". ERR_BAD: to
 * nobody. */
MUST_CHECK err http_client_origin(str url, char out[HTTP_ORIGIN_BYTES_MAX]);
/* Appends where a redirect from url leads that says location, absolute or not. ERR_BAD: nowhere. */
MUST_CHECK err http_client_redirect(str url, str location, struct buf *out);

/* Why there is no reply, beside its err: what a person would look into. */
enum http_call_fault {
    HTTP_FAULT_NONE,
    HTTP_FAULT_ABSENT,  /* nobody is there: no connection, or no address of the name */
    HTTP_FAULT_STRANGE, /* who answers there speaks another protocol */
    HTTP_FAULT_LATE,    /* no connection, no byte, or no whole reply in time */
    HTTP_FAULT_OTHER
};

/* One request; the caller's memory until done. */
struct http_call {
    /* in; borrowed until done */
    const char *method; /* "GET", "POST" */
    str url;            /* absolute, http or https; sent byte for byte, no fragment */
    /* a unix socket to connect to, where the url's host would be; NULL: TCP */
    const char *unix_path;
    /* those that say where a body ends or what the connection does are left out */
    const struct http_pair *headers;
    unsigned headers_count;
    str body;                /* p NULL: none; POST and PUT send an empty one then */
    size_t reply_bytes_max;  /* of the body, as received and after decoding */
    mono deadline;           /* of everything */
    int64_t stall_timeout_s; /* without a byte of the reply or the body; 0: none */
    /* Of the client's limiter, IN until done: the call waits for no turn. NULL: it enters by
     * itself, as key says; key NULL: as its host, of no domain and kind */
    struct limiter_pass *pass;
    const struct limiter_key *key;
    struct arena *arena; /* the reply is written here, on the loop, right before done */
    void (*done)(struct http_call *call, err why);
    /* NULL: the body is kept, in the arena. Else it gets each piece as it comes, decoded, on the
     * loop, when status and reply_headers are set. False: enough; done gets ERR_IO. */
    bool (*take)(struct http_call *call, str piece);
    void *ctx;
    /* out, on ERR_OK: a whole reply was received. Else ERR_TIMEOUT, ERR_UNAVAILABLE (no connection,
     * cut, name does not resolve, TLS refused), ERR_LIMIT (reply too large, too many waiting, arena
     * full), ERR_BAD (url, a header; a reply that is no HTTP, or ended shorter than it said),
     * ERR_IO (of take), ERR_SHUTDOWN (canceled) */
    int status;
    struct http_pair *reply_headers; /* in order of arrival; names as sent */
    unsigned reply_headers_count;
    str reply_body; /* decoded: gzip and deflate are undone (Content-Encoding still says so); NUL
                       behind */
    /* what failed, for a log and a problem's detail: host, not the whole url */
    struct err_note note;
    enum http_call_fault fault;
    const char *fault_text; /* static: what failed, without whom; NULL: only the note says it */
    bool sent;              /* may have reached the origin */
    void *own[1];           /* the client's */
};
void http_call_start(struct http_client *c, struct http_call *call);
/* done comes soon with ERR_SHUTDOWN, unless it is on its way already. call was started, and its
 * memory is there still (afterwards it need not be). */
void http_call_cancel(struct http_client *c, struct http_call *call);
/* First of that name in any letter case; STR_NONE. */
str http_call_header(const struct http_call *call, const char *name);

#endif
