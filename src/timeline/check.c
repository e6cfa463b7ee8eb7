/* check.c - what rows of timelines must hold: each can be read, and an entry by title stands by
 * time, too, and the other way round. */
#include "timeline/rows.h"

#include <string.h>

struct checking {
    struct engine_view *view;
    void (*found)(void *ctx, const char *what);
    void *ctx;
    uint64_t damages;
};

static void timeline_check_damage(struct checking *c, const char *what)
{
    c->damages++;
    c->found(c->ctx, what);
}

static void check_row(struct checking *c, str key)
{
    struct timeline_key kept, other;
    struct timeline_where w;
    struct timeline_entry e;
    struct engine_row row;
    bool by_time;
    if (key.n > sizeof kept.p) {
        timeline_check_damage(c, "timeline: a row makes no sense");
        return;
    }
    memcpy(kept.p, key.p, key.n); /* what is borrowed ends with the next call */
    kept.n = key.n;
    if (!timeline_key_parse(timeline_key_str(&kept), &by_time, &w, &e) ||
        timeline_key_prefix(&other, &w) != ERR_OK) {
        timeline_check_damage(c, "timeline: a row makes no sense");
        return;
    }
    if (by_time)
        timeline_key_tail(&other, &e);
    else
        timeline_key_time(&other, &w, &e);
    if (engine_get(c->view, SPACE_TIMELINE, timeline_key_str(&other), &row) == ERR_NOT_FOUND)
        timeline_check_damage(c, by_time ? "timeline: an entry stands by time, and not by title"
                                         : "timeline: an entry stands by title, and not by time");
}

err timeline_check(struct engine *e, void (*found)(void *ctx, const char *what), void *ctx)
{
    static const char end[] = { TIMELINE_BY_TIME + 1 };
    struct checking c = { .view = engine_view_begin(e), .found = found, .ctx = ctx };
    struct engine_range range = { .space = SPACE_TIMELINE,
                                  .from = STR(""),
                                  .until = { .p = end, .n = sizeof end } };
    struct engine_cursor *rows = engine_cursor_open(c.view, &range);
    struct engine_row row;
    err why;
    while ((why = engine_cursor_next(rows, &row)) == ERR_OK ||
           (why == ERR_CORRUPT && row.key.n > 0)) {
        if (why == ERR_OK)
            check_row(&c, row.key);
        else
            timeline_check_damage(&c, "timeline: a row is damaged");
    }
    engine_cursor_close(&rows);
    engine_view_end(&c.view);
    if (why != ERR_NOT_FOUND)
        return why;
    return c.damages > 0 ? ERR_CORRUPT : ERR_OK;
}
