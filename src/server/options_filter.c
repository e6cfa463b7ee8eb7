/* options_filter.c - listeners.NAME.FIELD: their rows, their sections, and what each of them shows.
 *
 * Every name in them is one that there is: a word that shows nothing is a mistake of who wrote it,
 * and would be found by users. */
#include "server/options_impl.h"

#include "app/app.h"
#include "page/content.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field)                                                                                  \
    .offset = offsetof(struct config_listener, field),                                             \
    .width = sizeof(((struct config_listener *)NULL)->field)

const struct option option_listener_rows[] = {
    { "listen", NULL, OPTION_TEXT, .initial = "",
      .prose = "Addresses, written as for listen; empty: inherited sockets of this name",
      AT(listen_text) },
    { "routes", NULL, OPTION_TEXT, .initial = "",
      .prose = "Routes to show: page.get, or page for all of page; empty: all but the "
               "operator's; beside domains or buckets: routes of a domain, and health",
      AT(routes_text) },
    { "domains", NULL, OPTION_TEXT, .initial = "", .prose = "Domains to show; empty: all",
      .bytes_max = OPTIONS_DATABASES_BYTES_MAX, AT(domains_text) },
    { "buckets", NULL, OPTION_TEXT, .initial = "",
      .prose = "Beginnings of paths behind /{domain}/v1/ to show: page, page/html, table/likes, "
               "key_value/sessions; empty: all",
      AT(buckets_text) },
    { .name = NULL },
};
_Static_assert(COUNT_OF(option_listener_rows) == LISTENER_ROWS + 1, "origins are kept in arrays");

enum { KNOWN_BYTES = 120 };

/* ---- fields ---- */

