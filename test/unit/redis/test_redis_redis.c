/* Goal: the client keeps its promises on a real server that dies, stops, forgets, refuses and comes
 * back: every command ends once, nothing is sent while it is down, and it is up again by itself.
 * Method: a redis-server of our own; the loop on a thread of its own; steps are posted to it and
 * waited for. */
#include "base/log.h"
#include "lib/wait.h"
#include "loop/loop.h"
#include "loop/sysclock.h"
#include "redis/redis.h"
#include "redis_server.h"

#include <arpa/inet.h>
#include <dlfcn.h>
#include <netdb.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { TEXT = 256, ANNOUNCED_BYTES_MAX = 400 << 20 };

/* What happened, under the lock. */
struct world {
    pthread_mutex_t lock;
    pthread_cond_t changed;
    pthread_t thread;
    struct loop *loop;
    struct sysclock *clock;
    struct redis *redis;
    unsigned ups, downs, messages, done, refused;
    unsigned by_code[ERR_CODES];
    char run_id[TEXT], payload[TEXT], text[TEXT], note[TEXT];
    int64_t integer;
    bool posted;
};

static void keep(char dst[TEXT], str s)
{
    snprintf(dst, TEXT, "%.*s", STR_ARG(s));
}

static void on_state(void *ctx, bool up, str run_id)
{
    struct world *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->ups += up;
    w->downs += !up;
    if (up)
        keep(w->run_id, run_id);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void on_message(void *ctx, str channel, str payload)
{
    struct world *w = ctx;
    (void)channel;
    pthread_mutex_lock(&w->lock);
    w->messages++;
    keep(w->payload, payload);
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

static void on_done(void *ctx, err why, const struct redis_reply *reply,
                    const struct err_note *note)
{
    struct world *w = ctx;
    pthread_mutex_lock(&w->lock);
    w->done++;
    w->by_code[why]++;
    if (why == ERR_OK) {
        const struct redis_reply *r =
            redis_type(reply) == REDIS_ARRAY && redis_count(reply) > 0 ? redis_at(reply, 0) : reply;
        keep(w->text, redis_text(r));
        w->integer = redis_integer(r);
    } else {
        keep(w->note, str_of(note->text));
    }
    pthread_cond_broadcast(&w->changed);
    pthread_mutex_unlock(&w->lock);
}

/* Until *counter is at least wanted. */
static void wait_for(struct world *w, const unsigned *counter, unsigned wanted)
{
    pthread_mutex_lock(&w->lock);
    while (*counter < wanted)
        wait_change(&w->changed, &w->lock, "what is counted");
    pthread_mutex_unlock(&w->lock);
}

static unsigned seen(struct world *w, const unsigned *counter)
{
    pthread_mutex_lock(&w->lock);
    unsigned n = *counter;
    pthread_mutex_unlock(&w->lock);
    return n;
}

/* ---- steps on the loop ---- */

struct step {
    struct world *w;
    const char *const *args; /* of a command, ended by NULL; or of script number `script` */
    int script;
    unsigned times;
};

static void run_step(void *ctx)
{
    struct step *s = ctx;
    str args[8];
    unsigned count = 0;
    for (; s->args != NULL && s->args[count] != NULL; count++)
        args[count] = str_of(s->args[count]);
    for (unsigned i = 0; i < s->times; i++) {
        err why = s->script < 0
                      ? redis_command(s->w->redis, args, count, on_done, s->w)
                      : redis_run(s->w->redis, (unsigned)s->script, args, count, on_done, s->w);
        pthread_mutex_lock(&s->w->lock);
        if (why != ERR_OK) {
            s->w->refused++;
            s->w->by_code[why]++;
        }
        pthread_mutex_unlock(&s->w->lock);
    }
    pthread_mutex_lock(&s->w->lock);
    s->w->posted = true;
    pthread_cond_broadcast(&s->w->changed);
    pthread_mutex_unlock(&s->w->lock);
}

static void post_and_wait(struct world *w, void (*fn)(void *), void *ctx)
{
    pthread_mutex_lock(&w->lock);
    w->posted = false;
    pthread_mutex_unlock(&w->lock);
    loop_post(w->loop, fn, ctx);
    pthread_mutex_lock(&w->lock);
    while (!w->posted)
        pthread_cond_wait(&w->changed, &w->lock);
    pthread_mutex_unlock(&w->lock);
}

static void ask(struct world *w, const char *const *args, unsigned times)
{
    post_and_wait(w, run_step,
                  &(struct step){ .w = w, .args = args, .script = -1, .times = times });
}

static void ask_script(struct world *w, unsigned script, const char *const *args)
{
    post_and_wait(w, run_step,
                  &(struct step){ .w = w, .args = args, .script = (int)script, .times = 1 });
}

#define ASK(w, ...) ask((w), (const char *const[]){ __VA_ARGS__, NULL }, 1)

static void *run_loop(void *arg)
{
    loop_run(arg);
    return NULL;
}

static const struct redis_script scripts[] = {
    { "set", { "redis.call('SET', KEYS[1], ARGV[1]) ", "return {redis.call('GET', KEYS[1]), 7}" } },
    { "tell", { "return redis.call('PUBLISH', KEYS[1], ARGV[1])" } },
};

/* opts: address and limits; the rest is filled in. */
static void world_begin(struct world *w, struct redis_opts opts)
{
    memset(w, 0, sizeof *w);
    pthread_mutex_init(&w->lock, NULL);
    pthread_cond_init(&w->changed, NULL);
    w->loop = loop_new(2);
    w->clock = sysclock_new();
    opts.loop = w->loop;
    opts.clock = sysclock_clock(w->clock);
    opts.seed = 1;
    opts.retry_min_ms = 10;
    opts.retry_max_ms = 100;
    if (opts.timeout_ms == 0)
        opts.timeout_ms = 5000;
    opts.connect_timeout_ms = 5000;
    opts.channels[0] = "me";
    opts.channels[1] = "all";
    opts.channels_count = 2;
    memcpy(opts.scripts, scripts, sizeof scripts);
    opts.scripts_count = COUNT_OF(scripts);
    opts.message = on_message;
    opts.state = on_state;
    opts.ctx = w;
    w->redis = redis_new(&opts);
    assert_int_equal(pthread_create(&w->thread, NULL, run_loop, w->loop), 0);
}

static void stop_redis(void *ctx)
{
    struct world *w = ctx;
    redis_stop(w->redis);
    loop_stop(w->loop);
}

static void world_end(struct world *w)
{
    loop_post(w->loop, stop_redis, w);
    assert_int_equal(pthread_join(w->thread, NULL), 0);
    redis_free(&w->redis);
    loop_free(&w->loop);
    sysclock_free(&w->clock);
    pthread_cond_destroy(&w->changed);
    pthread_mutex_destroy(&w->lock);
}

static struct redis_opts at(const struct redis_server *s)
{
    return (struct redis_opts){ .address = { .host = "127.0.0.1", .port = s->port } };
}

/* A connection of our own: the one that is tested may be away. */
static void by_hand(const struct redis_server *s, const char *line)
{
    char reply[16];
    struct sockaddr_in to = { .sin_family = AF_INET,
                              .sin_port = htons(s->port),
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(connect(fd, (struct sockaddr *)&to, sizeof to), 0);
    assert_int_equal(send(fd, line, strlen(line), MSG_NOSIGNAL), strlen(line));
    assert_true(recv(fd, reply, sizeof reply, 0) > 0);
    assert_int_equal(reply[0], '+');
    close(fd);
}

/* ---- tests ---- */

static void commands_and_scripts_are_answered_in_order(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    assert_int_equal(strlen(w.run_id), 40);
    assert_true(redis_is_up(w.redis));
    ask_script(&w, 0, (const char *const[]){ "k", "v", NULL });
    wait_for(&w, &w.done, 1);
    assert_string_equal(w.text, "v");
    ask(&w, (const char *const[]){ "INCR", "n", NULL }, 5000); /* more than one read holds */
    wait_for(&w, &w.done, 5001);
    assert_int_equal(w.integer, 5000);
    ASK(&w, "GET", "nothing");
    wait_for(&w, &w.done, 5002);
    assert_string_equal(w.text, "");
    ASK(&w, "LPUSH", "k", "x"); /* k is no list */
    wait_for(&w, &w.done, 5003);
    assert_int_equal(w.by_code[ERR_BAD], 1);
    assert_non_null(strstr(w.note, "WRONGTYPE"));
    assert_int_equal(w.by_code[ERR_OK], 5002);
    world_end(&w);
    redis_server_end(&s);
}

static void a_forgotten_script_is_sent_in_full(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    ASK(&w, "SCRIPT", "FLUSH");
    ask_script(&w, 0, (const char *const[]){ "k", "again", NULL });
    wait_for(&w, &w.done, 2);
    assert_string_equal(w.text, "again");
    assert_int_equal(w.by_code[ERR_OK], 2);
    world_end(&w);
    redis_server_end(&s);
}

static void messages_arrive_and_echoes_do_not(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    opts.echo_ms = 20;
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    for (unsigned i = 0; i < 50; i++) /* many echoes pass meanwhile */
        ask_script(&w, 1, (const char *const[]){ i % 2 == 0 ? "me" : "all", "hello", NULL });
    wait_for(&w, &w.messages, 50);
    assert_int_equal(seen(&w, &w.messages), 50);
    assert_string_equal(w.payload, "hello");
    assert_int_equal(seen(&w, &w.downs), 0);
    world_end(&w);
    redis_server_end(&s);
}

static void a_killed_server_fails_what_is_in_flight_and_is_found_again(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    uint16_t port = s.port;
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    char first[TEXT];
    keep(first, str_of(w.run_id));
    redis_server_signal(&s, SIGSTOP);
    ask(&w, (const char *const[]){ "INCR", "n", NULL }, 100);
    redis_server_end(&s);
    wait_for(&w, &w.done, 100);
    assert_int_equal(w.by_code[ERR_UNAVAILABLE], 100);
    wait_for(&w, &w.downs, 1);
    assert_false(redis_is_up(w.redis));
    ASK(&w, "GET", "n");
    assert_int_equal(w.refused, 1);
    redis_server_start(&s, port, NULL);
    wait_for(&w, &w.ups, 2);
    assert_string_not_equal(first, w.run_id);
    ASK(&w, "GET", "n");
    wait_for(&w, &w.done, 101);
    world_end(&w);
    redis_server_end(&s);
}

static void a_standing_server_times_out(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    opts.timeout_ms = 50;
    opts.echo_ms = 60000;
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    redis_server_signal(&s, SIGSTOP);
    ask(&w, (const char *const[]){ "INCR", "n", NULL }, 3);
    wait_for(&w, &w.done, 3);
    assert_int_equal(w.by_code[ERR_TIMEOUT], 3);
    wait_for(&w, &w.downs, 1);
    redis_server_signal(&s, SIGCONT);
    wait_for(&w, &w.ups, 2);
    world_end(&w);
    redis_server_end(&s);
}

static void a_lost_subscription_is_noticed(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    ASK(&w, "CLIENT", "KILL", "TYPE", "pubsub");
    wait_for(&w, &w.downs, 1);
    wait_for(&w, &w.ups, 2);
    ask_script(&w, 1, (const char *const[]){ "all", "still here", NULL });
    wait_for(&w, &w.messages, 1);
    world_end(&w);
    redis_server_end(&s);
}

static void passwords_and_users_are_sent(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0,
                       (const char *const[]){ "--requirepass", "secret", "--user", "app", "on",
                                              ">pw", "~*", "&*", "+@all", NULL });
    struct redis_opts opts = at(&s);
    snprintf(opts.address.password, sizeof opts.address.password, "%s", "secret");
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    ask_script(&w, 1, (const char *const[]){ "me", "x", NULL });
    wait_for(&w, &w.messages, 1);
    world_end(&w);
    snprintf(opts.address.user, sizeof opts.address.user, "%s", "app");
    snprintf(opts.address.password, sizeof opts.address.password, "%s", "pw");
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    ASK(&w, "ACL", "WHOAMI");
    wait_for(&w, &w.done, 1);
    assert_string_equal(w.text, "app");
    world_end(&w);
    redis_server_end(&s);
    redis_server_start(&s, 0,
                       (const char *const[]){ "--user", "free", "on", "nopass", "~*", "&*", "+@all",
                                              NULL });
    opts = at(&s); /* a user who needs no password is no default user */
    snprintf(opts.address.user, sizeof opts.address.user, "%s", "free");
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    ASK(&w, "ACL", "WHOAMI");
    wait_for(&w, &w.done, 1);
    assert_string_equal(w.text, "free");
    world_end(&w);
    redis_server_end(&s);
}

static void tried_often_enough(struct world *w)
{
    wait_for(w, &w->refused, 1);
    assert_int_equal(seen(w, &w->ups), 0);
}

static void a_wrong_password_never_comes_up(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, (const char *const[]){ "--requirepass", "secret", NULL });
    struct redis_opts opts = at(&s);
    snprintf(opts.address.password, sizeof opts.address.password, "%s", "guess");
    world_begin(&w, opts);
    for (unsigned i = 0; i < 20; i++) {
        ASK(&w, "PING");
        wait_pause(10); /* gives it time to do wrong */
    }
    tried_often_enough(&w);
    world_end(&w);
    redis_server_end(&s);
}

static void a_replica_is_away_until_it_is_a_master(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    opts.retry_min_ms = opts.retry_max_ms = 20;
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    ASK(&w, "REPLICAOF", "127.0.0.1", "1"); /* of nobody who answers */
    wait_for(&w, &w.done, 1);
    ask_script(&w, 0, (const char *const[]){ "k", "v", NULL });
    wait_for(&w, &w.downs, 1);
    assert_int_equal(seen(&w, &w.ups), 1);
    by_hand(&s, "REPLICAOF NO ONE\r\n");
    wait_for(&w, &w.ups, 2);
    ask_script(&w, 0, (const char *const[]){ "k", "v", NULL });
    wait_for(&w, &w.done, 3);
    assert_string_equal(w.text, "v");
    world_end(&w);
    redis_server_end(&s);
}

/* As Redis 6.2 says it, with words of its own before. */
static void what_a_script_may_not_do_on_a_replica_breaks_it(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    ASK(&w, "EVAL",
        "return {err = 'ERR Error running script (call to f_0): @user_script:1: -OOM no'}", "0");
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.by_code[ERR_FULL], 1);
    assert_int_equal(seen(&w, &w.downs), 0);
    ASK(&w, "EVAL",
        "return {err = 'ERR Error running script (call to f_0): @user_script:1: -READONLY no'}",
        "0");
    wait_for(&w, &w.downs, 1);
    world_end(&w);
    redis_server_end(&s);
}

