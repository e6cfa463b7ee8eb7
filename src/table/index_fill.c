/* index_fill.c - indexes that migrations add and take away: filled and removed some rows at a time.
 *
 * Job in SPACE_SCHEMA: SPACE_KEY_FILL or SPACE_KEY_UNINDEX, domain, table number, index number.
 * Value of one that fills: state, be16 size and bytes of the table's name, and the key of the last
 * row looked at. A row is read in a view, where its bytes may be waited for, and its entry written
 * in an update that finds the row as it was; a put that came between has written the entry itself.
 * Invariants: 1. while there is a fill job, its index answers nothing. 2. a job goes in the update
 * that did the last of it. */
#include "table/index.h"

#include "codec/json_text.h"
#include "table/jsontext.h"
#include "table/key.h"
#include "table/row.h"
#include "table/value.h"

#include <string.h>
#include <xxhash.h>

enum { JOB_KEY_BYTES = 11, FILL_GOING = 0, FILL_FAILED = 1 };

static str job_key(char out[JOB_KEY_BYTES], char kind, uint32_t domain, uint32_t table,
                   uint16_t index)
{
    out[0] = kind;
    put_be32(out + 1, domain);
    put_be32(out + 5, table);
    put_be16(out + 9, index);
    return (str){ .p = out, .n = JOB_KEY_BYTES };
}

/* ---- what a migration leaves to do ---- */

static err fill_begin(struct engine_txn *t, uint32_t domain, const struct schema *s, uint16_t index)
{
    char key[JOB_KEY_BYTES];
    struct buf b;
    buf_init(&b, ENGINE_VALUE_BYTES_MAX);
    buf_put_u8(&b, FILL_GOING);
    buf_put_be16(&b, (uint16_t)s->name.n);
    buf_put(&b, s->name);
    err e = buf_status(&b);
    str job = job_key(key, SPACE_KEY_FILL, domain, s->number, index);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_SCHEMA, job, buf_str(&b), STR_NONE);
    buf_fini(&b);
    return e;
}

static err removal_begin(struct engine_txn *t, uint32_t domain, const struct schema *s,
                         uint16_t index)
{
    char key[JOB_KEY_BYTES];
    err e =
        engine_txn_delete(t, SPACE_SCHEMA, job_key(key, SPACE_KEY_FILL, domain, s->number, index));
    if (e != ERR_OK)
        return e;
    str job = job_key(key, SPACE_KEY_UNINDEX, domain, s->number, index);
    return engine_txn_put(t, SPACE_SCHEMA, job, STR_NONE, STR_NONE);
}

/* One that failed before, or cannot be read, begins anew. */
static err fill_again(struct engine_txn *t, uint32_t domain, const struct schema *s, uint16_t index)
{
    char key[JOB_KEY_BYTES];
    struct engine_row row;
    str job = job_key(key, SPACE_KEY_FILL, domain, s->number, index);
    err e = engine_get(engine_txn_view(t), SPACE_SCHEMA, job, &row);
    bool going = e == ERR_OK && row.value.n > 0 && row.value.p[0] == FILL_GOING;
    if (e == ERR_NOT_FOUND || going)
        return ERR_OK;
    return e == ERR_OK || e == ERR_CORRUPT ? fill_begin(t, domain, s, index) : e;
}

/* The first job of a kind; of one table, when prefix says so. ERR_NOT_FOUND. Borrowed as rows
 * are. */
