/* trim.c - applies a table's retention policy: after a put, after a deletion, and to all stored
 * rows after a change of policy. Invariant: an update looks at a bounded number of rows; what it
 * leaves is noted and done later. */
#include "table/trim.h"

#include "table/key.h"
#include "table/row.h"

#include <string.h>

#define TICKS_PER_S ((uint64_t)10000000)
#define TICKS_AT_1970 ((uint64_t)0x01b21dd213814000)

bool trim_compares(const struct schema *s)
{
    return s->policy.kind != POLICY_ALL && s->policy.kind != POLICY_TTL;
}

/* ---- ends of rows ---- */

/* When a row ends without a policy: an end that a policy made has that in its entry. */
static err own_end(struct engine_view *v, str key, const struct row_head *head, store_time *own)
{
    struct engine_row entry;
    *own = head->expiry;
    err e = due_find(v, &row_due, head->expiry, row_due_row(key), &entry);
    if (e == ERR_OK && entry.value.n == ROW_OWN_END_BYTES)
        own->ns = (int64_t)get_be64(entry.value.p);
    return e == ERR_NOT_FOUND || e == ERR_CORRUPT ? ERR_OK : e;
}

err trim_entry_put(struct engine_txn *t, str key, store_time expiry, store_time own)
{
    char bytes[ROW_OWN_END_BYTES];
    put_be64(bytes, (uint64_t)own.ns);
    str value = expiry.ns == own.ns ? STR_NONE : (str){ .p = bytes, .n = sizeof bytes };
    return due_file(t, &row_due, expiry, row_due_row(key), value);
}

/* When the policy ends a row that it counts for itself, whatever others there are. */
static store_time policy_end(const struct schema *s, store_time written_at)
{
    return s->policy.kind == POLICY_TTL
               ? store_time_add(written_at, s->policy.grace_ttl_s * NS_PER_S)
               : STORE_TIME_NEVER;
}

store_time trim_put_end(const struct schema *s, store_time now, store_time own)
{
    store_time end = policy_end(s, now);
    return store_time_before(end, own) ? end : own;
}

/* The row ends at the instant, or when it would without a policy, if that is before. */
static err end_move(struct engine_txn *t, str key, store_time wanted)
{
    struct engine_row row;
    struct row_head head;
    store_time own;
    char value[ENGINE_VALUE_BYTES_MAX];
    err e = engine_get(engine_txn_view(t), SPACE_ROW, key, &row);
    if (e == ERR_OK)
        e = row_head_read(row.value, &head);
    if (e != ERR_OK)
        return e;
    str changed = { .p = value, .n = row.value.n };
    memcpy(value, row.value.p, row.value.n);
    e = own_end(engine_txn_view(t), key, &head, &own);
    store_time expiry = store_time_before(wanted, own) ? wanted : own;
    if (e != ERR_OK || expiry.ns == head.expiry.ns)
        return e;
    put_be64(value + ROW_EXPIRY_AT, (uint64_t)expiry.ns);
    e = due_unfile(t, &row_due, head.expiry, row_due_row(key));
    if (e == ERR_OK)
        e = trim_entry_put(t, key, expiry, own);
    return e == ERR_OK ? engine_txn_put_value(t, SPACE_ROW, key, changed) : e;
}

/* ---- a group: rows of which the newest stay ---- */

enum {
    TRIM_LOOKS_MAX = 64, /* alive rows behind those that stay, looked at by one put */
    /* rows before them that end by themselves and do not count, by one put or delete */
    TRIM_PASSED_MAX = 64,
    TRIM_WALK_ROWS = 1024 /* either, by one step of the upkeep */
};

struct group {
    struct key_buf from, until;
    int64_t keep;
    store_time now, expiry; /* of a row that falls out now */
    str written;            /* a put's row, or empty */
    str seen;               /* rows before it were seen to, counted tells how many stay; or empty */
    unsigned passed_max, looks_max, changes_max;
    /* found */
    struct key_buf at; /* the row looked at last, when any was */
    int64_t counted;
    unsigned looks, changes, fell;
    bool written_stays, over;
    struct buf moves; /* of each change be16 size and key, and the end wanted as be64 */
};

