/* Goal: a node that cannot prove who it is gets nothing, and one that wants to know who we are is
 * told; each refusal says why, of a node as of a file.
 * Method: a TLS server of OpenSSL in this thread, with certificates made for the test. */
#include "tls_nodes.h"

#include "lib/wait.h"

#include "../cmocka_all.h"

#include <openssl/err.h>
#include <string.h>

static void only_a_node_that_proves_its_name_is_believed(void **state)
{
    (void)state;
    static const char other_name[] = "the node's certificate is for another name than ";
    static const char untrusted[] = "the node's certificate is not trusted: ";
    const struct {
        const struct identity *id, *shown, *trusted;
        const char *host, *name; /* name: of opts */
        const char *note;        /* NULL: it opens */
        bool unverified;
        const char *sni;
    } all[] = {
        { &node, NULL, &ca, "node.test", NULL, NULL, false, "node.test" },
        { &node, NULL, &ca, "NODE.test.", NULL, NULL, false, "NODE.test" },
        { &node, NULL, &ca, "a.wild.test", NULL, NULL, false, "a.wild.test" },
        { &node, NULL, &ca, "127.0.0.1", NULL, NULL, false, NULL },
        { &node, NULL, &ca, "fd00::7", NULL, NULL, false, NULL },
        { &node, NULL, &ca, "fd00:0::7%eth0", NULL, NULL, false, NULL },
        { &node, NULL, &ca, "10.0.0.1", "node.test", NULL, false, "node.test" },
        { &own, NULL, &ca, "own", NULL, NULL, false, "own" }, /* a common name alone */
        { &by_middle, &middle, &ca, "node.test", NULL, NULL, false, "node.test" },
        { &by_middle, NULL, &middle, "node.test", NULL, NULL, false, "node.test" },
        { &node, NULL, &node, "node.test", NULL, NULL, false, "node.test" },
        { &node, NULL, &other_ca, "else.test", NULL, NULL, true, "else.test" },
        { &expired, NULL, NULL, "", "else.test", NULL, true, "else.test" },
        { &node, NULL, &ca, "else.test", NULL, other_name, false, NULL },
        { &node, NULL, &ca, "a.b.wild.test", NULL, other_name, false, NULL },
        { &node, NULL, &ca, "wild.test", NULL, other_name, false, NULL },
        { &node, NULL, &ca, "node", NULL, other_name, false, NULL }, /* its common name */
        { &node, NULL, &ca, "127.0.0.2", NULL, other_name, false, NULL },
        { &node, NULL, &ca, "fd00::8", NULL, other_name, false, NULL },
        { &node, NULL, &ca, "node.test", "10.0.0.1", other_name, false, NULL },
        { &node, NULL, &ca, "node.test", "else.test", other_name, false, NULL },
        { &node, NULL, &other_ca, "node.test", NULL, untrusted, false, NULL },
        { &node, NULL, NULL, "node.test", NULL, untrusted, false, NULL },
        { &by_middle, NULL, &ca, "node.test", NULL, untrusted, false, NULL },
        { &node_other, NULL, &node, "other.test", NULL, untrusted, false, NULL },
        { &expired, NULL, &ca, "node.test", NULL, "not trusted: certificate has expired", false,
          NULL },
        { &early, NULL, &ca, "node.test", NULL, "not trusted: certificate is not yet valid", false,
          NULL },
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        SSL_CTX *of_node = node_ctx(all[i].id, all[i].shown);
        struct cql_tls *tls = tls_of(&(struct cql_tls_opts){
            .ca_path = all[i].trusted == NULL ? NULL : all[i].trusted->cert_file,
            .name = all[i].name,
            .unverified = all[i].unverified });
        struct wire w;
        wire_make(&w, tls, all[i].host, of_node);
        int result = wire_open(&w);
        if (result != (all[i].note == NULL ? 0 : CQL_BROKEN))
            fail_msg("%zu: %s gives %d (%s)", i, all[i].host, result, w.note.text);
        if (all[i].note == NULL) {
            const char *sni = SSL_get_servername(w.node, TLSEXT_NAMETYPE_host_name);
            assert_int_equal(sni == NULL, all[i].sni == NULL);
            if (sni != NULL)
                assert_string_equal(sni, all[i].sni);
            echo(&w);
        } else {
            says(&w, all[i].note);
            stays_broken(&w);
        }
        cql_transport_close(w.t);
        wire_end(&w);
        cql_tls_free(&tls);
        SSL_CTX_free(of_node);
    }
}

