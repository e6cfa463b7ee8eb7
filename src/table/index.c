/* index.c - keeps the rows of secondary indexes beside the rows of a table, in the same update. */
#include "table/index.h"

#include "table/key.h"
#include "table/row.h"

#include <string.h>

/* ---- entries ---- */

static err entry_build(struct buf *b, const struct schema *s, const struct schema_index *ix,
                       const str *values)
{
    for (unsigned i = 0; i < ix->hash_count + ix->range_count; i++) {
        const struct schema_attr *at = &s->attrs[ix->keys[i]];
        if (values[ix->keys[i]].p == NULL)
            return ERR_NOT_FOUND;
        if (i == ix->hash_count)
            buf_put_u8(b, KEY_REGULAR);
        key_put(b, at->kind.type, ix->desc[i], values[ix->keys[i]]);
    }
    if (ix->range_count == 0)
        buf_put_u8(b, KEY_REGULAR);
    return buf_status(b);
}

err index_entry(uint32_t domain, const struct schema *s, const struct schema_index *ix,
                const str *values, struct key_buf *out, struct err_note *note)
{
    struct buf b;
    buf_init(&b, TABLE_KEY_BYTES_MAX);
    buf_put_u8(&b, KEY_INDEX);
    buf_put_be32(&b, domain);
    buf_put_be32(&b, s->number);
    buf_put_be16(&b, ix->number);
    err e = entry_build(&b, s, ix, values);
    out->n = 0;
    if (e == ERR_OK)
        INVARIANT(key_buf_set(out, buf_str(&b)));
    buf_fini(&b);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        return ERR_OK;
    err_note_set(note,
                 "the entry in index %.*s is longer than %d bytes (TABLE_KEY_BYTES_MAX) encoded",
                 STR_ARG(ix->name), TABLE_KEY_BYTES_MAX);
    return ERR_BAD;
}

/* The row's key behind its first byte, then the index's number. */
static void trail_key(struct key_buf *k, str row_key, uint16_t index)
{
    INVARIANT(row_key.n <= TABLE_KEY_BYTES_MAX);
    INVARIANT(key_buf_set(k, row_key));
    k->bytes[0] = KEY_TRAIL;
    put_be16(k->bytes + k->n, index);
    k->n += 2;
}

err index_put(struct engine_txn *t, str row_key, uint16_t index, str entry)
{
    struct key_buf trail;
    trail_key(&trail, row_key, index);
    err e = engine_txn_put(t, SPACE_ROW, entry, row_key, STR_NONE);
    return e == ERR_OK ? engine_txn_put(t, SPACE_ROW, key_buf_str(&trail), entry, STR_NONE) : e;
}

/* A damaged trail is none: the entry it named counts no more. */
err index_stored(struct engine_view *v, str row_key, uint16_t index, struct key_buf *out)
{
    struct key_buf trail;
    struct engine_row row;
    out->n = 0;
    trail_key(&trail, row_key, index);
    err e = engine_get(v, SPACE_ROW, key_buf_str(&trail), &row);
    if (e == ERR_OK && !key_buf_set(out, row.value))
        return ERR_OK;
    return e == ERR_NOT_FOUND || e == ERR_CORRUPT ? ERR_OK : e;
}

static err entry_change(struct engine_txn *t, str row_key, uint16_t index,
                        const struct key_buf *next)
{
    struct key_buf old, trail;
    err e = index_stored(engine_txn_view(t), row_key, index, &old);
    if (e != ERR_OK || str_eq(key_buf_str(&old), key_buf_str(next)))
        return e;
    if (old.n > 0)
        e = engine_txn_delete(t, SPACE_ROW, key_buf_str(&old));
    if (e == ERR_OK && next->n > 0)
        return index_put(t, row_key, index, key_buf_str(next));
    trail_key(&trail, row_key, index);
    return e == ERR_OK ? engine_txn_delete(t, SPACE_ROW, key_buf_str(&trail)) : e;
}

err index_write(struct engine_txn *t, const struct index_row *r, bool *any, struct err_note *note)
{
    *any = false;
    for (unsigned i = 0; i < r->schema->indexes_count; i++) {
        const struct schema_index *ix = &r->schema->indexes[i];
        struct key_buf entry;
        err e = index_entry(r->domain, r->schema, ix, r->values, &entry, note);
        if (e == ERR_OK)
            e = entry_change(t, r->key, ix->number, &entry);
        if (e != ERR_OK)
            return e;
        *any |= entry.n > 0;
    }
    return ERR_OK;
}

static void index_append(struct buf *keys, str key, unsigned *count)
{
    buf_put_be16(keys, (uint16_t)key.n);
    buf_put(keys, key);
    (*count)++;
}

/* A trail is as long as the row's key and its number: longer ones are of rows whose keys begin like
 * this one. */
err index_trails(struct engine_view *v, str row_key, struct buf *keys, unsigned *count)
{
    struct key_buf first, last;
    trail_key(&first, row_key, 0);
    trail_key(&last, row_key, UINT16_MAX);
    last.bytes[last.n++] = 0;
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = key_buf_str(&first),
                                  .until = key_buf_str(&last) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e;
    for (;;) {
        struct engine_row row;
        e = engine_cursor_next(c, &row);
        bool damaged = e == ERR_CORRUPT && row.key.n > 0;
        if (e != ERR_OK && !damaged)
            break;
        if (row.key.n != first.n)
            continue;
        index_append(keys, row.key, count);
        if (!damaged)
            index_append(keys, row.value, count);
    }
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}
