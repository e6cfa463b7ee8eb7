/* Goal: messages between servers have the text that servers of other versions read, and nothing
 * else is taken for one. Method: texts written out. */
#include "codec/told.h"

#include "../cmocka_all.h"

#include <stdio.h>

static const char tid_text[] = "4f533261-e5f8-11f1-bc4a-ad5383df5814";

static void is_text(const struct told *t, const char *text)
{
    struct buf b;
    struct told again;
    buf_init(&b, TOLD_BYTES_MAX);
    told_encode(&b, t);
    assert_true(str_eq(buf_str(&b), str_of(text)));
    assert_true(told_decode(buf_str(&b), &again));
    assert_int_equal(again.kind, t->kind);
    assert_true(str_eq(again.node, t->node));
    assert_true(str_eq(again.bucket, t->bucket));
    assert_true(str_eq(again.domain, t->domain));
    assert_true(str_eq(again.title, t->title));
    switch (t->kind) {
    case TOLD_PURGE:
        assert_int_equal(again.purge.rev, t->purge.rev);
        assert_int_equal(again.purge.has_tid, t->purge.has_tid);
        break;
    case TOLD_MARK:
        assert_int_equal(again.mark.state, t->mark.state);
        assert_int_equal(again.mark.first, t->mark.first);
        assert_int_equal(again.mark.last, t->mark.last);
        assert_int_equal(again.mark.said_at.ns, t->mark.said_at.ns);
        break;
    case TOLD_LOOK:
    case TOLD_WORD:
        assert_int_equal(again.look.newest.at_s, t->look.newest.at_s);
        assert_int_equal(again.look.newest.id, t->look.newest.id);
        assert_int_equal(again.look.has_word, t->look.has_word);
        if (t->look.has_word)
            assert_int_equal(again.look.word, t->look.word);
        assert_int_equal(again.look.rev, t->look.rev);
        assert_int_equal(again.look.touched, t->look.touched);
        break;
    case TOLD_MADE:
        assert_int_equal(again.made.asked, t->made.asked);
        assert_int_equal(again.made.rev, t->made.rev);
        assert_int_equal(tid_cmp(again.made.tid, t->made.tid), 0);
        break;
    case TOLD_NEWEST:
        assert_int_equal(again.newest.at_s, t->newest.at_s);
        assert_int_equal(again.newest.id, t->newest.id);
        break;
    case TOLD_KINDS:
        fail();
    }
    buf_fini(&b);
}

static void a_purge_has_its_text(void **state)
{
    (void)state;
    struct told t = { .kind = TOLD_PURGE,
                      .node = STR("0123"),
                      .bucket = STR("page"),
                      .domain = STR("en.example"),
                      .title = STR("A title  with spaces") };
    is_text(&t, "purge 0123 page en.example 0 - A title  with spaces");
    t.purge.rev = 7;
    is_text(&t, "purge 0123 page en.example 7 - A title  with spaces");
    t.purge.has_tid = true;
    assert_true(tid_parse(str_of(tid_text), &t.purge.tid));
    is_text(&t, "purge 0123 page en.example 7 4f533261-e5f8-11f1-bc4a-ad5383df5814 A title  with "
                "spaces");
}

static void a_mark_has_its_text(void **state)
{
    (void)state;
    static const char *const names[TOLD_STATES] = { "current", "deleted", "suppressed" };
    for (unsigned i = 0; i < TOLD_STATES; i++) {
        char text[TOLD_BYTES_MAX];
        (void)snprintf(text, sizeof text, "mark n page d %s 1 9223372036854775807 -5 T", names[i]);
        is_text(&(struct told){ .kind = TOLD_MARK,
                                .node = STR("n"),
                                .bucket = STR("page"),
                                .domain = STR("d"),
                                .title = STR("T"),
                                .mark = { .state = (enum told_state)i,
                                          .first = 1,
                                          .last = INT64_MAX,
                                          .said_at = { .ns = -5 } } },
                text);
    }
}

static void a_look_has_its_text(void **state)
{
    (void)state;
    struct told t = { .kind = TOLD_LOOK,
                      .node = STR("n"),
                      .bucket = STR("page"),
                      .domain = STR("d"),
                      .title = STR("A title") };
    is_text(&t, "look n page d - 0 0 A title");
    t.look.has_word = true;
    t.look.word = UINT64_MAX;
    t.look.rev = INT64_MAX;
    t.look.touched = 1800000000;
    is_text(&t, "look n page d 18446744073709551615 9223372036854775807 1800000000 A title");
}

