/* suite.h - what every kind of store has to pass, unchanged. */
#ifndef TEST_QUEUE_STORE_SUITE_H
#define TEST_QUEUE_STORE_SUITE_H

#include "model.h"

/* How a test gets at one kind of store. */
struct suite {
    struct queue_store *store;
    void (*reopen)(struct suite *s); /* closes and opens again; what is stored stays */
    void (*check)(
        struct suite *s); /* all that is stored fits together; NULL: nothing more to look at */
    void *ctx;
    unsigned steps; /* of the random history */
};
void suite_run(struct suite *s);

#endif
