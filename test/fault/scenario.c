#include "scenario.h"
#include "engine/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void scenario_on_tmpfs(void)
{
    if (access("/dev/shm", W_OK) == 0)
        (void)setenv("TMPDIR", "/dev/shm", 0);
}

static void on_failure(void *ctx, const char *what)
{
    struct scenario *s = ctx;
    (void)what;
    atomic_fetch_add(&s->failures, 1);
}

void scenario_init(struct scenario *s, const struct file_faults *faults)
{
    *s = (struct scenario){ .versions = 0 };
    scratch_init(&s->scratch);
    assert_true(snprintf(s->backup, sizeof(s->backup), "%s.b", s->scratch.dir) <
                (int)sizeof(s->backup));
    s->scratch.segment_bytes = 128 << 10;
    s->scratch.faults = faults;
    s->scratch.failed = on_failure;
    s->scratch.failed_ctx = s;
}

static str key_of(uint64_t i, char *buf)
{
    int n = snprintf(buf, 16, "k%02u", (unsigned)i);
    return (str){ .p = buf, .n = (size_t)n };
}

static void write_one(struct scenario *s)
{
    static char bytes[MODEL_VALUE_BYTES_MAX];
    char key[16], value[32];
    uint64_t v = ++s->versions;
    uint64_t k = v * 5 % SCENARIO_KEYS;
    size_t n = model_bytes(v, bytes);
    int vn = snprintf(value, sizeof(value), "%llu", (unsigned long long)v);
    err why = scratch_put(&s->scratch, SPACE_ROW, key_of(k, key),
                          (str){ .p = value, .n = (size_t)vn }, (str){ .p = bytes, .n = n });
    s->tried[k] = v;
    s->refused += why != ERR_OK;
    s->unknown[k] = why == ERR_IO || (s->unknown[k] && why != ERR_OK);
    if (why == ERR_OK)
        s->acked[k] = v;
    if (why == ERR_IO || why == ERR_UNAVAILABLE)
        assert_true(atomic_load(&s->failures) > 0);
}

/* Opens; with faults that may fail, which must be told. */
static bool open_store(struct scenario *s)
{
    struct err_note note = { .text = "" };
    err why = scratch_try(&s->scratch, false, &note);
    if (why == ERR_OK)
        return true;
    assert_true(why == ERR_IO || why == ERR_FULL || why == ERR_CORRUPT);
    assert_true(note.text[0] != '\0');
    s->scratch.engine = NULL;
    return false;
}

void scenario_run(struct scenario *s)
{
    struct engine_backup_result r;
    struct err_note note;
    for (int round = 0; round < SCENARIO_ROUNDS; round++) {
        bool more = true;
        s->scratch.zeros_always = round % 2 == 0;
        if (!open_store(s))
            continue;
        for (int i = 0; i < SCENARIO_WRITES; i++)
            write_one(s);
        (void)!engine_flush(s->scratch.engine);
        for (int i = 0; i < SCENARIO_WRITES; i++)
            write_one(s);
        (void)!engine_flush(s->scratch.engine);
        for (int i = 0; i < 3 && more; i++)
            if (engine_reclaim(s->scratch.engine, &more) != ERR_OK)
                break;
        (void)!engine_backup(s->scratch.engine, s->backup, &r, &note);
        scratch_close(&s->scratch);
    }
}

static void compare_key(struct scenario *s, uint64_t k)
{
    static char bytes[MODEL_VALUE_BYTES_MAX];
    char key[16];
    struct scratch_row r;
    err why = scratch_get(&s->scratch, SPACE_ROW, key_of(k, key), &r);
    if (why == ERR_NOT_FOUND) {
        assert_int_equal(s->acked[k], 0);
        return;
    }
    assert_int_equal(why, ERR_OK);
    uint64_t v = 0;
    assert_true(str_to_u64((str){ .p = r.value, .n = r.value_n }, &v));
    assert_true(v == s->acked[k] || (s->unknown[k] && v > s->acked[k] && v <= s->tried[k]));
    assert_int_equal(r.bytes_n, model_bytes(v, bytes));
    assert_memory_equal(r.bytes, bytes, r.bytes_n);
    scratch_row_free(&r);
}

void scenario_compare(struct scenario *s)
{
    struct err_note note = { .text = "" };
    s->scratch.faults = NULL;
    err why = scratch_try(&s->scratch, false, &note);
    if (why != ERR_OK)
        fail_msg("open after the fault: %s: %s", err_name(why), note.text);
    for (uint64_t k = 0; k < SCENARIO_KEYS; k++)
        compare_key(s, k);
    bool more = true;
    while (more)
        assert_int_equal(engine_reclaim(s->scratch.engine, &more), ERR_OK);
    expect_sound(s->scratch.engine);
    struct engine_backup_result r;
    if (engine_backup(s->scratch.engine, s->backup, &r, &note) != ERR_OK)
        fail_msg("backup after the fault: %s", note.text);
    scratch_close(&s->scratch);
}

static void remove_tree(struct scratch *s, const char *dir)
{
    struct scratch other = *s;
    (void)snprintf(other.dir, sizeof(other.dir), "%s", dir);
    other.engine = NULL;
    scratch_fini(&other);
}

void scenario_fini(struct scenario *s)
{
    remove_tree(&s->scratch, s->backup);
    scratch_fini(&s->scratch);
}
