/* Goal: a caller may take a body as it comes, knows why there is none, and where a redirect leads.
 * Method: a real loop asks a server in this process that answers as each test says. */
#include "rogue.h"

#include "base/buf.h"

#include "../cmocka_all.h"

#include <netinet/in.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { TAKEN_BYTES_MAX = 1 << 20 };

struct taking {
    struct buf bytes;
    size_t enough; /* bytes after which no more is taken */
    unsigned pieces, headless;
};

static bool take(struct http_call *call, str piece)
{
    struct taking *t = CONTAINER_OF(call, struct ask, call)->ctx;
    t->pieces++;
    t->headless += call->status != 200 || http_call_header(call, "x-of").p == NULL;
    buf_put(&t->bytes, piece);
    return t->bytes.n < t->enough;
}

/* The head, then a piece each time the one before has arrived. */
static void play_pieces(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    while (rogue_read(r, fd, request)) {
        if (!rogue_say(fd, "HTTP/1.1 200 OK\r\nX-Of: two\r\nTransfer-Encoding: chunked\r\n\r\n"
                           "3\r\none\r\n"))
            return;
        rogue_settle(fd);
        if (!rogue_say(fd, "3\r\ntwo\r\n0\r\n\r\n"))
            return;
    }
}

static void take_all(struct taking *t, size_t enough, err expected)
{
    struct rogue *r = rogue_start(play_pieces, NULL);
    struct asker a;
    struct ask q;
    *t = (struct taking){ .enough = enough };
    buf_init(&t->bytes, TAKEN_BYTES_MAX);
    asker_begin(&a, NULL);
    ask_begin(&q, &a, rogue_port(r), "/");
    q.ctx = t;
    q.call.take = take;
    ask_now(&q);
    assert_int_equal(q.why, expected);
    assert_int_equal(t->headless, 0);
    assert_null(q.call.reply_body.p);
    ask_end(&q);
    asker_end(&a);
    rogue_stop(&r);
}

static void a_body_is_taken_in_pieces_behind_its_head(void **state)
{
    (void)state;
    struct taking t;
    take_all(&t, SIZE_MAX, ERR_OK);
    assert_true(t.pieces >= 1);
    assert_true(str_eq(buf_str(&t.bytes), STR("onetwo")));
    buf_fini(&t.bytes);
}

static void who_takes_no_more_gets_no_more(void **state)
{
    (void)state;
    struct taking t;
    take_all(&t, 1, ERR_IO);
    assert_int_equal(t.pieces, 1);
    buf_fini(&t.bytes);
}

/* ---- why there is none ---- */

static void play_half(struct rogue *r, int fd, unsigned nth)
{
    (void)nth;
    char request[ROGUE_REQUEST_BYTES_MAX];
    if (rogue_read(r, fd, request) &&
        rogue_say(fd, "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\no"))
        rogue_wait(fd);
}

static void play_smtp(struct rogue *r, int fd, unsigned nth)
{
    (void)r;
    (void)nth;
    (void)rogue_say(fd, "220 mail.example.test ESMTP\r\n"); /* or it is gone */
    rogue_wait(fd);
}

static enum http_call_fault fault_of(uint16_t port, int64_t stall_timeout_s)
{
    struct asker a;
    struct ask q;
    asker_begin(&a, NULL);
    ask_begin(&q, &a, port, "/");
    q.call.stall_timeout_s = stall_timeout_s;
    ask_now(&q);
    assert_int_not_equal(q.why, ERR_OK);
    enum http_call_fault fault = q.call.fault;
    assert_non_null(q.call.fault_text);
    ask_end(&q);
    asker_end(&a);
    return fault;
}

static void a_reply_that_stalls_is_late(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_half, NULL);
    assert_int_equal(fault_of(rogue_port(r), 1), HTTP_FAULT_LATE);
    rogue_stop(&r);
}

static void another_protocol_is_strange(void **state)
{
    (void)state;
    struct rogue *r = rogue_start(play_smtp, NULL);
    assert_int_equal(fault_of(rogue_port(r), 0), HTTP_FAULT_STRANGE);
    rogue_stop(&r);
}

/* A port that somebody holds, and listens to no more than nobody. */
static void a_port_nobody_listens_to_is_absent(void **state)
{
    (void)state;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in at = { .sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK) };
    socklen_t n = sizeof at;
    assert_int_equal(bind(fd, (struct sockaddr *)&at, n), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &n), 0);
    assert_int_equal(fault_of(ntohs(at.sin_port), 0), HTTP_FAULT_ABSENT);
    close(fd);
}

/* ---- redirects ---- */

static void a_redirect_leads_where_it_says(void **state)
{
    (void)state;
    static const struct {
        const char *location, *to;
    } rows[] = {
        { "https://b.test/x?y", "https://b.test/x?y" },
        { "/v1/page", "http://a.test:81/v1/page" },
        { "Other%2Ftitle?q=1", "http://a.test:81/en/html/Other%2Ftitle?q=1" },
        { "../all/X", "http://a.test:81/en/all/X" },
    };
    for (size_t i = 0; i < COUNT_OF(rows); i++) {
        struct buf to;
        buf_init(&to, 256);
        assert_int_equal(http_client_redirect(STR("http://a.test:81/en/html/T?redirect=true"),
                                              str_of(rows[i].location), &to),
                         ERR_OK);
        buf_put_c(&to, '\0');
        assert_string_equal(to.p, rows[i].to);
        buf_fini(&to);
    }
    struct buf small;
    buf_init(&small, 8);
    assert_int_not_equal(http_client_redirect(STR("http://a.test/"), STR("/long"), &small), ERR_OK);
    assert_int_equal(http_client_redirect(STR("no url"), STR("/x"), &small), ERR_BAD);
    buf_fini(&small);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_body_is_taken_in_pieces_behind_its_head),
        cmocka_unit_test(who_takes_no_more_gets_no_more),
        cmocka_unit_test(a_reply_that_stalls_is_late),
        cmocka_unit_test(another_protocol_is_strange),
        cmocka_unit_test(a_port_nobody_listens_to_is_absent),
        cmocka_unit_test(a_redirect_leads_where_it_says),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
