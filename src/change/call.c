/* call.c - the requests of one item, from the first to done.
 *
 * Invariants:
 *   1. From change_call_start until done there is one thing on its way that ends on the loop: a
 *      request of the client, or a post (of a call without requests).
 *   2. done is the last thing that is done: after it c is not touched.
 *   3. Each request begins with the arena as it was at the start. */
#include "change/call.h"

#include "loop/loop.h"

#define CALL_MAGIC 0xca11c4a6u

static void request_done(struct http_call *call, err why);

/* ---- bodies of replies ---- */

/* Control bytes, too: a line begins with the first text. */
static bool is_blank(char c)
{
    return (unsigned char)c <= ' ';
}

/* The body's first line that has text, as far as there is room. A line that ended keeps its end,
 * which says that nothing is added any more. */
static void line_take(struct change_call *c, str piece)
{
    for (size_t i = 0; i < piece.n && c->line_n < sizeof c->line; i++) {
        bool begun = c->line_n > 0;
        if (begun && c->line[c->line_n - 1] == '\n')
            return;
        if (begun || !is_blank(piece.p[i]))
            c->line[c->line_n++] = piece.p[i];
    }
}

/* Without the blanks at its end. */
static str line_of(const struct change_call *c)
{
    str line = { .p = c->line, .n = c->line_n };
    while (line.n > 0 && is_blank(line.p[line.n - 1]))
        line.n--;
    return line;
}

/* False: no more is read of this body. */
static bool reply_take(struct http_call *call, str piece)
{
    struct change_call *c = CONTAINER_OF(call, struct change_call, call);
    MAGIC_CHECK(c, CALL_MAGIC);
    line_take(c, piece);
    c->reply_bytes += piece.n;
    c->cut = c->reply_bytes > CHANGE_REPLY_BYTES_MAX;
    return !c->cut;
}

/* ---- requests ---- */

/* The limit of the client would hide the status of a reply that is too large: reply_take has its
 * own. */
static void request_send(struct change_call *c)
{
    /* finished counts the requests before this one. */
    const struct change_request *r = &c->requests->at[c->finished];
    c->line_n = 0;
    c->reply_bytes = 0;
    c->cut = false;
    c->call = (struct http_call){
        .method = r->method,
        .url = r->url,
        .headers = r->headers,
        .headers_count = r->headers_count,
        .body = r->body,
        .reply_bytes_max = SIZE_MAX,
        .deadline = { .ns = clock_mono(c->clock).ns + c->rule->timeout_ns },
        .arena = c->arena,
        .done = request_done,
        .take = reply_take,
    };
    http_call_start(c->client, &c->call);
}

/* A cut reply is a reply of which this file took no more: its status came whole, and counts. */
static void request_judge(struct change_call *c, err why)
{
    const struct change_answer answer = {
        .why = why == ERR_IO && c->cut ? ERR_OK : why,
        .sent = c->call.sent,
        .status = c->call.status,
        .read_only = str_eq_nocase(str_trim(http_call_header(&c->call, "x-readonly")), STR("true")),
        .retry_after = http_call_header(&c->call, "retry-after"),
        .line = line_of(c),
        .note = str_of(c->call.note.text),
    };
    change_judge(c->rule, &answer, clock_wall(c->clock), &c->result);
}

/* A call whose last request had nothing to do was done, if one of its requests was. */
static void call_end(struct change_call *c)
{
    if (c->any_done && c->result.fate == CHANGE_IGNORED) {
        c->result.fate = CHANGE_DONE;
        c->result.text[0] = '\0';
    }
    /* From here on a late callback would be found. */
    c->magic = 0;
    c->done(c);
}

static void request_done(struct http_call *call, err why)
{
    struct change_call *c = CONTAINER_OF(call, struct change_call, call);
    MAGIC_CHECK(c, CALL_MAGIC);
    loop_assert_here(c->loop);
    request_judge(c, why);
    /* What the client took for this reply. The result has copies of what is kept. */
    arena_release(c->arena, c->mark);
    bool fine = c->result.fate == CHANGE_DONE || c->result.fate == CHANGE_IGNORED;
    c->any_done |= c->result.fate == CHANGE_DONE;
    c->finished += fine;
    if (!fine || c->finished == c->requests->count) {
        call_end(c);
        return;
    }
    /* Canceled while the answer was on its way: the next request is not sent. */
    if (!c->canceled) {
        request_send(c);
        return;
    }
    c->result = (struct change_result){ .fate = CHANGE_STOPPED, .text = "canceled" };
    call_end(c);
}

/* A call without requests ends as others do: later, on the loop. */
static void nothing_done(void *ctx)
{
    struct change_call *c = ctx;
    MAGIC_CHECK(c, CALL_MAGIC);
    c->result = (struct change_result){ .fate = CHANGE_IGNORED, .text = "there is nothing to do" };
    call_end(c);
}

/* ---- the call ---- */

void change_call_start(struct change_call *c)
{
    loop_assert_here(c->loop);
    c->magic = CALL_MAGIC;
    c->mark = arena_mark(c->arena);
    c->finished = 0;
    c->canceled = c->any_done = false;
    if (c->requests->count > 0)
        request_send(c);
    else
        loop_post(c->loop, nothing_done, c);
}

/* The client ends the request with ERR_SHUTDOWN, unless the answer is there already. */
void change_call_cancel(struct change_call *c)
{
    MAGIC_CHECK(c, CALL_MAGIC);
    loop_assert_here(c->loop);
    c->canceled = true;
    if (c->requests->count > 0)
        http_call_cancel(c->client, &c->call);
}
