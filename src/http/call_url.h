/* call_url.h - takes an absolute URL apart: where to connect, and what to say there. Private to
 * http. Pure. */
#ifndef HTTP_CALL_URL_H
#define HTTP_CALL_URL_H

#include "base/err.h"
#include "base/str.h"

enum { HTTP_URL_BYTES_MAX = 32 << 10, HTTP_HOST_BYTES_MAX = 253 };

struct call_url {
    bool tls;
    char host[HTTP_HOST_BYTES_MAX + 1]; /* lower case; an IPv6 address without its brackets */
    bool numeric;                       /* an address, not a name */
    bool numeric6;
    uint16_t port;
    str target; /* within the url: path and query as given; empty: "/" */
};

/* ERR_BAD: not http or https, user info, a fragment, blanks, controls or non-ASCII, a strange host
 * or port, too long. */
MUST_CHECK err call_url_parse(str url, struct call_url *out, struct err_note *note);

#endif
