/* update.c - puts, deletes and batches. Prepared on the caller's thread into steps (prepare.c),
 * decided on the engine's. A row that is cold there is read on the pool, and the decision made
 * again.
 *
 * Invariants: 1. A decision writes nothing before all its schemas and conditions were found to
 * hold. 2. What a decision keeps between two runs of itself is set anew at its start. 3. A row with
 * an expiry has exactly one expiry entry, written and deleted in the same update as the row. 4. So
 * have its entries in indexes. */
#include "table/update.h"

#include "table/index.h"
#include "table/key.h"
#include "table/row.h"
#include "table/trim.h"
#include "table/value.h"

enum {
    /* expired rows before the first that is alive; one more look would be too long for the writer,
     * and the upkeep removes them soon */
    FIRST_DEAD_ROWS_MAX = 10000
};

static struct update_own *own_of(const struct table_update *u)
{
    return u->call.own;
}

/* ---- deciding ---- */

/* A stored row as a put sees it. */
struct old_row {
    bool there, alive;
    store_time expiry;
    str attrs; /* empty unless asked for and alive */
};

static err old_read(struct engine_txn *t, struct table_update *u, str key, bool with_attrs,
                    struct old_row *out)
{
    struct engine_row row;
    struct row_head head;
    *out = (struct old_row){ .there = false };
    err e = engine_get(engine_txn_view(t), SPACE_ROW, key, &row);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e == ERR_OK)
        e = row_head_read(row.value, &head);
    if (e != ERR_OK)
        return e;
    out->there = true;
    out->expiry = head.expiry;
    out->alive = store_time_before(engine_txn_now(t), head.expiry);
    if (!with_attrs || !out->alive)
        return ERR_OK;
    e = row_attrs(own_of(u)->tables->engine, &row, &own_of(u)->decided, !own_of(u)->may_block,
                  &out->attrs);
    store_memory_note(e, u->arena, &u->note);
    return e;
}

static struct key_buf static_key(const struct table_step *st)
{
    struct key_buf key = st->key;
    key.n = st->partition_size;
    key.bytes[key.n++] = KEY_STATIC;
    return key;
}

static bool equal_holds(const struct table_step *st, const struct table_attr *want,
                        const struct old_row *row, const struct old_row *statics)
{
    const struct schema_attr *at = schema_find(st->schema, want->name);
    str is = at->role == ROLE_STATIC ? row_attr(statics->attrs, at->number)
                                     : row_attr(row->attrs, at->number);
    if (at->role == ROLE_HASH || at->role == ROLE_RANGE)
        is = row->alive ? st->values[at - st->schema->attrs] : STR_NONE;
    return value_cmp(at->kind, is, want->value) == 0;
}

/* Makes key that of the first row of the step's range that is alive. ERR_NOT_FOUND. */
static err first_find(struct engine_view *v, const struct table_step *st, store_time now,
                      struct key_buf *key)
{
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = key_buf_str(&st->plan.from),
                                  .until = key_buf_str(&st->plan.until) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    struct row_head head = { .expiry = STORE_TIME_ZERO };
    size_t partition_size;
    bool is_static = false;
    err e = st->plan.empty ? ERR_NOT_FOUND : ERR_OK;
    for (unsigned dead = 0; e == ERR_OK && (is_static || !store_time_before(now, head.expiry));
         dead++) {
        e = dead == FIRST_DEAD_ROWS_MAX ? ERR_UNAVAILABLE : engine_cursor_next(c, &row);
        if (e == ERR_OK)
            e = row_head_read(row.value, &head);
        if (e == ERR_OK)
            e = key_partition(st->schema, row.key, &partition_size, &is_static);
    }
    if (e == ERR_OK && !key_buf_set(key, row.key))
        e = ERR_CORRUPT;
    engine_cursor_close(&c);
    return e;
}

/* The row that IF_ALLOWED asks about. */
static err judged_find(struct engine_view *v, const struct table_step *st, store_time now,
                       struct key_buf *key)
{
    *key = st->key;
    return st->write->is_delete || st->write->predicates_count > 0 ? first_find(v, st, now, key)
                                                                   : ERR_OK;
}

