/* json.h - renders, traces and titles as JSON (docs/api.md, 2; docs/peers.md, 1). Pure. Thread:
 * any. */
#ifndef PAGE_JSON_H
#define PAGE_JSON_H

#include "base/buf.h"
#include "page/page.h"

/* ,"name":"2026-01-01T00:00:00.123Z" or null for NEVER and ZERO. */
void pagejson_time(struct buf *b, const char *name, store_time t);
/* "rev":7,"tid":"..." */
void pagejson_name(struct buf *b, struct page_name n);
/* The members of a stored render, without braces (history items). */
void pagejson_render(struct buf *b, const struct page_render *r);
/* A row that cannot be read: {"title":...,"rev":...,"tid":...}, each null when it cannot be read,
 * either. */
void pagejson_damaged(struct buf *b, struct arena *a, str title, const struct page_name *name);
/* What became of what t names: members without the opening brace. */
void pagejson_explanation(struct buf *b, struct arena *a, const struct page_target *t,
                          const struct page_explanation *e);
/* A title in RESTBase's shape: null for what only a wiki knows, when it was not asked. */
struct pagejson_title {
    str title;
    struct page_name name;          /* with meta: the tid alone, zero where no render is stored */
    store_time revised_at;          /* NEVER: not known */
    const struct render_meta *meta; /* as the wiki says it; NULL: it was not asked */
};
void pagejson_title(struct buf *b, const struct pagejson_title *t);

#endif
