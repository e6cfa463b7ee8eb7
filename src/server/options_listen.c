/* options_listen.c - all listeners in one row, and what each serves.
 *
 * Those of `listen` come first, then those with names, the admin one, and the one for PURGE; behind
 * those of the options of a kind stand the inherited ones. Without an admin listener those of
 * `listen` that are on loopback serve admin routes too. */
#include "server/options_impl.h"

#include <string.h>

static unsigned row_of(const char *name)
{
    const struct option *r = option_find(option_rows, str_of(name));
    INVARIANT(r != NULL);
    return (unsigned)(r - option_rows);
}

struct options_from option_from(const struct options *o, const char *name)
{
    struct options_from from = o->from[row_of(name)];
    return from.file != NULL ? from : (struct options_from){ .file = "default" };
}

const char *option_shown(const struct options *o, const char *name)
{
    return o->from[row_of(name)].file != NULL ? o->shown[row_of(name)] : NULL;
}

const char *option_listen_row(const struct http_listen *l)
{
    return l->content ? "listen" : l->purge ? "change.purge_listen" : "admin_listen";
}

str option_listen_name(const struct options *o, const struct http_listen *l, char *to,
                       struct options_from *from)
{
    if (l->name != NULL)
        return option_listener_name(o, l->name, "listen", to, from);
    const char *name = option_listen_row(l);
    *from = option_from(o, name);
    return str_of(name);
}

/* The place of one more; NULL: there is none, but for those that are left to admin_listen and
 * change.purge_listen. */
static struct http_listen *listen_place(struct options *o, unsigned left)
{
    struct config *c = &o->config;
    return c->listens_count + left < CONFIG_LISTENS_MAX ? &c->listens[c->listens_count++] : NULL;
}

/* Adds the one of that option, when it was given. */
static struct http_listen *listen_add(struct options *o, const char *name)
{
    const char *given = option_shown(o, name);
    struct http_listen *l = given == NULL ? NULL : listen_place(o, 0);
    if (l == NULL)
        return NULL;
    INVARIANT(option_parse_listen(o, str_of(given), l));
    l->content = l->admin = false;
    return l;
}

/* ---- inherited ---- */

static struct config_listener *listener_called(struct options *o, const char *name)
{
    for (unsigned i = 0; i < o->config.listeners_count; i++)
        if (strcmp(o->config.listeners[i].name, name) == 0)
            return &o->config.listeners[i];
    return NULL;
}

/* Adds those of that kind, and called so (NULL: as no listener is). False: there is no room. */
static bool listen_inherited(struct options *o, enum inherited_for what,
                             const struct config_listener *called, unsigned *count)
{
    const struct inherited *all = o->inherited;
    for (unsigned i = 0; all != NULL && i < all->count; i++) {
        const struct inherited_item *item = &all->items[i];
        if (item->what != what || listener_called(o, item->name) != called)
            continue;
        struct http_listen *l = listen_place(o, what == INHERITED_CONTENT ? 2 : 0);
        if (l == NULL)
            return false;
        *l = (struct http_listen){ .address = item->address,
                                   .port = item->port,
                                   .inherited = item->fd,
                                   .content = what == INHERITED_CONTENT,
                                   .admin = what == INHERITED_ADMIN,
                                   .purge = what == INHERITED_PURGE };
        (*count)++;
    }
    return true;
}

static bool inherits_content(struct options *o)
{
    bool any = false;
    for (unsigned i = 0; o->inherited != NULL && i < o->inherited->count; i++)
        any |= o->inherited->items[i].what == INHERITED_CONTENT &&
               listener_called(o, o->inherited->items[i].name) == NULL;
    return any;
}

/* ---- with names ---- */

static err fail_room(const struct options *o, str name, struct options_from from,
                     struct err_note *note)
{
    bool inherits = o->inherited != NULL && o->inherited->count > 0;
    return option_fail(from, name, note,
                       "more than %d listeners%s; two are kept for admin_listen and "
                       "change.purge_listen",
                       CONFIG_LISTENS_MAX, inherits ? ", with those that were inherited" : "");
}

