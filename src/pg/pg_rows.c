/* pg_rows.c - what a statement returned. */
#include "base/buf.h"
#include "pg/rows.h"

#include <stdlib.h>

unsigned pg_rows_count(const struct pg_rows *r)
{
    return (unsigned)PQntuples(r->result);
}

str pg_bytes(const struct pg_rows *r, unsigned row, unsigned column)
{
    INVARIANT(row < pg_rows_count(r));
    INVARIANT(column < (unsigned)PQnfields(r->result));
    return (str){
        .p = PQgetvalue(r->result, (int)row, (int)column),
        .n = (size_t)PQgetlength(r->result, (int)row, (int)column),
    };
}

bool pg_is_null(const struct pg_rows *r, unsigned row, unsigned column)
{
    INVARIANT(row < pg_rows_count(r));
    return PQgetisnull(r->result, (int)row, (int)column) == 1;
}

bool pg_is_i64(const struct pg_rows *r, unsigned row, unsigned column)
{
    enum { INT8 = 20, INT2 = 21, INT4 = 23 }; /* as pg_type.dat numbers them */
    Oid type = PQftype(r->result, (int)column);
    size_t wanted = type == INT8 ? 8 : type == INT4 ? 4 : type == INT2 ? 2 : 0;
    return wanted != 0 && pg_bytes(r, row, column).n == wanted;
}

int64_t pg_i64(const struct pg_rows *r, unsigned row, unsigned column)
{
    str s = pg_is_i64(r, row, column) ? pg_bytes(r, row, column) : STR_NONE;
    if (s.n == 8)
        return (int64_t)get_be64(s.p);
    if (s.n == 4)
        return (int32_t)get_be32(s.p);
    return s.n == 2 ? (int16_t)get_be16(s.p) : 0;
}

void pg_rows_free(struct pg_rows **rp)
{
    if (*rp == NULL)
        return;
    PQclear((*rp)->result);
    free(*rp);
    *rp = NULL;
}

struct pg_rows *pg_rows_of(PGresult *result)
{
    struct pg_rows *r = malloc(sizeof(*r));
    INVARIANT(r != NULL);
    r->result = result;
    return r;
}
