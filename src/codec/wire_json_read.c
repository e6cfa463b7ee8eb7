/* wire_json_read.c - JSON into messages, in one pass and guided by the table. Calls nest as deep as
 * messages do in their types, which do not contain themselves; what a client nests deeper is an
 * unknown field or of the wrong kind. */
#include "codec/wire_table.h"

#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json_scan.h"
#include "codec/json_text.h"
#include "codec/querator.pb-c.h"

#include <string.h>

enum { LIST_FIRST = 8, QUOTED_BYTES_MAX = 80 };

struct reader {
    struct json_scan at;
    const char *begin;
    struct arena *arena;
    struct err_note *note;
};

/* Where reading stands and what is wrong there. */
static err wire_json_read_refuse(const struct reader *r, const char *what, str name)
{
    int line = 1, column = 1;
    for (const char *p = r->begin; p < r->at.p; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n' ? 1 : 0;
    }
    size_t n = name.n < QUOTED_BYTES_MAX ? name.n : QUOTED_BYTES_MAX;
    const char *open = n == 0 ? "" : " \"", *close = n == 0 ? "" : "\"";
    return err_bad(r->note, "JSON line %d, column %d: %s%s%.*s%s", line, column, what, open, (int)n,
                   n == 0 ? "" : name.p, close);
}

/* ---- texts ---- */

static err take_text(struct reader *r, str *out)
{
    str quoted;
    const char *fault = json_scan_text(&r->at, &quoted);
    if (fault != NULL)
        return wire_json_read_refuse(r, fault, STR_NONE);
    err e = json_text_unescape(r->arena, quoted, out);
    return e == ERR_BAD ? wire_json_read_refuse(r, "a wrong escape in a text", STR_NONE) : e;
}

/* ---- numbers ---- */

/* A number as JSON writes it, taken apart: digits without the point, and the power of ten they are
 * times. */
struct number {
    bool minus;
    char digits[24]; /* without zeros at the front */
    size_t n;
    bool many; /* more digits than that which are not zero */
    int64_t exponent;
};

static void number_digits(str *rest, struct number *out, int64_t step)
{
    for (; rest->n > 0 && rest->p[0] >= '0' && rest->p[0] <= '9'; *rest = str_skip(*rest, 1)) {
        char digit = rest->p[0];
        out->exponent += step;
        if (out->n == 0 && digit == '0')
            continue;
        if (out->n < sizeof out->digits) {
            out->digits[out->n++] = digit;
            continue;
        }
        out->many |= digit != '0';
        out->exponent++;
    }
}

static int64_t number_exponent(str rest)
{
    bool minus = str_starts(rest, STR("-"));
    int64_t value = 0;
    if (minus || str_starts(rest, STR("+")))
        rest = str_skip(rest, 1);
    for (size_t i = 0; i < rest.n && value < 100000000; i++)
        value = value * 10 + (rest.p[i] - '0');
    return minus ? -value : value;
}

/* text is a number of JSON. */
static void number_split(str text, struct number *out)
{
    *out = (struct number){ .minus = str_starts(text, STR("-")) };
    str rest = str_skip(text, out->minus ? 1 : 0);
    number_digits(&rest, out, 0);
    if (str_starts(rest, STR("."))) {
        rest = str_skip(rest, 1);
        number_digits(&rest, out, -1);
    }
    if (rest.n > 0)
        out->exponent += number_exponent(str_skip(rest, 1));
}

static bool number_to_int32(const struct number *n, int32_t *out)
{
    size_t digits = n->n;
    int64_t exponent = n->exponent, value = 0;
    while (digits > 0 && n->digits[digits - 1] == '0') {
        digits--;
        exponent++;
    }
    if (digits == 0) {
        *out = 0;
        return true;
    }
    if (n->many || exponent < 0 || exponent > 10 || digits > 10)
        return false;
    for (size_t i = 0; i < digits; i++)
        value = value * 10 + (n->digits[i] - '0');
    for (; exponent > 0 && value <= (int64_t)INT32_MAX + 1; exponent--)
        value *= 10;
    value = n->minus ? -value : value;
    if (exponent > 0 || value < INT32_MIN || value > INT32_MAX)
        return false;
    *out = (int32_t)value;
    return true;
}

