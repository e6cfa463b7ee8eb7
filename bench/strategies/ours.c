/* ours.c - pages of src/cassandra: each lookup and put loads the facts of its title and derives it;
 * bytes are packed, and culled by the title's upkeep. A lookup that names a render which may not
 * last long enough extends its life first, as page/get.c does.
 *
 * Each worker has SERVERS servers with a clock that is set before each call. */
#include "strategies/strategies.h"

#include "cassandra/pages.h"
#include "cassandra/schema.h"
#include "loop/loop.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>

enum { ARENA_BYTES_MAX = 64 << 20, SCHEMA_TIMEOUT_MS = 60000 };
#define SKEW_NS (500 * NS_PER_MS)
#define WRITE_TIMEOUT_NS (10 * NS_PER_S)

static const char *const content_names[CONTENTS] = { "html", "data-parsoid", "section-offsets" };

struct server {
    struct clock clock;
    struct clock *machine;
    _Atomic int64_t now_ns;
    struct cassandra_pages *pages;
    struct page_bucket *bucket;
};
struct ours {
    struct databases *all;
    struct titles *titles;
    struct page_bucket_opts bucket;
    struct server servers[SERVERS];
};

struct waiter {
    pthread_mutex_t lock;
    pthread_cond_t turned;
    bool over;
};

static void fail(const char *what, err why, const char *note)
{
    fprintf(stderr, "cql_strategies: %s: %s %s\n", what, err_name(why), note);
    exit(1);
}

static void waiter_init(struct waiter *w)
{
    INVARIANT(pthread_mutex_init(&w->lock, NULL) == 0);
    INVARIANT(pthread_cond_init(&w->turned, NULL) == 0);
    w->over = false;
}

