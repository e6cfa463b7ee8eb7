/* node_answer.c - the bodies of the fake cluster's answers, written apart from the client's codec.
 */
#include "unit/cql/node_impl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    COLUMNS_GLOBAL = 1,
    COLUMNS_MORE = 2,
    COLUMNS_NONE = 4,
    COLUMNS_CHANGED = 8,
    ARGUMENTS = 0, /* of a function, in errors and changes */
};

#define PAGE_MARK "\xfe\xfd"

void node_put_string(struct buf *out, const char *s)
{
    buf_put_str16(out, str_of(s));
}

static void put_bytes(struct buf *out, str s)
{
    buf_put_be32(out, (uint32_t)s.n);
    buf_put(out, s);
}

/* [inetaddr] */
static void put_address(struct buf *out, const char *address)
{
    char bytes[16];
    unsigned char n = inet_pton(AF_INET, address, bytes) == 1 ? 4 : 16;
    INVARIANT(n == 4 || inet_pton(AF_INET6, address, bytes) == 1);
    buf_put_u8(out, n);
    buf_put(out, (str){ .p = bytes, .n = n });
}

/* ---- errors ---- */

static void put_replicas(struct buf *out, const struct cql_failure *f)
{
    buf_put_be16(out, (uint16_t)f->consistency);
    buf_put_be32(out, (uint32_t)f->alive_or_received);
    buf_put_be32(out, (uint32_t)f->required);
}

/* Version 4 has their count, version 5 an address and a reason for each. */
static void put_failed(struct buf *out, unsigned version, const struct cql_failure *f,
                       const struct sockaddr_in *who)
{
    char host[INET_ADDRSTRLEN];
    buf_put_be32(out, (uint32_t)f->failed);
    INVARIANT(inet_ntop(AF_INET, &who->sin_addr, host, sizeof host) != NULL);
    for (int32_t i = 0; version >= 5 && i < f->failed; i++) {
        put_address(out, host);
        buf_put_be16(out, f->reason);
    }
}

static void put_write_kind(struct buf *out, enum cql_write_kind kind)
{
    static const char *const names[] = {
        [CQL_WRITE_SIMPLE] = "SIMPLE",
        [CQL_WRITE_BATCH] = "BATCH",
        [CQL_WRITE_UNLOGGED_BATCH] = "UNLOGGED_BATCH",
        [CQL_WRITE_COUNTER] = "COUNTER",
        [CQL_WRITE_BATCH_LOG] = "BATCH_LOG",
        [CQL_WRITE_CAS] = "CAS",
        [CQL_WRITE_VIEW] = "VIEW",
        [CQL_WRITE_CDC] = "CDC",
        [CQL_WRITE_OTHER] = "NEWER_THAN_THAT",
    };
    node_put_string(out, names[kind]);
}

void node_put_failure(struct buf *out, unsigned version, const struct cql_failure *f,
                      const struct sockaddr_in *who)
{
    buf_put_be32(out, (uint32_t)f->code);
    buf_put_str16(out, f->message);
    if (f->code == CQL_UNAVAILABLE) {
        buf_put_be16(out, (uint16_t)f->consistency);
        buf_put_be32(out, (uint32_t)f->required);
        buf_put_be32(out, (uint32_t)f->alive_or_received);
    } else if (f->code == CQL_WRITE_TIMEOUT) {
        put_replicas(out, f);
        put_write_kind(out, f->write);
        if (version >= 5 && f->write == CQL_WRITE_CAS)
            buf_put_be16(out, f->contentions);
    } else if (f->code == CQL_READ_TIMEOUT) {
        put_replicas(out, f);
        buf_put_u8(out, f->data_present);
    } else if (f->code == CQL_READ_FAILURE) {
        put_replicas(out, f);
        put_failed(out, version, f, who);
        buf_put_u8(out, f->data_present);
    } else if (f->code == CQL_WRITE_FAILURE) {
        put_replicas(out, f);
        put_failed(out, version, f, who);
        put_write_kind(out, f->write);
    } else if (f->code == CQL_CAS_UNKNOWN) {
        put_replicas(out, f);
    } else if (f->code == CQL_FUNCTION_FAILURE || f->code == CQL_ALREADY_EXISTS) {
        buf_put_str16(out, f->keyspace);
        buf_put_str16(out, f->table);
        if (f->code == CQL_FUNCTION_FAILURE)
            buf_put_be16(out, ARGUMENTS);
    } else if (f->code == CQL_UNPREPARED) {
        buf_put_str16(out, f->id);
    }
}

