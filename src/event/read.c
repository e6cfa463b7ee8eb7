/* read.c - the event log is read, and what stands in it is counted.
 *
 * Each call has a view of its own, so readers that are slow between calls keep no space from being
 * reused. An event whose bytes are damaged is passed over and counted: one of them must not stop
 * all who follow the log. A row of several events is read whole, whatever is wanted of it. */
#include "event/log_impl.h"
#include "event/rows.h"

#include "base/buf.h"

#include <xxhash.h>

struct reading {
    struct event_log *log;
    struct event_read *read;
    struct buf text; /* of the event at hand */
    size_t bytes;    /* handed over */
    unsigned looks;
};

/* A row that fails its sum has a key all the same, unless the key is what is damaged. */
static void reading_spoilt(struct reading *r, str key)
{
    uint64_t seq;
    r->read->spoilt++;
    r->looks++;
    if (event_key_parse(key, &seq) && seq > r->read->after)
        r->read->after = seq;
}

static err reading_text(struct reading *r, const struct engine_row *row)
{
    buf_clear(&r->text);
    if (row->blob.n == 0)
        return ERR_OK;
    char *p = buf_extend(&r->text, row->blob.n);
    if (p == NULL)
        return ERR_LIMIT;
    err why = engine_blob_read(r->log->engine, &row->blob, 0, row->blob.n, p);
    if (why == ERR_OK && XXH3_64bits(p, row->blob.n) != row->blob.hash)
        return ERR_CORRUPT;
    return why;
}

/* One event of the row at hand. text: is read already, when the row has several. *full: the event
 * is not handed over, because there is no room for it in this call. */
static err reading_one(struct reading *r, const struct engine_row *row, const struct event_row *e,
                       const struct event_one *one, bool *full)
{
    struct event_read *read = r->read;
    const bool several = e->events > 1;
    const struct event_seen seen = { .seq = one->seq,
                                     .count = one->count,
                                     .at = e->at,
                                     .stream = one->stream,
                                     .domain = one->domain,
                                     .size = several ? one->text.n : row->blob.n,
                                     .hops = one->hops };
    if (read->wants == NULL || read->wants(read->ctx, &seen)) {
        *full = r->bytes > 0 && r->bytes + seen.size > read->bytes_max;
        if (*full)
            return ERR_OK;
        err why = several ? ERR_OK : reading_text(r, row);
        if (why != ERR_OK)
            return why;
        r->bytes += seen.size;
        read->take(read->ctx, &seen, several ? one->text : buf_str(&r->text));
    }
    read->after = one->seq;
    return ERR_OK;
}

/* *full: as above, or so many were looked at as are to be in this call. */
static err reading_row(struct reading *r, const struct engine_row *row, bool *full)
{
    struct event_row e = { .events = 1 };
    struct event_walk walk;
    struct event_one one;
    uint64_t seq;
    if (!event_key_parse(row->key, &seq))
        return ERR_CORRUPT;
    err why = event_row_decode(row->value, &e);
    buf_clear(&r->text);
    if (why == ERR_OK && e.events > 1)
        why = reading_text(r, row);
    if (why == ERR_OK)
        why = event_walk_begin(&walk, seq, &e, buf_str(&r->text));
    while (why == ERR_OK && !*full && event_walk_next(&walk, &one)) {
        if (one.seq <= r->read->after)
            continue;
        *full = r->looks == r->read->looks_max;
        if (*full)
            break;
        r->looks++;
        why = reading_one(r, row, &e, &one, full);
    }
    if (why == ERR_CORRUPT)
        r->read->spoilt += e.events - 1; /* the caller counts one */
    return why;
}

static err reading_rows(struct reading *r, struct engine_cursor *c, uint64_t last)
{
    bool full = false;
    while (r->looks < r->read->looks_max && !full) {
        struct engine_row row;
        err why = engine_cursor_next(c, &row);
        if (why == ERR_NOT_FOUND) {
            if (last > r->read->after) /* the newest row is lost */
                r->read->after = last;
            return ERR_OK;
        }
        if (why == ERR_CORRUPT && row.key.n == 0)
            return why; /* the index itself */
        if (why == ERR_OK)
            why = reading_row(r, &row, &full);
        if (why == ERR_CORRUPT)
            reading_spoilt(r, row.key);
        else if (why != ERR_OK)
            return why;
    }
    r->read->more = true;
    return ERR_OK;
}

err event_log_read(struct event_log *l, struct event_read *read)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    struct reading r = { .log = l, .read = read };
    struct event_head head;
    read->more = false;
    read->missed = read->spoilt = 0;
    buf_init(&r.text, EVENT_BYTES_MAX);
    struct engine_view *v = engine_view_begin(l->engine);
    err why = event_head_get(v, &head);
    read->removed = why == ERR_OK ? head.culled_count : 0;
    if (why == ERR_OK) {
        if (read->after < head.culled)
            read->after = read->missed = head.culled;
        struct engine_cursor *c = event_rows_open(v, read->after);
        why = reading_rows(&r, c, head.last);
        engine_cursor_close(&c);
    }
    engine_view_end(&v);
    buf_fini(&r.text);
    return why;
}

static err oldest_at(struct engine_view *v, const struct event_head *head, store_time *out)
{
    struct engine_row row;
    struct event_row e;
    struct engine_cursor *c = event_rows_open(v, head->culled);
    err why = engine_cursor_next(c, &row);
    if (why == ERR_OK)
        why = event_row_decode(row.value, &e);
    *out = why == ERR_OK ? e.at : STORE_TIME_NEVER;
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

err event_log_figures(struct event_log *l, struct event_figures *out)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    struct event_head head;
    store_time oldest = STORE_TIME_NEVER;
    struct engine_view *v = engine_view_begin(l->engine);
    err why = event_head_get(v, &head);
    if (why == ERR_OK)
        why = oldest_at(v, &head, &oldest);
    engine_view_end(&v);
    if (why != ERR_OK)
        return why;
    *out = (struct event_figures){ .last = head.last,
                                   .culled = head.culled,
                                   .taken = head.count,
                                   .count = head.count - head.culled_count,
                                   .bytes = head.bytes - head.culled_bytes,
                                   .oldest = oldest,
                                   .newest = head.newest };
    event_ids_figures(l->batch.ids, &out->ids, &out->ids_early);
    return ERR_OK;
}
