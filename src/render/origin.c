/* origin.c - the options of an origin: checks them, builds URLs, and shares limits between domains
 * of one host. Invariant: what a title fills in never chooses the host. */
#include "render/origin.h"

#include "base/buf.h"
#include "base/map.h"
#include "http/percent.h"
#include "render/measure.h"
#include "render/site.h"
#include "render/words.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char REST_PHP[] = "rest.php", API_PHP[] = "api.php";
static const char *const names[] = { "{domain}", "{title}", "{rev}" };
enum { NAME_DOMAIN, NAME_TITLE, NAME_REV };

/* ---- configuration ---- */

/* ASCII only, with a scheme and a host: what a client could not send is found at the start. */
static err check_url(const char *url, struct err_note *note)
{
    str s = str_of(url);
    size_t scheme = str_starts(s, STR("http://")) ? 7 : str_starts(s, STR("https://")) ? 8 : 0;
    if (scheme == 0)
        return err_bad(note, "wanted is a URL that begins with http:// or https://");
    if (s.n > ORIGIN_URL_BYTES_MAX)
        return err_bad(note, "the URL is longer than 2048 bytes");
    if (s.n == scheme || s.p[scheme] == '/' || s.p[scheme] == ':' || s.p[scheme] == '?')
        return err_bad(note, "the URL names no host");
    for (size_t i = 0; i < s.n; i++)
        if ((unsigned char)s.p[i] <= ' ' || (unsigned char)s.p[i] >= 0x7f || s.p[i] == '#')
            return err_bad(note, "the URL holds a space, a fragment or what is not ASCII");
    return ERR_OK;
}

/* Which of the names s begins with; COUNT_OF(names): none. */
static size_t name_at(str s)
{
    size_t i = 0;
    while (i < COUNT_OF(names) && !str_starts(s, str_of(names[i])))
        i++;
    return i;
}

/* Where the path of a URL begins: behind the host. */
static size_t path_of(str url)
{
    size_t host = str_find_str(url, STR("://")) + 3;
    return host + str_find(str_skip(url, host), '/');
}

/* Braces are names that are known, and {title} and {rev} stand behind the host. */
static err check_template(const char *url, struct err_note *note)
{
    bool has[COUNT_OF(names)] = { false };
    size_t path = path_of(str_of(url));
    for (str s = str_of(url); s.n > 0; s = str_skip(s, 1)) {
        if (s.p[0] != '{' && s.p[0] != '}')
            continue;
        size_t i = name_at(s);
        if (i == COUNT_OF(names))
            return err_bad(note,
                           "a template knows {domain}, {title} and {rev}, nothing else in braces");
        if (i != NAME_DOMAIN && (size_t)(s.p - url) < path)
            return err_bad(
                note, "a template has {title} and {rev} in its path or query, not in the host");
        has[i] = true;
        s = str_skip(s, strlen(names[i]) - 1);
    }
    if (!has[NAME_TITLE] && !has[NAME_REV])
        return err_bad(note, "a template wants {title} or {rev}");
    return ERR_OK;
}

static char *copy_of(str s)
{
    char *copy = malloc(s.n + 1);
    INVARIANT(copy != NULL);
    if (s.n > 0)
        memcpy(copy, s.p, s.n);
    copy[s.n] = 0;
    return copy;
}

/* Its url without the slashes at its end. */
static str url_of(const struct origin_opts *opts)
{
    str url = str_of(opts->url);
    while (str_ends(url, STR("/")))
        url.n--;
    return url;
}

/* *field names the option that is wrong. */
err origin_check(const struct origin_opts *opts, const char **field, struct err_note *note)
{
    bool is_template = opts->kind == ORIGIN_TEMPLATE;
    *field = "url";
    if (opts->url == NULL || opts->domain == NULL)
        return err_bad(note, "an origin wants a url and a domain");
    err e = check_url(opts->url, note);
    if (e == ERR_OK && is_template)
        e = check_template(opts->url, note);
    if (e == ERR_OK && !is_template && opts->api == NULL &&
        !str_ends(url_of(opts), str_of(REST_PHP)))
        return err_bad(note, "the URL does not end in rest.php, so api must say where api.php is");
    if (e == ERR_OK && opts->api != NULL) {
        *field = "api";
        e = check_url(opts->api, note);
    }
    return e;
}

