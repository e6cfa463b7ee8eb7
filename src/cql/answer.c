/* answer.c - takes an answer apart: first what may stand before every message, then the message.
 * For conn_in.c.
 *
 * All slices lie in the body; only columns are copied (metadata.c).
 * Invariants:
 *   1 an answer is built aside and given out whole, so a failure leaves nothing to drop;
 *   2 the rows that are said fit into the bytes that are left, with four bytes a cell at least. */
#include "cql/answer.h"

#include "cql/event.h"
#include "cql/metadata.h"

#include <string.h>

enum { CELL_BYTES_MIN = 4 }; /* the length of a cell, which is all of a null */

static err answer_corrupt(struct err_note *note, const char *what)
{
    err_note_set(note, "%s is cut", what);
    return ERR_CORRUPT;
}

/* A [bytes]; STR_NONE when it is null. */
static str bytes_take(struct cursor *c)
{
    int32_t n = (int32_t)cursor_be32(c);
    return n < 0 ? STR_NONE : cursor_bytes(c, (size_t)n);
}

static void skip_strings(struct cursor *c, unsigned count)
{
    for (; count > 0 && !c->failed; count--)
        (void)cursor_str16(c);
}

/* ---- before every message ---- */

/* Warnings are checked here and read later (cql_answer_warning), so reading them cannot fail. */
static void take_warnings(struct cursor *c, struct cql_answer *a)
{
    a->warnings_count = cursor_be16(c);
    str from = c->rest;
    skip_strings(c, a->warnings_count);
    a->warnings.rest = str_take(from, from.n - c->rest.n);
}

static void take_payload(struct cursor *c, struct cql_answer *a)
{
    str from = c->rest;
    for (unsigned left = cursor_be16(c); left > 0 && !c->failed; left--) {
        (void)cursor_str16(c);
        (void)bytes_take(c);
    }
    a->payload = str_take(from, from.n - c->rest.n);
}

/* In the order of the protocol: tracing id, warnings, payload, each with its flag. */
static err take_before(struct cursor *c, uint8_t flags, struct cql_answer *a, struct err_note *note)
{
    if (flags & CQL_FLAG_TRACING) {
        str id = cursor_bytes(c, CQL_UUID_BYTES);
        a->traced = true;
        if (!c->failed)
            memcpy(a->trace, id.p, CQL_UUID_BYTES);
    }
    if (flags & CQL_FLAG_WARNING)
        take_warnings(c, a);
    if (flags & CQL_FLAG_PAYLOAD)
        take_payload(c, a);
    return c->failed ? answer_corrupt(note, "what stands before an answer") : ERR_OK;
}

/* ---- messages ---- */

/* Kept as bytes, and searched by cql_supports: the client asks for one option. */
static err take_supported(struct cursor *c, struct cql_answer *a, struct err_note *note)
{
    a->supported_count = cursor_be16(c);
    str from = c->rest;
    for (unsigned left = a->supported_count; left > 0 && !c->failed; left--) {
        (void)cursor_str16(c);
        skip_strings(c, cursor_be16(c));
    }
    a->supported.rest = str_take(from, from.n - c->rest.n);
    return c->failed ? answer_corrupt(note, "what a server supports") : ERR_OK;
}

static err take_rows(struct cursor *c, unsigned version, struct cql_answer *a,
                     struct err_note *note)
{
    struct cql_metadata m;
    err why = cql_metadata_take(c, version, &m, note);
    if (why != ERR_OK)
        return why;
    uint32_t count = cursor_be32(c);
    size_t row_bytes_min = (size_t)m.count * CELL_BYTES_MIN;
    /* The rest must not wrap around: each row has bytes for its columns at least. */
    if (c->failed || (count > 0 && (m.count == 0 || count > c->rest.n / row_bytes_min))) {
        cql_columns_drop(&m.columns);
        err_note_set(note, "%u rows of %u columns in %zu bytes", count, m.count, c->rest.n);
        return ERR_CORRUPT;
    }
    a->rows = (struct cql_rows){ .columns = m.columns,
                                 /* The cursor at the first row: rows are read where they lie. */
                                 .rest = *c,
                                 .count = count,
                                 .left = count,
                                 .more = m.more,
                                 .page_state = m.page_state };
    a->new_columns_id = m.id;
    /* Left out at the client's wish, or by a server that knows that the client has them. */
    a->no_columns = m.columns == NULL;
    a->columns_count = m.count;
    return ERR_OK;
}

