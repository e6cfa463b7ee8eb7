/* transport_tls.c - TLS to a node, by OpenSSL. For transport.c.
 *
 * Invariants:
 *   1 OpenSSL's queue of errors, which is one a thread, is empty before and after each call from
 *     here: an error that is left in it would be taken for the failure of somebody else's call;
 *   2 OpenSSL reaches the socket through cql_socket_read and cql_socket_write alone;
 *   3 unless opts.unverified, a session that opened had a certificate of the right name from a
 *     trusted issuer. Every session has a name to look for.
 *
 * Sessions are not resumed. A resumed handshake shows no certificate, so a session would have to be
 * kept for each name. And a client has only a few connections, which last. A node that asks for new
 * keys twice while one of our writes waits may break its connection: OpenSSL 3.0 cannot answer
 * then. */
#include "cql/transport_tls.h"

#include "base/address.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    READ_AHEAD_BYTES = 64 << 10, /* of the socket in one read: four records */
    CIPHER_BYTES = 96,
};

/* The parts that all sessions share. Owner: its holders, on several threads; the last one frees it.
 */
struct cql_tls {
    uint32_t magic;
    unsigned refs;
    SSL_CTX *ctx;
    BIO_METHOD *method; /* a BIO over a cql_socket */
    char *name;         /* NULL: the host */
    bool unverified;
};
#define CQL_TLS_MAGIC 0xc9175150u

struct cql_session {
    struct cql_tls *tls;
    struct cql_socket *socket;
    SSL *ssl;
    bool waiting;        /* the last read ended with a WANT_ */
    bool failed;         /* beside bytes that were got or taken first */
    struct err_note why; /* it failed */
    char cipher[CIPHER_BYTES];
    char name[CQL_TLS_NAME_BYTES_MAX + 1]; /* looked for in the certificate */
};

/* The oldest error of the queue: later errors are consequences. Empties the queue. */
static const char *queue_reason(void)
{
    unsigned long e = ERR_peek_error();
    const char *reason =
        ERR_SYSTEM_ERROR(e) ? strerror(ERR_GET_REASON(e)) : ERR_reason_error_string(e);
    ERR_clear_error();
    return reason == NULL ? "unknown" : reason;
}

/* A BIO over a socket. */

/* Tells OpenSSL whether to come again. */
static int bio_result(BIO *bio, ssize_t result, size_t *n)
{
    BIO_clear_retry_flags(bio);
    if (result == CQL_WANT_READ)
        BIO_set_retry_read(bio);
    if (result == CQL_WANT_WRITE)
        BIO_set_retry_write(bio);
    *n = result > 0 ? (size_t)result : 0;
    return result > 0;
}

static int bio_read(BIO *bio, char *to, size_t n, size_t *got)
{
    return bio_result(bio, cql_socket_read(BIO_get_data(bio), to, n), got);
}

static int bio_write(BIO *bio, const char *from, size_t n, size_t *taken)
{
    return bio_result(bio, cql_socket_write(BIO_get_data(bio), from, n), taken);
}

/* The only question that is answered is a flush: nothing is kept back. The end of the peer is asked
 * of the socket: OpenSSL would answer it with an alert. */
static long bio_ctrl(BIO *bio, int what, long number, void *pointer)
{
    (void)bio;
    (void)number;
    (void)pointer;
    return what == BIO_CTRL_FLUSH;
}

static void method_make(struct cql_tls *tls)
{
    tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "cql");
    INVARIANT(tls->method != NULL);
    INVARIANT(BIO_meth_set_read_ex(tls->method, bio_read) == 1);
    INVARIANT(BIO_meth_set_write_ex(tls->method, bio_write) == 1);
    INVARIANT(BIO_meth_set_ctrl(tls->method, bio_ctrl) == 1);
}

/* Files. */

/* Looks at a file before OpenSSL does, which has no words for the common mistakes. False: it is
 * missing, empty or not readable. */
