/* reply.h - what a reply has to be before it is believed: of its type, in UTF-8, whole. Pure.
 * Private here. */
#ifndef RENDER_REPLY_H
#define RENDER_REPLY_H

#include "http/client.h"
#include "render/render.h"

enum reply_kind { REPLY_HTML, REPLY_WIKITEXT, REPLY_LINT, REPLY_BUNDLE };

/* Of a content type: "text/html; charset=utf-8; profile=..." is of type "text/html". False too when
 * it names another charset than UTF-8. */
bool content_type_is(str value, str type);
/* "content-type: ...\n" and, when there is one, the language. p NULL: the arena is full. */
str content_headers(struct arena *a, str type, str language);
/* The reply ended with its connection, and nothing in it said where it ends (PHP's built-in server
 * answers so). */
bool reply_is_open(const struct http_call *call);
/* FINE, or FAILED with a note. HTML of an open reply counts when it ends with </html>: half of a
 * document looks like a whole one. JSON ends by itself. Wikitext does not: who takes an open one
 * has to know by other means. A bundle is to be taken apart yet. */
enum render_why reply_check(const struct http_call *call, enum reply_kind kind,
                            struct err_note *note);

#endif
