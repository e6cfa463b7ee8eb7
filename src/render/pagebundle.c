/* pagebundle.c - reads the bundle that Parsoid answers, HTML and JSON parts, for request.c and
 * transforms. Invariant: a bundle without HTML, or with HTML that is not tied to its source, is
 * refused. */
#include "render/reply.h"

#include "base/buf.h"
#include "codec/json.h"
#include "render/title_rules.h"

/* A header of one part, its name in any letter case. */
static str pagebundle_header(const json_t *part, const char *name)
{
    const char *key;
    json_t *value;
    json_object_foreach(json_object_get(part, "headers"), key,
                        value) if (str_eq_nocase(str_of(key),
                                                 str_of(name))) return json_body_text(value);
    return STR_NONE;
}

/* The text of the HTML, with the headers that are kept. */
static err read_html(struct arena *a, const json_t *part, struct render_content *out,
                     struct err_note *note)
{
    str body, type = pagebundle_header(part, "content-type");
    if (json_body_str(part, "body", &body, NULL) != ERR_OK)
        return err_bad(note, "the bundle's html has no text as its body");
    if (!content_type_is(type, STR("text/html")))
        return err_bad(note, "the bundle's html is not text/html in UTF-8");
    *out = (struct render_content){
        .name = STR("html"),
        .headers = content_headers(a, type, pagebundle_header(part, "content-language")),
        .raw = arena_copy(a, body)
    };
    return out->headers.p != NULL && out->raw.p != NULL ? ERR_OK : ERR_LIMIT;
}

static int pagebundle_append(const char *bytes, size_t n, void *ctx)
{
    struct buf *b = ctx;
    buf_put(b, (str){ .p = bytes, .n = n });
    return b->failed ? -1 : 0;
}

/* Writes the JSON as it was read, compact. */
static err dump(struct arena *a, const json_t *value, str *out)
{
    struct buf b;
    buf_init(&b, SIZE_MAX / 2);
    b.failed |=
        json_dump_callback(value, pagebundle_append, &b, JSON_COMPACT | JSON_ENCODE_ANY) != 0;
    *out = buf_take(&b, a);
    return out->p != NULL ? ERR_OK : ERR_LIMIT;
}

/* One JSON part; its body is kept as JSON text. */
static err read_json(struct arena *a, const json_t *part, const char *name,
                     struct render_content *out, struct err_note *note)
{
    const json_t *body = NULL;
    str type = pagebundle_header(part, "content-type");
    if (json_body_object(part, "body", &body, NULL) != ERR_OK)
        return err_bad(note, "the bundle's %s has no object as its body", name);
    if (!content_type_is(type, STR("application/json")))
        return err_bad(note, "the bundle's %s is not application/json in UTF-8", name);
    *out = (struct render_content){ .name = str_of(name),
                                    .headers = content_headers(a, type, STR("")) };
    err e = dump(a, body, &out->raw);
    return out->headers.p != NULL ? e : ERR_LIMIT;
}

static bool is_empty(const json_t *value)
{
    return json_is_array(value) ? json_array_size(value) == 0
                                : json_is_object(value) && json_object_size(value) == 0;
}

/* What kind of bundle is it? Of pages that are no wikitext, as modules, MediaWiki 1.43 gives a
 * fragment that readers see, and nothing that ties it to a source. Parsoid's own has both, a head
 * and ids: with one alone it is broken. */
static err judge_kind(const json_t *root, str html, bool *for_readers, struct err_note *note)
{
    const json_t *body = json_object_get(json_object_get(root, "data-parsoid"), "body");
    bool has_ids = json_is_object(json_object_get(body, "ids")), has_head = render_head_is(html);
    *for_readers = !has_head && is_empty(body);
    if (!has_ids && !*for_readers)
        return err_bad(note,
                       "the bundle's data-parsoid has no ids: what is typed could not be saved");
    if (has_ids && !has_head)
        return err_bad(note, "the bundle's html has no head");
    return ERR_OK;
}

/* HTML first, then those JSON parts that are there. */
static err read_parts(struct arena *a, const json_t *root, struct render_content *out, unsigned max,
                      unsigned *count, struct err_note *note)
{
    static const char *const jsons[] = { "data-parsoid", "data-mw" };
    const json_t *html = json_object_get(root, "html");
    unsigned n = 1;
    bool for_readers = false;
    INVARIANT(max >= 1 + COUNT_OF(jsons));
    if (!json_is_object(html))
        return err_bad(note, "the bundle has no html");
    if (!json_is_object(json_object_get(root, "data-parsoid")))
        return err_bad(note, "the bundle has no data-parsoid");
    err e = read_html(a, html, &out[0], note);
    if (e == ERR_OK)
        e = judge_kind(root, out[0].raw, &for_readers, note);
    for (size_t i = 0; e == ERR_OK && !for_readers && i < COUNT_OF(jsons); i++) {
        const json_t *part = json_object_get(root, jsons[i]);
        if (json_is_object(part))
            e = read_json(a, part, jsons[i], &out[n++], note);
    }
    if (e == ERR_OK)
        *count = n;
    return e;
}

/* The parts are copies: root is gone behind them. */
err pagebundle_parse(str json, struct arena *a, struct render_content *out, unsigned max,
                     unsigned *count, struct err_note *note)
{
    json_t *root = NULL;
    err e = json_body_parse(json, &root, note);
    if (e != ERR_OK)
        return e;
    e = read_parts(a, root, out, max, count, note);
    if (e == ERR_LIMIT)
        err_note_set(note, "the bundle is too large");
    json_decref(root);
    return e;
}

/* For answers of transforms: the HTML alone, without a judgement of its kind. */
err pagebundle_html(str json, struct arena *a, struct render_content *out, struct err_note *note)
{
    json_t *root = NULL;
    err e = json_body_parse(json, &root, note);
    if (e != ERR_OK)
        return e;
    const json_t *html = json_object_get(root, "html");
    e = json_is_object(html) ? read_html(a, html, out, note)
                             : err_bad(note, "the bundle has no html");
    if (e == ERR_LIMIT)
        err_note_set(note, "the bundle is too large");
    json_decref(root);
    return e;
}
