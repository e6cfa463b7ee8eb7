/* value_from.c - JSON to stored forms. */
#include "base/date.h"
#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "table/decimal.h"
#include "table/jsontext.h"
#include "table/value.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { UUID_TEXT_BYTES = 36, UUID_BYTES = 16, ELEMENT_HEAD_BYTES = 4, TEXT_GROWTH = 6 };

static err bad_type(enum table_type type, struct err_note *note)
{
    static const char *const wants[TABLE_TYPES] = {
        [TYPE_BLOB] = "{\"base64\": \"...\"} or a string",
        [TYPE_DECIMAL] = "a number or a string of digits",
        [TYPE_DOUBLE] = "a number",
        [TYPE_FLOAT] = "a number in the range of a float",
        [TYPE_BOOLEAN] = "true or false",
        [TYPE_INT] = "a whole number of 32 bits, as number or string",
        [TYPE_VARINT] = "a whole number or a string of digits",
        [TYPE_STRING] = "a string",
        [TYPE_TIMEUUID] = "a version 1 UUID",
        [TYPE_UUID] = "a UUID",
        [TYPE_TIMESTAMP] = "milliseconds since 1970, or " DATE_WANTED,
        [TYPE_JSON] = "JSON nested at most 64 deep",
        [TYPE_LONG] = "a whole number of 64 bits, as string or number",
    };
    char name[VALUE_KIND_BYTES];
    value_kind_name((struct table_kind){ .type = type }, name);
    err_note_set(note, "a %s must be %s", name, wants[type]);
    return ERR_BAD;
}

static str value_from_keep(struct arena *a, const void *bytes, size_t n)
{
    return arena_copy(a, (str){ .p = bytes, .n = n });
}

static str keep_be64(struct arena *a, uint64_t v)
{
    unsigned char bytes[8];
    put_be64(bytes, v);
    return value_from_keep(a, bytes, sizeof bytes);
}

static str keep_be32(struct arena *a, uint32_t v)
{
    unsigned char bytes[4];
    put_be32(bytes, v);
    return value_from_keep(a, bytes, sizeof bytes);
}

static str keep_double(struct arena *a, double v)
{
    uint64_t bits;
    v = v == 0 ? 0 : v; /* -0 is 0 */
    memcpy(&bits, &v, sizeof bits);
    return keep_be64(a, bits & VALUE_SIGN64 ? ~bits : bits | VALUE_SIGN64);
}

static str keep_float(struct arena *a, float v)
{
    uint32_t bits;
    v = v == 0 ? 0 : v;
    memcpy(&bits, &v, sizeof bits);
    return keep_be32(a, bits & VALUE_SIGN32 ? ~bits : bits | VALUE_SIGN32);
}

static bool uuid_parse(str text, unsigned char out[UUID_BYTES])
{
    if (text.n != UUID_TEXT_BYTES)
        return false;
    size_t at = 0;
    for (size_t i = 0; i < UUID_TEXT_BYTES;) {
        if (i == 8 || i == 13 || i == 18 || i == 23) {
            if (text.p[i++] != '-')
                return false;
            continue;
        }
        int high = str_hex_digit(text.p[i]), low = str_hex_digit(text.p[i + 1]);
        if (high < 0 || low < 0)
            return false;
        out[at++] = (unsigned char)(high << 4 | low);
        i += 2;
    }
    return true;
}

/* RFC 3339; also "2026-01-01", a blank for the T, and an offset without its colon, as the peer's
 * clients write. */
static bool timestamp_parse(str text, int64_t *ns)
{
    if (date_parse_rfc3339(text, ns))
        return true;
    char copy[48];
    if (text.n < 10 || !str_to_cstr(text, copy, sizeof copy - 12))
        return false;
    size_t n = text.n;
    if (n == 10) {
        memcpy(copy + n, "T00:00:00Z", 11);
        return date_parse_rfc3339(str_of(copy), ns);
    }
    if (copy[10] == ' ')
        copy[10] = 'T';
    char sign = n > 5 ? copy[n - 5] : 0;
    if (n >= 24 && (sign == '+' || sign == '-')) {
        memmove(copy + n - 1, copy + n - 2, 3);
        copy[n - 2] = ':';
    }
    return date_parse_rfc3339(str_of(copy), ns);
}

