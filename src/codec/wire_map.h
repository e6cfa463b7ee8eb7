/* wire_map.h - which field of a message is which member of a struct of ours, as rows: read from
 * messages of several types, and written to them. A row whose field a type does not have is passed
 * over there. Pure. Thread: any. */
#ifndef CODEC_WIRE_MAP_H
#define CODEC_WIRE_MAP_H

#include "base/arena.h"
#include "base/err.h"
#include "codec/wire.h"

enum wire_as {
    WIRE_TEXT,     /* a str */
    WIRE_TEXTS,    /* const str *, and unsigned at count_at */
    WIRE_INSTANT,  /* a store_time; NEVER: the field is absent */
    WIRE_TIME_OUT, /* a store_time that is written alone: what a client says of it does not count */
};
struct wire_row {
    const char *field; /* NULL: the end of the rows, and at is the size of the struct */
    size_t at;         /* offsets in the struct */
    enum wire_as as;
    size_t count_at;
};

size_t wire_map_size(const struct wire_row *rows);
/* Texts are borrowed from m. ERR_LIMIT: the arena is full. */
MUST_CHECK err wire_map_read(struct arena *a, const ProtobufCMessage *m,
                             const struct wire_row *rows, void *to);
/* Texts are borrowed from the struct. As above. */
MUST_CHECK err wire_map_write(struct arena *a, const struct wire_row *rows, const void *from,
                              ProtobufCMessage *m);

#endif
