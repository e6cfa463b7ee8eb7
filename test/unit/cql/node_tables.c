/* node_tables.c - what the texts of statements mean to the fake cluster: their markers, columns and
 * rows, as the test told them, or guessed from the text. */
#include "base/hash.h"
#include "unit/cql/node_impl.h"

#include <stdio.h>
#include <string.h>

static const struct {
    str name;
    enum cql_type type;
} types[] = {
    { STR_INIT("ascii"), CQL_ASCII },       { STR_INIT("bigint"), CQL_BIGINT },
    { STR_INIT("blob"), CQL_BLOB },         { STR_INIT("boolean"), CQL_BOOLEAN },
    { STR_INIT("counter"), CQL_COUNTER },   { STR_INIT("decimal"), CQL_DECIMAL },
    { STR_INIT("double"), CQL_DOUBLE },     { STR_INIT("float"), CQL_FLOAT },
    { STR_INIT("int"), CQL_INT },           { STR_INIT("timestamp"), CQL_TIMESTAMP },
    { STR_INIT("uuid"), CQL_UUID },         { STR_INIT("text"), CQL_TEXT },
    { STR_INIT("varchar"), CQL_TEXT },      { STR_INIT("varint"), CQL_VARINT },
    { STR_INIT("timeuuid"), CQL_TIMEUUID }, { STR_INIT("inet"), CQL_INET },
    { STR_INIT("date"), CQL_DATE },         { STR_INIT("time"), CQL_TIME },
    { STR_INIT("smallint"), CQL_SMALLINT }, { STR_INIT("tinyint"), CQL_TINYINT },
    { STR_INIT("duration"), CQL_DURATION }, { STR_INIT("list"), CQL_LIST },
    { STR_INIT("set"), CQL_SET },           { STR_INIT("map"), CQL_MAP },
    { STR_INIT("tuple"), CQL_TUPLE },
};

/* ---- texts ---- */

size_t node_find(str text, const char *word)
{
    str w = str_of(word);
    for (size_t at = 0; at + w.n <= text.n; at++)
        if ((at == 0 || text.p[at - 1] <= ' ') &&
            str_eq_nocase(str_take(str_skip(text, at), w.n), w))
            return at;
    return text.n;
}

static bool starts_with(str text, const char *word)
{
    return node_find(text, word) == 0 && text.n > 0;
}

str node_list_next(str *rest, char sep)
{
    size_t n = 0;
    int depth = 0;
    for (; n < rest->n && (depth > 0 || rest->p[n] != sep); n++) {
        depth += rest->p[n] == '<' || rest->p[n] == '(';
        depth -= rest->p[n] == '>' || rest->p[n] == ')';
    }
    str item = str_trim(str_take(*rest, n));
    *rest = n < rest->n ? str_skip(*rest, n + 1) : STR_NONE;
    return item;
}

/* The word behind another, up to a blank, bracket or semicolon. */
static str word_behind(str text, const char *word)
{
    str rest = str_skip(text, node_find(text, word) + strlen(word));
    while (rest.n > 0 && rest.p[0] <= ' ')
        rest = str_skip(rest, 1);
    size_t n = 0;
    while (n < rest.n && rest.p[n] > ' ' && rest.p[n] != '(' && rest.p[n] != ';')
        n++;
    return str_take(rest, n);
}

static void name_set(char out[NODE_NAME_BYTES], str s)
{
    INVARIANT(str_to_cstr(s, out, NODE_NAME_BYTES));
}

/* ---- types ---- */

static void type_put(struct buf *out, str text)
{
    str inner = str_skip(text, str_find(text, '<') + 1);
    str name = str_trim(str_take(text, str_find(text, '<')));
    if (inner.n > 0)
        inner.n--; /* the closing one */
    if (str_eq_nocase(name, STR("frozen"))) {
        type_put(out, str_trim(inner));
        return;
    }
    size_t i = 0;
    while (i < COUNT_OF(types) && !str_eq_nocase(types[i].name, name))
        i++;
    INVARIANT(i < COUNT_OF(types));
    buf_put_be16(out, (uint16_t)types[i].type);
    unsigned count = 0;
    for (str rest = inner; rest.n > 0; count++)
        (void)node_list_next(&rest, ',');
    if (types[i].type == CQL_TUPLE)
        buf_put_be16(out, (uint16_t)count);
    while (inner.n > 0)
        type_put(out, node_list_next(&inner, ','));
}