/* What is not null, static attributes left out. */
static err row_of(struct table_update *u, const struct table_step *st, str key,
                  const struct old_row *old, struct table_attr attrs[TABLE_ATTRS_MAX],
                  unsigned *count)
{
    const struct schema *s = st->schema;
    struct key_parts parts;
    err e = key_split(&own_of(u)->decided, s, key, &parts);
    *count = 0;
    for (unsigned i = 0; e == ERR_OK && i < s->attrs_count; i++) {
        bool in_key = s->attrs[i].role == ROLE_HASH || s->attrs[i].role == ROLE_RANGE;
        str value =
            in_key ? key_part(s, &parts, &s->attrs[i]) : row_attr(old->attrs, s->attrs[i].number);
        if (value.p != NULL && s->attrs[i].role != ROLE_STATIC)
            attrs[(*count)++] = (struct table_attr){ s->attrs[i].name, value };
    }
    return e;
}

static err allowed(struct engine_txn *t, struct table_update *u, const struct table_step *st,
                   bool *holds)
{
    const struct table_write *w = st->write;
    struct table_attr attrs[TABLE_ATTRS_MAX];
    struct table_row row = { .attrs = attrs };
    struct old_row old = { .there = false };
    struct key_buf key;
    err e = judged_find(engine_txn_view(t), st, engine_txn_now(t), &key);
    if (e == ERR_OK)
        e = old_read(t, u, key_buf_str(&key), !w->allow_by_key, &old);
    if (e == ERR_OK && old.alive)
        e = row_of(u, st, key_buf_str(&key), &old, attrs, &row.count);
    if (e != ERR_OK && e != ERR_NOT_FOUND)
        return e;
    *holds = w->allow(w->allow_ctx, old.alive ? &row : NULL);
    return ERR_OK;
}

static err condition_holds(struct engine_txn *t, struct table_update *u,
                           const struct table_step *st, bool *holds)
{
    const struct table_write *w = st->write;
    struct old_row row, statics = { .there = false };
    *holds = true;
    if (w->condition == IF_ALWAYS || own_of(u)->deleted_before > 0)
        return ERR_OK;
    if (w->condition == IF_ALLOWED)
        return allowed(t, u, st, holds);
    err e = old_read(t, u, key_buf_str(&st->key), w->condition == IF_EQUAL, &row);
    if (e == ERR_OK && w->condition == IF_EQUAL && st->schema->statics_count > 0) {
        struct key_buf key = static_key(st);
        e = old_read(t, u, key_buf_str(&key), true, &statics);
    }
    if (e != ERR_OK)
        return e;
    if (w->condition == IF_NOT_EXISTS)
        *holds = !row.alive;
    for (unsigned i = 0; i < w->equal_count; i++)
        *holds &= equal_holds(st, &w->equal[i], &row, &statics);
    return ERR_OK;
}

/* Whatever the policy says. */
static store_time put_own_end(const struct engine_txn *t, const struct table_step *st)
{
    int64_t ttl_s = st->write->ttl_s > 0 ? st->write->ttl_s : st->schema->ttl_s;
    return ttl_s > 0 ? store_time_add(engine_txn_now(t), ttl_s * NS_PER_S) : STORE_TIME_NEVER;
}

static err expiry_move(struct engine_txn *t, str key, const struct old_row *old, store_time expiry,
                       store_time own)
{
    err e = old->there ? due_unfile(t, &row_due, old->expiry, row_due_row(key)) : ERR_OK;
    return e == ERR_OK ? trim_entry_put(t, key, expiry, own) : e;
}

