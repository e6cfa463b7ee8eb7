#include "table/trim.h"

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
    const char *type = json_string_value(json_object_get(json, "type"));
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

/* ---- letting go ---- */

/* The row expires at the instant, unless it does before. */
static err expire_at(struct engine_txn *t, str key, const struct engine_row *row, store_time expiry)
{
    struct row_head head;
    struct key_buf due;
    char value[ENGINE_VALUE_BYTES_MAX];
    err e = row_head_read(row->value, &head);
    if (e != ERR_OK || !store_time_before(expiry, head.expiry))
        return e;
    str changed = { .p = value, .n = row->value.n };
    memcpy(value, row->value.p, row->value.n);
    put_be64(value + ROW_EXPIRY_AT, (uint64_t)expiry.ns);
    if (head.expiry.ns != INT64_MAX) {
        row_expiry_key(&due, head.expiry, key);
        e = engine_txn_delete(t, SPACE_ROW, key_buf_str(&due));
    }
    row_expiry_key(&due, expiry, key);
    if (e == ERR_OK)
        e = engine_txn_put(t, SPACE_ROW, key_buf_str(&due), STR_NONE, STR_NONE);
    return e == ERR_OK ? engine_txn_put_value(t, SPACE_ROW, key, changed) : e;
}

/* Keys of rows that fall out. */
struct fallen { struct key_buf keys[TABLE_TRIM_ROWS]; unsigned count; bool written_stays; };

enum { TRIM_LOOKS_MAX = 64 }; /* alive rows behind those that stay, looked at by one put */

/* Walks rows from the newest: those after the first `keep` fall out. */
static err fallen_find(struct engine_view *v, const struct engine_range *range, int64_t keep, str written,
                       struct fallen *out, store_time now, store_time expiry)
{
    struct engine_cursor *c = engine_cursor_open(v, range);
    struct engine_row row;
    struct row_head head;
    err e = ERR_OK;
    for (int64_t alive = 0; e == ERR_OK && out->count < TABLE_TRIM_ROWS && alive < keep + TRIM_LOOKS_MAX;) {
        e = engine_cursor_next(c, &row);
        if (e == ERR_OK)
            e = row_head_read(row.value, &head);
        if (e == ERR_CORRUPT && row.key.n > 0) {
            e = ERR_OK; /* gone past, as by readers */
            continue;
        }
        if (e != ERR_OK || !store_time_before(now, head.expiry))
            continue;
        if (alive++ < keep)
            out->written_stays |= str_eq(row.key, written);
        else if (store_time_before(expiry, head.expiry) && !key_buf_set(&out->keys[out->count++], row.key))
            e = ERR_CORRUPT;
    }
    engine_cursor_close(&c);
    return e == ERR_NOT_FOUND ? ERR_OK : e;
}

static err expire_key(struct engine_txn *t, str key, store_time expiry)
{
    struct engine_row row;
    err e = engine_get(engine_txn_view(t), SPACE_ROW, key, &row);
    return e == ERR_OK ? expire_at(t, key, &row, expiry) : e;
}

static err range_trim(struct engine_txn *t, const struct engine_range *range, int64_t keep, int64_t grace_ttl_s,
                      str written)
{
    struct fallen f = { .count = 0 };
    store_time now = engine_txn_now(t), expiry = store_time_add(now, grace_ttl_s * NS_PER_S);
    err e = fallen_find(engine_txn_view(t), range, keep, written, &f, now, expiry);
    if (e == ERR_OK && !f.written_stays)
        e = expire_key(t, written, expiry);
    for (unsigned i = 0; e == ERR_OK && i < f.count; i++)
        e = expire_key(t, key_buf_str(&f.keys[i]), expiry);
    return e;
}

static err group_trim(struct engine_txn *t, const struct schema_policy *p, str key, int64_t keep)
{
    char end[ENGINE_KEY_BYTES_MAX];
    str group = str_take(key, key.n - KEY_VERSION_BYTES);
    struct engine_range range = { .space = SPACE_ROW, .from = group, .until = engine_prefix_end(group, end) };
    return range_trim(t, &range, keep, p->grace_ttl_s, key);
}

/* The first ticks of the interval these are in. */
static uint64_t interval_start(uint64_t ticks, uint64_t interval)
{
    uint64_t past = ticks >= TICKS_AT_1970 ? (ticks - TICKS_AT_1970) % interval
                                           : (interval - (TICKS_AT_1970 - ticks) % interval) % interval;
    return ticks > past ? ticks - past : 0;
}