static err take_result(struct cursor *c, unsigned version, struct cql_answer *a,
                       struct err_note *note)
{
    uint32_t kind = cursor_be32(c);
    if (c->failed || kind < CQL_RESULT_VOID || kind > CQL_RESULT_SCHEMA) {
        err_note_set(note, "a result of no known kind: %u", kind);
        return ERR_CORRUPT;
    }
    a->result = (enum cql_result_kind)kind;
    switch (a->result) {
    case CQL_RESULT_VOID:
        return ERR_OK;
    case CQL_RESULT_ROWS:
        return take_rows(c, version, a, note);
    case CQL_RESULT_KEYSPACE:
        a->keyspace = cursor_str16(c);
        return c->failed ? answer_corrupt(note, "the name of a keyspace") : ERR_OK;
    case CQL_RESULT_PREPARED:
        return cql_prepared_take(c, version, &a->prepared, note);
    case CQL_RESULT_SCHEMA:
        return cql_schema_take(c, &a->schema, note);
    }
    return ERR_CORRUPT;
}

/* A token of SASL; null is one, too. */
static err take_token(struct cursor *c, struct cql_answer *a, struct err_note *note)
{
    a->token = bytes_take(c);
    return c->failed ? answer_corrupt(note, "a token") : ERR_OK;
}

static err take_message(struct cursor *c, const struct cql_head *head, struct cql_answer *a,
                        struct err_note *note)
{
    switch (head->opcode) {
    case CQL_OP_ERROR:
        return cql_failure_take(c, head->version, &a->failure) ? ERR_OK
                                                               : answer_corrupt(note, "an error");
    case CQL_OP_READY:
        return ERR_OK;
    case CQL_OP_AUTHENTICATE:
        a->authenticator = cursor_str16(c);
        return c->failed ? answer_corrupt(note, "the name of an authenticator") : ERR_OK;
    case CQL_OP_SUPPORTED:
        return take_supported(c, a, note);
    case CQL_OP_RESULT:
        return take_result(c, head->version, a, note);
    case CQL_OP_EVENT:
        return cql_event_take(c, &a->event, note);
    case CQL_OP_AUTH_CHALLENGE:
    case CQL_OP_AUTH_SUCCESS:
        return take_token(c, a, note);
    default: /* a number of the wire */
        err_note_set(note, "opcode %u is no answer", (unsigned)head->opcode);
        return ERR_CORRUPT;
    }
}

err cql_answer_parse(const struct cql_head *head, str body, struct cql_answer *out,
                     struct err_note *note)
{
    if (!head->answer) {
        err_note_set(note, "a request came as an answer");
        return ERR_CORRUPT;
    }
    struct cql_answer a = { .op = (enum cql_opcode)head->opcode };
    struct cursor c = { .rest = body };
    err why = take_before(&c, head->flags, &a, note);
    if (why == ERR_OK)
        why = take_message(&c, head, &a, note);
    if (why == ERR_OK)
        *out = a;
    return why;
}

/* Columns are the only memory of an answer. */
void cql_answer_fini(struct cql_answer *a)
{
    cql_columns_drop(&a->rows.columns);
    cql_columns_drop(&a->prepared.markers);
    cql_columns_drop(&a->prepared.columns);
}

/* The columns that were prepared may be older than the table. A count that differs shows some of
 * that; the types are checked where the answer brings other columns (known.c). */
err cql_answer_describe(struct cql_answer *a, struct cql_columns *cached, struct err_note *note)
{
    INVARIANT(a->no_columns);
    if (cached->count != a->columns_count) {
        err_note_set(note, "rows of %u columns where %u were told", a->columns_count,
                     cached->count);
        return ERR_CORRUPT;
    }
    a->rows.columns = cql_columns_hold(cached);
    a->no_columns = false;
    return ERR_OK;
}

/* ---- what is read afterwards ---- */

bool cql_supports(const struct cql_answer *a, str name, str value)
{
    struct cursor c = a->supported;
    for (unsigned i = 0; i < a->supported_count; i++) {
        bool wanted = str_eq(cursor_str16(&c), name);
        for (unsigned left = cursor_be16(&c); left > 0; left--)
            if (str_eq(cursor_str16(&c), value) && wanted)
                /* All values of a name are read, also of others: the cursor has to come past them.
                 */
                return true;
    }
    return false;
}

str cql_answer_warning(struct cql_answer *a)
{
    INVARIANT(a->warnings_count > 0);
    a->warnings_count--;
    return cursor_str16(&a->warnings);
}
