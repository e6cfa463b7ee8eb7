/* stage.c - a page service under test. */
#include "stage_wiki.h"

#include "base/log.h"
#include "bucket/pages.h"
#include "engine/store.h"
#include "flight/shared.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "page/look.h"
#include "page/quota.h"
#include "page/remake.h"
#include "page/tell.h"
#include "sites.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FOREVER_MS ((int64_t)1000 * 3600)

/* ---- hand-overs ---- */

/* One stage at a time: the wrapped functions know no other. */
static atomic_uint hand_overs;
static pthread_t loop_thread;
static struct home *_Atomic real_loop, *_Atomic real_pool; /* set by any thread, to the same */

unsigned stage_hand_overs(void)
{
    return atomic_exchange(&hand_overs, 0);
}

struct home *__real_loop_home(struct loop *l);
struct home *__real_loop_pool(struct loop *l);
void __real_loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx);
struct home *__wrap_loop_home(struct loop *l);
struct home *__wrap_loop_pool(struct loop *l);
void __wrap_loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx);

static bool on_loop(void)
{
    return pthread_equal(pthread_self(), loop_thread) != 0;
}

static void post_to_loop(struct home *h, struct task *t)
{
    (void)h;
    if (!on_loop())
        atomic_fetch_add(&hand_overs, 1);
    home_post(real_loop, t);
}

static void post_to_pool(struct home *h, struct task *t)
{
    (void)h;
    atomic_fetch_add(&hand_overs, 1);
    home_post(real_pool, t);
}

static struct home counting_loop = { .post = post_to_loop },
                   counting_pool = { .post = post_to_pool };

struct home *__wrap_loop_home(struct loop *l)
{
    real_loop = __real_loop_home(l);
    return &counting_loop;
}

struct home *__wrap_loop_pool(struct loop *l)
{
    real_pool = __real_loop_pool(l);
    return &counting_pool;
}

void __wrap_loop_post(struct loop *l, void (*fn)(void *ctx), void *ctx)
{
    if (!on_loop())
        atomic_fetch_add(&hand_overs, 1);
    __real_loop_post(l, fn, ctx);
}

/* ---- the worker ---- */

static void worker_post(struct home *h, struct task *t)
{
    struct bare_worker *w = CONTAINER_OF(h, struct bare_worker, home);
    if (!pthread_equal(pthread_self(), w->thread))
        atomic_fetch_add(&hand_overs, 1);
    pthread_mutex_lock(&w->lock);
    (void)task_list_put(&w->tasks, t);
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
}

