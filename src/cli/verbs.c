/* verbs.c - the table of verbs and their options. */
#include "cli/verbs.h"

#define OPTIONS_END { NULL, 0, NULL, NULL }
#define OPTION_JSON { "json", 0, NULL, "Print JSON for machines" }

const struct cli_option cli_client_options[] = {
    { "server", 0, "URL", "Server to talk to [$PALIMPSEST_SERVER or http://127.0.0.1:7231]" },
    { "token", 0, "TOKEN", "Bearer token sent with each request [$PALIMPSEST_TOKEN]" },
    { "domain", 0, "NAME", "Domain of the titles [localhost]" },
    { "bucket", 0, "NAME", "Bucket of the titles [page]" },
    OPTION_JSON,
    OPTIONS_END,
};

static const struct cli_option get_options[] = {
    { "content", 'c', "NAME", "Content of the render [html]" },
    { "output", 'o', "FILE", "Write to FILE, which appears whole or not at all" },
    { "at", 0, "INSTANT", "The render that was served then: RFC 3339, an HTTP date or seconds since 1970" },
    OPTIONS_END,
};

static const struct cli_option put_options[] = {
    { "content", 'c', "NAME", "Content of a FILE that names none itself [html]" },
    { "type", 't', "TYPE", "Content type of all FILEs [by content and name of the file]" },
    OPTIONS_END,
};

#define OPTIONS_IMPORT                                                                               \
    { "parallel", 0, "N", "Requests in the air at once [8]" },                                       \
    { "state", 0, "FILE", "Keep in FILE how far it came [below $XDG_STATE_HOME/palimpsest]" },        \
    { "restart", 0, NULL, "Send everything again" },                                                 \
    { "quiet", 'q', NULL, "No progress bar, no word on what is left out" }

static const struct cli_option import_git_options[] = {
    { "ref", 0, "REF", "Branch, tag or commit whose history it is [HEAD]" },
    { "match", 0, "PATTERN", "Only paths that match, as in '*.md'" },
    OPTIONS_IMPORT,
    OPTIONS_END,
};

static const struct cli_option import_options[] = { OPTIONS_IMPORT, OPTIONS_END };

static const struct cli_option check_options[] = {
    { "data", 'd', "DIR", "Check this store, which no server has open; changes nothing in it" },
    OPTIONS_END,
};

static const struct cli_option backup_options[] = {
    { "data", 'd', "DIR", "Back up this store, which no server has open" },
    OPTIONS_END,
};

static const struct cli_option restore_options[] = {
    { "data", 'd', "DIR", "Where to; absent or empty" },
    OPTION_JSON,
    OPTIONS_END,
};

static const struct cli_option json_options[] = { OPTION_JSON, OPTIONS_END };

