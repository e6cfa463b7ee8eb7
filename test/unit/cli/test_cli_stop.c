/* Goal: every wait ends on a signal, also on one that came just before the wait, when nothing
 * interrupts it any more. Method: a process of its own for each case takes the signal first and
 * waits then; the test waits for its end. */
#include "cli/child.h"
#include "cli/stop.h"
#include "cli/upload.h"
#include "lib/folder.h"
#include "loop/sysclock.h"

#include "../cmocka_all.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { PATIENCE_MS = 120000 };

/* Runs in a process of its own, a signal behind it. True: it ended as it should. */
typedef bool after_signal_fn(void);

static void in_process(after_signal_fn *run)
{
    int ended[2];
    assert_int_equal(pipe(ended), 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        stop_watch();
        (void)raise(SIGTERM);
        _exit(run() ? 0 : 1);
    }
    close(ended[1]);
    struct pollfd end = { .fd = ended[0], .events = POLLIN };
    int n = poll(&end, 1, PATIENCE_MS);
    if (n == 0)
        (void)kill(pid, SIGKILL);
    int status = 0;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    close(ended[0]);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
}

static bool reads_a_pipe(void)
{
    int held[2];
    if (pipe(held) != 0)
        return false;
    FILE *from = stop_stream(held[0]);
    return fgetc(from) == EOF && ferror(from) && errno == EINTR && fclose(from) == 0;
}

static void a_read_of_a_pipe_ends_on_a_signal_before_it(void **state)
{
    (void)state;
    in_process(reads_a_pipe);
}

static bool opens_a_fifo(void)
{
    char dir[FOLDER_PATH_BYTES], path[2 * FOLDER_PATH_BYTES];
    folder_make(dir);
    (void)snprintf(path, sizeof path, "%s/fifo", dir);
    bool fine = mkfifo(path, 0600) == 0;
    FILE *from = fine ? stop_open(path) : NULL;
    fine = from != NULL && fgetc(from) == EOF && ferror(from) && fclose(from) == 0;
    folder_remove(dir);
    return fine;
}

static void a_fifo_without_a_writer_ends_on_a_signal_before_it(void **state)
{
    (void)state;
    in_process(opens_a_fifo);
}

static bool waits_for_nothing(void)
{
    return !stop_wait(-1, -1);
}

static void a_wait_ends_on_a_signal_before_it(void **state)
{
    (void)state;
    in_process(waits_for_nothing);
}

/* It heeds neither its closed pipes nor SIGTERM, which it ignores from its start. */
static bool ends_a_child(void)
{
    struct err_note note;
    struct child c;
    const char *const argv[] = { "sh", "-c", "trap '' TERM PIPE; echo here; exec sleep 1000",
                                 NULL };
    if (child_start(&c, argv, -1, &note) != ERR_OK)
        return false;
    return child_end(&c, &note) == ERR_IO && kill(c.pid, 0) != 0;
}

static void a_child_that_does_not_end_is_killed(void **state)
{
    (void)state;
    in_process(ends_a_child);
}

static bool uploads_to_nobody(void)
{
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    if (listener < 0 || bind(listener, (struct sockaddr *)&at, n) != 0 ||
        listen(listener, 8) != 0 || getsockname(listener, (struct sockaddr *)&at, &n) != 0)
        return false;
    char url[64];
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%d", ntohs(at.sin_port));
    struct client c;
    client_open_url(&c, url);
    c.domain = "localhost";
    c.bucket = "page";
    struct sysclock *sysclock = sysclock_new();
    struct uploads *u = uploads_new(&(struct uploads_opts){
        .client = &c, .clock = sysclock_clock(sysclock), .parallel = 1, .first = 1 });
    struct err_note note;
    struct upload_item item = { .title = STR("T"), .ask = true };
    err e = uploads_put(u, &item, &note);
    if (e == ERR_OK)
        e = uploads_finish(u, &note);
    uploads_free(&u);
    sysclock_free(&sysclock);
    close(listener);
    return e == ERR_SHUTDOWN;
}

static void an_upload_to_a_server_that_hangs_ends_on_a_signal_before_it(void **state)
{
    (void)state;
    in_process(uploads_to_nobody);
}

static void a_stream_reads_seeks_and_tells_errors_as_a_file_does(void **state)
{
    (void)state;
    char path[] = "/tmp/stop-XXXXXX", text[16];
    int fd = mkstemp(path);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, "one\ntwo\n", 8), 8);
    close(fd);
    FILE *from = stop_open(path);
    assert_non_null(from);
    assert_int_equal(fseek(from, 0, SEEK_END), 0);
    assert_int_equal(ftell(from), 8);
    assert_int_equal(fseek(from, 4, SEEK_SET), 0);
    assert_non_null(fgets(text, sizeof text, from));
    assert_string_equal(text, "two\n");
    assert_int_equal(fgetc(from), EOF);
    assert_true(feof(from) && !ferror(from));
    fclose(from);
    assert_int_equal(unlink(path), 0);
    assert_null(stop_open(path));
    assert_int_equal(errno, ENOENT);
    from = stop_open("/");
    assert_int_equal(fgetc(from), EOF);
    assert_true(ferror(from));
    assert_int_equal(errno, EISDIR);
    fclose(from);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_read_of_a_pipe_ends_on_a_signal_before_it),
        cmocka_unit_test(a_fifo_without_a_writer_ends_on_a_signal_before_it),
        cmocka_unit_test(a_wait_ends_on_a_signal_before_it),
        cmocka_unit_test(a_child_that_does_not_end_is_killed),
        cmocka_unit_test(an_upload_to_a_server_that_hangs_ends_on_a_signal_before_it),
        cmocka_unit_test(a_stream_reads_seeks_and_tells_errors_as_a_file_does),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
