/* listplace.c - writes and reads the tokens of listings, for stores.
 *
 *   HISTORY  'r' rev tid        TITLES  't' title        STASHES  's' rev tid title
 *
 * The letter alone means: from the beginning. */
#include "store/listplace.h"

#include "base/buf.h"

#include <string.h>

enum { NAME_BYTES = 8 + TID_KEY_BYTES };

/* Letters of tokens; each kind has its own, so that a token of another kind is refused. */
static const struct {
    char letter;
    bool name, title; /* which follow */
} kinds[] = { [LIST_HISTORY] = { 'r', .name = true },
              [LIST_TITLES] = { 't', .title = true },
              [LIST_STASHES] = { 's', .name = true, .title = true } };

/* Takes a name off the token. False: no render can have it. Tokens come from clients. */
static bool name_get(str *rest, struct page_name *out)
{
    char text[TID_TEXT_BYTES + 1];
    if (rest->n < NAME_BYTES)
        return false;
    struct page_name name = { .rev = get_be64(rest->p),
                              .tid = tid_from_key((const unsigned char *)rest->p + 8) };
    *rest = str_skip(*rest, NAME_BYTES);
    if (name.rev == 0 || name.rev > PAGE_REV_MAX || name.tid.ticks >> 60 != 0)
        return false;
    tid_format(name.tid, text); /* only what a tid can be */
    if (!tid_parse(str_of(text), &name.tid))
        return false;
    *out = name;
    return true;
}

err list_place_get(enum page_list_what what, str token, struct list_place *out)
{
    struct list_place p = { .title_bytes = 0 };
    str rest = str_skip(token, 1);
    bool fine = token.n > 0 && token.p[0] == kinds[what].letter;
    /* A title follows exactly where the kind has one. */
    if (fine && rest.n > 0 && kinds[what].name)
        fine = name_get(&rest, &p.name) && (rest.n > 0) == kinds[what].title;
    if (!fine || rest.n > sizeof p.title)
        return ERR_BAD;
    list_place_title(&p, rest);
    *out = p;
    return ERR_OK;
}

/* The beginning has a token, too: the letter alone. */
str list_place_put(enum page_list_what what, const struct list_place *p, struct arena *a)
{
    bool began = p->title_bytes > 0 || p->name.rev > 0;
    size_t name_n = began && kinds[what].name ? NAME_BYTES : 0;
    size_t title_n = kinds[what].title ? p->title_bytes : 0;
    char *token = arena_alloc(a, 1 + name_n + title_n);
    if (token == NULL)
        return STR_NONE;
    token[0] = kinds[what].letter;
    if (name_n > 0) {
        put_be64(token + 1, p->name.rev);
        tid_key(p->name.tid, (unsigned char *)token + 9);
    }
    memcpy(token + 1 + name_n, p->title, title_n);
    return (str){ .p = token, .n = 1 + name_n + title_n };
}

void list_place_title(struct list_place *p, str title)
{
    if (title.n > 0)
        memcpy(p->title, title.p, title.n);
    p->title_bytes = title.n;
}
