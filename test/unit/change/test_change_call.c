/* Goal: the requests of an item are sent one after another until one is not done, and what became
 * of them is told once, whatever the target does. Method: a real client on a loop, and a server in
 * this process that answers each request as its script says. */
#include "change/call.h"

#include "../rule/rules.h"
#include "echo.h"
#include "lib/wait.h"
#include "loop/loop.h"
#include "rogue.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { REQUESTS_MAX = 32, CALLS_MAX = 3 };

/* ---- cancels ---- */

/* True: the client is not told of a cancel, as if the answer were on its way already. */
static bool cancels_are_late;
void __real_http_call_cancel(struct http_client *c, struct http_call *call);
void __wrap_http_call_cancel(struct http_client *c, struct http_call *call);
void __wrap_http_call_cancel(struct http_client *c, struct http_call *call)
{
    if (!cancels_are_late)
        __real_http_call_cancel(c, call);
}

/* ---- the target ---- */

/* The answer to the nth request, on whichever connection. Beside texts: */
#define HANG "(hangs)"
#define CUT ""
struct script {
    const char *const *replies;
    char request[ROGUE_REQUEST_BYTES_MAX]; /* the newest */
};

static void play_script(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    struct script *s = rogue_ctx(r);
    while (rogue_read(r, fd, s->request)) {
        const char *reply = s->replies[rogue_requests(r) - 1];
        if (strcmp(reply, CUT) == 0)
            return;
        if (strcmp(reply, HANG) == 0) {
            rogue_wait(fd);
            return;
        }
        if (!rogue_say(fd, reply))
            return;
    }
}

#define OK_REPLY "HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"
#define NOT_FOUND "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n"
#define BROKEN "HTTP/1.1 500 Oh\r\nContent-Length: 9\r\n\r\n\n Why not\n"

/* ---- calls ---- */

static const char text[] =
    "rules:\n"
    "  hook: { match: { stream: \"*\" }, effect: http, url: \"http://h/\" }\n"
    "  hasty: { match: { stream: \"*\" }, effect: http, url: \"http://h/\", timeout: 100ms }\n"
    "  job: { match: { stream: \"*\" }, effect: job, targets: \"http://h/\", timeout: 3d }\n"
    "  edge: { match: { stream: \"*\" }, effect: purge, targets: \"http://h\" }\n";

struct trial {
    struct asker asker; /* its loop and its client */
    struct rule_set *set;
    struct arena arenas[CALLS_MAX];
    char url[256];
    const struct http_pair *headers;
    struct change_request at[REQUESTS_MAX];
    struct change_requests requests;
    struct change_call calls[CALLS_MAX];
    unsigned count, left; /* calls; not done yet */
};

static void call_done(struct change_call *c)
{
    struct trial *t = c->ctx;
    loop_assert_here(t->asker.loop);
    assert_true(t->left > 0);
    if (--t->left == 0)
        loop_stop(t->asker.loop);
}

static void trial_begin(struct trial *t, const struct http_client_opts *opts)
{
    *t = (struct trial){ .set = rules_of(text) };
    asker_begin(&t->asker, opts);
    cancels_are_late = false;
}

static void trial_end(struct trial *t)
{
    asker_end(&t->asker);
    for (unsigned i = 0; i < t->count; i++)
        arena_fini(&t->arenas[i]);
    rule_set_unref(&t->set);
}

/* So many requests like the first. */
static void trial_requests(struct trial *t, uint16_t port, unsigned count, const char *method)
{
    (void)snprintf(t->url, sizeof t->url, "http://127.0.0.1:%u/a/../b?c", port); /* it fits */
    for (unsigned i = 0; i < count; i++)
        t->at[i] = (struct change_request){ .method = method, .url = str_of(t->url) };
    t->requests = (struct change_requests){ .at = t->at, .count = count, .target = STR("x") };
}

