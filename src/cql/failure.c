/* failure.c - ERROR messages: taken apart, named, and judged for the caller and for a retry.
 *
 * One row per code. A statement that is not idempotent runs again only when the first run cannot
 * have begun. Then the node had too few replicas, or was still joining. */
#include "cql/failure.h"

/* idempotent, otherwise: what to do when the statement may run twice, and when it must not. */
static const struct failure_row {
    int32_t code;
    err why;
    const char *name;
    enum cql_reaction idempotent, otherwise;
} rows[] = {
    { CQL_SERVER_ERROR, ERR_UNAVAILABLE, "server_error", CQL_NEXT_NODE, CQL_GIVE_UP },
    { CQL_PROTOCOL_ERROR, ERR_IO, "protocol_error", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_BAD_CREDENTIALS, ERR_DENIED, "bad_credentials", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_UNAVAILABLE, ERR_UNAVAILABLE, "unavailable", CQL_NEXT_NODE, CQL_NEXT_NODE },
    { CQL_OVERLOADED, ERR_UNAVAILABLE, "overloaded", CQL_NEXT_NODE, CQL_GIVE_UP },
    { CQL_BOOTSTRAPPING, ERR_UNAVAILABLE, "bootstrapping", CQL_NEXT_NODE, CQL_NEXT_NODE },
    { CQL_TRUNCATE_ERROR, ERR_UNAVAILABLE, "truncate_error", CQL_NEXT_NODE, CQL_GIVE_UP },
    { CQL_WRITE_TIMEOUT, ERR_TIMEOUT, "write_timeout", CQL_NEXT_NODE, CQL_GIVE_UP },
    { CQL_READ_TIMEOUT, ERR_TIMEOUT, "read_timeout", CQL_SAME_NODE, CQL_GIVE_UP },
    { CQL_READ_FAILURE, ERR_UNAVAILABLE, "read_failure", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_FUNCTION_FAILURE, ERR_BAD, "function_failure", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_WRITE_FAILURE, ERR_UNAVAILABLE, "write_failure", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_CDC_WRITE_FAILURE, ERR_UNAVAILABLE, "cdc_write_failure", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_CAS_UNKNOWN, ERR_TIMEOUT, "cas_unknown", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_SYNTAX_ERROR, ERR_BAD, "syntax_error", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_UNAUTHORIZED, ERR_DENIED, "unauthorized", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_INVALID, ERR_BAD, "invalid", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_CONFIG_ERROR, ERR_BAD, "config_error", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_ALREADY_EXISTS, ERR_CONFLICT, "already_exists", CQL_GIVE_UP, CQL_GIVE_UP },
    { CQL_UNPREPARED, ERR_UNAVAILABLE, "unprepared", CQL_PREPARE_AGAIN, CQL_PREPARE_AGAIN },
};

/* NULL: a code that is newer than this client. */
static const struct failure_row *row_of(int32_t code)
{
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (rows[i].code == code)
            return &rows[i];
    return NULL;
}

const char *cql_code_name(int32_t code)
{
    const struct failure_row *row = row_of(code);
    return row == NULL ? "unknown" : row->name;
}

err cql_failure_err(const struct cql_failure *f)
{
    const struct failure_row *row = row_of(f->code);
    /* An unknown code says nothing of the request, so the caller may try again later. */
    return row == NULL ? ERR_UNAVAILABLE : row->why;
}

enum cql_reaction cql_failure_reaction(const struct cql_failure *f, bool idempotent)
{
    const struct failure_row *row = row_of(f->code);
    if (row == NULL)
        return CQL_GIVE_UP;
    if (!idempotent)
        return row->otherwise;
    /* The coordinator writes the log of a batch to two nodes of its choice: next time it picks
     * others. */
    if (f->code == CQL_WRITE_TIMEOUT && f->write == CQL_WRITE_BATCH_LOG)
        return CQL_SAME_NODE;
    /* A second read helps only when enough replicas answered, and the one asked for data did not:
     * the coordinator then asks another one for data. */
    if (f->code == CQL_READ_TIMEOUT && (f->alive_or_received < f->required || f->data_present))
        return CQL_GIVE_UP;
    return row->idempotent;
}

/* ---- parsing ---- */

static const str write_names[CQL_WRITE_OTHER] = {
    [CQL_WRITE_SIMPLE] = STR_INIT("SIMPLE"),
    [CQL_WRITE_BATCH] = STR_INIT("BATCH"),
    [CQL_WRITE_UNLOGGED_BATCH] = STR_INIT("UNLOGGED_BATCH"),
    [CQL_WRITE_COUNTER] = STR_INIT("COUNTER"),
    [CQL_WRITE_BATCH_LOG] = STR_INIT("BATCH_LOG"),
    [CQL_WRITE_CAS] = STR_INIT("CAS"),
    [CQL_WRITE_VIEW] = STR_INIT("VIEW"),
    [CQL_WRITE_CDC] = STR_INIT("CDC"),
};

const char *cql_write_kind_name(enum cql_write_kind k)
{
    return (unsigned)k < CQL_WRITE_OTHER ? write_names[k].p : "OTHER";
}

static enum cql_write_kind write_kind_take(struct cursor *c)
{
    str name = cursor_str16(c);
    for (unsigned k = 0; k < CQL_WRITE_OTHER; k++)
        if (str_eq(name, write_names[k]))
            return (enum cql_write_kind)k;
    return CQL_WRITE_OTHER;
}

/* UNAVAILABLE says first how many replicas are required; all other codes say first how many
 * answered. */
static void take_unavailable(struct cursor *c, struct cql_failure *out)
{
    out->consistency = (enum cql_consistency)cursor_be16(c);
    out->required = (int32_t)cursor_be32(c);
    out->alive_or_received = (int32_t)cursor_be32(c);
}

