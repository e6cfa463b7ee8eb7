/* Goal: what a lane reads as a plain head is what the library reads: the same fields, the same
 * answer. Method: the head alone, in memory of its exact size; when it is plain, over loopback to
 * both listeners of a server in this process. */
#include "../unit/http/lane_parts.c"
#include "../unit/http/wire.c"

#include "http/head.h"
#include "http/server.h"

enum { LANE_HEAD_BYTES_MAX = 4096 };

/* How many bytes of head are plain; 0: it is the library's. */
static size_t plain(str bytes, bool *head_only)
{
    static struct http_server server = { .limits.arena_bytes_max = 1 << 20 };
    static struct http_conn conn = { .server = &server };
    static struct http_exchange x = { .magic = EXCHANGE_MAGIC, .conn = &conn };
    size_t n = 0;
    x.headers = x.headers_inline;
    arena_init(&x.arena, server.limits.arena_bytes_max);
    bool is = head_plain(&x, bytes, &n);
    if (is) {
        INVARIANT(n >= 4 && n <= bytes.n);
        INVARIANT(memcmp(bytes.p + n - 4, "\r\n\r\n", 4) == 0);
        INVARIANT(x.target.p > bytes.p && x.target.p + x.target.n < bytes.p + n &&
                  x.target.p[0] == '/');
        for (unsigned i = 0; i < x.headers_count; i++) {
            INVARIANT(x.headers[i].name.p > x.target.p);
            INVARIANT(x.headers[i].value.p + x.headers[i].value.n <= bytes.p + n - 4);
        }
    }
    *head_only = x.method == HTTP_HEAD || str_eq(x.target, STR("/same"));
    exchange_end(&x);
    arena_fini(&x.arena);
    return is ? n : 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct parts *p; /* for all inputs; ends with the process */
    bool head_only = false;
    if (p == NULL)
        p = parts_start(2, false);
    if (size == 0 || size > LANE_HEAD_BYTES_MAX)
        return 0;
    char *copy = malloc(size);
    INVARIANT(copy != NULL);
    memcpy(copy, data, size);
    size_t n = plain((str){ .p = copy, .n = size }, &head_only);
    if (n > 0)
        parts_compare(p, (str){ .p = copy, .n = n }, head_only);
    free(copy);
    return 0;
}
