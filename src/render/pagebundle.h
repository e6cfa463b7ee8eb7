/* pagebundle.h - parts of replies that become contents. Pure. Private to this folder. */
#ifndef RENDER_PAGEBUNDLE_H
#define RENDER_PAGEBUNDLE_H

#include "render/render.h"

bool content_type_is(str value, str type);
/* "content-type: ...\n" and, when there is one, the language. p NULL: the arena is full. */
str content_headers(struct arena *a, str type, str language);

#endif
