/* change.c - creating, migrating and dropping tables, and the upkeep that removes what expired or
 * was dropped. */
#include "table/index.h"
#include "table/key.h"
#include "table/row.h"
#include "table/store.h"
#include "table/trim.h"

#include <string.h>

enum { DROPPED_KEY_BYTES = 9, SCHEMA_PACK_BYTES_MAX = 128 << 10, SCHEMA_HEAD_BYTES = 9 };

static const str number_key = { .p = "N", .n = 1 };

/* ---- schemas ---- */

/* A change on its way; in the arena of its request. */
struct change_own {
    struct tables *tables;
    struct schema *schema; /* CREATE */
    struct engine_update update;
};

static err number_next(struct engine_txn *t, uint32_t *number)
{
    struct engine_row row;
    char bytes[4];
    err e = engine_get(engine_txn_view(t), SPACE_SCHEMA, number_key, &row);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    if (e == ERR_OK && row.value.n != sizeof bytes)
        return ERR_CORRUPT;
    uint32_t last = e == ERR_OK ? get_be32(row.value.p) : 0;
    if (last == UINT32_MAX)
        return ERR_LIMIT;
    *number = last + 1;
    put_be32(bytes, *number);
    return engine_txn_put(t, SPACE_SCHEMA, number_key, (str){ .p = bytes, .n = sizeof bytes },
                          STR_NONE);
}

static err schema_write(struct engine_txn *t, struct table_schema_change *c, const struct schema *s)
{
    struct buf b;
    struct key_buf key;
    str bytes = STR_NONE;
    buf_init(&b, SCHEMA_PACK_BYTES_MAX);
    schema_pack(&b, s);
    err e = buf_status(&b);
    if (e == ERR_OK) {
        bytes = arena_copy(c->arena, buf_str(&b)); /* it is written after this */
        e = bytes.p == NULL ? ERR_LIMIT : ERR_OK;
    }
    buf_fini(&b);
    if (e != ERR_OK)
        return e;
    store_schema_key(&key, c->domain, s->name);
    bool beside = bytes.n <= ENGINE_VALUE_BYTES_MAX;
    str value = beside ? bytes : str_take(bytes, SCHEMA_HEAD_BYTES);
    return engine_txn_put(t, SPACE_SCHEMA, key_buf_str(&key), value, beside ? STR_NONE : bytes);
}

/* Schemas are small and seldom changed: one that is cold is read here. */
static err old_find(struct engine_txn *t, struct table_schema_change *c, struct err_note *note,
                    struct schema **out)
{
    const struct change_own *own = c->call.own;
    const struct store_look look = { .tables = own->tables,
                                     .view = engine_txn_view(t),
                                     .domain = c->domain,
                                     .arena = c->arena,
                                     .note = note };
    return store_schema(&look, c->table, out);
}

static err create_decide(struct engine_txn *t, void *ctx)
{
    struct table_schema_change *c = ctx;
    const struct change_own *own = c->call.own;
    struct schema next = *own->schema, *old;
    c->created = c->changed = false;
    err e = old_find(t, c, NULL, &old);
    if (e == ERR_NOT_FOUND) {
        uint32_t number;
        e = number_next(t, &number);
        if (e != ERR_OK)
            return e;
        schema_first(&next, number);
        c->created = c->changed = true;
    } else if (e == ERR_OK) {
        e = schema_migrate(old, &next, &c->changed, &c->note);
        if (e == ERR_OK && c->changed)
            e = index_migrate(t, c->domain, old, &next, &c->note);
        if (e == ERR_OK && c->changed)
            e = trim_migrate(t, c->domain, old, &next);
    }
    return e == ERR_OK && c->changed ? schema_write(t, c, &next) : e;
}

static void dropped_key(char out[DROPPED_KEY_BYTES], uint32_t domain, uint32_t number)
{
    out[0] = SPACE_KEY_DROPPED;
    put_be32(out + 1, domain);
    put_be32(out + 5, number);
}

