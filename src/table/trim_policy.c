/* trim_policy.c - retention policies from JSON, checked, as bytes and back. */
#include "table/trim.h"

#include "store/table_keep.h"

/* ---- from JSON ---- */

bool trim_versions(const struct schema *s)
{
    const struct schema_attr *last =
        s->range_count == 0 ? NULL : &s->attrs[s->range[s->range_count - 1]];
    return last != NULL && last->kind.type == TYPE_TIMEUUID && last->desc;
}

/* The kinds are the same, and stored by their numbers. */
_Static_assert((int)POLICY_ALL == (int)KEEP_ALL && (int)POLICY_LATEST == (int)KEEP_LATEST, "");
_Static_assert((int)POLICY_INTERVAL == (int)KEEP_INTERVAL && (int)POLICY_TTL == (int)KEEP_TTL, "");
_Static_assert((int)POLICY_LATEST_HASH == (int)KEEP_LATEST_HASH, "");

static enum table_keep_kind keep_kind(enum schema_policy_kind kind)
{
    return (enum table_keep_kind)kind;
}

static enum schema_policy_kind policy_kind(enum table_keep_kind kind)
{
    return (enum schema_policy_kind)kind;
}

/* Is what the kind needs there, and does the key allow it? */
static err policy_check(const struct schema *s, const struct schema_policy *p,
                        struct err_note *note)
{
    bool versions = trim_versions(s);
    const struct table_keep keep = { .kind = keep_kind(p->kind),
                                     .count = p->count,
                                     .grace_ttl_s = p->grace_ttl_s,
                                     .interval_s = p->interval_s };
    if (p->kind == POLICY_LATEST_HASH && s->indexes_count > 0)
        return table_keep_refuse(note, "latest_hash goes not with secondaryIndexes");
    return table_keep_check(&keep, versions, s->range_count > (versions ? 1u : 0u), note);
}

err trim_read(const json_t *json, struct schema *s, struct err_note *note)
{
    struct table_keep k;
    err e = table_keep_read(json, &k, note);
    struct schema_policy p = { .kind = POLICY_ALL };
    if (e == ERR_OK)
        p = (struct schema_policy){ .kind = policy_kind(k.kind),
                                    .count = k.count,
                                    .grace_ttl_s = k.grace_ttl_s,
                                    .interval_s = k.interval_s };
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
