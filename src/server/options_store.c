/* options_store.c - where pages are kept: what store.kind cassandra wants beside it, and what a
 * shared store cannot keep, which is refused by name. */
#include "server/options_impl.h"

#include "base/units.h"
#include "rule/rule.h"

#include <stdio.h>
#include <string.h>

enum { COPIES_MAX = 99, REPLICATION_BYTES = 400, OPTION_NAME_BYTES = 80 };

static err fail_store(const struct options *o, const char *name, struct err_note *note,
                      const char *what)
{
    return option_fail(option_from(o, name), str_of(name), note, "%s", what);
}

err options_finish_points(struct options *o, struct config_cassandra *c, const char *name,
                          struct err_note *note)
{
    str rest = str_of(c->contact_points_text == NULL ? "" : c->contact_points_text);
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ','));
        if (one.n == 0 || one.n > CONFIG_NAME_BYTES_MAX)
            return fail_store(o, name, note, "is no HOST or HOST:PORT, several with commas");
        if (c->contact_points_count == CONFIG_CONTACT_POINTS_MAX)
            return option_fail(option_from(o, name), str_of(name), note, "more than %d of them",
                               CONFIG_CONTACT_POINTS_MAX);
        const char *copy = arena_cstr(&o->texts, one);
        if (copy == NULL)
            return fail_store(o, name, note, "is too long");
        c->contact_points[c->contact_points_count++] = copy;
    }
    return c->contact_points_count > 0
               ? ERR_OK
               : fail_store(o, name, note, "is wanted: nodes of the cluster, HOST or HOST:PORT");
}

/* "dc1=3,dc2=3" to {'class': 'NetworkTopologyStrategy', 'dc1': 3, 'dc2': 3}. */
static err finish_replication(struct options *o, struct err_note *note)
{
    static const char name[] = "store.replication";
    struct config_cassandra *c = &o->config.cassandra;
    if (!option_is_said(c->replication_text))
        return ERR_OK;
    struct buf cql;
    buf_init(&cql, REPLICATION_BYTES);
    buf_printf(&cql, "{'class': 'NetworkTopologyStrategy'");
    str rest = str_of(c->replication_text);
    bool fine = true;
    while (rest.n > 0 && fine) {
        str one = str_trim(str_split(&rest, ',')), copies = one, dc;
        uint64_t count;
        dc = str_trim(str_split(&copies, '='));
        fine = option_is_plain_name(dc, CONFIG_NAME_BYTES_MAX, "-_.") &&
               str_to_u64(str_trim(copies), &count) && count > 0 && count <= COPIES_MAX;
        if (fine)
            buf_printf(&cql, ", '%.*s': %u", STR_ARG(dc), (unsigned)count);
    }
    buf_printf(&cql, "}");
    fine = fine && buf_status(&cql) == ERR_OK;
    c->replication = fine ? arena_cstr(&o->texts, buf_str(&cql)) : NULL;
    buf_fini(&cql);
    return fine && c->replication != NULL
               ? ERR_OK
               : fail_store(o, name, note, "is no list of DC=COPIES, such as dc1=3,dc2=3");
}

/* "store.tls.name" of "tls.name". */
struct option_name {
    char text[OPTION_NAME_BYTES];
};
static struct option_name of_section(const char *section, const char *field)
{
    struct option_name name;
    (void)snprintf(name.text, sizeof name.text, "%s.%s", section, field); /* fits */
    return name;
}

err options_finish_login(const struct options *o, const struct config_cassandra *c,
                         const char *section, struct err_note *note)
{
    bool user = option_is_said(c->user), cert = option_is_said(c->cert_file);
    if (user != option_is_said(c->password_file)) {
        const struct option_name has =
            of_section(section, user ? "auth.user" : "auth.password_file");
        return option_fail(option_from(o, has.text), str_of(has.text), note, "wants %s.%s, too",
                           section, user ? "auth.password_file" : "auth.user");
    }
    if (cert != option_is_said(c->key_file)) {
        const struct option_name has = of_section(section, cert ? "tls.cert_file" : "tls.key_file");
        return option_fail(option_from(o, has.text), str_of(has.text), note,
                           "wants %s.tls.cert_file and %s.tls.key_file, both or none", section,
                           section);
    }
    static const char *const tls[] = { "tls.ca_file", "tls.cert_file", "tls.name" };
    for (size_t i = 0; c->tls == TLS_OFF && i < COUNT_OF(tls); i++) {
        const struct option_name name = of_section(section, tls[i]);
        if (option_is_said(option_shown(o, name.text)))
            return option_fail(option_from(o, name.text), str_of(name.text), note,
                               "does nothing without %s.tls.mode: on", section);
    }
    return ERR_OK;
}

/* What follows changes of titles would not see those of other servers; what lies in the data
 * directory the others would not see. */
static err refuse_local(struct options *o, struct err_note *note)
{
    const struct config *c = &o->config;
    const struct config_change *change = &c->change;
    if (change->rules != NULL && rule_set_count(change->rules) > 0)
        return fail_store(o, "change.rules", note,
                          "are not there yet with store.kind cassandra: rules follow the events of "
                          "one server");
    if (change->streams != 0)
        return fail_store(o, "change.streams", note,
                          "are not there yet with store.kind cassandra: the event log is of one "
                          "server");
    return ERR_OK;
}

/* A row of store.* that would be silently without effect. */
static err refuse_idle(struct options *o, struct err_note *note)
{
    static const char *const names[] = {
        "store.contact_points",     "store.local_dc",           "store.replication",
        "store.auth.user",          "store.auth.password_file", "store.tls.mode",
        "store.tls.ca_file",        "store.tls.cert_file",      "store.auth.plain_anywhere",
        "store.keyspace",           "store.tls.key_file",       "store.tls.name",
        "store.start_timeout",      "store.max_skew",           "store.remote_dcs",
        "store.skew_period",        "store.auth_ttl",           "store.sweep_period",
        "store.sweep_titles_per_s", "store.due_sample",
    };
    for (size_t i = 0; i < COUNT_OF(names); i++)
        if (option_shown(o, names[i]) != NULL)
            return fail_store(o, names[i], note, "does nothing without store.kind: cassandra");
    return ERR_OK;
}

err options_finish_store(struct options *o, struct err_note *note)
{
    const struct config_cassandra *c = &o->config.cassandra;
    if (o->config.pages != PAGES_CASSANDRA)
        return refuse_idle(o, note);
    err why = options_finish_points(o, &o->config.cassandra, "store.contact_points", note);
    if (why == ERR_OK && !option_is_said(c->local_dc))
        why = fail_store(o, "store.local_dc", note,
                         "is wanted: the name of the data centre that this server is in");
    if (why == ERR_OK)
        why = finish_replication(o, note);
    if (why == ERR_OK)
        why = options_finish_login(o, c, "store", note);
    if (why == ERR_OK)
        why = refuse_local(o, note);
    return why;
}