/* Bytes of a version begin with its ticks, and all are inverted. */
static void ticks_bound(struct key_buf *k, str group, uint64_t ticks)
{
    INVARIANT(key_buf_set(k, group));
    put_be64(k->bytes + k->n, ~ticks);
    k->n += 8;
}

static err interval_trim(struct engine_txn *t, const struct schema_policy *p, str key)
{
    char end[ENGINE_KEY_BYTES_MAX];
    struct key_buf from, until;
    str group = str_take(key, key.n - KEY_VERSION_BYTES);
    uint64_t interval = (uint64_t)p->interval_s * TICKS_PER_S;
    uint64_t start = interval_start(~get_be64(key.p + group.n), interval);
    ticks_bound(&from, group, start + interval - 1);
    ticks_bound(&until, group, start - 1);
    struct engine_range range = { .space = SPACE_ROW, .from = key_buf_str(&from), .until = key_buf_str(&until) };
    if (start == 0)
        range.until = engine_prefix_end(group, end);
    return range_trim(t, &range, p->count, p->grace_ttl_s, key);
}

/* ---- latest_hash ---- */

/* Of the first row of the partition that is alive: its key up to and with its first range attribute. */
static err first_find(struct engine_txn *t, const struct schema *s, str regular, struct key_buf *out)
{
    char end[ENGINE_KEY_BYTES_MAX];
    struct engine_range range = { .space = SPACE_ROW, .from = regular, .until = engine_prefix_end(regular, end) };
    struct engine_cursor *c = engine_cursor_open(engine_txn_view(t), &range);
    struct engine_row row;
    struct row_head head;
    err e;
    do {
        e = engine_cursor_next(c, &row);
        if (e == ERR_OK)
            e = row_head_read(row.value, &head);
    } while ((e == ERR_CORRUPT && row.key.n > 0) ||
             (e == ERR_OK && !store_time_before(engine_txn_now(t), head.expiry)));
    if (e == ERR_OK && !key_buf_set(out, row.key))
        e = ERR_CORRUPT;
    engine_cursor_close(&c);
    if (e != ERR_OK)
        return e;
    const struct schema_attr *at = &s->attrs[s->range[0]];
    size_t size = key_component_size(at->kind.type, at->desc, str_skip(key_buf_str(out), regular.n));
    out->n = regular.n + size;
    return size == 0 ? ERR_CORRUPT : ERR_OK;
}

static err rows_delete(struct engine_txn *t, str from, str until)
{
    struct store_doomed doomed;
    struct engine_range range = { .space = SPACE_ROW, .from = from, .until = until };
    store_doomed_init(&doomed);
    err e = store_collect(engine_txn_view(t), &range, TABLE_TRIM_ROWS, engine_txn_now(t), &doomed);
    if (e == ERR_OK)
        e = store_delete(t, &doomed);
    store_doomed_fini(&doomed);
    return e;
}

static err hash_trim(struct engine_txn *t, const struct schema *s, str key, size_t partition_size)
{
    char first_end[ENGINE_KEY_BYTES_MAX], end[ENGINE_KEY_BYTES_MAX];
    struct key_buf first;
    str regular = str_take(key, partition_size + 1);
    err e = first_find(t, s, regular, &first);
    if (e != ERR_OK)
        return e == ERR_NOT_FOUND ? ERR_OK : e;
    bool stays = str_starts(key, key_buf_str(&first));
    if (!stays)
        e = rows_delete(t, key, engine_prefix_end(key, end)); /* no key is the beginning of another */
    if (e == ERR_OK)
        e = rows_delete(t, engine_prefix_end(key_buf_str(&first), first_end), engine_prefix_end(regular, end));
    return e == ERR_OK && stays && has_version(s) ? group_trim(t, &s->policy, key, 1) : e;
}

err trim_apply(struct engine_txn *t, const struct schema *s, str key, size_t partition_size)
{
    switch (s->policy.kind) {
    case POLICY_ALL:
        return ERR_OK;
    case POLICY_LATEST:
        return group_trim(t, &s->policy, key, s->policy.count);
    case POLICY_INTERVAL:
        return interval_trim(t, &s->policy, key);
    case POLICY_LATEST_HASH:
        return hash_trim(t, s, key, partition_size);
    }
    return ERR_OK;
}
