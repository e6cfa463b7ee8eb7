/* restbase.c - the reader of RESTBase's tables: its statements, how revisions are written there,
 * and the rows of one render. For walks and looks.
 *
 * The rows of a render are asked for at the same time, one request for each table.
 * Invariant: the parts of a fetch borrow the answers, which are held until restbase_fetch_fini. */
#include "cassandra/restbase_impl.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { VALUES_BYTES_MAX = 256 << 10 /* of a key: domain, title, revision, render */ };

/* RESTBase cuts names and hashes them, so a name may hold capitals and other letters. */
void restbase_quote(const char *name, char *out)
{
    *out++ = '"';
    for (; *name != '\0'; name++) {
        if (*name == '"')
            *out++ = '"';
        *out++ = *name;
    }
    *out++ = '"';
    *out = '\0';
}

/* Nothing is written, so there is no timestamp. The caller sets the statement and the deadline.
 */
void restbase_request(struct cql_request *q, void (*done)(struct cql_request *q))
{
    *q = (struct cql_request){ .class = CQL_FOREGROUND, .parts_count = 1, .done = done };
    q->params.consistency = CQL_LOCAL_QUORUM;
    q->params.timestamp_us = CQL_NO_TIMESTAMP;
    q->params.now_s = CQL_NO_NOW;
}

/* ---- values ---- */

/* A varint: two's complement, the first byte first. */
static bool varint_read(str bytes, int64_t *out)
{
    /* Revisions of more than 64 bits are none of a wiki. */
    if (bytes.n == 0 || bytes.n > sizeof *out)
        return false;
    /* Starts from the sign, so that shorter numbers are extended by it. */
    uint64_t n = (bytes.p[0] & 0x80) != 0 ? UINT64_MAX : 0;
    for (size_t i = 0; i < bytes.n; i++)
        n = (n << 8) | (unsigned char)bytes.p[i];
    *out = (int64_t)n;
    return true;
}

/* The column says how the revision is written; statements are not checked by type, since tables
 * differ. */
bool restbase_rev(const struct cql_cell *cell, uint64_t *out)
{
    int64_t n = 0;
    str bytes;
    if (!cql_get_bytes(cell, &bytes))
        return false;
    bool text = cell->column->spec.type == CQL_TEXT || cell->column->spec.type == CQL_ASCII;
    bool read = text                                    ? str_to_i64(bytes, &n)
                : cell->column->spec.type == CQL_VARINT ? varint_read(bytes, &n)
                                                        : cql_get_i64(cell, &n);
    if (!read || n <= 0)
        return false;
    *out = (uint64_t)n;
    return true;
}

/* ---- names ---- */

/* Keeps the revision's bytes as they came: a further question about this render gives them back,
 * whatever their form. */
void restbase_name_take(struct restbase_name *n, const struct cql_cell *cells)
{
    str rev, tid;
    *n = (struct restbase_name){ .unfit = NULL };
    if (!cql_get_bytes(&cells[0], &rev) || !cql_get_bytes(&cells[1], &tid)) {
        n->unfit = "it has no revision";
    } else if (!restbase_rev(&cells[0], &n->rev) || rev.n > sizeof n->rev_raw) {
        n->unfit = "its revision is no number above 0";
    } else if (!cql_get_tid(&cells[1], &n->tid)) {
        n->unfit = "its tid is no UUID of version 1";
    } else {
        memcpy(n->rev_raw, rev.p, rev.n);
        n->rev_n = rev.n;
    }
}

/* Writes the shortest two's complement, which Cassandra wants of a varint. One bit stays for the
 * sign. */
static size_t varint_write(uint64_t n, char *out)
{
    unsigned bytes = 1;
    while (bytes < 8 && n >> (8 * bytes - 1) != 0)
        bytes++;
    for (unsigned i = 0; i < bytes; i++)
        out[i] = (char)(n >> (8 * (bytes - 1 - i)));
    return bytes;
}

bool restbase_name_put(struct restbase_name *n, enum restbase_revs revs)
{
    /* A revision that the column cannot hold is in no row. */
    uint64_t max = revs == RESTBASE_INT ? INT32_MAX : INT64_MAX;
    if (n->rev == 0 || n->rev > max)
        return false;
    switch (revs) {
    case RESTBASE_INT:
        put_be32(n->rev_raw, (uint32_t)n->rev);
        n->rev_n = 4;
        break;
    case RESTBASE_LONG:
        put_be64(n->rev_raw, n->rev);
        n->rev_n = 8;
        break;
    case RESTBASE_VARINT:
        n->rev_n = varint_write(n->rev, n->rev_raw);
        break;
    case RESTBASE_STRING:
        n->rev_n = (size_t)snprintf(n->rev_raw, sizeof n->rev_raw, "%" PRIu64, n->rev);
        break;
    }
    return true;
}

