/* queue_load_text.c - three protocols of lines: beanstalkd's, Redis (RESP, on a stream), NATS (on
 * JetStream).
 *
 * An operation of many items is as many commands, sent at once, where the protocol has no word for
 * many. */
#include "queue_load.h"

#include <stdio.h>
#include <string.h>

static str payload_of(const struct load_conn *c)
{
    return (str){ .p = c->opts->payload, .n = c->opts->item_bytes };
}

/* A number in decimal at the start of s. */
static uint64_t number_at(str s)
{
    uint64_t n = 0;
    for (size_t i = 0; i < s.n && s.p[i] >= '0' && s.p[i] <= '9'; i++)
        n = n * 10 + (uint64_t)(s.p[i] - '0');
    return n;
}

static str word(str *rest)
{
    return str_split(rest, ' ');
}

/* Handles are texts ended by NUL. */
static void add_handle(struct load_conn *c, str handle)
{
    buf_put(&c->handles, handle);
    buf_put_c(&c->handles, '\0');
    c->taken++;
}

/* ---- beanstalkd: one tube, put, reserve-with-timeout 0, delete ---- */

static void beanstalk_produce(struct load_conn *c, unsigned items)
{
    for (unsigned i = 0; i < items; i++) {
        buf_printf(&c->out, "put 0 0 600 %zu\r\n", c->opts->item_bytes);
        buf_put(&c->out, payload_of(c));
        buf_put(&c->out, STR("\r\n"));
    }
}

static void beanstalk_take(struct load_conn *c, unsigned items)
{
    for (unsigned i = 0; i < items; i++)
        buf_put(&c->out, STR("reserve-with-timeout 0\r\n"));
}

static void beanstalk_finish(struct load_conn *c)
{
    str rest = buf_str(&c->handles);
    for (unsigned i = 0; i < c->taken; i++) {
        str id = str_split(&rest, '\0');
        buf_printf(&c->out, "delete %.*s\r\n", STR_ARG(id));
    }
}

static enum load_reply beanstalk_reply(struct load_conn *c)
{
    while (c->seen < c->wanted) {
        str line, in = load_in(c);
        size_t n;
        if (!load_line(in, &line, &n))
            return REPLY_MORE;
        str rest = line, verb = word(&rest);
        if (str_eq(verb, STR("RESERVED"))) {
            str id = word(&rest);
            size_t body = (size_t)number_at(rest) + 2;
            if (in.n < n + body)
                return REPLY_MORE;
            add_handle(c, id);
            n += body;
        } else if (!str_eq(verb, STR("INSERTED")) && !str_eq(verb, STR("DELETED")) &&
                   !str_eq(verb, STR("TIMED_OUT"))) {
            load_complain(c, line);
            return REPLY_BROKEN;
        }
        c->seen++;
        load_drop(c, n);
    }
    return c->op == OP_TAKE && c->taken == 0 ? REPLY_EMPTY : REPLY_DONE;
}

const struct load_wire load_beanstalk = { .name = "beanstalk",
                                          .port = 11300,
                                          .produce = beanstalk_produce,
                                          .take = beanstalk_take,
                                          .finish = beanstalk_finish,
                                          .reply = beanstalk_reply };

/* ---- Redis: XADD, XREADGROUP of group "g", XACK and XDEL ---- */

static void put_bulk(struct load_conn *c, str s)
{
    buf_printf(&c->out, "$%zu\r\n", s.n);
    buf_put(&c->out, s);
    buf_put(&c->out, STR("\r\n"));
}

static void redis_produce(struct load_conn *c, unsigned items)
{
    for (unsigned i = 0; i < items; i++) {
        buf_put(&c->out, STR("*5\r\n$4\r\nXADD\r\n"));
        put_bulk(c, str_of(c->opts->queue));
        buf_put(&c->out, STR("$1\r\n*\r\n$1\r\nd\r\n"));
        put_bulk(c, payload_of(c));
    }
}

