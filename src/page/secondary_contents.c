/* secondary_contents.c - turns the parts that came from a secondary into the contents of a put,
 * for secondary.c.
 *
 * Nothing that lies there is trusted: whoever wrote it may have written anything. */
#include "page/secondary.h"

#include "base/utf8.h"
#include "codec/json.h"
#include "page/headers.h"

static bool is_json_type(str type)
{
    str media = str_trim(str_take(type, str_find(type, ';')));
    return str_eq_nocase(media, STR("application/json"));
}

/* Fields that may be kept. Place 0 is the content-type. */
struct fields {
    struct http_pair at[SECONDARY_HEADERS_MAX + 1];
    unsigned count;
};

/* Takes the fields that may be kept; a wrong value drops its field. Compressed bytes end the
 * render: they would be sent as if they were plain. */
static err fields_take(const struct http_pair *given, unsigned count, struct fields *to,
                       struct err_note *note)
{
    for (unsigned i = 0; i < count; i++) {
        const struct http_pair *h = &given[i];
        if (!headers_value_is_sane(h->value) || !utf8_valid(h->value))
            continue;
        if (str_eq(h->name, STR("content-encoding")) && !str_eq_nocase(h->value, STR("identity")))
            return err_bad(note, "it is compressed by whoever wrote it");
        if (str_eq(h->name, STR("content-type")))
            to->at[0].value = h->value;
        /* More fields than fit are left out, as a put would refuse them all. */
        else if (headers_may_keep(h->name, HEADERS_ALL) && to->count < PAGE_HEADERS_MAX)
            to->at[to->count++] = *h;
    }
    return ERR_OK;
}

/* The headers of a content: the type by the headers, else by the part, else JSON for a JSON
 * value. */
static err headers_take(const struct secondary_source *source, const struct secondary_part *part,
                        struct page_put *p, struct page_put_content *to)
{
    struct http_pair given[SECONDARY_HEADERS_MAX];
    struct fields fields = {
        .at = { { .name = STR("content-type"), .value = str_trim(part->type) } }, .count = 1
    };
    unsigned count = 0;
    err why = part->headers.n == 0
                  ? ERR_OK
                  : source->headers(p->arena, part->headers, given, SECONDARY_HEADERS_MAX, &count);
    if (why == ERR_BAD)
        return err_bad(&p->note, "its headers cannot be read");
    if (why == ERR_OK)
        why = fields_take(given, count, &fields, &p->note);
    if (why != ERR_OK)
        return why;
    str *type = &fields.at[0].value;
    if (!utf8_valid(*type))
        *type = STR("");
    if (type->n == 0 && part->json)
        *type = STR("application/json; charset=utf-8");
    if (type->n == 0)
        return err_bad(&p->note, "it has no content-type");
    return headers_keep(p->arena, fields.at, fields.count, HEADERS_ALL, &to->headers, &p->note);
}

/* One part. A value that is said to be JSON is checked, as readers get it as such. */
static err part_take(const struct secondary_source *source, const struct secondary_part *part,
                     struct page_put *p)
{
    struct page_put_content *to = &p->contents[p->contents_count];
    str type, json;
    *to = (struct page_put_content){ .name = part->content, .raw = part->value };
    err why = headers_take(source, part, p, to);
    if (why != ERR_OK)
        return why;
    bool json_wanted =
        part->json || (headers_find(to->headers, STR("content-type"), &type) && is_json_type(type));
    if (json_wanted && (!utf8_valid(part->value) || !json_slice_value(part->value, &json)))
        return err_bad(&p->note, "its value is no JSON");
    p->contents_count++;
    return ERR_OK;
}

err page_secondary_contents(const struct secondary_source *source, const struct secondary_read *r,
                            const struct page_bucket_opts *bucket, struct page_put *p)
{
    p->contents_count = 0;
    for (unsigned i = 0; i < r->parts_count; i++) {
        /* Other contents of the render are not kept here. */
        if (!page_bucket_allows(bucket, r->parts[i].content))
            continue;
        err why = part_take(source, &r->parts[i], p);
        if (why != ERR_OK)
            return why;
    }
    return p->contents_count > 0 ? ERR_OK
                                 : err_bad(&p->note, "it has no content that the bucket keeps");
}
