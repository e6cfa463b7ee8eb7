/* values_update.h - a put or a delete on its way: what values_update.c reads and judges, and
 * values_write.c decides and writes. Private to the two. */
#ifndef CASSANDRA_VALUES_UPDATE_H
#define CASSANDRA_VALUES_UPDATE_H

#include "cassandra/values_impl.h"

enum {
    VALUES_SPARED_MAX = 8, /* chunks of rows that were replaced, deleted behind the write */
};

struct values_update {
    struct values *values;
    struct table_update *update;
    const struct table_write *write;
    struct values_find find;
    struct values_key key;
    struct values_id id;
    struct values_ask ask;
    struct arena work; /* of one try */
    mono deadline;
    unsigned tries;
    struct loop_timer *timer; /* of a pause */
    bool serial;              /* this try reads so */
    bool lost;                /* the answer to the last try: it may have happened */
    /* what the write names */
    bool has_rev, has_tid;
    struct values_row target; /* rev and tid */
    struct values_head head;
    str value;
    /* what was read */
    struct values_version version, wanted; /* wanted.n 0: nothing was tried */
    bool has_version;
    struct values_row *rows; /* in their order */
    size_t count, size;
    bool more, second; /* more rows than were read; the rows of the revision are read apart */
    err dead;          /* too many rows before the first that is alive */
    struct values_body body;
    /* what was decided */
    bool empties;
    size_t at; /* the row put */
    struct values_id spared[VALUES_SPARED_MAX];
    unsigned spared_count;
    /* written before the decision, once */
    size_t sent; /* of the value, in chunks */
    bool listed;
};

/* values_update.c */
void values_update_end(struct values_update *u, err why);
void values_update_fail(struct values_update *u, err why, const struct err_note *note);
/* By the cluster (values_blame). */
void values_update_lost(struct values_update *u, err why, const struct err_note *note);
/* Loads, judges and decides anew, while there is time. serial: what was tried may have happened. */
void values_update_again(struct values_update *u, bool serial);
bool values_update_alive(const struct values_update *u, const struct values_row *r);
bool values_update_any(const struct values_update *u);       /* is one of the rows alive? */
MUST_CHECK bool values_update_room(struct values_update *u); /* for one more row */

/* values_write.c. It may be made, as far as its condition goes. */
void values_update_decide(struct values_update *u);
/* It has happened. */
void values_update_wrote(struct values_update *u);

#endif
