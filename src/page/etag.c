/* etag.c - writes and reads entity tags of renders, for answers, conditions and editors. The W/
 * of a weak tag is put before it where an answer is built (src/app/page/page_answer.c). */
#include "page/etag.h"

#include "base/check.h"

#include <inttypes.h>
#include <stdio.h>

/* The tid has a fixed length: what is left is room for 20 digits and a slash. */
str page_tag(struct page_name n, char out[PAGE_TAG_BYTES + 1])
{
    size_t used = (size_t)snprintf(out, PAGE_TAG_BYTES + 1, "%" PRIu64 "/", n.rev);
    INVARIANT(used <= PAGE_TAG_BYTES - TID_TEXT_BYTES);
    tid_format(n.tid, out + used);
    return (str){ .p = out, .n = used + TID_TEXT_BYTES };
}

str page_etag(struct arena *a, struct page_name n)
{
    char tag[PAGE_TAG_BYTES + 1];
    return arena_printf(a, "\"%.*s\"", STR_ARG(page_tag(n, tag)));
}

bool page_tag_name(str tag, struct page_name *out)
{
    char text[PAGE_TAG_BYTES + 1];
    struct page_name n;
    str rest = tag;
    /* Only the one form counts: other spellings of a number or tid are no tag of ours. */
    if (!str_to_u64(str_split(&rest, '/'), &n.rev) || !tid_parse(rest, &n.tid) ||
        !str_eq(page_tag(n, text), tag))
        return false;
    *out = n;
    return true;
}

bool page_edited_parse(str field, struct page_edited *out)
{
    struct page_edited tag = { .stash = false };
    /* Proxies weaken tags, and some clients lose a quote. */
    str text = str_trim(field), tid, suffix;
    if (str_starts(text, STR("W/")))
        text = str_skip(text, 2);
    if (text.n > 0 && text.p[0] == '"')
        text = str_skip(text, 1);
    if (text.n > 0 && text.p[text.n - 1] == '"')
        text = str_take(text, text.n - 1);
    suffix = text;
    if (str_find(text, '"') < text.n || !str_to_u64(str_split(&suffix, '/'), &tag.name.rev))
        return false;
    tid = str_split(&suffix, '/');
    /* What stands behind the tid, as "-gzip", is a proxy's. */
    if (tag.name.rev > PAGE_REV_MAX || !tid_parse(str_take(tid, TID_TEXT_BYTES), &tag.name.tid))
        return false;
    tag.stash = str_eq(suffix, STR("stash"));
    *out = tag;
    return true;
}
