/* queue_load_amqp.c - AMQP 0-9-1 as RabbitMQ speaks it: a durable queue, persistent messages,
 * publisher confirms; basic.get and basic.ack. An ack is not answered, so a finish is done when it
 * is sent. */
#include "queue_load.h"

#include <string.h>

enum {
    FRAME_METHOD = 1,
    FRAME_HEADER = 2,
    FRAME_BODY = 3,
    FRAME_HEARTBEAT = 8,
    FRAME_END = 0xce,
    FRAME_HEAD = 7
};
#define METHOD(class_id, method_id) ((uint32_t)(class_id) << 16 | (method_id))
enum {
    CONNECTION_START = METHOD(10, 10),
    CONNECTION_START_OK = METHOD(10, 11),
    CONNECTION_TUNE = METHOD(10, 30),
    CONNECTION_TUNE_OK = METHOD(10, 31),
    CONNECTION_OPEN = METHOD(10, 40),
    CONNECTION_OPEN_OK = METHOD(10, 41),
    CONNECTION_CLOSE = METHOD(10, 50),
    CHANNEL_OPEN = METHOD(20, 10),
    CHANNEL_OPEN_OK = METHOD(20, 11),
    CHANNEL_CLOSE = METHOD(20, 40),
    QUEUE_DECLARE = METHOD(50, 10),
    QUEUE_DECLARE_OK = METHOD(50, 11),
    CONFIRM_SELECT = METHOD(85, 10),
    CONFIRM_SELECT_OK = METHOD(85, 11),
    BASIC_PUBLISH = METHOD(60, 40),
    BASIC_GET = METHOD(60, 70),
    BASIC_GET_OK = METHOD(60, 71),
    BASIC_GET_EMPTY = METHOD(60, 72),
    BASIC_ACK = METHOD(60, 80),
    BASIC_NACK = METHOD(60, 120),
};

static void put_short(struct buf *b, str s)
{
    buf_put_u8(b, (uint8_t)s.n);
    buf_put(b, s);
}

static void put_long(struct buf *b, str s)
{
    buf_put_be32(b, (uint32_t)s.n);
    buf_put(b, s);
}

/* What stands in scratch, as a frame. */
static void put_frame(struct load_conn *c, uint8_t type, uint16_t channel)
{
    buf_put_u8(&c->out, type);
    buf_put_be16(&c->out, channel);
    buf_put_be32(&c->out, (uint32_t)c->scratch.n);
    buf_put(&c->out, buf_str(&c->scratch));
    buf_put_u8(&c->out, FRAME_END);
}

static struct buf *begin_method(struct load_conn *c, uint32_t method)
{
    buf_clear(&c->scratch);
    buf_put_be32(&c->scratch, method);
    return &c->scratch;
}

static void hello(struct load_conn *c)
{
    buf_put(&c->out, STR("AMQP\x00\x00\x09\x01"));
}

/* ---- the greeting: each method of the server is answered by the next of ours ---- */

static void put_start_ok(struct load_conn *c)
{
    struct buf *b = begin_method(c, CONNECTION_START_OK);
    buf_put_be32(b, 0); /* no properties */
    put_short(b, STR("PLAIN"));
    put_long(b, STR("\0guest\0guest"));
    put_short(b, STR("en_US"));
    put_frame(c, FRAME_METHOD, 0);
}

static void put_tune_ok(struct load_conn *c)
{
    struct buf *b = begin_method(c, CONNECTION_TUNE_OK);
    buf_put_be16(b, 1); /* channels */
    buf_put_be32(b, 131072);
    buf_put_be16(b, 0); /* no heartbeats */
    put_frame(c, FRAME_METHOD, 0);
    b = begin_method(c, CONNECTION_OPEN);
    put_short(b, STR("/"));
    put_short(b, STR(""));
    buf_put_u8(b, 0);
    put_frame(c, FRAME_METHOD, 0);
}

static void put_channel(struct load_conn *c)
{
    put_short(begin_method(c, CHANNEL_OPEN), STR(""));
    put_frame(c, FRAME_METHOD, 1);
    struct buf *b = begin_method(c, QUEUE_DECLARE);
    buf_put_be16(b, 0);
    put_short(b, str_of(c->opts->queue));
    buf_put_u8(b, 2); /* durable */
    buf_put_be32(b, 0);
    put_frame(c, FRAME_METHOD, 1);
    buf_put_u8(begin_method(c, CONFIRM_SELECT), 0);
    put_frame(c, FRAME_METHOD, 1);
}

