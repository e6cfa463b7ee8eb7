/* timeline.c - rows of SPACE_TIMELINE. Key: kind, domain, title, 0x00, [~rev], ~at, ~rev, ~tid; no
 * value. Newest first, so the entry sought is the first at or after a seek. */
#include "timeline/timeline.h"

#include "base/buf.h"

#include <string.h>

enum {
    FIXED_BYTES = 1 + 4 + 1 + 8,        /* kind, domain, terminator, the partition's ~rev */
    TAIL_BYTES = 8 + 8 + TID_KEY_BYTES, /* ~at, ~rev, ~tid */
    KEY_BYTES_MAX = FIXED_BYTES + TIMELINE_TITLE_BYTES_MAX + TAIL_BYTES,
};
_Static_assert((int)KEY_BYTES_MAX <= (int)ENGINE_KEY_BYTES_MAX, "a timeline key fits the engine's");

struct timeline_key {
    unsigned char bytes[KEY_BYTES_MAX];
    size_t prefix; /* up to the tail */
};

static str key_str(const struct timeline_key *k, size_t tail)
{
    return (str){ .p = (const char *)k->bytes, .n = k->prefix + tail };
}

static err key_prefix(const struct timeline_where *w, struct timeline_key *k)
{
    if (w->title.n == 0 || w->title.n > TIMELINE_TITLE_BYTES_MAX)
        return ERR_LIMIT;
    unsigned char *p = k->bytes;
    *p++ = (unsigned char)w->kind;
    put_be32(p, w->domain);
    p += 4;
    memcpy(p, w->title.p, w->title.n);
    p += w->title.n;
    *p++ = 0;
    if (w->kind == TIMELINE_RENDER) {
        put_be64(p, ~w->rev);
        p += 8;
    }
    k->prefix = (size_t)(p - k->bytes);
    return ERR_OK;
}

/* Instants before 1970 do not happen in a store; they sort as 0. */
static uint64_t at_bits(store_time at)
{
    return at.ns < 0 ? 0 : (uint64_t)at.ns;
}

static void key_tail(struct timeline_key *k, const struct timeline_entry *e)
{
    unsigned char *p = k->bytes + k->prefix;
    put_be64(p, ~at_bits(e->at));
    put_be64(p + 8, ~e->rev);
    put_be64(p + 16, ~e->tid.ticks);
    put_be64(p + 24, ~e->tid.low);
}

static err key_read(const struct timeline_key *k, str key, struct timeline_entry *out)
{
    if (key.n != k->prefix + TAIL_BYTES)
        return ERR_CORRUPT;
    const char *p = key.p + k->prefix;
    *out = (struct timeline_entry){
        .at = { .ns = (int64_t)~get_be64(p) },
        .rev = ~get_be64(p + 8),
        .tid = { .ticks = ~get_be64(p + 16), .low = ~get_be64(p + 24) },
    };
    return ERR_OK;
}

err timeline_add(struct engine_txn *t, const struct timeline_where *w,
                 const struct timeline_entry *e)
{
    struct timeline_key k;
    err why = key_prefix(w, &k);
    if (why != ERR_OK)
        return why;
    key_tail(&k, e);
    return engine_txn_put(t, SPACE_TIMELINE, key_str(&k, TAIL_BYTES), STR_NONE, STR_NONE);
}

/* A cursor over the entries of w with at <= not_after, newest first. */
static struct engine_cursor *entries_from(struct engine_view *v, struct timeline_key *k,
                                          store_time not_after)
{
    char end[KEY_BYTES_MAX];
    str until = engine_prefix_end(key_str(k, 0), end);
    key_tail(k, &(struct timeline_entry){ .at = not_after,
                                          .rev = UINT64_MAX,
                                          .tid = { .ticks = UINT64_MAX, .low = UINT64_MAX } });
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = key_str(k, TAIL_BYTES),
                                  .until = until };
    return engine_cursor_open(v, &range);
}

err timeline_find(struct engine_view *v, const struct timeline_where *w, store_time not_after,
                  struct timeline_entry *out)
{
    struct timeline_key k;
    err why = key_prefix(w, &k);
    if (why != ERR_OK)
        return why;
    struct engine_cursor *c = entries_from(v, &k, not_after);
    struct engine_row row;
    why = engine_cursor_next(c, &row);
    if (why == ERR_OK)
        why = key_read(&k, row.key, out);
    engine_cursor_close(&c);
    return why;
}

/* Deletes entries with at <= not_after, the first `spare` of them left; at most
 * TIMELINE_FORGET_MAX. */
static err forget(struct engine_txn *t, const struct timeline_where *w, store_time not_after,
                  unsigned spare, unsigned *count)
{
    struct timeline_key k;
    err why = key_prefix(w, &k);
    if (why != ERR_OK)
        return why;
    struct engine_cursor *c = entries_from(engine_txn_view(t), &k, not_after);
    struct engine_row row;
    unsigned n = 0;
    while (n < TIMELINE_FORGET_MAX && (why = engine_cursor_next(c, &row)) == ERR_OK) {
        if (spare > 0) {
            spare--;
            continue;
        }
        char copy[KEY_BYTES_MAX]; /* deleting may end what the cursor lent us */
        INVARIANT(row.key.n <= sizeof copy);
        memcpy(copy, row.key.p, row.key.n);
        why = engine_txn_delete(t, SPACE_TIMELINE, (str){ .p = copy, .n = row.key.n });
        if (why != ERR_OK)
            break;
        n++;
    }
    engine_cursor_close(&c);
    *count = n;
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err timeline_applied(struct engine_txn *t, const struct timeline_where *w,
                     const struct timeline_entry *entry, unsigned *count)
{
    return forget(t, w, entry->at, 0, count);
}

err timeline_expire(struct engine_txn *t, const struct timeline_where *w, store_time before,
                    unsigned *count)
{
    return forget(t, w, (store_time){ .ns = before.ns - 1 }, 1, count);
}

err timeline_count(struct engine_view *v, enum timeline_kind kind, uint32_t domain, uint64_t *out)
{
    unsigned char prefix[5];
    char end[sizeof prefix];
    prefix[0] = (unsigned char)kind;
    put_be32(prefix + 1, domain);
    str from = { .p = (const char *)prefix, .n = sizeof prefix };
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = from,
                                  .until = engine_prefix_end(from, end) };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    struct engine_row row;
    uint64_t n = 0;
    err why;
    while ((why = engine_cursor_next(c, &row)) == ERR_OK)
        n++;
    engine_cursor_close(&c);
    if (why != ERR_NOT_FOUND)
        return why;
    *out = n;
    return ERR_OK;
}
