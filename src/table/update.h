/* update.h - an update on its way: what it is prepared into, and what its decision keeps. Private
 * to prepare.c and update.c. */
#ifndef TABLE_UPDATE_H
#define TABLE_UPDATE_H

#include "table/store.h"

struct table_step {
    const struct table_write *write;
    const struct schema *schema;
    struct key_buf key; /* put: of the row; delete: of the partition */
    size_t partition_size;
    str *values; /* put: by index of attributes */
    bool *named;
    bool names_static, names_all; /* names_all: no plain attribute keeps its old value */
    struct plan plan;             /* of predicates */
};

/* In the arena of its request, as call.own. */
struct update_own {
    struct tables *tables;
    struct table_step *steps;
    /* what the decision made last reads and packs: what arena has left, at most */
    struct arena decided;
    unsigned delete_rows; /* of one update of a delete */
    uint64_t deleted_before;
    bool may_block, more;
    struct engine_update update;
};

/* Each write as its step. ERR_NOT_FOUND no such table, ERR_BAD with a note, ERR_LIMIT; ERR_AGAIN
 * when look says now, and a schema is cold. */
MUST_CHECK err steps_prepare(struct table_update *u, const struct store_look *look);

#endif