static void a_full_server_refuses_and_stays(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0,
                       (const char *const[]){ "--maxmemory", "1", "--maxmemory-policy",
                                              "noeviction", NULL });
    world_begin(&w, at(&s));
    wait_for(&w, &w.ups, 1);
    ASK(&w, "SET", "k", "v");
    wait_for(&w, &w.done, 1);
    assert_int_equal(w.by_code[ERR_FULL], 1);
    ask_script(&w, 1, (const char *const[]){ "all", "telling works", NULL });
    wait_for(&w, &w.messages, 1);
    assert_int_equal(seen(&w, &w.downs), 0);
    world_end(&w);
    redis_server_end(&s);
}

static void what_is_in_flight_is_bounded(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    opts.pending_max = 10;
    opts.echo_ms = 60000;
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    ask(&w, (const char *const[]){ "INCR", "n", NULL }, 15);
    wait_for(&w, &w.done, 10);
    assert_int_equal(w.by_code[ERR_LIMIT], 5);
    assert_int_equal(w.by_code[ERR_OK], 10);
    world_end(&w);
    redis_server_end(&s);
}

/* Also one of many small parts, which are taken apart as they come. */
static void a_reply_has_a_limit_whatever_its_parts(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    opts.reply_bytes_max = 1 << 20;
    opts.timeout_ms = 60000;
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    for (unsigned i = 0; i < 40; i++) /* more than the limit together */
        ASK(&w, "EVAL", "local t = {} for i = 1, 10000 do t[i] = 'part' end return t", "0");
    wait_for(&w, &w.done, 40);
    assert_int_equal(w.by_code[ERR_OK], 40);
    ASK(&w, "EVAL", "local t = {} for i = 1, 400000 do t[i] = 'part' end return t", "0");
    wait_for(&w, &w.done, 41);
    assert_int_equal(w.by_code[ERR_UNAVAILABLE], 1);
    wait_for(&w, &w.ups, 2);
    world_end(&w);
    redis_server_end(&s);
}