static struct change_call *trial_start(struct trial *t, const char *rule)
{
    struct change_call *c = &t->calls[t->count];
    const struct rule *of = rule_set_find(t->set, str_of(rule));
    assert_non_null(of);
    assert_true(t->count < CALLS_MAX);
    arena_init(&t->arenas[t->count], CHANGE_REPLY_ROOM);
    *c = (struct change_call){ .client = t->asker.client,
                               .loop = t->asker.loop,
                               .clock = echo_clock(),
                               .rule = of,
                               .requests = &t->requests,
                               .arena = &t->arenas[t->count++],
                               .done = call_done,
                               .ctx = t };
    t->left++;
    int64_t before_ns = clock_mono(echo_clock()).ns;
    change_call_start(c);
    if (t->requests.count > 0) { /* no sooner than the rule says, be it three days */
        assert_true(c->call.deadline.ns >= before_ns + of->timeout_ns);
        assert_true(c->call.deadline.ns <= clock_mono(echo_clock()).ns + of->timeout_ns);
        assert_int_equal(c->call.stall_timeout_s, 0);
    }
    return c;
}

static void overdue(void *ctx)
{
    (void)ctx;
    fail_msg("nothing happened for %d ms", WAIT_MS);
}

static void trial_run(struct trial *t)
{
    struct loop_timer *watchdog = loop_timer_new(t->asker.loop, overdue, NULL);
    loop_timer_start(watchdog, WAIT_MS, 0);
    loop_run(t->asker.loop);
    loop_timer_free(&watchdog);
    assert_int_equal(t->left, 0);
}

static void call_expect(const struct change_call *c, enum change_fate fate, unsigned finished,
                        const char *said)
{
    if (c->result.fate != fate || c->finished != finished || strstr(c->result.text, said) == NULL)
        fail_msg("%s after %u: \"%s\"; wanted %s after %u: \"%s\"",
                 change_fate_name(c->result.fate), c->finished, c->result.text,
                 change_fate_name(fate), finished, said);
    if (fate == CHANGE_DONE)
        assert_string_equal(c->result.text, "");
}

/* count requests of a rule, answered as the script says. Returns how many were sent. */
static unsigned call_through(const char *rule, unsigned count, const char *const *replies,
                             struct change_call *out)
{
    struct script s = { .replies = replies };
    struct rogue *r = rogue_start(play_script, &s);
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, rogue_port(r), count, "POST");
    struct change_call *c = trial_start(&t, rule);
    trial_run(&t);
    assert_null(t.arenas[0].chunks); /* what the replies took was given back */
    *out = *c;
    unsigned sent = rogue_requests(r);
    trial_end(&t);
    rogue_stop(&r);
    return sent;
}

/* ---- what is sent ---- */

static void a_request_goes_out_as_it_was_made(void **state)
{
    (void)state;
    static const char body[] = "{ \"a\":\"\xc3\xa9\" }\n";
    static const struct http_pair headers[] = { { STR_INIT("Host"), STR_INIT("wiki.test:81") },
                                                { STR_INIT("X-A"), STR_INIT("b c") } };
    static struct script s;
    s.replies = (const char *const[]){ OK_REPLY };
    struct rogue *r = rogue_start(play_script, &s);
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, rogue_port(r), 1, "PURGE");
    t.at[0].headers = headers;
    t.at[0].headers_count = COUNT_OF(headers);
    t.at[0].body = str_of(body);
    struct change_call *c = trial_start(&t, "edge");
    trial_run(&t);
    call_expect(c, CHANGE_DONE, 1, "");
    trial_end(&t);
    rogue_stop(&r);
    assert_ptr_equal(strstr(s.request, "PURGE /a/../b?c HTTP/1.1\r\n"), s.request);
    assert_non_null(strstr(s.request, "\r\nHost: wiki.test:81\r\n"));
    assert_null(strstr(s.request, "127.0.0.1"));
    assert_non_null(strstr(s.request, "\r\nX-A: b c\r\n"));
    assert_null(strcasestr(s.request, "\r\nexpect:"));
    assert_string_equal(strstr(s.request, "\r\n\r\n") + 4, body);
}

/* ---- one reply ---- */

