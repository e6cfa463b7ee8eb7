/* source.c - a source lives while it has flights. Its name is the address of its key. */
#include "flight/source.h"

#include "base/check.h"
#include "base/map.h"

#include <stdlib.h>

static str source_name(const struct limiter_key *const *of)
{
    return (str){ .p = (const char *)of, .n = sizeof *of };
}

unsigned source_flights(const struct map *sources, const struct limiter_key *of)
{
    const struct source *s = map_get(sources, source_name(&of));
    return s == NULL ? 0 : s->flights;
}

struct source *source_join(struct map *sources, const struct limiter_key *of)
{
    struct source *s = map_get(sources, source_name(&of));
    if (s == NULL) {
        s = calloc(1, sizeof *s);
        INVARIANT(s != NULL);
        s->of = of;
        INVARIANT(map_put(sources, source_name(&of), s) == NULL);
    }
    s->flights++;
    return s;
}

void source_leave(struct map *sources, struct source *s)
{
    INVARIANT(s->flights > 0);
    if (--s->flights > 0)
        return;
    INVARIANT(map_remove(sources, source_name(&s->of)) == s);
    free(s);
}
