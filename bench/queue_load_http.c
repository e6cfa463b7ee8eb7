/* queue_load_http.c - Querator's calls, as its Go client makes them: POST, keep-alive, protobuf or
 * JSON. */
#include "queue_load.h"

#include <stdio.h>
#include <string.h>

/* ---- protobuf ---- */

static void put_varint(struct buf *b, uint64_t v)
{
    for (; v >= 0x80; v >>= 7)
        buf_put_u8(b, (uint8_t)(v | 0x80));
    buf_put_u8(b, (uint8_t)v);
}

static void put_bytes(struct buf *b, unsigned field, str s)
{
    put_varint(b, field << 3 | 2);
    put_varint(b, s.n);
    buf_put(b, s);
}

static void put_int(struct buf *b, unsigned field, uint64_t v)
{
    put_varint(b, field << 3);
    put_varint(b, v);
}

static size_t varint_bytes(uint64_t v)
{
    size_t n = 1;
    for (; v >= 0x80; v >>= 7)
        n++;
    return n;
}

static uint64_t get_varint(struct cursor *c)
{
    uint64_t v = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
        uint8_t byte = cursor_u8(c);
        v |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80)
            break;
    }
    return v;
}

/* ---- requests ---- */

#define TIMEOUT "30s" /* of produce and complete */

static void put_base64(struct buf *b, str s)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *p = (const unsigned char *)s.p;
    for (size_t i = 0; i < s.n; i += 3) {
        size_t left = s.n - i;
        uint32_t v = (uint32_t)p[i] << 16 | (left > 1 ? (uint32_t)p[i + 1] << 8 : 0) |
                     (left > 2 ? p[i + 2] : 0u);
        buf_put_c(b, digits[v >> 18]);
        buf_put_c(b, digits[v >> 12 & 63]);
        buf_put_c(b, left > 1 ? digits[v >> 6 & 63] : '=');
        buf_put_c(b, left > 2 ? digits[v & 63] : '=');
    }
}

/* The head, and what stands in scratch as the body. */
static void put_request(struct load_conn *c, const char *call)
{
    const struct load_opts *o = c->opts;
    buf_printf(&c->out,
               "POST /v1/%s HTTP/1.1\r\nHost: bench\r\nContent-Type: "
               "application/%s\r\nContent-Length: %zu\r\n",
               call, o->json ? "json" : "protobuf", c->scratch.n);
    buf_printf(&c->out, "Accept: application/%s\r\n",
               o->json || o->accept_json ? "json" : "protobuf");
    if (o->key != NULL)
        buf_printf(&c->out, "Authorization: Bearer %s\r\n", o->key);
    buf_put(&c->out, STR("\r\n"));
    buf_put(&c->out, buf_str(&c->scratch));
}

static void produce(struct load_conn *c, unsigned items)
{
    const struct load_opts *o = c->opts;
    struct buf *b = &c->scratch;
    str item = { .p = o->payload, .n = o->item_bytes };
    buf_clear(b);
    if (o->json)
        buf_printf(b, "{\"queue_name\":\"%s\",\"request_timeout\":\"" TIMEOUT "\",\"items\":[",
                   o->queue);
    else {
        put_bytes(b, 1, str_of(o->queue));
        put_bytes(b, 2, STR(TIMEOUT));
    }
    for (unsigned i = 0; i < items; i++) {
        if (o->json) {
            buf_put(b, i == 0 ? STR("{\"bytes\":\"") : STR(",{\"bytes\":\""));
            put_base64(b, item);
            buf_put(b, STR("\"}"));
        } else {
            put_varint(b, 3 << 3 | 2);
            put_varint(b, 1 + varint_bytes(item.n) + item.n);
            put_bytes(b, 5, item);
        }
    }
    if (o->json)
        buf_put(b, STR("]}"));
    put_request(c, "queue.produce");
}

static void take(struct load_conn *c, unsigned items)
{
    const struct load_opts *o = c->opts;
    struct buf *b = &c->scratch;
    char name[LOAD_NAME_BYTES];
    (void)snprintf(name, sizeof name, "load-%u", c->number); /* fits */
    buf_clear(b);
    if (o->json)
        buf_printf(b,
                   "{\"queue_name\":\"%s\",\"batch_size\":%u,\"client_id\":\"%s\",\"request_"
                   "timeout\":\"%s\"}",
                   o->queue, items, name, o->timeout);
    else {
        put_bytes(b, 1, str_of(o->queue));
        put_int(b, 2, items);
        put_bytes(b, 3, str_of(name));
        put_bytes(b, 4, str_of(o->timeout));
    }
    put_request(c, "queue.lease");
}

/* Handles are ids, each ended by NUL. */
static void finish(struct load_conn *c)
{
    const struct load_opts *o = c->opts;
    struct buf *b = &c->scratch;
    str rest = buf_str(&c->handles);
    buf_clear(b);
    if (o->json)
        buf_printf(b,
                   "{\"queue_name\":\"%s\",\"partition\":%u,\"request_timeout\":\"" TIMEOUT
                   "\",\"ids\":[",
                   o->queue, c->partition);
    else {
        put_bytes(b, 1, str_of(o->queue));
        if (c->partition != 0)
            put_int(b, 2, c->partition);
        put_bytes(b, 3, STR(TIMEOUT));
    }
    for (unsigned i = 0; i < c->taken; i++) {
        str id = str_split(&rest, '\0');
        if (o->json)
            buf_printf(b, "%s\"%.*s\"", i > 0 ? "," : "", STR_ARG(id));
        else
            put_bytes(b, 4, id);
    }
    if (o->json)
        buf_put(b, STR("]}"));
    put_request(c, "queue.complete");
}

