/* Goal: a unix socket is a listener as others are: its file has its mode, is taken over when nobody
 * listens there, and never taken away from somebody; who is slow on it is cut as over TCP, and
 * nobody else. Method: files in a folder of its own, raw sockets, the sweep called from the test.
 */
#include "echo.h"
#include "wire.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cmocka.h>

enum { HEAD_MS = 300, NEVER_MS = 3600000, TICK_MS = 10, LARGE = 20000000 };

/* ---- who is quicker than the server ---- */

static void (*bound)(void); /* what somebody does when the file is there; NULL: nothing */

int __real_bind(int fd, const struct sockaddr *at, socklen_t n);
int __wrap_bind(int fd, const struct sockaddr *at, socklen_t n);
int __wrap_bind(int fd, const struct sockaddr *at, socklen_t n)
{
    int got = __real_bind(fd, at, n);
    if (got == 0 && at->sa_family == AF_UNIX && bound != NULL)
        bound();
    return got;
}

static struct wire_answer answer;
static char folder[] = "/tmp/http-listen-XXXXXX", address[128], other[128];
static const char *path, *other_path;

static int make_folder(void **state)
{
    (void)state;
    assert_non_null(mkdtemp(folder));
    (void)snprintf(address, sizeof address, "unix:%s/s", folder);
    (void)snprintf(other, sizeof other, "unix:%s/other", folder);
    path = http_listen_path(address);
    other_path = http_listen_path(other);
    return 0;
}

static int drop_folder(void **state)
{
    (void)state;
    return rmdir(folder); /* each test took away what it made */
}

static struct echo *start(int64_t rate)
{
    const struct http_limits limits = { .threads = 2,
                                        .connections_max = 100,
                                        .head_timeout_ms = HEAD_MS,
                                        .idle_timeout_ms = NEVER_MS,
                                        .body_bytes_per_s_min = rate,
                                        .send_bytes_per_s_min = rate };
    echo_unix(address, 0640);
    return echo_start(&limits);
}

static bool is_there(const char *at)
{
    struct stat is;
    return lstat(at, &is) == 0;
}

/* ---- the file ---- */

static mode_t open_mode = 0600;

static err open_on(const char *at, struct http_server **out, struct err_note *note)
{
    static const struct http_route none[] = { { .pattern = NULL } };
    static const struct http_route *const tables[] = { none };
    const struct http_listen listens[] = { { .address = at, .mode = open_mode, .content = true } };
    const struct http_server_opts opts = {
        .listens = listens,
        .listens_count = 1,
        .tables = tables,
        .tables_count = 1,
        .limits = { .connections_max = 10 },
        .clock = echo_clock(),
        .hooks = { .refuse =
                       (void (*)(struct http_exchange *, int, const char *, str, void *))abort },
    };
    return http_server_new(&opts, out, note);
}

static void refused(const char *at, const char *why)
{
    struct http_server *s = NULL;
    struct err_note note = { "" };
    assert_int_equal(open_on(at, &s, &note), ERR_UNAVAILABLE);
    assert_null(s);
    if (strstr(note.text, why) == NULL)
        fail_msg("\"%s\" and not \"%s\"", note.text, why);
}

static void requests_over_a_unix_socket_are_answered(void **state)
{
    (void)state;
    struct echo *e = start(1000);
    struct stat is;
    assert_int_equal(lstat(path, &is), 0);
    assert_int_equal(is.st_mode, S_IFSOCK | 0640);
    assert_int_equal(echo_port(e, 2), 0);
    int fd = wire_connect_unix(path);
    for (int i = 0; i < 3; i++) {
        assert_true(wire_send(fd, STR("GET /echo/a HTTP/1.1\r\nHost: a\r\n\r\n")));
        wire_read(fd, false, &answer);
        assert_int_equal(answer.status, 200);
        assert_non_null(strstr(answer.body, "\npeer=unix\n"));
    }
    close(fd);
    wire_ask(echo_port(e, 0), STR("GET /echo/a HTTP/1.1\r\nHost: a\r\n\r\n"), &answer);
    assert_non_null(strstr(answer.body, "\npeer=127.0.0.1\n"));
    echo_stop(&e);
    assert_false(is_there(path));
}

static mode_t mode_first;

static void look_at_mode(void)
{
    struct stat is;
    mode_first = lstat(path, &is) == 0 ? is.st_mode : 0;
}

