/* node_conn.c - the bytes of a connection to a node of the fake cluster: envelopes out of segments
 * and frames, and answers on their way back, with the faults that concern bytes.
 *
 * Answers of one round share segments, as those of a real server do. */
#include "cql/segment.h"
#include "unit/cql/node_impl.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { READS_MAX = 64, READ_BYTES = 1 << 16, VERSION_LEAST = 3 };

/* ---- in ---- */

static struct cql_head head_of(const char *at)
{
    unsigned version = (unsigned char)at[0];
    return (struct cql_head){ .version = version & 0x7f,
                              .answer = (version & 0x80) != 0,
                              .flags = (uint8_t)at[1],
                              .stream = (int16_t)get_be16(at + 2),
                              .opcode = (uint8_t)at[4],
                              .body_bytes = get_be32(at + 5) };
}

static void conn_broken(struct node_conn *conn, int16_t stream, const char *what)
{
    node_complain(conn, "%s", what);
    node_talk_refuse(conn, conn->version == 0 ? CQL_VERSION_MIN : conn->version, stream, what);
    node_conn_end(conn, false);
}

/* As Cassandra 5.0 does it, and 3.11, which knows version 5 as a beta. */
static void version_refuse(struct node_conn *conn, const struct cql_head *h, unsigned version_max)
{
    char what[128];
    conn->deaf = true;
    if (h->version == 5 && conn->cluster->opts.no_peers_v2) {
        node_talk_refuse(conn, 5, h->stream,
                         "Beta version of the protocol used (5/v5-beta), but USE_BETA flag is "
                         "unset");
        return;
    }
    (void)snprintf(what, sizeof what,
                   "Invalid or unsupported protocol version (%u); supported versions are (3/v3, "
                   "4/v4, %s)",
                   h->version, version_max >= 5 ? "5/v5, 6/v6-beta" : "5/v5-beta");
    node_talk_refuse(conn, version_max, h->stream, what);
}

/* Judges a head. False: it was refused. */
static bool head_good(struct node_conn *conn, const struct cql_head *h)
{
    unsigned version_max = conn->cluster->nodes[conn->node].version_max;
    const char *wrong = NULL;
    if (conn->version == 0 && !h->answer &&
        (h->version > version_max || h->version < CQL_VERSION_MIN)) {
        version_refuse(conn, h, version_max);
        return false;
    }
    if (h->answer)
        wrong = "a request has the bit of answers";
    else if (conn->version != 0 && h->version != conn->version)
        wrong = "a request has another version than the one before";
    else if (h->stream < 0)
        wrong = "a stream below 0";
    else if (h->version >= 5 && (h->flags & CQL_FLAG_COMPRESSED) != 0)
        wrong = "the flag of compression in version 5";
    else if ((h->flags & ~(CQL_FLAG_COMPRESSED | CQL_FLAG_TRACING | CQL_FLAG_PAYLOAD)) != 0)
        wrong = "flags that a request has not";
    else if ((h->flags & CQL_FLAG_COMPRESSED) != 0 && !conn->lz4)
        wrong = "a compressed body, and no compression was agreed";
    else if (h->body_bytes > CQL_BODY_BYTES_MAX)
        wrong = "a body that is larger than the protocol has it";
    if (wrong != NULL)
        conn_broken(conn, h->stream, wrong);
    else
        conn->version = h->version;
    return wrong == NULL;
}

static void envelope_unpack(struct node_conn *conn, const struct cql_head *h, str body)
{
    size_t bytes = 0;
    if (!cql_body_unpacked_bytes(body, CQL_BODY_BYTES_MAX, &bytes)) {
        conn_broken(conn, h->stream, "a compressed body without a size");
        return;
    }
    char *room = malloc(bytes + 1);
    INVARIANT(room != NULL);
    if (cql_body_unpack(body, room, bytes))
        node_talk(conn, h, (str){ .p = room, .n = bytes });
    else
        conn_broken(conn, h->stream, "a compressed body that is none");
    free(room);
}

/* The first envelope of in. Returns its bytes; 0: it is not all there, or it was refused. */
static size_t envelope_take(struct node_conn *conn, str in)
{
    if (in.n < CQL_HEAD_BYTES)
        return 0;
    struct cql_head h = head_of(in.p);
    if (!head_good(conn, &h) || in.n - CQL_HEAD_BYTES < h.body_bytes)
        return 0;
    str body = { .p = in.p + CQL_HEAD_BYTES, .n = h.body_bytes };
    if ((h.flags & CQL_FLAG_COMPRESSED) != 0)
        envelope_unpack(conn, &h, body);
    else
        node_talk(conn, &h, body);
    return CQL_HEAD_BYTES + body.n;
}

static bool conn_listens(const struct node_conn *conn)
{
    return !conn->closing && !conn->ended && !conn->dead;
}

