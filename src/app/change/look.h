/* look.h - what wikis tell of changes: PURGE as to a cache, and events as to EventGate. Both only
 * make us look (page/look.h): who tells is not believed. Private to this folder. */
#ifndef APP_CHANGE_LOOK_H
#define APP_CHANGE_LOOK_H

#include "app/app.h"
#include "page/look.h"
#include "title/word.h"

/* Looks at the title, as it was written, of that domain (page/look.h). */
static inline void change_look(struct app *app, struct arena *a, const struct page_domain *d,
                               str title, const struct title_bound *bound)
{
    page_look_written(&app->page, a, d, title, bound);
}

#endif
