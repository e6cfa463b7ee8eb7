/* incarnation.h - the number of one run of one server: no two runs have the same.
 *
 * Model. The row 'server' of the table meta holds the last number that was given out, and a word of
 * the run that has it. A run reads it and writes the next one, on the condition that the row did
 * not change. An answer that was lost is read back: the word tells whose write it was. A number may
 * be skipped, and is never given twice.
 *   Reads and writes are SERIAL, over all data centres: a quorum of all replicas of the keyspace
 * has to answer.
 * Thread: the client's loop. */
#ifndef CASSANDRA_INCARNATION_H
#define CASSANDRA_INCARNATION_H

#include "base/err.h"
#include "base/times.h"

enum { INCARNATION_TRIES = 20 };

struct cql;
struct incarnation_opts {
    struct cql *client;
    const char *keyspace;
    uint64_t random; /* of this run */
    mono deadline;
};
/* number: above 0. ERR_CONFLICT: others took it first, INCARNATION_TRIES times. The note is good
 * during the call. */
typedef void incarnation_done_fn(void *ctx, err why, uint32_t number, const struct err_note *note);
void incarnation_take(const struct incarnation_opts *o, incarnation_done_fn *done, void *ctx);

#endif
