/* token: listings go on where a token says, forged tokens are refused. Method: round trips and
 * damage. */
#include "app/token.h"
#include "codec/base64.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

static struct arena memory;

static int setup(void **state)
{
    (void)state;
    arena_init(&memory, 1 << 20);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    arena_fini(&memory);
    return 0;
}

static void render_comes_back(void **state)
{
    (void)state;
    struct tid tid = tid_make(0x0123456789abcdeull, 77), got;
    uint64_t rev;
    str token = token_of_render(&memory, INT64_MAX, tid);
    assert_true(token.n > 0);
    assert_true(token_to_render(&memory, token, &rev, &got));
    assert_int_equal(rev, INT64_MAX);
    assert_int_equal(tid_cmp(got, tid), 0);
}

static void title_comes_back(void **state)
{
    (void)state;
    str title;
    for (size_t n = 1; n <= 5; n++) {
        str token = token_of_title(&memory, str_take(STR("\xc3\xa9/? "), n));
        assert_true(token_to_title(&memory, token, &title));
        assert_true(str_eq(title, str_take(STR("\xc3\xa9/? "), n)));
        assert_true(str_find(token, '=') == token.n);
    }
}

static void forged_tokens_are_refused(void **state)
{
    (void)state;
    uint64_t rev;
    struct tid tid;
    str title, good = token_of_render(&memory, 1, tid_make(1, 1));
    assert_false(token_to_title(&memory, good, &title)); /* of another listing */
    assert_false(token_to_render(&memory, STR(""), &rev, &tid));
    assert_false(token_to_render(&memory, STR("!!!!"), &rev, &tid));
    for (size_t n = 0; n < good.n; n++)
        assert_false(token_to_render(&memory, str_take(good, n), &rev, &tid));
    assert_false(token_to_render(&memory, token_of_render(&memory, 0, tid_make(1, 1)), &rev, &tid));
    assert_false(token_to_render(
        &memory, token_of_render(&memory, 1, (struct tid){ .ticks = 1, .low = 5 }), &rev, &tid));
    assert_false(token_to_title(&memory, base64_url(&memory, STR("t")), &title));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(render_comes_back),
        cmocka_unit_test(title_comes_back),
        cmocka_unit_test(forged_tokens_are_refused),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
