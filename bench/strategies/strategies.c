/* strategies.c - the variants by name, and what the strategies share: statements and tables of each
 * content, names and rows. */
#include "strategies/strategies.h"

#include <stdio.h>
#include <string.h>

const size_t content_bytes[CONTENTS] = { CONTENT_BYTES_MAX, 6000, 300 };

static const struct strategy_variant variants[] = {
    { "app_ttl", &app_ttl_kind, { .apart = false } },
    { "app_ttl_apart", &app_ttl_kind, { .apart = true } },
    { "app_ttl_sampled", &app_ttl_kind, { .sampled = true } },
    { "two_table", &two_table_kind, { .latest_hash = false } },
    { "two_table_latest_hash", &two_table_kind, { .latest_hash = true } },
    { "per_query_a_through", &per_query_kind, { .copy = COPY_WRITE_THROUGH } },
    { "per_query_a_on_read", &per_query_kind, { .copy = COPY_ON_READ } },
    { "per_query_a_on_update", &per_query_kind, { .copy = COPY_ON_UPDATE } },
    { "per_query_a_on_update_dated", &per_query_kind, { .copy = COPY_ON_UPDATE, .dated = true } },
    { "per_query_a_raw", &per_query_kind, { .copy = COPY_ON_UPDATE, .raw_uuid = true } },
    { "per_query_b_through", &per_query_kind, { .wide = true, .copy = COPY_WRITE_THROUGH } },
    { "per_query_b_on_read", &per_query_kind, { .wide = true, .copy = COPY_ON_READ } },
    { "per_query_b_on_update", &per_query_kind, { .wide = true, .copy = COPY_ON_UPDATE } },
    { "per_query_b_on_update_dated",
      &per_query_kind,
      { .wide = true, .copy = COPY_ON_UPDATE, .dated = true } },
    { "ours", &ours_kind, { .apart = false } },
};

const struct strategy_variant *strategy_variant(const char *name)
{
    for (unsigned i = 0; i < COUNT_OF(variants); i++)
        if (strcmp(variants[i].name, name) == 0)
            return &variants[i];
    return NULL;
}

void strategy_variants_print(void)
{
    for (unsigned i = 0; i < COUNT_OF(variants); i++)
        printf("%s\n", variants[i].name);
}

void strategy_init(struct strategy *s, const struct strategy_variant *v, struct database *db,
                   int64_t grace_ttl_ns)
{
    *s = (struct strategy){
        .kind = v->kind, .opts = v->opts, .db = db, .grace_ttl_ns = grace_ttl_ns
    };
    s->kind->init(s);
}

void strategy_statement(struct strategy *s, unsigned at, const char *format)
{
    INVARIANT(at < STATEMENTS_MAX);
    for (unsigned i = 0; i < CONTENTS; i++)
        s->statements[i][at] = database_statement(s->db, format, i);
}

void strategy_table(struct strategy *s, const char *format)
{
    for (unsigned i = 0; i < CONTENTS; i++)
        database_ddl(s->db, format, i);
}

void put_title(struct cql_values *v, str domain, str title)
{
    cql_put_bytes(v, domain);
    cql_put_bytes(v, title);
}

void put_name(struct cql_values *v, struct page_name name)
{
    cql_put_i32(v, (int32_t)name.rev);
    cql_put_tid(v, name.tid);
}

struct row row_of(const struct cql_cell *cells)
{
    struct row row;
    int64_t rev = 0;
    INVARIANT(cql_get_i64(&cells[0], &rev));
    row.name.rev = (uint64_t)rev;
    INVARIANT(cql_get_tid(&cells[1], &row.name.tid));
    INVARIANT(cql_get_bytes(&cells[2], &row.value));
    return row;
}

void lookup_take(struct lookup *l, struct page_name name, str value)
{
    INVARIANT(value.n >= HEAD_BYTES);
    l->got = name;
    memcpy(l->head, value.p, HEAD_BYTES);
}

void step_lookup(struct step *s, const struct cql_statement *const by_select[],
                 const struct lookup *l)
{
    struct cql_values *v = step_read(s, by_select[l->select]);
    put_title(v, l->domain, l->title);
    if (l->select != SELECT_LATEST)
        cql_put_i32(v, (int32_t)l->name.rev);
    if (l->select == SELECT_EXACT)
        cql_put_tid(v, l->name.tid);
}
