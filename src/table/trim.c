#include "table/trim.h"

#include "codec/json.h"
#include "table/key.h"
#include "table/row.h"

#include <string.h>

#define TICKS_PER_S ((uint64_t)10000000)
#define TICKS_AT_1970 ((uint64_t)0x01b21dd213814000)

/* ---- from JSON ---- */

static bool has_version(const struct schema *s)
{
    const struct schema_attr *last = s->range_count == 0 ? NULL : &s->attrs[s->range[s->range_count - 1]];
    return last != NULL && last->kind.type == TYPE_TIMEUUID && last->desc;
}

static err refuse(struct err_note *note, const char *what)
{
    err_note_set(note, "revisionRetentionPolicy: %s", what);
    return ERR_BAD;
}

static bool whole_in(const json_t *json, const char *name, int64_t least, int64_t most, int64_t *out)
{
    const json_t *value = json_object_get(json, name);
    if (value == NULL)
        return true;
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static err numbers_read(const json_t *json, struct schema_policy *p, int64_t *ttl_s, struct err_note *note)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value) {
        static const char *const known[] = { "type", "count", "grace_ttl", "interval", "ttl" };
        unsigned i = 0;
        while (i < COUNT_OF(known) && strcmp(known[i], key) != 0)
            i++;
        if (i == COUNT_OF(known)) {
            err_note_set(note, "revisionRetentionPolicy.%s is unknown", key);
            return ERR_BAD;
        }
    }
    if (!whole_in(json, "count", 1, TABLE_KEEP_MAX, &p->count))
        return refuse(note, "count must be a whole number from 1 to 1000");
    if (!whole_in(json, "grace_ttl", 0, TABLE_TTL_S_MAX, &p->grace_ttl_s) ||
        !whole_in(json, "interval", 1, TABLE_TTL_S_MAX, &p->interval_s) ||
        !whole_in(json, "ttl", 1, TABLE_TTL_S_MAX, ttl_s))
        return refuse(note, "grace_ttl, interval and ttl must be whole numbers of seconds, to 20 years");
    return ERR_OK;
}

/* Is what the kind needs there, and does the key allow it? */
static err policy_check(const struct schema *s, const struct schema_policy *p, struct err_note *note)
{
    bool versions = has_version(s);
    switch (p->kind) {
    case POLICY_ALL:
        return ERR_OK;
    case POLICY_LATEST:
    case POLICY_INTERVAL:
        if (p->count == 0 || p->grace_ttl_s < 0 || (p->kind == POLICY_INTERVAL && p->interval_s == 0))
            return refuse(note, "latest needs count and grace_ttl, interval needs interval too");
        return versions ? ERR_OK : refuse(note, "the last range attribute must be a timeuuid, descending");
    case POLICY_LATEST_HASH:
        if (s->indexes_count > 0)
            return refuse(note, "latest_hash goes not with secondaryIndexes");
        return s->range_count > (versions ? 1u : 0u)
                   ? ERR_OK : refuse(note, "latest_hash needs a range attribute besides the version");
    }
    return ERR_OK;
}

err trim_read(const json_t *json, struct schema *s, struct err_note *note)
{
    static const struct { const char *name; enum schema_policy_kind kind; } kinds[] = {
        { "all", POLICY_ALL }, { "ttl", POLICY_ALL }, { "latest", POLICY_LATEST }, { "interval", POLICY_INTERVAL },
        { "latest_hash", POLICY_LATEST_HASH } };
    struct schema_policy p = { .grace_ttl_s = -1 };
    int64_t ttl_s = 0;
    if (json == NULL || json_is_null(json) || (json_is_object(json) && json_object_size(json) == 0))
        return ERR_OK;
    const char *type = json_body_word(json_object_get(json, "type"));
    unsigned i = 0;
    while (type != NULL && i < COUNT_OF(kinds) && strcmp(kinds[i].name, type) != 0)
        i++;
    if (type == NULL || i == COUNT_OF(kinds))
        return refuse(note, "type must be all, latest, latest_hash, interval or ttl");
    p.kind = kinds[i].kind;
    err e = numbers_read(json, &p, &ttl_s, note);
    if (e == ERR_OK && strcmp(type, "ttl") == 0 && ttl_s == 0)
        e = refuse(note, "ttl needs ttl");
    if (e == ERR_OK)
        e = policy_check(s, &p, note);
    if (e != ERR_OK)
        return e;
    if (p.kind == POLICY_LATEST_HASH && p.grace_ttl_s < 0)
        p.grace_ttl_s = 1; /* as the peer */
    if (strcmp(type, "ttl") == 0 && (s->ttl_s == 0 || ttl_s < s->ttl_s))
        s->ttl_s = ttl_s;
    s->policy = p;
    return ERR_OK;
}

