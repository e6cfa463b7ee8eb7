/* boot_secondary.c - the secondary of page.secondary: a client of its Cassandra on the server's
 * loop, and RESTBase's tables as a source of renders (page/secondary.h).
 *
 *   opened -> a node can be asked -> what the keyspaces' schemas say -> a reader: ready
 *                    ^                       \-> wrong, or no answer: once more, later
 *
 * A secondary that does not answer, or has other tables, is no error of the start: the server
 * serves without it, says so once a minute, and takes it up when it is there. Nothing but SELECT is
 * sent there. Thread: loop, but headers_read: any. */
#include "server/boot.h"

#include "base/log.h"
#include "base/metrics.h"
#include "cassandra/restbase.h"
#include "cql/cql.h"
#include "loop/entropy.h"
#include "loop/loop.h"
#include "page/content.h"
#include "page/secondary.h"
#include "server/cluster.h"

#include <stdlib.h>
#include <string.h>

enum {
    TICK_MS = 250,
    FIND_TIMEOUT_MS = 10000,
    FIND_PAUSE_MS = 2000,
    TELL_MS = 60000,
    PATIENCE_MS = 10000, /* so long a start may take before it is told */
};
_Static_assert((int)CONFIG_SECONDARY_TABLES_MAX == (int)RESTBASE_TABLES_MAX,
               "as many as a render has");
_Static_assert((int)SECONDARY_PARTS_MAX == (int)RESTBASE_TABLES_MAX, "as many as a render has");

struct server_secondary {
    struct secondary_source source;
    struct server *server;
    const struct config_secondary *config;
    struct cluster cluster;
    struct loop_timer *tick;
    struct metric *ready;
    str *there; /* what RESTBase calls each domain, in the service's order */
    const char *keyspaces[RESTBASE_TABLES_MAX];
    struct restbase_find find;
    bool finding;
    mono find_at, tell_at;
    struct err_note why; /* the last find failed so; empty: none has */
    struct restbase_table tables[RESTBASE_TABLES_MAX];
    unsigned tables_count;
    struct restbase *reader; /* NULL: the tables are not known yet */
};

/* ---- the source ---- */

static struct server_secondary *of_source(struct secondary_source *s)
{
    return CONTAINER_OF(s, struct server_secondary, source);
}

static bool is_ready(const struct server_secondary *k)
{
    return k->reader != NULL && cql_is_ready(k->cluster.client);
}

static bool source_ready(struct secondary_source *s)
{
    return is_ready(of_source(s));
}

static void parts_take(const struct server_secondary *k, const struct restbase_render *found,
                       struct secondary_read *r)
{
    r->name = (struct page_name){ .rev = found->rev, .tid = found->tid };
    r->newest = found->newest;
    for (unsigned i = 0; i < k->tables_count; i++) {
        const struct restbase_part *p = &found->parts[i];
        if (p->there)
            r->parts[r->parts_count++] =
                (struct secondary_part){ .content = str_of(k->tables[i].content),
                                         .json = k->tables[i].json,
                                         .value = p->value,
                                         .headers = p->headers,
                                         .type = p->type };
    }
}

/* Too large for an answer is too large for us. */
static void boot_secondary_looked(struct restbase_look *l, void *ctx)
{
    struct secondary_read *r = ctx;
    const struct restbase_render *found = NULL;
    r->own = l;
    r->why = restbase_look_end(l, &found, &r->note);
    if (r->why == ERR_LIMIT) {
        r->why = ERR_CORRUPT;
    } else if (r->why == ERR_CORRUPT) { /* no row, but an answer that makes no sense */
        r->why = ERR_UNAVAILABLE;
    } else if (r->why == ERR_OK && found->unfit != NULL) {
        r->why = ERR_CORRUPT;
        r->name.rev = found->rev;
        err_note_set(&r->note, "%s", found->unfit);
    } else if (r->why == ERR_OK) {
        parts_take(of_source(r->source), found, r);
    }
    r->done(r);
}

