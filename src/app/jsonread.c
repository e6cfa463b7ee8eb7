#include "app/jsonread.h"

#include "codec/json_text.h"

#include <string.h>

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

static str skip_space(str s)
{
    while (s.n > 0 && is_space(s.p[0]))
        s = str_skip(s, 1);
    return s;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of the string at s, quotes included; 0: no string. */
static size_t string_size(str s)
{
    size_t i = 1;
    while (i < s.n && s.p[i] != '"') {
        if ((unsigned char)s.p[i] < 0x20)
            return 0;
        if (s.p[i] != '\\') {
            i++;
            continue;
        }
        if (i + 1 >= s.n || s.p[i + 1] == 0 || strchr("\"\\/bfnrtu", s.p[i + 1]) == NULL)
            return 0;
        size_t n = s.p[i + 1] == 'u' ? 6 : 2;
        if (s.n - i < n)
            return 0;
        for (size_t k = 2; k < n; k++)
            if (str_hex_digit(s.p[i + k]) < 0)
                return 0;
        i += n;
    }
    return i < s.n ? i + 1 : 0;
}

static size_t digits(str s)
{
    size_t i = 0;
    while (i < s.n && is_digit(s.p[i]))
        i++;
    return i;
}

/* Bytes of the number at s; 0: no number. */
static size_t number_size(str s)
{
    size_t i = s.p[0] == '-' ? 1 : 0;
    size_t n = digits(str_skip(s, i));
    if (n == 0 || (n > 1 && s.p[i] == '0'))
        return 0;
    i += n;
    if (i < s.n && s.p[i] == '.') {
        n = digits(str_skip(s, i + 1));
        if (n == 0)
            return 0;
        i += 1 + n;
    }
    if (i < s.n && (s.p[i] == 'e' || s.p[i] == 'E')) {
        i++;
        if (i < s.n && (s.p[i] == '+' || s.p[i] == '-'))
            i++;
        n = digits(str_skip(s, i));
        if (n == 0)
            return 0;
        i += n;
    }
    return i;
}

static size_t scalar_size(str s)
{
    static const char *const words[] = { "true", "false", "null" };
    if (s.n == 0)
        return 0;
    if (s.p[0] == '"')
        return string_size(s);
    for (size_t i = 0; i < COUNT_OF(words); i++)
        if (str_starts(s, str_of(words[i])))
            return strlen(words[i]);
    return number_size(s);
}

/* Cuts the name and colon of a member from *s. */
static bool skip_name(str *s)
{
    size_t n = s->n > 0 && s->p[0] == '"' ? string_size(*s) : 0;
    if (n == 0)
        return false;
    *s = skip_space(str_skip(*s, n));
    if (s->n == 0 || s->p[0] != ':')
        return false;
    *s = skip_space(str_skip(*s, 1));
    return true;
}

/* What is open: the closing brackets still owed, innermost last. */
struct nest {
    unsigned depth;
    char close[JSONREAD_DEPTH_MAX];
};

/* After a value: closes what ends here, steps over one comma. False: not JSON. */
static bool after_value(struct nest *open, str *s)
{
    while (open->depth > 0) {
        *s = skip_space(*s);
        if (s->n == 0)
            return false;
        char c = s->p[0];
        char close = open->close[open->depth - 1];
        *s = str_skip(*s, 1);
        if (c == close) {
            open->depth--;
            continue;
        }
        if (c != ',')
            return false;
        *s = skip_space(*s);
        return close == ']' || skip_name(s);
    }
    return true;
}

/* Opens the object or array at *s. False: not JSON, or too deep. *empty: it closed at once. */
static bool open_value(struct nest *open, str *s, bool *empty)
{
    char close = s->p[0] == '{' ? '}' : ']';
    *s = skip_space(str_skip(*s, 1));
    *empty = s->n > 0 && s->p[0] == close;
    if (*empty) {
        *s = str_skip(*s, 1);
        return true;
    }
    if (open->depth == JSONREAD_DEPTH_MAX)
        return false;
    open->close[open->depth++] = close;
    return close == ']' || skip_name(s);
}

/* Bytes of the value that starts at s; 0: not JSON. */
static size_t value_size(str s)
{
    struct nest open = { 0 };
    str rest = s;
    do {
        bool ended = true;
        if (rest.n > 0 && (rest.p[0] == '{' || rest.p[0] == '[')) {
            if (!open_value(&open, &rest, &ended))
                return 0;
        } else {
            size_t n = scalar_size(rest);
            if (n == 0)
                return 0;
            rest = str_skip(rest, n);
        }
        if (ended && !after_value(&open, &rest))
            return 0;
    } while (open.depth > 0);
    return s.n - rest.n;
}

bool jsonread_value(str text, str *value)
{
    str s = skip_space(text);
    size_t n = value_size(s);
    if (n == 0 || skip_space(str_skip(s, n)).n > 0)
        return false;
    *value = str_take(s, n);
    return true;
}

static bool has_name(const struct jsonread_member *m, unsigned count, str name)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(m[i].name, name))
            return true;
    return false;
}

err jsonread_members(struct arena *a, str value, struct jsonread_member *out, unsigned max,
                     unsigned *count)
{
    if (value.n < 2 || value.p[0] != '{')
        return ERR_BAD;
    unsigned n = 0;
    str s = skip_space(str_skip(value, 1));
    while (s.n > 0 && s.p[0] != '}') {
        if (n == max)
            return ERR_LIMIT;
        str name, raw = str_take(s, string_size(s));
        err why = jsonread_string(a, raw, &name);
        if (why != ERR_OK)
            return why;
        if (has_name(out, n, name) || !skip_name(&s))
            return ERR_BAD;
        size_t size = value_size(s);
        if (size == 0)
            return ERR_BAD;
        out[n++] = (struct jsonread_member){ .name = name, .value = str_take(s, size) };
        s = skip_space(str_skip(s, size));
        if (s.n > 0 && s.p[0] == ',')
            s = skip_space(str_skip(s, 1));
    }
    *count = n;
    return ERR_OK;
}

err jsonread_string(struct arena *a, str value, str *out)
{
    if (value.n < 2 || value.p[0] != '"' || string_size(value) != value.n)
        return ERR_BAD;
    return json_text_unescape(a, str_take(str_skip(value, 1), value.n - 2), out);
}

const struct jsonread_member *jsonread_find(const struct jsonread_member *m, unsigned count,
                                            const char *name)
{
    for (unsigned i = 0; i < count; i++)
        if (str_eq(m[i].name, str_of(name)))
            return &m[i];
    return NULL;
}
