/* find.c - an event is found by the id that its sender gave it, by the digest of stream and id that
 * the log keeps of each. Ids are looked up in order, from the oldest event on; the last one that
 * fits is the newest. A view of its own for each part of the log keeps no space from being reused.
 */
#include "event/log_impl.h"
#include "event/rows.h"

#include "base/buf.h"

#include <string.h>

enum {
    FIND_LOOKS = 256,         /* rows in one view */
    FIND_BYTES_MAX = 1 << 20, /* of a row of several events */
};

struct finding {
    struct engine *engine;
    struct buf text; /* of the row at hand */
    str stream, id;
    unsigned char digest[EVENT_DIGEST_BYTES]; /* of them, when stream is given */
    uint64_t after;
    uint64_t found; /* 0: not yet */
};

static bool one_fits(const struct finding *f, const struct event_one *one)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    if (f->stream.n > 0)
        return memcmp(f->digest, one->digest, EVENT_DIGEST_BYTES) == 0;
    if (!event_has_id(one->digest))
        return false;
    event_digest(one->stream, f->id, digest);
    return memcmp(digest, one->digest, EVENT_DIGEST_BYTES) == 0;
}

/* The text of a row of one event stays unread. */
static err find_in_row(struct finding *f, uint64_t seq, const struct engine_row *row)
{
    struct event_row e;
    struct event_walk walk;
    struct event_one one;
    err why = event_row_decode(row->value, &e);
    buf_clear(&f->text);
    if (why == ERR_OK && e.events > 1) {
        char *p = buf_extend(&f->text, row->blob.n);
        why = p == NULL ? ERR_LIMIT : engine_blob_read(f->engine, &row->blob, 0, row->blob.n, p);
    }
    if (why == ERR_OK)
        why = event_walk_begin(&walk, seq, &e, buf_str(&f->text));
    while (why == ERR_OK && event_walk_next(&walk, &one))
        if (one_fits(f, &one))
            f->found = one.seq;
    return why == ERR_CORRUPT ? ERR_OK : why;
}

/* ERR_NOT_FOUND: there are no more. A row that is damaged is passed over. */
static err find_some(struct finding *f, struct engine_cursor *c)
{
    for (unsigned i = 0; i < FIND_LOOKS; i++) {
        struct engine_row row;
        uint64_t seq;
        err why = engine_cursor_next(c, &row);
        if (why != ERR_OK && (why != ERR_CORRUPT || row.key.n == 0))
            return why;
        if (!event_key_parse(row.key, &seq))
            return ERR_CORRUPT;
        f->after = seq;
        if (why == ERR_OK)
            why = find_in_row(f, seq, &row);
        if (why != ERR_OK && why != ERR_CORRUPT)
            return why;
    }
    return ERR_OK;
}

err event_log_find(struct event_log *l, str stream, str id, uint64_t *seq)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    struct finding f = { .engine = l->engine, .stream = stream, .id = id };
    buf_init(&f.text, FIND_BYTES_MAX);
    err why = id.n == 0 ? ERR_NOT_FOUND : ERR_OK;
    event_digest(stream, id, f.digest);
    while (why == ERR_OK) {
        struct engine_view *v = engine_view_begin(l->engine);
        struct engine_cursor *c = event_rows_open(v, f.after);
        why = find_some(&f, c);
        engine_cursor_close(&c);
        engine_view_end(&v);
    }
    buf_fini(&f.text);
    if (why != ERR_NOT_FOUND)
        return why;
    if (f.found == 0)
        return ERR_NOT_FOUND;
    *seq = f.found;
    return ERR_OK;
}