static void *worker_run(void *arg)
{
    struct bare_worker *w = arg;
    pthread_mutex_lock(&w->lock);
    for (;;) {
        struct task *t = task_list_take(&w->tasks);
        if (t == NULL && w->stopping)
            break;
        if (t == NULL) {
            pthread_cond_wait(&w->posted, &w->lock);
            continue;
        }
        pthread_mutex_unlock(&w->lock);
        t->run(t);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

/* ---- the store ---- */

static void on_changed(void *ctx, uint16_t bucket, uint32_t domain, str title)
{
    atomic_fetch_add(&hand_overs, 1); /* an update went to the committer's thread */
    page_changes_tell(ctx, bucket, domain, title);
}

static void store_open(struct stage *s)
{
    static const struct page_bucket_opts opts[] = {
        { .name = "page",
          .policy = { .kind = POLICY_APP_TTL,
                      .grace_ttl_ns = 100 * NS_PER_S,
                      .historical_ttl_ns = 3600 * NS_PER_S,
                      .stash_ttl_ns = 7200 * NS_PER_S,
                      .ledger_ttl_ns = 86400 * NS_PER_S },
          .codec = PAGE_GZIP },
        { .name = "_stash",
          .policy = { .kind = POLICY_TTL,
                      .ttl_ns = 7200 * NS_PER_S,
                      .stash_ttl_ns = 7200 * NS_PER_S,
                      .ledger_ttl_ns = 86400 * NS_PER_S },
          .codec = PAGE_GZIP },
    };
    struct engine_opts engine = { .dir = s->dir, .free_bytes_min = 1 };
    store_time greatest;
    struct err_note note = { "" };
    struct clock *clock = sysclock_clock(s->sysclock);
    assert_int_equal(engine_open(&engine, &s->engine, &greatest, &note), ERR_OK);
    sysclock_start(s->sysclock, greatest);
    assert_int_equal(engine_start(s->engine, clock, &note), ERR_OK);
    const struct pages_opts all = { s->engine, clock, 7, opts, COUNT_OF(opts) };
    assert_int_equal(pages_new(&all, &s->pages, &note), ERR_OK);
    struct page_service *p = &s->service;
    p->store = pages_store(s->pages);
    s->settings = (struct page_settings){ .bucket = page_store_bucket(p->store, STR("page")),
                                          .opts = &opts[0],
                                          .stale_if_error_ns = 3600 * NS_PER_S };
    p->previews = page_store_bucket(p->store, STR("_stash"));
    p->buckets = &s->settings;
    p->buckets_count = 1;
    for (unsigned i = 0; i < COUNT_OF(s->domains); i++) {
        struct page_domain *d = &s->domains[i];
        d->name = i == 0 ? STR("en.test") : STR("plain.test");
        assert_int_equal(page_store_domain(p->store, d->name, &d->number), ERR_OK);
    }
    p->domains = s->domains;
    p->domains_count = COUNT_OF(s->domains);
    p->changes = page_changes_new(1);
    p->quota = page_quota_new(100000, 7200 * NS_PER_S);
    const struct page_listener listener = { .changed = on_changed, .ctx = p->changes };
    page_store_listen(p->store, &listener);
}

/* ---- all of it ---- */

static void on_redis(void *ctx, bool up, bool fresh)
{
    struct stage *s = ctx;
    (void)fresh;
    pthread_mutex_lock(&s->origin->lock);
    s->ups += up;
    pthread_cond_broadcast(&s->origin->changed);
    pthread_mutex_unlock(&s->origin->lock);
}

static void on_dropped(void *ctx, const unsigned char *id)
{
    (void)ctx;
    (void)id;
}

static void on_told(void *ctx, str text)
{
    struct stage *s = ctx;
    page_told(&s->service, text);
}

static void flights_open(struct stage *s, bool has_redis)
{
    struct clock *clock = sysclock_clock(s->sysclock);
    struct flight_shared_opts shared = { .loop = s->loop,
                                         .clock = clock,
                                         .node = "node0",
                                         .seed = 1,
                                         .lease_ms = 30000,
                                         .redis_timeout_ms = 20000,
                                         .dropped = on_dropped,
                                         .told = on_told,
                                         .state = on_redis,
                                         .ctx = s,
                                         .address = { .host = "127.0.0.1",
                                                      .port = s->redis.port } };
    if (has_redis)
        s->service.shared = flight_shared_new(&shared);
    struct flight_opts f = { .loop = s->loop,
                             .clock = clock,
                             .seed = 1,
                             .shared = s->service.shared,
                             .make_timeout_ms = FOREVER_MS,
                             .error_base_ms = 1,
                             .error_max_ms = 1 };
    s->service.flights = flights_new(&f);
}

static void *loop_main(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void loop_reached(void *ctx)
{
    loop_thread = pthread_self();
    awaited_tell(ctx, ERR_OK);
}

/* Before the loop runs. */
static void checks_open(struct stage *s)
{
    s->domains[0].trust = (struct trust_rules){ .ttl_ns = 60 * NS_PER_S, .max_ns = 300 * NS_PER_S };
    s->domains[0].check_wait_ms = 100000;
    s->service.began = clock_store(s->service.clock);
    s->service.trust = page_trust_new(1000, 1);
    s->service.checks = page_checks_new(&s->service);
    s->service.looks = page_looks_new(&s->service, STAGE_RECHECK_NS, 1);
    s->service.remakes = page_remakes_new(&s->service, 1);
    s->origin->word = (struct wiki_word){ .state = WORDS_TITLE_THERE,
                                          .page_id = 3,
                                          .rev = 7,
                                          .touched_s = wiki_now(s->origin) - 100,
                                          .shown = WORDS_REVISION_SHOWN };
}

static void stage_open(struct stage *s, bool has_redis, bool checked);

void stage_begin(struct stage *s, bool has_redis)
{
    stage_open(s, has_redis, false);
}

void stage_begin_checked(struct stage *s)
{
    stage_open(s, false, true);
}

static void stage_open(struct stage *s, bool has_redis, bool checked)
{
    memset(s, 0, sizeof *s);
    s->checked = checked;
    folder_make(s->dir);
    if (has_redis)
        redis_server_start(&s->redis, 0, NULL);
    s->sysclock = sysclock_new();
    struct clock *clock = sysclock_clock(s->sysclock);
    s->log = log_new(2, LOG_ERROR, LOG_TEXT, clock);
    s->loop = loop_new(2);
    struct origin *o = s->origin = calloc(1, sizeof *o);
    assert_non_null(o);
    o->loop = s->loop;
    o->clock = clock;
    o->says = (struct wiki_says){ .rev = 7, .html = "<html><head></head>made" };
    o->rules = SITE_JSON("de");
    o->transforms = (struct wiki_transforms){
        .has = TRANSFORMS_HAD, .status = 200, .type = "text/plain", .reply = "reply"
    };
    pthread_mutex_init(&o->lock, NULL);
    pthread_cond_init(&o->changed, NULL);
    store_open(s);
    s->domains[0].origin = o;
    s->domains[0].busy_until_ns = &s->busy_until_ns;
    s->domains[0].closed = &s->closed;
    s->domains[0].failures = s->failures;
    s->service.loop = s->loop;
    s->service.clock = clock;
    s->service.log = s->log;
    s->service.arena_bytes_max = 1 << 20;
    s->service.write_timeout_ms = 60000;
    s->service.shape_free = free;
    flights_open(s, has_redis);
    if (checked)
        checks_open(s);
    pages_read_on(s->pages, loop_pool(s->loop));
    struct bare_worker *w = &s->worker;
    w->home.post = worker_post;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->posted, NULL);
    assert_int_equal(pthread_create(&s->loop_thread, NULL, loop_main, s->loop), 0);
    assert_int_equal(pthread_create(&w->thread, NULL, worker_run, w), 0);
    struct awaited here;
    awaited_init(&here);
    __real_loop_post(s->loop, loop_reached, &here);
    assert_int_equal(awaited_wait(&here), ERR_OK);
    awaited_fini(&here);
    pthread_mutex_lock(&o->lock);
    while (has_redis && s->ups == 0)
        wait_change(&o->changed, &o->lock, "Redis is there");
    pthread_mutex_unlock(&o->lock);
    (void)stage_hand_overs();
}

void stage_advance(struct stage *s, int64_t seconds)
{
    assert_int_equal(sysclock_advance(s->sysclock, seconds * NS_PER_S, NULL), ERR_OK);
}

/* Again and again on the loop until all is idle, and a turn more. */
static void end_step(void *ctx)
{
    struct stage *s = ctx;
    bool idle =
        flights_idle(s->service.flights) &&
        (!s->checked || (page_looks_idle(s->service.looks) && page_checks_idle(s->service.checks) &&
                         page_remakes_idle(s->service.remakes)));
    if (!idle || !s->was_idle) {
        s->was_idle = idle;
        loop_post(s->loop, end_step, s);
        return;
    }
    flights_free(&s->service.flights);
    page_looks_free(&s->service.looks);
    page_checks_free(&s->service.checks);
    page_remakes_free(&s->service.remakes);
    if (s->service.shared != NULL)
        flight_shared_stop(s->service.shared);
    loop_stop(s->loop);
}

static void checks_stop(void *ctx)
{
    struct stage *s = ctx;
    page_looks_stop(s->service.looks);
    page_remakes_stop(s->service.remakes);
    page_checks_stop(s->service.checks);
}

void stage_end(struct stage *s)
{
    struct bare_worker *w = &s->worker;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    if (s->checked)
        loop_post(s->loop, checks_stop, s);
    flights_drain(s->service.flights);
    loop_post(s->loop, end_step, s);
    assert_int_equal(pthread_join(s->loop_thread, NULL), 0);
    bool had_redis = s->service.shared != NULL;
    flight_shared_free(&s->service.shared);
    loop_free(&s->loop);
    engine_close(&s->engine);
    pages_free(&s->pages);
    page_changes_free(&s->service.changes);
    page_trust_free(&s->service.trust);
    page_quota_free(&s->service.quota);
    sysclock_free(&s->sysclock);
    log_free(&s->log);
    free(s->origin);
    if (had_redis)
        redis_server_end(&s->redis);
    folder_remove(s->dir);
}

/* ---- reads ---- */

static bool asked_wait_begins(struct page_get *g, enum page_wait what)
{
    struct asked *a = CONTAINER_OF(g, struct asked, get);
    if (what != WAIT_READ && a->drains)
        return false;
    if (what == WAIT_OTHERS) {
        g->deadline = mono_add_ms(clock_mono(g->service->clock), 120000);
        g->shape = a->wants_shape;
        if (a->before_wait != NULL)
            a->before_wait(a);
        a->before_wait = NULL;
    }
    return true;
}

static void asked_done(struct page_get *g)
{
    struct asked *a = CONTAINER_OF(g, struct asked, get);
    a->hand_overs = stage_hand_overs();
    if (a->offers != NULL && page_get_may_be_shape(g))
        a->offered = page_made_offer(g->made, (unsigned)g->shape, a->offers);
    bool has_body = g->outcome == GOT_CONTENT || g->outcome == GOT_PART;
    str body = has_body ? g->body : STR("");
    if (g->outcome == GOT_PART)
        body = str_take(str_skip(body, g->range.first), g->range.last - g->range.first + 1);
    if (g->outcome == GOT_SHAPE)
        body = str_of(g->shaped);
    (void)snprintf(a->body, sizeof a->body, "%.*s", STR_ARG(body));
    awaited_tell(&a->over, ERR_OK);
}

void asked_init(struct asked *a, struct stage *s, const char *title)
{
    memset(a, 0, sizeof *a);
    a->stage = s;
    a->wants_shape = -1;
    awaited_init(&a->over);
    arena_init(&a->arena, 1 << 20);
    a->get.service = &s->service;
    a->get.arena = &a->arena;
    a->get.home = &s->worker.home;
    a->get.target = (struct page_target){ .domain = &s->domains[0],
                                          .settings = &s->settings,
                                          .content = STR("html"),
                                          .title = str_of(title) };
    a->get.flags = GET_FOLLOW;
    a->get.wait = asked_wait_begins;
    a->get.done = asked_done;
}

static void asked_run(struct task *t)
{
    struct asked *a = CONTAINER_OF(t, struct asked, task);
    (void)stage_hand_overs(); /* how it came to its worker counts for nothing */
    page_get_start(&a->get);
}

void asked_start(struct asked *a)
{
    if (a->get.read.which.select == SELECT_LATEST)
        a->get.read.which = page_target_which(&a->get.target);
    a->task.run = asked_run;
    home_post(a->get.home, &a->task);
}

enum page_outcome asked_wait(struct asked *a)
{
    assert_int_equal(awaited_wait(&a->over), ERR_OK);
    return a->get.outcome;
}

void asked_fini(struct asked *a)
{
    awaited_fini(&a->over);
    arena_fini(&a->arena);
}

enum page_outcome ask(struct stage *s, const char *title, unsigned flags, char body[256])
{
    struct asked a;
    asked_init(&a, s, title);
    a.get.flags |= flags;
    asked_start(&a);
    enum page_outcome outcome = asked_wait(&a);
    if (body != NULL)
        memcpy(body, a.body, sizeof a.body);
    asked_fini(&a);
    return outcome;
}

/* ---- writes ---- */

struct written {
    struct page_put put;
    struct awaited over;
};

static void put_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct written, put.call)->over, c->why);
}

