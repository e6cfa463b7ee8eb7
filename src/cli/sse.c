/* sse.c - see sse.h. A line is put together in `line`, whatever pieces it came in; a field is
 * looked at when its line is whole. */
#include "cli/sse.h"

#include <string.h>

void sse_init(struct sse *s)
{
    *s = (struct sse){ .begun = false };
    buf_init(&s->line, SSE_BYTES_MAX);
    buf_init(&s->data, SSE_BYTES_MAX);
}

void sse_fini(struct sse *s)
{
    buf_fini(&s->line);
    buf_fini(&s->data);
}

static void event_clear(struct sse *s)
{
    buf_clear(&s->data);
    s->has_data = false;
    s->name[0] = s->note[0] = '\0';
}

void sse_restart(struct sse *s)
{
    buf_clear(&s->line);
    event_clear(s);
    memcpy(s->id_next, s->id, sizeof s->id_next);
    s->after_cr = s->begun = false;
}

/* False: take had enough. */
static bool event_end(struct sse *s, sse_take_fn *take, void *ctx)
{
    memcpy(s->id, s->id_next, sizeof s->id);
    const struct sse_event e = { .id = str_of(s->id),
                                 .name = s->name[0] == '\0' ? STR("message") : str_of(s->name),
                                 .data = buf_str(&s->data),
                                 .note = str_of(s->note) };
    bool goes_on = !s->has_data || buf_status(&s->data) != ERR_OK || take(ctx, &e);
    s->alive = true;
    event_clear(s);
    return goes_on;
}

static void field_take(struct sse *s, str field, str value)
{
    if (str_eq(field, STR("data"))) {
        if (s->has_data)
            buf_put_c(&s->data, '\n');
        buf_put(&s->data, value);
        s->has_data = true;
    } else if (str_eq(field, STR("id"))) {
        (void)str_to_cstr(value, s->id_next,
                          sizeof s->id_next); /* NUL, or too long: the old one stays */
    } else if (str_eq(field, STR("event"))) {
        if (!str_to_cstr(value, s->name, sizeof s->name))
            s->name[0] = '\0';
    }
}

/* False: take had enough. */
static bool line_end(struct sse *s, sse_take_fn *take, void *ctx)
{
    str line = buf_str(&s->line);
    if (!s->begun && str_starts(line, STR("\xef\xbb\xbf")))
        line = str_skip(line, 3);
    s->begun = true;
    if (line.n == 0)
        return event_end(s, take, ctx);
    size_t colon = str_find(line, ':');
    str value = str_skip(line, colon + 1);
    if (str_starts(value, STR(" ")))
        value = str_skip(value, 1);
    if (colon == 0) {
        s->alive = true;
        if (!str_to_cstr(value, s->note, sizeof s->note))
            s->note[0] = '\0';
    } else {
        field_take(s, str_take(line, colon), value);
    }
    return true;
}

err sse_feed(struct sse *s, str piece, sse_take_fn *take, void *ctx)
{
    while (piece.n > 0) {
        if (s->after_cr && piece.p[0] == '\n')
            piece = str_skip(piece, 1);
        s->after_cr = false;
        size_t lf = str_find(piece, '\n'), n = str_find(str_take(piece, lf), '\r');
        buf_put(&s->line, str_take(piece, n));
        if (buf_status(&s->line) != ERR_OK)
            return ERR_LIMIT;
        if (n == piece.n)
            return ERR_OK;
        s->after_cr = piece.p[n] == '\r';
        bool goes_on = line_end(s, take, ctx);
        if (buf_status(&s->data) != ERR_OK)
            return ERR_LIMIT;
        buf_clear(&s->line);
        if (!goes_on)
            return ERR_IO;
        piece = str_skip(piece, n + 1);
    }
    return ERR_OK;
}