/* opts.api, or the url with the last rest.php made api.php; NULL: none. */
static char *api_of(const struct origin_opts *opts)
{
    if (opts->api != NULL)
        return copy_of(str_of(opts->api));
    if (opts->kind == ORIGIN_TEMPLATE)
        return NULL;
    str url = url_of(opts);
    char *api = copy_of(url);
    memcpy(api + url.n - strlen(REST_PHP), API_PHP,
           sizeof API_PHP); /* the shorter one, with its end */
    return api;
}

/* Options with their defaults, and copies of all texts: origin_free frees them. */
static struct origin_opts origin_filled(const struct origin_opts *opts)
{
    struct origin_opts o = *opts;
    o.timeout_ms = o.timeout_ms != 0 ? o.timeout_ms : 30000;
    o.concurrency = o.concurrency != 0 ? o.concurrency : 8;
    o.reply_bytes_max = o.reply_bytes_max != 0 ? o.reply_bytes_max : 32u << 20;
    o.siteinfo_ttl_ms = o.siteinfo_ttl_ms != 0 ? o.siteinfo_ttl_ms : 3600000;
    o.domain = copy_of(str_of(opts->domain));
    if (opts->authorization != NULL)
        o.authorization = copy_of(str_of(opts->authorization));
    o.url = copy_of(o.kind == ORIGIN_TEMPLATE ? str_of(opts->url) : url_of(opts));
    o.api = api_of(opts);
    return o;
}

/* How many transforms, and how much metadata, at once: half of the renders, at least one. */
static unsigned half_max(const struct origin_opts *o)
{
    return (o->concurrency + 1) / 2;
}

/* Sets the host that calls go to, by a URL with any title: a title stands behind the host. Empty:
 * no client could go there, and each call says so. */
static void at_set(struct origin *o)
{
    static const struct origin_page any = { .title = STR_INIT("x"), .rev = 1 };
    struct arena a;
    arena_init(&a, (size_t)8 * ORIGIN_URL_BYTES_MAX);
    str url =
        o->opts.kind == ORIGIN_TEMPLATE ? origin_template_url(o, &a, &any) : str_of(o->opts.url);
    if (url.p == NULL || http_client_origin(url, o->at) != ERR_OK)
        o->at[0] = 0;
    arena_fini(&a);
}

/* Sets the limits of each kind of call. Returns how many the host may have together. */
static unsigned kinds_limit(struct origin *o)
{
    const struct limiter_limits limits[TURNS] = {
        [TURN_RENDER] = { .running_max = o->opts.concurrency, .waiting_max = ORIGIN_WAITING_MAX },
        [TURN_TRANSFORM] = { .running_max = half_max(&o->opts), .waiting_max = ORIGIN_WAITING_MAX },
        [TURN_META] = { .running_max = half_max(&o->opts),
                        .waiting_max = ORIGIN_METAS_WAITING_MAX },
        [TURN_ASIDE] = { .running_max = 1 },
        [TURN_WORD] = { .running_max = WORDS_AT_ONCE, .waiting_max = ORIGIN_WORDS_WAITING_MAX },
    };
    unsigned all = 0;
    for (unsigned i = 0; i < TURNS; i++) {
        limiter_limit(o->limiter, LIMITER_KIND, &o->turns[i], limits[i]);
        all += i == TURN_WORD ? 0 : limits[i].running_max;
    }
    return all;
}

/* Other limits of the host stay as they are. */
static void host_limit(struct origin *o, unsigned running_max)
{
    struct limiter_limits host = limiter_limits_of(o->limiter, LIMITER_ORIGIN, o->turns);
    host.running_max = running_max;
    limiter_limit(o->limiter, LIMITER_ORIGIN, o->turns, host);
}

/* Domains of one host share what the one that wants most may have. */
static void host_limit_raise(struct origin *o, unsigned wanted)
{
    if (wanted > limiter_limits_of(o->limiter, LIMITER_ORIGIN, o->turns).running_max)
        host_limit(o, wanted);
}

/* Words have a host of their own to the limiter, so that they wait for no renders. */
static void turns_set(struct origin *o)
{
    static const char *const kinds[TURNS] = { "render", "transform", "meta", "siteinfo", "word" };
    at_set(o);
    (void)snprintf(o->at_words, sizeof o->at_words, "words of %s", o->at); /* fits */
    for (unsigned i = 0; i < TURNS; i++)
        o->turns[i] = (struct limiter_key){ .origin = str_of(i == TURN_WORD ? o->at_words : o->at),
                                            .domain = str_take(str_of(o->opts.domain),
                                                               LIMITER_NAME_BYTES_MAX),
                                            .kind = str_of(kinds[i]) };
    host_limit_raise(o, kinds_limit(o));
}

