/* wire.h - requests of the native protocol as bytes: envelopes of version 4 and 5.
 *
 * Source: Cassandra's doc/native_protocol_v4.spec and _v5.spec, sections 2 and 4. An envelope is a
 * head of CQL_HEAD_BYTES and a body; version 4 calls it a frame. Version 5 wraps envelopes into
 * segments (segment.h). Private to cql. Pure. Thread: any. */
#ifndef CQL_WIRE_H
#define CQL_WIRE_H

#include "cql/value.h"

enum {
    CQL_HEAD_BYTES = 9,
    CQL_VERSION_MIN = 4,
    CQL_VERSION_MAX = 5,
    CQL_STREAM_EVENT = -1,
    CQL_STREAMS_MAX = 32768,
    CQL_BODY_BYTES_MAX = 256 << 20, /* of the protocol */
};
enum cql_opcode {
    CQL_OP_ERROR = 0x00,
    CQL_OP_STARTUP = 0x01,
    CQL_OP_READY = 0x02,
    CQL_OP_AUTHENTICATE = 0x03,
    CQL_OP_OPTIONS = 0x05,
    CQL_OP_SUPPORTED = 0x06,
    CQL_OP_QUERY = 0x07,
    CQL_OP_RESULT = 0x08,
    CQL_OP_PREPARE = 0x09,
    CQL_OP_EXECUTE = 0x0a,
    CQL_OP_REGISTER = 0x0b,
    CQL_OP_EVENT = 0x0c,
    CQL_OP_BATCH = 0x0d,
    CQL_OP_AUTH_CHALLENGE = 0x0e,
    CQL_OP_AUTH_RESPONSE = 0x0f,
    CQL_OP_AUTH_SUCCESS = 0x10,
};
enum {
    CQL_FLAG_COMPRESSED = 0x01, /* version 4 only */
    CQL_FLAG_TRACING = 0x02,
    CQL_FLAG_PAYLOAD = 0x04,
    CQL_FLAG_WARNING = 0x08,
    CQL_FLAG_BETA = 0x10, /* never sent */
};

struct cql_head {
    unsigned version; /* without the bit of answers */
    bool answer;
    uint8_t flags, opcode;
    int16_t stream;
    uint32_t body_bytes;
};
/* INVARIANT: at has CQL_HEAD_BYTES bytes. Judges nothing. */
struct cql_head cql_head_get(const char *at);

/* Opens a request at the end of out; what is appended from there on is its body. Returns where it
 * begins, for the end. */
size_t cql_wire_begin(struct buf *out, unsigned version, unsigned flags, int16_t stream,
                      enum cql_opcode op);
/* Writes the length of the body into the head. Does nothing when out failed; fails out when the
 * body is larger than CQL_BODY_BYTES_MAX. */
void cql_wire_end(struct buf *out, size_t begun);

/* Bodies. Names, ids and keyspaces are at most UINT16_MAX bytes. Values whose status is not ERR_OK
 * fail out. */
struct cql_pair {
    str name, value;
};
void cql_body_startup(struct buf *out, const struct cql_pair *options, unsigned count);
void cql_body_register(struct buf *out, const str *events, unsigned count);
/* SASL PLAIN: user and password hold no NUL. */
void cql_body_auth_plain(struct buf *out, str user, str password);
/* keyspace: version 5 only (INVARIANT); empty: none. */
void cql_body_prepare(struct buf *out, unsigned version, str text, str keyspace);

enum cql_consistency {
    CQL_ANY = 0,
    CQL_ONE = 1,
    CQL_TWO = 2,
    CQL_THREE = 3,
    CQL_QUORUM = 4,
    CQL_ALL = 5,
    CQL_LOCAL_QUORUM = 6,
    CQL_EACH_QUORUM = 7,
    CQL_SERIAL = 8,
    CQL_LOCAL_SERIAL = 9,
    CQL_LOCAL_ONE = 10,
    CQL_CONSISTENCIES
};
const char *cql_consistency_name(enum cql_consistency c); /* "LOCAL_QUORUM"; "?" for others */

#define CQL_NO_TIMESTAMP INT64_MIN
#define CQL_NO_NOW INT32_MIN
/* What QUERY, EXECUTE and BATCH say besides the statement. What is of version 5 only is not said in
 * version 4: INVARIANT, since a server would run another request than the one meant. */
struct cql_params {
    enum cql_consistency consistency;
    enum cql_consistency serial; /* CQL_ANY: not said; else CQL_SERIAL or CQL_LOCAL_SERIAL */
    int64_t timestamp_us;        /* CQL_NO_TIMESTAMP: the server's */
    int32_t page_rows;           /* 0: no pages; not said by batches */
    int32_t now_s;               /* CQL_NO_NOW; version 5: the instant by which TTLs are judged */
    bool skip_columns;           /* the result comes without metadata; not said by batches */
    str page_state;              /* empty: the first page; not said by batches */
    str keyspace;                /* version 5; empty: none; not said by EXECUTE: its id says it */
};
/* values: NULL for none. */
void cql_body_query(struct buf *out, unsigned version, str text, const struct cql_values *values,
                    const struct cql_params *p);
/* columns_id: of the result's metadata, version 5. */
void cql_body_execute(struct buf *out, unsigned version, str id, str columns_id,
                      const struct cql_values *values, const struct cql_params *p);
enum cql_batch_kind { CQL_LOGGED = 0, CQL_UNLOGGED = 1, CQL_COUNTERS = 2 };
/* A batch: begin, count times one of the two, end. */
void cql_batch_begin(struct buf *out, enum cql_batch_kind kind, unsigned count);
void cql_batch_text(struct buf *out, str text, const struct cql_values *values);
void cql_batch_prepared(struct buf *out, str id, const struct cql_values *values);
void cql_batch_end(struct buf *out, unsigned version, const struct cql_params *p);

#endif