/* ---- bytes ---- */

void trim_pack(struct buf *b, const struct schema *s)
{
    buf_put_u8(b, (uint8_t)s->policy.kind);
    buf_put_be64(b, (uint64_t)s->policy.count);
    buf_put_be64(b, (uint64_t)s->policy.grace_ttl_s);
    buf_put_be64(b, (uint64_t)s->policy.interval_s);
}

bool trim_unpack(struct cursor *c, struct schema *s)
{
    uint8_t kind = cursor_u8(c);
    if (kind > POLICY_LATEST_HASH)
        return false;
    s->policy = (struct schema_policy){ .kind = (enum schema_policy_kind)kind };
    s->policy.count = (int64_t)cursor_be64(c);
    s->policy.grace_ttl_s = (int64_t)cursor_be64(c);
    s->policy.interval_s = (int64_t)cursor_be64(c);
    bool sane = s->policy.count >= 0 && s->policy.count <= TABLE_KEEP_MAX &&
                (kind == POLICY_ALL || s->policy.grace_ttl_s >= 0) && s->policy.grace_ttl_s <= TABLE_TTL_S_MAX &&
                s->policy.interval_s >= 0 && s->policy.interval_s <= TABLE_TTL_S_MAX;
    return !c->failed && sane && policy_check(s, &s->policy, NULL) == ERR_OK;
}

/* ---- ends of rows ---- */

/* When a row ends without a policy: an end that a policy made has that in its entry. */
static err own_end(struct engine_view *v, str key, const struct row_head *head, store_time *own)
{
    struct key_buf due;
    struct engine_row entry;
    err e = ERR_NOT_FOUND;
    *own = head->expiry;
    if (head->expiry.ns != INT64_MAX) {
        row_expiry_key(&due, head->expiry, key);
        e = engine_get(v, SPACE_ROW, key_buf_str(&due), &entry);
    }
    if (e == ERR_OK && entry.value.n == ROW_OWN_END_BYTES)
        own->ns = (int64_t)get_be64(entry.value.p);
    return e == ERR_NOT_FOUND || e == ERR_CORRUPT ? ERR_OK : e;
}

static err entry_put(struct engine_txn *t, str key, store_time expiry, store_time own)
{
    struct key_buf due;
    char bytes[ROW_OWN_END_BYTES];
    put_be64(bytes, (uint64_t)own.ns);
    str value = expiry.ns == own.ns ? STR_NONE : (str){ .p = bytes, .n = sizeof bytes };
    row_expiry_key(&due, expiry, key);
    return engine_txn_put(t, SPACE_ROW, key_buf_str(&due), value, STR_NONE);
}

/* The row ends at the instant, or when it would without a policy, if that is before. */
static err end_move(struct engine_txn *t, str key, store_time wanted)
{
    struct engine_row row;
    struct row_head head;
    struct key_buf due;
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
    if (head.expiry.ns != INT64_MAX) {
        row_expiry_key(&due, head.expiry, key);
        e = engine_txn_delete(t, SPACE_ROW, key_buf_str(&due));
    }
    if (e == ERR_OK && expiry.ns != INT64_MAX)
        e = entry_put(t, key, expiry, own);
    return e == ERR_OK ? engine_txn_put_value(t, SPACE_ROW, key, changed) : e;
}

