/* Goal: TLS is verified: name, issuer and age; what does not hold gets no request.
 * Method: a server in this process with a certificate made for the test. */
#include "rogue.h"

#include "../cmocka_all.h"

#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct identity {
    EVP_PKEY *key;
    X509 *certificate;
    char file[64]; /* the certificate, as PEM */
    SSL_CTX *tls;
};

static void extension_add(X509 *certificate, int what, const char *value)
{
    X509_EXTENSION *e = X509V3_EXT_conf_nid(NULL, NULL, what, value);
    assert_non_null(e);
    assert_int_equal(X509_add_ext(certificate, e, -1), 1);
    X509_EXTENSION_free(e);
}

/* Signs itself; names: "IP:127.0.0.1", ends in so many seconds from now. */
static void identity_make(struct identity *id, const char *names, long ends_s)
{
    id->key = EVP_EC_gen("P-256");
    id->certificate = X509_new();
    assert_non_null(id->key);
    assert_non_null(id->certificate);
    X509_set_version(id->certificate, X509_VERSION_3);
    assert_int_equal(ASN1_INTEGER_set(X509_get_serialNumber(id->certificate), 1), 1);
    assert_non_null(X509_gmtime_adj(X509_getm_notBefore(id->certificate), -7200));
    assert_non_null(X509_gmtime_adj(X509_getm_notAfter(id->certificate), ends_s));
    X509_NAME *name = X509_get_subject_name(id->certificate);
    assert_int_equal(X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_ASC,
                                                (const unsigned char *)"test", -1, -1, 0),
                     1);
    assert_int_equal(X509_set_issuer_name(id->certificate, name), 1);
    assert_int_equal(X509_set_pubkey(id->certificate, id->key), 1);
    extension_add(id->certificate, NID_subject_alt_name, names);
    extension_add(id->certificate, NID_basic_constraints, "critical,CA:TRUE");
    assert_true(X509_sign(id->certificate, id->key, EVP_sha256()) > 0);
    const char *folder = getenv("TMPDIR");
    (void)snprintf(id->file, sizeof id->file, "%.40s/http-tls-XXXXXX",
                   folder == NULL ? "/tmp" : folder); /* it fits */
    int fd = mkstemp(id->file);
    assert_true(fd >= 0);
    FILE *file = fdopen(fd, "w");
    assert_non_null(file);
    assert_int_equal(PEM_write_X509(file, id->certificate), 1);
    assert_int_equal(fclose(file), 0);
    id->tls = SSL_CTX_new(TLS_server_method());
    assert_non_null(id->tls);
    assert_int_equal(SSL_CTX_use_certificate(id->tls, id->certificate), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey(id->tls, id->key), 1);
}

static void identity_end(struct identity *id)
{
    assert_int_equal(unlink(id->file), 0);
    SSL_CTX_free(id->tls);
    X509_free(id->certificate);
    EVP_PKEY_free(id->key);
}

/* Answers every request of a connection. */
static void play_tls(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    struct identity *id = rogue_ctx(r);
    SSL *tls = SSL_new(id->tls);
    INVARIANT(tls != NULL);
    INVARIANT(SSL_set_fd(tls, fd) == 1);
    static const char ok[] = "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
    char request[4096];
    size_t n = 0;
    if (SSL_accept(tls) == 1)
        for (int got = 1; got > 0 && n + 1 < sizeof request;) {
            got = SSL_read(tls, request + n, (int)(sizeof request - 1 - n));
            n += got > 0 ? (size_t)got : 0;
            request[n] = 0;
            if (strstr(request, "\r\n\r\n") == NULL)
                continue;
            n = 0;
            rogue_count(r);
            got = SSL_write(tls, ok, sizeof ok - 1);
        }
    SSL_free(tls);
}

/* Asks twice; the outcome must be the same. */
static void ask_tls(struct identity *id, const char *ca_file, const char *host, err why)
{
    struct rogue *r = rogue_start(play_tls, id);
    struct asker a;
    asker_begin(&a, &(struct http_client_opts){ .ca_file = ca_file });
    for (unsigned i = 0; i < 2; i++) {
        struct ask q;
        ask_begin(&q, &a, rogue_port(r), "/");
        (void)snprintf(q.url, sizeof q.url, "https://%s:%u/", host, rogue_port(r)); /* it fits */
        q.call.url = str_of(q.url);
        ask_now(&q);
        if (q.why != why)
            fail_msg("%s: %s (%s) instead of %s", host, err_name(q.why), q.call.note.text,
                     err_name(why));
        assert_int_equal(q.call.sent, why == ERR_OK);
        ask_end(&q);
    }
    assert_int_equal(rogue_requests(r), why == ERR_OK ? 2 : 0);
    if (why == ERR_OK)
        assert_int_equal(rogue_connections(r), 1);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_certificate_of_the_given_file_is_believed(void **state)
{
    (void)state;
    struct identity id;
    identity_make(&id, "IP:127.0.0.1,DNS:localhost", 7200);
    ask_tls(&id, id.file, "127.0.0.1", ERR_OK);
    ask_tls(&id, id.file, "localhost", ERR_OK);
    identity_end(&id);
}

static void a_certificate_nobody_signed_gets_no_request(void **state)
{
    (void)state;
    struct identity id, other;
    identity_make(&id, "IP:127.0.0.1", 7200);
    identity_make(&other, "IP:127.0.0.1", 7200);
    ask_tls(&id, NULL, "127.0.0.1", ERR_UNAVAILABLE);
    ask_tls(&id, other.file, "127.0.0.1", ERR_UNAVAILABLE);
    ask_tls(&id, "/nonexistent/file.pem", "127.0.0.1", ERR_UNAVAILABLE);
    identity_end(&id);
    identity_end(&other);
}

static void a_certificate_for_another_name_gets_no_request(void **state)
{
    (void)state;
    struct identity id;
    identity_make(&id, "DNS:other.test,IP:127.0.0.2", 7200);
    ask_tls(&id, id.file, "127.0.0.1", ERR_UNAVAILABLE);
    ask_tls(&id, id.file, "localhost", ERR_UNAVAILABLE);
    identity_end(&id);
}

static void a_certificate_that_has_ended_gets_no_request(void **state)
{
    (void)state;
    struct identity id;
    identity_make(&id, "IP:127.0.0.1", -3600);
    ask_tls(&id, id.file, "127.0.0.1", ERR_UNAVAILABLE);
    identity_end(&id);
}

static void play_plain(struct rogue *r, int fd, unsigned nth)
{
    (void)r, (void)nth;
    (void)rogue_say(fd,
                    "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok"); /* the client may be gone */
    rogue_wait(fd);
}

static void a_server_without_tls_gets_no_request(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_plain, NULL);
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    (void)snprintf(q.url, sizeof q.url, "https://127.0.0.1:%u/", rogue_port(r)); /* it fits */
    q.call.url = str_of(q.url);
    ask_now(&q);
    assert_int_equal(q.why, ERR_UNAVAILABLE);
    assert_false(q.call.sent);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

int main(void)
{
    (void)signal(SIGPIPE, SIG_IGN); /* OpenSSL writes to whoever has gone */
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_certificate_of_the_given_file_is_believed),
        cmocka_unit_test(a_certificate_nobody_signed_gets_no_request),
        cmocka_unit_test(a_certificate_for_another_name_gets_no_request),
        cmocka_unit_test(a_certificate_that_has_ended_gets_no_request),
        cmocka_unit_test(a_server_without_tls_gets_no_request),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