/* OpenSSL takes an empty name for no name to look for, and a dot before it for all below. */
static void a_name_that_no_certificate_has_is_refused(void **state)
{
    (void)state;
    char large[400];
    memset(large, 'a', sizeof large - 1);
    large[sizeof large - 1] = 0;
    const char *bad[] = { "", ".", "..", ".test", "%eth0", large };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
        struct wire w;
        wire_make(&w, tls, bad[i], node_tls);
        assert_int_equal(wire_open(&w), CQL_BROKEN);
        says(&w, "no certificate has the name \"");
        stays_broken(&w);
        assert_string_equal(cql_transport_cipher(w.t), "");
        cql_transport_close(w.t);
        wire_end(&w);
        cql_tls_free(&tls);
    }
    const char *bad_names[] = { "", ".test", large };
    for (size_t i = 0; i < COUNT_OF(bad_names); i++) {
        struct err_note note = { .text = "" };
        assert_null(cql_tls_new(&(struct cql_tls_opts){ .name = bad_names[i] }, &note));
        assert_non_null(strstr(note.text, "no certificate has the name \""));
    }
}

static void a_node_gets_our_certificate_when_it_wants_one(void **state)
{
    (void)state;
    for (unsigned i = 0; i < 8; i++) {
        bool old = (i & 1) != 0, given = (i & 2) != 0, reads = (i & 4) != 0;
        SSL_CTX *of_node = node_ctx(&node, NULL);
        SSL_CTX_set_max_proto_version(of_node, old ? TLS1_2_VERSION : TLS1_3_VERSION);
        SSL_CTX_set_verify(of_node, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, NULL);
        assert_int_equal(SSL_CTX_load_verify_file(of_node, ca.cert_file), 1);
        struct cql_tls *tls =
            tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file,
                                           .cert_path = given ? own.cert_file : NULL,
                                           .key_path = given ? own.key_file : NULL });
        struct wire w;
        wire_make(&w, tls, "node.test", of_node);
        int result = wire_open(&w);
        assert_int_equal(result, old && !given ? CQL_BROKEN : 0);
        char c;
        if (given)
            echo(&w);
        else if (result == CQL_BROKEN)
            says(&w, "the TLS handshake failed: ");
        else if (reads) {
            assert_int_equal(wire_read_wait(&w, &c, 1), CQL_BROKEN);
            says(&w, "alert certificate required");
        } else { /* the first write may pass, but not for long; and the alert is told, not EPIPE */
            node_hang_up(&w, false);
            WAIT_UNTIL(wire_write(&w, "x", 1) == CQL_BROKEN);
            says(&w, "alert certificate required");
        }
        if (!given)
            stays_broken(&w);
        wire_end(&w);
        cql_tls_free(&tls);
        SSL_CTX_free(of_node);
    }
}

/* Speaks what it is given to whoever says hello, and hangs up when there is nothing. */
static void open_with_raw(struct wire *w, const char *says_raw, size_t n, bool after_hello)
{
    char hello[2048];
    struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
    wire_make(w, tls, "node.test", NULL);
    cql_tls_free(&tls);
    if (after_hello) {
        assert_int_equal(wire_shake(w), CQL_WANT_READ);
        (void)node_read(w, hello, 100);
        (void)node_read(w, hello, 0);
    }
    if (n > 0)
        node_write(w, says_raw, n);
    else
        node_hang_up(w, false);
    int64_t left_ms = WAIT_MS;
    int result;
    while ((result = wire_shake(w)) == CQL_WANT_READ)
        wait_look(&left_ms, "a broken handshake");
    assert_int_equal(result, CQL_BROKEN);
    stays_broken(w);
}

static void a_peer_without_tls_is_told_from_a_bad_one(void **state)
{
    (void)state;
    struct wire w;
    open_with_raw(&w, "", 0, true);
    says(&w, "the node closed the connection in the TLS handshake");
    wire_end(&w);
    open_with_raw(&w, "", 0, false);
    says(&w, "the ");
    wire_end(&w);
    /* The answer of a Cassandra without TLS to a hello: an envelope that says ERROR. */
    static const char refusal[] = "\x85\x00\x00\x00\x00\x00\x00\x00\x2c\x00\x00\x00\x0a\x00\x26"
                                  "Invalid or unsupported protocol version";
    open_with_raw(&w, refusal, sizeof refusal - 1, true);
    says(&w, "does the node speak TLS there?");
    wire_end(&w);
    open_with_raw(&w, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, true);
    says(&w, "the TLS handshake failed: ");
    wire_end(&w);
    open_with_raw(&w, "\x15\x03\x03\x00\x02\x02\x46", 7, true); /* alert: protocol version */
    says(&w, "alert protocol version");
    wire_end(&w);
    open_with_raw(&w, "\x15\x03\x03\x00\x02\x01\x00", 7, true); /* alert: good-bye */
    says(&w, "the node closed the connection in the TLS handshake");
    wire_end(&w);
}