static void move_add(struct group *g, store_time wanted)
{
    buf_put_be16(&g->moves, (uint16_t)g->at.n);
    buf_put(&g->moves, key_buf_str(&g->at));
    buf_put_be64(&g->moves, (uint64_t)wanted.ns);
    g->changes++;
}

struct alive {
    struct key_buf key;
    struct row_head head;
};

/* The next row that is alive; damaged ones are gone past, as by readers. */
static err alive_next(struct engine_cursor *c, store_time now, struct key_buf *key,
                      struct row_head *head)
{
    for (;;) {
        struct engine_row row;
        err e = engine_cursor_next(c, &row);
        if (e == ERR_CORRUPT && row.key.n > 0)
            continue;
        if (e != ERR_OK)
            return e;
        bool sane = row.key.n <= TABLE_KEY_BYTES_MAX && row_head_read(row.value, head) == ERR_OK;
        if (sane && store_time_before(now, head->expiry) && key_buf_set(key, row.key))
            return ERR_OK;
    }
}

/* The newest rows, until as many as stay were counted. One that ends by itself before what falls
 * out now would is not counted: it must not take another with it. One that had fallen out comes
 * back. */
static err group_stay(struct engine_cursor *c, struct engine_view *v, struct group *g)
{
    unsigned passed = 0;
    while (g->counted < g->keep && passed < g->passed_max && g->changes < g->changes_max) {
        struct row_head head;
        store_time own;
        err e = alive_next(c, g->now, &g->at, &head);
        if (e == ERR_OK)
            e = own_end(v, key_buf_str(&g->at), &head, &own);
        if (e != ERR_OK)
            return e;
        g->looks++;
        g->written_stays |= str_eq(key_buf_str(&g->at), g->written);
        if (store_time_before(head.expiry,
                              own)) /* it had fallen out, or an earlier policy made it end */
            move_add(g, STORE_TIME_NEVER);
        if (store_time_before(g->expiry, own))
            g->counted++;
        else
            passed++;
    }
    return ERR_OK;
}

/* The rows behind them. */
static err group_fall(struct engine_cursor *c, struct group *g)
{
    for (unsigned i = 0; i < g->looks_max && g->changes < g->changes_max; i++) {
        struct row_head head;
        err e = alive_next(c, g->now, &g->at, &head);
        if (e != ERR_OK)
            return e;
        g->looks++;
        if (!store_time_before(g->expiry, head.expiry))
            continue;
        g->fell++;
        move_add(g, g->expiry);
    }
    return ERR_OK;
}

static err group_walk(struct engine_view *v, struct group *g)
{
    str from = g->seen.n > 0 ? g->seen : key_buf_str(&g->from);
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = from,
                                  .until = key_buf_str(&g->until) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e = group_stay(c, v, g);
    if (e == ERR_OK && g->counted == g->keep)
        e = group_fall(c, g);
    engine_cursor_close(&c);
    g->over = e == ERR_NOT_FOUND;
    return g->over ? ERR_OK : e;
}

static err group_trim(struct engine_txn *t, struct group *g)
{
    buf_init(&g->moves, (size_t)g->changes_max * (2 + ENGINE_KEY_BYTES_MAX + 8));
    err e = group_walk(engine_txn_view(t), g);
    if (e == ERR_OK)
        e = buf_status(&g->moves);
    struct cursor c = { .rest = buf_str(&g->moves) };
    while (e == ERR_OK && c.rest.n > 0) {
        str key = cursor_bytes(&c, cursor_be16(&c));
        e = end_move(t, key, (store_time){ .ns = (int64_t)cursor_be64(&c) });
    }
    buf_fini(&g->moves);
    return e;
}

/* Bytes of a version begin with its ticks, and all are inverted. */
static void ticks_bound(struct key_buf *k, str prefix, uint64_t ticks)
{
    INVARIANT(key_buf_set(k, prefix));
    put_be64(k->bytes + k->n, ~ticks);
    k->n += 8;
}

