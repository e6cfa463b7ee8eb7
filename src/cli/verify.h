/* verify.h - does a server have a render as it was put there? Private to cli. Thread: one.
 *
 * Compared are digests of each content. What is not there is put again: the server says then
 * whether it refuses it, or had lost it. */
#ifndef CLI_VERIFY_H
#define CLI_VERIFY_H

#include "cli/import.h"

/* Of a render; what is worse comes later. */
enum verdict {
    VERDICT_EQUAL,
    /* stored once, under the tid of an earlier render of that revision from which it differs in
     * about= and mw:TimeUuid alone */
    VERDICT_SAME,
    VERDICT_LET_GO, /* it was there, and the policy, an order or the wiki has taken it */
    VERDICT_REFUSED,
    VERDICT_DIFFER,
    VERDICT_MISSING, /* the server knew nothing of it; it is stored now */
    VERDICTS,
};
struct verify {
    uint64_t of[VERDICTS];
};
/* Asks for each content of the item, and counts the worst. What is wrong is told as import_warned
 * does. Fails when nobody answers, or a server that cannot. The uploads of im are there, and
 * finished. */
MUST_CHECK err verify_item(struct verify *v, struct import *im, const struct upload_item *item,
                           struct err_note *note);
/* Something was lost, or has other bytes. */
bool verify_failed(const struct verify *v);
void verify_print(const struct verify *v); /* a line */
json_t *verify_json(const struct verify *v);

#endif