struct page_name stage_put(struct stage *s, const char *title, uint64_t rev, const char *text)
{
    return stage_put_bundle(s, title, rev, text, NULL);
}

struct page_name stage_put_bundle(struct stage *s, const char *title, uint64_t rev,
                                  const char *text, const char *parsoid)
{
    struct written w = { .put = {
                             .call = { .home = home_here(), .done = put_over },
                             .bucket = s->settings.bucket,
                             .domain = s->domains[0].number,
                             .title = str_of(title),
                             .rev = rev,
                             .contents_count = parsoid == NULL ? 1 : 2,
                             .contents = { { .name = STR("html"),
                                             .headers = STR("content-type: text/html\n"),
                                             .raw = str_of(text) },
                                           { .name = STR("data-parsoid"),
                                             .headers = STR("content-type: application/json\n"),
                                             .raw = str_of(parsoid) } } } };
    struct arena arena;
    arena_init(&arena, 1 << 20);
    w.put.arena = &arena;
    awaited_init(&w.over);
    if (page_store_put(s->service.store, &w.put) == STORE_LATER)
        assert_int_equal(awaited_wait(&w.over), ERR_OK);
    else
        assert_int_equal(w.put.call.why, ERR_OK);
    awaited_fini(&w.over);
    arena_fini(&arena);
    return w.put.stored;
}

