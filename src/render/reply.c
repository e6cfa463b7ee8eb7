/* reply.c - judges a reply of an origin by its type, its encoding and its end, for request.c and
 * transform.c. Invariant: a reply that may have been cut off is not stored. */
#include "render/reply.h"

#include "base/utf8.h"
#include "codec/json.h"
#include "http/parameter.h"

/* Printable ASCII: nothing else may get into a header of ours. */
static bool is_plain(str value)
{
    for (size_t i = 0; i < value.n; i++)
        if ((unsigned char)value.p[i] < 0x20 || (unsigned char)value.p[i] >= 0x7f)
            return false;
    return true;
}

/* 8 bytes: "charset=". */
static bool is_charset(str parameter)
{
    return str_eq_nocase(str_take(parameter, 8), STR("charset="));
}

static bool is_utf8(str parameter)
{
    str name = str_skip(parameter, 8);
    return str_eq_nocase(name, STR("utf-8")) || str_eq_nocase(name, STR("\"utf-8\""));
}

/* A type of another charset than UTF-8 is none that is wanted. */
bool content_type_is(str value, str type)
{
    if (!is_plain(value) || !str_eq_nocase(http_part_next(&value, ';'), type))
        return false;
    while (value.p != NULL) {
        str part = http_part_next(&value, ';');
        if (is_charset(part) && !is_utf8(part))
            return false;
    }
    return true;
}

/* Separates parameters by "; ", with the charset in lower case: one spelling of what means the
 * same. */
static str tidy_type(struct arena *a, str value)
{
    str out = STR("");
    for (str rest = value; rest.p != NULL && out.p != NULL;) {
        str part = http_part_next(&rest, ';');
        if (is_charset(part) && is_utf8(part))
            part = STR("charset=utf-8");
        if (part.n > 0)
            out = arena_printf(a, "%.*s%s%.*s", STR_ARG(out), out.n > 0 ? "; " : "", STR_ARG(part));
    }
    return out;
}

/* STR_NONE: the arena is full. An odd language is left out. */
str content_headers(struct arena *a, str type, str language)
{
    type = tidy_type(a, type);
    if (type.p == NULL)
        return STR_NONE;
    if (language.n == 0 || !is_plain(language))
        return arena_printf(a, "content-type: %.*s\n", STR_ARG(type));
    return arena_printf(a, "content-type: %.*s\ncontent-language: %.*s\n", STR_ARG(type),
                        STR_ARG(language));
}

static enum render_why reply_refuse(struct err_note *note, const char *what, const char *problem)
{
    err_note_set(note, "the origin's %s %s", what, problem);
    return RENDER_FAILED;
}

static bool is_array(str json)
{
    json_t *root = NULL;
    bool array = json_body_parse(json, &root, NULL) == ERR_OK && json_is_array(root);
    json_decref(root);
    return array;
}

/* Would a connection that broke look like the end of the reply? */
bool reply_is_open(const struct http_call *call)
{
    str coding = http_call_header(call, "content-encoding"); /* decoded, to its own end */
    return http_call_header(call, "content-length").n == 0 &&
           http_call_header(call, "transfer-encoding").n == 0 &&
           (coding.n == 0 || str_eq_nocase(coding, STR("identity")));
}

/* Without the line ends behind s. */
static str without_line_ends(str s)
{
    while (s.n > 0 && (s.p[s.n - 1] == '\n' || s.p[s.n - 1] == '\r'))
        s.n--;
    return s;
}

/* Each kind of reply by its type, as UTF-8, and as far as it can be told whole. */
enum render_why reply_check(const struct http_call *call, enum reply_kind kind,
                            struct err_note *note)
{
    static const struct {
        const char *what, *type;
    } kinds[] = {
        [REPLY_HTML] = { "HTML", "text/html" },
        [REPLY_WIKITEXT] = { "wikitext", "text/plain" },
        [REPLY_LINT] = { "lint errors", "application/json" },
        [REPLY_BUNDLE] = { "bundle", "application/json" },
    };
    const char *what = kinds[kind].what;
    if (!content_type_is(http_call_header(call, "content-type"), str_of(kinds[kind].type))) {
        err_note_set(note, "the origin's %s: its type is not %s in UTF-8", what, kinds[kind].type);
        return RENDER_FAILED;
    }
    if (!utf8_valid(call->reply_body))
        return reply_refuse(note, what, "cannot be read as UTF-8");
    /* Only HTML shows by itself where it ends. */
    if (kind == REPLY_HTML && reply_is_open(call) &&
        !str_ends(without_line_ends(call->reply_body), STR("</html>")))
        return reply_refuse(note, what, "may be cut: the reply does not say where it ends");
    if (kind == REPLY_LINT && !is_array(call->reply_body))
        return reply_refuse(note, what, "are no array");
    return RENDER_FINE;
}
