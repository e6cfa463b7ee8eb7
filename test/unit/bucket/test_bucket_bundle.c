/* Goal: frames unpack to what went in, digests tell bundles apart exactly as bundle.h says. Method:
 * tables. */
#include "base/buf.h"
#include "bucket/page_write.h"
#include "store/bundle.h"
#include "sync.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void collect(void *ctx, str bytes)
{
    buf_put(ctx, bytes);
}

static void plain_leaves_out_about_and_time_uuid(void **state)
{
    (void)state; /* unused */
    static const struct {
        const char *html, *plain;
    } rows[] = {
        { "<p about=\"#mwt1\">x</p>", "<p>x</p>" },
        { "<p about='#mwt1' id=\"a\">x</p>", "<p id=\"a\">x</p>" },
        { "<p\n about = \"1\" >x</p>", "<p\n >x</p>" },
        { "<p data-about=\"1\">x</p>", "<p data-about=\"1\">x</p>" },
        { "<p title=' about=\"1\"'>x</p>", "<p title=' about=\"1\"'>x</p>" },
        { "about=\"1\" text about=\"2\"", "about=\"1\" text about=\"2\"" },
        { "<p about=1>x</p>", "<p about=1>x</p>" },
        { "<p about=\"1>x</p>", "<p about=\"1>x</p>" },
        { "<!-- <p about=\"1\"> --><b about=\"2\">", "<!-- <p about=\"1\"> --><b>" },
        { "<!-- <p about=\"1\">", "<!-- <p about=\"1\">" },
        { "<head><meta property=\"mw:TimeUuid\" content=\"x\"/><meta a=\"b\"></head>",
          "<head><meta a=\"b\"></head>" },
        { "<META property='mw:TimeUuid' content='x'>", "" },
        { "<metal mw:TimeUuid>", "<metal mw:TimeUuid>" },
        { "<p about=\"a>b\"><", "<p><" },
        { "<a/about=\"1\" about=\"2\"/>", "<a/about=\"1\"/>" },
        { "", "" },
        { "<", "<" },
        { "<p", "<p" },
        { "<p about", "<p about" },
        { "<p =\"x\">", "<p =\"x\">" },
        { "</p about=\"1\">", "</p about=\"1\">" },
    };
    for (unsigned i = 0; i < COUNT_OF(rows); i++) {
        struct buf b;
        buf_init(&b, 4096);
        bundle_plain(str_of(rows[i].html), collect, &b);
        buf_put_c(&b, 0);
        assert_int_equal(buf_status(&b), ERR_OK);
        assert_string_equal(buf_str(&b).p, rows[i].plain);
        buf_fini(&b);
    }
}

static bool plain_equal(const char *type_a, const char *a, const char *type_b, const char *b)
{
    unsigned char da[PAGE_DIGEST_BYTES], db[PAGE_DIGEST_BYTES];
    struct page_put_content ca = { .name = STR("html"),
                                   .headers = str_of(type_a),
                                   .raw = str_of(a) };
    struct page_put_content cb = { .name = STR("html"),
                                   .headers = str_of(type_b),
                                   .raw = str_of(b) };
    unsigned char ignored[PAGE_DIGEST_BYTES];
    bundle_digests(&ca, 1, ignored, da);
    bundle_digests(&cb, 1, ignored, db);
    return memcmp(da, db, sizeof(da)) == 0;
}

static void plain_digest_looks_at_html_only(void **state)
{
    (void)state; /* unused */
    static const char html[] = "Content-Type: text/html; charset=utf-8\n",
                      json[] = "content-type: application/json\n";
    assert_true(plain_equal(html, "<p about=\"1\">", html, "<p about=\"2\">"));
    assert_true(plain_equal("", "<p about=\"1\">", "", "<p about=\"2\">"));
    assert_true(plain_equal("x: y\n", "<p about=\"1\">", "x: y\n", "<p about=\"2\">"));
    assert_false(plain_equal("x: y\n", "<p>", "x: z\n", "<p>"));
    assert_false(plain_equal("x: y\n", "<p>", "", "<p>"));
    assert_false(plain_equal(html, "<p>", "content-type: text/html\n", "<p>"));
    assert_false(plain_equal(json, "<p about=\"1\">", json, "<p about=\"2\">"));
    assert_false(plain_equal(html, "<p about=\"1\">x", html, "<p about=\"1\">y"));
}

