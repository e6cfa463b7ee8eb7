/* head.c - looks into the head of HTML: the tid, the revision, a redirect. For makers and
 * transforms.
 *
 * A scanner that is no parser: it knows start tags with quoted or bare values, comments, and
 * elements whose text is no markup. Every step moves forward, so all is linear. Nothing past
 * HEAD_BYTES_MAX is looked at. */
#include "render/title_rules.h"

#include "http/percent.h"
#include <string.h>

/* A start or end tag; begin and end are places in the HTML. */
struct tag {
    str name; /* as written */
    str rest; /* what stands between the name and '>' */
    size_t begin, end;
    bool closing;
};
struct scan {
    str html;
    size_t at;
};

static bool is_space(char c)
{
    return c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == '\f';
}

static bool is_letter(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/* All scans begin here, so none passes HEAD_BYTES_MAX. */
static struct scan scan_of(str html)
{
    return (struct scan){ .html = str_take(html, HEAD_BYTES_MAX) };
}

static bool tag_is(const struct tag *t, const char *name)
{
    return str_eq_nocase(t->name, str_of(name));
}

/* The place just behind the '>' that ends a tag whose inside begins at `at`; 0: it never ends. */
static size_t tag_end(str html, size_t at)
{
    char quote = 0;
    bool value = false; /* a quote counts only where a value begins */
    for (; at < html.n; at++) {
        char c = html.p[at];
        if (quote != 0) {
            if (c == quote)
                quote = 0;
        } else if (c == '>') {
            return at + 1;
        } else if (value && (c == '"' || c == '\'')) {
            quote = c;
        }
        value = c == '=' || (value && is_space(c));
    }
    return 0;
}

/* Goes past the text of an element that holds no markup. */
static void skip_text(struct scan *s, const struct tag *t)
{
    static const char *const raw[] = { "script", "style", "title", "textarea" };
    bool is_raw = false;
    for (size_t i = 0; i < COUNT_OF(raw); i++)
        is_raw = is_raw || tag_is(t, raw[i]);
    while (is_raw && s->at < s->html.n) {
        str here = str_skip(s->html, s->at);
        if (str_starts(here, STR("</")) &&
            str_eq_nocase(str_take(str_skip(here, 2), t->name.n), t->name))
            return;
        s->at += 1 + str_find(str_skip(here, 1), '<');
    }
}

/* Reads the tag at s->at, and moves behind it. False: there is none. */
static bool scan_tag(struct scan *s, struct tag *out)
{
    str html = s->html;
    size_t at = s->at + 1;
    bool closing = at < html.n && html.p[at] == '/';
    at += closing;
    if (at >= html.n || !is_letter(html.p[at]))
        return false;
    size_t name = at;
    while (at < html.n && !is_space(html.p[at]) && html.p[at] != '>' && html.p[at] != '/')
        at++;
    size_t end = tag_end(html, at);
    if (end == 0) {
        s->at = html.n;
        return false;
    }
    *out = (struct tag){ .name = { .p = html.p + name, .n = at - name },
                         .rest = { .p = html.p + at, .n = end - 1 - at },
                         .begin = s->at,
                         .end = end,
                         .closing = closing };
    s->at = end;
    if (!closing)
        skip_text(s, out);
    return true;
}

/* The next start or end tag. */
static bool next_tag(struct scan *s, struct tag *out)
{
    while (s->at < s->html.n) {
        s->at += str_find(str_skip(s->html, s->at), '<');
        str here = str_skip(s->html, s->at);
        if (here.n < 2)
            break;
        if (str_starts(here, STR("<!--")))
            s->at += 4 + str_find_str(str_skip(here, 4), STR("-->"));
        else if (here.p[1] == '!' || here.p[1] == '?')
            s->at += str_find(here, '>');
        else if (scan_tag(s, out))
            return true;
        else
            s->at++;
    }
    return false;
}

/* Bytes before the first space or stop. */
static size_t count_until(str s, const char *stops)
{
    size_t n = 0;
    while (n < s.n && !is_space(s.p[n]) && memchr(stops, s.p[n], strlen(stops)) == NULL)
        n++;
    return n;
}

static str skip_spaces(str s)
{
    while (s.n > 0 && is_space(s.p[0]))
        s = str_skip(s, 1);
    return s;
}

/* Cuts one attribute off *rest; an absent value is empty. False: there is none left. */
static bool next_attribute(str *rest, str *name, str *value)
{
    str s = *rest;
    while (s.n > 0 && (is_space(s.p[0]) || s.p[0] == '/'))
        s = str_skip(s, 1);
    if (s.n == 0)
        return false;
    size_t n =
        count_until(str_skip(s, 1), "=/") + 1; /* at least one byte, so that it always moves */
    *name = str_take(s, n);
    *value = STR("");
    s = skip_spaces(str_skip(s, n));
    if (s.n > 0 && s.p[0] == '=') {
        s = skip_spaces(str_skip(s, 1));
        bool quoted = s.n > 0 && (s.p[0] == '"' || s.p[0] == '\'');
        n = quoted ? str_find(str_skip(s, 1), s.p[0]) : count_until(s, "");
        *value = str_take(str_skip(s, quoted), n);
        s = str_skip(s, quoted ? n + 2 : n);
    }
    *rest = s;
    return true;
}

/* The value of the first attribute of that name, as written; false: it has none. */
static bool attribute(const struct tag *t, const char *wanted, str *value)
{
    str rest = t->rest, name;
    while (next_attribute(&rest, &name, value))
        if (str_eq_nocase(name, str_of(wanted)))
            return true;
    return false;
}

/* property and rel hold words that are separated by spaces. */
static bool has_word(const struct tag *t, const char *wanted, str word)
{
    str value;
    if (!attribute(t, wanted, &value))
        return false;
    for (value = skip_spaces(value); value.n > 0; value = skip_spaces(value)) {
        size_t n = count_until(value, "");
        if (str_eq(str_take(value, n), word))
            return true;
        value = str_skip(value, n);
    }
    return false;
}

/* The head stands before the body, or there is none. */
static bool find_head(struct scan *s, struct tag *out)
{
    while (next_tag(s, out))
        if (!out->closing && tag_is(out, "head"))
            return true;
        else if (tag_is(out, "body"))
            break;
    return false;
}

/* A head without an end tag ends with the body. */
static bool ends_head(const struct tag *t)
{
    return tag_is(t, "body") || (t->closing && tag_is(t, "head"));
}

/* The next mw:TimeUuid meta of the head that s stands in. */
static bool next_uuid(struct scan *s, struct tag *out)
{
    while (next_tag(s, out) && !ends_head(out))
        if (!out->closing && tag_is(out, "meta") && has_word(out, "property", STR("mw:TimeUuid")))
            return true;
    return false;
}

static char *put(char *at, str s)
{
    if (s.n > 0)
        memcpy(at, s.p, s.n);
    return at + s.n;
}

/* The new meta comes first in the head, and those that are there are left out: readers take the
 * first. */
bool render_head_put(struct arena *a, str html, struct tid tid, str *out)
{
    struct scan s = scan_of(html);
    struct tag t;
    if (!find_head(&s, &t)) {
        *out = html;
        return true;
    }
    char text[TID_TEXT_BYTES + 1];
    tid_format(tid, text);
    str meta = arena_printf(a, "<meta property=\"mw:TimeUuid\" content=\"%s\"/>", text);
    char *copy = meta.p == NULL ? NULL : arena_alloc(a, html.n + meta.n + 1);
    if (copy == NULL)
        return false;
    char *at = put(put(copy, str_take(html, t.end)), meta);
    size_t kept = t.end;
    while (next_uuid(&s, &t)) {
        at = put(at, str_take(str_skip(html, kept), t.begin - kept));
        kept = t.end;
    }
    at = put(at, str_skip(html, kept));
    *at = 0;
    *out = (str){ .p = copy, .n = (size_t)(at - copy) };
    return true;
}

bool render_head_is(str html)
{
    struct scan s = scan_of(html);
    struct tag t;
    return find_head(&s, &t);
}

/* The first meta whose content is a tid. */
bool render_head_tid(str html, struct tid *out)
{
    struct scan s = scan_of(html);
    struct tag t;
    str content;
    if (!find_head(&s, &t))
        return false;
    while (next_uuid(&s, &t))
        if (attribute(&t, "content", &content) && tid_parse(str_trim(content), out))
            return true;
    return false;
}

/* Parsoid names the revision in the about of <html>, which stands before the head. */
uint64_t render_head_rev(str html)
{
    struct scan s = scan_of(html);
    struct tag t;
    str about;
    while (next_tag(&s, &t) && !tag_is(&t, "head") && !tag_is(&t, "body")) {
        if (t.closing || !tag_is(&t, "html") || !attribute(&t, "about", &about))
            continue;
        str word = STR("/revision/");
        size_t at = str_find_str(about, word);
        uint64_t rev;
        if (at < about.n && str_to_u64(str_skip(about, at + word.n), &rev) && rev <= INT64_MAX)
            return rev;
    }
    return 0;
}

/* ---- redirects ---- */

/* References in attributes; only those that serialisers write. */
static const struct {
    str name;
    char c;
} entities[] = {
    { STR_INIT("&amp;"), '&' },   { STR_INIT("&quot;"), '"' }, { STR_INIT("&#34;"), '"' },
    { STR_INIT("&apos;"), '\'' }, { STR_INIT("&#39;"), '\'' }, { STR_INIT("&lt;"), '<' },
    { STR_INIT("&gt;"), '>' },
};

/* An attribute's value without its references; all that serialisers write in a URL. Others stay as
 * they are. */
static str unescape(struct arena *a, str s)
{
    char *copy = arena_alloc(a, s.n + 1), *at = copy;
    if (copy == NULL)
        return STR_NONE;
    while (s.n > 0) {
        size_t i = 0;
        while (i < COUNT_OF(entities) && !str_starts(s, entities[i].name))
            i++;
        bool found = i < COUNT_OF(entities);
        *at++ = found ? entities[i].c : s.p[0];
        s = str_skip(s, found ? entities[i].name.n : 1);
    }
    *at = 0;
    return (str){ .p = copy, .n = (size_t)(at - copy) };
}

/* As it stands behind a # (RFC 3986): what may not is encoded, what is encoded already stays. */
static str encode_fragment(struct arena *a, str s)
{
    static const char digits[] = "0123456789ABCDEF";
    char *copy = arena_alloc(a, s.n * 3 + 1), *at = copy;
    if (copy == NULL)
        return STR_NONE;
    for (size_t i = 0; i < s.n; i++) {
        unsigned char c = (unsigned char)s.p[i];
        if (c > ' ' && c < 0x7f && strchr("\"#<>[\\]^`{|}", c) == NULL) {
            *at++ = s.p[i];
            continue;
        }
        *at++ = '%';
        *at++ = digits[c >> 4];
        *at++ = digits[c & 15];
    }
    *at = 0;
    return (str){ .p = copy, .n = (size_t)(at - copy) };
}

/* Reads "./Target#frag" or "../Target": a page of the same wiki. False: it is none. */
static bool local_target(struct arena *a, str href, str *target, str *fragment)
{
    bool local = false;
    while (str_starts(href, STR("./")) || str_starts(href, STR("../"))) {
        local = true;
        href = str_skip(href, href.p[1] == '/' ? 2 : 3);
    }
    size_t path = str_find(href, '#');
    str encoded = str_take(href, path), decoded;
    encoded = str_take(encoded, str_find(encoded, '?'));
    if (!local || encoded.n == 0 || http_decode(a, encoded, false, &decoded) != ERR_OK)
        return false;
    *target = decoded;
    *fragment = encode_fragment(a, str_skip(href, path + 1));
    return fragment->p != NULL;
}

/* The link of a redirect may stand in head or body: the whole start of the document is looked
 * through. */
bool render_head_redirect(struct arena *a, str html, str *target, str *fragment)
{
    struct scan s = scan_of(html);
    struct tag t;
    str href;
    while (next_tag(&s, &t)) {
        if (t.closing || !tag_is(&t, "link") || !has_word(&t, "rel", STR("mw:PageProp/redirect")))
            continue;
        if (!attribute(&t, "href", &href))
            continue;
        href = unescape(a, href);
        return href.p != NULL && local_target(a, href, target, fragment);
    }
    return false;
}