static err named_addresses(struct options *o, struct config_listener *n, struct err_note *note)
{
    char text[LISTEN_OPTION_BYTES];
    struct options_from from;
    str name = option_listener_name(o, n->name, "listen", text, &from);
    str rest = str_of(n->listen_text);
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ','));
        struct http_listen *l = listen_place(o, 2);
        if (l == NULL)
            return fail_room(o, name, from, note);
        if (!option_parse_listen(o, one, l))
            return option_fail(from, name, note, "\"%.*s\" %s", STR_ARG(str_take(one, 60)),
                               option_listen_wanted(one));
    }
    return ERR_OK;
}

static err finish_named(struct options *o, struct config_listener *n, struct err_note *note)
{
    struct config *c = &o->config;
    char text[LISTEN_OPTION_BYTES];
    struct options_from from;
    unsigned first = c->listens_count, inherited = 0;
    err why = n->listen_text == NULL ? ERR_OK : named_addresses(o, n, note);
    if (why != ERR_OK)
        return why;
    str name = option_listener_name(o, n->name, "", text, &from);
    if (!listen_inherited(o, INHERITED_CONTENT, n, &inherited))
        return fail_room(o, name, from, note);
    if (first == c->listens_count)
        return option_fail(from, name, note,
                           "has no address: it wants listen, or an inherited socket of its name");
    bool all = n->routes_text == NULL && n->domains_text == NULL && n->buckets_text == NULL;
    for (unsigned i = first; i < c->listens_count; i++) {
        c->listens[i].name = n->name;
        c->listens[i].content = true;
        c->listens[i].admin = n->routes_text != NULL; /* where its routes say so */
        c->listens[i].filter = all ? NULL : &n->filter;
    }
    return ERR_OK;
}

/* ---- all ---- */

static err check_twice(const struct options *o, const struct http_listen *l,
                       const struct http_listen *other, struct err_note *note)
{
    bool is_file = http_listen_path(l->address) != NULL;
    if ((l->port == 0 && !is_file) || l->port != other->port ||
        strcmp(l->address, other->address) != 0)
        return ERR_OK;
    char text[LISTEN_OPTION_BYTES];
    struct options_from from;
    str name = option_listen_name(o, l, text, &from);
    if (is_file)
        return option_fail(from, name, note, "%s is there twice", l->address);
    return option_fail(from, name, note, "%s:%u is there twice", l->address, l->port);
}

err options_finish_listens(struct options *o, struct err_note *note)
{
    struct config *c = &o->config;
    unsigned admins = 0, others = 0;
    err why = ERR_OK;
    if (inherits_content(o) && option_shown(o, "listen") == NULL)
        c->listens_count = 0; /* the default is for who has none */
    bool room = listen_inherited(o, INHERITED_CONTENT, NULL, &others);
    unsigned own = c->listens_count;
    for (unsigned i = 0; room && why == ERR_OK && i < c->listeners_count; i++)
        why = finish_named(o, &c->listeners[i], note);
    if (why != ERR_OK)
        return why;
    struct http_listen *admin = room ? listen_add(o, "admin_listen") : NULL;
    struct http_listen *purge = room ? listen_add(o, "change.purge_listen") : NULL;
    room = room && listen_inherited(o, INHERITED_ADMIN, NULL, &admins) &&
           listen_inherited(o, INHERITED_PURGE, NULL, &others);
    if (!room)
        return fail_room(o, STR("listen"), option_from(o, "listen"), note);
    for (unsigned i = 0; i < own; i++) {
        c->listens[i].content = true;
        c->listens[i].admin =
            admin == NULL && admins == 0 && options_is_loopback(c->listens[i].address);
    }
    for (unsigned i = 0; i < c->listens_count; i++)
        c->listens[i].mode = c->listen_mode;
    if (admin != NULL)
        admin->admin = true;
    if (purge != NULL)
        purge->purge = true;
    for (unsigned i = 0; i < c->listens_count; i++)
        for (unsigned k = 0; k < i && why == ERR_OK; k++)
            why = check_twice(o, &c->listens[i], &c->listens[k], note);
    return why;
}
