/* two_table.c - current kept small by range deletes, recent_and_historical by a TTL; what is
 * replaced is copied on update, and so is what is written (the seed's footnote 2: two updates at
 * once would lose one). */
#include "strategy/statement.h"

enum { COPY_ARENA_BYTES_MAX = 128 << 20 };

static err write_row(struct strategy *s, const struct strategy_key *k, struct strategy_name_of name,
                     str value, store_time expires_at)
{
    struct strategy_batch b = { .s = s };
    struct statement *st = batch_add(&b);
    st->kind = STATEMENT_INSERT;
    st->key = *k;
    st->key.name = name;
    st->name = name;
    st->value = value;
    st->expires_at = expires_at;
    return batch_run(&b);
}

static err delete_replaced(struct strategy *s, const struct strategy_key *k,
                           const struct strategy_render *r)
{
    if (!r->has_previous || !strategy_chance(s))
        return ERR_OK;
    struct strategy_batch b = { .s = s };
    struct statement *st = batch_add(&b);
    st->kind = STATEMENT_DELETE;
    st->key = *k;
    st->key.name = r->previous;
    st->renders_only = r->previous.rev == r->name.rev;
    return batch_run(&b);
}

static err content_put(struct strategy *s, const struct strategy_render *r, unsigned content,
                       store_time now)
{
    struct arena a;
    struct strategy_row old;
    store_time expires_at = store_time_add(now, s->opts.historical_ttl_ns);
    struct strategy_key current = { .table = TABLE_CURRENT,
                                    .content = content,
                                    .depth = KEY_TITLE,
                                    .domain = r->domain,
                                    .title = r->title };
    struct strategy_key historical = current;
    historical.table = TABLE_HISTORICAL;
    historical.depth = KEY_TID;

    arena_init(&a, COPY_ARENA_BYTES_MAX);
    err why = select_first(s, &current, now, &a, &old);
    if (why == ERR_OK)
        why = write_row(s, &historical, old.name, old.value, expires_at);
    current.depth = KEY_TID;
    if (why == ERR_OK || why == ERR_NOT_FOUND)
        why = write_row(s, &current, r->name, r->contents[content], STORE_TIME_NEVER);
    if (why == ERR_OK)
        why = write_row(s, &historical, r->name, r->contents[content], expires_at);
    if (why == ERR_OK)
        why = delete_replaced(s, &current, r);
    arena_fini(&a);
    return why;
}

err two_table_put(struct strategy *s, const struct strategy_render *r, store_time now)
{
    for (unsigned i = 0; i < s->opts.contents; i++) {
        err why = content_put(s, r, i, now);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}
