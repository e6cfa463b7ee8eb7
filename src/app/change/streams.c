/* streams.c - the clients of the streams together: waking them, reading for those that are behind,
 * ending.
 *
 * Threads. news comes on the pool and has the loop wake all. Clients pull on their workers. What is
 * read for one client alone is read on the pool. lock guards the list and what a client shares with
 * the pool; it is held while clients are woken, so that none is over meanwhile (http/stream.h).
 * Invariants: 1. a client is freed by the last of its stream and its reading. 2. after stop nothing
 * is woken and no timer runs. 3. what clients hold beyond small chunks of the tail is counted in
 * held_bytes: a chunk that several hold once. */
#include "app/change/streams_impl.h"

#include "event/position.h"
#include "http/filter.h"
#include "http/stream.h"
#include "loop/loop.h"
#include "page/page.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#define STREAMS_MAGIC 0x57e4a3e5u

enum { STREAMS_WATCH_MS = 1000 }; /* between two looks at who holds what, while some wait */

/* A large chunk of the tail that clients hold. The tail may have dropped it. */
struct streams_shared {
    const struct event_chunk *chunk;
    unsigned holders;
};
enum { STREAMS_SHARED_MAX = STREAMS_HELD_BYTES / STREAMS_LARGE_BYTES + 1 };

struct streams {
    uint32_t magic;
    struct app *app;
    struct event_tail *tail;
    pthread_mutex_t lock;
    struct list clients; /* under lock, as the two below */
    unsigned count, most;
    bool stopped;
    atomic_bool posted; /* the loop is told of news */
    uint64_t refused, gaps;
    size_t held_bytes; /* of chunks that were read for one client alone, and of those shared */
    struct streams_shared shared[STREAMS_SHARED_MAX];
    unsigned shared_count;
    unsigned readings; /* for one client alone, under way */
    bool watched;      /* the loop is told that some wait for room, and sees to it */
    /* the loop's */
    struct loop_timer *pace, *beat, *watch;
    bool pacing;
    mono woken_at;
};

static struct stream_client *client_of(struct list *node)
{
    return CONTAINER_OF(node, struct stream_client, node);
}

/* ---- frames ---- */

/* One line, however the event was broken: JSON has line breaks between its tokens alone, where a
 * blank says the same. */
static void put_data(struct buf *out, str bytes)
{
    buf_put(out, STR("data: "));
    char *at = buf_extend(out, bytes.n);
    for (size_t i = 0; i < bytes.n && at != NULL; i++)
        at[i] = bytes.p[i] == '\n' || bytes.p[i] == '\r' ? ' ' : bytes.p[i];
    buf_put_c(out, '\n');
}

/* A comment with the domain that rules see, where the event does not name it: clients of
 * EventStreams pass over it. A text of the event that is the domain by chance only hides it. */
static void put_domain(struct buf *out, str domain, str bytes)
{
    char quoted[256];
    if (domain.n == 0 || domain.n + 3 > sizeof quoted) /* none of ours is so long */
        return;
    (void)snprintf(quoted, sizeof quoted, "\"%.*s\"", STR_ARG(domain)); /* fits */
    if (str_find_str(bytes, str_of(quoted)) < bytes.n)
        return;
    for (size_t i = 0; i < domain.n; i++)
        if (domain.p[i] <= ' ' || domain.p[i] > '~') /* of nobody's configuration */
            return;
    buf_printf(out, ": domain %.*s\n", STR_ARG(domain));
}

static void put_frame(const struct streams *s, struct buf *out, const struct event_seen *e,
                      str bytes)
{
    const struct event_position p = { .log = event_log_id(s->app->events),
                                      .seq = e->seq,
                                      .at_ms = e->at.ns / NS_PER_MS };
    char id[EVENT_POSITION_BYTES];
    buf_put(out, STR("id: "));
    buf_put(out, (str){ .p = id, .n = event_position_print(&p, id) });
    buf_put(out, STR("\nevent: message\n"));
    put_domain(out, e->domain, bytes);
    put_data(out, bytes);
    buf_put_c(out, '\n');
}

static void streams_frame(void *ctx, struct buf *out, const struct event_seen *e, str bytes)
{
    put_frame(ctx, out, e, bytes);
}

