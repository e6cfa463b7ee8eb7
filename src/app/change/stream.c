/* stream.c - GET /v1/stream and /v2/stream/{names}: events as they happen, as server-sent events
 * (the WHATWG's HTML standard, 9.2), for browsers' EventSource and the clients of EventStreams.
 *
 *   pull -> frames of the chunk at hand that it wants -> a chunk from memory -> LATER
 *                                                    \-> one from the disk, for it alone -> LATER
 */
#include "http/stream.h"
#include "app/answer.h"
#include "app/change/streams_impl.h"
#include "app/errors.h"
#include "base/date.h"
#include "base/units.h"
#include "event/position.h"
#include "http/filter.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    STREAM_PIECE_BYTES = 64 << 10, /* of frames that lie side by side; one alone may be larger */
    STREAM_LOOKS_MAX = 1024,       /* frames that one pull passes over */
    STREAM_RESUME_MS = 60000,      /* a position of another log: so much before its instant */
};

/* ---- sending ---- */

/* The next frames of its chunk that it wants and that lie side by side; empty: there are no more,
 * and the chunk is let go of. */
static str next_frames(struct stream_client *c)
{
    struct event_chunk *k = c->chunk;
    str piece = STR("");
    unsigned looks = 0;
    for (; c->frame < k->count; c->frame++) {
        c->looked_long = ++looks > STREAM_LOOKS_MAX;
        if (c->looked_long)
            return piece;
        const struct event_frame *f = &k->frames[c->frame];
        bool wanted = f->seq > c->after &&
                      stream_wants(c, event_frame_stream(k, f), event_frame_domain(k, f));
        if (!wanted && piece.n > 0)
            return piece;
        if (!wanted)
            continue;
        if (piece.n > 0 && piece.n + f->n > STREAM_PIECE_BYTES)
            return piece;
        piece = (str){ .p = piece.n > 0 ? piece.p : event_frame_text(k, f).p, .n = piece.n + f->n };
        c->after = f->seq;
    }
    if (piece.n > 0)
        return piece;
    if (k->last > c->after)
        c->after = k->last;
    streams_let_go(c);
    return piece;
}

/* ERR_AGAIN: there is none now, and it will be woken. */
static err next_chunk(struct stream_client *c)
{
    bool failed;
    struct event_chunk *k = streams_take_read(c, &failed);
    if (failed)
        return ERR_IO;
    c->frame = 0;
    bool own = k != NULL;
    enum event_tail_has has = own ? TAIL_CHUNK : streams_find(c, &k);
    switch (has) {
    case TAIL_CHUNK:
        if (own || streams_hold(c, k)) {
            c->chunk = k;
            return ERR_OK;
        }
        event_chunk_unref(&k);
        break;
    case TAIL_BEHIND:
        streams_read_for(c);
        break;
    case TAIL_NOTHING:
        break;
    }
    return ERR_AGAIN;
}

static void instant_of(uint64_t seq, char out[DATE_RFC3339_BYTES + 1])
{
    date_format_ms((int64_t)seq * NS_PER_US, out);
}

/* Some were removed before it read them. */
static str put_gap(struct stream_client *c, char *room, size_t size)
{
    char id[EVENT_POSITION_BYTES], from[DATE_RFC3339_BYTES + 1], until[DATE_RFC3339_BYTES + 1];
    uint64_t missed = c->chunk->missed;
    const struct event_position p = { .log = streams_log_id(c->streams),
                                      .seq = missed,
                                      .at_ms = (int64_t)(missed / 1000) };
    size_t id_n = event_position_print(&p, id);
    instant_of(c->after, from);
    instant_of(missed, until);
    int n =
        snprintf(room, size, "id: %.*s\nevent: gap\ndata: {\"from\":\"%s\",\"until\":\"%s\"}\n\n",
                 (int)id_n, id, from, until);
    INVARIANT(n > 0 && (size_t)n < size);
    c->after = missed;
    streams_count_gap(c->streams);
    return (str){ .p = room, .n = (size_t)n };
}

