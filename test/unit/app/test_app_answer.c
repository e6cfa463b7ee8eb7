/* answer: which fields an answer carries. Method: answers under construction, never sent. */
#include "app/answer.h"
#include "lib/memory.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

static str policy_for(const char *type, const char *domain)
{
    static struct answer w;
    w = (struct answer){ .status = 200 };
    answer_add_security(&w, &memory, str_of(type), str_of(domain));
    for (unsigned i = 0; i < w.count; i++)
        if (str_eq(w.headers[i].name, STR("content-security-policy")))
            return w.headers[i].value;
    return STR_NONE;
}

static void documents_may_use_styles_of_their_wiki_and_all_else_nothing(void **state)
{
    (void)state;
    assert_true(str_eq(policy_for("application/json", "en.example.test"),
                       STR("default-src 'none'; frame-ancestors 'none'")));
    str html = policy_for("Text/HTML; charset=utf-8", "en.example.test");
    assert_true(
        str_find_str(
            html, STR("style-src http://*.example.test https://*.example.test 'unsafe-inline'")) <
        html.n);
    assert_true(str_starts(html, STR("default-src 'none';")));
    str local = policy_for("image/svg+xml", "localhost");
    assert_true(str_find_str(local, STR("http://localhost https://localhost")) < local.n);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(documents_may_use_styles_of_their_wiki_and_all_else_nothing,
                                        memory_setup, memory_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