static bool name_fits(str wanted, str stream)
{
    if (str_ends(wanted, STR("*")))
        return str_starts(stream, str_take(wanted, wanted.n - 1));
    return str_eq(wanted, stream);
}

/* Events of jobs hold what users typed. Those of private wikis are for those who may read them; so
 * are those of a domain that is not configured any more, which may have been one. */
static bool is_private(const struct app *app, str stream, str domain)
{
    const struct page_domain *d = domain.n == 0 ? NULL : page_domain_find(&app->page, domain);
    return str_starts(stream, STR("mediawiki.job.")) ||
           (domain.n > 0 && (d == NULL || d->is_private));
}

bool stream_wants(const struct stream_client *c, str stream, str domain)
{
    bool named = c->names_count == 0;
    for (unsigned i = 0; i < c->names_count && !named; i++)
        named = name_fits(c->names[i], stream);
    if (!named || (c->domain.n > 0 && !str_eq(c->domain, domain)))
        return false;
    if (!http_filter_domain(c->filter, domain))
        return false;
    return atomic_load(&c->may_private) || !is_private(c->streams->app, stream, domain);
}

/* ---- waking ---- */

static void wake_all(struct streams *s)
{
    s->woken_at = clock_mono(s->app->clock);
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    for (struct list *n = s->clients.next; n != &s->clients; n = n->next)
        http_wake(client_of(n)->x);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

static void pace_fired(void *ctx)
{
    struct streams *s = ctx;
    s->pacing = false;
    wake_all(s);
}

/* Loop. At once after a rest, else when the pace allows. */
static void news_posted(void *ctx)
{
    struct streams *s = ctx;
    atomic_store(&s->posted, false);
    if (s->pacing || s->pace == NULL)
        return;
    int64_t since_ms = (clock_mono(s->app->clock).ns - s->woken_at.ns) / NS_PER_MS;
    if (since_ms >= STREAMS_PACE_MS) {
        wake_all(s);
        return;
    }
    s->pacing = true;
    loop_timer_start(s->pace, STREAMS_PACE_MS - since_ms, 0);
}

/* Pool. */
static bool streams_wanted(void *ctx)
{
    struct streams *s = ctx;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool wanted = s->count > 0 && !s->stopped;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return wanted;
}

/* Pool. */
static void streams_news(void *ctx)
{
    struct streams *s = ctx;
    if (streams_wanted(s) && !atomic_exchange(&s->posted, true))
        loop_post(s->app->loop, news_posted, s);
}

static void beat_fired(void *ctx)
{
    struct streams *s = ctx;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    for (struct list *n = s->clients.next; n != &s->clients; n = n->next) {
        struct stream_client *c = client_of(n);
        atomic_store(&c->beat, true);
        http_wake(c->x);
    }
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

/* ---- who holds too much ---- */

/* Loop. While some wait for room, who does not read what it holds is cut. */
static void watch_fired(void *ctx)
{
    struct streams *s = ctx;
    mono now = clock_mono(s->app->clock);
    unsigned waiting = 0, cut = 0;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    for (struct list *n = s->clients.next; n != &s->clients; n = n->next)
        waiting += client_of(n)->waits;
    for (struct list *n = s->clients.next; n != &s->clients && waiting > 0; n = n->next) {
        struct stream_client *c = client_of(n);
        bool holds = c->own_bytes > 0 || c->shares;
        if (!holds || mono_add_ms(c->held_since, STREAMS_PATIENCE_MS).ns > now.ns)
            continue;
        http_give_up(c->x);
        cut++;
    }
    s->watched = waiting > 0;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    if (cut > 0)
        log_event(s->app->log, LOG_WARN, "stream.cut", LOG_INT("clients", cut),
                  LOG_INT("waiting", waiting),
                  LOG_CSTR("what", "clients that do not read held the memory that others wait "
                                   "for"));
    if (waiting > 0)
        loop_timer_start(s->watch, STREAMS_WATCH_MS, 0);
}

static void watch_posted(void *ctx)
{
    struct streams *s = ctx;
    if (s->watch != NULL)
        loop_timer_start(s->watch, STREAMS_WATCH_MS, 0);
}

/* Under lock. */
static void client_waits(struct stream_client *c)
{
    struct streams *s = c->streams;
    c->waits = true;
    if (!s->stopped && !s->watched)
        loop_post(s->app->loop, watch_posted, s);
    s->watched = true;
}

/* Under lock. There is room for the next that waits: all of those look again. */
static void room_made(struct streams *s)
{
    for (struct list *n = s->clients.next; n != &s->clients; n = n->next)
        if (client_of(n)->waits)
            http_wake(client_of(n)->x);
}

/* Under lock. NULL: nobody holds it. */
static struct streams_shared *shared_find(struct streams *s, const struct event_chunk *k)
{
    for (unsigned i = 0; i < s->shared_count; i++)
        if (s->shared[i].chunk == k)
            return &s->shared[i];
    return NULL;
}

bool streams_hold(struct stream_client *c, const struct event_chunk *k)
{
    struct streams *s = c->streams;
    size_t bytes = k->text.size;
    bool large = bytes >= STREAMS_LARGE_BYTES;
    if (!large && !c->waits) /* which it alone sets */
        return true;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    struct streams_shared *h = shared_find(s, k);
    bool room =
        !large || h != NULL || s->held_bytes == 0 || s->held_bytes + bytes <= STREAMS_HELD_BYTES;
    if (large && room && h == NULL) {
        INVARIANT(s->shared_count < STREAMS_SHARED_MAX);
        h = &s->shared[s->shared_count++];
        *h = (struct streams_shared){ .chunk = k };
        s->held_bytes += bytes;
    }
    c->waits = false;
    if (large && room) {
        h->holders++;
        c->shares = true;
        c->held_since = clock_mono(s->app->clock);
    }
    if (!room)
        client_waits(c);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return room;
}

/* Under lock; of a client that holds chunk. */
static void held_free(struct stream_client *c)
{
    struct streams *s = c->streams;
    size_t freed = c->own_bytes;
    if (c->shares) {
        struct streams_shared *h = shared_find(s, c->chunk);
        INVARIANT(h != NULL && h->holders > 0);
        if (--h->holders == 0) {
            freed += c->chunk->text.size;
            *h = s->shared[--s->shared_count];
        }
    }
    c->shares = false;
    c->own_bytes = 0;
    s->held_bytes -= freed;
    if (freed > 0)
        room_made(s);
}

void streams_let_go(struct stream_client *c)
{
    struct streams *s = c->streams;
    if (c->own_bytes > 0 || c->shares) {
        INVARIANT(pthread_mutex_lock(&s->lock) == 0);
        held_free(c);
        INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    }
    event_chunk_unref(&c->chunk);
}

/* ---- their making and their end ---- */

err streams_new(struct app *app, struct streams **out)
{
    struct streams *s = calloc(1, sizeof *s);
    INVARIANT(s != NULL);
    *s =
        (struct streams){ .magic = STREAMS_MAGIC, .app = app, .most = app->config->stream_clients };
    list_init(&s->clients);
    INVARIANT(pthread_mutex_init(&s->lock, NULL) == 0);
    const struct event_tail_opts opts = { .log = app->events,
                                          .pool = loop_pool(app->loop),
                                          .bytes_max = STREAMS_TAIL_BYTES,
                                          .choice = { .frame = streams_frame, .ctx = s },
                                          .wanted = streams_wanted,
                                          .news = streams_news,
                                          .ctx = s };
    err why = event_tail_new(&opts, &s->tail);
    if (why == ERR_OK) {
        s->pace = loop_timer_new(app->loop, pace_fired, s);
        s->beat = loop_timer_new(app->loop, beat_fired, s);
        s->watch = loop_timer_new(app->loop, watch_fired, s);
        loop_timer_start(s->beat, STREAMS_BEAT_MS, STREAMS_BEAT_MS);
    } else {
        streams_free(&s);
    }
    *out = s;
    return why;
}

void streams_limit(struct streams *s, unsigned clients)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->most = clients;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

void streams_stop(struct streams *s)
{
    if (s == NULL)
        return;
    MAGIC_CHECK(s, STREAMS_MAGIC);
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->stopped = true;
    INVARIANT(s->count == 0);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    loop_timer_free(&s->pace);
    loop_timer_free(&s->beat);
    loop_timer_free(&s->watch);
}

void streams_free(struct streams **sp)
{
    struct streams *s = *sp;
    if (s == NULL)
        return;
    MAGIC_CHECK(s, STREAMS_MAGIC);
    event_tail_free(&s->tail);
    INVARIANT(pthread_mutex_destroy(&s->lock) == 0);
    s->magic = 0;
    free(s);
    *sp = NULL;
}

void streams_figures_get(struct streams *s, struct streams_figures *out)
{
    struct event_tail_figures tail;
    event_tail_figures(s->tail, &tail);
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    *out = (struct streams_figures){ .clients = s->count,
                                     .refused = s->refused,
                                     .gaps = s->gaps,
                                     .failed = tail.failed,
                                     .bytes = tail.bytes + s->held_bytes };
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}

/* ---- one client ---- */

bool streams_join(struct stream_client *c)
{
    struct streams *s = c->streams;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool room = s->count < s->most;
    if (room) {
        list_append(&s->clients, &c->node);
        s->count++;
    } else {
        s->refused++;
    }
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return room;
}

static void client_free(struct stream_client *c)
{
    struct streams *s = c->streams;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    c->own_bytes += c->read == NULL ? 0 : c->read->text.size;
    held_free(c);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    event_chunk_unref(&c->chunk);
    event_chunk_unref(&c->read);
    free(c);
}

void streams_leave(struct stream_client *c)
{
    struct streams *s = c->streams;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    list_remove(&c->node);
    s->count--;
    c->over = true;
    bool reading = c->reading;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    if (!reading)
        client_free(c);
}

static bool reading_wants(void *ctx, str stream, str domain)
{
    return stream_wants(ctx, stream, domain);
}

static void reading_frame(void *ctx, struct buf *out, const struct event_seen *e, str bytes)
{
    put_frame(((const struct stream_client *)ctx)->streams, out, e, bytes);
}

/* Pool. */
static void reading_run(struct task *t)
{
    struct stream_client *c = CONTAINER_OF(t, struct stream_client, task);
    struct streams *s = c->streams;
    struct event_chunk *chunk = NULL;
    const struct event_choice choice = { .wants = reading_wants, .frame = reading_frame, .ctx = c };
    err why = event_chunk_read(s->app->events, c->read_after, &choice, &chunk);
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    c->reading = false;
    c->read = chunk;
    s->held_bytes += chunk == NULL ? 0 : chunk->text.size;
    s->readings--;
    if (s->held_bytes < STREAMS_HELD_BYTES)
        room_made(s);
    c->failed = why != ERR_OK;
    bool over = c->over;
    if (!over)
        http_wake(c->x);
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    if (over)
        client_free(c);
}

void streams_read_for(struct stream_client *c)
{
    struct streams *s = c->streams;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    bool wants = !c->reading && c->read == NULL;
    bool room = s->held_bytes < STREAMS_HELD_BYTES && s->readings < STREAMS_READINGS_MAX;
    bool begins = wants && room;
    c->waits = false;
    if (wants && !room)
        client_waits(c);
    c->reading = c->reading || begins;
    s->readings += begins;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    if (!begins)
        return;
    c->read_after = c->after;
    c->task = (struct task){ .run = reading_run };
    home_post(loop_pool(s->app->loop), &c->task);
}

struct event_chunk *streams_take_read(struct stream_client *c, bool *failed)
{
    struct streams *s = c->streams;
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    struct event_chunk *chunk = c->read;
    c->read = NULL;
    if (chunk != NULL) {
        c->own_bytes = chunk->text.size;
        c->held_since = clock_mono(s->app->clock);
    }
    *failed = c->failed;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
    return chunk;
}

enum event_tail_has streams_find(struct stream_client *c, struct event_chunk **out)
{
    return event_tail_find(c->streams->tail, c->after, out);
}

uint64_t streams_last(struct streams *s)
{
    return event_tail_last(s->tail);
}

const struct app *streams_app(const struct streams *s)
{
    return s->app;
}

uint64_t streams_log_id(const struct streams *s)
{
    return event_log_id(s->app->events);
}

void streams_count_gap(struct streams *s)
{
    INVARIANT(pthread_mutex_lock(&s->lock) == 0);
    s->gaps++;
    INVARIANT(pthread_mutex_unlock(&s->lock) == 0);
}