static bool file_look(const char *path, struct err_note *note)
{
    char c;
    ssize_t n = -1;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd >= 0)
        n = read(fd, &c, 1);
    if (n < 0)
        err_note_set(note, "%.150s cannot be read: %s", path, strerror(errno));
    if (n == 0)
        err_note_set(note, "%.150s is empty", path);
    if (fd >= 0)
        (void)close(fd); /* it was read only */
    return n > 0;
}

/* Refuses to give the password of an encrypted key: nobody is there to be asked. Notes that it was
 * asked for. */
static int password_refuse(char *to, int size, int writing, void *asked)
{
    (void)to;
    (void)size;
    (void)writing;
    *(bool *)asked = true;
    return -1;
}

static bool ca_read(struct cql_tls *tls, const char *path, struct err_note *note)
{
    if (path == NULL && SSL_CTX_set_default_verify_paths(tls->ctx) == 1)
        return true;
    if (path == NULL) {
        err_note_set(note, "the system's trusted certificates cannot be read: %s", queue_reason());
        return false;
    }
    if (!file_look(path, note))
        return false;
    if (SSL_CTX_load_verify_file(tls->ctx, path) == 1)
        return true;
    err_note_set(note, "%.150s: no certificates in PEM to trust: %s", path, queue_reason());
    return false;
}

static bool cert_read(struct cql_tls *tls, const char *path, struct err_note *note)
{
    if (!file_look(path, note))
        return false;
    if (SSL_CTX_use_certificate_chain_file(tls->ctx, path) == 1)
        return true;
    err_note_set(note, "%.150s: no certificate in PEM that can be used: %s", path, queue_reason());
    return false;
}

