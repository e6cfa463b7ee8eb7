/* Goal: bytes go to a node and back whatever it does, plain and over TLS: with full sockets, new
 * keys in the middle, spoilt streams and all kinds of ends. OpenSSL's queue is left empty.
 * Method: a TLS server of OpenSSL in this thread, with certificates made for the test. SIGPIPE is
 * deadly here. */
#include "tls_nodes.h"

#include "lib/free_port.h"
#include "lib/wait.h"

#include "../cmocka_all.h"

#include "base/rng.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

enum { LARGE_BYTES = 5 << 20, OFFER_BYTES = 300000 };

static void a_plain_transport_is_its_socket(void **state)
{
    (void)state;
    struct wire w;
    char got[8];
    wire_make(&w, NULL, "anything", NULL);
    assert_int_equal(wire_open(&w), 0);
    assert_string_equal(cql_transport_cipher(w.t), "");
    assert_int_equal(wire_read(&w, got, sizeof got), CQL_WANT_READ);
    echo(&w);
    node_hang_up(&w, false);
    assert_int_equal(wire_read_wait(&w, got, sizeof got), 0);
    assert_int_equal(wire_read(&w, got, sizeof got), 0);
    WAIT_UNTIL(wire_write(&w, "x", 1) == CQL_BROKEN); /* and no SIGPIPE */
    says(&w, "cannot write: ");
    stays_broken(&w);
    cql_transport_close(w.t);
    wire_end(&w);
}

static void a_connect_that_is_refused_breaks_the_transport(void **state)
{
    (void)state;
    struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
    for (unsigned i = 0; i < 2; i++) {
        struct wire w = { .fd = { socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), -1 } };
        struct sockaddr_in a = { .sin_family = AF_INET,
                                 .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                                 .sin_port = htons(free_port()) };
        (void)connect(w.fd[0], (struct sockaddr *)&a, sizeof a); /* under way, or refused */
        w.t = cql_transport_new(w.fd[0], i == 0 ? NULL : tls, "127.0.0.1");
        ssize_t got = CQL_WANT_READ;
        if (i == 0) {
            char c;
            assert_int_equal(wire_shake(&w), 0);
            got = wire_read_wait(&w, &c, 1);
        } else {
            WAIT_UNTIL((got = wire_shake(&w)) == CQL_BROKEN);
        }
        assert_int_equal(got, CQL_BROKEN);
        says(&w, i == 0 ? "cannot read: " : "the TLS handshake failed: ");
        stays_broken(&w);
        wire_end(&w);
    }
    cql_tls_free(&tls);
}

static void bytes_go_both_ways_over_tls(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        SSL_CTX *of_node = node_ctx(&node, NULL);
        SSL_CTX_set_max_proto_version(of_node, i == 0 ? TLS1_2_VERSION : TLS1_3_VERSION);
        struct wire w;
        wire_trusted(&w, of_node);
        assert_string_equal(cql_transport_cipher(w.t), "");
        assert_int_equal(wire_open(&w), 0);
        assert_int_equal(wire_shake(&w), 0);
        assert_non_null(strstr(cql_transport_cipher(w.t), i == 0 ? "TLSv1.2 " : "TLSv1.3 TLS_"));
        echo(&w);
        assert_string_equal(SSL_get_servername(w.node, TLSEXT_NAMETYPE_host_name), "node.test");
        assert_int_equal(SSL_session_reused(w.node), 0);
        assert_null(SSL_get_current_compression(w.node));
        cql_transport_close(w.t);
        wire_end(&w);
        SSL_CTX_free(of_node);
    }
}

/* What OpenSSL has taken from the socket is no longer readable there. */
static void what_is_held_is_read_byte_by_byte(void **state)
{
    (void)state;
    struct wire w;
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    char sent[300], c;
    for (size_t i = 0; i < sizeof sent; i++)
        sent[i] = (char)i;
    node_write(&w, sent, 100); /* three records, one read of the socket */
    node_write(&w, sent + 100, 100);
    node_write(&w, sent + 200, 100);
    for (size_t i = 0; i < sizeof sent; i++) {
        assert_int_equal(wire_read_wait(&w, &c, 1), 1);
        assert_int_equal(c, sent[i]);
        if (i % 100 != 99)
            assert_true(cql_transport_holds(w.t));
    }
    assert_int_equal(wire_read(&w, &c, 1), CQL_WANT_READ);
    assert_false(cql_transport_holds(w.t));
    node_write(&w, sent, 100); /* in one go whatever the records */
    node_write(&w, sent + 100, 200);
    size_t got = 0;
    char all[400];
    while (got < sizeof sent) {
        ssize_t one = wire_read_wait(&w, all + got, sizeof all - got);
        assert_true(one > 0);
        got += (size_t)one;
    }
    assert_memory_equal(all, sent, sizeof sent);
    wire_end(&w);
}

