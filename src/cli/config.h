/* config.h - the server's options, for verbs that need no running server. */
#ifndef CLI_CONFIG_H
#define CLI_CONFIG_H

#include "cli/cli.h"

struct options;
/* As a server with the same --config, --set and environment would have them. What is wrong is told,
 * CLI_USAGE. */
enum cli_exit config_load(struct options *o, const struct cli_call *call);

#endif
