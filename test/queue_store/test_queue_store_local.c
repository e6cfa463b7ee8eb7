/* Goal: the local store is a store (suite.h), on an engine of its own and beside other rows in one
 * that is shared; a folder of its own belongs to one deployment, and one that is away is not made
 * anew. */
#include "scratch.h"
#include "suite.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

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
    struct queue_local_opts opts = { .name = "a",
                                     .clock = &f->scratch.clock.clock,
                                     .segment_bytes = 1 << 20 };
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

/* ---- whose the folder is ---- */

struct folder {
    struct scratch scratch;
    char dir[2 * SCRATCH_PATH_BYTES], away[2 * SCRATCH_PATH_BYTES];
    struct queue_store *store;
    struct err_note note;
    char failed[ERR_NOTE_BYTES];
    unsigned recovered;
};
static const struct queue_part PART = { .queue = 1 };

static void folder_failed(void *ctx, const char *store, const char *what)
{
    struct folder *f = ctx;
    assert_string_equal(store, "a");
    (void)snprintf(f->failed, sizeof f->failed, "%s", what);
}

static void folder_recovered(void *ctx, store_time greatest)
{
    struct folder *f = ctx;
    (void)greatest;
    f->recovered++;
}

static void folder_init(struct folder *f)
{
    *f = (struct folder){ .store = NULL };
    scratch_init(&f->scratch);
    scratch_path(&f->scratch, "queue", f->dir);
    scratch_path(&f->scratch, "away", f->away);
}

static err folder_open_as(struct folder *f, const char *name, const char *deployment, bool used)
{
    struct queue_local_opts opts = { .name = name,
                                     .clock = &f->scratch.clock.clock,
                                     .segment_bytes = 1 << 20,
                                     .dir = f->dir,
                                     .deployment = deployment,
                                     .used = used,
                                     .failed = folder_failed,
                                     .recovered = folder_recovered,
                                     .ctx = f };
    store_time greatest;
    f->failed[0] = f->note.text[0] = '\0';
    return queue_local_open(&opts, &f->store, &greatest, &f->note);
}

static err folder_open(struct folder *f, const char *deployment, bool used)
{
    return folder_open_as(f, "a", deployment, used);
}

static err folder_own(struct folder *f, uint64_t *epoch)
{
    static const unsigned char boot[QUEUE_BOOT_BYTES];
    struct queue_part_record record = { .epoch = 0 };
    const struct queue_own own = {
        .parts = &PART, .count = 1, .boot = boot, .out = &record, .note = &f->note
    };
    err why = f->store->ops->own(f->store, &own);
    *epoch = record.epoch;
    return why;
}

/* Opens it and owns a partition, whose epoch tells how often that was done before. */
static void folder_use(struct folder *f, const char *deployment, bool used, uint64_t epoch_want)
{
    uint64_t epoch;
    if (folder_open(f, deployment, used) != ERR_OK)
        fail_msg("%s", f->note.text);
    assert_string_equal(f->failed, "");
    assert_int_equal(folder_own(f, &epoch), ERR_OK);
    assert_int_equal(epoch, epoch_want);
    f->store->ops->close(&f->store);
}

static void folder_has_anew(const struct folder *f, bool make)
{
    char path[3 * SCRATCH_PATH_BYTES];
    (void)snprintf(path, sizeof path, "%s/" QUEUE_ANEW_FILE, f->dir);
    assert_int_not_equal(access(path, F_OK), 0);
    int fd = make ? open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600) : -1;
    assert_int_equal(fd >= 0, make);
    if (fd >= 0)
        close(fd);
}

static void a_folder_belongs_to_one_deployment(void **state)
{
    (void)state;
    struct folder f;
    folder_init(&f);
    folder_use(&f, "one", false, 1);
    assert_int_equal(folder_open(&f, "two", true), ERR_BAD);
    assert_non_null(
        strstr(f.note.text, "its folder belongs to the deployment 'one', this one is 'two'"));
    folder_use(&f, "one", true, 2);
    scratch_fini(&f.scratch);
}

