/* outcome.c - what an answer says of a request: the failure, whether the write may have happened
 * all the same, and the rows with their columns. The next step is request.c's. */
#include "cql/cql_impl.h"

#include <string.h>

/* The note names code, node and consistency: the log's readers need all three. */
void cql_outcome_failure(struct cql_request *q, const struct cql_failure *f,
                         const struct cql_node *n)
{
    char bytes[192];
    struct buf b = { .p = bytes, .size = sizeof bytes, .bytes_max = sizeof bytes };
    /* A code of this client's own (conn_in.c): no server's error. */
    bool too_large = f->code == CQL_ANSWER_TOO_LARGE;
    cql_failure_print(f, &b);
    str numbers = buf_str(&b);
    q->out.code = too_large ? -1 : f->code;
    q->out.why = too_large ? ERR_LIMIT : cql_failure_err(f);
    err_note_set(&q->out.note, "%s from %s at %s: %.*s%s%.*s",
                 too_large ? "too large an answer" : cql_code_name(f->code), n->text,
                 cql_consistency_name(q->params.consistency), STR_ARG(numbers),
                 numbers.n > 0 ? "; " : "", STR_ARG(str_take(f->message, 120)));
}

/* Was the request certainly not executed? Only then another write may follow. */
bool cql_outcome_is_harmless(const struct cql_request *q, const struct cql_failure *f)
{
    /* The parts of a batch without a log are begun one by one: replicas may be missing for a later
     * part. For a batch with a log they are counted before anything is written. */
    bool parted = q->way == CQL_WAY_BATCH && q->batch != CQL_LOGGED && q->parts_count > 1;
    if (f->code == CQL_UNAVAILABLE)
        return !parted;
    /* OVERLOADED is no sign of that: it also comes in the midst of a write, for too many hints. */
    return f->code == CQL_BOOTSTRAPPING || f->code == CQL_PROTOCOL_ERROR ||
           (f->code >= CQL_SYNTAX_ERROR && f->code <= CQL_UNPREPARED);
}

/* A node that forgot one statement names it; without a name all of the request are prepared again.
 */
void cql_outcome_forget(struct cql_request *q, struct cql_node *n, str id)
{
    for (unsigned i = 0; q->way != CQL_WAY_TEXT && i < q->parts_count; i++) {
        struct cql_known *k = cql_known_of(n, q->parts[i].statement);
        str known = { .p = k->ids, .n = k->id_bytes };
        if (id.n == 0 || (k->state == CQL_KNOWN && str_eq(known, id)))
            cql_known_forget(k);
    }
}

/* Gives rows that came without columns their columns, and keeps new ones. False: the node's table
 * is another one than was prepared. */
static bool rows_complete(struct cql_request *q, struct cql_node *n, struct cql_answer *a,
                          struct cql_columns *columns)
{
    if (a->no_columns && (columns == NULL || cql_answer_describe(a, columns, NULL) != ERR_OK)) {
        cql_outcome_forget(q, n, STR_NONE);
        err_note_set(&q->out.note, "%s answers with other columns than were prepared", n->text);
        return false;
    }
    if (a->new_columns_id.n == 0 || q->way != CQL_WAY_EXECUTE)
        return true;
    const struct cql_statement *st = q->parts[0].statement;
    struct err_note note = { .text = "" };
    if (cql_known_columns(cql_known_of(n, st), a->new_columns_id, a->rows.columns, &note))
        return true;
    err_note_set(&q->out.note, "statement %s at %s: %s", st->opts.name, n->text, note.text);
    return false;
}

/* Columns and bytes move into the outcome, which the caller ends. */
bool cql_outcome_take(struct cql_request *q, struct cql_message *m, struct cql_node *n,
                      struct cql_columns *columns)
{
    struct cql_answer *a = &m->answer;
    bool rows = a->result == CQL_RESULT_ROWS;
    q->out.traced = a->traced;
    memcpy(q->out.trace, a->trace, sizeof q->out.trace);
    q->out.code = -1;
    /* A write answers with no rows, unless it has a condition. */
    if (!rows && !q->write) {
        q->out.why = ERR_IO;
        err_note_set(&q->out.note, "%s answers a read with no rows", n->text);
        return false;
    }
    if (!rows)
        return true;
    if (!rows_complete(q, n, a, columns)) {
        q->out.why = ERR_CONFLICT;
        return false;
    }
    q->out.rows = a->rows;
    q->out.body = m->body;
    a->rows.columns = NULL;
    m->body = NULL;
    return true;
}
