/* redis_server.h - a real redis-server of the test's own, on a free port of loopback. */
#ifndef TEST_REDIS_SERVER_H
#define TEST_REDIS_SERVER_H

#include "lib/folder.h"

#include <stdint.h>
#include <sys/types.h>

struct redis_server {
    pid_t pid;
    uint16_t port;
    char dir[FOLDER_PATH_BYTES];
};
/* First in main: without the program all is skipped. */
void redis_server_need(void);
/* extra: arguments behind the usual ones, ended by NULL; may be NULL. port 0: a free one. Waits
 * until it answers; a failure ends the test. */
void redis_server_start(struct redis_server *s, uint16_t port, const char *const *extra);
void redis_server_signal(const struct redis_server *s, int signal_number);
/* SIGKILL, and its folder is removed. */
void redis_server_end(struct redis_server *s);

#endif