/* A server that sends each who connects the same words. */
struct liar {
    int listener;
    uint16_t port;
    const char *words;
    pthread_t thread;
    atomic_uint told;
};

static void *lie(void *ctx)
{
    struct liar *l = ctx;
    for (int fd; (fd = accept(l->listener, NULL, NULL)) >= 0;) {
        char byte;
        (void)send(fd, l->words, strlen(l->words), MSG_NOSIGNAL); /* it may have gone */
        while (recv(fd, &byte, 1, 0) > 0)
            continue;
        (void)close(fd);
        atomic_fetch_add(&l->told, 1);
    }
    return NULL;
}

static void liar_begin(struct liar *l, const char *words)
{
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr = { .s_addr = htonl(INADDR_LOOPBACK) } };
    socklen_t size = sizeof at;
    *l =
        (struct liar){ .listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), .words = words };
    assert_int_equal(bind(l->listener, (struct sockaddr *)&at, size), 0);
    assert_int_equal(listen(l->listener, 8), 0);
    assert_int_equal(getsockname(l->listener, (struct sockaddr *)&at, &size), 0);
    l->port = ntohs(at.sin_port);
    assert_int_equal(pthread_create(&l->thread, NULL, lie, l), 0);
}

static void liar_end(struct liar *l)
{
    (void)shutdown(l->listener, SHUT_RDWR);
    (void)pthread_join(l->thread, NULL);
    (void)close(l->listener);
}

