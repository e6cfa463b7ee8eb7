/* due.c - see due.h. The order of keys is the order of instants: the sign is flipped where a lane
 * has instants on both sides of 1970. */
#include "engine/due.h"

#include "base/buf.h"

#include <string.h>

#define DUE_SIGN ((uint64_t)1 << 63)

static bool is_never(store_time at)
{
    return at.ns == INT64_MAX;
}

void due_key(const struct due_lane *l, store_time at, struct due_row row, struct due_key *out)
{
    char *p = out->p;
    INVARIANT(!is_never(at));
    INVARIANT(l->prefix.n <= DUE_PREFIX_BYTES_MAX);
    INVARIANT(l->prefix.n + 8 + row.kind.n + row.key.n <= ENGINE_KEY_BYTES_MAX);
    if (l->prefix.n > 0)
        *p++ = l->prefix.p[0];
    put_be64(p, (uint64_t)at.ns ^ (l->flips ? DUE_SIGN : 0));
    p += 8;
    if (row.kind.n > 0)
        memcpy(p, row.kind.p, row.kind.n);
    if (row.key.n > 0)
        memcpy(p + row.kind.n, row.key.p, row.key.n);
    out->n = l->prefix.n + 8 + row.kind.n + row.key.n;
}

err due_file(struct engine_txn *t, const struct due_lane *l, store_time at, struct due_row row,
             str value)
{
    struct due_key k;
    if (is_never(at))
        return ERR_OK;
    due_key(l, at, row, &k);
    return engine_txn_put(t, l->space, due_key_str(&k), value, STR_NONE);
}

err due_unfile(struct engine_txn *t, const struct due_lane *l, store_time at, struct due_row row)
{
    struct due_key k;
    if (is_never(at))
        return ERR_OK;
    due_key(l, at, row, &k);
    return engine_txn_delete(t, l->space, due_key_str(&k));
}

err due_move(struct engine_txn *t, const struct due_lane *l, store_time from, store_time to,
             struct due_row row)
{
    if (from.ns == to.ns)
        return ERR_OK;
    err e = due_unfile(t, l, from, row);
    return e == ERR_OK ? due_file(t, l, to, row, STR("")) : e;
}

err due_find(struct engine_view *v, const struct due_lane *l, store_time at, struct due_row row,
             struct engine_row *out)
{
    struct due_key k;
    if (is_never(at))
        return ERR_NOT_FOUND;
    due_key(l, at, row, &k);
    return engine_get(v, l->space, due_key_str(&k), out);
}

/* ---- what is due ---- */

void due_parse(const struct due_lane *l, str key, struct due_entry *out)
{
    size_t head = l->prefix.n + 8;
    INVARIANT(key.n <= ENGINE_KEY_BYTES_MAX);
    out->key.n = key.n;
    if (key.n > 0)
        memcpy(out->key.p, key.p, key.n);
    bool says = key.n >= head;
    out->head = says ? head : 0;
    out->at = STORE_TIME_ZERO;
    if (says)
        out->at.ns = (int64_t)(get_be64(key.p + l->prefix.n) ^ (l->flips ? DUE_SIGN : 0));
}

static struct engine_cursor *lane_open(struct engine_view *v, const struct due_lane *l)
{
    char end[DUE_PREFIX_BYTES_MAX];
    const struct engine_range range = { .space = l->space,
                                        .from = l->prefix,
                                        .until = engine_prefix_end(l->prefix, end) };
    return engine_cursor_open(v, &range);
}

/* Does what the cursor found lie where its key says, so that it can be deleted? */
static bool lies_there(struct engine_view *v, const struct due_lane *l, err found, str key)
{
    struct engine_row row;
    return found == ERR_OK ||
           (str_starts(key, l->prefix) && engine_get(v, l->space, key, &row) == ERR_CORRUPT);
}

static err entry_next(struct engine_view *v, const struct due_lane *l, struct engine_cursor *c,
                      struct due_entry *out)
{
    struct engine_row found;
    for (unsigned passed = 0; passed < DUE_DAMAGED_MAX; passed++) {
        err e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0))
            return e;
        if (found.key.n > ENGINE_KEY_BYTES_MAX)
            continue;
        due_parse(l, found.key, out);
        if (lies_there(v, l, e, due_key_str(&out->key)))
            return ERR_OK;
    }
    return ERR_CORRUPT;
}

err due_next(struct engine_view *v, const struct due_lane *l, store_time *at)
{
    struct engine_cursor *c = lane_open(v, l);
    struct due_entry first;
    err e = entry_next(v, l, c, &first);
    engine_cursor_close(&c);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        *at = e == ERR_OK ? first.at : STORE_TIME_NEVER;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err due_take(struct engine_view *v, const struct due_lane *l, store_time now, struct due_batch *out)
{
    struct engine_cursor *c = lane_open(v, l);
    err e = ERR_OK;
    out->count = 0;
    while (out->count < out->max &&
           (e = entry_next(v, l, c, &out->entries[out->count])) == ERR_OK &&
           !store_time_before(now, out->entries[out->count].at))
        out->count++;
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

err due_drop(struct engine_txn *t, const struct due_lane *l, const struct due_entry *e)
{
    return engine_txn_delete(t, l->space, due_key_str(&e->key));
}
