/* siteinfo.c - reads a wiki's siteinfo: namespaces, aliases, interwiki prefixes, legal characters.
 * For site.c and title_rules.c. Invariant: a parsed siteinfo does not change; its readers hold
 * references. */
#include "render/siteinfo.h"

#include "base/map.h"
#include "codec/json.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>
#include <unicase.h>
#include <uninorm.h>

/* MediaWiki's default of $wgLegalTitleChars. */
static const char legal_default[] = " %!\"$&'()*,\\-.\\/0-9:;=?@A-Z\\\\^_`a-z~\\x80-\\xFF+";
/* Languages whose capital of i has a dot. */
static const char *const dotted[] = { "az", "kaa", "kk", "tr" };

struct siteinfo *siteinfo_ref(struct siteinfo *s)
{
    INVARIANT(atomic_fetch_add(&s->refs, 1) > 0);
    return s;
}

/* Thread: any; the last reference frees maps and arena. */
void siteinfo_unref(struct siteinfo **sp)
{
    struct siteinfo *s = *sp;
    *sp = NULL;
    if (s == NULL || atomic_fetch_sub(&s->refs, 1) != 1)
        return;
    map_free(&s->by_name);
    map_free(&s->interwikis);
    arena_fini(&s->arena);
    free(s);
}

str siteinfo_server(const struct siteinfo *s)
{
    return s->server;
}

str siteinfo_language(const struct siteinfo *s)
{
    return s->language;
}

/* The form in which names are compared: lower case, NFC, underscores. False: too long to be a
 * name. */
bool siteinfo_fold(str name, struct folded *out)
{
    size_t n = sizeof out->text;
    if (name.n == 0 || name.n > SITEINFO_NAME_BYTES_MAX)
        return false;
    const uint8_t *lower =
        u8_tolower((const uint8_t *)name.p, name.n, NULL, UNINORM_NFC, (uint8_t *)out->text, &n);
    if (lower == NULL)
        return false;
    if (lower != (const uint8_t *)out->text) { /* it did not fit */
        free((void *)(uintptr_t)lower);
        return false;
    }
    for (size_t i = 0; i < n; i++)
        if (out->text[i] == ' ')
            out->text[i] = '_';
    out->n = n;
    return true;
}

static str folded_str(const struct folded *f)
{
    return (str){ .p = f->text, .n = f->n };
}

/* NULL: no namespace has that name or alias. */
const struct site_namespace *siteinfo_namespace(const struct siteinfo *s, str name)
{
    struct folded f;
    return siteinfo_fold(name, &f) ? map_get(s->by_name, folded_str(&f)) : NULL;
}

bool siteinfo_is_interwiki(const struct siteinfo *s, str prefix)
{
    struct folded f;
    return siteinfo_fold(prefix, &f) && map_get(s->interwikis, folded_str(&f)) != NULL;
}

/* Does the wiki write the namespace in just this way, too? */
bool siteinfo_spells(const struct siteinfo *s, const struct site_namespace *of, str name)
{
    for (unsigned i = 0; i < s->names_count; i++)
        if (s->names[i].of == of && str_eq(s->names[i].spelling, name))
            return true;
    return false;
}

/* ---- reading ---- */

static err siteinfo_refuse(struct err_note *note, const char *why)
{
    return err_bad(note, "siteinfo: %s", why);
}

static str underscored(struct arena *a, str s)
{
    char *copy = arena_cstr(a, s);
    for (size_t i = 0; copy != NULL && i < s.n; i++)
        if (copy[i] == ' ')
            copy[i] = '_';
    return (str){ .p = copy, .n = copy == NULL ? 0 : s.n };
}

/* Adds a name of a namespace. The first to claim a name keeps it: namespaces come before
 * aliases. */
static err add_name(struct siteinfo *s, struct site_namespace *of, str name, struct err_note *note)
{
    struct folded f;
    if (name.n == 0)
        return ERR_OK;
    if (!siteinfo_fold(name, &f))
        return siteinfo_refuse(note, "a namespace with a name too long");
    if (s->names_count == SITEINFO_NAMES_MAX)
        return siteinfo_refuse(note, "too many names of namespaces");
    str spelling = underscored(&s->arena, name);
    if (spelling.p == NULL)
        return siteinfo_refuse(note, "too large");
    s->names[s->names_count++] = (struct site_name){ .spelling = spelling, .of = of };
    if (map_get(s->by_name, folded_str(&f)) == NULL)
        INVARIANT(map_put(s->by_name, folded_str(&f), of) == NULL);
    return ERR_OK;
}