const struct cli_verb cli_verbs[] = {
    { .name = "get", .usage = "TITLE [REV [TID]]", .summary = "print a render: the latest, of a revision, or exact",
      .prose = "Prints one content of a render of TITLE: of the latest, of the newest render of revision REV, or "
               "of exactly REV and TID. Asking for a superseded render by its revision extends its life on the "
               "server.\n\nWith --json one document: title, rev, tid, content_type, bytes, and body when it is UTF-8.",
      .options = get_options, .operands_min = 1, .operands_max = 3, .client = true, .run = verb_get },
    { .name = "put", .usage = "TITLE REV [TID] [CONTENT=]FILE...", .summary = "store a render from files",
      .prose = "Stores a render of revision REV of TITLE, named TID or by the server. Each FILE is one content of "
               "its bundle; - is standard input. A FILE whose name holds = is written ./FILE.\n\nA render that is "
               "there already, byte for byte, is no error and changes nothing.",
      .options = put_options, .operands_min = 3, .operands_max = CLI_OPERANDS_MAX, .client = true, .run = verb_put },
    { .name = "ls", .usage = "[PREFIX]", .summary = "list titles",
      .prose = "Lists the titles of the bucket in key order, all or those that start with PREFIX. With --json one "
               "document a line.",
      .operands_max = 1, .client = true, .run = verb_ls },
    { .name = "rm", .usage = "TITLE [REV [TID]]", .summary = "purge a title, a revision or a render",
      .prose = "Removes all renders of TITLE, those of revision REV, or exactly one. Renders made before the purge "
               "are refused from then on, newer ones are accepted.",
      .operands_min = 1, .operands_max = 3, .client = true, .run = verb_rm },
    { .name = "history", .usage = "TITLE", .summary = "list the renders of a title, newest first",
      .prose = "Lists the stored renders of TITLE with their state and when each is due to go. With --json one "
               "document a line.",
      .operands_min = 1, .operands_max = 1, .client = true, .run = verb_history },
    { .name = "explain", .usage = "TITLE [REV [TID]]", .summary = "say what retention does with a render, and why",
      .prose = "Says for the latest render of TITLE, for a revision or for one render, also one already gone: its "
               "state, which policy decided it and when it is due to go.",
      .operands_min = 1, .operands_max = 3, .client = true, .run = verb_explain },
    { .name = "import git", .usage = "[PATH]", .summary = "import the history of a repository's documents",
      .prose = "Makes each commit that touches a text document in the repository at PATH (the current one) a revision "
               "of the page named like the document. The revision is the number of the commit, oldest first; the time "
               "of its render is the commit's; content html is Markdown rendered, or the text escaped, and content "
               "source the document as it is. Binary files, files over 2 MiB and names that are not UTF-8 are left out; "
               "a deletion stores nothing; a rename is a new page.\n\nAn import goes on where the last one to the same "
               "server ended. What is there already is not stored again.",
      .options = import_git_options, .operands_max = 1, .client = true, .run = verb_import_git },
    { .name = "import mediawiki-xml", .usage = "FILE|-", .summary = "import an export of MediaWiki",
      .prose = "Stores each revision in an export of MediaWiki (Special:Export, dumpBackup.php, dumps.wikimedia.org) "
               "under its own number, with its own time. FILE may be compressed: bzip2, xz, zstd, gzip. Content source "
               "is the wikitext, content html shows it escaped until somebody renders it. Revisions without text are "
               "left out.\n\nAn import that was interrupted goes on where it ended; from standard input only with "
               "--state.",
      .options = import_options, .operands_min = 1, .operands_max = 1, .client = true, .run = verb_import_xml },
    { .name = "check", .usage = "", .summary = "verify a store",
      .prose = "Verifies every row, record and checksum of the running server's store, or with --data of a store at "
               "rest, and prints each damage in a line. Exit status 3 when there is any.",
      .options = check_options, .client = true, .run = verb_check },
    { .name = "backup", .usage = "DIR", .summary = "copy a store while it runs",
      .prose = "Copies a consistent state of the running server's store, or with --data of a store at rest, to DIR on "
               "the server's machine. What DIR holds of this store already is not copied again. A backup is itself a "
               "store: palimpsest check --data DIR verifies it.",
      .options = backup_options, .operands_min = 1, .operands_max = 1, .client = true, .run = verb_backup },
    { .name = "restore", .usage = "BACKUP --data DIR", .summary = "make a store from a backup",
      .prose = "Verifies BACKUP, copies it to DIR and verifies the copy. DIR must be absent or empty; it appears whole "
               "or not at all.",
      .options = restore_options, .operands_min = 1, .operands_max = 1, .run = verb_restore },
    { .name = "version", .usage = "", .summary = "print the version",
      .prose = "Prints the version of the program; with --json also of libraries it runs on.",
      .options = json_options, .run = verb_version },
    { .name = "completion", .usage = "bash|zsh|fish", .summary = "print a completion script for a shell",
      .prose = "Prints a script that makes a shell complete verbs and options, for bash: "
               "palimpsest completion bash > ~/.local/share/bash-completion/completions/palimpsest.",
      .operands_min = 1, .operands_max = 1, .run = verb_completion },
    { .name = "man", .usage = "[VERB]", .summary = "print a man page in roff",
      .prose = "Prints the man page of the program or of a VERB, as man(1) reads it: palimpsest man get | man -l -.",
      .operands_max = 2, .run = verb_man },
    { .name = NULL },
};