static err drop_decide(struct engine_txn *t, void *ctx)
{
    struct table_schema_change *c = ctx;
    struct schema *old;
    struct key_buf key;
    char dropped[DROPPED_KEY_BYTES];
    err e = old_find(t, c, &c->note, &old);
    if (e != ERR_OK)
        return e;
    store_schema_key(&key, c->domain, c->table);
    e = engine_txn_delete(t, SPACE_SCHEMA, key_buf_str(&key));
    if (e != ERR_OK)
        return e;
    e = index_drop(t, c->domain, old);
    if (e != ERR_OK)
        return e;
    c->changed = true;
    dropped_key(dropped, c->domain, old->number);
    return engine_txn_put(t, SPACE_SCHEMA, (str){ .p = dropped, .n = sizeof dropped }, STR_NONE,
                          STR_NONE);
}

static void change_done(void *ctx, err why)
{
    struct table_schema_change *c = ctx;
    store_call_end(&c->call, why);
}

enum store_start tables_change(struct table_store *s, struct table_schema_change *c)
{
    struct tables *ts = tables_of(s);
    struct change_own *own = arena_calloc(c->arena, 1, sizeof *own);
    bool drop = c->action == SCHEMA_DROP;
    c->created = c->changed = false;
    err e = own == NULL ? ERR_LIMIT : ERR_OK;
    if (e == ERR_OK && !drop)
        e = schema_parse(c->arena, c->table, c->json, &own->schema, &c->note);
    store_memory_note(e, c->arena, &c->note);
    if (e != ERR_OK)
        return store_call_done(&c->call, e);
    c->call.own = own;
    own->tables = ts;
    own->update = (struct engine_update){ .decide = drop ? drop_decide : create_decide,
                                          .done = change_done,
                                          .ctx = c,
                                          .deadline = c->call.deadline,
                                          .frees = drop };
    engine_submit(ts->engine, &own->update);
    return STORE_LATER;
}

/* ---- upkeep ---- */

struct upkeep {
    struct tables *tables;
    unsigned expired, dropped;
    bool more;
};

/* One expiry entry: deletes the row it names, if that row still expires then, and the entry. */
static err expire(struct engine_txn *t, const struct due_entry *entry, unsigned *expired)
{
    struct key_buf key;
    struct engine_row row;
    struct row_head head;
    err e = row_due_key(entry, &key);
    if (e != ERR_OK)
        return due_drop(t, &row_due, entry); /* it names nothing */
    e = engine_get(engine_txn_view(t), SPACE_ROW, key_buf_str(&key), &row);
    if (e == ERR_OK)
        e = row_head_read(row.value, &head);
    if (e == ERR_CORRUPT) { /* nobody can read it, and its entry says that it is due */
        head = (struct row_head){ .expiry = entry->at, .indexed = true };
        e = ERR_OK;
    }
    if (e == ERR_OK && head.expiry.ns == entry->at.ns) {
        e = store_delete_row(t, key_buf_str(&key), &head);
        (*expired)++;
    }
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    return due_drop(t, &row_due, entry);
}

static err expired_remove(struct engine_txn *t, struct upkeep *k)
{
    struct due_entry entries[TABLE_UPKEEP_BATCH];
    struct due_batch batch = { .entries = entries, .max = TABLE_UPKEEP_BATCH };
    err e = due_take(engine_txn_view(t), &row_due, engine_txn_now(t), &batch);
    k->more = batch.count == batch.max;
    for (unsigned i = 0; e == ERR_OK && i < batch.count; i++)
        e = expire(t, &entries[i], &k->expired);
    return e;
}

static err first_dropped(struct engine_view *v, char out[DROPPED_KEY_BYTES])
{
    struct engine_row row;
    struct engine_range range = { .space = SPACE_SCHEMA, .from = STR("D"), .until = STR("E") };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e = engine_cursor_next(c, &row);
    if (e == ERR_OK && row.key.n != DROPPED_KEY_BYTES)
        e = ERR_CORRUPT;
    if (e == ERR_OK)
        memcpy(out, row.key.p, DROPPED_KEY_BYTES);
    engine_cursor_close(&c);
    return e;
}

