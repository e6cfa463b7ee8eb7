/* Goal: a path is told to lie in a folder whatever links lead there, and what fails for lack of
 * room says how much is left.
 * Method: folders and links of the test's own. */
#include "base/disk.h"
#include "lib/folder.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void a_path_lies_where_its_links_lead(void **state)
{
    (void)state;
    char dir[FOLDER_PATH_BYTES];
    folder_make(dir);
    assert_int_equal(chdir(dir), 0);
    assert_int_equal(mkdir("store", 0700), 0);
    assert_int_equal(mkdir("store/log", 0700), 0);
    assert_int_equal(mkdir("store-b", 0700), 0);
    assert_int_equal(symlink("store", "link"), 0);
    static const struct {
        const char *path;
        bool lies;
    } cases[] = {
        { "store", true },
        { "store/", true },
        { "store/new", true },
        { "store/log/new/", true },
        { "link/new", true },
        { "store-b", false },
        { "store-b/new", false },
        { "new", false },
        { ".", false },
        { "..", false },
        { "store/../new", false },
        { "nowhere/new", false },
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++)
        if (disk_lies_in(cases[i].path, "store") != cases[i].lies)
            fail_msg("%s", cases[i].path);
    assert_true(disk_lies_in("new", "/"));
    assert_false(disk_lies_in("new", "nowhere"));
    assert_int_equal(chdir("/"), 0);
    folder_remove(dir);
}

static void lack_of_room_says_how_much_is_left(void **state)
{
    (void)state;
    struct err_note note;
    assert_int_equal(disk_fail(&note, "write", "/nowhere/at/all", ENOSPC), ERR_FULL);
    assert_non_null(strstr(note.text, "cannot write /nowhere/at/all: No space left on device ("));
    assert_non_null(strstr(note.text, "B free)"));
    assert_int_equal(disk_fail(&note, "write", "x", EEXIST), ERR_CONFLICT);
    assert_int_equal(disk_fail(&note, "write", "x", EIO), ERR_IO);
    assert_null(strstr(note.text, "free"));
    err_note_set(&note, "what");
    disk_note_full(&note, ERR_IO, "/");
    assert_string_equal(note.text, "what");
    disk_note_full(&note, ERR_FULL, "/");
    assert_non_null(strstr(note.text, "what: the disk of / has "));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_path_lies_where_its_links_lead),
        cmocka_unit_test(lack_of_room_says_how_much_is_left),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