/* A part of a record is not held: nothing can be read before its rest is there. */
static void half_a_record_is_waited_for(void **state)
{
    (void)state;
    struct wire w;
    char record[1024], got[1024];
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    BIO *kept = BIO_new(BIO_s_mem());
    SSL_set0_wbio(w.node, kept);
    assert_int_equal(SSL_write(w.node, "whole", 5), 5);
    int n = BIO_read(kept, record, sizeof record);
    assert_true(n > 5);
    for (int i = 0; i < n; i++) {
        assert_int_equal(send(w.fd[1], record + i, 1, 0), 1);
        ssize_t one = CQL_WANT_READ;
        if (i + 1 < n) {
            assert_int_equal(wire_read(&w, got, sizeof got), CQL_WANT_READ);
            assert_false(cql_transport_holds(w.t));
        } else {
            one = wire_read_wait(&w, got, sizeof got);
            assert_int_equal(one, 5);
        }
    }
    assert_memory_equal(got, "whole", 5);
    wire_end(&w);
}

/* Offers the next bytes, each time from another place, until the socket is full. */
static size_t write_until_full(struct wire *w, const char *from, size_t n)
{
    size_t taken = 0;
    while (taken < n) {
        size_t some = n - taken < OFFER_BYTES ? n - taken : OFFER_BYTES;
        char *moved = malloc(some);
        assert_non_null(moved);
        memcpy(moved, from + taken, some);
        ssize_t one = wire_write(w, moved, some);
        free(moved);
        if (one == CQL_WANT_WRITE)
            break;
        assert_true(one > 0);
        taken += (size_t)one;
    }
    return taken;
}

struct stream {
    char *sent, *got;
    size_t taken, arrived;
};

static void stream_make(struct stream *s)
{
    struct rng r;
    rng_init(&r, 99);
    s->taken = s->arrived = 0;
    s->sent = malloc(LARGE_BYTES);
    s->got = malloc(LARGE_BYTES + (2 << 20));
    assert_non_null(s->sent);
    assert_non_null(s->got);
    for (size_t i = 0; i < LARGE_BYTES; i++)
        s->sent[i] = (char)(rng_next(&r) >> 32);
}

static void stream_end(struct stream *s)
{
    assert_int_equal(s->arrived, LARGE_BYTES);
    assert_memory_equal(s->sent, s->got, LARGE_BYTES);
    free(s->sent);
    free(s->got);
}

/* Both sides until all has arrived. */
static void stream_finish(struct wire *w, struct stream *s)
{
    int64_t left_ms = WAIT_MS;
    while (s->arrived < LARGE_BYTES) {
        size_t one = node_read(w, s->got + s->arrived, 0);
        s->arrived += one;
        s->taken += write_until_full(w, s->sent + s->taken, LARGE_BYTES - s->taken);
        if (one == 0)
            wait_look(&left_ms, "the rest of a large write");
    }
}

static void a_large_write_waits_for_room(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct wire w;
        struct stream s;
        stream_make(&s);
        if (i == 0)
            wire_make(&w, NULL, "", NULL);
        else
            wire_trusted(&w, node_tls);
        assert_int_equal(wire_open(&w), 0);
        s.taken = write_until_full(&w, s.sent, LARGE_BYTES);
        assert_true(s.taken > 0);
        assert_true(s.taken < LARGE_BYTES);
        stream_finish(&w, &s);
        stream_end(&s);
        echo(&w);
        wire_end(&w);
    }
}

/* The node asks for new keys, and says something behind them. */
static void new_keys(struct wire *w, char letter)
{
    assert_int_equal(SSL_key_update(w->node, SSL_KEY_UPDATE_REQUESTED), 1);
    node_write(w, &letter, 1);
}

static void new_keys_lose_nothing(void **state)
{
    (void)state;
    struct wire w;
    struct stream s;
    char c = 0;
    stream_make(&s);
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    for (char letter = 'a'; letter < 'f'; letter++) {
        new_keys(&w, letter);
        assert_int_equal(wire_read_wait(&w, &c, 1), 1);
        assert_int_equal(c, letter);
        echo(&w);
    }
    s.taken = write_until_full(&w, s.sent, LARGE_BYTES);
    assert_true(s.taken < LARGE_BYTES);
    new_keys(&w, 'y');
    assert_int_equal(wire_read_wait(&w, &c, 1), 1); /* it is heard while our socket is full */
    assert_int_equal(c, 'y');
    stream_finish(&w, &s);
    stream_end(&s);
    echo(&w);
    wire_end(&w);
}

/* Twice while one write waits: OpenSSL 3.0 would put its answer to the first between two halves of
 * a record, sees that, and gives up. Later ones may go on. */
