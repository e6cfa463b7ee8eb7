/* log.h - the event log: what happened, in order, for as long as somebody may want to read it.
 *
 * Model. An event is a text, as a rule JSON, that belongs to a stream ("mediawiki.page-delete") and
 * mostly to a domain. The log appends events and gives each a sequence number, greater than all
 * before it. Readers keep the number they have read up to, and ask for what is behind it.
 *   Events are rows of an engine. Whoever changes other rows of that engine appends the events that
 * tell of the change in the same update: neither is ever on disk without the other.
 *   A sequence number is the microsecond of the update, or one more than the last number or line
 * (event_log_cut). So numbers rise over restarts and kills. They also rise over the restore of an
 * older backup, because the clock has gone on meanwhile: no reader takes new events for old ones.
 *   An event may have an id, which its sender made. An event with the id and the stream of one that
 * the log took less than dedupe_ns ago is not appended again. The log keeps those ids in memory,
 * the newest ids_max at most, and finds them anew when it is opened.
 *   The log removes events that are older than retention_ns. It removes the oldest ones, too, while
 * all events together take more than bytes_max. A reader that had not read them yet is told.
 * Source: Kreps, "The Log: What every software engineer should know". */
#ifndef EVENT_LOG_H
#define EVENT_LOG_H

#include "base/err.h"
#include "base/home.h"
#include "base/str.h"
#include "base/times.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    EVENT_NAME_BYTES_MAX = 255, /* of a stream's name, and of a domain's */
    EVENT_BYTES_MAX = 16 << 20, /* of one event */
    EVENT_APPEND_MAX = 4000,    /* events in one update */
    EVENT_WAITING_MAX = 65536,  /* requests to append that wait */
    EVENT_DIGEST_BYTES = 16,
    EVENT_ID_BYTES = 36, /* of memory, for an id that is kept */
    EVENT_FOLLOWERS_MAX = 4,
};

struct buf;
struct engine;
struct event_log;

struct event_limits {
    int64_t retention_ns;
    uint64_t bytes_max;
    int64_t dedupe_ns;
    uint64_t ids_max; /* EVENT_ID_BYTES each, while they are kept; 0: events may come twice */
};
struct event_log_opts {
    struct engine *engine; /* outlives the log */
    struct clock *clock;   /* as above */
    uint64_t random;       /* names the log, if the engine holds none yet */
    struct event_limits limits;
};

/* Opens the log of that engine, or begins it. Waits for the engine, and reads the ids that count.
 * Owner: caller. Fails: ERR_CORRUPT, ERR_IO, ERR_FULL. */
MUST_CHECK err event_log_new(const struct event_log_opts *opts, struct event_log **out,
                             struct err_note *note);
/* Nobody appends, reads, or is being told any more. */
void event_log_free(struct event_log **lp);
uint64_t event_log_id(const struct event_log *l);
/* A follower is told that there are new events, soon after they are on disk: once, however many
 * they are. A task at its home runs told, one at a time, which may find that it has read them all.
 */
struct event_follower {
    void (*told)(void *ctx);
    void *ctx;
    struct home *home;
};
/* EVENT_FOLLOWERS_MAX of them. Before anything is appended. */
void event_log_follow(struct event_log *l, const struct event_follower *f);
/* Draws a line between events, and returns its number. Each event that is on disk has a number up
 * to that. Each event whose append begins from now on gets a greater number, whatever the clock
 * says. Thread: any. */
uint64_t event_log_cut(struct event_log *l);
/* No follower is told any more. What was posted to their homes may still run. Thread: any. */
void event_log_hush(struct event_log *l);
/* Other limits from now on. Thread: any. */
void event_log_limits(struct event_log *l, const struct event_limits *limits);

/* ---- appending ---- */

struct event {
    str stream, domain; /* domain empty: it belongs to none */
    str id;             /* empty: it has none, and is always appended */
    str bytes;
    uint8_t hops; /* as event_seen says */
};
/* Appends a random UUID (RFC 9562, version 4) of these random numbers: the id of an event that the
 * server makes itself. */
