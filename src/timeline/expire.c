/* expire.c - entries go when they are old. By time, a domain's oldest entry is its first; so each
 * domain costs one look, and one that has nothing old costs no more. */
#include "timeline/rows.h"

#include <string.h>

/* The first entry by time, from that key on: of its domain or a later one. */
static err first_from(struct engine_view *v, str from, struct timeline_key *key,
                      struct timeline_where *w, struct timeline_entry *e)
{
    static const char end[] = { TIMELINE_BY_TIME + 1 };
    struct engine_row row;
    bool by_time = false;
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = from,
                                  .until = { .p = end, .n = sizeof end } };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    err why = engine_cursor_next(c, &row);
    if (why == ERR_OK && row.key.n > sizeof key->p)
        why = ERR_CORRUPT;
    if (why == ERR_OK) { /* what is borrowed ends with the next call */
        memcpy(key->p, row.key.p, row.key.n);
        key->n = row.key.n;
        if (!timeline_key_parse(timeline_key_str(key), &by_time, w, e) || !by_time)
            why = ERR_CORRUPT;
    }
    engine_cursor_close(&c);
    return why;
}

/* Both rows. */
static err entry_delete(struct engine_txn *t, const struct timeline_key *by_time,
                        const struct timeline_where *w, const struct timeline_entry *e)
{
    struct timeline_key by_title;
    err why = timeline_key_prefix(&by_title, w);
    if (why != ERR_OK)
        return ERR_CORRUPT;
    timeline_key_tail(&by_title, e);
    why = engine_txn_delete(t, SPACE_TIMELINE, timeline_key_str(&by_title));
    if (why == ERR_OK)
        why = engine_txn_delete(t, SPACE_TIMELINE, timeline_key_str(by_time));
    return why;
}

/* Where a look begins. */
struct place {
    char p[TIMELINE_KEY_BYTES_MAX + 1];
    size_t n;
};

static void place_domain(struct place *from, uint32_t domain)
{
    struct timeline_key key;
    timeline_key_domain(&key, TIMELINE_BY_TIME, domain);
    memcpy(from->p, key.p, key.n);
    from->n = key.n;
}

/* Behind one that was deleted: from the domain on, each look would pass over all of those. */
static void place_behind(struct place *from, const struct timeline_key *key)
{
    memcpy(from->p, key->p, key->n);
    from->p[key->n] = 0;
    from->n = key->n + 1;
}

static str place_str(const struct place *from)
{
    return (str){ .p = from->p, .n = from->n };
}

err timeline_expire(struct engine_txn *t, struct timeline_expiry *x)
{
    struct timeline_key key;
    struct place from;
    struct timeline_where w;
    struct timeline_entry e;
    uint32_t domain = x->domain;
    unsigned count = 0;
    err why = ERR_OK;
    place_domain(&from, domain);
    for (unsigned looks = 0; looks < TIMELINE_EXPIRE_MAX && why == ERR_OK; looks++) {
        why = first_from(engine_txn_view(t), place_str(&from), &key, &w, &e);
        if (why != ERR_OK)
            break;
        domain = w.domain;
        if (store_time_before(e.at, x->before)) {
            why = entry_delete(t, &key, &w, &e);
            place_behind(&from, &key);
            count++;
        } else if (domain == UINT32_MAX) {
            why = ERR_NOT_FOUND;
        } else {
            place_domain(&from, ++domain);
        }
    }
    if (why != ERR_OK && why != ERR_NOT_FOUND)
        return why;
    x->count = count;
    x->more = why == ERR_OK;
    x->domain = why == ERR_OK ? domain : 0;
    return ERR_OK;
}

err timeline_has_old(struct engine_view *v, store_time before, bool *out)
{
    struct timeline_key key;
    struct place from;
    struct timeline_where w = { .domain = 0 };
    struct timeline_entry e;
    bool old = false;
    err why = ERR_OK;
    for (uint64_t domain = 0; domain <= UINT32_MAX && !old && why == ERR_OK;
         domain = (uint64_t)w.domain + 1) {
        place_domain(&from, (uint32_t)domain);
        why = first_from(v, place_str(&from), &key, &w, &e);
        old = why == ERR_OK && store_time_before(e.at, before);
    }
    *out = old;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