static err row_write(struct engine_txn *t, struct table_update *u, const struct table_step *st,
                     str key, enum schema_role role)
{
    const struct schema *s = st->schema;
    struct old_row old;
    bool asks_old = role == ROLE_STATIC || !st->names_all;
    err e = old_read(t, u, key, asks_old, &old);
    if (e == ERR_CORRUPT && !asks_old)
        e = ERR_OK; /* a row that cannot be read is written anew */
    if (e != ERR_OK)
        return e;
    str values[TABLE_ATTRS_MAX];
    for (unsigned i = 0; i < s->attrs_count; i++)
        values[i] = st->named[i] ? st->values[i] : row_attr(old.attrs, s->attrs[i].number);
    store_time now = engine_txn_now(t), own = put_own_end(t, st);
    struct row_write w = { .head = { .expiry = trim_put_end(s, now, own), .written_at = now },
                           .schema = s,
                           .role = role,
                           .values = values };
    struct index_row entries = { .domain = u->domain, .schema = s, .key = key, .values = values };
    str value, bytes;
    if (role == ROLE_PLAIN)
        e = index_write(t, &entries, &w.head.indexed, &u->note);
    if (e == ERR_OK) {
        e = row_pack(&own_of(u)->decided, &w, &value, &bytes, &u->note);
        store_memory_note(e, u->arena, &u->note);
    }
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_ROW, key, value, bytes);
    return e == ERR_OK ? expiry_move(t, key, &old, w.head.expiry, own) : e;
}

static err put_apply(struct engine_txn *t, struct table_update *u, const struct table_step *st)
{
    err e = row_write(t, u, st, key_buf_str(&st->key), ROLE_PLAIN);
    if (e == ERR_OK)
        e = trim_written(t, st->schema, key_buf_str(&st->key), st->partition_size, &u->note);
    if (e != ERR_OK || !st->names_static)
        return e;
    struct key_buf key = static_key(st);
    return row_write(t, u, st, key_buf_str(&key), ROLE_STATIC);
}

/* May a delete run as several updates? */
static bool may_go_on(const struct table_update *u)
{
    return u->writes_count == 1 && !u->one_step && u->writes[0].is_delete;
}

/* Of rows of one group, or of one in the midst of a range, some may be left: those at its ends. */
static err delete_trim(struct engine_txn *t, const struct table_step *st,
                       const struct store_doomed *doomed)
{
    if (doomed->count == 0 || st->plan.whole_partition)
        return ERR_OK;
    return trim_deleted(t, st->schema, key_buf_str(&doomed->first), key_buf_str(&doomed->last));
}

static err delete_apply(struct engine_txn *t, struct table_update *u, const struct table_step *st)
{
    if (st->plan.empty)
        return ERR_OK;
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = key_buf_str(&st->plan.from),
                                  .until = key_buf_str(&st->plan.until) };
    struct store_doomed doomed;
    store_doomed_init(&doomed);
    if (trim_compares(st->schema))
        doomed.writes_max -= TRIM_BACK_WRITES_MAX;
    err e = store_collect(engine_txn_view(t), &range, own_of(u)->delete_rows, engine_txn_now(t),
                          &doomed);
    if (e == ERR_OK && doomed.more && !may_go_on(u)) {
        err_note_set(
            &u->note,
            "a delete in a batch may take %d rows at most, and fewer of a table with indexes, or "
            "where rows have ends and a revisionRetentionPolicy that counts rows",
            TABLE_DELETE_ROWS_MAX);
        e = ERR_LIMIT;
    }
    if (e == ERR_OK)
        e = store_delete(t, &doomed);
    if (e == ERR_OK)
        e = delete_trim(t, st, &doomed);
    u->rows_deleted += doomed.alive;
    own_of(u)->more = doomed.more;
    store_doomed_fini(&doomed);
    return e;
}

static err schema_check(struct engine_txn *t, struct table_update *u, const struct schema *s)
{
    err e = store_schema_same(engine_txn_view(t), u->domain, s);
    if (e == ERR_NOT_FOUND)
        err_note_set(&u->note, "there is no table %.*s", STR_ARG(s->name));
    if (e == ERR_CONFLICT)
        err_note_set(&u->note, "table %.*s was changed meanwhile: try again", STR_ARG(s->name));
    return e;
}

