/* metadata.h - the columns of a result and the markers of a statement, out of their answer.
 *
 * Source: Cassandra's doc/native_protocol_v5.spec, sections 4.2.5.2 and 4.2.5.4. Part of answer.c.
 * Private to cql. Pure. Thread: any. */
#ifndef CQL_METADATA_H
#define CQL_METADATA_H

#include "cql/answer.h"

struct cql_metadata {
    struct cql_columns *columns; /* the caller's to drop; NULL: left out */
    unsigned count;              /* of columns; also when they are left out */
    bool more;
    str page_state; /* set when more */
    str id;         /* version 5: they changed, and this is their id; else empty */
};
/* Of a result. Fails: ERR_CORRUPT, or ERR_LIMIT: more columns than CQL_COLUMNS_MAX. */
MUST_CHECK err cql_metadata_take(struct cursor *c, unsigned version, struct cql_metadata *out,
                                 struct err_note *note);
/* All of PREPARED. Fails as the above; nothing is left to drop then. */
MUST_CHECK err cql_prepared_take(struct cursor *c, unsigned version,
                                 struct cql_prepared_answer *out, struct err_note *note);

#endif
