/* pg_many.h - writes that are started together and waited for. Fails the test when their outcome
 * does not come. */
#ifndef QUEUE_STORE_PG_MANY_H
#define QUEUE_STORE_PG_MANY_H

#include "queue/store/store.h"

#include <pthread.h>

enum { MANY = 200 };
struct many {
    struct queue_write writes[MANY];
    struct queue_op ops[MANY];
    pthread_mutex_t lock;
    pthread_cond_t over;
    unsigned done;
    err results[MANY];
};
void many_begin(struct many *m);
/* writes[i] has a part and a deadline. */
void many_start(struct many *m, struct queue_store *s, unsigned i);
/* Until so many are answered. */
void many_wait(struct many *m, unsigned count);

#endif
