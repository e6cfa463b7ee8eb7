/* tls_nodes.h - the certificates of a cluster, good and bad, and the steps that tests of TLS share.
 */
#ifndef UNIT_CQL_TLS_NODES_H
#define UNIT_CQL_TLS_NODES_H

#include "tls_peer.h"

extern char nodes_dir[FOLDER_PATH_BYTES];
/* node: of ca, "node.test", "*.wild.test", 127.0.0.1 and fd00::7. by_middle, expired, early: of
 * "node.test". own: a client's, with a common name alone. */
extern struct identity ca, other_ca, middle, by_middle, node, node_other, expired, early, own;
extern SSL_CTX *node_tls; /* of node */
/* Of the group of tests. */
int nodes_setup(void **state);
int nodes_teardown(void **state);

struct cql_tls *tls_of(const struct cql_tls_opts *opts);
/* Trusts ca; the transport keeps what it needs of it. */
void wire_trusted(struct wire *w, SSL_CTX *of_node);
/* The last note has these words. */
void says(const struct wire *w, const char *what);
/* A question and its answer, and then there is nothing more. */
void echo(struct wire *w);
/* Broken is broken: the same words again, whatever is called. */
void stays_broken(struct wire *w);

#endif
