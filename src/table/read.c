/* read.c - gets: a walk over the keys a plan allows, filtered, merged with the static row of each
 * partition; or over the entries of an index, each with the row it stands for.
 *
 * Invariants: 1. a token names the last key looked at: what is behind it has not been seen. 2.
 * through a grouped index a group is looked at once, at the first of its entries met, and passed
 * then. */
#include "table/index.h"
#include "table/key.h"
#include "table/query.h"
#include "table/row.h"
#include "table/store.h"
#include "table/value.h"

#include <stdlib.h>
#include <string.h>

/* First byte of a token. Upper case: what shares the key's partition (distinct) or group is not
 * done with. */
enum {
    TOKEN_FORWARD = 'f',
    TOKEN_REVERSED = 'r',
    TOKEN_INSIDE = 'f' - 'F',
    SCRATCH_KEEP_BYTES = 256 << 10
};

/* One get under way. */
struct scan {
    const struct table_reader *r;
    const struct table_get *g;
    uint32_t domain;
    const struct schema *table,
        *schema; /* schema: of the keys walked, the table's or as seen through an index */
    struct plan plan;
    bool wanted[TABLE_ATTRS_MAX];
    bool wants_plain, wants_static;
    store_time now;
    struct arena scratch;     /* of the row under way */
    struct key_buf met;       /* key looked at now */
    struct key_buf last_key;  /* looked at before: the token */
    struct key_buf row_key;   /* of the row in the table */
    struct key_buf partition; /* whose static row is in statics */
    struct arena static_arena;
    str statics; /* its attributes; empty: none */
    unsigned emitted, scanned, damaged;
    bool passed; /* all of last_key's partition or group is done with */
    bool sated;  /* each, or damaged, wants no more */
    bool full;   /* the key met is for the next answer */
};

/* ---- what is asked for ---- */

static err read_want(struct scan *s, str name)
{
    const struct schema_attr *at = schema_find(s->schema, name);
    if (at == NULL) {
        err_note_set(s->r->note, "proj names an attribute that is not in the table: %.*s",
                     STR_ARG(str_take(name, 64)));
        return ERR_BAD;
    }
    if (s->g->distinct && at->role != ROLE_HASH) {
        err_note_set(s->r->note, "distinct gives hash attributes only, not %.*s",
                     STR_ARG(at->name));
        return ERR_BAD;
    }
    s->wanted[at - s->schema->attrs] = true;
    return ERR_OK;
}

static err wants_read(struct scan *s)
{
    for (unsigned i = 0; i < s->g->proj_count; i++) {
        err e = read_want(s, s->g->proj[i]);
        if (e != ERR_OK)
            return e;
    }
    for (unsigned i = 0; i < s->schema->attrs_count; i++) {
        const struct schema_attr *at = &s->schema->attrs[i];
        if (s->g->proj_count == 0)
            s->wanted[i] = at->name.n > 0 && (!s->g->distinct || at->role == ROLE_HASH);
        s->wants_plain |= s->wanted[i] && at->role == ROLE_PLAIN;
        s->wants_static |= s->wanted[i] && at->role == ROLE_STATIC;
    }
    return ERR_OK;
}

static err token_bad(const struct scan *s)
{
    err_note_set(s->r->note, "next is not a token of an answer to this query");
    return ERR_BAD;
}

static bool is_grouped(const struct scan *s)
{
    return s->schema->through != NULL && s->schema->through->grouped;
}

/* What key has in common with all of its partition (distinct) or group; else all of it.
 * ERR_CORRUPT: no key. */
static err common_part(const struct scan *s, str key, str *out)
{
    size_t partition_size;
    bool is_static;
    err e = key_partition(s->schema, key, &partition_size, &is_static);
    if (e != ERR_OK)
        return e;
    *out = key;
    if (s->g->distinct)
        *out = str_take(key, partition_size);
    else if (is_grouped(s) && key.n > partition_size + KEY_VERSION_BYTES)
        *out = str_take(key, key.n - KEY_VERSION_BYTES);
    else if (is_grouped(s))
        return ERR_CORRUPT;
    return ERR_OK;
}

/* The bound behind key, in the direction of the walk; whole: behind all of its partition or
 * group. */