/* ---- rows ---- */

/* Opaque to a client: the row to go on with, and how many empty pages were before it. False: it is
 * none of ours. */
static bool page_state_read(str state, unsigned *row, unsigned *empty)
{
    static const str mark = STR_INIT(PAGE_MARK);
    uint64_t first = 0, second = 0;
    *row = *empty = 0;
    if (state.n == 0)
        return true;
    str rest = str_skip(state, mark.n), head = str_split(&rest, '.');
    if (!str_starts(state, mark) || !str_to_u64(head, &first) || !str_to_u64(rest, &second))
        return false;
    *row = (unsigned)first;
    *empty = (unsigned)second;
    return true;
}

bool node_page_known(const struct node_request *r)
{
    unsigned row, empty;
    return page_state_read(r->page_state, &row, &empty);
}

static void page_state_put(struct buf *out, unsigned row, unsigned empty)
{
    char state[64];
    (void)snprintf(state, sizeof state, PAGE_MARK "%u.%u", row, empty);
    put_bytes(out, str_of(state));
}

static void put_table(struct buf *out, const struct node_plan *plan)
{
    node_put_string(out, plan->keyspace);
    node_put_string(out, plan->table);
}

static str shape_id(const struct node_shape *shape)
{
    return (str){ .p = (const char *)shape->id, .n = sizeof shape->id };
}

/* The rows from one on, by the cells of each. */
static str cells_of(str cells, unsigned columns, unsigned row, unsigned rows)
{
    struct cursor in = { .rest = cells };
    str from = cells;
    for (unsigned i = 0; i < (row + rows) * columns; i++) {
        if (i == row * columns)
            from = in.rest;
        int32_t n = (int32_t)cursor_be32(&in);
        if (n > 0)
            (void)cursor_bytes(&in, (size_t)n);
    }
    INVARIANT(!in.failed);
    return rows == 0 || columns == 0 ? STR_NONE : str_take(from, from.n - in.rest.n);
}

/* What part of its rows a page has. */
struct part {
    unsigned row, rows, next, next_empty;
    bool more;
};

static struct part part_of(unsigned all, const struct node_request *r, const struct node_page *page)
{
    struct part p = { .row = 0 };
    unsigned empty = 0, rows = page->rows != 0 ? page->rows : (unsigned)r->page_rows;
    INVARIANT(page_state_read(r->page_state, &p.row, &empty));
    p.row = p.row < all ? p.row : all;
    if (empty < page->empty) {
        p.more = true;
        p.next = p.row;
        p.next_empty = empty + 1;
        return p;
    }
    p.rows = rows == 0 || rows > all - p.row ? all - p.row : rows;
    p.next = p.row + p.rows;
    p.more = p.next < all || (rows != 0 && p.rows == rows); /* as Cassandra: it has not looked */
    return p;
}

static unsigned columns_flags(const struct node_conn *conn, const struct node_request *r,
                              const struct node_plan *plan)
{
    unsigned flags = plan->columns.count > 0 ? COLUMNS_GLOBAL : 0;
    if (r->op != CQL_OP_EXECUTE)
        return r->skip_columns ? flags | COLUMNS_NONE : flags;
    if (conn->version >= 5 && !str_eq(r->columns_id, shape_id(&plan->columns)))
        return flags | COLUMNS_CHANGED;
    return r->skip_columns ? flags | COLUMNS_NONE : flags;
}

