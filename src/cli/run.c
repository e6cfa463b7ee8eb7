/* run.c - from the command line to the verb. */
#include "cli/args.h"
#include "cli/help.h"

#include <stdio.h>
#include <string.h>

/* Before a command line is understood: does it ask for JSON, of errors too? */
static struct cli_call bare_call(int argc, char **argv)
{
    struct cli_call call = { .verb = NULL };
    for (int i = 0; i < argc && strcmp(argv[i], "--") != 0; i++)
        if (strcmp(argv[i], "--json") == 0 && call.given_count == 0)
            call.given[call.given_count++] =
                (struct cli_given){ .option = args_json_option(), .value = "" };
    return call;
}

/* What is no verb: a group of verbs alone or asked for help tells of its verbs. */
static enum cli_exit no_verb(int argc, char **argv, bool asked)
{
    struct cli_call bare = bare_call(argc, argv), *call = &bare;
    bool is_group = help_is_group(argv[0]);
    asked = asked || (argc == 2 && (strcmp(argv[1], "--help") == 0 || strcmp(argv[1], "-h") == 0));
    if (is_group && (argc == 1 || asked)) {
        help_group(asked ? stdout : stderr, argv[0]);
        return asked ? CLI_OK : CLI_USAGE;
    }
    if (is_group && argv[1][0] == '-')
        return cli_fail(call, CLI_USAGE, "%s: a verb is missing, before %s; try palimpsest help %s",
                        argv[0], argv[1], argv[0]);
    if (is_group)
        return cli_fail(call, CLI_USAGE, "no verb \"%s %s\"; try palimpsest help %s", argv[0],
                        argv[1], argv[0]);
    if (argv[0][0] == '-')
        return cli_fail(call, CLI_USAGE,
                        "a verb is missing, before %s (--server, --token, --domain, --bucket and "
                        "--json alone may stand before it); try palimpsest help",
                        argv[0]);
    return cli_fail(call, CLI_USAGE, "no verb \"%s\"; try palimpsest help", argv[0]);
}

static enum cli_exit run_help(int argc, char **argv)
{
    if (argc == 0) {
        help_overview(stdout);
        return CLI_OK;
    }
    int words;
    const struct cli_verb *v = args_verb(cli_verbs, argc, argv, &words);
    if (v == NULL)
        return no_verb(argc, argv, argc == 1);
    cli_print_help(v);
    return CLI_OK;
}

static enum cli_exit run_verb(const struct cli_verb *v, int argc, char **argv)
{
    struct cli_call call = bare_call(argc, argv);
    struct err_note note;
    if (args_parse(v, argc, argv, &call, &note) != ERR_OK)
        return cli_fail(&call, CLI_USAGE, "%s: %s", v->name, note.text);
    if (call.help) {
        cli_print_help(v);
        return CLI_OK;
    }
    return v->run(&call);
}

static bool asks_help(const char *word)
{
    return strcmp(word, "help") == 0 || strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0;
}

/* argv[0] is the verb's first word, `moved` options of every verb behind it stood before. */
static enum cli_exit cli_run_run(int argc, char **argv, int moved)
{
    char version[] = "version";
    if (asks_help(argv[0]))
        return run_help(argc - 1 - moved, argv + 1 + moved);
    if (strcmp(argv[0], "--version") == 0)
        argv[0] = version;
    int words;
    const struct cli_verb *v = args_verb(cli_verbs, argc, argv, &words);
    if (v == NULL)
        return no_verb(argc, argv, false);
    if (v->run_raw != NULL)
        return v->run_raw(argc - words + 1, argv + words - 1);
    return run_verb(v, argc - words, argv + words);
}

enum cli_exit cli_run(int argc, char **argv)
{
    if (argc < 2) {
        help_overview(stderr);
        return CLI_USAGE;
    }
    struct cli_call bare = bare_call(argc - 1, argv + 1);
    int moved = args_verb_first(cli_verbs, argc - 1, argv + 1);
    enum cli_exit code = cli_run_run(argc - 1, argv + 1, moved);
    bool arrived = fflush(stdout) == 0 && !ferror(stdout);
    if (code == CLI_OK && !arrived) /* a full disk behind stdout is a failure */
        return cli_fail(&bare, CLI_FAILED, "cannot write to standard output");
    return code;
}