/* ---- a group: rows of which the newest stay ---- */

enum {
    TRIM_LOOKS_MAX = 64,  /* alive rows behind those that stay, looked at by one put */
    TRIM_PASSED_MAX = 64, /* rows that end by themselves and do not count; more do */
};

struct group {
    struct key_buf from, until;
    int64_t keep;
    store_time now, expiry;    /* of a row that falls out now */
    str written;               /* a put's row, or empty */
    str seen;                  /* rows before it that do not stay were seen to */
    unsigned looks_max, changes_max; /* the former: of rows that do not stay */
    /* found */
    struct key_buf at;         /* the row looked at last */
    unsigned looks, changes;
    bool written_stays, over;
    struct buf moves;          /* of each change be16 size and key, and the end wanted as be64 */
};

static void move_add(struct group *g, store_time wanted)
{
    buf_put_be16(&g->moves, (uint16_t)g->at.n);
    buf_put(&g->moves, key_buf_str(&g->at));
    buf_put_be64(&g->moves, (uint64_t)wanted.ns);
    g->changes++;
}

/* The next row that is alive; damaged ones are gone past, as by readers. */
static err alive_next(struct engine_cursor *c, store_time now, struct key_buf *key, struct row_head *head)
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

/* The newest rows, until as many as stay were counted. One that ends by itself before what falls out now would is not
 * counted: it must not take another with it. One that had fallen out comes back. */
static err group_stay(struct engine_cursor *c, struct engine_view *v, struct group *g)
{
    unsigned passed = 0;
    for (int64_t counted = 0; counted < g->keep;) {
        struct row_head head;
        store_time own;
        err e = alive_next(c, g->now, &g->at, &head);
        if (e == ERR_OK)
            e = own_end(v, key_buf_str(&g->at), &head, &own);
        if (e != ERR_OK)
            return e;
        g->looks++;
        g->written_stays |= str_eq(key_buf_str(&g->at), g->written);
        if (!store_time_before(g->expiry, own) && passed++ < TRIM_PASSED_MAX)
            continue;
        counted++;
        if (store_time_before(head.expiry, own) && g->changes < g->changes_max)
            move_add(g, STORE_TIME_NEVER);
    }
    return ERR_OK;
}

/* The rows behind them. */
static err group_fall(struct engine_cursor *c, struct group *g)
{
    err e = ERR_OK;
    if (str_cmp(g->seen, key_buf_str(&g->at)) > 0)
        engine_cursor_seek(c, g->seen);
    for (unsigned i = 0; i < g->looks_max && g->changes < g->changes_max; i++) {
        struct row_head head;
        e = alive_next(c, g->now, &g->at, &head);
        if (e != ERR_OK)
            return e;
        g->looks++;
        if (store_time_before(g->expiry, head.expiry))
            move_add(g, g->expiry);
    }
    return e;
}

