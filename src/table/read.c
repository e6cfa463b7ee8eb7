/* Gets: a walk over the keys a plan allows, filtered, merged with the static row of each partition. */
#include "codec/base64.h"
#include "table/jsontext.h"
#include "table/key.h"
#include "table/query.h"
#include "table/row.h"
#include "table/store.h"
#include "table/value.h"

#include <stdlib.h>
#include <string.h>

enum { TOKEN_FORWARD = 'f', TOKEN_REVERSED = 'r', SCRATCH_KEEP_BYTES = 256 << 10 };

/* One get under way. */
struct scan {
    const struct table_reader *r;
    const struct table_get *g;
    uint32_t domain;
    const struct schema *schema;
    struct plan plan;
    bool wanted[TABLE_ATTRS_MAX];
    bool wants_plain, wants_static;
    store_time now;
    struct arena scratch;          /* of the row under way */
    struct key_buf last_key;       /* of the row seen last: the token */
    struct key_buf partition;      /* whose static row is in statics */
    struct arena static_arena;
    str statics;                   /* its attributes; empty: none */
    unsigned emitted, scanned;
    bool more;
};

str table_row_value(const struct table_row *r, str name)
{
    for (unsigned i = 0; i < r->count; i++)
        if (str_eq(r->attrs[i].name, name))
            return r->attrs[i].value;
    return STR_NONE;
}

/* ---- what is asked for ---- */

static err want(struct scan *s, str name)
{
    const struct schema_attr *at = schema_find(s->schema, name);
    if (at == NULL) {
        err_note_set(s->r->note, "proj names an attribute that is not in the table: %.*s", STR_ARG(str_take(name, 64)));
        return ERR_BAD;
    }
    if (s->g->distinct && at->role != ROLE_HASH) {
        err_note_set(s->r->note, "distinct gives hash attributes only, not %.*s", STR_ARG(at->name));
        return ERR_BAD;
    }
    s->wanted[at - s->schema->attrs] = true;
    return ERR_OK;
}

