/* words.c - words as stores keep them (words.h): the bytes of one word, and the last word of
 * several servers. Pure.
 *
 * Invariants:
 *   1 a word has one encoding, and a decoder takes no other;
 *   2 the fold gives the same words in whatever order they come, and behind any deletion that its
 *     header allows. */
#include "title/words.h"

#include "base/buf.h"
#include "base/check.h"

#include <stdlib.h>

enum { WORD_VERSION = 1 };
enum { WORD_MISSING = 1, WORD_REDIRECT = 2, WORD_THERE = 4, WORD_FLAGS = 7 };

str title_word_encode(const struct title_word *w, char *out)
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

/* *out is written only when all bytes are right. */
err title_word_decode(str value, struct title_word *out)
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

/* ---- the last of several ---- */

static int number_cmp(int64_t a, int64_t b)
{
    return a == b ? 0 : a < b ? -1 : 1;
}

/* By when the wiki was asked; the rest only makes the order total. */
int title_said_cmp(const struct title_said *a, const struct title_said *b)
{
    int cmp = number_cmp(a->word.asked_at.ns, b->word.asked_at.ns);
    if (cmp == 0)
        cmp = number_cmp(a->at.ns, b->at.ns);
    return cmp == 0 ? number_cmp(a->srv, b->srv) : cmp;
}

static int said_cmp(const void *a, const void *b)
{
    return title_said_cmp(a, b);
}

/* A word that is doubted counts when it is surely later; of an unknown title when it names a page.
 */
static bool counts_in_doubt(const struct title_word *w, const struct title_word *last)
{
    return last != NULL ? title_word_is_later(last, w) : !w->missing;
}

/* As the server judged it that heard it: belief and doubt are stored with the word. */
enum title_word_is title_said_judge(const struct title_word *last, const struct title_said *s)
{
    enum title_word_is is = title_word_judge(last, &s->word);
    if (is == WORD_LAGS && s->believed)
        is = WORD_NEWS;
    if (is == WORD_NEWS && s->doubted && !counts_in_doubt(&s->word, last))
        is = WORD_LAGS;
    return is;
}

size_t title_words_fold(struct title_said *all, size_t count)
{
    size_t kept = 0;
    if (count > 0)
        qsort(all, count, sizeof(*all), said_cmp);
    for (size_t i = 0; i < count; i++) {
        struct title_said s = all[i];
        const struct title_word *last = kept == 0 ? NULL : &all[kept - 1].word;
        /* what the first word was judged by is gone, so it counted */
        enum title_word_is is = last == NULL ? WORD_NEWS : title_said_judge(last, &s);
        if ((i > 0 && title_said_cmp(&s, &all[i - 1]) == 0) || is == WORD_LAGS)
            continue;
        s.word.there = title_word_there(last, &s.word, s.word.there);
        /* A word that says the same takes the place of the one before it: it was asked for later.
         */
        kept -= is == WORD_SAME;
        all[kept++] = s;
    }
    return kept;
}
