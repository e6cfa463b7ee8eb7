/* Goal: what engine.h promises, as a list of facts that every engine has to pass.
 * Method: only engine.h; scratch.c makes the engine. Each fact runs twice over its rows where that
 * matters: fresh (overlay) and after engine_flush (index). */
#include "engine/store.h"
#include "scratch.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void expect_row(struct scratch *s, str key, str value, str bytes)
{
    struct scratch_row r;
    assert_int_equal(scratch_get(s, SPACE_ROW, key, &r), ERR_OK);
    assert_int_equal(r.value_n, value.n);
    assert_memory_equal(r.value, value.p, value.n);
    assert_int_equal(r.bytes_n, bytes.n);
    if (bytes.n > 0)
        assert_memory_equal(r.bytes, bytes.p, bytes.n);
    scratch_row_free(&r);
}

static void expect_none(struct scratch *s, str key)
{
    struct scratch_row r;
    assert_int_equal(scratch_get(s, SPACE_ROW, key, &r), ERR_NOT_FOUND);
}

static void row_is_read_back_before_and_after_indexing(void **state)
{
    struct scratch *s = *state;
    char big[20000];
    scratch_bytes(7, big, sizeof(big));
    str bytes = { .p = big, .n = sizeof(big) };
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("a"), STR("va"), bytes), ERR_OK);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("b"), STR("vb"), STR("small")), ERR_OK);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("c"), STR(""), STR_NONE), ERR_OK);
    for (int round = 0; round < 3; round++) {
        expect_row(s, STR("a"), STR("va"), bytes);
        expect_row(s, STR("b"), STR("vb"), STR("small"));
        expect_row(s, STR("c"), STR(""), STR_NONE);
        expect_none(s, STR("d"));
        if (round == 0)
            assert_int_equal(engine_flush(s->engine), ERR_OK);
        if (round == 1) {
            scratch_close(s);
            scratch_open(s);
        }
    }
}

static void spaces_are_apart(void **state)
{
    struct scratch *s = *state;
    struct scratch_row r;
    assert_int_equal(scratch_put(s, SPACE_AUTH, STR("k"), STR("1"), STR_NONE), ERR_OK);
    assert_int_equal(scratch_get(s, SPACE_ROW, STR("k"), &r), ERR_NOT_FOUND);
    assert_int_equal(scratch_get(s, SPACE_AUTH, STR("k"), &r), ERR_OK);
    scratch_row_free(&r);
}

static void replaced_row_has_the_new_contents(void **state)
{
    struct scratch *s = *state;
    char big[5000];
    scratch_bytes(1, big, sizeof(big));
    for (int i = 0; i < 4; i++) {
        str bytes = { .p = big, .n = 4000 + (size_t)i };
        assert_int_equal(scratch_put(s, SPACE_ROW, STR("k"), STR("v"), bytes), ERR_OK);
        expect_row(s, STR("k"), STR("v"), bytes);
        if (i == 1)
            assert_int_equal(engine_flush(s->engine), ERR_OK);
    }
    assert_int_equal(scratch_delete(s, SPACE_ROW, STR("k")), ERR_OK);
    expect_none(s, STR("k"));
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    expect_none(s, STR("k"));
    assert_int_equal(scratch_delete(s, SPACE_ROW, STR("k")), ERR_OK);
}

static err put_value_decide(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    return engine_txn_put_value(t, SPACE_ROW, STR("k"), STR("new"));
}

static void put_value_keeps_the_blob(void **state)
{
    struct scratch *s = *state;
    char big[5000];
    scratch_bytes(2, big, sizeof(big));
    str bytes = { .p = big, .n = sizeof(big) };
    assert_int_equal(engine_update_wait(s->engine, put_value_decide, NULL), ERR_NOT_FOUND);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            scratch_put(s, SPACE_ROW, STR("k"), STR("old"), i == 0 ? bytes : STR("tiny")), ERR_OK);
        assert_int_equal(engine_update_wait(s->engine, put_value_decide, NULL), ERR_OK);
        expect_row(s, STR("k"), STR("new"), i == 0 ? bytes : STR("tiny"));
        assert_int_equal(engine_flush(s->engine), ERR_OK);
        assert_int_equal(engine_update_wait(s->engine, put_value_decide, NULL), ERR_OK);
        assert_int_equal(engine_flush(s->engine), ERR_OK);
        expect_row(s, STR("k"), STR("new"), i == 0 ? bytes : STR("tiny"));
    }
}

