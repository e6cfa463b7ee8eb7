/* options_change.c - what differs between the options of a running server and those that were read
 * anew, and what of that it takes over. The rows say which: what OPTION_ON_RELOAD has is read by
 * the loop alone, or by whoever was told of it. */
#include "server/options_impl.h"

#include <stdio.h>
#include <string.h>

struct change {
    struct arena *texts; /* of the running options */
    bool names;          /* nothing is taken over */
    options_change_fn *each;
    void *ctx;
};

/* ---- one row ---- */

/* The next of that row from there on. Those with a name of their own are looked at by themselves.
 */
static unsigned listen_next(const struct config *c, const struct option *r, unsigned at)
{
    while (at < c->listens_count && (c->listens[at].name != NULL ||
                                     strcmp(option_listen_row(&c->listens[at]), r->name) != 0))
        at++;
    return at;
}

/* All else that they have follows from other rows. */
static bool same_listens(const struct option *r, const struct config *a, const struct config *b)
{
    unsigned i = listen_next(a, r, 0), k = listen_next(b, r, 0);
    for (; i < a->listens_count && k < b->listens_count;
         i = listen_next(a, r, i + 1), k = listen_next(b, r, k + 1)) {
        const struct http_listen *x = &a->listens[i], *y = &b->listens[k];
        if (strcmp(x->address, y->address) != 0 || x->port != y->port)
            return false;
    }
    return i == a->listens_count && k == b->listens_count;
}

static bool same_contents(const struct config_bucket *a, const struct config_bucket *b)
{
    if (a->page.contents_count != b->page.contents_count)
        return false;
    for (unsigned i = 0; i < a->page.contents_count; i++)
        if (strcmp(a->page.contents[i], b->page.contents[i]) != 0)
            return false;
    return true;
}

static bool same_text(const struct option *r, const void *a, const void *b)
{
    const char *x, *y;
    memcpy(&x, (const char *)a + r->offset, sizeof x);
    memcpy(&y, (const char *)b + r->offset, sizeof y);
    return x == NULL || y == NULL ? x == y : strcmp(x, y) == 0;
}

static bool same_row(const struct option *r, const void *a, const void *b)
{
    switch (r->type) {
    case OPTION_LISTENS:
    case OPTION_LISTEN_ADMIN:
        return same_listens(r, a, b);
    case OPTION_NAMES: /* of buckets only */
        return same_contents(a, b);
    case OPTION_TEXT:
        return same_text(r, a, b);
    case OPTION_DOMAINS: /* each is looked at by itself */
    case OPTION_RULES:   /* so is each of them */
    case OPTION_HOOKS:   /* the command line stays as it is */
    case OPTION_GONE:
        return true;
    case OPTION_CHOICE:
    case OPTION_FLAG:
    case OPTION_COUNT:
    case OPTION_MODE:
    case OPTION_SIZE:
    case OPTION_MS:
    case OPTION_NS:
        break;
    }
    return memcmp((const char *)a + r->offset, (const char *)b + r->offset, r->width) == 0;
}

/* Texts live as long as the running options: other threads may still read the one before. False:
 * there is no room for more. */
static bool take_row(const struct change *c, const struct option *r, void *running,
                     const void *fresh)
{
    char *to = (char *)running + r->offset;
    const char *text;
    if (r->type != OPTION_TEXT) {
        memcpy(to, (const char *)fresh + r->offset, r->width);
        return true;
    }
    memcpy(&text, (const char *)fresh + r->offset, sizeof text);
    const char *copy = text == NULL ? NULL : arena_cstr(c->texts, str_of(text));
    if (copy != NULL || text == NULL)
        memcpy(to, &copy, sizeof copy);
    return copy != NULL || text == NULL;
}

/* before: what its name begins with. */
static void change_row(const struct change *c, const char *before, const struct option *r,
                       void *running, const void *fresh)
{
    char name[OPTIONS_VALUE_BYTES_MAX];
    if (same_row(r, running, fresh))
        return;
    bool taken = !c->names && r->reload == OPTION_ON_RELOAD && take_row(c, r, running, fresh);
    (void)snprintf(name, sizeof name, "%s%s", before, r->name); /* names of domains are shorter */
    c->each(c->ctx, name, NULL, taken);
}

static void change_rows(const struct change *c, const char *before, const struct option *rows,
                        void *running, const void *fresh)
{
    for (const struct option *r = rows; r->name != NULL; r++)
        change_row(c, before, r, running, fresh);
}

/* ---- what has names of its own ---- */

struct named {
    void *items;
    unsigned count;
};

/* One kind of things with names: domains, buckets, lists. */
struct kind {
    const char *what; /* "domains" */
    size_t item_bytes;
    const char *(*name)(const void *item);
    void (*compare)(const struct change *c, const char *name, void *running, const void *fresh);
};

