/* verb_prose.h - the prose of verbs that have much to say. Private to verbs.c. */
#ifndef CLI_VERB_PROSE_H
#define CLI_VERB_PROSE_H

#define PROSE_IMPORT_GIT                                                                           \
    "Makes each commit that touches a text document in the repository at PATH (the "               \
    "current one) a revision "                                                                     \
    "of the page named like the document. The revision is the number of the commit, "              \
    "oldest first; the time "                                                                      \
    "of its render is the commit's; content html is Markdown rendered, or the text "               \
    "escaped, and content "                                                                        \
    "source the document as it is. Binary files, files over 2 MiB and names that are "             \
    "not UTF-8 are left "                                                                          \
    "out; a deletion stores nothing; a rename is a new page. Names that differ in "                \
    "Unicode normalisation "                                                                       \
    "alone are one title: of two in one commit the second is left out.\n\nAn import "              \
    "goes on where "                                                                               \
    "the last one to the same server ended. What is there already is not stored again. "           \
    "A history that is "                                                                           \
    "another before that (rewritten, or with a branch merged that began earlier) has "             \
    "other numbers and is "                                                                        \
    "sent anew beside what is there. Nothing that the repository's configuration names "           \
    "is run."

#define PROSE_IMPORT_XML                                                                           \
    "Stores each revision in an export of MediaWiki (Special:Export, dumpBackup.php, "             \
    "dumps.wikimedia.org) "                                                                        \
    "under its own number, with its own time. FILE may be compressed: bzip2, xz, zstd, gzip. "     \
    "Content source "                                                                              \
    "is the wikitext, content html shows it escaped until somebody renders it. Revisions "         \
    "without text, and "                                                                           \
    "those with a wrong id, time or title, are left out and counted; the latter are named, "       \
    "too.\n\n"                                                                                     \
    "An import that was interrupted goes on where it ended; from standard input only with "        \
    "--state. Of a compressed file nothing is stored before its checksum has been compared, "      \
    "except of parts "                                                                             \
    "over 64 MiB unpacked, which are told when they turn out damaged, and gone through again "     \
    "by the next "                                                                                 \
    "import. What is stored with other bytes than in FILE is told and stays."

#define PROSE_CHANGE_RULES_CHECK                                                                   \
    "Reads the rules in FILE, a configuration of the server with change: rules:, or a "            \
    "file with rules: "                                                                            \
    "alone. Prints each fault in a line, FILE:LINE: RULE: what is wrong; exit status 2 "           \
    "when there is any. "                                                                          \
    "Needs no running server. With --json one document a fault."

#define PROSE_CHANGE_TEST                                                                          \
    "Reads the rules in FILE and the event in EVENT, a JSON object with meta.stream. Says "        \
    "of each rule "                                                                                \
    "whether it matches, and if not, which condition does not hold; and of one that "              \
    "matches what would be "                                                                       \
    "done: requests with their templates filled in. Sends nothing, and needs no running "          \
    "server. Exit "                                                                                \
    "status 1 when a template cannot be filled in.\n\nThe domain is meta.domain, or "              \
    "database by "                                                                                 \
    "change.databases of FILE. Domains in FILE's domains: are the configured ones; "               \
    "without that section "                                                                        \
    "every domain is. With --json one document a rule."

#define PROSE_CHANGE_TAIL                                                                          \
    "Prints each event that the server takes, from now on or from --since on: when it was taken, " \
    "stream, domain, title, revision and kind; - where the event says none. On a terminal the "    \
    "columns are aligned, else a tab stands between two. Ends when it is interrupted, or when "    \
    "nobody reads what it prints.\n\nWhen the connection is cut it connects again, waits longer "  \
    "each time, up to 15 s, and goes on behind the last event that it has printed. Events that "   \
    "the server has removed meanwhile are told as a gap. A server that is away at the start, and " \
    "one that refuses, end it.\n\nEvents of jobs and of private wikis are shown to a key with "    \
    "the "                                                                                         \
    "right change.private alone. With --json one document a line: position, at and event, which "  \
    "is the event as it came; or position and gap."

#endif
