/* restbase_meta.c - reads the JSON that RESTBase keeps in its tables: schemas and headers. Pure.
 *
 * The texts come from outside, and anything may stand in them. A fuzzer feeds them
 * (test/fuzz/fuzz_restbase.c). */
#include "cassandra/restbase.h"

#include "base/utf8.h"
#include "codec/json.h"

#include <string.h>

/* Of values in a schema, and of entries in its index: more are no schema. */
enum { SCHEMA_VALUES_MAX = 4096, INDEX_MAX = 64 };

/* word NULL is none of them. */
static bool word_is_one_of(const char *word, const char *const *words)
{
    for (; *words != NULL; words++)
        if (word != NULL && strcmp(word, *words) == 0)
            return true;
    return false;
}

static const char *member_word(const json_t *object, const char *name)
{
    return json_body_word(json_object_get(object, name));
}

static err other_kind(struct err_note *note, const char *why)
{
    err_note_set(note, "%s", why);
    return ERR_NOT_FOUND;
}

/* Looks for the four attributes that an import needs, each of a readable type; and for two more,
 * which may be missing. */
static err attributes_read(const json_t *attributes, struct restbase_table *out,
                           struct err_note *note)
{
    static const char *const keys[] = { "string", NULL },
                             *const revs[] = { "int", "long", "varint", "string", NULL },
                             *const tids[] = { "timeuuid", "uuid", NULL },
                             *const values[] = { "blob", "string", "json", NULL };
    static const struct {
        const char *name, *const *types, *without;
    } needed[] = {
        { "key", keys, "it has no key that is a string" },
        { "rev", revs, "it has no rev that is a number" },
        { "tid", tids, "it has no tid" },
        { "value", values, "it has no value that is bytes or text" },
    };
    for (size_t i = 0; i < COUNT_OF(needed); i++)
        if (!word_is_one_of(member_word(attributes, needed[i].name), needed[i].types))
            return other_kind(note, needed[i].without);
    const char *headers = member_word(attributes, "headers");
    const char *type = member_word(attributes, "content-type");
    const char *rev = member_word(attributes, "rev");
    out->revs = strcmp(rev, "int") == 0      ? RESTBASE_INT
                : strcmp(rev, "long") == 0   ? RESTBASE_LONG
                : strcmp(rev, "varint") == 0 ? RESTBASE_VARINT
                                             : RESTBASE_STRING;
    out->json = strcmp(member_word(attributes, "value"), "json") == 0;
    out->has_headers = headers != NULL && strcmp(headers, "json") == 0;
    out->has_type = type != NULL && strcmp(type, "string") == 0;
    return ERR_OK;
}

/* Judges the index: one hash key, which is key; two range keys, rev and tid, in one direction. Then
 * the newest row is at one end. Static columns are of no concern. */
static err index_read(const json_t *index, struct err_note *note)
{
    static const char *const wanted[] = { "rev", "tid" };
    const char *order[COUNT_OF(wanted)];
    unsigned hashes = 0, ranges = 0;
    size_t n = json_array_size(index);
    if (n == 0 || n > INDEX_MAX)
        return other_kind(note, "it has no index");
    for (size_t i = 0; i < n; i++) {
        const json_t *entry = json_array_get(index, i);
        const char *type = member_word(entry, "type"), *name = member_word(entry, "attribute");
        if (type == NULL || name == NULL)
            return other_kind(note, "its index cannot be read");
        if (strcmp(type, "hash") == 0) {
            if (strcmp(name, "key") != 0 || hashes++ > 0)
                return other_kind(note, "its rows are not found by key alone");
        } else if (strcmp(type, "range") == 0) {
            if (ranges == COUNT_OF(wanted) || strcmp(name, wanted[ranges]) != 0)
                return other_kind(note, "its rows are not in order of rev and tid");
            const char *given = member_word(entry, "order");
            order[ranges++] = given != NULL ? given : "";
        }
    }
    if (hashes != 1)
        return other_kind(note, "its rows are not found by key alone");
    /* Mixed directions would put the greatest name of a revision at an end that nobody looks at. */
    if (ranges != COUNT_OF(wanted) || strcmp(order[0], order[1]) != 0)
        return other_kind(note, "its rows are not in order of rev and tid");
    return ERR_OK;
}

