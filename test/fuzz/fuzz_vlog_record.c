/* Goal: no bytes of a log make the record codec read beyond them, and what decodes encodes to the
 * same bytes. Run: script/test fuzz, or clang -fsanitize=fuzzer,address as in
 * test/fuzz/meson.build. */
#include "vlog/record.h"

#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void mutations_try(str bytes)
{
    struct cursor c = { .rest = bytes };
    struct record_mutation m;
    while (c.rest.n > 0) {
        str before = c.rest;
        if (record_mutation_decode(&c, &m) != ERR_OK)
            return;
        size_t n = before.n - c.rest.n;
        INVARIANT(record_mutation_size(&m) == n);
        struct buf b;
        buf_init(&b, n);
        record_mutation_encode(&m, &b);
        INVARIANT(buf_status(&b) == ERR_OK && str_eq(buf_str(&b), str_take(before, n)));
        buf_fini(&b);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const unsigned char id[RECORD_ID_BYTES] = "fuzz";
    str bytes = { .p = (const char *)data, .n = size };
    struct record_spot at = { .id = id, .segment = 1, .offset = 64 };
    struct record_group g;
    struct record_value v;
    if (record_group_decode(bytes, at, &g) == ERR_OK)
        (void)record_meta_fits(bytes.p, at, str_skip(bytes, RECORD_GROUP_BYTES));
    if (record_value_decode(bytes, at, &v) == ERR_OK)
        INVARIANT(RECORD_VALUE_BYTES + v.key_bytes <= size);
    if (record_segment_decode(bytes, at) == ERR_OK)
        INVARIANT(size >= RECORD_SEGMENT_BYTES);
    mutations_try(bytes);
    return 0;
}
