/* wire.c - decodes and encodes messages of the queue's API as protobuf, and checks them for both
 * encodings. JSON is in wire_json.c. Invariant: a decoded message holds valid UTF-8 and valid
 * instants only. */
#include "codec/wire.h"

#include "base/utf8.h"
#include "codec/goduration.h"
#include "codec/wire_table.h"

#include <string.h>

#define ZERO_SECONDS INT64_C(-62135596800) /* 0001-01-01T00:00:00Z */

const struct wire_message *wire_message_of(const ProtobufCMessageDescriptor *type)
{
    for (unsigned i = 0; i < wire_messages_count; i++)
        if (wire_messages[i]->type == type)
            return wire_messages[i];
    check_failed(__FILE__, __LINE__, type->name);
}

ProtobufCMessage *wire_message_new(struct arena *a, const ProtobufCMessageDescriptor *type)
{
    ProtobufCMessage *m = arena_alloc(a, type->sizeof_message);
    if (m != NULL)
        protobuf_c_message_init(type, m);
    return m;
}

/* ---- protobuf ---- */

struct room {
    struct arena *arena;
    bool full;
};

static void *wire_allocate(void *ctx, size_t size)
{
    struct room *room = ctx;
    void *p = arena_alloc(room->arena, size);
    room->full |= p == NULL;
    return p;
}

static void wire_leave(void *ctx, void *p)
{
    (void)ctx, (void)p; /* the arena ends as a whole */
}

static bool text_is_valid(const ProtobufCBinaryData *b)
{
    return utf8_valid((str){ .p = (const char *)b->data, .n = b->len });
}

/* Of the years that JSON can say. */
static bool time_is_valid(const Wire__Timestamp *t)
{
    char text[WIRE_TIME_BYTES + 1];
    return wire_time_format(t->seconds, t->nanos, text) > 0;
}

static const struct wire_field *wire_settle(const struct wire_message *m,
                                            ProtobufCMessage *message);

/* count values of one field: NULL, or the field in them that is wrong. */
static const struct wire_field *settle_values(const struct wire_field *f, void *values,
                                              size_t count)
{
    for (size_t i = 0; i < count; i++) {
        ProtobufCMessage *inner = f->kind == WIRE_TEXT ? NULL : ((ProtobufCMessage **)values)[i];
        const struct wire_field *wrong = NULL;
        if (f->kind == WIRE_TEXT)
            wrong = text_is_valid((const ProtobufCBinaryData *)values + i) ? NULL : f;
        else if (f->kind == WIRE_MESSAGE && inner != NULL)
            wrong = wire_settle(f->of, inner);
        else if (inner != NULL)
            wrong = time_is_valid((const Wire__Timestamp *)inner) ? NULL : f;
        if (inner != NULL)
            inner->n_unknown_fields = 0;
        if (wrong != NULL)
            return wrong;
    }
    return NULL;
}

/* Forgets unknown fields; NULL, or the first field with a text that is no UTF-8 or an instant that
 * is none. Nests as deep as the types do. */
static const struct wire_field *wire_settle(const struct wire_message *m, ProtobufCMessage *message)
{
    const struct wire_field *wrong = NULL;
    message->n_unknown_fields = 0;
    for (unsigned i = 0; i < m->type->n_fields && wrong == NULL; i++) {
        const ProtobufCFieldDescriptor *d = &m->type->fields[i];
        const struct wire_field *f = &m->fields[i];
        void *at = (char *)message + d->offset;
        if (f->kind != WIRE_TEXT && f->kind != WIRE_MESSAGE && f->kind != WIRE_TIME)
            continue;
        if (d->label == PROTOBUF_C_LABEL_REPEATED)
            wrong = settle_values(f, *(void **)at,
                                  *(size_t *)(void *)((char *)message + d->quantifier_offset));
        else
            wrong = settle_values(f, at, 1);
    }
    return wrong;
}

static err protobuf_decode(struct arena *a, const struct wire_message *m, str bytes,
                           ProtobufCMessage **out, struct err_note *note)
{
    struct room room = { .arena = a };
    ProtobufCAllocator allocator = { .alloc = wire_allocate,
                                     .free = wire_leave,
                                     .allocator_data = &room };
    ProtobufCMessage *message =
        protobuf_c_message_unpack(m->type, &allocator, bytes.n, (const uint8_t *)bytes.p);
    if (message == NULL && room.full)
        return ERR_LIMIT;
    if (message == NULL)
        return err_bad(note, "protobuf: not a message of type %s", m->type->short_name);
    const struct wire_field *wrong = wire_settle(m, message);
    if (wrong != NULL)
        return err_bad(note, "protobuf: field %.*s is %s", STR_ARG(wrong->name),
                       wrong->kind == WIRE_TEXT ? "not UTF-8"
                                                : "no instant of the years 1 to 9999");
    *out = message;
    return ERR_OK;
}