static err take_int32(struct reader *r, int32_t *out)
{
    struct number n;
    str text, quoted;
    bool fine;
    if (json_scan_peek(&r->at) == '"') {
        err why = take_text(r, &quoted);
        if (why != ERR_OK)
            return why;
        struct json_scan inside = json_scan_of(quoted);
        fine = json_scan_number(&inside, &text) && text.n == quoted.n;
    } else {
        fine = json_scan_number(&r->at, &text);
    }
    if (!fine)
        return wire_json_read_refuse(r, "a whole number is wanted", STR_NONE);
    number_split(text, &n);
    return number_to_int32(&n, out)
               ? ERR_OK
               : wire_json_read_refuse(r, "a whole number of 32 bits is wanted", STR_NONE);
}

/* ---- values ---- */

static err take_bytes(struct reader *r, ProtobufCBinaryData *out)
{
    str text, bytes;
    err why = take_text(r, &text);
    if (why != ERR_OK)
        return why;
    why = base64_decode(r->arena, text, BASE64_GO, &bytes);
    if (why == ERR_BAD)
        return wire_json_read_refuse(r, "base64 is wanted", STR_NONE);
    *out = (ProtobufCBinaryData){ .len = bytes.n, .data = (uint8_t *)(uintptr_t)bytes.p };
    return why;
}

static err take_time(struct reader *r, Wire__Timestamp **out)
{
    str text;
    err why = take_text(r, &text);
    if (why != ERR_OK)
        return why;
    Wire__Timestamp *t =
        (Wire__Timestamp *)wire_message_new(r->arena, &wire__timestamp__descriptor);
    if (t == NULL)
        return ERR_LIMIT;
    if (!wire_time_parse(text, &t->seconds, &t->nanos))
        return wire_json_read_refuse(r, "an instant such as 2026-01-01T00:00:00Z is wanted, not",
                                     text);
    *out = t;
    return ERR_OK;
}

static err take_message(struct reader *r, const struct wire_message *m, ProtobufCMessage **out);

/* One value, into at: a slot of the field's C type. */
static err take_value(struct reader *r, const struct wire_field *f, void *at)
{
    ProtobufCBinaryData *bytes = at;
    str text;
    err why;
    switch (f->kind) {
    case WIRE_TEXT:
        why = take_text(r, &text);
        if (why == ERR_OK)
            *bytes = (ProtobufCBinaryData){ .len = text.n, .data = (uint8_t *)(uintptr_t)text.p };
        return why;
    case WIRE_BYTES:
        return take_bytes(r, bytes);
    case WIRE_INT32:
        return take_int32(r, at);
    case WIRE_BOOL:
        *(protobuf_c_boolean *)at = json_scan_word(&r->at, STR("true"));
        return *(protobuf_c_boolean *)at || json_scan_word(&r->at, STR("false"))
                   ? ERR_OK
                   : wire_json_read_refuse(r, "true or false is wanted", STR_NONE);
    case WIRE_TIME:
        return take_time(r, at);
    case WIRE_MESSAGE:
        return take_message(r, f->of, at);
    }
    check_failed(__FILE__, __LINE__, "a field of no kind");
}

static size_t slot_bytes(enum wire_kind kind)
{
    switch (kind) {
    case WIRE_TEXT:
    case WIRE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case WIRE_INT32:
        return sizeof(int32_t);
    case WIRE_BOOL:
        return sizeof(protobuf_c_boolean);
    case WIRE_TIME:
    case WIRE_MESSAGE:
        return sizeof(ProtobufCMessage *);
    }
    check_failed(__FILE__, __LINE__, "a field of no kind");
}

