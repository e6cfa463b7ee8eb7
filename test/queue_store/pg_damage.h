/* pg_damage.h - what others may write into the tables of a store in PostgreSQL, within what their
 * columns take: the store says damage, and believes none of it. Fails the test else. Thread: one at
 * a time. */
#ifndef QUEUE_STORE_PG_DAMAGE_H
#define QUEUE_STORE_PG_DAMAGE_H

#include "base/times.h"

struct pg;
struct queue_store;

/* c: a connection of its own to the store's database. */
void pg_damage_supersede(struct queue_store *s, struct pg *c,
                         mono deadline); /* in the tables of queue 901 */
void pg_damage_rows(struct queue_store *s, struct pg *c, mono deadline); /* of 902 */

#endif