static void *named_find(const struct kind *k, const struct named *in, const char *name)
{
    for (unsigned i = 0; i < in->count; i++) {
        char *item = (char *)in->items + i * k->item_bytes;
        if (strcmp(k->name(item), name) == 0)
            return item;
    }
    return NULL;
}

static void change_named(const struct change *c, const struct kind *k, struct named running,
                         struct named fresh)
{
    bool same = running.count == fresh.count;
    for (unsigned i = 0; i < running.count && same; i++)
        same = named_find(k, &fresh, k->name((char *)running.items + i * k->item_bytes)) != NULL;
    if (!same)
        c->each(c->ctx, k->what, NULL, false);
    for (unsigned i = 0; i < running.count; i++) {
        char *item = (char *)running.items + i * k->item_bytes;
        const void *other = named_find(k, &fresh, k->name(item));
        if (other != NULL)
            k->compare(c, k->name(item), item, other);
    }
}

static const char *domain_name(const void *item)
{
    return ((const struct config_domain *)item)->name;
}

static void domain_compare(const struct change *c, const char *name, void *running,
                           const void *fresh)
{
    char before[CONFIG_NAME_BYTES_MAX + sizeof "domains..origin."];
    (void)snprintf(before, sizeof before, "domains.%s.origin.", name); /* it fits */
    change_rows(c, before, option_origin_rows, running, fresh);
}

static const char *bucket_name(const void *item)
{
    return ((const struct config_bucket *)item)->page.name;
}

/* A name that both tables have is of the bucket's kind. */
static void bucket_compare(const struct change *c, const char *name, void *running,
                           const void *fresh)
{
    char before[CONFIG_NAME_BYTES_MAX + sizeof "buckets.."];
    const struct config_bucket *a = running, *b = fresh;
    struct change own = *c;
    own.names = a->kind != KIND_PAGE || b->kind != KIND_PAGE; /* tables have what they are */
    bool main = strcmp(name, "page") == 0;
    (void)snprintf(before, sizeof before, "%s%s.", main ? "" : "buckets.", name); /* it fits */
    if (a->kind != b->kind)
        c->each(c->ctx, "buckets", NULL, false);
    if (a->kind != KIND_PAGE)
        change_rows(&own, before, option_value_rows, running, fresh);
    for (const struct option *r = option_bucket_rows; r->name != NULL; r++)
        if (a->kind == KIND_PAGE || option_find(option_value_rows, str_of(r->name)) == NULL)
            change_row(&own, before, r, running, fresh);
}

static const char *list_name(const void *item)
{
    return ((const struct config_list *)item)->list.name;
}

static void list_compare(const struct change *c, const char *name, void *running, const void *fresh)
{
    char before[CONFIG_NAME_BYTES_MAX + sizeof "lists.."];
    (void)snprintf(before, sizeof before, "lists.%s.", name); /* it fits */
    change_rows(c, before, option_list_rows, running, fresh);
}

static const char *listener_name(const void *item)
{
    return ((const struct config_listener *)item)->name;
}

static void listener_compare(const struct change *c, const char *name, void *running,
                             const void *fresh)
{
    char before[CONFIG_NAME_BYTES_MAX + sizeof "listeners.."];
    (void)snprintf(before, sizeof before, "listeners.%s.", name); /* it fits */
    change_rows(c, before, option_listener_rows, running, fresh);
}

void options_take_over(struct options *running, const struct options *fresh,
                       options_change_fn *each, void *ctx)
{
    static const struct kind domains = { "domains", sizeof(struct config_domain), domain_name,
                                         domain_compare };
    static const struct kind buckets = { "buckets", sizeof(struct config_bucket), bucket_name,
                                         bucket_compare };
    static const struct kind lists = { "lists", sizeof(struct config_list), list_name,
                                       list_compare };
    static const struct kind listeners = { "listeners", sizeof(struct config_listener),
                                           listener_name, listener_compare };
    INVARIANT(running->finished);
    INVARIANT(fresh->finished);
    const struct change c = { .texts = &running->texts, .each = each, .ctx = ctx };
    struct config *a = &running->config;
    struct config *b = (struct config *)(uintptr_t)&fresh->config; /* only read */
    change_rows(&c, "", option_rows, a, b);
    if (same_text(option_find(option_rows, STR("change.streams")), a, b))
        a->change.streams = b->change.streams;
    options_rules_take(running, fresh, each, ctx);
    change_named(&c, &domains, (struct named){ a->domains, a->domains_count },
                 (struct named){ b->domains, b->domains_count });
    change_named(&c, &buckets, (struct named){ a->buckets, a->buckets_count },
                 (struct named){ b->buckets, b->buckets_count });
    change_named(&c, &buckets, (struct named){ a->values, a->values_count },
                 (struct named){ b->values, b->values_count });
    change_named(&c, &lists, (struct named){ a->lists, a->lists_count },
                 (struct named){ b->lists, b->lists_count });
    change_named(&c, &listeners, (struct named){ a->listeners, a->listeners_count },
                 (struct named){ b->listeners, b->listeners_count });
}
