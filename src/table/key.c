/* key.c - encodes keys of rows of tables from the values of their attributes. Invariant: the
 * byte order of keys is the order of the values, descending where the schema says so. */
#include "table/key.h"

#include "table/decimal.h"
#include "table/value.h"

#include <string.h>

enum { ESCAPE = 0x00, ESCAPED = 0xff, END = 0x01 };

static bool is_number(enum table_type type)
{
    return type == TYPE_DECIMAL || type == TYPE_VARINT;
}

static void put_turned(struct buf *b, str bytes, unsigned char turn)
{
    char *at = buf_extend(b, bytes.n);
    for (size_t i = 0; at != NULL && i < bytes.n; i++)
        at[i] = (char)((unsigned char)bytes.p[i] ^ turn);
}

void key_put(struct buf *b, enum table_type type, bool desc, str value)
{
    unsigned char turn = desc ? 0xff : 0;
    if (value_fixed_size(type) != 0) {
        put_turned(b, value, turn);
        return;
    }
    if (is_number(type)) {
        put_turned(b, str_take(value, decimal_size(value)), turn);
        return;
    }
    while (value.n > 0) {
        size_t zero = str_find(value, ESCAPE);
        put_turned(b, str_take(value, zero), turn);
        if (zero == value.n)
            break;
        put_turned(b, (str){ .p = "\x00\xff", .n = 2 }, turn);
        value = str_skip(value, zero + 1);
    }
    put_turned(b, (str){ .p = "\x00\x01", .n = 2 }, turn);
}

/* Size of an escaped component with its end; 0: it has none. */
static size_t escaped_size(str rest, unsigned char turn)
{
    for (size_t i = 0; i + 1 < rest.n; i++) {
        if (((unsigned char)rest.p[i] ^ turn) != ESCAPE)
            continue;
        unsigned char next = (unsigned char)rest.p[i + 1] ^ turn;
        if (next == END)
            return i + 2;
        if (next != ESCAPED)
            return 0;
        i++;
    }
    return 0;
}

static size_t number_size(str rest, unsigned char turn)
{
    char turned[ENGINE_KEY_BYTES_MAX];
    size_t n = rest.n < sizeof turned ? rest.n : sizeof turned;
    for (size_t i = 0; i < n; i++)
        turned[i] = (char)((unsigned char)rest.p[i] ^ turn);
    return decimal_size((str){ .p = turned, .n = n });
}

size_t key_component_size(enum table_type type, bool desc, str rest)
{
    unsigned char turn = desc ? 0xff : 0;
    size_t fixed = value_fixed_size(type);
    size_t n = fixed != 0        ? fixed
               : is_number(type) ? number_size(rest, turn)
                                 : escaped_size(rest, turn);
    return n <= rest.n ? n : 0;
}

err key_take(struct arena *a, enum table_type type, bool desc, str *rest, str *value)
{
    unsigned char turn = desc ? 0xff : 0;
    size_t n = key_component_size(type, desc, *rest);
    if (n == 0)
        return ERR_CORRUPT;
    char *p = arena_alloc(a, n);
    if (p == NULL)
        return ERR_LIMIT;
    bool escaped = value_fixed_size(type) == 0 && !is_number(type);
    size_t end = escaped ? n - 2 : n, size = 0;
    for (size_t i = 0; i < end; i++) {
        p[size++] = (char)((unsigned char)rest->p[i] ^ turn);
        if (escaped && p[size - 1] == ESCAPE)
            i++;
    }
    str got = { .p = p, .n = size };
    if (!value_valid((struct table_kind){ .type = type }, got))
        return ERR_CORRUPT;
    *rest = str_skip(*rest, n);
    *value = got;
    return ERR_OK;
}

void key_put_head(struct buf *b, uint32_t domain, const struct schema *s)
{
    buf_put_u8(b, s->through == NULL ? KEY_ROW : KEY_INDEX);
    buf_put_be32(b, domain);
    buf_put_be32(b, s->number);
    if (s->through != NULL)
        buf_put_be16(b, s->through->number);
}

static str behind_head(const struct schema *s, str key)
{
    return str_skip(key, s->through == NULL ? KEY_HEAD_BYTES : KEY_INDEX_HEAD_BYTES);
}

static err mark_take(str *rest, bool *is_static)
{
    if (rest->n == 0 || (unsigned char)rest->p[0] > KEY_REGULAR)
        return ERR_CORRUPT;
    *is_static = rest->p[0] == KEY_STATIC;
    *rest = str_skip(*rest, 1);
    return ERR_OK;
}

err key_split(struct arena *a, const struct schema *s, str key, struct key_parts *out)
{
    str rest = behind_head(s, key);
    memset(out, 0, sizeof *out);
    for (unsigned i = 0; i < s->hash_count; i++) {
        const struct schema_attr *attr = &s->attrs[s->hash[i]];
        err e = key_take(a, attr->kind.type, false, &rest, &out->values[i]);
        if (e != ERR_OK)
            return e;
    }
    out->partition_size = key.n - rest.n;
    err e = mark_take(&rest, &out->is_static);
    for (unsigned i = 0; e == ERR_OK && !out->is_static && i < s->range_count; i++) {
        const struct schema_attr *attr = &s->attrs[s->range[i]];
        e = key_take(a, attr->kind.type, attr->desc, &rest, &out->values[s->hash_count + i]);
    }
    if (e == ERR_OK && rest.n != 0)
        e = ERR_CORRUPT;
    return e;
}

str key_part(const struct schema *s, const struct key_parts *parts, const struct schema_attr *at)
{
    unsigned index = (unsigned)(at - s->attrs);
    for (unsigned i = 0; i < s->hash_count; i++)
        if (s->hash[i] == index)
            return parts->values[i];
    for (unsigned i = 0; i < s->range_count; i++)
        if (s->range[i] == index)
            return parts->values[s->hash_count + i];
    return STR_NONE;
}

err key_partition(const struct schema *s, str key, size_t *partition_size, bool *is_static)
{
    str rest = behind_head(s, key);
    for (unsigned i = 0; i < s->hash_count; i++) {
        size_t n = key_component_size(s->attrs[s->hash[i]].kind.type, false, rest);
        if (n == 0)
            return ERR_CORRUPT;
        rest = str_skip(rest, n);
    }
    *partition_size = key.n - rest.n;
    return mark_take(&rest, is_static);
}
