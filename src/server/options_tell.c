/* options_tell.c - what names a wiki and its pages for who tells of changes. */
#include "page/wiki_url.h"
#include "server/options_impl.h"

#include <string.h>

static bool is_domain(const struct config *c, str name)
{
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), name))
            return true;
    return false;
}

err options_finish_databases(struct options *o, struct options_from from, struct err_note *note)
{
    const str name = STR("change.databases");
    str rest = str_of(o->config.change.databases);
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ',')), database = str_split(&one, '=');
        if (database.n == 0 || one.n == 0)
            return option_fail(from, name, note, "NAME=DOMAIN is wanted for each database");
        if (!is_domain(&o->config, one))
            return option_fail(from, name, note, "\"%.*s\" is no domain of this server",
                               STR_ARG(str_take(one, 80)));
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
