/* wire_table.h - what JSON calls the fields of messages. Private to codec/wire*.c; filled by
 * tools/wire_table.py. */
#ifndef CODEC_WIRE_TABLE_H
#define CODEC_WIRE_TABLE_H

#include "base/arena.h"
#include "base/err.h"

#include <protobuf-c/protobuf-c.h>

enum wire_kind { WIRE_TEXT, WIRE_BYTES, WIRE_INT32, WIRE_BOOL, WIRE_TIME, WIRE_MESSAGE };
enum { WIRE_FIELDS_MAX = 32, WIRE_TIME_BYTES = 30 };

struct wire_message;
struct wire_field {
    str name, other; /* as written; also read so */
    enum wire_kind kind;
    const struct wire_message *of; /* MESSAGE */
};
struct wire_message {
    const ProtobufCMessageDescriptor *type;
    const struct wire_field *fields; /* as type->fields: by number */
};
extern const struct wire_message *const wire_messages[];
extern const unsigned wire_messages_count;
/* Invariant: the type is known. */
const struct wire_message *wire_message_of(const ProtobufCMessageDescriptor *type);

/* A new message with nothing in it; NULL when the arena is full. */
ProtobufCMessage *wire_message_new(struct arena *a, const ProtobufCMessageDescriptor *type);
MUST_CHECK err wire_json_decode(struct arena *a, const struct wire_message *m, str text,
                                ProtobufCMessage **out, struct err_note *note);
MUST_CHECK err wire_json_encode(struct arena *a, const struct wire_message *m,
                                const ProtobufCMessage *message, str *out);

/* RFC 3339, strict, years 0001 to 9999; false: no such instant. */
MUST_CHECK bool wire_time_parse(str text, int64_t *seconds, int32_t *nanos);
/* With 0, 3, 6 or 9 digits. Returns how many bytes; 0 when it is outside those years. */
size_t wire_time_format(int64_t seconds, int32_t nanos, char out[WIRE_TIME_BYTES + 1]);

#endif
