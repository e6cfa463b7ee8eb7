/* failure.h - what a server answers instead of a result, and what may be done about it.
 *
 * Source: Cassandra's doc/native_protocol_v5.spec, section 8; the reactions are those of the Java
 * driver's manual on retries, bound by the rule that a statement that is not idempotent is never
 * sent twice. Thread: any. */
#ifndef CQL_FAILURE_H
#define CQL_FAILURE_H

#include "base/err.h"
#include "cql/wire.h"

enum cql_code {
    CQL_SERVER_ERROR = 0x0000,
    CQL_PROTOCOL_ERROR = 0x000a,
    CQL_BAD_CREDENTIALS = 0x0100,
    CQL_UNAVAILABLE = 0x1000,
    CQL_OVERLOADED = 0x1001,
    CQL_BOOTSTRAPPING = 0x1002,
    CQL_TRUNCATE_ERROR = 0x1003,
    CQL_WRITE_TIMEOUT = 0x1100,
    CQL_READ_TIMEOUT = 0x1200,
    CQL_READ_FAILURE = 0x1300,
    CQL_FUNCTION_FAILURE = 0x1400,
    CQL_WRITE_FAILURE = 0x1500,
    CQL_CDC_WRITE_FAILURE = 0x1600,
    CQL_CAS_UNKNOWN = 0x1700,
    CQL_SYNTAX_ERROR = 0x2000,
    CQL_UNAUTHORIZED = 0x2100,
    CQL_INVALID = 0x2200,
    CQL_CONFIG_ERROR = 0x2300,
    CQL_ALREADY_EXISTS = 0x2400,
    CQL_UNPREPARED = 0x2500,
};
enum cql_write_kind {
    CQL_WRITE_SIMPLE,
    CQL_WRITE_BATCH,
    CQL_WRITE_UNLOGGED_BATCH,
    CQL_WRITE_COUNTER,
    CQL_WRITE_BATCH_LOG,
    CQL_WRITE_CAS,
    CQL_WRITE_VIEW,
    CQL_WRITE_CDC,
    CQL_WRITE_OTHER, /* one that this client does not know */
};
/* One ERROR. Slices are borrowed from its body. Fields that the code does not have are 0. */
struct cql_failure {
    int32_t code; /* enum cql_code, or one that is newer than this client */
    str message;
    enum cql_consistency consistency;
    int32_t required, alive_or_received; /* replicas: required, and alive or received */
    int32_t failed;                      /* replicas that failed */
    uint16_t reason; /* version 5: the first replica's reason; 1: too many tombstones */
    uint16_t contentions;
    bool data_present;
    enum cql_write_kind write;
    str id;              /* UNPREPARED */
    str keyspace, table; /* ALREADY_EXISTS; FUNCTION_FAILURE: keyspace and function */
};
/* Takes the body of an ERROR, by the layout of its version. False: it is cut, or a count passes the
 * bytes that are left; *out untouched. */
MUST_CHECK bool cql_failure_take(struct cursor *from, unsigned version, struct cql_failure *out);
const char *cql_code_name(int32_t code);                /* "write_timeout"; "unknown" */
const char *cql_write_kind_name(enum cql_write_kind k); /* "BATCH_LOG" */
/* What a caller of the client gets:
 *   ERR_BAD          the statement is wrong: syntax, invalid, config; or a function of it failed
 *   ERR_DENIED       unauthorized, bad credentials
 *   ERR_CONFLICT     already exists
 *   ERR_TIMEOUT      timeouts, and a conditional write of unknown outcome
 *   ERR_IO           a protocol error: this client and the server do not understand each other
 *   ERR_UNAVAILABLE  all others, also failures of replicas and codes newer than this client */
err cql_failure_err(const struct cql_failure *f);
/* "LOCAL_QUORUM: 1 of 2 replicas answered" and what else its numbers say, for a note. */
void cql_failure_print(const struct cql_failure *f, struct buf *out);

/* PREPARE_AGAIN: prepare on the same connection, then send it again there. */
enum cql_reaction { CQL_GIVE_UP, CQL_SAME_NODE, CQL_NEXT_NODE, CQL_PREPARE_AGAIN };
/* idempotent: of the statement. Retries already made count for the caller. */
enum cql_reaction cql_failure_reaction(const struct cql_failure *f, bool idempotent);

#endif
