/* Goal: no bytes of a node, in whatever pieces, make a connection touch a byte that is not theirs,
 * run on, keep memory, or tell a call more or less than once.
 * Method: a real connection on one end of a socket pair; the input says how it is set up and what
 * comes from the other end: bytes as they are, or envelopes made of them, in segments with right
 * checksums. Calls begin others, forget others and close the connection from inside, as the input
 * wants. */
#include "cql/conn_impl.h"
#include "loop/loop.h"
#include "loop/sysclock.h"

#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { HOW_V5 = 1, HOW_LZ4 = 2, HOW_SHAKING = 4, HOW_ENVELOPES = 8, HOW_SMALL = 16, HOW_CUT = 32 };
enum { CALLS = 12, PIECES_MAX = 64, SENT_MAX = 1 << 20, STREAMS = 6 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct
try {
    struct cql_call call;
    struct fuzz *fuzz;
    unsigned begun, told, forgotten;
};
struct fuzz {
    struct cql_conn *conn;
    int peer;
    bool ended;
    unsigned closed, how;
    str act; /* what calls do when they are told: a byte each */
    struct try tries[CALLS];
};
static struct loop *loop;
static struct sysclock *sys;

static volatile unsigned seen;

static void look(str s)
{
    unsigned sum = 0;
    for (size_t i = 0; i < s.n; i++)
        sum += (unsigned char)s.p[i];
    seen = sum;
}

static void try_done(struct cql_call *call, struct cql_message *m);

static void try_begin(struct fuzz *f)
{
    struct try *t = NULL;
    for (unsigned i = 0; i < CALLS && t == NULL; i++)
        if (f->tries[i].begun == f->tries[i].told + f->tries[i].forgotten)
            t = &f->tries[i];
    if (f->ended || t == NULL || !cql_conn_has_room(f->conn))
        return;
    t->fuzz = f;
    t->call = (struct cql_call){ .done = try_done };
    if (cql_conn_begin(f->conn, &t->call, CQL_OP_QUERY, 0, 8) == NULL)
        return;
    t->begun++;
    cql_conn_end(f->conn);
    cql_conn_flush(f->conn);
}

static void try_forget(struct fuzz *f, unsigned n)
{
    struct try *t = &f->tries[n % CALLS];
    if (t->call.conn == NULL || t->begun == t->told + t->forgotten)
        return;
    t->forgotten++;
    cql_call_forget(&t->call);
}

static void conn_end(struct fuzz *f)
{
    f->ended = true;
    cql_conn_close(&f->conn);
}

static void act(struct fuzz *f)
{
    if (f->act.n == 0)
        return;
    unsigned what = (unsigned char)f->act.p[0];
    f->act = str_skip(f->act, 1);
    if (what < 120)
        try_begin(f);
    else if (what < 180)
        try_forget(f, what);
    else if (what < 184 && !f->ended)
        conn_end(f);
}

static void try_done(struct cql_call *call, struct cql_message *m)
{
    struct try *t = CONTAINER_OF(call, struct try, call);
    struct fuzz *f = t->fuzz;
    t->told++;
    INVARIANT(t->begun == t->told + t->forgotten);
    if (m == NULL) {
        INVARIANT(call->conn != NULL);
        (void)cql_call_unsent(call);
        look(str_of(cql_conn_why(call->conn)->text));
    } else if (m->body != NULL) {
        look((str){ .p = m->body->bytes, .n = m->body->n });
    }
    call->conn = NULL;
    if (m != NULL && m->answer.op == CQL_OP_RESULT && m->answer.result == CQL_RESULT_ROWS)
        look(m->answer.rows.rest.rest); /* it lies in the body */
    act(f);
    if (m != NULL)
        cql_answer_fini(&m->answer);
}

static void on_opened(void *ctx, struct cql_conn *c)
{
    struct fuzz *f = ctx;
    (void)c;
    for (unsigned i = 0; i < STREAMS; i++)
        try_begin(f);
}

static void on_closed(void *ctx, struct cql_conn *c, enum cql_end end, const struct err_note *why)
{
    struct fuzz *f = ctx;
    (void)c;
    (void)end;
    INVARIANT(!f->ended);
    INVARIANT(why->text[0] != '\0');
    f->ended = true;
    f->closed++;
    f->conn = NULL;
}

static void on_event(void *ctx, const struct cql_event *e)
{
    look(e->change);
    look(e->schema.name);
    act(ctx);
}

static void on_warned(void *ctx, str warning)
{
    look(warning);
    act(ctx);
}

static void on_room(void *ctx, struct cql_conn *c)
{
    (void)c;
    act(ctx);
}

/* ---- what the node sends ---- */

static void peer_drain(struct fuzz *f)
{
    static char thrown[1 << 16];
    while (recv(f->peer, thrown, sizeof thrown, MSG_DONTWAIT) > 0)
        ;
}

static void conn_turn(struct fuzz *f)
{
    struct cql_conn *c = f->conn;
    if (f->ended)
        return;
    cql_conn_enter(c);
    if (c->secured)
        cql_conn_read(c);
    else
        cql_shake_go_on(c);
    (void)cql_conn_leave(c);
    peer_drain(f);
}

/* In pieces of the size that `piece` gives; 0: all at once. */
static void send_in_pieces(struct fuzz *f, str bytes, size_t piece)
{
    if (piece > 0 && bytes.n / piece > PIECES_MAX)
        piece = bytes.n / PIECES_MAX + 1;
    while (bytes.n > 0 && !f->ended) {
        str now = piece == 0 ? bytes : str_take(bytes, piece);
        ssize_t n = send(f->peer, now.p, now.n, MSG_DONTWAIT | MSG_NOSIGNAL);
        conn_turn(f);
        if (n > 0)
            bytes = str_skip(bytes, (size_t)n);
    }
}

static void envelope_put(struct buf *out, unsigned version, unsigned op, unsigned flags,
                         int16_t stream, str body)
{
    buf_put_u8(out, (uint8_t)(0x80 | version));
    buf_put_u8(out, (uint8_t)flags);
    buf_put_be16(out, (uint16_t)stream);
    buf_put_u8(out, (uint8_t)op);
    buf_put_be32(out, (uint32_t)body.n);
    buf_put(out, body);
}

/* Made of the input: an opcode, flags, a stream, a length, a body; over and over. */
static void envelopes_make(struct buf *out, unsigned version, str in)
{
    static const uint8_t ops[] = { CQL_OP_RESULT, CQL_OP_ERROR,        CQL_OP_EVENT,
                                   CQL_OP_READY,  CQL_OP_AUTHENTICATE, CQL_OP_SUPPORTED,
                                   CQL_OP_RESULT, CQL_OP_AUTH_SUCCESS };
    while (in.n >= 4 && out->n < SENT_MAX / 2) {
        const unsigned char *b = (const unsigned char *)in.p;
        size_t n = (size_t)b[3] * (b[0] & 0x80 ? 600 : 1); /* some are larger than a segment */
        unsigned flags = b[1] < 128 ? 0 : b[1] & 0x0f;
        int16_t stream = (int16_t)((int8_t)b[2] % 12);
        in = str_skip(in, 4);
        str body = str_take(in, n);
        in = str_skip(in, body.n);
        char *filled = calloc(1, n + 1);
        INVARIANT(filled != NULL);
        if (body.n > 0)
            memcpy(filled, body.p, body.n);
        envelope_put(out, version, ops[b[0] % COUNT_OF(ops)], flags, stream,
                     (str){ .p = filled, .n = n });
        free(filled);
    }
}

/* The handshake, as a node does it. */
static void shake(struct fuzz *f, unsigned version)
{
    static const char supported[] = "\0\1\0\13COMPRESSION\0\1\0\3lz4";
    struct buf out;
    buf_init(&out, 1024);
    envelope_put(&out, version, CQL_OP_SUPPORTED, 0, 0,
                 (str){ .p = supported, .n = sizeof supported - 1 });
    send_in_pieces(f, buf_str(&out), 0);
    buf_clear(&out);
    envelope_put(&out, version, CQL_OP_READY, 0, 1, STR_NONE);
    send_in_pieces(f, buf_str(&out), 0);
    buf_fini(&out);
    INVARIANT(f->ended || cql_conn_is_open(f->conn));
}

static void conn_make(struct fuzz *f, unsigned version)
{
    int pair[2];
    INVARIANT(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, pair) == 0);
    const struct cql_conn_opts o = {
        .loop = loop,
        .clock = sysclock_clock(sys),
        .version = version,
        .lz4 = (f->how & HOW_LZ4) != 0,
        .user = f->how & HOW_SHAKING ? "u" : NULL,
        .password = "p",
        .plain_anywhere = true,
        .streams_max = STREAMS,
        .orphans_max = 3,
        .answer_bytes_max = f->how & HOW_SMALL ? 64 : 1 << 20,
        .connect_timeout_ms = 60000,
        .heartbeat_ms = 60000,
        .answer_timeout_ms = 60000,
        .opened = on_opened,
        .closed = on_closed,
        .event = on_event,
        .warned = on_warned,
        .room = on_room,
        .host = "h",
        .ctx = f,
    };
    f->conn = cql_conn_over(pair[0], &o);
    f->peer = pair[1];
    conn_turn(f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 4)
        return 0;
    if (loop == NULL) {
        loop = loop_new(1);
        sys = sysclock_new();
    }
    struct fuzz f = { .how = data[0] };
    unsigned version = f.how & HOW_V5 ? 5 : 4;
    size_t acts = data[1] % 64;
    str in = { .p = (const char *)data + 3, .n = size - 3 };
    f.act = str_take(in, acts);
    in = str_skip(in, f.act.n);
    conn_make(&f, version);
    if (!(f.how & HOW_SHAKING))
        shake(&f, version);
    struct buf plain, sent;
    buf_init(&plain, SENT_MAX);
    buf_init(&sent, 2 * SENT_MAX);
    if (f.how & HOW_ENVELOPES)
        envelopes_make(&plain, version, in);
    else
        buf_put(&plain, in);
    bool framed = version == 5 && !(f.how & HOW_SHAKING) && f.how & HOW_ENVELOPES;
    if (framed)
        cql_segments_put(&sent, buf_str(&plain), (f.how & HOW_LZ4) != 0);
    else
        buf_put(&sent, buf_str(&plain));
    send_in_pieces(&f, buf_str(&sent), data[2]);
    if (f.how & HOW_CUT && !f.ended) {
        INVARIANT(shutdown(f.peer, SHUT_WR) == 0);
        conn_turn(&f);
        INVARIANT(f.ended);
    }
    if (!f.ended)
        conn_end(&f);
    for (unsigned i = 0; i < CALLS; i++)
        INVARIANT(f.tries[i].begun == f.tries[i].told + f.tries[i].forgotten);
    INVARIANT(f.closed <= 1);
    (void)close(f.peer);
    buf_fini(&plain);
    buf_fini(&sent);
    loop_stop(loop); /* what was closed goes */
    loop_run(loop);
    return 0;
}