/* *out is touched before all is judged; the caller passes a copy. */
static err schema_take(const json_t *doc, struct restbase_table *out, struct err_note *note)
{
    str table = json_body_text(json_object_get(doc, "table"));
    err why = attributes_read(json_object_get(doc, "attributes"), out, note);
    if (why == ERR_OK)
        why = index_read(json_object_get(doc, "index"), note);
    if (why != ERR_OK)
        return why;
    /* "parsoid_ng.html": the content is what stands behind the first dot. */
    size_t dot = str_find(table, '.');
    str content = dot < table.n ? str_skip(table, dot + 1) : table;
    if (table.n == 0 || !str_to_cstr(table, out->table, sizeof out->table))
        return other_kind(note, "it has no name");
    if (!str_to_cstr(content, out->content, sizeof out->content))
        out->content[0] = '\0'; /* the caller has to give the content another name */
    return ERR_OK;
}

err restbase_schema_read(str text, struct restbase_table *out, struct err_note *note)
{
    json_t *doc = NULL;
    if (text.n > RESTBASE_SCHEMA_BYTES_MAX) {
        err_note_set(note, "its schema is too large");
        return ERR_BAD;
    }
    struct err_note place = { .text = "" };
    /* Few values are read, so that a nest of brackets cannot make a tree of any size. */
    if (json_body_parse_few(text, SCHEMA_VALUES_MAX, &doc, &place) != ERR_OK) {
        err_note_set(note, "its schema is no JSON: %.150s", place.text);
        return ERR_BAD;
    }
    struct restbase_table found = *out;
    err why = schema_take(doc, &found, note);
    json_decref(doc);
    if (why == ERR_OK)
        *out = found;
    return why;
}

/* ---- headers ---- */

/* Names of headers are compared without case, and kept in lower case. */
static err name_lower(struct arena *a, str name, str *out)
{
    char *p = arena_alloc(a, name.n);
    if (p == NULL)
        return ERR_LIMIT;
    for (size_t i = 0; i < name.n; i++)
        p[i] = name.p[i] >= 'A' && name.p[i] <= 'Z' ? (char)(name.p[i] | 0x20) : name.p[i];
    *out = (str){ .p = p, .n = name.n };
    return ERR_OK;
}

static bool is_number(str value)
{
    return value.n > 0 && (value.p[0] == '-' || (value.p[0] >= '0' && value.p[0] <= '9'));
}

/* Takes one member. ERR_OK also says that the member is passed over: its value is neither text nor
 * number, or a string is damaged (a lone surrogate). */
static err header_read(struct arena *a, str quoted, str value, struct restbase_header *out,
                       unsigned *count)
{
    struct restbase_header h = { .value = value };
    bool text = value.p[0] == '"';
    if (!text && !is_number(value))
        return ERR_OK;
    /* A number is kept as it is written. */
    err why = json_slice_string(a, quoted, &h.name);
    if (why == ERR_OK && text)
        why = json_slice_string(a, value, &h.value);
    if (why == ERR_OK)
        why = name_lower(a, h.name, &h.name);
    if (why != ERR_OK)
        return why == ERR_LIMIT ? why : ERR_OK;
    /* The first of two members with one name stays. */
    for (unsigned i = 0; i < *count; i++)
        if (str_eq(out[i].name, h.name))
            return ERR_OK;
    if (*count < RESTBASE_HEADERS_MAX)
        out[(*count)++] = h;
    return ERR_OK;
}

err restbase_headers_read(struct arena *a, str text, struct restbase_header *out, unsigned *count)
{
    str rest, name, value;
    *count = 0;
    if (!utf8_valid(text) || !json_slice_value(text, &rest) || rest.p[0] != '{')
        return ERR_BAD;
    err why = ERR_OK;
    while (why == ERR_OK && json_slice_pair(&rest, &name, &value))
        why = header_read(a, name, value, out, count);
    return why;
}
