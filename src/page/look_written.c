/* look_written.c - titles that events and purges name are looked at as their domains know them. */
#include "page/look.h"
#include "page/title.h"

/* A wiki writes its titles as keys, but for a namespace that has two names. So they stand for
 * themselves while its rules are not known. */
static str own_key(struct arena *a, str title)
{
    str copy = arena_copy(a, title), key;
    for (size_t i = 0; copy.p != NULL && i < copy.n; i++)
        if (copy.p[i] == ' ')
            ((char *)(uintptr_t)copy.p)[i] = '_'; /* ours */
    return copy.p != NULL && page_title_key(a, copy, &key, NULL) == ERR_OK ? key : STR("");
}

void page_look_written(const struct page_service *s, struct arena *a, const struct page_domain *d,
                       str title, const struct title_bound *bound)
{
    struct page_target target = { .domain = d, .title = title };
    struct page_title_wait w = { .target = &target, .arena = a };
    if (d->origin == NULL || title.n == 0)
        return;
    str key = !page_title_settle(&w)   ? own_key(a, title)
              : w.end == TITLE_SETTLED ? target.title
                                       : STR("");
    if (key.n > 0)
        (void)page_look(s, d, key, bound); /* the trust has ended in any case */
}
