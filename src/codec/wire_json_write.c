/* wire_json_write.c - messages into JSON: once to know the size, once to write it. */
#include "codec/wire_table.h"

#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "codec/wire.h"

#include <stdio.h>
#include <string.h>

struct writer {
    char *p; /* NULL: only counts */
    size_t n;
};

static void wire_json_write_put(struct writer *w, str s)
{
    if (w->p != NULL && s.n > 0)
        memcpy(w->p + w->n, s.p, s.n);
    w->n += s.n;
}

static void put_text(struct writer *w, str s)
{
    if (w->p != NULL)
        (void)json_text_put(w->p + w->n, s);
    w->n += json_text_size(s);
}

static void put_bytes(struct writer *w, str bytes)
{
    wire_json_write_put(w, STR("\""));
    if (w->p != NULL)
        (void)base64_put(w->p + w->n, bytes);
    w->n += base64_size(bytes.n);
    wire_json_write_put(w, STR("\""));
}

static void put_int32(struct writer *w, int32_t value)
{
    char text[16];
    int n = snprintf(text, sizeof text, "%d", (int)value);
    wire_json_write_put(w, (str){ .p = text, .n = (size_t)n });
}

static void put_time(struct writer *w, const Wire__Timestamp *t)
{
    char text[WIRE_TIME_BYTES + 1];
    size_t n = wire_time_format(t->seconds, t->nanos, text);
    INVARIANT(n > 0); /* made by wire_time */
    wire_json_write_put(w, STR("\""));
    wire_json_write_put(w, (str){ .p = text, .n = n });
    wire_json_write_put(w, STR("\""));
}

static str slot_str(const void *at)
{
    const ProtobufCBinaryData *b = at;
    return (str){ .p = (const char *)b->data, .n = b->len };
}

static bool is_zero(const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_TEXT:
    case WIRE_BYTES:
        return slot_str(at).n == 0;
    case WIRE_INT32:
        return *(const int32_t *)at == 0;
    case WIRE_BOOL:
        return !*(const protobuf_c_boolean *)at;
    case WIRE_TIME:
    case WIRE_MESSAGE:
        return *(ProtobufCMessage *const *)at == NULL;
    }
    check_failed(__FILE__, __LINE__, "a field of no kind");
}

static void put_message(struct writer *w, const struct wire_message *m,
                        const ProtobufCMessage *message);

static void put_value(struct writer *w, const struct wire_field *f, const void *at)
{
    switch (f->kind) {
    case WIRE_TEXT:
        INVARIANT(utf8_valid(slot_str(at)));
        put_text(w, slot_str(at));
        return;
    case WIRE_BYTES:
        put_bytes(w, slot_str(at));
        return;
    case WIRE_INT32:
        put_int32(w, *(const int32_t *)at);
        return;
    case WIRE_BOOL:
        wire_json_write_put(w, *(const protobuf_c_boolean *)at ? STR("true") : STR("false"));
        return;
    case WIRE_TIME:
        put_time(w, *(const Wire__Timestamp *const *)at);
        return;
    case WIRE_MESSAGE:
        put_message(w, f->of, *(const ProtobufCMessage *const *)at);
        return;
    }
    check_failed(__FILE__, __LINE__, "a field of no kind");
}

static size_t slot_bytes(const struct wire_field *f)
{
    return f->kind == WIRE_TEXT || f->kind == WIRE_BYTES ? sizeof(ProtobufCBinaryData)
           : f->kind == WIRE_INT32                       ? sizeof(int32_t)
           : f->kind == WIRE_BOOL                        ? sizeof(protobuf_c_boolean)
                                                         : sizeof(void *);
}

static void put_list(struct writer *w, const struct wire_field *f, const char *list, size_t count)
{
    wire_json_write_put(w, STR("["));
    for (size_t i = 0; i < count; i++) {
        wire_json_write_put(w, i == 0 ? STR("") : STR(","));
        put_value(w, f, list + i * slot_bytes(f));
    }
    wire_json_write_put(w, STR("]"));
}

static void put_message(struct writer *w, const struct wire_message *m,
                        const ProtobufCMessage *message)
{
    bool first = true;
    INVARIANT(message->descriptor == m->type);
    wire_json_write_put(w, STR("{"));
    for (unsigned i = 0; i < m->type->n_fields; i++) {
        const ProtobufCFieldDescriptor *d = &m->type->fields[i];
        const struct wire_field *f = &m->fields[i];
        const char *at = (const char *)message + d->offset;
        bool list = d->label == PROTOBUF_C_LABEL_REPEATED;
        size_t count =
            list ? *(const size_t *)(const void *)((const char *)message + d->quantifier_offset)
                 : 0;
        if (list ? count == 0 : is_zero(f, at))
            continue;
        wire_json_write_put(w, first ? STR("\"") : STR(",\""));
        first = false;
        wire_json_write_put(w, f->name);
        wire_json_write_put(w, STR("\":"));
        if (list)
            put_list(w, f, *(const char *const *)(const void *)at, count);
        else
            put_value(w, f, at);
    }
    wire_json_write_put(w, STR("}"));
}

err wire_json_encode(struct arena *a, const struct wire_message *m, const ProtobufCMessage *message,
                     str *out)
{
    struct writer count = { .p = NULL }, w = { .n = 0 };
    put_message(&count, m, message);
    w.p = arena_alloc(a, count.n);
    if (w.p == NULL)
        return ERR_LIMIT;
    put_message(&w, m, message);
    INVARIANT(w.n == count.n);
    *out = (str){ .p = w.p, .n = w.n };
    return ERR_OK;
}
