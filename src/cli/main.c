/* main.c - entry of the one binary. */
#include "cli/cli.h"

int main(int argc, char **argv)
{
    return (int)cli_run(argc, argv);
}
