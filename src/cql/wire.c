/* wire.c - requests as bytes: the head, and the bodies of both versions.
 *
 * Version 5 differs in the width of the flags and in the id of the result's metadata. A request may
 * also name the keyspace and the instant.
 * Invariant: a failed append fails the buffer, and so do values that failed. So a sender asks the
 * buffer once, behind all appends. */
#include "cql/wire.h"

#include <string.h>

/* Flags of QUERY, EXECUTE and BATCH. */
enum {
    WITH_VALUES = 0x0001,
    WITHOUT_COLUMNS = 0x0002,
    WITH_PAGE_ROWS = 0x0004,
    WITH_PAGE_STATE = 0x0008, /* 0x40, names beside values, is not used */
    WITH_SERIAL = 0x0010,
    WITH_TIMESTAMP = 0x0020,
    WITH_KEYSPACE = 0x0080,
    WITH_NOW = 0x0100,
};
/* Flags of PREPARE. */
enum { PREPARE_WITH_KEYSPACE = 0x01 };

/* A request is told from an answer by the top bit of the version. */
enum { HEAD_LENGTH_AT = 5, ANSWER_BIT = 0x80 };

struct cql_head cql_head_get(const char *at)
{
    unsigned version = (unsigned char)at[0];
    return (struct cql_head){ .version = version & ~(unsigned)ANSWER_BIT,
                              .answer = (version & ANSWER_BIT) != 0,
                              .flags = (uint8_t)at[1],
                              .stream = (int16_t)get_be16(at + 2),
                              .opcode = (uint8_t)at[4],
                              .body_bytes = get_be32(at + HEAD_LENGTH_AT) };
}

/* The length is filled in by the end: the body is written straight behind. */
size_t cql_wire_begin(struct buf *out, unsigned version, unsigned flags, int16_t stream,
                      enum cql_opcode op)
{
    size_t begun = out->n;
    char *at = buf_extend(out, CQL_HEAD_BYTES);
    if (at == NULL)
        return begun;
    at[0] = (char)version;
    at[1] = (char)flags;
    put_be16(at + 2, (uint16_t)stream);
    at[4] = (char)op;
    put_be32(at + HEAD_LENGTH_AT, 0);
    return begun;
}

void cql_wire_end(struct buf *out, size_t begun)
{
    if (out->failed)
        return;
    /* The head found its room, since nothing failed. */
    INVARIANT(out->n >= begun + CQL_HEAD_BYTES);
    size_t bytes = out->n - begun - CQL_HEAD_BYTES;
    if (bytes > CQL_BODY_BYTES_MAX) {
        out->failed = true;
        return;
    }
    put_be32(out->p + begun + HEAD_LENGTH_AT, (uint32_t)bytes);
}

/* A [long string] or [bytes]. */
static void put_str32(struct buf *out, str s)
{
    if (s.n > CQL_BODY_BYTES_MAX) {
        out->failed = true;
        return;
    }
    char *at = buf_extend(out, 4 + s.n);
    if (at == NULL)
        return;
    put_be32(at, (uint32_t)s.n);
    if (s.n > 0)
        memcpy(at + 4, s.p, s.n);
}

/* A [string map]: the count of pairs, then name and value of each. */
void cql_body_startup(struct buf *out, const struct cql_pair *options, unsigned count)
{
    INVARIANT(count <= UINT16_MAX);
    buf_put_be16(out, (uint16_t)count);
    for (unsigned i = 0; i < count; i++) {
        buf_put_str16(out, options[i].name);
        buf_put_str16(out, options[i].value);
    }
}

void cql_body_register(struct buf *out, const str *events, unsigned count)
{
    INVARIANT(count <= UINT16_MAX);
    buf_put_be16(out, (uint16_t)count);
    for (unsigned i = 0; i < count; i++)
        buf_put_str16(out, events[i]);
}

/* SASL PLAIN: no identity to act for, then user and password. */
void cql_body_auth_plain(struct buf *out, str user, str password)
{
    INVARIANT(user.n <= UINT16_MAX);
    INVARIANT(password.n <= UINT16_MAX);
    buf_put_be32(out, (uint32_t)(user.n + password.n + 2));
    buf_put_c(out, 0);
    buf_put(out, user);
    buf_put_c(out, 0);
    buf_put(out, password);
}

void cql_body_prepare(struct buf *out, unsigned version, str text, str keyspace)
{
    INVARIANT(version >= 5 || keyspace.n == 0);
    put_str32(out, text);
    if (version < 5)
        return;
    buf_put_be32(out, keyspace.n > 0 ? PREPARE_WITH_KEYSPACE : 0);
    if (keyspace.n > 0)
        buf_put_str16(out, keyspace);
}

static const char *const consistency_names[CQL_CONSISTENCIES] = {
    [CQL_ANY] = "ANY",
    [CQL_ONE] = "ONE",
    [CQL_TWO] = "TWO",
    [CQL_THREE] = "THREE",
    [CQL_QUORUM] = "QUORUM",
    [CQL_ALL] = "ALL",
    [CQL_LOCAL_QUORUM] = "LOCAL_QUORUM",
    [CQL_EACH_QUORUM] = "EACH_QUORUM",
    [CQL_SERIAL] = "SERIAL",
    [CQL_LOCAL_SERIAL] = "LOCAL_SERIAL",
    [CQL_LOCAL_ONE] = "LOCAL_ONE",
};

