/* Goal: no schema and no query in JSON breaks the table module; what is taken holds to its limits
 * and is stored and read back as it was. The input is a schema, a NUL, and a query; without the NUL
 * the query meets a schema of ours. */
#include "table/query.h"
#include "table/table.h"
#include "table/value.h"

#include <stdint.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const ours =
    "{\"attributes\":{\"k\":\"string\",\"r\":\"decimal\",\"u\":\"timeuuid\",\"b\":\"blob\",\"j\":"
    "\"json\","
    "\"s\":\"set<double>\",\"t\":\"timestamp\",\"v\":\"varint\",\"l\":\"long\",\"st\":\"int\"},"
    "\"index\":["
    "{\"attribute\":\"k\",\"type\":\"hash\"},{\"attribute\":\"r\",\"type\":\"range\",\"order\":"
    "\"desc\"},"
    "{\"attribute\":\"u\",\"type\":\"range\"},{\"attribute\":\"st\",\"type\":\"static\"}],"
    "\"secondaryIndexes\":{"
    "\"i\":[{\"attribute\":\"v\",\"type\":\"hash\"},{\"attribute\":\"l\",\"type\":\"range\"},"
    "{\"attribute\":\"st\",\"type\":\"proj\"}]}}";

static void check_write(const struct schema *s, const struct table_write *w)
{
    for (unsigned i = 0; i < w->attrs_count; i++)
        INVARIANT(value_valid(schema_find(s, w->attrs[i].name)->kind, w->attrs[i].value));
    for (unsigned i = 0; i < w->equal_count; i++)
        INVARIANT(value_valid(schema_find(s, w->equal[i].name)->kind, w->equal[i].value));
    for (unsigned i = 0; i < w->predicates_count; i++)
        INVARIANT(value_valid(schema_find(s, w->predicates[i].name)->kind, w->predicates[i].value));
    INVARIANT(w->ttl_s >= 0 && w->ttl_s <= TABLE_TTL_S_MAX);
}

static void check_queries(struct arena *a, const struct schema *s, str text)
{
    struct err_note note = { .text = "" };
    struct table_get g;
    struct table_write w;
    json_t *json;
    if (query_get(a, s, text, &g, &note) == ERR_OK) {
        INVARIANT(g.limit <= TABLE_LIMIT_MAX);
        INVARIANT(g.predicates_count <= TABLE_PREDICATES_MAX);
        INVARIANT(g.proj_count <= TABLE_ATTRS_MAX);
    } else {
        INVARIANT(note.text[0] != 0);
    }
    if (query_load(text, false, &json, &note) != ERR_OK)
        return;
    if (query_put(a, s, json, &w, &note) == ERR_OK)
        check_write(s, &w);
    if (query_delete(a, s, json, &w, &note) == ERR_OK)
        check_write(s, &w);
    json_decref(json);
}

static struct schema *check_schema(struct arena *a, str text)
{
    struct err_note note = { .text = "" };
    struct schema *s, *stored;
    struct buf b;
    if (schema_parse(a, STR("t"), text, &s, &note) != ERR_OK) {
        INVARIANT(note.text[0] != 0);
        return NULL;
    }
    schema_first(s, 1);
    buf_init(&b, 1 << 17);
    schema_pack(&b, s);
    INVARIANT(buf_status(&b) == ERR_OK);
    INVARIANT(schema_unpack(a, STR("t"), buf_str(&b), &stored) == ERR_OK);
    INVARIANT(str_eq(stored->text, s->text));
    buf_fini(&b);
    return stored;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    str text = { .p = (const char *)data, .n = size }, query = text;
    arena_init(&a, 64 << 20);
    struct schema *s = NULL;
    size_t at = str_find(text, '\0');
    if (at < text.n) {
        s = check_schema(&a, str_take(text, at));
        query = str_skip(text, at + 1);
    }
    if (s == NULL)
        s = check_schema(&a, str_of(ours));
    INVARIANT(s != NULL);
    check_queries(&a, s, query);
    arena_fini(&a);
    return 0;
}
