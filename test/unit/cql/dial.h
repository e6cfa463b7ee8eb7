/* dial.h - a client of one connection for tests of the fake cluster: it writes and reads in turn,
 * and waits for what it wants, at most WAIT_S seconds. */
#ifndef TEST_CQL_DIAL_H
#define TEST_CQL_DIAL_H

#include "cql/answer.h"
#include "cql/segment.h"
#include "unit/cql/node.h"

struct dial {
    int fd;
    unsigned version;
    bool lz4, framed;
    struct buf in, plain, out,
        body;     /* plain: envelopes out of segments; body: of the last answer */
    size_t taken; /* of plain */
    char *room;
};
/* Connects, and no more. */
void dial_open(struct dial *d, struct node_cluster *c, unsigned node, unsigned version);
void dial_close(struct dial *d);
/* Connects and starts; nobody has to log in. */
void dial_start(struct dial *d, struct node_cluster *c, unsigned node, unsigned version, bool lz4);

/* Opens a request on a stream; the caller appends its body to d->out. Returns where it begins. */
size_t dial_begin(struct dial *d, int16_t stream, enum cql_opcode op);
void dial_send(struct dial *d, size_t begun); /* in segments or LZ4, as was agreed */
void dial_startup(struct dial *d, const char *compression);
void dial_query(struct dial *d, int16_t stream, const char *text);

enum dial_got { DIAL_ANSWER, DIAL_END, DIAL_RESET, DIAL_BAD };
/* The head of the next envelope, which is not taken. */
enum dial_got dial_head(struct dial *d, struct cql_head *head);
/* The next envelope; body is good until the next call. BAD: a segment is. */
enum dial_got dial_take(struct dial *d, struct cql_head *head, str *body);
/* The next answer: there is one, it is whole, and is of this stream and opcode. Fini is the
 * caller's. */
void dial_expect(struct dial *d, int16_t stream, enum cql_opcode op, struct cql_answer *out);
/* The same of an ERROR with a code. */
void dial_expect_error(struct dial *d, int16_t stream, int32_t code);
/* A result without rows. */
void dial_expect_void(struct dial *d, int16_t stream);

#endif
