/* options_finish.c - what options say together: contradictions. */
#include "server/options_impl.h"

#include "base/units.h"
#include "peer/peer.h"

#include <string.h>

/* Where PURGE comes in nothing else does, and change.purge_from says from whom. */
static const struct http_listen *not_loopback(const struct config *c)
{
    for (unsigned i = 0; i < c->listens_count; i++)
        if (!c->listens[i].purge && !options_is_loopback(c->listens[i].address))
            return &c->listens[i];
    return NULL;
}

static err finish_exposure(struct options *o, struct err_note *note)
{
    struct config *c = &o->config;
    const struct http_listen *outside = not_loopback(c);
    c->exposed = outside != NULL;
    if (outside == NULL)
        return ERR_OK;
    if (c->test_hooks)
        return option_fail(option_from(o, "test_hooks"), STR("--test-hooks"), note,
                           "only with listeners on loopback, not with %s", outside->address);
    if (c->auth == AUTH_OPEN) {
        bool given = option_shown(o, "auth") != NULL;
        struct options_from from = option_from(o, "auth");
        char text[LISTEN_OPTION_BYTES];
        str name = given ? STR("auth") : option_listen_name(o, outside, text, &from);
        return option_fail(from, name, note,
                           "%sopen lets everybody do everything, so it is refused on %s; set auth: "
                           "internal and make "
                           "a key: palimpsest token create --role Admin --data DIR --new; "
                           "palimpsest token lock --data DIR",
                           given ? "" : "auth: ", outside->address);
    }
    return ERR_OK;
}

/* A reply of a queue holds its bodies, and each once more in base64. The default yields to the
 * memory of a request; what the operator asked for does not. */
static err finish_reply(struct options *o, struct err_note *note)
{
    enum { REPLY_COPIES = 3 };
    struct config *c = &o->config;
    uint64_t most = c->http.arena_bytes_max / REPLY_COPIES;
    bool given = option_shown(o, "queue.reply_bytes_max") != NULL;
    if (c->queue.reply_bytes_max > most && given)
        return option_fail(option_from(o, "queue.reply_bytes_max"), STR("queue.reply_bytes_max"),
                           note,
                           "http.arena_bytes_max must be at least %d times queue.reply_bytes_max",
                           REPLY_COPIES);
    if (c->queue.reply_bytes_max > most)
        c->queue.reply_bytes_max = most;
    return ERR_OK;
}

/* A request holds its body, that decoded, and the bytes to store. */
static err finish_memory(struct options *o, struct err_note *note)
{
    enum { BODY_COPIES = 3 };
    const struct config *c = &o->config;
    if (c->http_bytes_max != 0 && c->http_bytes_max < c->http.arena_bytes_max)
        return option_fail(option_from(o, "http.bytes_max"), STR("http.bytes_max"), note,
                           "is less than http.arena_bytes_max, which one request may have alone");
    if (c->page_body_bytes_max <= c->http.arena_bytes_max / BODY_COPIES)
        return ERR_OK;
    bool given = option_shown(o, "page.body_bytes_max") != NULL;
    const char *name = given ? "page.body_bytes_max" : "http.arena_bytes_max";
    return option_fail(option_from(o, name), str_of(name), note,
                       "http.arena_bytes_max must be at least %d times page.body_bytes_max",
                       BODY_COPIES);
}

/* field: ".url", ".api", another, or "" of the origin itself. */
static err fail_origin(const struct options *o, unsigned i, const char *field, const char *what,
                       struct err_note *note)
{
    const struct origin_from *all = &o->domain_from[i];
    struct options_from from = strcmp(field, ".url") == 0   ? all->url
                               : strcmp(field, ".api") == 0 ? all->api
                                                            : all->last;
    struct err_note name;
    err_note_set(&name, "domains.%s.origin%s", o->config.domains[i].name, field);
    return option_fail(from, str_of(name.text), note, "%s", what);
}

/* What the server makes by itself are renders of the origin like others. The default yields to what
 * the origin takes; what the operator asked for does not. */
