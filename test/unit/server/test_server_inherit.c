/* Goal: sockets of a service manager are taken as sd_listen_fds(3) says, and what is none of them,
 * or not for this process, is refused or left alone.
 * Method: a child has files from descriptor 3 on and the variables, takes them, and says in shared
 * memory what it has got. */
#include "../cmocka_all.h"

#include "server/inherit.h"

#include "base/check.h"
#include "base/str.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

enum { FIRST_FD = 3, FILES_MAX = INHERITED_MAX + 1, HIGH_FD = 100, NUMBER_BYTES = 24 };

/* What the environment says. NULL: nothing; "us": the child's own number. */
struct said {
    const char *pid, *fds, *names;
};

struct taken {
    err why;
    struct err_note note;
    struct inherited got;
    bool left_variables;
    bool ready; /* all are close-on-exec, do not block, and send at once */
    bool done;
};
static struct taken *taken; /* the child writes it */

static int setup(void **state)
{
    (void)state;
    taken = mmap(NULL, sizeof *taken, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    return taken == MAP_FAILED ? -1 : 0;
}

static void say(const char *name, const char *value)
{
    char own[NUMBER_BYTES];
    (void)snprintf(own, sizeof own, "%d", (int)getpid());
    if (value == NULL)
        INVARIANT(unsetenv(name) == 0);
    else
        INVARIANT(setenv(name, strcmp(value, "us") == 0 ? own : value, 1) == 0);
}

static bool is_ready(const struct inherited_item *item)
{
    int delay = 0;
    socklen_t n = sizeof delay;
    bool fine = (fcntl(item->fd, F_GETFL) & O_NONBLOCK) != 0 &&
                (fcntl(item->fd, F_GETFD) & FD_CLOEXEC) != 0;
    if (item->port != 0)
        fine = fine && getsockopt(item->fd, IPPROTO_TCP, TCP_NODELAY, &delay, &n) == 0 && delay;
    return fine;
}

static void child(const int *files, unsigned count, const struct said *said)
{
    int high[FILES_MAX];
    for (unsigned i = 0; i < count; i++)
        INVARIANT((high[i] = fcntl(files[i], F_DUPFD, HIGH_FD)) >= 0);
    for (int fd = FIRST_FD; fd < HIGH_FD; fd++)
        (void)close(fd); /* most are not open */
    for (unsigned i = 0; i < count; i++)
        INVARIANT(dup2(high[i], FIRST_FD + (int)i) >= 0);
    say("LISTEN_PID", said->pid);
    say("LISTEN_FDS", said->fds);
    say("LISTEN_FDNAMES", said->names);
    taken->why = inherit_take(&taken->got, &taken->note);
    taken->left_variables = getenv("LISTEN_PID") != NULL || getenv("LISTEN_FDS") != NULL ||
                            getenv("LISTEN_FDNAMES") != NULL;
    taken->ready = true;
    for (unsigned i = 0; i < taken->got.count; i++)
        taken->ready = taken->ready && is_ready(&taken->got.items[i]);
    taken->done = true;
}

static void take(const int *files, unsigned count, struct said said)
{
    int status;
    memset(taken, 0, sizeof *taken);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0) {
        child(files, count, &said);
        _exit(0);
    }
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(taken->done);
    assert_false(taken->left_variables);
    assert_true(taken->ready);
}

static void is_refused(const int *files, unsigned count, struct said said, const char *note)
{
    take(files, count, said);
    if (taken->why != ERR_BAD || strstr(taken->note.text, note) == NULL)
        fail_msg("LISTEN_FDS=%s: %d \"%s\"", said.fds, (int)taken->why, taken->note.text);
}

static void takes_none(const int *files, unsigned count, struct said said)
{
    take(files, count, said);
    if (taken->why != ERR_OK || taken->got.count != 0)
        fail_msg("LISTEN_PID=%s LISTEN_FDS=%s: %d, %u", said.pid == NULL ? "" : said.pid,
                 said.fds == NULL ? "" : said.fds, (int)taken->why, taken->got.count);
}

