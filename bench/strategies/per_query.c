/* per_query.c - one table for each question: current, by_rev, by_tid; the two last with a TTL.
 *
 * Option A keeps one row a title in current. All of its writes have one timestamp, so the greatest
 * value wins, and a value begins with revision and tid. Option B keeps a row for each revision, and
 * deletes lower ones in the batch of the insert. The copies are made on update (of the new render,
 * then of the replaced one, current last and html last of all, as the seed's pseudo code), by
 * write-through, or on a read of current (of the whole bundle, or an editor would miss its
 * metadata).
 * What was chosen: the seed's "PRIMARY KEY (_domain, title)" of A would make a domain one
 * partition, so both are the partition key; B's current is ordered by revision, greatest first. The
 * bytes of a UUID are not in the order of its time: A's value has them in that order, unless
 * raw_uuid takes the seed by the letter. As published, writes have the time of the write: in by_rev
 * the copy of a replaced render of the same revision then stands over the new one, and in B's
 * current a late render does. `dated` gives them the time of their tid instead. A lookup that its
 * table does not answer goes to current: the copies of the latest may have run out. Hits are not
 * written again, and a miss is written to by_rev and by_tid: of both the seed says nothing. */
#include "strategies/strategies.h"

#include <string.h>

enum statement {
    INSERT_CURRENT,
    SELECT_CURRENT,
    DELETE_REVS,
    INSERT_BY_REV,
    SELECT_BY_REV,
    INSERT_BY_TID,
    SELECT_BY_TID,
};
enum { ONE_FOR_ALL_US = 1, NAME_BYTES = 4 + 16, COPY_BYTES_MAX = 24000 };

/* A row of current, with its own copy of the value. */
struct copied {
    bool there;
    struct page_name name;
    size_t n;
    char value[COPY_BYTES_MAX];
};

static void per_query_init(struct strategy *s)
{
    if (s->opts.wide) {
        strategy_statement(s, INSERT_CURRENT,
                           "INSERT INTO %s.current_%u (\"_domain\", title, rev, tid, value) "
                           "VALUES (?, ?, ?, ?, ?)");
        strategy_statement(s, SELECT_CURRENT,
                           "SELECT rev, tid, value FROM %s.current_%u "
                           "WHERE \"_domain\" = ? AND title = ? LIMIT 1");
        strategy_statement(s, DELETE_REVS,
                           "DELETE FROM %s.current_%u "
                           "WHERE \"_domain\" = ? AND title = ? AND rev < ?");
    } else {
        strategy_statement(s, INSERT_CURRENT,
                           "INSERT INTO %s.current_%u (\"_domain\", title, value) "
                           "VALUES (?, ?, ?)");
        strategy_statement(s, SELECT_CURRENT,
                           "SELECT value FROM %s.current_%u "
                           "WHERE \"_domain\" = ? AND title = ?");
    }
    strategy_statement(s, INSERT_BY_REV,
                       "INSERT INTO %s.by_rev_%u (\"_domain\", title, rev, tid, value) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, SELECT_BY_REV,
                       "SELECT rev, tid, value FROM %s.by_rev_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ?");
    strategy_statement(s, INSERT_BY_TID,
                       "INSERT INTO %s.by_tid_%u (\"_domain\", title, rev, tid, value) "
                       "VALUES (?, ?, ?, ?, ?)");
    strategy_statement(s, SELECT_BY_TID,
                       "SELECT rev, tid, value FROM %s.by_tid_%u "
                       "WHERE \"_domain\" = ? AND title = ? AND rev = ? AND tid = ?");
}

