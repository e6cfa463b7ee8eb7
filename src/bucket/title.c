#include "bucket/ledger.h"

#include <string.h>

err title_begin(struct title *t, struct engine_txn *txn, struct page_bucket *b,
                const struct page_key *key)
{
    struct engine_row found;
    *t = (struct title){ .txn = txn,
                         .look = { .bucket = b,
                                   .view = engine_txn_view(txn),
                                   .now = engine_txn_now(txn),
                                   .title = *key } };
    err e = engine_get(t->look.view, SPACE_TITLE, page_key_str(key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &t->row);
    t->had_row = e == ERR_OK;
    t->as_read = t->row;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool title_row_eq(const struct page_title_row *a, const struct page_title_row *b)
{
    return a->ledger_count == b->ledger_count && a->fence_count == b->fence_count &&
           a->fenced == b->fenced && a->fence_at.ns == b->fence_at.ns;
}

err title_end(struct title *t)
{
    char value[PAGE_TITLE_ROW_BYTES_MAX];
    str key = page_key_str(&t->look.title);
    bool empty = t->row.ledger_count == 0 && t->row.fence_count == 0 && !t->row.fenced;
    if (empty)
        return t->had_row ? engine_txn_delete(t->txn, SPACE_TITLE, key) : ERR_OK;
    if (t->had_row && title_row_eq(&t->row, &t->as_read))
        return ERR_OK;
    return engine_txn_put(t->txn, SPACE_TITLE, key, page_title_encode(&t->row, value), STR_NONE);
}

static bool is_never(store_time t)
{
    return t.ns == INT64_MAX;
}

err title_unfile(struct title *t, store_time due, enum page_due_kind kind, str row_key)
{
    struct page_key k;
    if (is_never(due))
        return ERR_OK;
    page_key_due(&k, due, kind, row_key);
    return engine_txn_delete(t->txn, SPACE_DUE, page_key_str(&k));
}

err title_file(struct title *t, store_time due, enum page_due_kind kind, str row_key)
{
    struct page_key k;
    if (is_never(due))
        return ERR_OK;
    page_key_due(&k, due, kind, row_key);
    return engine_txn_put(t->txn, SPACE_DUE, page_key_str(&k), STR(""), STR_NONE);
}

static str row_encode(const struct title *t, struct page_row *row, char *value)
{
    row->plan = t->look.bucket->plan.number;
    row->policy = t->look.bucket->plan.policy.kind;
    row->due_stored = row->r.due_at;
    row->r.state = retention_state(&t->look.bucket->plan.policy, &row->r, t->look.now);
    return page_row_encode(row, value);
}

err title_insert(struct title *t, struct page_row *row, str blob, const struct page_row *replaces)
{
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_key key;
    page_key_name(&key, &t->look.title, row->r.name);
    str k = page_key_str(&key);
    err e = ledger_remove(t, row->r.name);
    if (e == ERR_OK && replaces != NULL)
        e = title_unfile(t, replaces->due_stored, DUE_RENDER, k);
    if (e == ERR_OK)
        e = engine_txn_put(t->txn, SPACE_RENDER, k, row_encode(t, row, value), blob);
    return e == ERR_OK ? title_file(t, row->r.due_at, DUE_RENDER, k) : e;
}

err title_update(struct title *t, struct page_row *row)
{
    char value[ENGINE_VALUE_BYTES_MAX];
    struct page_key key;
    store_time due = row->due_stored;
    page_key_name(&key, &t->look.title, row->r.name);
    str k = page_key_str(&key);
    err e = engine_txn_put_value(t->txn, SPACE_RENDER, k, row_encode(t, row, value));
    if (e != ERR_OK || due.ns == row->r.due_at.ns)
        return e;
    e = title_unfile(t, due, DUE_RENDER, k);
    return e == ERR_OK ? title_file(t, row->r.due_at, DUE_RENDER, k) : e;
}

err title_remove(struct title *t, const struct page_row *row, enum page_state state)
{
    struct page_key key;
    struct page_trace_row trace;
    page_key_name(&key, &t->look.title, row->r.name);
    err e = engine_txn_delete(t->txn, SPACE_RENDER, page_key_str(&key));
    if (e == ERR_OK)
        e = title_unfile(t, row->due_stored, DUE_RENDER, page_key_str(&key));
    if (e != ERR_OK)
        return e;
    look_trace_of(&t->look, row, &trace);
    if (state != PAGE_CULLED) {
        trace.trace.state = state;
        trace.trace.policy = t->look.bucket->plan.policy.kind;
        trace.trace.at = t->look.now;
        trace.forget_at = store_time_add(t->look.now, t->look.bucket->plan.policy.ledger_ttl_ns);
    }
    return look_trace_alive(&t->look, &trace) ? ledger_put(t, &trace)
                                              : ledger_remove(t, row->r.name);
}

/* ---- fences ---- */

static err fence_get(const struct title *t, const uint64_t *rev, const struct tid *tid,
                     bool *fenced, store_time *at)
{
    struct page_key key;
    struct engine_row found;
    store_time stored;
    page_key_fence(&key, &t->look.title, rev, tid);
    err e = engine_get(t->look.view, SPACE_TITLE, page_key_str(&key), &found);
    if (e == ERR_OK)
        e = page_fence_decode(found.value, &stored);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    *at = *fenced ? store_time_max(*at, stored) : stored;
    *fenced = true;
    return ERR_OK;
}

err title_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced,
                store_time *at)
{
    *fenced = t->row.fenced;
    *at = t->row.fence_at;
    if (t->row.fence_count == 0)
        return ERR_OK;
    err e = fence_get(t, &rev, NULL, fenced, at);
    if (e == ERR_OK && tid != NULL)
        e = fence_get(t, &rev, tid, fenced, at);
    return e;
}

/* One fence for the whole title instead of all its others. */
static err fences_join(struct title *t, store_time at)
{
    struct page_key until = t->look.title;
    page_key_title_end(&until);
    struct engine_row found;
    struct page_key keys[PAGE_FENCES_MAX + 1];
    unsigned count = 0;
    const struct engine_range range = { .space = SPACE_TITLE,
                                        .from = page_key_str(&t->look.title),
                                        .until = page_key_str(&until) };
    struct engine_cursor *c = engine_cursor_open(t->look.view, &range);
    err e = ERR_OK;
    bool more = true;
    while (more && count < COUNT_OF(keys)) {
        e = engine_cursor_next(c, &found);
        more = e == ERR_OK ||
               (e == ERR_CORRUPT && found.key.n > 0); /* one that fails its sum goes too */
        if (more)
            page_key_of(&keys[count], found.key);
        count += more && keys[count].n > t->look.title.n;
    }
    engine_cursor_close(&c);
    if (!more && e != ERR_NOT_FOUND)
        return e;
    e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = engine_txn_delete(t->txn, SPACE_TITLE, page_key_str(&keys[i]));
    t->row.fence_count = 0;
    t->row.fence_at = t->row.fenced ? store_time_max(t->row.fence_at, at) : at;
    t->row.fenced = true;
    return e;
}

err title_fence_set(struct title *t, const uint64_t *rev, const struct tid *tid, store_time at)
{
    struct page_key key;
    struct engine_row found;
    char value[PAGE_FENCE_ROW_BYTES];
    if (rev == NULL)
        return fences_join(t, at);
    page_key_fence(&key, &t->look.title, rev, tid);
    err e = engine_get(t->look.view, SPACE_TITLE, page_key_str(&key), &found);
    if (e == ERR_NOT_FOUND && t->row.fence_count == PAGE_FENCES_MAX)
        return fences_join(t, at);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    t->row.fence_count += e == ERR_NOT_FOUND;
    return engine_txn_put(t->txn, SPACE_TITLE, page_key_str(&key), page_fence_encode(at, value),
                          STR_NONE);
}
