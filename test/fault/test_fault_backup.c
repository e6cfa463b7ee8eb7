/* Goal: a backup that is broken off spoils nothing: the folder opens as the backup before, or not
 * at all, and running it again finishes it.
 * Method: back up, change and reclaim everything, back up again with the Nth disk call failing, for
 * every N. */
#include "scenario.h"

#include "engine/store.h"
#include "vlog/file.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

enum { ROWS = 12, VALUE_BYTES = 20000 };

struct broken {
    struct scratch store, copy;
    int fail;   /* errno; 0: off */
    bool stays; /* every call from the Nth on */
    int nth, calls;
    unsigned as_before, as_after, unopened; /* how the folder opened after a failure */
};

/* Backups run on the test's thread, and nobody else works meanwhile. */
static int hit(void *ctx, enum file_call call, size_t *n)
{
    struct broken *b = ctx;
    (void)call;
    (void)n;
    if (b->fail == 0)
        return 0;
    b->calls++;
    return (b->stays ? b->calls >= b->nth : b->calls == b->nth) ? b->fail : 0;
}

static str key_of(unsigned i, char *buf)
{
    int n = snprintf(buf, 16, "k%02u", i);
    return (str){ .p = buf, .n = (size_t)n };
}

static void write_all(struct broken *b, unsigned version)
{
    static char bytes[VALUE_BYTES];
    char key[16], value[2] = { (char)('0' + version), '\0' };
    for (unsigned i = 0; i < ROWS; i++) {
        scratch_bytes(100 * version + i, bytes, sizeof(bytes));
        assert_int_equal(scratch_put(&b->store, SPACE_ROW, key_of(i, key), str_of(value),
                                     (str){ .p = bytes, .n = sizeof(bytes) }),
                         ERR_OK);
    }
    bool more = true;
    assert_int_equal(engine_flush(b->store.engine), ERR_OK);
    while (more)
        assert_int_equal(engine_reclaim(b->store.engine, &more), ERR_OK);
}

/* Which version the copy holds; 0: it does not open. Anything mixed or damaged fails. */
static unsigned version_of_copy(struct broken *b)
{
    struct err_note note;
    unsigned version = 0;
    err why = scratch_try(&b->copy, true, &note);
    if (why != ERR_OK) {
        assert_int_equal(why, ERR_NOT_FOUND);
        b->copy.engine = NULL;
        return 0;
    }
    expect_sound(b->copy.engine);
    for (unsigned i = 0; i < ROWS; i++) {
        struct scratch_row r;
        char key[16];
        assert_int_equal(scratch_get(&b->copy, SPACE_ROW, key_of(i, key), &r), ERR_OK);
        unsigned here = (unsigned)(r.value[0] - '0');
        assert_true(version == 0 || here == version);
        version = here;
        scratch_row_free(&r);
    }
    scratch_close(&b->copy);
    return version;
}

static err back_up(struct broken *b)
{
    struct engine_backup_result r;
    struct err_note note = { .text = "" };
    err why = engine_backup(b->store.engine, b->copy.dir, &r, &note);
    assert_true(why == ERR_OK || note.text[0] != '\0');
    return why;
}

/* False when the backup ran to its end. */
static bool break_off(struct broken *b, int fail, bool stays, int nth)
{
    struct file_faults ff = { .hit = hit, .ctx = b };
    scratch_init(&b->store);
    scratch_init(&b->copy);
    b->store.segment_bytes = 128 << 10;
    b->store.faults = &ff;
    scratch_open(&b->store);
    write_all(b, 1);
    assert_int_equal(back_up(b), ERR_OK);
    assert_int_equal(version_of_copy(b), 1);
    write_all(b, 2);
    write_all(b, 3);
    b->stays = stays;
    b->nth = nth;
    b->calls = 0;
    b->fail = fail;
    err why = back_up(b);
    b->fail = 0;
    unsigned version = version_of_copy(b);
    assert_true(version != 2);
    assert_true(why != ERR_OK || version == 3);
    b->as_before += version == 1;
    b->as_after += version == 3;
    b->unopened += version == 0;
    assert_int_equal(back_up(b), ERR_OK);
    assert_int_equal(version_of_copy(b), 3);
    bool reached = b->calls >= nth;
    scratch_fini(&b->copy);
    scratch_fini(&b->store);
    return reached;
}

static void break_off_everywhere(int fail, bool stays)
{
    struct broken b = { .fail = 0 };
    for (int nth = 1; break_off(&b, fail, stays, nth); nth++)
        ;
    assert_true(b.as_before > b.unopened);
    print_message("%u as before, %u not at all, %u as after\n", b.as_before, b.unopened,
                  b.as_after);
}

static void backup_broken_off_by_any_call_leaves_the_one_before(void **state)
{
    (void)state;
    break_off_everywhere(EIO, false);
    break_off_everywhere(EIO, true);
}

static void backup_to_a_full_disk_leaves_the_one_before(void **state)
{
    (void)state;
    break_off_everywhere(ENOSPC, true);
}

int main(void)
{
    scenario_on_tmpfs();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(backup_broken_off_by_any_call_leaves_the_one_before),
        cmocka_unit_test(backup_to_a_full_disk_leaves_the_one_before),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