/* The rows that are counted with that one. */
static struct group group_of(const struct engine_txn *t, const struct schema *s, str key)
{
    const struct schema_policy *p = &s->policy;
    struct group g = { .keep = p->kind == POLICY_LATEST_HASH ? 1 : p->count,
                       .now = engine_txn_now(t) };
    char end[ENGINE_KEY_BYTES_MAX];
    str prefix = str_take(key, key.n - KEY_VERSION_BYTES);
    g.expiry = store_time_add(g.now, p->grace_ttl_s * NS_PER_S);
    INVARIANT(key_buf_set(&g.from, prefix));
    INVARIANT(key_buf_set(&g.until, engine_prefix_end(prefix, end)));
    if (p->kind != POLICY_INTERVAL)
        return g;
    uint64_t interval = (uint64_t)p->interval_s * TICKS_PER_S, ticks = ~get_be64(key.p + prefix.n);
    uint64_t past = ticks >= TICKS_AT_1970
                        ? (ticks - TICKS_AT_1970) % interval
                        : (interval - (TICKS_AT_1970 - ticks) % interval) % interval;
    ticks_bound(&g.from, prefix, ticks + (interval - 1 - past));
    if (ticks > past) /* the first interval begins with the ticks */
        ticks_bound(&g.until, prefix, ticks - past - 1);
    return g;
}

static err trim_gone(struct err_note *note, const char *why)
{
    err_note_set(note, "revisionRetentionPolicy: %s: nothing is stored", why);
    return ERR_GONE;
}

/* A group that was gone through and is left alone has no more rows that stay than its policy says,
 * and no other that does not end: so a put takes one row's place at most, and once that is found
 * there is none behind it. Not so in one that an earlier server left, which looked at 64 and left
 * no job: there some stay until a migration. */
static err written_trim(struct engine_txn *t, const struct schema *s, str key,
                        struct err_note *note)
{
    struct group g = group_of(t, s, key);
    g.written = key;
    g.passed_max = TRIM_PASSED_MAX;
    g.looks_max = TRIM_LOOKS_MAX;
    g.changes_max = TABLE_TRIM_ROWS;
    err e = group_trim(t, &g);
    if (e != ERR_OK)
        return e;
    bool stays = g.written_stays || (!g.over && g.counted < g.keep); /* or it is not known yet */
    if (!stays && s->policy.grace_ttl_s == 0)
        return trim_gone(note, "it keeps newer rows than this, and grace_ttl is 0");
    if (!stays)
        e = end_move(t, key, g.expiry);
    bool all =
        g.over || (g.counted == g.keep && g.changes < g.changes_max && (!stays || g.fell > 0));
    return e == ERR_OK ? trim_leave(t, s, key_buf_str(&g.from), all) : e;
}

/* ---- latest_hash ---- */

/* ERR_NOT_FOUND: no row from there on is alive. */
static err alive_first(struct engine_txn *t, str from, str until, struct alive *row)
{
    struct engine_range range = { .space = SPACE_ROW, .from = from, .until = until };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    err e = alive_next(c, engine_txn_now(t), &row->key, &row->head);
    engine_cursor_close(&c);
    return e;
}

/* Of the first row of the partition that is alive: its key up to and with its first range
 * attribute. */
static err first_find(struct engine_txn *t, const struct schema *s, str regular,
                      struct key_buf *out)
{
    char end[ENGINE_KEY_BYTES_MAX];
    struct alive row;
    err e = alive_first(t, regular, engine_prefix_end(regular, end), &row);
    if (e != ERR_OK)
        return e;
    const struct schema_attr *at = &s->attrs[s->range[0]];
    size_t size =
        key_component_size(at->kind.type, at->desc, str_skip(key_buf_str(&row.key), regular.n));
    *out = row.key;
    out->n = regular.n + size;
    return size == 0 ? ERR_CORRUPT : ERR_OK;
}

struct deleted {
    unsigned rows;
    bool all;
}; /* all: there were no more */

