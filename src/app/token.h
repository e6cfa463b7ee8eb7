/* token.h - the opaque `next` tokens of listings: a position in base64url.
 *
 * A token is one byte saying which listing it is of, then the position. It is not secret and not
 * signed: a forged one names a position the client could have reached. Pure. Thread: any. */
#ifndef APP_TOKEN_H
#define APP_TOKEN_H

#include "base/arena.h"
#include "base/err.h"
#include "base/str.h"
#include "base/tid.h"

enum { TOKEN_TEXT_BYTES_MAX = 1024 };

/* After a render of a history; after a title of a list. STR_NONE when the arena is full. */
str token_of_render(struct arena *a, uint64_t rev, struct tid tid);
str token_of_title(struct arena *a, str title);
/* False: no such token. */
MUST_CHECK bool token_to_render(struct arena *a, str token, uint64_t *rev, struct tid *tid);
MUST_CHECK bool token_to_title(struct arena *a, str token, str *title);

#endif