static const struct {
    const char *rule, *reply;
    enum change_fate fate;
    int status;
    int64_t wait_s;
    const char *said;
} replies[] = {
    { "hook", OK_REPLY, CHANGE_DONE, 200, 0, "" },
    { "hook", BROKEN, CHANGE_FAILED, 500, 0, "HTTP 500: Why not" },
    { "hook", "HTTP/1.1 503 x\r\nRetry-After: 17\r\nContent-Length: 0\r\n\r\n", CHANGE_PAUSED, 503,
      17, "HTTP 503: the target asks to be left alone" },
    { "job", "HTTP/1.1 503 x\r\nContent-Length: 3\r\n\r\na\nb", CHANGE_FAILED, 503, 0,
      "HTTP 503: a" },
    { "job", "HTTP/1.1 423 x\r\nContent-Length: 0\r\n\r\n", CHANGE_PAUSED, 423, 0,
      "HTTP 423: the wiki is read-only" },
    { "job", "HTTP/1.1 500 x\r\nx-readonly:  TRUE \r\nContent-Length: 0\r\n\r\n", CHANGE_PAUSED,
      500, 0, "HTTP 500: the wiki is read-only" },
    { "job", "HTTP/1.1 500 x\r\nX-Readonly: false\r\nContent-Length: 0\r\n\r\n", CHANGE_FAILED, 500,
      0, "HTTP 500" },
    { "job",
      "HTTP/1.1 403 x\r\nTransfer-Encoding: chunked\r\n\r\n2\r\n\r\n\r\n4\r\n bad\r\n2\r\n!\n\r\n"
      "0\r\n\r\n",
      CHANGE_HOPELESS, 403, 0, "HTTP 403: the wiki refuses the job's signature: bad!" },
    { "edge", NOT_FOUND, CHANGE_IGNORED, 404, 0, "there was nothing to purge" },
    { "edge", "HTTP/1.1 405 x\r\nContent-Length: 0\r\n\r\n", CHANGE_FAILED, 405, 0,
      "the target does not take PURGE" },
    { "hook", "HTTP/1.1 103 Early\r\n\r\nHTTP/1.1 204 No\r\n\r\n", CHANGE_DONE, 204, 0, "" },
};

static void a_reply_is_judged_by_its_head_and_first_line(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(replies); i++) {
        struct change_call c;
        unsigned sent = call_through(replies[i].rule, 1, &replies[i].reply, &c);
        bool fine = replies[i].fate == CHANGE_DONE || replies[i].fate == CHANGE_IGNORED;
        call_expect(&c, replies[i].fate, fine, replies[i].said);
        assert_int_equal(c.result.status, replies[i].status);
        assert_int_equal(c.result.wait_ns, replies[i].wait_s * NS_PER_S);
        assert_int_equal(sent, 1);
    }
}

static void a_redirect_is_not_followed(void **state)
{
    (void)state;
    struct script there = { .replies = (const char *const[]){ OK_REPLY } };
    struct rogue *other = rogue_start(play_script, &there);
    char away[256];
    for (int status = 301; status <= 308; status++) {
        struct change_call c;
        (void)snprintf(away, sizeof away,
                       "HTTP/1.1 %d Go\r\nLocation: http://127.0.0.1:%u/\r\nContent-Length: "
                       "0\r\n\r\n",
                       status, rogue_port(other)); /* it fits */
        unsigned sent = call_through("job", 1, (const char *const[]){ away, OK_REPLY }, &c);
        call_expect(&c, CHANGE_FAILED, 0, "redirects are not followed");
        assert_int_equal(sent, 1);
    }
    assert_int_equal(rogue_connections(other), 0);
    rogue_stop(&other);
}

/* ---- several ---- */

static const struct {
    const char *replies[3];
    enum change_fate fate;
    unsigned finished, sent;
} several[] = {
    { { OK_REPLY, OK_REPLY, OK_REPLY }, CHANGE_DONE, 3, 3 },
    { { OK_REPLY, NOT_FOUND, NOT_FOUND }, CHANGE_DONE, 3, 3 },
    { { NOT_FOUND, OK_REPLY, NOT_FOUND }, CHANGE_DONE, 3, 3 },
    { { NOT_FOUND, NOT_FOUND, NOT_FOUND }, CHANGE_IGNORED, 3, 3 },
    { { BROKEN, OK_REPLY, OK_REPLY }, CHANGE_FAILED, 0, 1 },
    { { OK_REPLY, BROKEN, OK_REPLY }, CHANGE_FAILED, 1, 2 },
    { { NOT_FOUND, OK_REPLY, BROKEN }, CHANGE_FAILED, 2, 3 },
    { { OK_REPLY, CUT, OK_REPLY }, CHANGE_FAILED, 1, 2 },
};