static err table_update_decide(struct engine_txn *t, struct table_update *u)
{
    u->applied = false;
    own_of(u)->more = false;
    u->rows_deleted = own_of(u)->deleted_before;
    for (unsigned i = 0; i < u->writes_count; i++) {
        bool holds;
        err e = schema_check(t, u, own_of(u)->steps[i].schema);
        if (e == ERR_OK)
            e = condition_holds(t, u, &own_of(u)->steps[i], &holds);
        if (e != ERR_OK || !holds)
            return e;
    }
    for (unsigned i = 0; i < u->writes_count; i++) {
        err e = u->writes[i].is_delete ? delete_apply(t, u, &own_of(u)->steps[i])
                                       : put_apply(t, u, &own_of(u)->steps[i]);
        if (e != ERR_OK)
            return e;
    }
    u->applied = true;
    return ERR_OK;
}

static err update_decide(struct engine_txn *t, void *ctx)
{
    struct table_update *u = ctx;
    u->note.text[0] = 0; /* of an earlier run, or of its caller */
    arena_reset(&own_of(u)->decided);
    err e = table_update_decide(t, u);
    if (e == ERR_LIMIT && arena_is_starved(&own_of(u)->decided)) {
        err_note_set(&u->note, STORE_STARVED_TEXT);
        return ERR_UNAVAILABLE;
    }
    if (e == ERR_LIMIT && u->note.text[0] == 0)
        err_note_set(
            &u->note,
            "one step writes and deletes %d rows at most, with what they have in indexes and what "
            "expires (ENGINE_UPDATE_ROWS_MAX): do less at once",
            ENGINE_UPDATE_ROWS_MAX);
    return e;
}

/* ---- submitting ---- */

static void count_writes(struct table_update *u)
{
    struct tables *ts = own_of(u)->tables;
    for (unsigned i = 0; i < u->writes_count; i++)
        atomic_fetch_add_explicit(u->writes[i].is_delete ? &ts->deletes : &ts->puts, 1,
                                  memory_order_relaxed);
}

/* Is there another update to be made of it, after one that ended so? */
static bool goes_on(struct table_update *u, err why)
{
    struct update_own *own = own_of(u);
    if (why == ERR_OK && own->more) {
        own->deleted_before = u->rows_deleted;
        own->update.deadline =
            (mono){ .ns = INT64_MAX }; /* what was begun is not given up half done */
        return true;
    }
    bool smaller = why == ERR_FULL && may_go_on(u) && own->delete_rows > 1;
    if (smaller)
        own->delete_rows = (own->delete_rows + TABLE_DELETE_SHRINK - 1) / TABLE_DELETE_SHRINK;
    return smaller;
}

/* A delete ends early, with rows gone. Its code: ERR_LIMIT, of a note, would say that it was too
 * large. */
static err ended_early(struct table_update *u, err why)
{
    const char *cause = why == ERR_FULL       ? "there is no room"
                        : why == ERR_CONFLICT ? "the table was changed meanwhile"
                                              : err_name(why);
    err_note_set(
        &u->note,
        "%llu rows are deleted, the others are not (%s); the same delete again goes on with them",
        (unsigned long long)own_of(u)->deleted_before, cause);
    return why == ERR_LIMIT ? ERR_UNAVAILABLE : why;
}

/* Brings a row's bytes into memory. What fails here fails again in the decision, and is told
 * there. */
static err warm(struct table_update *u, struct engine_view *v, str key)
{
    struct engine_row row;
    struct arena scratch;
    str attrs;
    arena_init(&scratch, ENGINE_BLOB_BYTES_MAX);
    err e = engine_get(v, SPACE_ROW, key, &row);
    if (e == ERR_OK)
        e = row_attrs(own_of(u)->tables->engine, &row, &scratch, false, &attrs);
    arena_fini(&scratch);
    return e;
}