static void per_query_tables(struct strategy *s)
{
    if (s->opts.wide)
        strategy_table(s, "CREATE TABLE %s.current_%u ("
                          "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                          "PRIMARY KEY ((\"_domain\", title), rev)) "
                          "WITH CLUSTERING ORDER BY (rev DESC) " TABLE_OPTIONS);
    else
        strategy_table(s, "CREATE TABLE %s.current_%u ("
                          "\"_domain\" text, title text, value blob, "
                          "PRIMARY KEY ((\"_domain\", title))) "
                          "WITH " TABLE_OPTIONS_ALONE);
    strategy_table(s, "CREATE TABLE %s.by_rev_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title, rev))) "
                      "WITH default_time_to_live = 86400 " TABLE_OPTIONS);
    strategy_table(s, "CREATE TABLE %s.by_tid_%u ("
                      "\"_domain\" text, title text, rev int, tid timeuuid, value blob, "
                      "PRIMARY KEY ((\"_domain\", title, rev, tid))) "
                      "WITH default_time_to_live = 86400 " TABLE_OPTIONS);
}

/* ---- current ---- */

static void name_key(const struct strategy *s, struct page_name name, char out[NAME_BYTES])
{
    put_be32(out, (uint32_t)name.rev);
    if (!s->opts.raw_uuid) {
        tid_key(name.tid, (unsigned char *)out + 4);
        return;
    }
    put_be32(out + 4, (uint32_t)name.tid.ticks);
    put_be16(out + 8, (uint16_t)(name.tid.ticks >> 32));
    put_be16(out + 10, (uint16_t)(0x1000 | name.tid.ticks >> 48));
    put_be64(out + 12, name.tid.low);
}

static struct page_name name_of_key(const struct strategy *s, const char *key)
{
    struct page_name name = { .rev = get_be32(key) };
    if (!s->opts.raw_uuid) {
        name.tid = tid_from_key((const unsigned char *)key + 4);
        return name;
    }
    name.tid.ticks = get_be32(key + 4) | (uint64_t)get_be16(key + 8) << 32 |
                     (uint64_t)(get_be16(key + 10) & 0xfff) << 48;
    name.tid.low = get_be64(key + 12);
    return name;
}

static int64_t dated_us(const struct strategy *s, struct page_name name, int64_t otherwise_us)
{
    return s->opts.dated ? tid_time(name.tid).ns / NS_PER_US : otherwise_us;
}

static void current_add(struct strategy *s, struct step *st, const struct render *r,
                        unsigned content, store_time now)
{
    struct cql_values *v = step_write(st, s->statements[content][INSERT_CURRENT]);
    put_title(v, r->domain, r->title);
    if (!s->opts.wide) {
        char value[COPY_BYTES_MAX];
        INVARIANT(NAME_BYTES + r->contents[content].n <= sizeof value);
        name_key(s, r->name, value);
        memcpy(value + NAME_BYTES, r->contents[content].p, r->contents[content].n);
        cql_put_bytes(v, (str){ .p = value, .n = NAME_BYTES + r->contents[content].n });
        step_written_at(st, ONE_FOR_ALL_US);
        return;
    }
    put_name(v, r->name);
    cql_put_bytes(v, r->contents[content]);
    step_written_at(st, dated_us(s, r->name, now.ns / NS_PER_US));
    if (r->culls && r->previous.rev > 0 && r->previous.rev < r->name.rev) {
        v = step_join(st, s->statements[content][DELETE_REVS]);
        put_title(v, r->domain, r->title);
        cql_put_i32(v, (int32_t)r->name.rev);
    }
}

/* The rows of the contents from first on to one before past. */
static void current_read(struct strategy *s, str domain, str title, unsigned first, unsigned past,
                         struct copied *out, store_time now)
{
    struct step *st = step_new(s->db, now);
    for (unsigned i = first; i < past; i++)
        put_title(step_read(st, s->statements[i][SELECT_CURRENT]), domain, title);
    step_run(st);
    for (unsigned i = first; i < past; i++) {
        struct cql_cell cells[3];
        struct copied *c = &out[i];
        str value;
        c->there = step_row(st, i - first, cells);
        if (!c->there)
            continue;
        if (s->opts.wide) {
            struct row row = row_of(cells);
            c->name = row.name;
            value = row.value;
        } else {
            INVARIANT(cql_get_bytes(&cells[0], &value) && value.n > NAME_BYTES);
            c->name = name_of_key(s, value.p);
            value = str_skip(value, NAME_BYTES);
        }
        INVARIANT(value.n <= sizeof c->value);
        memcpy(c->value, value.p, value.n);
        c->n = value.n;
    }
    step_free(&st);
}

/* ---- copies ---- */

static void copies_add(struct strategy *s, struct step *st, const struct render *r,
                       unsigned content, int64_t at_us)
{
    static const enum statement tables[] = { INSERT_BY_TID, INSERT_BY_REV };
    for (unsigned i = 0; i < COUNT_OF(tables); i++) {
        struct cql_values *v = step_write(st, s->statements[content][tables[i]]);
        put_title(v, r->domain, r->title);
        put_name(v, r->name);
        cql_put_bytes(v, r->contents[content]);
        step_written_at(st, dated_us(s, r->name, at_us));
    }
}

static struct render copied_render(str domain, str title, const struct copied *c, unsigned content)
{
    struct render r = { .domain = domain, .title = title, .name = c->name };
    r.contents[content] = (str){ .p = c->value, .n = c->n };
    return r;
}

static void current_write(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    for (unsigned i = CONTENTS - 1; i > 0; i--)
        current_add(s, st, r, i, now);
    step_run(st);
    step_free(&st);
    st = step_new(s->db, now);
    current_add(s, st, r, 0, now);
    step_run(st);
    step_free(&st);
}

static void per_query_put(struct strategy *s, const struct render *r, store_time now)
{
    struct copied replaced[CONTENTS];
    int64_t now_us = now.ns / NS_PER_US;
    for (unsigned i = 0; i < CONTENTS; i++)
        replaced[i].there = false;
    if (s->opts.copy == COPY_ON_UPDATE)
        current_read(s, r->domain, r->title, 0, CONTENTS, replaced, now);
    if (s->opts.copy != COPY_ON_READ) {
        struct step *st = step_new(s->db, now);
        for (unsigned i = CONTENTS; i-- > 0;) {
            copies_add(s, st, r, i, now_us);
            if (!replaced[i].there)
                continue;
            struct render old = copied_render(r->domain, r->title, &replaced[i], i);
            copies_add(s, st, &old, i, now_us + 1); /* behind the new one */
        }
        step_run(st);
        step_free(&st);
    }
    current_write(s, r, now);
}

static void per_query_keep(struct strategy *s, const struct render *r, store_time now)
{
    struct step *st = step_new(s->db, now);
    for (unsigned i = CONTENTS; i-- > 0;)
        copies_add(s, st, r, i, now.ns / NS_PER_US);
    step_run(st);
    step_free(&st);
}

/* ---- lookups ---- */

/* Copies the bundle of which current gave the first content: in line, before it is answered. */
static void copy_on_read(struct strategy *s, const struct lookup *l, struct copied *all,
                         store_time now)
{
    struct step *st = step_new(s->db, now);
    current_read(s, l->domain, l->title, 1, CONTENTS, all, now);
    for (unsigned i = 0; i < CONTENTS; i++) {
        if (!all[i].there || page_name_cmp(all[i].name, all[0].name) != 0)
            continue; /* an update came between */
        struct render r = copied_render(l->domain, l->title, &all[i], i);
        copies_add(s, st, &r, i, now.ns / NS_PER_US);
    }
    step_run(st);
    step_free(&st);
}

static bool current_answers(struct strategy *s, struct lookup *l, store_time now)
{
    struct copied all[CONTENTS];
    const struct copied *c = &all[l->content];
    current_read(s, l->domain, l->title, l->content, l->content + 1, all, now);
    if (!c->there || (l->select != SELECT_LATEST && c->name.rev != l->name.rev))
        return false;
    if (l->select == SELECT_EXACT && page_name_cmp(c->name, l->name) != 0)
        return false;
    if (s->opts.copy == COPY_ON_READ && l->content == 0)
        copy_on_read(s, l, all, now);
    lookup_take(l, c->name, (str){ .p = c->value, .n = c->n });
    return true;
}

static bool per_query_get(struct strategy *s, struct lookup *l, store_time now)
{
    struct cql_cell cells[3];
    if (l->select == SELECT_LATEST)
        return current_answers(s, l, now);
    struct step *st = step_new(s->db, now);
    const struct cql_statement *const by_select[] = {
        [SELECT_REV] = s->statements[l->content][SELECT_BY_REV],
        [SELECT_EXACT] = s->statements[l->content][SELECT_BY_TID],
    };
    step_lookup(st, by_select, l);
    step_run(st);
    bool found = step_row(st, 0, cells);
    if (found) {
        struct row row = row_of(cells);
        lookup_take(l, row.name, row.value);
    }
    step_free(&st);
    return found || current_answers(s, l, now);
}

static const char *const per_query_counts[] = { "SELECT COUNT(*) FROM %s.current_%u",
                                                "SELECT COUNT(*) FROM %s.by_rev_%u",
                                                "SELECT COUNT(*) FROM %s.by_tid_%u", NULL };
const struct strategy_kind per_query_kind = { .name = "table_per_query",
                                              .init = per_query_init,
                                              .tables = per_query_tables,
                                              .put = per_query_put,
                                              .get = per_query_get,
                                              .keep = per_query_keep,
                                              .counts = per_query_counts };