static err from_number(struct arena *a, enum table_type type, const json_t *json, str *out,
                       struct err_note *note)
{
    if (json_is_string(json))
        return decimal_parse(a, json_body_text(json), type == TYPE_VARINT, out, note);
    if (!json_is_integer(json) && !(json_is_real(json) && type == TYPE_DECIMAL))
        return bad_type(type, note);
    struct buf b;
    buf_init(&b, 64);
    err e = jsontext_any(&b, json);
    if (e == ERR_OK)
        e = buf_status(&b);
    if (e == ERR_OK)
        e = decimal_parse(a, buf_str(&b), type == TYPE_VARINT, out, note);
    buf_fini(&b);
    return e;
}

static err from_blob(struct arena *a, const json_t *json, str *out, struct err_note *note)
{
    const json_t *base64 = json_object_get(json, "base64");
    if (json_is_string(base64) && json_object_size(json) == 1) {
        err e = base64_decode(a, json_body_text(base64), BASE64_STRICT, out);
        if (e == ERR_BAD)
            err_note_set(note, "a blob's base64 is malformed");
        return e;
    }
    if (!json_is_string(json))
        return bad_type(TYPE_BLOB, note);
    *out = arena_copy(a, json_body_text(json));
    return ERR_OK;
}

static err text_long(struct err_note *note)
{
    err_note_set(note, "its text in an answer would be longer than %d bytes (TABLE_TEXT_BYTES_MAX)",
                 TABLE_TEXT_BYTES_MAX);
    return ERR_LIMIT;
}

static err from_any(struct arena *a, const json_t *json, str *out, struct err_note *note)
{
    struct buf b;
    buf_init(&b, TABLE_TEXT_BYTES_MAX);
    err e = jsontext_sorted(&b, json);
    if (e == ERR_OK)
        e = buf_status(&b);
    if (b.failed)
        e = text_long(note);
    else if (e != ERR_OK)
        e = bad_type(TYPE_JSON, note);
    else
        *out = arena_copy(a, buf_str(&b));
    buf_fini(&b);
    return e;
}

static err from_integer(struct arena *a, enum table_type type, const json_t *json, str *out,
                        struct err_note *note)
{
    int64_t v;
    if (json_is_integer(json))
        v = json_integer_value(json);
    else if (!json_is_string(json) || !str_to_i64(json_body_text(json), &v))
        return bad_type(type, note);
    if (type == TYPE_LONG) {
        *out = table_value_long(a, v);
        return ERR_OK;
    }
    if (v < INT32_MIN || v > INT32_MAX)
        return bad_type(type, note);
    *out = keep_be32(a, (uint32_t)v ^ VALUE_SIGN32);
    return ERR_OK;
}

static err from_real(struct arena *a, enum table_type type, const json_t *json, str *out,
                     struct err_note *note)
{
    if (!json_is_number(json))
        return bad_type(type, note);
    double v = json_number_value(json);
    if (!isfinite(v) || (type == TYPE_FLOAT && !isfinite((float)v)))
        return bad_type(type, note);
    *out = type == TYPE_FLOAT ? keep_float(a, (float)v) : keep_double(a, v);
    return ERR_OK;
}

static err from_uuid(struct arena *a, enum table_type type, const json_t *json, str *out,
                     struct err_note *note)
{
    unsigned char bytes[UUID_BYTES];
    struct tid tid;
    if (!json_is_string(json))
        return bad_type(type, note);
    if (type == TYPE_UUID) {
        if (!uuid_parse(json_body_text(json), bytes))
            return bad_type(type, note);
        *out = value_from_keep(a, bytes, sizeof bytes);
        return ERR_OK;
    }
    if (!tid_parse(json_body_text(json), &tid))
        return bad_type(type, note);
    *out = table_value_tid(a, tid);
    return ERR_OK;
}

static err from_timestamp(struct arena *a, const json_t *json, str *out, struct err_note *note)
{
    int64_t ns;
    if (json_is_integer(json)) {
        *out = table_value_long(a, json_integer_value(json));
        return ERR_OK;
    }
    if (!json_is_string(json) || !timestamp_parse(json_body_text(json), &ns))
        return bad_type(TYPE_TIMESTAMP, note);
    int64_t ms = ns / NS_PER_MS - (ns % NS_PER_MS < 0 ? 1 : 0);
    *out = table_value_long(a, ms);
    return ERR_OK;
}

