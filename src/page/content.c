/* content.c - which names a content may have, for routes and bundles. */
#include "page/content.h"

#include "store/page_store.h"

bool page_content_is_plain(str name)
{
    for (size_t i = 0; i < name.n; i++) {
        char c = name.p[i];
        bool plain =
            (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '-' || c == '_' || c == '.';
        if (!plain)
            return false;
    }
    return name.n > 0 && name.n <= PAGE_CONTENT_NAME_BYTES_MAX && name.p[0] != '.';
}

/* Words that stand in the place of a content in a path of the API. */
bool page_content_is_reserved(str name)
{
    static const char *const reserved[] = { "all",  "history", "explain",  "title",
                                            "hold", "lint",    "wikitext", "random" };
    for (size_t i = 0; i < COUNT_OF(reserved); i++)
        if (str_eq(name, str_of(reserved[i])))
            return true;
    return false;
}

bool page_content_is_fine(str name)
{
    return page_content_is_plain(name) && !page_content_is_reserved(name);
}
