/* main.c - entry of the one binary. */
#include "base/check.h"
#include "cli/cli.h"
#include "loop/signals.h"

#include <fcntl.h>
#include <unistd.h>

/* A stream that was closed before us would be the next file opened: what is printed would go into a
 * store. It gets what can neither be read nor written as it would be, so that each use fails as
 * before. */
static void hold_streams(void)
{
    static const int modes[] = {
        [STDIN_FILENO] = O_WRONLY, [STDOUT_FILENO] = O_RDONLY, [STDERR_FILENO] = O_RDONLY
    };
    for (int fd = 0; fd < (int)COUNT_OF(modes); fd++)
        if (fcntl(fd, F_GETFD) < 0)
            INVARIANT(open("/dev/null", modes[fd]) == fd); /* the lowest that is free */
}

int main(int argc, char **argv)
{
    hold_streams();
    signals_ignore(SIGNALS_FILE_SIZE);
    return (int)cli_run(argc, argv);
}
