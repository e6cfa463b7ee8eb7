/* Goal: any bytes an origin sends end in a reply within its limits or in a reason, however they are
 * cut into pieces. The first byte says how large the pieces of the body are, the second the limit;
 * the rest is the reply. */
#include "http/negotiate.h"
#include "http/reply.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Lines up to the final head's end; false: refused. */
static bool give_head(struct reply *r, str *rest)
{
    while (rest->n > 0) {
        size_t at = str_find(*rest, '\n');
        str line = str_take(*rest, at == rest->n ? at : at + 1);
        *rest = str_skip(*rest, line.n);
        if (!reply_line(r, line))
            return false;
        if (r->head_done && r->status >= 200)
            return true;
    }
    return true;
}

static void give_body(struct reply *r, str rest, size_t piece)
{
    while (rest.n > 0) {
        if (!reply_data(r, str_take(rest, piece)))
            return;
        rest = str_skip(rest, piece);
    }
}

static void check_end(struct reply *r, struct arena *a)
{
    struct http_pair *headers = NULL;
    unsigned count = 0;
    err why = reply_finish(r);
    if (why == ERR_OK)
        why = reply_head(r, a, &headers, &count);
    INVARIANT((why == ERR_OK) == (r->why == ERR_OK));
    if (why != ERR_OK) {
        INVARIANT(r->fault != NULL);
        INVARIANT(headers == NULL);
        return;
    }
    INVARIANT(r->status >= 200 && r->status <= 599);
    INVARIANT(count <= HTTP_REPLY_HEADERS_MAX);
    INVARIANT(buf_str(&r->body).n <= r->body_bytes_max);
    for (unsigned i = 0; i < count; i++) {
        INVARIANT(http_is_token(headers[i].name));
        INVARIANT(reply_is_value(headers[i].value));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2)
        return 0;
    struct reply r;
    struct arena a;
    arena_init(&a, 4 << 20);
    reply_init(&r, (size_t)data[1] << 8);
    str rest = { .p = (const char *)data + 2, .n = size - 2 };
    if (give_head(&r, &rest))
        give_body(&r, rest, (size_t)data[0] + 1);
    check_end(&r, &a);
    reply_fini(&r);
    arena_fini(&a);
    return 0;
}