static err fail_decide(struct engine_txn *t, void *ctx)
{
    struct engine_row row;
    err why = engine_txn_put(t, SPACE_ROW, STR("k"), STR("half"), STR("half"));
    assert_int_equal(why, ERR_OK);
    why = engine_txn_delete(t, SPACE_ROW, STR("other"));
    assert_int_equal(why, ERR_OK);
    assert_int_equal(engine_get(engine_txn_view(t), SPACE_ROW, STR("k"), &row), ERR_OK);
    assert_memory_equal(row.value.p, "half", 4);
    assert_int_equal(engine_get(engine_txn_view(t), SPACE_ROW, STR("other"), &row), ERR_NOT_FOUND);
    return *(err *)ctx;
}

static void failed_decision_leaves_nothing(void **state)
{
    struct scratch *s = *state;
    err code = ERR_PRECONDITION;
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("other"), STR("x"), STR_NONE), ERR_OK);
    assert_int_equal(engine_update_wait(s->engine, fail_decide, &code), ERR_PRECONDITION);
    expect_none(s, STR("k"));
    expect_row(s, STR("other"), STR("x"), STR_NONE);
    code = ERR_OK;
    assert_int_equal(engine_update_wait(s->engine, fail_decide, &code), ERR_OK);
    expect_row(s, STR("k"), STR("half"), STR("half"));
    expect_none(s, STR("other"));
}

static err limits_decide(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    static const char zeros[2000];
    str long_key = { .p = zeros, .n = ENGINE_KEY_BYTES_MAX + 1 };
    str long_value = { .p = zeros, .n = ENGINE_VALUE_BYTES_MAX + 1 };
    assert_int_equal(engine_txn_put(t, SPACE_ROW, long_key, STR(""), STR_NONE), ERR_LIMIT);
    assert_int_equal(engine_txn_put(t, SPACE_ROW, STR("k"), long_value, STR_NONE), ERR_LIMIT);
    str most_key = { .p = zeros, .n = ENGINE_KEY_BYTES_MAX };
    str most_value = { .p = zeros, .n = ENGINE_VALUE_BYTES_MAX };
    str most_inline = { .p = zeros, .n = ENGINE_INLINE_BYTES_MAX };
    err why = engine_txn_put(t, SPACE_ROW, most_key, most_value, most_inline);
    for (int i = 1; i < ENGINE_UPDATE_ROWS_MAX && why == ERR_OK; i++) {
        char key[16];
        int n = snprintf(key, sizeof(key), "%d", i);
        why = engine_txn_put(t, SPACE_ROW, (str){ .p = key, .n = (size_t)n }, STR("v"), STR_NONE);
    }
    assert_int_equal(why, ERR_OK);
    assert_int_equal(engine_txn_put(t, SPACE_ROW, STR("more"), STR(""), STR_NONE), ERR_LIMIT);
    return ERR_OK;
}

static void limits_are_refused_and_reached(void **state)
{
    struct scratch *s = *state;
    static const char zeros[2000];
    assert_int_equal(engine_update_wait(s->engine, limits_decide, NULL), ERR_OK);
    for (int i = 0; i < 2; i++) {
        expect_row(s, (str){ .p = zeros, .n = ENGINE_KEY_BYTES_MAX },
                   (str){ .p = zeros, .n = ENGINE_VALUE_BYTES_MAX },
                   (str){ .p = zeros, .n = ENGINE_INLINE_BYTES_MAX });
        expect_none(s, STR("more"));
        assert_int_equal(engine_flush(s->engine), ERR_OK);
    }
}

/* Collects keys of a walk into text "a b c ". */
static void walk(struct engine_view *v, const struct engine_range *r, const char *skip_at,
                 const char *skip_to, char *out, size_t size)
{
    struct engine_cursor *c = engine_cursor_open(v, r);
    struct engine_row row;
    out[0] = '\0';
    while (engine_cursor_next(c, &row) == ERR_OK) {
        size_t n = strlen(out);
        assert_true(snprintf(out + n, size - n, "%.*s ", STR_ARG(row.key)) < (int)(size - n));
        if (skip_at != NULL && str_eq(row.key, str_of(skip_at)))
            engine_cursor_seek(c, str_of(skip_to));
    }
    engine_cursor_close(&c);
}

