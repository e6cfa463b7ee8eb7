/* JSON into messages, in one pass and guided by the table. Calls nest as deep as messages do in
 * their types, which do not contain themselves; what a client nests deeper is an unknown field or
 * of the wrong kind. */
#include "codec/wire_table.h"

#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json_text.h"
#include "codec/querator.pb-c.h"

#include <string.h>

enum { LIST_FIRST = 8, QUOTED_BYTES_MAX = 80 };

struct reader {
    const char *p, *begin, *end;
    struct arena *arena;
    struct err_note *note;
};

/* Where reading stands and what is wrong there. */
static err refuse(const struct reader *r, const char *what, str name)
{
    int line = 1, column = 1;
    for (const char *p = r->begin; p < r->p; p++) {
        column = *p == '\n' ? 1 : column + 1;
        line += *p == '\n' ? 1 : 0;
    }
    size_t n = name.n < QUOTED_BYTES_MAX ? name.n : QUOTED_BYTES_MAX;
    const char *open = n == 0 ? "" : " \"", *close = n == 0 ? "" : "\"";
    err_note_set(r->note, "JSON line %d, column %d: %s%s%.*s%s", line, column, what, open, (int)n,
                 n == 0 ? "" : name.p, close);
    return ERR_BAD;
}

static char peek(struct reader *r)
{
    while (r->p < r->end && (*r->p == ' ' || *r->p == '\n' || *r->p == '\r' || *r->p == '\t'))
        r->p++;
    return r->p < r->end ? *r->p : '\0';
}

static bool take(struct reader *r, char c)
{
    if (peek(r) != c || c == '\0')
        return false;
    r->p++;
    return true;
}

static bool take_word(struct reader *r, str word)
{
    (void)peek(r); /* to the next token */
    str rest = { .p = r->p, .n = (size_t)(r->end - r->p) };
    if (!str_starts(rest, word))
        return false;
    r->p += word.n;
    return true;
}

/* ---- texts ---- */

static err take_text(struct reader *r, str *out)
{
    if (!take(r, '"'))
        return refuse(r, "a text is wanted", STR_NONE);
    const char *begin = r->p;
    while (r->p < r->end && *r->p != '"') {
        if ((unsigned char)*r->p < 0x20)
            return refuse(r, "a control character in a text", STR_NONE);
        if (*r->p == '\\')
            r->p++;
        r->p++;
    }
    if (r->p >= r->end) {
        r->p = r->end;
        return refuse(r, "a text has no end", STR_NONE);
    }
    str quoted = { .p = begin, .n = (size_t)(r->p - begin) };
    r->p++;
    err e = json_text_unescape(r->arena, quoted, out);
    return e == ERR_BAD ? refuse(r, "a wrong escape in a text", STR_NONE) : e;
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

static const char *number_digits(const char *p, const char *end, struct number *out, int64_t step)
{
    for (; p < end && *p >= '0' && *p <= '9'; p++) {
        out->exponent += step;
        if (out->n == 0 && *p == '0')
            continue;
        if (out->n < sizeof out->digits) {
            out->digits[out->n++] = *p;
            continue;
        }
        out->many |= *p != '0';
        out->exponent++;
    }
    return p;
}

static const char *number_exponent(const char *p, const char *end, struct number *out)
{
    bool minus = p < end && *p == '-';
    int64_t value = 0;
    if (p < end && (*p == '-' || *p == '+'))
        p++;
    if (p >= end || *p < '0' || *p > '9')
        return NULL;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (value < 100000000)
            value = value * 10 + (*p - '0');
    out->exponent += minus ? -value : value;
    return p;
}

/* Returns where it ends, NULL when there is no number. */
static const char *number_parse(const char *p, const char *end, struct number *out)
{
    *out = (struct number){ .minus = p < end && *p == '-' };
    p += out->minus ? 1 : 0;
    if (p >= end || *p < '0' || *p > '9')
        return NULL;
    const char *whole = p;
    p = number_digits(p, end, out, 0);
    if (*whole == '0' && p > whole + 1)
        return NULL;
    if (p < end && *p == '.') {
        const char *fraction = ++p;
        p = number_digits(p, end, out, -1);
        if (p == fraction)
            return NULL;
    }
    if (p < end && (*p == 'e' || *p == 'E'))
        p = number_exponent(p + 1, end, out);
    return p;
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
    const char *p = r->p, *end = r->end;
    str quoted;
    bool is_quoted = peek(r) == '"';
    p = r->p;
    if (is_quoted) {
        err why = take_text(r, &quoted);
        if (why != ERR_OK)
            return why;
        p = quoted.p;
        end = quoted.p + quoted.n;
    }
    p = number_parse(p, end, &n);
    if (p == NULL || (is_quoted && p != end))
        return refuse(r, "a whole number is wanted", STR_NONE);
    if (!is_quoted)
        r->p = p;
    return number_to_int32(&n, out) ? ERR_OK
                                    : refuse(r, "a whole number of 32 bits is wanted", STR_NONE);
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
        return refuse(r, "base64 is wanted", STR_NONE);
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
        return refuse(r, "an instant such as 2026-01-01T00:00:00Z is wanted, not", text);
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
        *(protobuf_c_boolean *)at = take_word(r, STR("true"));
        return *(protobuf_c_boolean *)at || take_word(r, STR("false"))
                   ? ERR_OK
                   : refuse(r, "true or false is wanted", STR_NONE);
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
    if (!take(r, '['))
        return refuse(r, "a list is wanted", STR_NONE);
    if (take(r, ']'))
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
    } while (take(r, ','));
    if (!take(r, ']'))
        return refuse(r, "',' or ']' is wanted", STR_NONE);
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
        return refuse(r, "unknown field", name);
    if (*seen & BIT(i))
        return refuse(r, "duplicate field", name);
    *seen |= BIT(i);
    if (!take(r, ':'))
        return refuse(r, "':' is wanted", STR_NONE);
    if (take_word(r, STR("null")))
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
    if (!take(r, '{'))
        return refuse(r, "an object is wanted", STR_NONE);
    ProtobufCMessage *message = wire_message_new(r->arena, m->type);
    if (message == NULL)
        return ERR_LIMIT;
    *out = message;
    if (take(r, '}'))
        return ERR_OK;
    do {
        err why = take_member(r, m, (char *)message, &seen);
        if (why != ERR_OK)
            return why;
    } while (take(r, ','));
    return take(r, '}') ? ERR_OK : refuse(r, "',' or '}' is wanted", STR_NONE);
}

err wire_json_decode(struct arena *a, const struct wire_message *m, str text,
                     ProtobufCMessage **out, struct err_note *note)
{
    struct reader r = {
        .p = text.p, .begin = text.p, .end = text.p + text.n, .arena = a, .note = note
    };
    ProtobufCMessage *message;
    if (text.n == 0) {
        err_note_set(note, "JSON: an object is wanted, not an empty body");
        return ERR_BAD;
    }
    if (!utf8_valid(text)) {
        err_note_set(note, "JSON: not UTF-8");
        return ERR_BAD;
    }
    err why = take_message(&r, m, &message);
    if (why != ERR_OK)
        return why;
    (void)peek(&r); /* past blanks */
    if (r.p < r.end)
        return refuse(&r, "something follows the object", STR_NONE);
    *out = message;
    return ERR_OK;
}
