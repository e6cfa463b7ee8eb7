/* client_say.c - outcomes, rows and figures of the client as JSON, each cell by its type: whole
 * numbers, truths and floats as such, text and uuids and addresses as strings, lists, sets, tuples
 * and maps (keys and values in turn) as lists, a user type as an object, all else as "0x...". */
#include "client.h"

#include <math.h>

static void say_hex(struct buf *out, const void *at, size_t n)
{
    static const char digits[] = "0123456789abcdef";
    const unsigned char *p = at;
    for (size_t i = 0; i < n; i++) {
        buf_put_c(out, digits[p[i] >> 4]);
        buf_put_c(out, digits[p[i] & 15]);
    }
}

void say_text(struct buf *out, str text)
{
    buf_put_c(out, '"');
    for (size_t i = 0; i < text.n; i++) {
        unsigned char b = (unsigned char)text.p[i];
        if (b == '"' || b == '\\')
            buf_printf(out, "\\%c", b);
        else if (b < ' ')
            buf_printf(out, "\\u%04x", b);
        else
            buf_put_c(out, (char)b);
    }
    buf_put_c(out, '"');
}

static void say_cell(struct buf *out, const struct cql_cell *cell);

static void say_items(struct buf *out, const struct cql_cell *cell)
{
    struct cql_items items;
    if (!cql_get_items(cell, &items)) {
        buf_put(out, STR("{\"unreadable\":true}"));
        return;
    }
    bool first = true;
    struct cql_cell item;
    buf_put_c(out, items.named ? '{' : '[');
    while (cql_items_next(&items, &item)) {
        if (!first)
            buf_put_c(out, ',');
        first = false;
        if (items.named) {
            say_text(out, item.column->name);
            buf_put_c(out, ':');
        }
        say_cell(out, &item);
    }
    buf_put_c(out, items.named ? '}' : ']');
    if (items.rest.failed)
        buf_put(out, STR(",\"broken\""));
}

static void say_uuid(struct buf *out, const unsigned char *at)
{
    static const unsigned parts[] = { 4, 2, 2, 2, 6 };
    buf_put_c(out, '"');
    for (unsigned i = 0; i < COUNT_OF(parts); at += parts[i++]) {
        if (i > 0)
            buf_put_c(out, '-');
        say_hex(out, at, parts[i]);
    }
    buf_put_c(out, '"');
}

/* The types that have a getter of their own. False: cell is of none, or holds no such value. */
static bool say_known(struct buf *out, const struct cql_cell *cell)
{
    int64_t n;
    bool on;
    double d;
    const unsigned char *uuid;
    int32_t days;
    char inet[46];
    str text;
    if (cql_get_i64(cell, &n))
        buf_printf(out, "%lld", (long long)n);
    else if (cql_get_bool(cell, &on))
        buf_printf(out, "%s", on ? "true" : "false");
    else if (cql_get_double(cell, &d))
        buf_printf(out, isfinite(d) ? "%.17g" : "\"%f\"", d);
    else if (cql_get_uuid(cell, &uuid))
        say_uuid(out, uuid);
    else if (cql_get_date(cell, &days))
        buf_printf(out, "%d", (int)days);
    else if (cql_get_inet(cell, inet))
        say_text(out, str_of(inet));
    else if ((cell->column->spec.type == CQL_TEXT || cell->column->spec.type == CQL_ASCII) &&
             cql_get_bytes(cell, &text))
        say_text(out, text);
    else
        return false;
    return true;
}

static void say_cell(struct buf *out, const struct cql_cell *cell)
{
    enum cql_type type = cell->column->spec.type;
    str bytes;
    if (cell->null)
        buf_put(out, STR("null"));
    else if (type == CQL_LIST || type == CQL_SET || type == CQL_MAP || type == CQL_TUPLE ||
             type == CQL_UDT)
        say_items(out, cell);
    else if (!say_known(out, cell) && cql_get_bytes(cell, &bytes)) {
        buf_put(out, STR("\"0x"));
        say_hex(out, bytes.p, bytes.n);
        buf_put_c(out, '"');
    }
}

static void say_columns(struct buf *out, const struct cql_columns *columns)
{
    buf_put(out, STR(",\"columns\":["));
    for (unsigned i = 0; i < columns->count; i++) {
        struct buf type;
        buf_init(&type, 4096);
        cql_spec_print(&columns->at[i].spec, &type);
        buf_put(out, i > 0 ? STR(",[") : STR("["));
        say_text(out, columns->at[i].name);
        buf_put_c(out, ',');
        say_text(out, buf_str(&type));
        buf_put_c(out, ']');
        buf_fini(&type);
    }
    buf_put(out, STR("]"));
}

