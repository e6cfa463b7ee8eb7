/* dial.c - a blocking client of one connection, by the client's own codec. */
#include "unit/cql/dial.h"

#include "lib/wait.h"
#include "unit/cmocka_all.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { DIAL_BYTES_MAX = 256 << 20 };

void dial_open(struct dial *d, struct node_cluster *c, unsigned node, unsigned version)
{
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_port = htons(node_port(c, node)) };
    struct timeval wait = { .tv_sec = WAIT_S };
    *d = (struct dial){ .fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .version = version };
    assert_true(d->fd >= 0);
    assert_int_equal(inet_pton(AF_INET, node_host(c, node), &at.sin_addr), 1);
    assert_int_equal(setsockopt(d->fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait), 0);
    assert_int_equal(connect(d->fd, (struct sockaddr *)&at, sizeof at), 0);
    buf_init(&d->in, DIAL_BYTES_MAX);
    buf_init(&d->plain, DIAL_BYTES_MAX);
    buf_init(&d->out, DIAL_BYTES_MAX);
    buf_init(&d->body, DIAL_BYTES_MAX);
    d->room = malloc(CQL_SEGMENT_BYTES_MAX);
    assert_non_null(d->room);
}

void dial_close(struct dial *d)
{
    close(d->fd);
    buf_fini(&d->in);
    buf_fini(&d->plain);
    buf_fini(&d->out);
    buf_fini(&d->body);
    free(d->room);
}

/* ---- out ---- */

static void send_all(int fd, str rest)
{
    while (rest.n > 0) {
        ssize_t n = send(fd, rest.p, rest.n, MSG_NOSIGNAL);
        assert_true(n > 0);
        rest = str_skip(rest, (size_t)n);
    }
}

size_t dial_begin(struct dial *d, int16_t stream, enum cql_opcode op)
{
    return cql_wire_begin(&d->out, d->version, 0, stream, op);
}

void dial_send(struct dial *d, size_t begun)
{
    struct buf bytes;
    cql_wire_end(&d->out, begun);
    assert_int_equal(buf_status(&d->out), ERR_OK);
    str envelope = buf_str(&d->out);
    buf_init(&bytes, DIAL_BYTES_MAX);
    if (d->framed) {
        cql_segments_put(&bytes, envelope, d->lz4);
    } else {
        buf_put(&bytes, str_take(envelope, CQL_HEAD_BYTES));
        if (d->lz4 && cql_body_pack(&bytes, str_skip(envelope, CQL_HEAD_BYTES)))
            bytes.p[1] |= CQL_FLAG_COMPRESSED;
        else
            buf_put(&bytes, str_skip(envelope, CQL_HEAD_BYTES));
        put_be32(bytes.p + 5, (uint32_t)(bytes.n - CQL_HEAD_BYTES));
    }
    send_all(d->fd, buf_str(&bytes));
    buf_fini(&bytes);
    buf_clear(&d->out);
}

void dial_startup(struct dial *d, const char *compression)
{
    struct cql_pair options[] = { { STR_INIT("CQL_VERSION"), STR_INIT("3.0.0") },
                                  { STR_INIT("THROW_ON_OVERLOAD"), STR_INIT("1") },
                                  { STR_INIT("COMPRESSION"), str_of(compression) } };
    size_t begun = dial_begin(d, 0, CQL_OP_STARTUP);
    cql_body_startup(&d->out, options, compression == NULL ? 2 : 3);
    dial_send(d, begun);
}

void dial_query(struct dial *d, int16_t stream, const char *text)
{
    struct cql_params params = { .consistency = CQL_LOCAL_QUORUM,
                                 .timestamp_us = CQL_NO_TIMESTAMP,
                                 .now_s = CQL_NO_NOW };
    size_t begun = dial_begin(d, stream, CQL_OP_QUERY);
    cql_body_query(&d->out, d->version, str_of(text), NULL, &params);
    dial_send(d, begun);
}

/* ---- in ---- */

/* Bytes for one more look. False: an end, which is *end. */
static bool dial_read(struct dial *d, enum dial_got *end)
{
    char bytes[1 << 16];
    ssize_t n = recv(d->fd, bytes, sizeof bytes, 0);
    if (n < 0)
        assert_int_equal(errno, ECONNRESET);
    *end = n < 0 ? DIAL_RESET : DIAL_END;
    if (n > 0)
        buf_put(d->framed ? &d->in : &d->plain, (str){ .p = bytes, .n = (size_t)n });
    return n > 0;
}