/* ---- the reader ---- */

PRINTF_LIKE(2, 3)
/* Texts live in the reader, since the client borrows them: the reader is freed behind the client.
 */
static void text_build(char text[RESTBASE_TEXT_BYTES], const char *format, ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text, RESTBASE_TEXT_BYTES, format, args);
    va_end(args);
    INVARIANT(n > 0 && n < RESTBASE_TEXT_BYTES); /* names of keyspaces are bounded */
}

/* All statements only read, so each may be sent twice. */
static const struct cql_statement *statement(struct restbase *r, const char *name, const char *text,
                                             struct err_note *note)
{
    return cql_statement_new(
        r->client, &(struct cql_statement_opts){ .name = name, .text = text, .idempotent = true },
        note);
}

/* The row of one content. Columns that a table may lack are asked for only where its schema has
 * them. */
static bool row_statement(struct restbase *r, unsigned i, struct err_note *note)
{
    const struct restbase_table *t = &r->tables[i];
    char keyspace[2 * RESTBASE_NAME_BYTES + 2];
    restbase_quote(t->keyspace, keyspace);
    text_build(r->row_text[i],
               "SELECT \"value\"%s%s FROM %s.\"data\" WHERE \"_domain\" = ? AND \"key\" = ? "
               "AND \"rev\" = ? AND \"tid\" = ?",
               t->has_headers ? ", \"headers\"" : "", t->has_type ? ", \"content-type\"" : "",
               keyspace);
    r->row[i] = statement(r, "restbase.row", r->row_text[i], note);
    return r->row[i] != NULL;
}

/* Of the first table, which says which renders there are: keys by token, names of a title, and the
 * newest name. */
static bool key_statements(struct restbase *r, struct err_note *note)
{
    char keyspace[2 * RESTBASE_NAME_BYTES + 2];
    restbase_quote(r->tables[0].keyspace, keyspace);
    text_build(r->keys_text,
               "SELECT DISTINCT \"_domain\", \"key\", token(\"_domain\", \"key\") "
               "FROM %s.\"data\" WHERE token(\"_domain\", \"key\") > ? "
               "AND token(\"_domain\", \"key\") <= ?",
               keyspace);
    /* A range of tokens is one question for the nodes that hold it. */
    text_build(r->names_text,
               "SELECT \"rev\", \"tid\" FROM %s.\"data\" WHERE \"_domain\" = ? AND \"key\" = ? "
               "ORDER BY \"rev\" DESC, \"tid\" DESC",
               keyspace);
    text_build(r->latest_text, "%s LIMIT 1", r->names_text);
    text_build(r->of_rev_text,
               "SELECT \"rev\", \"tid\" FROM %s.\"data\" WHERE \"_domain\" = ? AND \"key\" = ? "
               "AND \"rev\" = ? ORDER BY \"rev\" DESC, \"tid\" DESC LIMIT 1",
               keyspace);
    const struct {
        const struct cql_statement **to;
        const char *name, *text;
    } wanted[] = { { &r->keys, "restbase.keys", r->keys_text },
                   { &r->names, "restbase.names", r->names_text },
                   { &r->latest, "restbase.latest", r->latest_text },
                   { &r->of_rev, "restbase.of_rev", r->of_rev_text } };
    for (size_t i = 0; i < COUNT_OF(wanted); i++) {
        *wanted[i].to = statement(r, wanted[i].name, wanted[i].text, note);
        if (*wanted[i].to == NULL)
            return false;
    }
    return true;
}

struct restbase *restbase_new(const struct restbase_opts *opts, struct err_note *note)
{
    INVARIANT(opts->tables_count >= 1);
    INVARIANT(opts->tables_count <= RESTBASE_TABLES_MAX);
    struct restbase *r = calloc(1, sizeof *r);
    INVARIANT(r != NULL);
    *r = (struct restbase){ .magic = RESTBASE_MAGIC,
                            .client = opts->client,
                            .clock = opts->clock,
                            .tables_count = opts->tables_count,
                            .domain = opts->domain == NULL ? NULL : strdup(opts->domain),
                            .timeout_ms = opts->timeout_ms };
    INVARIANT((r->domain == NULL) == (opts->domain == NULL));
    memcpy(r->tables, opts->tables, opts->tables_count * sizeof r->tables[0]);
    bool good = key_statements(r, note);
    for (unsigned i = 0; good && i < r->tables_count; i++)
        good = row_statement(r, i, note);
    if (!good)
        restbase_free(&r);
    return r;
}

void restbase_free(struct restbase **rp)
{
    struct restbase *r = *rp;
    if (r == NULL)
        return;
    MAGIC_CHECK(r, RESTBASE_MAGIC);
    r->magic = 0;
    free(r->domain);
    free(r);
    *rp = NULL;
}