static err group_walk(struct engine_view *v, struct group *g)
{
    struct engine_range range = { .space = SPACE_ROW, .from = key_buf_str(&g->from), .until = key_buf_str(&g->until) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err e = group_stay(c, v, g);
    if (e == ERR_OK)
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

/* The first ticks of the interval these are in. */
static uint64_t interval_start(uint64_t ticks, uint64_t interval)
{
    uint64_t past = ticks >= TICKS_AT_1970 ? (ticks - TICKS_AT_1970) % interval
                                           : (interval - (TICKS_AT_1970 - ticks) % interval) % interval;
    return ticks > past ? ticks - past : 0;
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
    struct group g = { .keep = p->kind == POLICY_LATEST_HASH ? 1 : p->count, .now = engine_txn_now(t) };
    char end[ENGINE_KEY_BYTES_MAX];
    str prefix = str_take(key, key.n - KEY_VERSION_BYTES);
    g.expiry = store_time_add(g.now, p->grace_ttl_s * NS_PER_S);
    INVARIANT(key_buf_set(&g.from, prefix));
    INVARIANT(key_buf_set(&g.until, engine_prefix_end(prefix, end)));
    if (p->kind != POLICY_INTERVAL)
        return g;
    uint64_t interval = (uint64_t)p->interval_s * TICKS_PER_S;
    uint64_t start = interval_start(~get_be64(key.p + prefix.n), interval);
    ticks_bound(&g.from, prefix, start + interval - 1);
    if (start > 0)
        ticks_bound(&g.until, prefix, start - 1);
    return g;
}

static err gone(struct err_note *note, const char *why)
{
    err_note_set(note, "revisionRetentionPolicy: %s: nothing is stored", why);
    return ERR_GONE;
}

static err written_trim(struct engine_txn *t, const struct schema *s, str key, struct err_note *note)
{
    struct group g = group_of(t, s, key);
    g.written = key;
    g.looks_max = TRIM_LOOKS_MAX;
    g.changes_max = TABLE_TRIM_ROWS;
    err e = group_trim(t, &g);
    if (e != ERR_OK || g.written_stays)
        return e;
    if (s->policy.grace_ttl_s == 0)
        return gone(note, "it keeps newer rows than this, and grace_ttl is 0");
    return end_move(t, key, g.expiry);
}

/* ---- latest_hash ---- */

/* Of the first row of the partition that is alive: its key up to and with its first range attribute. */
static err first_find(struct engine_txn *t, const struct schema *s, str regular, struct key_buf *out)
{
    char end[ENGINE_KEY_BYTES_MAX];
    struct engine_range range = { .space = SPACE_ROW, .from = regular, .until = engine_prefix_end(regular, end) };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    struct row_head head;
    err e = alive_next(c, engine_txn_now(t), out, &head);
    engine_cursor_close(&c);
    if (e != ERR_OK)
        return e;
    const struct schema_attr *at = &s->attrs[s->range[0]];
    size_t size = key_component_size(at->kind.type, at->desc, str_skip(key_buf_str(out), regular.n));
    out->n = regular.n + size;
    return size == 0 ? ERR_CORRUPT : ERR_OK;
}

/* Deletes rows of the partition behind those that begin so, at most so many. */
static err rest_delete(struct engine_txn *t, str regular, str first, unsigned max, unsigned *deleted)
{
    char from[ENGINE_KEY_BYTES_MAX], until[ENGINE_KEY_BYTES_MAX];
    struct store_doomed doomed;
    struct engine_range range = { .space = SPACE_ROW, .from = engine_prefix_end(first, from),
                                  .until = engine_prefix_end(regular, until) };
    store_doomed_init(&doomed);
    err e = store_collect(engine_txn_view(t), &range, max, engine_txn_now(t), &doomed);
    if (e == ERR_OK)
        e = store_delete(t, &doomed);
    *deleted = doomed.count;
    store_doomed_fini(&doomed);
    return e;
}

static err hash_trim(struct engine_txn *t, const struct schema *s, str key, size_t partition_size,
                     struct err_note *note)
{
    struct key_buf first;
    unsigned deleted;
    str regular = str_take(key, partition_size + 1);
    err e = first_find(t, s, regular, &first);
    if (e != ERR_OK)
        return e;
    if (!str_starts(key, key_buf_str(&first)))
        return gone(note, "latest_hash keeps the row that is first in the order of the index, and one before this is "
                          "there");
    e = rest_delete(t, regular, key_buf_str(&first), TABLE_TRIM_ROWS, &deleted);
    return e == ERR_OK && has_version(s) ? written_trim(t, s, key, note) : e;
}

/* ---- what others see to ---- */

err trim_written(struct engine_txn *t, const struct schema *s, str key, size_t partition_size, struct err_note *note)
{
    switch (s->policy.kind) {
    case POLICY_ALL:
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
    return has_version(s) && key.n <= TABLE_KEY_BYTES_MAX &&
           key_partition(s, key, &partition_size, &is_static) == ERR_OK && !is_static &&
           key.n > partition_size + KEY_VERSION_BYTES;
}

/* What counts in the group of a key, when the group is not that of one before it. */
static err group_back(struct engine_txn *t, const struct schema *s, str key, str before)
{
    if (!versioned(s, key))
        return ERR_OK;
    struct group g = group_of(t, s, key);
    g.changes_max = TABLE_KEEP_MAX;
    return str_cmp(before, key_buf_str(&g.from)) >= 0 ? ERR_OK : group_trim(t, &g);
}

err trim_deleted(struct engine_txn *t, const struct schema *s, str first, str last)
{
    if (s->policy.kind == POLICY_ALL)
        return ERR_OK;
    err e = group_back(t, s, first, STR_NONE);
    return e == ERR_OK ? group_back(t, s, last, first) : e;
}

static void pass(struct trim_stored *at, const struct key_buf *row)
{
    at->key = *row;
    at->key.bytes[at->key.n++] = 0;
}

static err stored_group(struct engine_txn *t, const struct schema *s, str row, struct trim_stored *at)
{
    struct group g = group_of(t, s, row);
    g.seen = key_buf_str(&at->key);
    g.looks_max = at->looks_max;
    g.changes_max = TABLE_KEEP_MAX + at->looks_max;
    err e = group_trim(t, &g);
    at->looks += g.looks;
    if (g.over)
        at->key = g.until;
    else
        pass(at, &g.at);
    return e;
}

/* A row of a partition: what is behind its first goes. */
static err stored_hash(struct engine_txn *t, const struct schema *s, str row, str regular, struct trim_stored *at)
{
    struct key_buf first;
    char end[ENGINE_KEY_BYTES_MAX];
    unsigned deleted = 0;
    err e = first_find(t, s, regular, &first);
    if (e == ERR_OK)
        e = rest_delete(t, regular, key_buf_str(&first), at->looks_max, &deleted);
    at->looks += deleted;
    if (e != ERR_OK || deleted == at->looks_max)
        return e; /* from here again */
    if (has_version(s) && str_starts(row, key_buf_str(&first)))
        return stored_group(t, s, row, at);
    INVARIANT(key_buf_set(&at->key, engine_prefix_end(regular, end)));
    return ERR_OK;
}

/* Without a policy all that fell out under an earlier one comes back. */
static err stored_free(struct engine_txn *t, str until, struct trim_stored *at)
{
    struct group g = { .from = at->key, .keep = at->looks_max, .now = engine_txn_now(t), .expiry = engine_txn_now(t),
                       .changes_max = at->looks_max };
    INVARIANT(key_buf_set(&g.until, until));
    err e = group_trim(t, &g);
    at->looks += g.looks;
    at->over = g.over;
    if (!g.over)
        pass(at, &g.at);
    return e;
}

err trim_stored(struct engine_txn *t, const struct schema *s, str until, struct trim_stored *at)
{
    if (s->policy.kind == POLICY_ALL)
        return stored_free(t, until, at);
    struct engine_range range = { .space = SPACE_ROW, .from = key_buf_str(&at->key), .until = until };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    struct row_head head;
    struct key_buf row;
    size_t partition_size;
    bool is_static = true;
    err e = alive_next(c, engine_txn_now(t), &row, &head);
    engine_cursor_close(&c);
    at->over = e == ERR_NOT_FOUND;
    at->looks++;
    if (e != ERR_OK)
        return at->over ? ERR_OK : e;
    str key = key_buf_str(&row);
    if (key_partition(s, key, &partition_size, &is_static) == ERR_OK && !is_static) {
        if (s->policy.kind == POLICY_LATEST_HASH)
            return stored_hash(t, s, key, str_take(key, partition_size + 1), at);
        if (versioned(s, key))
            return stored_group(t, s, key, at);
    }
    pass(at, &row);
    return ERR_OK;
}