static err bound_behind(const struct scan *s, str key, bool whole, struct key_buf *bound)
{
    char end[ENGINE_KEY_BYTES_MAX];
    str part = key;
    err e = common_part(s, key, &part);
    if (e != ERR_OK)
        return e;
    if (!whole)
        part = key;
    bool is_prefix = part.n < key.n;
    str to = is_prefix && !s->g->reversed ? engine_prefix_end(part, end) : part;
    if (!key_buf_set(bound, to) || bound->n == sizeof bound->bytes)
        return ERR_CORRUPT;
    if (!is_prefix && !s->g->reversed)
        bound->bytes[bound->n++] = 0;
    return ERR_OK;
}

/* Goes on behind the key the token names. */
static err token_apply(struct scan *s)
{
    if (s->g->next.n == 0)
        return ERR_OK;
    str token = s->g->next;
    char kind = s->g->reversed ? TOKEN_REVERSED : TOKEN_FORWARD;
    if (token.n < 2 || token.n > TABLE_KEY_BYTES_MAX + 1 ||
        (token.p[0] != kind && token.p[0] != kind - TOKEN_INSIDE))
        return token_bad(s);
    str key = str_skip(token, 1);
    if (str_cmp(key, key_buf_str(&s->plan.from)) < 0 ||
        str_cmp(key, key_buf_str(&s->plan.until)) >= 0)
        return token_bad(s);
    err e =
        bound_behind(s, key, token.p[0] == kind, s->g->reversed ? &s->plan.until : &s->plan.from);
    return e == ERR_OK ? ERR_OK : token_bad(s);
}

static err token_make(const struct scan *s, str *next)
{
    *next = STR_NONE;
    if (!s->full)
        return ERR_OK;
    char token[1 + ENGINE_KEY_BYTES_MAX];
    token[0] =
        (char)((s->g->reversed ? TOKEN_REVERSED : TOKEN_FORWARD) - (s->passed ? 0 : TOKEN_INSIDE));
    memcpy(token + 1, s->last_key.bytes, s->last_key.n);
    *next = arena_copy(s->r->arena, (str){ .p = token, .n = 1 + s->last_key.n });
    return next->p == NULL ? ERR_LIMIT : ERR_OK;
}

/* ---- one row ---- */

static bool holds(enum table_op op, int order)
{
    switch (op) {
    case OP_EQ:
        return order == 0;
    case OP_LT:
        return order < 0;
    case OP_LE:
        return order <= 0;
    case OP_GT:
        return order > 0;
    case OP_GE:
        return order >= 0;
    }
    return false;
}

static bool read_matches(const struct scan *s, const struct key_parts *parts)
{
    for (unsigned i = 0; !s->plan.exact && i < s->g->predicates_count; i++) {
        const struct table_predicate *p = &s->g->predicates[i];
        const struct schema_attr *at = schema_find(s->schema, p->name);
        if (!holds(p->op, value_cmp(at->kind, key_part(s->schema, parts, at), p->value)))
            return false;
    }
    return true;
}

