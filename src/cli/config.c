/* config.c - see config.h. */
#include "cli/config.h"

#include "server/options.h"

#include <string.h>
#include <unistd.h>

struct told {
    const struct cli_call *call;
    enum cli_exit code;
};

static void tell_fault(void *ctx, const char *line)
{
    struct told *t = ctx;
    t->code = cli_fail(t->call, CLI_USAGE, "%s", line);
}

enum cli_exit config_load(struct options *o, const struct cli_call *call)
{
    char *args[2 * CLI_GIVEN_MAX + 1];
    int count = 0;
    char config[] = "--config", set[] = "--set";
    for (unsigned i = 0; i < call->given_count; i++) {
        const char *name = call->given[i].option->name;
        bool is_config = strcmp(name, "config") == 0;
        if (!is_config && strcmp(name, "set") != 0)
            continue;
        args[count++] = is_config ? config : set;
        args[count++] =
            (char *)(uintptr_t)call->given[i].value; /* argv's own, and not written to */
    }
    args[count] = NULL;
    struct err_note note;
    struct options_sources from = { .argc = count, .argv = args, .envp = environ };
    if (options_load(o, &from, &note) == ERR_OK)
        return CLI_OK;
    struct told told = { .call = call, .code = CLI_USAGE };
    options_faults(o, &note, tell_fault, &told);
    return told.code;
}