/* The most address space this process ever had. */
static unsigned long long peak_bytes(void)
{
    unsigned long long kb = 0;
    char line[TEXT];
    FILE *f = fopen("/proc/self/status", "r");
    assert_non_null(f);
    while (fgets(line, sizeof line, f) != NULL)
        if (sscanf(line, "VmPeak: %llu", &kb) == 1)
            break;
    (void)fclose(f);
    return kb << 10;
}

static void no_memory_is_got_for_parts_that_are_only_announced(void **state)
{
    static const char *const words[] = { "*67108864\r\n",   "*134217728\r\n:1\r\n",
                                         "*2147483647\r\n", "*2\r\n*134217728\r\n",
                                         "*4294967296\r\n", "*9223372036854775807\r\n" };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(words); i++) {
        struct liar l;
        struct world w;
        liar_begin(&l, words[i]);
        struct redis_opts opts = { .address = { .port = l.port },
                                   .timeout_ms = 60000,
                                   .connect_timeout_ms = 60000,
                                   .retry_min_ms = 5,
                                   .retry_max_ms = 20 };
        snprintf(opts.address.host, sizeof opts.address.host, "127.0.0.1");
        unsigned long long before = peak_bytes();
        world_begin(&w, opts);
        WAIT_UNTIL(atomic_load(&l.told) >= 6); /* it goes, and tries again */
        assert_true(peak_bytes() - before < ANNOUNCED_BYTES_MAX);
        world_end(&w);
        liar_end(&l);
    }
}

