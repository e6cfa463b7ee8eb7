/* main.c - entry of the one binary. */
#include "base/check.h"
#include "cli/cli.h"

#include <signal.h>

int main(int argc, char **argv)
{
    INVARIANT(signal(SIGXFSZ, SIG_IGN) != SIG_ERR); /* RLIMIT_FSIZE: the write fails instead, which is told */
    return (int)cli_run(argc, argv);
}
