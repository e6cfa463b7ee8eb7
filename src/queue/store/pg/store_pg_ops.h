/* store_pg_ops.h - a partition's part of a write while it becomes statements. Private to store/pg.
 * Thread: the job's. An arena that is full is said once, in pg_group.full. */
#ifndef QUEUE_STORE_PG_STORE_PG_OPS_H
#define QUEUE_STORE_PG_STORE_PG_OPS_H

#include "queue/store/local/rows.h"
#include "queue/store/pg/store_pg.h"

/* An op and the row it changes. */
struct keyed {
    struct row_key key;
    unsigned index;
    const struct queue_op *op;
};

struct part_writer {
    struct pg_group *b;
    const struct queue_write_part *part;
    struct keyed *last; /* the last op of each row */
    unsigned last_count;
};

/* Ops of one kind. */
struct columns {
    struct part_writer *w;
    const struct queue_op **ops;
    unsigned count;
    struct pg_params *params;
};

typedef str bytes_fn(struct part_writer *w, const struct queue_op *op);
typedef int64_t number_fn(const struct queue_op *op);
/* store_pg_part.c: the row that an op changes. */
struct row_key part_row_of(struct queue_part p, const struct queue_op *op);

/* A new statement; its parameters, to be filled. NULL: the arena is full. */
struct pg_params *ops_statement(struct part_writer *w, enum pg_tag tag, const char *format);
/* Copies in the arena. */
str ops_bytes(struct part_writer *w, str bytes);
str ops_id(struct part_writer *w, struct ksuid id);
/* The next parameter: fn of each op. */
void ops_bytes_column(struct columns *c, bytes_fn *fn);
bool ops_states_are(const struct queue_batch *b, enum queue_item_state state); /* all of them */

/* Each adds the statement for all of c. */
void ops_put_batches(struct columns *c);
void ops_check_batches(struct columns *c); /* fails unless all of them are there, of that size */
void ops_put_states(struct columns *c);
void ops_delete_states(struct columns *c);
void ops_put_entries(struct columns *c);
void ops_delete_entries(struct columns *c);
void ops_put_leases(struct columns *c);
void ops_delete_leases(struct columns *c);
void ops_put_keys(struct columns *c);
void ops_delete_keys(struct columns *c);

#endif
