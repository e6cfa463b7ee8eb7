/* transform_body.h - what a transform is asked with, and what the origin is asked with in turn.
 * Pure; fuzzed.
 *
 * Bodies come as JSON, multipart/form-data or application/x-www-form-urlencoded (docs/peers.md, 3):
 *   html (text, or {"body": text}), wikitext, title, body_only, stash,
 *   updates ({"redlinks": true}, or {"variant": {"target": code, "source": code if known}}; in
 *     forms as that text).
 * Other fields are ignored. */
#ifndef PAGE_TRANSFORM_BODY_H
#define PAGE_TRANSFORM_BODY_H

#include "base/arena.h"
#include "base/buf.h"
#include "base/err.h"
#include "base/str.h"

struct transform_fields {
    str html, wikitext, title; /* p NULL: absent */
    bool body_only, stash;
    bool redlinks;
    str variant_target, variant_source;
};
/* content_type empty: JSON. Strings are UTF-8. Fails: ERR_BAD with a note, ERR_LIMIT. */
MUST_CHECK err transform_body_parse(struct arena *a, str content_type, str body,
                                    struct transform_fields *out, struct err_note *note);

/* A part of a bundle. p NULL: it is not there. */
struct transform_part {
    str type; /* content-type */
    str body;
};
struct transform_original {
    str title;
    uint64_t rev; /* 0: left out */
    struct transform_part html, data_parsoid, wikitext;
};
/* {"html": ..., "original": {...}} for pagebundle/to/wikitext, original NULL: {"html": ...} for
 * html/to/wikitext. A buffer that fails says so by itself. */
void transform_body_html(struct buf *b, str html, const struct transform_original *original);
/* {"original": ..., "updates": ...} for pagebundle/to/pagebundle, with the updates of these
 * fields. */
void transform_body_updates(struct buf *b, const struct transform_fields *fields,
                            const struct transform_original *original);
void transform_body_wikitext(struct buf *b, str wikitext, bool body_only);
/* What somebody would miss if a document came back as no wikitext at all. */
enum transform_holds {
    HOLDS_NOTHING,  /* spaces, and elements that are nothing by themselves */
    HOLDS_ELEMENTS, /* others, as an empty heading or list: often no wikitext, but a template has no
                       text either */
    HOLDS_TEXT,     /* or a comment */
};
enum transform_holds transform_holds(str html);
/* Has it ids, as a document that is to be serialised must? */
MUST_CHECK bool transform_parsoid_has_ids(struct arena *a, str data_parsoid);

#endif
