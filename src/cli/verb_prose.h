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

#define PROSE_IMPORT_RESTBASE                                                                      \
    "Stores the renders that a RESTBase has in a Cassandra under the same titles, revisions "      \
    "and tids. Only the buckets key_rev_value and multi_content_bucket can be read: their "        \
    "schema, a row of the table meta, has key, rev, tid and value. Nothing is written there.\n\n"  \
    "Each keyspace of the bucket holds one content: html, data-parsoid. --keyspace names them; "   \
    "without it the only bucket that there is is taken. A render without all contents is "         \
    "stored with those that it has.\n\n"                                                           \
    "Renders come newest first. What is purged, hidden, or older than the policy keeps is "        \
    "refused by the server and counted. What cannot be a render is left out and told: a tid of "   \
    "another version, a revision that is no number, a value that is null or too large.\n\n"        \
    "An import that was interrupted goes on where it ended. One that came to its end begins "      \
    "anew when it is run again, and stores what came since. With --verify each render is read "    \
    "back, which counts as a read by its revision; exit status 1 when one is missing or has "      \
    "other bytes."

#define PROSE_MIGRATE                                                                              \
    "Stores all renders of a bucket of one server at another one, with titles, revisions, tids, "  \
    "contents and headers, over the APIs of both, which may be in use meanwhile. What is held "    \
    "there until an instant is held here; what is pinned for an edit is pinned. A revision that "  \
    "is hidden or deleted there is purged here. Purges, policies, keys and values are not taken "  \
    "along, and each run says so.\n\n"                                                             \
    "Renders of a title come newest first, so the latest is right at once. What is purged, "       \
    "hidden, or older than the policy keeps is refused by the server and counted. What that "      \
    "server does not give out is left out and told. A render that is read so counts there as "     \
    "read by its revision.\n\n"                                                                    \
    "A migration that was interrupted goes on where it ended. One that came to its end begins "    \
    "anew when it is run again, and stores what came since. With --verify each render is read "    \
    "from both and compared; exit status 1 when one is missing or has other bytes, or when "       \
    "something is damaged there."

#define PROSE_CHANGE_RULES_CHECK                                                                   \
    "Reads the rules in FILE, a configuration of the server with change: rules:, or a "            \
    "file with rules: "                                                                            \
    "alone. Prints each fault in a line, FILE:LINE: RULE: what is wrong; exit status 2 "           \
    "when there is any. A rule that is right and may feed another one is told of, too. "           \
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

#define PROSE_CHANGE_LS                                                                            \
    "Says of each rule: its EFFECT; whether it is on, paused, removed (it is in the "              \
    "configuration no more, and has items) or replays; how many items are RUNNING, and how "       \
    "many may be at once; how many are READY, WAITING for an earlier one of the same "             \
    "title, SCHEDULED for later, or DEAD, which means that they failed as often as the "           \
    "rule allows; how long ago the event of its oldest item was taken (OLDEST); and its "          \
    "LAST ERROR.\n\nBelow stands how many events the rules were not shown yet, if there are "      \
    "any. With --json one document a line."

#define PROSE_CHANGE_SHOW                                                                          \
    "Says all of RULE. First its limits, its items by state, and its last error. Then what "       \
    "it did since the server started: events that it matched, and of these how many went "         \
    "into an item that was there already (collapsed) or could not become items (refused); "        \
    "items that are done, were answered by a status that the rule ignores, failed an "             \
    "attempt, died, or were not wanted any more when their turn came (dropped). Below "            \
    "stand its targets. With --json one document."

#define PROSE_CHANGE_ITEMS                                                                         \
    "Lists items of RULE in the order of their events: the ID, which change why, change retry "    \
    "and change drop take; the state; how many ATTEMPTS failed; how long ago the event was "       \
    "taken (AGE), and in how long it is tried again (DUE); domain; the type of a job and the "     \
    "title; the TARGET of a purge; the ERROR of the last attempt; and WHY it does not run. With "  \
    "--json one document a line."

#define PROSE_CHANGE_WHY                                                                           \
    "Says of the item ID where it stands, why it does not run, what its last attempt came to, "    \
    "and prints its event: of each rule that has an item with that ID. EVENT is the meta.id of "   \
    "an event, or its position as change tail "                                                    \
    "--json prints it: each rule that matches it says so of its own item, or that none is left. "  \
    "change items RULE lists items with their ID. With --json one document a rule."

#define PROSE_CHANGE_EXPLAIN                                                                       \
    "Says of the event at POSITION, or with the meta.id ID, what each rule says to it: "           \
    "whether it matches, and if not, which condition does not hold; and of one that "              \
    "matches, where its item is, also if it collapsed into a newer event, and why that does not "  \
    "run. POSITION is the id of an event "                                                         \
    "in a stream, as change tail --json prints it. By ID the whole event log is looked "           \
    "through, and the newest event counts."

#define PROSE_CHANGE_REPLAY                                                                        \
    "Asks RULE again about each event that the server took from --from on and has still "          \
    "(change.retention). What it had done for them is done once more. It goes on in the "          \
    "background; change ls says replays meanwhile."