/* ---- the rows of a render ---- */

/* Reads the one row that there can be. ERR_NOT_FOUND: there is none. ERR_CORRUPT: the table has
 * other columns than its schema said. */
static err row_cells(const struct restbase_row *row, struct cql_cell *cells, unsigned wanted)
{
    struct cql_rows rows = row->request.out.rows;
    if (rows.columns == NULL || rows.columns->count != wanted)
        return ERR_CORRUPT;
    if (!cql_rows_next(&rows, cells))
        return rows.rest.failed ? ERR_CORRUPT : ERR_NOT_FOUND;
    return ERR_OK;
}

/* Null and missing are the same: no text. */
static str text_cell(const struct cql_cell *cell)
{
    str bytes;
    return cql_get_bytes(cell, &bytes) ? bytes : STR_NONE;
}

/* Takes one content. A row that is missing in the first table means that the render has gone
 * meanwhile. In another table the render lacks a content. */
static err row_take(struct restbase_fetch *f, unsigned i)
{
    const struct restbase_table *t = &f->reader->tables[i];
    struct cql_cell cells[RESTBASE_COLUMNS_MAX];
    unsigned wanted = 1u + t->has_headers + t->has_type;
    err why = row_cells(&f->rows[i], cells, wanted);
    f->gone = f->gone || (i == 0 && why == ERR_NOT_FOUND);
    if (why != ERR_OK)
        return why == ERR_NOT_FOUND ? ERR_OK : why;
    struct restbase_part *p = &f->parts[i];
    p->there = cql_get_bytes(&cells[0], &p->value);
    if (t->has_headers)
        p->headers = text_cell(&cells[1]);
    if (t->has_type)
        p->type = text_cell(&cells[1 + t->has_headers]);
    f->bytes += p->value.n + p->headers.n + p->type.n;
    return ERR_OK;
}

/* All answers are there. The first failure is told, by the keyspace where it happened. */
static void fetch_end(struct restbase_fetch *f)
{
    for (unsigned i = 0; i < f->reader->tables_count; i++) {
        const struct cql_outcome *out = &f->rows[i].request.out;
        err why = out->why != ERR_OK ? out->why : row_take(f, i);
        if (why == ERR_OK || f->why != ERR_OK)
            continue;
        f->why = why;
        err_note_set(&f->note, "%.64s: %.180s", f->reader->tables[i].keyspace,
                     out->why != ERR_OK ? out->note.text : "a row cannot be read");
    }
    f->done(f);
}

/* The answer stays where it is; the fetch goes on with the last one. */
static void on_row(struct cql_request *q)
{
    struct restbase_row *row = CONTAINER_OF(q, struct restbase_row, request);
    row->held = true;
    if (--row->fetch->waiting == 0)
        fetch_end(row->fetch);
}

static void row_start(struct restbase_fetch *f, unsigned i)
{
    struct restbase_row *row = &f->rows[i];
    *row = (struct restbase_row){ .fetch = f };
    cql_values_init(&row->values, VALUES_BYTES_MAX);
    cql_put_bytes(&row->values, f->domain);
    cql_put_bytes(&row->values, f->title);
    cql_put_bytes(&row->values, (str){ .p = f->name->rev_raw, .n = f->name->rev_n });
    cql_put_tid(&row->values, f->name->tid);
    row->part = (struct cql_part){ .statement = f->reader->row[i], .values = &row->values };
    restbase_request(&row->request, on_row);
    row->request.way = CQL_WAY_EXECUTE;
    row->request.parts = &row->part;
    row->request.deadline = f->deadline;
    cql_start(f->reader->client, &row->request);
}

void restbase_fetch_start(struct restbase_fetch *f)
{
    unsigned count = f->reader->tables_count;
    f->why = ERR_OK;
    f->note.text[0] = '\0';
    f->gone = false;
    f->bytes = 0;
    /* Set before any request goes out: an answer may be there soon, though never inside the start.
     */
    f->waiting = count;
    memset(f->parts, 0, sizeof f->parts);
    for (unsigned i = 0; i < count; i++)
        row_start(f, i);
}

/* Some may have answered already, and are held. */
void restbase_fetch_cancel(struct restbase_fetch *f)
{
    for (unsigned i = 0; f->waiting > 0 && i < f->reader->tables_count; i++)
        if (!f->rows[i].held)
            cql_cancel(&f->rows[i].request);
}

void restbase_fetch_fini(struct restbase_fetch *f)
{
    for (unsigned i = 0; i < f->reader->tables_count; i++) {
        if (!f->rows[i].held)
            continue;
        f->rows[i].held = false;
        cql_outcome_fini(&f->rows[i].request.out);
        cql_values_fini(&f->rows[i].values);
    }
}
