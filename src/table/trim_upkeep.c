/* trim_upkeep.c - retention policies that migrations bring, and what puts and deletes did not
 * finish, some rows at a time.
 *
 * Jobs in SPACE_SCHEMA. SPACE_KEY_TRIM, domain, table number: a whole table; value: be16 size and
 * bytes of the table's name, and the key to go on at. A migration begins the job anew; it goes in
 * the update that did the last of it. Puts need not wait for it: what they themselves let fall out
 * is never more than a few rows.
 *   The same and the rest of a row's key: the group, or the partition, that begins there
 * (trim_leave); value: the name, be16 how many rows before the key to go on at stay, that key. A
 * put or a delete in it begins it anew. So a group in which more is put than one step of it looks
 * at may wait; others do not: jobs are taken by turns. */
#include "table/trim.h"

#include "table/key.h"

#include <string.h>

enum { JOB_KEY_BYTES = 9, TRIM_SHRINK = 4 };

static const str first_key = { .p = "T", .n = 1 };
_Static_assert(SPACE_KEY_TRIM == 'T', "jobs lie from first_key to U");
_Static_assert((int)KEY_HEAD_BYTES == (int)JOB_KEY_BYTES,
               "a job has the key of its rows but for the first byte");

static err job_put(struct engine_txn *t, str job, str name, const int64_t *counted, str at)
{
    struct buf b;
    buf_init(&b, ENGINE_VALUE_BYTES_MAX);
    buf_put_str16(&b, name);
    if (counted != NULL)
        buf_put_be16(&b, (uint16_t)*counted);
    buf_put(&b, at);
    err e = buf_status(&b);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_SCHEMA, job, buf_str(&b), STR_NONE);
    buf_fini(&b);
    return e;
}

err trim_leave(struct engine_txn *t, const struct schema *s, str from, bool all)
{
    static const int64_t none = 0;
    struct key_buf job;
    struct engine_row row;
    INVARIANT(from.n > KEY_HEAD_BYTES && key_buf_set(&job, from));
    job.bytes[0] = SPACE_KEY_TRIM;
    if (!all)
        return job_put(t, key_buf_str(&job), s->name, &none, STR_NONE);
    err e = engine_get(engine_txn_view(t), SPACE_SCHEMA, key_buf_str(&job), &row);
    if (e == ERR_OK)
        e = job_put(t, key_buf_str(&job), s->name, &none, STR_NONE);
    return e == ERR_NOT_FOUND || e == ERR_CORRUPT ? ERR_OK : e;
}

err trim_migrate(struct engine_txn *t, uint32_t domain, const struct schema *old,
                 const struct schema *next)
{
    char job[JOB_KEY_BYTES];
    if (old->policy.kind == POLICY_ALL && next->policy.kind == POLICY_ALL)
        return ERR_OK;
    job[0] = SPACE_KEY_TRIM;
    put_be32(job + 1, domain);
    put_be32(job + 5, next->number);
    return job_put(t, (str){ .p = job, .n = sizeof job }, next->name, NULL, STR_NONE);
}

/* The first job from a key on; one that cannot be read is gone past. ERR_NOT_FOUND. Borrowed as
 * rows are. */
static err job_first(struct engine_view *v, str from, struct engine_row *out)
{
    struct engine_range range = { .space = SPACE_SCHEMA, .from = from, .until = STR("U") };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e;
    do {
        e = engine_cursor_next(c, out);
    } while ((e == ERR_CORRUPT && out->key.n > 0) || (e == ERR_OK && out->key.n < JOB_KEY_BYTES));
    engine_cursor_close(&c);
    return e;
}

