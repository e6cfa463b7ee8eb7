/* tls_peer.h - a node that speaks TLS, for tests: certificates of all kinds, and the other end of a
 * transport. Both ends are moved by the test's own thread, so that it is known who waits for whom.
 */
#ifndef UNIT_CQL_TLS_PEER_H
#define UNIT_CQL_TLS_PEER_H

#include "cql/transport.h"

#include "lib/folder.h"

#include <openssl/ssl.h>

enum { IDENTITY_PATH_BYTES = FOLDER_PATH_BYTES + 64 };

/* A certificate and its key, in memory and in files of dir. */
struct identity {
    EVP_PKEY *key;
    X509 *certificate;
    char cert_file[IDENTITY_PATH_BYTES], key_file[IDENTITY_PATH_BYTES];
};
struct identity_opts {
    const char *label;             /* of its files, and its common name */
    const char *names;             /* "DNS:node,IP:127.0.0.1"; NULL: none */
    const struct identity *issuer; /* NULL: itself */
    bool ca;
    long from_s, ends_s; /* from now */
};
void identity_make(struct identity *id, const char *dir, const struct identity_opts *opts);
void identity_end(struct identity *id);
/* As PEM, with a password when it is not NULL. */
void key_write(const char *path, EVP_PKEY *key, const char *password);
void text_write(const char *path, const char *text);
void name_file(char path[IDENTITY_PATH_BYTES], const char *dir, const char *name);

/* Of a node with that certificate; chain: one more that it shows, or NULL. */
SSL_CTX *node_ctx(const struct identity *id, const struct identity *chain);

/* A transport and the node at its other end, over TCP. */
struct wire {
    int fd[2]; /* the transport's, the node's */
    struct cql_transport *t;
    SSL *node; /* NULL: plain, or hung up */
    struct err_note note;
    bool node_open, node_failed;
};
/* ctx NULL: the node speaks no TLS of itself. */
void wire_make(struct wire *w, struct cql_tls *tls, const char *host, SSL_CTX *ctx);
/* The same over a pair of Unix sockets. */
void wire_make_local(struct wire *w, struct cql_tls *tls, const char *host, SSL_CTX *ctx);
void wire_end(struct wire *w);
/* Handshakes on both sides until the transport has a result, and the node if it can. */
int wire_open(struct wire *w);
/* Ends what the node has of the connection, with or without its good-bye. */
void node_hang_up(struct wire *w, bool bye);
void node_write(struct wire *w, const char *from, size_t n);
/* All that comes until n bytes are there, or with n 0 what is there now. Returns the bytes. */
size_t node_read(struct wire *w, char *to, size_t n);

/* Leaves an error of somebody else in OpenSSL's queue; and says whether nothing but that is there.
 */
void others_error(void);
void queue_is_clean(void);
/* The calls of the transport, between those two. */
int wire_shake(struct wire *w);
ssize_t wire_read(struct wire *w, char *to, size_t n);
ssize_t wire_write(struct wire *w, const char *from, size_t n);
/* Until something else than CQL_WANT_READ. */
ssize_t wire_read_wait(struct wire *w, char *to, size_t n);
#endif
