#include "pg_server.h"

#include "lib/free_port.h"
#include "lib/oracle.h"
#include "lib/wait.h"
#include "loop/loop.h"

#include <dirent.h>
#include <fcntl.h>
#include <glob.h>
#include <pwd.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    START_MS_MAX = 180000,
    ANSWER_MS_MAX = 20000,
    SQL_TIMEOUT_MS = 60000,
    PIDS_MAX = 64,
    LOOP_THREADS = 4
};
#define INSTALLED "/usr/lib/postgresql/*/bin/initdb"

/* In a child: as the user postgres when this is root, who may not run it; quiet; gone when the test
 * goes. */
static _Noreturn void become(struct pg_server *s, char *const argv[])
{
    char log[PG_SERVER_PATH_BYTES + 8];
    const struct passwd *p = getuid() == 0 ? getpwnam("postgres") : NULL;
    (void)snprintf(log, sizeof(log), "%s/log", s->dir);
    if (p != NULL && (setgid(p->pw_gid) != 0 || setuid(p->pw_uid) != 0))
        _exit(120);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || dup2(fd, 1) < 0 || dup2(fd, 2) < 0 || chdir(s->dir) != 0)
        _exit(121);
    prctl(PR_SET_PDEATHSIG, SIGQUIT);
    execv(argv[0], argv);
    _exit(122);
}

static pid_t spawn(struct pg_server *s, char *const argv[])
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        become(s, argv);
    return pid;
}

/* The newest PostgreSQL that Debian's packages installed. */
static void find_programs(struct pg_server *s)
{
    glob_t found;
    assert_int_equal(glob(INSTALLED, 0, NULL, &found), 0); /* pg_server_need saw it */
    str initdb = str_of(found.gl_pathv[found.gl_pathc - 1]);
    assert_true(initdb.n < sizeof s->bin);
    (void)snprintf(s->bin, sizeof s->bin, "%.*s", (int)(initdb.n - strlen("/initdb")), initdb.p);
    globfree(&found);
}

void pg_server_need(void)
{
    oracle_need(INSTALLED);
}

static void make_cluster(struct pg_server *s)
{
    char data[PG_SERVER_PATH_BYTES + 8], initdb[PG_SERVER_PATH_BYTES + 8];
    (void)snprintf(initdb, sizeof initdb, "%s/initdb", s->bin);
    (void)snprintf(data, sizeof(data), "%s/data", s->dir);
    char *argv[] = { initdb,  "-D", data, "-U",   "postgres",   "-A",
                     "trust", "-N", "-E", "UTF8", "--locale=C", NULL };
    int status = -1;
    pid_t pid = spawn(s, argv);
    assert_int_equal(waitpid(pid, &status, 0), pid);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
        fail_msg("%s failed: %d", initdb, status);
}

static void *loop_thread(void *loop)
{
    loop_run(loop);
    return NULL;
}

void pg_server_init(struct pg_server *s, struct clock *clock)
{
    const struct passwd *p = getuid() == 0 ? getpwnam("postgres") : NULL;
    pg_ask_nobody();
    *s = (struct pg_server){ .port = free_port(), .clock = clock, .loop = loop_new(LOOP_THREADS) };
    assert_int_equal(pthread_create(&s->thread, NULL, loop_thread, s->loop), 0);
    folder_make(s->dir);
    if (p != NULL)
        assert_int_equal(chown(s->dir, p->pw_uid, p->pw_gid), 0);
    (void)snprintf(s->url, sizeof(s->url), "postgresql://postgres@127.0.0.1:%u/postgres", s->port);
    find_programs(s);
    make_cluster(s);
    pg_server_start(s);
}

static bool answers(struct pg_server *s)
{
    struct pg_opts opts = {
        .url = s->url,
        .application = "test",
        .loop = s->loop,
        .clock = s->clock,
        .statement_timeout_ms = 10000,
    };
    struct pg *c = NULL;
    err why = pg_open(&opts, mono_add_ms(clock_mono(s->clock), ANSWER_MS_MAX), &c, NULL);
    pg_close_wait(&c);
    return why == ERR_OK;
}

