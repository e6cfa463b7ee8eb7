/* pg_server.h - a PostgreSQL of Debian's in a folder of its own on a free port, as an unprivileged
 * user, that a test can kill, stop and start again. It dies with the test. */
#ifndef TEST_QUEUE_STORE_PG_SERVER_H
#define TEST_QUEUE_STORE_PG_SERVER_H

#include "lib/folder.h"
#include "pg_wait.h"

#include <pthread.h>
#include <sys/types.h>

enum { PG_SERVER_PATH_BYTES = FOLDER_PATH_BYTES, PG_SERVER_URL_BYTES = 128 };
struct pg_server {
    char bin[PG_SERVER_PATH_BYTES]; /* where its programs are */
    char dir[PG_SERVER_PATH_BYTES];
    char url[PG_SERVER_URL_BYTES];
    unsigned port;
    pid_t pid; /* 0: not running */
    struct clock *clock;
    struct loop *loop; /* runs on a thread of its own, for connections of the test */
    pthread_t thread;
};

/* First in main: where no PostgreSQL is installed, all is skipped. */
void pg_server_need(void);
/* Makes the cluster and starts it. Fails the test when that cannot be had. */
void pg_server_init(struct pg_server *s, struct clock *clock);
void pg_server_fini(struct pg_server *s);
/* Returns when it answers. */
void pg_server_start(struct pg_server *s);
/* kill -9 of all its processes. */
void pg_server_kill(struct pg_server *s);
/* SIGSTOP, SIGCONT of all its processes. */
void pg_server_pause(struct pg_server *s, bool pause);

/* A connection of the test's own, and what is asked by it; an error fails the test. rows NULL: none
 * are wanted. */
struct pg *pg_server_connect(struct pg_server *s);
void pg_server_run(struct pg_server *s, struct pg *c, const char *sql, struct pg_rows **rows);
int64_t pg_server_number(struct pg_server *s, struct pg *c, const char *sql);

#endif
