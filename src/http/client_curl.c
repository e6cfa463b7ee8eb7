/* client_curl.c - the library, driven by the loop: it says which sockets to watch and when to call
 * it again, and is called then. A result is looked at when the library has returned. What it would
 * do behind our backs is taken from it: proxies and passwords from the environment, redirects,
 * resolving, decoding, and asking again on its own.
 *
 * Of a kept connection the library only notices that it was closed, not that bytes nobody asked for
 * came on it: they would be taken for the next reply. So its socket is looked into right before a
 * request goes out on it. */
#include "http/client_impl.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { CLIENT_KEPT_S_MAX = 60, CLIENT_STALE_READS_MAX = 256 };

/* The library may close a socket before it says that it need not be watched any more, and by then
 * another thread may have a file of the same number. So a watch has a descriptor of its own, which
 * is the same socket for sure. */
struct socket_watch {
    struct http_client *client;
    struct socket_watch *prev, *next;
    struct loop_watch *watch;
    curl_socket_t fd; /* the library's */
    int own;          /* -1: none was left to have, fd itself is watched */
    unsigned events;
};

#define MULTI_OK(call) INVARIANT((call) == CURLM_OK)

/* ---- results ---- */

/* CURLE_TOO_LARGE, which curl 8.6 brought. Before, it was CURLE_OUT_OF_MEMORY. */
enum { FIELD_TOO_LARGE = 100 };

static err result_err(const struct transfer *t, CURLcode result)
{
    long os_errno = 0;
    if (t->reply.why != ERR_OK)
        return t->reply.why;
    switch ((int)result) { /* of a hundred, those that are not "no whole reply, and maybe later" */
    case CURLE_FILESIZE_EXCEEDED:
    case CURLE_OUT_OF_MEMORY:
    case FIELD_TOO_LARGE:
        return ERR_LIMIT;
    case CURLE_PARTIAL_FILE:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_BAD_CONTENT_ENCODING:
        return ERR_BAD;
    case CURLE_RECV_ERROR: /* the kernel's, or broken chunks */
        (void)curl_easy_getinfo(t->easy, CURLINFO_OS_ERRNO, &os_errno); /* stays 0 */
        return t->reply.status != 0 && os_errno == 0 && !t->url.tls ? ERR_BAD : ERR_UNAVAILABLE;
    default:
        return ERR_UNAVAILABLE;
    }
}

static enum http_call_fault result_fault(CURLcode result)
{
    switch ((int)result) { /* as above */
    case CURLE_COULDNT_CONNECT:
    case CURLE_COULDNT_RESOLVE_HOST:
        return HTTP_FAULT_ABSENT;
    case CURLE_UNSUPPORTED_PROTOCOL:
    case CURLE_WEIRD_SERVER_REPLY:
    case CURLE_GOT_NOTHING:
    case CURLE_SSL_CONNECT_ERROR:
        return HTTP_FAULT_STRANGE;
    case CURLE_OPERATION_TIMEDOUT:
        return HTTP_FAULT_LATE;
    default:
        return HTTP_FAULT_OTHER;
    }
}

/* The head, for the caller, once. */
static bool reply_show(struct transfer *t)
{
    struct http_call *call = t->call;
    call->status = t->reply.status;
    return call->reply_headers != NULL || reply_head(&t->reply, call->arena, &call->reply_headers,
                                                     &call->reply_headers_count) == ERR_OK;
}

/* The whole reply, for the caller. */
static err reply_keep(struct transfer *t)
{
    struct http_call *call = t->call;
    err why = reply_finish(&t->reply);
    if (why == ERR_OK && !reply_show(t))
        return t->reply.why;
    if (why != ERR_OK || call->take != NULL)
        return why;
    call->reply_body = arena_copy(call->arena, buf_str(&t->reply.body));
    if (call->reply_body.p == NULL) {
        t->reply.fault = "the reply finds no room in the caller's memory";
        why = ERR_LIMIT;
    }
    return why;
}

