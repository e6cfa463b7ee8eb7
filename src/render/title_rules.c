/* title_rules.c - which titles a wiki takes, and how it writes them: illegal characters, lengths,
 * namespaces, capitals.
 *
 * The rules of MediaWiki 1.39 (MediaWikiTitleCodec) and of the library mediawiki-title, which
 * RESTBase uses.
 *
 * Wikis differ on the capitals of some letters: by PHP, by $wgOverrideUcfirstCharacters. Those are
 * letters with a title case of their own (dz, Georgian) and letters whose capital is several
 * letters (sharp s, Greek with iota below). Such a first letter stays as it was written, and the
 * wiki is left to say how it writes the title (RENDER_OTHER_TITLE). */
#include "render/siteinfo.h"

#include "base/utf8.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <unistr.h>

enum { TITLE_INPUT_BYTES_MAX = 2048, TITLE_BYTES_MAX = 255, TITLE_SPECIAL_BYTES_MAX = 512 };

/* What MediaWiki makes an underscore of. */
static bool is_blank(ucs4_t c)
{
    static const ucs4_t others[] = { ' ',    '_',    0xa0,   0x1680, 0x180e,
                                     0x2028, 0x2029, 0x202f, 0x205f, 0x3000 };
    for (size_t i = 0; i < COUNT_OF(others); i++)
        if (c == others[i])
            return true;
    return c >= 0x2000 && c <= 0x200a;
}

/* Marks that turn the direction of writing: they slip into titles that were copied. */
static bool is_bidi(ucs4_t c)
{
    return c == 0x200e || c == 0x200f || (c >= 0x202a && c <= 0x202e);
}

static str title_rules_trim(str s)
{
    while (s.n > 0 && s.p[0] == '_')
        s = str_skip(s, 1);
    while (s.n > 0 && s.p[s.n - 1] == '_')
        s.n--;
    return s;
}

/* Brings a title into NFC, without marks of direction. Each run of blanks becomes one underscore;
 * none stays at the ends. */
static err tidy(struct arena *a, str title, str *out, struct err_note *note)
{
    str nfc;
    if (title.n > TITLE_INPUT_BYTES_MAX)
        return err_bad(note, "the title is too long");
    if (!utf8_valid(title))
        return err_bad(note, "the title is not UTF-8");
    err e = utf8_nfc(a, title, &nfc);
    if (e != ERR_OK)
        return e;
    char *copy = arena_alloc(a, nfc.n + 1);
    if (copy == NULL)
        return ERR_LIMIT;
    size_t n = 0;
    while (nfc.n > 0) {
        ucs4_t c;
        size_t bytes = (size_t)u8_mbtouc(&c, (const uint8_t *)nfc.p, nfc.n);
        if (c == 0xfffd)
            return err_bad(note, "the title holds U+FFFD, which stands for broken text");
        if (is_blank(c)) {
            if (n == 0 || copy[n - 1] != '_')
                copy[n++] = '_';
        } else if (!is_bidi(c)) {
            memcpy(copy + n, nfc.p, bytes);
            n += bytes;
        }
        nfc = str_skip(nfc, bytes);
    }
    *out = title_rules_trim((str){ .p = copy, .n = n });
    return ERR_OK;
}

/* Cuts "prefix:" off *rest. False: there is none; a colon in front makes none. */
static bool split_prefix(str *rest, str *prefix)
{
    if (rest->n < 2)
        return false;
    size_t colon = 1 + str_find(str_skip(*rest, 1), ':');
    if (colon >= rest->n)
        return false;
    *prefix = str_take(*rest, colon);
    while (prefix->n > 1 && prefix->p[prefix->n - 1] == '_')
        prefix->n--;
    *rest = str_skip(*rest, colon + 1);
    while (rest->n > 0 && rest->p[0] == '_')
        *rest = str_skip(*rest, 1);
    return true;
}

static const struct site_namespace *main_namespace(const struct siteinfo *s)
{
    for (unsigned i = 0; i < s->namespaces_count; i++)
        if (s->namespaces[i].id == NS_MAIN)
            return &s->namespaces[i];
    return NULL; /* siteinfo_json_parse sees to it that there is one */
}

/* A title taken apart: its namespace, the prefix as it was written, and what stands behind it. */
struct split {
    const struct site_namespace *in;
    str prefix, rest;
};

