/* tls_nodes.c - certificates of every kind that a test of TLS needs, and what all such tests do. */
#include "tls_nodes.h"

#include "lib/wait.h"

#include "../cmocka_all.h"

#include <openssl/err.h>
#include <string.h>

enum { DAY_S = 86400 };

char nodes_dir[FOLDER_PATH_BYTES];
struct identity ca, other_ca, middle, by_middle, node, node_other, expired, early, own;
SSL_CTX *node_tls;

static void identities_make(void)
{
    const struct {
        struct identity *id;
        struct identity_opts opts;
    } all[] = {
        { &ca, { .label = "ca", .ca = true } },
        { &other_ca, { .label = "other-ca", .ca = true } },
        { &middle, { .label = "middle", .issuer = &ca, .ca = true } },
        { &by_middle, { .label = "by-middle", .issuer = &middle, .names = "DNS:node.test" } },
        { &node,
          { .label = "node",
            .issuer = &ca,
            .names = "DNS:node.test,DNS:*.wild.test,IP:127.0.0.1,IP:fd00::7" } },
        { &node_other, { .label = "node-other", .issuer = &ca, .names = "DNS:other.test" } },
        { &expired,
          { .label = "expired", .issuer = &ca, .names = "DNS:node.test", .ends_s = -60 } },
        { &early,
          { .label = "early", .issuer = &ca, .names = "DNS:node.test", .from_s = DAY_S / 2 } },
        { &own, { .label = "own", .issuer = &ca } },
    };
    for (size_t i = 0; i < COUNT_OF(all); i++) {
        struct identity_opts o = all[i].opts;
        o.from_s = o.from_s == 0 ? -DAY_S : o.from_s;
        o.ends_s = o.ends_s == 0 ? DAY_S : o.ends_s;
        identity_make(all[i].id, nodes_dir, &o);
    }
}

int nodes_setup(void **state)
{
    (void)state;
    folder_make(nodes_dir);
    identities_make();
    node_tls = node_ctx(&node, NULL);
    return 0;
}

int nodes_teardown(void **state)
{
    (void)state;
    struct identity *all[] = { &ca,         &other_ca, &middle, &by_middle, &node,
                               &node_other, &expired,  &early,  &own };
    for (size_t i = 0; i < COUNT_OF(all); i++)
        identity_end(all[i]);
    SSL_CTX_free(node_tls);
    folder_remove(nodes_dir);
    return 0;
}

struct cql_tls *tls_of(const struct cql_tls_opts *opts)
{
    struct err_note note = { .text = "" };
    others_error();
    struct cql_tls *tls = cql_tls_new(opts, &note);
    if (tls == NULL)
        fail_msg("%s", note.text);
    queue_is_clean();
    return tls;
}

void wire_trusted(struct wire *w, SSL_CTX *of_node)
{
    struct cql_tls *tls = tls_of(&(struct cql_tls_opts){ .ca_path = ca.cert_file });
    wire_make(w, tls, "node.test", of_node);
    cql_tls_free(&tls);
    assert_null(tls);
}

void says(const struct wire *w, const char *what)
{
    if (strstr(w->note.text, what) == NULL)
        fail_msg("\"%s\" does not say \"%s\"", w->note.text, what);
}

void echo(struct wire *w)
{
    char got[64];
    assert_int_equal(wire_write(w, "question", 8), 8);
    assert_int_equal(node_read(w, got, 8), 8);
    assert_memory_equal(got, "question", 8);
    node_write(w, "answer", 6);
    assert_int_equal(wire_read_wait(w, got, sizeof got), 6);
    assert_memory_equal(got, "answer", 6);
    assert_int_equal(wire_read(w, got, sizeof got), CQL_WANT_READ);
    assert_false(cql_transport_holds(w->t));
}

void stays_broken(struct wire *w)
{
    char c;
    struct err_note first = w->note;
    for (unsigned i = 0; i < 3; i++) {
        w->note = (struct err_note){ .text = "" };
        assert_int_equal(i == 0   ? wire_read(w, &c, 1)
                         : i == 1 ? wire_write(w, "x", 1)
                                  : (ssize_t)wire_shake(w),
                         CQL_BROKEN);
        assert_string_equal(w->note.text, first.text);
    }
    assert_int_equal(cql_transport_read(w->t, &c, 1, NULL), CQL_BROKEN);
    assert_false(cql_transport_holds(w->t));
}