const char *cql_consistency_name(enum cql_consistency c)
{
    return (unsigned)c < CQL_CONSISTENCIES ? consistency_names[c] : "?";
}

/* Appends the count of values, then the values as they lie. */
static void put_values(struct buf *out, const struct cql_values *values)
{
    if (cql_values_status(values) != ERR_OK) {
        out->failed = true;
        return;
    }
    buf_put_be16(out, (uint16_t)values->count);
    buf_put(out, buf_str(&values->bytes));
}

/* The flags that QUERY, EXECUTE and BATCH have in common. */
static unsigned params_flags(unsigned version, const struct cql_params *p)
{
    /* A server of version 4 would run the statement without the instant. */
    INVARIANT(version >= 5 || p->now_s == CQL_NO_NOW);
    unsigned flags = 0;
    if (p->serial != CQL_ANY)
        flags |= WITH_SERIAL;
    if (p->timestamp_us != CQL_NO_TIMESTAMP)
        flags |= WITH_TIMESTAMP;
    if (p->now_s != CQL_NO_NOW)
        flags |= WITH_NOW;
    return flags;
}

/* In version 4 the flags are a byte: all flags beyond need version 5 (params_flags). */
static void put_flags(struct buf *out, unsigned version, const struct cql_params *p, unsigned flags)
{
    buf_put_be16(out, (uint16_t)p->consistency);
    if (version >= 5)
        buf_put_be32(out, flags);
    else
        buf_put_u8(out, (uint8_t)flags);
}

/* Appends what stands behind the values and the page, in the order of the protocol. */
static void put_tail(struct buf *out, const struct cql_params *p, unsigned flags)
{
    if (flags & WITH_SERIAL)
        buf_put_be16(out, (uint16_t)p->serial);
    if (flags & WITH_TIMESTAMP)
        buf_put_be64(out, (uint64_t)p->timestamp_us);
    if (flags & WITH_KEYSPACE)
        buf_put_str16(out, p->keyspace);
    if (flags & WITH_NOW)
        buf_put_be32(out, (uint32_t)p->now_s);
}

/* QUERY and EXECUTE: consistency, flags, and then each part that a flag announces. */
static void put_params(struct buf *out, unsigned version, const struct cql_values *values,
                       const struct cql_params *p, unsigned flags)
{
    flags |= params_flags(version, p);
    if (values != NULL && values->count > 0)
        flags |= WITH_VALUES;
    if (p->skip_columns)
        flags |= WITHOUT_COLUMNS;
    if (p->page_rows > 0)
        flags |= WITH_PAGE_ROWS;
    if (p->page_state.n > 0)
        flags |= WITH_PAGE_STATE;
    put_flags(out, version, p, flags);
    if (flags & WITH_VALUES)
        put_values(out, values);
    if (flags & WITH_PAGE_ROWS)
        buf_put_be32(out, (uint32_t)p->page_rows);
    if (flags & WITH_PAGE_STATE)
        put_str32(out, p->page_state);
    put_tail(out, p, flags);
}

/* EXECUTE has no keyspace of its own: the prepared statement has its table's. */
static unsigned keyspace_flag(unsigned version, const struct cql_params *p)
{
    INVARIANT(version >= 5 || p->keyspace.n == 0);
    return p->keyspace.n > 0 ? WITH_KEYSPACE : 0;
}

void cql_body_query(struct buf *out, unsigned version, str text, const struct cql_values *values,
                    const struct cql_params *p)
{
    put_str32(out, text);
    put_params(out, version, values, p, keyspace_flag(version, p));
}

void cql_body_execute(struct buf *out, unsigned version, str id, str columns_id,
                      const struct cql_values *values, const struct cql_params *p)
{
    buf_put_str16(out, id);
    if (version >= 5)
        buf_put_str16(out, columns_id); /* the node tells a change of these columns */
    put_params(out, version, values, p, 0);
}

/* ---- batches ---- */

enum { STATEMENT_TEXT = 0, STATEMENT_PREPARED = 1 };

void cql_batch_begin(struct buf *out, enum cql_batch_kind kind, unsigned count)
{
    INVARIANT(count <= UINT16_MAX);
    buf_put_u8(out, (uint8_t)kind);
    buf_put_be16(out, (uint16_t)count);
}

/* A batch always says the count, also 0. */
static void batch_values(struct buf *out, const struct cql_values *values)
{
    if (values == NULL)
        buf_put_be16(out, 0);
    else
        put_values(out, values);
}

void cql_batch_text(struct buf *out, str text, const struct cql_values *values)
{
    buf_put_u8(out, STATEMENT_TEXT);
    put_str32(out, text);
    batch_values(out, values);
}

void cql_batch_prepared(struct buf *out, str id, const struct cql_values *values)
{
    buf_put_u8(out, STATEMENT_PREPARED);
    buf_put_str16(out, id);
    batch_values(out, values);
}

void cql_batch_end(struct buf *out, unsigned version, const struct cql_params *p)
{
    unsigned flags = params_flags(version, p) | keyspace_flag(version, p);
    put_flags(out, version, p, flags);
    put_tail(out, p, flags);
}