#define PROSE_CHANGE_PAUSE                                                                         \
    "Begins nothing more of RULE, also after a restart, until change resume. What runs "           \
    "comes to its end. Events are taken and shown to the rule as before; its items wait."

#define PROSE_CHANGE_RESUME "Goes on with RULE, which change pause has paused."

#define PROSE_CHANGE_LIMIT                                                                         \
    "Gives RULE other limits at once: how many of its items run at a time, and how many "          \
    "begin in a time. They stay over SIGHUP, and end with the server. --reset takes the "          \
    "rule's own again."

#define PROSE_CHANGE_RETRY                                                                         \
    "Makes items of RULE ready at once that are dead, or scheduled for a later attempt, "          \
    "with all their attempts again: all of them, or the one with that ID, which change items "     \
    "lists."

#define PROSE_CHANGE_DROP                                                                          \
    "Deletes items of RULE that do not run: all, those in --state, or the one with that "          \
    "ID. What is dropped is never done. A rule that was taken out of the configuration is "        \
    "forgotten with its last item. Wants --yes."

#define PROSE_CHANGE_DRY                                                                           \
    "Has the server ask the rules in FILE, or those in force, about its last events, and says "    \
    "how many events "                                                                             \
    "each would have matched: and how many it would have matched but for its sample, for "         \
    "being too old, or because a condition could not be decided; EXAMPLE is the newest "           \
    "event that matches, for change explain. Nothing is done. Faults in FILE are told as "         \
    "change rules check tells them: exit status 2. With --json one document."

#define PROSE_TIMELINE_LS                                                                          \
    "Prints what a rule of effect timeline noted, in the store or in Redis: which revisions and "  \
    "renders were "                                                                                \
    "superseded before T, the oldest first, domain after domain. What is older than the time "     \
    "that "                                                                                        \
    "superseded texts are kept may be culled: all of a title up to and with that revision. With "  \
    "--title the newest entry of that title comes first. The page buckets cull by themselves, "    \
    "and "                                                                                         \
    "do not need this. With --json a document for each entry, in a line."

#define PROSE_JOBS_LS                                                                              \
    "Counts the jobs of all rules of effect job by TYPE and DOMAIN: how many are running, "        \
    "ready, waiting for another, scheduled for later, or dead, and when the oldest of them "       \
    "was taken. Of each rule the first million jobs are looked at. With --json one document "      \
    "a line."

#define PROSE_JOBS_WHY                                                                             \
    "Says of the job with that ID where it stands, why it does not run, what its last "            \
    "attempt came to, and prints its event. EVENT is the meta.id or the position of its event. "   \
    "change items RULE --type TYPE lists jobs with their ID. An item that is no job is told of, "  \
    "too, with its rule."

#define PROSE_JOBS_RETRY                                                                           \
    "Makes jobs ready at once that are dead, or scheduled for a later attempt, with all "          \
    "their attempts again: all of them, those of --type and --domain, or the one with that "       \
    "ID."

#define PROSE_JOBS_LIMIT                                                                           \
    "Lets N jobs of TYPE run at once, of each rule that runs jobs or of --rule: from now on, "     \
    "over "                                                                                        \
    "SIGHUP, and until the server starts again. --reset takes the limit of the rule again "        \
    "(concurrency_of). change show says which types have one of their own."

#define PROSE_JOBS_DRAIN                                                                           \
    "Begins nothing more at TARGET, host:port, until --undo. What runs there comes to its "        \
    "end. Jobs go to the other targets of their rule, or wait. change show says which "            \
    "targets are drained.\n\n--undo gives TARGET work again. It also ends the pause of a target "  \
    "that asked to be left alone (Retry-After), or was not there, and says until when that "       \
    "would have lasted."

#define PROSE_POLICY_SHOW                                                                          \
    "Reads the server's options, and tells for each page bucket the policies in the catalogue of " \
    "the cluster: their number, from when they are in force, and what they say; and that of the "  \
    "options, where it is another one than the last. Then the exit status is 6: a server with "    \
    "these options would not start."
#define PROSE_POLICY_APPLY                                                                         \
    "Reads the server's options and writes the policies of its page buckets to the catalogue of "  \
    "the cluster, where they are others than the last ones there. The first policy of a bucket "   \
    "is in force from the beginning. A later one comes into force on all servers at once, a "      \
    "minute after or more; which instant is told. Servers that run take it by themselves; those "  \
    "that start later need options that say the same."
#define PROSE_STORE_SCHEMA                                                                         \
    "Reads the server's options, makes the keyspace of store.keyspace with the copies that "       \
    "store.replication says, and the tables in it; or brings those that are there to the "         \
    "version that this program knows. With --look it only says which version is there. Run "       \
    "it once, from one place, before servers of a new version start. It changes nothing when "     \
    "all is there. When somebody dropped a table or a column it says which, and ends with exit "   \
    "status 6. With --make-missing it makes them again, empty: what they held is gone, also what " \
    "was purged or hidden. Restore a snapshot where there is one."
#define PROSE_ORIGIN_CHECK                                                                         \
    "Reads the server's options and asks the origin of DOMAIN, or of each domain that has "        \
    "one: for the rules of its titles, for a render, whether a revision belongs to its page, "     \
    "and for a transform. Says what is wrong; needs no running server."

#endif
