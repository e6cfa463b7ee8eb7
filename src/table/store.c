/* store.c - what reads and writes of tables share: schemas, blobs, deletions, and plans of key
 * ranges. Invariant: a plan covers every row that the predicates can match. */
#include "table/store.h"

#include "table/index.h"
#include "table/key.h"
#include "table/row.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

bool key_buf_set(struct key_buf *k, str s)
{
    k->n = 0;
    if (s.n > sizeof k->bytes)
        return false;
    if (s.n > 0)
        memcpy(k->bytes, s.p, s.n);
    k->n = s.n;
    return true;
}

err store_blob(struct engine *e, const struct engine_blob *blob, struct arena *a, bool now,
               str *out)
{
    if (blob->n > ENGINE_BLOB_BYTES_MAX)
        return ERR_CORRUPT;
    char *p = arena_alloc(a, (size_t)blob->n);
    if (p == NULL)
        return ERR_LIMIT;
    err why = now ? engine_blob_read_now(e, blob, 0, blob->n, p)
                  : engine_blob_read(e, blob, 0, blob->n, p);
    if (why != ERR_OK)
        return why;
    if (XXH3_64bits(p, (size_t)blob->n) != blob->hash)
        return ERR_CORRUPT;
    *out = (str){ .p = p, .n = (size_t)blob->n };
    return ERR_OK;
}

void store_schema_key(struct key_buf *k, uint32_t domain, str table)
{
    INVARIANT(table.n <= TABLE_NAME_BYTES_MAX);
    k->bytes[0] = SPACE_KEY_SCHEMA;
    put_be32(k->bytes + 1, domain);
    if (table.n > 0)
        memcpy(k->bytes + 5, table.p, table.n);
    k->n = 5 + table.n;
}

err store_schema(const struct store_look *k, str table, struct schema **out)
{
    struct key_buf key;
    struct engine_row row;
    err why = ERR_NOT_FOUND;
    if (schema_name_valid(table)) {
        store_schema_key(&key, k->domain, k->unseen ? STR("") : table);
        why = engine_get(k->view, SPACE_SCHEMA, key_buf_str(&key), &row);
    }
    if (why == ERR_NOT_FOUND)
        err_note_set(k->note, "there is no table %.*s",
                     STR_ARG(str_take(table, TABLE_NAME_BYTES_MAX)));
    if (why != ERR_OK)
        return why;
    str bytes = row.value;
    if (row.blob.n > 0)
        why = store_blob(k->tables->engine, &row.blob, k->arena, k->now, &bytes);
    return why == ERR_OK ? schema_unpack(k->arena, table, bytes, out) : why;
}

err store_schema_same(struct engine_view *v, uint32_t domain, const struct schema *s)
{
    struct key_buf key;
    struct engine_row row;
    store_schema_key(&key, domain, s->name);
    err e = engine_get(v, SPACE_SCHEMA, key_buf_str(&key), &row);
    if (e != ERR_OK)
        return e;
    struct cursor c = { .rest = row.value };
    (void)cursor_u8(&c);
    uint32_t number = cursor_be32(&c), changes = cursor_be32(&c);
    if (c.failed)
        return ERR_CORRUPT;
    if (number != s->number)
        return ERR_NOT_FOUND;
    return changes == s->changes ? ERR_OK : ERR_CONFLICT;
}

void store_memory_note(err e, const struct arena *a, struct err_note *note)
{
    if (e == ERR_LIMIT && note != NULL && note->text[0] == 0 && !arena_is_starved(a))
        err_note_set(note,
                     "it needs more than the memory of one request, %zu bytes "
                     "(http.arena_bytes_max): ask for "
                     "less at once",
                     a->bytes_max);
}

/* ---- deletion ---- */

enum {
    DOOMED_WRITES_MAX = ENGINE_UPDATE_ROWS_MAX - 384
}; /* the last row may pass it by what it has in indexes */

void store_doomed_init(struct store_doomed *d)
{
    *d = (struct store_doomed){ .writes_max = DOOMED_WRITES_MAX };
    buf_init(&d->keys, (size_t)ENGINE_UPDATE_ROWS_MAX * (ENGINE_KEY_BYTES_MAX + 2));
}

void store_doomed_fini(struct store_doomed *d)
{
    buf_fini(&d->keys);
}

static void doom_key(struct store_doomed *d, str key)
{
    buf_put_be16(&d->keys, (uint16_t)key.n);
    buf_put(&d->keys, key);
    d->writes++;
}

/* An entry of an index, or a trail, is only its key. A row that cannot be read goes too; its expiry
 * entry when due. */