err trim_due(struct engine_view *v, bool *any)
{
    struct engine_row row;
    err e = job_first(v, first_key, &row);
    *any = e == ERR_OK;
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

/* One batch under way: of the first job from a key on. */
struct trimming {
    struct tables *tables;
    struct arena arena;
    struct key_buf from;
    bool found;
    unsigned looks_max;
};

/* Goes through the table for a while. */
static err table_trim(struct engine_txn *t, str job, const struct schema *s, str from,
                      unsigned looks_max)
{
    char head[KEY_HEAD_BYTES], end[KEY_HEAD_BYTES];
    struct trim_stored at = { .looks_max = looks_max };
    head[0] = KEY_ROW;
    memcpy(head + 1, job.p + 1, sizeof head - 1);
    str prefix = { .p = head, .n = sizeof head }, until = engine_prefix_end(prefix, end);
    if (!key_buf_set(&at.key, from.n > 0 ? from : prefix))
        return ERR_CORRUPT;
    err e = ERR_OK;
    while (e == ERR_OK && !at.over && at.looks < at.looks_max)
        e = trim_stored(t, s, until, &at);
    if (e != ERR_OK)
        return e;
    return at.over ? engine_txn_delete(t, SPACE_SCHEMA, job)
                   : job_put(t, job, s->name, NULL, key_buf_str(&at.key));
}

/* Goes on with a group or a partition. */
static err rest_trim(struct engine_txn *t, str job, const struct schema *s, struct cursor value,
                     unsigned changes_max)
{
    struct key_buf from;
    struct trim_rest at = { .changes_max = changes_max, .counted = cursor_be16(&value) };
    if (value.failed || !key_buf_set(&at.at, value.rest) || !key_buf_set(&from, job))
        return ERR_CORRUPT;
    from.bytes[0] = KEY_ROW;
    at.from = key_buf_str(&from);
    err e = trim_rest(t, s, &at);
    if (e != ERR_OK)
        return e;
    return at.over ? engine_txn_delete(t, SPACE_SCHEMA, job)
                   : job_put(t, job, s->name, &at.counted, key_buf_str(&at.at));
}

/* A job whose table is no more, or cannot be read, is dropped. */
static err trim_decide(struct engine_txn *t, void *ctx)
{
    struct trimming *k = ctx;
    struct engine_row row;
    struct schema *s;
    struct key_buf key;
    arena_reset(&k->arena);
    k->found = false;
    err e = job_first(engine_txn_view(t), key_buf_str(&k->from), &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    INVARIANT(key_buf_set(&key, row.key));
    k->from = key;
    k->found = true;
    str job = key_buf_str(&key), value = arena_copy(&k->arena, row.value);
    struct cursor c = { .rest = value };
    str name = cursor_str16(&c);
    if (value.p == NULL || c.failed)
        return engine_txn_delete(t, SPACE_SCHEMA, job);
    const struct store_look look = { .tables = k->tables,
                                     .view = engine_txn_view(t),
                                     .domain = get_be32(job.p + 1),
                                     .arena = &k->arena };
    e = store_schema(&look, name, &s);
    if (e == ERR_NOT_FOUND || e == ERR_CORRUPT || (e == ERR_OK && s->number != get_be32(job.p + 5)))
        return engine_txn_delete(t, SPACE_SCHEMA, job);
    if (e != ERR_OK)
        return e;
    return job.n == JOB_KEY_BYTES ? table_trim(t, job, s, c.rest, k->looks_max)
                                  : rest_trim(t, job, s, c, k->looks_max);
}

/* One batch of a job, smaller when it does not fit. */
static err job_trim(struct trimming *k)
{
    const struct engine_update update = { .decide = trim_decide, .ctx = k, .frees = true };
    k->looks_max = TABLE_UPKEEP_BATCH;
    err e = engine_submit_wait(k->tables->engine, &update);
    while ((e == ERR_FULL || e == ERR_LIMIT) && k->looks_max > 1) {
        k->looks_max /= TRIM_SHRINK;
        e = engine_submit_wait(k->tables->engine, &update);
    }
    return e;
}

static err next_trim(struct trimming *k)
{
    err e = job_trim(k);
    if (k->found)
        k->from.bytes[k->from.n++] = 0;
    return e;
}

err trim_upkeep(struct tables *ts)
{
    struct trimming k = { .tables = ts, .from = ts->trimmed };
    arena_init(&k.arena, 1 << 20);
    err e = k.from.n > 0 ? next_trim(&k) : ERR_OK;
    if (!k.found) {
        INVARIANT(key_buf_set(&k.from, first_key));
        e = next_trim(&k);
    }
    err first = e;
    while ((e == ERR_CORRUPT || e == ERR_LIMIT) &&
           k.found) /* it stays, and does not hold up those behind it */
        e = next_trim(&k);
    ts->trimmed = k.from;
    arena_fini(&k.arena);
    return first == ERR_OK ? e : first;
}
