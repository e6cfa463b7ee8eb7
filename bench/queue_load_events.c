/* queue_load_events.c - events as EventBus sends them: POST /v1/events, keep-alive, an object or an
 * array. An event has an id of its own, also among those of other runs: one that the log had lately
 * is not stored again. --queue names its stream. Nothing is taken. */
#include "queue_load.h"

#include <inttypes.h>
#include <unistd.h>

static void produce(struct load_conn *c, unsigned items)
{
    const struct load_opts *o = c->opts;
    struct buf *b = &c->scratch;
    buf_clear(b);
    for (unsigned i = 0; i < items; i++) {
        uint64_t number = c->tags++;
        buf_put(b, items == 1 ? STR("") : i == 0 ? STR("[") : STR(","));
        buf_printf(b,
                   "{\"meta\":{\"stream\":\"%s\",\"domain\":\"localhost\",\"id\":\"%d-%u-%" PRIu64
                   "\"},\"page_title\":\"T%" PRIu64 "\",\"text\":\"",
                   o->queue, (int)getpid(), c->number, number, (c->number * 7919 + number) % 1000);
        buf_put(b, (str){ .p = o->payload, .n = o->item_bytes });
        buf_put(b, STR("\"}"));
    }
    if (items > 1)
        buf_put_c(b, ']');
    buf_printf(&c->out,
               "POST /v1/events HTTP/1.1\r\nHost: bench\r\nContent-Type: "
               "application/json\r\nContent-Length: %zu\r\n\r\n",
               b->n);
    buf_put(&c->out, buf_str(b));
}

static enum load_reply reply(struct load_conn *c)
{
    str in = load_in(c), length = STR("content-length: ");
    size_t end = str_find_str(in, STR("\r\n\r\n"));
    if (end == in.n)
        return REPLY_MORE;
    uint64_t body = 0;
    for (str rest = str_take(in, end); rest.n > 0;) {
        str line = str_split(&rest, '\n');
        if (line.n > length.n && str_eq_nocase(str_take(line, length.n), length) &&
            !str_to_u64(str_trim(str_take(str_skip(line, length.n), line.n - length.n - 1)),
                        &body) &&
            !str_to_u64(str_trim(str_skip(line, length.n)), &body))
            return REPLY_BROKEN;
    }
    if (in.n < end + 4 + body)
        return REPLY_MORE;
    bool taken = str_starts(in, STR("HTTP/1.1 201"));
    if (!taken)
        load_complain(c, in);
    load_drop(c, end + 4 + (size_t)body);
    return taken ? REPLY_DONE : REPLY_REFUSED;
}

const struct load_wire load_events = {
    .name = "events", .port = 7231, .produce = produce, .reply = reply
};
