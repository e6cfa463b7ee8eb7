/* content.h - names of contents (docs/api.md, 2): 1 to 32 of a-z 0-9 - _ . not begun with a dot;
 * some mean something else. Pure. */
#ifndef PAGE_CONTENT_H
#define PAGE_CONTENT_H

#include "base/check.h"
#include "base/str.h"

bool page_content_is_plain(str name);
bool page_content_is_reserved(str name);
/* Plain, and none of the reserved ones. */
bool page_content_is_fine(str name);

#endif
