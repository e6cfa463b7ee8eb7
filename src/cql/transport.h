/* transport.h - bytes to a node and back over a connected socket: plain, or TLS by OpenSSL.
 *
 * Nothing here blocks: an operation that has to wait says for what. Private to cql. Thread: one at
 * a time; a cql_tls may be shared. */
#ifndef CQL_TRANSPORT_H
#define CQL_TRANSPORT_H

#include "base/err.h"
#include "base/str.h"

#include <sys/types.h>

enum { CQL_PATH_BYTES_MAX = 4095, CQL_TLS_NAME_BYTES_MAX = 255 };

/* What TLS needs. Paths are of PEM files. */
struct cql_tls_opts {
    const char *ca_path;   /* whom to trust; NULL: the system's */
    const char *cert_path; /* our own certificate and key, both or none */
    const char *key_path;
    /* The name that a node's certificate must have. NULL: the host that was asked for, or its
     * address. */
    const char *name;
    bool unverified; /* any certificate will do; said in the log by who allows it */
};
struct cql_tls;
/* Reads the files. NULL: one cannot be read, or makes no sense; the note says which. TLS 1.2 and
 * later. Blocks. An encrypted key is one that cannot be read: nobody is asked for its password. */
struct cql_tls *cql_tls_new(const struct cql_tls_opts *opts, struct err_note *note);
/* Transports over it keep what they need. */
void cql_tls_free(struct cql_tls **tp);

/* Results of read and write below 0. */
enum {
    CQL_WANT_READ = -1,  /* again when the socket is readable */
    CQL_WANT_WRITE = -2, /* again when it is writable */
    CQL_BROKEN = -3,     /* the connection is of no use; the note says why */
};
struct cql_transport;
/* fd is borrowed: connected, or connecting; it is never waited for. tls NULL: plain. host: what the
 * certificate has to name, where opts.name is NULL; a name or an address. One that no certificate
 * may have breaks the transport at once. Dies when out of memory. */
struct cql_transport *cql_transport_new(int fd, struct cql_tls *tls, const char *host);
void cql_transport_free(struct cql_transport **tp);
/* The handshake: 0 done (at once when plain), or one of those above. */
int cql_transport_open(struct cql_transport *t, struct err_note *note);
/* Bytes got, 0 at the peer's end, or one of those above. n > 0. */
ssize_t cql_transport_read(struct cql_transport *t, char *to, size_t n, struct err_note *note);
/* Bytes taken (fewer than n is usual), or one of those above. After WANT_ the same bytes, or more
 * behind them, are offered again, from the same or another place. n > 0. */
ssize_t cql_transport_write(struct cql_transport *t, const char *from, size_t n,
                            struct err_note *note);
/* Bytes were received that the socket does not show as readable any more: read again before
 * waiting. */
bool cql_transport_holds(const struct cql_transport *t);
/* Says good-bye where the protocol has a word for it; never waits. Nothing but free may follow. */
void cql_transport_close(struct cql_transport *t);
/* "TLSv1.3 TLS_AES_256_GCM_SHA384"; "" when plain. Borrowed. */
const char *cql_transport_cipher(const struct cql_transport *t);

#endif
