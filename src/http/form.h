/* form.h - request bodies that are forms: multipart/form-data (RFC 7578, RFC 2046 5.1) and
 * application/x-www-form-urlencoded (WHATWG URL, "urlencoded parsing").
 *
 * Strict where two readers could disagree: a part without a name, a field given twice, a boundary
 * that is none, a transfer encoding, a body that ends before its last boundary are refused. What
 * stands before the first and behind the last boundary is ignored, and so is everything a part says
 * of itself but its name. Values are bytes; whoever needs text checks it. Pure. Thread: any. */
#ifndef HTTP_FORM_H
#define HTTP_FORM_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"

enum {
    FORM_FIELDS_MAX = 32,
    FORM_NAME_BYTES_MAX = 128,
    FORM_PART_HEAD_BYTES_MAX = 4096,
    FORM_BOUNDARY_BYTES_MAX = 70, /* RFC 2046 */
};
struct form_field {
    str name, value; /* in the body, or in the arena where they were encoded */
};
struct form {
    unsigned count;
    struct form_field fields[FORM_FIELDS_MAX];
};

/* content_type: the request's, with its parameters. Fails: ERR_NOT_FOUND (it names no form),
 * ERR_BAD with a note, ERR_LIMIT (the arena). */
MUST_CHECK err form_parse(struct arena *a, str content_type, str body, struct form *out,
                          struct err_note *note);
/* The value of a field; false when absent. */
bool form_find(const struct form *f, const char *name, str *value);

/* A flag as a query or a form writes it: true|false, 1|0, yes|no, in any letter case. False:
 * anything else. */
MUST_CHECK bool form_flag(str text, bool *out);

#endif