static void many_new_keys_break_or_lose_nothing(void **state)
{
    (void)state;
    struct wire w;
    struct stream s;
    char c = 0;
    stream_make(&s);
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    s.taken = write_until_full(&w, s.sent, LARGE_BYTES);
    ssize_t got = 1;
    for (char letter = 'x'; got == 1 && letter < 'z'; letter++) {
        new_keys(&w, letter);
        got = wire_read_wait(&w, &c, 1);
        assert_true(got == 1 || got == CQL_BROKEN);
        assert_true(got != 1 || c == letter);
    }
    if (got == 1) {
        stream_finish(&w, &s);
        stream_end(&s);
        echo(&w);
    } else {
        says(&w, "TLS cannot read: ");
        stays_broken(&w);
        free(s.sent);
        free(s.got);
    }
    wire_end(&w);
}

/* Bytes below TLS, which the node takes off again before it goes on. */
static size_t socket_fill(struct wire *w)
{
    static const char filling[4096];
    size_t n = 0;
    for (ssize_t one; (one = send(w->fd[0], filling, sizeof filling, MSG_NOSIGNAL)) > 0;)
        n += (size_t)one;
    return n;
}

static void socket_drain(struct wire *w, size_t n)
{
    char some[4096];
    int64_t left_ms = WAIT_MS;
    while (n > 0) {
        ssize_t one = recv(w->fd[1], some, n < sizeof some ? n : sizeof some, 0);
        n -= one > 0 ? (size_t)one : 0;
        if (one <= 0)
            wait_look(&left_ms, "what fills the socket");
    }
}

/* A socket of this machine alone: the kernel moves no byte on unless it is read. */
static void open_and_read_may_want_to_write(void **state)
{
    (void)state;
    struct wire w;
    char c;
    struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
    wire_make_local(&w, tls, "node.test", node_tls);
    cql_tls_free(&tls);
    size_t full = socket_fill(&w);
    assert_int_equal(wire_shake(&w), CQL_WANT_WRITE);
    assert_int_equal(wire_read(&w, &c, 1), CQL_WANT_WRITE); /* goes on with the handshake */
    assert_false(cql_transport_holds(w.t));
    socket_drain(&w, full);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    full = socket_fill(&w);
    new_keys(&w, 'k');
    ssize_t got = wire_read_wait(&w, &c, 1); /* OpenSSL answers now, or before the next write */
    assert_true(got == 1 || got == CQL_WANT_WRITE);
    assert_false(cql_transport_holds(w.t));
    assert_int_equal(wire_write(&w, "write", 5), CQL_WANT_WRITE);
    socket_drain(&w, full);
    if (got != 1)
        assert_int_equal(wire_read_wait(&w, &c, 1), 1);
    assert_int_equal(c, 'k');
    char heard[6];
    assert_int_equal(wire_write(&w, "writes", 6), 6); /* more behind the same bytes */
    assert_int_equal(node_read(&w, heard, 6), 6);
    assert_memory_equal(heard, "writes", 6);
    echo(&w);
    wire_end(&w);
}

/* Version 1.2's way to new keys, and to another certificate, is shut. */
static void renegotiation_is_declined(void **state)
{
    (void)state;
    SSL_CTX *of_node = node_ctx(&node, NULL);
    SSL_CTX_set_max_proto_version(of_node, TLS1_2_VERSION);
    struct wire w;
    char c;
    wire_trusted(&w, of_node);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    assert_int_equal(SSL_renegotiate(w.node), 1);
    ERR_clear_error();
    (void)SSL_do_handshake(w.node); /* asks */
    int64_t left_ms = WAIT_MS;
    for (;;) {
        assert_int_equal(wire_read(&w, &c, 1), CQL_WANT_READ);
        ERR_clear_error();
        int result = SSL_read(w.node, &c, 1);
        if (SSL_get_error(w.node, result) != SSL_ERROR_WANT_READ)
            break;
        wait_look(&left_ms, "the refusal of new keys");
    }
    assert_int_equal(ERR_GET_REASON(ERR_peek_error()), SSL_R_NO_RENEGOTIATION);
    wire_end(&w);
    SSL_CTX_free(of_node);
}

static void a_spoilt_stream_breaks_behind_what_was_good(void **state)
{
    (void)state;
    struct wire w;
    char got[100];
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    node_write(&w, "good", 4);
    static const char spoilt[] = "\x17\x03\x03\x00\x20"
                                 "0123456789abcdef0123456789abcdef";
    assert_int_equal(send(w.fd[1], spoilt, sizeof spoilt - 1, 0), sizeof spoilt - 1);
    assert_int_equal(wire_read_wait(&w, got, sizeof got), 4);
    assert_memory_equal(got, "good", 4);
    assert_int_equal(wire_read_wait(&w, got, sizeof got), CQL_BROKEN);
    says(&w, "TLS cannot read: ");
    says(&w, "mac");
    stays_broken(&w);
    cql_transport_close(w.t);
    wire_end(&w);
}

