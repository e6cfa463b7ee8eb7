/* stage.c - a page service under test, and its wiki. */
#include "stage.h"

#include "base/log.h"
#include "bucket/pages.h"
#include "engine/store.h"
#include "flight/shared.h"
#include "loop/limiter.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "page/quota.h"
#include "page/tell.h"
#include "render/title_rules.h"
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
static struct home *real_loop, *real_pool;

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

/* ---- the wiki ---- */

enum { HELD_MAX = 8 };
struct origin {
    struct origin_opts opts;
    struct loop *loop;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct wiki_says says;
    const char *rules; /* as it says them */
    bool hold;
    unsigned asked, held_count;
    struct render_request *held[HELD_MAX];
    struct wiki_transforms transforms;
};

bool origin_has_api(const struct origin *o)
{
    (void)o;
    return true;
}

const struct origin_opts *origin_opts_of(const struct origin *o)
{
    return &o->opts;
}

void origin_count_remembered(struct origin *o)
{
    (void)o;
}

const struct limiter_key *render_source(const struct origin *o, enum render_want want)
{
    static const struct limiter_key key = { .origin = { "wiki", 4 } };
    (void)o;
    (void)want;
    return &key;
}

struct siteinfo *origin_siteinfo(struct origin *o)
{
    struct siteinfo *copy = NULL;
    pthread_mutex_lock(&o->lock);
    if (o->rules != NULL) /* what is given is let go by the caller */
        assert_int_equal(siteinfo_json_parse(str_of(o->rules), &copy, NULL), ERR_OK);
    pthread_mutex_unlock(&o->lock);
    return copy;
}

static void rules_told(void *ctx)
{
    struct siteinfo_waiter *w = ctx;
    struct wiki_transforms *t = &w->origin->transforms;
    struct siteinfo *s = origin_siteinfo(w->origin);
    if (s != NULL && t->has == TRANSFORMS_UNKNOWN)
        t->has = t->told;
    const struct err_note note = { .text = "no rules" };
    enum render_why why = s != NULL ? RENDER_FINE : RENDER_FAILED;
    siteinfo_unref(&s);
    w->got(w, why, &note);
}

void origin_siteinfo_wait(struct origin *o, struct siteinfo_waiter *w)
{
    w->origin = o;
    loop_post(o->loop, rules_told, w);
}

void wiki_rules(struct stage *s, const char *json)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->rules = json;
    pthread_mutex_unlock(&o->lock);
}

static void fill_render(struct render_request *r, const struct wiki_says *says)
{
    const char *type = says->type != NULL ? says->type : "text/html; charset=utf-8";
    r->meta = (struct render_meta){ .title = r->title,
                                    .rev = r->rev != 0 ? r->rev : says->rev,
                                    .last_rev = says->rev };
    r->user_id = says->user_id;
    if (r->want == WANT_META || r->want == WANT_USER)
        return;
    r->contents[0] =
        (struct render_content){ .name = STR("html"),
                                 .headers = arena_printf(r->arena, "content-type: %s\n", type),
                                 .raw = arena_copy(r->arena, str_of(says->html)) };
    r->contents_count = 1;
    if (says->redirect != NULL)
        r->redirect_to = str_of(says->redirect);
}

struct answer_task {
    struct task task;
    struct render_request *r;
    struct wiki_says says;
};

static void text_run(struct task *t)
{
    struct answer_task *a = CONTAINER_OF(t, struct answer_task, task);
    struct render_request *r = a->r;
    fill_render(r, &a->says);
    free(a);
    r->parsed(r, RENDER_FINE);
}

static void words_run(struct task *t)
{
    struct answer_task *a = CONTAINER_OF(t, struct answer_task, task);
    struct render_request *r = a->r;
    enum render_why why = a->says.why;
    if (why == RENDER_OTHER_TITLE)
        r->meta.title = str_of(a->says.title);
    if (why == RENDER_FINE)
        fill_render(r, &a->says);
    free(a);
    r->done(r, why);
}

static void wiki_answer(struct origin *o, struct render_request *r, struct wiki_says says)
{
    struct answer_task *a = calloc(1, sizeof *a);
    assert_non_null(a);
    bool text = says.why == RENDER_FINE && r->want != WANT_META && r->want != WANT_USER;
    *a = (struct answer_task){ .task.run = text ? text_run : words_run, .r = r, .says = says };
    home_post(text ? loop_pool(o->loop) : loop_home(o->loop), &a->task);
}

void render_start(struct render_request *r)
{
    struct origin *o = r->origin;
    pthread_mutex_lock(&o->lock);
    o->asked++;
    bool hold = o->hold;
    struct wiki_says says = o->says;
    if (hold) {
        assert_true(o->held_count < HELD_MAX);
        o->held[o->held_count++] = r;
    }
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    r->contents_count = 0;
    r->retry_after_s = 7;
    r->redirect_to = r->redirect_fragment = STR("");
    err_note_set(&r->note, "the wiki says so");
    if (!hold)
        wiki_answer(o, r, says);
}

