#include "bucket/title.h"

#include <string.h>

/* A trace stays on disk for up to a step longer than it is known, so that one due row stands for all of a title in it.
 * A step is this part of ledger_ttl, at most so long. */
enum { TRACES_STEPS = 64 };
#define TRACES_STEP_NS_MAX (6 * 3600 * NS_PER_S)

err title_begin(struct title *t, struct engine_txn *txn, struct page_bucket *b, const struct page_key *key)
{
    struct engine_row found;
    *t = (struct title){ .txn = txn, .look = { .bucket = b, .view = engine_txn_view(txn),
                                               .now = engine_txn_now(txn), .title = *key } };
    err e = engine_get(t->look.view, SPACE_TITLE, page_key_str(key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &t->row);
    t->had_row = e == ERR_OK;
    t->as_read = t->row;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static bool title_row_eq(const struct page_title_row *a, const struct page_title_row *b)
{
    return a->ledger_count == b->ledger_count && a->fence_count == b->fence_count && a->fenced == b->fenced
           && a->fence_at.ns == b->fence_at.ns;
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

static err due_delete(struct title *t, store_time due, enum page_due_kind kind, str row_key)
{
    struct page_key k;
    if (is_never(due))
        return ERR_OK;
    page_key_due(&k, due, kind, row_key);
    return engine_txn_delete(t->txn, SPACE_DUE, page_key_str(&k));
}

static err due_put(struct title *t, store_time due, enum page_due_kind kind, str row_key)
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
    err e = title_forget(t, row->r.name);
    if (e == ERR_OK && replaces != NULL)
        e = due_delete(t, replaces->due_stored, DUE_RENDER, k);
    if (e == ERR_OK)
        e = engine_txn_put(t->txn, SPACE_RENDER, k, row_encode(t, row, value), blob);
    return e == ERR_OK ? due_put(t, row->r.due_at, DUE_RENDER, k) : e;
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
    e = due_delete(t, due, DUE_RENDER, k);
    return e == ERR_OK ? due_put(t, row->r.due_at, DUE_RENDER, k) : e;
}

store_time title_traces_due(const struct page_trace_row *trace)
{
    int64_t forget = trace->forget_at.ns;
    if (forget > INT64_MAX - TRACES_STEP_NS_MAX)
        return STORE_TIME_NEVER;
    int64_t known = store_time_before(trace->trace.at, trace->forget_at) ? forget - trace->trace.at.ns : 0;
    int64_t step = known / TRACES_STEPS;
    step = step < 1 ? 1 : step > TRACES_STEP_NS_MAX ? TRACES_STEP_NS_MAX : step;
    int64_t over = forget % step;
    return (store_time){ .ns = over > 0 ? forget - over + step : forget - over };
}

/* Its due row may be of several traces: it stays, and finds what is left. */
static err trace_delete(struct title *t, const struct page_trace_row *trace)
{
    struct page_key key;
    page_key_name(&key, &t->look.title, trace->trace.name);
    err e = engine_txn_delete(t->txn, SPACE_LEDGER, page_key_str(&key));
    if (e == ERR_OK)
        e = due_delete(t, trace->forget_at, DUE_LEDGER, page_key_str(&key)); /* of a store before */
    if (t->row.ledger_count == 0)
        return ERR_CORRUPT;
    t->row.ledger_count--;
    return e;
}

err title_forget(struct title *t, struct page_name name)
{
    struct page_trace_row trace;
    if (t->row.ledger_count == 0)
        return ERR_OK;
    err e = look_ledger_get(&t->look, name, &trace);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    return trace_delete(t, &trace);
}

/* Several at once: each search for the lowest steps over what was deleted there and is not indexed yet. */
static err traces_drop_lowest(struct title *t)
{
    struct page_trace_row traces[PAGE_LEDGER_DROP];
    unsigned count = 0;
    struct engine_cursor *c = look_ledger_open(&t->look, look_first, look_last, true);
    err e = ERR_OK;
    while (count < PAGE_LEDGER_DROP && (e = look_ledger_next(c, &traces[count])) == ERR_OK)
        count++;
    engine_cursor_close(&c);
    if (e == ERR_NOT_FOUND && count > 0)
        e = ERR_OK;
    for (unsigned i = 0; i < count && e == ERR_OK; i++)
        e = trace_delete(t, &traces[i]);
    return e;
}

struct doomed { struct page_key key; bool damaged; struct page_trace_row trace; };

/* The next trace to be removed of those the cursor comes by. ERR_NOT_FOUND. */
static err next_doomed(struct title *t, struct engine_cursor *c, unsigned *looked, struct doomed *out)
{
    struct engine_row found;
    struct page_key_parts parts;
    for (;;) {
        err e = engine_cursor_next(c, &found);
        if (e != ERR_OK && (e != ERR_CORRUPT || found.key.n == 0 || found.key.n > PAGE_KEY_BYTES_MAX))
            return e;
        ++*looked;
        memcpy(out->key.p, found.key.p, found.key.n);
        out->key.n = found.key.n;
        out->damaged = e != ERR_OK || !page_key_parse(found.key, &parts)
                       || page_trace_decode(found.value, &out->trace) != ERR_OK;
        if (out->damaged)
            return ERR_OK;
        out->trace.trace.name = parts.name;
        if (!look_trace_alive(&t->look, &out->trace))
            return ERR_OK;
    }
}

err title_forget_due(struct title *t, unsigned *looked, bool *more)
{
    struct doomed doomed[PAGE_LEDGER_DROP];
    unsigned count = 0;
    struct engine_cursor *c = look_ledger_open(&t->look, look_first, look_last, true);
    err e = ERR_OK;
    while (count < PAGE_LEDGER_DROP && (e = next_doomed(t, c, looked, &doomed[count])) == ERR_OK)
        count++;
    engine_cursor_close(&c);
    *more = e == ERR_OK;
    e = e == ERR_NOT_FOUND ? ERR_OK : e;
    for (unsigned i = 0; i < count && e == ERR_OK; i++) {
        if (!doomed[i].damaged && t->row.ledger_count > 0) {
            e = trace_delete(t, &doomed[i].trace);
        } else { /* or not counted: one title that lost its row must not end all culling */
            t->row.ledger_count -= t->row.ledger_count > 0;
            e = engine_txn_delete(t->txn, SPACE_LEDGER, page_key_str(&doomed[i].key));
        }
    }
    return e;
}

/* Files it, when no other of its title and step is. */
static err trace_file(struct title *t, const struct page_trace_row *trace)
{
    struct page_key k;
    struct engine_row found;
    store_time due = title_traces_due(trace);
    if (is_never(due))
        return ERR_OK;
    page_key_due(&k, due, DUE_TRACES, page_key_str(&t->look.title));
    err e = engine_get(t->look.view, SPACE_DUE, page_key_str(&k), &found);
    return e == ERR_NOT_FOUND ? due_put(t, due, DUE_TRACES, page_key_str(&t->look.title)) : e;
}

static err trace_put(struct title *t, const struct page_trace_row *trace)
{
    char value[PAGE_TRACE_ROW_BYTES_MAX];
    struct page_key key;
    if (!look_trace_alive(&t->look, trace))
        return ERR_OK;
    page_key_name(&key, &t->look.title, trace->trace.name);
    err e = engine_txn_put(t->txn, SPACE_LEDGER, page_key_str(&key), page_trace_encode(trace, value), STR_NONE);
    if (e == ERR_OK)
        e = trace_file(t, trace);
    t->row.ledger_count++;
    if (e == ERR_OK && t->row.ledger_count > PAGE_LEDGER_ROWS_MAX)
        e = traces_drop_lowest(t);
    return e;
}

err title_remove(struct title *t, const struct page_row *row, enum page_state state)
{
    struct page_key key;
    struct page_trace_row trace;
    page_key_name(&key, &t->look.title, row->r.name);
    err e = title_forget(t, row->r.name); /* there is none unless the store is damaged: counts stay right */
    if (e == ERR_OK)
        e = engine_txn_delete(t->txn, SPACE_RENDER, page_key_str(&key));
    if (e == ERR_OK)
        e = due_delete(t, row->due_stored, DUE_RENDER, page_key_str(&key));
    if (e != ERR_OK)
        return e;
    look_trace_of(&t->look, row, &trace);
    if (state != PAGE_CULLED) {
        trace.trace.state = state;
        trace.trace.policy = t->look.bucket->plan.policy.kind;
        trace.trace.at = t->look.now;
        trace.forget_at = store_time_add(t->look.now, t->look.bucket->plan.policy.ledger_ttl_ns);
    }
    return trace_put(t, &trace);
}

/* ---- fences ---- */

static err fence_get(const struct title *t, const uint64_t *rev, const struct tid *tid, bool *fenced,
                     store_time *at)
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

err title_fence(const struct title *t, uint64_t rev, const struct tid *tid, bool *fenced, store_time *at)
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
    until.p[until.n - 1] = 1;
    struct engine_row found;
    struct page_key keys[PAGE_FENCES_MAX + 1];
    unsigned count = 0;
    const struct engine_range range = { .space = SPACE_TITLE, .from = page_key_str(&t->look.title),
                                        .until = page_key_str(&until) };
    struct engine_cursor *c = engine_cursor_open(t->look.view, &range);
    err e;
    while ((e = engine_cursor_next(c, &found)) == ERR_OK && count < COUNT_OF(keys)) {
        if (found.key.n == t->look.title.n || found.key.n > sizeof(keys[0].p))
            continue;
        memcpy(keys[count].p, found.key.p, found.key.n);
        keys[count++].n = found.key.n;
    }
    engine_cursor_close(&c);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
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
    return engine_txn_put(t->txn, SPACE_TITLE, page_key_str(&key), page_fence_encode(at, value), STR_NONE);
}