static err finish_rerenders(struct options *o, unsigned i, struct err_note *note)
{
    struct config_domain *d = &o->config.domains[i];
    const struct options_from *from = &o->domain_from[i].rerenders;
    unsigned most = d->origin.concurrency;
    if (d->rerenders.concurrency <= most)
        return ERR_OK;
    if (from->file == NULL) {
        d->rerenders.concurrency = most;
        return ERR_OK;
    }
    struct err_note name;
    err_note_set(&name, "domains.%s.origin.rerender_concurrency", d->name);
    return option_fail(*from, str_of(name.text), note,
                       "%u is more than domains.%s.origin.concurrency (%u)",
                       d->rerenders.concurrency, d->name, most);
}

static err finish_domain(struct options *o, unsigned i, struct err_note *note)
{
    struct config_domain *d = &o->config.domains[i];
    const char *field;
    struct err_note what;
    if (d->origin.domain == NULL)
        d->origin.domain = d->name;
    if (d->trust.max_ns < d->trust.ttl_ns)
        d->trust.max_ns = d->trust.ttl_ns;
    bool placed = options_fill_place(o, d);
    if (d->origin.url == NULL)
        return o->domain_from[i].last.file == NULL ? ERR_OK
                                                   : fail_origin(o, i, "", "has no url", note);
    if (d->is_private && d->forward_cookies)
        return fail_origin(o, i, "", "is private: cookies are asked about, and not forwarded",
                           note);
    if (d->is_private && d->origin.kind == ORIGIN_TEMPLATE && d->origin.api == NULL)
        return fail_origin(o, i, "", "is private, and has no api that says who may read", note);
    if (!placed)
        return fail_origin(o, i, ".article_path", "is no path with one $1 for the title", note);
    err why = finish_rerenders(o, i, note);
    if (why != ERR_OK)
        return why;
    if (origin_check(&d->origin, &field, &what) == ERR_OK)
        return ERR_OK;
    return fail_origin(o, i, strcmp(field, "api") == 0 ? ".api" : ".url", what.text, note);
}

/* A failure is remembered for error_base at first: longer than the longest is no order that can be
 * carried out. */
static err finish_flights(struct options *o, struct err_note *note)
{
    const struct flight_opts *f = &o->config.flight;
    if (f->error_base_ms <= f->error_max_ms)
        return ERR_OK;
    const char *name =
        option_shown(o, "flight.error_base") != NULL ? "flight.error_base" : "flight.error_max";
    char base[UNITS_TEXT_BYTES], most[UNITS_TEXT_BYTES];
    units_format_duration(f->error_base_ms * NS_PER_MS, base);
    units_format_duration(f->error_max_ms * NS_PER_MS, most);
    return option_fail(option_from(o, name), str_of(name), note,
                       "flight.error_base (%s) is longer than flight.error_max (%s)", base, most);
}

/* A URL with a host, to which /page/... is put; {domain} is filled in, other braces mean
 * nothing. */
static err finish_public_url(struct options *o, struct err_note *note)
{
    static const char name[] = "public_url";
    const str hole = STR("{domain}");
    str url = str_of(o->config.public_url), rest = url;
    size_t scheme = str_starts(url, STR("https://")) ? 8 : str_starts(url, STR("http://")) ? 7 : 0;
    bool fine = url.n == 0 ||
                (scheme > 0 && url.n > scheme && url.p[scheme] != '/' && !str_ends(url, STR("/")));
    for (; fine && rest.n > 0; rest = str_skip(rest, str_starts(rest, hole) ? hole.n : 1)) {
        unsigned char c = (unsigned char)rest.p[0];
        fine = str_starts(rest, hole) || (c > ' ' && c < 0x7f && strchr("{}<>\"?#;,", c) == NULL);
    }
    if (fine)
        return ERR_OK;
    return option_fail(
        option_from(o, name), str_of(name), note,
        "is no URL such as https://{domain}/api/rest_v1, without a slash at the end");
}

