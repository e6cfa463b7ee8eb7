/* Retention policies from JSON, checked, as bytes and back. */
#include "table/trim.h"

#include "codec/json.h"

#include <string.h>

/* ---- from JSON ---- */

bool trim_versions(const struct schema *s)
{
    const struct schema_attr *last =
        s->range_count == 0 ? NULL : &s->attrs[s->range[s->range_count - 1]];
    return last != NULL && last->kind.type == TYPE_TIMEUUID && last->desc;
}

static err refuse(struct err_note *note, const char *what)
{
    err_note_set(note, "revisionRetentionPolicy: %s", what);
    return ERR_BAD;
}

static bool whole_in(const json_t *json, const char *name, int64_t least, int64_t most,
                     int64_t *out)
{
    const json_t *value = json_object_get(json, name);
    if (value == NULL)
        return true;
    *out = json_integer_value(value);
    return json_is_integer(value) && *out >= least && *out <= most;
}

static err numbers_read(const json_t *json, struct schema_policy *p, int64_t *ttl_s,
                        struct err_note *note)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)json, key, value)
    {
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
        return refuse(note,
                      "grace_ttl, interval and ttl must be whole numbers of seconds, to 20 years");
    return ERR_OK;
}

/* Is what the kind needs there, and does the key allow it? */
static err policy_check(const struct schema *s, const struct schema_policy *p,
                        struct err_note *note)
{
    bool versions = trim_versions(s);
    switch (p->kind) {
    case POLICY_ALL:
        return ERR_OK;
    case POLICY_TTL:
        return p->grace_ttl_s > 0 ? ERR_OK : refuse(note, "ttl needs ttl");
    case POLICY_LATEST:
    case POLICY_INTERVAL:
        if (p->count == 0 || p->grace_ttl_s < 0 ||
            (p->kind == POLICY_INTERVAL && p->interval_s == 0))
            return refuse(note, "latest needs count and grace_ttl, interval needs interval too");
        return versions ? ERR_OK
                        : refuse(note, "the last range attribute must be a timeuuid, descending");
    case POLICY_LATEST_HASH:
        if (s->indexes_count > 0)
            return refuse(note, "latest_hash goes not with secondaryIndexes");
        return s->range_count > (versions ? 1u : 0u)
                   ? ERR_OK
                   : refuse(note, "latest_hash needs a range attribute besides the version");
    }
    return ERR_OK;
}

err trim_read(const json_t *json, struct schema *s, struct err_note *note)
{
    static const struct {
        const char *name;
        enum schema_policy_kind kind;
    } kinds[] = { { "all", POLICY_ALL },
                  { "ttl", POLICY_TTL },
                  { "latest", POLICY_LATEST },
                  { "interval", POLICY_INTERVAL },
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
    if (p.kind == POLICY_TTL)
        p.grace_ttl_s = ttl_s; /* a row falls out when it is put */
    if (e == ERR_OK)
        e = policy_check(s, &p, note);
    if (e != ERR_OK)
        return e;
    if (p.kind == POLICY_LATEST_HASH && p.grace_ttl_s < 0)
        p.grace_ttl_s = 1; /* as the peer */
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
    if (kind > POLICY_TTL)
        return false;
    s->policy = (struct schema_policy){ .kind = (enum schema_policy_kind)kind };
    s->policy.count = (int64_t)cursor_be64(c);
    s->policy.grace_ttl_s = (int64_t)cursor_be64(c);
    s->policy.interval_s = (int64_t)cursor_be64(c);
    bool sane = s->policy.count >= 0 && s->policy.count <= TABLE_KEEP_MAX &&
                (kind == POLICY_ALL || s->policy.grace_ttl_s >= 0) &&
                s->policy.grace_ttl_s <= TABLE_TTL_S_MAX && s->policy.interval_s >= 0 &&
                s->policy.interval_s <= TABLE_TTL_S_MAX;
    return !c->failed && sane && policy_check(s, &s->policy, NULL) == ERR_OK;
}
