/* args.h - command lines to calls: pure, so that tests can see it. Private to cli. */
#ifndef CLI_ARGS_H
#define CLI_ARGS_H

#include "base/err.h"
#include "cli/cli.h"

/* The verb that argv (behind the program's name) begins with: the longest name wins. *words gets 1
 * to 3. NULL: none. */
const struct cli_verb *args_verb(const struct cli_verb *verbs, int argc, char **argv, int *words);
/* Moves options of cli_client_options from before the verb's words, and from between them, to
 * behind them: "--json queue --domain D ls" becomes "queue ls --json --domain D". Gives how many
 * words stood before. Without a verb: nothing. */
int args_verb_first(const struct cli_verb *verbs, int argc, char **argv);
/* The option of every verb that no verb lists. */
extern const struct cli_option args_help_option;
/* The row of --json among cli_client_options. */
const struct cli_option *args_json_option(void);
/* Reads what stands behind the verb. ERR_BAD with a note; *out untouched then. */
MUST_CHECK err args_parse(const struct cli_verb *verb, int argc, char **argv, struct cli_call *out,
                          struct err_note *note);

#endif
