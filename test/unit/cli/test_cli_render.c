/* Goal: documents become the HTML that their format promises, and nothing in them becomes markup
 * that is not theirs. Method: sources and pieces that must, or must not, be in the result. */
#include "cli/render.h"

#include "../cmocka_all.h"

#include <string.h>

static const char *html_of(enum render_kind kind, const char *title, const char *source,
                           struct buf *b)
{
    buf_init(b, 1 << 20);
    assert_int_equal(render_html(kind, str_of(title), str_of(source), b), ERR_OK);
    buf_put_c(b, '\0');
    return b->p;
}

static void has(const char *source, const char *piece)
{
    struct buf b;
    const char *html = html_of(RENDER_MARKDOWN, "t", source, &b);
    if (strstr(html, piece) == NULL)
        fail_msg("no %s in %s", piece, html);
    buf_fini(&b);
}

static void markdown_is_rendered_with_its_extensions(void **state)
{
    (void)state;
    has("# One *two*\n", "<h1>One <em>two</em></h1>");
    has("| a | b |\n|---|---|\n| 1 | 2 |\n", "<td>2</td>");
    has("see https://example.test/x now\n", "<a href=\"https://example.test/x\">");
    has("~~gone~~\n", "<del>gone</del>");
    has("- [x] done\n", "type=\"checkbox\"");
    has("```c\na < b\n```\n", "a &lt; b");
}

static void raw_html_and_scripts_do_not_pass(void **state)
{
    (void)state;
    struct buf b;
    const char *html = html_of(RENDER_MARKDOWN, "t",
                               "<script>alert(1)</script>\n\n[x](javascript:alert(1))\n", &b);
    assert_null(strstr(html, "<script"));
    assert_null(strstr(html, "javascript:"));
    buf_fini(&b);
}

static void other_text_is_escaped(void **state)
{
    (void)state;
    struct buf b;
    const char *html = html_of(RENDER_TEXT, "a<b>\"&", "if (a < b && c > d) \"x\"\n", &b);
    assert_non_null(strstr(html, "<title>a&lt;b&gt;&quot;&amp;</title>"));
    assert_non_null(strstr(html, "<pre>if (a &lt; b &amp;&amp; c &gt; d) &quot;x&quot;\n</pre>"));
    buf_fini(&b);
}

static void kinds_go_by_name_and_bytes(void **state)
{
    (void)state;
    const struct {
        str path, bytes;
        enum render_kind kind;
    } cases[] = {
        { STR("a.md"), STR("x"), RENDER_MARKDOWN },
        { STR("A.MD"), STR(""), RENDER_MARKDOWN },
        { STR("a.markdown"), STR("x"), RENDER_MARKDOWN },
        { STR("md"), STR("x"), RENDER_TEXT },
        { STR("a.md"), STR("a\0b"), RENDER_BINARY },
        { STR("a.c"), STR("\xff"), RENDER_BINARY },
        { STR("a.c"), STR("\xc3\xa4"), RENDER_TEXT },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(render_kind_of(cases[i].path, cases[i].bytes), cases[i].kind);
}

static void a_full_buffer_is_told(void **state)
{
    (void)state;
    struct buf b;
    buf_init(&b, 100);
    str source = STR("0123456789012345678901234567890123456789");
    assert_int_equal(render_html(RENDER_TEXT, STR("t"), source, &b), ERR_LIMIT);
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(markdown_is_rendered_with_its_extensions),
        cmocka_unit_test(raw_html_and_scripts_do_not_pass),
        cmocka_unit_test(other_text_is_escaped),
        cmocka_unit_test(kinds_go_by_name_and_bytes),
        cmocka_unit_test(a_full_buffer_is_told),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