/* A prefix that names no namespace and no wiki is part of the title. */
static err split_namespace(const struct siteinfo *s, str title, struct split *out,
                           struct err_note *note)
{
    str prefix = STR_NONE, rest = title, inner, inner_rest;
    *out = (struct split){ .in = main_namespace(s), .prefix = STR(""), .rest = title };
    INVARIANT(out->in != NULL);
    if (!split_prefix(&rest, &prefix))
        return ERR_OK;
    const struct site_namespace *ns = siteinfo_namespace(s, prefix);
    if (ns == NULL)
        return siteinfo_is_interwiki(s, prefix) ? err_bad(note, "the title names another wiki")
                                                : ERR_OK;
    *out = (struct split){ .in = ns, .prefix = prefix, .rest = rest };
    inner_rest = rest;
    /* "Talk:User:X" would be a page that the wiki files elsewhere. */
    if (ns->id != NS_TALK || !split_prefix(&inner_rest, &inner))
        return ERR_OK;
    if (siteinfo_namespace(s, inner) != NULL || siteinfo_is_interwiki(s, inner))
        return err_bad(note, "a talk page of a title with a prefix of its own has another name");
    return ERR_OK;
}

static bool is_hex(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}

/* Does "name;" stand here, behind an ampersand? */
static bool is_reference(str s)
{
    size_t n = 0;
    while (n < s.n && ((s.p[n] >= '0' && s.p[n] <= '9') || (s.p[n] >= 'a' && s.p[n] <= 'z') ||
                       (s.p[n] >= 'A' && s.p[n] <= 'Z') || (unsigned char)s.p[n] >= 0x80))
        n++;
    return n > 0 && n < s.n && s.p[n] == ';';
}

/* Byte by byte: what browsers would change, or decode once more, is no title. */
static err check_bytes(const struct siteinfo *s, str title, struct err_note *note)
{
    for (size_t i = 0; i < title.n; i++) {
        str behind = str_skip(title, i + 1);
        if (!s->legal[(unsigned char)title.p[i]])
            return err_bad(note, "the title holds a character the wiki does not allow");
        if (title.p[i] == '%' && behind.n >= 2 && is_hex(behind.p[0]) && is_hex(behind.p[1]))
            return err_bad(note, "the title holds percent-encoding of its own");
        if (title.p[i] == '&' && is_reference(behind))
            return err_bad(note, "the title holds a character reference");
    }
    return ERR_OK;
}

/* Such segments would vanish from a URL. */
static bool is_relative(str t)
{
    return str_eq(t, STR(".")) || str_eq(t, STR("..")) || str_starts(t, STR("./")) ||
           str_starts(t, STR("../")) || str_find_str(t, STR("/./")) < t.n ||
           str_find_str(t, STR("/../")) < t.n || str_ends(t, STR("/.")) || str_ends(t, STR("/.."));
}

/* Rules on the title without its prefix. */
static err title_rules_check(const struct siteinfo *s, const struct split *p, struct err_note *note)
{
    str t = p->rest;
    err e = check_bytes(s, t, note);
    if (e != ERR_OK)
        return e;
    if (t.n == 0)
        return err_bad(note, "the title is empty");
    if (is_relative(t))
        return err_bad(note, "a title has no path segments . or ..");
    if (str_find_str(t, STR("~~~")) < t.n)
        return err_bad(note, "the title holds ~~~, which signs");
    if (t.n > (p->in->id == NS_SPECIAL ? TITLE_SPECIAL_BYTES_MAX : TITLE_BYTES_MAX))
        return err_bad(
            note, "the title takes more than 255 bytes in UTF-8, which is all that a wiki allows");
    return ERR_OK;
}

/* The capital that every wiki gives c; c itself where wikis differ (see above). */
static ucs4_t capital_of(const struct siteinfo *s, ucs4_t c)
{
    uint8_t bytes[6], full[32];
    size_t full_n = sizeof full;
    ucs4_t upper = uc_toupper(c), back;
    if (c == 'i' && s->dotted_i)
        return 0x130;
    int n = u8_uctomb(bytes, c, sizeof bytes);
    /* A letter with a title case of its own. */
    if (upper != uc_totitle(c) || n <= 0)
        return c;
    const uint8_t *all = u8_toupper(bytes, (size_t)n, NULL, NULL, full, &full_n);
    bool one = all == full && u8_mbtouc(&back, full, full_n) == (int)full_n && back == upper;
    if (all != full)
        free((void *)(uintptr_t)all);
    return one ? upper : c;
}