static err result_take(struct transfer *t, CURLcode result)
{
    struct http_call *call = t->call;
    err why = result == CURLE_OK ? reply_keep(t) : result_err(t, result);
    if (why == ERR_OK)
        return ERR_OK;
    const char *text = t->reply.fault != NULL ? t->reply.fault : t->error;
    if (result == CURLE_ABORTED_BY_CALLBACK)
        text = "the connection ended before the reply began";
    if (result == CURLE_OUT_OF_MEMORY || (int)result == FIELD_TOO_LARGE)
        text = "a field of the reply's head is too large";
    err_note_set(&call->note, "%s: %s", t->url.host,
                 text[0] != 0 ? text : curl_easy_strerror(result));
    call->fault = result_fault(result);
    call->fault_text = t->reply.fault != NULL ? t->reply.fault : curl_easy_strerror(result);
    return why;
}

/* Nothing was sent: once more, on a connection of its own. */
static void transfer_again(struct transfer *t)
{
    t->fresh = true;
    t->stale = false;
    t->error[0] = 0;
    INVARIANT(curl_easy_setopt(t->easy, CURLOPT_FRESH_CONNECT, 1L) == CURLE_OK);
    MULTI_OK(curl_multi_add_handle(t->client->multi, t->easy));
}

static void results_collect(struct http_client *c)
{
    int left;
    for (CURLMsg *m = curl_multi_info_read(c->multi, &left); m != NULL;
         m = curl_multi_info_read(c->multi, &left)) {
        INVARIANT(m->msg == CURLMSG_DONE);
        CURLcode result = m->data.result;
        char *private = NULL;
        INVARIANT(curl_easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, &private) == CURLE_OK);
        struct transfer *t = (void *)private;
        MAGIC_CHECK(t, TRANSFER_MAGIC);
        MULTI_OK(curl_multi_remove_handle(c->multi, t->easy));
        if (result == CURLE_ABORTED_BY_CALLBACK && t->stale && !t->fresh)
            transfer_again(t);
        else
            transfer_end(t, result_take(t, result));
    }
}

/* ---- sockets and the timer ---- */

static unsigned events_of(int what)
{
    return (what & CURL_POLL_IN ? LOOP_READABLE : 0u) | (what & CURL_POLL_OUT ? LOOP_WRITABLE : 0u);
}

static void on_ready(void *ctx, unsigned events)
{
    struct socket_watch *w = ctx;
    struct http_client *c = w->client;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    int mask = (events & LOOP_READABLE ? CURL_CSELECT_IN : 0) |
               (events & LOOP_WRITABLE ? CURL_CSELECT_OUT : 0);
    if (events & LOOP_ERROR)
        mask = CURL_CSELECT_ERR | (w->events & LOOP_READABLE ? CURL_CSELECT_IN : 0) |
               (w->events & LOOP_WRITABLE ? CURL_CSELECT_OUT : 0);
    int running;
    c->acting = w;
    MULTI_OK(curl_multi_socket_action(c->multi, w->fd, mask, &running));
    if ((events & LOOP_ERROR) &&
        c->acting == w) /* the loop stopped it, but the library still counts on it */
        loop_watch_start(w->watch, w->events);
    c->acting = NULL;
    results_collect(c);
}

static void watch_open(struct socket_watch *w)
{
    w->own = fcntl(w->fd, F_DUPFD_CLOEXEC, 0);
    w->watch = loop_watch_new(w->client->opts.loop, w->own >= 0 ? w->own : w->fd, on_ready, w);
}

static void watch_close(struct socket_watch *w)
{
    loop_watch_free(&w->watch);
    if (w->own >= 0)
        (void)close(w->own); /* nothing was written */
}

static void watch_free(struct socket_watch *w)
{
    struct http_client *c = w->client;
    if (c->acting == w)
        c->acting = NULL;
    if (w->prev != NULL)
        w->prev->next = w->next;
    else
        c->watches = w->next;
    if (w->next != NULL)
        w->next->prev = w->prev;
    watch_close(w);
    free(w);
}