static void shape_end(struct node_cluster *c, struct node_shape *shape, struct buf *bytes)
{
    shape->bytes = node_keep(c, buf_str(bytes));
    put_be64(shape->id, hash_of_str(shape->bytes, 1));
    put_be64(shape->id + 8, hash_of_str(shape->bytes, 2));
    buf_fini(bytes);
}

struct node_shape node_shape_of(struct node_cluster *c, const char *columns)
{
    struct node_shape shape = { .count = 0 };
    struct buf bytes;
    buf_init(&bytes, NODE_BYTES_MAX);
    for (str rest = str_of(columns); rest.n > 0; shape.count++) {
        str column = node_list_next(&rest, ',');
        size_t n = str_find(column, ' ');
        buf_put_str16(&bytes, str_take(column, n));
        type_put(&bytes, str_trim(str_skip(column, n)));
    }
    shape_end(c, &shape, &bytes);
    return shape;
}

/* ---- guesses ---- */

static struct node_shape markers_guess(struct node_cluster *c, str text)
{
    struct node_shape shape = { .count = 0 };
    struct buf bytes;
    bool quoted = false;
    buf_init(&bytes, NODE_BYTES_MAX);
    for (size_t i = 0; i < text.n; i++) {
        quoted ^= text.p[i] == '\'';
        if (text.p[i] != '?' || quoted)
            continue;
        char name[16];
        (void)snprintf(name, sizeof name, "m%u", shape.count++);
        buf_put_str16(&bytes, str_of(name));
        buf_put_be16(&bytes, CQL_BLOB);
    }
    shape_end(c, &shape, &bytes);
    return shape;
}

str node_select_list(str text)
{
    size_t from = node_find(text, "FROM");
    return from <= sizeof "SELECT" ? STR_NONE
                                   : str_trim(str_skip(str_take(text, from), sizeof "SELECT" - 1));
}

static void columns_guess(struct node_cluster *c, struct node_plan *plan)
{
    struct buf bytes;
    str rest = node_select_list(plan->text);
    if (str_eq(rest, STR("*")))
        return;
    buf_init(&bytes, NODE_BYTES_MAX);
    for (; rest.n > 0; plan->columns.count++) {
        str column = node_list_next(&rest, ',');
        size_t as = node_find(column, "AS ");
        buf_put_str16(&bytes, as < column.n ? str_trim(str_skip(column, as + 3)) : column);
        buf_put_be16(&bytes, CQL_BLOB);
    }
    shape_end(c, &plan->columns, &bytes);
    plan->has_columns = true;
}

static void plan_name(struct node_plan *plan, str name)
{
    size_t dot = str_find(name, '.');
    name_set(plan->keyspace, dot < name.n ? str_take(name, dot) : STR("ks"));
    str table = dot < name.n ? str_skip(name, dot + 1) : name;
    name_set(plan->table, table.n == 0 ? STR("t") : table);
}

