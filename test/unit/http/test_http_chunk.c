/* Goal: chunks are read as RFC 9112 7.1 has them and in no other way, in whatever pieces they come.
 * Method: tables of bodies, each read whole and byte by byte. */
#include "http/chunk.h"

#include "base/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { BODY_BYTES_MAX = 1 << 16 };

struct body {
    char bytes[BODY_BYTES_MAX];
    size_t n;
    size_t rest; /* of what was given, not taken */
};

/* Reads all of in, so many bytes at a time, until something else than more is wanted. */
static enum chunk_got read_all(str in, size_t piece, struct body *out)
{
    struct chunk_reader r = { .at = 0 };
    enum chunk_got got = CHUNK_MORE;
    *out = (struct body){ .n = 0 };
    while (in.n > 0 && got == CHUNK_MORE) {
        str part = str_take(in, piece), data;
        size_t given = part.n;
        while ((got = chunk_next(&r, &part, &data)) == CHUNK_DATA) {
            assert_true(out->n + data.n <= sizeof out->bytes);
            memcpy(out->bytes + out->n, data.p, data.n);
            out->n += data.n;
        }
        in = str_skip(in, given - part.n);
    }
    out->rest = in.n;
    return got;
}

static void reads(str in, enum chunk_got wanted, const char *body, size_t rest)
{
    static const size_t pieces[] = { BODY_BYTES_MAX, 1, 2, 3, 7 };
    static struct body out;
    for (size_t i = 0; i < COUNT_OF(pieces); i++) {
        enum chunk_got got = read_all(in, pieces[i], &out);
        if (got != wanted)
            fail_msg("\"%.*s\" in pieces of %zu: %d", STR_ARG(in), pieces[i], (int)got);
        if (wanted != CHUNK_END)
            continue;
        assert_int_equal(out.n, strlen(body));
        assert_memory_equal(out.bytes, body, out.n);
        assert_int_equal(out.rest, rest);
    }
}

static void whole_bodies_are_read_and_what_is_behind_is_left(void **state)
{
    (void)state;
    reads(STR("0\r\n\r\n"), CHUNK_END, "", 0);
    reads(STR("3\r\nabc\r\n0\r\n\r\nGET"), CHUNK_END, "abc", 3);
    reads(STR("3\r\nabc\r\n2\r\nde\r\n00\r\n\r\n"), CHUNK_END, "abcde", 0);
    reads(STR("A\r\n0123456789\r\n0\r\n\r\n"), CHUNK_END, "0123456789", 0);
    reads(STR("a\r\n0\r\n\r\nGET /\r\n0\r\n\r\nX"), CHUNK_END, "0\r\n\r\nGET /", 1);
    reads(STR("0000000000000001\r\nx\r\n0\r\n\r\n"), CHUNK_END, "x", 0);
    reads(STR("1;a=b;c=\"d\te\"\r\nx\r\n0;last\r\n\r\n"), CHUNK_END, "x", 0);
    reads(STR("1\r\nx\r\n0\r\nA: b\r\nC:\r\n\r\nGET"), CHUNK_END, "x", 3);
    reads(STR("3\r\nab"), CHUNK_MORE, "", 0);
    reads(STR("0\r\n"), CHUNK_MORE, "", 0);
    reads(STR("0\r\nA: b\r\n"), CHUNK_MORE, "", 0);
}

static void other_framing_is_refused(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\r\n",
        "x\r\n",
        "-1\r\nx\r\n",
        "+1\r\nx\r\n",
        " 1\r\nx\r\n",
        "1 \r\nx\r\n",
        "0x1\r\nx\r\n",
        "1\nx\r\n",
        "1\rx\r\n",
        "1\r\rx",
        "1;a\nx\r\n",
        "1;a\rb\r\nx\r\n",
        "1;a\001\r\nx\r\n",
        "1;a\177\r\nx\r\n",
        "1\r\nxy\r\n",
        "1\r\nx\n0\r\n\r\n",
        "1\r\nx\r0\r\n\r\n",
        "1\r\nx0\r\n\r\n",
        "0\r\n\n",
        "0\r\n\r\r",
        "0\r\nA\r\n\r\n",
        "0\r\n A: b\r\n\r\n",
        "0\r\n: b\r\n\r\n",
        "0\r\nA : b\r\n\r\n",
        "0\r\nA\t: b\r\n\r\n",
        "0\r\n\"A\": b\r\n\r\n",
        "0\r\nA\200: b\r\n\r\n",
        "0\r\nGET http://a/ HTTP/1.1\r\n\r\n",
        "0\r\nA: b\n\r\n",
        "0\r\nA: b\001\r\n\r\n",
        ";a\r\n",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        reads(str_of(bad[i]), CHUNK_BAD, "", 0);
}