static struct socket_watch *watch_new(struct http_client *c, curl_socket_t fd)
{
    struct socket_watch *w = malloc(sizeof *w);
    INVARIANT(w != NULL);
    *w = (struct socket_watch){ .client = c, .fd = fd, .next = c->watches };
    watch_open(w);
    if (c->watches != NULL)
        c->watches->prev = w;
    c->watches = w;
    MULTI_OK(curl_multi_assign(c->multi, fd, w));
    return w;
}

static int on_socket(CURL *easy, curl_socket_t fd, int what, void *ctx, void *socket_ctx)
{
    (void)easy;
    struct http_client *c = ctx;
    struct socket_watch *w = socket_ctx;
    if (what == CURL_POLL_REMOVE) {
        if (w != NULL)
            watch_free(w);
        return 0;
    }
    if (w == NULL)
        w = watch_new(c, fd);
    w->events = events_of(what);
    loop_watch_start(w->watch, w->events);
    return 0;
}

static int on_timeout(CURLM *multi, long timeout_ms, void *ctx)
{
    (void)multi;
    struct http_client *c = ctx;
    if (timeout_ms < 0)
        loop_timer_stop(c->curl_timer);
    else
        loop_timer_start(c->curl_timer, timeout_ms, 0);
    return 0;
}

static void on_curl_timer(void *ctx)
{
    struct http_client *c = ctx;
    MAGIC_CHECK(c, CLIENT_MAGIC);
    int running;
    MULTI_OK(curl_multi_socket_action(c->multi, CURL_SOCKET_TIMEOUT, 0, &running));
    results_collect(c);
}

/* The library closes a socket that did not connect without a word. So a number may come again that
 * stands in our tables for one that is gone, and what is watched under it is the old one. */
static void number_forget(struct http_client *c, curl_socket_t fd)
{
    for (unsigned i = 0; i < c->sockets_count; i++)
        if (c->sockets[i].fd == fd)
            c->sockets[i--] = c->sockets[--c->sockets_count];
}

static void number_watch_anew(struct http_client *c, curl_socket_t fd)
{
    for (struct socket_watch *w = c->watches; w != NULL; w = w->next) {
        if (w->fd != fd)
            continue;
        watch_close(w);
        watch_open(w);
        loop_watch_start(w->watch, w->events);
    }
}

static curl_socket_t on_open(void *ctx, curlsocktype purpose, struct curl_sockaddr *address)
{
    (void)purpose;
    struct http_client *c = ctx;
    int fd = socket(address->family, address->socktype | SOCK_CLOEXEC | SOCK_NONBLOCK,
                    address->protocol);
    if (fd < 0)
        return CURL_SOCKET_BAD;
    number_forget(c, fd);
    number_watch_anew(c, fd);
    if (c->sockets_count == CLIENT_SOCKETS_MAX) {
        (void)close(fd); /* nothing was written */
        return CURL_SOCKET_BAD;
    }
    c->sockets[c->sockets_count++] = (struct client_socket){ .fd = fd };
    return fd;
}

static int on_close(void *ctx, curl_socket_t fd)
{
    number_forget(ctx, fd);
    return close(fd);
}

/* ---- one request ---- */

/* The two ends of a connection, as text. */
struct ends {
    const char *own_ip, *to_ip;
    int own_port, to_port;
};

static bool end_is(int (*ask)(int fd, struct sockaddr *at, socklen_t *at_n), int fd, const char *ip,
                   int port)
{
    struct sockaddr_storage at;
    socklen_t at_n = sizeof at;
    char text[INET6_ADDRSTRLEN];
    if (ask(fd, (struct sockaddr *)&at, &at_n) != 0)
        return false;
    const struct sockaddr_in *v4 = (const void *)&at;
    const struct sockaddr_in6 *v6 = (const void *)&at;
    const void *address =
        at.ss_family == AF_INET6 ? (const void *)&v6->sin6_addr : (const void *)&v4->sin_addr;
    if (inet_ntop(at.ss_family, address, text, sizeof text) == NULL)
        return false;
    return ntohs(at.ss_family == AF_INET6 ? v6->sin6_port : v4->sin_port) == port &&
           strcmp(text, ip) == 0;
}

