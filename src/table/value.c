#include "table/value.h"

#include "base/date.h"
#include "base/utf8.h"
#include "codec/base64.h"
#include "codec/json.h"
#include "codec/json_text.h"
#include "table/decimal.h"
#include "table/jsontext.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UUID_TEXT_BYTES = 36, UUID_BYTES = 16, ELEMENT_HEAD_BYTES = 4, TEXT_GROWTH = 6 };

static const struct {
    const char *name;
    size_t fixed;
} types[TABLE_TYPES] = {
    [TYPE_BLOB] = { "blob", 0 },           [TYPE_DECIMAL] = { "decimal", 0 },
    [TYPE_DOUBLE] = { "double", 8 },       [TYPE_FLOAT] = { "float", 4 },
    [TYPE_BOOLEAN] = { "boolean", 1 },     [TYPE_INT] = { "int", 4 },
    [TYPE_VARINT] = { "varint", 0 },       [TYPE_STRING] = { "string", 0 },
    [TYPE_TIMEUUID] = { "timeuuid", 16 },  [TYPE_UUID] = { "uuid", 16 },
    [TYPE_TIMESTAMP] = { "timestamp", 8 }, [TYPE_JSON] = { "json", 0 },
    [TYPE_LONG] = { "long", 8 },
};

bool value_kind_parse(str name, struct table_kind *out)
{
    bool set = str_starts(name, STR("set<")) && str_ends(name, STR(">"));
    if (set)
        name = (str){ .p = name.p + 4, .n = name.n - 5 };
    for (unsigned i = 0; i < TABLE_TYPES; i++)
        if (str_eq(name, str_of(types[i].name))) {
            *out = (struct table_kind){ .type = (enum table_type)i, .set = set };
            return true;
        }
    return false;
}

void value_kind_name(struct table_kind kind, char out[VALUE_KIND_BYTES])
{
    int n = snprintf(out, VALUE_KIND_BYTES, kind.set ? "set<%s>" : "%s", types[kind.type].name);
    INVARIANT(n > 0 && n < VALUE_KIND_BYTES);
}

size_t value_fixed_size(enum table_type type)
{
    return types[type].fixed;
}

/* ---- from JSON ---- */

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
    err_note_set(note, "a %s must be %s", types[type].name, wants[type]);
    return ERR_BAD;
}

static str keep(struct arena *a, const void *bytes, size_t n)
{
    return arena_copy(a, (str){ .p = bytes, .n = n });
}

static str keep_be64(struct arena *a, uint64_t v)
{
    unsigned char bytes[8];
    put_be64(bytes, v);
    return keep(a, bytes, sizeof bytes);
}

static str keep_be32(struct arena *a, uint32_t v)
{
    unsigned char bytes[4];
    put_be32(bytes, v);
    return keep(a, bytes, sizeof bytes);
}

static const uint64_t sign64 = (uint64_t)1 << 63;
static const uint32_t sign32 = (uint32_t)1 << 31;

str table_value_long(struct arena *a, int64_t v)
{
    return keep_be64(a, (uint64_t)v ^ sign64);
}

str table_value_tid(struct arena *a, struct tid t)
{
    unsigned char bytes[TID_KEY_BYTES];
    tid_key(t, bytes);
    return keep(a, bytes, sizeof bytes);
}

int64_t table_long(str stored)
{
    return stored.n == 8 ? (int64_t)(get_be64(stored.p) ^ sign64) : 0;
}

struct tid table_tid(str stored)
{
    if (stored.n != TID_KEY_BYTES)
        return (struct tid){ .ticks = 0 };
    unsigned char bytes[TID_KEY_BYTES];
    memcpy(bytes, stored.p, sizeof bytes);
    return tid_from_key(bytes);
}

static str keep_double(struct arena *a, double v)
{
    uint64_t bits;
    v = v == 0 ? 0 : v; /* -0 is 0 */
    memcpy(&bits, &v, sizeof bits);
    return keep_be64(a, bits & sign64 ? ~bits : bits | sign64);
}

