/* value.c - types of attributes, stored forms to JSON, their order, what is valid. */
#include "table/value.h"

#include "base/date.h"
#include "base/utf8.h"
#include "codec/json_text.h"
#include "table/decimal.h"
#include "table/jsontext.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { UUID_BYTES = 16 };

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
    uint64_t bits = key & VALUE_SIGN64 ? key & ~VALUE_SIGN64 : ~key;
    double v;
    memcpy(&v, &bits, sizeof v);
    return v;
}

static float float_of(uint32_t key)
{
    uint32_t bits = key & VALUE_SIGN32 ? key & ~VALUE_SIGN32 : ~key;
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
        buf_printf(b, "%" PRId32, (int32_t)(get_be32(stored.p) ^ VALUE_SIGN32));
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
