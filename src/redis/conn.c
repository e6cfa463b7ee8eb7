/* conn.c - one connection to Redis: connects, sends, parses replies, and ends.
 *
 * Invariants: (1) the watch asks for writing exactly while something is unsent or the connect is
 * under way; (2) inside a callback the connection may be closed: `gone` is looked at after each,
 * and memory goes when the last frame that is inside has left. */
#include "redis/conn.h"

#include "base/buf.h"
#include "loop/loop.h"

#include <errno.h>
#include <hiredis/hiredis.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_BYTES = 64 << 10,
    READS_A_TURN = 16,
    REPLY_DEPTH_MAX = 8,
    PART_BYTES_MIN = 4 /* ":1\r\n" */
};

/* As hiredis announces the parts of an array: int before hiredis 1.0. */
#if HIREDIS_MAJOR >= 1
typedef size_t parts_announced;
#else
typedef int parts_announced;
#endif

struct conn {
    uint32_t magic;
    struct conn_opts opts;
    struct loop_watch *watch;
    redisReader *reader;
    redisReplyObjectFunctions makers; /* hiredis's own, but for arrays */
    void *(*make_array)(const redisReadTask *task, parts_announced count);
    bool too_many; /* parts were announced */
    /* of the reply that is not yet whole; the reader gives its parts' own back */
    size_t reply_bytes;
    char *out; /* unsent: from out_from to out_to */
    size_t out_from, out_to, out_size;
    int fd;
    bool connected, gone, inside;
};
#define CONN_MAGIC 0x4ed15c01u

static void free_now(struct conn *c)
{
    c->magic = 0;
    redisReaderFree(c->reader);
    free(c->out);
    free(c);
}

void conn_close(struct conn **cp)
{
    struct conn *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CONN_MAGIC);
    c->gone = true;
    loop_watch_free(&c->watch);
    close(c->fd);
    if (!c->inside)
        free_now(c);
}

/* The owner is told and closes. */
static void redis_conn_end(struct conn *c, const char *why)
{
    if (!c->gone)
        c->opts.broken(c->opts.ctx, why);
}

static void watch_what_matters(struct conn *c)
{
    bool writing = !c->connected || c->out_from < c->out_to;
    loop_watch_start(c->watch, LOOP_READABLE | LOOP_GONE | (writing ? LOOP_WRITABLE : 0));
}

/* ---- out ---- */

static void conn_flush(struct conn *c)
{
    while (c->out_from < c->out_to) {
        ssize_t n = send(c->fd, c->out + c->out_from, c->out_to - c->out_from, MSG_NOSIGNAL);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n < 0) {
            redis_conn_end(c, strerror(errno));
            return;
        }
        c->out_from += (size_t)n;
    }
    if (c->out_from == c->out_to)
        c->out_from = c->out_to = 0;
    watch_what_matters(c);
}

static char *room(struct conn *c, size_t n)
{
    if (c->out_to + n > c->out_size && c->out_from > 0) {
        memmove(c->out, c->out + c->out_from, c->out_to - c->out_from);
        c->out_to -= c->out_from;
        c->out_from = 0;
    }
    while (c->out_to + n > c->out_size) {
        c->out_size = c->out_size == 0 ? READ_BYTES : 2 * c->out_size;
        c->out = realloc(c->out, c->out_size);
        INVARIANT(c->out != NULL);
    }
    return c->out + c->out_to;
}

err conn_send(struct conn *c, const str *args, unsigned count)
{
    MAGIC_CHECK(c, CONN_MAGIC);
    INVARIANT(count > 0 && count <= REDIS_ARGS_MAX);
    const char *argv[REDIS_ARGS_MAX];
    size_t lengths[REDIS_ARGS_MAX], bytes = 0;
    for (unsigned i = 0; i < count; i++) {
        argv[i] = args[i].p == NULL ? "" : args[i].p;
        lengths[i] = args[i].n;
        bytes += args[i].n;
    }
    if (c->out_to - c->out_from + bytes > CONN_OUT_BYTES_MAX)
        return ERR_LIMIT;
    char *text = NULL;
    long long n =
        redisFormatCommandArgv(&text, (int)count, argv, lengths); /* int before hiredis 1.1 */
    INVARIANT(n > 0);                                             /* out of memory */
    memcpy(room(c, (size_t)n), text, (size_t)n);
    c->out_to += (size_t)n;
    redisFreeCommand(text);
    if (c->connected)
        watch_what_matters(c); /* all that this turn of the loop adds goes out in one write */
    return ERR_OK;
}

