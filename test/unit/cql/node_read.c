/* node_read.c - the bodies of requests to the fake cluster, read apart from the client's codec and
 * more strictly than Cassandra reads them: bytes left over are a fault too. */
#include "unit/cql/node_impl.h"

enum {
    PARAM_VALUES = 0x01,
    PARAM_SKIP = 0x02,
    PARAM_PAGE_ROWS = 0x04,
    PARAM_PAGE_STATE = 0x08,
    PARAM_SERIAL = 0x10,
    PARAM_TIMESTAMP = 0x20,
    PARAM_NAMES = 0x40,
    PARAM_KEYSPACE = 0x80,
    PARAM_NOW = 0x100,
    PARAMS_V4 = 0x7f,
    PARAMS_V5 = 0x1ff,
    PARAMS_BATCH = PARAM_SERIAL | PARAM_TIMESTAMP | PARAM_KEYSPACE | PARAM_NOW,
};

struct reading {
    struct node_conn *conn;
    struct cursor in;
    struct node_request *r;
    struct node_read *out;
    const char *wrong; /* the first thing */
};

static void wrong(struct reading *g, const char *what)
{
    if (g->wrong == NULL)
        g->wrong = what;
}

static str read_str32(struct reading *g)
{
    return cursor_bytes(&g->in, cursor_be32(&g->in));
}

/* [value]s, as they stand. */
static str read_values(struct reading *g, unsigned count)
{
    str from = g->in.rest;
    for (unsigned i = 0; i < count; i++) {
        int32_t n = (int32_t)cursor_be32(&g->in);
        if (n > 0)
            (void)cursor_bytes(&g->in, (size_t)n);
        if (n < -2)
            wrong(g, "a value whose length is below -2");
    }
    return g->in.failed ? STR_NONE : str_take(from, from.n - g->in.rest.n);
}

static unsigned read_flags(struct reading *g, unsigned allowed)
{
    bool old = g->conn->version < 5;
    unsigned flags = old ? cursor_u8(&g->in) : cursor_be32(&g->in);
    if ((flags & ~(allowed & (old ? PARAMS_V4 : PARAMS_V5))) != 0)
        wrong(g, "flags of parameters that there are not");
    if ((flags & PARAM_NAMES) != 0)
        wrong(g, "values by name");
    return flags;
}

static enum cql_consistency read_consistency(struct reading *g)
{
    unsigned c = cursor_be16(&g->in);
    if (c >= CQL_CONSISTENCIES)
        wrong(g, "a consistency that there is not");
    return c >= CQL_CONSISTENCIES ? CQL_ANY : (enum cql_consistency)c;
}

/* What QUERY, EXECUTE and BATCH have in common behind values and pages. */
static void read_params_end(struct reading *g)
{
    struct node_request *r = g->r;
    if ((r->params & PARAM_SERIAL) != 0) {
        r->serial = read_consistency(g);
        if (r->serial != CQL_SERIAL && r->serial != CQL_LOCAL_SERIAL)
            wrong(g, "a serial consistency that is none");
    }
    if ((r->params & PARAM_TIMESTAMP) != 0) {
        r->timestamp_us = (int64_t)cursor_be64(&g->in);
        if (r->timestamp_us == INT64_MIN)
            wrong(g, "a timestamp out of bounds");
    }
    if ((r->params & PARAM_KEYSPACE) != 0)
        r->keyspace = cursor_str16(&g->in);
    if ((r->params & PARAM_NOW) != 0)
        r->now_s = (int32_t)cursor_be32(&g->in);
}

static void read_params(struct reading *g)
{
    struct node_request *r = g->r;
    r->consistency = read_consistency(g);
    r->params = read_flags(g, PARAMS_V5);
    if ((r->params & PARAM_VALUES) != 0) {
        r->values_count = cursor_be16(&g->in);
        r->values = read_values(g, r->values_count);
    }
    r->skip_columns = (r->params & PARAM_SKIP) != 0;
    if ((r->params & PARAM_PAGE_ROWS) != 0) {
        r->page_rows = (int32_t)cursor_be32(&g->in);
        if (r->page_rows <= 0)
            wrong(g, "a page of no rows");
    }
    if ((r->params & PARAM_PAGE_STATE) != 0)
        r->page_state = read_str32(g);
    read_params_end(g);
}

/* values: of the statement that has this text. */
static void check_values(struct reading *g, str text, unsigned values)
{
    const struct node_plan *plan = node_plan(g->conn->cluster, text);
    if (plan->markers.count != values)
        g->out->values_unfit = true;
}

static str *prepared_text(struct reading *g, str id)
{
    return map_get(g->conn->cluster->nodes[g->conn->node].prepared, id);
}

static void read_query(struct reading *g)
{
    g->r->text = read_str32(g);
    read_params(g);
    if (!g->in.failed)
        check_values(g, g->r->text, g->r->values_count);
}

