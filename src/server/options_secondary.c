/* options_secondary.c - page.secondary.*: where RESTBase left renders, and what they are called. */
#include "server/options_impl.h"

#include "page/content.h"

#include <string.h>

enum { KEYSPACE_BYTES_MAX = 48 };
static const char section[] = "page.secondary";

static err options_secondary_fail(const struct options *o, const char *name, struct err_note *note,
                                  const char *what)
{
    return option_fail(option_from(o, name), str_of(name), note, "%s", what);
}

static err too_long(const struct options *o, const char *name, struct err_note *note)
{
    return option_fail(option_from(o, name), str_of(name), note,
                       "all values together pass %d bytes", OPTIONS_TEXT_BYTES_MAX);
}

/* "html=KEYSPACE", or "KEYSPACE". */
static err table_take(struct options *o, str one, struct err_note *note)
{
    static const char name[] = "page.secondary.keyspaces";
    struct config_secondary *c = &o->config.secondary;
    str content = STR(""), keyspace = one;
    if (str_find(one, '=') < one.n) {
        content = str_trim(str_split(&keyspace, '='));
        keyspace = str_trim(keyspace);
        if (!page_content_is_fine(content))
            return option_fail(option_from(o, name), str_of(name), note,
                               "\"%.*s\" is no name of a content", STR_ARG(str_take(content, 60)));
    }
    if (!option_is_plain_name(keyspace, KEYSPACE_BYTES_MAX, "_"))
        return option_fail(option_from(o, name), str_of(name), note,
                           "\"%.*s\" is no name of a keyspace", STR_ARG(str_take(keyspace, 60)));
    if (c->tables_count == CONFIG_SECONDARY_TABLES_MAX)
        return option_fail(option_from(o, name), str_of(name), note, "more than %d of them",
                           CONFIG_SECONDARY_TABLES_MAX);
    struct config_secondary_table *t = &c->tables[c->tables_count++];
    t->content = arena_cstr(&o->texts, content);
    t->keyspace = arena_cstr(&o->texts, keyspace);
    return t->content != NULL && t->keyspace != NULL ? ERR_OK : too_long(o, name, note);
}

static err finish_tables(struct options *o, struct err_note *note)
{
    str rest = str_of(o->config.secondary.keyspaces_text);
    err why = ERR_OK;
    while (rest.n > 0 && why == ERR_OK)
        why = table_take(o, str_trim(str_split(&rest, ',')), note);
    if (why == ERR_OK && o->config.secondary.tables_count == 0)
        why = options_secondary_fail(
            o, "page.secondary.keyspaces", note,
            "is wanted: the keyspace of each content, such as html=KEYSPACE");
    return why;
}

static bool is_domain(const struct config *c, str name)
{
    for (unsigned i = 0; i < c->domains_count; i++)
        if (str_eq(str_of(c->domains[i].name), name))
            return true;
    return false;
}

static err finish_domains(struct options *o, struct err_note *note)
{
    static const char name[] = "page.secondary.domains";
    struct config_secondary *c = &o->config.secondary;
    str rest = str_of(c->domains_text == NULL ? "" : c->domains_text);
    size_t count = 0;
    for (str all = rest; all.n > 0; count++)
        (void)str_split(&all, ',');
    struct config_secondary_domain *domains = arena_calloc(&o->texts, count + 1, sizeof *domains);
    if (domains == NULL)
        return too_long(o, name, note);
    for (size_t i = 0; i < count; i++) {
        str there = str_trim(str_split(&rest, ',')), ours = str_trim(str_split(&there, '='));
        there = str_trim(there);
        if (ours.n == 0 || there.n == 0)
            return options_secondary_fail(o, name, note, "NAME=THERE is wanted for each domain");
        if (!is_domain(&o->config, ours))
            return option_fail(option_from(o, name), str_of(name), note,
                               "\"%.*s\" is no domain of this server", STR_ARG(str_take(ours, 80)));
        domains[i].name = arena_cstr(&o->texts, ours);
        domains[i].there = arena_cstr(&o->texts, there);
        if (domains[i].name == NULL || domains[i].there == NULL)
            return too_long(o, name, note);
    }
    c->domains = domains;
    c->domains_count = count;
    return ERR_OK;
}

/* A row that would be silently without effect. */
static err refuse_idle(struct options *o, struct err_note *note)
{
    static const char *const names[] = {
        "page.secondary.local_dc",     "page.secondary.keyspaces",
        "page.secondary.domains",      "page.secondary.timeout",
        "page.secondary.auth.user",    "page.secondary.auth.password_file",
        "page.secondary.tls.mode",     "page.secondary.auth.plain_anywhere",
        "page.secondary.tls.ca_file",  "page.secondary.tls.cert_file",
        "page.secondary.tls.key_file", "page.secondary.tls.name",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (option_shown(o, names[i]) != NULL)
            return options_secondary_fail(o, names[i], note,
                                          "does nothing without page.secondary.contact_points");
    return ERR_OK;
}

err options_finish_secondary(struct options *o, struct err_note *note)
{
    struct config_cassandra *c = &o->config.secondary.cluster;
    if (!option_is_said(c->contact_points_text))
        return refuse_idle(o, note);
    err why = options_finish_points(o, c, "page.secondary.contact_points", note);
    if (why == ERR_OK && !option_is_said(c->local_dc))
        why =
            options_secondary_fail(o, "page.secondary.local_dc", note,
                                   "is wanted: the name of the data centre whose nodes are asked");
    if (why == ERR_OK)
        why = finish_tables(o, note);
    if (why == ERR_OK)
        why = finish_domains(o, note);
    if (why == ERR_OK)
        why = options_finish_login(o, c, section, note);
    return why;
}
