/* Goal: every revision of an export comes out as it went in, in whatever pieces the file is read,
 * and what is no export, or a trap, is refused with its line.
 * Method: small exports fed whole, byte by byte, and with one thing wrong. */
#include "cli/dump.h"

#include "base/buf.h"

#include "../cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HEAD                                                                                       \
    "<mediawiki xmlns=\"http://www.mediawiki.org/xml/export-0.11/\" version=\"0.11\" "             \
    "xml:lang=\"en\">\n"
#define REVISION(id, text)                                                                         \
    "<revision><id>" id "</id><parentid>1</parentid><timestamp>2020-01-02T03:04:05Z</timestamp>"   \
    "<contributor><username>U</username><id>999</id></contributor><model>wikitext</model>"         \
    "<format>text/x-wiki</format>" text "<sha1>x</sha1></revision>\n"
#define PAGE(title, revisions)                                                                     \
    "<page><title>" title "</title><ns>0</ns><id>7</id>" revisions "</page>\n"

static const char whole[] = HEAD
    "<siteinfo><sitename>S</sitename><namespaces><namespace "
    "key=\"0\"/></namespaces></siteinfo>\n" PAGE(
        "A &amp; B", REVISION("5", "<text bytes=\"9\" xml:space=\"preserve\">a &lt;b&gt; c</text>")
                         REVISION("6", "<text bytes=\"0\" />"))
        PAGE("\xc3\x84", REVISION("8", "<text deleted=\"deleted\" />")
                             REVISION("9", "<text bytes=\"77\" id=\"3\" />")) "</mediawiki>\n";
static const char whole_says[] = "A & B/5@1577934245000000000 wikitext [a <b> c]\n"
                                 "A & B/6@1577934245000000000 wikitext []\n"
                                 "\xc3\x84/8@1577934245000000000 wikitext no text\n"
                                 "\xc3\x84/9@1577934245000000000 wikitext no text\n";

static err write_down(void *ctx, const struct dump_revision *r, struct err_note *note)
{
    (void)note;
    struct buf *b = ctx;
    buf_printf(b, "%.*s/%llu@%lld %.*s ", STR_ARG(r->title), (unsigned long long)r->id,
               (long long)r->time_ns, STR_ARG(r->model));
    if (r->unfit != NULL)
        buf_printf(b, "unfit: %s\n", r->unfit);
    else if (r->no_text)
        buf_put(b, STR("no text\n"));
    else if (r->too_large)
        buf_put(b, STR("too large\n"));
    else
        buf_printf(b, "[%.*s]\n", STR_ARG(r->text));
    return ERR_OK;
}

/* Feeds in pieces; gives what was written down, or the note. */
static err feed(str xml, size_t piece, struct buf *said, struct err_note *note)
{
    buf_init(said, 1 << 20);
    struct dump *d = dump_new(&(struct dump_opts){ .revision = write_down, .ctx = said });
    err e = ERR_OK;
    while (e == ERR_OK && xml.n > 0) {
        e = dump_feed(d, str_take(xml, piece), false, note);
        xml = str_skip(xml, piece);
    }
    if (e == ERR_OK)
        e = dump_feed(d, STR(""), true, note);
    dump_free(&d);
    return e;
}

static void revisions_come_out_whatever_the_pieces(void **state)
{
    (void)state;
    static const size_t pieces[] = { 1, 7, 64, sizeof whole };
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        struct buf said;
        struct err_note note;
        assert_int_equal(feed(str_of(whole), pieces[i], &said, &note), ERR_OK);
        assert_int_equal(said.n, strlen(whole_says));
        assert_memory_equal(said.p, whole_says, said.n);
        buf_fini(&said);
    }
}

static void every_cut_is_an_error(void **state)
{
    (void)state;
    for (size_t n = 0; n < sizeof whole - 2; n++) {
        struct buf said;
        struct err_note note = { .text = "" };
        assert_int_equal(feed((str){ .p = whole, .n = n }, 4096, &said, &note), ERR_BAD);
        assert_non_null(strstr(note.text, "line "));
        assert_true(said.n <= strlen(whole_says));
        assert_memory_equal(said.p != NULL ? said.p : "", whole_says, said.n);
        buf_fini(&said);
    }
}