static err wants_read(struct scan *s)
{
    for (unsigned i = 0; i < s->g->proj_count; i++) {
        err e = want(s, s->g->proj[i]);
        if (e != ERR_OK)
            return e;
    }
    for (unsigned i = 0; i < s->schema->attrs_count; i++) {
        const struct schema_attr *at = &s->schema->attrs[i];
        if (s->g->proj_count == 0)
            s->wanted[i] = !s->g->distinct || at->role == ROLE_HASH;
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

/* Goes on behind the row the token names. */
static err token_apply(struct scan *s)
{
    if (s->g->next.n == 0)
        return ERR_OK;
    str token;
    err e = base64_decode(s->r->arena, s->g->next, &token);
    if (e == ERR_LIMIT)
        return e;
    if (e != ERR_OK || token.n < 2 || token.n > TABLE_KEY_BYTES_MAX + 1 ||
        token.p[0] != (s->g->reversed ? TOKEN_REVERSED : TOKEN_FORWARD))
        return token_bad(s);
    str key = str_skip(token, 1);
    if (str_cmp(key, key_buf_str(&s->plan.from)) < 0 || str_cmp(key, key_buf_str(&s->plan.until)) >= 0)
        return token_bad(s);
    size_t partition_size;
    bool is_static;
    if (key_partition(s->schema, key, &partition_size, &is_static) != ERR_OK)
        return token_bad(s);
    if (s->g->distinct)
        key = str_take(key, partition_size);
    struct key_buf *bound = s->g->reversed ? &s->plan.until : &s->plan.from;
    INVARIANT(key_buf_set(bound, key));
    if (!s->g->reversed)
        bound->bytes[bound->n++] = s->g->distinct ? KEY_REGULAR + 1 : 0;
    return ERR_OK;
}

static err token_make(const struct scan *s, str *next)
{
    *next = STR_NONE;
    if (!s->more)
        return ERR_OK;
    struct buf b;
    char token[1 + ENGINE_KEY_BYTES_MAX];
    token[0] = s->g->reversed ? TOKEN_REVERSED : TOKEN_FORWARD;
    memcpy(token + 1, s->last_key.bytes, s->last_key.n);
    buf_init(&b, 2048);
    jsontext_base64(&b, (str){ .p = token, .n = 1 + s->last_key.n });
    *next = arena_copy(s->r->arena, buf_str(&b));
    buf_fini(&b);
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

static str part_of(const struct schema *s, const struct key_parts *parts, const struct schema_attr *at)
{
    unsigned index = (unsigned)(at - s->attrs);
    for (unsigned i = 0; i < s->hash_count; i++)
        if (s->hash[i] == index)
            return parts->values[i];
    for (unsigned i = 0; i < s->range_count; i++)
        if (s->range[i] == index)
            return parts->values[s->hash_count + i];
    return STR_NONE;
}

static bool matches(const struct scan *s, const struct key_parts *parts)
{
    for (unsigned i = 0; !s->plan.exact && i < s->g->predicates_count; i++) {
        const struct table_predicate *p = &s->g->predicates[i];
        const struct schema_attr *at = schema_find(s->schema, p->name);
        if (!holds(p->op, value_cmp(at->kind, part_of(s->schema, parts, at), p->value)))
            return false;
    }
    return true;
}

/* Loads the static attributes of the partition that key lies in, once a partition. */
static err statics_load(struct scan *s, str partition)
{
    if (!s->wants_static || str_eq(partition, key_buf_str(&s->partition)))
        return ERR_OK;
    struct key_buf key;
    struct engine_row row;
    struct row_head head;
    INVARIANT(key_buf_set(&s->partition, partition));
    arena_reset(&s->static_arena);
    s->statics = STR_NONE;
    key = s->partition;
    key.bytes[key.n++] = KEY_STATIC;
    err e = engine_get(s->r->view, SPACE_ROW, key_buf_str(&key), &row);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e == ERR_OK)
        e = row_head_read(row.value, &head);
    if (e != ERR_OK || !store_time_before(s->now, head.expiry))
        return e;
    return row_attrs(s->r->tables->engine, &row, &s->static_arena, s->r->now, &s->statics);
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
        str value = in_key                     ? part_of(s->schema, parts, at)
                    : at->role == ROLE_STATIC ? row_attr(s->statics, at->number)
                                               : row_attr(plain, at->number);
        attrs[count++] = (struct table_attr){ .name = at->name, .value = value };
    }
    struct table_row row = { .attrs = attrs, .count = count, .with_ttl = s->g->with_ttl };
    if (expiry.ns != INT64_MAX)
        row.ttl_s = (expiry.ns - s->now.ns + NS_PER_S - 1) / NS_PER_S;
    s->emitted++;
    s->more = !s->r->each(s->r->ctx, &row);
    return ERR_OK;
}

/* A row that is alive and whose key matches: the limit first, then its bytes. */
static err take(struct scan *s, const struct engine_row *row, const struct key_parts *parts, store_time expiry)
{
    uint32_t limit = s->g->limit == 0 || s->g->limit > TABLE_LIMIT_MAX ? TABLE_LIMIT_MAX : s->g->limit;
    if (s->emitted == limit) {
        s->more = true;
        return ERR_OK;
    }
    struct key_buf key;
    str plain = STR_NONE;
    err e = ERR_OK;
    INVARIANT(key_buf_set(&key, row->key));
    if (s->wants_plain)
        e = row_attrs(s->r->tables->engine, row, &s->scratch, s->r->now, &plain);
    if (e == ERR_OK)
        e = statics_load(s, str_take(key_buf_str(&key), parts->partition_size));
    if (e != ERR_OK)
        return e;
    s->last_key = key;
    return emit(s, parts, plain, expiry);
}

static err look(struct scan *s, const struct engine_row *row)
{
    struct row_head head;
    struct key_parts parts;
    if (s->scratch.total > SCRATCH_KEEP_BYTES)
        arena_reset(&s->scratch);
    if (row->key.n > TABLE_KEY_BYTES_MAX)
        return ERR_CORRUPT;
    err e = row_head_read(row->value, &head);
    if (e != ERR_OK || !store_time_before(s->now, head.expiry))
        return e;
    e = key_split(&s->scratch, s->schema, row->key, &parts);
    if (e != ERR_OK || parts.is_static || !matches(s, &parts))
        return e;
    return take(s, row, &parts, head.expiry);
}

/* ---- the walk ---- */

/* The next row worth looking at lies in another partition. */
static void skip_partition(struct scan *s, struct engine_cursor *c)
{
    size_t partition_size;
    bool is_static;
    struct key_buf key = s->last_key;
    INVARIANT(key_partition(s->schema, key_buf_str(&key), &partition_size, &is_static) == ERR_OK);
    key.n = partition_size;
    if (!s->g->reversed)
        key.bytes[key.n++] = KEY_REGULAR + 1;
    engine_cursor_seek(c, key_buf_str(&key));
}

static err walk(struct scan *s, struct engine_cursor *c)
{
    for (;;) {
        struct engine_row row;
        unsigned emitted = s->emitted;
        err e = engine_cursor_next(c, &row);
        if (e != ERR_OK)
            return e == ERR_NOT_FOUND ? ERR_OK : e;
        if (++s->scanned > TABLE_SCAN_ROWS_MAX) {
            s->more = true;
            INVARIANT(key_buf_set(&s->last_key, row.key));
            return ERR_OK;
        }
        e = look(s, &row);
        if (e != ERR_OK || s->more)
            return e;
        if (s->g->distinct && s->emitted > emitted)
            skip_partition(s, c);
    }
}

static err scan_run(struct scan *s, str *next)
{
    err e = wants_read(s);
    if (e == ERR_OK)
        e = plan_make(s->schema, s->domain, s->g->predicates, s->g->predicates_count, &s->plan, s->r->note);
    if (e == ERR_OK && !s->plan.empty)
        e = token_apply(s);
    if (e != ERR_OK || s->plan.empty)
        return e;
    struct engine_range range = { .space = SPACE_ROW, .from = key_buf_str(&s->plan.from),
                                  .until = key_buf_str(&s->plan.until), .reversed = s->g->reversed };
    struct engine_cursor *c = engine_cursor_open(s->r->view, &range);
    e = walk(s, c);
    engine_cursor_close(&c);
    return e == ERR_OK ? token_make(s, next) : e;
}

err tables_get(const struct table_reader *r, uint32_t domain, const struct table_get *g, str *next)
{
    MAGIC_CHECK(r->tables, TABLES_MAGIC);
    struct schema *schema;
    err e = store_schema(r->tables, r->view, domain, g->table, r->arena, r->now, &schema, r->note);
    if (e != ERR_OK)
        return e;
    struct scan *s = calloc(1, sizeof *s);
    if (s == NULL)
        return ERR_LIMIT;
    *s = (struct scan){ .r = r, .g = g, .domain = domain, .schema = schema, .now = clock_store(r->tables->clock) };
    arena_init(&s->scratch, 2 * (size_t)ENGINE_BLOB_BYTES_MAX);
    arena_init(&s->static_arena, ENGINE_BLOB_BYTES_MAX);
    *next = STR_NONE;
    e = scan_run(s, next);
    arena_fini(&s->scratch);
    arena_fini(&s->static_arena);
    free(s);
    atomic_fetch_add_explicit(&r->tables->gets, 1, memory_order_relaxed);
    return e;
}

err tables_schema(struct tables *ts, uint32_t domain, str table, struct arena *a, bool now, str *json)
{
    MAGIC_CHECK(ts, TABLES_MAGIC);
    struct schema *s;
    struct engine_view *v = engine_view_begin(ts->engine);
    err e = store_schema(ts, v, domain, table, a, now, &s, NULL);
    engine_view_end(&v);
    if (e == ERR_OK)
        *json = s->text;
    return e;
}

/* ---- as JSON ---- */

struct json_answer {
    struct buf out;
    const struct schema *schema;
    unsigned rows;
    err status;
};

static bool json_row(void *ctx, const struct table_row *row)
{
    struct json_answer *j = ctx;
    buf_put(&j->out, j->rows++ == 0 ? STR("{") : STR(",{"));
    for (unsigned i = 0; i < row->count && j->status == ERR_OK; i++) {
        if (i > 0)
            buf_put_c(&j->out, ',');
        jsontext_string(&j->out, row->attrs[i].name);
        buf_put_c(&j->out, ':');
        j->status = value_to_json(&j->out, schema_find(j->schema, row->attrs[i].name)->kind, row->attrs[i].value);
    }
    if (row->with_ttl && row->ttl_s > 0)
        buf_printf(&j->out, "%s\"_ttl\":%lld", row->count > 0 ? "," : "", (long long)row->ttl_s);
    buf_put_c(&j->out, '}');
    return j->status == ERR_OK && j->out.n < TABLE_ANSWER_BYTES_MAX / 4;
}

static err json_finish(struct json_answer *j, str next, struct arena *a, struct table_answer *out)
{
    buf_put_c(&j->out, ']');
    if (next.p != NULL) {
        buf_put(&j->out, STR(",\"next\":"));
        jsontext_string(&j->out, next);
    }
    buf_put_c(&j->out, '}');
    if (j->status != ERR_OK)
        return j->status;
    if (buf_status(&j->out) != ERR_OK)
        return ERR_LIMIT;
    str text = arena_copy(a, buf_str(&j->out));
    if (text.p == NULL)
        return ERR_LIMIT;
    *out = (struct table_answer){ .json = text, .rows = j->rows, .more = next.p != NULL };
    return ERR_OK;
}

err tables_get_json(struct tables *ts, uint32_t domain, str table, str query, struct arena *a, bool now,
                    struct table_answer *out, struct err_note *note)
{
    MAGIC_CHECK(ts, TABLES_MAGIC);
    struct engine_view *v = engine_view_begin(ts->engine);
    struct schema *schema;
    struct table_get g;
    struct json_answer j = { .status = ERR_OK };
    str next;
    buf_init(&j.out, TABLE_ANSWER_BYTES_MAX);
    err e = store_schema(ts, v, domain, table, a, now, &schema, note);
    if (e == ERR_OK)
        e = query_get(a, schema, query, &g, note);
    if (e == ERR_OK) {
        j.schema = schema;
        buf_put(&j.out, STR("{\"items\":["));
        struct table_reader r = { .tables = ts, .view = v, .arena = a, .now = now, .each = json_row, .ctx = &j,
                                  .note = note };
        e = tables_get(&r, domain, &g, &next);
    }
    if (e == ERR_OK)
        e = json_finish(&j, next, a, out);
    engine_view_end(&v);
    buf_fini(&j.out);
    return e;
}
