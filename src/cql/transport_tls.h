/* transport_tls.h - the two halves of a transport: a socket, and TLS over one. For transport.c.
 *
 * Thread: a socket and what is over it one at a time; a cql_tls any. */
#ifndef CQL_TRANSPORT_TLS_H
#define CQL_TRANSPORT_TLS_H

#include "cql/transport.h"

struct cql_socket {
    int fd;
    int error;  /* errno of the call that failed; 0: none has */
    bool ended; /* the peer sends no more */
};
/* Bytes got or taken, 0 at the peer's end, or one of CQL_WANT_READ, CQL_WANT_WRITE, CQL_BROKEN. No
 * SIGPIPE. */
ssize_t cql_socket_read(struct cql_socket *s, char *to, size_t n);
ssize_t cql_socket_write(struct cql_socket *s, const char *from, size_t n);

/* Another owner of tls; each ends with cql_tls_free. */
struct cql_tls *cql_tls_hold(struct cql_tls *tls);

struct cql_session;
/* s is borrowed. NULL: a node of that name cannot be verified, the note says why. */
struct cql_session *cql_session_new(struct cql_tls *tls, struct cql_socket *s, const char *host,
                                    struct err_note *note);
void cql_session_free(struct cql_session **sp);
/* As those of transport.h. After CQL_BROKEN nothing but free is called. */
int cql_session_open(struct cql_session *s, struct err_note *note);
ssize_t cql_session_read(struct cql_session *s, char *to, size_t n, struct err_note *note);
ssize_t cql_session_write(struct cql_session *s, const char *from, size_t n, struct err_note *note);
bool cql_session_holds(const struct cql_session *s);
void cql_session_close(struct cql_session *s);
const char *cql_session_cipher(const struct cql_session *s);

#endif
