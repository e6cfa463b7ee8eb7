/* Goal: a content is sent as it is stored to who likes that as much as identity, and decoded to the
 * others (RFC 9110 12.5.3). Method: tables. */
#include "page/coding.h"

#include "../cmocka_all.h"

static void the_stored_coding_is_sent_to_who_likes_it(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        enum page_codec stored;
        bool fine;
        enum http_coding coding;
    } cases[] = {
        { "", PAGE_IDENTITY, true, CODING_IDENTITY },
        { "", PAGE_GZIP, true, CODING_IDENTITY },
        { "gzip", PAGE_IDENTITY, true, CODING_IDENTITY },
        { "gzip", PAGE_GZIP, true, CODING_GZIP },
        { "gzip", PAGE_ZSTD, true, CODING_IDENTITY },
        { "gzip, zstd", PAGE_ZSTD, true, CODING_ZSTD },
        { "gzip;q=0.5, identity", PAGE_GZIP, true, CODING_IDENTITY },
        { "gzip;q=0", PAGE_GZIP, true, CODING_IDENTITY },
        { "gzip, identity;q=0", PAGE_GZIP, true, CODING_GZIP },
        { "gzip, identity;q=0", PAGE_ZSTD, false, CODING_IDENTITY },
        { "identity;q=0", PAGE_IDENTITY, false, CODING_IDENTITY },
        { "*;q=0", PAGE_GZIP, false, CODING_IDENTITY },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        enum http_coding coding = CODINGS;
        assert_int_equal(page_coding_choose(str_of(cases[i].accept), cases[i].stored, &coding),
                         cases[i].fine);
        assert_int_equal(coding, cases[i].coding);
    }
}

static void clients_of_one_variant_are_answered_alike(void **state)
{
    (void)state;
    static const struct {
        const char *accept;
        int variant;
    } cases[] = {
        { "", 0 },
        { "br", 0 },
        { "gzip", BIT(CODING_GZIP) },
        { "zstd", BIT(CODING_ZSTD) },
        { "zstd, gzip", BIT(CODING_GZIP) | BIT(CODING_ZSTD) },
        { "gzip;q=0.1, identity;q=0.5", 0 },
        { "gzip, identity;q=0", -1 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        assert_int_equal(page_coding_variant(str_of(cases[i].accept)), cases[i].variant);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_stored_coding_is_sent_to_who_likes_it),
        cmocka_unit_test(clients_of_one_variant_are_answered_alike),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
