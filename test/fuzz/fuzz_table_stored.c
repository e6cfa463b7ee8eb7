/* Goal: no stored bytes break the table module, and what it takes for a key or a value says the
 * same when it is written and read again. The first byte chooses the kind of bytes; the rest are
 * they. */
#include "table/key.h"
#include "table/row.h"
#include "table/value.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_value(struct arena *a, struct table_kind kind, str stored)
{
    struct buf b;
    str again;
    json_error_t wrong;
    if (!value_valid(kind, stored))
        return;
    buf_init(&b, 1 << 20);
    INVARIANT(value_to_json(&b, kind, stored) == ERR_OK);
    if (kind.type != TYPE_JSON) { /* whose text is taken on trust */
        json_t *json = json_loadb(b.p, b.n, JSON_DECODE_ANY | JSON_ALLOW_NUL, &wrong);
        INVARIANT(json != NULL);
        INVARIANT(value_from_json(a, kind, json, &again, NULL) == ERR_OK);
        INVARIANT(value_cmp(kind, stored, again) == 0);
        json_decref(json);
    }
    buf_fini(&b);
}

static void check_component(struct arena *a, enum table_type type, bool desc, str bytes)
{
    str rest = bytes, value;
    struct buf b;
    if (key_take(a, type, desc, &rest, &value) != ERR_OK)
        return;
    buf_init(&b, 1 << 20);
    key_put(&b, type, desc, value);
    INVARIANT(str_eq(buf_str(&b), str_take(bytes, bytes.n - rest.n)));
    check_value(a, (struct table_kind){ .type = type }, value);
    buf_fini(&b);
}

static void check_schema(struct arena *a, str bytes)
{
    struct schema *s, *again;
    struct buf b;
    if (schema_unpack(a, STR("t"), bytes, &s) != ERR_OK)
        return;
    buf_init(&b, 1 << 20);
    schema_pack(&b, s);
    INVARIANT(schema_unpack(a, STR("t"), buf_str(&b), &again) == ERR_OK);
    INVARIANT(again->attrs_count == s->attrs_count);
    INVARIANT(again->number == s->number);
    struct key_parts parts;
    if (bytes.n <= ENGINE_KEY_BYTES_MAX && key_split(a, s, bytes, &parts) == ERR_OK)
        INVARIANT(parts.partition_size < bytes.n);
    buf_fini(&b);
}

static void check_row(str bytes)
{
    struct row_head head;
    if (row_head_read(bytes, &head) != ERR_OK)
        return;
    str attrs = str_skip(bytes, ROW_HEAD_BYTES);
    if (row_attrs_valid(attrs))
        for (unsigned number = 0; number < 8; number++)
            INVARIANT(row_attr(attrs, (uint16_t)number).n <= attrs.n);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    if (size == 0)
        return 0;
    str bytes = { .p = (const char *)data + 1, .n = size - 1 };
    unsigned kind = data[0] % 64;
    arena_init(&a, 16 << 20);
    if (kind < 2 * TABLE_TYPES)
        check_component(&a, (enum table_type)(kind / 2), kind % 2 != 0, bytes);
    else if (kind < 4 * TABLE_TYPES)
        check_value(&a,
                    (struct table_kind){ .type = (enum table_type)(kind / 2 - TABLE_TYPES),
                                         .set = kind % 2 != 0 },
                    bytes);
    else if (kind % 2 != 0)
        check_schema(&a, bytes);
    else
        check_row(bytes);
    arena_fini(&a);
    return 0;
}