/* The networks in the text of that option, CONFIG_PROXIES_MAX of them at most. */
static err finish_networks(struct options *o, const char *name, const char *text,
                           struct network *out, unsigned *count, struct err_note *note)
{
    str rest = str_of(text);
    while (rest.n > 0) {
        str one = str_trim(str_split(&rest, ','));
        if (*count == CONFIG_PROXIES_MAX)
            return option_fail(option_from(o, name), str_of(name), note, "has more than %d of them",
                               CONFIG_PROXIES_MAX);
        if (!network_parse(one, &out[(*count)++]))
            return option_fail(option_from(o, name), str_of(name), note,
                               "\"%.*s\" is no numeric address or network such as 192.0.2.0/24",
                               STR_ARG(one));
    }
    return ERR_OK;
}

/* Renders are asked for at an address without a path, under a secret, by way of notes in Redis. */
static err finish_servers(struct options *o, struct err_note *note)
{
    static const char name[] = "servers.advertise";
    const struct config *c = &o->config;
    const struct config_servers *s = &c->servers;
    if (!option_is_said(s->advertise) && !option_is_said(s->secret_file))
        return ERR_OK;
    const char *wrong = NULL;
    if (!option_is_said(s->advertise))
        wrong = "is wanted beside servers.secret_file";
    else if (!option_is_said(s->secret_file))
        wrong = "wants servers.secret_file, too";
    else if (!option_is_said(c->redis.url))
        wrong = "wants redis.url: there the servers note who has what";
    else if (!peer_is_address(str_of(s->advertise)))
        wrong = "is no address such as http://10.0.0.1:7231";
    return wrong == NULL ? ERR_OK
                         : option_fail(option_from(o, name), str_of(name), note, "%s", wrong);
}

err options_finish(struct options *o, struct err_note *note)
{
    INVARIANT(!o->finished);
    struct config *c = &o->config;
    err why = ERR_OK;
    if (o->config.domains_count == 0)
        why = option_add_domain(o, STR("localhost"), (struct options_from){ .file = "default" },
                                NULL, note);
    if (why == ERR_OK)
        why = options_finish_listens(o, note);
    if (why == ERR_OK)
        why = finish_exposure(o, note);
    if (why == ERR_OK)
        why = finish_memory(o, note);
    if (why == ERR_OK)
        why = finish_reply(o, note);
    if (why == ERR_OK)
        why = finish_flights(o, note);
    if (why == ERR_OK)
        why = finish_networks(o, "http.trusted_proxies", c->proxies_text, c->proxies,
                              &c->proxies_count, note);
    if (why == ERR_OK)
        why = finish_networks(o, "change.purge_from", c->change.purge_from_text,
                              c->change.purge_from, &c->change.purge_from_count, note);
    if (why == ERR_OK)
        why = options_finish_databases(o, option_from(o, "change.databases"), note);
    if (why == ERR_OK)
        why = options_finish_streams(o, option_from(o, "change.streams"), note);
    if (why == ERR_OK)
        why = finish_public_url(o, note);
    if (why == ERR_OK)
        why = finish_servers(o, note);
    if (why == ERR_OK)
        why = options_finish_rules(o, note);
    if (why == ERR_OK)
        why = options_finish_stores(o, option_from(o, "queue.stores"), note);
    if (why == ERR_OK)
        why = options_finish_lists(o, option_from(o, "redis.url"), note);
    if (why == ERR_OK)
        why = options_finish_buckets(o, note);
    if (why == ERR_OK)
        why = options_finish_store(o, note);
    if (why == ERR_OK)
        why = options_finish_secondary(o, note);
    if (why == ERR_OK)
        why = options_finish_filters(o, note);
    for (unsigned i = 0; why == ERR_OK && i < o->config.domains_count; i++)
        why = finish_domain(o, i, note);
    o->finished = why == ERR_OK;
    return why;
}

void options_gone(const struct options *o, void (*each)(void *ctx, const char *name), void *ctx)
{
    for (const struct option *r = option_rows; r->name != NULL; r++)
        if (r->type == OPTION_GONE && o->from[r - option_rows].file != NULL)
            each(ctx, r->name);
}
