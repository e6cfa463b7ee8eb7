#include "strategy/statement.h"

#include "base/buf.h"

#include <string.h>

enum {
    KEY_FIXED_BYTES = 1 + 1 + 4 + 1,
    KEY_BYTES_MAX = KEY_FIXED_BYTES + STRATEGY_TITLE_BYTES_MAX + 8 + TID_KEY_BYTES,
    ROW_BYTES = 8 + 8 + TID_KEY_BYTES,
};
_Static_assert((int)KEY_BYTES_MAX <= (int)ENGINE_KEY_BYTES_MAX,
               "a strategy's key fits the engine's");

struct key_bytes {
    unsigned char bytes[KEY_BYTES_MAX];
    size_t n;
};

static void put_name(unsigned char *p, struct strategy_name_of name, enum key_depth depth)
{
    put_be64(p, ~name.rev);
    if (depth == KEY_TID) {
        put_be64(p + 8, ~name.tid.ticks);
        put_be64(p + 16, ~name.tid.low);
    }
}

static size_t name_bytes(enum key_depth depth)
{
    static const size_t bytes[] = { [KEY_TITLE] = 0, [KEY_REV] = 8, [KEY_TID] = 8 + TID_KEY_BYTES };
    return bytes[depth];
}

static err key_encode(const struct strategy *s, const struct strategy_key *k, struct key_bytes *out)
{
    if (k->title.n == 0 || k->title.n > STRATEGY_TITLE_BYTES_MAX)
        return ERR_LIMIT;
    unsigned char *p = out->bytes;
    p[0] = s->opts.instance;
    p[1] = (unsigned char)(k->content * TABLES_OF_CONTENT + k->table);
    put_be32(p + 2, k->domain);
    memcpy(p + 6, k->title.p, k->title.n);
    p[6 + k->title.n] = 0;
    out->n = KEY_FIXED_BYTES + k->title.n;
    if (k->depth != KEY_TITLE)
        put_name(p + out->n, k->name, k->depth);
    out->n += name_bytes(k->depth);
    return ERR_OK;
}

static str key_str(const struct key_bytes *k)
{
    return (str){ .p = (const char *)k->bytes, .n = k->n };
}

static void row_encode(const struct statement *st, unsigned char out[ROW_BYTES])
{
    put_be64(out, (uint64_t)st->expires_at.ns);
    put_be64(out + 8, st->name.rev);
    tid_key(st->name.tid, out + 16);
}

static err row_decode(str value, struct strategy_row *out)
{
    if (value.n != ROW_BYTES)
        return ERR_CORRUPT;
    unsigned char key[TID_KEY_BYTES];
    memcpy(key, value.p + 16, sizeof key);
    *out = (struct strategy_row){
        .expires_at = { .ns = (int64_t)get_be64(value.p) },
        .name = { .rev = get_be64(value.p + 8), .tid = tid_from_key(key) },
    };
    return ERR_OK;
}

struct statement *batch_add(struct strategy_batch *b)
{
    INVARIANT(b->count < BATCH_STATEMENTS_MAX);
    struct statement *st = &b->statements[b->count++];
    *st = (struct statement){ .expires_at = STORE_TIME_NEVER };
    return st;
}

static int name_cmp(struct strategy_name_of a, struct strategy_name_of b)
{
    if (a.rev != b.rev)
        return a.rev < b.rev ? -1 : 1;
    return tid_cmp(a.tid, b.tid);
}

/* Option A's conflict resolution: equal write times, so the greater value (rev, tid first)
 * stays. */
static err insert_greatest(struct engine_txn *t, const struct statement *st, str key, str value)
{
    struct engine_row old;
    struct strategy_row row;
    err why = engine_get(engine_txn_view(t), SPACE_COMPARE, key, &old);
    if (why == ERR_OK)
        why = row_decode(old.value, &row);
    if (why == ERR_OK && name_cmp(row.name, st->name) > 0)
        return ERR_OK;
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    return engine_txn_put(t, SPACE_COMPARE, key, value, st->value);
}

static err insert_run(struct strategy *s, struct engine_txn *t, const struct statement *st)
{
    struct key_bytes key;
    unsigned char row[ROW_BYTES];
    err why = key_encode(s, &st->key, &key);
    if (why != ERR_OK)
        return why;
    row_encode(st, row);
    str value = { .p = (const char *)row, .n = sizeof row };
    if (st->kind == STATEMENT_INSERT_GREATEST)
        return insert_greatest(t, st, key_str(&key), value);
    return engine_txn_put(t, SPACE_COMPARE, key_str(&key), value, st->value);
}

/* rev <= bound, or rev = bound.rev and tid <= bound.tid: both are one range of complemented
 * keys. */