static enum load_reply greet(struct load_conn *c, uint32_t method)
{
    if (method == CONNECTION_START)
        put_start_ok(c);
    else if (method == CONNECTION_TUNE)
        put_tune_ok(c);
    else if (method == CONNECTION_OPEN_OK)
        put_channel(c);
    return method == CONFIRM_SELECT_OK ? REPLY_DONE : REPLY_MORE;
}

/* ---- operations ---- */

static void produce(struct load_conn *c, unsigned items)
{
    str payload = { .p = c->opts->payload, .n = c->opts->item_bytes };
    for (unsigned i = 0; i < items; i++) {
        struct buf *b = begin_method(c, BASIC_PUBLISH);
        buf_put_be16(b, 0);
        put_short(b, STR(""));
        put_short(b, str_of(c->opts->queue));
        buf_put_u8(b, 0);
        put_frame(c, FRAME_METHOD, 1);
        buf_clear(b);
        buf_put_be16(b, 60);
        buf_put_be16(b, 0);
        buf_put_be64(b, payload.n);
        buf_put_be16(b, 1 << 12); /* delivery-mode alone: */
        buf_put_u8(b, 2);         /* persistent */
        put_frame(c, FRAME_HEADER, 1);
        buf_clear(b);
        buf_put(b, payload);
        put_frame(c, FRAME_BODY, 1);
    }
    c->tags += items;
}

static void take(struct load_conn *c, unsigned items)
{
    for (unsigned i = 0; i < items; i++) {
        struct buf *b = begin_method(c, BASIC_GET);
        buf_put_be16(b, 0);
        put_short(b, str_of(c->opts->queue));
        buf_put_u8(b, 0);
        put_frame(c, FRAME_METHOD, 1);
    }
}

static void finish(struct load_conn *c)
{
    struct buf *b = begin_method(c, BASIC_ACK);
    buf_put_be64(b, c->tag);
    buf_put_u8(b, 1); /* and all before */
    put_frame(c, FRAME_METHOD, 1);
}

static enum load_reply take_method(struct load_conn *c, uint32_t method, struct cursor *args)
{
    if (method == BASIC_GET_OK) {
        c->tag = cursor_be64(args);
        c->taken++;
    } else if (method == BASIC_GET_EMPTY) {
        c->seen++;
    }
    return REPLY_MORE;
}

/* What one frame means. The body of a delivery ends it: small ones come in one frame. */
static enum load_reply on_frame(struct load_conn *c, uint8_t type, str payload)
{
    struct cursor args = { .rest = payload };
    uint32_t method = type == FRAME_METHOD ? cursor_be32(&args) : 0;
    if (method == CONNECTION_CLOSE || method == CHANNEL_CLOSE || method == BASIC_NACK) {
        load_complain(c, str_skip(payload, 7));
        return REPLY_BROKEN;
    }
    if (c->op == OP_HELLO)
        return greet(c, method);
    if (c->op == OP_PRODUCE && method == BASIC_ACK)
        c->tag = cursor_be64(&args);
    if (c->op == OP_TAKE && type == FRAME_METHOD)
        (void)take_method(c, method, &args); /* more, always */
    if (c->op == OP_TAKE && type == FRAME_BODY)
        c->seen++;
    if (c->op == OP_PRODUCE)
        return c->tag >= c->tags ? REPLY_DONE : REPLY_MORE;
    if (c->op == OP_TAKE && c->seen >= c->wanted)
        return c->taken > 0 ? REPLY_DONE : REPLY_EMPTY;
    return REPLY_MORE;
}

static enum load_reply reply(struct load_conn *c)
{
    if (c->op == OP_FINISH)
        return REPLY_DONE;
    for (;;) {
        str in = load_in(c);
        struct cursor head = { .rest = in };
        uint8_t type = cursor_u8(&head);
        (void)cursor_be16(&head); /* channel: there is one */
        size_t size = cursor_be32(&head);
        if (head.failed || in.n < FRAME_HEAD + size + 1)
            return REPLY_MORE;
        enum load_reply got = on_frame(c, type, str_take(str_skip(in, FRAME_HEAD), size));
        load_drop(c, FRAME_HEAD + size + 1);
        if (got != REPLY_MORE)
            return got;
    }
}

const struct load_wire load_amqp = { .name = "amqp",
                                     .port = 5672,
                                     .hello = hello,
                                     .produce = produce,
                                     .take = take,
                                     .finish = finish,
                                     .reply = reply };
