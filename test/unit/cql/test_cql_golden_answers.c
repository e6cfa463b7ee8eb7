/* Goal: answers are read as another client reads them, and one that is cut anywhere is refused or
 * gives less, and no byte behind it is looked at. Method: golden.txt has the bytes and that
 * client's reading as text; ours is printed in the same words. Each answer is then cut at every
 * byte, and has every byte changed; ASan watches. */
#include "cql/answer.h"
#include "golden.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static const char *golden_path;

static void print_hex(struct buf *out, str bytes)
{
    for (size_t i = 0; i < bytes.n; i++)
        buf_printf(out, "%02x", (unsigned char)bytes.p[i]);
}

static void print_hex_or_null(struct buf *out, str bytes)
{
    if (bytes.n == 0)
        buf_put(out, STR("null"));
    print_hex(out, bytes);
}

static void print_columns(struct buf *out, const struct cql_columns *c)
{
    buf_put_c(out, '[');
    for (unsigned i = 0; c != NULL && i < c->count; i++) {
        const struct cql_column *at = &c->at[i];
        buf_printf(out, "%s%.*s.%.*s.%.*s ", i == 0 ? "" : ", ", STR_ARG(at->keyspace),
                   STR_ARG(at->table), STR_ARG(at->name));
        cql_spec_print(&at->spec, out);
    }
    buf_put_c(out, ']');
}

/* What is nested in a cell is read too, for ASan. */
static void walk_cell(const struct cql_cell *cell)
{
    struct cql_items items, inner;
    struct cql_cell item, leaf;
    if (!cql_get_items(cell, &items))
        return;
    while (cql_items_next(&items, &item))
        if (cql_get_items(&item, &inner))
            while (cql_items_next(&inner, &leaf))
                assert_non_null(leaf.column);
}

static void print_rows(struct buf *out, struct cql_answer *a)
{
    /* What was prepared, where an answer comes without. */
    struct cql_columns *cached = calloc(1, sizeof *cached + 2 * sizeof cached->at[0]);
    assert_non_null(cached);
    cached->refs = 1;
    cached->count = 2;
    buf_put(out, STR("rows "));
    print_hex_or_null(out, a->rows.page_state);
    buf_put_c(out, ' ');
    print_hex_or_null(out, a->new_columns_id);
    buf_put_c(out, ' ');
    print_columns(out, a->rows.columns);
    if (a->no_columns && cql_answer_describe(a, cached, NULL) != ERR_OK)
        buf_put(out, STR(" other columns"));
    cql_columns_drop(&cached);
    struct cql_cell *cells = malloc((a->columns_count + 1) * sizeof *cells);
    assert_non_null(cells);
    while (a->rows.columns != NULL && cql_rows_next(&a->rows, cells)) {
        buf_put(out, STR(" ("));
        for (unsigned i = 0; i < a->columns_count; i++) {
            if (i > 0)
                buf_put(out, STR(", "));
            if (cells[i].null)
                buf_put(out, STR("null"));
            print_hex(out, cells[i].bytes);
            walk_cell(&cells[i]);
        }
        buf_put_c(out, ')');
    }
    if (a->rows.rest.failed)
        buf_put(out, STR(" and a cut one"));
    free(cells);
}

static void print_prepared(struct buf *out, const struct cql_prepared_answer *p)
{
    buf_put(out, STR("prepared "));
    print_hex(out, p->id);
    buf_put_c(out, ' ');
    print_hex_or_null(out, p->columns_id);
    buf_put(out, STR(" markers "));
    print_columns(out, p->markers);
    buf_put(out, STR(" key ["));
    for (unsigned i = 0; i < p->partition_count; i++)
        buf_printf(out, "%s%u", i == 0 ? "" : ", ", (unsigned)p->partition[i]);
    buf_put(out, STR("] columns "));
    print_columns(out, p->columns);
}

static void print_schema(struct buf *out, const struct cql_schema_change *s)
{
    static const char *const words[] = { "CREATED", "UPDATED", "DROPPED" };
    buf_printf(out, "%s %.*s %.*s.%.*s", words[s->change], STR_ARG(s->target), STR_ARG(s->keyspace),
               STR_ARG(s->name));
}

static void print_result(struct buf *out, struct cql_answer *a)
{
    switch (a->result) {
    case CQL_RESULT_VOID:
        buf_put(out, STR("void"));
        break;
    case CQL_RESULT_ROWS:
        print_rows(out, a);
        break;
    case CQL_RESULT_KEYSPACE:
        buf_printf(out, "keyspace %.*s", STR_ARG(a->keyspace));
        break;
    case CQL_RESULT_PREPARED:
        print_prepared(out, &a->prepared);
        break;
    case CQL_RESULT_SCHEMA:
        buf_put(out, STR("schema "));
        print_schema(out, &a->schema);
        break;
    }
}

