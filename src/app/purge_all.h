/* purge_all.h - a purge goes to every server that shares our Redis; each purges its own store. Told once, best effort:
 * a server that is away or cut off does not learn of it (docs/operations.md).
 *
 *   purge NODE BUCKET DOMAIN REV TID TITLE      REV 0: all; TID -: all of the revision; TITLE to the end
 *
 * Thread: any. */
#ifndef APP_PURGE_ALL_H
#define APP_PURGE_ALL_H

#include "app/page_request.h"

/* What was purged here. Does nothing without Redis. */
void app_purge_tell(const struct app *app, const struct page_target *t);
/* app_told (app.h) is the other end. */

#endif