static bool source_start(struct secondary_source *s, struct secondary_read *r)
{
    static const enum restbase_select selects[] = { [SELECT_LATEST] = RESTBASE_LATEST,
                                                    [SELECT_REV] = RESTBASE_OF_REV,
                                                    [SELECT_EXACT] = RESTBASE_EXACT };
    struct server_secondary *k = of_source(s);
    INVARIANT(k->reader != NULL);
    INVARIANT((size_t)r->select < COUNT_OF(selects));
    r->source = s;
    r->own = restbase_look_start(
        &(struct restbase_look_opts){ .reader = k->reader,
                                      .domain = k->there[r->domain - k->server->app.page.domains],
                                      .title = r->title,
                                      .select = selects[r->select],
                                      .rev = r->name.rev,
                                      .tid = r->name.tid,
                                      .deadline = r->deadline,
                                      .done = boot_secondary_looked,
                                      .ctx = r });
    if (r->own == NULL)
        r->why = ERR_NOT_FOUND; /* no such revision fits into the tables */
    return r->own != NULL;
}

static void source_cancel(struct secondary_source *s, struct secondary_read *r)
{
    (void)s;
    restbase_look_cancel(r->own);
}

static void source_release(struct secondary_source *s, struct secondary_read *r)
{
    (void)s;
    struct restbase_look *l = r->own;
    restbase_look_free(&l);
    r->own = NULL;
}

static err headers_read(struct arena *a, str text, struct http_pair *out, unsigned max,
                        unsigned *count)
{
    struct restbase_header headers[RESTBASE_HEADERS_MAX];
    unsigned n = 0;
    err why = restbase_headers_read(a, text, headers, &n);
    *count = n < max ? n : max;
    for (unsigned i = 0; why == ERR_OK && i < *count; i++)
        out[i] = (struct http_pair){ .name = headers[i].name, .value = headers[i].value };
    return why;
}

/* ---- its tables ---- */

static void tell_unready(struct server_secondary *k, const char *why)
{
    mono now = clock_mono(k->server->app.clock);
    if (now.ns < k->tell_at.ns)
        return;
    k->tell_at = mono_add_ms(now, TELL_MS);
    log_event(k->server->app.log, LOG_WARN, "secondary.unready", LOG_CSTR("why", why),
              LOG_CSTR("what", "nothing is taken from page.secondary until it answers"));
}

/* Are they what can be read here? The note says what they are not. */
static err tables_take(struct server_secondary *k, struct err_note *note)
{
    const struct config_secondary *c = k->config;
    INVARIANT(k->find.count == c->tables_count); /* each was named */
    for (unsigned i = 0; i < c->tables_count; i++) {
        struct restbase_table *t = &k->tables[i];
        *t = k->find.tables[i];
        if (c->tables[i].content[0] != '\0')
            (void)str_to_cstr(str_of(c->tables[i].content), t->content, sizeof t->content);
        bool fine = page_content_is_fine(str_of(t->content));
        for (unsigned j = 0; j < i; j++)
            fine = fine && strcmp(k->tables[j].content, t->content) != 0;
        if (!fine)
            return err_bad(note,
                           "\"%s\" of keyspace %s is no name for a content, or another's: name it "
                           "in page.secondary.keyspaces, CONTENT=%s",
                           t->content, t->keyspace, t->keyspace);
    }
    k->tables_count = c->tables_count;
    return restbase_can_look(k->tables, k->tables_count)
               ? ERR_OK
               : err_bad(note, "keyspace %s has revisions that are texts: use import restbase",
                         k->tables[0].keyspace);
}

static void found(struct restbase_find *f)
{
    struct server_secondary *k = f->ctx;
    k->finding = false;
    k->find_at = mono_add_ms(clock_mono(k->server->app.clock), FIND_PAUSE_MS);
    err why = f->why;
    if (why == ERR_OK)
        why = tables_take(k, &k->why);
    else
        k->why = f->note;
    if (why == ERR_OK) {
        const struct restbase_opts opts = { .client = k->cluster.client,
                                            .clock = k->server->app.clock,
                                            .tables = k->tables,
                                            .tables_count = k->tables_count,
                                            .timeout_ms = k->config->timeout_ms };
        k->reader = restbase_new(&opts, &k->why);
    }
    if (k->reader == NULL && f->why != ERR_SHUTDOWN)
        tell_unready(k, k->why.text);
    else if (k->reader != NULL)
        log_event(k->server->app.log, LOG_INFO, "secondary.ready",
                  LOG_INT("tables", k->tables_count));
}

