/* verbs.c - the table of verbs and their options. */
#include "cli/verbs.h"

const struct cli_option cli_client_options[] = {
    { "server", 0, "URL", "Server to talk to [$PALIMPSEST_SERVER or http://127.0.0.1:7231]" },
    { "token", 0, "TOKEN", "Bearer token sent with each request [$PALIMPSEST_TOKEN]" },
    { "domain", 0, "NAME", "Domain of the titles [localhost]" },
    { "bucket", 0, "NAME", "Bucket of the titles [page]" },
    { "json", 0, NULL, "Print JSON for machines" },
    { NULL, 0, NULL, NULL },
};

static const struct cli_option version_options[] = {
    { "json", 0, NULL, "Print JSON for machines" },
    { NULL, 0, NULL, NULL },
};

const struct cli_verb cli_verbs[] = {
    { .name = "version", .usage = "", .summary = "print the version",
      .prose = "Prints the version of the program and of the libraries it runs on.",
      .options = version_options, .run = verb_version },
    { .name = NULL },
};