static void segment_whole(struct node_conn *conn, str payload)
{
    if (conn->piece.n > 0) {
        conn_broken(conn, 0, "an envelope between the pieces of another");
        return;
    }
    while (payload.n > 0 && conn_listens(conn)) {
        size_t n = envelope_take(conn, payload);
        if (n == 0 && conn_listens(conn))
            conn_broken(conn, 0, "a self-contained segment ends within an envelope");
        payload = str_skip(payload, n);
    }
}

static void segment_piece(struct node_conn *conn, str payload)
{
    buf_put(&conn->piece, payload);
    INVARIANT(buf_status(&conn->piece) == ERR_OK);
    size_t n = envelope_take(conn, buf_str(&conn->piece));
    if (n == 0)
        return;
    if (n < conn->piece.n)
        conn_broken(conn, 0, "more bytes behind the last piece of an envelope");
    buf_clear(&conn->piece);
}

static size_t segment_take(struct node_conn *conn, str in)
{
    struct cql_segment s;
    struct err_note note = { "" };
    switch (cql_segment_take(in, conn->lz4, conn->cluster->unpacked, &s, &note)) {
    case CQL_SEGMENT_SHORT:
        return 0;
    case CQL_SEGMENT_BAD:
        node_complain(conn, "%s", note.text);
        node_conn_end(conn, false);
        return 0;
    case CQL_SEGMENT_WHOLE:
        break;
    }
    if (s.self_contained)
        segment_whole(conn, s.payload);
    else
        segment_piece(conn, s.payload);
    return s.used;
}

static void conn_take(struct node_conn *conn)
{
    size_t used = 0, n = 1;
    while (n > 0 && conn_listens(conn) && !conn->deaf) {
        str in = str_skip(buf_str(&conn->in), used);
        n = conn->framed ? segment_take(conn, in) : envelope_take(conn, in);
        used += n;
    }
    if (conn->deaf)
        used = conn->in.n;
    if (used > 0)
        memmove(conn->in.p, conn->in.p + used, conn->in.n - used);
    conn->in.n -= used;
}

void node_conn_read(struct node_conn *conn)
{
    char bytes[READ_BYTES];
    ssize_t n = 0;
    for (int reads = 0; reads < READS_MAX; reads++) {
        n = recv(conn->fd, bytes, sizeof bytes, 0);
        if (n <= 0)
            break;
        if (conn_listens(conn))
            buf_put(&conn->in, (str){ .p = bytes, .n = (size_t)n });
    }
    bool lost = n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR);
    INVARIANT(buf_status(&conn->in) == ERR_OK);
    conn_take(conn); /* which may change errno */
    conn->dead |= lost;
}

/* ---- out ---- */

static void conn_release(struct node_conn *conn, int16_t stream)
{
    if (stream < 0)
        return;
    unsigned char *at = &conn->streams[stream / 8], bit = (unsigned char)BIT(stream % 8);
    if ((*at & bit) == 0)
        return;
    *at = (unsigned char)(*at & ~bit);
    conn->in_flight--;
    conn->cluster->nodes[conn->node].in_flight--;
    conn->cluster->in_flight--;
}

static void conn_release_all(struct node_conn *conn)
{
    for (int stream = 0; conn->in_flight > 0; stream++)
        conn_release(conn, (int16_t)stream);
}

static void gather_flush(struct node_conn *conn)
{
    if (conn->gather.n > 0)
        cql_segments_put(&conn->out, buf_str(&conn->gather), conn->lz4);
    buf_clear(&conn->gather);
}

static void letter_put(struct node_conn *conn, const struct node_letter *l)
{
    buf_put(l->framed ? &conn->gather : &conn->out, buf_str(&l->envelope));
}

/* One self-contained segment, stored: for an envelope that lies about its length. */
static void segment_put(struct buf *out, str payload, bool lz4)
{
    size_t head_bytes = lz4 ? 5 : 3, at = out->n;
    uint64_t head = payload.n | (uint64_t)1 << (lz4 ? 34 : 17);
    INVARIANT(payload.n <= CQL_SEGMENT_BYTES_MAX);
    for (size_t i = 0; i < head_bytes; i++)
        buf_put_u8(out, (uint8_t)(head >> 8 * i));
    uint32_t crc = cql_crc24((str){ .p = out->p + at, .n = head_bytes });
    for (unsigned i = 0; i < 3; i++)
        buf_put_u8(out, (uint8_t)(crc >> 8 * i));
    buf_put(out, payload);
    crc = cql_crc32(payload);
    for (unsigned i = 0; i < 4; i++)
        buf_put_u8(out, (uint8_t)(crc >> 8 * i));
}

