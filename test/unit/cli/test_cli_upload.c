/* Goal: the body of a bundle is JSON whatever bytes the documents hold. Method: parsed again by
 * jansson. */
#include "cli/upload.h"

#include "../cmocka_all.h"

#include <string.h>

static void a_bundle_is_json_and_holds_the_bytes(void **state)
{
    (void)state;
    static const char odd[] = "\"\\/\b\f\n\r\t\x01\x1f \xc3\xa4 \xf0\x9f\x98\x80 </script>";
    struct upload_item item = {
        .parts = { { .content = "html",
                     .type = "text/html; charset=utf-8",
                     .bytes = STR("<p>\n</p>") },
                   { .content = "sour\"ce", .type = "text/plain", .bytes = str_of(odd) } },
        .parts_count = 2,
    };
    struct buf b;
    buf_init(&b, 65536);
    upload_bundle_json(&item, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    json_t *doc = json_loadb(b.p, b.n, 0, NULL);
    assert_non_null(doc);
    assert_int_equal(json_object_size(doc), 2);
    const json_t *html = json_object_get(doc, "html");
    assert_string_equal(json_string_value(json_object_get(html, "body")), "<p>\n</p>");
    assert_string_equal(json_string_value(
                            json_object_get(json_object_get(html, "headers"), "content-type")),
                        "text/html; charset=utf-8");
    assert_string_equal(
        json_string_value(json_object_get(json_object_get(doc, "sour\"ce"), "body")), odd);
    json_decref(doc);
    buf_fini(&b);
}

static void headers_and_binary_bytes_go_with_a_content(void **state)
{
    (void)state;
    const struct upload_header more[] = { { STR_INIT("x-\"a"), STR_INIT("b\n") },
                                          { STR_INIT("content-language"), STR_INIT("de") } };
    struct upload_item item = {
        .parts = { { .content = "image",
                     .type = "image/png",
                     .bytes = { .p = "\xff\0\xfe", .n = 3 },
                     .binary = true,
                     .more = more,
                     .more_count = 2 } },
        .parts_count = 1,
    };
    struct buf b;
    buf_init(&b, 65536);
    upload_bundle_json(&item, &b);
    assert_int_equal(buf_status(&b), ERR_OK);
    json_t *doc = json_loadb(b.p, b.n, 0, NULL);
    const json_t *image = json_object_get(doc, "image");
    const json_t *headers = json_object_get(image, "headers");
    assert_string_equal(json_string_value(json_object_get(image, "body")), "/wD+");
    assert_string_equal(json_string_value(json_object_get(image, "encoding")), "base64");
    assert_int_equal(json_object_size(headers), 3);
    assert_string_equal(json_string_value(json_object_get(headers, "x-\"a")), "b\n");
    assert_string_equal(json_string_value(json_object_get(headers, "content-language")), "de");
    json_decref(doc);
    buf_fini(&b);
}

static void paths_are_encoded_a_segment_each(void **state)
{
    (void)state;
    struct client c = { .domain = "en.example.test", .bucket = "page" };
    struct buf b;
    buf_init(&b, 4096);
    client_path_render(&c, &b, STR("all"), STR("a/b c\xc3\xa4%?#..~"),
                       (const char *const[]){ "7", NULL });
    buf_put_c(&b, '\0');
    assert_string_equal(b.p, "/en.example.test/v1/page/all/a%2Fb%20c%C3%A4%25%3F%23..~/7");
    buf_fini(&b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_bundle_is_json_and_holds_the_bytes),
        cmocka_unit_test(headers_and_binary_bytes_go_with_a_content),
        cmocka_unit_test(paths_are_encoded_a_segment_each),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
