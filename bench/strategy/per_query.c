/* per_query.c - one table for each question: current, by_rev, by_tid; copy on update. Option A
 * keeps one row a title in current and lets the greatest (rev, tid) win; option B keeps wide rows
 * by revision and deletes the lower ones in the batch of the insert. Contents go in reverse, the
 * main one (0) last, as in the seed. */
#include "strategy/statement.h"

enum { COPY_ARENA_BYTES_MAX = 128 << 20 };

static void add_copy(struct strategy_batch *b, const struct strategy_key *k,
                     enum strategy_table table, const struct strategy_row *row)
{
    struct statement *st = batch_add(b);
    st->kind = STATEMENT_INSERT_GREATEST; /* by_rev: the newest render of the revision stays */
    st->key = *k;
    st->key.table = table;
    st->key.depth = table == TABLE_BY_TID ? KEY_TID : KEY_REV;
    st->key.name = row->name;
    st->name = row->name;
    st->value = row->value;
    st->expires_at = row->expires_at;
}

/* Each copy is a write of its own: the seed takes these values for too large to batch. */
static err write_copies(struct strategy *s, const struct strategy_key *k,
                        const struct strategy_row *row)
{
    static const enum strategy_table tables[] = { TABLE_BY_TID, TABLE_BY_REV };
    for (unsigned i = 0; i < COUNT_OF(tables); i++) {
        struct strategy_batch b = { .s = s };
        add_copy(&b, k, tables[i], row);
        err why = batch_run(&b);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

static err write_current(struct strategy *s, const struct strategy_key *k,
                         const struct strategy_render *r)
{
    bool wide = s->opts.kind == STRATEGY_PER_QUERY_B;
    struct strategy_batch b = { .s = s };
    struct statement *st = batch_add(&b);
    st->kind = STATEMENT_INSERT_GREATEST;
    st->key = *k;
    st->key.depth = wide ? KEY_REV : KEY_TITLE;
    st->key.name = r->name;
    st->name = r->name;
    st->value = r->contents[k->content];
    if (wide && r->has_previous && r->previous.rev < r->name.rev && strategy_chance(s)) {
        struct statement *cut = batch_add(&b);
        cut->kind = STATEMENT_DELETE;
        cut->key = *k;
        cut->key.name.rev = r->name.rev - 1;
    }
    return batch_run(&b);
}

static err content_put(struct strategy *s, const struct strategy_render *r, unsigned content,
                       store_time now)
{
    struct arena a;
    struct strategy_row old;
    store_time expires_at = store_time_add(now, s->opts.historical_ttl_ns);
    struct strategy_row new = { .name = r->name,
                                .value = r->contents[content],
                                .expires_at = expires_at };
    struct strategy_key k = { .table = TABLE_CURRENT,
                              .content = content,
                              .depth = KEY_TITLE,
                              .domain = r->domain,
                              .title = r->title };
    arena_init(&a, COPY_ARENA_BYTES_MAX);
    err found = select_first(s, &k, now, &a, &old);
    err why = found == ERR_NOT_FOUND ? ERR_OK : found;
    if (why == ERR_OK)
        why = write_copies(s, &k, &new);
    if (why == ERR_OK && found == ERR_OK) {
        old.expires_at = expires_at;
        why = write_copies(s, &k, &old);
    }
    if (why == ERR_OK)
        why = write_current(s, &k, r);
    arena_fini(&a);
    return why;
}

err per_query_put(struct strategy *s, const struct strategy_render *r, store_time now)
{
    for (unsigned i = s->opts.contents; i-- > 0;) {
        err why = content_put(s, r, i, now);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}