static void find_begin(struct server_secondary *k)
{
    mono now = clock_mono(k->server->app.clock);
    k->finding = true;
    k->find = (struct restbase_find){ .client = k->cluster.client,
                                      .clock = k->server->app.clock,
                                      .deadline = mono_add_ms(now, FIND_TIMEOUT_MS),
                                      .keyspaces = k->keyspaces,
                                      .keyspaces_count = k->config->tables_count,
                                      .done = found,
                                      .ctx = k };
    restbase_find(&k->find);
}

static void tick_fired(void *ctx)
{
    struct server_secondary *k = ctx;
    bool asked = cql_is_ready(k->cluster.client);
    metric_set(k->ready, is_ready(k));
    if (!asked)
        tell_unready(k, "no node of its local data centre can be asked");
    else if (k->reader == NULL && !k->finding &&
             clock_mono(k->server->app.clock).ns >= k->find_at.ns)
        find_begin(k);
}

/* ---- opening and closing ---- */

static void domains_take(struct server_secondary *k)
{
    const struct page_service *page = &k->server->app.page;
    const struct config_secondary *c = k->config;
    k->there = calloc(page->domains_count, sizeof *k->there);
    INVARIANT(k->there != NULL);
    for (unsigned i = 0; i < page->domains_count; i++)
        k->there[i] = page->domains[i].name;
    for (size_t i = 0; i < c->domains_count; i++) {
        const struct page_domain *d = page_domain_find(page, str_of(c->domains[i].name));
        INVARIANT(d != NULL); /* options have seen to it */
        k->there[d - page->domains] = str_of(c->domains[i].there);
    }
}

err server_open_secondary(struct server *s, struct err_note *note)
{
    const struct config_secondary *c = &s->config->secondary;
    if (c->cluster.contact_points_count == 0)
        return ERR_OK;
    struct server_secondary *k = calloc(1, sizeof *k);
    INVARIANT(k != NULL);
    k->source = (struct secondary_source){ .ready = source_ready,
                                           .start = source_start,
                                           .cancel = source_cancel,
                                           .release = source_release,
                                           .headers = headers_read };
    k->server = s;
    k->config = c;
    k->tell_at = mono_add_ms(clock_mono(s->app.clock), PATIENCE_MS);
    for (unsigned i = 0; i < c->tables_count; i++)
        k->keyspaces[i] = c->tables[i].keyspace;
    s->secondary = k;
    domains_take(k);
    const struct cluster_opts o = { .config = &c->cluster,
                                    .section = "page.secondary",
                                    .loop = s->app.loop,
                                    .clock = s->app.clock,
                                    .log = s->app.log };
    err why = cluster_open(&k->cluster, &o, note);
    if (why != ERR_OK)
        return why;
    k->ready = metrics_one(s->app.metrics, METRIC_SECONDARY_READY);
    k->tick = loop_timer_new(s->app.loop, tick_fired, k);
    loop_timer_start(k->tick, 0, TICK_MS);
    s->app.page.secondary =
        page_secondary_new(&(struct page_secondary_opts){ .service = &s->app.page,
                                                          .source = &k->source,
                                                          .metrics = s->app.metrics,
                                                          .timeout_ms = c->timeout_ms,
                                                          .seed = entropy_u64() });
    return ERR_OK;
}

void server_close_secondary(struct server *s)
{
    struct server_secondary *k = s->secondary;
    if (k == NULL)
        return;
    if (k->tick != NULL)
        loop_timer_free(&k->tick);
    page_secondary_free(&s->app.page.secondary);
    cluster_close(&k->cluster); /* a find that is under way ends by it */
    restbase_free(&k->reader);
    free(k->there);
    free(k);
    s->secondary = NULL;
}
