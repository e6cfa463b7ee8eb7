#include "share_world.h"

void lock(struct world *w)
{
    assert_int_equal(pthread_mutex_lock(&w->lock), 0);
}

void unlock(struct world *w)
{
    pthread_cond_broadcast(&w->changed);
    assert_int_equal(pthread_mutex_unlock(&w->lock), 0);
}

void wait_for(struct world *w, const unsigned *counter, unsigned wanted)
{
    lock(w);
    while (*counter < wanted)
        wait_change(&w->changed, &w->lock, "what is counted");
    unlock(w);
}

static unsigned count_of(struct world *w, const unsigned *counter)
{
    lock(w);
    unsigned n = *counter;
    unlock(w);
    return n;
}

/* ---- values and makers ---- */

static void value_free(struct flight_value *v)
{
    struct value *value = CONTAINER_OF(v, struct value, v);
    free(value->bytes);
    free(value);
}

static struct flight_value *value_new(str bytes, str version)
{
    struct value *value = calloc(1, sizeof *value);
    *value = (struct value){ .v = { .refs = 1, .free = value_free }, .bytes_n = bytes.n };
    value->bytes = malloc(bytes.n + 1);
    memcpy(value->bytes, bytes.p, bytes.n);
    value->bytes[bytes.n] = 0;
    snprintf(value->version, sizeof value->version, "%.*s", STR_ARG(version));
    return &value->v;
}

void finish(struct node *n, struct flight *f, unsigned number, struct plan plan)
{
    struct err_note note = { .text = "the plan says so" };
    if (plan.why != ERR_OK) {
        flight_finish(f, plan.why, NULL, plan.keep_error, &note);
        return;
    }
    char text[64];
    int length = snprintf(text, sizeof text, "made %u by node %u", number, n->number);
    char *large = plan.bytes > 0 ? malloc(plan.bytes) : NULL;
    if (large != NULL)
        memset(large, 'a' + (int)(number % 26), plan.bytes);
    str bytes = large != NULL ? (str){ .p = large, .n = plan.bytes }
                              : (str){ .p = text, .n = (size_t)length };
    flight_finish(f, ERR_OK, value_new(bytes, flight_version(f)), false, NULL);
    free(large);
}

static void maker_start(struct flight *f, void *ctx)
{
    struct node *n = ctx;
    struct world *w = n->world;
    lock(w);
    unsigned number = ++w->made;
    struct plan plan = w->plan;
    if (plan.hold)
        w->held[w->held_count++] = f;
    unlock(w);
    if (!plan.hold)
        finish(n, f, number, plan);
}

static err maker_encode(const struct flight_value *v, struct buf *out, void *ctx)
{
    (void)ctx;
    const struct value *value = CONTAINER_OF((struct flight_value *)(uintptr_t)v, struct value, v);
    buf_put(out, (str){ .p = value->bytes, .n = value->bytes_n });
    return ERR_OK;
}

static void maker_accept(struct flight *f, const struct flight_arrival *a, void *ctx)
{
    struct node *n = ctx;
    lock(n->world);
    bool alone = n->world->plan.wants_none;
    unlock(n->world);
    if (alone) {
        flight_alone(f);
        maker_start(f, ctx);
        return;
    }
    struct flight_value *v = value_new(a->bytes, a->version);
    CONTAINER_OF(v, struct value, v)->refresh = a->refresh;
    flight_finish(f, ERR_OK, v, false, NULL);
}

static void waiter_done(struct flight_waiter *waiter, err why, struct flight_value *value,
                        const struct err_note *note)
{
    struct asked *a = CONTAINER_OF(waiter, struct asked, waiter);
    lock(a->world);
    a->why = why;
    a->value = value != NULL ? flight_value_ref(value) : NULL;
    snprintf(a->note, sizeof a->note, "%s", note != NULL ? note->text : "");
    a->world->done++;
    unlock(a->world);
}

const struct how plain = { .fresh_ms = 60000 };

void ask(struct world *w, unsigned node, const char *key, struct how how)
{
    struct node *n = &w->nodes[node];
    struct flight_maker m = {
        .start = maker_start,
        .ctx = n,
        .keep_idle = true,
        .fresh = how.fresh,
        .fresh_ago_ms = how.ago_ms,
        .travels = true,
        .share = { .fresh_ms = how.fresh_ms,
                   .stale_ms = how.stale_ms,
                   .early = how.early,
                   .peek = how.peek,
                   .not_alone = how.not_alone,
                   .encode = maker_encode,
                   .accept = maker_accept },
    };
    str parts[] = { STR("test"), str_of(key) };
    flight_share_id(parts, COUNT_OF(parts), m.share.id);
    assert_true(w->asked_count < WAITERS_MAX);
    struct asked *a = &w->asked[w->asked_count++];
    *a = (struct asked){ .world = w, .waiter = { .done = waiter_done } };
    a->waiter.deadline = mono_add_ms(clock_mono(sysclock_clock(w->clock)), WAIT_MS);
    assert_int_equal(flight_join(n->flights, str_of(key), &m, &a->waiter), ERR_OK);
}