static void print_event(struct buf *out, const struct cql_event *e)
{
    buf_put(out, STR("event "));
    if (e->kind == CQL_EVENT_SCHEMA)
        print_schema(out, &e->schema);
    else
        buf_printf(out, "%s %.*s %s %d",
                   e->kind == CQL_EVENT_STATUS     ? "STATUS_CHANGE"
                   : e->kind == CQL_EVENT_TOPOLOGY ? "TOPOLOGY_CHANGE"
                                                   : "OTHER",
                   STR_ARG(e->change), e->address, (int)e->port);
}

static void print_failure(struct buf *out, const struct cql_failure *f)
{
    bool failed = f->code == CQL_READ_FAILURE || f->code == CQL_WRITE_FAILURE;
    bool timeout = f->code == CQL_WRITE_TIMEOUT || f->code == CQL_READ_TIMEOUT;
    buf_printf(out, "error %04x \"%.*s\"", (unsigned)f->code, STR_ARG(f->message));
    if (f->code == CQL_UNPREPARED) {
        buf_put(out, STR(" id="));
        print_hex(out, f->id);
    }
    if (failed || timeout || f->code == CQL_UNAVAILABLE)
        buf_printf(out, " cl=%d required=%d got=%d", (int)f->consistency, (int)f->required,
                   (int)f->alive_or_received);
    if (failed)
        buf_printf(out, " failed=%d", (int)f->failed);
    if (f->code == CQL_READ_TIMEOUT || f->code == CQL_READ_FAILURE)
        buf_printf(out, " data=%d", f->data_present);
    if (f->code == CQL_WRITE_TIMEOUT || f->code == CQL_WRITE_FAILURE)
        buf_printf(out, " write=%d", (int)f->write);
    if (f->code == CQL_ALREADY_EXISTS || f->code == CQL_FUNCTION_FAILURE)
        buf_printf(out, " ks=%.*s name=%.*s", STR_ARG(f->keyspace), STR_ARG(f->table));
    struct buf note;
    buf_init(&note, 4096);
    cql_failure_print(f, &note);
    assert_int_equal(buf_status(&note), ERR_OK);
    buf_fini(&note);
}

static void print_supported(struct buf *out, const struct cql_answer *a)
{
    struct cursor c = a->supported;
    buf_put(out, STR("supported"));
    for (unsigned i = 0; i < a->supported_count; i++) {
        str name = cursor_str16(&c);
        buf_printf(out, " %.*s=", STR_ARG(name));
        unsigned count = cursor_be16(&c);
        for (unsigned k = 0; k < count; k++) {
            str value = cursor_str16(&c);
            buf_printf(out, "%s%.*s", k == 0 ? "" : "|", STR_ARG(value));
            assert_true(cql_supports(a, name, value));
        }
    }
    assert_true(cursor_done(&c));
    assert_false(cql_supports(a, STR("COMPRESSION"), STR("3.4.7")));
    assert_false(cql_supports(a, STR("lz4"), STR("lz4")));
}

static void print_before(struct buf *out, struct cql_answer *a)
{
    if (a->traced) {
        buf_put(out, STR("trace="));
        print_hex(out, (str){ .p = (const char *)a->trace, .n = CQL_UUID_BYTES });
        buf_put_c(out, ' ');
    }
    while (a->warnings_count > 0) {
        str warning = cql_answer_warning(a);
        buf_printf(out, "warning=\"%.*s\" ", STR_ARG(warning));
    }
    assert_true(cursor_done(&a->warnings));
    struct cursor c = { .rest = a->payload };
    for (unsigned left = a->payload.n == 0 ? 0 : cursor_be16(&c); left > 0; left--) {
        str name = cursor_str16(&c);
        buf_printf(out, "payload %.*s=", STR_ARG(name));
        print_hex(out, cursor_bytes(&c, cursor_be32(&c)));
        buf_put_c(out, ' ');
    }
}

static void print_token(struct buf *out, const char *word, str token)
{
    buf_printf(out, "%s ", word);
    print_hex(out, token);
}