err option_listener(struct options *o, str name, struct options_from from, unsigned *index,
                    struct err_note *note)
{
    static const char *const reserved[] = { "listening", "admin", "purge" };
    struct config *c = &o->config;
    for (unsigned i = 0; i < c->listeners_count; i++)
        if (str_eq(str_of(c->listeners[i].name), name)) {
            *index = i;
            return ERR_OK;
        }
    if (!option_is_plain_name(name, 32, "-_"))
        return option_fail(from, STR("listeners"), note, "\"%.*s\" is no name of a listener",
                           STR_ARG(str_take(name, 60)));
    if (option_is_one_of(name, reserved, COUNT_OF(reserved)))
        return option_fail(from, STR("listeners"), note, "\"%.*s\" is a reserved name",
                           STR_ARG(name));
    if (c->listeners_count == CONFIG_LISTENERS_MAX)
        return option_fail(from, STR("listeners"), note, "more than %d listeners",
                           CONFIG_LISTENERS_MAX);
    const char *copy = arena_cstr(&o->texts, name);
    if (copy == NULL)
        return option_fail(from, STR("listeners"), note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    *index = c->listeners_count++;
    c->listeners[*index] = (struct config_listener){ .name = copy };
    o->listener_from[*index][LISTENER_ROWS] = from;
    return ERR_OK;
}

err option_set_listener(struct options *o, struct option_value *v, struct err_note *note)
{
    const str section = STR("listeners.");
    str field = str_skip(v->name, section.n);
    str name = str_split(&field, '.');
    if (!str_starts(v->name, section) || field.n == 0)
        return ERR_NOT_FOUND;
    unsigned index;
    err why = option_listener(o, name, v->from, &index, note);
    if (why != ERR_OK)
        return why;
    v->row = option_find(option_listener_rows, field);
    if (v->row == NULL)
        return option_fail(v->from, v->name, note, "there is no such option");
    v->base = &o->config.listeners[index];
    o->listener_from[index][v->row - option_listener_rows] = v->from;
    return option_store(o, v, note);
}

str option_listener_name(const struct options *o, const char *name, const char *field, char *to,
                         struct options_from *from)
{
    unsigned index = 0;
    while (strcmp(o->config.listeners[index].name, name) != 0)
        index++;
    const struct option *row = option_find(option_listener_rows, str_of(field));
    *from = o->listener_from[index][row == NULL ? LISTENER_ROWS : row - option_listener_rows];
    if (from->file == NULL)
        *from = o->listener_from[index][LISTENER_ROWS];
    (void)snprintf(to, LISTEN_OPTION_BYTES, "listeners.%s%s%s", name, row == NULL ? "" : ".",
                   field); /* it fits */
    return str_of(to);
}

/* ---- what is known ---- */

/* Names, as far as they fit. */
struct known {
    char text[KNOWN_BYTES];
    size_t n;
    bool cut;
};

static void known_add(struct known *k, str name)
{
    const size_t more = sizeof ", ...";
    if (k->cut || k->n + name.n + 2 + more > sizeof k->text) {
        if (!k->cut)
            (void)snprintf(k->text + k->n, sizeof k->text - k->n, ", ..."); /* left for it */
        k->cut = true;
        return;
    }
    k->n += (size_t)snprintf(k->text + k->n, sizeof k->text - k->n, "%s%.*s", k->n > 0 ? ", " : "",
                             STR_ARG(name));
}

/* One word of a field. */
struct filter_word {
    struct options *o;
    struct config_listener *of;
    const char *field;
    str word;
    struct err_note *note;
};

static err fail_word(const struct filter_word *w, const char *what, const struct known *known)
{
    char text[LISTEN_OPTION_BYTES];
    struct options_from from;
    str name = option_listener_name(w->o, w->of->name, w->field, text, &from);
    return option_fail(from, name, w->note, "\"%.*s\" %s%s%s", STR_ARG(str_take(w->word, 40)), what,
                       known == NULL ? "" : ": ", known == NULL ? "" : known->text);
}

/* ---- routes ---- */

static str first_word(str label)
{
    return str_take(label, str_find(label, '.'));
}

/* What is known by a row: its label, or the label's first word; empty: nothing. */
static str word_of(const struct http_route *r, bool whole)
{
    str label = str_of(r->label == NULL || r->method == HTTP_PURGE ? "" : r->label);
    return whole ? label : first_word(label);
}

/* Does an earlier row give the same? */
static bool was_before(const struct http_route *route, bool whole)
{
    for (const struct http_route *const *t = app_tables; *t != NULL; t++)
        for (const struct http_route *r = *t; r->pattern != NULL; r++) {
            if (r == route)
                return false;
            if (str_eq(word_of(r, whole), word_of(route, whole)))
                return true;
        }
    return false;
}

/* word: of which the labels are wanted; empty: all first words. */
static void known_routes(str word, struct known *k)
{
    bool whole = word.n > 0;
    for (const struct http_route *const *t = app_tables; *t != NULL; t++)
        for (const struct http_route *r = *t; *t != app_hook_routes && r->pattern != NULL; r++) {
            str one = word_of(r, whole);
            bool wanted = !whole || str_eq(first_word(one), word);
            if (one.n > 0 && wanted && !was_before(r, whole))
                known_add(k, one);
        }
}

static err take_route(const struct filter_word *w, void *out)
{
    bool purge = false;
    for (const struct http_route *const *t = app_tables; *t != NULL; t++)
        for (const struct http_route *r = *t; *t != app_hook_routes && r->pattern != NULL; r++) {
            bool is = r->label != NULL && http_label_is_of(str_of(r->label), w->word);
            if (is && r->method != HTTP_PURGE) {
                *(str *)out = w->word;
                return ERR_OK;
            }
            purge |= is;
        }
    if (purge)
        return fail_word(w, "is shown by change.purge_listen alone", NULL);
    struct known known = { .n = 0 };
    known_routes(first_word(w->word), &known);
    bool of_word = known.n > 0;
    if (!of_word)
        known_routes(STR(""), &known);
    return fail_word(w,
                     of_word ? "is no route; there are" : "is no route; first words of routes are",
                     &known);
}

/* ---- domains ---- */

static err take_domain(const struct filter_word *w, void *out)
{
    const struct config *c = &w->o->config;
    struct known known = { .n = 0 };
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), w->word)) {
            *(str *)out = w->word;
            return ERR_OK;
        }
    for (unsigned i = 0; i < c->domains_count; i++)
        known_add(&known, str_of(c->domains[i].name));
    return fail_word(w, "is no domain of this server; there are", &known);
}

/* ---- buckets ---- */

static const struct config_bucket *page_bucket(const struct config *c, str name)
{
    for (unsigned i = 0; i < c->buckets_count; i++)
        if (str_eq(str_of(c->buckets[i].page.name), name))
            return &c->buckets[i];
    return NULL;
}

static bool is_list(const struct config *c, str name)
{
    for (unsigned i = 0; i < c->lists_count; i++)
        if (str_eq(str_of(c->lists[i].list.name), name))
            return true;
    return false;
}

/* name: below that bucket; empty: none is given. */
static bool is_content(const struct config_bucket *b, str name)
{
    bool any = b->page.contents_count == 0 && page_content_is_plain(name);
    return name.n == 0 || any || page_content_is_reserved(name) ||
           option_is_one_of(name, b->page.contents, b->page.contents_count);
}

static void known_buckets(const struct config *c, const char *const *kinds, size_t count,
                          struct known *k)
{
    for (unsigned i = 0; i < c->buckets_count; i++)
        known_add(k, str_of(c->buckets[i].page.name));
    for (size_t i = 0; kinds != NULL && i < count; i++)
        known_add(k, str_of(kinds[i]));
}

