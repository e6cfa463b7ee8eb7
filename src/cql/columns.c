/* columns.c - the shared life of a result's metadata. Answers, prepared statements and readers of
 * rows hold it, on several threads; the last one frees it.
 *
 * The memory order is that of any count of holders: all reading is over before the last drop frees.
 */
#include "cql/value.h"

#include <stdlib.h>

struct cql_columns *cql_columns_hold(struct cql_columns *c)
{
    (void)__atomic_add_fetch(&c->refs, 1, __ATOMIC_RELAXED);
    return c;
}

void cql_columns_drop(struct cql_columns **cp)
{
    struct cql_columns *c = *cp;
    *cp = NULL;
    if (c != NULL && __atomic_sub_fetch(&c->refs, 1, __ATOMIC_ACQ_REL) == 0)
        free(c);
}
