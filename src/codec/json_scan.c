/* json_scan.c - tokens of JSON. What is open is a stack of closing brackets, not calls in calls: a
 * client chooses how deep it nests. */
#include "codec/json_scan.h"

#include <string.h>

struct json_scan json_scan_of(str text)
{
    const char *p = text.p != NULL ? text.p : "";
    return (struct json_scan){ .p = p, .end = p + text.n };
}

char json_scan_peek(struct json_scan *s)
{
    while (s->p < s->end && (*s->p == ' ' || *s->p == '\t' || *s->p == '\n' || *s->p == '\r'))
        s->p++;
    return s->p < s->end ? *s->p : '\0';
}

bool json_scan_take(struct json_scan *s, char c)
{
    if (json_scan_peek(s) != c || s->p == s->end)
        return false;
    s->p++;
    return true;
}

static str rest_of(const struct json_scan *s)
{
    return (str){ .p = s->p, .n = (size_t)(s->end - s->p) };
}

bool json_scan_word(struct json_scan *s, str word)
{
    (void)json_scan_peek(s); /* past blanks */
    if (!str_starts(rest_of(s), word))
        return false;
    s->p += word.n;
    return true;
}

/* Bytes of the escape at s; 0: none that JSON has. */
static size_t escape_size(str s)
{
    if (s.n < 2 || s.p[1] == '\0' || strchr("\"\\/bfnrtu", s.p[1]) == NULL)
        return 0;
    if (s.p[1] != 'u')
        return 2;
    for (size_t i = 2; i < 6; i++)
        if (i >= s.n || str_hex_digit(s.p[i]) < 0)
            return 0;
    return 6;
}

const char *json_scan_text(struct json_scan *s, str *quoted)
{
    if (!json_scan_take(s, '"'))
        return "a text is wanted";
    const char *begin = s->p;
    while (s->p < s->end && *s->p != '"') {
        if ((unsigned char)*s->p < 0x20)
            return "a control character in a text";
        size_t n = *s->p == '\\' ? escape_size(rest_of(s)) : 1;
        if (n == 0)
            return "a wrong escape in a text";
        s->p += n;
    }
    if (s->p == s->end)
        return "a text has no end";
    *quoted = (str){ .p = begin, .n = (size_t)(s->p - begin) };
    s->p++;
    return NULL;
}

/* ---- numbers ---- */

static size_t digits_skip(struct json_scan *s)
{
    const char *begin = s->p;
    while (s->p < s->end && *s->p >= '0' && *s->p <= '9')
        s->p++;
    return (size_t)(s->p - begin);
}

static bool byte_skip(struct json_scan *s, const char *bytes)
{
    if (s->p == s->end || *s->p == '\0' || strchr(bytes, *s->p) == NULL)
        return false;
    s->p++;
    return true;
}

bool json_scan_number(struct json_scan *s, str *number)
{
    (void)json_scan_peek(s); /* past blanks */
    struct json_scan at = *s;
    (void)byte_skip(&at, "-");
    const char *whole = at.p;
    size_t n = digits_skip(&at);
    if (n == 0 || (n > 1 && *whole == '0'))
        return false;
    if (byte_skip(&at, ".") && digits_skip(&at) == 0)
        return false;
    if (byte_skip(&at, "eE")) {
        (void)byte_skip(&at, "+-");
        if (digits_skip(&at) == 0)
            return false;
    }
    *number = (str){ .p = s->p, .n = (size_t)(at.p - s->p) };
    *s = at;
    return true;
}

/* ---- values ---- */

/* What is open: the closing brackets still owed, innermost last. */
struct nest {
    unsigned depth;
    char close[JSON_SCAN_DEPTH_MAX];
};

static bool scalar_skip(struct json_scan *s)
{
    str text;
    if (json_scan_peek(s) == '"')
        return json_scan_text(s, &text) == NULL;
    return json_scan_word(s, STR("true")) || json_scan_word(s, STR("false")) ||
           json_scan_word(s, STR("null")) || json_scan_number(s, &text);
}

static bool name_skip(struct json_scan *s)
{
    str name;
    return json_scan_text(s, &name) == NULL && json_scan_take(s, ':');
}

/* Opens the object or array at s. False: not JSON, or too deep. *empty: it closed at once. */
static bool nest_open(struct nest *open, struct json_scan *s, bool *empty)
{
    char close = json_scan_peek(s) == '{' ? '}' : ']';
    s->p++;
    *empty = json_scan_take(s, close);
    if (*empty)
        return true;
    if (open->depth == JSON_SCAN_DEPTH_MAX)
        return false;
    open->close[open->depth++] = close;
    return close == ']' || name_skip(s);
}

/* After a value: closes what ends here, steps over one comma. False: not JSON. */
static bool nest_go_on(struct nest *open, struct json_scan *s)
{
    while (open->depth > 0) {
        char close = open->close[open->depth - 1];
        if (json_scan_take(s, ','))
            return close == ']' || name_skip(s);
        if (!json_scan_take(s, close))
            return false;
        open->depth--;
    }
    return true;
}

bool json_scan_value(struct json_scan *s, str *value)
{
    struct nest open = { 0 };
    (void)json_scan_peek(s); /* past blanks */
    const char *begin = s->p;
    do {
        bool ended = true;
        char c = json_scan_peek(s);
        bool fine = c == '{' || c == '[' ? nest_open(&open, s, &ended) : scalar_skip(s);
        if (!fine || (ended && !nest_go_on(&open, s)))
            return false;
    } while (open.depth > 0);
    *value = (str){ .p = begin, .n = (size_t)(s->p - begin) };
    return true;
}

struct json_shape json_scan_shape(str text, size_t depth_max)
{
    struct json_shape shape = { .values = 1 };
    size_t depth = 0;
    bool quoted = false;
    for (size_t i = 0; i < text.n && shape.depth <= depth_max; i++) {
        char c = text.p[i];
        if (quoted) {
            if (c == '\\')
                i++;
            else if (c == '"')
                quoted = false;
            continue;
        }
        if (c == '"')
            quoted = true;
        else if (c == '[' || c == '{')
            depth++;
        else if ((c == ']' || c == '}') && depth > 0)
            depth--;
        shape.values += c == ',' || c == '[' || c == '{';
        shape.depth = depth > shape.depth ? depth : shape.depth;
    }
    return shape;
}
