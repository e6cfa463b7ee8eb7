/* check.c - what the rows of the event log must hold among each other: numbers rise, counts and
 * bytes go on where the row before ended, and the head says what the newest event says. */
#include "event/rows.h"

#include <inttypes.h>
#include <stdio.h>

enum { CHECK_SLICE_ROWS = 4096, CHECK_TEXT_BYTES = 200 };

struct checking {
    void (*found)(void *ctx, const char *what);
    void *ctx;
    struct event_head head;     /* of the first look: events behind it came meanwhile */
    uint64_t seq, count, bytes; /* of the event before */
    bool gap;                   /* a damaged row lies behind that */
    uint64_t damages;
};

static void event_check_damage(struct checking *c, uint64_t seq, const char *what)
{
    char text[CHECK_TEXT_BYTES];
    c->damages++;
    (void)snprintf(text, sizeof text, "event %" PRIu64 ": %s", seq, what); /* it fits */
    c->found(c->ctx, text);
}

static void check_row(struct checking *c, const struct engine_row *row)
{
    struct event_row e;
    uint64_t seq = 0;
    if (!event_key_parse(row->key, &seq) || event_row_decode(row->value, &e) != ERR_OK) {
        event_check_damage(c, seq, "its row makes no sense");
        c->gap = true;
        return;
    }
    if (!c->gap && (e.count != c->count + e.events || seq < c->seq + e.events ||
                    e.bytes != c->bytes + row->blob.n + EVENT_ROW_BYTES))
        event_check_damage(c, seq, "its counts do not follow from the event before it");
    if (seq == c->head.last && (e.count != c->head.count || e.bytes != c->head.bytes))
        event_check_damage(c, seq, "its counts are not those of the log's head");
    c->seq = seq;
    c->count = e.count;
    c->bytes = e.bytes;
    c->gap = false;
}

/* What was removed since the last slice is not there to be looked at. */
static err skip_culled(struct checking *c, struct engine_view *v)
{
    struct event_head now;
    err why = event_head_get(v, &now);
    if (why != ERR_OK || now.culled <= c->seq)
        return why;
    c->seq = now.culled;
    c->count = now.culled_count;
    c->bytes = now.culled_bytes;
    c->gap = false;
    return ERR_OK;
}

/* *over: there are no more rows. */
static err check_slice(struct checking *c, struct engine_view *v, bool *over)
{
    err why = skip_culled(c, v);
    if (why != ERR_OK)
        return why;
    struct engine_cursor *rows = event_rows_open(v, c->seq);
    for (unsigned i = 0; i < CHECK_SLICE_ROWS && why == ERR_OK; i++) {
        struct engine_row row;
        uint64_t seq = 0;
        why = engine_cursor_next(rows, &row);
        if (why == ERR_OK) {
            check_row(c, &row);
        } else if (why == ERR_CORRUPT && event_key_parse(row.key, &seq)) {
            event_check_damage(c, seq, "its row is damaged");
            c->seq = seq;
            c->gap = true;
            why = ERR_OK;
        }
    }
    engine_cursor_close(&rows);
    *over = why == ERR_NOT_FOUND;
    return *over ? ERR_OK : why;
}

err event_log_check(struct engine *e, void (*found)(void *ctx, const char *what), void *ctx)
{
    struct checking c = { .found = found, .ctx = ctx };
    bool over = false;
    struct engine_view *v = engine_view_begin(e);
    err why = event_head_get(v, &c.head);
    bool begun = why != ERR_NOT_FOUND;
    while (why == ERR_OK && !over) {
        why = check_slice(&c, v, &over);
        engine_view_end(&v);
        v = engine_view_begin(e);
    }
    engine_view_end(&v);
    if (why == ERR_OK && c.seq < c.head.last)
        event_check_damage(&c, c.head.last, "the log's head names it, and it is not there");
    if (!begun)
        return ERR_OK;
    return why == ERR_OK && c.damages > 0 ? ERR_CORRUPT : why;
}