static void the_first_that_is_not_done_ends_it(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(several); i++) {
        struct change_call c;
        unsigned sent = call_through("edge", 3, several[i].replies, &c);
        call_expect(&c, several[i].fate, several[i].finished, "");
        assert_int_equal(sent, several[i].sent);
    }
}

static void without_requests_there_is_nothing_to_do(void **state)
{
    (void)state;
    for (int cancel = 0; cancel < 2; cancel++) {
        struct trial t;
        trial_begin(&t, NULL);
        trial_requests(&t, 1, 0, "PURGE");
        struct change_call *c = trial_start(&t, "edge");
        assert_int_equal(t.left, 1); /* not inside start */
        if (cancel)
            change_call_cancel(c);
        trial_run(&t);
        call_expect(c, CHANGE_IGNORED, 0, "there is nothing to do");
        trial_end(&t);
    }
}

/* ---- large replies ---- */

enum { HEAD_BYTES = 60 << 10 };

/* Heads that together are larger than all room. */
static void the_room_of_a_head_is_given_back_before_the_next(void **state)
{
    (void)state;
    static char large[HEAD_BYTES + 256];
    int n = snprintf(large, sizeof large, "HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX-A: ");
    memset(large + n, 'a', HEAD_BYTES);
    (void)snprintf(large + n + HEAD_BYTES, 8, "\r\n\r\n"); /* it fits */
    const char *all[REQUESTS_MAX];
    for (unsigned i = 0; i < REQUESTS_MAX; i++)
        all[i] = large;
    struct change_call c;
    assert_int_equal(call_through("edge", REQUESTS_MAX, all, &c), REQUESTS_MAX);
    call_expect(&c, CHANGE_DONE, REQUESTS_MAX, "");
}

/* After the head in ctx a first line and so many MiB, or as long as somebody reads. */
enum { FLOOD_BYTES = 1 << 20 };
struct flood {
    const char *head;
    unsigned mib;
    const char *mib_of; /* each of them */
};

static void play_flood(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    const struct flood *f = rogue_ctx(r);
    char request[ROGUE_REQUEST_BYTES_MAX];
    while (rogue_read(r, fd, request)) {
        if (!rogue_say(fd, f->head))
            return;
        for (unsigned i = 0; i < f->mib; i++)
            if (!rogue_send(fd, (str){ .p = f->mib_of, .n = FLOOD_BYTES }))
                return;
    }
}

static unsigned flooded(struct flood f, struct change_call *out)
{
    static const char line[] = "First\nsecond ";
    static char piece[FLOOD_BYTES];
    memset(piece, 'x', sizeof piece);
    memcpy(piece, line, strlen(line));
    f.mib_of = piece;
    struct rogue *r = rogue_start(play_flood, &f);
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, rogue_port(r), 2, "POST");
    (void)trial_start(&t, "hook");
    trial_run(&t);
    *out = t.calls[0];
    unsigned connections = rogue_connections(r);
    trial_end(&t);
    rogue_stop(&r);
    return connections;
}

static void a_large_reply_is_read_and_dropped(void **state)
{
    (void)state;
    struct change_call c;
    unsigned connections = flooded(
        (struct flood){ .head = "HTTP/1.1 200 OK\r\nContent-Length: 1048576\r\n\r\n", .mib = 1 },
        &c);
    call_expect(&c, CHANGE_DONE, 2, "");
    assert_int_equal(connections, 1); /* it is good for the next request */
    (void)flooded((struct flood){ .head = "HTTP/1.1 500 Oh\r\nContent-Length: 1048576\r\n\r\n",
                                  .mib = 1 },
                  &c);
    call_expect(&c, CHANGE_FAILED, 0, "HTTP 500: First");
    assert_string_equal(c.result.text, "HTTP 500: First");
}