/* Local and canonical names both name the namespace. */
static err read_namespace(struct siteinfo *s, const json_t *value, struct err_note *note)
{
    struct site_namespace *ns = &s->namespaces[s->namespaces_count];
    str name = STR_NONE, canonical = STR_NONE, letters = STR_NONE;
    /* An id below 0 is Special or Media. */
    if (json_body_i64(value, "id", -100, INT32_MAX, &ns->id, note) != ERR_OK ||
        json_body_str(value, "name", &name, note) != ERR_OK)
        return siteinfo_refuse(note, "a namespace without id or name");
    ns->name = underscored(&s->arena, name);
    if (ns->name.p == NULL)
        return siteinfo_refuse(note, "too large");
    if (json_body_str(value, "case", &letters, NULL) == ERR_OK)
        ns->first_letter = str_eq(letters, STR("first-letter"));
    s->namespaces_count++;
    err e = add_name(s, ns, name, note);
    if (e == ERR_OK && json_body_str(value, "canonical", &canonical, NULL) == ERR_OK)
        e = add_name(s, ns, canonical, note);
    return e;
}

static struct site_namespace *by_id(const struct siteinfo *s, int64_t id)
{
    for (unsigned i = 0; i < s->namespaces_count; i++)
        if (s->namespaces[i].id == id)
            return &s->namespaces[i];
    return NULL;
}

/* Namespaces come first: aliases and titles point to them. */
static err read_namespaces(struct siteinfo *s, const json_t *query, struct err_note *note)
{
    const json_t *object = NULL;
    const char *key;
    json_t *value;
    if (json_body_object(query, "namespaces", &object, note) != ERR_OK)
        return siteinfo_refuse(note, "no namespaces");
    if (json_object_size(object) > SITEINFO_NAMESPACES_MAX)
        return siteinfo_refuse(note, "too many namespaces");
    /* Allocated once: names point to namespaces, so the array never moves. */
    s->namespaces = arena_calloc(&s->arena, json_object_size(object) + 1, sizeof s->namespaces[0]);
    s->names = arena_calloc(&s->arena, SITEINFO_NAMES_MAX, sizeof s->names[0]);
    if (s->namespaces == NULL || s->names == NULL)
        return siteinfo_refuse(note, "too large");
    json_object_foreach((json_t *)(uintptr_t)object, key, value)
    {
        err e = read_namespace(s, value, note);
        if (e != ERR_OK)
            return e;
    }
    return by_id(s, NS_MAIN) != NULL ? ERR_OK : siteinfo_refuse(note, "no main namespace");
}

/* Without the list there are none. */
static err read_aliases(struct siteinfo *s, const json_t *query, struct err_note *note)
{
    const json_t *array = NULL;
    if (json_body_array(query, "namespacealiases", &array, NULL) != ERR_OK)
        return ERR_OK;
    for (size_t i = 0; i < json_array_size(array); i++) {
        const json_t *value = json_array_get(array, i);
        int64_t id;
        str alias;
        if (json_body_i64(value, "id", -100, INT32_MAX, &id, note) != ERR_OK ||
            json_body_str(value, "alias", &alias, note) != ERR_OK)
            return siteinfo_refuse(note, "an alias without id or name");
        /* An alias of a namespace that is not there means nothing. */
        err e = by_id(s, id) == NULL ? ERR_OK : add_name(s, by_id(s, id), alias, note);
        if (e != ERR_OK)
            return e;
    }
    return ERR_OK;
}

