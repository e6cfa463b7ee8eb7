/* Goal: header fields of any bytes give answers within their range, never a read past the end, and
 * agree with what they would say about themselves: a tag matches the list made of it, a range lies
 * within its body. */
#include "base/check.h"
#include "http/negotiate.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_accept(str field)
{
    struct http_accept a = http_accept_encoding(field);
    for (int c = 0; c < CODINGS; c++)
        INVARIANT(a.weight[c] >= 0 && a.weight[c] <= 1000);
}

static void check_etag(str field)
{
    size_t half = field.n / 2;
    str tag = str_take(field, half), list = str_skip(field, half);
    bool strong = http_etag_matches(list, tag, false), weak = http_etag_matches(list, tag, true);
    INVARIANT(weak || !strong);
    char quoted[300];
    if (tag.n + 2 > sizeof quoted || str_find(tag, '"') < tag.n)
        return;
    for (size_t i = 0; i < tag.n; i++)
        if ((unsigned char)tag.p[i] <= ' ' || tag.p[i] == 0x7f)
            return;
    quoted[0] = '"';
    if (tag.n > 0)
        memcpy(quoted + 1, tag.p, tag.n);
    quoted[tag.n + 1] = '"';
    INVARIANT(http_etag_matches((str){ .p = quoted, .n = tag.n + 2 }, tag, false));
}

static void check_range(str field)
{
    static const uint64_t sizes[] = { 0, 1, 2, 1000, UINT64_MAX };
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        struct http_range r = http_range(field, sizes[i]);
        INVARIANT(r.kind != RANGE_ONE || (r.first <= r.last && r.last < sizes[i]));
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size + 1); /* of the exact size: one byte too far is seen */
    if (copy == NULL)
        return 0;
    memcpy(copy, data, size);
    str field = { .p = copy, .n = size };
    check_accept(field);
    check_etag(field);
    check_range(field);
    bool has = http_cache_control_has(field, STR("no-cache"));
    INVARIANT(!has || size >= 8);
    free(copy);
    return 0;
}
