/* Goal: rows come back as they were written, and a row that is cut, longer, or of another version
 * is refused. Method: each row once by hand, then each truncation, each version, and a byte too
 * many. */
#include "change/rows.h"

#include "unit/cmocka_all.h"

#include <string.h>

static const struct change_item_row item = {
    .state = CHANGE_SCHEDULED,
    .flags = CHANGE_ITEM_AGAIN,
    .attempts = 0x01020304,
    .seq = UINT64_C(0x1112131415161718),
    .taken = { .ns = INT64_C(0x2122232425262728) },
    .due = { .ns = INT64_C(0x3132333435363738) },
    .lane = { .p = { 1, 2, 3 } },
    .order = { .p = { 4, 5, 6 } },
    .target = UINT64_C(0x4142434445464748),
    .stream = STR_INIT("mediawiki.job.x"),
    .domain = STR_INIT("en.test"),
    .type = STR_INIT("x"),
    .error = STR_INIT("it said no"),
};

static void item_expect(const struct change_item_row *got, const struct change_item_row *wanted)
{
    assert_int_equal(got->state, wanted->state);
    assert_int_equal(got->flags, wanted->flags);
    assert_int_equal(got->attempts, wanted->attempts);
    assert_int_equal(got->seq, wanted->seq);
    assert_int_equal(got->taken.ns, wanted->taken.ns);
    assert_int_equal(got->due.ns, wanted->due.ns);
    assert_memory_equal(&got->lane, &wanted->lane, sizeof got->lane);
    assert_memory_equal(&got->order, &wanted->order, sizeof got->order);
    assert_int_equal(got->target, wanted->target);
    assert_true(str_eq(got->stream, wanted->stream));
    assert_true(str_eq(got->domain, wanted->domain));
    assert_true(str_eq(got->type, wanted->type));
    assert_true(str_eq(got->error, wanted->error));
}

static err item_take(str value)
{
    struct change_item_row row;
    return change_item_decode(value, &row);
}

static err rule_take(str value)
{
    struct change_rule_row row;
    return change_rule_decode(value, &row);
}

static err head_take(str value)
{
    struct change_head row;
    return change_head_decode(value, &row);
}

/* Nothing but the whole value of that version is taken. */
static void value_refuses(str value, err (*take)(str value))
{
    char copy[CHANGE_VALUE_BYTES + 1];
    assert_true(value.n < sizeof copy);
    memcpy(copy, value.p, value.n);
    copy[value.n] = '\0';
    assert_int_equal(take((str){ copy, value.n }), ERR_OK);
    for (size_t n = 0; n <= value.n + 1; n++)
        if (n != value.n)
            assert_int_equal(take((str){ copy, n }), ERR_CORRUPT);
    for (unsigned version = 0; version < 256; version++) {
        copy[0] = (char)version;
        assert_int_equal(take((str){ copy, value.n }),
                         copy[0] == value.p[0] ? ERR_OK : ERR_CORRUPT);
    }
}

static void an_item_comes_back(void **state)
{
    (void)state;
    char value[CHANGE_VALUE_BYTES];
    struct change_item_row got;
    assert_int_equal(change_item_decode(change_item_encode(&item, value), &got), ERR_OK);
    item_expect(&got, &item);
    for (unsigned s = 0; s < CHANGE_STATES; s++) {
        struct change_item_row one = item;
        one.state = (enum change_state)s;
        assert_int_equal(change_item_decode(change_item_encode(&one, value), &got), ERR_OK);
        assert_int_equal(got.state, s);
    }
}

static void the_longest_item_fits_and_long_texts_are_cut(void **state)
{
    (void)state;
    char long_text[300], value[CHANGE_VALUE_BYTES];
    struct change_item_row one = item, got;
    memset(long_text, 'x', sizeof long_text);
    one.stream = one.domain = (str){ long_text, 255 };
    one.type = one.error = (str){ long_text, sizeof long_text };
    str whole = change_item_encode(&one, value);
    assert_true(whole.n <= ENGINE_VALUE_BYTES_MAX);
    assert_int_equal(change_item_decode(whole, &got), ERR_OK);
    one.type.n = CHANGE_TYPE_BYTES_MAX;
    one.error.n = CHANGE_ERROR_BYTES_MAX;
    item_expect(&got, &one);
    one.stream = one.domain = one.type = one.error = STR("");
    assert_int_equal(change_item_decode(change_item_encode(&one, value), &got), ERR_OK);
    item_expect(&got, &one);
}

