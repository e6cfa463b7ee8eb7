/* options_tell.c - what names a wiki and its pages for who tells of changes, and which of the
 * changes here are told. */
#include "bucket/pages.h"
#include "page/wiki_url.h"
#include "server/options_impl.h"

#include <stdlib.h>
#include <string.h>

static bool is_domain(const struct config *c, str name)
{
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), name))
            return true;
    return false;
}

static int by_name(const void *a, const void *b)
{
    const struct config_database *one = a, *other = b;
    return str_cmp(one->name, other->name);
}

err options_finish_databases(struct options *o, struct options_from from, struct err_note *note)
{
    const str name = STR("change.databases");
    struct config_change *c = &o->config.change;
    str rest = str_of(c->databases_text);
    size_t count = 0;
    for (str all = rest; all.n > 0; count++)
        (void)str_split(&all, ',');
    struct config_database *databases = arena_calloc(&o->texts, count + 1, sizeof *databases);
    if (databases == NULL)
        return option_fail(from, name, note, "all values together pass %d bytes",
                           OPTIONS_TEXT_BYTES_MAX);
    for (size_t i = 0; i < count; i++) {
        str one = str_trim(str_split(&rest, ',')), database = str_split(&one, '=');
        if (database.n == 0 || one.n == 0)
            return option_fail(from, name, note, "NAME=DOMAIN is wanted for each database");
        if (!is_domain(&o->config, one))
            return option_fail(from, name, note, "\"%.*s\" is no domain of this server",
                               STR_ARG(str_take(one, 80)));
        databases[i] = (struct config_database){ .name = database, .domain = one };
    }
    qsort(databases, count, sizeof *databases, by_name);
    for (size_t i = 1; i < count; i++)
        if (str_eq(databases[i - 1].name, databases[i].name))
            return option_fail(from, name, note, "\"%.*s\" is there twice",
                               STR_ARG(str_take(databases[i].name, 80)));
    c->databases = databases;
    c->databases_count = count;
    return ERR_OK;
}

/* The bits of a stream's name; 0: there is no such stream. */
static unsigned streams_of(str name)
{
    if (str_eq(name, STR("palimpsest.*")))
        return BIT(PAGE_STREAMS) - 1;
    for (unsigned s = 0; s < PAGE_STREAMS; s++)
        if (str_eq(name, str_of(page_stream_name((enum page_stream)s))))
            return BIT(s);
    return 0;
}

err options_finish_streams(struct options *o, struct options_from from, struct err_note *note)
{
    struct config_change *c = &o->config.change;
    str rest = str_of(c->streams_text);
    c->streams = 0;
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ','));
        unsigned streams = streams_of(one);
        if (streams == 0)
            return option_fail(from, STR("change.streams"), note,
                               "\"%.*s\" is no stream of the store: palimpsest.render, "
                               "palimpsest.gone, palimpsest.dated and palimpsest.* are",
                               STR_ARG(str_take(one, 80)));
        c->streams |= streams;
    }
    return ERR_OK;
}

bool options_fill_place(struct options *o, struct config_domain *d)
{
    struct wiki_url u = { .authority = STR("") };
    if (d->article_path == NULL)
        d->article_path = WIKI_ARTICLE_PATH;
    d->hosts = d->hosts_text;
    if (d->hosts == NULL && d->origin.url != NULL && wiki_url_parse(str_of(d->origin.url), &u))
        d->hosts =
            arena_printf(&o->texts, "%.*s,%s", STR_ARG(wiki_url_host(u.authority)), d->name).p;
    if (d->hosts == NULL)
        d->hosts = d->name;
    return wiki_article_path_is(str_of(d->article_path));
}
