/* inherit.h - sockets that a service manager listens on and hands over (socket activation).
 *
 * Model: sd_listen_fds(3). LISTEN_PID names the process they are for, LISTEN_FDS says how many
 * there are, from descriptor 3 on, LISTEN_FDNAMES what they are called: "admin", "purge", others
 * are for content: those that are called as one of `listeners` for a part of it. Linked against
 * nothing of systemd. */
#ifndef SERVER_INHERIT_H
#define SERVER_INHERIT_H

#include "base/err.h"

#include <stdint.h>

enum { INHERITED_MAX = 9, INHERITED_ADDRESS_BYTES = 128, INHERITED_NAME_BYTES = 256 };
enum inherited_for { INHERITED_CONTENT, INHERITED_ADMIN, INHERITED_PURGE };

struct inherited_item {
    int fd;
    enum inherited_for what;
    char address[INHERITED_ADDRESS_BYTES]; /* numeric, or "unix:/PATH", "unix:@ABSTRACT" */
    uint16_t port;
    char name[INHERITED_NAME_BYTES]; /* "" when it is longer */
};
struct inherited {
    struct inherited_item items[INHERITED_MAX];
    unsigned count;
};

/* Takes what is for this process: looks at each, sets it close-on-exec and non-blocking, and
 * removes the variables from the environment. Nothing there is fine. Fails: ERR_BAD (no stream
 * socket that listens, too many, a count that is no number). Once, before there are threads. */
MUST_CHECK err inherit_take(struct inherited *out, struct err_note *note);

#endif