static void rows_warm(struct table_update *u)
{
    struct engine_view *v = engine_view_begin(own_of(u)->tables->engine);
    err e = ERR_OK;
    for (unsigned i = 0; i < u->writes_count && (e == ERR_OK || e == ERR_NOT_FOUND); i++) {
        const struct table_step *st = &own_of(u)->steps[i];
        struct key_buf key;
        if (st->write->condition == IF_ALLOWED &&
            judged_find(v, st, clock_store(own_of(u)->tables->clock), &key) == ERR_OK)
            e = warm(u, v, key_buf_str(&key));
        if (st->write->is_delete || (e != ERR_OK && e != ERR_NOT_FOUND))
            continue;
        key = static_key(st);
        e = warm(u, v, key_buf_str(&st->key));
        if (st->schema->statics_count > 0 && (e == ERR_OK || e == ERR_NOT_FOUND))
            e = warm(u, v, key_buf_str(&key));
    }
    engine_view_end(&v);
}

static void update_warm(struct task *t)
{
    struct table_update *u = CONTAINER_OF(t, struct table_update, call.task);
    rows_warm(u);
    own_of(u)->may_block = true;
    engine_submit(own_of(u)->tables->engine, &own_of(u)->update);
}

static void update_done(void *ctx, err why)
{
    struct table_update *u = ctx;
    struct update_own *own = own_of(u);
    if (why == ERR_AGAIN) { /* a row to be changed is cold */
        u->call.task.run = update_warm;
        home_post(own->tables->pool, &u->call.task);
        return;
    }
    if (goes_on(u, why)) {
        engine_submit(own->tables->engine, &own->update);
        return;
    }
    if (why == ERR_OK)
        count_writes(u);
    else
        u->rows_deleted = own->deleted_before;
    if (why != ERR_OK && own->deleted_before > 0)
        why = ended_early(u, why);
    arena_reset(&own->decided); /* u may be gone after done */
    store_call_end(&u->call, why);
}

/* Submits it once it is prepared; not ERR_OK: it is over. */
static err update_begin(struct table_update *u, bool now)
{
    struct update_own *own = own_of(u);
    struct store_look look = { .tables = own->tables,
                               .view = engine_view_begin(own->tables->engine),
                               .domain = u->domain,
                               .now = now,
                               .arena = u->arena,
                               .note = &u->note };
    err e = steps_prepare(u, &look);
    engine_view_end(&look.view);
    store_memory_note(e, u->arena, &u->note);
    if (e != ERR_OK)
        return e;
    arena_init(&own->decided, u->arena->bytes_max - u->arena->total);
    arena_share(&own->decided, u->arena->part.of);
    engine_submit(own->tables->engine, &own->update);
    return ERR_OK;
}

static void update_cold(struct task *t)
{
    struct table_update *u = CONTAINER_OF(t, struct table_update, call.task);
    err e = update_begin(u, false);
    if (e != ERR_OK)
        store_call_end(&u->call, e);
}

enum store_start tables_update(struct table_store *s, struct table_update *u)
{
    struct tables *ts = tables_of(s);
    if (u->writes_count == 0 || u->writes_count > TABLE_OPS_MAX) {
        err_note_set(&u->note, "a batch has 1 to %d operations", TABLE_OPS_MAX);
        return store_call_done(&u->call, ERR_BAD);
    }
    struct update_own *own = arena_calloc(u->arena, 1, sizeof *own);
    struct table_step *steps = arena_calloc(u->arena, u->writes_count, sizeof *steps);
    if (own == NULL || steps == NULL) {
        store_memory_note(ERR_LIMIT, u->arena, &u->note);
        return store_call_done(&u->call, ERR_LIMIT);
    }
    u->call.own = own;
    *own = (struct update_own){ .tables = ts,
                                .steps = steps,
                                .delete_rows = TABLE_DELETE_ROWS_MAX,
                                .update = { .decide = update_decide,
                                            .done = update_done,
                                            .ctx = u,
                                            .deadline = u->call.deadline,
                                            .frees = true } };
    err e = update_begin(u, true);
    if (e == ERR_AGAIN) {
        u->call.task.run = update_cold;
        home_post(ts->pool, &u->call.task);
    }
    return e == ERR_OK || e == ERR_AGAIN ? STORE_LATER : store_call_done(&u->call, e);
}