static void expect_walks(struct scratch *s)
{
    struct engine_view *v = engine_view_begin(s->engine);
    char out[200];
    struct engine_range all = { .space = SPACE_ROW };
    walk(v, &all, NULL, NULL, out, sizeof(out));
    assert_string_equal(out, "a b c d e f ");
    walk(v, &all, "b", "d", out, sizeof(out));
    assert_string_equal(out, "a b d e f ");
    walk(v, &all, "b", "ca", out, sizeof(out));
    assert_string_equal(out, "a b d e f ");
    all.reversed = true;
    walk(v, &all, NULL, NULL, out, sizeof(out));
    assert_string_equal(out, "f e d c b a ");
    walk(v, &all, "e", "c", out, sizeof(out));
    assert_string_equal(out, "f e c b a ");
    walk(v, &all, "e", "ca", out, sizeof(out));
    assert_string_equal(out, "f e c b a ");
    struct engine_range some = { .space = SPACE_ROW, .from = STR("b"), .until = STR("e") };
    walk(v, &some, NULL, NULL, out, sizeof(out));
    assert_string_equal(out, "b c d ");
    walk(v, &some, "b", "z", out, sizeof(out));
    assert_string_equal(out, "b ");
    some.reversed = true;
    walk(v, &some, NULL, NULL, out, sizeof(out));
    assert_string_equal(out, "d c b ");
    struct engine_range none = { .space = SPACE_ROW, .from = STR("x") };
    walk(v, &none, NULL, NULL, out, sizeof(out));
    assert_string_equal(out, "");
    engine_view_end(&v);
}

static void walks_go_both_ways_over_all_layers(void **state)
{
    struct scratch *s = *state;
    assert_int_equal(scratch_put(s, SPACE_RENDER, STR("z"), STR(""), STR_NONE), ERR_OK);
    assert_int_equal(scratch_put(s, SPACE_AUTH, STR("a"), STR(""), STR_NONE), ERR_OK);
    const char *keys[] = { "a", "c", "e", "gone" };
    for (size_t i = 0; i < COUNT_OF(keys); i++)
        assert_int_equal(scratch_put(s, SPACE_ROW, str_of(keys[i]), STR("1"), STR_NONE), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    const char *more[] = { "b", "c", "d", "f" };
    for (size_t i = 0; i < COUNT_OF(more); i++)
        assert_int_equal(scratch_put(s, SPACE_ROW, str_of(more[i]), STR("2"), STR_NONE), ERR_OK);
    assert_int_equal(scratch_delete(s, SPACE_ROW, STR("gone")), ERR_OK);
    expect_walks(s);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    expect_walks(s);
    expect_row(s, STR("c"), STR("2"), STR_NONE);
}

static void view_does_not_see_later_updates(void **state)
{
    struct scratch *s = *state;
    char big[3000];
    scratch_bytes(3, big, sizeof(big));
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("k"), STR("old"),
                                 (str){ .p = big, .n = sizeof(big) }),
                     ERR_OK);
    struct engine_view *v = engine_view_begin(s->engine);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("k"), STR("new"), STR_NONE), ERR_OK);
    assert_int_equal(scratch_put(s, SPACE_ROW, STR("l"), STR("new"), STR_NONE), ERR_OK);
    for (int i = 0; i < 2; i++) {
        struct engine_row row;
        assert_int_equal(engine_get(v, SPACE_ROW, STR("k"), &row), ERR_OK);
        assert_memory_equal(row.value.p, "old", 3);
        char copy[3000];
        assert_int_equal(engine_blob_read(s->engine, &row.blob, 0, sizeof(copy), copy), ERR_OK);
        assert_memory_equal(copy, big, sizeof(copy));
        assert_int_equal(engine_get(v, SPACE_ROW, STR("l"), &row), ERR_NOT_FOUND);
        char out[50];
        walk(v, &(struct engine_range){ .space = SPACE_ROW }, NULL, NULL, out, sizeof(out));
        assert_string_equal(out, "k ");
        assert_int_equal(engine_flush(s->engine), ERR_OK);
    }
    engine_view_end(&v);
    expect_row(s, STR("k"), STR("new"), STR_NONE);
}

static err now_decide(struct engine_txn *t, void *ctx)
{
    *(store_time *)ctx = engine_txn_now(t);
    return engine_txn_put(t, SPACE_ROW, STR("t"), STR(""), STR_NONE);
}

static void time_of_updates_never_goes_back(void **state)
{
    struct scratch *s = *state;
    store_time a, b;
    atomic_store(&s->clock.now_ns, 50 * NS_PER_S);
    assert_int_equal(engine_update_wait(s->engine, now_decide, &a), ERR_OK);
    assert_int_equal(a.ns, 50 * NS_PER_S);
    atomic_store(&s->clock.now_ns, 40 * NS_PER_S);
    assert_int_equal(engine_update_wait(s->engine, now_decide, &b), ERR_OK);
    assert_true(b.ns >= a.ns);
    scratch_close(s);
    atomic_store(&s->clock.now_ns, 0);
    scratch_open(s);
    assert_int_equal(atomic_load(&s->clock.now_ns), 50 * NS_PER_S);
}

