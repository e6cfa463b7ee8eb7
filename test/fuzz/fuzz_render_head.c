/* Goal: HTML of any bytes does the scanner of heads no harm; what was put in is found again, is all
 * that was added, and is not added twice. */
#include "base/check.h"
#include "render/title_rules.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_put(struct arena *a, str html, struct tid tid)
{
    struct tid found;
    str once, twice;
    INVARIANT(render_head_put(a, html, tid, &once));
    if (once.p == html.p) /* no head */
        return;
    INVARIANT(once.n <= html.n + 100);
    INVARIANT(render_head_put(a, once, tid, &twice));
    if (html.n + 200 > HEAD_BYTES_MAX)
        return; /* what was found there may have moved behind the end of what is looked at */
    INVARIANT(render_head_tid(once, &found));
    INVARIANT(tid_cmp(found, tid) == 0);
    INVARIANT(str_eq(once, twice));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct arena a;
    struct tid tid, found;
    str target, fragment;
    char *copy = malloc(size + 1); /* of the exact size: one byte too far is seen */
    if (copy == NULL)
        return 0;
    if (size > 0)
        memcpy(copy, data, size);
    str html = { .p = copy, .n = size };
    arena_init(&a, 8 << 20);
    INVARIANT(tid_parse(STR("8f2d1a00-c6a1-11f0-8001-010203040506"), &tid));
    check_put(&a, html, tid);
    (void)render_head_tid(html, &found); /* whatever it holds */
    INVARIANT(render_head_rev(html) <= INT64_MAX);
    if (render_head_redirect(&a, html, &target, &fragment))
        INVARIANT(target.n > 0);
    arena_fini(&a);
    free(copy);
    return 0;
}
