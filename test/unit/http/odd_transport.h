/* odd_transport.h - transports beside plain sockets, for tests.
 *
 *   crumbs    takes all that the kernel has, holds it back, and gives a byte or a few a call;
 * writes as little stutter   each third call of read or writev says that it is not ready yet dying
 * the call of that number finds the client gone
 *
 * Each keeps a word for its connection from its first call to the last shutdown. */
#ifndef TEST_HTTP_ODD_TRANSPORT_H
#define TEST_HTTP_ODD_TRANSPORT_H

#include "http/transport.h"

extern const struct http_transport transport_crumbs, transport_stutter, transport_dying;

/* What the environment names in HTTP_TEST_TRANSPORT; NULL: plain sockets. */
const struct http_transport *odd_transport(void);
/* For transport_dying, of all its connections from here on. */
void odd_die_at(unsigned call);
/* Connections that have a word and have not let go of it. */
unsigned odd_alive(void);

#endif
