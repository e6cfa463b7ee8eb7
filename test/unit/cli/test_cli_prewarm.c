/* Goal: what prewarm and render read of answers is what the server and the wiki said. Method: texts
 * as they come. */
#include "cli/client.h"
#include "cli/prewarm.h"

#include "../cmocka_all.h"

#define TID "9b1deb4d-3b7d-11ee-8bad-9bdd2b0d7b3d"

static void an_entity_tag_names_a_render_or_none(void **state)
{
    (void)state;
    static const struct {
        const char *etag;
        uint64_t rev;
        const char *tid;
    } rows[] = {
        { "\"12/" TID "\"", 12, TID },
        { "W/\"12/" TID "\"", 12, TID },
        { "\"12/" TID "/stash\"", 12, TID },
        { "12/" TID, 12, TID },
        { "\"" TID "\"", 0, "" },
        { "\"x/" TID "\"", 0, "" },
        { "\"12/\"", 0, "" },
        { "\"12\"", 0, "" },
        { "\"", 0, "" },
        { "W/", 0, "" },
        { "", 0, "" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        uint64_t rev = 7;
        str tid = STR("before");
        bool named = client_etag_read(rows[i].etag, &rev, &tid);
        assert_int_equal(named, rows[i].rev > 0);
        assert_int_equal(rev, rows[i].rev);
        assert_true(str_eq(tid, str_of(rows[i].tid)));
    }
}

static void only_a_hit_was_stored(void **state)
{
    (void)state;
    assert_true(client_was_stored("palimpsest; hit"));
    assert_true(client_was_stored("palimpsest;hit; ttl=3"));
    assert_false(client_was_stored("palimpsest; fwd=miss; stored"));
    assert_false(client_was_stored("palimpsest; fwd=request; detail=hit"));
    assert_false(client_was_stored("hit"));
    assert_false(client_was_stored(""));
}

static void a_title_loses_its_namespace_only_when_it_has_one(void **state)
{
    (void)state;
    assert_true(str_eq(prewarm_bare_title(STR("Help:A:b"), 12), STR("A:b")));
    assert_true(str_eq(prewarm_bare_title(STR("A:b"), 0), STR("A:b")));
    assert_true(str_eq(prewarm_bare_title(STR("Talk:"), 1), STR("")));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_entity_tag_names_a_render_or_none),
        cmocka_unit_test(only_a_hit_was_stored),
        cmocka_unit_test(a_title_loses_its_namespace_only_when_it_has_one),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