void render_cancel(struct render_request *r)
{
    struct origin *o = r->origin;
    bool found = false;
    pthread_mutex_lock(&o->lock);
    for (unsigned i = 0; i < o->held_count && !found; i++) {
        found = o->held[i] == r;
        if (found)
            o->held[i] = o->held[--o->held_count];
    }
    pthread_mutex_unlock(&o->lock);
    if (found)
        wiki_answer(o, r, (struct wiki_says){ .why = RENDER_CANCELED });
}

void wiki_say(struct stage *s, struct wiki_says says)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->says = says;
    pthread_mutex_unlock(&o->lock);
}

void wiki_hold(struct stage *s, bool hold)
{
    struct origin *o = s->origin;
    pthread_mutex_lock(&o->lock);
    o->hold = hold;
    unsigned count = hold ? 0 : o->held_count;
    o->held_count -= count;
    struct wiki_says says = o->says;
    pthread_mutex_unlock(&o->lock);
    for (unsigned i = 0; i < count; i++)
        wiki_answer(o, o->held[i], says);
}

unsigned wiki_asked(struct stage *s)
{
    pthread_mutex_lock(&s->origin->lock);
    unsigned n = s->origin->asked;
    pthread_mutex_unlock(&s->origin->lock);
    return n;
}

void wiki_wait(struct stage *s, unsigned asked)
{
    pthread_mutex_lock(&s->origin->lock);
    while (s->origin->asked < asked)
        wait_change(&s->origin->changed, &s->origin->lock, "the wiki is asked");
    pthread_mutex_unlock(&s->origin->lock);
}

/* ---- its transforms ---- */

void wiki_kind(struct stage *s, enum origin_kind kind)
{
    s->origin->opts.kind = kind;
}

struct wiki_transforms *wiki_transforms(struct stage *s)
{
    return &s->origin->transforms;
}

enum origin_transforms origin_transforms(struct origin *o)
{
    return o->transforms.has;
}

static void transform_answer(void *ctx)
{
    struct transform_request *t = ctx;
    const struct wiki_transforms *says = &t->origin->transforms;
    t->status = says->status;
    t->content_type = str_of(says->type);
    t->reply = str_of(says->reply);
    t->retry_after_s = 7;
    err_note_set(&t->note, "the wiki says so");
    t->done(t, says->why);
}

void transform_start(struct transform_request *t)
{
    struct origin *o = t->origin;
    struct wiki_transforms *w = &o->transforms;
    pthread_mutex_lock(&o->lock);
    o->asked++;
    w->from = t->from;
    w->to = t->to;
    w->rev = t->rev;
    (void)snprintf(w->body, sizeof w->body, "%.*s", STR_ARG(t->body));
    (void)snprintf(w->cookie, sizeof w->cookie, "%.*s", STR_ARG(t->cookie));
    bool answers = w->reply != NULL;
    pthread_cond_broadcast(&o->changed);
    pthread_mutex_unlock(&o->lock);
    if (answers)
        loop_post(o->loop, transform_answer, t);
}

static void transform_canceled(void *ctx)
{
    struct transform_request *t = ctx;
    t->done(t, RENDER_CANCELED);
}

void transform_cancel(struct transform_request *t)
{
    loop_post(t->origin->loop, transform_canceled, t);
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

void stage_begin(struct stage *s, bool has_redis)
{
    memset(s, 0, sizeof *s);
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
    s->domains[0].failures = s->failures;
    s->service.loop = s->loop;
    s->service.clock = clock;
    s->service.log = s->log;
    s->service.arena_bytes_max = 1 << 20;
    s->service.write_timeout_ms = 60000;
    s->service.shape_free = free;
    flights_open(s, has_redis);
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

/* Again and again on the loop until all is idle, and a turn more. */
static void end_step(void *ctx)
{
    struct stage *s = ctx;
    bool idle = flights_idle(s->service.flights);
    if (!idle || !s->was_idle) {
        s->was_idle = idle;
        loop_post(s->loop, end_step, s);
        return;
    }
    flights_free(&s->service.flights);
    if (s->service.shared != NULL)
        flight_shared_stop(s->service.shared);
    loop_stop(s->loop);
}

void stage_end(struct stage *s)
{
    struct bare_worker *w = &s->worker;
    pthread_mutex_lock(&w->lock);
    w->stopping = true;
    pthread_cond_signal(&w->posted);
    pthread_mutex_unlock(&w->lock);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    flights_drain(s->service.flights);
    loop_post(s->loop, end_step, s);
    assert_int_equal(pthread_join(s->loop_thread, NULL), 0);
    bool had_redis = s->service.shared != NULL;
    flight_shared_free(&s->service.shared);
    loop_free(&s->loop);
    engine_close(&s->engine);
    pages_free(&s->pages);
    page_changes_free(&s->service.changes);
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
