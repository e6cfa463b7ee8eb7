/* parse.c - JSON writes as struct table_write: one query, or a batch. */
#include "codec/json.h"
#include "table/query.h"
#include "table/store.h"

#include <string.h>

static err write_read(const struct store_look *p, str table, const json_t *json, bool is_delete,
                      struct table_write *out)
{
    struct schema *s;
    err e = store_schema(p, table, &s);
    if (e == ERR_OK)
        e = is_delete ? query_delete(p->arena, s, json, out, p->note)
                      : query_put(p->arena, s, json, out, p->note);
    if (e == ERR_OK)
        out->own = s;
    return e;
}

static err op_read(const struct store_look *p, const json_t *json, const struct table_parse *of,
                   struct table_write *out)
{
    const char *op = json_body_word(json_object_get(json, "op"));
    const char *table = json_body_word(json_object_get(json, "table"));
    if (op == NULL || (strcmp(op, "put") != 0 && strcmp(op, "delete") != 0)) {
        err_note_set(p->note, "each operation of a batch needs op: put or delete");
        return ERR_BAD;
    }
    if (table == NULL) {
        err_note_set(p->note, "each operation of a batch needs a table, a name without U+0000");
        return ERR_BAD;
    }
    str name = arena_copy(p->arena, str_of(table));
    if (name.p == NULL)
        return ERR_LIMIT;
    struct store_look look = *p;
    bool is_delete = strcmp(op, "delete") == 0;
    look.unseen = of->shown != NULL && !of->shown(of->shown_ctx, name, is_delete);
    return write_read(&look, name, json, is_delete, out);
}

static err batch_read(const struct store_look *p, const json_t *json, const struct table_parse *of,
                      struct table_write *writes)
{
    for (size_t i = 0; i < json_array_size(json); i++) {
        struct err_note why = { .text = "" };
        struct store_look one = *p;
        one.note = &why;
        err e = op_read(&one, json_array_get(json, i), of, &writes[i]);
        store_memory_note(e, p->arena, &why);
        if (e != ERR_OK && e != ERR_AGAIN)
            err_note_set(p->note, "operation %zu: %s", i, why.text);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

static err parse_parse(const struct store_look *p, const json_t *json, struct table_parse *out)
{
    bool batch = out->kind == QUERY_BATCH;
    size_t count = batch ? json_array_size(json) : 1;
    if (count == 0 || count > TABLE_OPS_MAX) {
        err_note_set(p->note, "a batch has 1 to %d operations", TABLE_OPS_MAX);
        return ERR_BAD;
    }
    struct table_write *writes = arena_calloc(p->arena, count, sizeof *writes);
    if (writes == NULL)
        return ERR_LIMIT;
    err e = batch ? batch_read(p, json, out, writes)
                  : write_read(p, out->table, json, out->kind == QUERY_DELETE, writes);
    if (e == ERR_OK) {
        out->writes = writes;
        out->writes_count = (unsigned)count;
        out->one_step = batch;
    }
    return e;
}

err tables_parse(struct tables *ts, struct table_parse *p, bool now)
{
    json_t *json;
    err e = query_load(p->json, p->kind == QUERY_BATCH, &json, &p->note);
    if (e != ERR_OK)
        return e;
    struct err_note why = { .text = "" };
    struct store_look look = { .tables = ts,
                               .view = engine_view_begin(ts->engine),
                               .domain = p->domain,
                               .now = now,
                               .arena = p->arena,
                               .note = &why };
    e = parse_parse(&look, json, p);
    engine_view_end(&look.view);
    json_decref(json);
    store_memory_note(e, p->arena, &why);
    if (e != ERR_OK && e != ERR_AGAIN)
        p->note = why;
    return e;
}
