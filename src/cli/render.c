/* render.c - turns a document of a repository into HTML. Invariant: no raw HTML of a source
 * reaches the output unfiltered. */
#include "cli/render.h"

#include <cmark-gfm-core-extensions.h>
#include <cmark-gfm.h>
#include <stdlib.h>
#include <string.h>
#include <unistr.h>

const char *render_markdown_version(void)
{
    return cmark_version_string();
}

static bool ends_any(str path, const char *const *suffixes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        str suffix = str_of(suffixes[i]);
        if (path.n >= suffix.n && str_eq_nocase(str_skip(path, path.n - suffix.n), suffix))
            return true;
    }
    return false;
}

enum render_kind render_kind_of(str path, str bytes)
{
    static const char *const markdown[] = { ".md", ".markdown" };
    if (bytes.n > 0 && memchr(bytes.p, 0, bytes.n) != NULL)
        return RENDER_BINARY;
    if (bytes.n > 0 && u8_check((const uint8_t *)bytes.p, bytes.n) != NULL)
        return RENDER_BINARY;
    return ends_any(path, markdown, COUNT_OF(markdown)) ? RENDER_MARKDOWN : RENDER_TEXT;
}

const char *render_source_type(str path, enum render_kind kind)
{
    static const char *const json[] = { ".json" };
    if (kind == RENDER_MARKDOWN)
        return "text/markdown; charset=utf-8";
    return ends_any(path, json, COUNT_OF(json)) ? "application/json" : "text/plain; charset=utf-8";
}

void render_escape(struct buf *out, str s)
{
    size_t from = 0;
    for (size_t i = 0; i < s.n; i++) {
        str with = STR_NONE;
        switch (s.p[i]) {
        case '&':
            with = STR("&amp;");
            break;
        case '<':
            with = STR("&lt;");
            break;
        case '>':
            with = STR("&gt;");
            break;
        case '"':
            with = STR("&quot;");
            break;
        default:
            continue;
        }
        buf_put(out, (str){ .p = s.p + from, .n = i - from });
        buf_put(out, with);
        from = i + 1;
    }
    buf_put(out, str_skip(s, from));
}

static void put_markdown(str source, struct buf *out)
{
    static const char *const names[] = { "table", "autolink", "strikethrough", "tasklist",
                                         "tagfilter" };
    cmark_gfm_core_extensions_ensure_registered();
    cmark_parser *parser = cmark_parser_new(CMARK_OPT_VALIDATE_UTF8 | CMARK_OPT_FOOTNOTES);
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        cmark_syntax_extension *e = cmark_find_syntax_extension(names[i]);
        INVARIANT(e != NULL);
        cmark_parser_attach_syntax_extension(parser, e);
    }
    cmark_parser_feed(parser, source.p != NULL ? source.p : "", source.n);
    cmark_node *doc = cmark_parser_finish(parser);
    char *html = cmark_render_html(doc, CMARK_OPT_VALIDATE_UTF8 | CMARK_OPT_FOOTNOTES,
                                   cmark_parser_get_syntax_extensions(parser));
    buf_put(out, str_of(html));
    free(html);
    cmark_node_free(doc);
    cmark_parser_free(parser);
}

err render_html(enum render_kind kind, str title, str source, struct buf *out)
{
    buf_put(out, STR("<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\"><title>"));
    render_escape(out, title);
    buf_put(out, STR("</title></head>\n<body>\n"));
    if (kind == RENDER_MARKDOWN) {
        put_markdown(source, out);
    } else {
        buf_put(out, STR("<pre>"));
        render_escape(out, source);
        buf_put(out, STR("</pre>\n"));
    }
    buf_put(out, STR("</body></html>\n"));
    return buf_status(out);
}
