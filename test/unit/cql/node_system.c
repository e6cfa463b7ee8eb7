/* node_system.c - the fake cluster's system tables, made from what its nodes are when they are
 * asked. */
#include "unit/cql/node_impl.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>

enum cell {
    CELL_KEY,
    CELL_CLUSTER,
    CELL_DC,
    CELL_RACK,
    CELL_HOST_ID,
    CELL_TOKENS,
    CELL_ADDRESS, /* for clients */
    CELL_PORT,
    CELL_PEER, /* for nodes */
    CELL_PEER_PORT,
    CELL_PARTITIONER,
    CELL_RELEASE,
    CELL_SCHEMA,
    CELL_CQL,
    CELL_NATIVE,
    CELL_BOOTSTRAPPED,
    CELL_KEYSPACE,
    CELL_DURABLE,
    CELL_REPLICATION,
};
enum { PEER_PORT = 7000, COLUMNS_MAX = 16 };
struct column {
    str name;
    const char *type;
    enum cell cell;
};

static const struct {
    str name;
    struct column columns[COLUMNS_MAX + 1];
} tables[TABLES] = {
    [TABLE_LOCAL] = { STR_INIT("system.local"),
                      { { STR_INIT("key"), "text", CELL_KEY },
                        { STR_INIT("bootstrapped"), "text", CELL_BOOTSTRAPPED },
                        { STR_INIT("broadcast_address"), "inet", CELL_PEER },
                        { STR_INIT("cluster_name"), "text", CELL_CLUSTER },
                        { STR_INIT("cql_version"), "text", CELL_CQL },
                        { STR_INIT("data_center"), "text", CELL_DC },
                        { STR_INIT("host_id"), "uuid", CELL_HOST_ID },
                        { STR_INIT("listen_address"), "inet", CELL_PEER },
                        { STR_INIT("native_protocol_version"), "text", CELL_NATIVE },
                        { STR_INIT("partitioner"), "text", CELL_PARTITIONER },
                        { STR_INIT("rack"), "text", CELL_RACK },
                        { STR_INIT("release_version"), "text", CELL_RELEASE },
                        { STR_INIT("rpc_address"), "inet", CELL_ADDRESS },
                        { STR_INIT("rpc_port"), "int", CELL_PORT },
                        { STR_INIT("schema_version"), "uuid", CELL_SCHEMA },
                        { STR_INIT("tokens"), "set<text>", CELL_TOKENS },
                        { STR_INIT(""), NULL, CELL_KEY } } },
    [TABLE_PEERS] = { STR_INIT("system.peers"),
                      { { STR_INIT("peer"), "inet", CELL_PEER },
                        { STR_INIT("data_center"), "text", CELL_DC },
                        { STR_INIT("host_id"), "uuid", CELL_HOST_ID },
                        { STR_INIT("preferred_ip"), "inet", CELL_PEER },
                        { STR_INIT("rack"), "text", CELL_RACK },
                        { STR_INIT("release_version"), "text", CELL_RELEASE },
                        { STR_INIT("rpc_address"), "inet", CELL_ADDRESS },
                        { STR_INIT("schema_version"), "uuid", CELL_SCHEMA },
                        { STR_INIT("tokens"), "set<text>", CELL_TOKENS },
                        { STR_INIT(""), NULL, CELL_KEY } } },
    [TABLE_PEERS_V2] = { STR_INIT("system.peers_v2"),
                         { { STR_INIT("peer"), "inet", CELL_PEER },
                           { STR_INIT("peer_port"), "int", CELL_PEER_PORT },
                           { STR_INIT("data_center"), "text", CELL_DC },
                           { STR_INIT("host_id"), "uuid", CELL_HOST_ID },
                           { STR_INIT("native_address"), "inet", CELL_ADDRESS },
                           { STR_INIT("native_port"), "int", CELL_PORT },
                           { STR_INIT("preferred_ip"), "inet", CELL_PEER },
                           { STR_INIT("preferred_port"), "int", CELL_PEER_PORT },
                           { STR_INIT("rack"), "text", CELL_RACK },
                           { STR_INIT("release_version"), "text", CELL_RELEASE },
                           { STR_INIT("schema_version"), "uuid", CELL_SCHEMA },
                           { STR_INIT("tokens"), "set<text>", CELL_TOKENS },
                           { STR_INIT(""), NULL, CELL_KEY } } },
    [TABLE_KEYSPACES] = { STR_INIT("system_schema.keyspaces"),
                          { { STR_INIT("keyspace_name"), "text", CELL_KEYSPACE },
                            { STR_INIT("durable_writes"), "boolean", CELL_DURABLE },
                            { STR_INIT("replication"), "frozen<map<text, text>>",
                              CELL_REPLICATION },
                            { STR_INIT(""), NULL, CELL_KEY } } },
};

