/* Goal: no type, and no value of it, makes the readers touch a byte that is not theirs or recurse.
 * Input: a type, then the bytes of one value. Method: a type that is taken prints, and is taken
 * again from just its bytes; the value's items are walked to the bottom. */
#include "cql/value.h"

#include <stdlib.h>
#include <string.h>

enum { STEPS_MAX = 20000, TEXT_BYTES_MAX = 1 << 20 };

static void walk_items(const struct cql_cell *cell)
{
    struct cql_items levels[CQL_TYPE_DEPTH_MAX];
    struct cql_cell at;
    int depth = cql_get_items(cell, &levels[0]) ? 0 : -1;
    for (unsigned steps = 0; depth >= 0 && steps < STEPS_MAX; steps++) {
        if (!cql_items_next(&levels[depth], &at)) {
            depth--;
            continue;
        }
        if (depth + 1 == CQL_TYPE_DEPTH_MAX)
            abort(); /* what is deepest holds nothing */
        if (cql_get_items(&at, &levels[depth + 1]))
            depth++;
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    str whole = { .p = (const char *)data, .n = n };
    struct cursor c = { .rest = whole };
    struct cql_column column = { .name = STR("c") };
    if (!cql_spec_take(&c, &column.spec)) {
        if (!c.failed)
            abort();
        return 0;
    }
    struct cursor again = { .rest = str_take(whole, n - c.rest.n) };
    struct cql_spec same;
    if (!cql_spec_take(&again, &same) || !cursor_done(&again) || same.type != column.spec.type ||
        same.rest.n + 2 != n - c.rest.n)
        abort();
    struct buf text;
    buf_init(&text, TEXT_BYTES_MAX);
    cql_spec_print(&column.spec, &text);
    buf_fini(&text);
    struct cql_cell cell = { .column = &column, .bytes = c.rest };
    walk_items(&cell);
    return 0;
}
