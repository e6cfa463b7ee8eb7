/* reply.h - what a reply has to be before it is believed: of its type, in UTF-8, whole. Pure. Private here. */
#ifndef RENDER_REPLY_H
#define RENDER_REPLY_H

#include "http/client.h"
#include "render/render.h"

enum reply_kind { REPLY_HTML, REPLY_WIKITEXT, REPLY_LINT, REPLY_BUNDLE };

/* Of a content type: "text/html; charset=utf-8; profile=..." is of type "text/html". False too when it names another
 * charset than UTF-8. */
bool content_type_is(str value, str type);
/* "content-type: ...\n" and, when there is one, the language. p NULL: the arena is full. */
str content_headers(struct arena *a, str type, str language);
/* FINE, or FAILED with a note. Of a text also that it says where it ends: half of one looks like a whole one. A
 * bundle is to be taken apart yet. */
enum render_why reply_check(const struct http_call *call, enum reply_kind kind, struct err_note *note);

#endif
