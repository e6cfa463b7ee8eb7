/* help.h - what the table of verbs says, as help text, man pages and shell completion. Private to
 * cli. */
#ifndef CLI_HELP_H
#define CLI_HELP_H

#include "cli/cli.h"

#include <stdio.h>

/* All verbs, a line each. */
void help_overview(FILE *to);
/* Lines of text, broken between words where they are wider than help is; what goes on keeps their
 * indent. */
void help_lines(FILE *to, str text);
/* Is word the first of two of some verb ("import" of "import git")? Then its verbs, a line each. */
bool help_is_group(const char *word);
void help_group(FILE *to, const char *group);
/* roff of man page palimpsest(1), or of palimpsest-VERB(1). Thread: any. */
void help_man_overview(FILE *to);
void help_man_verb(FILE *to, const struct cli_verb *verb);
/* A completion script; shell is "bash", "zsh" or "fish". False: another. */
bool help_completion(FILE *to, str shell);

#endif