/* Segments that are whole become envelopes. False: one is bad. */
static bool dial_unwrap(struct dial *d)
{
    size_t used = 0;
    struct cql_segment s;
    struct err_note note;
    enum cql_segment_state state = CQL_SEGMENT_WHOLE;
    while (state == CQL_SEGMENT_WHOLE) {
        state = cql_segment_take(str_skip(buf_str(&d->in), used), d->lz4, d->room, &s, &note);
        if (state != CQL_SEGMENT_WHOLE)
            break;
        buf_put(&d->plain, s.payload);
        used += s.used;
    }
    if (used > 0)
        memmove(d->in.p, d->in.p + used, d->in.n - used);
    d->in.n -= used;
    return state != CQL_SEGMENT_BAD;
}

static void dial_unpack(struct dial *d, const struct cql_head *head, str *body)
{
    size_t bytes = 0;
    buf_clear(&d->body);
    if ((head->flags & CQL_FLAG_COMPRESSED) == 0) {
        buf_put(&d->body, *body);
    } else {
        assert_true(d->lz4 && d->version == 4);
        assert_true(cql_body_unpacked_bytes(*body, DIAL_BYTES_MAX, &bytes));
        char *at = buf_extend(&d->body, bytes);
        assert_true(cql_body_unpack(*body, at, bytes));
    }
    *body = buf_str(&d->body);
}

/* Bytes until there are so many behind those that were taken. */
static enum dial_got dial_fill(struct dial *d, size_t bytes)
{
    enum dial_got end = DIAL_END;
    while (d->plain.n < bytes) {
        if (!dial_read(d, &end))
            return end;
        if (!dial_unwrap(d))
            return DIAL_BAD;
    }
    return DIAL_ANSWER;
}

enum dial_got dial_head(struct dial *d, struct cql_head *head)
{
    if (d->taken > 0)
        memmove(d->plain.p, d->plain.p + d->taken, d->plain.n - d->taken);
    d->plain.n -= d->taken;
    d->taken = 0;
    enum dial_got got = dial_fill(d, CQL_HEAD_BYTES);
    if (got == DIAL_ANSWER)
        *head = cql_head_get(d->plain.p);
    return got;
}

enum dial_got dial_take(struct dial *d, struct cql_head *head, str *body)
{
    enum dial_got got = dial_head(d, head);
    if (got == DIAL_ANSWER)
        got = dial_fill(d, CQL_HEAD_BYTES + (size_t)head->body_bytes);
    if (got != DIAL_ANSWER)
        return got;
    d->taken = CQL_HEAD_BYTES + head->body_bytes;
    *body = (str){ .p = d->plain.p + CQL_HEAD_BYTES, .n = head->body_bytes };
    dial_unpack(d, head, body);
    return DIAL_ANSWER;
}

void dial_expect(struct dial *d, int16_t stream, enum cql_opcode op, struct cql_answer *out)
{
    struct cql_head head;
    struct err_note note = { "" };
    str body;
    assert_int_equal(dial_take(d, &head, &body), DIAL_ANSWER);
    assert_true(head.answer);
    assert_int_equal(head.version, d->version);
    assert_int_equal(head.stream, stream);
    assert_int_equal(head.opcode, op);
    if (cql_answer_parse(&head, body, out, &note) != ERR_OK)
        fail_msg("%s", note.text);
}

void dial_expect_error(struct dial *d, int16_t stream, int32_t code)
{
    struct cql_answer a;
    dial_expect(d, stream, CQL_OP_ERROR, &a);
    assert_int_equal(a.failure.code, code);
    cql_answer_fini(&a);
}

void dial_expect_void(struct dial *d, int16_t stream)
{
    struct cql_answer a;
    dial_expect(d, stream, CQL_OP_RESULT, &a);
    assert_int_equal(a.result, CQL_RESULT_VOID);
    cql_answer_fini(&a);
}

void dial_start(struct dial *d, struct node_cluster *c, unsigned node, unsigned version, bool lz4)
{
    struct cql_answer a;
    dial_open(d, c, node, version);
    dial_startup(d, lz4 ? "lz4" : NULL);
    dial_expect(d, 0, CQL_OP_READY, &a);
    cql_answer_fini(&a);
    d->lz4 = lz4;
    d->framed = version >= 5;
}
