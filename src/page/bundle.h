/* bundle.h - the body of PUT .../all/...: named contents, each with headers and bytes, as JSON.
 *
 *   {"html": {"headers": {"content-type": "text/html"}, "body": "<p>"}, "data-parsoid": {"body":
 * {"a": 1}}, "image": {"headers": {...}, "body": "iVBORw==", "encoding": "base64"}}
 *
 * A string body is its text (or the bytes it encodes), any other value is stored as it was written.
 * Without a content-type: application/json for a value, application/octet-stream for a string.
 * Pure. Thread: any. */
#ifndef PAGE_BUNDLE_H
#define PAGE_BUNDLE_H

#include "base/arena.h"
#include "base/err.h"
#include "store/page_store.h"

/* contents has room for PAGE_CONTENTS_MAX; what is written points into body and the arena. Fails
 * with a note: ERR_BAD; ERR_LIMIT (too many contents or headers, or the arena is full). */
MUST_CHECK err bundle_parse(struct arena *a, str body, struct page_put_content *contents,
                            unsigned *count, struct err_note *note);

#endif