static void take_received(struct cursor *c, struct cql_failure *out)
{
    out->consistency = (enum cql_consistency)cursor_be16(c);
    out->alive_or_received = (int32_t)cursor_be32(c);
    out->required = (int32_t)cursor_be32(c);
}

/* Version 4 counts replicas that failed; version 5 names each with its reason. */
static void take_failed(struct cursor *c, unsigned version, struct cql_failure *out)
{
    enum { REPLICA_BYTES_MIN = 1 + 4 + 2 };
    uint32_t failed = cursor_be32(c);
    out->failed = (int32_t)failed;
    if (version < 5)
        return;
    /* Judged before the loop: a count that the bytes cannot hold is damage. */
    if (failed > c->rest.n / REPLICA_BYTES_MIN) {
        c->failed = true;
        return;
    }
    for (uint32_t i = 0; i < failed && !c->failed; i++) {
        (void)cursor_bytes(c, cursor_u8(c)); /* its address */
        uint16_t reason = cursor_be16(c);
        if (i == 0) /* one reason is enough for the note */
            out->reason = reason;
    }
}

static void take_function(struct cursor *c, struct cql_failure *out)
{
    out->keyspace = cursor_str16(c);
    out->table = cursor_str16(c);
    for (unsigned left = cursor_be16(c); left > 0 && !c->failed; left--)
        (void)cursor_str16(c); /* a type of its arguments */
}

static void take_write_timeout(struct cursor *c, unsigned version, struct cql_failure *out)
{
    take_received(c, out);
    out->write = write_kind_take(c);
    if (version >= 5 && out->write == CQL_WRITE_CAS)
        out->contentions = cursor_be16(c);
}

/* The fields behind the message, which each code has in its own way. */
static void take_fields(struct cursor *c, unsigned version, struct cql_failure *out)
{
    switch (out->code) {
    case CQL_UNAVAILABLE:
        take_unavailable(c, out);
        break;
    case CQL_WRITE_TIMEOUT:
        take_write_timeout(c, version, out);
        break;
    case CQL_READ_TIMEOUT:
        take_received(c, out);
        out->data_present = cursor_u8(c) != 0;
        break;
    case CQL_READ_FAILURE:
        take_received(c, out);
        take_failed(c, version, out);
        out->data_present = cursor_u8(c) != 0;
        break;
    case CQL_WRITE_FAILURE:
        take_received(c, out);
        take_failed(c, version, out);
        out->write = write_kind_take(c);
        break;
    case CQL_CAS_UNKNOWN:
        take_received(c, out);
        break;
    case CQL_FUNCTION_FAILURE:
        take_function(c, out);
        break;
    case CQL_ALREADY_EXISTS:
        out->keyspace = cursor_str16(c);
        out->table = cursor_str16(c);
        break;
    case CQL_UNPREPARED:
        out->id = cursor_str16(c);
        break;
    default: /* the code is a number of the wire; the others have no fields */
        break;
    }
}

bool cql_failure_take(struct cursor *from, unsigned version, struct cql_failure *out)
{
    struct cql_failure f = { .code = (int32_t)cursor_be32(from) };
    f.message = cursor_str16(from);
    take_fields(from, version, &f);
    if (from->failed)
        return false;
    *out = f;
    return true;
}

/* ---- for people ---- */

/* Why a replica failed; NULL: its number says more. */
static const char *reason_name(uint16_t reason)
{
    static const char *const names[] = { NULL, "too many tombstones", "timeout",
                                         "incompatible schema", "read size" };
    return reason < COUNT_OF(names) ? names[reason] : NULL;
}

static void print_failed(const struct cql_failure *f, struct buf *out)
{
    buf_printf(out, ", %d failed", (int)f->failed);
    const char *name = reason_name(f->reason);
    if (name != NULL)
        buf_printf(out, " (%s)", name);
    else if (f->reason != 0)
        buf_printf(out, " (reason %u)", (unsigned)f->reason);
}

static void print_replicas(const struct cql_failure *f, struct buf *out)
{
    buf_printf(out, "%s: %d of %d replicas %s", cql_consistency_name(f->consistency),
               (int)f->alive_or_received, (int)f->required,
               f->code == CQL_UNAVAILABLE ? "are alive" : "answered");
}

/* Its keyspace, and what is in there. */
static void print_name(const struct cql_failure *f, struct buf *out)
{
    buf_put(out, f->keyspace);
    if (f->table.n > 0) {
        buf_put_c(out, '.');
        buf_put(out, f->table);
    }
}

void cql_failure_print(const struct cql_failure *f, struct buf *out)
{
    switch (f->code) {
    case CQL_UNAVAILABLE:
    case CQL_CAS_UNKNOWN:
        print_replicas(f, out);
        break;
    case CQL_WRITE_TIMEOUT:
        print_replicas(f, out);
        buf_printf(out, ", %s", cql_write_kind_name(f->write));
        if (f->contentions > 0)
            buf_printf(out, ", %u contentions", (unsigned)f->contentions);
        break;
    case CQL_READ_TIMEOUT:
        print_replicas(f, out);
        buf_put(out, f->data_present ? STR(", data present") : STR(", no data"));
        break;
    case CQL_READ_FAILURE:
        print_replicas(f, out);
        print_failed(f, out);
        buf_put(out, f->data_present ? STR(", data present") : STR(", no data"));
        break;
    case CQL_WRITE_FAILURE:
        print_replicas(f, out);
        print_failed(f, out);
        buf_printf(out, ", %s", cql_write_kind_name(f->write));
        break;
    case CQL_FUNCTION_FAILURE:
    case CQL_ALREADY_EXISTS:
        print_name(f, out);
        break;
    default: /* they have no numbers */
        break;
    }
}
