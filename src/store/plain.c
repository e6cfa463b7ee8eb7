/* plain.c - finds the parts of an HTML document that change from render to render, so that a digest
 * leaves them out. Linear: each byte is looked at once or twice. */
#include "store/bundle.h"

#include <string.h>

/* A scanner over HTML, which is no parser: it knows start tags, their quoted values and comments.
 * One call of bundle_plain. */
struct scan {
    str text;
    size_t at;   /* next byte */
    size_t kept; /* bytes before it are passed on */
    void (*piece)(void *ctx, str bytes);
    void *ctx;
};

enum { SPACE = 1, NAME_END = 2 };
static const unsigned char kinds[256] = {
    [' '] = SPACE | NAME_END,  ['\t'] = SPACE | NAME_END, ['\n'] = SPACE | NAME_END,
    ['\r'] = SPACE | NAME_END, ['\f'] = SPACE | NAME_END, ['='] = NAME_END,
    ['>'] = NAME_END,          ['/'] = NAME_END,          ['"'] = NAME_END,
    ['\''] = NAME_END,
};

static bool is_space(char c)
{
    return (kinds[(unsigned char)c] & SPACE) != 0;
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* Place of the first c at or behind at, else the end. */
static size_t plain_find(str text, size_t at, char c)
{
    const char *found = at < text.n ? memchr(text.p + at, c, text.n - at) : NULL;
    return found == NULL ? text.n : (size_t)(found - text.p);
}

/* Behind the name that begins at `at`. */
static size_t behind_name(str text, size_t at)
{
    while (at < text.n && (kinds[(unsigned char)text.p[at]] & NAME_END) == 0)
        at++;
    return at;
}

static size_t behind_spaces(str text, size_t at)
{
    while (at < text.n && is_space(text.p[at]))
        at++;
    return at;
}

/* Leaves out [from, until): what stands before it and was not passed on yet is passed on. */
static void cut(struct scan *s, size_t from, size_t until)
{
    if (from > s->kept)
        s->piece(s->ctx, (str){ .p = s->text.p + s->kept, .n = from - s->kept });
    s->kept = until;
}

/* Behind a quoted value whose quote is the next byte; false: none follows, or it never ends. */
static bool skip_quoted(struct scan *s)
{
    if (s->at >= s->text.n || (s->text.p[s->at] != '"' && s->text.p[s->at] != '\''))
        return false;
    size_t end = plain_find(s->text, s->at + 1, s->text.p[s->at]);
    s->at = end == s->text.n ? end : end + 1;
    return end < s->text.n;
}

/* One attribute. `about` with a quoted value is cut out, with the one space before it. */
static void scan_attribute(struct scan *s)
{
    size_t begin = s->at, name_end = behind_name(s->text, begin);
    str name = { .p = s->text.p + begin, .n = name_end - begin };
    s->at = behind_spaces(s->text, name_end);
    if (s->at >= s->text.n || s->text.p[s->at] != '=') {
        s->at = name.n > 0 ? name_end : s->at + 1;
        return;
    }
    /* A value without quotes ends with a space or '>'. */
    s->at = behind_spaces(s->text, s->at + 1);
    bool quoted = skip_quoted(s);
    if (quoted && begin > 0 && is_space(s->text.p[begin - 1]) && str_eq_nocase(name, STR("about")))
        cut(s, begin - 1, s->at);
    while (!quoted && s->at < s->text.n && !is_space(s->text.p[s->at]) && s->text.p[s->at] != '>')
        s->at++;
}

/* At the '<' of a start tag; leaves s behind its '>'. */
static void scan_tag(struct scan *s)
{
    size_t begin = s->at, cut_before = s->kept;
    s->at = behind_name(s->text, begin + 1);
    str name = { .p = s->text.p + begin + 1, .n = s->at - begin - 1 };
    bool meta = str_eq_nocase(name, STR("meta"));
    while (s->at < s->text.n && s->text.p[s->at] != '>') {
        if (is_space(s->text.p[s->at]) || s->text.p[s->at] == '/')
            s->at++;
        else if (s->text.p[s->at] == '"' || s->text.p[s->at] == '\'')
            (void)skip_quoted(s); /* a stray quote: behind it either way */
        else
            scan_attribute(s);
    }
    if (s->at < s->text.n)
        s->at++;
    /* A <meta> in which something was cut already is left in: its bytes are passed on by now. */
    str tag = { .p = s->text.p + begin, .n = s->at - begin };
    if (meta && cut_before == s->kept && str_find_str(tag, STR("mw:TimeUuid")) < tag.n)
        cut(s, begin, s->at);
}

/* Calls piece for what lies between the cuts, in order. */
void bundle_plain(str html, void (*piece)(void *ctx, str bytes), void *ctx)
{
    struct scan s = { .text = html, .piece = piece, .ctx = ctx };
    while (s.at < html.n) {
        s.at = plain_find(html, s.at, '<');
        if (s.at + 1 >= html.n)
            break;
        if (is_letter(html.p[s.at + 1])) {
            scan_tag(&s);
            /* A comment is passed on as it is; one that never ends is the rest of the text. */
        } else if (html.p[s.at + 1] == '!' && str_starts(str_skip(html, s.at), STR("<!--"))) {
            s.at += 4;
            s.at += str_find_str(str_skip(html, s.at), STR("-->"));
        } else {
            s.at++;
        }
    }
    cut(&s, html.n, html.n);
}