static void read_prepare(struct reading *g)
{
    g->r->text = read_str32(g);
    if (g->conn->version < 5)
        return;
    g->r->params = cursor_be32(&g->in);
    if ((g->r->params & ~1u) != 0)
        wrong(g, "flags of PREPARE that there are not");
    if ((g->r->params & 1) != 0)
        g->r->keyspace = cursor_str16(&g->in);
}

static void read_execute(struct reading *g)
{
    g->r->id = cursor_str16(&g->in);
    if (g->conn->version >= 5)
        g->r->columns_id = cursor_str16(&g->in);
    read_params(g);
    const str *text = g->in.failed ? NULL : prepared_text(g, g->r->id);
    if (text == NULL) {
        g->out->unknown_id = g->r->id;
        return;
    }
    g->r->text = *text;
    check_values(g, *text, g->r->values_count);
}

static void read_batch_statement(struct reading *g, struct buf *texts, struct buf *values)
{
    unsigned kind = cursor_u8(&g->in);
    str id = STR_NONE, text = STR_NONE;
    if (kind > 1)
        wrong(g, "a statement of a batch that is neither text nor prepared");
    if (kind == 0)
        text = read_str32(g);
    else
        id = cursor_str16(&g->in);
    unsigned count = cursor_be16(&g->in);
    buf_put(values, read_values(g, count));
    g->r->values_count += count;
    const str *known = kind == 1 && !g->in.failed ? prepared_text(g, id) : NULL;
    if (kind == 1 && g->r->id.n == 0)
        g->r->id = id;
    if (kind == 1 && known == NULL && g->out->unknown_id.n == 0)
        g->out->unknown_id = id;
    if (known != NULL)
        text = *known;
    if (text.n > 0)
        check_values(g, text, count);
    buf_printf(texts, "%s%.*s", texts->n == 0 ? "" : "; ", STR_ARG(text));
}

static void read_batch(struct reading *g)
{
    struct node_request *r = g->r;
    struct buf texts, values;
    buf_init(&texts, NODE_BYTES_MAX);
    buf_init(&values, NODE_BYTES_MAX);
    unsigned kind = cursor_u8(&g->in);
    if (kind > CQL_COUNTERS)
        wrong(g, "a batch of a kind that there is not");
    r->batch = (enum cql_batch_kind)kind;
    r->statements = cursor_be16(&g->in);
    for (unsigned i = 0; i < r->statements && !g->in.failed; i++)
        read_batch_statement(g, &texts, &values);
    r->consistency = read_consistency(g);
    r->params = read_flags(g, PARAMS_BATCH);
    read_params_end(g);
    r->text = node_keep(g->conn->cluster, buf_str(&texts));
    r->values = node_keep(g->conn->cluster, buf_str(&values));
    buf_fini(&texts);
    buf_fini(&values);
}

/* STARTUP's pairs or REGISTER's list, as one text. */
static void read_list(struct reading *g, bool pairs)
{
    struct buf text;
    buf_init(&text, NODE_BYTES_MAX);
    unsigned count = cursor_be16(&g->in);
    for (unsigned i = 0; i < count && !g->in.failed; i++) {
        str name = cursor_str16(&g->in);
        buf_printf(&text, "%s%.*s", i == 0 ? "" : ", ", STR_ARG(name));
        if (!pairs)
            continue;
        str value = cursor_str16(&g->in);
        buf_printf(&text, "=%.*s", STR_ARG(value));
    }
    g->r->text = node_keep(g->conn->cluster, buf_str(&text));
    buf_fini(&text);
}

static void read_payload(struct reading *g)
{
    str from = g->in.rest;
    unsigned count = cursor_be16(&g->in);
    for (unsigned i = 0; i < count; i++) {
        (void)cursor_str16(&g->in);
        int32_t n = (int32_t)cursor_be32(&g->in);
        if (n > 0)
            (void)cursor_bytes(&g->in, (size_t)n);
    }
    g->r->payload = str_take(from, from.n - g->in.rest.n);
}

const char *node_read(struct node_conn *conn, str body, struct node_request *r,
                      struct node_read *out)
{
    struct reading g = { .conn = conn, .in = { .rest = body }, .r = r, .out = out };
    if ((r->head.flags & CQL_FLAG_PAYLOAD) != 0)
        read_payload(&g);
    if (r->op == CQL_OP_STARTUP || r->op == CQL_OP_REGISTER)
        read_list(&g, r->op == CQL_OP_STARTUP);
    else if (r->op == CQL_OP_AUTH_RESPONSE)
        r->text = read_str32(&g);
    else if (r->op == CQL_OP_QUERY)
        read_query(&g);
    else if (r->op == CQL_OP_PREPARE)
        read_prepare(&g);
    else if (r->op == CQL_OP_EXECUTE)
        read_execute(&g);
    else if (r->op == CQL_OP_BATCH)
        read_batch(&g);
    else if (r->op != CQL_OP_OPTIONS)
        return "an opcode that is no request's";
    if (!cursor_done(&g.in))
        wrong(&g, g.in.failed ? "a body that is cut" : "bytes behind a body");
    return g.wrong;
}
