/* word.c - rows of the wiki's last words, for hear.c, put.c, store.c and sweep.c: one row of a
 * title, whatever buckets it is in. */
#include "bucket/word.h"

#include "bucket/key.h"
#include "bucket/row.h"

err word_get(struct engine_view *v, uint32_t domain, str title, struct title_word *out)
{
    struct engine_row found;
    struct page_key key;
    if (title.n < 1 || title.n > PAGE_TITLE_BYTES_MAX)
        return ERR_NOT_FOUND;
    /* Bucket 0 is no bucket: the word is of the title in all of them. */
    page_key_title(&key, 0, domain, title);
    err e = engine_get(v, SPACE_WORD, page_key_str(&key), &found);
    return e == ERR_OK ? title_word_decode(found.value, out) : e;
}

err word_put(struct engine_txn *t, uint32_t domain, str title, const struct title_word *w)
{
    char value[TITLE_WORD_BYTES_MAX];
    struct page_key key;
    page_key_title(&key, 0, domain, title);
    return engine_txn_put(t, SPACE_WORD, page_key_str(&key), title_word_encode(w, value), STR_NONE);
}

err word_forget(struct engine_txn *t, uint32_t domain, str title)
{
    struct page_key key;
    page_key_title(&key, 0, domain, title);
    return engine_txn_delete(t, SPACE_WORD, page_key_str(&key));
}
