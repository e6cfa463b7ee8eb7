/* tls_peer.c - the node's end of a transport, and certificates by OpenSSL's own functions. */
#include "tls_peer.h"

#include "lib/wait.h"

#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

void name_file(char path[IDENTITY_PATH_BYTES], const char *dir, const char *name)
{
    assert_in_range(snprintf(path, IDENTITY_PATH_BYTES, "%s/%s", dir, name), 1,
                    IDENTITY_PATH_BYTES - 1);
}

void key_write(const char *path, EVP_PKEY *key, const char *password)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_PrivateKey(file, key, password == NULL ? NULL : EVP_aes_128_cbc(),
                                          (const unsigned char *)password,
                                          password == NULL ? 0 : (int)strlen(password), NULL, NULL),
                     1);
    assert_int_equal(fclose(file), 0);
}

void text_write(const char *path, const char *text)
{
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
}

static void extension_add(X509 *certificate, int what, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, what, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(certificate, e, -1), 1);
    X509_EXTENSION_free(e);
}

void identity_make(struct identity *id, const char *dir, const struct identity_opts *o)
{
    static long serial = 1;
    char name[64];
    id->key = EVP_EC_gen("P-256");
    id->certificate = X509_new();
    assert_non_null(id->key);
    assert_non_null(id->certificate);
    X509 *c = id->certificate;
    X509_set_version(c, X509_VERSION_3);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(c), serial++), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(c), o->from_s));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(c), o->ends_s));
    assert_int_equal(X509_NAME_add_entry_by_txt(X509_get_subject_name(c), "CN", MBSTRING_ASC,
                                                (const unsigned char *)o->label, -1, -1, 0),
                     1);
    const struct identity *issuer = o->issuer == NULL ? id : o->issuer;
    assert_int_equal(X509_set_issuer_name(c, X509_get_subject_name(issuer->certificate)), 1);
    assert_int_equal(X509_set_pubkey(c, id->key), 1);
    if (o->names != NULL)
        extension_add(c, NID_subject_alt_name, o->names);
    extension_add(c, NID_basic_constraints, o->ca ? "critical,CA:TRUE" : "critical,CA:FALSE");
    assert_true(X509_sign(c, issuer->key, EVP_sha256()) > 0);
    (void)snprintf(name, sizeof name, "%.50s.pem", o->label); /* labels are short */
    name_file(id->cert_file, dir, name);
    FILE *file = fopen(id->cert_file, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, c), 1);
    assert_int_equal(fclose(file), 0);
    (void)snprintf(name, sizeof name, "%.50s.key", o->label);
    name_file(id->key_file, dir, name);
    key_write(id->key_file, id->key, NULL);
}

void identity_end(struct identity *id)
{
    X509_free(id->certificate);
    EVP_PKEY_free(id->key);
}

SSL_CTX *node_ctx(const struct identity *id, const struct identity *chain)
{
    SSL_CTX *ctx = SSL_CTX_new(TLS_server_method());
    assert_non_null(ctx);
    assert_int_equal(SSL_CTX_use_certificate(ctx, id->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(ctx, id->key), 1);
    if (chain != NULL)
        assert_int_equal(SSL_CTX_add1_chain_cert(ctx, chain->certificate), 1);
    return ctx;
}

void others_error(void)
{
    ERR_raise(ERR_LIB_USER, ERR_R_INTERNAL_ERROR);
}

void queue_is_clean(void)
{
    unsigned long e = ERR_get_error();
    assert_true(e == 0 || ERR_GET_LIB(e) == ERR_LIB_USER);
    assert_int_equal(ERR_get_error(), 0);
}

static void tcp_make(int fd[2])
{
    struct sockaddr_in a = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof a;
    int door = socket(AF_INET, SOCK_STREAM, 0);
    fd[0] = socket(AF_INET, SOCK_STREAM, 0);
    assert_true(door >= 0);
    assert_true(fd[0] >= 0);
    int few = 300000; /* to be had in the kernel: left alone, it makes ever more room */
    assert_int_equal(setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &few, sizeof few), 0);
    assert_int_equal(bind(door, (struct sockaddr *)&a, sizeof a), 0);
    assert_int_equal(listen(door, 1), 0);
    assert_int_equal(getsockname(door, (struct sockaddr *)&a, &n), 0);
    assert_int_equal(connect(fd[0], (struct sockaddr *)&a, sizeof a), 0);
    fd[1] = accept(door, NULL, NULL);
    assert_true(fd[1] >= 0);
    assert_int_equal(close(door), 0);
}