static void redis_take(struct load_conn *c, unsigned items)
{
    char number[24], name[LOAD_NAME_BYTES];
    (void)snprintf(number, sizeof number, "%u", items);      /* fits */
    (void)snprintf(name, sizeof name, "load-%u", c->number); /* fits */
    buf_put(&c->out, STR("*9\r\n$10\r\nXREADGROUP\r\n$5\r\nGROUP\r\n$1\r\ng\r\n"));
    put_bulk(c, str_of(name));
    buf_put(&c->out, STR("$5\r\nCOUNT\r\n"));
    put_bulk(c, str_of(number));
    buf_put(&c->out, STR("$7\r\nSTREAMS\r\n"));
    put_bulk(c, str_of(c->opts->queue));
    buf_put(&c->out, STR("$1\r\n>\r\n"));
}

static void redis_finish(struct load_conn *c)
{
    static const struct {
        const char *verb;
        unsigned words;
    } calls[] = { { "XACK", 3 }, { "XDEL", 2 } };
    for (size_t k = 0; k < COUNT_OF(calls); k++) {
        str rest = buf_str(&c->handles);
        buf_printf(&c->out, "*%u\r\n", calls[k].words + c->taken);
        put_bulk(c, str_of(calls[k].verb));
        put_bulk(c, str_of(c->opts->queue));
        if (calls[k].words == 3)
            put_bulk(c, STR("g"));
        for (unsigned i = 0; i < c->taken; i++)
            put_bulk(c, str_split(&rest, '\0'));
    }
}

static bool is_stream_id(str s)
{
    size_t dash = str_find(s, '-');
    uint64_t n;
    return dash < s.n && str_to_u64(str_take(s, dash), &n) && str_to_u64(str_skip(s, dash + 1), &n);
}

/* One whole answer, whatever is nested in it: the number of bytes, or 0 when more must come. Stream
 * ids in it are added when it is of a take. *refused: it is an error. */
static size_t redis_one(struct load_conn *c, bool *refused)
{
    str in = load_in(c), rest = in, line;
    unsigned before = c->taken;
    size_t handles = c->handles.n, n;
    uint64_t pending = 1;
    for (; pending > 0; pending--) {
        if (!load_line(rest, &line, &n))
            break;
        char kind = line.n > 0 ? line.p[0] : '?';
        str value = str_skip(line, 1);
        rest = str_skip(rest, n);
        if (kind == '*' && value.n > 0 && value.p[0] != '-')
            pending += number_at(value);
        if (kind == '$' && value.n > 0 && value.p[0] != '-') {
            size_t size = (size_t)number_at(value);
            if (rest.n < size + 2)
                break;
            if (c->op == OP_TAKE && is_stream_id(str_take(rest, size)))
                add_handle(c, str_take(rest, size));
            rest = str_skip(rest, size + 2);
        }
        *refused = *refused || kind == '-';
        if (kind == '-')
            load_complain(c, line);
    }
    if (pending == 0)
        return in.n - rest.n;
    c->taken = before; /* it is read again when more has come */
    c->handles.n = handles;
    return 0;
}

static enum load_reply redis_reply(struct load_conn *c)
{
    unsigned answers = c->op == OP_PRODUCE ? c->wanted : c->op == OP_FINISH ? 2 : 1;
    bool refused = false;
    while (c->seen < answers) {
        size_t n = redis_one(c, &refused);
        if (n == 0)
            return REPLY_MORE;
        c->seen++;
        load_drop(c, n);
    }
    if (refused)
        return REPLY_REFUSED;
    return c->op == OP_TAKE && c->taken == 0 ? REPLY_EMPTY : REPLY_DONE;
}

const struct load_wire load_redis = { .name = "redis",
                                      .port = 6379,
                                      .produce = redis_produce,
                                      .take = redis_take,
                                      .finish = redis_finish,
                                      .reply = redis_reply };

