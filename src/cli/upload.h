/* upload.h - many requests in flight at once, in order within each title. Private to cli.
 *
 * Model. An item is a render to PUT, or the newest render of a title to ask for, which a server
 * with an origin makes when it is missing. Renders are handed over in an order and numbered from 1.
 * At most .parallel are in the air, at most UPLOAD_WINDOW wait; of one title never more than one is
 * in the air, so the server sees a title's renders in the order given. What the server cannot do
 * now (5xx, no connection) is tried again UPLOAD_TRIES times with growing pauses; what it refuses
 * for good (4xx) is counted and told. A server that is no Palimpsest, has no such domain or wants
 * another token ends the upload; once stop_asked, what is in the air is given up with ERR_SHUTDOWN.
 * Thread: one. */
#ifndef CLI_UPLOAD_H
#define CLI_UPLOAD_H

#include "base/tid.h"
#include "cli/client.h"

enum {
    UPLOAD_PARALLEL = 8,
    UPLOAD_PARALLEL_MAX = CLIENT_PARALLEL_MAX,
    UPLOAD_WINDOW = 128,
    UPLOAD_WINDOW_BYTES = 64 << 20,
    UPLOAD_BODY_BYTES_MAX = 64 << 20,
    UPLOAD_PARTS_MAX = 16,
    UPLOAD_TRIES = 8,
    UPLOAD_FIRST_TRIES = 3, /* while nothing has ever answered there */
    UPLOAD_PAUSE_MS_MAX = 5000,
    UPLOAD_ASK_TRIES = 2, /* of a render that cannot be made */
    /* that many titles of which none can be: it is not the titles */
    UPLOAD_ASK_FAILED_IN_ROW_MAX = 20,
};

struct upload_header {
    str name, value; /* valid UTF-8 */
};
struct upload_part {
    const char *content, *type;
    str bytes; /* valid UTF-8, or binary */
    bool binary;
    const struct upload_header *more; /* headers beside content-type */
    unsigned more_count;
};
struct upload_item {
    str title;
    uint64_t rev;
    struct tid tid;
    str mark; /* the caller's; comes back in upload_last */
    struct upload_part parts[UPLOAD_PARTS_MAX];
    unsigned parts_count; /* 0: nothing to send, the number is used up all the same */
    bool pin;             /* ?stash=true */
    str hold_until;       /* once stored it is held until that instant; empty: it is not */
    bool purge;           /* instead: what is stored of rev goes, and none of it comes back */
    bool ask;             /* asks for html of title instead; rev, tid and parts say nothing */
};

struct uploads;
struct uploads_opts {
    struct client *client; /* borrowed until uploads_free */
    struct clock *clock;
    unsigned parallel; /* 1 to UPLOAD_PARALLEL_MAX */
    uint64_t first;    /* number of the first item */
    bool fresh;        /* what is asked for is made anew */
    void (*refused)(void *ctx, str title, uint64_t rev, const char *why);
    void *ctx;
};
/* Owner: caller. Dies when out of memory. */
struct uploads *uploads_new(const struct uploads_opts *opts);
void uploads_free(struct uploads **up);

/* Takes the item (everything is copied); waits while the window is full. Fails, with a note, when
 * the upload as a whole cannot go on: ERR_UNAVAILABLE, ERR_DENIED, ERR_NOT_FOUND (domain),
 * ERR_LIMIT, ERR_BAD. */
MUST_CHECK err uploads_put(struct uploads *u, const struct upload_item *item,
                           struct err_note *note);
/* Sends what can be sent now, and looks at answers, without waiting. Fails as uploads_put. */
MUST_CHECK err uploads_turn(struct uploads *u, struct err_note *note);
/* Waits until everything taken is answered. */
MUST_CHECK err uploads_finish(struct uploads *u, struct err_note *note);

/* stored: of what was asked for, made; differ: of the refused, those that are stored with other
 * bytes; gone: of the refused, those that an order, a word of the wiki or the policy forbids. */
struct upload_counts {
    uint64_t stored, already, refused, differ, gone, purged, bytes_sent;
};
struct upload_counts uploads_counts(const struct uploads *u);
/* Every item with a number up to this is answered for good. */
uint64_t uploads_done_through(const struct uploads *u);

/* The last accepted item with a number not beyond uploads_done_through; rev 0: none. Borrowed until
 * the next call. */
struct upload_last {
    str title, mark;
    uint64_t rev;
    struct tid tid;
};
struct upload_last uploads_last(const struct uploads *u);

/* The body of a bundle as JSON; for tests. */
void upload_bundle_json(const struct upload_item *item, struct buf *out);

#endif
