/* Goal: a file is replaced whole and on disk or not at all, nothing is left beside it, and nobody
 * gains rights over it. Method: in a folder of its own; fsync and rename are ours, write down their
 * order, and fail when told to. */
#include "cli/whole.h"

#include "../cmocka_all.h"
#include "base/str.h"
#include "lib/folder.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/* "f" a file, "d" a folder, "r" a rename; what comes at fail_at, counted from 1, fails. */
static char calls[16];
static size_t calls_count, fail_at;

static bool fails(char call)
{
    if (calls_count + 1 < sizeof calls)
        calls[calls_count++] = call;
    errno = EIO;
    return calls_count == fail_at;
}

int fsync(int fd);
int fsync(int fd)
{
    struct stat st;
    assert_int_equal(fstat(fd, &st), 0);
    return fails(S_ISDIR(st.st_mode) ? 'd' : 'f') ? -1 : (int)syscall(SYS_fsync, fd);
}

int rename(const char *from, const char *to);
int rename(const char *from, const char *to)
{
    return fails('r') ? -1 : (int)syscall(SYS_renameat2, AT_FDCWD, from, AT_FDCWD, to, 0);
}

static char dir[FOLDER_PATH_BYTES];
static char file[128];

static void begin(void)
{
    folder_make(dir);
    (void)snprintf(file, sizeof file, "%s/file", dir);
    memset(calls, 0, sizeof calls);
    calls_count = fail_at = 0;
}

static void put(const char *path, const char *text, mode_t mode)
{
    FILE *to = fopen(path, "w");
    assert_non_null(to);
    assert_true(fputs(text, to) >= 0);
    assert_int_equal(fclose(to), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void assert_holds(const char *path, const char *text)
{
    char got[64] = "";
    FILE *from = fopen(path, "r");
    assert_non_null(from);
    size_t n = fread(got, 1, sizeof got - 1, from);
    (void)fclose(from);
    got[n] = '\0';
    assert_string_equal(got, text);
}

static unsigned entries(void)
{
    DIR *d = opendir(dir);
    unsigned n = 0;
    assert_non_null(d);
    while (readdir(d) != NULL)
        n++;
    closedir(d);
    return n - 2;
}

static err write_whole(const char *path, const char *text, bool keep, struct err_note *note)
{
    struct whole w;
    err e = whole_begin(&w, path, note);
    if (e != ERR_OK)
        return e;
    assert_true(fputs(text, w.to) >= 0);
    return whole_end(&w, keep, note);
}

static void bytes_are_on_disk_before_the_name_and_the_name_before_the_end(void **state)
{
    (void)state;
    struct err_note note;
    begin();
    assert_int_equal(write_whole(file, "new", true, &note), ERR_OK);
    assert_string_equal(calls, "frd");
    assert_holds(file, "new");
    assert_int_equal(entries(), 1);
    folder_remove(dir);
}

static void each_failure_is_told_and_leaves_what_was_there_alone(void **state)
{
    (void)state;
    for (size_t at = 1; at <= 3; at++) {
        struct err_note note = { .text = "" };
        begin();
        put(file, "old", 0644);
        fail_at = at;
        assert_int_equal(write_whole(file, "new", true, &note), ERR_IO);
        assert_non_null(strstr(note.text, at == 3 ? "cannot sync the folder of" : "cannot write"));
        assert_non_null(strstr(note.text, strerror(EIO)));
        assert_holds(file, at == 3 ? "new" : "old");
        assert_int_equal(entries(), 1);
        folder_remove(dir);
    }
}

static void what_is_not_kept_leaves_nothing(void **state)
{
    (void)state;
    struct err_note note;
    begin();
    assert_int_equal(write_whole(file, "new", false, &note), ERR_OK);
    assert_int_equal(entries(), 0);
    folder_remove(dir);
}

static void permissions_are_kept_and_no_more_than_they(void **state)
{
    (void)state;
    struct err_note note;
    struct stat st;
    begin();
    put(file, "old", 06751);
    assert_int_equal(write_whole(file, "new", true, &note), ERR_OK);
    assert_int_equal(stat(file, &st), 0);
    assert_int_equal(st.st_mode & 07777, 0751);
    if (geteuid() == 0) {
        assert_int_equal(chown(file, 1234, 2345), 0);
        assert_int_equal(write_whole(file, "newer", true, &note), ERR_OK);
        assert_int_equal(stat(file, &st), 0);
        assert_int_equal(st.st_uid, 1234);
        assert_int_equal(st.st_gid, 2345);
        assert_int_equal(st.st_mode & 07777, 0751);
    }
    folder_remove(dir);
}

static void links_are_followed_but_not_those_of_others_in_a_folder_of_all(void **state)
{
    (void)state;
    struct err_note note;
    char link[160], second[160];
    begin();
    put(file, "old", 0600);
    (void)snprintf(link, sizeof link, "%s/link", dir);
    (void)snprintf(second, sizeof second, "%s/second", dir);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(symlink(link, second), 0);
    assert_int_equal(write_whole(second, "new", true, &note), ERR_OK);
    assert_holds(file, "new");
    assert_int_equal(unlink(link), 0);
    assert_int_equal(write_whole(second, "new", true, &note), ERR_BAD);
    assert_int_equal(symlink("second", link), 0);
    assert_int_equal(write_whole(second, "new", true, &note), ERR_IO);
    assert_int_equal(unlink(link), 0);
    assert_int_equal(symlink("file", link), 0);
    assert_int_equal(chmod(dir, 01777), 0);
    assert_int_equal(write_whole(second, "ours", true, &note), ERR_OK);
    if (geteuid() == 0) { /* only root makes links of others */
        assert_int_equal(lchown(link, 1234, 1234), 0);
        assert_int_equal(write_whole(second, "theirs", true, &note), ERR_DENIED);
        assert_int_equal(write_whole(link, "theirs", true, &note), ERR_DENIED);
        assert_int_equal(chmod(dir, 0700), 0);
        assert_int_equal(write_whole(link, "a folder of ours", true, &note), ERR_OK);
        assert_holds(file, "a folder of ours");
        assert_int_equal(entries(), 3);
    }
    folder_remove(dir);
}

static void a_name_as_long_as_names_can_be_is_written(void **state)
{
    (void)state;
    struct err_note note;
    char path[512];
    begin();
    (void)snprintf(path, sizeof path, "%s/%0255d", dir, 1);
    assert_int_equal(write_whole(path, "new", true, &note), ERR_OK);
    assert_holds(path, "new");
    assert_int_equal(entries(), 1);
    folder_remove(dir);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(bytes_are_on_disk_before_the_name_and_the_name_before_the_end),
        cmocka_unit_test(each_failure_is_told_and_leaves_what_was_there_alone),
        cmocka_unit_test(what_is_not_kept_leaves_nothing),
        cmocka_unit_test(permissions_are_kept_and_no_more_than_they),
        cmocka_unit_test(links_are_followed_but_not_those_of_others_in_a_folder_of_all),
        cmocka_unit_test(a_name_as_long_as_names_can_be_is_written),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
