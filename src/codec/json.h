/* json.h - reading JSON (RFC 8259), in two ways. Nobody else reads it, but wire.h its messages,
 * from the same tokens. How many bytes is the caller's limit.
 *
 * Trees (json_body_) are for what is looked into: a schema, a query, an answer. They are read by
 * jansson, with limits of our own: nesting to JSON_BODY_DEPTH_MAX, a key only once in its object,
 * UTF-8 only, nothing behind the value. Values are jansson's json_t; the root is the caller's,
 * released by json_decref. Members are borrowed from it. The helpers check what a client may get
 * wrong and say which member it was.
 *
 * Slices (json_slice_) are for what is kept as it was sent, byte for byte: numbers of any size, the
 * order of keys, blanks. A value is a part of the text; nothing is copied but texts with escapes.
 * Nesting goes to JSON_SLICE_DEPTH_MAX. The text as a whole must be valid UTF-8: check it once
 * before. Pure.
 * Thread: any. */
#ifndef CODEC_JSON_H
#define CODEC_JSON_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

#include <jansson.h>

enum { JSON_BODY_DEPTH_MAX = 64, JSON_SLICE_DEPTH_MAX = 256 };

/* ---- trees ---- */

/* An object or an array. Fails: ERR_BAD with the place in note; ERR_UNAVAILABLE when there is no
 * memory, which the text is not to blame for. NUL in a text is kept. */
MUST_CHECK err json_body_parse(str text, json_t **out, struct err_note *note);
/* The same of at most values_max values, else ERR_LIMIT: an empty object takes two bytes of text
 * and up to 256 of memory. For texts that may have as many as their size allows. */
MUST_CHECK err json_body_parse_few(str text, size_t values_max, json_t **out,
                                   struct err_note *note);

/* json_body_parse for whom the reason says nothing: NULL. Owner: caller, json_decref. */
json_t *json_body_read(str text);

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

/* ---- slices ---- */

struct json_member {
    str name, value; /* name decoded, value as written */
};
/* The one value that text is, without the blanks around it. False: not JSON. */
MUST_CHECK bool json_slice_value(str text, str *value);
/* The next item of an array, which json_slice_value gave; *rest begins as that. False: no more, or
 * no array. */
bool json_slice_item(str *rest, str *item);
/* The next member of an object, in the same way. *name as it is written, with its quotes:
 * json_slice_string reads it. One name may come more than once. */
bool json_slice_pair(str *rest, str *name, str *value);
/* Members of an object, in order. ERR_BAD: no object, a name twice; ERR_LIMIT: more than max of
 * them, or the arena. */
MUST_CHECK err json_slice_members(struct arena *a, str object, struct json_member *out,
                                  unsigned max, unsigned *count);
/* The text of a string value, in the arena or inside value. ERR_BAD: no string, or a lone
 * surrogate; ERR_LIMIT. */
MUST_CHECK err json_slice_string(struct arena *a, str value, str *out);
/* Finds a member by name; NULL when absent. */
const struct json_member *json_slice_find(const struct json_member *m, unsigned count,
                                          const char *name);
/* The text of the only member, which has that name, of the object that text is; text need not be
 * UTF-8. ERR_BAD, ERR_LIMIT. */
MUST_CHECK err json_slice_only(struct arena *a, str text, const char *name, str *out);

#endif
