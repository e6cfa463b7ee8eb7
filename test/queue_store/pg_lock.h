/* pg_lock.h - a table of a partition that another session holds locked, as who changes it does:
 * PostgreSQL says in time that nothing was written, and the connection stays. Fails the test else.
 * Thread: one at a time. */
#ifndef QUEUE_STORE_PG_LOCK_H
#define QUEUE_STORE_PG_LOCK_H

#include <stdint.h>

struct pg;
struct pg_server;
struct queue_store;

/* s: its writes time out after timeout_ms. c: a connection of its own to server, which has its
 * database. A table of queue 903 is locked. */
void pg_lock_alone(struct queue_store *s, struct pg_server *server, struct pg *c,
                   int64_t timeout_ms);
/* Writes of two partitions of queue 904 in turn, of which one is locked: those of the other are
 * written. */
void pg_lock_beside(struct queue_store *s, struct pg_server *server, struct pg *c,
                    int64_t timeout_ms);

#endif
