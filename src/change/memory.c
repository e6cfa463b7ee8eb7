/* memory.c - what jobs need not be done, because others did it, or will. For items.c; thread:
 * the committer's.
 *   Two things are remembered, each for a while. Of a job that was done: when its call began.
 * One with the same sha1 that was made before that is needless. And of the root of jobs, as
 * MediaWiki names it: when the newest of it was made. A job of an older one is needless, for
 * the newer one makes its like anew. Both as EventBus's and changeprop's deduplication, but
 * that a job counts as done only when it is done (docs/adr/0040). */
#include "change/items.h"

#include "base/buf.h"

/* How long each is remembered. DONE_MARGIN_S: a call counts for a job only when it began so much
 * later than the job was made. */
enum { DONE_REMEMBERED_S = 3600, ROOT_REMEMBERED_S = 24 * 3600, DONE_MARGIN_S = 1 };

static err key_delete(struct change_edit *e, const struct change_key *k)
{
    return engine_txn_delete(e->txn, SPACE_CHANGE, change_key_str(k));
}

static err memory_put(struct change_edit *e, uint32_t rule, const struct change_digest *what,
                      store_time at, int64_t for_s)
{
    struct change_key key, forget;
    store_time before, until;
    char value[16];
    err why = change_memory_get(engine_txn_view(e->txn), rule, what, &before, &until);
    /* Its entry among those to be forgotten is of the instant before. */
    if (why == ERR_OK) {
        change_key_forget(&forget, until, rule, what);
        why = key_delete(e, &forget);
    }
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    until = store_time_add(e->now, for_s * NS_PER_S);
    put_be64(value, (uint64_t)at.ns);
    put_be64(value + 8, (uint64_t)until.ns);
    change_key_memory(&key, rule, what);
    change_key_forget(&forget, until, rule, what);
    /* The timer of due.c comes to forget it. */
    e->next_due = store_time_min(e->next_due, until);
    why = engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&key),
                         (str){ .p = value, .n = sizeof value }, STR_NONE);
    return why != ERR_OK
               ? why
               : engine_txn_put(e->txn, SPACE_CHANGE, change_key_str(&forget), STR(""), STR_NONE);
}

/* Without a sha1 nothing could be found again. */
err change_memory_done(struct change_edit *e, uint32_t rule, const struct change_digest *order,
                       store_time began)
{
    return change_digest_is_none(order) ? ERR_OK
                                        : memory_put(e, rule, order, began, DONE_REMEMBERED_S);
}

static err root_answers(struct change_edit *e, const struct change_route *r, bool *needless)
{
    store_time at, until;
    err why = change_memory_get(engine_txn_view(e->txn), r->rule, &r->root, &at, &until);
    bool known = why == ERR_OK;
    if (!known && why != ERR_NOT_FOUND)
        return why;
    /* A job of the same root and instant is a brother, not a newer one. */
    *needless = known && store_time_before(r->root_at, at);
    bool same = known && at.ns == r->root_at.ns;
    return *needless || same ? ERR_OK
                             : memory_put(e, r->rule, &r->root, r->root_at, ROOT_REMEMBERED_S);
}

err change_memory_answers(struct change_edit *e, const struct change_route *r, bool *needless)
{
    store_time at, until;
    err why = ERR_OK;
    *needless = false;
    if (!change_digest_is_none(&r->root))
        why = root_answers(e, r, needless);
    if (why != ERR_OK || *needless || r->made.ns == 0)
        return why;
    why = change_memory_get(engine_txn_view(e->txn), r->rule, &r->order, &at, &until);
    /* It was done by a call that began after this one was made. */
    *needless =
        why == ERR_OK && store_time_before(store_time_add(r->made, DONE_MARGIN_S * NS_PER_S), at);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

/* ---- and forgotten ---- */

/* Keys are gathered first: rows that a cursor goes over are not deleted under it. */
struct forgetting {
    struct change_key keys[CHANGE_FORGET_MAX];
    struct change_digest what;
    store_time until;
    uint32_t rule;
    unsigned count;
};

static err forget_find(struct change_edit *e, struct forgetting *f, store_time *next)
{
    struct engine_cursor *rows = change_rows_open(engine_txn_view(e->txn), STR("x"), STR_NONE);
    struct engine_row row;
    err why = ERR_OK;
    while (f->count < CHANGE_FORGET_MAX && (why = change_rows_next(rows, &row)) == ERR_OK) {
        if (!change_key_forget_parse(row.key, &f->until, &f->rule, &f->what)) {
            why = ERR_CORRUPT;
            break;
        }
        if (store_time_before(e->now, f->until)) {
            *next = f->until;
            break;
        }
        change_key_forget(&f->keys[f->count++], f->until, f->rule, &f->what);
    }
    engine_cursor_close(&rows);
    /* There may be more: at once again. */
    if (f->count == CHANGE_FORGET_MAX)
        *next = STORE_TIME_ZERO;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err change_memory_forget(struct change_edit *e, store_time *next)
{
    struct forgetting f = { .count = 0 };
    *next = STORE_TIME_NEVER;
    err why = forget_find(e, &f, next);
    for (unsigned i = 0; i < f.count && why == ERR_OK; i++) {
        struct change_key key;
        (void)change_key_forget_parse(change_key_str(&f.keys[i]), &f.until, &f.rule, &f.what);
        change_key_memory(&key, f.rule, &f.what);
        why = key_delete(e, &key);
        if (why == ERR_OK)
            why = key_delete(e, &f.keys[i]);
    }
    return why;
}