/* ---- files ---- */

static int socket_bound(int family, int type, bool listens)
{
    struct sockaddr_in6 six = { .sin6_family = AF_INET6, .sin6_addr = in6addr_loopback };
    struct sockaddr_in four = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    bool is_six = family == AF_INET6;
    int fd = socket(family, type, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd,
                          is_six ? (const struct sockaddr *)&six : (const struct sockaddr *)&four,
                          is_six ? sizeof six : sizeof four),
                     0);
    assert_true(!listens || listen(fd, 1) == 0);
    return fd;
}

/* name: with its NUL in front when it is abstract. */
static int socket_unix(int type, const char *name, size_t name_n)
{
    struct sockaddr_un at = { .sun_family = AF_UNIX };
    int fd = socket(AF_UNIX, type, 0);
    assert_true(fd >= 0 && name_n <= sizeof at.sun_path);
    memcpy(at.sun_path, name, name_n);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at,
                          (socklen_t)(offsetof(struct sockaddr_un, sun_path) + name_n)),
                     0);
    assert_int_equal(listen(fd, 1), 0);
    return fd;
}

static uint16_t port_of(int fd)
{
    struct sockaddr_in6 at;
    socklen_t n = sizeof at;
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    return ntohs(at.sin6_port); /* where one of IPv4 has it, too */
}

/* ---- tests ---- */

static void what_is_for_others_is_left_alone(void **state)
{
    (void)state;
    int fd = socket_bound(AF_INET, SOCK_STREAM, true);
    takes_none(&fd, 1, (struct said){ NULL, NULL, NULL });
    takes_none(&fd, 1, (struct said){ NULL, "1", "web" });
    takes_none(&fd, 1, (struct said){ "1", "1", "web" });
    takes_none(&fd, 1, (struct said){ "", "1", "web" });
    takes_none(&fd, 1, (struct said){ "me", "1", "web" });
    takes_none(&fd, 1, (struct said){ "99999999999999999999", "1", "web" });
    takes_none(&fd, 1, (struct said){ "us", NULL, "web" });
    takes_none(&fd, 1, (struct said){ "us", "0", "web" });
    close(fd);
}

static void a_wrong_count_is_refused(void **state)
{
    (void)state;
    int files[FILES_MAX];
    for (unsigned i = 0; i < FILES_MAX; i++)
        files[i] = socket_bound(AF_INET, SOCK_STREAM, true);
    is_refused(files, 1, (struct said){ "us", "2", NULL }, "descriptor 4 is no stream socket");
    is_refused(files, 0, (struct said){ "us", "1", NULL }, "descriptor 3 is no stream socket");
    is_refused(files, FILES_MAX, (struct said){ "us", "10", NULL }, "more than 9 sockets");
    is_refused(files, 1, (struct said){ "us", "4294967297", NULL }, "more than 9 sockets");
    static const char *const wrong[] = { "", "-1", "one", "1 ", "0x1", "1.0", "+1" };
    for (size_t i = 0; i < COUNT_OF(wrong); i++)
        is_refused(files, 1, (struct said){ "us", wrong[i], NULL }, "is not a number");
    take(files, INHERITED_MAX, (struct said){ "us", "9", NULL });
    assert_int_equal(taken->why, ERR_OK);
    assert_int_equal(taken->got.count, INHERITED_MAX);
    for (unsigned i = 0; i < FILES_MAX; i++)
        close(files[i]);
}

static void what_is_no_stream_socket_that_listens_is_refused(void **state)
{
    (void)state;
    int pipes[2];
    assert_int_equal(pipe(pipes), 0);
    const int wrong[] = { socket_bound(AF_INET, SOCK_DGRAM, false),
                          socket_bound(AF_INET, SOCK_STREAM, false),
                          socket_unix(SOCK_SEQPACKET, "\0palimpsest-seq", 15),
                          open("/dev/null", O_RDONLY),
                          pipes[0],
                          pipes[1] };
    int fine = socket_bound(AF_INET, SOCK_STREAM, true);
    for (size_t i = 0; i < COUNT_OF(wrong); i++) {
        const int files[] = { fine, wrong[i] };
        is_refused(&wrong[i], 1, (struct said){ "us", "1", NULL }, "descriptor 3 is no stream");
        is_refused(files, 2, (struct said){ "us", "2", NULL }, "descriptor 4 is no stream");
        close(wrong[i]);
    }
    close(fine);
}