/* ---- answers ---- */

struct head {
    int status;
    size_t length, bytes;
    bool chunked, json;
};

static bool starts_nocase(str s, str prefix)
{
    return s.n >= prefix.n && str_eq_nocase(str_take(s, prefix.n), prefix);
}

/* False: it has not all come. */
static bool read_head(str in, struct head *h)
{
    size_t end = str_find_str(in, STR("\r\n\r\n")), n;
    str line, rest = str_take(in, end + 2);
    uint64_t number = 0;
    if (end == in.n || !load_line(rest, &line, &n))
        return false;
    *h = (struct head){ .bytes = end + 4 };
    if (line.n >= 12 && str_to_u64(str_take(str_skip(line, 9), 3), &number))
        h->status = (int)number;
    for (rest = str_skip(rest, n); load_line(rest, &line, &n); rest = str_skip(rest, n)) {
        if (starts_nocase(line, STR("content-length:")) &&
            str_to_u64(str_trim(str_skip(line, 15)), &number))
            h->length = (size_t)number;
        else if (starts_nocase(line, STR("transfer-encoding:")))
            h->chunked = true;
        else if (starts_nocase(line, STR("content-type:")))
            h->json = str_find_str(line, STR("json")) < line.n;
    }
    return true;
}

static bool read_hex(str s, size_t *out)
{
    *out = 0;
    for (size_t i = 0; i < s.n && s.p[i] != ';'; i++) {
        char ch = s.p[i];
        int digit = ch >= '0' && ch <= '9'   ? ch - '0'
                    : ch >= 'a' && ch <= 'f' ? ch - 'a' + 10
                    : ch >= 'A' && ch <= 'F' ? ch - 'A' + 10
                                             : -1;
        if (digit < 0)
            return false;
        *out = *out * 16 + (size_t)digit;
    }
    return s.n > 0;
}

/* The body in one piece, in scratch when it came in chunks. False: it has not all come. *bytes: of
 * head and body. */
static bool read_body(struct load_conn *c, const struct head *h, str *body, size_t *bytes)
{
    str in = load_in(c);
    if (!h->chunked) {
        *body = str_take(str_skip(in, h->bytes), h->length);
        *bytes = h->bytes + h->length;
        return in.n >= *bytes;
    }
    str rest = str_skip(in, h->bytes), line;
    size_t n, size;
    buf_clear(&c->scratch);
    while (load_line(rest, &line, &n) && read_hex(line, &size) && rest.n >= n + size + 2) {
        buf_put(&c->scratch, str_take(str_skip(rest, n), size));
        rest = str_skip(rest, n + size + 2);
        if (size > 0)
            continue;
        *body = buf_str(&c->scratch);
        *bytes = in.n - rest.n;
        return true;
    }
    return false;
}

static void add_id(struct load_conn *c, str id)
{
    buf_put(&c->handles, id);
    buf_put_c(&c->handles, '\0');
    c->taken++;
}

static void read_lease_protobuf(struct load_conn *c, str body)
{
    struct cursor all = { .rest = body };
    while (all.rest.n > 0 && !all.failed) {
        uint64_t key = get_varint(&all);
        str piece = (key & 7) == 2 ? cursor_bytes(&all, get_varint(&all)) : STR_NONE;
        if (key == (2 << 3))
            c->partition = (uint32_t)get_varint(&all);
        struct cursor item = { .rest = key == (3 << 3 | 2) ? piece : STR_NONE };
        while (item.rest.n > 0 && !item.failed) {
            uint64_t field = get_varint(&item);
            str value = (field & 7) == 2 ? cursor_bytes(&item, get_varint(&item)) : STR_NONE;
            if (field == (4 << 3 | 2))
                add_id(c, value);
            else if ((field & 7) == 0)
                (void)get_varint(&item); /* attempts */
        }
    }
}

/* What stands behind "name": in a text of JSON. */
static str json_after(str s, str name)
{
    str rest = str_skip(s, str_find_str(s, name) + name.n);
    while (rest.n > 0 && (rest.p[0] == ' ' || rest.p[0] == ':'))
        rest = str_skip(rest, 1);
    return rest;
}

static void read_lease_json(struct load_conn *c, str body)
{
    str number = json_after(body, STR("\"partition\""));
    uint64_t n = 0;
    size_t digits = 0;
    while (digits < number.n && number.p[digits] >= '0' && number.p[digits] <= '9')
        digits++;
    if (str_to_u64(str_take(number, digits), &n))
        c->partition = (uint32_t)n;
    for (str rest = body; str_find_str(rest, STR("\"id\"")) < rest.n;) {
        rest = str_skip(json_after(rest, STR("\"id\"")), 1);
        add_id(c, str_take(rest, str_find(rest, '"')));
    }
}

static enum load_reply reply(struct load_conn *c)
{
    struct head h;
    str body;
    size_t bytes;
    if (!read_head(load_in(c), &h) || !read_body(c, &h, &body, &bytes))
        return REPLY_MORE;
    enum load_reply got = h.status == 200 ? REPLY_DONE : REPLY_REFUSED;
    if (c->op == OP_TAKE && h.status == 454)
        got = REPLY_EMPTY;
    if (got == REPLY_REFUSED)
        load_complain(c, body);
    if (c->op == OP_TAKE && got == REPLY_DONE) {
        c->partition = 0;
        if (h.json)
            read_lease_json(c, body);
        else
            read_lease_protobuf(c, body);
    }
    load_drop(c, bytes);
    return got;
}

const struct load_wire load_http = {
    .name = "http", .produce = produce, .take = take, .finish = finish, .reply = reply
};
