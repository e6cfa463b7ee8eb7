/* two_table.c - current is kept small by range deletes, recent_and_historical by a TTL. What is
 * replaced is copied on update, and so is what is written (the seed's footnote 2: two updates at
 * once would lose one).
 *
 * Each content goes for itself: its values are "likely too large to consider batching". The three
 * writes go out together ("could be performed concurrently"). A hit in recent_and_historical that
 * lasts less than grace_ttl is written again under its name (footnote 3); the table's TTL is ten
 * times that, as the seed has it. A miss is written to both tables. latest_hash: range deletes of
 * previous revisions, too; without it current keeps a render of every revision. */
#include "strategies/strategies.h"

enum statement {
    INSERT_CURRENT,
    INSERT_RECENT,
    SELECT_OF_CURRENT, /* and two more: by enum page_select */
    SELECT_OF_RECENT = SELECT_OF_CURRENT + 3,
    SELECT_REPLACED = SELECT_OF_RECENT + 3,
    DELETE_RENDERS,
    DELETE_REVS,
};

static void two_table_init(struct strategy *s)
{
    strategy_statement(s, INSERT_CURRENT,
                       "INSERT INTO %s.current_%u (\"_domain\", title, rev, tid, value) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, INSERT_RECENT,
                       "INSERT INTO %s.recent_and_historical_%u "
                       "(\"_domain\", title, rev, tid, value) VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, SELECT_OF_CURRENT + SELECT_LATEST,
                       "SELECT rev, tid, value FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? LIMIT 1");
    strategy_statement(s, SELECT_OF_CURRENT + SELECT_REV,
                       "SELECT rev, tid, value FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? LIMIT 1");
    strategy_statement(s, SELECT_OF_CURRENT + SELECT_EXACT,
                       "SELECT rev, tid, value FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid = ?");
    strategy_statement(s, SELECT_OF_RECENT + SELECT_REV,
                       "SELECT rev, tid, value, TTL(value) FROM %s.recent_and_historical_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? LIMIT 1");
    strategy_statement(s, SELECT_OF_RECENT + SELECT_EXACT,
                       "SELECT rev, tid, value, TTL(value) FROM %s.recent_and_historical_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid = ?");
    strategy_statement(s, SELECT_REPLACED,
                       "SELECT rev, tid, value FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? LIMIT 1");
    strategy_statement(s, DELETE_RENDERS,
                       "DELETE FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid < ?");
    strategy_statement(s, DELETE_REVS,
                       "DELETE FROM %s.current_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev < ?");
}

static void two_table_tables(struct strategy *s)
{
    strategy_table(s, "CREATE TABLE %s.current_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title), rev, tid)) "
                      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) " TABLE_OPTIONS);
    strategy_table(s, "CREATE TABLE %s.recent_and_historical_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title), rev, tid)) "
                      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) "
                      "AND default_time_to_live = 864000 " TABLE_OPTIONS);
}

static void row_add(struct strategy *s, struct step *st, const struct render *r, unsigned content,
                    enum statement what)
{
    struct cql_values *v = step_write(st, s->statements[content][what]);
    put_title(v, r->domain, r->title);
    put_name(v, r->name);
    cql_put_bytes(v, r->contents[content]);
}

/* Steps 2 to 4: the copy of what is replaced, and both writes of the new one. */
static void writes_add(struct strategy *s, struct step *replaced, struct step *st,
                       const struct render *r)
{
    for (unsigned i = 0; i < CONTENTS; i++) {
        struct cql_cell cells[3];
        if (step_row(replaced, i, cells)) {
            struct row row = row_of(cells);
            struct cql_values *v = step_write(st, s->statements[i][INSERT_RECENT]);
            put_title(v, r->domain, r->title);
            put_name(v, row.name);
            cql_put_bytes(v, row.value);
        }
        row_add(s, st, r, i, INSERT_CURRENT);
        row_add(s, st, r, i, INSERT_RECENT);
    }
}

static void two_table_put(struct strategy *s, const struct render *r, store_time now)
{
    struct step *replaced = step_new(s->db, now), *writes = step_new(s->db, now);
    for (unsigned i = 0; i < CONTENTS; i++)
        put_title(step_read(replaced, s->statements[i][SELECT_REPLACED]), r->domain, r->title);
    step_run(replaced);
    writes_add(s, replaced, writes, r);
    step_run(writes);
    step_free(&writes);
    step_free(&replaced);
}

static void two_table_cull(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    for (unsigned i = 0; i < CONTENTS; i++) {
        struct cql_values *v = step_write(st, s->statements[i][DELETE_RENDERS]);
        put_title(v, r->domain, r->title);
        put_name(v, r->name);
        if (!s->opts.latest_hash)
            continue;
        v = step_write(st, s->statements[i][DELETE_REVS]);
        put_title(v, r->domain, r->title);
        cql_put_i32(v, (int32_t)r->name.rev);
    }
    step_run(st);
    step_free(&st);
}

static void two_table_keep(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    for (unsigned i = 0; i < CONTENTS; i++) {
        row_add(s, st, r, i, INSERT_CURRENT);
        row_add(s, st, r, i, INSERT_RECENT);
    }
    step_run(st);
    step_free(&st);
}

static void refresh(struct strategy *s, const struct lookup *l, const struct row *row,
                    store_time now)
{
    struct step *st = step_new(s->db, now);
    struct cql_values *v = step_write(st, s->statements[l->content][INSERT_RECENT]);
    put_title(v, l->domain, l->title);
    put_name(v, row->name);
    cql_put_bytes(v, row->value);
    step_run(st);
    step_free(&st);
}

static bool table_find(struct strategy *s, struct lookup *l, bool recent, store_time now)
{
    struct cql_cell cells[4];
    struct step *st = step_new(s->db, now);
    step_lookup(st, &s->statements[l->content][recent ? SELECT_OF_RECENT : SELECT_OF_CURRENT], l);
    step_run(st);
    bool found = step_row(st, 0, cells);
    if (found) {
        struct row row = row_of(cells);
        int64_t left_s = 0;
        lookup_take(l, row.name, row.value);
        INVARIANT(!recent || cql_get_i64(&cells[3], &left_s));
        if (recent && left_s * NS_PER_S < s->grace_ttl_ns)
            refresh(s, l, &row, now);
    }
    step_free(&st);
    return found;
}

static bool two_table_get(struct strategy *s, struct lookup *l, store_time now)
{
    if (table_find(s, l, false, now))
        return true;
    return l->select != SELECT_LATEST && table_find(s, l, true, now);
}

static const char *const two_table_counts[] = { "SELECT COUNT(*) FROM %s.current_%u",
                                                "SELECT COUNT(*) FROM %s.recent_and_historical_%u",
                                                NULL };
const struct strategy_kind two_table_kind = { .name = "two_table",
                                              .init = two_table_init,
                                              .tables = two_table_tables,
                                              .put = two_table_put,
                                              .get = two_table_get,
                                              .keep = two_table_keep,
                                              .cull = two_table_cull,
                                              .counts = two_table_counts };
