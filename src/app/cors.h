/* cors.h - what browsers may do here for the pages of other sites.
 *
 * A browser sends what any page tells it to any server it can reach, one on its own machine's
 * loopback among them. It asks first only for what a form could not send, and keeps the answer from
 * the page unless the answer says that other sites may read it (headers.h). That does not help
 * where the request itself does harm: while the server asks nobody for a key, being reachable must
 * not be all that a change takes:
 *   - what changes something is refused when the browser says that a page of another site sent it
 *     (Origin, Sec-Fetch-Site); programs send neither;
 *   - what rules the server (admin routes; namespaces, users, keys, roles), and whatever else a
 *     browser says it would change, is refused under a Host that is a name the server does not
 *     know: a page may give its own name this machine's address, and is the same site then.
 * A request whose key is asked for passes: browsers send no key by themselves.
 * Source: the Fetch standard; Go's net/http CrossOriginProtection. Thread: any. */
#ifndef APP_CORS_H
#define APP_CORS_H

#include "app/app.h"

/* After routing. False: it was answered, 403. */
bool cors_may(struct http_exchange *x, const struct app *app);

#endif
