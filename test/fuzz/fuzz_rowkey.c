/* Goal: reading a key that nobody wrote neither runs over nor lies: what reads well encodes to the
 * same bytes. And the keys of two texts order as the texts, whatever stands behind. */
#include "codec/rowkey.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_and_write_again(str bytes, struct arena *a)
{
    struct cursor c = { .rest = bytes };
    uint32_t table = cursor_be32(&c);
    str title = rowkey_get_text(&c, a);
    uint64_t rev = rowkey_get_u64_desc(&c);
    struct tid tid = rowkey_get_tid_desc(&c);
    int64_t at = rowkey_get_i64(&c);
    if (!cursor_done(&c))
        return;
    struct rowkey k;
    rowkey_init(&k);
    rowkey_put_u32(&k, table);
    rowkey_put_text(&k, title);
    rowkey_put_u64_desc(&k, rev);
    rowkey_put_tid_desc(&k, tid);
    rowkey_put_i64(&k, at);
    INVARIANT(rowkey_status(&k) == ERR_LIMIT || str_eq(rowkey_str(&k), bytes));
}

static void order_two_texts(str bytes)
{
    struct rowkey a, b;
    size_t half = bytes.n / 2;
    str left = str_take(bytes, half), right = str_skip(bytes, half);
    rowkey_init(&a);
    rowkey_init(&b);
    rowkey_put_text(&a, left);
    rowkey_put_text(&b, right);
    rowkey_put_u64_desc(&a, bytes.n);
    rowkey_put_u64_desc(&b, ~(uint64_t)bytes.n);
    if (rowkey_status(&a) != ERR_OK || rowkey_status(&b) != ERR_OK || str_eq(left, right))
        return;
    INVARIANT((str_cmp(left, right) < 0) == (str_cmp(rowkey_str(&a), rowkey_str(&b)) < 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str bytes = { .p = (const char *)data, .n = size };
    struct arena a;
    arena_init(&a, 1 << 20);
    read_and_write_again(bytes, &a);
    order_two_texts(bytes);
    arena_fini(&a);
    return 0;
}
