#include "stage.h"

#include "base/log.h"
#include "http/client.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "rogue.h"

#include "../cmocka_all.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { URL_BYTES = 64, BUCKETS = 5 };
#define FOREVER_MS ((int64_t)1000 * 3600 * 1000)

static const char *const params[] = { "user", "lang" };
static const char *const fields[] = { "link", "image" };

static void lock(struct world *w)
{
    assert_int_equal(pthread_mutex_lock(&w->lock), 0);
}

static void unlock(struct world *w)
{
    pthread_cond_broadcast(&w->changed);
    assert_int_equal(pthread_mutex_unlock(&w->lock), 0);
}

/* Under the lock, until it is so. */
static void wait_changed(struct world *w, const char *what)
{
    wait_change(&w->changed, &w->lock, what);
}

/* ---- the clock ---- */

static store_time shifted_store(struct clock *c)
{
    struct shifted *s = (struct shifted *)(void *)c;
    return store_time_add(clock_store(s->real), s->ns);
}

static mono shifted_mono(struct clock *c)
{
    struct shifted *s = (struct shifted *)(void *)c;
    return (mono){ clock_mono(s->real).ns + s->ns };
}

static wall shifted_wall(struct clock *c)
{
    struct shifted *s = (struct shifted *)(void *)c;
    return (wall){ clock_wall(s->real).ns + s->ns };
}

void stage_advance(struct world *w, int64_t ms)
{
    w->clock.ns += ms * NS_PER_MS;
}

/* ---- the generator ---- */

static void answer(int fd, int status, const char *text, unsigned number)
{
    char body[512], head[160];
    if (text == NULL) {
        (void)snprintf(body, sizeof body,
                       "[{\"link\":\"a%u\",\"image\":1},{\"link\":\"b%u\",\"image\":2},"
                       "{\"link\":\"c%u\",\"image\":3}]",
                       number, number, number);
        text = body;
    }
    (void)snprintf(head, sizeof head,
                   "HTTP/1.1 %d X\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n",
                   status, strlen(text));
    (void)(rogue_say(fd, head) && rogue_say(fd, text)); /* who asked may be gone */
}

static void play(struct rogue *r, int fd, unsigned nth)
{
    struct world *w = rogue_ctx(r);
    char *request = malloc(ROGUE_REQUEST_BYTES_MAX);
    bool cut = false;
    (void)nth;
    while (!cut && rogue_read(r, fd, request)) {
        lock(w);
        unsigned number = ++w->calls;
        (void)snprintf(w->request, sizeof w->request, "%.4000s", request);
        pthread_cond_broadcast(&w->changed);
        while (w->hold && !w->stopping && !(number < PASS_MAX && w->pass[number]))
            pthread_cond_wait(&w->changed, &w->lock);
        cut = w->cut || w->stopping;
        int status = w->status;
        const char *body = w->body;
        unlock(w);
        if (!cut)
            answer(fd, status, body, number);
    }
    free(request);
}

unsigned stage_calls(struct world *w)
{
    lock(w);
    unsigned n = w->calls;
    unlock(w);
    return n;
}

void stage_wait_calls(struct world *w, unsigned wanted)
{
    lock(w);
    while (w->calls < wanted)
        wait_changed(w, "calls of the generator");
    unlock(w);
}

void stage_wait_idle(struct world *w)
{
    for (unsigned i = 0; i < w->nodes_count; i++)
        WAIT_UNTIL(flights_idle(w->nodes[i].flights));
}

void stage_hold(struct world *w, bool hold)
{
    lock(w);
    w->hold = hold;
    unlock(w);
}

void stage_pass(struct world *w, unsigned call)
{
    assert_true(call < PASS_MAX);
    lock(w);
    w->pass[call] = true;
    unlock(w);
}

void stage_say(struct world *w, int status, const char *body)
{
    lock(w);
    w->status = status;
    w->body = body;
    unlock(w);
}

void stage_cut(struct world *w, bool cut)
{
    lock(w);
    w->cut = cut;
    unlock(w);
}

/* ---- the world ---- */

static void on_state(void *ctx, bool up, bool fresh)
{
    struct node *n = ctx;
    lists_redis(n->lists, up, fresh);
    lock(n->world);
    n->world->ups += up;
    unlock(n->world);
}

static void on_dropped(void *ctx, const unsigned char *id)
{
    struct node *n = ctx;
    lists_dropped(n->lists, id);
}

