/* What a queue's store reads: batches and items, keys and values of rows. No bytes crash it, and
 * what it takes is written back the same. */
#include "queue/item.h"
#include "queue/store/local/rows.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void batch(str in, unsigned count)
{
    struct item_place at = item_slot_place(count - 1);
    struct item_span span;
    if (item_batch_check(in, count) == ERR_OK)
        INVARIANT(at.offset + at.n <= in.n);
    if (at.offset + at.n <= in.n && item_slot_decode(str_take(str_skip(in, at.offset), at.n),
                                                     count - 1, count, in.n, &span) == ERR_OK)
        INVARIANT(span.offset <= in.n && span.n <= in.n - span.offset);
}

static void item(str in)
{
    struct item it;
    if (item_decode(in, &it) != ERR_OK)
        return;
    struct arena a;
    str again;
    arena_init(&a, 32u << 20);
    INVARIANT(item_batch_encode(&it, 1, &a, &again) == ERR_OK);
    INVARIANT(item_batch_check(again, 1) == ERR_OK);
    INVARIANT(str_ends(again, in));
    arena_fini(&a);
}

static void key(str in)
{
    struct row_key_parts p;
    if (row_key_parse(in, &p) != ERR_OK)
        return;
    struct row_key k = row_key_prefix(p.part, p.kind);
    if (p.kind == ROW_SCHEDULED)
        k = row_key_scheduled(p.part, p.at, p.id);
    else if (p.kind == ROW_KEY)
        k = row_key_hash(p.part, p.hash);
    else if (p.kind != ROW_RECORD && p.kind != ROW_HEARTBEAT && p.kind != ROW_OWNER)
        k = row_key_id(p.part, p.kind, p.id);
    INVARIANT(str_eq(row_key_str(&k), in));
}

static void values(str in)
{
    char buf[ROW_VALUE_BYTES_MAX];
    unsigned char states[QUEUE_BATCH_ITEMS_MAX];
    struct queue_part_record record;
    struct queue_batch b;
    struct queue_entry e;
    struct queue_lease l;
    struct queue_key k;
    uint64_t beats;
    if (row_record_decode(in, &record) == ERR_OK)
        INVARIANT(str_eq(row_record_encode(&record, buf), in));
    if (row_batch_decode(in, states, &b) == ERR_OK)
        INVARIANT(str_eq(row_batch_encode(&b, buf), in));
    if (row_entry_decode(in, &e) == ERR_OK)
        INVARIANT(str_eq(row_entry_encode(&e, buf), in));
    if (row_lease_decode(in, &l) == ERR_OK)
        INVARIANT(str_eq(row_lease_encode(&l, buf), in));
    if (row_key_decode(in, &k) == ERR_OK)
        INVARIANT(str_eq(row_key_encode(&k, buf), in));
    if (row_heartbeat_decode(in, &beats) == ERR_OK)
        INVARIANT(str_eq(row_heartbeat_encode(beats, buf), in));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size == 0)
        return 0;
    str in = { .p = (const char *)data + 1, .n = size - 1 };
    batch(in, 1u + data[0] % 8);
    item(in);
    key(in);
    values(in);
    return 0;
}