static bool is_odd(const char *bytes)
{
    struct chunk_reader r = { .at = 0 };
    str in = str_of(bytes), data;
    while (chunk_next(&r, &in, &data) == CHUNK_DATA)
        continue;
    return r.odd;
}

static void extensions_and_trailers_are_noticed(void **state)
{
    (void)state;
    assert_false(is_odd("0\r\n\r\n"));
    assert_false(is_odd("00a\r\n;: b\r\n\r\n;:\r\n0\r\n\r\n"));
    assert_true(is_odd("1;\r\nx\r\n0\r\n\r\n"));
    assert_true(is_odd("1\r\nx\r\n0;a=b\r\n\r\n"));
    assert_true(is_odd("1\r\nx\r\n0\r\nA: b\r\n\r\n"));
}

static void sizes_have_a_limit(void **state)
{
    (void)state;
    reads(STR("7fffffffffffffff\r\n"), CHUNK_MORE, "", 0);
    reads(STR("8000000000000000\r\n"), CHUNK_TOO_LARGE, "", 0);
    reads(STR("ffffffffffffffff\r\n"), CHUNK_TOO_LARGE, "", 0);
    reads(STR("10000000000000000\r\n"), CHUNK_TOO_LARGE, "", 0);
    reads(STR("00000000000000001\r\nx\r\n"), CHUNK_TOO_LARGE, "", 0);
}

/* first, so many bytes of 'a', last. */
static void reads_long(const char *first, size_t n, const char *last, enum chunk_got wanted)
{
    size_t first_n = strlen(first), last_n = strlen(last);
    char *text = malloc(first_n + n + last_n);
    assert_non_null(text);
    memcpy(text, first, first_n);
    memset(text + first_n, 'a', n);
    memcpy(text + first_n + n, last, last_n);
    reads((str){ .p = text, .n = first_n + n + last_n }, wanted, "x", 0);
    free(text);
}

static void extensions_and_trailers_have_a_limit(void **state)
{
    (void)state;
    reads_long("1;", CHUNK_LINE_BYTES_MAX - 4, "\r\nx\r\n0\r\n\r\n", CHUNK_END);
    reads_long("1;", CHUNK_LINE_BYTES_MAX, "\r\nx\r\n0\r\n\r\n", CHUNK_BAD);
    reads_long("1;", CHUNK_LINE_BYTES_MAX, "", CHUNK_BAD); /* no end of it is waited for */
    reads_long("1\r\nx\r\n0\r\nA:", CHUNK_TRAILER_BYTES_MAX - 6, "\r\n\r\n", CHUNK_END);
    reads_long("1\r\nx\r\n0\r\nA:", CHUNK_TRAILER_BYTES_MAX, "", CHUNK_BAD);
}

/* All fields of a trailer section count together. */
static void many_trailers_are_refused(void **state)
{
    (void)state;
    static char text[4 * CHUNK_TRAILER_BYTES_MAX];
    size_t n = 0;
    memcpy(text, "0\r\n", 3);
    for (n = 3; n + 6 < sizeof text; n += 6)
        memcpy(text + n, "A: b\r\n", 6);
    reads((str){ .p = text, .n = n }, CHUNK_BAD, "", 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(whole_bodies_are_read_and_what_is_behind_is_left),
        cmocka_unit_test(other_framing_is_refused),
        cmocka_unit_test(extensions_and_trailers_are_noticed),
        cmocka_unit_test(sizes_have_a_limit),
        cmocka_unit_test(extensions_and_trailers_have_a_limit),
        cmocka_unit_test(many_trailers_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
