/* wire.h - the messages of the queue's API in both their encodings: protobuf, and the JSON of
 * protobuf.
 *
 * Messages are the structs that protoc-c makes of querator.proto and queue_own.proto (names
 * Wire__...). What JSON calls their fields is in a table made from the same files by
 * tools/wire_table.py: written is the field's own name, read that or its other one. Texts are bytes
 * in C (protobuf-c would cut them at a NUL); those that were read are UTF-8.
 *   JSON as Go's protojson: fields that are zero are not written; null is as absent; a field twice
 * or unknown is refused; whole numbers also as 1.0, 1e2 and quoted; base64 of either alphabet,
 * padded or not; instants RFC 3339 with 0, 3, 6 or 9 digits, of the years 1 to 9999 in either
 * encoding. Unknown fields of protobuf are passed over.
 *   Everything lives in the caller's arena; what was read may also point into the bytes it was read
 * from.
 * Thread: any. */
#ifndef CODEC_WIRE_H
#define CODEC_WIRE_H

#include "base/arena.h"
#include "base/err.h"
#include "base/ksuid.h"
#include "base/times.h"
#include "codec/querator.pb-c.h"
#include "codec/queue_own.pb-c.h"

enum wire_encoding { WIRE_JSON, WIRE_PROTOBUF };

/* Reads a message of this type. Fails: ERR_BAD with a sentence in note, ERR_LIMIT when the arena is
 * full. */
MUST_CHECK err wire_decode(struct arena *a, const ProtobufCMessageDescriptor *type,
                           enum wire_encoding encoding, str bytes, ProtobufCMessage **out,
                           struct err_note *note);
/* Its texts must be UTF-8: an INVARIANT for JSON. Fails: ERR_LIMIT when the arena is full. */
MUST_CHECK err wire_encode(struct arena *a, const ProtobufCMessage *m, enum wire_encoding encoding,
                           str *out);

static inline str wire_str(ProtobufCBinaryData b)
{
    return (str){ .p = (const char *)b.data, .n = b.len };
}
/* Borrowed; nobody writes through it. */
static inline ProtobufCBinaryData wire_bytes(str s)
{
    return (ProtobufCBinaryData){ .len = s.n, .data = (uint8_t *)(uintptr_t)s.p };
}

/* The field of m that has this name; NULL: it has none. */
const void *wire_field(const ProtobufCMessage *m, const char *name);
/* Gives m, in its repeated field of this name, count new messages, in the arena. Returns the first
 * of them, behind which the others stand. NULL: the arena is full. */
MUST_CHECK void *wire_list(struct arena *a, ProtobufCMessage *m, const char *name, size_t count);

/* Fields that hold a text, made in the arena; their data is NULL when it is full. */
ProtobufCBinaryData wire_copy(struct arena *a, str text);
ProtobufCBinaryData wire_number(struct arena *a, uint64_t n);
ProtobufCBinaryData wire_id(struct arena *a, struct ksuid id);
ProtobufCBinaryData wire_duration(struct arena *a, int64_t ns); /* as Go writes it */

/* An instant for a message, in the arena; NULL when it is full. STORE_TIME_ZERO becomes the zero
 * time of Go, 0001-01-01T00:00:00Z, which is written. */
MUST_CHECK Wire__Timestamp *wire_time(struct arena *a, store_time at);
/* The instant of a field: absent and the zero time of Go are STORE_TIME_ZERO; what store_time
 * cannot hold is cut to its ends (never STORE_TIME_NEVER). */
store_time wire_time_read(const Wire__Timestamp *t);

#endif