static void digest_is_of_everything_in_any_order(void **state)
{
    (void)state; /* unused */
    const struct page_put_content a[] = {
        { .name = STR("html"), .headers = STR("h: 1\n"), .raw = STR("x") },
        { .name = STR("data"), .headers = STR(""), .raw = STR("y") }
    };
    const struct page_put_content b[] = { a[1], a[0] };
    struct page_put_content c[] = { a[0], a[1] };
    unsigned char da[PAGE_DIGEST_BYTES], db[PAGE_DIGEST_BYTES], ignored[PAGE_DIGEST_BYTES];
    bundle_digests(a, 2, da, ignored);
    bundle_digests(b, 2, db, ignored);
    assert_memory_equal(da, db, sizeof(da));
    str *const parts[] = { &c[0].name, &c[0].headers, &c[0].raw, &c[1].raw };
    for (unsigned i = 0; i < COUNT_OF(parts); i++) {
        str was = *parts[i];
        *parts[i] = STR("changed");
        bundle_digests(c, 2, db, ignored);
        assert_memory_not_equal(da, db, sizeof(da));
        *parts[i] = was;
    }
    bundle_digests(a, 1, db, ignored);
    assert_memory_not_equal(da, db, sizeof(da));
}

static void digest_is_of_what_is_not_plain_too(void **state)
{
    (void)state; /* unused */
    static const char *const same_plain[] = {
        "<p about=\"1\"><p>",
        "<p about=\"2\"><p>",
        "<p><p about=\"1\">",
        "<p><p>",
        "<p about='1'><p>",
        "<p><p about=\"1\" about=\"1\">",
        "<p><p><meta content=mw:TimeUuid>",
        "<meta content=mw:TimeUuid><p><p>",
    };
    unsigned char digests[COUNT_OF(same_plain)][PAGE_DIGEST_BYTES],
        plain[COUNT_OF(same_plain)][PAGE_DIGEST_BYTES];
    for (unsigned i = 0; i < COUNT_OF(same_plain); i++) {
        struct page_put_content c = { .name = STR("html"), .raw = str_of(same_plain[i]) };
        bundle_digests(&c, 1, digests[i], plain[i]);
        assert_memory_equal(plain[i], plain[0], PAGE_DIGEST_BYTES);
        for (unsigned k = 0; k < i; k++)
            assert_memory_not_equal(digests[i], digests[k], PAGE_DIGEST_BYTES);
    }
}