const struct value *value_of(const struct asked *a)
{
    assert_int_equal(a->why, ERR_OK);
    return CONTAINER_OF(a->value, struct value, v);
}

void all_are(struct world *w, const char *text)
{
    for (unsigned i = 0; i < w->asked_count; i++)
        assert_string_equal(value_of(&w->asked[i])->bytes, text);
}

/* Forgets who asked so far. */
void clear(struct world *w)
{
    wait_for(w, &w->done, w->asked_count);
    for (unsigned i = 0; i < w->asked_count; i++)
        if (w->asked[i].value != NULL)
            flight_value_unref(&w->asked[i].value);
    w->asked_count = w->done = 0;
}

void let_go(struct world *w)
{
    for (unsigned i = 0; i < w->held_count; i++)
        finish(&w->nodes[0], w->held[i], i + 1,
               (struct plan){ .why = w->plan.why, .bytes = w->plan.bytes });
    lock(w);
    w->held_count = 0;
    unlock(w);
}

/* ---- the world ---- */

static void on_state(void *ctx, bool up, bool fresh)
{
    struct node *n = ctx;
    (void)fresh;
    lock(n->world);
    n->world->up += up;
    n->world->downs += !up;
    unlock(n->world);
}

static void on_foreign_state(void *ctx, bool up, str run_id)
{
    struct world *w = ctx;
    (void)run_id;
    lock(w);
    w->up += up;
    unlock(w);
}

static void on_dropped(void *ctx, const unsigned char *id)
{
    struct node *n = ctx;
    (void)id;
    lock(n->world);
    n->world->dropped++;
    unlock(n->world);
}

static void on_told(void *ctx, str text)
{
    struct node *n = ctx;
    lock(n->world);
    n->world->told++;
    snprintf(n->world->told_text, sizeof n->world->told_text, "%.*s", STR_ARG(text));
    unlock(n->world);
}

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static void node_begin(struct world *w, unsigned number)
{
    struct node *n = &w->nodes[number];
    char name[16];
    *n = (struct node){ .world = w, .number = number };
    snprintf(name, sizeof name, "node%u", number);
    struct flight_shared_opts s = { .loop = w->loop,
                                    .clock = sysclock_clock(w->clock),
                                    .node = name,
                                    .seed = number + 1,
                                    .lease_ms = w->lease_ms,
                                    .redis_timeout_ms = 10000,
                                    .error_base_ms = 60000,
                                    .error_max_ms = 60000,
                                    .address = { .host = "127.0.0.1", .port = w->server.port },
                                    .dropped = on_dropped,
                                    .told = on_told,
                                    .state = on_state,
                                    .ctx = n };
    n->shared = flight_shared_new(&s);
    struct flight_opts o = { .loop = w->loop,
                             .clock = s.clock,
                             .seed = number,
                             .shared = n->shared,
                             .error_base_ms = 1,
                             .error_max_ms = 1 };
    n->flights = flights_new(&o);
}

void world_begin_leased(struct world *w, const char *const *extra, int64_t lease_ms)
{
    memset(w, 0, sizeof *w);
    w->lease_ms = lease_ms;
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    redis_server_start(&w->server, 0, extra);
    w->loop = loop_new(2);
    w->clock = sysclock_new();
    for (unsigned i = 0; i < NODES; i++)
        node_begin(w, i);
    struct redis_opts f = { .loop = w->loop,
                            .clock = sysclock_clock(w->clock),
                            .timeout_ms = 10000,
                            .address = { .host = "127.0.0.1", .port = w->server.port },
                            .state = on_foreign_state,
                            .ctx = w,
                            .scripts_count = SHARE_SCRIPTS };
    memcpy(f.scripts, share_scripts, sizeof share_scripts);
    w->foreign = redis_new(&f);
    assert_int_equal(pthread_create(&w->thread, NULL, run_loop, w->loop), 0);
    wait_for(w, &w->up, NODES + 1);
}

void world_begin(struct world *w, const char *const *extra)
{
    world_begin_leased(w, extra, LEASE_MS);
}

