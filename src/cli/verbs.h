/* verbs.h - who runs each verb: one function a file. The table itself is cli_verbs in verbs.c. */
#ifndef CLI_VERBS_H
#define CLI_VERBS_H

#include "cli/cli.h"

enum cli_exit verb_version(struct cli_call *call);

#endif
