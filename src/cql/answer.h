/* answer.h - answers and events of the native protocol, taken apart.
 *
 * Source: Cassandra's doc/native_protocol_v4.spec and _v5.spec, sections 2, 4.2 and 9. The bytes
 * are a stranger's: a body that is cut, or says what cannot be, is ERR_CORRUPT. Bytes left over
 * behind a message are ignored, as the protocol asks. Private to cql. Thread: any. */
#ifndef CQL_ANSWER_H
#define CQL_ANSWER_H

#include "cql/failure.h"
#include "cql/wire.h"

enum { CQL_COLUMNS_MAX = 1024, CQL_PARTITION_COLUMNS_MAX = 32 };

enum cql_result_kind {
    CQL_RESULT_VOID = 1,
    CQL_RESULT_ROWS = 2,
    CQL_RESULT_KEYSPACE = 3,
    CQL_RESULT_PREPARED = 4,
    CQL_RESULT_SCHEMA = 5,
};

enum cql_change { CQL_CHANGE_CREATED, CQL_CHANGE_UPDATED, CQL_CHANGE_DROPPED };
struct cql_schema_change {
    enum cql_change change;
    /* "TABLE", its keyspace, its name (empty for a keyspace); both are empty when the target is of
     * a kind that is newer than this client. */
    str target, keyspace, name;
};

struct cql_prepared_answer {
    str id, columns_id;          /* columns_id: version 5 */
    struct cql_columns *markers; /* the caller's to drop; never NULL */
    struct cql_columns
        *columns; /* of the result; the caller's; NULL: it has none, or did not say */
    uint16_t
        partition[CQL_PARTITION_COLUMNS_MAX]; /* markers that make the partition key, in order */
    unsigned partition_count;                 /* 0: not known, or more than fit */
};

enum cql_event_kind { CQL_EVENT_TOPOLOGY, CQL_EVENT_STATUS, CQL_EVENT_SCHEMA, CQL_EVENT_OTHER };
struct cql_event {
    enum cql_event_kind kind;
    str change; /* TOPOLOGY, STATUS: "UP", "DOWN", "NEW_NODE", "REMOVED_NODE" */
    char address[46];
    int32_t port;                    /* 0 to 65535 */
    struct cql_schema_change schema; /* SCHEMA */
};

struct cql_answer {
    enum cql_opcode op;
    /* what may stand before every message */
    bool traced;
    unsigned char trace[CQL_UUID_BYTES];
    struct cursor warnings; /* [string]s, warnings_count of them: checked */
    unsigned warnings_count;
    str payload; /* a [bytes map], unparsed but checked; empty: none */
    /* by op */
    struct cql_failure failure; /* ERROR */
    enum cql_result_kind result;
    struct cql_rows rows;   /* ROWS; its columns are the caller's to drop */
    str new_columns_id;     /* ROWS of version 5: the metadata changed, and this is its id */
    bool no_columns;        /* ROWS: came without metadata: cql_answer_describe gives it back */
    unsigned columns_count; /* ROWS: what the answer says; rows are read by it */
    str keyspace;           /* KEYSPACE */
    struct cql_prepared_answer prepared; /* PREPARED */
    struct cql_schema_change schema;     /* SCHEMA */
    struct cql_event event;              /* EVENT */
    struct cursor supported; /* SUPPORTED: a [string multimap] behind its count: checked */
    unsigned supported_count;
    str token;         /* AUTH_CHALLENGE, AUTH_SUCCESS; n 0 of NULL: null */
    str authenticator; /* AUTHENTICATE: a class */
};
/* Body: unpacked, borrowed by *out. Fails: ERR_CORRUPT with a note; nothing is left to drop.
 * ERR_LIMIT: more columns than CQL_COLUMNS_MAX. */
MUST_CHECK err cql_answer_parse(const struct cql_head *head, str body, struct cql_answer *out,
                                struct err_note *note);
/* Drops what is the caller's. */
void cql_answer_fini(struct cql_answer *a);
/* Gives rows that came without metadata (INVARIANT) the columns that were prepared: holds them for
 * the answer. Fails: ERR_CORRUPT, they are not as many as the answer says. */
MUST_CHECK err cql_answer_describe(struct cql_answer *a, struct cql_columns *cached,
                                   struct err_note *note);
/* Does SUPPORTED list value under name? */
bool cql_supports(const struct cql_answer *a, str name, str value);
/* Takes the next warning: warnings_count is one less. INVARIANT: it was not 0. */
str cql_answer_warning(struct cql_answer *a);

#endif
