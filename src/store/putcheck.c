/* putcheck.c - says what is wrong with a put, as far as that can be told without looking at what is
 * stored. For stores. */
#include "store/bundle.h"

/* Visible ASCII without a slash: names stand in paths. */
static bool name_is_fine(str name)
{
    if (name.n < 1 || name.n > PAGE_CONTENT_NAME_BYTES_MAX)
        return false;
    for (size_t i = 0; i < name.n; i++)
        if (name.p[i] <= ' ' || name.p[i] >= 0x7f || name.p[i] == '/')
            return false;
    return true;
}

/* i: content of the put. Contents before it were checked. */
static err check_content(const struct page_bucket_opts *o, struct page_put *p, unsigned i)
{
    const struct page_put_content *c = &p->contents[i];
    unsigned lines = 0;
    if (!name_is_fine(c->name))
        return err_bad(&p->note,
                       "a content name is empty, too long, or holds other than visible characters");
    if (!page_bucket_allows(o, c->name))
        return err_bad(&p->note, "this bucket has no content %.*s", STR_ARG(c->name));
    for (unsigned j = 0; j < i; j++)
        if (str_eq(c->name, p->contents[j].name))
            return err_bad(&p->note, "a content is given twice");
    for (size_t at = 0; at < c->headers.n; at++)
        lines += c->headers.p[at] == '\n';
    if (c->headers.n > PAGE_HEADERS_BYTES_MAX || lines > PAGE_HEADERS_MAX) {
        err_note_set(&p->note, "headers of a content: at most %d lines and %d bytes",
                     PAGE_HEADERS_MAX, PAGE_HEADERS_BYTES_MAX);
        return ERR_LIMIT;
    }
    return ERR_OK;
}

err bundle_check(const struct page_bucket_opts *o, store_time now, struct page_put *p)
{
    if (p->rev < 1 || p->rev > PAGE_REV_MAX)
        return err_bad(&p->note, "a revision is 1 to 2^63-1");
    if (p->title.n < 1 || p->title.n > PAGE_TITLE_BYTES_MAX ||
        str_find(p->title, '\0') < p->title.n)
        return err_bad(&p->note, "the title is empty, too long, or holds a zero byte");
    if (p->contents_count < 1 || p->contents_count > PAGE_CONTENTS_MAX)
        return err_bad(&p->note, "a bundle has 1 to 16 contents");
    for (unsigned i = 0; i < p->contents_count; i++) {
        err e = check_content(o, p, i);
        if (e != ERR_OK)
            return e;
    }
    /* A tid from the future would be the latest for ever. */
    store_time ahead = store_time_add(now, PAGE_TID_AHEAD_NS);
    if (p->has_tid && store_time_before(ahead, tid_time(p->tid)))
        return err_bad(&p->note, "the tid is more than 5 s in the future");
    return ERR_OK;
}
