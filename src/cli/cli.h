/* cli.h - the verbs of the one binary: one table of verbs and options, from which parsing, usage,
 * shell completion and man pages come.
 *
 * Model. A verb is a row of cli_verbs: a name of one to three words ("get", "import git"), its
 * options, how many operands it takes, and who runs it. Options are long (--name VALUE,
 * --name=VALUE), some have a letter (-o VALUE); "--" ends them. Verbs with .client take the options
 * of cli_client_options too, all take --help.
 *   What names no file is UTF-8: operands before files_from, values that are no FILE, DIR, REF or
 * PATTERN.
 *   Exit codes: enum cli_exit. Every failure is told through cli_fail, so that --json makes a
 * document of it. */
#ifndef CLI_CLI_H
#define CLI_CLI_H

#include "base/check.h"
#include "base/err.h"
#include "base/str.h"

#include <stdio.h>

/* Part of the outside surface: docs/operations.md lists them for scripts. */
enum cli_exit {
    CLI_OK = 0,
    CLI_FAILED = 1,    /* while running: a file, a disk, an origin */
    CLI_USAGE = 2,     /* of the command line, or configuration */
    CLI_DAMAGED = 3,   /* the store is damaged or of another version */
    CLI_NO_SERVER = 4, /* nobody answers, something else does, or the server says 503 */
    CLI_NOT_FOUND = 5, /* is not stored, or not any more */
    /* the server understood and said no, or what is there must not be overwritten */
    CLI_REFUSED = 6,
    CLI_EXITS
};
enum { CLI_OPERANDS_MAX = 64, CLI_GIVEN_MAX = 128, CLI_VERB_WORDS_MAX = 3 };

struct cli_option {
    const char *name;  /* "output", without dashes */
    char letter;       /* 'o', or 0 */
    const char *value; /* "FILE"; NULL: a flag */
    const char *prose; /* one sentence, without the full stop */
};

struct cli_call;
struct cli_verb {
    const char *name;
    const char *usage;                /* operands: "TITLE [REV [TID]]"; "" when none */
    const char *summary;              /* one line, lower case, no full stop */
    const char *prose;                /* paragraphs of the man page, parted by "\n\n" */
    const struct cli_option *options; /* ends with name NULL; NULL: none of its own */
    unsigned operands_min, operands_max;
    /* from this operand on, counted from 1, they may name files; 0: none does */
    unsigned files_from;
    bool client; /* talks to a server: takes cli_client_options */
    /* One of the two. run_raw gets everything behind the verb unparsed (argv[0] is the verb) and
     * answers --help itself through cli_print_help; its options row still feeds completion and man
     * page. */
    enum cli_exit (*run)(struct cli_call *call);
    enum cli_exit (*run_raw)(int argc, char **argv);
    void (*man_more)(FILE *to); /* more of the man page's OPTIONS, as roff; NULL: nothing */
};

/* In the order of the help text; ends with name NULL. */
extern const struct cli_verb cli_verbs[];
extern const struct cli_option cli_client_options[];

/* One parsed command line; everything borrowed from argv. */
struct cli_given {
    const struct cli_option *option;
    const char *value;
}; /* value "" for a flag */
struct cli_call {
    const struct cli_verb *verb;
    const char *operands[CLI_OPERANDS_MAX];
    unsigned operands_count;
    struct cli_given given[CLI_GIVEN_MAX];
    unsigned given_count;
    bool help;
};
/* The last value given for an option, or NULL. */
const char *cli_value(const struct cli_call *call, const char *name);
bool cli_flag(const struct cli_call *call, const char *name);

/* The whole program: finds the verb, parses, runs. Returns the exit code. */
enum cli_exit cli_run(int argc, char **argv);

/* Tells on stderr why a verb fails, and gives code back: "palimpsest: ..." in a line, or with
 * --json a document, {"error":"not_found","exit":5,"message":"..."}. call NULL: as text. Control
 * bytes are printed as '?'. */
enum cli_exit cli_fail(const struct cli_call *call, enum cli_exit code, const char *format, ...)
    PRINTF_LIKE(3, 4);
/* The same of a server's answer; its status is in the document. 0: none came. */
enum cli_exit cli_fail_status(const struct cli_call *call, enum cli_exit code, long status,
                              const char *text);
/* Tells what ends nothing; with --json {"warning":"..."}. */
void cli_warn(const struct cli_call *call, const char *format, ...) PRINTF_LIKE(2, 3);
/* The code of a failure that came with a note. */
enum cli_exit cli_exit_of(err why);
/* Usage, summary and options of one verb on stdout. */
void cli_print_help(const struct cli_verb *verb);

#endif
