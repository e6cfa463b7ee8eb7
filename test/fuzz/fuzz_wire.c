/* Goal: no body breaks the reading of messages; what was read is, written in either encoding and
 * read again, the same. Method: the first byte picks type and encoding. */
#include "codec/wire.h"
#include "codec/wire_table.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { ARENA_BYTES = 16 << 20 };

/* JSON, which has no unknown fields, so that both ways must give one text. Messages from protobuf
 * may hold instants that JSON cannot say. */
static bool has_wild_time(const struct wire_message *m, const ProtobufCMessage *message)
{
    char text[WIRE_TIME_BYTES + 1];
    for (unsigned i = 0; i < m->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *d = &m->type->fields[i];
        const char *at = (const char *)message + d->offset;
        bool many = d->label == PROTOBUF_C_LABEL_REPEATED;
        if (m->fields[i].kind == WIRE_TIME) {
            const Wire__Timestamp *t = *(Wire__Timestamp *const *)(const void *)at;
            if (t != NULL && wire_time_format(t->seconds, t->nanos, text) == 0)
                return true;
        }
        if (m->fields[i].kind != WIRE_MESSAGE)
            continue;
        size_t count =
            many ? *(const size_t *)(const void *)((const char *)message + d->quantifier_offset)
                 : 1;
        ProtobufCMessage *const *list = many ? *(ProtobufCMessage *const *const *)(const void *)at
                                             : (ProtobufCMessage *const *)(const void *)at;
        for (size_t k = 0; k < count; k++)
            if (list[k] != NULL && has_wild_time(m->fields[i].of, list[k]))
                return true;
    }
    return false;
}

static void again(struct arena *a, const struct wire_message *m, enum wire_encoding encoding,
                  str bytes, str json)
{
    struct err_note note = { "" };
    ProtobufCMessage *message;
    str second;
    INVARIANT(wire_decode(a, m->type, encoding, bytes, &message, &note) == ERR_OK);
    INVARIANT(wire_encode(a, message, WIRE_JSON, &second) == ERR_OK);
    INVARIANT(str_eq(json, second));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct err_note note = { "" };
    ProtobufCMessage *message;
    str json, protobuf;
    if (size == 0)
        return 0;
    const struct wire_message *m = wire_messages[(data[0] >> 1) % wire_messages_count];
    str body = { .p = (const char *)data + 1, .n = size - 1 };
    arena_init(&a, ARENA_BYTES);
    err why =
        wire_decode(&a, m->type, data[0] & 1 ? WIRE_PROTOBUF : WIRE_JSON, body, &message, &note);
    INVARIANT(why == ERR_OK || why == ERR_LIMIT || note.text[0] != '\0');
    if (why == ERR_OK && !has_wild_time(m, message)) {
        INVARIANT(wire_encode(&a, message, WIRE_JSON, &json) == ERR_OK);
        INVARIANT(wire_encode(&a, message, WIRE_PROTOBUF, &protobuf) == ERR_OK);
        again(&a, m, WIRE_JSON, json, json);
        again(&a, m, WIRE_PROTOBUF, protobuf, json);
    }
    arena_fini(&a);
    return 0;
}