/* ---- NATS: a stream and a durable consumer "c" of the queue's name ---- */

static void nats_hello(struct load_conn *c)
{
    buf_put(&c->out,
            STR("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true}\r\n"));
    buf_printf(&c->out, "SUB _INBOX.%u 1\r\nPING\r\n", c->number);
}

static void nats_publish(struct load_conn *c, str subject, str bytes)
{
    buf_printf(&c->out, "PUB %.*s _INBOX.%u %zu\r\n", STR_ARG(subject), c->number, bytes.n);
    buf_put(&c->out, bytes);
    buf_put(&c->out, STR("\r\n"));
}

static void nats_produce(struct load_conn *c, unsigned items)
{
    for (unsigned i = 0; i < items; i++)
        nats_publish(c, str_of(c->opts->queue), payload_of(c));
}

static void nats_take(struct load_conn *c, unsigned items)
{
    char subject[2 * LOAD_NAME_BYTES], body[LOAD_NAME_BYTES];
    (void)snprintf(subject, sizeof subject, "$JS.API.CONSUMER.MSG.NEXT.%.60s.c",
                   c->opts->queue);                                              /* fits */
    (void)snprintf(body, sizeof body, "{\"batch\":%u,\"no_wait\":true}", items); /* fits */
    nats_publish(c, str_of(subject), str_of(body));
}

/* Acknowledged and answered, so that it is known to have arrived. */
static void nats_finish(struct load_conn *c)
{
    str rest = buf_str(&c->handles);
    for (unsigned i = 0; i < c->taken; i++)
        nats_publish(c, str_split(&rest, '\0'), STR("+ACK"));
}

/* One line with its payload: bytes, 0 when more must come. */
static size_t nats_one(struct load_conn *c, bool *counts, bool *refused, bool *over)
{
    str in = load_in(c), line;
    size_t n;
    if (!load_line(in, &line, &n))
        return 0;
    str words[6] = { STR_NONE }, rest = line;
    unsigned count = 0;
    while (rest.n > 0 && count < COUNT_OF(words))
        words[count++] = word(&rest);
    bool status = str_eq(words[0], STR("HMSG")), message = status || str_eq(words[0], STR("MSG"));
    if (str_eq(words[0], STR("PING")))
        buf_put(&c->out, STR("PONG\r\n"));
    *refused = str_eq(words[0], STR("-ERR"));
    *counts = message || (c->op == OP_HELLO && str_eq(words[0], STR("PONG")));
    if (!message)
        return n;
    size_t size = (size_t)number_at(words[count - 1]) + 2;
    if (in.n < n + size)
        return 0;
    str body = str_take(str_skip(in, n), size);
    *over = status; /* 404 or 408: no more of this request */
    *refused = !status && str_find_str(body, STR("\"error\"")) < body.n;
    if (c->op == OP_TAKE && !status && count == 5)
        add_handle(c, words[3]);
    if (*refused)
        load_complain(c, body);
    return n + size;
}

static enum load_reply nats_reply(struct load_conn *c)
{
    unsigned answers = c->op == OP_HELLO ? 1 : c->wanted;
    bool refused = false, over = false;
    while (c->seen < answers && !over) {
        bool counts = false, wrong = false;
        size_t n = nats_one(c, &counts, &wrong, &over);
        if (n == 0)
            return REPLY_MORE;
        refused = refused || wrong;
        c->seen += counts ? 1 : 0;
        load_drop(c, n);
    }
    if (refused)
        return REPLY_REFUSED;
    return c->op == OP_TAKE && c->taken == 0 ? REPLY_EMPTY : REPLY_DONE;
}

const struct load_wire load_nats = { .name = "nats",
                                     .port = 4222,
                                     .hello = nats_hello,
                                     .produce = nats_produce,
                                     .take = nats_take,
                                     .finish = nats_finish,
                                     .reply = nats_reply };
