/* event.h - what a server tells unasked, and changes of the schema.
 *
 * Source: Cassandra's doc/native_protocol_v5.spec, section 4.2.6. Part of answer.c. Private to cql.
 * Pure. Thread: any. */
#ifndef CQL_EVENT_H
#define CQL_EVENT_H

#include "cql/answer.h"

/* Fail: ERR_CORRUPT. */
MUST_CHECK err cql_schema_take(struct cursor *c, struct cql_schema_change *out,
                               struct err_note *note);
MUST_CHECK err cql_event_take(struct cursor *c, struct cql_event *out, struct err_note *note);

#endif
