/* walk.c - walks the value records of one segment, for compaction and for checks. Invariant:
 * each extent is dead by the index, or a value record that can be read; all else is damage,
 * which is reported. */
#include "engine/walk.h"

#include <stdlib.h>
#include <string.h>

enum { HEAD_BYTES = RECORD_VALUE_BYTES + ENGINE_KEY_BYTES_MAX };

void walk_init(struct walk *w, struct engine *e, MDB_txn *txn, uint32_t segment, uint64_t end)
{
    *w = (struct walk){
        .engine = e, .txn = txn, .segment = segment, .at = RECORD_SEGMENT_BYTES, .end = end
    };
    w->window = malloc(WALK_WINDOW_BYTES);
    INVARIANT(w->window != NULL);
}

void walk_fini(struct walk *w)
{
    free(w->window);
    w->window = NULL;
}

/* At most n bytes at offset, fewer at the end of the segment; p is NULL when they cannot be
 * read. */
static str bytes_at(struct walk *w, uint64_t offset, size_t n)
{
    if (n > w->end - offset)
        n = (size_t)(w->end - offset);
    if (offset < w->window_start || offset + n > w->window_start + w->window_n) {
        uint64_t left = w->end - offset;
        size_t some = left < WALK_WINDOW_BYTES ? (size_t)left : WALK_WINDOW_BYTES;
        w->window_n = 0;
        if (vlog_read(w->engine->log, w->segment, offset, some, w->window) != ERR_OK)
            return STR_NONE;
        w->window_start = offset;
        w->window_n = some;
    }
    return (str){ .p = w->window + (offset - w->window_start), .n = n };
}

static struct record_spot spot(const struct walk *w, uint64_t offset)
{
    return (struct record_spot){ .id = w->engine->id, .segment = w->segment, .offset = offset };
}

/* Makes w->dead the range that reaches over w->at or comes next. */
static err find_dead(struct walk *w)
{
    if (w->dead.size > 0 && w->dead.offset + w->dead.size > w->at)
        return ERR_OK;
    if (w->dead.size == 0 && w->dead.offset > w->at)
        return ERR_OK; /* looked up before: none up to the end */
    err why = index_dead_at(w->engine, w->txn, w->segment, w->at, &w->dead);
    if (why == ERR_NOT_FOUND) {
        w->dead = (struct vlog_extent){ .segment = w->segment, .offset = UINT64_MAX };
        return ERR_OK;
    }
    return why;
}

/* Steps over dead ranges. */
static err skip_dead(struct walk *w)
{
    while (w->at < w->end) {
        err why = find_dead(w);
        if (why != ERR_OK)
            return why;
        if (w->dead.offset > w->at)
            return ERR_OK;
        uint64_t to = w->dead.offset + w->dead.size;
        w->dead_bytes += to - w->at;
        w->at = to;
    }
    return ERR_OK;
}

/* Where the value header of the extent at w->at stands: behind the group's header and meta, if it
 * has them. */
static err value_offset(struct walk *w, uint64_t *offset)
{
    struct record_group g;
    str head = bytes_at(w, w->at, RECORD_GROUP_BYTES);
    if (head.p == NULL)
        return ERR_IO;
    *offset = w->at;
    if (record_group_decode(head, spot(w, w->at), &g) != ERR_OK)
        return ERR_OK;
    *offset = w->at + RECORD_GROUP_BYTES + g.meta_bytes;
    return g.values > 0 && *offset < w->end ? ERR_OK : ERR_CORRUPT;
}

static err record_at(struct walk *w, struct walk_record *out)
{
    uint64_t at;
    err why = value_offset(w, &at);
    if (why != ERR_OK)
        return why;
    str head = bytes_at(w, at, HEAD_BYTES);
    if (head.p == NULL)
        return ERR_IO;
    struct record_value v;
    if (record_value_decode(head, spot(w, at), &v) != ERR_OK || v.key_bytes > ENGINE_KEY_BYTES_MAX)
        return ERR_CORRUPT;
    uint64_t value_at = at + RECORD_VALUE_BYTES + v.key_bytes;
    if (v.value_bytes > w->end - value_at)
        return ERR_CORRUPT;
    out->space = (enum engine_space)v.space;
    out->key_n = v.key_bytes;
    memcpy(out->key, head.p + RECORD_VALUE_BYTES, v.key_bytes);
    out->blob = (struct engine_blob){
        .n = v.value_bytes,
        .hash = v.hash,
        .segment = w->segment,
        .extent_offset = w->at,
        .value_offset = (uint32_t)(value_at - w->at),
        .extent_size = (uint32_t)(value_at - w->at + v.value_bytes),
    };
    return ERR_OK;
}

err walk_next(struct walk *w, struct walk_record *out)
{
    err why = skip_dead(w);
    if (why != ERR_OK)
        return why;
    if (w->at >= w->end)
        return w->at == w->end ? ERR_NOT_FOUND : ERR_CORRUPT;
    why = record_at(w, out);
    if (why != ERR_OK)
        return why;
    uint64_t to = w->at + out->blob.extent_size;
    if (w->dead.size > 0 && w->dead.offset < to)
        return ERR_CORRUPT; /* a dead range begins inside a record */
    w->at = to;
    return ERR_OK;
}

static bool begins_here(struct walk *w, str bytes, uint64_t offset)
{
    struct record_group g;
    struct record_value v;
    if (record_group_decode(bytes, spot(w, offset), &g) == ERR_OK)
        return true;
    return record_value_decode(bytes, spot(w, offset), &v) == ERR_OK;
}

err walk_resync(struct walk *w)
{
    char first = record_group_magic().p[0]; /* both magics begin with it */
    uint64_t stop = w->end;
    w->at++;
    if (find_dead(w) == ERR_OK && w->dead.size > 0 && w->dead.offset < stop)
        stop = w->dead.offset > w->at ? w->dead.offset : w->at;
    while (w->at < stop) {
        str bytes = bytes_at(w, w->at, HEAD_BYTES);
        if (bytes.p == NULL)
            return ERR_IO;
        const char *hit = memchr(bytes.p, first, bytes.n);
        if (hit == bytes.p && begins_here(w, bytes, w->at))
            return ERR_OK;
        if (hit == bytes.p)
            hit = memchr(bytes.p + 1, first, bytes.n - 1);
        w->at += hit == NULL ? bytes.n : (size_t)(hit - bytes.p);
    }
    w->at = stop < w->end ? stop : w->end;
    return ERR_OK;
}
