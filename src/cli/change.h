/* change.h - files of rules and events, for the verbs of changes. Private to cli. */
#ifndef CLI_CHANGE_H
#define CLI_CHANGE_H

#include "base/buf.h"
#include "cli/cli.h"
#include "rule/rule.h"

/* The bytes of a file, "-" is standard input, into out, whose maximum they may not pass. Failures
 * are told: CLI_FAILED. */
MUST_CHECK enum cli_exit change_read(const struct cli_call *call, const char *path,
                                     struct buf *out);
/* The rules of a text that came from path. Faults are told, each in a line or a document on `to`:
 * CLI_USAGE. Owner: caller, rule_set_unref. */
MUST_CHECK enum cli_exit change_rules(const struct cli_call *call, const char *path, str text,
                                      FILE *to, struct rule_set **out);

#endif