/* [value, ...] into an array that grows in the arena. */
static err take_list(struct reader *r, const struct wire_field *f, void **out, size_t *count)
{
    size_t n = 0, room = 0, slot = slot_bytes(f->kind);
    char *list = NULL;
    if (!json_scan_take(&r->at, '['))
        return wire_json_read_refuse(r, "a list is wanted", STR_NONE);
    if (json_scan_take(&r->at, ']'))
        return ERR_OK;
    do {
        if (n == room) {
            room = room == 0 ? LIST_FIRST : room * 2;
            char *more = arena_calloc(r->arena, room, slot);
            if (more == NULL)
                return ERR_LIMIT;
            if (n > 0)
                memcpy(more, list, n * slot);
            list = more;
        }
        err why = take_value(r, f, list + n++ * slot);
        if (why != ERR_OK)
            return why;
    } while (json_scan_take(&r->at, ','));
    if (!json_scan_take(&r->at, ']'))
        return wire_json_read_refuse(r, "',' or ']' is wanted", STR_NONE);
    *out = list;
    *count = n;
    return ERR_OK;
}

static err take_member(struct reader *r, const struct wire_message *m, char *message,
                       uint32_t *seen)
{
    str name;
    err why = take_text(r, &name);
    if (why != ERR_OK)
        return why;
    unsigned i = 0;
    while (i < m->type->n_fields && !str_eq(m->fields[i].name, name) &&
           !str_eq(m->fields[i].other, name))
        i++;
    if (i == m->type->n_fields)
        return wire_json_read_refuse(r, "unknown field", name);
    if (*seen & BIT(i))
        return wire_json_read_refuse(r, "duplicate field", name);
    *seen |= BIT(i);
    if (!json_scan_take(&r->at, ':'))
        return wire_json_read_refuse(r, "':' is wanted", STR_NONE);
    if (json_scan_word(&r->at, STR("null")))
        return ERR_OK;
    const ProtobufCFieldDescriptor *d = &m->type->fields[i];
    if (d->label != PROTOBUF_C_LABEL_REPEATED)
        return take_value(r, &m->fields[i], message + d->offset);
    return take_list(r, &m->fields[i], (void **)(void *)(message + d->offset),
                     (size_t *)(void *)(message + d->quantifier_offset));
}

static err take_message(struct reader *r, const struct wire_message *m, ProtobufCMessage **out)
{
    uint32_t seen = 0;
    if (!json_scan_take(&r->at, '{'))
        return wire_json_read_refuse(r, "an object is wanted", STR_NONE);
    ProtobufCMessage *message = wire_message_new(r->arena, m->type);
    if (message == NULL)
        return ERR_LIMIT;
    *out = message;
    if (json_scan_take(&r->at, '}'))
        return ERR_OK;
    do {
        err why = take_member(r, m, (char *)message, &seen);
        if (why != ERR_OK)
            return why;
    } while (json_scan_take(&r->at, ','));
    return json_scan_take(&r->at, '}') ? ERR_OK
                                       : wire_json_read_refuse(r, "',' or '}' is wanted", STR_NONE);
}

err wire_json_decode(struct arena *a, const struct wire_message *m, str text,
                     ProtobufCMessage **out, struct err_note *note)
{
    struct reader r = { .at = json_scan_of(text), .begin = text.p, .arena = a, .note = note };
    ProtobufCMessage *message;
    if (text.n == 0)
        return err_bad(note, "JSON: an object is wanted, not an empty body");
    if (!utf8_valid(text))
        return err_bad(note, "JSON: not UTF-8");
    err why = take_message(&r, m, &message);
    if (why != ERR_OK)
        return why;
    (void)json_scan_peek(&r.at); /* past blanks */
    if (r.at.p < r.at.end)
        return wire_json_read_refuse(&r, "something follows the object", STR_NONE);
    *out = message;
    return ERR_OK;
}