static void wire_over(struct wire *w, struct cql_tls *tls, const char *host, SSL_CTX *ctx)
{
    for (unsigned i = 0; i < 2; i++)
        assert_int_equal(fcntl(w->fd[i], F_SETFL, O_NONBLOCK), 0);
    w->t = cql_transport_new(w->fd[0], tls, host);
    queue_is_clean();
    if (ctx == NULL)
        return;
    w->node = SSL_new(ctx);
    assert_non_null(w->node);
    assert_int_equal(SSL_set_fd(w->node, w->fd[1]), 1);
    SSL_set_accept_state(w->node);
}

void wire_make(struct wire *w, struct cql_tls *tls, const char *host, SSL_CTX *ctx)
{
    *w = (struct wire){ .note.text = "" };
    tcp_make(w->fd);
    wire_over(w, tls, host, ctx);
}

void wire_make_local(struct wire *w, struct cql_tls *tls, const char *host, SSL_CTX *ctx)
{
    *w = (struct wire){ .note.text = "" };
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, w->fd), 0);
    wire_over(w, tls, host, ctx);
}

void wire_end(struct wire *w)
{
    cql_transport_free(&w->t);
    SSL_free(w->node);
    assert_int_equal(close(w->fd[0]), 0);
    if (w->fd[1] >= 0)
        assert_int_equal(close(w->fd[1]), 0);
}

int wire_shake(struct wire *w)
{
    others_error();
    int result = cql_transport_open(w->t, &w->note);
    queue_is_clean();
    return result;
}

ssize_t wire_read(struct wire *w, char *to, size_t n)
{
    others_error();
    ssize_t got = cql_transport_read(w->t, to, n, &w->note);
    queue_is_clean();
    return got;
}

ssize_t wire_write(struct wire *w, const char *from, size_t n)
{
    others_error();
    ssize_t taken = cql_transport_write(w->t, from, n, &w->note);
    queue_is_clean();
    return taken;
}

ssize_t wire_read_wait(struct wire *w, char *to, size_t n)
{
    ssize_t got;
    WAIT_UNTIL((got = wire_read(w, to, n)) != CQL_WANT_READ);
    return got;
}

static void node_shake(struct wire *w)
{
    if (w->node == NULL || w->node_open || w->node_failed)
        return;
    ERR_clear_error();
    int result = SSL_do_handshake(w->node);
    w->node_open = result == 1;
    w->node_failed = !w->node_open && SSL_get_error(w->node, result) != SSL_ERROR_WANT_READ &&
                     SSL_get_error(w->node, result) != SSL_ERROR_WANT_WRITE;
    ERR_clear_error();
}

int wire_open(struct wire *w)
{
    int64_t left_ms = WAIT_MS;
    int result;
    while ((result = wire_shake(w)) == CQL_WANT_READ || result == CQL_WANT_WRITE) {
        node_shake(w);
        wait_look(&left_ms, "the transport's handshake");
    }
    if (result == 0 && w->node != NULL)
        WAIT_UNTIL((node_shake(w), w->node_open || w->node_failed));
    return result;
}

void node_hang_up(struct wire *w, bool bye)
{
    ERR_clear_error();
    if (bye)
        (void)SSL_shutdown(w->node); /* 0: the other side has not said it yet */
    ERR_clear_error();
    assert_int_equal(close(w->fd[1]), 0);
    w->fd[1] = -1;
}

void node_write(struct wire *w, const char *from, size_t n)
{
    ERR_clear_error();
    if (w->node == NULL)
        assert_int_equal(send(w->fd[1], from, n, MSG_NOSIGNAL), n);
    else
        assert_int_equal(SSL_write(w->node, from, (int)n), n);
}

size_t node_read(struct wire *w, char *to, size_t n)
{
    size_t got = 0;
    int64_t left_ms = WAIT_MS;
    for (;;) {
        ERR_clear_error();
        size_t room = n == 0 ? 1 << 20 : n - got;
        ssize_t one = w->node == NULL ? recv(w->fd[1], to + got, room, 0)
                                      : SSL_read(w->node, to + got, (int)room);
        if (one > 0)
            got += (size_t)one;
        if (n == 0 || got == n)
            return got;
        if (one <= 0)
            wait_look(&left_ms, "bytes for the node");
    }
}