/* Entries and trails first: rows found without them cost nothing more. */
static err dropped_collect(struct engine_view *v, const char dropped[DROPPED_KEY_BYTES],
                           store_time now, struct store_doomed *out)
{
    static const char kinds[] = { KEY_INDEX, KEY_TRAIL, KEY_ROW };
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && i < COUNT_OF(kinds) && !out->more; i++) {
        char head[KEY_HEAD_BYTES], end[KEY_HEAD_BYTES];
        head[0] = kinds[i];
        memcpy(head + 1, dropped + 1, sizeof head - 1);
        str prefix = { .p = head, .n = sizeof head };
        struct engine_range range = { .space = SPACE_ROW,
                                      .from = prefix,
                                      .until = engine_prefix_end(prefix, end) };
        e = store_collect(v, &range, TABLE_UPKEEP_BATCH, now, out);
    }
    return e;
}

static err dropped_remove(struct engine_txn *t, struct upkeep *k)
{
    char dropped[DROPPED_KEY_BYTES];
    err e = first_dropped(engine_txn_view(t), dropped);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    struct store_doomed doomed;
    store_doomed_init(&doomed);
    e = dropped_collect(engine_txn_view(t), dropped, engine_txn_now(t), &doomed);
    if (e == ERR_OK)
        e = store_delete(t, &doomed);
    if (e == ERR_OK && !doomed.more)
        e = engine_txn_delete(t, SPACE_SCHEMA, (str){ .p = dropped, .n = sizeof dropped });
    k->dropped = doomed.count;
    k->more = true; /* another dropped table may follow */
    store_doomed_fini(&doomed);
    return e;
}

static err upkeep_decide(struct engine_txn *t, void *ctx)
{
    struct upkeep *k = ctx;
    *k = (struct upkeep){ .tables = k->tables };
    err e = expired_remove(t, k);
    return e == ERR_OK ? dropped_remove(t, k) : e;
}

/* What there is to do now, and when the next row expires. */
struct ahead {
    bool rows, indexes, policies;
    store_time next;
};

static err look_at(struct engine_view *v, struct ahead *out)
{
    char dropped[DROPPED_KEY_BYTES];
    *out = (struct ahead){ .next = STORE_TIME_NEVER };
    err e = first_dropped(v, dropped);
    out->rows = e == ERR_OK;
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        e = due_next(v, &row_due, &out->next);
    if (e == ERR_OK)
        e = index_due(v, &out->indexes);
    return e == ERR_OK ? trim_due(v, &out->policies) : e;
}

static err look_ahead(struct tables *ts, struct ahead *out)
{
    struct engine_view *v = engine_view_begin(ts->engine);
    err e = look_at(v, out);
    engine_view_end(&v);
    out->rows |= !store_time_before(clock_store(ts->clock), out->next);
    return e;
}

err tables_upkeep(struct tables *ts, bool *more, store_time *next)
{
    MAGIC_CHECK(ts, TABLES_MAGIC);
    struct upkeep k = { .tables = ts };
    struct ahead ahead;
    *more = false;
    err e = look_ahead(ts, &ahead);
    *next = ahead.next;
    const struct engine_update removal = { .decide = upkeep_decide, .ctx = &k, .frees = true };
    if (e == ERR_OK && ahead.rows)
        e = engine_submit_wait(ts->engine, &removal);
    if (e == ERR_OK) {
        atomic_fetch_add_explicit(&ts->expired, k.expired, memory_order_relaxed);
        atomic_fetch_add_explicit(&ts->dropped_rows, k.dropped, memory_order_relaxed);
    }
    if (e == ERR_OK && ahead.indexes)
        e = index_upkeep(ts);
    if (e == ERR_OK && ahead.policies &&
        !k.more) /* after what is due: it goes past all that is dead */
        e = trim_upkeep(ts);
    if (e != ERR_OK || (!ahead.rows && !ahead.indexes && !ahead.policies))
        return e;
    e = look_ahead(ts, &ahead);
    *next = ahead.next;
    *more = k.more || ahead.indexes || ahead.policies;
    return e;
}
