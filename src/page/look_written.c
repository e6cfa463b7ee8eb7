/* look_written.c - turns titles that events and purges name into keys of their domains, and has
 * them looked at. */
#include "page/look.h"
#include "page/title.h"

/* The key of a title while the wiki's rules are not known. A wiki writes its titles as keys in
 * events, but for a namespace that has two names. */
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
