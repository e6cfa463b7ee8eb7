/* pg_damage.h - what others may write into the tables of a store in PostgreSQL, within what their
 * columns take: the store says damage, and believes none of it. Fails the test else. Thread: one at
 * a time. */
#ifndef QUEUE_STORE_PG_DAMAGE_H
#define QUEUE_STORE_PG_DAMAGE_H

struct pg;
struct pg_server;
struct queue_store;

/* c: a connection of its own to server, which has the store's database. In the tables of queue
 * 902. */
void pg_damage_rows(struct queue_store *s, struct pg_server *server, struct pg *c);

#endif