static err protobuf_encode(struct arena *a, const ProtobufCMessage *m, str *out)
{
    size_t n = protobuf_c_message_get_packed_size(m);
    uint8_t *bytes = arena_alloc(a, n);
    if (bytes == NULL)
        return ERR_LIMIT;
    INVARIANT(protobuf_c_message_pack(m, bytes) == n);
    *out = (str){ .p = (const char *)bytes, .n = n };
    return ERR_OK;
}

/* ---- either ---- */

err wire_decode(struct arena *a, const ProtobufCMessageDescriptor *type,
                enum wire_encoding encoding, str bytes, ProtobufCMessage **out,
                struct err_note *note)
{
    const struct wire_message *m = wire_message_of(type);
    err why = encoding == WIRE_JSON ? wire_json_decode(a, m, bytes, out, note)
                                    : protobuf_decode(a, m, bytes, out, note);
    if (why == ERR_LIMIT)
        err_note_set(note, "the message needs more memory than a request may have");
    return why;
}

err wire_encode(struct arena *a, const ProtobufCMessage *m, enum wire_encoding encoding, str *out)
{
    if (encoding == WIRE_JSON)
        return wire_json_encode(a, wire_message_of(m->descriptor), m, out);
    return protobuf_encode(a, m, out);
}

const void *wire_field(const ProtobufCMessage *m, const char *name)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    return f == NULL ? NULL : (const char *)m + f->offset;
}

void *wire_list(struct arena *a, ProtobufCMessage *m, const char *name, size_t count)
{
    const ProtobufCFieldDescriptor *f =
        protobuf_c_message_descriptor_get_field_by_name(m->descriptor, name);
    const ProtobufCMessageDescriptor *type = f->descriptor;
    size_t size = type->sizeof_message;
    char *rows = arena_calloc(a, count, size);
    ProtobufCMessage **all = arena_calloc(a, count, sizeof(ProtobufCMessage *));
    if (rows == NULL || all == NULL)
        return NULL;
    for (size_t i = 0; i < count; i++) {
        all[i] = (ProtobufCMessage *)(void *)(rows + i * size);
        protobuf_c_message_init(type, all[i]);
    }
    *(size_t *)(void *)((char *)m + f->quantifier_offset) = count;
    *(ProtobufCMessage ***)(void *)((char *)m + f->offset) = all;
    return rows;
}

ProtobufCBinaryData wire_copy(struct arena *a, str text)
{
    return wire_bytes(arena_copy(a, text));
}

ProtobufCBinaryData wire_number(struct arena *a, uint64_t n)
{
    return wire_bytes(arena_printf(a, "%llu", (unsigned long long)n));
}

ProtobufCBinaryData wire_id(struct arena *a, struct ksuid id)
{
    char text[KSUID_TEXT_BYTES + 1];
    ksuid_format(id, text);
    return wire_copy(a, str_of(text));
}

ProtobufCBinaryData wire_duration(struct arena *a, int64_t ns)
{
    char text[GODURATION_BYTES_MAX + 1];
    goduration_format(ns, text);
    return wire_copy(a, str_of(text));
}

Wire__Timestamp *wire_time(struct arena *a, store_time at)
{
    Wire__Timestamp *t = (Wire__Timestamp *)wire_message_new(a, &wire__timestamp__descriptor);
    if (t == NULL)
        return NULL;
    t->seconds = at.ns / NS_PER_S;
    t->nanos = (int32_t)(at.ns % NS_PER_S);
    if (t->nanos < 0) {
        t->seconds--;
        t->nanos += (int32_t)NS_PER_S;
    }
    if (at.ns == 0)
        t->seconds = ZERO_SECONDS;
    return t;
}

store_time wire_time_read(const Wire__Timestamp *t)
{
    int64_t ns;
    if (t == NULL || (t->seconds == ZERO_SECONDS && t->nanos == 0))
        return STORE_TIME_ZERO;
    if (__builtin_mul_overflow(t->seconds, NS_PER_S, &ns) ||
        __builtin_add_overflow(ns, (int64_t)t->nanos, &ns))
        return (store_time){ .ns = t->seconds < 0 ? INT64_MIN : INT64_MAX - 1 };
    return (store_time){ .ns = ns == INT64_MAX ? ns - 1 : ns };
}
