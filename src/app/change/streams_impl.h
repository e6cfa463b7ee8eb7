/* streams_impl.h - one client of the streams. Private to this folder. */
#ifndef APP_CHANGE_STREAMS_IMPL_H
#define APP_CHANGE_STREAMS_IMPL_H

#include "app/change/streams.h"
#include "base/list.h"
#include "event/tail.h"

enum { STREAM_NAMES_MAX = 32 };

struct stream_client {
    struct streams *streams;
    struct http_exchange *x;
    /* what it wants: as it stays */
    str names[STREAM_NAMES_MAX]; /* of streams; a star at the end stands for the rest of a name */
    unsigned names_count;        /* 0: all */
    str domain;                  /* empty: of all, and of none */
    atomic_bool may_private;     /* asked again by the worker; a reading on the pool looks at it */
    const struct http_filter *filter; /* of its listener */
    /* the worker's */
    uint64_t after;            /* all up to this number was given to it */
    struct event_chunk *chunk; /* being sent; NULL: none */
    unsigned frame;            /* of it, the next one */
    bool began;
    bool looked_long; /* it has passed over many frames in this pull */
    /* under the lock of the streams */
    struct list node;
    struct event_chunk *read; /* from the log, for it alone */
    bool reading, failed, over;
    bool waits;  /* others hold STREAMS_HELD_BYTES, or read */
    bool shares; /* its chunk is a large one of the tail */
    uint64_t read_after;
    size_t own_bytes; /* of its chunk, if that was read for it alone */
    mono held_since;  /* its chunk, if either is so */
    atomic_bool beat; /* its rights are asked again, and it is sent a comment at least */
    struct task task; /* reads */
    char text[];      /* of names and domain */
};

/* Takes part from here on, and is answered next. False: there are as many as stream.clients allows;
 * nothing has changed. */
MUST_CHECK bool streams_join(struct stream_client *c);
/* Its request is over, and c may be. */
void streams_leave(struct stream_client *c);
/* What was read for it alone, or NULL. *failed: it could not be read. */
struct event_chunk *streams_take_read(struct stream_client *c, bool *failed);
/* A chunk of the tail is to be its own: false: it waits, for others hold too much. */
MUST_CHECK bool streams_hold(struct stream_client *c, const struct event_chunk *k);
/* Its chunk is sent. */
void streams_let_go(struct stream_client *c);
/* Reads behind c->after for it alone, if nobody does; then it is woken. */
void streams_read_for(struct stream_client *c);
enum event_tail_has streams_find(struct stream_client *c, struct event_chunk **out);
const struct app *streams_app(const struct streams *s);
uint64_t streams_last(struct streams *s);
uint64_t streams_log_id(const struct streams *s);
bool stream_wants(const struct stream_client *c, str stream, str domain);
void streams_count_gap(struct streams *s);

#endif