struct ordered {
    struct page_order order;
    struct awaited over;
};

static void order_over(struct store_call *c)
{
    awaited_tell(&CONTAINER_OF(c, struct ordered, order.call)->over, c->why);
}

err stage_order(struct stage *s, struct page_order *o, const char *title)
{
    struct ordered w = { .order = *o };
    w.order.call = (struct store_call){ .home = home_here(), .done = order_over };
    w.order.bucket = s->settings.bucket;
    w.order.domain = s->domains[0].number;
    w.order.title = str_of(title);
    awaited_init(&w.over);
    err why = page_store_order(s->service.store, &w.order) == STORE_LATER ? awaited_wait(&w.over)
                                                                          : w.order.call.why;
    awaited_fini(&w.over);
    *o = w.order;
    return why;
}

static struct page_read look(struct stage *s, const char *title, uint64_t rev)
{
    struct arena arena;
    arena_init(&arena, 1 << 20);
    struct page_read r = { .bucket = s->settings.bucket,
                           .arena = &arena,
                           .heeds = true,
                           .which = { .domain = s->domains[0].number,
                                      .title = str_of(title),
                                      .select = rev == 0 ? SELECT_LATEST : SELECT_REV,
                                      .name = { .rev = rev } } };
    assert_int_equal(page_store_read(s->service.store, &r), STORE_DONE);
    arena_fini(&arena);
    return r;
}

err stage_look(struct stage *s, const char *title, uint64_t rev)
{
    return look(s, title, rev).call.why;
}

enum title_dated stage_dated(struct stage *s, const char *title)
{
    const struct page_read r = look(s, title, 0);
    assert_int_equal(r.call.why, ERR_OK);
    return r.dated;
}
