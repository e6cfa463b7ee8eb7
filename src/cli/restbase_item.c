/* restbase_item.c - a render of RESTBase's as an upload: its contents, with the headers that are
 * kept.
 *
 * Nothing in a row is trusted. Headers that cannot be read cost the headers, not the render; a
 * header that a Palimpsest would not keep is not sent. */
#include "cli/restbase.h"

#include "base/utf8.h"
#include "page/content.h"
#include "page/headers.h"
#include "store/page_store.h"

#include <string.h>

static const char *default_type(const struct restbase_table *t)
{
    if (t->json)
        return "application/json; charset=utf-8";
    return strcmp(t->content, "html") == 0 ? "text/html; charset=utf-8"
                                           : "application/octet-stream";
}

static const char *type_of(struct arena *a, str given, const char *fallback)
{
    given = str_trim(given);
    char *text = given.n > 0 && utf8_valid(given) && headers_value_is_sane(given)
                     ? arena_alloc(a, given.n + 1)
                     : NULL;
    return text != NULL && str_to_cstr(given, text, given.n + 1) ? text : fallback;
}

struct read_headers {
    str type;
    bool packed; /* they say that the value is compressed */
};

static void header_take(struct upload_part *p, struct upload_header *more,
                        const struct restbase_header *h, struct read_headers *read)
{
    if (!headers_value_is_sane(h->value))
        return;
    if (str_eq(h->name, STR("content-type")))
        read->type = h->value;
    else if (str_eq(h->name, STR("content-encoding")))
        read->packed = !str_eq_nocase(h->value, STR("identity"));
    else if (p->more_count < PAGE_HEADERS_MAX - 1 && headers_may_keep(h->name, HEADERS_ALL))
        more[p->more_count++] = (struct upload_header){ .name = h->name, .value = h->value };
}

/* False: the arena is full. */
static bool headers_take(struct arena *a, str text, struct upload_part *p,
                         struct read_headers *read, const char **warned)
{
    struct restbase_header headers[RESTBASE_HEADERS_MAX];
    unsigned count = 0;
    if (text.n == 0)
        return true;
    err why = restbase_headers_read(a, text, headers, &count);
    if (why == ERR_BAD)
        *warned = "its headers cannot be read: it has those of its content alone";
    if (why != ERR_OK)
        return why == ERR_BAD;
    struct upload_header *more = arena_alloc(a, PAGE_HEADERS_MAX * sizeof *more);
    if (more == NULL)
        return false;
    p->more = more;
    for (unsigned i = 0; i < count; i++)
        header_take(p, more, &headers[i], read);
    return true;
}

static bool part_take(const struct restbase_table *t, const struct restbase_part *in,
                      struct arena *a, struct upload_part *out, const char **why,
                      const char **warned)
{
    struct read_headers read = { .packed = false };
    *out = (struct upload_part){ .content = t->content, .bytes = in->value };
    out->binary = !utf8_valid(in->value);
    if (!headers_take(a, in->headers, out, &read, warned)) {
        *why = "its headers are too large";
        return false;
    }
    if (read.packed) {
        *why = "it is compressed by whoever wrote it";
        return false;
    }
    out->type = type_of(a, read.type.n > 0 ? read.type : in->type, default_type(t));
    return true;
}

bool source_item(const struct source *s, const struct restbase_render *r, struct arena *a,
                 struct upload_item *out, const char **why, const char **warned)
{
    *out = (struct upload_item){ .title = r->title, .rev = r->rev, .tid = r->tid };
    *warned = NULL;
    *why = r->unfit;
    if (r->unfit == NULL && !utf8_valid(r->title))
        *why = "its title is no UTF-8";
    if (*why != NULL)
        return false;
    for (unsigned i = 0; i < s->tables_count; i++) {
        if (!r->parts[i].there)
            continue;
        if (!part_take(&s->tables[i], &r->parts[i], a, &out->parts[out->parts_count], why, warned))
            return false;
        out->parts_count++;
    }
    return true;
}
