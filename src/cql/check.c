/* check.c - is a request fit to be sent? Judges statements, values, timestamp and parameters before
 * anything goes out. For request.c.
 *
 * A request that is not fit ends with a note that says what is wrong. The judgement also says what
 * kind of request it is: write, idempotent, schema. */
#include "cql/cql_impl.h"

static err check_wrong(struct cql_request *q, err why, const char *text)
{
    err_note_set(&q->out.note, "%s", text);
    return why;
}

/* conditional: the statement, or another one of the batch, has a condition; then all of the batch
 * is written at the ballot. A plain write needs a timestamp: without it a retry is another write.
 */
static err check_timestamp(struct cql_request *q, const struct cql_lint *l, bool conditional)
{
    bool plain = l->kind == CQL_KIND_INSERT || l->kind == CQL_KIND_UPDATE ||
                 l->kind == CQL_KIND_DELETE || l->kind == CQL_KIND_BATCH;
    bool set = q->params.timestamp_us != CQL_NO_TIMESTAMP;
    if (set && conditional)
        return check_wrong(q, ERR_BAD,
                           "a conditional write takes no write timestamp: the server's "
                           "ballot is its timestamp");
    /* A statement that may differ when it runs again is never sent twice, so it needs none. */
    if (plain && !set && !conditional && !l->using_timestamp && !l->repeats_differ)
        return check_wrong(q, ERR_BAD,
                           "a write without a write timestamp: a retry could not be told "
                           "from a second write");
    return ERR_OK;
}

/* *bytes adds up over the parts of a request. */
static err check_values(struct cql_request *q, const struct cql_lint *l, const struct cql_values *v,
                        size_t *bytes)
{
    unsigned count = v == NULL ? 0 : v->count;
    if (v != NULL && cql_values_status(v) != ERR_OK)
        return check_wrong(q, ERR_LIMIT, "the values are more than they may be");
    if (count != l->markers) {
        err_note_set(&q->out.note, "%u values for %u markers", count, l->markers);
        return ERR_BAD;
    }
    *bytes += v == NULL ? 0 : v->bytes.n;
    if (*bytes > q->client->opts.request_bytes_max) {
        err_note_set(&q->out.note, "%zu bytes of values, and a request has at most %zu", *bytes,
                     q->client->opts.request_bytes_max);
        return ERR_LIMIT;
    }
    return ERR_OK;
}

static bool batch_is_conditional(const struct cql_request *q)
{
    for (unsigned i = 0; i < q->parts_count; i++)
        if (q->parts[i].statement->lint.conditional)
            return true;
    return false;
}

static err check_parts(struct cql_request *q)
{
    size_t bytes = q->params.page_state.n;
    bool fine = q->parts_count > 0 && q->parts_count <= CQL_PARTS_MAX &&
                (q->parts_count == 1 || q->way == CQL_WAY_BATCH);
    if (!fine)
        return check_wrong(q, ERR_BAD, "one statement, or a batch of at most CQL_PARTS_MAX");
    bool conditional = batch_is_conditional(q);
    for (unsigned i = 0; i < q->parts_count; i++) {
        const struct cql_statement *st = q->parts[i].statement;
        INVARIANT(st->client == q->client);
        /* One statement that is not idempotent makes the batch so. */
        q->idempotent &= st->opts.idempotent;
        q->write |= st->lint.kind != CQL_KIND_SELECT;
        err why = check_timestamp(q, &st->lint, conditional);
        if (why == ERR_OK)
            why = check_values(q, &st->lint, q->parts[i].values, &bytes);
        if (why != ERR_OK)
            return why;
        if (q->way == CQL_WAY_BATCH && st->lint.kind == CQL_KIND_SELECT)
            return check_wrong(q, ERR_BAD, "a batch holds writes only");
    }
    return ERR_OK;
}

/* The text is examined for each request: most such texts run once. */
static err check_text(struct cql_request *q)
{
    struct cql_lint lint;
    size_t bytes = q->text.n + q->params.page_state.n;
    err why = cql_lint(q->text, &lint, &q->out.note);
    if (why != ERR_OK)
        return why;
    q->idempotent = lint.kind == CQL_KIND_SELECT && !lint.repeats_differ;
    q->schema = lint.kind == CQL_KIND_SCHEMA;
    /* Any statement but SELECT may write: a lost answer then means that nobody knows. */
    q->write |= lint.kind != CQL_KIND_SELECT;
    why = check_timestamp(q, &lint, lint.conditional);
    return why != ERR_OK ? why : check_values(q, &lint, q->values, &bytes);
}

err cql_request_check(struct cql_request *q)
{
    const struct cql_params *p = &q->params;
    q->write = q->schema = false;
    q->idempotent = true;
    err why = q->way == CQL_WAY_TEXT ? check_text(q) : check_parts(q);
    if (why != ERR_OK)
        return why;
    if (q->speculative && (q->write || !q->idempotent))
        return check_wrong(q, ERR_BAD, "only an idempotent read may ask two nodes");
    bool serial = p->serial == CQL_ANY || p->serial == CQL_SERIAL || p->serial == CQL_LOCAL_SERIAL;
    if ((unsigned)p->consistency >= CQL_CONSISTENCIES || !serial || p->page_rows < 0)
        return check_wrong(q, ERR_BAD, "no such consistency, or a page of fewer than no rows");
    if (p->keyspace.n > CQL_NAME_BYTES_MAX)
        return check_wrong(q, ERR_BAD, "a keyspace of too long a name");
    return ERR_OK;
}