/* Loads the static attributes of the partition that the row lies in, once a partition. */
static err statics_load(struct scan *s)
{
    struct key_buf key;
    struct engine_row row;
    struct row_head head;
    size_t partition_size;
    bool is_static;
    if (!s->wants_static)
        return ERR_OK;
    if (key_partition(s->table, key_buf_str(&s->row_key), &partition_size, &is_static) != ERR_OK)
        return ERR_CORRUPT;
    str partition = str_take(key_buf_str(&s->row_key), partition_size);
    if (str_eq(partition, key_buf_str(&s->partition)))
        return ERR_OK;
    s->partition.n = 0; /* until it is read: what cannot be is told at each of its rows */
    INVARIANT(key_buf_set(&key, partition));
    arena_reset(&s->static_arena);
    s->statics = STR_NONE;
    key.bytes[key.n++] = KEY_STATIC;
    err e = engine_get(s->r->view, SPACE_ROW, key_buf_str(&key), &row);
    if (e == ERR_OK)
        e = row_head_read(row.value, &head);
    if (e == ERR_OK && store_time_before(s->now, head.expiry))
        e = row_attrs(s->r->tables->engine, &row, &s->static_arena, s->r->now, &s->statics);
    if (e == ERR_OK || e == ERR_NOT_FOUND)
        INVARIANT(key_buf_set(&s->partition, partition));
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err emit(struct scan *s, const struct key_parts *parts, str plain, store_time expiry)
{
    struct table_attr attrs[TABLE_ATTRS_MAX];
    unsigned count = 0;
    for (unsigned i = 0; i < s->schema->attrs_count; i++) {
        const struct schema_attr *at = &s->schema->attrs[i];
        if (!s->wanted[i])
            continue;
        bool in_key = at->role == ROLE_HASH || at->role == ROLE_RANGE;
        str value = in_key                    ? key_part(s->schema, parts, at)
                    : at->role == ROLE_STATIC ? row_attr(s->statics, at->number)
                                              : row_attr(plain, at->number);
        attrs[count++] = (struct table_attr){ .name = at->name, .value = value };
    }
    struct table_row row = { .attrs = attrs, .count = count, .with_ttl = s->g->with_ttl };
    if (expiry.ns != INT64_MAX)
        row.ttl_s = (expiry.ns - s->now.ns + NS_PER_S - 1) / NS_PER_S;
    s->full = s->r->fits != NULL && !s->r->fits(s->r->ctx, &row);
    if (s->full)
        return ERR_OK;
    s->emitted++;
    s->sated = !s->r->each(s->r->ctx, &row);
    return ERR_OK;
}

/* No more rows: one that is met now is for the next answer, and if none is there is none. */
static bool limit_met(const struct scan *s)
{
    bool is_most = s->g->limit == 0 || s->g->limit > TABLE_LIMIT_MAX;
    return s->sated || s->emitted == (is_most ? TABLE_LIMIT_MAX : s->g->limit);
}

/* A row that is alive and whose key matches: the limit first, then its bytes. */
static err read_take(struct scan *s, const struct engine_row *row, const struct key_parts *parts,
                     store_time expiry)
{
    if (limit_met(s)) {
        s->full = true;
        return ERR_OK;
    }
    str plain = STR_NONE;
    err e = ERR_OK;
    if (s->wants_plain)
        e = row_attrs(s->r->tables->engine, row, &s->scratch, s->r->now, &plain);
    if (e == ERR_OK)
        e = statics_load(s);
    return e == ERR_OK ? emit(s, parts, plain, expiry) : e;
}

static err look_row(struct scan *s, const struct engine_row *row)
{
    struct row_head head;
    struct key_parts parts;
    err e = row_head_read(row->value, &head);
    if (e != ERR_OK || !store_time_before(s->now, head.expiry))
        return e;
    e = key_split(&s->scratch, s->schema, key_buf_str(&s->met), &parts);
    if (e != ERR_OK || parts.is_static || !read_matches(s, &parts))
        return e;
    INVARIANT(key_buf_set(&s->row_key, key_buf_str(&s->met)));
    return read_take(s, row, &parts, head.expiry);
}

/* ---- one entry of an index ---- */

/* Makes row_key the newest row that is alive among those that differ in their version.
 * ERR_NOT_FOUND. */
static err newest_find(struct scan *s)
{
    char end[ENGINE_KEY_BYTES_MAX];
    str group = str_take(key_buf_str(&s->row_key), s->row_key.n - KEY_VERSION_BYTES);
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = group,
                                  .until = engine_prefix_end(group, end) };
    struct engine_cursor *c = engine_cursor_open(s->r->view, &range);
    struct engine_row row;
    struct row_head head;
    err e;
    do {
        e = s->scanned++ > TABLE_NOW_ROWS_MAX && s->r->now ? ERR_AGAIN
                                                           : engine_cursor_next(c, &row);
        if (e == ERR_OK)
            e = row_head_read(row.value, &head);
    } while (e == ERR_OK && !store_time_before(s->now, head.expiry));
    if (e == ERR_OK && (row.key.n > TABLE_KEY_BYTES_MAX || !key_buf_set(&s->row_key, row.key)))
        e = ERR_CORRUPT;
    engine_cursor_close(&c);
    return e;
}