/* The status came whole, and says what became of the item. */
static void a_reply_without_end_is_cut_off(void **state)
{
    (void)state;
    struct change_call c;
    assert_int_equal(
        flooded((struct flood){ .head = "HTTP/1.1 200 OK\r\n\r\n", .mib = UINT32_MAX }, &c), 2);
    call_expect(&c, CHANGE_DONE, 2, "");
    (void)flooded((struct flood){ .head = "HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
                                  .mib = UINT32_MAX },
                  &c);
    call_expect(&c, CHANGE_DONE, 2, "");
    (void)flooded((struct flood){ .head = "HTTP/1.1 502 Oh\r\n\r\n", .mib = UINT32_MAX }, &c);
    call_expect(&c, CHANGE_FAILED, 0, "HTTP 502: First");
}

/* ---- no reply ---- */

static const struct {
    const char *rule, *reply;
    const char *said;
} silences[] = {
    { "hasty", HANG, "no whole reply in time" },
    { "hook", CUT, "127.0.0.1: " },
    { "hook", "HTTP/1.1 200 OK\r\nContent-Le", "127.0.0.1: " },
    { "hook", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhalf", "127.0.0.1: " },
    { "hook", "220 mail.test ESMTP\r\n", "127.0.0.1: " },
    { "hook", "HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\n", "127.0.0.1: " },
};

/* The script's only reply, and then the end of the connection. */
static void play_and_go(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    struct script *s = rogue_ctx(r);
    if (!rogue_read(r, fd, s->request))
        return;
    if (strcmp(s->replies[0], HANG) == 0)
        rogue_wait(fd);
    else if (s->replies[0][0] != '\0' && rogue_say(fd, s->replies[0]))
        rogue_settle(fd);
}

static void what_was_sent_and_not_answered_counts(void **state)
{
    (void)state;
    for (size_t i = 0; i < COUNT_OF(silences); i++) {
        static struct script s;
        s.replies = &silences[i].reply;
        struct rogue *r = rogue_start(play_and_go, &s);
        struct trial t;
        trial_begin(&t, NULL);
        trial_requests(&t, rogue_port(r), 2, "POST");
        struct change_call *c = trial_start(&t, silences[i].rule);
        trial_run(&t);
        call_expect(c, CHANGE_FAILED, 0, silences[i].said);
        assert_int_equal(c->result.status, 0);
        assert_int_equal(rogue_requests(r), 1); /* never sent twice */
        trial_end(&t);
        rogue_stop(&r);
    }
}

/* A reply that trickles is late as well: the time-out is of all of it. */
static void play_trickle(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (!rogue_read(r, fd, request) || !rogue_say(fd, "HTTP/1.1 200 OK\r\n\r\n"))
        return;
    while (rogue_say(fd, "x"))
        wait_pause(10);
}

static void a_reply_that_trickles_is_late(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_trickle, NULL);
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, rogue_port(r), 1, "POST");
    struct change_call *c = trial_start(&t, "hasty");
    trial_run(&t);
    call_expect(c, CHANGE_FAILED, 0, "no whole reply in time");
    trial_end(&t);
    rogue_stop(&r);
}

/* A port that somebody holds and nobody listens to. */
static int held_port(uint16_t *port)
{
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    *port = ntohs(at.sin_port);
    return fd;
}

static void a_target_that_is_not_there_costs_no_attempt(void **state)
{
    (void)state;
    uint16_t port;
    int fd = held_port(&port);
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, port, 1, "POST");
    struct change_call *c = trial_start(&t, "job");
    trial_run(&t);
    call_expect(c, CHANGE_PAUSED, 0, "127.0.0.1: ");
    assert_int_equal(c->result.status, 0);
    assert_int_equal(c->result.wait_ns, 0);
    trial_end(&t);
    close(fd);
}

/* A listener that does not take connections any more: its backlog is full, so that no more come
 * about. */
