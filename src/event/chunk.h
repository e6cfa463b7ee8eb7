/* chunk.h - some events behind each other, read once and kept as they will be sent, for as long as
 * somebody holds them. For readers of the log (tail.h).
 *
 * A chunk says behind which number it was read, and up to which: so it also says that there is
 * nothing else in between. Reference counted; bytes never change. */
#ifndef EVENT_CHUNK_H
#define EVENT_CHUNK_H

#include "base/buf.h"
#include "event/log.h"

#include <stdatomic.h>

struct event_frame {
    uint64_t seq;
    size_t at, n;                                    /* in the chunk's text: as it is sent */
    size_t stream_at, stream_n, domain_at, domain_n; /* in names */
};
struct event_chunk {
    atomic_uint refs;
    uint64_t after, last; /* all events behind after, up to last, were looked at */
    uint64_t missed; /* events behind after, up to this one, were removed before they were read;
                        0: none were */
    bool more;       /* there is more behind last */
    uint64_t spoilt; /* events in it that could not be read */
    unsigned count, size;
    struct event_frame *frames;
    struct buf text, names;
};

enum {
    EVENT_CHUNK_BYTES = 64 << 10, /* of events; one alone may be larger */
    EVENT_CHUNK_LOOKS = 4096,     /* events that are looked at for one */
};

/* What is read: */
struct event_choice {
    /* NULL: all. Any thread */
    bool (*wants)(void *ctx, str stream, str domain);
    /* Appends what is sent of an event. Any thread */
    void (*frame)(void *ctx, struct buf *out, const struct event_seen *e, str bytes);
    void *ctx;
};

/* Reads behind after. May wait for the disk. Owner: caller, one reference. ERR_IO, ERR_CORRUPT,
 * ERR_LIMIT: there is no memory. */
MUST_CHECK err event_chunk_read(struct event_log *l, uint64_t after, const struct event_choice *c,
                                struct event_chunk **out);
struct event_chunk *event_chunk_ref(struct event_chunk *c);
void event_chunk_unref(struct event_chunk **cp); /* NULL is fine */

static inline str event_frame_text(const struct event_chunk *c, const struct event_frame *f)
{
    return (str){ .p = c->text.p + f->at, .n = f->n };
}
static inline str event_frame_stream(const struct event_chunk *c, const struct event_frame *f)
{
    return (str){ .p = c->names.p + f->stream_at, .n = f->stream_n };
}
static inline str event_frame_domain(const struct event_chunk *c, const struct event_frame *f)
{
    return (str){ .p = c->names.p + f->domain_at, .n = f->domain_n };
}

#endif
