/* form.c - takes forms apart. Fields are slices of the body, or decoded in the arena. */
#include "http/form.h"

#include "base/check.h"
#include "http/parameter.h"
#include "http/percent.h"

#include <string.h>

/* ---- fields ---- */

bool form_flag(str text, bool *out)
{
    static const struct {
        const char *word;
        bool value;
    } words[] = { { "true", true },   { "1", true },  { "yes", true },
                  { "false", false }, { "0", false }, { "no", false } };
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        if (!str_eq_nocase(text, str_of(words[i].word)))
            continue;
        *out = words[i].value;
        return true;
    }
    return false;
}

bool form_find(const struct form *f, const char *name, str *value)
{
    for (unsigned i = 0; i < f->count; i++) {
        if (!str_eq(f->fields[i].name, str_of(name)))
            continue;
        *value = f->fields[i].value;
        return true;
    }
    return false;
}

static err form_add(struct form *f, str name, str value, struct err_note *note)
{
    if (name.n == 0 || name.n > FORM_NAME_BYTES_MAX)
        return err_bad(note, "the name of a field is empty or longer than 128 bytes");
    for (unsigned i = 0; i < f->count; i++)
        if (str_eq(f->fields[i].name, name))
            return err_bad(note, "the field %.*s is there twice", STR_ARG(name));
    if (f->count == FORM_FIELDS_MAX)
        return err_bad(note, "a form has at most %d fields", FORM_FIELDS_MAX);
    f->fields[f->count++] = (struct form_field){ .name = name, .value = value };
    return ERR_OK;
}

/* ---- application/x-www-form-urlencoded ---- */

static err parse_urlencoded(struct arena *a, str body, struct form *f, struct err_note *note)
{
    while (body.n > 0) {
        str pair = str_split(&body, '&');
        if (pair.n == 0)
            continue;
        str name = str_split(&pair, '='), value;
        err why = http_decode(a, name, true, &name);
        if (why == ERR_OK)
            why = http_decode(a, pair.p == NULL ? STR("") : pair, true, &value);
        if (why == ERR_BAD)
            return err_bad(note, "the form has a broken percent escape");
        if (why == ERR_OK)
            why = form_add(f, name, value, note);
        if (why != ERR_OK)
            return why;
    }
    return ERR_OK;
}

/* ---- multipart/form-data ---- */

static bool is_boundary(str s)
{
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c < 0x20 || c > 0x7e)
            return false;
    }
    return s.n > 0 && s.n <= FORM_BOUNDARY_BYTES_MAX && s.p[s.n - 1] != ' ';
}

/* Behind a boundary: more (a line end), or the end ("--"). */
enum after { AFTER_PART, AFTER_END, AFTER_NEITHER };
static enum after after_boundary(str *rest)
{
    if (str_starts(*rest, STR("--")))
        return AFTER_END;
    size_t blank = 0;
    while (blank < rest->n && (rest->p[blank] == ' ' || rest->p[blank] == '\t'))
        blank++;
    if (!str_starts(str_skip(*rest, blank), STR("\r\n")))
        return AFTER_NEITHER;
    *rest = str_skip(*rest, blank + 2);
    return AFTER_PART;
}

/* One line of a part's head: its name, or what makes it unreadable. */
static err part_line(struct arena *a, str line, str *name, struct err_note *note)
{
    str value = line;
    str field = str_split(&value, ':');
    if (value.p == NULL || field.n == 0)
        return err_bad(note, "a part's head has a line that is no field");
    value = str_trim(value);
    if (str_eq_nocase(field, STR("content-disposition"))) {
        bool fine = name->p == NULL && str_eq_nocase(http_media_type(value), STR("form-data")) &&
                    http_parameter(a, value, STR("name"), name);
        return fine ? ERR_OK
                    : err_bad(note, "a part's Content-Disposition is not form-data with one name");
    }
    if (!str_eq_nocase(field, STR("content-transfer-encoding")))
        return ERR_OK;
    bool plain = str_eq_nocase(value, STR("binary")) || str_eq_nocase(value, STR("8bit")) ||
                 str_eq_nocase(value, STR("7bit"));
    return plain ? ERR_OK : err_bad(note, "a part has a transfer encoding");
}

/* The head of a part, up to its empty line; *part is left at the value. */
static err part_head(struct arena *a, str *part, str *name, struct err_note *note)
{
    *name = STR_NONE;
    str seen = str_take(*part, FORM_PART_HEAD_BYTES_MAX);
    for (;;) {
        size_t end = str_find_str(seen, STR("\r\n"));
        if (end == seen.n)
            return err_bad(note, "a part has no head, or one of more than 4096 bytes");
        str line = str_take(seen, end);
        seen = str_skip(seen, end + 2);
        *part = str_skip(*part, end + 2);
        if (line.n == 0)
            return name->p != NULL ? ERR_OK : err_bad(note, "a part has no name");
        err why = part_line(a, line, name, note);
        if (why != ERR_OK)
            return why;
    }
}

static err parse_multipart(struct arena *a, str boundary, str body, struct form *f,
                           struct err_note *note)
{
    str delimiter = arena_printf(a, "\r\n--%.*s", STR_ARG(boundary)),
        first = str_skip(delimiter, 2);
    if (delimiter.p == NULL)
        return ERR_LIMIT;
    size_t at = str_starts(body, first) ? first.n : str_find_str(body, delimiter) + delimiter.n;
    if (at > body.n)
        return err_bad(note, "the body does not hold its boundary");
    str rest = str_skip(body, at), name;
    enum after next;
    while ((next = after_boundary(&rest)) == AFTER_PART) {
        err why = part_head(a, &rest, &name, note);
        if (why != ERR_OK)
            return why;
        size_t end = str_find_str(rest, delimiter);
        if (end == rest.n)
            return err_bad(note, "the body ends before its last boundary");
        why = form_add(f, name, str_take(rest, end), note);
        if (why != ERR_OK)
            return why;
        rest = str_skip(rest, end + delimiter.n);
    }
    return next == AFTER_END ? ERR_OK : err_bad(note, "a boundary is followed by other text");
}

err form_parse(struct arena *a, str content_type, str body, struct form *out, struct err_note *note)
{
    str type = http_media_type(content_type), boundary;
    out->count = 0;
    if (str_eq_nocase(type, STR("application/x-www-form-urlencoded")))
        return parse_urlencoded(a, body, out, note);
    if (!str_eq_nocase(type, STR("multipart/form-data")))
        return ERR_NOT_FOUND;
    if (!http_parameter(a, content_type, STR("boundary"), &boundary) || !is_boundary(boundary))
        return err_bad(note, "multipart/form-data without a boundary");
    return parse_multipart(a, boundary, body, out, note);
}
