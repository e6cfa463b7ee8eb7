/* service.c - what all requests of the value service share: buckets, tables, and the steps of a
 * request. */
#include "value/value_impl.h"

#include <stdlib.h>

void value_service_init(struct value_service *s)
{
    s->there = calloc((size_t)s->domains_count * s->buckets_count + 1, sizeof *s->there);
    INVARIANT(s->there != NULL);
}

void value_service_fini(struct value_service *s)
{
    free(s->there);
    s->there = NULL;
}

const struct value_settings *value_settings_find(const struct value_service *s,
                                                 enum value_kind kind, str name)
{
    for (unsigned i = 0; i < s->buckets_count; i++)
        if (s->buckets[i].kind == kind && str_eq(name, s->buckets[i].name))
            return &s->buckets[i];
    return NULL;
}

/* A name of dots would vanish from a path: clients take dots out. 16 bytes are for the kind. */
bool value_name_fits(str bucket)
{
    return bucket.n > 0 && bucket.n <= TABLE_NAME_BYTES_MAX - 16 &&
           str_find(bucket, '/') == bucket.n && !str_eq(bucket, STR(".")) &&
           !str_eq(bucket, STR(".."));
}

bool value_begin(struct value_call *c, struct value_service *s)
{
    const char *kind = c->target.kind == VALUE_PLAIN ? "key_value" : "key_rev_value";
    c->service = s;
    c->note.text[0] = 0;
    c->table = arena_printf(c->arena, ".%s.%.*s", kind, STR_ARG(c->target.bucket));
    return c->table.p != NULL;
}

/* ---- steps: each one call to the table store ---- */

_Static_assert(offsetof(struct table_rows, call) == 0, "each request begins with its call, ...");
_Static_assert(offsetof(struct table_update, call) == 0, "... which is that of the step");
_Static_assert(offsetof(struct table_schema_read, call) == 0, "");
_Static_assert(offsetof(struct table_schema_change, call) == 0, "");

/* At home. The next step may be the last: then the request is over. */
static void step_over(struct store_call *step)
{
    struct value_call *c = CONTAINER_OF(step, struct value_call, step.call);
    store_call_then(c->next(c, step->why), &c->call);
}

struct store_call value_step(struct value_call *c, value_next_fn *next)
{
    c->next = next;
    return (struct store_call){ .deadline = c->call.deadline,
                                .fresh = c->call.fresh,
                                .home = c->call.home,
                                .done = step_over,
                                .part_of = &c->call };
}

enum store_start value_go(struct value_call *c, enum store_start start)
{
    return start == STORE_DONE ? c->next(c, c->step.call.why) : STORE_LATER;
}

enum store_start value_over(struct value_call *c, err why, const struct err_note *note)
{
    if (why != ERR_OK && note != NULL)
        c->note = *note;
    return store_call_done(&c->call, why);
}