/* Does the row's trail name the entry met, or one of its group? */
static err entry_holds(struct scan *s, bool *holds)
{
    struct key_buf stored;
    str met = key_buf_str(&s->met);
    err e = index_stored(s->r->view, key_buf_str(&s->row_key), s->schema->through->number, &stored);
    size_t n = is_grouped(s) ? met.n - KEY_VERSION_BYTES : met.n;
    *holds = stored.n == met.n && str_eq(str_take(key_buf_str(&stored), n), str_take(met, n));
    return e;
}

/* The key of the row an entry stands for: of the same table. */
static bool row_key_take(struct scan *s, str row_key)
{
    str of_table = str_skip(str_take(key_buf_str(&s->met), KEY_HEAD_BYTES), 1);
    size_t least = KEY_HEAD_BYTES + (is_grouped(s) ? KEY_VERSION_BYTES : 0);
    return row_key.n > least && row_key.n <= TABLE_KEY_BYTES_MAX && row_key.p[0] == KEY_ROW &&
           str_starts(str_skip(row_key, 1), of_table) && key_buf_set(&s->row_key, row_key);
}

static err look_entry(struct scan *s, const struct engine_row *entry)
{
    struct key_parts parts;
    struct engine_row row;
    struct row_head head;
    bool holds = false;
    if (!row_key_take(s, entry->value))
        return ERR_CORRUPT;
    err e = key_split(&s->scratch, s->schema, key_buf_str(&s->met), &parts);
    if (e != ERR_OK || !read_matches(s, &parts))
        return e;
    if (is_grouped(s))
        e = newest_find(s);
    if (e == ERR_OK)
        e = entry_holds(s, &holds);
    if (e == ERR_OK && holds)
        e = engine_get(s->r->view, SPACE_ROW, key_buf_str(&s->row_key), &row);
    if (e == ERR_OK && holds)
        e = row_head_read(row.value, &head);
    if (e != ERR_OK || !holds)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    return store_time_before(s->now, head.expiry) ? read_take(s, &row, &parts, head.expiry)
                                                  : ERR_OK;
}

/* ---- the walk ---- */

static err look(struct scan *s, const struct engine_row *row)
{
    if (s->scratch.total > SCRATCH_KEEP_BYTES)
        arena_reset(&s->scratch);
    if (row->key.n > TABLE_KEY_BYTES_MAX || !key_buf_set(&s->met, row->key))
        return ERR_CORRUPT;
    return s->schema->through == NULL ? look_row(s, row) : look_entry(s, row);
}

/* Tells of the row met, which cannot be read, by the attributes of its key, as far as that can. */
static err damage_tell(struct scan *s)
{
    struct key_parts parts;
    struct table_attr attrs[2 * TABLE_KEY_ATTRS_MAX];
    struct table_row row = { .attrs = attrs };
    if (s->r->damaged == NULL || s->damaged == TABLE_DAMAGED_MAX)
        return ERR_CORRUPT;
    err e = key_split(&s->scratch, s->schema, key_buf_str(&s->met), &parts);
    if (e == ERR_LIMIT || (e == ERR_OK && (parts.is_static || !read_matches(s, &parts))))
        return e;
    if (limit_met(s)) {
        s->full = true;
        return ERR_OK;
    }
    for (unsigned i = 0; e == ERR_OK && i < s->schema->attrs_count; i++) {
        const struct schema_attr *at = &s->schema->attrs[i];
        if (at->name.n > 0 && (at->role == ROLE_HASH || at->role == ROLE_RANGE))
            attrs[row.count++] =
                (struct table_attr){ .name = at->name, .value = key_part(s->schema, &parts, at) };
    }
    s->damaged++;
    atomic_fetch_add_explicit(&s->r->tables->damaged, 1, memory_order_relaxed);
    s->sated = !s->r->damaged(s->r->ctx, &row);
    return ERR_OK;
}