/* The socket of the connection with these ends; -1: not found. known: one of those that were found
 * before. */
static int socket_find(struct http_client *c, const struct ends *ends, bool known)
{
    for (unsigned i = 0; i < c->sockets_count; i++) {
        struct client_socket *s = &c->sockets[i];
        if (known != (s->port != 0) || (known && s->port != ends->own_port))
            continue;
        if (!end_is(getsockname, s->fd, ends->own_ip, ends->own_port) ||
            !end_is(getpeername, s->fd, ends->to_ip, ends->to_port))
            continue;
        s->port = (uint16_t)ends->own_port;
        return s->fd;
    }
    return -1;
}

/* Bytes nobody asked for, or an end. Such a socket is emptied and shut, so that the library finds
 * it closed when it considers it next. */
static bool socket_is_stale(int fd)
{
    char bytes[512];
    ssize_t n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return false;
    for (unsigned more = 0; n > 0 && more < CLIENT_STALE_READS_MAX; more++)
        n = recv(fd, bytes, sizeof bytes, MSG_DONTWAIT);
    (void)shutdown(fd, SHUT_RDWR); /* fails when it is closed already */
    return true;
}

/* Is it a kept connection that nothing may go out on? That of a unix socket has no ends to find it
 * by: that it is open is all that is known. */
static bool kept_is_stale(struct transfer *t, const struct ends *ends)
{
    long connects = 0;
    (void)curl_easy_getinfo(t->easy, CURLINFO_NUM_CONNECTS, &connects); /* 0 on a kept connection */
    if (t->call->unix_path != NULL)
        return false;
    int fd = socket_find(t->client, ends, connects == 0);
    return connects == 0 && (fd < 0 || socket_is_stale(fd));
}

static int on_prerequest(void *ctx, char *to_ip, char *own_ip, int to_port, int own_port)
{
    struct transfer *t = ctx;
    const struct ends ends = {
        .own_ip = own_ip, .to_ip = to_ip, .own_port = own_port, .to_port = to_port
    };
    if (t->sends > 0 && (!t->safe || t->sends > 1))
        return CURL_PREREQFUNC_ABORT;
    if (kept_is_stale(t, &ends)) {
        t->stale = true;
        return CURL_PREREQFUNC_ABORT;
    }
    t->sends++;
    t->call->sent = true;
    return CURL_PREREQFUNC_OK;
}

static size_t on_line(char *line, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    return reply_line(&t->reply, (str){ .p = line, .n = size * n }) ? size * n : 0;
}

static size_t on_data(char *data, size_t size, size_t n, void *ctx)
{
    struct transfer *t = ctx;
    struct reply *r = &t->reply;
    if (!reply_data(r, (str){ .p = data, .n = size * n }))
        return 0;
    if (t->call->take == NULL)
        return size * n;
    if (!reply_show(t))
        return 0;
    if (!t->call->take(t->call, buf_str(&r->body))) {
        r->why = ERR_IO;
        r->fault = "the caller takes no more";
        return 0;
    }
    buf_clear(&r->body);
    return size * n;
}

static void header_add(struct transfer *t, const char *line)
{
    struct curl_slist *more = curl_slist_append(t->headers, line);
    INVARIANT(more != NULL);
    t->headers = more;
}

/* Says where a body ends and what the connection does: the library's own business. */
static bool is_framing(str name)
{
    static const str own[] = { STR_INIT("Content-Length"), STR_INIT("Transfer-Encoding"),
                               STR_INIT("Connection"),     STR_INIT("Expect"),
                               STR_INIT("Upgrade"),        STR_INIT("TE"),
                               STR_INIT("Trailer"),        STR_INIT("Keep-Alive") };
    for (size_t i = 0; i < COUNT_OF(own); i++)
        if (str_eq_nocase(name, own[i]))
            return true;
    return false;
}