static void a_rule_and_the_head_come_back(void **state)
{
    (void)state;
    char value[CHANGE_VALUE_BYTES];
    const struct change_rule_row rule = { .number = 0x01020304,
                                          .flags = CHANGE_FLAG_PAUSED | CHANGE_FLAG_REMOVED,
                                          .from = UINT64_C(0x1112131415161718),
                                          .hash = UINT64_C(0xf122232425262728),
                                          .replay_after = 5,
                                          .replay_until = 6 };
    const struct change_head head = {
        .cursor = 1, .count = 2, .at = { .ns = 3 }, .missed = 4, .missed_at = { .ns = 5 }
    };
    struct change_rule_row r;
    struct change_head h;
    assert_int_equal(change_rule_decode(change_rule_encode(&rule, value), &r), ERR_OK);
    assert_memory_equal(&r, &rule, sizeof r);
    value_refuses(change_rule_encode(&rule, value), rule_take);
    assert_int_equal(change_head_decode(change_head_encode(&head, value), &h), ERR_OK);
    assert_memory_equal(&h, &head, sizeof h);
    value_refuses(change_head_encode(&head, value), head_take);
}

/* It did not say when events were missed. */
static void a_head_of_before_is_read(void **state)
{
    (void)state;
    char value[CHANGE_HEAD_BYTES];
    const struct change_head head = {
        .cursor = 1, .count = 2, .at = { .ns = 3 }, .missed = 4, .missed_at = { .ns = 5 }
    };
    struct change_head h;
    str before = str_take(change_head_encode(&head, value), CHANGE_HEAD_BYTES - 8);
    value[0] = 1;
    assert_int_equal(change_head_decode(before, &h), ERR_OK);
    assert_int_equal(h.missed, 4);
    assert_int_equal(h.missed_at.ns, 0);
    value_refuses(before, head_take);
}

static void a_cut_item_is_refused(void **state)
{
    (void)state;
    char value[CHANGE_VALUE_BYTES];
    value_refuses(change_item_encode(&item, value), item_take);
    str whole = change_item_encode(&item, value);
    for (unsigned s = CHANGE_STATES; s < 256; s++) {
        value[1] = (char)s;
        assert_int_equal(item_take(whole), ERR_CORRUPT);
    }
}

/* Each kind of key comes back, and no other length of it does. */
static void keys_come_back(void **state)
{
    (void)state;
    const struct change_digest lane = { .p = { 0xff, 0, 7 } };
    struct change_key k;
    struct change_digest d;
    store_time due;
    uint32_t rule;
    uint64_t id;
    change_key_item(&k, 9, 640);
    assert_true(change_key_item_parse(change_key_str(&k), &rule, &id));
    assert_int_equal(rule, 9);
    assert_int_equal(id, 640);
    for (size_t n = 0; n < k.n; n++)
        assert_false(change_key_item_parse(str_take(change_key_str(&k), n), &rule, &id));
    change_key_ready(&k, 9, &lane, 640);
    assert_true(change_key_ready_parse(change_key_str(&k), &d, &id));
    assert_memory_equal(&d, &lane, sizeof d);
    assert_int_equal(id, 640);
    for (size_t n = 0; n < k.n; n++)
        assert_false(change_key_ready_parse(str_take(change_key_str(&k), n), &d, &id));
    change_key_due(&k, (store_time){ .ns = 77 }, 9, 640);
    assert_true(change_key_due_parse(change_key_str(&k), &due, &rule, &id));
    assert_int_equal(due.ns, 77);
    assert_int_equal(rule, 9);
    assert_int_equal(id, 640);
    for (size_t n = 0; n < k.n; n++)
        assert_false(change_key_due_parse(str_take(change_key_str(&k), n), &due, &rule, &id));
    change_key_forget(&k, (store_time){ .ns = 77 }, 9, &lane);
    assert_true(change_key_forget_parse(change_key_str(&k), &due, &rule, &d));
    assert_int_equal(due.ns, 77);
    assert_int_equal(rule, 9);
    assert_memory_equal(&d, &lane, sizeof d);
    for (size_t n = 0; n < k.n; n++)
        assert_false(change_key_forget_parse(str_take(change_key_str(&k), n), &due, &rule, &d));
}

static void digests_tell_parts_apart(void **state)
{
    (void)state;
    const str one[] = { STR("ab"), STR("c") }, other[] = { STR("a"), STR("bc") };
    struct change_digest a = change_digest_of(one, 2), b = change_digest_of(other, 2),
                         again = change_digest_of(one, 2), none = { .p = { 0 } };
    assert_memory_equal(&a, &again, sizeof a);
    assert_memory_not_equal(&a, &b, sizeof a);
    assert_true(change_digest_is_none(&none));
    assert_false(change_digest_is_none(&a));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_item_comes_back),
        cmocka_unit_test(the_longest_item_fits_and_long_texts_are_cut),
        cmocka_unit_test(a_rule_and_the_head_come_back),
        cmocka_unit_test(a_head_of_before_is_read),
        cmocka_unit_test(a_cut_item_is_refused),
        cmocka_unit_test(keys_come_back),
        cmocka_unit_test(digests_tell_parts_apart),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