void event_id_put(struct buf *b, uint64_t high, uint64_t low);
struct event_taken {
    uint64_t seq;
    bool before;                              /* it was there already, under this number */
    unsigned char digest[EVENT_DIGEST_BYTES]; /* the log's */
};

/* A request to append events: all of them, or none. (event/append.h: within another update.) The
 * caller fills in the upper half, and keeps all of it where it is until done is called: at home,
 * exactly once. */
struct event_append {
    struct event_log *log;
    const struct event *events;
    unsigned count;            /* EVENT_APPEND_MAX at most */
    struct event_taken *taken; /* as many; filled in on ERR_OK */
    mono deadline;
    struct home *home;
    void (*done)(struct event_append *a, err why);
    /* the log's */
    struct event_append *next;
    struct task task;
    err why;
};
/* done gets ERR_OK: they are on disk. Else nothing was appended: ERR_LIMIT (a name or an event is
 * too long, or too much waits), ERR_TIMEOUT, ERR_FULL, ERR_SHUTDOWN, ERR_CORRUPT, ERR_IO. */
void event_append_start(struct event_append *a);
/* Its sender was told that an event with that id was not taken, although it is on disk: so one that
 * is sent again is appended again. Not behind a restart: then the id counts. Thread: any. */
void event_log_forget(struct event_log *l, str stream, str id);

/* ---- reading ---- */

/* Borrowed inside the call that gets it. */
struct event_seen {
    uint64_t seq;
    uint64_t count; /* this is the count-th event of the log */
    store_time at;
    str stream, domain;
    uint64_t size; /* of its bytes */
    uint8_t hops;  /* effects of rules one after another that led to it, as its sender says */
};
struct event_read {
    uint64_t after; /* in: behind which number. Out: all up to here were looked at */
    unsigned looks_max;
    size_t bytes_max; /* that are handed over; the first event is, however large it is */
    /* Is this event wanted? NULL: each is. */
    bool (*wants)(void *ctx, const struct event_seen *e);
    void (*take)(void *ctx, const struct event_seen *e, str bytes);
    void *ctx;
    bool more;        /* out: there is more behind `after` */
    uint64_t missed;  /* out: events behind the number, up to this one, were removed before they
                         were read; 0: none were */
    uint64_t removed; /* out: so many were removed since the log began */
    uint64_t spoilt;  /* out: events that cannot be read any more: their bytes fail their sum */
};
/* Hands over events in order. May wait for the disk. ERR_IO, ERR_CORRUPT, ERR_LIMIT (no memory for
 * an event). */
MUST_CHECK err event_log_read(struct event_log *l, struct event_read *r);
/* The number to read behind for all events that the log took at that instant, or later. */
uint64_t event_log_behind(store_time at);

/* The newest event with that id, which its sender gave it; stream empty: of any stream. Reads the
 * whole log. ERR_NOT_FOUND. Waits for the disk: a
 * pool thread. */
MUST_CHECK err event_log_find(struct event_log *l, str stream, str id, uint64_t *seq);

struct event_figures {
    uint64_t last;         /* sequence number of the newest event; 0: there was none ever */
    uint64_t culled;       /* of the newest event that was removed; 0: none was */
    uint64_t taken;        /* events since the log began */
    uint64_t count, bytes; /* of those that are there */
    store_time oldest;     /* when the log took the oldest one; NEVER: it is empty */
    store_time newest;     /* when it took the last one, also if that was removed; ZERO: never */
    uint64_t ids;          /* kept, so that none of them is taken twice */
    uint64_t ids_early;    /* since the start: dropped before their time, for ids_max */
};
MUST_CHECK err event_log_figures(struct event_log *l, struct event_figures *out);

/* ---- upkeep ---- */

/* Removes what is to be removed now, one batch; *more: there is more; *next: when the next event
 * will be too old. Waits for the engine: a pool thread. */
MUST_CHECK err event_log_upkeep(struct event_log *l, bool *more, store_time *next);
/* Looks at the log of that engine, open or not. Calls found for each damage, with a sentence.
 * ERR_CORRUPT when there was one. Waits for the disk. */
MUST_CHECK err event_log_check(struct engine *e, void (*found)(void *ctx, const char *what),
                               void *ctx);

#endif