static void headers_build(struct transfer *t)
{
    const struct http_call *call = t->call;
    bool has_type = false, has_encoding = false;
    for (unsigned i = 0; i < call->headers_count; i++) {
        str name = call->headers[i].name, value = str_trim(call->headers[i].value);
        if (is_framing(name))
            continue;
        has_type = has_type || str_eq_nocase(name, STR("Content-Type"));
        has_encoding = has_encoding || str_eq_nocase(name, STR("Accept-Encoding"));
        size_t size = name.n + value.n + 3;
        char *line = malloc(size);
        INVARIANT(line != NULL);
        /* "Name;" is the library's way to send an empty one; "Name:" takes a header away. */
        if (value.n > 0)
            (void)snprintf(line, size, "%.*s: %.*s", STR_ARG(name), STR_ARG(value)); /* it fits */
        else
            (void)snprintf(line, size, "%.*s;", STR_ARG(name)); /* it fits */
        header_add(t, line);
        free(line);
    }
    if (!has_encoding)
        header_add(t, "Accept-Encoding: gzip, deflate");
    if (!has_type)
        header_add(t, "Content-Type:");
    header_add(t, "Expect:");
}

#define SET(option, value) INVARIANT(curl_easy_setopt(t->easy, option, value) == CURLE_OK)

static void easy_method(struct transfer *t)
{
    const struct http_call *call = t->call;
    str method = str_of(call->method);
    bool gives = call->body.p != NULL || str_eq(method, STR("POST")) || str_eq(method, STR("PUT"));
    t->safe = str_eq(method, STR("GET")) || str_eq(method, STR("HEAD"));
    if (str_eq(method, STR("HEAD"))) {
        SET(CURLOPT_NOBODY, 1L);
        return;
    }
    if (gives) {
        SET(CURLOPT_POST, 1L);
        SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body.n);
        SET(CURLOPT_POSTFIELDS, call->body.p == NULL ? "" : call->body.p);
    }
    SET(CURLOPT_CUSTOMREQUEST, call->method);
    if (call->reply_bytes_max > 0 && call->reply_bytes_max < INT64_MAX)
        SET(CURLOPT_MAXFILESIZE_LARGE, (curl_off_t)call->reply_bytes_max);
}

static void easy_target(struct transfer *t)
{
    const struct call_url *u = &t->url;
    char base[HTTP_HOST_BYTES_MAX + 32];
    int n = snprintf(base, sizeof base, u->numeric6 ? "%s://[%s]:%u/" : "%s://%s:%u/",
                     u->tls ? "https" : "http", u->host, u->port);
    INVARIANT(n > 0 && (size_t)n < sizeof base);
    bool rooted = str_starts(u->target, STR("/"));
    t->target = malloc(u->target.n + 2);
    INVARIANT(t->target != NULL);
    (void)snprintf(t->target, u->target.n + 2, "%s%.*s", rooted ? "" : "/",
                   STR_ARG(u->target)); /* it fits */
    SET(CURLOPT_URL, base);
    SET(CURLOPT_REQUEST_TARGET, t->target);
    SET(CURLOPT_PATH_AS_IS, 1L);
    if (t->call->unix_path != NULL)
        SET(CURLOPT_UNIX_SOCKET_PATH, t->call->unix_path);
    if (t->host->addresses == NULL || t->call->unix_path != NULL)
        return;
    t->resolve = curl_slist_append(NULL, t->host->addresses);
    INVARIANT(t->resolve != NULL);
    SET(CURLOPT_RESOLVE, t->resolve);
}

