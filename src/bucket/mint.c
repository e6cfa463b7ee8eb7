/* mint.c - names renders that are made here, for put.c: a new name is greater than all that the
 * revision had. */
#include "bucket/look.h"
#include "title/decide.h"

err page_mint(struct page_bucket *b, struct engine_view *v, const struct page_which *rev,
              store_time began, uint64_t random, struct tid *out)
{
    struct look k;
    struct engine_row found;
    const struct title_mint m = {
        .rev = rev->name.rev, .began = began, .gone_if_purged = true, .random = random
    };
    look_init(&k, b, v, rev->domain, rev->title);
    /* A look has no title row of its own; the machine asks it for fences. */
    err e = engine_get(v, SPACE_TITLE, page_key_str(&k.key), &found);
    if (e == ERR_OK)
        e = page_title_decode(found.value, &k.row);
    return e == ERR_OK || e == ERR_NOT_FOUND ? title_mint(&k.title, &m, out) : e;
}