static void what_is_wrong_is_refused_with_its_line(void **state)
{
    (void)state;
    static const struct {
        const char *xml, *says;
    } wrong[] = {
        { "", "line 1" },
        { "no xml", "line 1" },
        { "\n\n<html></html>", "line 3: this is no MediaWiki export" },
        { "<!DOCTYPE m [<!ENTITY a \"aaaa\"><!ENTITY b \"&a;&a;\">]>" HEAD "</mediawiki>",
          "document type" },
        { HEAD PAGE("T", REVISION("5", "<text>&bomb;</text>")) "</mediawiki>", "undefined entity" },
        { HEAD "\n\n<page></oops>", "line 4" },
        { HEAD "</mediawiki>\n<more/>", "line 3" },
        { HEAD PAGE("T", REVISION("5", "<text>\xff</text>")) "</mediawiki>", "line 2" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct buf said;
        struct err_note note = { .text = "" };
        err e = feed(str_of(wrong[i].xml), 4096, &said, &note);
        if (e != ERR_BAD || strstr(note.text, wrong[i].says) == NULL)
            fail_msg("case %zu: %s, \"%s\"", i, err_name(e), note.text);
        buf_fini(&said);
    }
}

/* Each is followed by a revision that is right. */
static void a_wrong_field_leaves_out_its_revision_alone(void **state)
{
    (void)state;
#define NEXT REVISION("6", "<text>b</text>") "</page></mediawiki>"
#define LONG "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
#define LONGER LONG LONG LONG LONG LONG
    static const struct {
        const char *xml, *says;
    } wrong[] = {
        { HEAD "<page>" REVISION("5", "<text/>") "<title>T</title>" NEXT, "no title before it" },
        { HEAD "<page><title>T</title>" REVISION("0", "<text/>") NEXT, "no proper id" },
        { HEAD "<page><title>T</title>" REVISION("-5", "<text/>") NEXT, "no proper id" },
        { HEAD "<page><title>T</title>" REVISION("9223372036854775808", "<text/>") NEXT,
          "no proper id" },
        { HEAD "<page><title>T</title>" REVISION(LONGER, "<text/>") NEXT, "no proper id" },
        { HEAD "<page><title>T</title><revision><timestamp>2020-01-02T03:04:05Z</timestamp></"
               "revision>" NEXT,
          "no proper id" },
        { HEAD "<page><title>T</title><revision><id>5</id><timestamp>soon</timestamp><text/></"
               "revision>" NEXT,
          "no proper timestamp" },
        { HEAD "<page><title>T</title><revision><id>5</id><timestamp>9999-99-99T99:99:99Z</"
               "timestamp></revision>" NEXT,
          "no proper timestamp" },
        { HEAD "<page><title>T</title><revision><id>5</id><timestamp>" LONGER
               "</timestamp></revision>" NEXT,
          "no proper timestamp" },
        { HEAD "<page><title>T</title><revision><id>5</id><timestamp>2020-01-02T03:04:05Z</"
               "timestamp><model>" LONGER "</model></revision>" NEXT,
          "model or format is too long" },
        { HEAD "<page><title>" LONGER LONGER LONGER LONGER
               "</title>" REVISION("5", "<text/>") "</page><page><title>T</title>" NEXT,
          "the title of its page is too long" },
        { HEAD "<page><title>T</title><ns>main</ns><revision><id></id></revision>" NEXT,
          "no proper id" },
    };
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        struct buf said;
        struct err_note note = { .text = "" };
        err e = feed(str_of(wrong[i].xml), 64, &said, &note);
        buf_put_c(&said, '\0');
        const char *unfit = strstr(said.p, wrong[i].says);
        const char *next = strstr(said.p, "T/6@1577934245000000000 wikitext [b]\n");
        if (e != ERR_OK || unfit == NULL || next == NULL)
            fail_msg("case %zu: %s, \"%s\", said %s", i, err_name(e), note.text, said.p);
        buf_fini(&said);
    }
}

static void depth_and_tokens_are_limited(void **state)
{
    (void)state;
    struct buf xml, said;
    struct err_note note;
    buf_init(&xml, 8 << 20);
    buf_put(&xml, STR(HEAD));
    for (unsigned i = 0; i < 2 * DUMP_DEPTH_MAX; i++)
        buf_put(&xml, STR("<a>"));
    assert_int_equal(feed(buf_str(&xml), 4096, &said, &note), ERR_LIMIT);
    assert_non_null(strstr(note.text, "too deep"));
    buf_fini(&said);
    buf_clear(&xml);
    buf_put(&xml, STR("<mediawiki a=\""));
    for (unsigned i = 0; i < 3 * DUMP_TOKEN_BYTES_MAX / 16; i++)
        buf_put(&xml, STR("aaaaaaaaaaaaaaaa"));
    assert_int_equal(feed(buf_str(&xml), 65536, &said, &note), ERR_LIMIT);
    buf_fini(&said);
    buf_fini(&xml);
}

static void a_text_over_the_limit_is_told_and_the_next_is_whole(void **state)
{
    (void)state;
    struct buf xml, said;
    struct err_note note;
    buf_init(&xml, 16 << 20);
    buf_put(
        &xml,
        STR(HEAD
            "<page><title>T</title><revision><id>5</id><timestamp>2020-01-02T03:04:05Z</timestamp>"
            "<text>"));
    for (unsigned i = 0; i < DUMP_TEXT_BYTES_MAX / 16 + 1; i++)
        buf_put(&xml, STR("aaaaaaaaaaaaaaaa"));
    buf_put(&xml, STR("</text></revision>" REVISION("6", "<text>b</text>") "</page></mediawiki>"));
    assert_int_equal(buf_status(&xml), ERR_OK);
    assert_int_equal(feed(buf_str(&xml), 65536, &said, &note), ERR_OK);
    buf_put_c(&said, '\0');
    assert_string_equal(
        said.p, "T/5@1577934245000000000  too large\nT/6@1577934245000000000 wikitext [b]\n");
    buf_fini(&said);
    buf_fini(&xml);
}

static err refuse(void *ctx, const struct dump_revision *r, struct err_note *note)
{
    unsigned *calls = ctx;
    (void)r;
    ++*calls;
    err_note_set(note, "the caller has had enough");
    return ERR_UNAVAILABLE;
}

static void the_callers_error_ends_it(void **state)
{
    (void)state;
    unsigned calls = 0;
    struct err_note note;
    struct dump *d = dump_new(&(struct dump_opts){ .revision = refuse, .ctx = &calls });
    assert_int_equal(dump_feed(d, str_of(whole), true, &note), ERR_UNAVAILABLE);
    assert_int_equal(calls, 1);
    assert_non_null(strstr(note.text, "had enough"));
    dump_free(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(revisions_come_out_whatever_the_pieces),
        cmocka_unit_test(every_cut_is_an_error),
        cmocka_unit_test(what_is_wrong_is_refused_with_its_line),
        cmocka_unit_test(a_wrong_field_leaves_out_its_revision_alone),
        cmocka_unit_test(depth_and_tokens_are_limited),
        cmocka_unit_test(a_text_over_the_limit_is_told_and_the_next_is_whole),
        cmocka_unit_test(the_callers_error_ends_it),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