/* Deletes rows of the partition behind those that begin so, at most so many. */
static err rest_delete(struct engine_txn *t, str regular, str first, unsigned max,
                       struct deleted *out)
{
    char from[ENGINE_KEY_BYTES_MAX], until[ENGINE_KEY_BYTES_MAX];
    struct store_doomed doomed;
    struct engine_range range = { .space = SPACE_ROW,
                                  .from = engine_prefix_end(first, from),
                                  .until = engine_prefix_end(regular, until) };
    store_doomed_init(&doomed);
    err e = store_collect(engine_txn_view(t), &range, max, engine_txn_now(t), &doomed);
    if (e == ERR_OK)
        e = store_delete(t, &doomed);
    *out = (struct deleted){ .rows = doomed.count, .all = !doomed.more };
    store_doomed_fini(&doomed);
    return e;
}

static err hash_trim(struct engine_txn *t, const struct schema *s, str key, size_t partition_size,
                     struct err_note *note)
{
    struct key_buf first;
    struct deleted rest;
    str regular = str_take(key, partition_size + 1);
    err e = first_find(t, s, regular, &first);
    if (e != ERR_OK)
        return e;
    if (!str_starts(key, key_buf_str(&first)))
        return trim_gone(note,
                         "latest_hash keeps the row that is first in the order of the index, and "
                         "one before this is "
                         "there");
    e = rest_delete(t, regular, key_buf_str(&first), TABLE_TRIM_ROWS, &rest);
    if (e == ERR_OK && !rest.all)
        e = trim_leave(t, s, regular, false);
    return e == ERR_OK && trim_versions(s) ? written_trim(t, s, key, note) : e;
}

/* ---- what others see to ---- */

err trim_written(struct engine_txn *t, const struct schema *s, str key, size_t partition_size,
                 struct err_note *note)
{
    switch (s->policy.kind) {
    case POLICY_ALL:
    case POLICY_TTL:
        return ERR_OK;
    case POLICY_LATEST:
    case POLICY_INTERVAL:
        return written_trim(t, s, key, note);
    case POLICY_LATEST_HASH:
        return hash_trim(t, s, key, partition_size, note);
    }
    return ERR_OK;
}

/* Is it the key of a row with a version? */
static bool versioned(const struct schema *s, str key)
{
    size_t partition_size;
    bool is_static = true;
    return trim_versions(s) && key.n <= TABLE_KEY_BYTES_MAX &&
           key_partition(s, key, &partition_size, &is_static) == ERR_OK && !is_static &&
           key.n > partition_size + KEY_VERSION_BYTES;
}

/* What counts in the group of a key, when the group is not that of one before it. */
static err group_back(struct engine_txn *t, const struct schema *s, str key, str before)
{
    if (!versioned(s, key))
        return ERR_OK;
    struct group g = group_of(t, s, key);
    g.passed_max = TRIM_PASSED_MAX;
    g.changes_max = TABLE_KEEP_MAX + 1;
    if (str_cmp(before, key_buf_str(&g.from)) >= 0)
        return ERR_OK;
    err e = group_trim(t, &g);
    return e == ERR_OK ? trim_leave(t, s, key_buf_str(&g.from), g.over || g.counted == g.keep) : e;
}

err trim_deleted(struct engine_txn *t, const struct schema *s, str first, str last)
{
    if (!trim_compares(s))
        return ERR_OK;
    err e = group_back(t, s, first, STR_NONE);
    return e == ERR_OK ? group_back(t, s, last, first) : e;
}

static void trim_pass(struct key_buf *at, const struct key_buf *row)
{
    *at = *row;
    at->bytes[at->n++] = 0;
}

/* What one step does not finish is left apart, so that the tables behind it need not wait. */
static err stored_group(struct engine_txn *t, const struct schema *s, str row,
                        struct trim_stored *at)
{
    struct group g = group_of(t, s, row);
    g.passed_max = at->looks_max;
    g.looks_max = at->looks_max;
    g.changes_max = at->looks_max;
    err e = group_trim(t, &g);
    at->looks += g.looks;
    at->key = g.until;
    return e == ERR_OK ? trim_leave(t, s, key_buf_str(&g.from), g.over) : e;
}

/* A row that is counted with no other: what an earlier policy made of its end is taken back, this
 * one makes its own. */
