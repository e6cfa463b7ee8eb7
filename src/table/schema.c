/* schema.c - parses the schema of a table from JSON and checks it. Invariant: an attribute keeps
 * its number through migrations; a number is never used twice. */
#include "table/schema.h"

#include "codec/json.h"
#include "table/jsontext.h"
#include "table/trim.h"
#include "table/value.h"

#include <string.h>

enum {
    SCHEMA_TEXT_BYTES_MAX = (64 << 10) + 1024
}; /* what a body of 64 KiB may say, table and version added */

bool schema_name_valid(str table)
{
    if (table.n == 0 || table.n > TABLE_NAME_BYTES_MAX || str_eq(table, STR(".")) ||
        str_eq(table, STR("..")))
        return false;
    for (size_t i = 0; i < table.n; i++)
        if ((unsigned char)table.p[i] < 0x20 || table.p[i] == 0x7f || table.p[i] == '/')
            return false;
    return true;
}

const struct schema_attr *schema_find(const struct schema *s, str name)
{
    for (unsigned i = 0; name.n > 0 && i < s->attrs_count; i++) /* a hidden one has no name */
        if (str_eq(s->attrs[i].name, name))
            return &s->attrs[i];
    return NULL;
}

/* ---- attributes ---- */

static err attr_read(struct arena *a, const char *key, const json_t *json, struct schema_attr *out,
                     struct err_note *note)
{
    str name = str_of(key);
    if (name.n == 0 || name.n > TABLE_ATTR_NAME_BYTES_MAX || name.p[0] == '_') {
        err_note_set(note, "attribute name \"%.*s\" must have 1 to %d bytes and not begin with _",
                     STR_ARG(name), TABLE_ATTR_NAME_BYTES_MAX);
        return ERR_BAD;
    }
    struct table_kind kind;
    const char *type = json_body_word(json);
    if (type == NULL || !value_kind_parse(str_of(type), &kind)) {
        err_note_set(note, "attribute %s has an unknown type: %s", key,
                     type == NULL ? "not a word" : type);
        return ERR_BAD;
    }
    str copy = arena_copy(a, name);
    if (copy.p == NULL)
        return ERR_LIMIT;
    *out = (struct schema_attr){ .name = copy, .kind = kind };
    return ERR_OK;
}

static err attrs_read(struct arena *a, const json_t *json, struct schema *s, struct err_note *note)
{
    size_t count = json_object_size(json);
    if (!json_is_object(json) || count == 0 || count > TABLE_ATTRS_MAX) {
        err_note_set(note, "attributes must be an object of 1 to %d names and types",
                     TABLE_ATTRS_MAX);
        return ERR_BAD;
    }
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        err e = attr_read(a, key, value, &s->attrs[s->attrs_count], note);
        if (e != ERR_OK)
            return e;
        s->attrs_count++;
    }
    return ERR_OK;
}

/* ---- index ---- */

static const char *schema_member(const json_t *json, const char *name)
{
    const char *text = json_body_word(json_object_get(json, name));
    return text == NULL ? "" : text;
}

static err range_add(struct schema *s, unsigned index, const json_t *entry, struct err_note *note)
{
    const char *order =
        json_object_get(entry, "order") == NULL ? "asc" : schema_member(entry, "order");
    bool desc = strcmp(order, "desc") == 0;
    if (!desc && strcmp(order, "asc") != 0) {
        err_note_set(note, "index order of %.*s must be asc or desc",
                     STR_ARG(s->attrs[index].name));
        return ERR_BAD;
    }
    if (s->range_count == TABLE_KEY_ATTRS_MAX) {
        err_note_set(note, "index has more than %d range attributes", TABLE_KEY_ATTRS_MAX);
        return ERR_BAD;
    }
    s->attrs[index].role = ROLE_RANGE;
    s->attrs[index].desc = desc;
    s->range[s->range_count++] = (uint8_t)index;
    return ERR_OK;
}

static err hash_add(struct schema *s, unsigned index, struct err_note *note)
{
    if (s->hash_count == TABLE_KEY_ATTRS_MAX) {
        err_note_set(note, "index has more than %d hash attributes", TABLE_KEY_ATTRS_MAX);
        return ERR_BAD;
    }
    s->attrs[index].role = ROLE_HASH;
    s->hash[s->hash_count++] = (uint8_t)index;
    return ERR_OK;
}

static err index_add(struct schema *s, const json_t *entry, struct err_note *note)
{
    const char *name = schema_member(entry, "attribute"), *type = schema_member(entry, "type");
    unsigned index = 0;
    while (index < s->attrs_count && !str_eq(s->attrs[index].name, str_of(name)))
        index++;
    if (index == s->attrs_count) {
        err_note_set(note, "index attribute \"%s\" is not in attributes", name);
        return ERR_BAD;
    }
    if (s->attrs[index].role != ROLE_PLAIN) {
        err_note_set(note, "index names attribute \"%s\" twice", name);
        return ERR_BAD;
    }
    if (s->attrs[index].kind.set && strcmp(type, "static") != 0) {
        err_note_set(note, "attribute \"%s\" is a set and cannot be in the key", name);
        return ERR_BAD;
    }
    if (strcmp(type, "hash") == 0)
        return hash_add(s, index, note);
    if (strcmp(type, "range") == 0)
        return range_add(s, index, entry, note);
    if (strcmp(type, "static") == 0) {
        s->attrs[index].role = ROLE_STATIC;
        s->statics_count++;
        return ERR_OK;
    }
    err_note_set(note, "index type \"%s\" of attribute \"%s\" must be hash, range or static", type,
                 name);
    return ERR_BAD;
}