/* In the coding that the bucket stores: but for the time in its head it lies there as it came. */
static void a_frame_of_the_buckets_coding_is_stored_as_it_came(void **state)
{
    (void)state; /* unused */
    static char text[5000];
    struct arena a;
    struct page_render row;
    str blob, frames[PAGE_ZSTD + 1], raw;
    memset(text, 'y', sizeof(text));
    arena_init(&a, 1u << 20);
    struct bundle_way way = { .frames = frame_codec_new() };
    const str all = { text, sizeof text };
    assert_int_equal(frame_compress(way.frames, FRAME_GZIP, all, &a, &frames[PAGE_GZIP]), ERR_OK);
    assert_int_equal(frame_compress(way.frames, FRAME_ZSTD, all, &a, &frames[PAGE_ZSTD]), ERR_OK);
    char *gzip = (char *)(uintptr_t)frames[PAGE_GZIP].p;
    gzip[8] = 7; /* XFL, which nobody reads: so it is known again */
    memset(gzip + 4, 'T', 4);
    for (int sent = PAGE_GZIP; sent <= PAGE_ZSTD; sent++)
        for (int codec = PAGE_IDENTITY; codec <= PAGE_ZSTD; codec++) {
            const struct page_put_content in = { .name = STR("a"),
                                                 .headers = STR("h: 1\n"),
                                                 .raw = all,
                                                 .packed = frames[sent],
                                                 .packed_codec = (enum page_codec)sent };
            way.codec = (enum page_codec)codec;
            assert_int_equal(bundle_build(&way, &in, 1, &a, &row, &blob), ERR_OK);
            const struct page_content *c = &row.contents[0];
            str frame = { blob.p + c->offset + c->headers_bytes, c->stored_bytes };
            assert_int_equal(frame_raw(c, frame, &a, &raw), ERR_OK);
            assert_true(str_eq(raw, in.raw));
            assert_int_equal(c->codec, codec);
            if (codec == PAGE_GZIP) {
                assert_int_equal(frame.p[8] == 7, sent == PAGE_GZIP);
                assert_memory_equal(frame.p + 4, "\0\0\0\0", 4);
            }
        }
    frame_codec_free(&way.frames);
    arena_fini(&a);
}

static void frames_unpack_to_what_went_in(void **state)
{
    (void)state; /* unused */
    static char text[5000];
    struct arena a;
    struct page_render row;
    str blob, raw;
    memset(text, 'x', sizeof(text));
    arena_init(&a, 1u << 20);
    struct bundle_way way = { .frames = frame_codec_new() };
    for (int codec = PAGE_IDENTITY; codec <= PAGE_ZSTD; codec++) {
        const struct page_put_content in[] = {
            { .name = STR("a"), .headers = STR("h: 1\n"), .raw = { text, sizeof(text) } },
            { .name = STR("b"), .headers = STR(""), .raw = STR("short") },
            { .name = STR("c"), .headers = STR("i: 2\n") },
        };
        way.codec = (enum page_codec)codec;
        assert_int_equal(bundle_build(&way, in, 3, &a, &row, &blob), ERR_OK);
        for (unsigned i = 0; i < 3; i++) {
            const struct page_content *c = &row.contents[i];
            str frame = { blob.p + c->offset + c->headers_bytes, c->stored_bytes };
            assert_int_equal(frame_raw(c, frame, &a, &raw), ERR_OK);
            assert_true(str_eq(raw, in[i].raw));
        }
        assert_int_equal(row.contents[0].codec, codec);
        assert_int_equal(row.contents[1].codec, PAGE_IDENTITY);
        if (codec == PAGE_IDENTITY)
            continue;
        assert_true(row.contents[0].stored_bytes < 200);
        struct page_content cut = row.contents[0];
        cut.stored_bytes--;
        assert_int_equal(frame_raw(&cut, (str){ blob.p + 5, cut.stored_bytes }, &a, &raw),
                         ERR_CORRUPT);
        cut = row.contents[0];
        cut.raw_bytes--;
        assert_int_equal(frame_raw(&cut, (str){ blob.p + 5, cut.stored_bytes }, &a, &raw),
                         ERR_CORRUPT);
    }
    frame_codec_free(&way.frames);
    arena_fini(&a);
    arena_init(&a, 100);
    const struct page_put_content big = { .name = STR("a"),
                                          .headers = STR(""),
                                          .raw = { text, sizeof(text) } };
    way.codec = PAGE_GZIP;
    assert_int_equal(bundle_build(&way, &big, 1, &a, &row, &blob), ERR_LIMIT);
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_leaves_out_about_and_time_uuid),
        cmocka_unit_test(plain_digest_looks_at_html_only),
        cmocka_unit_test(digest_is_of_everything_in_any_order),
        cmocka_unit_test(digest_is_of_what_is_not_plain_too),
        cmocka_unit_test(a_frame_of_the_buckets_coding_is_stored_as_it_came),
        cmocka_unit_test(frames_unpack_to_what_went_in),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
