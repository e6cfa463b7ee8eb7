/* options_finish.c - what options say together: listeners, contradictions. */
#include "server/options_impl.h"

#include <string.h>

static unsigned row_of(const char *name)
{
    const struct option *r = option_find(option_rows, str_of(name));
    INVARIANT(r != NULL);
    return (unsigned)(r - option_rows);
}

static struct options_from from_of(const struct options *o, const char *name)
{
    struct options_from from = o->from[row_of(name)];
    return from.file != NULL ? from : (struct options_from){ .file = "default" };
}

/* The admin listener comes last; without one the loopback listeners serve admin routes too. */
static err finish_listens(struct options *o, struct err_note *note)
{
    struct config *c = &o->config;
    const char *admin = o->shown[row_of("admin_listen")];
    for (unsigned i = 0; i < c->listens_count; i++) {
        c->listens[i].content = true;
        c->listens[i].admin = admin == NULL && options_is_loopback(c->listens[i].address);
    }
    if (admin != NULL) {
        struct http_listen *l = &c->listens[c->listens_count++];
        INVARIANT(option_parse_listen(o, str_of(admin), l));
        l->content = false;
        l->admin = true;
    }
    for (unsigned i = 0; i < c->listens_count; i++)
        for (unsigned k = 0; k < i; k++) {
            if (c->listens[i].port == 0 || c->listens[i].port != c->listens[k].port)
                continue;
            if (strcmp(c->listens[i].address, c->listens[k].address) != 0)
                continue;
            const char *name = c->listens[i].content ? "listen" : "admin_listen";
            return option_fail(from_of(o, name), str_of(name), note, "%s:%u is there twice", c->listens[i].address,
                               c->listens[i].port);
        }
    return ERR_OK;
}

static const char *not_loopback(const struct config *c)
{
    for (unsigned i = 0; i < c->listens_count; i++)
        if (!options_is_loopback(c->listens[i].address))
            return c->listens[i].address;
    return NULL;
}

static err finish_exposure(struct options *o, struct err_note *note)
{
    const struct config *c = &o->config;
    const char *outside = not_loopback(c);
    if (outside == NULL)
        return ERR_OK;
    if (c->test_hooks)
        return option_fail(from_of(o, "test_hooks"), STR("--test-hooks"), note,
                           "only with listeners on loopback, not with %s", outside);
    if (c->auth == AUTH_OPEN)
        return option_fail(from_of(o, "auth"), STR("auth"), note,
                           "open lets everybody do everything, so it is refused on %s; set auth: internal and make a "
                           "key: palimpsest token create --role admin --data DIR; palimpsest token lock --data DIR",
                           outside);
    return ERR_OK;
}

/* Fields that only some policies look at; given with another one they would be silently without effect. */
static const struct { const char *field; unsigned policies; } policy_fields[] = {
    { "count", BIT(POLICY_LATEST) | BIT(POLICY_INTERVAL) },
    { "interval", BIT(POLICY_INTERVAL) },
    { "ttl", BIT(POLICY_TTL) },
};

static err finish_bucket(struct options *o, unsigned bucket, struct err_note *note)
{
    const struct page_bucket_opts *page = &o->config.buckets[bucket].page;
    for (size_t i = 0; i < COUNT_OF(policy_fields); i++) {
        const struct option *r = option_find(option_bucket_rows, str_of(policy_fields[i].field));
        INVARIANT(r != NULL);
        struct options_from from = o->bucket_from[bucket][r - option_bucket_rows];
        if (from.file == NULL || (policy_fields[i].policies & BIT(page->policy.kind)) != 0)
            continue;
        char name[64] = "";
        struct err_note full;
        err_note_set(&full, "%s%s.%s", bucket > 0 ? "buckets." : "", page->name, r->name);
        (void)str_to_cstr(str_take(str_of(full.text), sizeof name - 1), name, sizeof name); /* cut to fit */
        const struct option *policy = option_find(option_bucket_rows, STR("policy"));
        INVARIANT(policy != NULL);
        return option_fail(from, str_of(name), note, "contradicts policy %s, which has none",
                           policy->choices[page->policy.kind]);
    }
    return ERR_OK;
}

err options_finish(struct options *o, struct err_note *note)
{
    INVARIANT(!o->finished);
    err why = ERR_OK;
    if (o->config.domains_count == 0)
        why = option_add_domain(o, STR("localhost"), (struct options_from){ .file = "default" }, note);
    if (why == ERR_OK)
        why = finish_listens(o, note);
    if (why == ERR_OK)
        why = finish_exposure(o, note);
    for (unsigned i = 0; why == ERR_OK && i < o->config.buckets_count; i++)
        why = finish_bucket(o, i, note);
    o->finished = why == ERR_OK;
    return why;
}