static err store_doom(struct store_doomed *d, struct engine_view *v, const struct engine_row *row,
                      store_time now)
{
    struct row_head head;
    struct key_buf key;
    struct due_key due;
    doom_key(d, row->key);
    if (row->key.n == 0 || row->key.p[0] != KEY_ROW)
        return ERR_OK;
    if (row->key.n > TABLE_KEY_BYTES_MAX || !key_buf_set(&key, row->key))
        return ERR_CORRUPT;
    if (row->value.p == NULL || row_head_read(row->value, &head) != ERR_OK)
        head = (struct row_head){ .expiry = STORE_TIME_NEVER, .indexed = true };
    if (d->count++ == 0)
        d->first = key;
    d->last = key;
    d->alive += store_time_before(now, head.expiry) ? 1 : 0;
    if (head.expiry.ns != INT64_MAX) {
        due_key(&row_due, head.expiry, row_due_row(key_buf_str(&key)), &due);
        doom_key(d, due_key_str(&due));
    }
    return head.indexed ? index_trails(v, key_buf_str(&key), &d->keys, &d->writes) : ERR_OK;
}

err store_collect(struct engine_view *v, const struct engine_range *range, unsigned max,
                  store_time now, struct store_doomed *out)
{
    struct engine_cursor *c = engine_cursor_open(v, range);
    err e = ERR_OK;
    unsigned rows = 0;
    while (e == ERR_OK) {
        struct engine_row row;
        e = engine_cursor_next(c, &row);
        if (e == ERR_CORRUPT && str_cmp(row.key, range->from) >= 0 &&
            str_cmp(row.key, range->until) < 0) {
            row.value = STR_NONE;
            e = ERR_OK;
        }
        if (e == ERR_OK && (rows++ == max || out->writes > out->writes_max)) {
            out->more = true;
            break;
        }
        if (e == ERR_OK)
            e = store_doom(out, v, &row, now);
    }
    engine_cursor_close(&c);
    e = e == ERR_NOT_FOUND ? ERR_OK : e;
    return e == ERR_OK ? buf_status(&out->keys) : e;
}

err store_delete(struct engine_txn *t, const struct store_doomed *doomed)
{
    struct cursor c = { .rest = buf_str(&doomed->keys) };
    err e = ERR_OK;
    while (e == ERR_OK && c.rest.n > 0)
        e = engine_txn_delete(t, SPACE_ROW, cursor_bytes(&c, cursor_be16(&c)));
    return e;
}

err store_delete_row(struct engine_txn *t, str key, const struct row_head *head)
{
    struct store_doomed d;
    err e = ERR_OK;
    if (head->indexed) {
        store_doomed_init(&d);
        e = index_trails(engine_txn_view(t), key, &d.keys, &d.writes);
        if (e == ERR_OK)
            e = store_delete(t, &d);
        store_doomed_fini(&d);
    }
    return e == ERR_OK ? engine_txn_delete(t, SPACE_ROW, key) : e;
}

/* ---- plans ---- */

static void bound_raise(struct key_buf *from, str key)
{
    if (str_cmp(key, key_buf_str(from)) > 0)
        INVARIANT(key_buf_set(from, key));
}

static void bound_lower(struct key_buf *until, str key)
{
    if (str_cmp(key, key_buf_str(until)) < 0)
        INVARIANT(key_buf_set(until, key));
}

/* In the order of encoded keys: descending turns it round. */
static enum table_op encoded_op(enum table_op op, bool desc)
{
    static const enum table_op turned[] = {
        [OP_EQ] = OP_EQ, [OP_LT] = OP_GT, [OP_LE] = OP_GE, [OP_GT] = OP_LT, [OP_GE] = OP_LE
    };
    return desc ? turned[op] : op;
}

/* component: the prefix with the encoded value behind it. */
static void bound_apply(struct plan *p, enum table_op op, str component)
{
    char end_bytes[ENGINE_KEY_BYTES_MAX];
    str end = engine_prefix_end(component, end_bytes);
    switch (op) {
    case OP_EQ:
        bound_raise(&p->from, component);
        bound_lower(&p->until, end);
        return;
    case OP_LT:
        bound_lower(&p->until, component);
        return;
    case OP_LE:
        bound_lower(&p->until, end);
        return;
    case OP_GT:
        bound_raise(&p->from, end);
        return;
    case OP_GE:
        bound_raise(&p->from, component);
        return;
    }
}

/* State of one walk over the key attributes. */
struct planner {
    const struct table_predicate *predicates;
    unsigned count, used;
    struct buf prefix;
    struct plan *plan;
    bool open; /* an attribute without eq was passed: bounds are as tight as they get */
};

static const struct table_predicate *find_eq(const struct planner *w, str name)
{
    for (unsigned i = 0; i < w->count; i++)
        if (w->predicates[i].op == OP_EQ && str_eq(w->predicates[i].name, name))
            return &w->predicates[i];
    return NULL;
}

enum { BOUND_BYTES_MAX = 16 << 10 }; /* of a text, many times a key; a number has fewer */

/* No key is as long, and no component the beginning of another: the part that a key could have says
 * on which side. */
