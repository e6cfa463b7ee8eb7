/* parameter.c - what stands behind the value of a header field. */
#include "http/parameter.h"

#include "http/negotiate.h"

str http_part_next(str *rest, char separator)
{
    bool quoted = false;
    size_t n = 0;
    for (; n < rest->n && (quoted || rest->p[n] != separator); n++) {
        if (rest->p[n] == '"')
            quoted = !quoted;
        else if (quoted && rest->p[n] == '\\' && n + 1 < rest->n)
            n++;
    }
    str part = str_trim(str_take(*rest, n));
    *rest = n < rest->n ? str_skip(*rest, n + 1) : STR_NONE;
    return part;
}

str http_media_type(str content_type)
{
    return str_trim(str_take(content_type, str_find(content_type, ';')));
}

/* At a '"': what is between the quotes, backslashes taken out. *rest is left behind the closing
 * one. False: none. */
static bool parameter_unquote(struct arena *a, str *rest, str *out)
{
    char *text = arena_alloc(a, rest->n);
    size_t n = 0, i = 1;
    for (; text != NULL && i < rest->n && rest->p[i] != '"'; i++) {
        if (rest->p[i] == '\\' && ++i == rest->n)
            return false;
        text[n++] = rest->p[i];
    }
    if (text == NULL || i >= rest->n)
        return false;
    *rest = str_skip(*rest, i + 1);
    *out = (str){ .p = text, .n = n };
    return true;
}

bool http_parameter(struct arena *a, str field, str name, str *out)
{
    str rest = str_skip(field, str_find(field, ';'));
    bool found = false;
    while (rest.n > 0) {
        if (rest.p[0] != ';')
            return false;
        rest = str_trim(str_skip(rest, 1));
        str key = http_token_take(&rest), value;
        if (key.n == 0 && (rest.n == 0 || rest.p[0] == ';'))
            continue; /* an empty parameter */
        if (rest.n == 0 || rest.p[0] != '=')
            return false;
        rest = str_skip(rest, 1);
        if (rest.n > 0 && rest.p[0] == '"') {
            if (!parameter_unquote(a, &rest, &value))
                return false;
        } else {
            value = http_token_take(&rest);
        }
        rest = str_trim(rest);
        if (!str_eq_nocase(key, name))
            continue;
        if (found)
            return false;
        found = true;
        *out = value;
    }
    return found;
}
