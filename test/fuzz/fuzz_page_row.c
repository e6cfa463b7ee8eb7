/* Every row and key decoder of page buckets: no bytes crash it, and what it takes is written back
 * the same. */
#include "bucket/key.h"
#include "bucket/list.h"
#include "bucket/traces.h"
#include "bucket/word.h"
#include "store/bundle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void ignore(void *ctx, str bytes)
{
    *(size_t *)ctx += bytes.n;
}

static void row(str in)
{
    static char out[ENGINE_VALUE_BYTES_MAX];
    struct page_row r;
    if (in.n <= ENGINE_VALUE_BYTES_MAX && page_row_decode(in, &r) == ERR_OK)
        INVARIANT(str_eq(page_row_encode(&r, out), in));
}

static void small_rows(str in)
{
    char out[ENGINE_VALUE_BYTES_MAX];
    struct page_title_row title;
    struct title_word word;
    store_time at;
    if (title_word_decode(in, &word) == ERR_OK)
        INVARIANT(str_eq(title_word_encode(&word, out), in));
    if (page_title_decode(in, &title) == ERR_OK)
        INVARIANT(str_eq(page_title_encode(&title, out), in));
    if (page_fence_decode(in, &at) == ERR_OK)
        INVARIANT(str_eq(page_fence_encode(at, out), in));
}

/* A row of a store before is written in another form, that says the same. */
static void traces(str in)
{
    char out[PAGE_TRACES_BYTES_MAX], again[PAGE_TRACES_BYTES_MAX];
    const struct page_name lowest = { .rev = 7, .tid = { .ticks = 139000000000000000, .low = 9 } };
    struct page_traces t, back;
    if (page_traces_decode(in, lowest, &t) != ERR_OK)
        return;
    str bytes = page_traces_encode(&t, out);
    INVARIANT(t.alone || str_eq(bytes, in));
    INVARIANT(page_traces_decode(bytes, lowest, &back) == ERR_OK);
    INVARIANT(str_eq(page_traces_encode(&back, again), bytes));
}

static void keys(str in)
{
    struct page_key_parts parts;
    struct page_key k;
    enum page_due_kind kind;
    struct due_entry entry;
    struct due_key due;
    str row_key;
    if (page_key_parse(in, &parts) && parts.title.n <= PAGE_TITLE_BYTES_MAX) {
        page_key_title(&k, parts.bucket, parts.domain, parts.title);
        page_key_name(&k, &k, parts.name);
        INVARIANT(str_eq(page_key_str(&k), in));
    }
    if (in.n > ENGINE_KEY_BYTES_MAX)
        return;
    due_parse(&page_due, in, &entry);
    if (page_due_parse(due_of(&entry), &kind, &row_key) && entry.at.ns != INT64_MAX) {
        due_key(&page_due, entry.at, page_due_row(kind, row_key), &due);
        INVARIANT(str_eq(due_key_str(&due), in));
    }
}

/* A token that is taken is the one that its place gives. */
static void tokens(str in)
{
    static const enum page_list_what kinds[] = { LIST_HISTORY, LIST_TITLES, LIST_STASHES };
    struct list_place p;
    struct arena a;
    arena_init(&a, 1 << 16);
    for (size_t i = 0; i < COUNT_OF(kinds); i++)
        if (list_place_get(kinds[i], in, &p) == ERR_OK)
            INVARIANT(str_eq(list_place_put(kinds[i], &p, &a), in));
    arena_fini(&a);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    str in = { .p = (const char *)data, .n = size };
    size_t plain = 0;
    row(in);
    small_rows(in);
    traces(in);
    keys(in);
    tokens(in);
    bundle_plain(in, ignore, &plain);
    INVARIANT(plain <= size);
    return 0;
}