static err check_parts(const struct filter_word *w, const struct http_filter_path *p)
{
    static const char *const kinds[] = { "batch",         "table", "key_value", "key_rev_value",
                                         "multi_content", "lists", "transform" };
    const struct config *c = &w->o->config;
    str second = p->count > 1 ? p->parts[1] : STR("");
    bool multi = str_eq(p->parts[0], STR("multi_content"));
    const struct config_bucket *b = page_bucket(c, multi ? second : p->parts[0]);
    struct known known = { .n = 0 };
    if (b == NULL && multi && second.n > 0) {
        known_buckets(c, NULL, 0, &known);
        return fail_word(w, "has no bucket of pages; there are", &known);
    }
    if (b == NULL && !option_is_one_of(p->parts[0], kinds, COUNT_OF(kinds))) {
        known_buckets(c, kinds, COUNT_OF(kinds), &known);
        return fail_word(w, "is in no bucket; there are", &known);
    }
    unsigned content = multi ? 2 : 1;
    if (b != NULL && p->count > content && !is_content(b, p->parts[content])) {
        for (unsigned i = 0; i < b->page.contents_count; i++)
            known_add(&known, str_of(b->page.contents[i]));
        return fail_word(w,
                         known.n > 0 ? "is no content of its bucket; there are"
                                     : "ends in what no content can be called",
                         known.n > 0 ? &known : NULL);
    }
    if (!str_eq(p->parts[0], STR("lists")) || second.n == 0 || is_list(c, second))
        return ERR_OK;
    for (unsigned i = 0; i < c->lists_count; i++)
        known_add(&known, str_of(c->lists[i].list.name));
    return fail_word(w, known.n > 0 ? "is no list; there are" : "is no list: there is none",
                     known.n > 0 ? &known : NULL);
}

static err take_bucket(const struct filter_word *w, void *out)
{
    struct http_filter_path *p = out;
    str rest = w->word;
    *p = (struct http_filter_path){ .count = 0 };
    bool more = true;
    while (more) {
        more = str_find(rest, '/') < rest.n;
        str part = str_split(&rest, '/');
        if (part.n == 0)
            return fail_word(w, "has an empty part; page/html is right", NULL);
        if (str_find(part, '%') < part.n)
            return fail_word(w, "has a %: names stand here as they are", NULL);
        if (p->count == HTTP_FILTER_PARTS_MAX)
            return fail_word(w, "has more than 4 parts", NULL);
        p->parts[p->count++] = part;
    }
    _Static_assert(HTTP_FILTER_PARTS_MAX == 4, "as the line says");
    return check_parts(w, p);
}

/* ---- filters ---- */

/* The words of a field, each taken into a place of size bytes. *out NULL: there are none. */
static err take_words(struct filter_word *w, const char *text, size_t size,
                      err (*take)(const struct filter_word *w, void *out), void *out_p,
                      unsigned *count)
{
    str rest = str_of(text == NULL ? "" : text);
    size_t words = 0;
    for (str all = rest; all.n > 0; words++)
        (void)str_split(&all, ',');
    char *out = words == 0 ? NULL : arena_calloc(&w->o->texts, words, size);
    if (words > 0 && out == NULL)
        return fail_word(w, "is too much: all values together pass what is kept of them", NULL);
    for (size_t i = 0; i < words; i++) {
        w->word = str_trim(str_split(&rest, ','));
        err why = w->word.n == 0 ? fail_word(w, "is an empty name", NULL) : take(w, out + i * size);
        if (why != ERR_OK)
            return why;
    }
    memcpy(out_p, &out, sizeof out);
    *count = (unsigned)words;
    return ERR_OK;
}

static int by_text(const void *a, const void *b)
{
    return str_cmp(*(const str *)a, *(const str *)b);
}

static err finish_filter(struct options *o, struct config_listener *l, struct err_note *note)
{
    struct filter_word w = { .o = o, .of = l, .note = note };
    struct http_filter *v = &l->filter;
    str *routes = NULL, *domains = NULL;
    struct http_filter_path *paths = NULL;
    w.field = "routes";
    err why = take_words(&w, l->routes_text, sizeof *routes, take_route, &routes, &v->routes_count);
    w.field = "domains";
    if (why == ERR_OK)
        why = take_words(&w, l->domains_text, sizeof *domains, take_domain, &domains,
                         &v->domains_count);
    w.field = "buckets";
    if (why == ERR_OK)
        why = take_words(&w, l->buckets_text, sizeof *paths, take_bucket, &paths, &v->paths_count);
    if (why != ERR_OK)
        return why;
    if (v->domains_count > 0)
        qsort(domains, v->domains_count, sizeof *domains, by_text);
    v->routes = routes;
    v->domains = domains;
    v->paths = paths;
    return ERR_OK;
}

err options_finish_filters(struct options *o, struct err_note *note)
{
    err why = ERR_OK;
    for (unsigned i = 0; i < o->config.listeners_count && why == ERR_OK; i++)
        why = finish_filter(o, &o->config.listeners[i], note);
    return why;
}
