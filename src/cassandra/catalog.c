/* catalog.c - the statements of the table `decide`, ids, and the reading of a generation.
 * catalog_rows.c reads scopes, catalog_change.c writes them.
 *
 * A row of kind 0 is a cell. A row of kind 1 is the note of a change, and its key is the change's
 * id. The generation is a static column: it belongs to the partition, so a batch may depend on it.
 * Invariant: every statement that writes here goes out in a conditional batch (catalog_change.c).
 * MARK, PUT and DELETE carry no condition of their own; the note beside them does. */
#include "cassandra/catalog_impl.h"

#include "cassandra/titles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEXT_BYTES_MAX = 256 };

#define CELL "scope = ? AND kind = 0 AND key = ?"
#define NOTE "scope = ? AND kind = 1 AND key = ?"

/* The keyspace stands between before and behind. A statement with IF is not idempotent: the effect
 * of the first try refuses the second. */
static const struct {
    const char *name, *before, *behind, *takes, *gives;
    bool idempotent;
} texts[CATALOG_STATEMENTS] = {
    [CATALOG_LIST] = { "decide.list", "SELECT kind, key, ver, value, gen FROM ",
                       ".decide WHERE scope = ?", "text", "tinyint, blob, blob, blob, blob", true },
    [CATALOG_GET] = { "decide.get", "SELECT kind, key, ver, value, gen FROM ",
                      ".decide WHERE " CELL, "text, blob", "tinyint, blob, blob, blob, blob",
                      true },
    [CATALOG_GENERATION] = { "decide.generation", "SELECT gen FROM ",
                             ".decide WHERE scope = ? LIMIT 1", "text", "blob", true },
    [CATALOG_NOTED] = { "decide.noted", "SELECT ver FROM ", ".decide WHERE " NOTE, "text, blob",
                        "blob", true },
    [CATALOG_MARK] = { "decide.mark", "UPDATE ", ".decide SET gen = ? WHERE scope = ?",
                       "blob, text", NULL, true },
    [CATALOG_MARK_IF] = { "decide.mark_if", "UPDATE ",
                          ".decide SET gen = ? WHERE scope = ? IF gen = ?", "blob, text, blob",
                          NULL, false },
    [CATALOG_NOTE] = { "decide.note", "INSERT INTO ",
                       ".decide (scope, kind, key, ver) VALUES (?, 1, ?, ?) IF NOT EXISTS "
                       "USING TTL ?",
                       "text, blob, blob, int", NULL, false },
    [CATALOG_PUT] = { "decide.put", "UPDATE ", ".decide SET ver = ?, value = ? WHERE " CELL,
                      "blob, blob, text, blob", NULL, true },
    [CATALOG_PUT_IF] = { "decide.put_if", "UPDATE ",
                         ".decide SET ver = ?, value = ? WHERE " CELL " IF ver = ?",
                         "blob, blob, text, blob, blob", NULL, false },
    [CATALOG_DELETE] = { "decide.delete", "DELETE FROM ", ".decide WHERE " CELL, "text, blob", NULL,
                         true },
    [CATALOG_DELETE_IF] = { "decide.delete_if", "DELETE FROM ", ".decide WHERE " CELL " IF ver = ?",
                            "text, blob, blob", NULL, false },
};

/* The statement borrows its text, so the catalog keeps the text for its life. */
static bool statement_add(struct catalog *c, unsigned i, const char *keyspace,
                          struct err_note *note)
{
    c->texts[i] = malloc(TEXT_BYTES_MAX);
    INVARIANT(c->texts[i] != NULL);
    int n =
        snprintf(c->texts[i], TEXT_BYTES_MAX, "%s%s%s", texts[i].before, keyspace, texts[i].behind);
    INVARIANT(n > 0 && n < TEXT_BYTES_MAX);
    const struct cql_statement_opts o = { .name = texts[i].name,
                                          .text = c->texts[i],
                                          .takes = texts[i].takes,
                                          .gives = texts[i].gives,
                                          .idempotent = texts[i].idempotent };
    c->statements[i] = cql_statement_new(c->client, &o, note);
    return c->statements[i] != NULL;
}

struct catalog *catalog_new(const struct catalog_opts *o, struct err_note *note)
{
    if (!titles_keyspace_is_fine(o->keyspace, note))
        return NULL;
    struct catalog *c = calloc(1, sizeof *c);
    INVARIANT(c != NULL);
    *c = (struct catalog){ .magic = CATALOG_MAGIC,
                           .client = o->client,
                           .loop = o->loop,
                           .clock = o->clock,
                           .entropy = o->entropy };
    for (unsigned i = 0; i < CATALOG_STATEMENTS; i++)
        if (!statement_add(c, i, o->keyspace, note)) {
            catalog_free(&c);
            return NULL;
        }
    return c;
}