static void both_kinds_of_end_are_ends(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 2; i++) {
        struct wire w;
        char got[100];
        wire_trusted(&w, node_tls);
        assert_int_equal(wire_open(&w), 0);
        echo(&w);
        node_write(&w, "last", 4);
        node_hang_up(&w, i == 0);
        assert_int_equal(wire_read_wait(&w, got, sizeof got), 4);
        assert_int_equal(wire_read_wait(&w, got, sizeof got), 0);
        assert_int_equal(wire_read(&w, got, sizeof got), 0);
        assert_false(cql_transport_holds(w.t));
        WAIT_UNTIL(wire_write(&w, "x", 1) == CQL_BROKEN); /* and no SIGPIPE */
        says(&w, "cannot write: ");
        stays_broken(&w);
        cql_transport_close(w.t);
        wire_end(&w);
    }
}

static void close_says_good_bye_once(void **state)
{
    (void)state;
    char c;
    struct wire w;
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    echo(&w);
    assert_int_equal(recv(w.fd[1], &c, 1, MSG_PEEK), -1);
    cql_transport_close(w.t);
    cql_transport_close(w.t);
    queue_is_clean();
    int result = 0;
    WAIT_UNTIL(
        (result = SSL_read(w.node, &c, 1), SSL_get_error(w.node, result) != SSL_ERROR_WANT_READ));
    assert_int_equal(SSL_get_error(w.node, result), SSL_ERROR_ZERO_RETURN);
    assert_int_equal(recv(w.fd[1], &c, 1, 0), -1); /* the socket is the caller's to close */
    wire_end(&w);

    struct wire early_end; /* in the handshake there is nothing to say */
    wire_trusted(&early_end, node_tls);
    cql_transport_close(early_end.t);
    wire_end(&early_end);
    wire_trusted(&early_end, node_tls);
    assert_int_equal(wire_shake(&early_end), CQL_WANT_READ);
    cql_transport_close(early_end.t);
    wire_end(&early_end);

    struct stream s; /* no room for it: it is not waited for */
    stream_make(&s);
    wire_trusted(&w, node_tls);
    assert_int_equal(wire_open(&w), 0);
    s.taken = write_until_full(&w, s.sent, LARGE_BYTES);
    assert_true(s.taken < LARGE_BYTES);
    cql_transport_close(w.t);
    queue_is_clean();
    free(s.sent);
    free(s.got);
    wire_end(&w);

    wire_trusted(&w, node_tls); /* nor is the signal of a peer that went */
    assert_int_equal(wire_open(&w), 0);
    node_hang_up(&w, false);
    cql_transport_close(w.t);
    wire_end(&w);
    struct cql_transport *none = NULL;
    cql_transport_free(&none);
}

/* Many connections of several threads share one. */
static void *opens_many(void *tls)
{
    for (unsigned i = 0; i < 20; i++) {
        struct wire w;
        wire_make(&w, tls, i % 2 == 0 ? "node.test" : "127.0.0.1", node_tls);
        assert_int_equal(wire_open(&w), 0);
        echo(&w);
        cql_transport_close(w.t);
        wire_end(&w);
    }
    return NULL;
}

static void threads_share_what_tls_needs(void **state)
{
    (void)state;
    struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
    pthread_t threads[4];
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_create(&threads[i], NULL, opens_many, tls), 0);
    for (size_t i = 0; i < COUNT_OF(threads); i++)
        assert_int_equal(pthread_join(threads[i], NULL), 0);
    cql_tls_free(&tls);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_plain_transport_is_its_socket),
        cmocka_unit_test(a_connect_that_is_refused_breaks_the_transport),
        cmocka_unit_test(bytes_go_both_ways_over_tls),
        cmocka_unit_test(what_is_held_is_read_byte_by_byte),
        cmocka_unit_test(half_a_record_is_waited_for),
        cmocka_unit_test(a_large_write_waits_for_room),
        cmocka_unit_test(new_keys_lose_nothing),
        cmocka_unit_test(many_new_keys_break_or_lose_nothing),
        cmocka_unit_test(open_and_read_may_want_to_write),
        cmocka_unit_test(renegotiation_is_declined),
        cmocka_unit_test(a_spoilt_stream_breaks_behind_what_was_good),
        cmocka_unit_test(both_kinds_of_end_are_ends),
        cmocka_unit_test(close_says_good_bye_once),
        cmocka_unit_test(threads_share_what_tls_needs),
    };
    return cmocka_run_group_tests(tests, nodes_setup, nodes_teardown);
}