static err job_first(struct engine_view *v, str prefix, bool going, struct engine_row *out)
{
    char end[JOB_KEY_BYTES];
    struct engine_range range = { .space = SPACE_SCHEMA,
                                  .from = prefix,
                                  .until = engine_prefix_end(prefix, end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e;
    do {
        e = engine_cursor_next(c, out);
    } while ((e == ERR_CORRUPT &&
              out->key.n > 0) || /* its index answers nothing, the other jobs go on */
             (e == ERR_OK && going && (out->value.n == 0 || out->value.p[0] != FILL_GOING)));
    engine_cursor_close(&c);
    return e == ERR_OK && out->key.n != JOB_KEY_BYTES ? ERR_CORRUPT : e;
}

/* Rows keep the trails of removed indexes until those are gone; this bounds them. */
static err removals_over(struct engine_txn *t, uint32_t domain, const struct schema *s,
                         struct err_note *note)
{
    char key[JOB_KEY_BYTES];
    struct engine_row row;
    str prefix = str_take(job_key(key, SPACE_KEY_UNINDEX, domain, s->number, 0), JOB_KEY_BYTES - 2);
    err e = job_first(engine_txn_view(t), prefix, false, &row);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e == ERR_OK)
        err_note_set(note, "an index that table %.*s had is still being removed: try again",
                     STR_ARG(s->name));
    return e == ERR_OK ? ERR_CONFLICT : e;
}

err index_migrate(struct engine_txn *t, uint32_t domain, const struct schema *old,
                  const struct schema *next, struct err_note *note)
{
    err e = ERR_OK;
    if (old == NULL)
        return ERR_OK;
    if (next->indexes_made > old->indexes_made)
        e = removals_over(t, domain, old, note);
    for (unsigned i = 0; e == ERR_OK && i < next->indexes_count; i++) {
        uint16_t number = next->indexes[i].number;
        e = number > old->indexes_made ? fill_begin(t, domain, next, number)
                                       : fill_again(t, domain, next, number);
    }
    for (unsigned i = 0; e == ERR_OK && i < old->indexes_count; i++)
        if (schema_index_numbered(next, old->indexes[i].number) == NULL)
            e = removal_begin(t, domain, old, old->indexes[i].number);
    return e;
}

err index_drop(struct engine_txn *t, uint32_t domain, const struct schema *s)
{
    err e = ERR_OK;
    char key[JOB_KEY_BYTES];
    for (unsigned i = 0; e == ERR_OK && i < s->indexes_count; i++)
        e = engine_txn_delete(
            t, SPACE_SCHEMA, job_key(key, SPACE_KEY_FILL, domain, s->number, s->indexes[i].number));
    return e;
}

/* Appends the row that a job stopped at, by the attributes of its key. */
static err stopped_at(struct buf *b, struct arena *a, const struct schema *s, str job)
{
    struct cursor c = { .rest = job };
    struct key_parts parts;
    (void)cursor_u8(&c);
    (void)cursor_bytes(&c, cursor_be16(&c));
    if (c.failed)
        return ERR_CORRUPT;
    err e = key_split(a, s, c.rest, &parts);
    for (unsigned i = 0; e == ERR_OK && i < s->hash_count + s->range_count; i++) {
        const struct schema_attr *at =
            &s->attrs[i < s->hash_count ? s->hash[i] : s->range[i - s->hash_count]];
        buf_put_c(b, i == 0 ? '{' : ',');
        json_text_append(b, at->name);
        buf_put_c(b, ':');
        e = value_to_json(b, at->kind, parts.values[i]);
    }
    buf_put_c(b, '}');
    return e == ERR_OK ? buf_status(b) : e;
}

static void failed_note(const struct schema *s, const struct schema_index *ix, str job,
                        struct err_note *note)
{
    struct arena a;
    struct buf b;
    arena_init(&a, 64 << 10);
    buf_init(&b, 64 << 10);
    err e = stopped_at(&b, &a, s, job);
    str row = e == ERR_OK ? buf_str(&b) : STR("it cannot be told");
    err_note_set(note,
                 "index %.*s could not be filled: the entry of a row is longer than %d bytes "
                 "(TABLE_KEY_BYTES_MAX). Shorten or delete it, then put a higher version of the "
                 "schema: %.*s",
                 STR_ARG(ix->name), TABLE_KEY_BYTES_MAX, STR_ARG(row));
    buf_fini(&b);
    arena_fini(&a);
}

err index_ready(struct engine_view *v, uint32_t domain, const struct schema *s,
                const struct schema_index *ix, struct err_note *note)
{
    char key[JOB_KEY_BYTES];
    struct engine_row row;
    if (ix->lacking) {
        err_note_set(note,
                     "index %.*s was made by an earlier server, without all of the table's key: "
                     "put the schema "
                     "again, and it is filled anew",
                     STR_ARG(ix->name));
        return ERR_BAD;
    }
    err e = engine_get(v, SPACE_SCHEMA, job_key(key, SPACE_KEY_FILL, domain, s->number, ix->number),
                       &row);
    if (e == ERR_NOT_FOUND)
        return ERR_OK;
    if (e != ERR_OK)
        return e;
    if (row.value.n > 0 && row.value.p[0] == FILL_FAILED) {
        failed_note(s, ix, row.value, note);
        return ERR_BAD;
    }
    err_note_set(
        note, "index %.*s is still being filled with the rows that were there before it: try again",
        STR_ARG(ix->name));
    return ERR_CONFLICT;
}

err index_due(struct engine_view *v, bool *any)
{
    struct engine_row row;
    err e = job_first(v, STR("F"), true, &row);
    if (e == ERR_NOT_FOUND)
        e = job_first(v, STR("X"), false, &row);
    *any = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* ---- removing ---- */

static err trail_delete(struct engine_txn *t, str row_key, uint16_t index)
{
    struct buf keys;
    unsigned count = 0;
    buf_init(&keys, 64 << 10);
    err e = index_trails(engine_txn_view(t), row_key, &keys, &count);
    if (e == ERR_OK)
        e = buf_status(&keys);
    struct cursor c = { .rest = buf_str(&keys) };
    while (e == ERR_OK && c.rest.n > 0) {
        str key = cursor_bytes(&c, cursor_be16(&c));
        if (key.n > 2 && key.p[0] == KEY_TRAIL && get_be16(key.p + key.n - 2) == index)
            e = engine_txn_delete(t, SPACE_ROW, key);
    }
    buf_fini(&keys);
    return e;
}

static err entries_delete(struct engine_txn *t, const struct buf *entries, uint16_t index)
{
    struct cursor c = { .rest = buf_str(entries) };
    err e = ERR_OK;
    while (e == ERR_OK && c.rest.n > 0) {
        str entry = cursor_bytes(&c, cursor_be16(&c)), row_key = cursor_bytes(&c, cursor_be16(&c));
        if (row_key.n >= KEY_HEAD_BYTES && row_key.n <= TABLE_KEY_BYTES_MAX)
            e = trail_delete(t, row_key, index);
        if (e == ERR_OK)
            e = engine_txn_delete(t, SPACE_ROW, entry);
    }
    return e;
}

/* Entries and their rows' keys, TABLE_UPKEEP_BATCH at most; a damaged one goes without its
 * row's. */
static err entries_collect(struct engine_view *v, str prefix, struct buf *out, unsigned *count)
{
    char end[KEY_INDEX_HEAD_BYTES];
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = prefix,
                                  .until = engine_prefix_end(prefix, end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e = ERR_OK;
    for (*count = 0; *count < TABLE_UPKEEP_BATCH; (*count)++) {
        struct engine_row row;
        e = engine_cursor_next(c, &row);
        bool damaged = e == ERR_CORRUPT && row.key.n > 0;
        if (e != ERR_OK && !damaged)
            break;
        str row_key = damaged ? STR_NONE : row.value;
        buf_put_be16(out, (uint16_t)row.key.n);
        buf_put(out, row.key);
        buf_put_be16(out, (uint16_t)row_key.n);
        buf_put(out, row_key);
    }
    engine_cursor_close(&c);
    if (e == ERR_NOT_FOUND || (e == ERR_CORRUPT && *count == TABLE_UPKEEP_BATCH))
        e = ERR_OK;
    return e == ERR_OK ? buf_status(out) : e;
}

static err removal_decide(struct engine_txn *t, void *ctx)
{
    (void)ctx;
    char job[JOB_KEY_BYTES], head[KEY_INDEX_HEAD_BYTES];
    struct engine_row row;
    err e = job_first(engine_txn_view(t), STR("X"), false, &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    memcpy(job, row.key.p, sizeof job);
    memcpy(head, job, sizeof head); /* a job's key and an entry's head differ in the first byte */
    head[0] = KEY_INDEX;
    struct buf entries;
    unsigned count;
    buf_init(&entries, (size_t)TABLE_UPKEEP_BATCH * (2 * ENGINE_KEY_BYTES_MAX + 4));
    e = entries_collect(engine_txn_view(t), (str){ .p = head, .n = sizeof head }, &entries, &count);
    if (e == ERR_OK)
        e = entries_delete(t, &entries, get_be16(job + 9));
    if (e == ERR_OK && count < TABLE_UPKEEP_BATCH)
        e = engine_txn_delete(t, SPACE_SCHEMA, (str){ .p = job, .n = sizeof job });
    buf_fini(&entries);
    return e;
}

/* ---- filling ---- */

/* One batch under way. found: row key, fingerprint, entry of each, with sizes. */
struct fill {
    struct tables *tables;
    char job[JOB_KEY_BYTES];
    struct buf value, found; /* the job's value as read */
    size_t name_end;         /* in value: what is behind is the position */
    struct key_buf at;       /* the row looked at last */
    const struct schema *schema;
    const struct schema_index *index;
    struct arena arena;   /* of the schema */
    struct arena scratch; /* of a row */
    bool stale, over, failed;
};

static uint64_t fingerprint(const struct engine_row *row)
{
    return XXH3_64bits(row->value.p, row->value.n) ^
           (row->blob.n > 0 ? row->blob.hash + row->blob.n : 0);
}

/* Values of a stored row by the schema's attributes; they and the key's are in scratch. */
static err row_values(struct fill *f, str key, str attrs, str *values, bool *is_static)
{
    struct key_parts parts;
    const struct schema *s = f->schema;
    err e = key_split(&f->scratch, s, key, &parts);
    if (e != ERR_OK)
        return e;
    *is_static = parts.is_static;
    for (unsigned i = 0; i < s->attrs_count; i++)
        values[i] = row_attr(attrs, s->attrs[i].number);
    for (unsigned i = 0; i < s->hash_count; i++)
        values[s->hash[i]] = parts.values[i];
    for (unsigned i = 0; i < s->range_count; i++)
        values[s->range[i]] = parts.values[s->hash_count + i];
    return ERR_OK;
}

static void found_add(struct fill *f, uint64_t print, str entry)
{
    buf_put_be16(&f->found, (uint16_t)f->at.n);
    buf_put(&f->found, key_buf_str(&f->at));
    buf_put_be64(&f->found, print);
    buf_put_be16(&f->found, (uint16_t)entry.n);
    buf_put(&f->found, entry);
}

/* One row. What cannot be read has no entry, as no query can give it. */
static err fill_row(struct fill *f, const struct engine_row *row)
{
    str attrs, values[TABLE_ATTRS_MAX];
    bool is_static = false;
    struct key_buf entry;
    uint64_t print = fingerprint(row);
    arena_reset(&f->scratch);
    err e = row_attrs(f->tables->engine, row, &f->scratch, false, &attrs);
    if (e == ERR_OK)
        e = row_values(f, key_buf_str(&f->at), attrs, values, &is_static);
    if (e != ERR_OK || is_static)
        return e == ERR_CORRUPT ? ERR_OK : e;
    e = index_entry(get_be32(f->job + 1), f->schema, f->index, values, &entry, NULL);
    f->failed = e == ERR_BAD;
    if (e == ERR_OK && entry.n > 0)
        found_add(f, print, key_buf_str(&entry));
    return e == ERR_BAD ? ERR_OK : e;
}

static err fill_walk(struct fill *f, struct engine_view *v)
{
    char head[KEY_HEAD_BYTES], end[KEY_HEAD_BYTES];
    struct key_buf from;
    head[0] = KEY_ROW;
    memcpy(head + 1, f->job + 1, sizeof head - 1);
    str prefix = { .p = head, .n = sizeof head }, last = str_skip(buf_str(&f->value), f->name_end);
    if (!key_buf_set(&from, last.n > 0 ? last : prefix) || from.n == sizeof from.bytes)
        return ERR_CORRUPT;
    if (last.n > 0)
        from.bytes[from.n++] = 0;
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = key_buf_str(&from),
                                  .until = engine_prefix_end(prefix, end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e = ERR_OK;
    for (unsigned i = 0; e == ERR_OK && !f->failed && i < TABLE_UPKEEP_BATCH;) {
        struct engine_row row;
        e = engine_cursor_next(c, &row);
        if (e == ERR_OK && row.key.n <= TABLE_KEY_BYTES_MAX && key_buf_set(&f->at, row.key)) {
            e = fill_row(f, &row);
            i++; /* damaged rows do not count: a batch gets on */
        } else if (e == ERR_CORRUPT && row.key.n > 0) {
            e = ERR_OK;
        }
    }
    engine_cursor_close(&c);
    f->over = e == ERR_NOT_FOUND;
    return f->over ? ERR_OK : e;
}

/* Whose job it is. A table or index that is no more makes it stale. */
static err fill_open(struct fill *f, struct engine_view *v)
{
    struct cursor c = { .rest = buf_str(&f->value) };
    (void)cursor_u8(&c);
    str name = cursor_bytes(&c, cursor_be16(&c));
    if (c.failed)
        return ERR_CORRUPT;
    f->name_end = f->value.n - c.rest.n;
    struct store_look look = {
        .tables = f->tables, .view = v, .domain = get_be32(f->job + 1), .arena = &f->arena
    };
    struct schema *s;
    err e = store_schema(&look, name, &s);
    f->stale = e == ERR_NOT_FOUND;
    if (e != ERR_OK)
        return f->stale ? ERR_OK : e;
    f->schema = s;
    f->index = schema_index_numbered(s, get_be16(f->job + 9));
    f->stale = s->number != get_be32(f->job + 5) || f->index == NULL;
    return f->stale ? ERR_OK : fill_walk(f, v);
}

/* Is the row as it was read? Then its entry is written, and in the row that it has one. */
static err fill_put(struct engine_txn *t, const struct fill *f, struct cursor *c)
{
    struct engine_row row;
    char value[ENGINE_VALUE_BYTES_MAX];
    str key = cursor_bytes(c, cursor_be16(c));
    uint64_t print = cursor_be64(c);
    str entry = cursor_bytes(c, cursor_be16(c));
    INVARIANT(!c->failed);
    err e = engine_get(engine_txn_view(t), SPACE_ROW, key, &row);
    if (e == ERR_NOT_FOUND || e == ERR_CORRUPT)
        return ERR_OK;
    if (e != ERR_OK || fingerprint(&row) != print)
        return e;
    str marked = { .p = value, .n = row.value.n };
    memcpy(value, row.value.p, row.value.n);
    value[ROW_FLAGS_AT] |= ROW_INDEXED;
    e = index_put(t, key, f->index->number, entry);
    return e == ERR_OK ? engine_txn_put_value(t, SPACE_ROW, key, marked) : e;
}

/* The job's next state. */
static err fill_move(struct engine_txn *t, const struct fill *f)
{
    str job = { .p = f->job, .n = sizeof f->job };
    if (f->over || f->stale)
        return engine_txn_delete(t, SPACE_SCHEMA, job);
    struct buf b;
    buf_init(&b, ENGINE_VALUE_BYTES_MAX);
    buf_put_u8(&b, f->failed ? FILL_FAILED : FILL_GOING);
    buf_put(&b, str_skip(str_take(buf_str(&f->value), f->name_end), 1));
    buf_put(&b, key_buf_str(&f->at));
    err e = buf_status(&b);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_SCHEMA, job, buf_str(&b), STR_NONE);
    buf_fini(&b);
    return e;
}

static err fill_decide(struct engine_txn *t, void *ctx)
{
    const struct fill *f = ctx;
    struct engine_row row;
    err e = engine_get(engine_txn_view(t), SPACE_SCHEMA, (str){ .p = f->job, .n = sizeof f->job },
                       &row);
    if (e == ERR_NOT_FOUND || (e == ERR_OK && !str_eq(row.value, buf_str(&f->value))))
        return ERR_OK; /* the table was dropped or migrated meanwhile */
    if (e == ERR_OK && !f->stale) {
        e = store_schema_same(engine_txn_view(t), get_be32(f->job + 1), f->schema);
        if (e == ERR_CONFLICT || e == ERR_NOT_FOUND)
            return ERR_OK;
    }
    struct cursor c = { .rest = buf_str(&f->found) };
    while (e == ERR_OK && !f->failed && c.rest.n > 0)
        e = fill_put(t, f, &c);
    return e == ERR_OK ? fill_move(t, f) : e;
}

static err fill_read(struct fill *f, struct engine_view *v)
{
    struct engine_row row;
    err e = job_first(v, STR("F"), true, &row);
    if (e != ERR_OK)
        return e;
    memcpy(f->job, row.key.p, sizeof f->job);
    buf_put(&f->value, row.value);
    e = buf_status(&f->value);
    if (e == ERR_OK)
        e = fill_open(f, v);
    return e == ERR_OK ? buf_status(&f->found) : e;
}

static err fill_step(struct fill *f)
{
    struct engine_view *v = engine_view_begin(f->tables->engine);
    err e = fill_read(f, v);
    engine_view_end(&v);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    return engine_update_wait(f->tables->engine, fill_decide, f);
}

err index_upkeep(struct tables *ts)
{
    struct fill f = { .tables = ts };
    buf_init(&f.value, ENGINE_VALUE_BYTES_MAX);
    buf_init(&f.found, (size_t)TABLE_UPKEEP_BATCH * (2 * ENGINE_KEY_BYTES_MAX + 16));
    arena_init(&f.arena, 1 << 20);
    arena_init(&f.scratch, 2 * (size_t)ENGINE_BLOB_BYTES_MAX);
    err e = fill_step(&f);
    buf_fini(&f.value);
    buf_fini(&f.found);
    arena_fini(&f.arena);
    arena_fini(&f.scratch);
    const struct engine_update removal = { .decide = removal_decide, .frees = true };
    err removed = engine_submit_wait(ts->engine, &removal);
    return e == ERR_OK ? removed : e; /* a full disk stops the filling, not the removal */
}