static str keep_float(struct arena *a, float v)
{
    uint32_t bits;
    v = v == 0 ? 0 : v;
    memcpy(&bits, &v, sizeof bits);
    return keep_be32(a, bits & sign32 ? ~bits : bits | sign32);
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
    *out = keep_be32(a, (uint32_t)v ^ sign32);
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
        *out = keep(a, bytes, sizeof bytes);
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
        *out = keep(a, json_is_true(json) ? "\1" : "\0", 1);
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
        err_note_set(note, "a set<%s> must be an array of at most %d values", types[type].name,
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

/* ---- to JSON ---- */

static void put_uuid(struct buf *b, const char bytes[UUID_BYTES])
{
    buf_put_c(b, '"');
    for (size_t i = 0; i < UUID_BYTES; i++)
        buf_printf(b, i == 4 || i == 6 || i == 8 || i == 10 ? "-%02x" : "%02x",
                   (unsigned char)bytes[i]);
    buf_put_c(b, '"');
}

static void put_tid(struct buf *b, str stored)
{
    char text[TID_TEXT_BYTES + 1];
    tid_format(table_tid(stored), text);
    buf_printf(b, "\"%s\"", text);
}

static void put_timestamp(struct buf *b, int64_t ms)
{
    int64_t ns;
    if (__builtin_mul_overflow(ms, NS_PER_MS,
                               &ns)) { /* beyond what dates can say: the number itself */
        buf_printf(b, "%" PRId64, ms);
        return;
    }
    char text[DATE_RFC3339_BYTES + 1];
    date_format_ms(ns, text);
    buf_printf(b, "\"%s\"", text);
}

static double double_of(uint64_t key)
{
    uint64_t bits = key & sign64 ? key & ~sign64 : ~key;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float float_of(uint32_t key)
{
    uint32_t bits = key & sign32 ? key & ~sign32 : ~key;
    float v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static void put_blob(struct buf *b, str stored)
{
    buf_put(b, STR("{\"base64\":\""));
    jsontext_base64(b, stored);
    buf_put(b, STR("\"}"));
}

static void put_number(struct buf *b, str stored, bool whole)
{
    buf_put_c(b, '"');
    INVARIANT(decimal_format(b, stored, whole));
    buf_put_c(b, '"');
}

/* stored is valid. */
static void put_scalar(struct buf *b, enum table_type type, str stored)
{
    switch (type) {
    case TYPE_BLOB:
        put_blob(b, stored);
        return;
    case TYPE_DECIMAL:
    case TYPE_VARINT:
        put_number(b, stored, type == TYPE_VARINT);
        return;
    case TYPE_DOUBLE:
        jsontext_double(b, double_of(get_be64(stored.p)));
        return;
    case TYPE_FLOAT:
        jsontext_float(b, float_of(get_be32(stored.p)));
        return;
    case TYPE_BOOLEAN:
        buf_put(b, stored.p[0] != 0 ? STR("true") : STR("false"));
        return;
    case TYPE_INT:
        buf_printf(b, "%" PRId32, (int32_t)(get_be32(stored.p) ^ sign32));
        return;
    case TYPE_LONG:
        buf_printf(b, "\"%" PRId64 "\"", table_long(stored));
        return;
    case TYPE_STRING:
        json_text_append(b, stored);
        return;
    case TYPE_TIMEUUID:
        put_tid(b, stored);
        return;
    case TYPE_UUID:
        put_uuid(b, stored.p);
        return;
    case TYPE_TIMESTAMP:
        put_timestamp(b, table_long(stored));
        return;
    case TYPE_JSON:
        buf_put(b, stored);
        return;
    case TABLE_TYPES:
        break;
    }
    INVARIANT(false);
}

err value_to_json(struct buf *b, struct table_kind kind, str stored)
{
    if (stored.p == NULL) {
        buf_put(b, STR("null"));
        return ERR_OK;
    }
    if (!value_valid(kind, stored))
        return ERR_CORRUPT;
    if (!kind.set) {
        put_scalar(b, kind.type, stored);
        return ERR_OK;
    }
    struct cursor c = { .rest = stored };
    char mark = '[';
    while (c.rest.n > 0) {
        buf_put_c(b, mark);
        mark = ',';
        uint32_t n = cursor_be32(&c);
        put_scalar(b, kind.type, cursor_bytes(&c, n));
    }
    buf_put_c(b, ']');
    return ERR_OK;
}

/* ---- order and validity ---- */

static int decimal_cmp(str a, str b)
{
    return str_cmp(str_take(a, decimal_size(a)), str_take(b, decimal_size(b)));
}

/* Element by element: equal numbers may have different bytes. */
static int decimals_cmp(str a, str b)
{
    struct cursor x = { .rest = a }, y = { .rest = b };
    while (x.rest.n > 0 && y.rest.n > 0) {
        uint32_t x_bytes = cursor_be32(&x), y_bytes = cursor_be32(&y);
        int order = decimal_cmp(cursor_bytes(&x, x_bytes), cursor_bytes(&y, y_bytes));
        if (x.failed || y.failed) /* malformed */
            return str_cmp(a, b);
        if (order != 0)
            return order;
    }
    return (x.rest.n > 0) - (y.rest.n > 0);
}

int value_cmp(struct table_kind kind, str a, str b)
{
    if (a.p == NULL || b.p == NULL)
        return (a.p != NULL) - (b.p != NULL);
    if (kind.type == TYPE_DECIMAL)
        return kind.set ? decimals_cmp(a, b) : decimal_cmp(a, b);
    return str_cmp(a, b);
}

/* -0 is never stored. */
static bool number_valid(double v)
{
    return isfinite(v) && !(v == 0 && signbit(v));
}

static bool tid_valid(str s)
{
    struct tid t = table_tid(s);
    return t.ticks >> 60 == 0 && t.low >> 62 == 2; /* 60 bits of time, the variant */
}

static bool scalar_valid(enum table_type type, str s)
{
    size_t fixed = types[type].fixed;
    if (fixed != 0 && s.n != fixed)
        return false;
    if (type == TYPE_STRING || type == TYPE_JSON)
        return utf8_valid(s) && (type == TYPE_STRING || s.n > 0);
    if (type == TYPE_DOUBLE)
        return number_valid(double_of(get_be64(s.p)));
    if (type == TYPE_FLOAT)
        return number_valid((double)float_of(get_be32(s.p)));
    if (type == TYPE_BOOLEAN)
        return (unsigned char)s.p[0] <= 1;
    if (type == TYPE_TIMEUUID)
        return tid_valid(s);
    if (type != TYPE_DECIMAL && type != TYPE_VARINT)
        return true;
    return decimal_valid(s, type == TYPE_VARINT);
}

bool value_valid(struct table_kind kind, str stored)
{
    if (stored.p == NULL)
        return true;
    if (!kind.set)
        return scalar_valid(kind.type, stored);
    struct cursor c = { .rest = stored };
    str before = STR_NONE;
    while (c.rest.n > 0) {
        uint32_t n = cursor_be32(&c);
        str element = cursor_bytes(&c, n);
        if (c.failed || !scalar_valid(kind.type, element))
            return false;
        if (before.p != NULL &&
            value_cmp((struct table_kind){ .type = kind.type }, before, element) >= 0)
            return false;
        before = element;
    }
    return stored.n > 0;
}