/* In place of libc's, for one name: two addresses, the first of nobody. */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **) = NULL;
    *(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
    bool two = name != NULL && strcmp(name, "two.test") == 0;
    int failed = real(two ? "127.0.0.9" : name, service, hints, out);
    return failed != 0 || !two ? failed : real("127.0.0.1", service, hints, &(*out)->ai_next);
}

static void every_address_of_a_name_is_tried(void **state)
{
    (void)state;
    struct redis_server s;
    struct world w;
    redis_server_start(&s, 0, NULL);
    struct redis_opts opts = at(&s);
    snprintf(opts.address.host, sizeof opts.address.host, "%s", "two.test");
    world_begin(&w, opts);
    wait_for(&w, &w.ups, 1);
    world_end(&w);
    redis_server_end(&s);
}

static void it_can_be_stopped_at_any_time(void **state)
{
    (void)state;
    struct redis_server s;
    redis_server_start(&s, 0, NULL);
    for (unsigned i = 0; i < 40; i++) {
        struct world w;
        struct redis_opts opts = at(&s);
        if (i % 2 == 0)
            snprintf(opts.address.host, sizeof opts.address.host, "%s",
                     "localhost"); /* looked up on the pool */
        world_begin(&w, opts);
        nanosleep(&(struct timespec){ .tv_nsec = (long)i * 100000 }, NULL);
        if (i % 3 == 0)
            ASK(&w, "PING");
        world_end(&w);
        assert_true(w.done + w.refused == (i % 3 == 0));
    }
    redis_server_end(&s);
}

int main(void)
{
    redis_server_need();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(commands_and_scripts_are_answered_in_order),
        cmocka_unit_test(a_forgotten_script_is_sent_in_full),
        cmocka_unit_test(messages_arrive_and_echoes_do_not),
        cmocka_unit_test(a_killed_server_fails_what_is_in_flight_and_is_found_again),
        cmocka_unit_test(a_standing_server_times_out),
        cmocka_unit_test(a_lost_subscription_is_noticed),
        cmocka_unit_test(passwords_and_users_are_sent),
        cmocka_unit_test(a_wrong_password_never_comes_up),
        cmocka_unit_test(a_replica_is_away_until_it_is_a_master),
        cmocka_unit_test(what_a_script_may_not_do_on_a_replica_breaks_it),
        cmocka_unit_test(a_full_server_refuses_and_stays),
        cmocka_unit_test(what_is_in_flight_is_bounded),
        cmocka_unit_test(a_reply_has_a_limit_whatever_its_parts),
        cmocka_unit_test(no_memory_is_got_for_parts_that_are_only_announced),
        cmocka_unit_test(every_address_of_a_name_is_tried),
        cmocka_unit_test(it_can_be_stopped_at_any_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