static void say_rows(struct buf *out, struct cql_rows rows)
{
    if (rows.columns == NULL)
        return;
    say_columns(out, rows.columns);
    buf_printf(out, ",\"count\":%u,\"more\":%s,\"state\":\"", rows.count,
               rows.more ? "true" : "false");
    say_hex(out, rows.page_state.p, rows.page_state.n);
    buf_put(out, STR("\",\"rows\":["));
    struct cql_cell cells[64];
    bool first = true;
    while (rows.columns->count <= COUNT_OF(cells) && cql_rows_next(&rows, cells)) {
        buf_put(out, first ? STR("[") : STR(",["));
        first = false;
        for (unsigned i = 0; i < rows.columns->count; i++) {
            if (i > 0)
                buf_put_c(out, ',');
            say_cell(out, &cells[i]);
        }
        buf_put_c(out, ']');
    }
    buf_put(out, rows.rest.failed || rows.left > 0 ? STR("],\"broken\":true") : STR("]"));
}

void say_outcome(struct buf *out, const char *id, struct cql_request *q)
{
    const struct cql_outcome *o = &q->out;
    buf_put(out, STR("{\"id\":"));
    say_text(out, str_of(id));
    buf_printf(out,
               ",\"why\":\"%s\",\"unknown\":%s,\"code\":%d,\"sent\":%u,\"node\":", err_name(o->why),
               o->unknown ? "true" : "false", (int)o->code, o->sent);
    say_text(out, str_of(o->node));
    buf_put(out, STR(",\"note\":"));
    say_text(out, o->why == ERR_OK ? STR("") : str_of(o->note.text));
    if (o->traced) {
        buf_put(out, STR(",\"trace\":"));
        say_uuid(out, o->trace);
    }
    say_rows(out, o->rows);
    buf_put(out, STR("}"));
}

void say_stats(struct buf *out, const char *id, const struct cql *c)
{
    struct cql_stats s;
    cql_stats(c, &s);
    const struct {
        const char *name;
        unsigned long long figure;
    } figures[] = {
        { "version", s.version },
        { "control", s.control },
        { "executes", s.requests[CQL_WAY_EXECUTE] },
        { "batches", s.requests[CQL_WAY_BATCH] },
        { "texts", s.requests[CQL_WAY_TEXT] },
        { "failed", s.failed },
        { "refused", s.refused },
        { "timeouts", s.timeouts },
        { "retries", s.retries },
        { "speculated", s.speculated },
        { "speculated_won", s.speculated_won },
        { "prepared", s.prepared },
        { "prepared_again", s.prepared_again },
        { "connects", s.connects },
        { "lost", s.lost },
        { "warnings", s.warnings },
        { "refreshes", s.refreshes },
        { "bytes_sent", s.bytes_sent },
        { "bytes_received", s.bytes_received },
        { "in_flight", s.in_flight },
        { "waiting", s.waiting },
        { "p99_ns", (unsigned long long)s.p99_ns },
        { "nodes", s.nodes_count },
    };
    buf_put(out, STR("{\"id\":"));
    say_text(out, str_of(id));
    for (unsigned i = 0; i < COUNT_OF(figures); i++)
        buf_printf(out, ",\"%s\":%llu", figures[i].name, figures[i].figure);
    buf_put_c(out, '}');
}

void say_nodes(struct buf *out, const char *id, const struct cql *c)
{
    static struct cql_node_stats nodes[64];
    unsigned count = cql_nodes(c, nodes, COUNT_OF(nodes));
    buf_put(out, STR("{\"id\":"));
    say_text(out, str_of(id));
    buf_put(out, STR(",\"nodes\":["));
    for (unsigned i = 0; i < count && i < COUNT_OF(nodes); i++) {
        const struct cql_node_stats *n = &nodes[i];
        buf_printf(out,
                   "%s{\"node\":\"%s\",\"dc\":\"%s\",\"release\":\"%s\",\"local\":%s,\"up\":%s,"
                   "\"slow\":%s,\"connections\":%u,\"in_flight\":%u,\"waiting\":%u}",
                   i > 0 ? "," : "", n->node, n->dc, n->release, n->local ? "true" : "false",
                   n->up ? "true" : "false", n->slow ? "true" : "false", n->connections,
                   n->in_flight, n->waiting);
    }
    buf_put(out, STR("]}"));
}
