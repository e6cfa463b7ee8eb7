/* json_text.h - the strings of JSON (RFC 8259, section 7), the one writer and the one reader of
 * them. What a server of JSON escapes must all say the same, byte for byte: stored JSON is compared
 * by its bytes. Pure. Thread: any. */
#ifndef CODEC_JSON_TEXT_H
#define CODEC_JSON_TEXT_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"

/* Writing, with quotes. Escaped are control bytes, DEL, the quote and the backslash: the short form
 * where there is one. s is UTF-8, but for json_text_quote. */
size_t json_text_size(str s);
/* Writes json_text_size(s) bytes; returns their end. */
char *json_text_put(char *out, str s);
void json_text_append(struct buf *b, str s);
/* In the arena; STR_NONE when it is full. Bytes that are no UTF-8 become U+FFFD. */
str json_text_quote(struct arena *a, str s);

/* Writes the long escape of a character below U+0100: six bytes. For what JSON may hold as it is
 * and a terminal obeys. */
void json_text_escape(char out[6], unsigned char c);

/* Reading. quoted: between the quotes. *out: quoted itself when nothing in it is escaped, else a
 * copy in the arena, no longer. ERR_BAD: an escape that is none, or half a surrogate pair;
 * ERR_LIMIT: the arena. */
MUST_CHECK err json_text_unescape(struct arena *a, str quoted, str *out);

#endif
