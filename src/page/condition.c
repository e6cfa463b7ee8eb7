/* condition.c - turns If-Match, If-None-Match and If-Unmodified-Since into a page_condition, for
 * reads and writes. */
#include "page/condition.h"

#include "base/date.h"
#include "http/negotiate.h"
#include "page/etag.h"

/* weak: weak tags count, too (RFC 9110 8.8.3.2). Tags that name no render are left out. */
static bool match_parse(struct arena *a, str field, bool weak, struct page_match *out)
{
    struct http_etag tag;
    size_t names_max = field.n / (2 + TID_TEXT_BYTES) + 1; /* "R/TID" and more each */
    struct page_name *names;
    *out = (struct page_match){ .kind = MATCH_UNASKED };
    if (field.n == 0)
        return true;
    out->kind = MATCH_ANY;
    if (str_eq(str_trim(field), STR("*")))
        return true;
    out->kind = MATCH_LISTED;
    out->names = names = arena_calloc(a, names_max, sizeof *names);
    if (names == NULL)
        return false;
    while (out->count < names_max && http_etag_next(&field, &tag))
        if ((weak || !tag.weak) && page_tag_name(tag.opaque, &names[out->count]))
            out->count++;
    return true;
}

bool page_condition_parse(struct arena *a, const struct page_condition_fields *f,
                          struct page_condition *out)
{
    store_time since;
    *out = (struct page_condition){ .dated = false };
    if (!match_parse(a, f->if_match, false, &out->match) ||
        !match_parse(a, f->if_none_match, true, &out->none_match))
        return false;
    /* If-Match comes first, and then the date is not looked at (RFC 9110 13.2.2). */
    out->dated = f->if_match.n == 0 && f->if_unmodified_since.n > 0 &&
                 date_parse_http(f->if_unmodified_since, &since.ns);
    /* Dates have whole seconds: a render within that second still counts as before. */
    if (out->dated)
        out->before = store_time_add(since, NS_PER_S);
    return true;
}

void page_condition_ask_younger(const struct page_condition_fields *f, struct page_condition *c)
{
    c->dated = f->if_match.n == 0 && f->if_unmodified_since.n > 0;
    if (!c->dated || !date_parse_http(f->if_unmodified_since, &c->before.ns))
        c->before = STORE_TIME_ZERO; /* no render is older */
}

bool page_condition_spares(const struct page_condition *c, struct page_name stored)
{
    return c->dated && !store_time_before(tid_time(stored.tid), c->before);
}
