/* value.c - values to bind to a statement, one behind the other as the protocol has them.
 *
 * A value is its length as [int], then its bytes. Collections and tuples are opened and closed
 * around their items.
 * Invariant: a failed append leaves the count as if it had been made, and fails the bytes. So
 * callers put values without a look at each. A reader of the values asks cql_values_status first.
 */
#include "cql/value.h"

#include <string.h>

enum { LENGTH_BYTES = 4 };
static const uint32_t length_null = UINT32_MAX;      /* -1 */
static const uint32_t length_unset = UINT32_MAX - 1; /* -2 */

void cql_values_init(struct cql_values *v, size_t bytes_max)
{
    INVARIANT(bytes_max <= INT32_MAX);
    *v = (struct cql_values){ .count = 0 };
    buf_init(&v->bytes, bytes_max);
}

void cql_values_fini(struct cql_values *v)
{
    buf_fini(&v->bytes);
    v->count = 0;
}

void cql_values_clear(struct cql_values *v)
{
    buf_clear(&v->bytes);
    v->count = 0;
}

err cql_values_status(const struct cql_values *v)
{
    if (v->count > CQL_VALUES_MAX)
        return ERR_LIMIT;
    return buf_status(&v->bytes);
}

static void put_length(struct cql_values *v, uint32_t length)
{
    buf_put_be32(&v->bytes, length);
    v->count++;
}

/* Counts a value and makes room for its n bytes; NULL: there is no room. */
static inline char *put_room(struct cql_values *v, size_t n)
{
    v->count++;
    char *at = buf_extend(&v->bytes, LENGTH_BYTES + n);
    if (at == NULL)
        return NULL;
    put_be32(at, (uint32_t)n); /* bytes_max fits into the length */
    return at + LENGTH_BYTES;
}

void cql_put_null(struct cql_values *v)
{
    put_length(v, length_null);
}

/* An unset value leaves its column as it is; null deletes the cell. */
void cql_put_unset(struct cql_values *v)
{
    put_length(v, length_unset);
}

void cql_put_bytes(struct cql_values *v, str bytes)
{
    char *at = put_room(v, bytes.n);
    if (at != NULL && bytes.n > 0)
        memcpy(at, bytes.p, bytes.n);
}

void cql_put_i64(struct cql_values *v, int64_t n)
{
    char *at = put_room(v, sizeof n);
    if (at != NULL)
        put_be64(at, (uint64_t)n);
}

void cql_put_i32(struct cql_values *v, int32_t n)
{
    char *at = put_room(v, sizeof n);
    if (at != NULL)
        put_be32(at, (uint32_t)n);
}

void cql_put_i16(struct cql_values *v, int16_t n)
{
    char *at = put_room(v, sizeof n);
    if (at != NULL)
        put_be16(at, (uint16_t)n);
}

void cql_put_i8(struct cql_values *v, int8_t n)
{
    char *at = put_room(v, sizeof n);
    if (at != NULL)
        *at = (char)n;
}

void cql_put_bool(struct cql_values *v, bool on)
{
    cql_put_i8(v, on);
}

void cql_put_double(struct cql_values *v, double d)
{
    uint64_t bits;
    memcpy(&bits, &d, sizeof bits);
    cql_put_i64(v, (int64_t)bits);
}

void cql_put_tid(struct cql_values *v, struct tid t)
{
    unsigned char uuid[TID_UUID_BYTES];
    tid_uuid(t, uuid);
    cql_put_uuid(v, uuid);
}

void cql_put_uuid(struct cql_values *v, const unsigned char uuid[CQL_UUID_BYTES])
{
    cql_put_bytes(v, (str){ .p = (const char *)uuid, .n = CQL_UUID_BYTES });
}

void cql_put_date(struct cql_values *v, int32_t days_since_1970)
{
    cql_put_i32(v, (int32_t)((uint32_t)days_since_1970 ^ 0x80000000u)); /* 1970 is 2^31 */
}

/* The length, and of a collection the count, are written when it is closed. */
struct cql_open cql_put_open(struct cql_values *v, bool counted)
{
    struct cql_open open = { .at = v->bytes.n, .before = v->count, .counted = counted };
    (void)buf_extend(&v->bytes, counted ? 2 * LENGTH_BYTES : LENGTH_BYTES);
    return open;
}

void cql_put_close(struct cql_values *v, struct cql_open open, bool of_pairs)
{
    unsigned items = v->count - open.before;
    /* Its items are one value of the statement. */
    v->count = open.before + 1;
    INVARIANT(!of_pairs || items % 2 == 0);
    if (v->bytes.failed) /* the place of the length may not exist */
        return;
    char *at = v->bytes.p + open.at;
    put_be32(at, (uint32_t)(v->bytes.n - open.at - LENGTH_BYTES));
    if (open.counted)
        put_be32(at + LENGTH_BYTES, of_pairs ? items / 2 : items);
}

/* INT lengths below 0 are null and unset, without bytes. */
str cql_value_at(const struct cql_values *v, unsigned index)
{
    INVARIANT(index < v->count);
    INVARIANT(!v->bytes.failed);
    const char *at = v->bytes.p;
    for (unsigned i = 0;; i++) {
        int32_t n = (int32_t)get_be32(at);
        at += LENGTH_BYTES;
        if (i == index)
            return n < 0 ? STR_NONE : (str){ .p = at, .n = (size_t)n };
        if (n > 0)
            at += n;
    }
}