static void sockets_are_known_by_address_and_made_ready(void **state)
{
    (void)state;
    char folder[] = "/tmp/inherit-XXXXXX", path[108] = "";
    assert_non_null(mkdtemp(folder));
    int path_n = snprintf(path, sizeof path, "%s/", folder);
    memset(path + path_n, 's', sizeof path - 1 - (size_t)path_n); /* the longest there may be */
    const int files[] = { socket_bound(AF_INET, SOCK_STREAM, true),
                          socket_bound(AF_INET6, SOCK_STREAM, true),
                          socket_unix(SOCK_STREAM, path, sizeof path - 1),
                          socket_unix(SOCK_STREAM, "\0palimpsest-test", 16) };
    char wanted[INHERITED_ADDRESS_BYTES];
    take(files, COUNT_OF(files), (struct said){ "us", "4", NULL });
    assert_int_equal(taken->why, ERR_OK);
    assert_int_equal(taken->got.count, COUNT_OF(files));
    (void)snprintf(wanted, sizeof wanted, "unix:%s", path);
    static const char *const addresses[] = { "127.0.0.1", "::1", NULL, "unix:@palimpsest-test" };
    for (unsigned i = 0; i < COUNT_OF(files); i++) {
        const struct inherited_item *item = &taken->got.items[i];
        assert_int_equal(item->fd, FIRST_FD + (int)i);
        assert_string_equal(item->address, addresses[i] != NULL ? addresses[i] : wanted);
        assert_int_equal(item->port, i < 2 ? port_of(files[i]) : 0);
        assert_int_equal(item->what, INHERITED_CONTENT);
        close(files[i]);
    }
    assert_int_equal(unlink(path), 0);
    assert_int_equal(rmdir(folder), 0);
}

static void names_say_what_sockets_are_for(void **state)
{
    (void)state;
    static const char letters[] = {
        [INHERITED_CONTENT] = 'c', [INHERITED_ADMIN] = 'a', [INHERITED_PURGE] = 'p'
    };
    static const struct {
        const char *names, *what;
    } told[] = {
        { NULL, "ccc" },
        { "", "ccc" },
        { "web", "ccc" },
        { "admin", "acc" },
        { "web:admin:purge", "cap" },
        { "admin:admin:admin:admin", "aaa" },
        { "::purge", "ccp" },
        { "purge:", "pcc" },
        { "Admin:admin2: admin", "ccc" },
        { "palimpsest.socket:unknown:admin", "cca" },
    };
    int files[3];
    for (unsigned i = 0; i < COUNT_OF(files); i++)
        files[i] = socket_bound(AF_INET, SOCK_STREAM, true);
    for (size_t k = 0; k < COUNT_OF(told); k++) {
        take(files, COUNT_OF(files), (struct said){ "us", "3", told[k].names });
        assert_int_equal(taken->why, ERR_OK);
        assert_int_equal(taken->got.count, COUNT_OF(files));
        for (unsigned i = 0; i < COUNT_OF(files); i++)
            if (letters[taken->got.items[i].what] != told[k].what[i])
                fail_msg("\"%s\": socket %u is for %d", told[k].names, i,
                         (int)taken->got.items[i].what);
    }
    for (unsigned i = 0; i < COUNT_OF(files); i++)
        close(files[i]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_for_others_is_left_alone),
        cmocka_unit_test(a_wrong_count_is_refused),
        cmocka_unit_test(what_is_no_stream_socket_that_listens_is_refused),
        cmocka_unit_test(sockets_are_known_by_address_and_made_ready),
        cmocka_unit_test(names_say_what_sockets_are_for),
    };
    return cmocka_run_group_tests(tests, setup, NULL);
}