static enum http_pulled give(struct http_pull *p, str piece)
{
    p->piece = piece;
    return HTTP_PULL_MORE;
}

/* Where it begins, as an id without an event: a client that is cut off before its first event goes
 * on from there. Of the newest event, or of none, the instant is now: that is what another server
 * goes by. */
static str put_begin(struct stream_client *c, char *room, size_t size)
{
    char id[EVENT_POSITION_BYTES];
    const struct app *app = streams_app(c->streams);
    bool newest = c->after >= streams_last(c->streams);
    int64_t now_ms = clock_store(app->clock).ns / NS_PER_MS;
    const struct event_position p = { .log = streams_log_id(c->streams),
                                      .seq = c->after,
                                      .at_ms = newest ? now_ms : (int64_t)(c->after / 1000) };
    size_t id_n = event_position_print(&p, id);
    int n = snprintf(room, size, ": ok\nid: %.*s\n\n", (int)id_n, id);
    INVARIANT(n > 0 && (size_t)n < size);
    return (str){ .p = room, .n = (size_t)n };
}

/* Asked at each beat, however much there is to tell: keys end, and rights are taken away. */
static bool may_go_on(struct stream_client *c)
{
    const struct app *app = streams_app(c->streams);
    atomic_store(&c->may_private, app_has(c->x, "change.private", STR_NONE, app));
    return app_has(c->x, "change.read", STR_NONE, app);
}

static enum http_pulled client_pull(void *ctx, struct http_pull *p)
{
    struct stream_client *c = ctx;
    if (p->ending) {
        p->piece = STR(": the server ends\n\n");
        return HTTP_PULL_END;
    }
    if (!c->began) {
        c->began = true;
        return give(p, put_begin(c, p->room, HTTP_PULL_ROOM_BYTES));
    }
    bool beat = atomic_exchange(&c->beat, false);
    if (beat && !may_go_on(c)) {
        p->piece = STR(": the key is not good for this any more\n\n");
        return HTTP_PULL_END;
    }
    err why = ERR_OK;
    while (why == ERR_OK) {
        str piece = c->chunk == NULL ? STR("") : next_frames(c);
        if (piece.n > 0)
            return give(p, piece);
        if (c->looked_long) {
            c->looked_long = false;
            atomic_store(&c->beat, beat); /* its comment is still owed */
            http_wake(c->x);
            return HTTP_PULL_LATER;
        }
        why = next_chunk(c);
        if (why == ERR_OK && c->chunk->missed > c->after)
            return give(p, put_gap(c, p->room, HTTP_PULL_ROOM_BYTES));
    }
    if (why != ERR_AGAIN)
        return HTTP_PULL_FAILED;
    return beat ? give(p, STR(":\n\n")) : HTTP_PULL_LATER;
}

static void client_over(void *ctx)
{
    streams_leave(ctx);
}

static const struct http_stream client_stream = { .pull = client_pull,
                                                  .over = client_over,
                                                  .endless = true };

/* ---- what is asked for ---- */

struct wish {
    str names, domain;
    uint64_t after;
};

/* A position of another log: behind its instant, and a little before that, for the clocks of two
 * servers differ. */
static uint64_t resumed(const struct event_position *p)
{
    int64_t at_ms = p->at_ms > INT64_MAX / NS_PER_MS ? INT64_MAX / NS_PER_MS : p->at_ms;
    return event_log_behind((store_time){ .ns = (at_ms - STREAM_RESUME_MS) * NS_PER_MS });
}

static uint64_t lesser(uint64_t a, uint64_t b)
{
    return a < b ? a : b;
}