static void the_file_has_its_mode_from_the_beginning(void **state)
{
    (void)state;
    static const mode_t modes[] = { 0, 0600, 0640, 0660, 0777 };
    mode_t before = umask(0027);
    bound = look_at_mode;
    for (unsigned i = 0; i < COUNT_OF(modes); i++) {
        struct http_server *s = NULL;
        struct err_note note = { "" };
        struct stat is;
        open_mode = modes[i];
        if (open_on(address, &s, &note) != ERR_OK)
            fail_msg("%s", note.text);
        assert_int_equal(mode_first, S_IFSOCK | modes[i]);
        assert_int_equal(lstat(path, &is), 0);
        assert_int_equal(is.st_mode, S_IFSOCK | modes[i]);
        http_server_free(&s);
        assert_false(is_there(path));
    }
    bound = NULL;
    open_mode = 0600;
    assert_int_equal(umask(before), 0027);
}

static void put_a_link_there(void)
{
    INVARIANT(unlink(path) == 0);
    INVARIANT(symlink(other_path, path) == 0);
}

/* Of who may write the folder. */
static void a_link_in_the_place_of_the_file_changes_nothing_where_it_leads(void **state)
{
    (void)state;
    struct stat is;
    assert_int_equal(close(open(other_path, O_CREAT | O_WRONLY, 0400)), 0);
    bound = put_a_link_there;
    refused(address, "the file is there, and no socket");
    bound = NULL;
    assert_int_equal(lstat(other_path, &is), 0);
    assert_int_equal(is.st_mode, S_IFREG | 0400);
    assert_int_equal(lstat(path, &is), 0);
    assert_true(S_ISLNK(is.st_mode));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other_path), 0);
}

/* As a server leaves it that was killed. */
static void leave_stale(void)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    assert_true(str_to_cstr(str_of(path), at.sun_path, sizeof at.sun_path));
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof at), 0);
    assert_int_equal(listen(fd, 1), 0);
    close(fd);
    assert_true(is_there(path));
}

/* Whoever may read the folder may hold a lock on it, for ever. */
static void a_folder_that_somebody_locks_is_no_obstacle(void **state)
{
    (void)state;
    struct http_server *s = NULL, *second = NULL;
    struct err_note note = { "" };
    int lock = open(folder, O_RDONLY | O_DIRECTORY);
    assert_int_equal(flock(lock, LOCK_EX), 0);
    leave_stale();
    if (open_on(address, &s, &note) != ERR_OK)
        fail_msg("%s", note.text);
    assert_int_equal(open_on(address, &second, &note), ERR_UNAVAILABLE); /* somebody listens */
    http_server_free(&s);
    assert_false(is_there(path));
    close(lock);
}

static void a_stale_file_is_taken_over(void **state)
{
    (void)state;
    leave_stale();
    struct echo *e = start(1000);
    int fd = wire_connect_unix(path);
    close(fd);
    echo_stop(&e);
    assert_false(is_there(path));
}

static void a_file_where_somebody_listens_stays_theirs(void **state)
{
    (void)state;
    struct echo *e = start(1000);
    refused(address, "Address already in use");
    int fd = wire_connect_unix(path);
    close(fd);
    echo_stop(&e);
}

static void a_file_that_is_no_socket_is_left(void **state)
{
    (void)state;
    assert_int_equal(close(open(path, O_CREAT | O_WRONLY, 0600)), 0);
    refused(address, "the file is there, and no socket");
    assert_int_equal(symlink(path, other_path), 0);
    refused(other, "the file is there, and no socket");
    assert_true(is_there(path) && is_there(other_path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other_path), 0);
    refused("unix:/none/of/this/is/there", "No such file");
}

/* Somebody put another file in its place. */
static void a_file_of_somebody_else_is_not_removed(void **state)
{
    (void)state;
    struct echo *e = start(1000);
    assert_int_equal(rename(path, other_path), 0);
    leave_stale();
    echo_stop(&e);
    assert_true(is_there(path));
    assert_int_equal(unlink(path), 0);
    assert_int_equal(unlink(other_path), 0);
}

/* ---- who is slow ---- */

static void cut_within(struct echo *e, const char *first, const char *drip)
{
    int fd = wire_connect_unix(path);
    struct pollfd p = { .fd = fd, .events = POLLIN };
    assert_true(wire_send(fd, str_of(first)));
    int64_t began = wire_now_ms(), ms = 0;
    for (bool gone = false; !gone && ms < WIRE_DEADLINE_MS; ms = wire_now_ms() - began) {
        http_server_sweep(echo_server(e));
        gone = (drip[0] != 0 && !wire_send(fd, str_of(drip))) || poll(&p, 1, TICK_MS) > 0;
    }
    assert_true(ms >= HEAD_MS && ms < WIRE_DEADLINE_MS);
    close(fd);
}