static void bound_cut(struct planner *w, const struct schema_attr *at,
                      const struct table_predicate *p)
{
    struct buf b;
    buf_init(&b, 4 * BOUND_BYTES_MAX);
    buf_put(&b, buf_str(&w->prefix));
    key_put(&b, at->kind.type, at->desc, str_take(p->value, BOUND_BYTES_MAX));
    INVARIANT(buf_status(&b) == ERR_OK);
    INVARIANT(b.n > TABLE_KEY_BYTES_MAX);
    str cut = str_take(buf_str(&b), TABLE_KEY_BYTES_MAX);
    enum table_op op = encoded_op(p->op, at->desc);
    if (op == OP_LT || op == OP_LE)
        bound_lower(&w->plan->until, cut);
    else
        bound_raise(&w->plan->from, cut);
    buf_fini(&b);
}

static void plan_ranges(struct planner *w, const struct schema_attr *at)
{
    size_t size = w->prefix.n;
    for (unsigned i = 0; i < w->count; i++) {
        const struct table_predicate *p = &w->predicates[i];
        if (!str_eq(p->name, at->name))
            continue;
        key_put(&w->prefix, at->kind.type, at->desc, p->value);
        bool is_long = buf_status(&w->prefix) != ERR_OK;
        if (!is_long)
            bound_apply(w->plan, encoded_op(p->op, at->desc), buf_str(&w->prefix));
        w->prefix.failed = false;
        w->prefix.n = size;
        if (is_long && p->op != OP_EQ)
            bound_cut(w, at, p);
        w->plan->empty |= is_long && p->op == OP_EQ;
        w->used += is_long && p->op == OP_EQ ? 0 : 1;
    }
}

static void plan_attr(struct planner *w, const struct schema_attr *at)
{
    if (w->open)
        return;
    plan_ranges(w, at);
    const struct table_predicate *eq = find_eq(w, at->name);
    if (eq == NULL) {
        w->open = true;
        return;
    }
    key_put(&w->prefix, at->kind.type, at->desc, eq->value);
    if (buf_status(&w->prefix) != ERR_OK)
        w->plan->empty = true;
    w->open = w->plan->empty;
}

static err predicates_check(const struct schema *s, const struct table_predicate *predicates,
                            unsigned count, struct err_note *note)
{
    for (unsigned i = 0; i < count; i++) {
        const struct schema_attr *at = schema_find(s, predicates[i].name);
        if (at == NULL) {
            err_note_set(note, "there is no attribute %.*s",
                         STR_ARG(str_take(predicates[i].name, 64)));
            return ERR_BAD;
        }
        if (at->role != ROLE_HASH && at->role != ROLE_RANGE) {
            err_note_set(note, "attribute %.*s is not in the index", STR_ARG(at->name));
            return ERR_BAD;
        }
        if (predicates[i].value.p == NULL) {
            err_note_set(note, "attribute %.*s of the key cannot be null", STR_ARG(at->name));
            return ERR_BAD;
        }
    }
    return ERR_OK;
}

err plan_make(const struct schema *s, uint32_t domain, const struct table_predicate *predicates,
              unsigned count, struct plan *out, struct err_note *note)
{
    err e = predicates_check(s, predicates, count, note);
    if (e != ERR_OK)
        return e;
    struct planner w = { .predicates = predicates, .count = count, .plan = out };
    char end[ENGINE_KEY_BYTES_MAX];
    buf_init(&w.prefix, TABLE_KEY_BYTES_MAX);
    key_put_head(&w.prefix, domain, s);
    out->empty = false;
    INVARIANT(key_buf_set(&out->from, buf_str(&w.prefix)));
    INVARIANT(key_buf_set(&out->until, engine_prefix_end(buf_str(&w.prefix), end)));
    for (unsigned i = 0; i < s->hash_count; i++)
        plan_attr(&w, &s->attrs[s->hash[i]]);
    out->one_partition = !w.open && !out->empty;
    out->whole_partition = out->one_partition && w.used == count;
    bool agree = str_eq(key_buf_str(&out->from),
                        buf_str(&w.prefix)); /* else two conditions on one attribute differ */
    out->partition_size = out->one_partition && agree ? w.prefix.n : 0;
    if (out->one_partition) {
        buf_put_u8(&w.prefix, KEY_REGULAR);
        if (buf_status(&w.prefix) == ERR_OK) {
            bound_raise(&out->from, buf_str(&w.prefix));
            bound_lower(&out->until, engine_prefix_end(buf_str(&w.prefix), end));
        }
        for (unsigned i = 0; i < s->range_count; i++)
            plan_attr(&w, &s->attrs[s->range[i]]);
    }
    out->exact = w.used == count;
    out->empty = out->empty || str_cmp(key_buf_str(&out->from), key_buf_str(&out->until)) >= 0;
    buf_fini(&w.prefix);
    return ERR_OK;
}