bool node_system_find(str name, enum node_table *out)
{
    for (unsigned t = 0; t < TABLES; t++)
        if (str_eq_nocase(tables[t].name, name)) {
            *out = (enum node_table)t;
            return true;
        }
    return false;
}

static const struct column *column_find(enum node_table table, str name)
{
    for (const struct column *k = tables[table].columns; k->type != NULL; k++)
        if (str_eq_nocase(k->name, name))
            return k;
    return NULL;
}

static bool wants_all(str text)
{
    return str_eq(node_select_list(text), STR("*"));
}

/* Cassandra 3 has no ports of nodes in its tables. */
static bool column_refused(const struct node_cluster *c, const struct column *k)
{
    return k == NULL || (c->opts.no_peers_v2 && k->cell == CELL_PORT);
}

static void plan_refuse(struct node_cluster *c, struct node_plan *plan, const char *what, str name)
{
    char text[128];
    (void)snprintf(text, sizeof text, "%s %.*s", what, STR_ARG(name));
    plan->code = CQL_INVALID;
    plan->message = node_keep(c, str_of(text));
}

/* WHERE key = ?: of the partition key, which is text. */
static void plan_marker(struct node_cluster *c, struct node_plan *plan)
{
    char marker[NODE_NAME_BYTES];
    if (plan->markers.count != 1)
        return;
    str rest = str_skip(plan->text, node_find(plan->text, "WHERE") + sizeof "WHERE");
    str name = str_trim(str_take(rest, str_find(rest, '=')));
    const struct column *k = column_find(plan->system, name);
    if (k == NULL)
        return;
    (void)snprintf(marker, sizeof marker, "%.*s %s", STR_ARG(name), k->type);
    plan->markers = node_shape_of(c, marker);
    plan->partition_count = 1;
}

void node_system_plan(struct node_cluster *c, struct node_plan *plan)
{
    struct buf shape;
    if (plan->system == TABLE_PEERS_V2 && c->opts.no_peers_v2) {
        plan_refuse(c, plan, "unconfigured table", str_of(plan->table));
        return;
    }
    buf_init(&shape, NODE_BYTES_MAX);
    if (wants_all(plan->text))
        for (const struct column *k = tables[plan->system].columns; k->type != NULL; k++)
            if (!column_refused(c, k))
                buf_printf(&shape, "%.*s %s, ", STR_ARG(k->name), k->type);
    for (str rest = wants_all(plan->text) ? STR_NONE : node_select_list(plan->text); rest.n > 0;) {
        str name = node_list_next(&rest, ',');
        const struct column *k = column_find(plan->system, name);
        if (column_refused(c, k)) {
            plan_refuse(c, plan, "Undefined column name", name);
            break;
        }
        buf_printf(&shape, "%.*s %s, ", STR_ARG(k->name), k->type);
    }
    if (plan->code == 0) {
        buf_put_c(&shape, '\0');
        shape.p[shape.n >= 3 ? shape.n - 3 : 0] = '\0'; /* the last comma */
        plan->columns = node_shape_of(c, shape.p);
        plan->has_columns = true;
        plan_marker(c, plan);
    }
    buf_fini(&shape);
}

/* ---- cells ---- */

static void cell_put(struct buf *out, str value)
{
    buf_put_be32(out, (uint32_t)value.n);
    buf_put(out, value);
}

static void cell_put_text(struct buf *out, const char *s)
{
    cell_put(out, str_of(s));
}

static void cell_put_int(struct buf *out, uint32_t n)
{
    buf_put_be32(out, 4);
    buf_put_be32(out, n);
}

static void uuid_of(uint64_t number, unsigned char out[CQL_UUID_BYTES])
{
    put_be64(out, 0x5ca1ab1e00004000u);
    put_be64(out + 8, 0x8000000000000000u | number);
}

static void cell_put_uuid(struct buf *out, uint64_t number)
{
    unsigned char uuid[CQL_UUID_BYTES];
    uuid_of(number, uuid);
    cell_put(out, (str){ .p = (const char *)uuid, .n = sizeof uuid });
}

