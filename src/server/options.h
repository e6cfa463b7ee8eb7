/* options.h - what the operator may choose: one table of rows behind file, environment and command
 * line.
 *
 * Model. Every option is a row: name, type, limits, default, prose. A row's value may come from the
 * YAML file (`page: {grace_ttl: 1d}`), from the environment (PALIMPSEST_PAGE_GRACE_TTL), from
 * `--set page.grace_ttl=1d` or from a flag of its own (`--data DIR`); what comes later wins, but
 * domains add up. Fields of buckets are rows too: `page.policy` is the policy of the bucket "page",
 * `buckets.mobile.policy` of another.
 *   Names are checked at once, what options say together in options_finish. Every failure is one
 * line that names the file, the line and the option. The result is a struct config that lives as
 * long as its options. Source of durations and sizes: base/units.h.
 * Pure but for options_read_file. Thread: one. */
#ifndef SERVER_OPTIONS_H
#define SERVER_OPTIONS_H

#include "app/config.h"
#include "base/buf.h"
#include "base/err.h"

enum {
    OPTIONS_FILE_BYTES_MAX = 1 << 20,
    OPTIONS_TEXT_BYTES_MAX = 8 << 20, /* of all values together */
    OPTIONS_VALUE_BYTES_MAX = 4096,   /* of one value */
    /* of change.databases: of 4096 domains, 64 bytes for each and its database, and of fewer more
     */
    OPTIONS_DATABASES_BYTES_MAX = 1 << 18,
};

struct options;
struct inherited;

/* All defaults. Owner: caller. Dies when out of memory. */
struct options *options_new(void);
void options_free(struct options **op);

/* Where a value came from, for the line that says what is wrong. Borrowed as long as the options
 * live. */
struct options_from {
    const char *file; /* or "environment", "command line" */
    unsigned line;    /* 0: has no lines */
};

/* Sets one option by its full name. Lists are separated by commas. ERR_BAD, ERR_LIMIT: with a
 * note. */
MUST_CHECK err options_set(struct options *o, str name, str value, struct options_from from,
                           struct err_note *note);
/* The YAML text of a file called file_name. ERR_BAD, ERR_LIMIT: with a note. */
MUST_CHECK err options_yaml(struct options *o, str text, const char *file_name,
                            struct err_note *note);
/* Reads and takes a file. ERR_BAD when it cannot be read, too. */
MUST_CHECK err options_read_file(struct options *o, const char *path, struct err_note *note);
/* Every PALIMPSEST_ variable of envp ("NAME=value" strings, NULL at the end). unknown is called for
 * names no option has (NULL allowed), and where that needs a reason, with the name and " (reason)"
 * instead of its value. */
MUST_CHECK err options_environment(struct options *o, char *const *envp,
                                   void (*unknown)(void *ctx, const char *variable), void *ctx,
                                   struct err_note *note);
/* The arguments of `serve` behind the verb: --config is skipped (options_config_path found it
 * before). */
MUST_CHECK err options_arguments(struct options *o, int argc, char **argv, struct err_note *note);
/* The file that --config or else PALIMPSEST_CONFIG names; *path NULL: none. ERR_BAD when given
 * twice. */
MUST_CHECK err options_config_path(int argc, char **argv, char *const *envp, const char **path,
                                   struct err_note *note);
/* File, environment, arguments, in this order, and what they say together. */
struct options_sources {
    int argc;
    char **argv;
    char *const *envp;
    void (*unknown)(void *ctx, const char *variable); /* of options_environment */
    void *ctx;
    const struct inherited *inherited; /* listeners beside those of the options; NULL: none */
};
MUST_CHECK err options_load(struct options *o, const struct options_sources *from,
                            struct err_note *note);

/* Fills in what depends on several options and refuses contradictions. Once, after all is set. */
MUST_CHECK err options_finish(struct options *o, struct err_note *note);
/* Borrowed from o; complete after options_finish. */
const struct config *options_config(const struct options *o);

typedef void options_line_fn(void *ctx, const char *line);
/* After a failure that left that note: calls each with every line of what is wrong. Of rules that
 * are all faults, else the note alone. */
void options_faults(const struct options *o, const struct err_note *note, options_line_fn *each,
                    void *ctx);
/* Calls each with every line about what is right and may be a slip. After options_finish. */
void options_doubts(const struct options *o, options_line_fn *each, void *ctx);
/* Calls each with the name of every option that was set and does nothing any more. */
void options_gone(const struct options *o, void (*each)(void *ctx, const char *name), void *ctx);
/* how: of a rule: "added", "removed", "changed"; else NULL. taken: a running server takes it over;
 * else it waits for a restart. */
typedef void options_change_fn(void *ctx, const char *name, const char *how, bool taken);
/* Calls each with the name of every option whose value differs between two finished ones, and takes
 * over into running what its row says (the column SIGHUP of the table). What is told so is all that
 * changes. Thread: the loop's, where running is a server's. */
void options_take_over(struct options *running, const struct options *fresh,
                       options_change_fn *each, void *ctx);

/* Is it 127.0.0.0/8, ::1, or a unix socket? */
bool options_is_loopback(const char *address);

/* The table, for people: as text for --help, as Markdown for the manual, as roff for the man
 * page. */
/* OPTIONS_NAMES: those alone that need no name of one's own in them, a line each. */
enum options_form { OPTIONS_TEXT, OPTIONS_MARKDOWN, OPTIONS_ROFF, OPTIONS_NAMES };
void options_describe(enum options_form form, struct buf *out);

#endif
