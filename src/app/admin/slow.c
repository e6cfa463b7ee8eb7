/* slow.c - GET /v1/admin.slow: the slowest requests of the last hour (http/slow.h). Targets hold
 * titles of private wikis too: for operators alone, like logs. */
#include "http/slow.h"
#include "app/answer.h"
#include "app/app.h"
#include "app/call.h"
#include "app/errors.h"
#include "base/date.h"
#include "codec/json_text.h"

#include <inttypes.h>
#include <string.h>

enum {
    SHOWN_DEFAULT = 100,
    PIECE_BYTES = 8 << 10,   /* of the answer, about: what is written in one turn of a worker */
    ONE_BYTES_MAX = 32 << 10 /* of one request and what ends the list: all it holds, escaped */
};

/* What clients sent may be no UTF-8. */
static void put_text(struct buf *b, struct arena *a, const char *name, str value)
{
    str json = json_text_quote(a, value);
    buf_printf(b, ",\"%s\":", name);
    buf_put(b, json.p != NULL ? json : STR("null"));
}

static void events_put(struct buf *b, struct arena *a, const struct http_slow *r)
{
    buf_printf(b, ",\"events_lost\":%u,\"events\":[", r->events_lost);
    for (unsigned i = 0; i < r->events_count; i++) {
        struct http_event e = http_event_of(r->events[i]);
        buf_printf(b, "%s{\"us\":%" PRId64 ",\"stage\":\"%s\"", i == 0 ? "" : ",", e.ns / NS_PER_US,
                   e.stage);
        put_text(b, a, "thread", str_of(e.thread));
        buf_put_c(b, '}');
    }
    buf_put(b, STR("]"));
}

static void slow_put(struct buf *b, struct arena *a, const struct http_slow *r)
{
    char began[DATE_RFC3339_BYTES + 1];
    date_format_ms(r->began.ns, began);
    buf_printf(b, "{\"us\":%" PRId64 ",\"began\":\"%s\",\"status\":%d,\"bytes\":%" PRIu64,
               r->ns / NS_PER_US, began, r->status, r->bytes);
    put_text(b, a, "method", str_of(r->method));
    put_text(b, a, "path", (str){ .p = r->target, .n = r->target_n });
    if (r->target_cut)
        buf_put(b, STR(",\"path_cut\":true"));
    put_text(b, a, "request_id", (str){ .p = r->id, .n = r->id_n });
    events_put(b, a, r);
    buf_put_c(b, '}');
}

/* ---- the answer, in pieces ---- */

struct listing {
    struct http_exchange *x;
    struct http_slow *kept;
    unsigned count, at;
    bool began;
    struct buf piece; /* lent to the stream until its next pull */
};

static enum http_pulled listing_pull(void *ctx, struct http_pull *p)
{
    struct listing *l = ctx;
    struct buf *b = &l->piece;
    buf_clear(b);
    if (!l->began)
        buf_put(b, STR("{\"slow\":["));
    l->began = true;
    for (; l->at < l->count && b->n < PIECE_BYTES; l->at++) {
        if (l->at > 0)
            buf_put_c(b, ',');
        slow_put(b, http_arena(l->x), &l->kept[l->at]);
    }
    bool ends = l->at == l->count;
    if (ends)
        buf_put(b, STR("]}"));
    p->piece = buf_str(b);
    if (buf_status(b) != ERR_OK)
        return HTTP_PULL_FAILED;
    return ends ? HTTP_PULL_END : HTTP_PULL_MORE;
}

static void listing_over(void *ctx)
{
    struct listing *l = ctx;
    buf_fini(&l->piece);
}

static const struct http_stream listing_stream = { .pull = listing_pull, .over = listing_over };

static void get_slow(struct http_exchange *x, void *app)
{
    (void)app;
    struct arena *a = http_arena(x);
    unsigned max = SHOWN_DEFAULT;
    str from; /* there are no pages */
    if (!app_listing_parse(x, &max, &from))
        return;
    max = max < HTTP_SLOW_MAX ? max : HTTP_SLOW_MAX;
    struct listing *l = arena_alloc(a, sizeof *l);
    struct http_slow *kept = arena_calloc(a, max, sizeof *kept);
    if (l == NULL || kept == NULL) {
        app_fail(x, ERR_LIMIT, NULL);
        return;
    }
    *l = (struct listing){ .x = x, .kept = kept, .count = http_slow_list(x, kept, max) };
    buf_init(&l->piece, PIECE_BYTES + ONE_BYTES_MAX);
    answer_json_pull(x, 200, "no-store", &listing_stream, l);
}

const struct http_route app_slow_routes[] = {
    { HTTP_GET, "/v1/admin.slow", get_slow, .permission = "admin.read", .label = "admin.slow",
      .pool = true, .first = true, .admin = true },
    { .pattern = NULL },
};
