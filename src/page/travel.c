/* travel.c - writes a made render as bytes, and reads such bytes, for sealed.c and hops. Bytes from
 * elsewhere may be anything: what is read is checked as if a client had sent it. */
#include "page/travel.h"

#include "base/date.h"
#include "page/content.h"
#include "page/headers.h"

enum { VERSION_BARE = 1, VERSION_WORD = 2 };
enum { FLAG_LATEST = 1, FLAG_REDIRECT = 2 };
enum { WORD_BYTES = 32 };

static void put_text(struct buf *b, str s)
{
    buf_put_be32(b, (uint32_t)s.n);
    buf_put(b, s);
}

static void put_word(struct buf *out, const struct title_word *w)
{
    buf_put_be64(out, w->page_id);
    buf_put_be64(out, w->rev);
    buf_put_be64(out, (uint64_t)w->touched);
    buf_put_be64(out, (uint64_t)w->said);
}

/* page_travel_get reads in this order. */
void page_travel_put(struct buf *out, const struct page_travel *t)
{
    unsigned char tid[TID_KEY_BYTES];
    bool redirect = t->has_word && t->word.redirect;
    tid_key(t->name.tid, tid);
    buf_put_u8(out, t->has_word ? VERSION_WORD : VERSION_BARE);
    buf_put_be64(out, t->name.rev);
    buf_put(out, (str){ .p = (const char *)tid, .n = sizeof tid });
    buf_put_u8(out, (uint8_t)((t->latest ? FLAG_LATEST : 0) | (redirect ? FLAG_REDIRECT : 0)));
    if (t->has_word)
        put_word(out, &t->word);
    put_text(out, t->redirect_to);
    put_text(out, t->redirect_fragment);
    buf_put_u8(out, (uint8_t)t->contents_count);
    for (unsigned i = 0; i < t->contents_count; i++) {
        put_text(out, t->contents[i].name);
        put_text(out, t->contents[i].headers);
        put_text(out, t->contents[i].raw);
    }
}

/* ---- reading; every step says whether there was enough ---- */

static bool travel_take(str *rest, size_t n, str *out)
{
    if (rest->n < n)
        return false;
    *out = str_take(*rest, n);
    *rest = str_skip(*rest, n);
    return true;
}

/* The length is compared with what is left before it is used. */
static bool take_text(str *rest, str *out)
{
    str n;
    return travel_take(rest, 4, &n) && travel_take(rest, get_be32(n.p), out);
}

static bool is_instant(int64_t s)
{
    return s > 0 && s <= DATE_S_MAX;
}

/* Reads a word; false where a member is nothing: no wiki says that of a page that is there. */
static bool take_word(str *rest, unsigned flags, struct title_word *w)
{
    str bytes;
    if (!travel_take(rest, WORD_BYTES, &bytes))
        return false;
    *w = (struct title_word){ .redirect = (flags & FLAG_REDIRECT) != 0,
                              .page_id = get_be64(bytes.p),
                              .rev = get_be64(bytes.p + 8),
                              .touched = (int64_t)get_be64(bytes.p + 16),
                              .said = (int64_t)get_be64(bytes.p + 24) };
    return w->page_id > 0 && w->rev > 0 && w->rev <= PAGE_REV_MAX && is_instant(w->touched) &&
           is_instant(w->said);
}

/* Are these "name: value
 * " lines, with fields that may be kept? Nothing else may be in them, whoever wrote into Redis. */
static bool headers_are_fine(str lines)
{
    while (lines.n > 0) {
        if (str_find(lines, '\n') == lines.n)
            return false;
        str value = str_split(&lines, '\n');
        str name = str_split(&value, ':');
        if (!headers_may_keep(name, HEADERS_ALL) || value.n == 0 || !headers_value_is_sane(value))
            return false;
    }
    return true;
}

/* wikitext is a reserved name, and previews have it. */
static bool take_content(str *rest, struct render_content *c)
{
    return take_text(rest, &c->name) && take_text(rest, &c->headers) && take_text(rest, &c->raw) &&
           (page_content_is_fine(c->name) || str_eq(c->name, STR("wikitext"))) &&
           headers_are_fine(c->headers);
}

err page_travel_get(str bytes, struct page_travel *out)
{
    struct page_travel t = { .contents_count = 0 };
    str rest = bytes, version, rev, tid, flags, count;
    bool fine = travel_take(&rest, 1, &version) &&
                (version.p[0] == VERSION_BARE || version.p[0] == VERSION_WORD) &&
                travel_take(&rest, 8, &rev) && travel_take(&rest, TID_KEY_BYTES, &tid) &&
                travel_take(&rest, 1, &flags);
    t.has_word = fine && version.p[0] == VERSION_WORD;
    fine = fine && (!t.has_word || take_word(&rest, (unsigned char)flags.p[0], &t.word)) &&
           take_text(&rest, &t.redirect_to) && take_text(&rest, &t.redirect_fragment) &&
           travel_take(&rest, 1, &count);
    if (!fine || (unsigned char)count.p[0] > COUNT_OF(t.contents))
        return ERR_CORRUPT;
    t.name = (struct page_name){ .rev = get_be64(rev.p),
                                 .tid = tid_from_key((const unsigned char *)tid.p) };
    t.latest = ((unsigned char)flags.p[0] & FLAG_LATEST) != 0;
    for (; t.contents_count < (unsigned char)count.p[0]; t.contents_count++)
        if (!take_content(&rest, &t.contents[t.contents_count]))
            return ERR_CORRUPT;
    if (rest.n > 0 || t.contents_count == 0 || t.name.rev == 0 || t.name.rev > PAGE_REV_MAX)
        return ERR_CORRUPT;
    *out = t;
    return ERR_OK;
}