static void waiter_tell(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    w->over = true;
    INVARIANT(pthread_cond_signal(&w->turned) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
}

static void waiter_wait(struct waiter *w)
{
    INVARIANT(pthread_mutex_lock(&w->lock) == 0);
    while (!w->over) /* each request of the client has a deadline */
        INVARIANT(pthread_cond_wait(&w->turned, &w->lock) == 0);
    INVARIANT(pthread_mutex_unlock(&w->lock) == 0);
    INVARIANT(pthread_cond_destroy(&w->turned) == 0);
    INVARIANT(pthread_mutex_destroy(&w->lock) == 0);
}

/* ---- a server ---- */

static store_time server_store(struct clock *c)
{
    return (store_time){ .ns = atomic_load(&CONTAINER_OF(c, struct server, clock)->now_ns) };
}

static wall server_wall(struct clock *c)
{
    return (wall){ .ns = server_store(c).ns };
}

static mono server_mono(struct clock *c)
{
    return clock_mono(CONTAINER_OF(c, struct server, clock)->machine);
}

static void server_init(struct ours *o, struct server *v, uint32_t srv)
{
    struct err_note note = { .text = "" };
    v->clock = (struct clock){ server_store, server_mono, server_wall };
    v->machine = databases_clock(o->all);
    const struct cassandra_pages_opts opts = { .titles = o->titles,
                                               .clock = &v->clock,
                                               .srv = srv,
                                               .max_skew_ns = SKEW_NS,
                                               .write_timeout_ns = WRITE_TIMEOUT_NS,
                                               .buckets = &o->bucket,
                                               .buckets_count = 1 };
    v->pages = cassandra_pages_new(&opts, &note);
    if (v->pages == NULL)
        fail("pages", ERR_BAD, note.text);
    v->bucket = cassandra_pages_bucket(v->pages, STR("page"));
}

void ours_init(struct strategy *s, struct databases *ds, unsigned worker)
{
    struct err_note note = { .text = "" };
    struct ours *o = calloc(1, sizeof *o);
    INVARIANT(o != NULL);
    o->all = ds;
    o->titles =
        titles_new(database_client(s->db), database_keyspace(s->db), databases_clock(ds), &note);
    if (o->titles == NULL)
        fail("titles", ERR_BAD, note.text);
    o->bucket = (struct page_bucket_opts){ .name = "page",
                                           .policy = { .kind = POLICY_APP_TTL,
                                                       .grace_ttl_ns = s->grace_ttl_ns,
                                                       .historical_ttl_ns = s->grace_ttl_ns,
                                                       .stash_ttl_ns = s->grace_ttl_ns,
                                                       .ledger_ttl_ns = 30 * s->grace_ttl_ns },
                                           .codec = PAGE_GZIP };
    for (unsigned i = 0; i < SERVERS; i++)
        server_init(o, &o->servers[i], worker * SERVERS + i + 1);
    s->ours = o;
}

void ours_fini(struct strategy *s)
{
    struct ours *o = s->ours;
    if (o == NULL)
        return;
    for (unsigned i = 0; i < SERVERS; i++)
        cassandra_pages_free(&o->servers[i].pages);
    titles_free(&o->titles);
    free(o);
    s->ours = NULL;
}

static struct server *server_at(struct strategy *s, unsigned which, store_time now)
{
    struct server *v = &s->ours->servers[which];
    atomic_store(&v->now_ns, now.ns);
    return v;
}

static uint32_t domain_of(struct server *v, str name)
{
    uint32_t domain;
    INVARIANT(cassandra_pages_domain(v->pages, name, &domain) == ERR_OK);
    return domain;
}

/* ---- tables ---- */

struct making {
    struct strategy *s;
    struct waiter waiter;
    err why;
    char note[ERR_NOTE_BYTES];
};

static void schema_told(void *ctx, err why, const struct schema_found *found,
                        const struct err_note *note)
{
    struct making *m = ctx;
    (void)found;
    m->why = why;
    (void)snprintf(m->note, sizeof m->note, "%s", note->text);
    waiter_tell(&m->waiter);
}

static void schema_run(void *ctx)
{
    struct making *m = ctx;
    struct clock *clock = databases_clock(m->s->ours->all);
    const struct schema_opts o = { .client = database_client(m->s->db),
                                   .clock = clock,
                                   .keyspace = database_keyspace(m->s->db),
                                   /* Not taken: the keyspace is there. */
                                   .replication =
                                       "{'class': 'SimpleStrategy', 'replication_factor': 1}",
                                   .deadline = mono_add_ms(clock_mono(clock), SCHEMA_TIMEOUT_MS) };
    schema_apply(&o, schema_told, m);
}

static void ours_tables(struct strategy *s)
{
    struct making m = { .s = s };
    waiter_init(&m.waiter);
    loop_post(databases_loop(s->ours->all), schema_run, &m);
    waiter_wait(&m.waiter);
    if (m.why != ERR_OK)
        fail("the schema", m.why, m.note);
    static const char *const tables[] = { "title", "body" };
    for (unsigned i = 0; i < COUNT_OF(tables); i++) {
        char text[200];
        (void)snprintf(text, sizeof text,
                       "ALTER TABLE %%s.%s WITH compaction = "
                       "{'class': 'LeveledCompactionStrategy', 'enabled': 'false'}",
                       tables[i]);
        database_ddl(s->db, text, 0);
    }
}

/* ---- calls ---- */

static struct store_call call_make(struct waiter *w, void (*done)(struct store_call *c))
{
    waiter_init(w);
    return (struct store_call){ .home = home_here(), .done = done };
}

static void call_wait(struct waiter *w, enum store_start start)
{
    if (start == STORE_DONE)
        waiter_tell(w);
    waiter_wait(w);
}

struct put_call {
    struct waiter waiter;
    struct page_put put;
};

static void put_told(struct store_call *c)
{
    struct page_put *p = CONTAINER_OF(c, struct page_put, call);
    waiter_tell(&CONTAINER_OF(p, struct put_call, put)->waiter);
}

static void put(struct strategy *s, const struct render *r, bool asked, store_time now)
{
    struct server *v = server_at(s, r->server, now);
    struct arena a;
    struct put_call p;
    arena_init(&a, ARENA_BYTES_MAX);
    p.put = (struct page_put){ .call = call_make(&p.waiter, put_told),
                               .bucket = v->bucket,
                               .domain = domain_of(v, r->domain),
                               .title = r->title,
                               .rev = r->name.rev,
                               .has_tid = true,
                               .tid = r->name.tid,
                               .asked = asked,
                               .contents_count = CONTENTS,
                               .arena = &a };
    for (unsigned i = 0; i < CONTENTS; i++)
        p.put.contents[i] = (struct page_put_content){ .name = str_of(content_names[i]),
                                                       .headers = STR("content-type: text/html\n"),
                                                       .raw = r->contents[i] };
    call_wait(&p.waiter, cassandra_pages_put(v->pages, &p.put));
    if (p.put.call.why != ERR_OK)
        fail("a put", p.put.call.why, p.put.note.text);
    arena_fini(&a);
}

static void ours_put(struct strategy *s, const struct render *r, store_time now)
{
    put(s, r, false, now);
}

static void ours_keep(struct strategy *s, const struct render *r, store_time now)
{
    put(s, r, true, now);
}

struct cull_call {
    struct waiter waiter;
    struct cassandra_cull cull;
};

static void cull_told(struct store_call *c)
{
    struct cassandra_cull *u = CONTAINER_OF(c, struct cassandra_cull, call);
    waiter_tell(&CONTAINER_OF(u, struct cull_call, cull)->waiter);
}

static void ours_cull(struct strategy *s, const struct render *r, store_time now)
{
    struct server *v = server_at(s, r->server, now);
    struct cull_call c;
    c.cull = (struct cassandra_cull){ .call = call_make(&c.waiter, cull_told),
                                      .bucket = v->bucket,
                                      .domain = domain_of(v, r->domain),
                                      .title = r->title };
    call_wait(&c.waiter, cassandra_pages_cull(v->pages, &c.cull));
    if (c.cull.call.why != ERR_OK)
        fail("a cull", c.cull.call.why, c.cull.note.text);
}

struct order_call {
    struct waiter waiter;
    struct page_order order;
};

static void order_told(struct store_call *c)
{
    struct page_order *o = CONTAINER_OF(c, struct page_order, call);
    waiter_tell(&CONTAINER_OF(o, struct order_call, order)->waiter);
}

static void extend(struct strategy *s, const struct lookup *l, struct page_name name,
                   store_time now)
{
    struct server *v = server_at(s, 0, now);
    struct order_call o;
    o.order = (struct page_order){ .call = call_make(&o.waiter, order_told),
                                   .bucket = v->bucket,
                                   .kind = ORDER_EXTEND,
                                   .domain = domain_of(v, l->domain),
                                   .title = l->title,
                                   .has_rev = true,
                                   .has_tid = true,
                                   .name = name };
    call_wait(&o.waiter, cassandra_pages_order(v->pages, &o.order));
    if (o.order.call.why != ERR_OK)
        fail("an extension", o.order.call.why, o.order.note.text);
}

struct read_call {
    struct waiter waiter;
    struct page_read read;
};

static void read_told(struct store_call *c)
{
    struct page_read *r = CONTAINER_OF(c, struct page_read, call);
    waiter_tell(&CONTAINER_OF(r, struct read_call, read)->waiter);
}

static bool ours_get(struct strategy *s, struct lookup *l, store_time now)
{
    struct server *v = server_at(s, 0, now);
    struct arena a;
    struct read_call r;
    arena_init(&a, ARENA_BYTES_MAX);
    r.read = (struct page_read){ .call = call_make(&r.waiter, read_told),
                                 .bucket = v->bucket,
                                 .which = { .domain = domain_of(v, l->domain),
                                            .title = l->title,
                                            .select = l->select,
                                            .name = l->name },
                                 .arena = &a,
                                 .wanted_count = 1,
                                 .wanted = { str_of(content_names[l->content]) } };
    call_wait(&r.waiter, cassandra_pages_read(v->pages, &r.read));
    err why = r.read.call.why;
    if (why != ERR_OK && why != ERR_NOT_FOUND && why != ERR_GONE)
        fail("a lookup", why, "");
    if (why == ERR_OK) {
        str raw;
        err unpacked = page_body_raw(&r.read.bodies[0], &a, &raw);
        if (unpacked != ERR_OK)
            fail("a body", unpacked, "");
        if (l->select != SELECT_LATEST && store_time_before(r.read.lasts_until, now))
            extend(s, l, r.read.render.name, now);
        lookup_take(l, r.read.render.name, raw);
    }
    arena_fini(&a);
    return why == ERR_OK;
}

static const char *const ours_counts[] = {
    "SELECT COUNT(*) FROM %s.body WHERE content = 'html' ALLOW FILTERING", NULL
};
static void ours_statements(struct strategy *s)
{
    (void)s; /* titles_new has registered them */
}
const struct strategy_kind ours_kind = { .name = "ours",
                                         .init = ours_statements,
                                         .tables = ours_tables,
                                         .put = ours_put,
                                         .get = ours_get,
                                         .keep = ours_keep,
                                         .cull = ours_cull,
                                         .counts = ours_counts };