static void an_old_version_is_refused(void **state)
{
    (void)state;
    SSL_CTX *of_node = node_ctx(&node, NULL);
    SSL_CTX_set_min_proto_version(of_node, TLS1_VERSION);
    SSL_CTX_set_max_proto_version(of_node, TLS1_1_VERSION);
    SSL_CTX_set_security_level(of_node, 0);
    struct wire w;
    wire_trusted(&w, of_node);
    assert_int_equal(wire_open(&w), CQL_BROKEN);
    says(&w, "version");
    wire_end(&w);
    SSL_CTX_free(of_node);
}

/* Makes one of opts and wants it refused, with these words. */
static void refused(const struct cql_tls_opts *opts, const char *first, const char *second)
{
    struct err_note note = { .text = "" };
    others_error();
    struct cql_tls *tls = cql_tls_new(opts, &note);
    queue_is_clean();
    assert_null(tls);
    if (strstr(note.text, first) == NULL || strstr(note.text, second) == NULL)
        fail_msg("\"%s\" does not say \"%s\" and \"%s\"", note.text, first, second);
    assert_null(cql_tls_new(opts, NULL));
}

static void files_that_make_no_sense_are_named(void **state)
{
    (void)state;
    char missing[IDENTITY_PATH_BYTES], empty[IDENTITY_PATH_BYTES], words[IDENTITY_PATH_BYTES],
        cut[IDENTITY_PATH_BYTES], locked[IDENTITY_PATH_BYTES];
    name_file(missing, nodes_dir, "missing.pem");
    name_file(empty, nodes_dir, "empty.pem");
    name_file(words, nodes_dir, "words.pem");
    name_file(cut, nodes_dir, "cut.pem");
    name_file(locked, nodes_dir, "locked.key");
    text_write(empty, "");
    text_write(words, "no certificate at all\n");
    text_write(cut, "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n");
    key_write(locked, own.key, "secret");
    const struct {
        const char *path, *ca_note, *cert_note, *key_note;
    } all[] = {
        { missing, "cannot be read: No such file", "cannot be read: No such file",
          "cannot be read: No such file" },
        { nodes_dir, "cannot be read: Is a directory", "cannot be read: Is a directory",
          "cannot be read: Is a directory" },
        { empty, " is empty", " is empty", " is empty" },
        { words,
          ": no certificates in PEM to trust: ", ": no certificate in PEM that can be used: ",
          ": no private key in PEM that can be used: " },
        { cut, ": no certificates in PEM to trust: ", ": no certificate in PEM that can be used: ",
          ": no private key in PEM that can be used: " },
        { locked, ": no certificates in PEM to trust: ",
          ": no certificate in PEM that can be used: ", ": the key is encrypted; " },
        { own.key_file, ": no certificates in PEM to trust: ",
          ": no certificate in PEM that can be used: ", NULL },
        { own.cert_file, NULL, NULL, ": no private key in PEM that can be used: " },
        { node.key_file, NULL, NULL, ": not the key of the certificate in " },
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        if (all[i].ca_note != NULL)
            refused(&(struct cql_tls_opts){ .ca_path = all[i].path }, all[i].path, all[i].ca_note);
        if (all[i].cert_note != NULL)
            refused(&(struct cql_tls_opts){ .ca_path = ca.cert_file,
                                            .cert_path = all[i].path,
                                            .key_path = own.key_file },
                    all[i].path, all[i].cert_note);
        if (all[i].key_note != NULL)
            refused(&(struct cql_tls_opts){ .ca_path = ca.cert_file,
                                            .cert_path = own.cert_file,
                                            .key_path = all[i].path },
                    all[i].path, all[i].key_note);
    }
    refused(&(struct cql_tls_opts){ .cert_path = own.cert_file }, "together", "neither");
    refused(&(struct cql_tls_opts){ .key_path = own.key_file }, "together", "neither");
    struct cql_tls *none = NULL;
    cql_tls_free(&none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(only_a_node_that_proves_its_name_is_believed),
        cmocka_unit_test(a_name_that_no_certificate_has_is_refused),
        cmocka_unit_test(a_node_gets_our_certificate_when_it_wants_one),
        cmocka_unit_test(a_peer_without_tls_is_told_from_a_bad_one),
        cmocka_unit_test(an_old_version_is_refused),
        cmocka_unit_test(files_that_make_no_sense_are_named),
    };
    return cmocka_run_group_tests(tests, nodes_setup, nodes_teardown);
}