static void a_target_that_does_not_take_connections_costs_no_attempt(void **state)
{
    (void)state;
    uint16_t port;
    int listening = held_port(&port), fillers[8];
    struct sockaddr_in at = { .sin_family = AF_INET,
                              .sin_addr.s_addr = htonl(INADDR_LOOPBACK),
                              .sin_port = htons(port) };
    assert_int_equal(listen(listening, 0), 0);
    for (size_t i = 0; i < COUNT_OF(fillers); i++) {
        fillers[i] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
        (void)connect(fillers[i], (struct sockaddr *)&at, sizeof at); /* waits, or is taken */
    }
    struct trial t;
    trial_begin(&t, &(struct http_client_opts){ .connect_timeout_ms = 100 });
    trial_requests(&t, port, 1, "POST");
    struct change_call *connecting = trial_start(&t, "job");
    struct change_call *late = trial_start(&t, "hasty");
    trial_run(&t);
    call_expect(connecting, CHANGE_PAUSED, 0, "127.0.0.1: ");
    call_expect(late, CHANGE_PAUSED, 0, "127.0.0.1: ");
    trial_end(&t);
    for (size_t i = 0; i < COUNT_OF(fillers); i++)
        close(fillers[i]);
    close(listening);
}

static void a_url_that_cannot_be_asked_is_hopeless(void **state)
{
    (void)state;
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, 80, 1, "POST");
    t.at[0].url = STR("http://a b/");
    struct change_call *c = trial_start(&t, "hook");
    trial_run(&t);
    call_expect(c, CHANGE_HOPELESS, 0, "the url holds what no url may hold");
    trial_end(&t);
}

/* ---- cancels and stops ---- */

struct poke {
    struct trial *t;
    struct rogue *r;
    void (*act)(struct trial *t);
    struct loop_timer *timer;
};

/* Once the target has the first request. */
static void poke_look(void *ctx)
{
    struct poke *p = ctx;
    if (rogue_requests(p->r) == 0)
        return;
    loop_timer_stop(p->timer);
    p->act(p->t);
}

static void cancel_first(struct trial *t)
{
    change_call_cancel(&t->calls[0]);
}
static void cancel_all(struct trial *t)
{
    for (unsigned i = t->count; i-- > 0;)
        change_call_cancel(&t->calls[i]);
}
static void stop_client(struct trial *t)
{
    http_client_stop(t->asker.client);
}

/* Calls of two requests at a target that does not answer; act when the first is there. */
static void hang_and(struct trial *t, unsigned calls, const struct http_client_opts *opts,
                     void (*act)(struct trial *t))
{
    struct script s = { .replies = (const char *const[]){ HANG, HANG, HANG } };
    struct rogue *r = rogue_start(play_script, &s);
    trial_begin(t, opts);
    trial_requests(t, rogue_port(r), 2, "POST");
    for (unsigned i = 0; i < calls; i++)
        (void)trial_start(t, "job");
    struct poke p = { .t = t, .r = r, .act = act };
    p.timer = loop_timer_new(t->asker.loop, poke_look, &p);
    loop_timer_start(p.timer, 1, 1);
    trial_run(t);
    loop_timer_free(&p.timer);
    assert_int_equal(rogue_requests(r), 1);
    trial_end(t);
    rogue_stop(&r);
}

static void a_running_call_is_canceled(void **state)
{
    (void)state;
    struct trial t;
    hang_and(&t, 1, NULL, cancel_first);
    call_expect(&t.calls[0], CHANGE_STOPPED, 0, "canceled");
}

static void a_call_that_waits_for_its_turn_is_canceled(void **state)
{
    (void)state;
    struct trial t;
    const struct http_client_opts one = { .per_host_max = 1 };
    hang_and(&t, 2, &one, cancel_all);
    call_expect(&t.calls[0], CHANGE_STOPPED, 0, "canceled");
    call_expect(&t.calls[1], CHANGE_STOPPED, 0, "canceled");
}

static void a_client_that_stops_stops_its_calls(void **state)
{
    (void)state;
    struct trial t;
    const struct http_client_opts one = { .per_host_max = 1 };
    hang_and(&t, 2, &one, stop_client);
    call_expect(&t.calls[0], CHANGE_STOPPED, 0, "the client has stopped");
    call_expect(&t.calls[1], CHANGE_STOPPED, 0, "the client has stopped");
}