static void cell_put_inet(struct buf *out, const char *address)
{
    char bytes[16];
    if (inet_pton(AF_INET, address, bytes) == 1) {
        cell_put(out, (str){ .p = bytes, .n = 4 });
        return;
    }
    INVARIANT(inet_pton(AF_INET6, address, bytes) == 1);
    cell_put(out, (str){ .p = bytes, .n = 16 });
}

static void cell_put_tokens(struct buf *out, const struct node *n)
{
    size_t at = out->n;
    buf_put_be32(out, 0);
    buf_put_be32(out, n->tokens_count);
    for (unsigned i = 0; i < n->tokens_count; i++) {
        char text[32];
        (void)snprintf(text, sizeof text, "%lld", (long long)n->tokens[i]);
        cell_put_text(out, text);
    }
    put_be32(out->p + at, (uint32_t)(out->n - at - 4));
}

static void cell_put_replication(struct buf *out, const char *pairs)
{
    size_t at = out->n;
    uint32_t count = 0;
    buf_put_be64(out, 0); /* bytes and count */
    for (str rest = str_of(pairs); rest.n > 0; count++) {
        str value = node_list_next(&rest, ','), key = str_split(&value, '=');
        char text[128];
        bool bare = str_eq(key, STR("class")) && str_find(value, '.') == value.n;
        (void)snprintf(text, sizeof text, "%s%.*s", bare ? "org.apache.cassandra.locator." : "",
                       STR_ARG(value));
        cell_put(out, key);
        cell_put_text(out, text);
    }
    put_be32(out->p + at, (uint32_t)(out->n - at - 4));
    put_be32(out->p + at + 4, count);
}

static const char *node_address(const struct node *n)
{
    return n->address[0] == '\0' ? n->host : n->address;
}

static bool node_hides(const struct node *n, str column)
{
    for (str rest = str_of(n->nulls); rest.n > 0;)
        if (str_eq_nocase(node_list_next(&rest, ','), column))
            return true;
    return false;
}

static void node_cell(struct buf *out, const struct node *n, enum cell cell)
{
    static const struct {
        enum cell cell;
        const char *text;
    } fixed[] = { { CELL_KEY, "local" },
                  { CELL_CLUSTER, "fake" },
                  { CELL_PARTITIONER, "org.apache.cassandra.dht.Murmur3Partitioner" },
                  { CELL_CQL, "3.4.7" },
                  { CELL_BOOTSTRAPPED, "COMPLETED" } };
    for (size_t i = 0; i < COUNT_OF(fixed); i++)
        if (fixed[i].cell == cell)
            cell_put_text(out, fixed[i].text);
    if (cell == CELL_NATIVE)
        cell_put_text(out, n->version_max >= 5 ? "5" : "4");
    else if (cell == CELL_DC)
        cell_put_text(out, n->dc);
    else if (cell == CELL_RACK)
        cell_put_text(out, n->rack);
    else if (cell == CELL_RELEASE)
        cell_put_text(out, n->release);
    else if (cell == CELL_HOST_ID)
        cell_put_uuid(out, n->host_number);
    else if (cell == CELL_SCHEMA)
        cell_put_uuid(out, n->schema << 32);
    else if (cell == CELL_TOKENS)
        cell_put_tokens(out, n);
    else if (cell == CELL_ADDRESS)
        cell_put_inet(out, node_address(n));
    else if (cell == CELL_PEER)
        cell_put_inet(out, n->host);
    else if (cell == CELL_PORT)
        cell_put_int(out, n->port == 0 ? ntohs(n->at.sin_port) : n->port);
    else if (cell == CELL_PEER_PORT)
        cell_put_int(out, PEER_PORT);
}

static void keyspace_cell(struct buf *out, const struct node_keyspace_row *k, enum cell cell)
{
    if (cell == CELL_KEYSPACE)
        cell_put_text(out, k->name);
    else if (cell == CELL_DURABLE)
        cell_put(out, STR("\1"));
    else
        cell_put_replication(out, k->replication);
}

/* ---- rows ---- */

static void row_cell(struct buf *out, const struct node *n, const struct node_keyspace_row *k,
                     const struct column *column)
{
    if (k != NULL)
        keyspace_cell(out, k, column->cell);
    else if (node_hides(n, column->name))
        buf_put_be32(out, UINT32_MAX);
    else
        node_cell(out, n, column->cell);
}

static void row_put(struct node_cluster *c, const struct node_plan *plan, struct buf *out,
                    const struct node *n, const struct node_keyspace_row *k)
{
    if (wants_all(plan->text)) {
        for (const struct column *column = tables[plan->system].columns; column->type != NULL;
             column++)
            if (!column_refused(c, column))
                row_cell(out, n, k, column);
        return;
    }
    for (str rest = node_select_list(plan->text); rest.n > 0;)
        row_cell(out, n, k, column_find(plan->system, node_list_next(&rest, ',')));
}