static void slow_heads_and_bodies_are_cut(void **state)
{
    (void)state;
    struct echo *e = start(2000);
    cut_within(e, "GET /rea", "");
    cut_within(e, "GET /ready HTTP/1.1\r\nHost: a\r\n", "X: y\r\n");
    cut_within(e, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n", "");
    cut_within(e, "POST /count HTTP/1.1\r\nHost: a\r\nContent-Length: 500000\r\n\r\n", "abc");
    assert_int_equal(http_server_cut(echo_server(e)), 4);
    echo_stop(&e);
}

static int ask_large(struct echo *e)
{
    int fd = wire_connect_unix(path);
    assert_true(wire_send(fd, STR("GET /size/20000000 HTTP/1.1\r\nHost: a\r\n\r\n")));
    char first;
    assert_int_equal(recv(fd, &first, 1, MSG_PEEK), 1);
    (void)e;
    return fd;
}

/* It reads nothing, or a hundredth of the least. What lies in the socket has its time, too. */
static void slow_readers_are_cut(void **state)
{
    (void)state;
    enum { RATE = 1000000 };
    struct echo *e = start(RATE);
    char piece[100];
    for (size_t takes = 0; takes <= sizeof piece; takes += sizeof piece) {
        int fd = ask_large(e);
        int64_t began = wire_now_ms(), ms = 0;
        uint64_t before = http_server_cut(echo_server(e));
        for (; http_server_cut(echo_server(e)) == before && ms < WIRE_DEADLINE_MS;
             ms = wire_now_ms() - began) {
            http_server_sweep(echo_server(e));
            if (takes > 0)
                assert_int_equal(recv(fd, piece, takes, 0), takes);
            (void)poll(NULL, 0, TICK_MS);
        }
        assert_true(ms >= HEAD_MS && ms < WIRE_DEADLINE_MS);
        close(fd);
    }
    echo_stop(&e);
}

/* At twice the least rate, and yet no piece leaves the socket for ten times head_timeout. */
static void a_reader_of_parts_of_pieces_is_not_cut(void **state)
{
    (void)state;
    enum { RATE = 20000, LOOKS = 30, EACH_MS = 100 };
    struct echo *e = start(RATE);
    char piece[2 * RATE * EACH_MS / 1000];
    int fd = ask_large(e);
    for (int i = 0; i < LOOKS; i++) {
        assert_true(recv(fd, piece, sizeof piece, 0) > 0);
        for (int k = 0; k < EACH_MS / TICK_MS; k++) {
            http_server_sweep(echo_server(e));
            (void)poll(NULL, 0, TICK_MS);
        }
    }
    assert_int_equal(http_server_cut(echo_server(e)), 0);
    close(fd);
    echo_stop(&e);
}

/* Through many windows, and to the end. */
static void a_reader_that_keeps_reading_is_not_cut(void **state)
{
    (void)state;
    struct echo *e = start(200000);
    static char piece[1 << 16];
    int fd = ask_large(e);
    size_t all = 0;
    while (all < LARGE) {
        http_server_sweep(echo_server(e));
        ssize_t n = recv(fd, piece, sizeof piece, 0);
        assert_true(n > 0);
        all += (size_t)n;
        (void)poll(NULL, 0, TICK_MS);
    }
    assert_int_equal(http_server_cut(echo_server(e)), 0);
    close(fd);
    echo_stop(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(requests_over_a_unix_socket_are_answered),
        cmocka_unit_test(the_file_has_its_mode_from_the_beginning),
        cmocka_unit_test(a_link_in_the_place_of_the_file_changes_nothing_where_it_leads),
        cmocka_unit_test(a_folder_that_somebody_locks_is_no_obstacle),
        cmocka_unit_test(a_stale_file_is_taken_over),
        cmocka_unit_test(a_file_where_somebody_listens_stays_theirs),
        cmocka_unit_test(a_file_that_is_no_socket_is_left),
        cmocka_unit_test(a_file_of_somebody_else_is_not_removed),
        cmocka_unit_test(slow_heads_and_bodies_are_cut),
        cmocka_unit_test(slow_readers_are_cut),
        cmocka_unit_test(a_reader_of_parts_of_pieces_is_not_cut),
        cmocka_unit_test(a_reader_that_keeps_reading_is_not_cut),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
