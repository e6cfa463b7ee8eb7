/* known.c - the ids that count are found in the log, when it is opened.
 *
 * First it looks backwards from the newest row, at rows alone, for where to begin; then it reads
 * the digests from there on. Nobody appends meanwhile. A row that is damaged has no ids. */
#include "event/log_impl.h"

/* Behind which number the ids that count begin. */
static err known_begin(struct event_log *l, struct engine_view *v, uint64_t *after)
{
    const uint64_t max = atomic_load(&l->ids_max);
    const uint64_t since = event_batch_since(l, clock_store(l->clock));
    const struct engine_range range = {
        .space = SPACE_EVENT, .from = STR("e"), .until = STR("f"), .reversed = true
    };
    struct engine_cursor *c = engine_cursor_open(v, &range);
    uint64_t events = 0, seq = UINT64_MAX;
    err why = ERR_OK;
    *after = 0;
    while (why == ERR_OK && events < max && seq > since) {
        struct engine_row row;
        struct event_row e;
        why = engine_cursor_next(c, &row);
        if (why == ERR_OK && event_row_decode(row.value, &e) == ERR_OK)
            events += e.events;
        if (why == ERR_CORRUPT && row.key.n > 0)
            why = ERR_OK;
        if (why == ERR_OK && event_key_parse(row.key, &seq))
            *after = seq - 1;
    }
    engine_cursor_close(&c);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}

static void known_add(struct event_log *l, const unsigned char *digest, uint64_t seq)
{
    if (event_has_id(digest))
        event_ids_put(l->batch.ids, digest, seq);
}

static err known_row(struct event_log *l, const struct engine_row *row)
{
    unsigned char digests[EVENT_ROW_EVENTS_MAX * EVENT_DIGEST_BYTES];
    struct event_row e;
    uint64_t seq;
    if (!event_key_parse(row->key, &seq) || event_row_decode(row->value, &e) != ERR_OK)
        return ERR_CORRUPT;
    if (e.events == 1) {
        known_add(l, e.digest, seq);
        return ERR_OK;
    }
    const size_t n = e.events * EVENT_DIGEST_BYTES;
    if (row->blob.n < n || seq < e.events)
        return ERR_CORRUPT;
    err why = engine_blob_read(l->engine, &row->blob, row->blob.n - n, n, (char *)digests);
    for (unsigned i = 0; i < e.events && why == ERR_OK; i++)
        known_add(l, digests + (size_t)i * EVENT_DIGEST_BYTES, seq - e.events + 1 + i);
    return why;
}

err event_ids_load(struct event_log *l)
{
    uint64_t after;
    struct engine_view *v = engine_view_begin(l->engine);
    event_batch_bound(l, clock_store(l->clock));
    err why = known_begin(l, v, &after);
    if (why == ERR_OK) {
        struct engine_cursor *c = event_rows_open(v, after);
        while (why == ERR_OK) {
            struct engine_row row;
            why = engine_cursor_next(c, &row);
            if (why == ERR_OK)
                why = known_row(l, &row);
            if (why == ERR_CORRUPT && row.key.n > 0)
                why = ERR_OK;
        }
        engine_cursor_close(&c);
    }
    engine_view_end(&v);
    return why == ERR_NOT_FOUND ? ERR_OK : why;
}
