/* titlekey.c - checks titles and makes the keys under which stores have them. Pure. */
#include "base/utf8.h"
#include "store/page_store.h"

static err titlekey_refuse(struct err_note *note, const char *why)
{
    err_note_set(note, "%s", why);
    return ERR_BAD;
}

/* People count characters: the note says that bytes count. */
static err too_long(struct err_note *note, size_t bytes)
{
    err_note_set(
        note,
        "the title takes %zu bytes in UTF-8 (a character takes 1 to 4); at most %d can be stored",
        bytes, PAGE_TITLE_BYTES_MAX);
    return ERR_BAD;
}

/* NFC first: what is checked is what is stored. */
err page_title_key(struct arena *a, str title, str *out, struct err_note *note)
{
    str key;
    if (title.n >
        4 * (size_t)PAGE_TITLE_BYTES_MAX) /* no normal form is that much shorter: spare the work */
        return too_long(note, title.n);
    if (!utf8_valid(title))
        return titlekey_refuse(note, "the title is not UTF-8");
    err e = utf8_nfc(a, title, &key);
    if (e != ERR_OK)
        return e == ERR_BAD ? titlekey_refuse(note, "the title is not UTF-8") : e;
    if (key.n == 0)
        return titlekey_refuse(note, "the title is empty");
    if (key.n > PAGE_TITLE_BYTES_MAX)
        return too_long(note, key.n);
    if (str_eq(key, STR(".")) || str_eq(key, STR("..")))
        return titlekey_refuse(note, "a title cannot be . or ..");
    /* Control characters would break keys (bucket/key.h) and header lines. */
    for (size_t i = 0; i < key.n; i++)
        if ((unsigned char)key.p[i] < 0x20 || key.p[i] == 0x7f)
            return titlekey_refuse(note, "the title holds a control character");
    *out = key;
    return ERR_OK;
}