void catalog_free(struct catalog **cp)
{
    struct catalog *c = *cp;
    *cp = NULL;
    if (c == NULL)
        return;
    MAGIC_CHECK(c, CATALOG_MAGIC);
    for (unsigned i = 0; i < CATALOG_STATEMENTS; i++)
        free(c->texts[i]);
    c->magic = 0;
    free(c);
}

/* ---- ids ---- */

bool catalog_id_eq(const struct catalog_id *a, const struct catalog_id *b)
{
    return memcmp(a->bytes, b->bytes, CATALOG_ID_BYTES) == 0;
}

/* `IF ver = null` is how Cassandra asks for a cell that is not there. So no id is written as null.
 */
void catalog_put_id(struct cql_values *v, const struct catalog_id *id)
{
    static const struct catalog_id none;
    if (catalog_id_eq(id, &none))
        cql_put_null(v);
    else
        cql_put_bytes(v, (str){ .p = (const char *)id->bytes, .n = CATALOG_ID_BYTES });
}

bool catalog_get_id(const struct cql_cell *cell, struct catalog_id *out)
{
    str bytes;
    if (cell->null) {
        *out = (struct catalog_id){ .bytes = { 0 } };
        return true;
    }
    if (!cql_get_bytes(cell, &bytes) || bytes.n != CATALOG_ID_BYTES)
        return false;
    memcpy(out->bytes, bytes.p, CATALOG_ID_BYTES);
    return true;
}

/* ---- requests ---- */

mono catalog_deadline(const struct catalog *c, const struct store_call *call)
{
    return call->deadline.ns != 0 ? call->deadline
                                  : mono_add_ms(clock_mono(c->clock), CATALOG_WAIT_MS);
}

struct cql_request catalog_request(struct home *home, mono deadline,
                                   void (*done)(struct cql_request *q))
{
    struct cql_request q = {
        .way = CQL_WAY_EXECUTE, .parts_count = 1, .home = home, .deadline = deadline, .done = done
    };
    q.params.consistency = CQL_LOCAL_QUORUM;
    /* Conditional writes take their ballot as timestamp; the client refuses another one. */
    q.params.timestamp_us = CQL_NO_TIMESTAMP;
    q.params.now_s = CQL_NO_NOW;
    return q;
}

/* ---- the generation ---- */

/* One look at a generation. Freed before its caller is told. */
struct look {
    struct catalog_look *look;
    struct cql_request request;
    struct cql_part part;
    struct cql_values values;
};

/* Rows of one column, taken by value: the caller's cursor does not move. No row means that nothing
 * was ever written to the scope, and the id stays zero. */
static err generation_take(struct cql_rows rows, struct catalog_id *out)
{
    struct cql_cell cell;
    *out = (struct catalog_id){ .bytes = { 0 } };
    /* A table of another shape: somebody made it, and this program cannot judge it. */
    if (rows.columns == NULL || rows.columns->count != 1)
        return ERR_CORRUPT;
    if (!cql_rows_next(&rows, &cell))
        return rows.rest.failed ? ERR_CORRUPT : ERR_OK;
    return catalog_get_id(&cell, out) ? ERR_OK : ERR_CORRUPT;
}

static void look_done(struct cql_request *q)
{
    struct look *l = CONTAINER_OF(q, struct look, request);
    struct catalog_look *out = l->look;
    err e = q->out.why;
    if (e != ERR_OK)
        out->note = q->out.note;
    else
        e = generation_take(q->out.rows, &out->generation);
    cql_outcome_fini(&q->out);
    cql_values_fini(&l->values);
    free(l);
    out->call.why = e;
    out->call.done(&out->call);
}

enum store_start catalog_look(struct catalog *c, struct catalog_look *out)
{
    MAGIC_CHECK(c, CATALOG_MAGIC);
    struct look *l = calloc(1, sizeof *l);
    INVARIANT(l != NULL);
    l->look = out;
    cql_values_init(&l->values, CATALOG_SCOPE_BYTES_MAX + 16);
    cql_put_bytes(&l->values, out->scope);
    l->part =
        (struct cql_part){ .statement = c->statements[CATALOG_GENERATION], .values = &l->values };
    l->request = catalog_request(out->call.home, catalog_deadline(c, &out->call), look_done);
    l->request.parts = &l->part;
    /* A second node may be asked: this look paces how fast a server learns of a change. */
    l->request.speculative = true;
    cql_start(c->client, &l->request);
    return STORE_LATER;
}
