/* cell.c - reads rows, their cells, and what a cell holds, where they lie in the answer. For the
 * client's callers.
 *
 * Nothing is copied. Each length is checked against the bytes that are left before it is used; a
 * negative length is null.
 * Invariant: a getter that returns false has not touched *out. */
#include "cql/value.h"

#include <arpa/inet.h>
#include <string.h>

enum { LENGTH_BYTES = 4 };

/* The bytes of a cell that has exactly n of them. NULL: it is null, or has other bytes than its
 * type says. */
static const char *cell_of(const struct cql_cell *c, size_t n)
{
    return c->null || c->bytes.n != n ? NULL : c->bytes.p;
}

/* Takes a cell of any type: a caller may read the bytes on its own. */
bool cql_get_bytes(const struct cql_cell *c, str *out)
{
    if (c->null)
        return false;
    *out = c->bytes;
    return true;
}

/* 0: a type that is no whole number. */
static size_t integer_bytes(enum cql_type type)
{
    /* The type comes from the wire, so the switch has a default. */
    switch ((int)type) {
    case CQL_BIGINT:
    case CQL_COUNTER:
    case CQL_TIMESTAMP:
    case CQL_TIME:
        return 8;
    case CQL_INT:
        return 4;
    case CQL_SMALLINT:
        return 2;
    case CQL_TINYINT:
        return 1;
    default:
        return 0;
    }
}

bool cql_get_i64(const struct cql_cell *c, int64_t *out)
{
    size_t size = integer_bytes(c->column->spec.type);
    const char *at = cell_of(c, size);
    /* Whole numbers have a sign, so the casts below widen with it. */
    if (at == NULL || size == 0)
        return false;
    if (size == 8)
        *out = (int64_t)get_be64(at);
    else if (size == 4)
        *out = (int32_t)get_be32(at);
    else if (size == 2)
        *out = (int16_t)get_be16(at);
    else
        *out = (signed char)*at;
    return true;
}

bool cql_get_bool(const struct cql_cell *c, bool *out)
{
    const char *at = cell_of(c, 1);
    if (at == NULL || c->column->spec.type != CQL_BOOLEAN)
        return false;
    *out = *at != 0;
    return true;
}

static bool get_float(const struct cql_cell *c, double *out)
{
    const char *at = cell_of(c, sizeof(float));
    if (at == NULL)
        return false;
    uint32_t bits = get_be32(at);
    float f;
    memcpy(&f, &bits, sizeof f);
    *out = (double)f;
    return true;
}

bool cql_get_double(const struct cql_cell *c, double *out)
{
    if (c->column->spec.type == CQL_FLOAT)
        return get_float(c, out);
    const char *at = cell_of(c, sizeof(double));
    if (at == NULL || c->column->spec.type != CQL_DOUBLE)
        return false;
    uint64_t bits = get_be64(at);
    memcpy(out, &bits, sizeof *out);
    return true;
}

bool cql_get_uuid(const struct cql_cell *c, const unsigned char **out)
{
    const char *at = cell_of(c, CQL_UUID_BYTES);
    /* A timeuuid is a uuid, so either getter takes both. */
    enum cql_type type = c->column->spec.type;
    if (at == NULL || (type != CQL_TIMEUUID && type != CQL_UUID))
        return false;
    *out = (const unsigned char *)at;
    return true;
}

bool cql_get_tid(const struct cql_cell *c, struct tid *out)
{
    const unsigned char *at;
    return cql_get_uuid(c, &at) && tid_from_uuid(at, out);
}

bool cql_get_date(const struct cql_cell *c, int32_t *days_since_1970)
{
    const char *at = cell_of(c, 4);
    if (at == NULL || c->column->spec.type != CQL_DATE)
        return false;
    *days_since_1970 = (int32_t)(get_be32(at) ^ 0x80000000u); /* 1970 is 2^31 */
    return true;
}

/* The length alone tells the family of an address. */
bool cql_get_inet(const struct cql_cell *c, char out[46])
{
    if (c->null || c->column->spec.type != CQL_INET || (c->bytes.n != 4 && c->bytes.n != 16))
        return false;
    return inet_ntop(c->bytes.n == 4 ? AF_INET : AF_INET6, c->bytes.p, out, 46) != NULL;
}

/* ---- what a cell holds ---- */