static void print_answer(struct buf *out, struct cql_answer *a)
{
    print_before(out, a);
    switch ((int)a->op) {
    case CQL_OP_ERROR:
        print_failure(out, &a->failure);
        break;
    case CQL_OP_READY:
        buf_put(out, STR("ready"));
        break;
    case CQL_OP_AUTHENTICATE:
        buf_printf(out, "authenticate %.*s", STR_ARG(a->authenticator));
        break;
    case CQL_OP_SUPPORTED:
        print_supported(out, a);
        break;
    case CQL_OP_RESULT:
        print_result(out, a);
        break;
    case CQL_OP_EVENT:
        print_event(out, &a->event);
        break;
    case CQL_OP_AUTH_CHALLENGE:
        print_token(out, "challenge", a->token);
        break;
    case CQL_OP_AUTH_SUCCESS:
        print_token(out, "success", a->token);
        break;
    default:
        fail();
    }
}

/* Text of a body; the error when it has none. */
static err read_body(const struct cql_head *head, str body, struct buf *text)
{
    struct cql_answer a;
    struct err_note note = { .text = "" };
    err why = cql_answer_parse(head, body, &a, &note);
    if (why != ERR_OK) {
        assert_true(why == ERR_CORRUPT || why == ERR_LIMIT);
        assert_true(note.text[0] != 0);
        return why;
    }
    print_answer(text, &a);
    cql_answer_fini(&a);
    return ERR_OK;
}

typedef void line_fn(const struct golden_line *line, const struct cql_head *head, str body);

static void each_answer(line_fn *f)
{
    struct golden g;
    golden_read(&g, golden_path);
    unsigned count = 0;
    for (unsigned i = 0; i < g.count; i++)
        if (str_eq(g.at[i].kind, STR("answer"))) {
            struct cql_head head = cql_head_get(g.at[i].bytes.p);
            assert_int_equal(head.body_bytes, g.at[i].bytes.n - CQL_HEAD_BYTES);
            f(&g.at[i], &head, str_skip(g.at[i].bytes, CQL_HEAD_BYTES));
            count++;
        }
    assert_true(count > 100);
    golden_fini(&g);
}

static void line_is_read(const struct golden_line *line, const struct cql_head *head, str body)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    assert_int_equal(read_body(head, body, &text), ERR_OK);
    if (!str_eq(buf_str(&text), line->text))
        fail_msg("%.*s is read as\n%.*s, not as\n%.*s", STR_ARG(line->name),
                 STR_ARG(buf_str(&text)), STR_ARG(line->text));
    buf_fini(&text);
}

static void answers_are_read_as_another_client_does(void **state)
{
    (void)state;
    each_answer(line_is_read);
}

/* Answers that say all in fewer bytes than they have: what is left over is ignored. */
static bool ends_early(const struct golden_line *line)
{
    return str_starts(line->name, STR("ready"));
}

static void line_is_cut(const struct golden_line *line, const struct cql_head *head, str body)
{
    struct buf text;
    buf_init(&text, 1 << 20);
    for (size_t n = 0; n < body.n; n++) {
        char *p = malloc(n == 0 ? 1 : n);
        assert_non_null(p);
        memcpy(p, body.p, n);
        buf_clear(&text);
        err why = read_body(head, (str){ .p = p, .n = n }, &text);
        bool rows = str_starts(line->text, STR("rows"));
        if (why == ERR_OK && !rows && !ends_early(line))
            fail_msg("%.*s is fine at %zu of %zu bytes", STR_ARG(line->name), n, body.n);
        if (why == ERR_OK && rows)
            assert_true(str_ends(buf_str(&text), STR(" and a cut one")));
        free(p);
    }
    buf_fini(&text);
}

static void answers_cut_anywhere_are_refused_or_give_fewer_rows(void **state)
{
    (void)state;
    each_answer(line_is_cut);
}

static void line_is_changed(const struct golden_line *line, const struct cql_head *head, str body)
{
    static const unsigned char changes[] = { 0x01, 0x80, 0xff };
    struct buf text;
    buf_init(&text, 1 << 20);
    char *p = malloc(body.n == 0 ? 1 : body.n);
    assert_non_null(p);
    for (size_t i = 0; i < body.n; i++)
        for (size_t k = 0; k < COUNT_OF(changes); k++) {
            memcpy(p, body.p, body.n);
            p[i] = (char)(p[i] ^ changes[k]);
            buf_clear(&text);
            (void)read_body(head, (str){ .p = p, .n = body.n }, &text); /* for ASan */
        }
    free(p);
    buf_fini(&text);
    (void)line;
}

static void answers_with_any_byte_changed_are_survived(void **state)
{
    (void)state;
    each_answer(line_is_changed);
}

int main(int argc, char **argv)
{
    (void)argc;
    golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(answers_are_read_as_another_client_does),
        cmocka_unit_test(answers_cut_anywhere_are_refused_or_give_fewer_rows),
        cmocka_unit_test(answers_with_any_byte_changed_are_survived),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