static void a_word_has_its_text(void **state)
{
    (void)state;
    const struct told t = { .kind = TOLD_WORD,
                            .node = STR("n"),
                            .bucket = STR("page"),
                            .domain = STR("d"),
                            .title = STR("A title"),
                            .look = { .has_word = true,
                                      .word = 5,
                                      .rev = 7,
                                      .touched = 1795698456,
                                      .newest = { .at_s = 1795698457, .id = 42 } } };
    is_text(&t, "word n page d 5 7 1795698456 1795698457 42 A title");
}

static void a_made_render_has_its_text(void **state)
{
    (void)state;
    struct told t = { .kind = TOLD_MADE,
                      .node = STR("n"),
                      .bucket = STR("mobile"),
                      .domain = STR("d"),
                      .title = STR("A title"),
                      .made = { .rev = 7 } };
    assert_true(tid_parse(str_of(tid_text), &t.made.tid));
    is_text(&t, "made n mobile d 0 7 4f533261-e5f8-11f1-bc4a-ad5383df5814 A title");
    t.made.asked = 7;
    is_text(&t, "made n mobile d 7 7 4f533261-e5f8-11f1-bc4a-ad5383df5814 A title");
}

static void the_newest_change_has_its_text(void **state)
{
    (void)state;
    const struct told t = { .kind = TOLD_NEWEST,
                            .node = STR("n"),
                            .bucket = STR("page"),
                            .domain = STR("d"),
                            .title = STR(TOLD_NO_TITLE),
                            .newest = { .at_s = 1795698457, .id = 42 } };
    is_text(&t, "newest n page d 1795698457 42 -");
}

static void what_is_none_is_passed_over(void **state)
{
    (void)state;
    static const char *const texts[] = {
        "",
        "purge",
        "hail n page d 0 - T",
        "purge n page d 0 -",
        "purge n page d 0 - ",
        "purge n  d 0 - T",
        "purge n page d x - T",
        "purge n page d -1 - T",
        "purge n page d 9223372036854775808 - T",
        "purge n page d 7 nonsense T",
        "purge n page d 0 4f533261-e5f8-11f1-bc4a-ad5383df5814 T", /* a tid of every revision */
        "mark n page d held 1 2 3 T",
        "mark n page d current 2 1 3 T", /* the last before the first */
        "mark n page d current 1 2 x T",
        "mark n page d current 1 2 3",
        "mark n page d current 1 9223372036854775808 3 T",
        "look n page d 0 0 T",
        "look n page d x 0 0 T",
        "look n page d -1 0 0 T",
        "look n page d 18446744073709551616 0 0 T",
        "look n page d - 9223372036854775808 0 T",
        "look n page d - 0 -1 T",
        "look n page d - 0 9223372036854775808 T",
        "look n page d - 0 9214646400 T", /* later than any instant */
        "look n page d - 0 0",
        "word n page d - 0 0 1 7 T", /* nobody said it */
        "word n page d 5 7 9 1 0 T",
        "word n page d 5 7 9 0 7 T",
        "word n page d 5 7 9 1 7",
        "newest n page d 0 7 -",
        "newest n page d -1 7 -",
        "newest n page d 9214646400 7 -",
        "newest n page d 1 0 -",
        "newest n page d 1 9223372036854775808 -",
        "newest n page d 1 7",
        "made n page d 0 7 T",
        "made n page d 0 7 - T",
        "made n page d 0 0 4f533261-e5f8-11f1-bc4a-ad5383df5814 T",
        "made n page d 6 7 4f533261-e5f8-11f1-bc4a-ad5383df5814 T", /* another than was asked for */
        "made n page d 0 9223372036854775808 4f533261-e5f8-11f1-bc4a-ad5383df5814 T",
        "made n page d 0 7 4f533261-e5f8-11f1-bc4a-ad5383df5814",
    };
    for (size_t i = 0; i < COUNT_OF(texts); i++) {
        struct told t;
        assert_false(told_decode(str_of(texts[i]), &t));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_purge_has_its_text),
        cmocka_unit_test(a_mark_has_its_text),
        cmocka_unit_test(a_look_has_its_text),
        cmocka_unit_test(a_word_has_its_text),
        cmocka_unit_test(a_made_render_has_its_text),
        cmocka_unit_test(the_newest_change_has_its_text),
        cmocka_unit_test(what_is_none_is_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
