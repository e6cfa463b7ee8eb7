/* render.h - documents of a repository as HTML: what the import stores. Pure. Private to cli.
 *
 * Markdown goes through cmark-gfm with tables, autolinks, strikethrough and task lists, raw HTML
 * filtered as GitHub does (no unsafe output); other text becomes an escaped <pre>. Thread: one. */
#ifndef CLI_RENDER_H
#define CLI_RENDER_H

#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

enum render_kind { RENDER_BINARY, RENDER_TEXT, RENDER_MARKDOWN };
enum { RENDER_LOOK_BYTES = 8192 }; /* of a file are looked at for a NUL, as git does */

/* What a document is, by its name and its bytes: valid UTF-8 without NUL is text. */
enum render_kind render_kind_of(str path, str bytes);
/* The content-type its source is stored under; static. */
const char *render_source_type(str path, enum render_kind kind);
/* A whole HTML document with this title. Fails: ERR_LIMIT when out is full. */
MUST_CHECK err render_html(enum render_kind kind, str title, str source, struct buf *out);
/* Appends s with & < > " escaped. */
void render_escape(struct buf *out, str s);
const char *render_markdown_version(void);

#endif
