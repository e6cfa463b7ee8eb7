/* Goal: a body is the same in one piece and in many, as it is stored and decoded.
 * Method: one frame in each coding, cut in every way. */
#include "codec/frame.h"
#include "store/page_store.h"

#include "../cmocka_all.h"

enum { RAW_BYTES = 2000 };

static const struct {
    enum page_codec codec;
    enum frame_coding coding;
} codings[] = { { PAGE_IDENTITY, FRAME_IDENTITY },
                { PAGE_GZIP, FRAME_GZIP },
                { PAGE_ZSTD, FRAME_ZSTD } };

static str text_make(struct arena *a)
{
    char *text = arena_alloc(a, RAW_BYTES);
    assert_non_null(text);
    for (unsigned i = 0; i < RAW_BYTES; i++)
        text[i] = (char)('a' + i * i % 26);
    return (str){ .p = text, .n = RAW_BYTES };
}

static void pieces_are_one_body(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 4 << 20);
    struct frame_codec *f = frame_codec_new();
    str text = text_make(&a);
    for (unsigned i = 0; i < COUNT_OF(codings); i++) {
        str frame, raw;
        assert_int_equal(frame_compress(f, codings[i].coding, text, &a, &frame), ERR_OK);
        for (size_t cut = 0; cut <= frame.n; cut += frame.n / 4) {
            const str pieces[] = { str_take(frame, cut), STR(""), str_skip(frame, cut) };
            const struct page_body b = { .codec = codings[i].codec,
                                         .raw_bytes = RAW_BYTES,
                                         .pieces = pieces,
                                         .pieces_count = COUNT_OF(pieces) };
            assert_true(str_eq(page_body_whole(&b, &a), frame));
            assert_int_equal(page_body_raw(&b, &a, &raw), ERR_OK);
            assert_true(str_eq(raw, text));
        }
    }
    frame_codec_free(&f);
    arena_fini(&a);
}

static void one_piece_is_not_copied(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    const str piece = STR("as it is");
    const struct page_body b = {
        .codec = PAGE_IDENTITY, .raw_bytes = piece.n, .pieces = &piece, .pieces_count = 1
    };
    str raw;
    assert_ptr_equal(page_body_whole(&b, &a).p, piece.p);
    assert_int_equal(page_body_raw(&b, &a, &raw), ERR_OK);
    assert_ptr_equal(raw.p, piece.p);
    arena_fini(&a);
}

static void what_has_no_room_is_a_limit(void **state)
{
    (void)state;
    struct arena a;
    static char many[5000];
    arena_init(&a, 4096);
    const str pieces[] = { { many, sizeof many }, { many, sizeof many } };
    const struct page_body b = {
        .codec = PAGE_IDENTITY, .raw_bytes = 2 * sizeof many, .pieces = pieces, .pieces_count = 2
    };
    str raw;
    assert_null(page_body_whole(&b, &a).p);
    assert_int_equal(page_body_raw(&b, &a, &raw), ERR_LIMIT);
    arena_fini(&a);
}

static void other_bytes_than_said_are_damage(void **state)
{
    (void)state;
    struct arena a;
    arena_init(&a, 1 << 16);
    const str piece = STR("no frame");
    str raw;
    for (unsigned i = 0; i < COUNT_OF(codings); i++) {
        const struct page_body b = {
            .codec = codings[i].codec, .raw_bytes = piece.n + 1, .pieces = &piece, .pieces_count = 1
        };
        assert_int_equal(page_body_raw(&b, &a, &raw), ERR_CORRUPT);
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(pieces_are_one_body),
        cmocka_unit_test(one_piece_is_not_copied),
        cmocka_unit_test(what_has_no_room_is_a_limit),
        cmocka_unit_test(other_bytes_than_said_are_damage),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
