/* wire_map.c - messages to structs, and back. */
#include "codec/wire_map.h"

#include <string.h>

size_t wire_map_size(const struct wire_row *rows)
{
    while (rows->field != NULL)
        rows++;
    return rows->at;
}

static err texts_read(struct arena *a, size_t n, const ProtobufCBinaryData *from, const str **to)
{
    str *texts = arena_calloc(a, n, sizeof *texts);
    for (size_t i = 0; texts != NULL && i < n; i++)
        texts[i] = wire_str(from[i]);
    *to = texts;
    return texts == NULL ? ERR_LIMIT : ERR_OK;
}

err wire_map_read(struct arena *a, const ProtobufCMessage *m, const struct wire_row *rows, void *to)
{
    err why = ERR_OK;
    for (const struct wire_row *r = rows; r->field != NULL && why == ERR_OK; r++) {
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(m->descriptor, r->field);
        if (f == NULL)
            continue;
        const void *field = (const char *)m + f->offset;
        void *member = (char *)to + r->at;
        Wire__Timestamp *time;
        size_t n;
        switch (r->as) {
        case WIRE_TEXT:
            *(str *)member = wire_str(*(const ProtobufCBinaryData *)field);
            break;
        case WIRE_TEXTS:
            n = *(const size_t *)(const void *)((const char *)m + f->quantifier_offset);
            *(unsigned *)(void *)((char *)to + r->count_at) = (unsigned)n;
            why = texts_read(a, n, *(ProtobufCBinaryData *const *)field, member);
            break;
        case WIRE_INSTANT:
            time = *(Wire__Timestamp *const *)field;
            *(store_time *)member = time == NULL ? STORE_TIME_NEVER : wire_time_read(time);
            break;
        case WIRE_TIME_OUT:
            break;
        }
    }
    return why;
}

static err texts_write(struct arena *a, unsigned n, const str *from, ProtobufCBinaryData **to)
{
    ProtobufCBinaryData *texts = arena_calloc(a, n, sizeof *texts);
    for (unsigned i = 0; texts != NULL && i < n; i++)
        texts[i] = wire_bytes(from[i]);
    *to = texts;
    return texts == NULL ? ERR_LIMIT : ERR_OK;
}

err wire_map_write(struct arena *a, const struct wire_row *rows, const void *from,
                   ProtobufCMessage *m)
{
    err why = ERR_OK;
    for (const struct wire_row *r = rows; r->field != NULL && why == ERR_OK; r++) {
        const ProtobufCFieldDescriptor *f =
            protobuf_c_message_descriptor_get_field_by_name(m->descriptor, r->field);
        if (f == NULL)
            continue;
        void *field = (char *)m + f->offset;
        const void *member = (const char *)from + r->at;
        unsigned n;
        switch (r->as) {
        case WIRE_TEXT:
            *(ProtobufCBinaryData *)field = wire_bytes(*(const str *)member);
            break;
        case WIRE_TEXTS:
            n = *(const unsigned *)(const void *)((const char *)from + r->count_at);
            *(size_t *)(void *)((char *)m + f->quantifier_offset) = n;
            why = texts_write(a, n, *(const str *const *)member, field);
            break;
        case WIRE_INSTANT:
        case WIRE_TIME_OUT:
            if (((const store_time *)member)->ns == STORE_TIME_NEVER.ns)
                break;
            *(Wire__Timestamp **)field = wire_time(a, *(const store_time *)member);
            why = *(Wire__Timestamp **)field == NULL ? ERR_LIMIT : ERR_OK;
            break;
        }
    }
    return why;
}
