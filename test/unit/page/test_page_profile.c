/* profile: which Accept fields stored content satisfies. Method: a table, and every prefix of a
 * long field. */
#include "page/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#define SPEC(name, version) "profile=\"https://www.mediawiki.org/wiki/Specs/" name "/" version "\""
#define HTML(version) "text/html; charset=utf-8; " SPEC("HTML", version)

static const struct {
    const char *accept, *stored;
    enum profile_verdict want;
} rows[] = {
    { "", HTML("2.6.0"), PROFILE_SERVES },
    { "*/*", HTML("2.6.0"), PROFILE_SERVES },
    { HTML("2.4.0"), HTML("2.6.0"), PROFILE_SERVES },
    { HTML("2.6.0"), HTML("2.6.0"), PROFILE_SERVES },
    { HTML("2.6.1"), HTML("2.6.0"), PROFILE_SERVES }, /* the patch number asks for nothing */
    { HTML("2.6.999"), HTML("2.6.0"), PROFILE_SERVES },
    { HTML("2.7.1"), HTML("2.6.0"), PROFILE_NEWER },
    { HTML("1.6.1"), HTML("2.6.0"), PROFILE_OLDER },
    { HTML("2.10.0"), HTML("2.6.0"), PROFILE_NEWER },
    { HTML("2.5.9"), HTML("2.6.0"), PROFILE_SERVES },
    { HTML("3.0.0"), HTML("2.6.0"), PROFILE_NEWER },
    { HTML("1.6.0"), HTML("2.6.0"), PROFILE_OLDER },
    { HTML("1.6.0") ", " HTML("2.0.0") ";q=0.5", HTML("2.6.0"), PROFILE_SERVES },
    { HTML("1.6.0") ", " HTML("2.0.0") ";q=0.0", HTML("2.6.0"), PROFILE_OLDER },
    { HTML("1.6.0") ", " HTML("2.7.0"), HTML("2.6.0"), PROFILE_NEWER },
    { HTML("1.6.0") ", */*;q=0.1", HTML("2.6.0"), PROFILE_SERVES },
    { HTML("1.6.0") ", text/*", HTML("2.6.0"), PROFILE_SERVES },
    { HTML("1.6.0") ", TEXT/HTML", HTML("2.6.0"), PROFILE_SERVES },
    { HTML("1.6.0") ", text/plain, application/*", HTML("2.6.0"), PROFILE_OLDER },
    { HTML("2.4.0"), "text/html", PROFILE_SERVES },
    { "application/json; " SPEC("HTML", "1.8.0"), HTML("2.6.0"), PROFILE_SERVES }, /* of another
    media type */
    { "*/*; " SPEC("HTML", "1.8.0"), HTML("2.6.0"), PROFILE_SERVES },
    { "TEXT/html; " SPEC("HTML", "1.8.0"), HTML("2.6.0"), PROFILE_OLDER },
    { HTML("1.0.0"), "text/html; profile=\"else\"", PROFILE_SERVES },
    { HTML("1.0.0"), "application/json; " SPEC("data-parsoid", "2.6.0"), PROFILE_SERVES },
    { "text/html; profile=\"a,b\"; x=\"\\\"\", " HTML("1.0.0"), HTML("2.6.0"), PROFILE_OLDER },
    { "text/html; profile=nonsense", HTML("2.6.0"), PROFILE_SERVES },
    { "text/html; " SPEC("HTML", "2.6"), HTML("2.6.0"), PROFILE_SERVES },
    { "text/html; " SPEC("HTML", "2.7.0.1"), HTML("2.6.0"), PROFILE_SERVES },
    { ",,;,", HTML("2.6.0"), PROFILE_SERVES },
};

static void accept_is_judged_by_specification_and_version(void **state)
{
    struct arena a;
    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t i = 0; i < COUNT_OF(rows); i++)
        if (profile_judge(&a, str_of(rows[i].accept), str_of(rows[i].stored)) != rows[i].want)
            fail_msg("row %zu: %s", i, rows[i].accept);
    arena_fini(&a);
}

static void a_field_cut_anywhere_is_read_to_its_end(void **state)
{
    struct arena a;
    str accept = STR(HTML("1.6.0") ";q=0.3, \"x\\\"y, text/html;q=0;" SPEC("HTML", "2.6.0"));
    (void)state;
    arena_init(&a, 1 << 20);
    for (size_t n = 0; n <= accept.n; n++) {
        str copy = arena_copy(&a, str_take(accept, n)); /* a block of its own: reading past it is
        seen */
        assert_in_range(profile_judge(&a, copy, STR(HTML("2.6.0"))), PROFILE_SERVES, PROFILE_OLDER);
        arena_reset(&a);
    }
    arena_fini(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(accept_is_judged_by_specification_and_version),
        cmocka_unit_test(a_field_cut_anywhere_is_read_to_its_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
