/* restbase_find.c - finds the keyspaces that are tables of RESTBase's, and reads what their schemas
 * say. For `palimpsest import restbase` and the server's secondary.
 *
 * Without names the list of all tables is read first. A keyspace that has a meta and a data is then
 * asked for its schema, one keyspace after the other. Among keyspaces that nobody named, those of
 * another kind are passed over. A named keyspace of another kind is an error. */
#include "cassandra/restbase_impl.h"

#include <stdio.h>
#include <string.h>

enum { NAMES_BYTES_MAX = RESTBASE_CANDIDATES_MAX * RESTBASE_NAME_BYTES, PAGE_ROWS = 1000 };

static void find_next(struct restbase_find *f);

static void find_end(struct restbase_find *f, err why)
{
    f->why = why;
    buf_fini(&f->names);
    buf_fini(&f->text);
    f->done(f);
}

/* Sends f->text. Statements go as text: they are of tables that no server prepares twice. */
static void restbase_find_ask(struct restbase_find *f, str page_state,
                              void (*done)(struct cql_request *q))
{
    restbase_request(&f->request, done);
    f->request.params.page_rows = PAGE_ROWS;
    f->request.params.page_state = page_state;
    f->request.way = CQL_WAY_TEXT;
    f->request.parts_count = 0;
    f->request.text = buf_str(&f->text);
    f->request.deadline = f->deadline;
    cql_start(f->client, &f->request);
}

/* ---- all tables of the cluster ---- */

/* Notes a keyspace that has both tables. Tables of a keyspace come one behind the other, in order:
 * data before meta, so the second one decides. */
static bool table_take(struct restbase_find *f, const struct cql_cell *cells)
{
    str keyspace, table;
    char name[RESTBASE_NAME_BYTES];
    if (!cql_get_bytes(&cells[0], &keyspace) || !cql_get_bytes(&cells[1], &table))
        return false;
    if (!str_to_cstr(keyspace, name, sizeof name))
        return true; /* longer than a name can be */
    if (strcmp(name, f->keyspace) != 0) {
        memcpy(f->keyspace, name, sizeof name);
        f->has_data = false;
    }
    f->has_data = f->has_data || str_eq(table, STR("data"));
    if (f->has_data && str_eq(table, STR("meta")))
        buf_put(&f->names, (str){ .p = name, .n = keyspace.n + 1 });
    return true;
}

static void list_page(struct restbase_find *f, size_t state_n);

/* A page of the list. The rows borrow the answer, so all is taken before it is freed. */
static void on_page(struct cql_request *q)
{
    struct restbase_find *f = CONTAINER_OF(q, struct restbase_find, request);
    struct cql_rows rows = q->out.rows;
    struct cql_cell cells[2];
    err why = q->out.why;
    bool good = why == ERR_OK && rows.columns != NULL && rows.columns->count == 2;
    while (good && cql_rows_next(&rows, cells))
        good = table_take(f, cells);
    /* A page state that is too long would be no page state of ours: then the list ends here. */
    bool more = good && rows.more && rows.page_state.n <= sizeof f->page_state;
    if (more)
        memcpy(f->page_state, rows.page_state.p, rows.page_state.n);
    size_t state_n = more ? rows.page_state.n : 0;
    if (why != ERR_OK)
        f->note = q->out.note;
    else if (!good || rows.rest.failed)
        err_note_set(&f->note, "the list of tables cannot be read");
    why = why == ERR_OK && (!good || rows.rest.failed) ? ERR_CORRUPT : why;
    cql_outcome_fini(&q->out);
    /* names is bounded by RESTBASE_CANDIDATES_MAX. */
    if (why == ERR_OK && buf_status(&f->names) != ERR_OK) {
        err_note_set(&f->note, "there are too many keyspaces: name those that are meant");
        why = ERR_LIMIT;
    }
    if (why != ERR_OK) {
        find_end(f, why);
    } else if (more) {
        list_page(f, state_n);
    } else {
        f->keyspace[0] = '\0';
        find_next(f);
    }
}

static void list_page(struct restbase_find *f, size_t state_n)
{
    buf_clear(&f->text);
    buf_put(&f->text, STR("SELECT keyspace_name, table_name FROM system_schema.tables"));
    restbase_find_ask(f, (str){ .p = f->page_state, .n = state_n }, on_page);
}

/* ---- one keyspace ---- */

/* The schema of one keyspace, if it has one. */
static void on_schema(struct cql_request *q)
{
    struct restbase_find *f = CONTAINER_OF(q, struct restbase_find, request);
    struct cql_rows rows = q->out.rows;
    struct cql_cell cell;
    str text;
    struct restbase_table table = { .table = "" };
    struct err_note note = { .text = "it has no schema of RESTBase's" };
    memcpy(table.keyspace, f->keyspace, sizeof table.keyspace);
    err why = q->out.why;
    if (why != ERR_OK)
        note = q->out.note;
    else if (rows.columns == NULL || rows.columns->count != 1 || !cql_rows_next(&rows, &cell) ||
             !cql_get_bytes(&cell, &text))
        why = ERR_NOT_FOUND;
    else
        why = restbase_schema_read(text, &table, &note);
    cql_outcome_fini(&q->out);
    bool named = f->keyspaces_count > 0;
    /* ERR_CONFLICT: its table meta has no such columns; so it is somebody else's. */
    bool other = why == ERR_NOT_FOUND || why == ERR_BAD || why == ERR_CONFLICT;
    if (why == ERR_OK && f->count == RESTBASE_FOUND_MAX)
        f->more = true;
    else if (why == ERR_OK)
        f->tables[f->count++] = table;
    if (why != ERR_OK && (named || !other)) {
        err_note_set(&f->note, "keyspace %.64s: %.180s", f->keyspace, note.text);
        find_end(f, why);
        return;
    }
    find_next(f);
}

/* Asks for the schema of the next keyspace, or ends. The names stand one behind the other, each
 * with its NUL. */
static void find_next(struct restbase_find *f)
{
    char quoted[2 * RESTBASE_NAME_BYTES + 2];
    if (f->next >= f->names.n) {
        find_end(f, ERR_OK);
        return;
    }
    (void)str_to_cstr(str_of(f->names.p + f->next), f->keyspace, sizeof f->keyspace); /* fits */
    f->next += strlen(f->keyspace) + 1;
    restbase_quote(f->keyspace, quoted);
    buf_clear(&f->text);
    buf_printf(&f->text, "SELECT \"value\" FROM %s.\"meta\" WHERE \"key\" = 'schema'", quoted);
    restbase_find_ask(f, STR_NONE, on_schema);
}

void restbase_find(struct restbase_find *f)
{
    INVARIANT(f->keyspaces_count <= RESTBASE_FOUND_MAX);
    buf_init(&f->names, NAMES_BYTES_MAX);
    buf_init(&f->text, RESTBASE_TEXT_BYTES);
    f->count = 0;
    f->next = 0;
    f->more = f->has_data = false;
    f->keyspace[0] = '\0';
    f->note.text[0] = '\0';
    for (unsigned i = 0; i < f->keyspaces_count; i++)
        buf_put(&f->names, (str){ .p = f->keyspaces[i], .n = strlen(f->keyspaces[i]) + 1 });
    if (f->keyspaces_count > 0)
        find_next(f);
    else
        list_page(f, 0);
}
