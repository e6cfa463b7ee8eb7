/* keys.h - the users, keys and roles that servers on one Cassandra share, opened without a server.
 * Thread: one, which is not the loop's: a thread of its own turns that. */
#ifndef CLI_KEYS_H
#define CLI_KEYS_H

#include "cli/cli.h"

struct auth;
struct clock;
struct keys;
/* By the options that --config and --set of the call name. What fails is told. */
enum cli_exit keys_open(const struct cli_call *call, struct keys **out);
void keys_close(struct keys **kp);
struct auth *keys_auth(struct keys *k);
struct clock *keys_clock(struct keys *k);

#endif
