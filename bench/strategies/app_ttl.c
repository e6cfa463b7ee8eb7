/* app_ttl.c - the seed's choice: one wide table, timelines of what was superseded, range deletes by
 * what the timelines say; historical, with a TTL, for what was rendered on request.
 *
 * Together: one batch for the bundle, with one index. Apart: each content for itself, the seed's
 * "without Parsoid-specific abstraction". What the seed leaves open: its revision_timeline is
 * refused by Cassandra ("CLUSTERING ORDER BY (rev DESC)", and rev is no part of the key), so it is
 * ordered by ts; the steps 2 to 4 of its "Writes" follow step 1, in requests of their own. A hit
 * in historical is not written again: of that the seed speaks for two_table alone. */
#include "strategies/strategies.h"

enum statement {
    INSERT_CURRENT,
    SELECT_CURRENT, /* and two more: by enum page_select */
    SELECT_HISTORICAL = SELECT_CURRENT + 3,
    INSERT_HISTORICAL = SELECT_HISTORICAL + 3,
    DELETE_REVS,
    DELETE_RENDERS,
    INSERT_REVISION,
    INSERT_RENDER,
    SELECT_REVISION,
    SELECT_RENDER,
};

static void app_ttl_init(struct strategy *s)
{
    strategy_statement(s, INSERT_CURRENT,
                       "INSERT INTO %s.current_and_recent_%u (\"_domain\", title, rev, tid, value) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, SELECT_CURRENT + SELECT_LATEST,
                       "SELECT rev, tid, value FROM %s.current_and_recent_%u "
                       "WHERE \"_domain\" = ? AND title = ? LIMIT 1");
    strategy_statement(s, SELECT_CURRENT + SELECT_REV,
                       "SELECT rev, tid, value FROM %s.current_and_recent_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? LIMIT 1");
    strategy_statement(s, SELECT_CURRENT + SELECT_EXACT,
                       "SELECT rev, tid, value FROM %s.current_and_recent_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid = ?");
    strategy_statement(s, SELECT_HISTORICAL + SELECT_REV,
                       "SELECT rev, tid, value FROM %s.historical_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? LIMIT 1");
    strategy_statement(s, SELECT_HISTORICAL + SELECT_EXACT,
                       "SELECT rev, tid, value FROM %s.historical_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid = ?");
    strategy_statement(s, INSERT_HISTORICAL,
                       "INSERT INTO %s.historical_%u (\"_domain\", title, rev, tid, value) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, DELETE_REVS,
                       "DELETE FROM %s.current_and_recent_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev <= ?");
    strategy_statement(s, DELETE_RENDERS,
                       "DELETE FROM %s.current_and_recent_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid <= ?");
    strategy_statement(s, INSERT_REVISION,
                       "INSERT INTO %s.revision_timeline_%u (\"domain\", title, ts, rev) "
                       "VALUES (?, ?, ?, ?)");
    strategy_statement(s, INSERT_RENDER,
                       "INSERT INTO %s.render_timeline_%u (\"domain\", title, rev, ts, tid) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, SELECT_REVISION,
                       "SELECT rev FROM %s.revision_timeline_%u "
                       "WHERE \"domain\" = ? AND title = ? AND ts < ? LIMIT 1");
    strategy_statement(s, SELECT_RENDER,
                       "SELECT tid FROM %s.render_timeline_%u "
                       "WHERE \"domain\" = ? AND title = ? AND rev = ? AND ts < ? LIMIT 1");
}

static void app_ttl_tables(struct strategy *s)
{
    strategy_table(s, "CREATE TABLE %s.current_and_recent_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title), rev, tid)) "
                      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) " TABLE_OPTIONS);
    strategy_table(s, "CREATE TABLE %s.historical_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title), rev, tid)) "
                      "WITH CLUSTERING ORDER BY (rev DESC, tid DESC) "
                      "AND default_time_to_live = 86400 " TABLE_OPTIONS);
    strategy_table(s, "CREATE TABLE %s.revision_timeline_%u ("
                      "\"domain\" text, title text, ts timestamp, rev int, "
                      "PRIMARY KEY ((\"domain\", title), ts)) "
                      "WITH CLUSTERING ORDER BY (ts DESC) " TIMELINE_OPTIONS);
    strategy_table(s, "CREATE TABLE %s.render_timeline_%u ("
                      "\"domain\" text, title text, ts timestamp, rev int, tid timeuuid, "
                      "PRIMARY KEY ((\"domain\", title), rev, ts)) "
                      "WITH CLUSTERING ORDER BY (rev DESC, ts DESC) " TIMELINE_OPTIONS);
}

static bool is_new_revision(const struct render *r)
{
    return r->previous.rev < r->name.rev;
}

/* In the last request of the step. */
static void index_add(struct strategy *s, struct step *st, const struct render *r, unsigned content,
                      store_time now)
{
    bool revision = is_new_revision(r);
    struct cql_values *v =
        step_join(st, s->statements[content][revision ? INSERT_REVISION : INSERT_RENDER]);
    put_title(v, r->domain, r->title);
    if (!revision)
        cql_put_i32(v, (int32_t)r->previous.rev);
    cql_put_i64(v, now.ns / NS_PER_MS);
    if (revision)
        cql_put_i32(v, (int32_t)r->previous.rev);
    else
        cql_put_tid(v, r->previous.tid);
}