static err delete_run(struct strategy_batch *b, struct engine_txn *t, const struct statement *st)
{
    struct key_bytes from, prefix;
    char end[KEY_BYTES_MAX];
    struct strategy_key k = st->key;
    k.depth = st->renders_only ? KEY_TID : KEY_REV;
    err why = key_encode(b->s, &k, &from);
    k.depth = st->renders_only ? KEY_REV : KEY_TITLE;
    if (why == ERR_OK)
        why = key_encode(b->s, &k, &prefix);
    if (why != ERR_OK)
        return why;
    struct engine_range range = { .space = SPACE_COMPARE,
                                  .from = key_str(&from),
                                  .until = engine_prefix_end(key_str(&prefix), end) };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    struct engine_row row;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK) {
        char copy[KEY_BYTES_MAX]; /* deleting may end what the cursor lent us */
        INVARIANT(row.key.n <= sizeof copy);
        memcpy(copy, row.key.p, row.key.n);
        why = engine_txn_delete(t, SPACE_COMPARE, (str){ .p = copy, .n = row.key.n });
        if (why != ERR_OK)
            break;
        b->rows_deleted++;
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static err index_run(struct engine_txn *t, const struct statement *st)
{
    unsigned forgotten;
    if (st->applied)
        return timeline_applied(t, &st->where, &st->entry, &forgotten);
    return timeline_add(t, &st->where, &st->entry);
}

static err statement_run(struct strategy_batch *b, struct engine_txn *t, const struct statement *st)
{
    switch (st->kind) {
    case STATEMENT_INSERT:
    case STATEMENT_INSERT_GREATEST:
        return insert_run(b->s, t, st);
    case STATEMENT_DELETE:
        return delete_run(b, t, st);
    case STATEMENT_INDEX:
        return index_run(t, st);
    }
    return ERR_BAD;
}

static err batch_decide(struct engine_txn *t, void *ctx)
{
    struct strategy_batch *b = ctx;
    b->rows_deleted = 0;
    for (unsigned i = 0; i < b->count; i++) {
        err why = statement_run(b, t, &b->statements[i]);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

static void statement_count(struct strategy_counts *c, const struct statement *st)
{
    switch (st->kind) {
    case STATEMENT_INSERT:
    case STATEMENT_INSERT_GREATEST:
        c->writes++;
        c->bytes_written += st->value.n;
        break;
    case STATEMENT_DELETE:
        c->range_deletes++;
        break;
    case STATEMENT_INDEX:
        if (!st->applied) /* forgetting is what the timeline's own TTL does in the seed */
            c->index_writes++;
        break;
    }
}

err batch_run(struct strategy_batch *b)
{
    if (b->count == 0)
        return ERR_OK;
    err why = engine_update_wait(b->s->opts.engine, batch_decide, b);
    if (why != ERR_OK)
        return why;
    struct strategy_counts *c = &b->s->counts;
    for (unsigned i = 0; i < b->count; i++)
        statement_count(c, &b->statements[i]);
    c->batches++;
    c->rows_deleted += b->rows_deleted;
    return ERR_OK;
}

static err row_read(struct strategy *s, const struct engine_row *row, struct arena *a,
                    struct strategy_row *out)
{
    err why = row_decode(row->value, out);
    if (why != ERR_OK)
        return why;
    char *p = arena_alloc(a, row->blob.n);
    if (p == NULL)
        return ERR_LIMIT;
    if (row->blob.n > 0)
        why = engine_blob_read(s->opts.engine, &row->blob, 0, row->blob.n, p);
    out->value = (str){ .p = p, .n = row->blob.n };
    s->counts.bytes_read += row->blob.n;
    return why;
}

err select_first(struct strategy *s, const struct strategy_key *k, store_time now, struct arena *a,
                 struct strategy_row *out)
{
    struct key_bytes key;
    char end[KEY_BYTES_MAX];
    struct engine_row row;
    struct strategy_row found;
    s->counts.reads++;
    err why = key_encode(s, k, &key);
    if (why != ERR_OK)
        return why;
    struct engine_view *v = engine_view_begin(s->opts.engine);
    struct engine_range range = { .space = SPACE_COMPARE,
                                  .from = key_str(&key),
                                  .until = engine_prefix_end(key_str(&key), end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    while ((why = engine_cursor_next(c, &row)) == ERR_OK) {
        why = row_read(s, &row, a, &found);
        if (why != ERR_OK || store_time_before(now, found.expires_at))
            break;
    }
    if (why == ERR_OK)
        *out = found;
    engine_cursor_close(&c);
    engine_view_end(&v);
    return why;
}

err select_index(struct strategy *s, const struct timeline_where *w, store_time not_after,
                 struct timeline_entry *out)
{
    s->counts.index_reads++;
    struct engine_view *v = engine_view_begin(s->opts.engine);
    err why = timeline_find(v, w, not_after, out);
    engine_view_end(&v);
    return why;
}

bool strategy_chance(struct strategy *s)
{
    return rng_unit(&s->rng) < s->opts.delete_probability;
}