static err from_scalar(struct arena *a, enum table_type type, const json_t *json, str *out,
                       struct err_note *note)
{
    switch (type) {
    case TYPE_BLOB:
        return from_blob(a, json, out, note);
    case TYPE_DECIMAL:
    case TYPE_VARINT: {
        err e = from_number(a, type, json, out, note);
        if (e == ERR_OK && type == TYPE_VARINT)
            out->n -= DECIMAL_ZEROS_BYTES;
        return e;
    }
    case TYPE_DOUBLE:
    case TYPE_FLOAT:
        return from_real(a, type, json, out, note);
    case TYPE_BOOLEAN:
        if (!json_is_boolean(json))
            return bad_type(type, note);
        *out = value_from_keep(a, json_is_true(json) ? "\1" : "\0", 1);
        return ERR_OK;
    case TYPE_INT:
    case TYPE_LONG:
        return from_integer(a, type, json, out, note);
    case TYPE_STRING:
        if (!json_is_string(json))
            return bad_type(type, note);
        *out = arena_copy(a, json_body_text(json));
        return ERR_OK;
    case TYPE_TIMEUUID:
    case TYPE_UUID:
        return from_uuid(a, type, json, out, note);
    case TYPE_TIMESTAMP:
        return from_timestamp(a, json, out, note);
    case TYPE_JSON:
        return from_any(a, json, out, note);
    case TABLE_TYPES:
        break;
    }
    INVARIANT(false);
    return ERR_BAD;
}

static int element_cmp(const void *a, const void *b, void *type)
{
    struct table_kind kind = { .type = *(const enum table_type *)type };
    return value_cmp(kind, *(const str *)a, *(const str *)b);
}

static err pack_set(struct arena *a, enum table_type type, str *elements, size_t count, str *out)
{
    qsort_r(elements, count, sizeof *elements, element_cmp, &type);
    struct table_kind kind = { .type = type };
    size_t bytes = 0;
    for (size_t i = 0; i < count; i++)
        bytes += ELEMENT_HEAD_BYTES + elements[i].n;
    char *p = arena_alloc(a, bytes), *at = p;
    if (p == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < count; i++) {
        if (i > 0 && value_cmp(kind, elements[i - 1], elements[i]) == 0)
            continue;
        put_be32(at, (uint32_t)elements[i].n);
        if (elements[i].n > 0)
            memcpy(at + ELEMENT_HEAD_BYTES, elements[i].p, elements[i].n);
        at += ELEMENT_HEAD_BYTES + elements[i].n;
    }
    *out = (str){ .p = p, .n = (size_t)(at - p) };
    return ERR_OK;
}

static err from_set(struct arena *a, enum table_type type, const json_t *json, str *out,
                    struct err_note *note)
{
    size_t count = json_array_size(json);
    if (!json_is_array(json) || count > VALUE_SET_ELEMENTS_MAX) {
        char name[VALUE_KIND_BYTES];
        value_kind_name((struct table_kind){ .type = type, .set = true }, name);
        err_note_set(note, "a %s must be an array of at most %d values", name,
                     VALUE_SET_ELEMENTS_MAX);
        return ERR_BAD;
    }
    if (count == 0) {
        *out = STR_NONE;
        return ERR_OK;
    }
    str *elements = arena_calloc(a, count, sizeof *elements);
    if (elements == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < count; i++) {
        err e = from_scalar(a, type, json_array_get(json, i), &elements[i], note);
        if (e != ERR_OK)
            return e;
        if (elements[i].p == NULL)
            return ERR_LIMIT;
    }
    return pack_set(a, type, elements, count, out);
}

static err from_json(struct arena *a, struct table_kind kind, const json_t *json, str *out,
                     struct err_note *note)
{
    if (kind.set)
        return from_set(a, kind.type, json, out, note);
    err e = from_scalar(a, kind.type, json, out, note);
    return e == ERR_OK && out->p == NULL ? ERR_LIMIT : e;
}

/* Can an answer hold it? A byte of a text becomes six there, no other more, but zeros behind of a
 * decimal: these a body spells, too, and is far from the limit (TABLE_BODY_BYTES_MAX). What is far
 * from it is not looked at. */
static bool answerable(struct table_kind kind, str value)
{
    if (value.n <= TABLE_TEXT_BYTES_MAX / (2 * TEXT_GROWTH))
        return true;
    struct buf b;
    buf_init(&b, TABLE_TEXT_BYTES_MAX);
    bool fits = value_to_json(&b, kind, value) == ERR_OK && buf_status(&b) == ERR_OK;
    buf_fini(&b);
    return fits;
}

err value_from_json(struct arena *a, struct table_kind kind, const json_t *json, str *out,
                    struct err_note *note)
{
    str value = STR_NONE;
    err e = json_is_null(json) ? ERR_OK : from_json(a, kind, json, &value, note);
    if (e == ERR_OK && !answerable(kind, value))
        e = text_long(note);
    if (e == ERR_OK)
        *out = value;
    return e;
}
