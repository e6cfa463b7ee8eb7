/* find.c - an event is found by the id that its sender gave it. A row of the log has the digest of
 * stream and id: the texts stay unread. Ids are looked up in order, from the oldest event on; the
 * last one that fits is the newest. A view of its own for each part of the log keeps no space from
 * being reused. */
#include "event/log_impl.h"
#include "event/rows.h"

#include <string.h>

enum { FIND_LOOKS = 4096 }; /* in one view */

struct finding {
    str stream, id;
    unsigned char digest[EVENT_DIGEST_BYTES]; /* of them, when stream is given */
    uint64_t after;
    uint64_t found; /* 0: not yet */
};

static bool row_fits(const struct finding *f, const struct event_row *row)
{
    unsigned char digest[EVENT_DIGEST_BYTES];
    if (f->stream.n > 0)
        return memcmp(f->digest, row->digest, EVENT_DIGEST_BYTES) == 0;
    if (!event_has_id(row->digest))
        return false;
    event_digest(row->stream, f->id, digest);
    return memcmp(digest, row->digest, EVENT_DIGEST_BYTES) == 0;
}

/* ERR_NOT_FOUND: there are no more. A row that is damaged is passed over. */
static err find_some(struct finding *f, struct engine_cursor *c)
{
    for (unsigned i = 0; i < FIND_LOOKS; i++) {
        struct engine_row row;
        struct event_row event;
        uint64_t seq;
        err why = engine_cursor_next(c, &row);
        if (why != ERR_OK && (why != ERR_CORRUPT || row.key.n == 0))
            return why;
        if (!event_key_parse(row.key, &seq))
            return ERR_CORRUPT;
        f->after = seq;
        if (why == ERR_OK && event_row_decode(row.value, &event) == ERR_OK && row_fits(f, &event))
            f->found = seq;
    }
    return ERR_OK;
}

err event_log_find(struct event_log *l, str stream, str id, uint64_t *seq)
{
    MAGIC_CHECK(l, EVENT_LOG_MAGIC);
    struct finding f = { .stream = stream, .id = id };
    err why = id.n == 0 ? ERR_NOT_FOUND : ERR_OK;
    event_digest(stream, id, f.digest);
    while (why == ERR_OK) {
        struct engine_view *v = engine_view_begin(l->engine);
        struct engine_cursor *c = event_rows_open(v, f.after);
        why = find_some(&f, c);
        engine_cursor_close(&c);
        engine_view_end(&v);
    }
    if (why != ERR_NOT_FOUND)
        return why;
    if (f.found == 0)
        return ERR_NOT_FOUND;
    *seq = f.found;
    return ERR_OK;
}
