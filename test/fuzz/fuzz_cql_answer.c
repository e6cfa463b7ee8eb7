/* Goal: no answer of a server makes the parser or the readers of rows and cells touch a byte that
 * is not theirs, run on, or keep memory. Input: an envelope, its length ignored. Method: all that
 * was read is walked: warnings, what is supported, each cell by each getter, nested items, types.
 */
#include "cql/answer.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 20000, TEXT_BYTES_MAX = 1 << 20 };

static volatile unsigned seen; /* so that no read is left out */

static void look(str s)
{
    unsigned sum = 0;
    for (size_t i = 0; i < s.n; i++)
        sum += (unsigned char)s.p[i];
    seen = sum;
}

static void get_all(const struct cql_cell *cell)
{
    str s;
    int64_t n;
    bool on;
    double d;
    struct tid t;
    const unsigned char *uuid;
    int32_t days;
    char inet[46];
    unsigned got = 0;
    if (cql_get_bytes(cell, &s))
        look(s);
    got += cql_get_i64(cell, &n);
    got += cql_get_bool(cell, &on);
    got += cql_get_double(cell, &d);
    got += cql_get_tid(cell, &t);
    got += cql_get_date(cell, &days);
    got += cql_get_inet(cell, inet) && strlen(inet) < sizeof inet;
    if (cql_get_uuid(cell, &uuid))
        look((str){ .p = (const char *)uuid, .n = CQL_UUID_BYTES });
    if (got > 1)
        abort(); /* a cell is of one type */
}

/* Depth first, as deep as a type can be. */
static void walk_cell(const struct cql_cell *cell, unsigned *steps)
{
    struct cql_items levels[CQL_TYPE_DEPTH_MAX];
    struct cql_cell at = *cell;
    int depth = -1;
    get_all(&at);
    if (cql_get_items(&at, &levels[0]))
        depth = 0;
    while (depth >= 0 && *steps < STEPS_MAX) {
        ++*steps;
        if (!cql_items_next(&levels[depth], &at)) {
            depth--;
            continue;
        }
        get_all(&at);
        if (depth + 1 < CQL_TYPE_DEPTH_MAX && cql_get_items(&at, &levels[depth + 1]))
            depth++;
    }
}

static void walk_columns(const struct cql_columns *c)
{
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    for (unsigned i = 0; c != NULL && i < c->count; i++) {
        look(c->at[i].keyspace);
        look(c->at[i].table);
        look(c->at[i].name);
        cql_spec_print(&c->at[i].spec, &text);
    }
    buf_fini(&text);
}

static void walk_rows(struct cql_answer *a)
{
    struct cql_columns *cached = NULL;
    if (a->no_columns) { /* what was prepared: blobs, as many */
        cached = calloc(1, sizeof *cached + a->columns_count * sizeof cached->at[0]);
        if (cached == NULL)
            abort();
        cached->refs = 1;
        cached->count = a->columns_count;
        if (cql_answer_describe(a, cached, NULL) != ERR_OK)
            abort();
        cql_columns_drop(&cached);
    }
    walk_columns(a->rows.columns);
    struct cql_cell *cells = malloc((a->columns_count + 1) * sizeof *cells);
    unsigned steps = 0, count = 0;
    while (cql_rows_next(&a->rows, cells)) {
        count++;
        for (unsigned i = 0; i < a->columns_count; i++)
            walk_cell(&cells[i], &steps);
    }
    if (count > a->rows.count || (count < a->rows.count) != a->rows.rest.failed)
        abort();
    free(cells);
}

static void walk_supported(const struct cql_answer *a)
{
    struct cursor c = a->supported;
    for (unsigned i = 0; i < a->supported_count; i++) {
        str name = cursor_str16(&c);
        unsigned count = cursor_be16(&c);
        for (unsigned k = 0; k < count; k++) {
            str value = cursor_str16(&c);
            if (k == 0 && i < 8 && !cql_supports(a, name, value))
                abort();
        }
    }
    if (!cursor_done(&c))
        abort();
}

static void walk(struct cql_answer *a)
{
    while (a->warnings_count > 0)
        look(cql_answer_warning(a));
    if (!cursor_done(&a->warnings))
        abort();
    look(a->payload);
    look(a->keyspace);
    look(a->token);
    look(a->authenticator);
    look(a->new_columns_id);
    look(a->rows.page_state);
    look(a->failure.message);
    look(a->failure.id);
    look(a->schema.name);
    look(a->event.change);
    look(a->event.schema.name);
    walk_supported(a);
    walk_columns(a->prepared.markers);
    walk_columns(a->prepared.columns);
    for (unsigned i = 0; i < a->prepared.partition_count; i++)
        if (a->prepared.partition[i] >= a->prepared.markers->count)
            abort();
    if (a->op == CQL_OP_RESULT && a->result == CQL_RESULT_ROWS)
        walk_rows(a);
    if (a->op == CQL_OP_ERROR) {
        struct buf text;
        buf_init(&text, TEXT_BYTES_MAX);
        cql_failure_print(&a->failure, &text);
        (void)cql_failure_reaction(&a->failure, true);
        (void)cql_failure_err(&a->failure);
        (void)cql_code_name(a->failure.code);
        buf_fini(&text);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < CQL_HEAD_BYTES)
        return 0;
    struct cql_head head = cql_head_get((const char *)data);
    str body = { .p = (const char *)data + CQL_HEAD_BYTES, .n = n - CQL_HEAD_BYTES };
    struct cql_answer a;
    struct err_note note = { .text = "" };
    err why = cql_answer_parse(&head, body, &a, &note);
    if (why != ERR_OK) {
        if (note.text[0] == 0 || (why != ERR_CORRUPT && why != ERR_LIMIT))
            abort();
        return 0;
    }
    walk(&a);
    cql_answer_fini(&a);
    return 0;
}
