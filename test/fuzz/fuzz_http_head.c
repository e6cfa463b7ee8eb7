/* Goal: no bytes make the reader of heads, or of chunks, look past them, or understand them
 * differently in other pieces. Method: the input as a head in memory of its exact size, and each
 * beginning of it; then as a chunked body, whole and cut in two. */
#include "http/chunk.h"
#include "http/head.h"
#include "http/server.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES_MAX = 2048, PIECE_MAX = 16 };

struct reading {
    struct http_server server;
    struct http_conn conn;
    struct head_fault fault;
    size_t n;
};

static bool lies_in(str part, str whole)
{
    return part.p == NULL || (part.p >= whole.p && part.p + part.n <= whole.p + whole.n);
}

/* "http://a" has no path to point at: it stands for that of a constant. */
static bool is_target(str target, str head)
{
    return lies_in(target, head) || str_eq(target, STR("/"));
}

static void head_begin(struct reading *r)
{
    struct http_exchange *x = &r->conn.x;
    r->server.limits.arena_bytes_max = 1 << 20;
    r->conn.server = &r->server;
    x->magic = EXCHANGE_MAGIC;
    x->conn = &r->conn;
    x->headers = x->headers_inline;
    arena_init(&x->arena, r->server.limits.arena_bytes_max);
}

static void head_of(struct reading *r, str bytes)
{
    struct http_exchange *x = &r->conn.x;
    head_begin(r);
    r->fault = head_read(x, bytes, &r->n);
    INVARIANT(r->n <= bytes.n && (r->fault.status == 0 || r->n > 0));
    INVARIANT(x->method_name != NULL);
    if (r->n == 0 || r->fault.status != 0)
        return;
    INVARIANT(memcmp(bytes.p + r->n - 4, "\r\n\r\n", 4) == 0);
    INVARIANT(is_target(x->target, bytes) && lies_in(x->query, bytes));
    for (unsigned i = 0; i < x->headers_count; i++)
        INVARIANT(x->headers[i].name.n > 0 && lies_in(x->headers[i].value, bytes));
    char *copy = malloc(r->n); /* as when the request outlives the worker's room */
    INVARIANT(copy != NULL);
    memcpy(copy, bytes.p, r->n);
    exchange_rebase(x, str_take(bytes, r->n), copy);
    INVARIANT(is_target(x->target, (str){ .p = copy, .n = r->n }));
    for (unsigned i = 0; i < x->headers_count; i++)
        INVARIANT(lies_in(x->headers[i].value, (str){ .p = copy, .n = r->n }));
    free(copy);
}

static void head_end(struct reading *r)
{
    exchange_end(&r->conn.x);
    arena_fini(&r->conn.x.arena);
}

/* Whoever sends it byte by byte is told the same, and no sooner than may be. */
static void heads(const uint8_t *data, size_t size)
{
    static struct reading r;
    bool ended = false;
    for (size_t n = 1; n <= size && !ended; n++) {
        char *copy = malloc(n); /* of its exact size: reading past it is seen */
        INVARIANT(copy != NULL);
        memcpy(copy, data, n);
        str bytes = { .p = copy, .n = n };
        ended = head_has_end(bytes, n - 1);
        memset(&r, 0, sizeof r);
        head_of(&r, bytes);
        INVARIANT(!ended || r.n > 0);
        INVARIANT(ended || r.n == 0 || r.fault.status != 0);
        head_end(&r);
        free(copy);
    }
}

static enum chunk_got chunks(const uint8_t *data, size_t size, size_t piece, uint64_t *sum,
                             size_t *taken)
{
    struct chunk_reader r = { .at = 0 };
    enum chunk_got got = CHUNK_MORE;
    *sum = *taken = 0;
    while (got == CHUNK_MORE && *taken < size) {
        size_t n = size - *taken < piece ? size - *taken : piece;
        str in = { .p = (const char *)data + *taken, .n = n }, body;
        while ((got = chunk_next(&r, &in, &body)) == CHUNK_DATA)
            for (size_t i = 0; i < body.n; i++)
                *sum = *sum * 31 + (unsigned char)body.p[i];
        *taken += n - in.n;
    }
    return got;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    uint64_t whole_sum, sum;
    size_t whole_taken, taken;
    if (size == 0 || size > HEAD_BYTES_MAX)
        return 0;
    heads(data, size);
    enum chunk_got whole = chunks(data, size, size, &whole_sum, &whole_taken);
    for (size_t piece = 1; piece <= PIECE_MAX; piece++) {
        INVARIANT(chunks(data, size, piece, &sum, &taken) == whole);
        INVARIANT(sum == whole_sum && taken == whole_taken);
    }
    return 0;
}
