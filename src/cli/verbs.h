/* verbs.h - the verbs of the one binary: a row each in main.c, a file each in this folder.
 *
 * A verb gets its own arguments (argv[0] is the verb) and returns the exit status of CONTRACT 1:
 * 0 fine, 1 failed while running, 2 usage or configuration, 3 the store is damaged or of another version. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

enum cli_exit { EXIT_FINE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_DAMAGED = 3 };

struct cli_verb {
    const char *name;
    const char *usage;  /* what stands after the name */
    const char *prose;  /* one line of help */
    int (*run)(int argc, char **argv);
};
extern const struct cli_verb cli_verbs[]; /* ends with a row whose name is NULL */
const struct cli_verb *cli_verb_find(const char *name); /* NULL: none */

int verb_serve(int argc, char **argv);
int verb_token(int argc, char **argv);
int verb_options(int argc, char **argv);
int verb_version(int argc, char **argv);
int verb_help(int argc, char **argv);

#endif