static bool is_indexed(struct strategy *s, const struct render *r, store_time now)
{
    if (r->previous.rev == 0)
        return false;
    if (!s->opts.sampled)
        return true;
    struct sampling *sampling = s->sampling;
    INVARIANT(pthread_mutex_lock(&sampling->lock) == 0);
    bool kept = timeline_sample(sampling->sampler, str_eq(r->domain, STR("quiet")), now);
    INVARIANT(pthread_mutex_unlock(&sampling->lock) == 0);
    return kept;
}

/* A batch of the bundle, or one of each content. */
static void contents_add(struct strategy *s, struct step *st, const struct render *r,
                         enum statement what)
{
    for (unsigned i = 0; i < CONTENTS; i++) {
        const struct cql_statement *statement = s->statements[i][what];
        struct cql_values *v =
            i > 0 && !s->opts.apart ? step_join(st, statement) : step_write(st, statement);
        put_title(v, r->domain, r->title);
        put_name(v, r->name);
        cql_put_bytes(v, r->contents[i]);
    }
}

static void app_ttl_put(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    bool indexed = is_indexed(s, r, now);
    if (s->opts.apart) {
        for (unsigned i = 0; i < CONTENTS; i++) {
            struct cql_values *v = step_write(st, s->statements[i][INSERT_CURRENT]);
            put_title(v, r->domain, r->title);
            put_name(v, r->name);
            cql_put_bytes(v, r->contents[i]);
            if (indexed)
                index_add(s, st, r, i, now);
        }
    } else {
        contents_add(s, st, r, INSERT_CURRENT);
        if (indexed)
            index_add(s, st, r, 0, now);
    }
    step_run(st);
    step_free(&st);
}

static void app_ttl_keep(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    contents_add(s, st, r, INSERT_HISTORICAL);
    step_run(st);
    step_free(&st);
}

/* What was superseded grace_ttl ago; false: the timeline knows of nothing. */
static bool index_find(struct strategy *s, const struct render *r, unsigned content, store_time now,
                       struct page_name *out)
{
    bool revision = is_new_revision(r), found;
    struct step *st = step_new(s->db, now);
    struct cql_values *v =
        step_read(st, s->statements[content][revision ? SELECT_REVISION : SELECT_RENDER]);
    struct cql_cell cell;
    put_title(v, r->domain, r->title);
    if (!revision)
        cql_put_i32(v, (int32_t)r->previous.rev);
    cql_put_i64(v, store_time_add(now, -s->grace_ttl_ns).ns / NS_PER_MS);
    step_run(st);
    found = step_row(st, 0, &cell);
    *out = r->previous;
    if (found && revision) {
        int64_t rev = 0;
        INVARIANT(cql_get_i64(&cell, &rev));
        out->rev = (uint64_t)rev;
    } else if (found) {
        INVARIANT(cql_get_tid(&cell, &out->tid));
    }
    step_free(&st);
    return found;
}

/* A range delete of the contents first to one before past, in one batch. */
static void range_delete(struct strategy *s, const struct render *r, struct page_name last,
                         unsigned first, unsigned past, store_time now)
{
    bool revision = is_new_revision(r);
    struct step *st = step_new(s->db, now);
    for (unsigned i = first; i < past; i++) {
        const struct cql_statement *statement =
            s->statements[i][revision ? DELETE_REVS : DELETE_RENDERS];
        struct cql_values *v = i == first ? step_write(st, statement) : step_join(st, statement);
        put_title(v, r->domain, r->title);
        cql_put_i32(v, (int32_t)last.rev);
        if (!revision)
            cql_put_tid(v, last.tid);
    }
    step_run(st);
    step_free(&st);
}

static void app_ttl_cull(struct strategy *s, const struct render *r, store_time now)
{
    struct page_name last;
    unsigned step = s->opts.apart ? 1 : CONTENTS;
    if (r->previous.rev == 0)
        return;
    for (unsigned i = 0; i < CONTENTS; i += step)
        if (index_find(s, r, i, now, &last))
            range_delete(s, r, last, i, i + step, now);
}

static bool app_ttl_get(struct strategy *s, struct lookup *l, store_time now)
{
    static const enum statement tables[] = { SELECT_CURRENT, SELECT_HISTORICAL };
    unsigned count = l->select == SELECT_LATEST ? 1 : COUNT_OF(tables);
    bool found = false;
    for (unsigned i = 0; i < count && !found; i++) {
        struct cql_cell cells[3];
        struct step *st = step_new(s->db, now);
        step_lookup(st, &s->statements[l->content][tables[i]], l);
        step_run(st);
        found = step_row(st, 0, cells);
        if (found) {
            struct row row = row_of(cells);
            lookup_take(l, row.name, row.value);
        }
        step_free(&st);
    }
    return found;
}

static const char *const app_ttl_counts[] = { "SELECT COUNT(*) FROM %s.current_and_recent_%u",
                                              "SELECT COUNT(*) FROM %s.historical_%u", NULL };
const struct strategy_kind app_ttl_kind = { .name = "app_ttl",
                                            .init = app_ttl_init,
                                            .tables = app_ttl_tables,
                                            .put = app_ttl_put,
                                            .get = app_ttl_get,
                                            .keep = app_ttl_keep,
                                            .cull = app_ttl_cull,
                                            .counts = app_ttl_counts };
