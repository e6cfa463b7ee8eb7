/* Goal: no text that comes from another server makes the reader leave it, and what is read is
 * written and read again as the same. */
#include "codec/told.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool inside(str part, str whole)
{
    return part.p >= whole.p && part.p + part.n <= whole.p + whole.n;
}

static bool same(const struct told *a, const struct told *b)
{
    bool fine = a->kind == b->kind && str_eq(a->node, b->node) && str_eq(a->bucket, b->bucket) &&
                str_eq(a->domain, b->domain) && str_eq(a->title, b->title);
    switch (a->kind) {
    case TOLD_PURGE:
        return fine && a->purge.rev == b->purge.rev && a->purge.has_tid == b->purge.has_tid &&
               (!a->purge.has_tid || tid_cmp(a->purge.tid, b->purge.tid) == 0);
    case TOLD_MARK:
        return fine && a->mark.state == b->mark.state && a->mark.first == b->mark.first &&
               a->mark.last == b->mark.last && a->mark.said_at.ns == b->mark.said_at.ns;
    case TOLD_LOOK:
        return fine && a->look.has_word == b->look.has_word && a->look.word == b->look.word;
    case TOLD_WORD:
        return fine && a->look.word == b->look.word && a->look.newest.id == b->look.newest.id &&
               a->look.newest.at_s == b->look.newest.at_s;
    case TOLD_MADE:
        return fine && a->made.asked == b->made.asked && a->made.rev == b->made.rev &&
               tid_cmp(a->made.tid, b->made.tid) == 0;
    case TOLD_NEWEST:
        return fine && a->newest.at_s == b->newest.at_s && a->newest.id == b->newest.id;
    case TOLD_KINDS:
        break;
    }
    return false;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *copy = malloc(size > 0 ? size : 1); /* of its exact size: reading past it is seen */
    INVARIANT(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    str text = { .p = copy, .n = size };
    struct told t, again;
    if (told_decode(text, &t)) {
        INVARIANT(inside(t.node, text));
        INVARIANT(inside(t.title, text));
        struct buf b;
        buf_init(&b, 2 * size + 256);
        told_encode(&b, &t);
        INVARIANT(buf_status(&b) == ERR_OK);
        INVARIANT(told_decode(buf_str(&b), &again));
        INVARIANT(same(&t, &again));
        buf_fini(&b);
    }
    free(copy);
    return 0;
}