struct order {
    struct engine_update update;
    int *next;
    int got;
    err why;
};

static err order_decide(struct engine_txn *t, void *ctx)
{
    struct order *o = ctx;
    char key[16];
    int n = snprintf(key, sizeof(key), "%p", (void *)o);
    (void)n;
    return engine_txn_put(t, SPACE_ROW, str_of(key), STR("x"), STR_NONE);
}

static void order_done(void *ctx, err why)
{
    struct order *o = ctx;
    o->why = why;
    o->got = (*o->next)++;
}

static void updates_are_answered_in_order_and_before_close_returns(void **state)
{
    struct scratch *s = *state;
    enum { COUNT = 500 };
    struct order *all = calloc(COUNT, sizeof(*all));
    assert_non_null(all);
    int next = 0;
    for (int i = 0; i < COUNT; i++) {
        all[i] = (struct order){ .next = &next, .got = -1 };
        all[i].update =
            (struct engine_update){ .decide = order_decide, .done = order_done, .ctx = &all[i] };
        if (i == 100)
            all[i].update.deadline = (mono){ .ns = 999 };
        engine_submit(s->engine, &all[i].update);
    }
    scratch_close(s);
    for (int i = 0; i < COUNT; i++) {
        assert_int_equal(all[i].got, i);
        assert_int_equal(all[i].why, i == 100 ? ERR_TIMEOUT : ERR_OK);
    }
    free(all);
}

static void pin_keeps_bytes_readable(void **state)
{
    struct scratch *s = *state;
    static char big[100000];
    static char copy[100000];
    scratch_bytes(9, big, sizeof(big));
    assert_int_equal(
        scratch_put(s, SPACE_ROW, STR("k"), STR(""), (str){ .p = big, .n = sizeof(big) }), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    struct engine_view *v = engine_view_begin(s->engine);
    struct engine_row row;
    assert_int_equal(engine_get(v, SPACE_ROW, STR("k"), &row), ERR_OK);
    struct engine_blob blob = row.blob;
    struct engine_pin pin = engine_pin(v);
    engine_view_end(&v);
    assert_int_equal(scratch_delete(s, SPACE_ROW, STR("k")), ERR_OK);
    assert_int_equal(engine_flush(s->engine), ERR_OK);
    bool more = true;
    while (more)
        assert_int_equal(engine_reclaim(s->engine, &more), ERR_OK);
    assert_int_equal(engine_blob_read(s->engine, &blob, 0, sizeof(copy), copy), ERR_OK);
    assert_memory_equal(copy, big, sizeof(copy));
    engine_unpin(s->engine, pin);
}

static void prefix_end_is_the_least_greater_key(void **state)
{
    (void)state;
    char out[8];
    assert_true(str_eq(engine_prefix_end(STR("ab"), out), STR("ac")));
    assert_true(str_eq(engine_prefix_end(STR("a\xff"), out), STR("b")));
    assert_int_equal(engine_prefix_end(STR("\xff\xff"), out).n, 0);
}

static void second_opening_is_refused(void **state)
{
    struct scratch *s = *state;
    struct scratch other = *s;
    struct err_note note;
    assert_int_equal(scratch_try(&other, false, &note), ERR_CONFLICT);
    assert_non_null(strstr(note.text, "in use"));
    assert_int_equal(scratch_try(&other, true, &note), ERR_CONFLICT);
}

int main(void)
{
#define FACT(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)
    const struct CMUnitTest tests[] = {
        FACT(row_is_read_back_before_and_after_indexing),
        FACT(spaces_are_apart),
        FACT(replaced_row_has_the_new_contents),
        FACT(put_value_keeps_the_blob),
        FACT(failed_decision_leaves_nothing),
        FACT(limits_are_refused_and_reached),
        FACT(walks_go_both_ways_over_all_layers),
        FACT(view_does_not_see_later_updates),
        FACT(time_of_updates_never_goes_back),
        FACT(updates_are_answered_in_order_and_before_close_returns),
        FACT(pin_keeps_bytes_readable),
        FACT(prefix_end_is_the_least_greater_key),
        FACT(second_opening_is_refused),
    };
#undef FACT
    return cmocka_run_group_tests(tests, NULL, NULL);
}
