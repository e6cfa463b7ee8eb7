/* Goal: no body of a transform breaks its parser; what it takes is UTF-8, and what is written of it
 * for the origin is JSON that another reader reads back as it was. Tags of editors too. Method: the
 * first line is the Content-Type. */
#include "base/utf8.h"
#include "page/etag.h"
#include "page/transform_body.h"

#include <jansson.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void reads_back(str html)
{
    struct buf b;
    struct transform_original original = { .title = STR("T"), .html = { STR("text/html"), html } };
    buf_init(&b, 16 << 20);
    transform_body_html(&b, html, &original);
    INVARIANT(buf_status(&b) == ERR_OK);
    json_t *root = json_loadb(b.p, b.n, JSON_ALLOW_NUL, NULL);
    INVARIANT(root != NULL);
    const json_t *got = json_object_get(root, "html");
    INVARIANT(json_string_length(got) == html.n);
    INVARIANT(html.n == 0 || memcmp(json_string_value(got), html.p, html.n) == 0);
    json_decref(root);
    buf_fini(&b);
}

static void updates_read_back(const struct transform_fields *f)
{
    struct buf b;
    struct transform_original original = { .title = STR("T"),
                                           .html = { STR("text/html"), STR("") } };
    buf_init(&b, 16 << 20);
    transform_body_updates(&b, f, &original);
    json_t *root = json_loadb(b.p, b.n, JSON_ALLOW_NUL, NULL);
    INVARIANT(root != NULL);
    const json_t *updates = json_object_get(root, "updates"),
                 *variant = json_object_get(updates, "variant");
    INVARIANT(json_object_size(updates) == 1);
    INVARIANT(f->redlinks ||
              json_string_length(json_object_get(variant, "target")) == f->variant_target.n);
    json_decref(root);
    buf_fini(&b);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct transform_fields f;
    struct err_note note = { { 0 } };
    struct page_edited tag;
    str body = { .p = (const char *)data, .n = size };
    str type = str_split(&body, '\n');
    body = body.p == NULL ? STR("") : body;
    arena_init(&a, 8 << 20);
    if (page_edited_parse(type, &tag))
        INVARIANT(tag.name.rev <= PAGE_REV_MAX);
    (void)transform_parsoid_has_ids(&a, body); /* any answer is fine */
    INVARIANT(transform_holds(body) <= HOLDS_TEXT);
    err why = transform_body_parse(&a, type, body, &f, &note);
    INVARIANT(why == ERR_OK || why == ERR_LIMIT || note.text[0] != 0);
    if (why == ERR_OK && f.html.p != NULL) {
        INVARIANT(utf8_valid(f.html));
        reads_back(f.html);
    }
    if (why == ERR_OK && (f.redlinks || f.variant_target.n > 0))
        updates_read_back(&f);
    if (why == ERR_OK && f.wikitext.p != NULL)
        reads_back(f.wikitext);
    arena_fini(&a);
    return 0;
}
