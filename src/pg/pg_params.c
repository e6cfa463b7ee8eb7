/* pg_params.c - lays out parameters of a PostgreSQL statement in binary form, arrays too, in an
 * arena. */
#include "base/buf.h"
#include "pg/pg.h"

#include <string.h>

/* Types, as pg_type.dat numbers them; they never change. */
enum {
    OID_BYTEA = 17,
    OID_INT8 = 20,
    OID_INT4 = 23,
    OID_BYTEA_ARRAY = 1001,
    OID_INT4_ARRAY = 1007,
    OID_INT8_ARRAY = 1016,
};
enum { ARRAY_HEAD = 20 }; /* dimensions, has nulls, type, size, lower bound */

void pg_params_init(struct pg_params *p, struct arena *a)
{
    *p = (struct pg_params){ .arena = a };
}

/* n bytes for the next value; NULL when it cannot be had. */
static char *value_add(struct pg_params *p, unsigned type, uint64_t n)
{
    char *value = p->count < PG_PARAMS_MAX && n <= INT32_MAX ? arena_alloc(p->arena, n) : NULL;
    if (value == NULL) {
        p->failed = true;
        return NULL;
    }
    p->types[p->count] = type;
    p->values[p->count] = value;
    p->sizes[p->count] = (int)n;
    p->count++;
    return value;
}

void pg_put_i32(struct pg_params *p, int32_t v)
{
    char *value = value_add(p, OID_INT4, 4);
    if (value != NULL)
        put_be32(value, (uint32_t)v);
}

void pg_put_i64(struct pg_params *p, int64_t v)
{
    char *value = value_add(p, OID_INT8, 8);
    if (value != NULL)
        put_be64(value, (uint64_t)v);
}

void pg_put_bytes(struct pg_params *p, str bytes)
{
    char *value = value_add(p, OID_BYTEA, bytes.n);
    if (value != NULL && bytes.n > 0)
        memcpy(value, bytes.p, bytes.n);
}

/* The head of an array; an empty one has no dimension. Returns what is behind it. */
static char *array_head(char *at, unsigned type, unsigned count)
{
    put_be32(at, count > 0);
    put_be32(at + 4, 0);
    put_be32(at + 8, type);
    if (count == 0)
        return at + 12;
    put_be32(at + 12, count);
    put_be32(at + 16, 1);
    return at + ARRAY_HEAD;
}

static uint64_t array_bytes(unsigned count, uint64_t elements)
{
    return count == 0 ? 12 : ARRAY_HEAD + (uint64_t)count * 4 + elements;
}

void pg_put_i32s(struct pg_params *p, const int32_t *v, unsigned count)
{
    char *at = value_add(p, OID_INT4_ARRAY, array_bytes(count, (uint64_t)count * 4));
    if (at == NULL)
        return;
    at = array_head(at, OID_INT4, count);
    for (unsigned i = 0; i < count; i++, at += 8) {
        put_be32(at, 4);
        put_be32(at + 4, (uint32_t)v[i]);
    }
}

void pg_put_i64s(struct pg_params *p, const int64_t *v, unsigned count)
{
    char *at = value_add(p, OID_INT8_ARRAY, array_bytes(count, (uint64_t)count * 8));
    if (at == NULL)
        return;
    at = array_head(at, OID_INT8, count);
    for (unsigned i = 0; i < count; i++, at += 12) {
        put_be32(at, 8);
        put_be64(at + 4, (uint64_t)v[i]);
    }
}

void pg_put_bytes_array(struct pg_params *p, const str *v, unsigned count)
{
    uint64_t n = 0;
    for (unsigned i = 0; i < count; i++)
        n += v[i].n;
    char *at = value_add(p, OID_BYTEA_ARRAY, array_bytes(count, n));
    if (at == NULL)
        return;
    at = array_head(at, OID_BYTEA, count);
    for (unsigned i = 0; i < count; i++) {
        put_be32(at, (uint32_t)v[i].n);
        if (v[i].n > 0)
            memcpy(at + 4, v[i].p, v[i].n);
        at += 4 + v[i].n;
    }
}