void pg_server_start(struct pg_server *s)
{
    char data[PG_SERVER_PATH_BYTES + 8], postgres[PG_SERVER_PATH_BYTES + 16], port[16];
    (void)snprintf(data, sizeof(data), "%s/data", s->dir);
    (void)snprintf(postgres, sizeof postgres, "%s/postgres", s->bin);
    (void)snprintf(port, sizeof(port), "%u", s->port);
    char *argv[] = { postgres,
                     "-D",
                     data,
                     "-p",
                     port,
                     "-c",
                     "listen_addresses=127.0.0.1",
                     "-c",
                     "unix_socket_directories=",
                     "-c",
                     "fsync=off",
                     "-c",
                     "shared_buffers=16MB",
                     NULL };
    s->pid = spawn(s, argv);
    mono deadline = mono_add_ms(clock_mono(s->clock), START_MS_MAX);
    int status = 0; /* of the one that ended last */
    while (!answers(s)) {
        if (clock_mono(s->clock).ns >= deadline.ns)
            fail_msg("PostgreSQL does not answer; it ended with exit code %d: %s/log",
                     WEXITSTATUS(status), s->dir);
        wait_pause(20); /* between two looks */
        if (waitpid(s->pid, &status, WNOHANG) !=
            0) /* refused: a child of the one that was killed has its memory yet */
            s->pid = spawn(s, argv);
    }
}

static pid_t parent_of(pid_t pid)
{
    char path[32], line[256] = "";
    (void)snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *f = fopen(path, "r");
    if (f == NULL)
        return 0;
    str s = fgets(line, sizeof(line), f) == NULL ? STR_NONE : str_of(line);
    fclose(f);
    uint64_t parent = 0;
    str rest = str_skip(s, str_find_str(s, STR(") ")) + 4); /* pid (name) state parent */
    return str_to_u64(str_split(&rest, ' '), &parent) ? (pid_t)parent : 0;
}

/* The postmaster first, so that it begins no more. */
static void signal_all(struct pg_server *s, int signal_number)
{
    pid_t pids[PIDS_MAX];
    unsigned count = 0;
    DIR *dir = opendir("/proc");
    assert_non_null(dir);
    if (signal_number != SIGCONT)
        kill(s->pid, SIGSTOP);
    for (struct dirent *d = readdir(dir); d != NULL && count < PIDS_MAX; d = readdir(dir)) {
        uint64_t pid = 0;
        if (str_to_u64(str_of(d->d_name), &pid) && parent_of((pid_t)pid) == s->pid)
            pids[count++] = (pid_t)pid;
    }
    closedir(dir);
    for (unsigned i = 0; i < count; i++)
        kill(pids[i], signal_number);
    kill(s->pid, signal_number);
}

void pg_server_kill(struct pg_server *s)
{
    if (s->pid == 0)
        return;
    signal_all(s, SIGKILL);
    assert_int_equal(waitpid(s->pid, NULL, 0), s->pid);
    s->pid = 0;
}

void pg_server_pause(struct pg_server *s, bool pause)
{
    signal_all(s, pause ? SIGSTOP : SIGCONT);
}

void pg_server_fini(struct pg_server *s)
{
    pg_server_kill(s);
    folder_remove(s->dir);
    loop_stop(s->loop);
    pthread_join(s->thread, NULL);
    loop_free(&s->loop);
}

struct pg *pg_server_connect(struct pg_server *s)
{
    struct pg *c = NULL;
    struct pg_opts opts = {
        .url = s->url, .application = "test", .loop = s->loop, .clock = s->clock
    };
    assert_int_equal(pg_open(&opts, mono_add_ms(clock_mono(s->clock), SQL_TIMEOUT_MS), &c, NULL),
                     ERR_OK);
    return c;
}

void pg_server_run(struct pg_server *s, struct pg *c, const char *sql, struct pg_rows **rows)
{
    struct pg_outcome o;
    pg_run_one(c, sql, NULL, mono_add_ms(clock_mono(s->clock), SQL_TIMEOUT_MS), rows, &o);
    if (o.why != ERR_OK)
        fail_msg("%s: %s", sql, o.note.text);
}

int64_t pg_server_number(struct pg_server *s, struct pg *c, const char *sql)
{
    struct pg_rows *rows = NULL;
    pg_server_run(s, c, sql, &rows);
    assert_int_equal(pg_rows_count(rows), 1);
    int64_t n = pg_i64(rows, 0, 0);
    pg_rows_free(&rows);
    return n;
}