static void easy_connection(struct transfer *t)
{
    const struct http_client_opts *o = &t->client->opts;
    SET(CURLOPT_NOSIGNAL, 1L);
    SET(CURLOPT_PROTOCOLS_STR, "http,https");
    SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
    SET(CURLOPT_FOLLOWLOCATION, 0L);
    SET(CURLOPT_PROXY, "");
    SET(CURLOPT_NETRC, (long)CURL_NETRC_IGNORED);
    SET(CURLOPT_CONNECTTIMEOUT_MS, (long)o->connect_timeout_ms);
    SET(CURLOPT_MAXAGE_CONN, (long)CLIENT_KEPT_S_MAX);
    SET(CURLOPT_TCP_KEEPALIVE, 1L);
    SET(CURLOPT_LOW_SPEED_LIMIT, 1L);
    SET(CURLOPT_LOW_SPEED_TIME, (long)t->call->stall_timeout_s);
    SET(CURLOPT_SSL_VERIFYPEER, 1L);
    SET(CURLOPT_SSL_VERIFYHOST, 2L);
    SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    SET(CURLOPT_CAPATH,
        NULL); /* with a folder of certificates the library reads them anew for each connection */
    if (o->ca_file != NULL)
        SET(CURLOPT_CAINFO, o->ca_file);
    if (o->user_agent != NULL)
        SET(CURLOPT_USERAGENT, o->user_agent);
    SET(CURLOPT_OPENSOCKETFUNCTION, on_open);
    SET(CURLOPT_OPENSOCKETDATA, t->client);
    SET(CURLOPT_CLOSESOCKETFUNCTION, on_close);
    SET(CURLOPT_CLOSESOCKETDATA, t->client);
    SET(CURLOPT_PREREQFUNCTION, on_prerequest);
    SET(CURLOPT_PREREQDATA, t);
}

void transfer_run(struct transfer *t)
{
    reply_init(&t->reply, t->call->reply_bytes_max);
    t->easy = curl_easy_init();
    INVARIANT(t->easy != NULL);
    easy_connection(t);
    easy_target(t);
    easy_method(t);
    SET(CURLOPT_PRIVATE, t);
    SET(CURLOPT_ERRORBUFFER, t->error);
    SET(CURLOPT_HEADERFUNCTION, on_line);
    SET(CURLOPT_HEADERDATA, t);
    SET(CURLOPT_WRITEFUNCTION, on_data);
    SET(CURLOPT_WRITEDATA, t);
    headers_build(t);
    SET(CURLOPT_HTTPHEADER, t->headers);
    MULTI_OK(curl_multi_add_handle(t->client->multi, t->easy));
}

#undef SET

void transfer_halt(struct transfer *t)
{
    MULTI_OK(curl_multi_remove_handle(t->client->multi,
                                      t->easy)); /* fine also when it was taken out before */
    curl_easy_cleanup(t->easy);
    curl_slist_free_all(t->headers);
    curl_slist_free_all(t->resolve);
    free(t->target);
    reply_fini(&t->reply);
}

/* ---- the client's part ---- */

const char *http_client_library(void)
{
    return curl_version_info(CURLVERSION_NOW)->version;
}

void client_curl_open(struct http_client *c)
{
    INVARIANT(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK);
    c->curl_timer = loop_timer_new(c->opts.loop, on_curl_timer, c);
    c->multi = curl_multi_init();
    INVARIANT(c->multi != NULL);
    MULTI_OK(curl_multi_setopt(c->multi, CURLMOPT_SOCKETFUNCTION, on_socket));
    MULTI_OK(curl_multi_setopt(c->multi, CURLMOPT_SOCKETDATA, c));
    MULTI_OK(curl_multi_setopt(c->multi, CURLMOPT_TIMERFUNCTION, on_timeout));
    MULTI_OK(curl_multi_setopt(c->multi, CURLMOPT_TIMERDATA, c));
    MULTI_OK(curl_multi_setopt(c->multi, CURLMOPT_PIPELINING, (long)CURLPIPE_NOTHING));
}

void client_curl_close(struct http_client *c)
{
    MULTI_OK(curl_multi_cleanup(c->multi));
    while (c->watches != NULL)
        watch_free(c->watches);
    loop_timer_free(&c->curl_timer);
    curl_global_cleanup();
}