/* One step of the walk. known: the key met is one, so that a token may name it. */
static err read_step(struct scan *s, struct engine_cursor *c, bool *known)
{
    struct engine_row row;
    err e = engine_cursor_next(c, &row);
    *known = e == ERR_OK;
    if (e != ERR_OK && (e != ERR_CORRUPT || row.key.n == 0 || row.key.n > TABLE_KEY_BYTES_MAX))
        return e;
    if (s->scanned++ == TABLE_SCAN_ROWS_MAX) {
        s->full = true;
        return ERR_OK;
    }
    if (s->r->now && s->scanned > TABLE_NOW_ROWS_MAX)
        return ERR_AGAIN;
    if (!s->r->now && store_call_canceled(s->r->call))
        return ERR_TIMEOUT;
    if (e == ERR_OK)
        e = look(s, &row);
    else
        INVARIANT(key_buf_set(&s->met, row.key));
    return e == ERR_CORRUPT ? damage_tell(s) : e;
}

static err read_walk(struct scan *s, struct engine_cursor *c)
{
    for (;;) {
        struct key_buf behind;
        unsigned emitted = s->emitted;
        bool known;
        err e = read_step(s, c, &known);
        if (e != ERR_OK)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        if (s->full)
            return ERR_OK;
        if (!known)
            continue;
        INVARIANT(key_buf_set(&s->last_key, key_buf_str(&s->met)));
        s->passed = s->g->distinct ? s->emitted > emitted : is_grouped(s);
        if (!s->passed)
            continue;
        e = bound_behind(s, key_buf_str(&s->last_key), true, &behind);
        if (e != ERR_OK)
            return e;
        engine_cursor_seek(c, key_buf_str(&behind));
    }
}

static err index_open(struct scan *s)
{
    if (s->g->index.n == 0)
        return ERR_OK;
    const struct schema_index *ix = schema_index_find(s->table, s->g->index);
    if (ix == NULL) {
        err_note_set(s->r->note, "there is no index %.*s", STR_ARG(str_take(s->g->index, 64)));
        return ERR_BAD;
    }
    err e = index_ready(s->r->view, s->domain, s->table, ix, s->r->note);
    if (e != ERR_OK)
        return e;
    s->schema = schema_through(s->r->arena, s->table, ix);
    return s->schema == NULL ? ERR_LIMIT : ERR_OK;
}

static err scan_run(struct scan *s, str *next)
{
    err e = index_open(s);
    if (e == ERR_OK)
        e = wants_read(s);
    if (e == ERR_OK)
        e = plan_make(s->schema, s->domain, s->g->predicates, s->g->predicates_count, &s->plan,
                      s->r->note);
    if (e == ERR_OK && !s->plan.empty)
        e = token_apply(s);
    if (e != ERR_OK || s->plan.empty)
        return e;
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = key_buf_str(&s->plan.from),
                                  .until = key_buf_str(&s->plan.until),
                                  .reversed = s->g->reversed };
    struct engine_cursor *c = engine_cursor_open(s->r->view, &range);
    e = read_walk(s, c);
    engine_cursor_close(&c);
    return e == ERR_OK ? token_make(s, next) : e;
}

err tables_get(const struct table_reader *r, uint32_t domain, const struct table_get *g, str *next)
{
    MAGIC_CHECK(r->tables, TABLES_MAGIC);
    const struct store_look look = { .tables = r->tables,
                                     .view = r->view,
                                     .domain = domain,
                                     .now = r->now,
                                     .arena = r->arena,
                                     .note = r->note };
    const struct schema *schema = r->schema;
    if (schema == NULL) {
        struct schema *found;
        err e = store_schema(&look, g->table, &found);
        if (e != ERR_OK)
            return e;
        schema = found;
    }
    struct scan *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ERR_LIMIT;
    *s = (struct scan){ .r = r,
                        .g = g,
                        .domain = domain,
                        .table = schema,
                        .schema = schema,
                        .now = clock_store(r->tables->clock) };
    arena_init(&s->scratch, 2 * (size_t)ENGINE_BLOB_BYTES_MAX);
    arena_init(&s->static_arena, ENGINE_BLOB_BYTES_MAX);
    *next = STR_NONE;
    err e = scan_run(s, next);
    if (e == ERR_LIMIT && (arena_is_starved(&s->scratch) || arena_is_starved(&s->static_arena)))
        e = ERR_UNAVAILABLE;
    arena_fini(&s->scratch);
    arena_fini(&s->static_arena);
    free(s);
    atomic_fetch_add_explicit(&r->tables->gets, 1, memory_order_relaxed);
    return e;
}
