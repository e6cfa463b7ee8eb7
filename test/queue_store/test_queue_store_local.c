/* Goal: the local store is a store (suite.h), on an engine of its own and beside other rows in one that is shared. */
#include "scratch.h"
#include "suite.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

struct fixture {
    struct scratch scratch;
    struct suite suite;
    bool shared;
};

static void store_open(struct fixture *f)
{
    char dir[2 * SCRATCH_PATH_BYTES];
    struct err_note note = { .text = "" };
    store_time greatest;
    scratch_path(&f->scratch, "queue", dir);
    struct queue_local_opts opts = { .name = "a", .clock = &f->scratch.clock, .segment_bytes = 1 << 20 };
    if (f->shared) {
        scratch_open(&f->scratch);
        opts.engine = f->scratch.engine;
    } else {
        opts.dir = dir;
    }
    if (queue_local_open(&opts, &f->suite.store, &greatest, &note) != ERR_OK)
        fail_msg("%s", note.text);
}

static void store_close(struct fixture *f)
{
    f->suite.store->ops->close(&f->suite.store);
    if (f->shared)
        scratch_close(&f->scratch);
}

static void reopen(struct suite *s)
{
    struct fixture *f = s->ctx;
    store_close(f);
    store_open(f);
}

static void print_found(void *ctx, const char *what)
{
    (void)ctx;
    print_error("check: %s\n", what);
}

static void check(struct suite *s)
{
    struct fixture *f = s->ctx;
    if (f->shared)
        assert_int_equal(queue_local_check(f->scratch.engine, print_found, NULL), ERR_OK);
}

static void run(bool shared)
{
    struct fixture f = { .shared = shared };
    scratch_init(&f.scratch);
    f.suite = (struct suite){ .reopen = reopen, .check = check, .ctx = &f, .steps = 1500 };
    store_open(&f);
    suite_run(&f.suite);
    store_close(&f);
    scratch_fini(&f.scratch);
}

static void an_engine_of_its_own_passes(void **state)
{
    (void)state;
    run(false);
}

static void a_shared_engine_passes(void **state)
{
    (void)state;
    run(true);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_of_its_own_passes),
        cmocka_unit_test(a_shared_engine_passes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
