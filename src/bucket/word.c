/* word.c - rows of the wiki's last words. */
#include "bucket/word.h"

#include "bucket/key.h"
#include "bucket/row.h"

enum { WORD_VERSION = 1 };
enum { WORD_MISSING = 1, WORD_REDIRECT = 2, WORD_THERE = 4, WORD_FLAGS = 7 };

str page_word_encode(const struct title_word *w, char *out)
{
    char *at = out;
    *at++ = WORD_VERSION;
    *at++ = (char)((w->missing ? WORD_MISSING : 0) | (w->redirect ? WORD_REDIRECT : 0) |
                   (w->there != 0 ? WORD_THERE : 0));
    at = varint_put(at, w->page_id);
    at = varint_put(at, w->rev);
    put_be64(at, (uint64_t)w->touched);
    put_be64(at + 8, (uint64_t)w->said);
    put_be64(at + 16, (uint64_t)w->asked_at.ns);
    at += 24;
    if (w->there != 0)
        at = varint_put(at, w->there);
    return (str){ .p = out, .n = (size_t)(at - out) };
}

err page_word_decode(str value, struct title_word *out)
{
    struct cursor c = { .rest = value };
    uint8_t version = cursor_u8(&c), flags = cursor_u8(&c);
    struct title_word w = { .missing = (flags & WORD_MISSING) != 0,
                            .redirect = (flags & WORD_REDIRECT) != 0 };
    w.page_id = varint_get(&c);
    w.rev = varint_get(&c);
    w.touched = (int64_t)cursor_be64(&c);
    w.said = (int64_t)cursor_be64(&c);
    w.asked_at.ns = (int64_t)cursor_be64(&c);
    if ((flags & WORD_THERE) != 0)
        w.there = varint_get(&c);
    if (!cursor_done(&c) || version != WORD_VERSION || (flags & ~WORD_FLAGS) != 0 ||
        w.rev > PAGE_REV_MAX || w.there > PAGE_REV_MAX ||
        ((flags & WORD_THERE) != 0 && w.there == 0))
        return ERR_CORRUPT;
    *out = w;
    return ERR_OK;
}

err word_get(struct engine_view *v, uint32_t domain, str title, struct title_word *out)
{
    struct engine_row found;
    struct page_key key;
    if (title.n < 1 || title.n > PAGE_TITLE_BYTES_MAX)
        return ERR_NOT_FOUND;
    page_key_title(&key, 0, domain, title);
    err e = engine_get(v, SPACE_WORD, page_key_str(&key), &found);
    return e == ERR_OK ? page_word_decode(found.value, out) : e;
}

err word_put(struct engine_txn *t, uint32_t domain, str title, const struct title_word *w)
{
    char value[PAGE_WORD_BYTES_MAX];
    struct page_key key;
    page_key_title(&key, 0, domain, title);
    return engine_txn_put(t, SPACE_WORD, page_key_str(&key), page_word_encode(w, value), STR_NONE);
}

err word_forget(struct engine_txn *t, uint32_t domain, str title)
{
    struct page_key key;
    page_key_title(&key, 0, domain, title);
    return engine_txn_delete(t, SPACE_WORD, page_key_str(&key));
}