/* CREATE TABLE IF NOT EXISTS ks.t (...) */
static void plan_schema(struct node_plan *plan)
{
    str text = plan->text;
    bool creates = starts_with(text, "CREATE"), drops = starts_with(text, "DROP");
    str target = word_behind(text, creates ? "CREATE" : drops ? "DROP" : "ALTER");
    bool keyspace = str_eq_nocase(target, STR("KEYSPACE"));
    str rest = str_skip(text, (size_t)(target.p - text.p) + target.n);
    const char *behind = node_find(rest, "NOT EXISTS") < rest.n  ? "NOT EXISTS"
                         : node_find(rest, "IF EXISTS") < rest.n ? "IF EXISTS"
                                                                 : "";
    str name = word_behind(rest, behind);
    plan->meaning = MEANS_SCHEMA;
    if (keyspace)
        name_set(plan->keyspace, name);
    else
        plan_name(plan, name);
    plan->change =
        (struct cql_schema_change){ .change = creates ? CQL_CHANGE_CREATED
                                              : drops ? CQL_CHANGE_DROPPED
                                                      : CQL_CHANGE_UPDATED,
                                    .target = keyspace                             ? STR("KEYSPACE")
                                              : str_eq_nocase(target, STR("TYPE")) ? STR("TYPE")
                                                                                   : STR("TABLE"),
                                    .keyspace = str_of(plan->keyspace),
                                    .name = keyspace ? STR_NONE : str_of(plan->table) };
}

static void plan_select(struct node_cluster *c, struct node_plan *plan)
{
    str name = word_behind(plan->text, "FROM");
    plan_name(plan, name);
    if (node_system_find(name, &plan->system)) {
        plan->meaning = MEANS_SYSTEM;
        node_system_plan(c, plan);
    } else if (str_starts(name, STR("system"))) {
        plan->code = CQL_INVALID;
        plan->message = STR("table does not exist");
    } else {
        columns_guess(c, plan);
    }
}

static void plan_fill(struct node_cluster *c, struct node_plan *plan)
{
    str text = plan->text;
    plan->markers = markers_guess(c, text);
    plan->columns = node_shape_of(c, ""); /* none have an id too */
    plan_name(plan, STR_NONE);
    if (starts_with(text, "SELECT")) {
        plan_select(c, plan);
    } else if (starts_with(text, "USE ")) {
        plan->meaning = MEANS_USE;
        name_set(plan->keyspace, word_behind(text, "USE "));
    } else if (starts_with(text, "CREATE") || starts_with(text, "ALTER") ||
               starts_with(text, "DROP")) {
        plan_schema(plan);
    } else if (starts_with(text, "INSERT") || starts_with(text, "UPDATE") ||
               starts_with(text, "DELETE")) {
        plan_name(plan, word_behind(text, starts_with(text, "INSERT")   ? "INTO"
                                          : starts_with(text, "UPDATE") ? "UPDATE"
                                                                        : "FROM"));
    }
}

static struct node_plan *plan_of(struct node_cluster *c, str text)
{
    struct node_plan *plan = c->plans;
    while (plan != NULL && !str_eq(plan->text, text))
        plan = plan->next;
    if (plan != NULL)
        return plan;
    plan = arena_calloc(&c->arena, 1, sizeof *plan);
    INVARIANT(plan != NULL);
    plan->text = node_keep(c, text);
    plan_fill(c, plan);
    plan->next = c->plans;
    return c->plans = plan;
}

const struct node_plan *node_plan(struct node_cluster *c, str text)
{
    return plan_of(c, text);
}

void node_statement(struct node_cluster *c, const struct node_statement *s)
{
    node_lock(c);
    struct node_plan *plan = plan_of(c, str_of(s->text));
    plan->meaning = MEANS_OTHER;
    plan->code = 0;
    if (s->markers != NULL)
        plan->markers = node_shape_of(c, s->markers);
    INVARIANT(s->partition_count <= NODE_PARTITION_MAX);
    memcpy(plan->partition, s->partition, sizeof plan->partition);
    plan->partition_count = s->partition_count;
    if (s->columns != NULL) {
        plan->columns = node_shape_of(c, s->columns);
        plan->has_columns = true;
    }
    plan->cells = s->rows == NULL ? STR_NONE : node_keep(c, buf_str(&s->rows->bytes));
    node_unlock(c);
}

unsigned char *node_id(struct node_cluster *c, unsigned node, str text,
                       unsigned char out[NODE_ID_BYTES])
{
    uint64_t seed = c->opts.ids_differ ? node + 1 : 0;
    put_be64(out, hash_of_str(text, seed));
    put_be64(out + 8, hash_of_str(text, ~seed));
    return out;
}
