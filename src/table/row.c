/* row.c - encodes and decodes rows of tables: a head, then attributes by number. */
#include "table/row.h"

#include "table/key.h"

#include <string.h>

static const char expiry_prefix[] = { KEY_EXPIRY };
const struct due_lane row_due = { .space = SPACE_ROW, .prefix = { .p = expiry_prefix, .n = 1 } };

err row_head_read(str value, struct row_head *out)
{
    if (value.n < ROW_HEAD_BYTES || value.p[0] != ROW_VERSION)
        return ERR_CORRUPT;
    *out = (struct row_head){
        .expiry = { .ns = (int64_t)get_be64(value.p + ROW_EXPIRY_AT) },
        .written_at = { .ns = (int64_t)get_be64(value.p + ROW_WRITTEN_AT) },
        .in_blob = (value.p[ROW_FLAGS_AT] & ROW_IN_BLOB) != 0,
        .indexed = (value.p[ROW_FLAGS_AT] & ROW_INDEXED) != 0,
    };
    return ERR_OK;
}

bool row_attrs_valid(str attrs)
{
    struct cursor c = { .rest = attrs };
    unsigned count = cursor_be16(&c);
    for (unsigned i = 0; i < count && !c.failed; i++) {
        (void)cursor_be16(&c);
        (void)cursor_bytes(&c, cursor_be32(&c));
    }
    return cursor_done(&c);
}

err row_attrs(struct engine *e, const struct engine_row *row, struct arena *a, bool now, str *out)
{
    struct row_head head;
    err why = row_head_read(row->value, &head);
    if (why != ERR_OK)
        return why;
    str attrs;
    if (head.in_blob) {
        why = store_blob(e, &row->blob, a, now, &attrs);
        if (why != ERR_OK)
            return why;
    } else {
        attrs = arena_copy(a, str_skip(row->value, ROW_HEAD_BYTES));
        if (attrs.p == NULL)
            return ERR_LIMIT;
    }
    if (!row_attrs_valid(attrs))
        return ERR_CORRUPT;
    *out = attrs;
    return ERR_OK;
}

str row_attr(str attrs, uint16_t number)
{
    struct cursor c = { .rest = attrs };
    unsigned count = attrs.n == 0 ? 0 : cursor_be16(&c);
    for (unsigned i = 0; i < count; i++) {
        uint16_t found = cursor_be16(&c);
        str value = cursor_bytes(&c, cursor_be32(&c));
        if (found == number)
            return value;
    }
    return STR_NONE;
}

static bool writes(const struct row_write *w, unsigned i)
{
    return w->schema->attrs[i].role == w->role && w->values[i].p != NULL;
}

static char *put_attr(char *at, uint16_t number, str value)
{
    put_be16(at, number);
    put_be32(at + 2, (uint32_t)value.n);
    if (value.n > 0)
        memcpy(at + ROW_ATTR_HEAD_BYTES, value.p, value.n);
    return at + ROW_ATTR_HEAD_BYTES + value.n;
}

err row_pack(struct arena *a, const struct row_write *w, str *value, str *bytes,
             struct err_note *note)
{
    size_t size = 2;
    uint16_t count = 0;
    for (unsigned i = 0; i < w->schema->attrs_count; i++)
        if (writes(w, i)) {
            size += ROW_ATTR_HEAD_BYTES + w->values[i].n;
            count++;
        }
    if (size > ENGINE_BLOB_BYTES_MAX) {
        err_note_set(note, "the row would be longer than %d bytes (ENGINE_BLOB_BYTES_MAX)",
                     ENGINE_BLOB_BYTES_MAX);
        return ERR_LIMIT;
    }
    char *p = arena_alloc(a, ROW_HEAD_BYTES + size);
    if (p == NULL)
        return ERR_LIMIT;
    bool in_blob = ROW_HEAD_BYTES + size > ENGINE_VALUE_BYTES_MAX;
    p[0] = ROW_VERSION;
    p[ROW_FLAGS_AT] = (char)((in_blob ? ROW_IN_BLOB : 0) | (w->head.indexed ? ROW_INDEXED : 0));
    put_be64(p + ROW_EXPIRY_AT, (uint64_t)w->head.expiry.ns);
    put_be64(p + ROW_WRITTEN_AT, (uint64_t)w->head.written_at.ns);
    put_be16(p + ROW_HEAD_BYTES, count);
    char *at = p + ROW_HEAD_BYTES + 2;
    for (unsigned i = 0; i < w->schema->attrs_count; i++)
        if (writes(w, i))
            at = put_attr(at, w->schema->attrs[i].number, w->values[i]);
    *value = (str){ .p = p, .n = in_blob ? ROW_HEAD_BYTES : ROW_HEAD_BYTES + size };
    *bytes = in_blob ? (str){ .p = p + ROW_HEAD_BYTES, .n = size } : STR_NONE;
    return ERR_OK;
}

struct due_row row_due_row(str key)
{
    INVARIANT(key.n >= KEY_HEAD_BYTES);
    INVARIANT(key.n <= TABLE_KEY_BYTES_MAX);
    return (struct due_row){ .key = str_skip(key, 1) };
}

err row_due_key(const struct due_entry *entry, struct key_buf *key)
{
    str of = due_of(entry);
    if (of.n < KEY_HEAD_BYTES - 1)
        return ERR_CORRUPT;
    key->bytes[0] = KEY_ROW;
    memcpy(key->bytes + 1, of.p, of.n);
    key->n = of.n + 1;
    return ERR_OK;
}