/* Again and again on the loop until all is idle, and a turn more. */
static void end_step(void *ctx)
{
    struct world *w = ctx;
    bool idle = true;
    for (unsigned i = 0; i < NODES; i++)
        idle = flights_idle(w->nodes[i].flights) && idle;
    if (!idle || !w->was_idle) {
        w->was_idle = idle;
        loop_post(w->loop, end_step, w);
        return;
    }
    for (unsigned i = 0; i < NODES; i++) {
        flights_free(&w->nodes[i].flights);
        flight_shared_stop(w->nodes[i].shared);
    }
    redis_stop(w->foreign);
    loop_stop(w->loop);
}

void world_end(struct world *w)
{
    clear(w);
    for (unsigned i = 0; i < NODES; i++)
        flights_drain(w->nodes[i].flights);
    loop_post(w->loop, end_step, w);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    for (unsigned i = 0; i < NODES; i++)
        flight_shared_free(&w->nodes[i].shared);
    redis_free(&w->foreign);
    loop_free(&w->loop);
    sysclock_free(&w->clock);
    redis_server_end(&w->server);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

static void on_reply(void *ctx, err why, const struct redis_reply *reply,
                     const struct err_note *note)
{
    struct world *w = ctx;
    (void)note;
    lock(w);
    for (unsigned i = 0; i < COUNT_OF(w->reply); i++) {
        str part = why != ERR_OK ? STR("failed") : STR_NONE;
        if (why == ERR_OK && redis_type(reply) != REDIS_ARRAY && i == 0)
            snprintf(w->reply[0], sizeof w->reply[0], "%lld", (long long)redis_integer(reply));
        else if (why == ERR_OK && i < redis_count(reply))
            part = redis_text(redis_at(reply, i));
        if (why != ERR_OK || redis_type(reply) == REDIS_ARRAY)
            snprintf(w->reply[i], sizeof w->reply[i], "%.*s", STR_ARG(str_take(part, 100)));
    }
    w->replies++;
    unlock(w);
}

static void foreign_step(void *ctx)
{
    struct foreign_call *c = ctx;
    unsigned char id[FLIGHT_ID_BYTES];
    char key[64], text[2 * FLIGHT_ID_BYTES + 1];
    str parts[] = { STR("test"), str_of(c->key) }, args[16];
    flight_share_id(parts, COUNT_OF(parts), id);
    for (unsigned i = 0; i < FLIGHT_ID_BYTES; i++)
        snprintf(text + 2 * i, 3, "%02x", id[i]);
    snprintf(key, sizeof key, "pal:f:{%s}", text);
    unsigned count = 1;
    args[0] = str_of(key);
    for (; c->args[count - 1] != NULL; count++)
        args[count] = str_of(c->args[count - 1]);
    assert_int_equal(redis_run(c->w->foreign, c->script, args, count, on_reply, c->w), ERR_OK);
}

void foreign(struct world *w, enum share_script script, const char *key, const char *const *args)
{
    unsigned before = count_of(w, &w->replies);
    struct foreign_call c = { w, script, key, args };
    loop_post(w->loop, foreign_step, &c);
    wait_for(w, &w->replies, before + 1);
}
void foreign_leads(struct world *w, const char *key, char token[128])
{
    FOREIGN(w, SHARE_JOIN, key, "stranger", "300", "600", "30000", "0", "", "0", "0", LIMITS);
    assert_string_equal(w->reply[0], "GRANT");
    snprintf(token, 128, "%s", w->reply[1]);
}

/* Until a shared statistic of all nodes together reaches wanted. */
static uint64_t sum_of(struct world *w, size_t offset)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < NODES; i++) {
        struct flight_shared_stats s;
        flight_shared_stats_get(w->nodes[i].shared, &s);
        sum += *(const uint64_t *)(const void *)((const char *)&s + offset);
    }
    return sum;
}

static void sum_look(void *ctx)
{
    struct sum_wait *s = ctx;
    if (sum_of(s->w, s->offset) < s->wanted)
        return;
    loop_timer_free(&s->timer);
    lock(s->w);
    s->w->posted = true;
    unlock(s->w);
}

static void sum_begin(void *ctx)
{
    struct sum_wait *s = ctx;
    s->timer = loop_timer_new(s->w->loop, sum_look, s);
    loop_timer_start(s->timer, 1, 1);
}

void wait_for_sum(struct world *w, size_t offset, uint64_t wanted)
{
    struct sum_wait s = { .w = w, .offset = offset, .wanted = wanted };
    w->posted = false;
    loop_post(w->loop, sum_begin, &s);
    lock(w);
    while (!w->posted)
        pthread_cond_wait(&w->changed, &w->lock);
    unlock(w);
}
