/* app_ttl.c - the seed's choice: one wide table, timelines of what was superseded, range deletes by
 * what the timelines say. Together: one batch for the bundle with one timeline; else each content
 * for itself. */
#include "strategy/statement.h"

static struct strategy_key content_key(const struct strategy_render *r, unsigned content)
{
    return (struct strategy_key){ .table = TABLE_CURRENT,
                                  .content = content,
                                  .depth = KEY_TID,
                                  .domain = r->domain,
                                  .title = r->title,
                                  .name = r->name };
}

/* Each index is a domain of its own in the timelines: instance, content (0 when together),
 * domain. */
static struct timeline_where index_of(const struct strategy *s, const struct strategy_render *r,
                                      unsigned content)
{
    bool new_revision = r->previous.rev < r->name.rev;
    return (struct timeline_where){
        .kind = new_revision ? TIMELINE_REVISION : TIMELINE_RENDER,
        .domain =
            (uint32_t)s->opts.instance << 24 | (uint32_t)content << 20 | (r->domain & 0xfffffu),
        .title = r->title,
        .rev = r->previous.rev,
    };
}

static void add_insert(struct strategy_batch *b, const struct strategy_render *r, unsigned content)
{
    struct statement *st = batch_add(b);
    st->kind = STATEMENT_INSERT;
    st->key = content_key(r, content);
    st->name = r->name;
    st->value = r->contents[content];
}

static void add_index(struct strategy_batch *b, const struct strategy_render *r, unsigned content,
                      store_time now)
{
    if (!r->has_previous)
        return;
    struct statement *st = batch_add(b);
    st->kind = STATEMENT_INDEX;
    st->where = index_of(b->s, r, content);
    st->entry = (struct timeline_entry){ .at = now, .rev = r->previous.rev };
    if (st->where.kind == TIMELINE_RENDER)
        st->entry.tid = r->previous.tid;
}

static void add_delete(struct strategy_batch *b, const struct strategy_render *r, unsigned content,
                       const struct timeline_where *w, const struct timeline_entry *e)
{
    struct statement *st = batch_add(b);
    st->kind = STATEMENT_DELETE;
    st->key = content_key(r, content);
    st->key.name = (struct strategy_name_of){ .rev = e->rev, .tid = e->tid };
    st->renders_only = w->kind == TIMELINE_RENDER;
}

/* Steps 2 to 4 of the seed's "Writes": ask the index, delete what it names. Contents first to one
 * past last. */
static err cull(struct strategy *s, const struct strategy_render *r, unsigned first, unsigned past,
                store_time now)
{
    if (!r->has_previous || !strategy_chance(s))
        return ERR_OK;
    struct timeline_where w = index_of(s, r, first);
    struct timeline_entry e;
    err why = select_index(s, &w, store_time_add(now, -s->opts.grace_ttl_ns), &e);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    struct strategy_batch b = { .s = s };
    for (unsigned i = first; i < past; i++)
        add_delete(&b, r, i, &w, &e);
    struct statement *st = batch_add(&b);
    st->kind = STATEMENT_INDEX;
    st->where = w;
    st->entry = e;
    st->applied = true;
    return batch_run(&b);
}

err app_ttl_put(struct strategy *s, const struct strategy_render *r, store_time now)
{
    unsigned step = s->opts.together ? s->opts.contents : 1;
    for (unsigned first = 0; first < s->opts.contents; first += step) {
        struct strategy_batch b = { .s = s };
        for (unsigned i = first; i < first + step; i++)
            add_insert(&b, r, i);
        add_index(&b, r, first, now);
        err why = batch_run(&b);
        if (why == ERR_OK)
            why = cull(s, r, first, first + step, now);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}