void node_put_rows(struct buf *out, const struct node_conn *conn, const struct node_request *r,
                   const struct node_plan *plan, const struct node_page *page)
{
    unsigned columns = plan->columns.count;
    unsigned all = columns == 0 ? 0 : node_cells(plan->cells) / columns;
    INVARIANT(columns == 0 ? plan->cells.n == 0 : node_cells(plan->cells) % columns == 0);
    struct part p = part_of(all, r, page);
    unsigned flags = columns_flags(conn, r, plan) | (p.more ? COLUMNS_MORE : 0);
    buf_put_be32(out, CQL_RESULT_ROWS);
    buf_put_be32(out, flags);
    buf_put_be32(out, columns);
    if (p.more)
        page_state_put(out, p.next, p.next_empty);
    if ((flags & COLUMNS_CHANGED) != 0)
        buf_put_str16(out, shape_id(&plan->columns));
    if ((flags & COLUMNS_NONE) == 0 && columns > 0) {
        put_table(out, plan);
        buf_put(out, plan->columns.bytes);
    }
    buf_put_be32(out, p.rows);
    buf_put(out, cells_of(plan->cells, columns, p.row, p.rows));
}

void node_put_prepared(struct buf *out, unsigned version, const unsigned char *id,
                       const struct node_plan *plan)
{
    buf_put_be32(out, CQL_RESULT_PREPARED);
    buf_put_str16(out, (str){ .p = (const char *)id, .n = NODE_ID_BYTES });
    if (version >= 5)
        buf_put_str16(out, shape_id(&plan->columns));
    buf_put_be32(out, plan->markers.count > 0 ? COLUMNS_GLOBAL : 0);
    buf_put_be32(out, plan->markers.count);
    buf_put_be32(out, plan->partition_count);
    for (unsigned i = 0; i < plan->partition_count; i++)
        buf_put_be16(out, (uint16_t)plan->partition[i]);
    if (plan->markers.count > 0)
        put_table(out, plan);
    buf_put(out, plan->markers.bytes);
    bool columns = plan->has_columns && plan->columns.count > 0;
    buf_put_be32(out, columns ? COLUMNS_GLOBAL : COLUMNS_NONE);
    buf_put_be32(out, columns ? plan->columns.count : 0);
    if (columns) {
        put_table(out, plan);
        buf_put(out, plan->columns.bytes);
    }
}

/* ---- changes ---- */

void node_put_schema(struct buf *out, const struct cql_schema_change *s)
{
    static const char *const changes[] = { [CQL_CHANGE_CREATED] = "CREATED",
                                           [CQL_CHANGE_UPDATED] = "UPDATED",
                                           [CQL_CHANGE_DROPPED] = "DROPPED" };
    node_put_string(out, changes[s->change]);
    buf_put_str16(out, s->target);
    buf_put_str16(out, s->keyspace);
    if (!str_eq(s->target, STR("KEYSPACE")))
        buf_put_str16(out, s->name);
    if (str_eq(s->target, STR("FUNCTION")) || str_eq(s->target, STR("AGGREGATE")))
        buf_put_be16(out, ARGUMENTS);
}

void node_put_event(struct buf *out, const struct cql_event *e)
{
    if (e->kind == CQL_EVENT_OTHER) {
        buf_put_str16(out, e->change);
        node_put_string(out, "of a newer server");
    } else if (e->kind == CQL_EVENT_SCHEMA) {
        node_put_string(out, "SCHEMA_CHANGE");
        node_put_schema(out, &e->schema);
    } else {
        node_put_string(out, e->kind == CQL_EVENT_TOPOLOGY ? "TOPOLOGY_CHANGE" : "STATUS_CHANGE");
        buf_put_str16(out, e->change);
        put_address(out, e->address);
        buf_put_be32(out, (uint32_t)e->port);
    }
}
