/* Goal: tokens and routing keys are Cassandra's. Method: keys of 0 to 64 bytes with the tokens that
 * python3-cassandra gives them (golden_ring.txt), keys of the table of pages, and routing keys byte
 * by byte. */
#include "cql/ring.h"

#include "../cmocka_all.h"
#include "ring_golden.h"

#include <string.h>

enum { KEY_BYTES_MAX = 128, GOLDEN_TOKENS_MIN = 90 };
static const char *golden_path;

static str key_of_hex(str hex, char out[KEY_BYTES_MAX])
{
    if (str_eq(hex, STR("-")))
        return STR_NONE;
    assert_true(hex.n / 2 <= KEY_BYTES_MAX);
    for (size_t i = 0; i < hex.n / 2; i++)
        out[i] = (char)(str_hex_digit(hex.p[2 * i]) * 16 + str_hex_digit(hex.p[2 * i + 1]));
    return (str){ out, hex.n / 2 };
}

static void a_token_is_that_of_another_driver(void **state)
{
    (void)state;
    unsigned checked = 0;
    bool mapped = false;
    str text = golden_text(golden_path);
    for (str line; golden_line(&text, &line);) {
        if (!str_eq(golden_word(&line), STR("token")))
            continue;
        char bytes[KEY_BYTES_MAX];
        str hex = golden_word(&line);
        int64_t want = golden_number(golden_word(&line));
        int64_t got = cql_token(key_of_hex(hex, bytes));
        if (got != want)
            print_message("key %.*s\n", STR_ARG(hex));
        assert_int_equal(got, want);
        mapped = mapped || want == INT64_MAX;
        checked++;
    }
    assert_true(checked >= GOLDEN_TOKENS_MIN);
    assert_true(mapped); /* one key hashes to INT64_MIN, which is no token */
}

static int64_t token_of(const str *parts, unsigned count)
{
    struct buf key;
    buf_init(&key, 1 << 20);
    assert_true(cql_routing_key(&key, parts, count));
    assert_int_equal(buf_status(&key), ERR_OK);
    int64_t token = cql_token(buf_str(&key));
    buf_fini(&key);
    return token;
}

static void a_page_has_the_token_of_its_domain_and_title(void **state)
{
    (void)state;
    static const struct {
        str parts[2];
        int64_t token;
    } rows[] = {
        { { STR_INIT("en.wikipedia.org"), STR_INIT("Main_Page") }, -108127438800961586 },
        { { STR_INIT("ja.wikipedia.org"), STR_INIT("東京") }, 6456330689366728276 },
        { { STR_INIT("de.wikipedia.org"), STR_INIT("Käse") }, -5313729400571628226 },
        { { STR_INIT(""), STR_INIT("") }, 9027482631457916009 },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        assert_int_equal(token_of(rows[i].parts, 2), rows[i].token);
    str tokyo = STR("東京");
    assert_int_equal(token_of(&tokyo, 1), -3615026463600883905);
}

static void a_routing_key_has_lengths_and_ends_only_when_composite(void **state)
{
    (void)state;
    struct buf key;
    buf_init(&key, 64);
    str parts[] = { STR("ab"), STR(""), STR("c\0d") };
    assert_true(cql_routing_key(&key, parts, 1));
    assert_true(str_eq(buf_str(&key), STR("ab")));
    buf_clear(&key);
    assert_true(cql_routing_key(&key, parts, 3));
    assert_true(str_eq(buf_str(&key), STR("\0\2ab\0\0\0\0\0\3c\0d\0")));
    buf_fini(&key);
}

static void a_part_that_is_too_long_for_a_key_makes_none(void **state)
{
    (void)state;
    static char bytes[UINT16_MAX + 1];
    struct buf key;
    buf_init(&key, 1 << 20);
    str parts[] = { STR("a"), { bytes, sizeof bytes } };
    assert_false(cql_routing_key(&key, parts, 2));
    assert_false(cql_routing_key(&key, &parts[1], 1));
    assert_int_equal(key.n, 0);
    parts[1].n--;
    assert_true(cql_routing_key(&key, parts, 2));
    assert_int_equal(key.n, 4 + 3 + UINT16_MAX);
    buf_fini(&key);
}

int main(int argc, char **argv)
{
    INVARIANT(argc == 2);
    golden_path = argv[1];
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_token_is_that_of_another_driver),
        cmocka_unit_test(a_page_has_the_token_of_its_domain_and_title),
        cmocka_unit_test(a_routing_key_has_lengths_and_ends_only_when_composite),
        cmocka_unit_test(a_part_that_is_too_long_for_a_key_makes_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
