/* json_text.h - what a string of JSON says (RFC 8259, section 7). Pure. Thread: any. */
#ifndef CODEC_JSON_TEXT_H
#define CODEC_JSON_TEXT_H

#include "base/arena.h"
#include "base/err.h"

/* quoted: between the quotes. *out: quoted itself when nothing in it is escaped, else a copy in the
 * arena, no longer. ERR_BAD: an escape that is none, or half a surrogate pair; ERR_LIMIT: the
 * arena. */
MUST_CHECK err json_text_unescape(struct arena *a, str quoted, str *out);

#endif
