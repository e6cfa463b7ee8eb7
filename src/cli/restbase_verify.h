/* restbase_verify.h - does a server have a render as it was imported? Private to cli. Thread: one.
 */
#ifndef CLI_RESTBASE_VERIFY_H
#define CLI_RESTBASE_VERIFY_H

#include "cli/upload.h"

/* Of a render; what is worse comes later. */
enum restbase_verdict {
    VERDICT_EQUAL,
    /* stored once, under the tid of an earlier render of that revision from which it differs in
     * about= and mw:TimeUuid alone */
    VERDICT_SAME,
    VERDICT_LET_GO, /* it was there, and the policy, an order or the wiki has taken it */
    VERDICT_DIFFER,
    VERDICT_MISSING, /* the server knows nothing of it */
    VERDICTS,
};
/* Asks for each content of the item. *out: the worst of them. Fails when nobody answers, or a
 * server that cannot. */
MUST_CHECK err restbase_verify_item(struct client *c, const struct upload_item *item,
                                    enum restbase_verdict *out, struct err_note *note);

#endif