/* ---- in ---- */

/* hiredis gets memory for all parts of an array as it is announced: for no more than a reply may
 * have. */
static void *make_array(const redisReadTask *task, parts_announced count)
{
    struct conn *c = task->privdata;
    MAGIC_CHECK(c, CONN_MAGIC);
    c->too_many = (size_t)count > c->opts.reply_bytes_max / PART_BYTES_MIN;
    return c->too_many ? NULL : c->make_array(task, count);
}

static void make_reader(struct conn *c)
{
    c->reader = redisReaderCreate();
    INVARIANT(c->reader != NULL);
    c->makers = *c->reader->fn;
    c->make_array = c->makers.createArray;
    c->makers.createArray = make_array;
    c->reader->fn = &c->makers;
    c->reader->privdata = c;
}

static void hand_over(struct conn *c)
{
    while (!c->gone) {
        void *reply = NULL;
        if (redisReaderGetReply(c->reader, &reply) != REDIS_OK) {
            redis_conn_end(c, c->too_many ? "a reply announces too many parts" : c->reader->errstr);
            return;
        }
        if (reply == NULL)
            break;
        c->reply_bytes = c->reader->len - c->reader->pos; /* of the next one */
        c->opts.reply(c->opts.ctx, reply);
        freeReplyObject(reply);
    }
    if (!c->gone && c->reply_bytes > c->opts.reply_bytes_max)
        redis_conn_end(c, "a reply is too large");
    if (!c->gone && c->reader->ridx >= REPLY_DEPTH_MAX)
        redis_conn_end(c, "a reply is too deep"); /* what is freed in recursion */
}

static void receive(struct conn *c)
{
    static const char closed[] = "closed by the server";
    char *bytes = malloc(READ_BYTES);
    INVARIANT(bytes != NULL);
    for (int turn = 0; turn < READS_A_TURN && !c->gone; turn++) {
        ssize_t n = recv(c->fd, bytes, READ_BYTES, 0);
        if (n < 0 && errno == EINTR)
            continue;
        if (n < 0 && errno == EAGAIN)
            break;
        if (n <= 0) {
            redis_conn_end(c, n == 0 ? closed : strerror(errno));
            break;
        }
        if (redisReaderFeed(c->reader, bytes, (size_t)n) != REDIS_OK) {
            redis_conn_end(c, c->reader->errstr);
            break;
        }
        c->reply_bytes += (size_t)n;
        hand_over(c);
        if (n < READ_BYTES)
            break;
    }
    free(bytes);
}

static void finish_connect(struct conn *c)
{
    int error = 0;
    socklen_t n = sizeof error;
    if (getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &n) != 0)
        error = errno;
    if (error != 0) {
        redis_conn_end(c, strerror(error));
        return;
    }
    c->connected = true;
    c->opts.connected(c->opts.ctx);
    if (!c->gone)
        watch_what_matters(c);
}

static void ready(void *ctx, unsigned events)
{
    struct conn *c = ctx;
    MAGIC_CHECK(c, CONN_MAGIC);
    c->inside = true;
    if (!c->connected)
        finish_connect(c);
    if (!c->gone && (events & (LOOP_READABLE | LOOP_GONE | LOOP_ERROR)) != 0)
        receive(c);
    if (!c->gone && (events & LOOP_ERROR) != 0)
        redis_conn_end(c, "the socket failed");
    if (!c->gone && c->connected && (events & LOOP_WRITABLE) != 0)
        conn_flush(c);
    c->inside = false;
    if (c->gone)
        free_now(c);
}

struct conn *conn_open(const struct conn_opts *opts, const char **why)
{
    int fd = socket(opts->address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) {
        *why = strerror(errno);
        return NULL;
    }
    int one = 1;
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one,
                     sizeof one); /* slower without, not wrong */
    if (connect(fd, (const struct sockaddr *)&opts->address, opts->address_bytes) != 0 &&
        errno != EINPROGRESS) {
        *why = strerror(errno);
        close(fd);
        return NULL;
    }
    struct conn *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    *c = (struct conn){ .magic = CONN_MAGIC, .opts = *opts, .fd = fd };
    make_reader(c);
    c->watch = loop_watch_new(opts->loop, fd, ready, c);
    loop_watch_start(c->watch, LOOP_WRITABLE);
    return c;
}
