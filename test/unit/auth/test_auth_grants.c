/* Goal: scope and bindings both limit a key, and the cache keeps nothing from before a change, nor
 * too much. Method: grants as literals; the cache alone. */
#include "auth/grants.h"

#include "../cmocka_all.h"

#include <stdlib.h>
#include <string.h>

static struct grants *grants_of(const char *scope, unsigned count, const struct grant *of)
{
    struct grants *g = calloc(1, sizeof *g + count * sizeof *of);
    assert_non_null(g);
    assert_true(str_to_cstr(str_of(scope), g->scope, sizeof g->scope));
    g->expires_at = STORE_TIME_NEVER;
    g->count = count;
    memcpy(g->of, of, count * sizeof *of);
    return g;
}

static void scope_and_bindings_both_limit(void **state)
{
    (void)state;
    static const struct grant of[] = { { "en", 1 }, { "de", 2 }, { AUTH_SYSTEM, 4 } };
    static const struct {
        const char *scope, *space;
        uint64_t allowed;
    } cases[] = {
        { "en", "en", 1 | 4 },
        { "en", "de", 0 },
        { "en", AUTH_SYSTEM, 4 },
        { "en", "fr", 0 },
        { "", "en", 1 | 4 },
        { "", "de", 2 | 4 },
        { "", "fr", 4 },
        { "", AUTH_SYSTEM, 4 },
        { "fr", "fr", 4 },
        { AUTH_SYSTEM, "en", 0 },
        { AUTH_SYSTEM, AUTH_SYSTEM, 4 },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct grants *g = grants_of(cases[i].scope, COUNT_OF(of), of);
        for (uint64_t bit = 1; bit <= 8; bit <<= 1)
            assert_int_equal(grants_allow(g, bit, str_of(cases[i].space)),
                             (cases[i].allowed & bit) != 0);
        free(g);
    }
}

static struct secret_hash hash_of(unsigned number)
{
    struct secret_hash h = { .bytes = { 0 } };
    memcpy(h.bytes, &number, sizeof number);
    return h;
}

static void what_was_loaded_before_a_change_is_not_kept(void **state)
{
    (void)state;
    static const struct grant of[] = { { "en", 1 } };
    struct grants_cache *c = grants_cache_new(1);
    struct grants_verdict v;
    struct secret_hash h = hash_of(1);
    uint64_t before = grants_cache_generation(c);
    grants_cache_empty(c); /* a change, while somebody was loading */
    grants_cache_add(c, &h, grants_of("en", 1, of), before);
    assert_int_equal(grants_cache_ask(c, &h, 1, STR("en"), &v), ERR_NOT_FOUND);
    grants_cache_add(c, &h, grants_of("en", 1, of), grants_cache_generation(c));
    assert_int_equal(grants_cache_ask(c, &h, 1, STR("en"), &v), ERR_OK);
    assert_true(v.allowed);
    assert_int_equal(grants_cache_ask(c, &h, 2, STR("en"), &v), ERR_OK);
    assert_false(v.allowed);
    grants_cache_empty(c);
    assert_int_equal(grants_cache_ask(c, &h, 1, STR("en"), &v), ERR_NOT_FOUND);
    grants_cache_free(&c);
    assert_null(c);
}

static void the_cache_has_an_end(void **state)
{
    (void)state;
    static const struct grant of[] = { { "en", 1 } };
    struct grants_cache *c = grants_cache_new(1);
    unsigned kept = 0;
    for (unsigned i = 1; i <= AUTH_CACHE_MAX + 10; i++) {
        struct secret_hash h = hash_of(i);
        grants_cache_add(c, &h, grants_of("en", 1, of), grants_cache_generation(c));
    }
    for (unsigned i = 1; i <= AUTH_CACHE_MAX + 10; i++) {
        struct secret_hash h = hash_of(i);
        struct grants_verdict v;
        kept += grants_cache_ask(c, &h, 1, STR("en"), &v) == ERR_OK;
    }
    assert_in_range(kept, 1, AUTH_CACHE_MAX);
    grants_cache_free(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(scope_and_bindings_both_limit),
        cmocka_unit_test(what_was_loaded_before_a_change_is_not_kept),
        cmocka_unit_test(the_cache_has_an_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
