/* spec.c - types as they stand in metadata: taken apart, and printed as CQL writes them. Pure.
 *
 * A type that holds other types is followed by these. The walk goes over them in their order with
 * one level per nesting, so no input makes it recurse. Each type takes at least two bytes, so no
 * count makes it run on.
 * Invariant: levels[depth].left types are still to come at the depth reached. */
#include "cql/value.h"

enum { TYPE_NUMBERS = CQL_TUPLE + 1 };

enum spec_holds {
    HOLDS_NO_TYPE, /* a number of no type */
    HOLDS_NONE,
    HOLDS_CLASS,
    HOLDS_ONE,
    HOLDS_TWO,
    HOLDS_MANY,
    HOLDS_FIELDS,
};
static const struct spec_kind {
    const char *name;
    enum spec_holds holds;
} kinds[TYPE_NUMBERS] = {
    [CQL_CUSTOM] = { "", HOLDS_CLASS },
    [CQL_ASCII] = { "ascii", HOLDS_NONE },
    [CQL_BIGINT] = { "bigint", HOLDS_NONE },
    [CQL_BLOB] = { "blob", HOLDS_NONE },
    [CQL_BOOLEAN] = { "boolean", HOLDS_NONE },
    [CQL_COUNTER] = { "counter", HOLDS_NONE },
    [CQL_DECIMAL] = { "decimal", HOLDS_NONE },
    [CQL_DOUBLE] = { "double", HOLDS_NONE },
    [CQL_FLOAT] = { "float", HOLDS_NONE },
    [CQL_INT] = { "int", HOLDS_NONE },
    [CQL_TIMESTAMP] = { "timestamp", HOLDS_NONE },
    [CQL_UUID] = { "uuid", HOLDS_NONE },
    [CQL_TEXT] = { "text", HOLDS_NONE },
    [CQL_VARINT] = { "varint", HOLDS_NONE },
    [CQL_TIMEUUID] = { "timeuuid", HOLDS_NONE },
    [CQL_INET] = { "inet", HOLDS_NONE },
    [CQL_DATE] = { "date", HOLDS_NONE },
    [CQL_TIME] = { "time", HOLDS_NONE },
    [CQL_SMALLINT] = { "smallint", HOLDS_NONE },
    [CQL_TINYINT] = { "tinyint", HOLDS_NONE },
    [CQL_DURATION] = { "duration", HOLDS_NONE },
    [CQL_LIST] = { "list", HOLDS_ONE },
    [CQL_MAP] = { "map", HOLDS_TWO },
    [CQL_SET] = { "set", HOLDS_ONE },
    [CQL_UDT] = { "", HOLDS_FIELDS },
    [CQL_TUPLE] = { "tuple", HOLDS_MANY },
};

/* One level of the walk: the types that one type holds. */
struct spec_level {
    unsigned left;
    bool first;
    bool named;      /* the fields of a user type: each has its name before it */
    struct buf *out; /* NULL: inside of a user type, or nothing is printed */
};
struct spec_walk {
    struct cursor *c;
    unsigned depth;
    struct spec_level levels[CQL_TYPE_DEPTH_MAX]; /* [0] is the type itself */
};

/* Begins the level of what a type holds, which is count types. out: where to print, NULL: nowhere.
 * False: nested too deep. */
static bool walk_open(struct spec_walk *w, unsigned count, bool named, struct buf *out)
{
    if (w->depth + 1 == CQL_TYPE_DEPTH_MAX)
        return false;
    if (out != NULL)
        buf_put_c(out, '<');
    w->levels[++w->depth] =
        (struct spec_level){ .left = count, .first = true, .named = named, .out = out };
    return true;
}

/* Printed by the name alone: CQL writes a user type without its fields. They are walked to find the
 * end. */
static bool walk_user_type(struct spec_walk *w, struct buf *out)
{
    (void)cursor_str16(w->c); /* the keyspace: it is the column's */
    str name = cursor_str16(w->c);
    if (out != NULL)
        buf_put(out, name);
    return walk_open(w, cursor_be16(w->c), true, NULL);
}

static void walk_class(struct spec_walk *w, struct buf *out)
{
    str name = cursor_str16(w->c);
    if (out == NULL)
        return;
    buf_put_c(out, '\'');
    buf_put(out, name);
    buf_put_c(out, '\'');
}

/* Walks a type whose number was taken; the types that it holds are left to spec_walk. False: no
 * such type, or nested too deep. */
static bool walk_type(struct spec_walk *w, unsigned type, struct buf *out)
{
    if (type >= TYPE_NUMBERS)
        return false;
    const struct spec_kind *kind = &kinds[type];
    if (out != NULL && kind->name != NULL)
        buf_put(out, str_of(kind->name));
    switch (kind->holds) {
    case HOLDS_NO_TYPE:
        return false;
    case HOLDS_NONE:
        return true;
    case HOLDS_CLASS:
        walk_class(w, out);
        return true;
    case HOLDS_ONE:
        return walk_open(w, 1, false, out);
    case HOLDS_TWO:
        return walk_open(w, 2, false, out);
    case HOLDS_MANY:
        return walk_open(w, cursor_be16(w->c), false, out);
    case HOLDS_FIELDS:
        return walk_user_type(w, out);
    }
    return false;
}

/* Walks over all that a type holds, level by level. out: NULL, or for its text. */
static bool spec_walk(struct cursor *c, unsigned type, struct buf *out)
{
    struct spec_walk w = { .c = c };
    if (!walk_type(&w, type, out))
        return false;
    while (w.depth > 0 && !c->failed) {
        struct spec_level *level = &w.levels[w.depth];
        if (level->left == 0) {
            if (level->out != NULL)
                buf_put_c(level->out, '>');
            w.depth--;
            continue;
        }
        level->left--;
        if (level->out != NULL && !level->first)
            buf_put(level->out, STR(", "));
        level->first = false;
        if (level->named)
            (void)cursor_str16(c);
        if (!walk_type(&w, cursor_be16(c), level->out))
            return false;
    }
    return !c->failed;
}

bool cql_spec_take(struct cursor *from, struct cql_spec *out)
{
    unsigned type = cursor_be16(from);
    str rest = from->rest;
    /* Most columns are of a type that holds none. */
    bool plain = type < TYPE_NUMBERS && kinds[type].holds == HOLDS_NONE;
    if (!plain && !spec_walk(from, type, NULL))
        from->failed = true;
    if (from->failed)
        return false;
    *out = (struct cql_spec){ .type = (enum cql_type)type,
                              .rest = str_take(rest, rest.n - from->rest.n) };
    return true;
}

void cql_spec_print(const struct cql_spec *spec, struct buf *out)
{
    struct cursor c = { .rest = spec->rest };
    (void)spec_walk(&c, spec->type, out); /* it was taken whole */
}
