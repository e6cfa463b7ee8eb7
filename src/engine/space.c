/* space.c - dead extents become holes, empty segments go, sparse ones are copied out. */
#include "engine/parts.h"

#include <stdlib.h>

void space_add(struct engine *e, struct dead_batch *batch)
{
    batch->next = NULL;
    pthread_mutex_lock(&e->space);
    if (e->batches_last == NULL)
        e->batches = batch;
    else
        e->batches_last->next = batch;
    e->batches_last = batch;
    pthread_mutex_unlock(&e->space);
}

void space_free(struct engine *e)
{
    while (e->batches != NULL) {
        struct dead_batch *b = e->batches;
        e->batches = b->next;
        free(b);
    }
    e->batches_last = NULL;
}