void stage_wait_ups(struct world *w, unsigned wanted)
{
    lock(w);
    while (w->ups < wanted)
        wait_changed(w, "Redis is there");
    unlock(w);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void node_begin(struct world *w, unsigned number, struct list_bucket_opts *buckets,
                       unsigned flights_max)
{
    buckets[3].size = number == 1 ? 1 : 3;
    struct node *n = &w->nodes[number];
    char name[16];
    n->world = w;
    (void)snprintf(name, sizeof name, "node%u", number);
    struct flight_shared_opts s = { .loop = w->loop,
                                    .clock = &w->clock.clock,
                                    .node = name,
                                    .seed = number + 1,
                                    .lease_ms = 30000,
                                    .redis_timeout_ms = 20000,
                                    .error_base_ms = 60000,
                                    .error_max_ms = 60000,
                                    .dropped = on_dropped,
                                    .state = on_state,
                                    .ctx = n,
                                    .address = { .host = "127.0.0.1", .port = w->redis.port } };
    if (w->has_redis)
        n->shared = flight_shared_new(&s);
    struct flight_opts f = { .loop = w->loop,
                             .clock = &w->clock.clock,
                             .seed = number,
                             .shared = n->shared,
                             .flights_max = flights_max,
                             .make_timeout_ms = FOREVER_MS,
                             .error_base_ms = 60000,
                             .error_max_ms = 60000 };
    n->flights = flights_new(&f);
    struct lists_opts l = { .loop = w->loop,
                            .clock = &w->clock.clock,
                            .client = w->client,
                            .flights = n->flights,
                            .shared = n->shared,
                            .log = w->log,
                            .seed = number,
                            .bytes_max = 1 << 20,
                            .buckets = buckets,
                            .buckets_count = BUCKETS };
    n->lists = lists_new(&l);
}

void stage_begin(struct world *w, unsigned nodes, bool has_redis, unsigned flights_max)
{
    static char url[URL_BYTES]; /* borrowed by the lists, one world at a time */
    memset(w, 0, sizeof *w);
    w->status = 200;
    w->has_redis = has_redis;
    w->nodes_count = nodes;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    if (has_redis)
        redis_server_start(&w->redis, 0, NULL);
    w->generator = rogue_start(play, w);
    (void)snprintf(url, sizeof url, "http://127.0.0.1:%u/related", rogue_port(w->generator));
    w->loop = loop_new(2);
    w->sysclock = sysclock_new();
    w->clock.clock = (struct clock){ shifted_store, shifted_mono, shifted_wall };
    w->clock.real = sysclock_clock(w->sysclock);
    w->log_file = tmpfile();
    assert_non_null(w->log_file);
    w->log = log_new(fileno(w->log_file), LOG_INFO, LOG_TEXT, &w->clock.clock);
    struct http_client_opts c = { .loop = w->loop,
                                  .clock = &w->clock.clock,
                                  .user_agent = "lists" };
    w->client = http_client_new(&c);
    struct list_bucket_opts buckets[BUCKETS] = {
        { .name = "related",
          .generator = url,
          .params = params,
          .params_count = 2,
          .unique_by = fields,
          .unique_count = 2,
          .size = 3,
          .ttl_ms = TTL_MS,
          .stale_ttl_ms = STALE_MS,
          .make_timeout_ms = FOREVER_MS,
          .wait_timeout_ms = FOREVER_MS },
    };
    buckets[1] = buckets[2] = buckets[3] = buckets[0];
    buckets[1].name = "brief";
    buckets[1].stale_ttl_ms = 0;
    buckets[2].name = "hasty";
    buckets[2].make_timeout_ms = 50;
    buckets[3].name = "uneven";
    buckets[4] = buckets[0];
    buckets[4].name = "pinned";
    buckets[4].size = 200;
    buckets[4].ttl_ms = BRIEF_MS;
    buckets[4].stale_ttl_ms = 0;
    buckets[4].display_ttl_ms = DISPLAY_MS;
    buckets[4].displays_max = DISPLAYS_MAX;
    for (unsigned i = 0; i < nodes; i++)
        node_begin(w, i, buckets, flights_max);
    assert_int_equal(pthread_create(&w->thread, NULL, run_loop, w->loop), 0);
    if (has_redis)
        stage_wait_ups(w, nodes);
}

/* Again and again on the loop until all is idle, and a turn more. */
static void end_step(void *ctx)
{
    struct world *w = ctx;
    bool idle = true;
    for (unsigned i = 0; i < w->nodes_count; i++)
        idle = flights_idle(w->nodes[i].flights) && idle;
    if (!idle || !w->was_idle) {
        w->was_idle = idle;
        loop_post(w->loop, end_step, w);
        return;
    }
    for (unsigned i = 0; i < w->nodes_count; i++) {
        flights_free(&w->nodes[i].flights);
        if (w->has_redis)
            flight_shared_stop(w->nodes[i].shared);
    }
    http_client_free(&w->client);
    loop_stop(w->loop);
}

void stage_forget(struct world *w)
{
    for (unsigned i = 0; i < w->asked_count; i++) {
        struct flight_value *v = w->asked[i].value != NULL ? &w->asked[i].value->v : NULL;
        flight_value_unref(&v);
    }
    w->asked_count = 0;
}

void stage_end(struct world *w)
{
    for (unsigned i = 0; i < w->nodes_count; i++)
        flights_drain(w->nodes[i].flights);
    http_client_stop(w->client);
    loop_post(w->loop, end_step, w);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    stage_forget(w);
    for (unsigned i = 0; i < w->nodes_count; i++) {
        lists_free(&w->nodes[i].lists);
        flight_shared_free(&w->nodes[i].shared);
    }
    lock(w);
    w->stopping = true;
    unlock(w);
    rogue_stop(&w->generator);
    log_free(&w->log);
    (void)fclose(w->log_file); /* nobody reads it any more */
    loop_free(&w->loop);
    sysclock_free(&w->sysclock);
    if (w->has_redis)
        redis_server_end(&w->redis);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

/* ---- asking ---- */

static void on_done(struct list_request *r, err why, struct list_value *value,
                    const struct err_note *note)
{
    struct asked *a = r->ctx;
    lock(a->world);
    a->why = why;
    if (note != NULL)
        a->note = *note;
    if (value != NULL)
        (void)flight_value_ref(&value->v);
    a->value = value;
    a->done = true;
    unlock(a->world);
}

struct asked *stage_asked(struct world *w, unsigned node, const char *display, struct wish wish)
{
    assert_true(w->asked_count < ASKED_MAX);
    struct asked *a = &w->asked[w->asked_count++];
    *a = (struct asked){ .world = w };
    a->r = (struct list_request){ .domain = STR("d"),
                                  .display = str_of(display),
                                  .params = { STR("a b") },
                                  .no_cache = wish.no_cache,
                                  .only_cached = wish.only_cached,
                                  .done = on_done,
                                  .want = wish.want != NULL ? str_of(wish.want) : STR(""),
                                  .ctx = a };
    a->r.bucket =
        lists_bucket(w->nodes[node].lists, str_of(wish.bucket != NULL ? wish.bucket : "related"));
    a->r.deadline =
        mono_add_ms(clock_mono(&w->clock.clock), wish.wait_ms > 0 ? wish.wait_ms : FOREVER_MS);
    return a;
}

struct asked *stage_ask(struct world *w, unsigned node, const char *display, struct wish wish)
{
    struct asked *a = stage_asked(w, node, display, wish);
    struct list_value *here = list_here(w->nodes[node].lists, &a->r);
    if (here != NULL) {
        a->value = here;
        a->done = true;
        return a;
    }
    assert_int_equal(list_start(w->nodes[node].lists, &a->r), ERR_OK);
    return a;
}

struct asked *stage_wait(struct asked *a)
{
    lock(a->world);
    while (!a->done)
        wait_changed(a->world, "an answer");
    unlock(a->world);
    return a;
}

struct asked *stage_get(struct world *w, unsigned node, const char *display)
{
    return stage_wait(stage_ask(w, node, display, (struct wish){ 0 }));
}

unsigned stage_call_of(const struct asked *a)
{
    assert_int_equal(a->why, ERR_OK);
    assert_int_equal(a->value->count, 3);
    uint64_t number = 0;
    str text = str_skip(a->value->items[0].text, strlen("{\"link\":\"a"));
    assert_true(str_to_u64(str_take(text, str_find(text, '"')), &number));
    return (unsigned)number;
}

void stage_get_until(struct world *w, unsigned node, const char *display, unsigned call)
{
    for (int64_t left_ms = WAIT_MS;; wait_look(&left_ms, "an answer of that call")) {
        stage_forget(w);
        unsigned got = stage_call_of(stage_get(w, node, display));
        if (got == call)
            return;
        assert_int_equal(got, call - 1);
    }
}

unsigned stage_told(struct world *w, const char *event)
{
    static char text[1 << 16];
    ssize_t n = pread(fileno(w->log_file), text, sizeof text - 1, 0);
    assert_in_range(n, 0, sizeof text - 2);
    text[n] = 0;
    unsigned count = 0;
    for (const char *at = strstr(text, event); at != NULL; at = strstr(at + 1, event))
        count++;
    return count;
}

struct lists_stats stage_stats(struct world *w, unsigned node)
{
    struct lists_stats s;
    lists_stats_get(w->nodes[node].lists, &s);
    return s;
}

/* ---- dropping ---- */

static void on_drop(void *ctx, err why)
{
    struct asked *a = ctx;
    lock(a->world);
    a->why = why;
    a->done = true;
    unlock(a->world);
}

void stage_drop(struct world *w, unsigned node, const char *display)
{
    struct asked *a = stage_asked(w, node, display, (struct wish){ 0 });
    list_drop(w->nodes[node].lists, &a->r, on_drop, a);
    assert_int_equal(stage_wait(a)->why, ERR_OK);
}

/* ---- Redis by hand ---- */

const char *stage_redis(struct world *w, const char *command)
{
    static char reply[1024];
    char line[1024];
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_port = htons(w->redis.port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&at, sizeof at), 0);
    int n = snprintf(line, sizeof line, "%s\r\n", command);
    assert_int_equal(send(fd, line, (size_t)n, MSG_NOSIGNAL), n);
    ssize_t got = recv(fd, reply, sizeof reply - 1, 0);
    assert_true(got > 0);
    reply[got] = 0;
    if (reply[0] == '-')
        fail_msg("%s: %s", command, reply);
    close(fd);
    return reply;
}
