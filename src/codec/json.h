/* json.h - request bodies in JSON, by jansson with limits of our own: nesting to
 * JSON_BODY_DEPTH_MAX, a key only once in its object, UTF-8 only, nothing behind the value. How
 * many bytes is the caller's limit.
 *
 * Values are jansson's json_t; the root is the caller's, released by json_decref. Members are
 * borrowed from it. The helpers check what a client may get wrong and say which member it was.
 * Thread: any. */
#ifndef CODEC_JSON_H
#define CODEC_JSON_H

#include "base/err.h"
#include "base/str.h"

#include <jansson.h>

enum { JSON_BODY_DEPTH_MAX = 64 };

/* An object or an array. Fails: ERR_BAD with the place in note; ERR_UNAVAILABLE when there is no
 * memory, which the text is not to blame for. NUL in a text is kept. */
MUST_CHECK err json_body_parse(str text, json_t **out, struct err_note *note);
/* The same of at most values_max values, else ERR_LIMIT: an empty object takes two bytes of text
 * and up to 256 of memory. For texts that may have as many as their size allows. */
MUST_CHECK err json_body_parse_few(str text, size_t values_max, json_t **out,
                                   struct err_note *note);

/* Each: the member of that type. Absent (or null): ERR_NOT_FOUND and *out untouched. Another type,
 * or a number out of range: ERR_BAD. object may be of any type; what is no object has no
 * members. */
MUST_CHECK err json_body_str(const json_t *object, const char *key, str *out,
                             struct err_note *note);
MUST_CHECK err json_body_bool(const json_t *object, const char *key, bool *out,
                              struct err_note *note);
/* Whole numbers in [least, most]; no fractions, also not .0, no text. */
MUST_CHECK err json_body_i64(const json_t *object, const char *key, int64_t least, int64_t most,
                             int64_t *out, struct err_note *note);
MUST_CHECK err json_body_object(const json_t *object, const char *key, const json_t **out,
                                struct err_note *note);
MUST_CHECK err json_body_array(const json_t *object, const char *key, const json_t **out,
                               struct err_note *note);
/* ERR_BAD, naming the first member that is not in known (NULL-terminated). */
MUST_CHECK err json_body_only(const json_t *object, const char *const *known,
                              struct err_note *note);
/* The text of a string value; STR_NONE for any other. */
str json_body_text(const json_t *value);
/* The same as a C string; NULL for any other, and for a text with NUL in it. For names and
 * words. */
const char *json_body_word(const json_t *value);

#endif