/* Only prefixes matter: a title that has one is of another wiki. */
static err read_interwikis(struct siteinfo *s, const json_t *query, struct err_note *note)
{
    const json_t *array = NULL;
    if (json_body_array(query, "interwikimap", &array, NULL) != ERR_OK)
        return ERR_OK;
    if (json_array_size(array) > SITEINFO_INTERWIKIS_MAX)
        return siteinfo_refuse(note, "too many interwiki prefixes");
    for (size_t i = 0; i < json_array_size(array); i++) {
        str prefix;
        struct folded f;
        if (json_body_str(json_array_get(array, i), "prefix", &prefix, NULL) != ERR_OK ||
            !siteinfo_fold(prefix, &f))
            return siteinfo_refuse(note, "an interwiki without prefix");
        (void)map_put(s->interwikis, folded_str(&f), s); /* said twice: the same */
    }
    return ERR_OK;
}

static int hex(char c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

/* Takes one byte of a regular expression's class; an escape is \xHH or the byte behind it. */
static unsigned class_byte(str *s)
{
    unsigned char c = (unsigned char)s->p[0];
    *s = str_skip(*s, 1);
    if (c != '\\' || s->n == 0)
        return c;
    if (s->n >= 3 && s->p[0] == 'x' && hex(s->p[1]) >= 0 && hex(s->p[2]) >= 0) {
        c = (unsigned char)(hex(s->p[1]) * 16 + hex(s->p[2]));
        *s = str_skip(*s, 3);
        return c;
    }
    c = (unsigned char)s->p[0];
    *s = str_skip(*s, 1);
    return c;
}

/* $wgLegalTitleChars is such a class, of bytes and ranges. Control bytes are never legal. */
static void read_legal(struct siteinfo *s, str chars)
{
    while (chars.n > 0) {
        unsigned from = class_byte(&chars), to = from;
        if (chars.n >= 2 && chars.p[0] == '-') {
            chars = str_skip(chars, 1);
            to = class_byte(&chars);
        }
        for (unsigned c = from; c <= to; c++)
            s->legal[c] = true;
    }
    for (unsigned c = 0; c < 0x20; c++)
        s->legal[c] = false;
    s->legal[0x7f] = false;
}

static str text_or(const json_t *object, const char *key, str otherwise)
{
    str text;
    return json_body_str(object, key, &text, NULL) == ERR_OK ? text : otherwise;
}

/* Legal characters, the server's URL, the language. */
static err read_general(struct siteinfo *s, const json_t *query, struct err_note *note)
{
    const json_t *general = NULL;
    if (json_body_object(query, "general", &general, note) != ERR_OK)
        return siteinfo_refuse(note, "no general part");
    str server = text_or(general, "server", STR("")), language = text_or(general, "lang", STR(""));
    read_legal(s, text_or(general, "legaltitlechars", str_of(legal_default)));
    s->language = arena_copy(&s->arena, language);
    /* A server without a scheme is reached by https. */
    bool relative = str_starts(server, STR("//"));
    s->server = arena_printf(&s->arena, "%s%.*s", relative ? "https:" : "", STR_ARG(server));
    for (size_t i = 0; i < COUNT_OF(dotted); i++)
        s->dotted_i = s->dotted_i || str_eq(language, str_of(dotted[i]));
    return s->language.p != NULL && s->server.p != NULL ? ERR_OK
                                                        : siteinfo_refuse(note, "too large");
}

/* Names of namespaces must be there before aliases claim any. */
static err read_all(struct siteinfo *s, const json_t *root, struct err_note *note)
{
    const json_t *query = NULL;
    if (json_body_object(root, "query", &query, note) != ERR_OK)
        return siteinfo_refuse(note, "the reply has no query");
    err e = read_general(s, query, note);
    if (e == ERR_OK)
        e = read_namespaces(s, query, note);
    if (e == ERR_OK)
        e = read_aliases(s, query, note);
    return e == ERR_OK ? read_interwikis(s, query, note) : e;
}

/* On an error all of it is freed by its only reference. */
err siteinfo_json_parse(str json, struct siteinfo **out, struct err_note *note)
{
    json_t *root = NULL;
    err e = json_body_parse(json, &root, note);
    if (e != ERR_OK)
        return e;
    struct siteinfo *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    atomic_store(&s->refs, 1);
    arena_init(&s->arena, SITEINFO_ARENA_BYTES_MAX);
    s->by_name = map_new(0);
    s->interwikis = map_new(0);
    e = read_all(s, root, note);
    json_decref(root);
    if (e != ERR_OK)
        siteinfo_unref(&s);
    else
        *out = s;
    return e;
}