/* Sets for each host the most that one of its domains wants; at the place of the first domain. */
static void hosts_limit(const struct origin_limit *all, size_t count, unsigned *most)
{
    struct map *firsts = map_new(0); /* hosts are of the options */
    for (size_t i = 0; i < count; i++) {
        str host = str_of(all[i].origin->at);
        unsigned *first = map_get(firsts, host), wanted = most[i];
        if (first == NULL)
            INVARIANT(map_put(firsts, host, &most[i]) == NULL);
        else if (wanted > *first)
            *first = wanted;
    }
    for (size_t i = 0; i < count; i++)
        if (map_get(firsts, str_of(all[i].origin->at)) == &most[i])
            host_limit(all[i].origin, most[i]);
    map_free(&firsts);
}

/* 0 leaves a limit as it is, but for concurrency and retries. */
static void limits_take(struct origin_opts *o, const struct origin_opts *from)
{
    o->concurrency = from->concurrency;
    o->retries = from->retries;
    if (from->timeout_ms != 0)
        o->timeout_ms = from->timeout_ms;
    if (from->siteinfo_ttl_ms != 0)
        o->siteinfo_ttl_ms = from->siteinfo_ttl_ms;
    if (from->reply_bytes_max != 0)
        o->reply_bytes_max = from->reply_bytes_max;
}

/* All at once: domains of one host share its limit, so the most that one wants is known only in the
 * end. */
void origins_limit(const struct origin_limit *all, size_t count)
{
    unsigned *most = calloc(count + 1, sizeof *most);
    INVARIANT(most != NULL);
    for (size_t i = 0; i < count; i++) {
        struct origin *o = all[i].origin;
        MAGIC_CHECK(o, ORIGIN_MAGIC);
        limits_take(&o->opts, all[i].opts);
        most[i] = kinds_limit(o);
        host_limit_raise(o, most[i]); /* each may have at once what it wants */
    }
    hosts_limit(all, count, most);
    free(most);
}

err origin_new(struct http_client *client, struct loop *loop, struct clock *clock,
               const struct origin_opts *opts, struct origin **out, struct err_note *note)
{
    const char *field;
    err e = origin_check(opts, &field, note);
    if (e != ERR_OK)
        return e;
    struct origin_opts o = origin_filled(opts);
    struct origin *origin = calloc(1, sizeof *origin);
    INVARIANT(origin != NULL);
    *origin = (struct origin){ .magic = ORIGIN_MAGIC,
                               .client = client,
                               .loop = loop,
                               .clock = clock,
                               .opts = o,
                               .limiter = http_client_limiter(client) };
    turns_set(origin);
    if (o.api != NULL)
        origin->site = site_new(origin);
    *out = origin;
    return ERR_OK;
}

/* No call of this origin is under way. */
void origin_free(struct origin **op)
{
    struct origin *o = *op;
    if (o == NULL)
        return;
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    site_free(&o->site);
    /* Limits of kinds end with the origin; those of the host may be others', too. */
    for (unsigned i = 0; i < TURNS; i++)
        limiter_limit(o->limiter, LIMITER_KIND, &o->turns[i], (struct limiter_limits){ 0 });
    meter_free(&o->meter);
    free((void *)(uintptr_t)o->opts.url);
    free((void *)(uintptr_t)o->opts.domain);
    free((void *)(uintptr_t)o->opts.authorization);
    free((void *)(uintptr_t)o->opts.api);
    o->magic = 0;
    free(o);
    *op = NULL;
}

const struct origin_opts *origin_opts_of(const struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    return &o->opts;
}

bool origin_has_api(const struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    return o->opts.api != NULL;
}

void origin_stats_get(struct origin *o, struct origin_stats *out)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    *out = (struct origin_stats){ .requests = atomic_load(&o->requests),
                                  .retries = atomic_load(&o->retries) };
    struct limiter_figures renders;
    limiter_figures_get(o->limiter, LIMITER_KIND, &o->turns[TURN_RENDER], &renders);
    out->making = renders.running;
    out->waiting = renders.waiting;
    meter_renders(o->meter, out->making, out->waiting);
}

