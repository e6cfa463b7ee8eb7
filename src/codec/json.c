/* json.c - trees of JSON: what a text asks for is looked at first, then jansson reads it. */
#include "codec/json.h"
#include "codec/json_scan.h"

/* NULL: the library has said what is wrong in error.text; nothing, when it found no memory at
 * all. */
static json_t *json_load(str text, json_error_t *error)
{
    return json_loadb(text.n == 0 ? "" : text.p, text.n, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL,
                      error);
}

err json_body_parse_few(str text, size_t values_max, json_t **out, struct err_note *note)
{
    json_error_t error;
    struct json_shape shape = json_scan_shape(text, JSON_BODY_DEPTH_MAX);
    if (shape.depth > JSON_BODY_DEPTH_MAX)
        return err_bad(note, "JSON nested deeper than %d", JSON_BODY_DEPTH_MAX);
    if (shape.values > values_max) {
        err_note_set(note, "JSON of more than %zu values", values_max);
        return ERR_LIMIT;
    }
    json_t *root = json_load(text, &error);
    if (root == NULL && error.text[0] != '\0')
        root = json_load(text, &error); /* a string that finds no memory is called an invalid token:
                                      a second try tells */
    if (root == NULL && error.text[0] == '\0') {
        err_note_set(note, "no memory to read the JSON");
        return ERR_UNAVAILABLE;
    }
    if (root == NULL) {
        bool large = json_error_code(&error) == json_error_numeric_overflow;
        err_note_set(note, "not JSON: %s, line %d, column %d%s", error.text, error.line,
                     error.column,
                     large ? "; a number beyond 64 bits is written as a string, where one is taken"
                           : "");
        return ERR_BAD;
    }
    *out = root;
    return ERR_OK;
}

err json_body_parse(str text, json_t **out, struct err_note *note)
{
    return json_body_parse_few(text, SIZE_MAX, out, note);
}

json_t *json_body_read(str text)
{
    json_t *root = NULL;
    return json_body_parse(text, &root, NULL) == ERR_OK ? root : NULL;
}

/* The member, ERR_NOT_FOUND, or ERR_BAD when it is not what is wanted (whose phrase is for the
 * note). */
static err codec_json_member(const json_t *object, const char *key,
                             bool (*wanted)(const json_t *value), const char *phrase,
                             const json_t **out, struct err_note *note)
{
    const json_t *value = json_object_get(object, key);
    if (value == NULL || json_is_null(value)) {
        err_note_set(note, "%s is missing", key);
        return ERR_NOT_FOUND;
    }
    if (!wanted(value))
        return err_bad(note, "%s must be %s", key, phrase);
    *out = value;
    return ERR_OK;
}

static bool is_text(const json_t *value)
{
    return json_is_string(value);
}

static bool is_bool(const json_t *value)
{
    return json_is_boolean(value);
}

static bool is_whole(const json_t *value)
{
    return json_is_integer(value);
}

static bool is_object(const json_t *value)
{
    return json_is_object(value);
}

static bool is_array(const json_t *value)
{
    return json_is_array(value);
}

str json_body_text(const json_t *value)
{
    if (!json_is_string(value))
        return STR_NONE;
    return (str){ .p = json_string_value(value), .n = json_string_length(value) };
}

const char *json_body_word(const json_t *value)
{
    str text = json_body_text(value);
    return text.p != NULL && str_find(text, '\0') == text.n ? text.p : NULL;
}

err json_body_str(const json_t *object, const char *key, str *out, struct err_note *note)
{
    const json_t *value;
    err e = codec_json_member(object, key, is_text, "a text", &value, note);
    if (e == ERR_OK)
        *out = json_body_text(value);
    return e;
}

err json_body_bool(const json_t *object, const char *key, bool *out, struct err_note *note)
{
    const json_t *value;
    err e = codec_json_member(object, key, is_bool, "true or false", &value, note);
    if (e == ERR_OK)
        *out = json_is_true(value);
    return e;
}

err json_body_i64(const json_t *object, const char *key, int64_t least, int64_t most, int64_t *out,
                  struct err_note *note)
{
    const json_t *value;
    err e = codec_json_member(object, key, is_whole, "a whole number", &value, note);
    if (e != ERR_OK)
        return e;
    int64_t number = json_integer_value(value);
    if (number < least || number > most)
        return err_bad(note, "%s must be from %lld to %lld", key, (long long)least,
                       (long long)most);
    *out = number;
    return ERR_OK;
}

err json_body_object(const json_t *object, const char *key, const json_t **out,
                     struct err_note *note)
{
    return codec_json_member(object, key, is_object, "an object", out, note);
}

err json_body_array(const json_t *object, const char *key, const json_t **out,
                    struct err_note *note)
{
    return codec_json_member(object, key, is_array, "an array", out, note);
}

static bool is_among(str name, const char *const *known)
{
    for (; *known != NULL; known++)
        if (str_eq(name, str_of(*known)))
            return true;
    return false;
}

err json_body_only(const json_t *object, const char *const *known, struct err_note *note)
{
    json_t *root;
    const char *key;
    json_t *value;
    if (!json_is_object(object))
        return ERR_OK;
    root = json_incref((json_t *)(uintptr_t)object); /* jansson's iteration is not const */
    err e = ERR_OK;
    json_object_foreach(root, key, value)
    {
        if (e == ERR_OK && !is_among(str_of(key), known)) {
            err_note_set(note, "%s is not known here", key);
            e = ERR_BAD;
        }
    }
    json_decref(root);
    return e;
}
