/* txn.c - steps that all changes of the authority share: reading, writing and counting rows
 * inside one update. Invariant: a decision may run twice, so random values are drawn before it
 * begins. */
#include "auth/txn.h"

#include "base/ksuid.h"
#include "base/utf8.h"

#include <string.h>

err change_run(struct change *c, err (*decide)(struct row_txn *t, void *ctx), void *ctx)
{
    err_note_set(c->note, "%s", "");
    const struct row_change u = {
        .decide = decide, .ctx = ctx, .frees = c->removes, .note = c->note
    };
    err why = row_store_change(c->auth->rows, &u);
    grants_cache_empty(c->auth->cache);
    bool told = c->note != NULL && c->note->text[0] != '\0';
    if (why != ERR_OK && !told)
        err_note_set(c->note, "the store refused");
    return why == ERR_LIMIT && !told ? ERR_AGAIN : why; /* the store's, which passes; ours do not */
}

void draw_id(struct auth *a, char id[AUTH_ID_BYTES + 1])
{
    uint64_t random[2];
    a->entropy(random, sizeof random);
    ksuid_format(ksuid_at(clock_store(a->clock), random[0], random[1]), id);
}

str shown(str s)
{
    enum { SHOWN_BYTES = 160 }; /* of a note's 256, beside the longest sentence */
    if (s.n <= SHOWN_BYTES)
        return s;
    size_t n = SHOWN_BYTES;
    while (n > 0 && ((unsigned char)s.p[n] & 0xc0) == 0x80)
        n--;
    return str_take(s, n);
}

err not_found(struct err_note *note, const char *what, str name)
{
    err_note_set(note, "%s does not exist; '%.*s' was not found", what, STR_ARG(shown(name)));
    return ERR_NOT_FOUND;
}

/* ---- rows ---- */

err txn_put(struct row_txn *t, const struct rowkey *k, const struct buf *value)
{
    err why = rowkey_status(k);
    if (why == ERR_OK)
        why = buf_status(value);
    return why != ERR_OK ? why : row_txn_put(t, rowkey_str(k), buf_str(value), STR_NONE);
}

err txn_put_empty(struct row_txn *t, const struct rowkey *k)
{
    err why = rowkey_status(k);
    return why != ERR_OK ? why : row_txn_put(t, rowkey_str(k), STR(""), STR_NONE);
}

err txn_delete(struct row_txn *t, const struct rowkey *k)
{
    err why = rowkey_status(k);
    return why != ERR_OK ? why : row_txn_delete(t, rowkey_str(k));
}

err rows_find(struct row_view *v, const struct rowkey *k, struct row *row)
{
    if (rowkey_status(k) != ERR_OK)
        return ERR_NOT_FOUND;
    return row_get(v, rowkey_str(k), row);
}

err txn_find(struct row_txn *t, const struct rowkey *k, struct row *row)
{
    return rows_find(row_txn_view(t), k, row);
}

static struct row_cursor *open_under(struct row_view *v, const struct rowkey *prefix)
{
    struct rowkey until = *prefix;
    rowkey_prefix_end(&until);
    return row_cursor_open(v, rowkey_str(prefix), rowkey_str(&until));
}

err rows_first(struct row_view *v, const struct rowkey *prefix, struct row_copy *out)
{
    if (rowkey_status(prefix) != ERR_OK)
        return ERR_NOT_FOUND;
    struct row_cursor *c = open_under(v, prefix);
    struct row row;
    err why = row_cursor_next(c, &row);
    if (why == ERR_OK && row.value.n > sizeof out->value)
        why = ERR_CORRUPT;
    if (why == ERR_OK) { /* the cursor lets go of it */
        rowkey_init(&out->key);
        rowkey_put_raw(&out->key, row.key);
        if (row.value.n > 0)
            memcpy(out->value, row.value.p, row.value.n);
        out->value_n = row.value.n;
    }
    row_cursor_close(&c);
    return why;
}

err rows_count(struct row_view *v, const struct rowkey *prefix, unsigned max, unsigned *count)
{
    unsigned n = 0;
    err why = rowkey_status(prefix) == ERR_OK ? ERR_OK : ERR_NOT_FOUND;
    struct row_cursor *c = why == ERR_OK ? open_under(v, prefix) : NULL;
    struct row row;
    while (why == ERR_OK && n < max) {
        why = row_cursor_next(c, &row);
        n += why == ERR_OK ? 1 : 0;
    }
    if (c != NULL)
        row_cursor_close(&c);
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        *count = n;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err rows_any(struct row_view *v, const struct rowkey *prefix, bool *any)
{
    unsigned count;
    err why = rows_count(v, prefix, 1, &count);
    if (why == ERR_OK)
        *any = count > 0;
    return why;
}

err txn_count(struct row_txn *t, char kind, int by, uint64_t max, const char *what,
              struct err_note *note)
{
    struct rowkey k;
    struct row row;
    uint64_t count = 0;
    row_key_of_count(&k, kind);
    err why = txn_find(t, &k, &row);
    if (why == ERR_OK) {
        struct cursor c = { .rest = row.value };
        bool known = cursor_u8(&c) == ROW_VERSION;
        count = cursor_be64(&c);
        if (!known || !cursor_done(&c))
            return ERR_CORRUPT;
    } else if (why != ERR_NOT_FOUND) {
        return why;
    }
    if (by < 0 && count == 0)
        return ERR_CORRUPT;
    count = by < 0 ? count - 1 : count + 1;
    if (by > 0 && count > max) {
        err_note_set(note, "%s are limited; there are %llu already", what, (unsigned long long)max);
        return ERR_LIMIT;
    }
    struct buf b;
    buf_init(&b, ROW_VALUE_BYTES_MAX);
    buf_put_u8(&b, ROW_VERSION);
    buf_put_be64(&b, count);
    why = txn_put(t, &k, &b);
    buf_fini(&b);
    return why;
}
