/* verbs.c - the table of verbs. */
#include "cli/verbs.h"

#include "cli/verb_options.h"
#include "cli/verb_prose.h"

#define PROSE_ESCAPES                                                                              \
    "In the item line end, tab and backslash are printed as \\n, \\t and \\\\, other control "     \
    "bytes as \\xHH; "                                                                             \
    "with --null or --body it is printed as it is."

const struct cli_verb cli_verbs[] = {
    { .name = "get",
      .usage = "TITLE [REV [TID]]",
      .summary = "print a render: the latest, of a revision, or exact",
      .prose = "Prints one content of a render of TITLE: of the latest, of the newest render of "
               "revision REV, or "
               "of exactly REV and TID. Asking for a superseded render by its revision extends its "
               "life on the "
               "server.\n\nOn a terminal control bytes are shown as \\xHH; --output - prints them "
               "as they are.\n\n"
               "With --json one document: title, rev, tid, content_type, bytes, and body when it "
               "is UTF-8.",
      .options = get_options,
      .operands_min = 1,
      .operands_max = 3,
      .client = true,
      .run = verb_get },
    { .name = "put",
      .usage = "TITLE REV [TID] [CONTENT=]FILE...",
      .summary = "store a render from files",
      .prose = "Stores a render of revision REV of TITLE, named TID or by the server. Each FILE is "
               "one content of "
               "its bundle; - is standard input, for one of them. A FILE whose name holds = is "
               "written ./FILE.\n\n"
               "A render that is there already, byte for byte, is no error and changes nothing.",
      .options = put_options,
      .files_from = 3,
      .operands_min = 3,
      .operands_max = CLI_OPERANDS_MAX,
      .client = true,
      .run = verb_put },
    { .name = "ls",
      .usage = "[PREFIX]",
      .summary = "list titles",
      .prose = "Lists the titles of the bucket in key order, all or those that start with PREFIX. "
               "With --json one "
               "document a line.",
      .operands_max = 1,
      .client = true,
      .run = verb_ls },
    { .name = "rm",
      .usage = "TITLE [REV [TID]]",
      .summary = "purge a title, a revision or a render",
      .prose = "Removes all renders of TITLE, those of revision REV, or exactly one. Renders made "
               "before the purge "
               "are refused from then on, newer ones are accepted.",
      .operands_min = 1,
      .operands_max = 3,
      .client = true,
      .run = verb_rm },
    { .name = "history",
      .usage = "TITLE",
      .summary = "list the renders of a title, newest first",
      .prose = "Lists the stored renders of TITLE with their state and when each is due to go. "
               "With --json one "
               "document a line.",
      .operands_min = 1,
      .operands_max = 1,
      .client = true,
      .run = verb_history },
    { .name = "explain",
      .usage = "TITLE [REV [TID]]",
      .summary = "show how long a render stays, and why",
      .prose = "Says for the latest render of TITLE, for a revision or for one render, also one "
               "already gone: its "
               "state, which policy decided it and when it is due to go.",
      .operands_min = 1,
      .operands_max = 3,
      .client = true,
      .run = verb_explain },
    { .name = "render",
      .usage = "TITLE [REV]",
      .summary = "render a page now",
      .prose = "Has the server ask its origin for a render of the newest revision of TITLE, or of "
               "REV, also when one "
               "is stored, and says which render is served from then on. A render equal to the "
               "stored one changes "
               "nothing and keeps its name.",
      .operands_min = 1,
      .operands_max = 2,
      .client = true,
      .run = verb_render },
    { .name = "prewarm",
      .usage = "[FILE|-]",
      .summary = "render many pages before they are asked for",
      .prose = "Asks the server for the newest render of each title in FILE, one a line, or of "
               "each page of a wiki, "
               "so that it makes those it does not hold. A page that cannot be rendered is told "
               "and left out; when "
               "many in a row cannot be, it ends.\n\nA run goes on where the last one to the same "
               "server ended; from"
               " standard input only with --state.",
      .options = prewarm_options,
      .files_from = 1,
      .operands_max = 1,
      .client = true,
      .run = verb_prewarm },
    { .name = "import git",
      .usage = "[PATH]",
      .summary = "import the history of a repository's documents",
      .prose = PROSE_IMPORT_GIT,
      .options = import_git_options,
      .files_from = 1,
      .operands_max = 1,
      .client = true,
      .run = verb_import_git },
    { .name = "migrate",
      .usage = "",
      .summary = "copy all renders from one server to another",
      .prose = PROSE_MIGRATE,
      .options = migrate_options,
      .client = true,
      .run = verb_migrate },
    { .name = "import restbase",
      .usage = "",
      .summary = "import the renders of a RESTBase from its Cassandra",
      .prose = PROSE_IMPORT_RESTBASE,
      .options = import_restbase_options,
      .client = true,
      .run = verb_import_restbase },
    { .name = "import mediawiki-xml",
      .usage = "FILE|-",
      .summary = "import an export of MediaWiki",
      .prose = PROSE_IMPORT_XML,
      .options = import_options,
      .files_from = 1,
      .operands_min = 1,
      .operands_max = 1,
      .client = true,
      .run = verb_import_xml },
    { .name = "check",
      .usage = "",
      .summary = "verify a store",
      .prose = "Verifies every row of the running server's store, or with --data of a store at "
               "rest, every value that "
               "a row points to, and that each byte of the log is one or counted as dead; nothing "
               "reads the dead ones. "
               "Prints each damage in a line. Exit status 3 when there is any.",
      .options = check_options,
      .run = verb_check },
    { .name = "backup",
      .usage = "DIR",
      .summary = "copy a store while it runs",
      .prose = "Copies a consistent state of the running server's store, or with --data of a store "
               "at rest, to DIR on "
               "the server's machine, outside of the store's own folder. What DIR holds of this "
               "store already is not "
               "copied again. A backup is itself a store: palimpsest check --data DIR verifies it.",
      .options = backup_options,
      .files_from = 1,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_backup },
    { .name = "restore",
      .usage = "BACKUP --data DIR",
      .summary = "make a store from a backup",
      .prose = "Verifies BACKUP, copies it to DIR and verifies the copy. DIR must be absent or "
               "empty; it appears whole "
               "or not at all.",
      .options = restore_options,
      .files_from = 1,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_restore },
    { .name = "serve",
      .usage = "",
      .summary = "run the server",
      .prose = "Serves the store of a directory over HTTP. The first line on standard output, "
               "printed once requests "
               "are answered, is \"listening on http://ADDR:PORT\". SIGTERM ends it when what was "
               "asked is answered, "
               "SIGHUP reads the options again. Options come from the file, then the environment, "
               "then the command "
               "line, and later ones win; palimpsest options lists them all.",
      .options = serve_options,
      .run_raw = verb_serve,
      .man_more = serve_man_options },
    { .name = "origin check",
      .usage = "[DOMAIN]",
      .summary = "test the configured origins as a server would ask them",
      .prose = PROSE_ORIGIN_CHECK,
      .options = origin_check_options,
      .operands_max = 1,
      .run = verb_origin_check },
    { .name = "store schema",
      .usage = "",
      .summary = "make or renew the tables of a store on Cassandra",
      .prose = PROSE_STORE_SCHEMA,
      .options = store_schema_options,
      .run = verb_store_schema },
    { .name = "policy show",
      .usage = "",
      .summary = "show the policies that servers on one Cassandra share",
      .prose = PROSE_POLICY_SHOW,
      .options = policy_show_options,
      .run = verb_policy_show },
    { .name = "policy apply",
      .usage = "",
      .summary = "write the policies of the options for all servers",
      .prose = PROSE_POLICY_APPLY,
      .options = policy_apply_options,
      .run = verb_policy_apply },
    { .name = "options",
      .usage = "",
      .summary = "list the options of the server",
      .prose = "Lists every option: its name in the file and for --set, its limits, its default "
               "and what it does. "
               "In the environment page.grace_ttl is PALIMPSEST_PAGE_GRACE_TTL.",
      .options = options_options,
      .run = verb_options },
    { .name = "queue create",
      .usage = "QUEUE",
      .summary = "make a queue",
      .prose = "Makes a queue with its partitions. They are spread over the server's stores.",
      .options = queue_create_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_create },
    { .name = "queue ls",
      .usage = "[PREFIX]",
      .summary = "list queues",
      .prose = "Lists the queues of a namespace by name, all or those that start with PREFIX. With "
               "--json one document "
               "a line.",
      .options = queue_ls_options,
      .operands_max = 1,
      .run = verb_queue_ls },
    { .name = "queue info",
      .usage = "QUEUE",
      .summary = "say what a queue is",
      .prose = "Says how QUEUE was made: timeouts, attempts, dead queue, partitions.",
      .options = queue_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_info },
    { .name = "queue update",
      .usage = "QUEUE",
      .summary = "change a queue",
      .prose = "Changes what is given and keeps the rest. Running leases keep the timeout they "
               "began with.",
      .options = queue_update_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_update },
    { .name = "queue rm",
      .usage = "QUEUE...",
      .summary = "delete queues and their items",
      .prose = "Deletes queues with all they hold, leased items too, in the order given. One that "
               "others name as their "
               "dead queue is kept, unless --force: delete those before it, or give them another.",
      .options = queue_rm_options,
      .operands_min = 1,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_queue_rm },
    { .name = "queue produce",
      .usage = "QUEUE [FILE|-]...",
      .summary = "put items into a queue",
      .prose = "Makes each line of each FILE, or of standard input, an item of QUEUE; with --file "
               "each FILE is one. "
               "Items are stored when it ends with 0. From a pipe they are sent when a batch is "
               "full or nothing more "
               "has come.\n\nA request whose outcome is unknown is sent again under the same "
               "idempotency key until "
               "the timeout, so that nothing is stored twice. When it fails, the number of items "
               "that are stored for "
               "certain is still said.",
      .options = queue_produce_options,
      .files_from = 2,
      .operands_min = 1,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_queue_produce },
    { .name = "queue lease",
      .usage = "QUEUE",
      .summary = "take items out to work on them",
      .prose = "Leases items and prints each in a line: its handle PARTITION/ID, a tab, the item. "
               "Who does not "
               "complete one within the lease timeout gets it again, or another does. Exit status "
               "5 when none came."
               "\n\n" PROSE_ESCAPES
               " An item that holds NUL is not printed behind its handle with --null.\n\n"
               "With --json a document a line, with body, or base64 of what is no UTF-8.",
      .options = queue_lease_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_lease },
    { .name = "queue complete",
      .usage = "QUEUE [HANDLE|-]...",
      .summary = "end leased items",
      .prose = "Completes items by the handles that queue lease printed; without any, by the first "
               "word of each line "
               "of standard input: palimpsest queue lease q | palimpsest queue complete q. All are "
               "read before the "
               "first is completed: a word that is no handle completes nothing.",
      .options = queue_complete_options,
      .operands_min = 1,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_queue_complete },
    { .name = "queue retry",
      .usage = "QUEUE [HANDLE|-]...",
      .summary = "give leased items back",
      .prose = "Gives items back by the handles that queue lease printed: to the end of their "
               "partition, at once or "
               "later, or to the dead queue. Handles come as for queue complete.",
      .options = queue_retry_options,
      .operands_min = 1,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_queue_retry },
    { .name = "queue peek",
      .usage = "QUEUE",
      .summary = "show items without leasing them",
      .prose = "Prints the oldest items, leased ones too, and changes nothing: id, a tab, the "
               "item.\n\n" PROSE_ESCAPES,
      .options = queue_peek_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_peek },
    { .name = "queue drain",
      .usage = "QUEUE PARTITION",
      .summary = "let a partition run empty",
      .prose = "Puts no more items into PARTITION; those in it are leased and completed as before. "
               "queue resume ends "
               "it.",
      .options = queue_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_queue_drain },
    { .name = "queue pause",
      .usage = "QUEUE PARTITION",
      .summary = "stop a partition",
      .prose = "Neither puts items into PARTITION nor leases them; leased ones may be completed. "
               "queue resume ends it.",
      .options = queue_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_queue_pause },
    { .name = "queue resume",
      .usage = "QUEUE PARTITION",
      .summary = "end drain and pause of a partition",
      .prose = "Makes PARTITION available again.",
      .options = queue_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_queue_resume },
    { .name = "queue move",
      .usage = "QUEUE PARTITION STORE",
      .summary = "move a partition to another store",
      .prose = "Moves PARTITION with its items to STORE while producers and consumers run.",
      .options = queue_options,
      .operands_min = 3,
      .operands_max = 3,
      .run = verb_queue_move },
    { .name = "queue add",
      .usage = "QUEUE [STORE]",
      .summary = "add a partition to a queue",
      .prose = "Adds a partition, on STORE or on one that is chosen.",
      .options = queue_options,
      .operands_min = 1,
      .operands_max = 2,
      .run = verb_queue_add },
    { .name = "queue rebalance",
      .usage = "QUEUE",
      .summary = "spread partitions over the stores",
      .prose = "Moves partitions until each store has its share by weight, while producers and "
               "consumers run.",
      .options = queue_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_rebalance },
    { .name = "queue requeue",
      .usage = "DEAD QUEUE",
      .summary = "move items out of a dead queue",
      .prose = "Moves items of queue DEAD to the end of QUEUE, with no attempts counted.",
      .options = queue_requeue_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_queue_requeue },
    { .name = "queue stats",
      .usage = "QUEUE",
      .summary = "count the items of a queue",
      .prose = "Says of each partition its store and state, how many items are ready, scheduled "
               "and leased, and how "
               "old the oldest is.",
      .options = queue_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_stats },
    { .name = "queue why",
      .usage = "QUEUE",
      .summary = "explain where requests went",
      .prose = "Prints the last decisions on partitions, a JSON document a line: what was known "
               "and what was chosen.",
      .options = queue_why_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_queue_why },
    { .name = "queue top",
      .usage = "[QUEUE...]",
      .summary = "watch queues",
      .prose = "Shows queues, those named or the first 1000 of a namespace, anew each second: on a "
               "terminal as a table "
               "in place, those in trouble and the fullest first, as many as fit, until q is "
               "pressed; else a line "
               "each time for each queue.",
      .options = queue_top_options,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_queue_top },
    { .name = "flight ls",
      .usage = "[SERVER...]",
      .summary = "list renders and lists that are being made",
      .prose = "Says of each SERVER, the URL of its admin listener, whether Redis is there, and "
               "what it makes or waits "
               "for: the state of its part, who leads and under which generation, how many "
               "requests wait there and "
               "since when. Servers that share a Redis show one flight each, under the same "
               "generation.\n\nStates: "
               "queued, making; across servers joining, waiting (another server leads), leading, "
               "publishing, alone "
               "(without Redis). DEGRADED is how long Redis was away since the start, ALONE what "
               "was made meanwhile. "
               "With --json one document a server.",
      .options = flight_options,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_flight_ls },
    { .name = "slow ls",
      .usage = "",
      .summary = "list the slowest requests of the last hour",
      .prose = "Says how long each took, when it began, and LONGEST: the stage behind the longest "
               "wait, and that. STATUS -: the client left. --json has all stages.",
      .options = slow_options,
      .run = verb_slow_ls },
    { .name = "fresh ls",
      .usage = "",
      .summary = "list wikis, and how fresh their stored pages are",
      .prose = "Says of each domain whose wiki can be asked: how many CALLS were made for its "
               "words, how many WORDS came, "
               "how many calls FAILED; how many changes nobody had told of and the sweep found "
               "(MISSED); since when each "
               "title was asked for that is stored since then; and how far the sweep is. Counts "
               "begin with the server. "
               "With --json one document a line.",
      .options = fresh_options,
      .run = verb_fresh_ls },
    { .name = "fresh check",
      .usage = "DOMAIN TITLE",
      .summary = "ask the wiki about a page now",
      .prose = "Has the server ask the wiki of DOMAIN about TITLE, believe what it says, and says "
               "as fresh why what a "
               "reader gets from then on, and whether it was news.",
      .options = fresh_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_fresh_check },
    { .name = "fresh sweep",
      .usage = "DOMAIN",
      .summary = "ask the wiki about all stored pages, beginning now",
      .prose = "Begins a sweep of DOMAIN: the wiki is asked about each stored title, 50 in a call, "
               "one call after the other, "
               "instead of evenly over sweep_period.",
      .options = fresh_sweep_options,
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_fresh_sweep },
    { .name = "fresh why",
      .usage = "DOMAIN TITLE",
      .summary = "show the answer that a reader of a page would get, and why",
      .prose = "Says what the wiki last said of TITLE and how long ago it was asked; and of each "
               "bucket the latest render, "
               "under which word it was made, and what a reader would get. Asks nobody and changes "
               "nothing.",
      .options = fresh_options,
      .operands_min = 2,
      .operands_max = 2,
      .run = verb_fresh_why },
    { .name = "fresh redo",
      .usage = "DOMAIN",
      .summary = "have the next reader of each page of a domain get a new render",
      .prose = "All that the server rendered of the domain before now counts as too old, also "
               "after a restart: its next reader "
               "has it made anew, or the server itself where origin.rerender is at_once or paced. "
               "For what the wiki tells nobody of: its configuration, messages "
               "of its interface.",
      .options = fresh_redo_options,
      .operands_max = 1,
      .run = verb_fresh_redo },
#include "cli/verbs_change.def"
    { .name = "list get",
      .usage = "LIST DISPLAY [POSITION]",
      .summary = "print a list, or one position of it",
      .prose = "Prints the items of LIST that everybody sees on DISPLAY, each behind its position "
               "and a tab, or the "
               "one at POSITION; on a terminal also the version, state and age of the list. "
               "DISPLAY * is none: the "
               "parameters alone name the list. A list that is not there is made, unless "
               "--cached.\n\nWith --json "
               "one document: list, display, version, state (fresh or stale), how (hit, leader, "
               "waiter, remote, "
               "degraded, stale), size, age_s, fresh_s, and items or item.",
      .options = list_get_options,
      .operands_min = 2,
      .operands_max = 3,
      .run = verb_list_get },
    { .name = "stash ls",
      .usage = "[TITLE]",
      .summary = "list renders and previews that are kept for edits",
      .prose = "Lists what stash=true keeps on a server, of TITLE or of the domain: renders that "
               "are pinned, by "
               "bucket, and previews of wikitext that was typed (BUCKET says preview, USER whose, "
               "REV which revision "
               "was edited); until when, and how many bytes. All renders of the domain are looked "
               "at: of a large one "
               "that takes a while.",
      .options = stash_ls_options,
      .operands_max = 1,
      .run = verb_stash_ls },
    { .name = "stash rm",
      .usage = "[TITLE]",
      .summary = "remove renders and previews that are kept for edits",
      .prose = "Takes away what stash=true keeps of TITLE, or with --all of the domain: previews "
               "are deleted, and "
               "pinned renders live as long as policy, holds and requests say. Who edits with one "
               "of them may be "
               "unable to save. What it took of page.stash_bytes_max is free again.",
      .options = stash_rm_options,
      .operands_max = 1,
      .run = verb_stash_rm },
    { .name = "token create",
      .usage = "",
      .summary = "make a key for a client",
      .prose = "Makes a key with a role or several and prints it, once: the store keeps its hash "
               "alone. With --data it "
               "works on a store whose server is stopped, and with --new it makes that store "
               "first: so the first "
               "key is made. A key that cannot be printed is deleted again.",
      .options = token_create_options,
      .run = verb_token_create },
    { .name = "token ls",
      .usage = "",
      .summary = "list the keys",
      .prose = "Lists the keys: what may be shown of them, what they may do and until when.",
      .options = token_options,
      .run = verb_token_ls },
    { .name = "token rm",
      .usage = "ID...",
      .summary = "delete keys",
      .prose = "Deletes keys by id; from then on they open nothing.",
      .options = token_options,
      .operands_min = 1,
      .operands_max = CLI_OPERANDS_MAX,
      .run = verb_token_rm },
    { .name = "token lock",
      .usage = "",
      .summary = "take all rights from anonymous",
      .prose = "A new store lets a client without a key do everything. This ends that; a server "
               "with auth: internal "
               "listens on other addresses than loopback only then.",
      .options = token_options,
      .run = verb_token_lock },
    { .name = "token unlock",
      .usage = "",
      .summary = "let anonymous do everything again",
      .prose = "Undoes token lock. Refused while a listener of the server is not on loopback.",
      .options = token_options,
      .run = verb_token_unlock },
    { .name = "version",
      .usage = "",
      .summary = "print the version",
      .prose = "Prints the version of the program; with --json also of libraries it runs on.",
      .options = json_options,
      .run = verb_version },
    { .name = "completion",
      .usage = "bash|zsh|fish",
      .summary = "print a completion script for a shell",
      .prose =
          "Prints a script that makes a shell complete verbs and options, for bash: "
          "palimpsest completion bash > ~/.local/share/bash-completion/completions/palimpsest.",
      .operands_min = 1,
      .operands_max = 1,
      .run = verb_completion },
    { .name = "man",
      .usage = "[VERB]",
      .summary = "print a man page in roff",
      .prose = "Prints the man page of the program or of a VERB, as man(1) reads it: palimpsest "
               "man get | man -l -.",
      .options = man_options,
      .operands_max = CLI_VERB_WORDS_MAX,
      .run = verb_man },
    { .name = NULL },
};
