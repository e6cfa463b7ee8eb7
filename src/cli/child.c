/* child.c - starts a child process with pipes and waits for its end. Invariant: a child that was
 * started is waited for exactly once, also after a failure. */
#include "cli/child.h"
#include "cli/stop.h"
#include "loop/signals.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { PAUSE_MS_MAX = 64 };

static err spawn(struct child *c, const char *const *argv, int in, int out, struct err_note *note)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    sigset_t defaults;
    signals_of_child(&defaults);
    int e = posix_spawn_file_actions_init(&actions);
    INVARIANT(e == 0);
    e = posix_spawnattr_init(&attr);
    INVARIANT(e == 0);
    (void)posix_spawnattr_setsigdefault(&attr, &defaults); /* fail only on a bad attr */
    (void)posix_spawnattr_setflags(&attr, POSIX_SPAWN_SETSIGDEF);
    e = posix_spawn_file_actions_adddup2(&actions, in, STDIN_FILENO);
    if (e == 0)
        e = posix_spawn_file_actions_adddup2(&actions, out, STDOUT_FILENO);
    if (e == 0)
        e = posix_spawnp(&c->pid, argv[0], &actions, &attr, (char *const *)(uintptr_t)argv,
                         environ);
    posix_spawn_file_actions_destroy(&actions);
    posix_spawnattr_destroy(&attr);
    if (e == 0)
        return ERR_OK;
    err_note_set(note, "cannot run %s: %s", argv[0], strerror(e));
    return ERR_IO;
}

static void close_pair(int pair[2])
{
    for (int i = 0; i < 2; i++)
        if (pair[i] >= 0)
            close(pair[i]);
}

err child_start(struct child *c, const char *const *argv, int stdin_fd, struct err_note *note)
{
    int in[2] = { -1, -1 }, out[2] = { -1, -1 };
    *c = (struct child){ .name = argv[0] };
    if (pipe2(out, O_CLOEXEC) != 0 || (stdin_fd < 0 && pipe2(in, O_CLOEXEC) != 0)) {
        err_note_set(note, "cannot make a pipe: %s", strerror(errno));
        close_pair(in);
        close_pair(out);
        return ERR_IO;
    }
    err e = spawn(c, argv, stdin_fd < 0 ? in[0] : stdin_fd, out[1], note);
    close(out[1]);
    if (in[0] >= 0)
        close(in[0]);
    if (e != ERR_OK) {
        close(out[0]);
        if (in[1] >= 0)
            close(in[1]);
        return e;
    }
    c->from = stop_stream(out[0]);
    c->to = stdin_fd < 0 ? fdopen(in[1], "wb") : NULL;
    INVARIANT(stdin_fd >= 0 || c->to != NULL);
    return ERR_OK;
}

/* Waits for its end. A signal that asks for ours ends it at once: it only reads, and need not
 * agree. */
static pid_t reap(const struct child *c, int *status)
{
    pid_t got = 0;
    for (int pause_ms = 1; got == 0; pause_ms = pause_ms < PAUSE_MS_MAX ? 2 * pause_ms : pause_ms) {
        got = waitpid(c->pid, status, WNOHANG);
        if (got == 0)
            (void)stop_wait(-1, pause_ms); /* whether it has ended is asked next */
        if (got == 0 && stop_asked())
            break;
    }
    if (got == 0)
        (void)kill(c->pid, SIGKILL); /* it is ours, and not waited for yet */
    while (got == 0 || (got < 0 && errno == EINTR))
        got = waitpid(c->pid, status, 0);
    return got;
}

err child_end(struct child *c, struct err_note *note)
{
    if (c->to != NULL)
        fclose(c->to);
    if (c->from != NULL)
        fclose(c->from);
    if (c->pid <= 0) /* it was never started */
        return ERR_OK;
    int status = 0;
    pid_t got = reap(c, &status);
    if (got != c->pid || (WIFEXITED(status) && WEXITSTATUS(status) != 0)) {
        err_note_set(note, "%s exited with %d", c->name,
                     WIFEXITED(status) ? WEXITSTATUS(status) : -1);
        return ERR_IO;
    }
    if (WIFSIGNALED(status) && WTERMSIG(status) != SIGPIPE) {
        err_note_set(note, "%s was ended by signal %d", c->name, WTERMSIG(status));
        return ERR_IO;
    }
    return ERR_OK;
}

void child_drop(struct child *c)
{
    err e = child_end(c, NULL);
    (void)e; /* what matters of its output was checked when it was read */
}