static void a_folder_belongs_to_one_store_while_that_is_used(void **state)
{
    (void)state;
    struct folder f;
    folder_init(&f);
    folder_use(&f, "one", false, 1);
    assert_int_equal(folder_open_as(&f, "b", "one", true), ERR_BAD);
    assert_non_null(
        strstr(f.note.text, "is that of store 'a': were paths of queue.stores exchanged?"));
    folder_use(&f, "one", true, 2);
    assert_int_equal(folder_open_as(&f, "b", "one", false), ERR_OK);
    f.store->ops->close(&f.store);
    assert_int_equal(folder_open(&f, "one", true), ERR_BAD);
    scratch_fini(&f.scratch);
}

static void a_folder_from_before_goes_to_the_first_that_comes(void **state)
{
    (void)state;
    struct folder f;
    folder_init(&f);
    folder_use(&f, NULL, false, 1);
    folder_use(&f, "one", true, 2);
    assert_int_equal(folder_open(&f, "two", false), ERR_BAD);
    scratch_fini(&f.scratch);
}

static void a_folder_that_is_away_is_not_made_anew(void **state)
{
    (void)state;
    struct folder f;
    uint64_t epoch;
    folder_init(&f);
    folder_use(&f, "one", false, 1);
    assert_int_equal(rename(f.dir, f.away), 0);
    for (int mounted = 0; mounted <= 1;
         mounted++) { /* the folder is missing, or empty as a mount point */
        assert_int_equal(mounted == 0 ? 0 : mkdir(f.dir, 0700), 0);
        assert_int_equal(folder_open(&f, "one", true), ERR_OK);
        assert_non_null(strstr(f.failed, f.dir));
        assert_int_equal(folder_own(&f, &epoch), ERR_IO);
        assert_int_equal(f.store->ops->drop(f.store, PART, NULL), ERR_UNAVAILABLE);
        assert_int_equal(f.store->ops->recover(f.store, &f.note, NULL), ERR_UNAVAILABLE);
        assert_non_null(strstr(f.note.text, f.dir));
        if (mounted == 0)
            f.store->ops->close(&f.store);
    }
    assert_int_equal(rmdir(f.dir), 0); /* so nothing was put there */
    assert_int_equal(rename(f.away, f.dir), 0);
    assert_int_equal(f.store->ops->recover(f.store, &f.note, NULL), ERR_OK);
    assert_int_equal(f.recovered, 1);
    assert_int_equal(folder_own(&f, &epoch), ERR_OK);
    assert_int_equal(epoch, 2);
    f.store->ops->close(&f.store);
    scratch_fini(&f.scratch);
}

static void a_store_without_rows_is_not_taken_for_the_one_that_was_used(void **state)
{
    (void)state;
    struct folder f;
    uint64_t epoch;
    folder_init(&f);
    assert_int_equal(folder_open(&f, NULL, false), ERR_OK);
    f.store->ops->close(&f.store);
    assert_int_equal(folder_open(&f, "one", true), ERR_OK);
    assert_int_equal(folder_own(&f, &epoch), ERR_IO);
    f.store->ops->close(&f.store);
    scratch_fini(&f.scratch);
}

static void what_it_held_is_given_up_by_order(void **state)
{
    (void)state;
    struct folder f;
    folder_init(&f);
    folder_use(&f, "one", false, 1);
    assert_int_equal(rename(f.dir, f.away), 0);
    assert_int_equal(mkdir(f.dir, 0700), 0);
    folder_has_anew(&f, true);
    folder_use(&f, "one", true, 1);
    folder_has_anew(&f, true); /* left behind where the store is: it is removed, the store is not */
    folder_use(&f, "one", true, 2);
    folder_has_anew(&f, false);
    scratch_fini(&f.scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_of_its_own_passes),
        cmocka_unit_test(a_shared_engine_passes),
        cmocka_unit_test(a_folder_belongs_to_one_deployment),
        cmocka_unit_test(a_folder_belongs_to_one_store_while_that_is_used),
        cmocka_unit_test(a_folder_from_before_goes_to_the_first_that_comes),
        cmocka_unit_test(a_folder_that_is_away_is_not_made_anew),
        cmocka_unit_test(a_store_without_rows_is_not_taken_for_the_one_that_was_used),
        cmocka_unit_test(what_it_held_is_given_up_by_order),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