static err stored_alone(struct engine_txn *t, const struct schema *s, const struct alive *row,
                        struct trim_stored *at)
{
    trim_pass(&at->key, &row->key);
    return end_move(t, key_buf_str(&row->key), policy_end(s, row->head.written_at));
}

/* A row of a partition, whose rows begin with regular: all behind its first go. */
static err stored_hash(struct engine_txn *t, const struct schema *s, const struct alive *row,
                       str regular, struct trim_stored *at)
{
    struct key_buf first;
    char end[ENGINE_KEY_BYTES_MAX];
    struct deleted rest;
    err e = first_find(t, s, regular, &first);
    if (e != ERR_OK)
        return e;
    if (str_starts(key_buf_str(&row->key), key_buf_str(&first)))
        return trim_versions(s) ? stored_group(t, s, key_buf_str(&row->key), at)
                                : stored_alone(t, s, row, at);
    e = rest_delete(t, regular, key_buf_str(&first), at->looks_max, &rest);
    at->looks += rest.rows;
    INVARIANT(key_buf_set(&at->key, engine_prefix_end(regular, end)));
    return e == ERR_OK && !rest.all ? trim_leave(t, s, regular, false) : e;
}

err trim_stored(struct engine_txn *t, const struct schema *s, str until, struct trim_stored *at)
{
    struct alive row;
    size_t partition_size;
    bool is_static = true;
    err e = alive_first(t, key_buf_str(&at->key), until, &row);
    at->over = e == ERR_NOT_FOUND;
    at->looks++;
    if (e != ERR_OK)
        return at->over ? ERR_OK : e;
    str key = key_buf_str(&row.key);
    if (trim_compares(s) && key_partition(s, key, &partition_size, &is_static) == ERR_OK &&
        !is_static) {
        if (s->policy.kind == POLICY_LATEST_HASH)
            return stored_hash(t, s, &row, str_take(key, partition_size + 1), at);
        if (versioned(s, key))
            return stored_group(t, s, key, at);
    }
    return stored_alone(t, s, &row, at);
}

/* ---- what was left ---- */

static err rest_group(struct engine_txn *t, struct group *g, struct trim_rest *at)
{
    if (at->counted <= g->keep) { /* else from the beginning: a migration says that fewer stay */
        g->seen = key_buf_str(&at->at);
        g->counted = at->counted;
    }
    g->passed_max = TRIM_WALK_ROWS;
    g->looks_max = TRIM_WALK_ROWS;
    g->changes_max = at->changes_max;
    err e = group_trim(t, g);
    at->over = g->over;
    at->counted = g->counted;
    if (!g->over)
        trim_pass(&at->at, &g->at);
    return e;
}

static err rest_partition(struct engine_txn *t, const struct schema *s, struct trim_rest *at)
{
    struct key_buf first;
    struct deleted rest;
    err e = first_find(t, s, at->from, &first);
    if (e == ERR_OK)
        e = rest_delete(t, at->from, key_buf_str(&first), at->changes_max, &rest);
    if (e == ERR_OK)
        at->over = rest.all;
    return e;
}

/* It is over, too, when it is not of this policy any more: the migration has its own. */
err trim_rest(struct engine_txn *t, const struct schema *s, struct trim_rest *at)
{
    struct alive row;
    char end[ENGINE_KEY_BYTES_MAX];
    size_t partition_size;
    bool is_static = true;
    at->over = true;
    if (!trim_compares(s) || at->from.n <= KEY_HEAD_BYTES)
        return ERR_OK;
    err e =
        alive_first(t, at->from, engine_prefix_end(str_take(at->from, KEY_HEAD_BYTES), end), &row);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    str key = key_buf_str(&row.key);
    if (key_partition(s, key, &partition_size, &is_static) != ERR_OK)
        return ERR_OK;
    if (s->policy.kind == POLICY_LATEST_HASH && str_eq(str_take(key, partition_size + 1), at->from))
        return rest_partition(t, s, at);
    if (!versioned(s, key))
        return ERR_OK;
    struct group g = group_of(t, s, key);
    return str_eq(key_buf_str(&g.from), at->from) ? rest_group(t, &g, at) : ERR_OK;
}