static err index_read(const json_t *json, struct schema *s, struct err_note *note)
{
    if (!json_is_array(json)) {
        err_note_set(note, "index must be an array of {attribute, type, order}");
        return ERR_BAD;
    }
    for (size_t i = 0; i < json_array_size(json); i++) {
        err e = index_add(s, json_array_get(json, i), note);
        if (e != ERR_OK)
            return e;
    }
    if (s->hash_count == 0) {
        err_note_set(note, "index needs at least one hash attribute");
        return ERR_BAD;
    }
    if (s->statics_count > 0 && s->range_count == 0) {
        err_note_set(note, "static attributes need a range attribute in the index");
        return ERR_BAD;
    }
    return ERR_OK;
}

/* ---- its text ---- */

/* Compact text in the arena. */
static err text_of(struct arena *a, const json_t *json, str *out, struct err_note *note)
{
    struct buf b;
    buf_init(&b, SCHEMA_TEXT_BYTES_MAX);
    err e = jsontext_any(&b, json);
    if (b.failed) {
        err_note_set(note, "the schema is longer than %d bytes (SCHEMA_TEXT_BYTES_MAX)",
                     SCHEMA_TEXT_BYTES_MAX);
        e = ERR_LIMIT;
    } else if (e != ERR_OK) {
        err_note_set(note, "the schema is nested deeper than %d", JSONTEXT_DEPTH_MAX);
        e = ERR_BAD;
    } else {
        *out = arena_copy(a, buf_str(&b));
        e = out->p == NULL ? ERR_LIMIT : ERR_OK;
    }
    buf_fini(&b);
    return e;
}

/* ---- the whole ---- */

static err member_check(const char *key, struct err_note *note)
{
    static const char *const known[] = {
        "table",   "version", "attributes",       "index",
        "options", "domain",  "secondaryIndexes", "revisionRetentionPolicy",
        NULL
    };
    for (const char *const *k = known; *k != NULL; k++)
        if (strcmp(key, *k) == 0)
            return ERR_OK;
    err_note_set(note, "%s is not a member of a schema", key);
    return ERR_BAD;
}

static err head_read(const json_t *json, str table, struct schema *s, struct err_note *note)
{
    const char *key;
    json_t *value;
    if (!json_is_object(json)) {
        err_note_set(note, "a schema must be a JSON object");
        return ERR_BAD;
    }
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
        err e = member_check(key, note);
        if (e != ERR_OK)
            return e;
    }
    const json_t *name = json_object_get(json, "table"),
                 *version = json_object_get(json, "version");
    if (name != NULL && !str_eq(json_body_text(name), table)) {
        err_note_set(note, "the schema's table is not the one in the path");
        return ERR_BAD;
    }
    s->version = version == NULL ? 1 : json_integer_value(version);
    if (version != NULL && (!json_is_integer(version) || s->version < 1)) {
        err_note_set(note, "version must be a whole number from 1");
        return ERR_BAD;
    }
    return ERR_OK;
}

/* What a GET answers: what was given, table and version filled in. */
static err text_read(struct arena *a, json_t *json, struct schema *s, struct err_note *note)
{
    json_t *name = json_stringn(s->name.p, s->name.n), *version = json_integer(s->version);
    int failed = json_object_set_new(json, "table", name); /* takes the reference, failing or not */
    failed |= json_object_set_new(json, "version", version);
    if (failed == 0)
        return text_of(a, json, &s->text, note);
    err_note_set(note, "the table's name is not UTF-8");
    return ERR_BAD;
}

static err schema_read(struct arena *a, json_t *json, struct schema *s, struct err_note *note)
{
    err e = head_read(json, s->name, s, note);
    if (e == ERR_OK)
        e = attrs_read(a, json_object_get(json, "attributes"), s, note);
    if (e == ERR_OK)
        e = index_read(json_object_get(json, "index"), s, note);
    if (e == ERR_OK)
        e = table_options_read(json_object_get(json, "options"), &s->ttl_s, note);
    if (e == ERR_OK)
        e = schema_indexes_read(a, json_object_get(json, "secondaryIndexes"), s, note);
    if (e == ERR_OK)
        e = trim_read(json_object_get(json, "revisionRetentionPolicy"), s, note);
    if (e == ERR_OK)
        e = text_read(a, json, s, note);
    return e;
}

err schema_parse(struct arena *a, str table, str json, struct schema **out, struct err_note *note)
{
    if (!schema_name_valid(table)) {
        err_note_set(note,
                     "a table name must have 1 to %d bytes, none of them / or control bytes, and "
                     "not be . or ..",
                     TABLE_NAME_BYTES_MAX);
        return ERR_BAD;
    }
    json_t *root;
    err e = json_body_parse(json, &root, note);
    if (e != ERR_OK)
        return e;
    struct schema *s = arena_calloc(a, 1, sizeof *s);
    e = ERR_LIMIT;
    if (s != NULL) {
        s->name = table;
        e = schema_read(a, root, s, note);
    }
    json_decref(root);
    if (e == ERR_OK)
        *out = s;
    return e;
}
