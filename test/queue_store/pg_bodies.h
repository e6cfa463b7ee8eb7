/* pg_bodies.h - bodies of a store in PostgreSQL: a call takes few statements, however many bodies
 * it asks for, and says of each damaged one that it is. Fails the test else. Thread: one at a time.
 */
#ifndef QUEUE_STORE_PG_BODIES_H
#define QUEUE_STORE_PG_BODIES_H

struct pg;
struct pg_server;
struct queue_store;

/* s: its server logs every statement. c: a connection of its own to server, which has the store's
 * database. In the tables of queue 905. */
void pg_bodies_statements(struct queue_store *s, struct pg_server *server);
/* In the tables of queue 906. */
void pg_bodies_harmed(struct queue_store *s, struct pg_server *server, struct pg *c);

#endif