static void a_stopped_client_starts_none(void **state)
{
    (void)state;
    struct trial t;
    trial_begin(&t, NULL);
    trial_requests(&t, 80, 1, "POST");
    http_client_stop(t.asker.client);
    struct change_call *c = trial_start(&t, "job");
    trial_run(&t);
    call_expect(c, CHANGE_STOPPED, 0, "the client has stopped");
    trial_end(&t);
}

/* Our own limit is no fault of the item. */
static void what_finds_no_turn_costs_no_attempt(void **state)
{
    (void)state;
    struct trial t;
    const struct http_client_opts few = { .per_host_max = 1, .waiting_max = 1 };
    hang_and(&t, 3, &few, stop_client);
    call_expect(&t.calls[2], CHANGE_PAUSED, 0, "too many requests are waiting");
}

/* start, cancel, and a target that says OK if it is asked. */
static unsigned cancel_at_once(struct trial *t, unsigned requests, bool late)
{
    struct script s = { .replies = (const char *const[]){ OK_REPLY, OK_REPLY } };
    struct rogue *r = rogue_start(play_script, &s);
    trial_begin(t, NULL);
    cancels_are_late = late;
    trial_requests(t, rogue_port(r), requests, "POST");
    struct change_call *c = trial_start(t, "job");
    change_call_cancel(c);
    assert_int_equal(t->left, 1); /* not inside cancel */
    trial_run(t);
    unsigned sent = rogue_requests(r);
    trial_end(t);
    rogue_stop(&r);
    return sent;
}

static void a_call_that_has_not_begun_is_canceled(void **state)
{
    (void)state;
    struct trial t;
    assert_int_equal(cancel_at_once(&t, 2, false), 0);
    call_expect(&t.calls[0], CHANGE_STOPPED, 0, "canceled");
}

/* What was done is done: it would only be done twice. */
static void a_cancel_behind_the_last_answer_changes_nothing(void **state)
{
    (void)state;
    struct trial t;
    assert_int_equal(cancel_at_once(&t, 1, true), 1);
    call_expect(&t.calls[0], CHANGE_DONE, 1, "");
}

static void a_cancel_between_two_requests_keeps_the_next_from_being_sent(void **state)
{
    (void)state;
    struct trial t;
    assert_int_equal(cancel_at_once(&t, 2, true), 1);
    call_expect(&t.calls[0], CHANGE_STOPPED, 1, "canceled");
    assert_int_equal(t.calls[0].result.status, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_request_goes_out_as_it_was_made),
        cmocka_unit_test(a_reply_is_judged_by_its_head_and_first_line),
        cmocka_unit_test(a_redirect_is_not_followed),
        cmocka_unit_test(the_first_that_is_not_done_ends_it),
        cmocka_unit_test(without_requests_there_is_nothing_to_do),
        cmocka_unit_test(the_room_of_a_head_is_given_back_before_the_next),
        cmocka_unit_test(a_large_reply_is_read_and_dropped),
        cmocka_unit_test(a_reply_without_end_is_cut_off),
        cmocka_unit_test(what_was_sent_and_not_answered_counts),
        cmocka_unit_test(a_reply_that_trickles_is_late),
        cmocka_unit_test(a_target_that_is_not_there_costs_no_attempt),
        cmocka_unit_test(a_target_that_does_not_take_connections_costs_no_attempt),
        cmocka_unit_test(a_url_that_cannot_be_asked_is_hopeless),
        cmocka_unit_test(a_running_call_is_canceled),
        cmocka_unit_test(a_call_that_waits_for_its_turn_is_canceled),
        cmocka_unit_test(a_client_that_stops_stops_its_calls),
        cmocka_unit_test(a_stopped_client_starts_none),
        cmocka_unit_test(what_finds_no_turn_costs_no_attempt),
        cmocka_unit_test(a_call_that_has_not_begun_is_canceled),
        cmocka_unit_test(a_cancel_behind_the_last_answer_changes_nothing),
        cmocka_unit_test(a_cancel_between_two_requests_keeps_the_next_from_being_sent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