/* WHERE keyspace_name = 'x' or ?; no such condition: all. */
static bool keyspace_wanted(const struct node_plan *plan, const struct node_request *r,
                            const char *name)
{
    size_t at = node_find(plan->text, "WHERE");
    if (at == plan->text.n)
        return true;
    str wanted = str_trim(str_skip(plan->text, at + str_find(str_skip(plan->text, at), '=') + 1));
    if (wanted.n > 0 && wanted.p[0] == '?')
        return r->values_count > 0 && str_eq(node_value(r, 0), str_of(name));
    wanted = str_skip(wanted, 1);
    return str_eq(str_take(wanted, str_find(wanted, '\'')), str_of(name));
}

void node_system_rows(struct node_cluster *c, unsigned node, const struct node_plan *plan,
                      const struct node_request *r, struct buf *cells)
{
    if (plan->system == TABLE_LOCAL)
        row_put(c, plan, cells, &c->nodes[node], NULL);
    else if (plan->system == TABLE_KEYSPACES)
        for (unsigned i = 0; i < c->keyspaces_count; i++) {
            if (keyspace_wanted(plan, r, c->keyspaces[i].name))
                row_put(c, plan, cells, NULL, &c->keyspaces[i]);
        }
    else
        for (unsigned i = 0; i < c->count; i++)
            if (i != node && !c->nodes[i].absent)
                row_put(c, plan, cells, &c->nodes[i], NULL);
}

/* ---- what the cluster is ---- */

static void text_set(char *out, size_t size, const char *text)
{
    if (text != NULL)
        INVARIANT(str_to_cstr(str_of(text), out, size));
}

void node_describe(struct node_cluster *c, unsigned node, const struct node_about *about)
{
    node_lock(c);
    struct node *n = node_of(c, (int)node);
    text_set(n->dc, sizeof n->dc, about->dc);
    text_set(n->rack, sizeof n->rack, about->rack);
    text_set(n->release, sizeof n->release, about->release);
    text_set(n->address, sizeof n->address, about->address);
    text_set(n->nulls, sizeof n->nulls, about->nulls);
    if (about->address != NULL || about->port != 0)
        n->port = about->port;
    if (about->schema != 0)
        n->schema = about->schema;
    if (about->host != 0)
        n->host_number = about->host;
    INVARIANT(about->tokens_count <= NODE_TOKENS_MAX);
    for (unsigned i = 0; i < about->tokens_count; i++)
        n->tokens[i] = about->tokens[i];
    if (about->tokens_count > 0)
        n->tokens_count = about->tokens_count;
    if (about->presence != NODE_AS_BEFORE)
        n->absent = about->presence == NODE_ABSENT;
    node_unlock(c);
}

void node_keyspace(struct node_cluster *c, const char *name, const char *replication)
{
    node_lock(c);
    unsigned i = 0;
    while (i < c->keyspaces_count && !str_eq(str_of(c->keyspaces[i].name), str_of(name)))
        i++;
    if (replication == NULL) {
        if (i < c->keyspaces_count)
            c->keyspaces[i] = c->keyspaces[--c->keyspaces_count];
    } else {
        INVARIANT(i < NODE_KEYSPACES_MAX);
        if (i == c->keyspaces_count)
            c->keyspaces_count++;
        text_set(c->keyspaces[i].name, sizeof c->keyspaces[i].name, name);
        text_set(c->keyspaces[i].replication, sizeof c->keyspaces[i].replication, replication);
    }
    node_unlock(c);
}

const char *node_host(struct node_cluster *c, unsigned node)
{
    return node_of(c, (int)node)->host; /* never changes */
}

uint16_t node_port(struct node_cluster *c, unsigned node)
{
    node_lock(c);
    uint16_t port = ntohs(node_of(c, (int)node)->at.sin_port);
    node_unlock(c);
    return port;
}

void node_host_id(struct node_cluster *c, unsigned node, unsigned char out[CQL_UUID_BYTES])
{
    node_lock(c);
    uuid_of(node_of(c, (int)node)->host_number, out);
    node_unlock(c);
}

int64_t node_token(struct node_cluster *c, unsigned node, unsigned index)
{
    node_lock(c);
    const struct node *n = node_of(c, (int)node);
    INVARIANT(index < n->tokens_count);
    int64_t token = n->tokens[index];
    node_unlock(c);
    return token;
}
