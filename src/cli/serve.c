/* serve.c - palimpsest serve and options: the server itself, and the table of what it can be
 * told. */
#include "server/serve.h"
#include "cli/help.h"
#include "cli/verbs.h"
#include "server/options.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void print_options(FILE *to, enum options_form form)
{
    struct buf text;
    buf_init(&text, 1u << 20);
    options_describe(form, &text);
    INVARIANT(buf_status(&text) == ERR_OK);
    if (form == OPTIONS_TEXT)
        help_lines(to, buf_str(&text));
    else
        (void)fwrite(text.p, 1, text.n, to); /* cli_run looks at the stream */
    buf_fini(&text);
}

static bool asks_for_help(int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], "--help") == 0 || strcmp(argv[i], "-h") == 0)
            return true;
    return false;
}

enum cli_exit verb_serve(int argc, char **argv)
{
    if (asks_for_help(argc, argv)) {
        for (const struct cli_verb *v = cli_verbs; v->name != NULL; v++)
            if (v->run_raw == verb_serve)
                cli_print_help(v);
        printf("\nOptions of --set, the file and the environment:\n");
        print_options(stdout, OPTIONS_TEXT);
        return CLI_OK;
    }
    return (enum cli_exit)serve_main(argc - 1, argv + 1, environ);
}

void serve_man_options(FILE *to)
{
    fputs(".SS \"Options of --set, the file and the environment\"\n", to);
    print_options(to, OPTIONS_ROFF);
}

enum cli_exit verb_options(struct cli_call *call)
{
    print_options(stdout, cli_flag(call, "markdown") ? OPTIONS_MARKDOWN
                          : cli_flag(call, "roff")   ? OPTIONS_ROFF
                                                     : OPTIONS_TEXT);
    return CLI_OK;
}
