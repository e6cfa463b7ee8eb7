/* redis.h - a client of one Redis (6.2, 7, Valkey): commands in a pipeline, scripts by their
 * digest, messages.
 *
 * Model. Two connections: one for commands, one that is subscribed. The client is up while both are
 * there and every subscription is acknowledged; whatever breaks one of them closes both, fails all
 * commands in flight, and it tries again after retry_min_ms, doubling to retry_max_ms with jitter,
 * until it was up for that long; of a name's addresses the next each time. A replica is no Redis to
 * it: it is tried again until it is a master. A command that is not answered in timeout_ms breaks
 * it too. Nothing is sent while it is down: such a command is refused at once. An echo of our own
 * every echo_ms shows that messages still arrive, for a subscription can die without a word.
 *   hiredis gives formatting and the reader of replies; sockets, time and order are ours, because
 * its own asynchronous part has no time-outs, resolves names where it must not wait, and ends the
 * process on a reply that it did not expect (docs/adr/0007).
 * Thread: loop, unless said. */
#ifndef REDIS_REDIS_H
#define REDIS_REDIS_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"
#include "base/times.h"

enum {
    REDIS_HOST_BYTES_MAX = 255,
    REDIS_NAME_BYTES_MAX = 255, /* user and password */
    REDIS_CHANNELS_MAX = 8,
    REDIS_SCRIPTS_MAX = 16,
    REDIS_ARGS_MAX = 64,
    REDIS_SHA_BYTES = 40,
    REDIS_PARTS_MAX = 3,
};

/* redis://[[user]:password@]host[:port][/db]; user and password percent-encoded. */
struct redis_address {
    char host[REDIS_HOST_BYTES_MAX + 1];
    uint16_t port;
    uint32_t db;
    char user[REDIS_NAME_BYTES_MAX + 1];     /* empty: the default one */
    char password[REDIS_NAME_BYTES_MAX + 1]; /* empty: none, or a user who needs none */
};
/* ERR_BAD with a note; rediss:// names stunnel4. Pure. */
MUST_CHECK err redis_url_parse(str url, struct redis_address *out, struct err_note *note);

/* A script; its text are the parts, one behind the other. It is loaded at each connection and sent
 * in full where the server forgot it. */
struct redis_script {
    const char *name, *parts[REDIS_PARTS_MAX];
};

struct loop;
struct log;
struct redis;
struct redis_opts {
    struct loop *loop;
    struct clock *clock;
    struct log *log; /* NULL: silent */
    struct redis_address address;
    uint64_t seed;                      /* of jitter */
    int64_t timeout_ms;                 /* of a command [100] */
    int64_t connect_timeout_ms;         /* of everything until it is up [1000] */
    int64_t retry_min_ms, retry_max_ms; /* [250, 5000] */
    int64_t echo_ms;                    /* [1000] */
    unsigned pending_max;               /* commands in flight; one more: ERR_LIMIT [10000] */
    size_t reply_bytes_max; /* of what is not yet a whole reply; a quarter as many parts [16 MiB] */
    const char *channels[REDIS_CHANNELS_MAX]; /* copied; the first is this process's own and carries
                                                 the echo */
    unsigned channels_count;
    struct redis_script scripts[REDIS_SCRIPTS_MAX];
    unsigned scripts_count;
    /* A message on a channel; echoes are left out. */
    void (*message)(void *ctx, str channel, str payload);
    /* It went up or down. run_id: of the server, when up; another one than before: its data may be
     * gone. */
    void (*state)(void *ctx, bool up, str run_id);
    void *ctx;
};
/* Owner: caller. Dies when out of memory. Tries to connect once the loop runs. */
struct redis *redis_new(const struct redis_opts *opts);
/* Fails what is in flight with ERR_SHUTDOWN and closes; then free it, on any thread. */
void redis_stop(struct redis *r);
void redis_free(struct redis **rp);
bool redis_is_up(const struct redis *r); /* any thread */

enum redis_type { REDIS_NIL, REDIS_INTEGER, REDIS_TEXT, REDIS_ARRAY, REDIS_TYPES };
struct redis_reply; /* borrowed: valid inside done */
enum redis_type redis_type(const struct redis_reply *r);
int64_t redis_integer(const struct redis_reply *r); /* also of a text of digits; 0 for all else */
str redis_text(const struct redis_reply *r);        /* STR_NONE for what is no text */
unsigned redis_count(const struct redis_reply *r);
const struct redis_reply *redis_at(const struct redis_reply *r, unsigned index); /* index < count */

/* Exactly once, never before the call returned. ERR_OK and the reply; else reply NULL and the
 * server's words in the note: ERR_FULL (OOM; nothing was changed), ERR_TIMEOUT and ERR_UNAVAILABLE
 * (it may have been done), ERR_DENIED (user or password may not), ERR_BAD (any other error reply),
 * ERR_SHUTDOWN. */
typedef void redis_done_fn(void *ctx, err why, const struct redis_reply *reply,
                           const struct err_note *note);
/* Arguments are copied. Refuses at once, done is not called: ERR_UNAVAILABLE (down), ERR_LIMIT.
 * done may be NULL. */
MUST_CHECK err redis_command(struct redis *r, const str *args, unsigned count, redis_done_fn *done,
                             void *ctx);
/* Script number index of the options. It has one key, which is the first argument. */
MUST_CHECK err redis_run(struct redis *r, unsigned index, const str *args, unsigned count,
                         redis_done_fn *done, void *ctx);

struct redis_stats {
    uint64_t commands, messages, ups, timeouts, scripts_reloaded, down_ns;
};
void redis_stats_get(const struct redis *r, struct redis_stats *out);

#endif