/* types: 1 for a list or set, 2 for a map. Its items are cells of these types. */
static bool items_of_collection(const struct cql_cell *c, unsigned types, struct cql_items *out)
{
    struct cql_items items = { .rest = { .rest = c->bytes } };
    struct cursor specs = { .rest = c->column->spec.rest };
    for (unsigned i = 0; i < types; i++) {
        items.column[i] = *c->column;
        if (!cql_spec_take(&specs, &items.column[i].spec))
            return false;
    }
    uint32_t count = cursor_be32(&items.rest);
    /* Each item has a length at least, so a count beyond that is damage. */
    if (items.rest.failed || count > items.rest.rest.n / LENGTH_BYTES / types)
        return false;
    items.columns = types;
    items.left = count * types;
    *out = items;
    return true;
}

/* The count comes from the type, and the bytes may end before it: a field that was added later is
 * missing from older values. */
static bool items_of_tuple(const struct cql_cell *c, struct cql_items *out)
{
    struct cursor types = { .rest = c->column->spec.rest };
    /* A user type's own keyspace and name stand before its fields. */
    if (c->column->spec.type == CQL_UDT) {
        (void)cursor_str16(&types);
        (void)cursor_str16(&types);
    }
    uint16_t count = cursor_be16(&types);
    if (types.failed)
        return false;
    *out = (struct cql_items){ .column = { *c->column, *c->column },
                               .rest = { .rest = c->bytes },
                               .types = types,
                               .left = count,
                               .named = c->column->spec.type == CQL_UDT };
    return true;
}

bool cql_get_items(const struct cql_cell *c, struct cql_items *out)
{
    if (c->null)
        return false;
    switch ((int)c->column->spec.type) {
    case CQL_LIST:
    case CQL_SET:
        return items_of_collection(c, 1, out);
    case CQL_MAP:
        return items_of_collection(c, 2, out);
    case CQL_TUPLE:
    case CQL_UDT:
        return items_of_tuple(c, out);
    default:
        return false;
    }
}

/* Takes one cell. False: it does not fit into the bytes that are left. Inline, since it runs for
 * each cell of each row. */
static inline bool cell_take(str *left, struct cql_cell *out)
{
    if (left->n < LENGTH_BYTES)
        return false;
    int32_t n = (int32_t)get_be32(left->p);
    left->p += LENGTH_BYTES;
    left->n -= LENGTH_BYTES;
    if (n < 0) {
        out->bytes = STR_NONE;
        out->null = true;
        return true;
    }
    if ((size_t)n > left->n)
        return false;
    out->bytes = (str){ .p = left->p, .n = (size_t)n };
    out->null = false;
    left->p += n;
    left->n -= (size_t)n;
    return true;
}

/* The next type of a tuple, and of a user type its field's name. */
static bool items_next_type(struct cql_items *i)
{
    i->column[0].name = i->named ? cursor_str16(&i->types) : STR_NONE;
    return cql_spec_take(&i->types, &i->column[0].spec);
}

bool cql_items_next(struct cql_items *i, struct cql_cell *out)
{
    if (i->left == 0 || i->rest.failed)
        return false;
    /* A fault ends the walk: the place of the next item is not known. */
    bool tuple = i->columns == 0;
    struct cql_cell cell = { .column = &i->column[tuple ? 0 : i->taken % i->columns] };
    if (tuple && !items_next_type(i)) {
        i->rest.failed = true;
        return false;
    }
    if (tuple && i->rest.rest.n == 0)
        cell.null = true; /* written before the type had this field */
    else if (!cell_take(&i->rest.rest, &cell)) {
        i->rest.failed = true;
        return false;
    }
    i->left--;
    i->taken++;
    *out = cell;
    return true;
}

/* Works on a copy of the cursor: a row that is cut leaves the rows before it as they were. */
bool cql_rows_next(struct cql_rows *r, struct cql_cell *cells)
{
    if (r->left == 0 || r->rest.failed)
        return false;
    INVARIANT(r->columns != NULL);
    const struct cql_column *column = r->columns->at;
    unsigned count = r->columns->count;
    str left = r->rest.rest;
    for (unsigned i = 0; i < count; i++) {
        cells[i].column = &column[i];
        if (!cell_take(&left, &cells[i])) {
            r->rest.failed = true;
            return false;
        }
    }
    r->rest.rest = left;
    r->left--;
    return true;
}