/* The title with a capital first letter. p NULL: the arena is full. */
static str capital(const struct siteinfo *s, struct arena *a, str t)
{
    ucs4_t c;
    uint8_t first[6];
    int n = u8_mbtouc(&c, (const uint8_t *)t.p, t.n);
    ucs4_t upper = capital_of(s, c);
    if (upper == c)
        return t;
    int upper_n = u8_uctomb(first, upper, sizeof first);
    INVARIANT(upper_n > 0);
    str rest = str_skip(t, (size_t)n);
    str whole = arena_printf(a, "%.*s%.*s", upper_n, (const char *)first, STR_ARG(rest)), nfc;
    if (whole.p == NULL || utf8_nfc(a, whole, &nfc) != ERR_OK)
        return STR_NONE;
    return nfc; /* the capital may make one letter with a mark that its small one only carries */
}

/* Puts the key together, and says whether the client had written it so. */
static err title_rules_build(const struct siteinfo *s, struct arena *a, str wrote, struct split *p,
                             struct title_key *out)
{
    if (p->in->first_letter)
        p->rest = capital(s, a, p->rest);
    if (p->rest.p != NULL && (p->in->id == NS_USER || p->in->id == NS_USER_TALK))
        p->rest = title_ip(a, p->rest);
    if (p->rest.p == NULL)
        return ERR_LIMIT;
    bool has_prefix = p->in->id != NS_MAIN;
    str key = p->rest, same = p->rest;
    if (has_prefix)
        key = arena_printf(a, "%.*s:%.*s", STR_ARG(p->in->name), STR_ARG(p->rest));
    /* A prefix in another spelling of the wiki's own does not count as changed. */
    if (has_prefix)
        same = siteinfo_spells(s, p->in, p->prefix)
                   ? arena_printf(a, "%.*s:%.*s", STR_ARG(p->prefix), STR_ARG(p->rest))
                   : key;
    if (key.p == NULL || same.p == NULL)
        return ERR_LIMIT;
    *out = (struct title_key){ .key = key,
                               .namespace_id = p->in->id,
                               .changed = !str_eq(same, wrote) };
    return ERR_OK;
}

/* Reads "&amp;" as "&": the wiki reads a title once as HTML would, before its rules. Any other
 * reference, and one that this makes, is refused by check_bytes. p NULL: the arena is full. */
static str read_ampersands(struct arena *a, str title)
{
    const str reference = STR("&amp;");
    size_t n = 0;
    if (str_find_str(title, reference) >= title.n)
        return title;
    char *copy = arena_alloc(a, title.n);
    while (copy != NULL && title.n > 0) {
        copy[n++] = title.p[0];
        title = str_skip(title, str_starts(title, reference) ? reference.n : 1);
    }
    return (str){ .p = copy, .n = n };
}

err title_normalise(const struct siteinfo *s, struct arena *a, str title, struct title_key *out,
                    struct err_note *note)
{
    struct split p;
    str t = read_ampersands(a, title);
    if (t.p == NULL && title.n > 0)
        return ERR_LIMIT;
    err e = tidy(a, t, &t, note);
    if (e != ERR_OK)
        return e;
    /* A colon in front names the main namespace. */
    if (t.n > 0 && t.p[0] == ':')
        t = title_rules_trim(str_skip(t, 1));
    if (t.n == 0)
        return err_bad(note, "the title is empty");
    e = split_namespace(s, t, &p, note);
    if (e != ERR_OK)
        return e;
    /* A fragment is no part of the title. */
    size_t fragment = str_find(p.rest, '#');
    if (fragment < p.rest.n) {
        p.rest.n = fragment;
        while (p.rest.n > 0 && p.rest.p[p.rest.n - 1] == '_')
            p.rest.n--;
    }
    e = title_rules_check(s, &p, note);
    if (e != ERR_OK)
        return e;
    e = title_rules_build(s, a, title, &p, out);
    if (e == ERR_OK && out->key.p[out->key.n - p.rest.n] == ':')
        return err_bad(note, "the title begins with a colon");
    return e;
}