/* What else its bytes may be than all and right. */
static void letter_put_hurt(struct node_conn *conn, const struct node_letter *l)
{
    struct buf bytes;
    buf_init(&bytes, NODE_BYTES_MAX);
    if (l->framed && l->fault == NODE_LENGTH)
        segment_put(&bytes, buf_str(&l->envelope), conn->lz4);
    else if (l->framed)
        cql_segments_put(&bytes, buf_str(&l->envelope), conn->lz4);
    else
        buf_put(&bytes, buf_str(&l->envelope));
    INVARIANT(bytes.n > 0);
    if (l->framed && l->fault == NODE_SEGMENT_HEAD)
        bytes.p[0] ^= 4;
    if (l->framed && l->fault == NODE_SEGMENT_DATA)
        bytes.p[bytes.n - 1] ^= 4;
    gather_flush(conn);
    buf_put(&conn->out,
            str_take(buf_str(&bytes), l->fault == NODE_CUT_MIDDLE ? bytes.n / 2 : bytes.n));
    buf_fini(&bytes);
}

static void letter_deliver(struct node_conn *conn, const struct node_letter *l)
{
    if (!conn_listens(conn))
        return;
    if (l->fault != NODE_CUT_BEFORE)
        conn_release(conn, l->stream);
    if (l->fault == NODE_CUT_MIDDLE || l->fault == NODE_SEGMENT_HEAD ||
        l->fault == NODE_SEGMENT_DATA || l->fault == NODE_LENGTH)
        letter_put_hurt(conn, l);
    else if (l->fault != NODE_CUT_BEFORE)
        letter_put(conn, l);
    if (l->fault == NODE_TWICE)
        letter_put(conn, l);
    if (l->fault == NODE_CUT_BEFORE || l->fault == NODE_CUT_MIDDLE || l->fault == NODE_CUT_AFTER)
        node_conn_end(conn, l->reset);
}

static void letter_free(struct node_letter *l)
{
    buf_fini(&l->envelope);
    free(l);
}

void node_conn_post(struct node_conn *conn, const struct node_letter *letter)
{
    INVARIANT(buf_status(&letter->envelope) == ERR_OK);
    struct node_letter *l = malloc(sizeof *l);
    INVARIANT(l != NULL);
    *l = *letter;
    if (l->due_ms == 0 && l->held_by == 0) {
        letter_deliver(conn, l);
        letter_free(l);
        return;
    }
    l->due_ms = l->held_by != 0 ? INT64_MAX : l->due_ms;
    struct node_letter **at = &conn->letters;
    while (*at != NULL && (*at)->due_ms <= l->due_ms)
        at = &(*at)->next;
    l->next = *at;
    *at = l;
}

void node_conn_letters(struct node_conn *conn, int64_t now_ms)
{
    while (conn->letters != NULL && conn->letters->due_ms <= now_ms) {
        struct node_letter *l = conn->letters;
        conn->letters = l->next;
        letter_deliver(conn, l);
        letter_free(l);
    }
    node_conn_write(conn);
}

unsigned node_conn_release(struct node_conn *conn, unsigned rule)
{
    unsigned count = 0;
    for (struct node_letter **at = &conn->letters; *at != NULL;) {
        struct node_letter *l = *at;
        if (l->held_by == 0 || (rule != 0 && l->held_by != rule)) {
            at = &l->next;
            continue;
        }
        *at = l->next;
        letter_deliver(conn, l);
        letter_free(l);
        count++;
    }
    return count;
}

void node_conn_end(struct node_conn *conn, bool reset)
{
    conn->closing = true;
    conn->reset = reset;
}

void node_conn_write(struct node_conn *conn)
{
    gather_flush(conn);
    INVARIANT(buf_status(&conn->out) == ERR_OK);
    while (!conn->dead && !conn->ended && conn->sent < conn->out.n) {
        ssize_t n =
            send(conn->fd, conn->out.p + conn->sent, conn->out.n - conn->sent, MSG_NOSIGNAL);
        if (n < 0 && (errno == EAGAIN || errno == EINTR))
            return;
        conn->dead = n < 0;
        conn->sent += n < 0 ? 0 : (size_t)n;
    }
    buf_clear(&conn->out);
    conn->sent = 0;
    if (!conn->closing || conn->ended || conn->dead)
        return;
    conn->dead = conn->reset;
    conn->ended = true; /* waits for the client's end: what is unread at a close would cut off what
                           was sent */
    conn_release_all(conn);
    if (!conn->reset)
        (void)shutdown(conn->fd, SHUT_WR); /* fails when the client was faster */
}

void node_conn_free(struct node_conn *conn)
{
    struct linger now = { .l_onoff = 1 };
    conn_release_all(conn);
    if (conn->reset)
        INVARIANT(setsockopt(conn->fd, SOL_SOCKET, SO_LINGER, &now, sizeof now) == 0);
    close(conn->fd);
    while (conn->letters != NULL) {
        struct node_letter *l = conn->letters;
        conn->letters = l->next;
        letter_free(l);
    }
    buf_fini(&conn->in);
    buf_fini(&conn->piece);
    buf_fini(&conn->gather);
    buf_fini(&conn->out);
    free(conn);
}