/* What is to come begins now. False: answered. */
static bool wish_place(struct http_exchange *x, struct app *app, struct wish *w)
{
    str since, last;
    struct event_position p;
    int64_t ns;
    w->after = streams_last(app->streams);
    if (http_header(x, "last-event-id", &last)) {
        if (!event_position_parse(last, &p))
            return app_refused(x, 400, "bad_request#last_event_id",
                               "Last-Event-ID has to be an id that this server has sent.");
        w->after = lesser(w->after, p.log == event_log_id(app->events) ? p.seq : resumed(&p));
        return true;
    }
    if (!http_query(x, "since", &since))
        return true;
    if (!date_parse_any(since, &ns)) {
        if (!units_parse_duration(since, &ns))
            return app_refused(x, 400, "bad_request#since",
                               "since has to be " DATE_WANTED ", or a duration such as 2h.");
        ns = clock_store(app->clock).ns - ns;
    }
    w->after = lesser(w->after, event_log_behind((store_time){ .ns = ns }));
    return true;
}

static bool wish_names(struct http_exchange *x, const struct wish *w)
{
    str rest = w->names;
    unsigned count = 0;
    while (rest.n > 0) {
        str name = str_trim(str_split(&rest, ','));
        if (name.n == 0 || name.n > EVENT_NAME_BYTES_MAX || ++count > STREAM_NAMES_MAX)
            return app_refused(
                x, 400, "bad_request#stream",
                "Streams are at most 32 names of 1 to 255 bytes, with commas between.");
    }
    if (w->domain.n > EVENT_NAME_BYTES_MAX)
        return app_refused(x, 400, "bad_request#domain", "A domain has at most 255 bytes.");
    return true;
}

static struct stream_client *client_new(struct http_exchange *x, struct app *app,
                                        const struct wish *w)
{
    struct stream_client *c = calloc(1, sizeof *c + w->names.n + w->domain.n);
    INVARIANT(c != NULL);
    c->streams = app->streams;
    c->x = x;
    c->after = w->after;
    c->filter = http_filter_of(x);
    atomic_init(&c->may_private, app_has(x, "change.private", STR_NONE, app));
    list_init(&c->node);
    memcpy(c->text, w->names.p, w->names.n);
    str rest = { .p = c->text, .n = w->names.n };
    while (rest.n > 0)
        c->names[c->names_count++] = str_trim(str_split(&rest, ','));
    c->domain = (str){ .p = c->text + w->names.n, .n = w->domain.n };
    memcpy(c->text + w->names.n, w->domain.p, w->domain.n);
    return c;
}

static void stream_open(struct http_exchange *x, struct app *app, str names)
{
    struct wish w = { .names = names, .domain = STR("") };
    struct answer a = { .status = 200 };
    const str type = STR("text/event-stream; charset=utf-8");
    if (http_draining(x)) {
        app_fail(x, ERR_SHUTDOWN, NULL);
        return;
    }
    (void)http_query(x, "domain", &w.domain); /* absent: of all */
    if (!wish_names(x, &w) || !wish_place(x, app, &w))
        return;
    struct stream_client *c = client_new(x, app, &w);
    if (!streams_join(c)) {
        free(c);
        app_problem(x, 503, "overloaded#streams", NULL,
                    STR("There are as many streams as stream.clients allows."), STR_NONE);
        return;
    }
    answer_add(&a, STR("content-type"), type);
    answer_add(&a, STR("cache-control"), STR("no-store"));
    answer_add(&a, STR("x-accel-buffering"), STR("no")); /* nginx passes on what comes, at once */
    answer_add_security(&a, http_arena(x), type, STR_NONE);
    answer_send_pull(x, &a, -1, &client_stream, c);
}

static void get_stream(struct http_exchange *x, void *app)
{
    str names = STR("");
    (void)http_query(x, "stream", &names); /* absent: all */
    stream_open(x, app, names);
}

static void get_streams(struct http_exchange *x, void *app)
{
    stream_open(x, app, http_param(x, "names"));
}

const struct http_route app_stream_routes[] = {
    { HTTP_GET, "/v1/stream", get_stream, .permission = "change.read", .label = "change.stream" },
    { HTTP_GET, "/v2/stream/{names}", get_streams, .permission = "change.read",
      .label = "change.stream" },
    { .pattern = NULL },
};
