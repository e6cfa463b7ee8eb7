/* store.h - verifying a store that no server has open. Private to cli. Thread: one. */
#ifndef CLI_STORE_H
#define CLI_STORE_H

#include "cli/cli.h"
#include "cli/out.h"

#include "base/err.h"

struct store_check {
    uint64_t damages;
    json_t *found;        /* array of sentences, at most STORE_FOUND_MAX */
    struct err_note note; /* why it could not be opened or read */
};
enum { STORE_FOUND_MAX = 1000 };
/* Opens dir read-only, verifies every row, record and checksum and what page rows hold among each
 * other. Changes nothing. ERR_OK; ERR_CORRUPT with found (or with a note when it does not even
 * open); what engine_open says. Owner of found: caller, json_decref, in every case. progress: on a
 * terminal. */
MUST_CHECK err store_check(const char *dir, bool progress, struct store_check *out);
/* The exit code that belongs to it. */
enum cli_exit store_exit(err why);
/* A line for what the answer of a server says it does not cover: what lies in a cluster. */
void store_tell_rest(const json_t *answer);

#endif