static bool key_read(struct cql_tls *tls, const char *path, const char *cert_path,
                     struct err_note *note)
{
    if (!file_look(path, note))
        return false;
    bool asked = false;
    /* The callback is set for this call alone: it writes into a variable of this function. */
    SSL_CTX_set_default_passwd_cb(tls->ctx, password_refuse);
    SSL_CTX_set_default_passwd_cb_userdata(tls->ctx, &asked);
    bool taken = SSL_CTX_use_PrivateKey_file(tls->ctx, path, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(tls->ctx, NULL);
    SSL_CTX_set_default_passwd_cb(tls->ctx, NULL);
    bool other = ERR_GET_LIB(ERR_peek_last_error()) == ERR_LIB_X509;
    if (asked)
        err_note_set(note, "%.150s: the key is encrypted; one without a password is wanted", path);
    else if (!taken && !other)
        err_note_set(note, "%.150s: no private key in PEM that can be used: %s", path,
                     queue_reason());
    else if (!taken || SSL_CTX_check_private_key(tls->ctx) != 1)
        err_note_set(note, "%.100s: not the key of the certificate in %.100s", path, cert_path);
    else
        return true;
    return false;
}

/* Would X509_VERIFY_PARAM_set1_host not look for it, or for something wider? OpenSSL takes an empty
 * name for no wish at all, and a dot before it for all names that end so. */
static bool name_is_bad(const char *name)
{
    size_t n = strlen(name);
    return n == 0 || n > CQL_TLS_NAME_BYTES_MAX || name[0] == '.';
}

static bool tls_setup(struct cql_tls *tls, const struct cql_tls_opts *o, struct err_note *note)
{
    if (tls->ctx == NULL) {
        err_note_set(note, "OpenSSL cannot begin: %s", queue_reason());
        return false;
    }
    if ((o->cert_path == NULL) != (o->key_path == NULL)) {
        err_note_set(note, "a certificate and its key are given together, or neither");
        return false;
    }
    if (o->name != NULL && name_is_bad(o->name)) {
        err_note_set(note, "no certificate has the name \"%.100s\"", o->name);
        return false;
    }
    INVARIANT(SSL_CTX_set_min_proto_version(tls->ctx, TLS1_2_VERSION) == 1);
    (void)SSL_CTX_set_options(tls->ctx, SSL_OP_NO_COMPRESSION | SSL_OP_NO_RENEGOTIATION);
    (void)SSL_CTX_set_mode(tls->ctx,
                           /* A write may be taken in part, and offered again from another place:
                            * the connection's buffer moves. */
                           SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    (void)SSL_CTX_set_session_cache_mode(tls->ctx, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(tls->ctx, 1);
    SSL_CTX_set_default_read_buffer_len(tls->ctx, READ_AHEAD_BYTES);
    SSL_CTX_set_verify(tls->ctx, o->unverified ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    /* A certificate that the file names is trusted, whether it is a root or not. */
    (void)X509_STORE_set_flags(SSL_CTX_get_cert_store(tls->ctx), X509_V_FLAG_PARTIAL_CHAIN);
    if (!ca_read(tls, o->ca_path, note))
        return false;
    return o->cert_path == NULL ||
           (cert_read(tls, o->cert_path, note) && key_read(tls, o->key_path, o->cert_path, note));
}

struct cql_tls *cql_tls_new(const struct cql_tls_opts *opts, struct err_note *note)
{
    struct cql_tls *tls = malloc(sizeof *tls);
    INVARIANT(tls != NULL);
    *tls = (struct cql_tls){ .magic = CQL_TLS_MAGIC, .refs = 1, .unverified = opts->unverified };
    ERR_clear_error();
    tls->ctx = SSL_CTX_new(TLS_client_method());
    method_make(tls);
    if (opts->name != NULL) {
        tls->name = strdup(opts->name);
        INVARIANT(tls->name != NULL);
    }
    if (!tls_setup(tls, opts, note))
        cql_tls_free(&tls);
    ERR_clear_error();
    return tls;
}

struct cql_tls *cql_tls_hold(struct cql_tls *tls)
{
    MAGIC_CHECK(tls, CQL_TLS_MAGIC);
    (void)__atomic_add_fetch(&tls->refs, 1, __ATOMIC_RELAXED);
    return tls;
}

void cql_tls_free(struct cql_tls **tp)
{
    struct cql_tls *tls = *tp;
    *tp = NULL;
    if (tls == NULL)
        return;
    MAGIC_CHECK(tls, CQL_TLS_MAGIC);
    if (__atomic_sub_fetch(&tls->refs, 1, __ATOMIC_ACQ_REL) != 0)
        return;
    SSL_CTX_free(tls->ctx);
    BIO_meth_free(tls->method);
    tls->magic = 0;
    free(tls->name);
    free(tls);
}

/* Sessions. */

/* Sets the name in s, without the parts that no certificate has: the dot of the root, or the zone
 * of an address. False: it is bad. */
static bool session_name(struct cql_session *s, const char *name)
{
    size_t n = strcspn(name, "%");
    if (n > 0 && name[n - 1] == '.')
        n--;
    return str_to_cstr((str){ .p = name, .n = n }, s->name, sizeof s->name) &&
           !name_is_bad(s->name);
}

/* Says whom the certificate must name, and asks the node for that name (SNI). An address is asked
 * for by no name. */
static bool session_expect(struct cql_session *s)
{
    struct address address;
    X509_VERIFY_PARAM *expected = SSL_get0_param(s->ssl);
    if (address_parse(str_of(s->name), &address))
        return X509_VERIFY_PARAM_set1_ip_asc(expected, s->name) == 1;
    X509_VERIFY_PARAM_set_hostflags(expected, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    return X509_VERIFY_PARAM_set1_host(expected, s->name, 0) == 1 &&
           SSL_set_tlsext_host_name(s->ssl, s->name) == 1;
}

struct cql_session *cql_session_new(struct cql_tls *tls, struct cql_socket *socket,
                                    const char *host, struct err_note *note)
{
    const char *name = tls->name != NULL ? tls->name : host;
    struct cql_session *s = malloc(sizeof *s);
    INVARIANT(s != NULL);
    ERR_clear_error();
    *s = (struct cql_session){ .tls = cql_tls_hold(tls), .socket = socket };
    s->ssl = SSL_new(tls->ctx);
    BIO *bio = BIO_new(tls->method);
    INVARIANT(s->ssl != NULL);
    INVARIANT(bio != NULL);
    BIO_set_data(bio, socket);
    BIO_set_init(bio, 1);
    /* The session owns the BIO from here on. */
    SSL_set_bio(s->ssl, bio, bio);
    SSL_set_connect_state(s->ssl);
    if (!session_name(s, name) || !session_expect(s)) {
        err_note_set(note, "no certificate has the name \"%.100s\"", name);
        cql_session_free(&s);
    }
    ERR_clear_error();
    return s;
}

void cql_session_free(struct cql_session **sp)
{
    struct cql_session *s = *sp;
    *sp = NULL;
    if (s == NULL)
        return;
    SSL_free(s->ssl);
    ERR_clear_error();
    cql_tls_free(&s->tls);
    free(s);
}

enum session_act { SESSION_OPENS, SESSION_READS, SESSION_WRITES };

/* Why the handshake ended. The certificate comes first: a verdict about it is the reason, whatever
 * the socket says. */
static void handshake_explain(struct cql_session *s, struct err_note *note)
{
    long verdict = s->tls->unverified ? X509_V_OK : SSL_get_verify_result(s->ssl);
    bool plain = ERR_GET_REASON(ERR_peek_error()) == SSL_R_WRONG_VERSION_NUMBER;
    if (verdict == X509_V_ERR_HOSTNAME_MISMATCH || verdict == X509_V_ERR_IP_ADDRESS_MISMATCH)
        err_note_set(note, "the node's certificate is for another name than %.150s", s->name);
    else if (verdict != X509_V_OK)
        err_note_set(note, "the node's certificate is not trusted: %s",
                     X509_verify_cert_error_string(verdict));
    else if (s->socket->error != 0)
        err_note_set(note, "the TLS handshake failed: %s", strerror(s->socket->error));
    else if (ERR_peek_error() == 0)
        err_note_set(note, "the node closed the connection in the TLS handshake");
    else
        err_note_set(note, "the TLS handshake failed: %s%s", queue_reason(),
                     plain ? " (does the node speak TLS there?)" : "");
}

static void transfer_explain(struct cql_session *s, const char *doing, struct err_note *note)
{
    if (s->socket->error != 0)
        err_note_set(note, "cannot %s: %s", doing, strerror(s->socket->error));
    else if (ERR_peek_error() == 0)
        err_note_set(note, "cannot %s: the node closed the connection", doing);
    else
        err_note_set(note, "TLS cannot %s: %s", doing, queue_reason());
}

/* Turns a call that failed into a result. To a reader the peer's end is 0, with its good-bye or
 * without: answers say their lengths, so an answer that was cut is seen. */
static int session_result(struct cql_session *s, int result, enum session_act act,
                          struct err_note *note)
{
    int outcome = CQL_BROKEN;
    switch (SSL_get_error(s->ssl, result)) {
    case SSL_ERROR_WANT_READ:
        outcome = CQL_WANT_READ;
        break;
    case SSL_ERROR_WANT_WRITE:
        outcome = CQL_WANT_WRITE;
        break;
    case SSL_ERROR_ZERO_RETURN:
        outcome = act == SESSION_READS ? 0 : CQL_BROKEN;
        break;
    case SSL_ERROR_SYSCALL:
        if (act == SESSION_READS && s->socket->ended && s->socket->error == 0)
            outcome = 0;
        break;
    default:
        break;
    }
    if (outcome == CQL_BROKEN && act == SESSION_OPENS)
        handshake_explain(s, note);
    else if (outcome == CQL_BROKEN)
        transfer_explain(s, act == SESSION_READS ? "read" : "write", note);
    ERR_clear_error();
    return outcome;
}

int cql_session_open(struct cql_session *s, struct err_note *note)
{
    ERR_clear_error();
    int result = SSL_do_handshake(s->ssl);
    if (result != 1)
        return session_result(s, result, SESSION_OPENS, note);
    (void)snprintf(s->cipher, sizeof s->cipher, "%s %s", SSL_get_version(s->ssl),
                   SSL_get_cipher_name(s->ssl)); /* it fits: both are OpenSSL's own words */
    ERR_clear_error();
    return 0;
}

/* Bytes that moved are told first; a failure behind them waits for the next call. */
static ssize_t session_moved(struct cql_session *s, size_t moved, int outcome,
                             struct err_note *note)
{
    if (outcome == CQL_BROKEN) {
        s->failed = true;
        *note = s->why;
    }
    return moved > 0 ? (ssize_t)moved : outcome;
}

/* Fills to from what OpenSSL has already, and asks the socket once at least. */
ssize_t cql_session_read(struct cql_session *s, char *to, size_t n, struct err_note *note)
{
    size_t got = 0;
    int outcome = CQL_BROKEN;
    s->waiting = false;
    while (!s->failed) {
        size_t one = 0;
        ERR_clear_error();
        int result = SSL_read_ex(s->ssl, to + got, n - got, &one);
        got += one;
        /* More is unpacked already: a reader who waited for the socket would not hear of it. */
        if (result == 1 && got < n && SSL_has_pending(s->ssl))
            continue;
        if (result == 1)
            return (ssize_t)got;
        outcome = session_result(s, result, SESSION_READS, &s->why);
        s->waiting = outcome == CQL_WANT_READ || (outcome == CQL_WANT_WRITE && got == 0);
        break;
    }
    return session_moved(s, got, outcome, note);
}

/* A node that refuses says why before it hangs up, and a write finds that out first. Version 1.3
 * has no other moment to tell a client that its certificate does not do. */
static void write_explain(struct cql_session *s)
{
    char c;
    size_t one;
    /* The write's own error stays the reason unless the node has said a better one. */
    int write_error = s->socket->error;
    s->socket->error = 0;
    int result = SSL_read_ex(s->ssl, &c, 1, &one);
    if (result != 1 && SSL_get_error(s->ssl, result) == SSL_ERROR_SSL && s->socket->error == 0)
        err_note_set(&s->why, "the node hung up: %s", queue_reason());
    s->socket->error = write_error;
    ERR_clear_error();
}

/* Writes a record at a time until all is taken or the socket is full. */
ssize_t cql_session_write(struct cql_session *s, const char *from, size_t n, struct err_note *note)
{
    size_t taken = 0;
    int outcome = CQL_BROKEN;
    while (!s->failed) {
        size_t one = 0;
        ERR_clear_error();
        int result = SSL_write_ex(s->ssl, from + taken, n - taken, &one);
        taken += one;
        if (result == 1 && taken < n)
            continue;
        if (result == 1)
            return (ssize_t)taken;
        outcome = session_result(s, result, SESSION_WRITES, &s->why);
        if (outcome == CQL_BROKEN && s->socket->error != 0)
            write_explain(s);
        break;
    }
    return session_moved(s, taken, outcome, note);
}

bool cql_session_holds(const struct cql_session *s)
{
    return !s->waiting && !s->failed && SSL_has_pending(s->ssl) == 1;
}

/* Says good-bye, and waits for neither room nor the node's answer. */
void cql_session_close(struct cql_session *s)
{
    if (s->failed || !SSL_is_init_finished(s->ssl))
        return;
    ERR_clear_error();
    (void)SSL_shutdown(s->ssl);
    ERR_clear_error();
}

const char *cql_session_cipher(const struct cql_session *s)
{
    return s->cipher;
}