/* One place stays free: what nobody waits for must not take the last. */
static bool has_room(struct limiter *l, enum limiter_level level, const struct limiter_key *key)
{
    struct limiter_figures now;
    limiter_figures_get(l, level, key, &now);
    unsigned max = limiter_limits_of(l, level, key).running_max;
    bool fits = max == 0 || (max == 1 ? now.running == 0 : now.running + 1 < max);
    return now.waiting == 0 && fits;
}

/* Of its own kind, and of its host together. */
bool origin_has_room(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    const struct limiter_key *key = &o->turns[TURN_RENDER];
    return has_room(o->limiter, LIMITER_KIND, key) && has_room(o->limiter, LIMITER_ORIGIN, key);
}

void origin_measure(struct origin *o, struct origin_metrics *all, str domain)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    INVARIANT(o->meter == NULL);
    o->meter = meter_new(all, domain);
}

void origin_log(struct origin *o, struct log *log, str domain)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    o->log = log;
    o->log_domain = domain;
}

void origin_count_remembered(struct origin *o)
{
    MAGIC_CHECK(o, ORIGIN_MAGIC);
    meter_remembered(o->meter);
}

/* ---- addresses ---- */

/* Appends path, title and revision to base. */
static str put_page(struct arena *a, str base, const struct origin_page *p)
{
    str title = http_encode(a, p->title);
    if (title.p == NULL || base.p == NULL)
        return STR_NONE;
    if (title.n == 0)
        return arena_printf(a, "%.*s/%s", STR_ARG(base), p->path);
    if (p->rev == 0)
        return arena_printf(a, "%.*s/%s/%.*s", STR_ARG(base), p->path, STR_ARG(title));
    return arena_printf(a, "%.*s/%s/%.*s/%" PRIu64, STR_ARG(base), p->path, STR_ARG(title), p->rev);
}

str origin_parsoid_url(const struct origin *o, struct arena *a, const struct origin_page *p)
{
    return put_page(a, arena_printf(a, "%s/%s/v3", o->opts.url, o->opts.domain), p);
}

str origin_core_url(const struct origin *o, struct arena *a, const struct origin_page *p)
{
    return put_page(a, arena_printf(a, "%s/v1", o->opts.url), p);
}

str origin_rest_url(const struct origin *o, struct arena *a, uint64_t rev, const char *tail)
{
    return arena_printf(a, "%s/v1/revision/%" PRIu64 "%s", o->opts.url, rev, tail);
}

/* A template without a revision loses the slash before {rev}. */
static void put_name(struct buf *b, const struct origin *o, size_t name, str title, uint64_t rev)
{
    if (name == NAME_DOMAIN)
        buf_put(b, str_of(o->opts.domain));
    else if (name == NAME_TITLE)
        buf_put(b, title);
    else if (rev != 0)
        buf_printf(b, "%" PRIu64, rev);
    else if (b->n > 0 && b->p[b->n - 1] == '/')
        b->n--;
}

str origin_template_url(const struct origin *o, struct arena *a, const struct origin_page *p)
{
    str title = http_encode(a, p->title);
    if (title.p == NULL)
        return STR_NONE;
    struct buf b;
    /* Each name may stand there more than once. */
    buf_init(&b, (size_t)4 * ORIGIN_URL_BYTES_MAX + title.n * 8);
    for (str s = str_of(o->opts.url); s.n > 0;) {
        size_t i = s.p[0] == '{' ? name_at(s) : COUNT_OF(names);
        if (i == COUNT_OF(names)) {
            buf_put_c(&b, s.p[0]);
            s = str_skip(s, 1);
            continue;
        }
        put_name(&b, o, i, title, p->rev);
        s = str_skip(s, strlen(names[i]));
    }
    return buf_take(&b, a);
}

/* A POST: the body is empty, and the URL has it all. */
str origin_purge_url(const struct origin *o, struct arena *a, str title)
{
    char join = strchr(o->opts.api, '?') == NULL ? '?' : '&';
    str encoded = http_encode(a, title);
    if (encoded.p == NULL)
        return STR_NONE;
    /* U+001F first: a | is not a second title. */
    return arena_printf(a, "%s%caction=purge&format=json&formatversion=2&titles=%%1F%.*s",
                        o->opts.api, join, STR_ARG(encoded));
}

str origin_api_url(const struct origin *o, struct arena *a, str query)
{
    char join = strchr(o->opts.api, '?') == NULL ? '?' : '&';
    return arena_printf(a, "%s%c" ORIGIN_API_QUERY "%.*s", o->opts.api, join, STR_ARG(query));
}
